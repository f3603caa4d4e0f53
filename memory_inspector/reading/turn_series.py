"""Token counts over turns, and the calls of one turn, for figures and as tables. Pure: events in, values out.

Nothing is averaged: for a long session only some turns are drawn, and the figure says which. All flushes and cuts are
included. Calls have their times as the log has them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from memory_core.config import MAX_TOKENS
from memory_core.events import ContextBuilt, DeliveryDone, Event, EventRecord, ModelCalled
from memory_core.history.by_turn import TurnRecord
from memory_core.planning.context_plan import RESERVED_LABEL, cut_order
from memory_inspector.reading.event_rows import cost_of_call
from memory_inspector.wording.event_sentences import PURPOSES
from memory_inspector.wording.formatting import count, milliseconds, tokens

MAX_BARS = 120
"""Maximum number of turns drawn as bars; more become areas."""

MAX_POINTS = 500
"""Maximum points of an area; for a longer session only every n-th turn is drawn."""

QUEUE = "Queue"
SYSTEM = "System messages"


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of the prompts over time."""

    label: str
    kind: str
    """A kind of `memory_inspector.palette.BLOCK_KINDS`."""
    tokens: tuple[int, ...]
    """Tokens in the last prompt of each drawn turn; for the queue in a turn without one, tokens at the turn's end."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A clickable mark: a flush, or a prompt that had something cut."""

    turn: int
    position: int
    """Log position of the flush or of the prompt."""
    tokens: int
    """Tokens flushed or cut."""


@dataclass(frozen=True, slots=True)
class Course:
    """Tokens by turn, ready to be drawn."""

    turns: tuple[int, ...]
    """Drawn turns, in order. If areas are drawn, only turns with a prompt, unless no turn has one."""
    last: int
    """The newest turn, drawn or not."""
    step: int
    """Distance between drawn turns."""
    prompts: tuple[int, ...]
    """Log position of the last prompt of each drawn turn; 0 for a turn without a prompt."""
    layers: tuple[Layer, ...]
    """Layers from the bottom: the queue, then blocks from never cut to cut first."""
    limit: tuple[tuple[int, int, int], ...]
    """First turn, last turn and tokens of every stretch with one token limit."""
    flush_line: tuple[tuple[int, int, int], ...]
    flushes: tuple[Mark, ...]
    cuts: tuple[Mark, ...]

    @property
    def bars(self) -> bool:
        return self.last <= MAX_BARS

    @property
    def without_prompt(self) -> dict[int, int]:
        """Turns drawn as bars that have no prompt, each with the tokens of its queue."""
        queue = self.layers[0].tokens if self.bars and self.layers else ()
        return {turn: size for turn, size, prompt in zip(self.turns, queue, self.prompts, strict=False) if not prompt}

    @property
    def highest(self) -> int:
        """Maximum value drawn, in tokens."""
        sums: list[int] = [sum(sizes) for sizes in zip(*(layer.tokens for layer in self.layers), strict=True)]
        return max([1, *sums, *(level for _, _, level in (*self.limit, *self.flush_line))])


def course(turns: Mapping[int, TurnRecord], kinds: Mapping[str, str]) -> Course:
    """Select what to draw of these turns; `kinds` maps every block to its kind (`facts`, `vector`, ...)."""
    every = sorted(turns)
    last = every[-1] if every else 0
    # Rounded up, so that at most that many points remain besides the newest turn.
    step = 1 if last <= MAX_BARS else -(-len(every) // MAX_POINTS)
    built = {number: _built(turns[number]) for number in every}
    # The newest turn is always drawn, whatever the step.
    drawn = [number for place, number in enumerate(every) if place % step == 0 or number == last]
    if last > MAX_BARS:  # an area extends the last prompt over turns without one: zeros would draw white stripes
        drawn = [number for number in drawn if built[number] is not None] or drawn
    # Limit and flush line are unknown for prompts of another program, and often for a store.
    block_sizes = [
        turns[number]
        for number in every
        if _limit(turns[number]) and ((event := built[number]) is None or event.known == "built")
    ]
    return Course(
        turns=tuple(drawn),
        last=last,
        step=step,
        prompts=tuple(record.position if (record := turns[number].built) else 0 for number in drawn),
        layers=tuple(_layers([turns[number] for number in drawn], [event for event in built.values() if event], kinds)),
        limit=_stretches(block_sizes, lambda turn: _limit(turn) or 0),
        flush_line=_stretches(block_sizes, _flush_line),
        flushes=tuple(_flush(number, record) for number in every for record in turns[number].flushes),
        cuts=tuple(
            Mark(number, turns[number].built.position, turns[number].cut_tokens)  # type: ignore[union-attr]
            for number in every
            if turns[number].cut_tokens
        ),
    )


def _built(turn: TurnRecord) -> ContextBuilt | None:
    event = turn.built.event if turn.built else None
    return event if isinstance(event, ContextBuilt) else None


def _limit(turn: TurnRecord) -> int | None:
    """Return the token limit of a turn's prompt; without a prompt, that at its end. None if it is unknown."""
    # A change after the reply belongs to this turn in the log, and applies from the next prompt on.
    event = _built(turn)
    limit = event.token_limit if event and event.known == "built" else turn.token_limit
    return limit if limit < MAX_TOKENS else None


def _flush_line(turn: TurnRecord) -> int:
    return int(turn.prompt_budget if turn.built else turn.history_budget)


def _flush(turn: int, record: EventRecord) -> Mark:
    return Mark(turn, record.position, int(getattr(record.event, "tokens", 0)))


def _layers(drawn: Sequence[TurnRecord], built: Sequence[ContextBuilt], kinds: Mapping[str, str]) -> list[Layer]:
    contexts = [_built(turn) for turn in drawn]
    queue = tuple(
        event.queue_tokens if event else turn.queue_tokens for turn, event in zip(drawn, contexts, strict=True)
    )
    layers = [Layer(QUEUE, "queue", queue)]
    if any(event.pinned_tokens for event in built):
        layers.append(Layer(SYSTEM, "custom", tuple(event.pinned_tokens if event else 0 for event in contexts)))
    if any(event.reserved_tokens for event in built):
        sizes = tuple(event.reserved_tokens if event else 0 for event in contexts)
        layers.append(Layer(RESERVED_LABEL, "custom", sizes))
    granted = [{str(part["name"]): int(part["granted"]) for part in event.parts} if event else {} for event in contexts]
    for name in _block_order(built):
        sizes = tuple(sizes.get(name, 0) for sizes in granted)
        layers.append(Layer(name, kinds.get(name, "custom"), sizes))
    return layers


def _block_order(built: Sequence[ContextBuilt]) -> list[str]:
    """Every block that was ever in a prompt, from never cut to cut first by its newest priority."""
    priorities: dict[str, int] = {}
    for event in built:
        priorities.update({str(part["name"]): int(part["priority"]) for part in event.parts})
    # Bars of past prompts are stacked by the order that holds now, so that a block stays in one place.
    smallest = bool(built) and built[-1].truncation_order == "smallest_first"
    order = cut_order(priorities, "smallest_first" if smallest else "largest_first")
    first = [name for group in order.groups for name in group]
    return [*order.never, *reversed(first)]


def _stretches(turns: Sequence[TurnRecord], level: Callable[[TurnRecord], int]) -> tuple[tuple[int, int, int], ...]:
    stretches = []
    # Neighbouring turns with one value become one line; groupby joins only neighbours.
    for value, group in groupby(turns, key=level):
        members = list(group)
        stretches.append((members[0].turn, members[-1].turn, value))
    return tuple(stretches)


def course_rows(turns: Mapping[int, TurnRecord], kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the tokens of every turn as table rows, newest first; None in cells of a turn without a prompt."""
    every = sorted(turns)
    built = {number: _built(turns[number]) for number in every}
    names = _block_order([event for event in built.values() if event])
    rows = []
    for number in reversed(every):
        turn, event = turns[number], built[number]
        granted = {str(part["name"]): int(part["granted"]) for part in event.parts} if event else {}
        rows.append(
            {
                "Turn": number,
                QUEUE: event.queue_tokens if event else turn.queue_tokens,
                # A block that was not in this prompt has an empty cell, not 0: it may not have existed.
                **{name: granted.get(name) for name in names},
                "Sent": event.total if event else None,
                # The maximum stands for an unknown limit, which has no number to show.
                "Limit": _limit(turn),
                "Cut": turn.cut_tokens,
                "Flushed": sum(_flush(number, record).tokens for record in turn.flushes),
                "Flush above": _flush_line(turn) if _limit(turn) else None,
                "Facts learned": turn.facts_added,
            }
        )
    return rows


def describe(course: Course) -> str:
    """The figure in words, for screen readers."""
    limit = f", limit {tokens(course.limit[-1][2])}" if course.limit else ""
    marks = f"{count(len(course.flushes), 'flush')} and {count(len(course.cuts), 'prompt')} with cuts"
    return f"Tokens by turn of {count(course.last, 'turn')}{limit}; {marks} marked"


# -- the calls of one turn -------------------------------------------------------------------------

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
