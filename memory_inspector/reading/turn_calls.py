"""The calls of one turn, with their times as the log has them: searches, models, tools and learning. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.events import ContextBuilt, DeliveryDone, Event, EventRecord, ModelCalled
from memory_inspector.reading.event_rows import cost_of_call
from memory_inspector.wording.event_sentences import PURPOSES
from memory_inspector.wording.formatting import count, milliseconds, tokens

KINDS = {
    "retrieved": "Search",
    "memory_searched": "Search",
    "memory_written": "Write",
    "tool_called": "Tool",
    "delivery_done": "Delivery",
    "delivery_failed": "Delivery",
}
"""Kinds of events that are calls, beside those of models, with the words for them."""

IDLE = 0.25
"""Longest idle time between calls that is drawn to scale, as a share of the time in which something ran."""


@dataclass(frozen=True, slots=True)
class TurnCall:
    """A search, a call of a model or of a tool, or a delivery to a block."""

    what: str
    name: str
    """Name of the block, the store, the model or the tool."""
    event: Event
    end: float
    """Time at which it had ended: as reported, else when it was recorded; in seconds since 1970."""
    seconds: float | None = None
    """None if the log does not have it."""
    cost: float | None = None

    @property
    def begin(self) -> float:
        return self.end - (self.seconds or 0)

    @property
    def failed(self) -> bool:
        refused = getattr(self.event, "outcome", "") == "refused"
        return refused or bool(getattr(self.event, "error", None))

    @property
    def amount(self) -> str:
        """Time and cost in words: `1.2 s, $0.0012`."""
        took = "time not recorded" if self.seconds is None else milliseconds(self.seconds)
        return ", ".join([took, *([_dollars(self.cost)] if self.cost is not None else []), *["failed"] * self.failed])


def _dollars(cost: float) -> str:
    return f"${cost:,.4f}" if cost >= 0.0001 or not cost else "under $0.0001"


def turn_calls(records: Iterable[EventRecord]) -> list[TurnCall]:
    """Return the calls among a turn's records, by the time at which they began, where it is known."""
    records = list(records)
    # Spans say when a call began; without them, a call is recorded as it ends.
    sent = {r.event.span: r.event.sent for r in records if isinstance(r.event, ContextBuilt) and r.event.sent}
    calls = [_call(record, sent) for record in records if isinstance(record.event, ModelCalled) or record.kind in KINDS]
    return sorted(calls, key=lambda call: (call.begin, call.end))


def _call(record: EventRecord, sent: Mapping[str | None, int]) -> TurnCall:
    event = record.event
    if isinstance(event, ModelCalled):
        begin = sent.get(event.span)
        end = record.at if begin is None else begin / 1e6 + event.seconds
        what = PURPOSES.get(event.purpose, event.purpose).capitalize()
        return TurnCall(what, event.model, event, end, event.seconds, cost_of_call(event))
    name = event.called_tool or event.about or getattr(event, "store", None) or "memory"
    finished = getattr(event, "finished", None)
    took = event.seconds if isinstance(event, DeliveryDone) else None
    return TurnCall(KINDS[record.kind], name, event, record.at if finished is None else finished / 1e6, took)


def summary(calls: Sequence[TurnCall]) -> str:
    """Return the calls in one sentence: `5 calls, 1.2 s in models, $0.0012.`"""
    models = [call for call in calls if isinstance(call.event, ModelCalled)]
    costs, failed = [call.cost for call in models if call.cost is not None], sum(call.failed for call in calls)
    parts = [count(len(calls), "call")]
    parts += [f"{milliseconds(sum(call.seconds or 0 for call in models))} in models"] if models else []
    parts += [_dollars(sum(costs))] if costs else []
    parts += [f"{tokens(failed)} failed"] if failed else []
    return f"{', '.join(parts)}."


def calls_rows(calls: Sequence[TurnCall]) -> list[dict[str, Any]]:
    """The calls as rows of a table."""
    return [
        {
            "Call": call.what,
            "Of": call.name,
            "Milliseconds": None if call.seconds is None else round(call.seconds * 1000),
            "Tokens in": getattr(call.event, "input_tokens", None),
            "Tokens out": getattr(call.event, "output_tokens", None),
            "Cost": None if call.cost is None else _dollars(call.cost),
            "Failed": "yes" if call.failed else "",
        }
        for call in calls
    ]


def breaks(calls: Sequence[TurnCall]) -> list[tuple[float, float]]:
    """Return the idle stretches that are too long to be drawn to scale, as begin and end, oldest first."""
    end, busy, idle = calls[0].begin, 0.0, []
    for call in calls:
        if call.begin > end:
            idle.append((end, call.begin))
        busy += max(0.0, call.end - max(end, call.begin))
        end = max(end, call.end)
    return [(begin, end) for begin, end in idle if end - begin > IDLE * busy]
