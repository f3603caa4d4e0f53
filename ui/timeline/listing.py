"""The event list: which events there are to show, by what they can be filtered, and what models cost. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from memory_core.events import BlocksOrdered, ContextBuilt, Event, EventRecord, Family, ModelCalled
from ui.telling import PURPOSES

Number = TypeVar("Number", int, float)

CUTS = "Cuts"
"""The group that is a part of another: prompts of which something was cut."""

PROMPTS = "Prompts"

NEWER = "From a newer version"


@dataclass(frozen=True, slots=True)
class Group:
    """A family of events on screen."""

    name: str
    """In the words of the filter."""
    pages: tuple[str, ...] = ()
    """Where to go on from an event of it."""


GROUPS: Mapping[Family, Group] = {
    "messages": Group("Messages", ("context",)),
    "flushes": Group("Flushes", ("context", "facts")),
    "deliveries": Group("Deliveries", ("blocks", "facts")),
    "facts": Group("Facts", ("facts",)),
    "summaries": Group("Summaries"),
    "relations": Group("Relations", ("graph",)),
    "vectors": Group("Earlier turns", ("retrieval",)),
    "prompts": Group(PROMPTS, ("context", "retrieval")),
    "blocks": Group("Blocks", ("blocks",)),
    "settings": Group("Settings", ("context",)),
    "session": Group("Session"),
    "calls": Group("Model calls"),
    "unknown": Group(NEWER),
}
"""In the order of the filter."""

ACTORS = {"engine": "Engine", "curator": "Curator", "agent": "Agent"}
"""Who did it, as the filter and the rows say it: the engine, a person, a model's tool call."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events to show; None and the empty text for all."""

    group: str | None = None
    actor: str | None = None
    block: str | None = None
    text: str = ""
    bookkeeping: bool = False
    """Show it even where nothing is filtered for."""

    @property
    def decisions_only(self) -> bool:
        """Is bookkeeping left out? Who asks for a kind, a block or words gets all that there is of it."""
        return not (self.bookkeeping or self.group or self.block or self.text.strip())

    def __bool__(self) -> bool:
        return bool(self.group or self.actor or self.block or self.text.strip())


@dataclass(slots=True)
class Index:
    """What a log offers to filter by; grows with it."""

    groups: Counter[str] = field(default_factory=Counter)
    """Events by group."""
    actors: Counter[str] = field(default_factory=Counter)
    blocks: dict[str, None] = field(default_factory=dict)
    """Every block that was ever named, in that order."""

    def take(self, records: Iterable[EventRecord]) -> None:
        for record in records:
            event = record.event
            self.groups[GROUPS[event.family].name] += 1
            self.groups[CUTS] += is_cut(event)
            self.actors[record.actor] += 1
            if event.about is not None:
                self.blocks.setdefault(event.about)

    def options(self) -> list[str]:
        """The groups there are events of, in their order; cuts after prompts."""
        names = [group.name for group in GROUPS.values()]
        order = [each for name in names for each in ((name, CUTS) if name == PROMPTS else (name,))]
        return [name for name in order if self.groups[name]]


def is_cut(event: Event) -> bool:
    """A prompt of which something was cut?"""
    return isinstance(event, ContextBuilt) and bool(event.cuts)


def chosen(records: Sequence[EventRecord], wanted: Filter) -> list[EventRecord]:
    """The events of a group, an actor and a block, newest first; their text is not looked at.

    Of everything only the decisions, unless bookkeeping is wanted.
    """
    found: Iterable[EventRecord] = reversed(records)
    if wanted.group == CUTS:
        found = (record for record in found if is_cut(record.event))
    elif wanted.group is not None:
        found = (record for record in found if GROUPS[record.event.family].name == wanted.group)
    if wanted.decisions_only:
        found = (record for record in found if not record.event.bookkeeping)
    if wanted.actor is not None:
        found = (record for record in found if record.actor == wanted.actor)
    if wanted.block is not None:
        found = (record for record in found if _is_about(record.event, wanted.block))
    return list(found)


def _is_about(event: Event, block: str) -> bool:
    if isinstance(event, ContextBuilt):
        return any(cut["part"] == block for cut in event.cuts)
    return event.about == block or (isinstance(event, BlocksOrdered) and block in event.names)


# -- model calls ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one model for one purpose in one turn. Sums; None where no call said."""

    turn: int
    purpose: str
    model: str
    calls: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None
    """In dollars; None when it is not known what the model costs."""


def ledger(records: Iterable[EventRecord]) -> list[Calls]:
    """Model calls by turn, purpose and model, newest turn first."""
    by: dict[tuple[int, str, str], list[ModelCalled]] = defaultdict(list)
    for record in records:
        if isinstance(record.event, ModelCalled):
            by[(record.turn, record.event.purpose, record.event.model)].append(record.event)
    rows = [
        Calls(
            turn=turn,
            purpose=PURPOSES.get(purpose, purpose),
            model=model,
            calls=len(calls),
            failed=sum(call.error is not None for call in calls),
            input_tokens=_sum(call.input_tokens for call in calls),
            output_tokens=_sum(call.output_tokens for call in calls),
            seconds=sum(call.seconds for call in calls),
            cost=_sum(call.cost for call in calls),
        )
        for (turn, purpose, model), calls in by.items()
    ]
    return sorted(rows, key=lambda row: -row.turn)


def totals(rows: Sequence[Calls]) -> Calls:
    """The sums of a ledger."""
    return Calls(
        turn=0,
        purpose="",
        model="",
        calls=sum(row.calls for row in rows),
        failed=sum(row.failed for row in rows),
        input_tokens=_sum(row.input_tokens for row in rows),
        output_tokens=_sum(row.output_tokens for row in rows),
        seconds=sum(row.seconds for row in rows),
        cost=_sum(row.cost for row in rows),
    )


def _sum(numbers: Iterable[Number | None]) -> Number | None:
    known = [number for number in numbers if number is not None]
    return sum(known[1:], known[0]) if known else None
