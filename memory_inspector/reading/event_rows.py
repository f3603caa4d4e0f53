"""Data of the event list: which events to show, the available filters, and the cost of models.

A `Timeline` keeps them of one session's log, so that redrawing costs only what is new.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from memory_core import Memory
from memory_core.access import person_name
from memory_core.events import (
    BlocksOrdered,
    ContextBuilt,
    Event,
    EventRecord,
    FactsCondensed,
    Family,
    ModelCalled,
    NothingLearned,
    RecipeChosen,
    Ref,
    RefKind,
    Retrieved,
    expand,
)
from memory_core.sessions.overview import RunningTotals
from memory_inspector.coding.prices import cost_of
from memory_inspector.coding.transcript import CallUsage
from memory_inspector.wording.event_sentences import PURPOSES, Line
from memory_inspector.wording.event_sentences.event_words import lines_in_log
from memory_inspector.wording.formatting import tokens

Number = TypeVar("Number", int, float)

CUTS = "Cuts"
"""Label of the group of prompts that had something cut, which is part of the group of all prompts."""

PROMPTS = "Prompts"

NEWER = "From a newer version"

OPERATIONS = "Memory operations"


@dataclass(frozen=True, slots=True)
class Group:
    """A family of events on screen."""

    name: str
    """Label in the filter."""
    pages: tuple[str, ...] = ()
    """Pages to open from an event of this family."""


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
    "stores": Group(OPERATIONS, ("blocks", "retrieval")),
    "unknown": Group(NEWER),
}
"""Groups by family of events, in the order of the filter."""

ACTORS = {"engine": "Engine", "user": "User", "agent": "Agent"}
"""Display names of actors, in the filter and the rows: the engine, a person, a model's tool call."""


def by_whom(record: EventRecord, *, in_full: bool = False) -> str:
    """Return the author of an event: `user · Ana`; `in_full` also whose message or click the engine acted on."""
    who = ACTORS.get(record.actor, "Somebody")
    who = who if in_full else who.lower()
    if record.person is None or (record.actor != "user" and not in_full):
        return who
    return f"{who}{' ·' if record.actor == 'user' else ', for'} {person_name(record.person)}"


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of the event list; None and the empty text match everything."""

    group: str | None = None
    actor: str | None = None
    block: str | None = None
    text: str = ""
    bookkeeping: bool = False
    """Include bookkeeping even without another filter."""

    @property
    def decisions_only(self) -> bool:
        """Tell whether bookkeeping is left out; filtering for a kind, a block or words includes it."""
        return not (self.bookkeeping or self.group or self.block or self.text.strip())

    def __bool__(self) -> bool:
        return bool(self.group or self.actor or self.block or self.text.strip())


@dataclass(slots=True)
class Index:
    """Available filter values of a log, updated incrementally."""

    groups: Counter[str] = field(default_factory=Counter)
    """Number of events by group."""
    actors: Counter[str] = field(default_factory=Counter)
    blocks: dict[str, None] = field(default_factory=dict)
    """Every block named by an event, in order of first mention."""

    def apply(self, record: EventRecord) -> None:
        event = record.event
        self.groups[GROUPS[event.family].name] += 1
        # Counted in addition to the group of prompts, which contains this one.
        self.groups[CUTS] += is_cut(event)
        self.actors[record.actor] += 1
        if event.about is not None:
            self.blocks.setdefault(event.about)

    def options(self) -> list[str]:
        """Groups with at least one event, in the order of `GROUPS`; cuts come after prompts."""
        names = [group.name for group in GROUPS.values()]
        # Cuts come right after the group they are a part of.
        order = [lane for name in names for lane in ((name, CUTS) if name == PROMPTS else (name,))]
        return [name for name in order if self.groups[name]]


def is_cut(event: Event) -> bool:
    """Tell whether an event is a prompt that had something cut."""
    return isinstance(event, ContextBuilt) and bool(event.cuts)


def chosen(records: Sequence[EventRecord], wanted: Filter) -> list[EventRecord]:
    """Events that match the filter's group, actor and block, newest first; the filter's text is not applied here.

    Without a filter only decisions, unless bookkeeping is included.
    """
    matching: Iterable[EventRecord] = reversed(records)
    if wanted.group == CUTS:
        matching = (record for record in matching if is_cut(record.event))
    elif wanted.group is not None:
        matching = (record for record in matching if GROUPS[record.event.family].name == wanted.group)
    if wanted.decisions_only:
        matching = (record for record in matching if not record.event.bookkeeping)
    if wanted.actor is not None:
        matching = (record for record in matching if record.actor == wanted.actor)
    if wanted.block is not None:
        matching = (record for record in matching if _is_about(record.event, wanted.block))
    return list(matching)


def _is_about(event: Event, block: str) -> bool:
    if isinstance(event, ContextBuilt):
        # A prompt concerns every block, so it is listed only for those that were cut from it.
        return any(cut["part"] == block for cut in event.cuts)
    return event.about == block or (isinstance(event, BlocksOrdered) and block in event.names)


# -- model calls ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls of one model for one purpose in one turn, summed up; a sum is None if no call reported the value."""

    turn: int
    purpose: str
    model: str
    calls: int
    failed: int
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None
    """Dollars, as recorded or by list price; None if the price of the model is unknown."""
    cached_tokens: int | None = None
    """Tokens of the input that an endpoint read from its cache."""


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
            cached_tokens=_sum(call.cached_tokens for call in calls),
            output_tokens=_sum(call.output_tokens for call in calls),
            seconds=sum(call.seconds for call in calls),
            cost=_sum(map(cost_of_call, calls)),
        )
        for (turn, purpose, model), calls in by.items()
    ]
    return sorted(rows, key=lambda row: -row.turn)


def cost_of_call(call: ModelCalled) -> float | None:
    """Return a call's cost as recorded, else by list price that of an attached agent; a cache's writes are input."""
    if call.cost is not None or call.input_tokens is None or call.block is not None:
        return call.cost
    cached = min(call.cached_tokens or 0, call.input_tokens)
    return cost_of({call.model: CallUsage(call.input_tokens - cached, cached, output=call.output_tokens or 0)})


def session_cost(totals: RunningTotals) -> float | None:
    """Return what a session's calls cost, as its ledger adds it up; None if no cost of any is known."""
    listed = (cost_of({model: CallUsage(new, read, output=out)}) for model, (new, read, out) in totals.unpriced.items())
    return _sum([totals.dollars, *listed])


def totals(rows: Sequence[Calls]) -> Calls:
    """Totals of a list of calls."""
    # A sum over all turns, purposes and models belongs to no single one of them.
    return Calls(
        turn=0,
        purpose="",
        model="",
        calls=sum(row.calls for row in rows),
        failed=sum(row.failed for row in rows),
        input_tokens=_sum(row.input_tokens for row in rows),
        cached_tokens=_sum(row.cached_tokens for row in rows),
        output_tokens=_sum(row.output_tokens for row in rows),
        seconds=sum(row.seconds for row in rows),
        cost=_sum(row.cost for row in rows),
    )


def _sum(numbers: Iterable[Number | None]) -> Number | None:
    positions = [number for number in numbers if number is not None]
    return sum(positions[1:], positions[0]) if positions else None


# -- references of an event to facts, messages and relations that can be traced to a prompt -------


MAX_FOLLOWED = 5
"""Maximum number of references of one event, the first ones, that are offered as items to follow."""

_NUMBERED: tuple[tuple[str, RefKind], ...] = (("fact", "fact"), ("relation", "relation"), ("seq", "message"))
"""Fields that hold one number, and the kind of item that it identifies."""

_LISTED: tuple[tuple[str, RefKind], ...] = (
    ("vanished", "fact"), ("new", "fact"), ("kept", "fact"), ("facts", "fact"), ("relations", "relation"),
    ("numbers", "unit"), ("nodes", "unit"),
)  # fmt: skip
"""Fields that list numbers, or tuples that begin with a number, and the kind of item that the numbers identify."""

_SPANS = ("sources", "seqs", "removed")
"""Fields that contain ranges of message numbers."""

_NOUNS: dict[RefKind, str] = {"unit": "stored turn"}


def followable(record: EventRecord) -> list[Ref]:
    """Return the messages, facts, relations and stored units that an event names, its subject first.

    Cuts of a prompt have refs of their own, see `Ref.of_cut`.
    """
    return list(dict.fromkeys(_named(record.event)))


def label(ref: Ref) -> str:
    """Return the label of a button: `Follow fact 4`."""
    return f"Follow {_NOUNS.get(ref.kind, ref.kind)} {tokens(ref.number)}"


def _named(event: Any) -> Iterator[Ref]:
    # The fields of this event have the same names as in others, but list names of blocks.
    if isinstance(event, RecipeChosen):
        return
    for numbered, kind in _NUMBERED:
        if isinstance(number := getattr(event, numbered, None), int):
            yield Ref.of(kind, number)
    if isinstance(event, Retrieved):
        granted = [number for number, _, _, _, outcome in event.candidates if outcome == "granted"]
        # What reached the prompt comes first; with nothing granted, all candidates are worth following.
        yield from (Ref.of("unit", number) for number in granted or [ref[0] for ref in event.candidates])
    if isinstance(event, FactsCondensed):
        yield from (Ref.of("fact", number) for merged, into in event.merged for number in (into, *merged))
    for named, kind in _LISTED:
        listed = getattr(event, named, ())
        # Other events use these names for plain numbers.
        for ref in listed if isinstance(listed, tuple) else ():
            yield Ref.of(kind, ref[0] if isinstance(ref, tuple) else ref)
    if isinstance(event, NothingLearned):
        yield from (Ref.of("message", seq) for _, seqs, _, _ in event.reasons for seq in expand(seqs))
    for spans in _SPANS:
        yield from (Ref.of("message", seq) for seq in expand(getattr(event, spans, ())))


# -- a timeline, kept ------------------------------------------------------------------------------


Made = TypeVar("Made")


class Timeline:
    """Index and sentences of a session, shared by all tabs; begun anew when words of its log were erased."""

    def __init__(self) -> None:
        self.index = Index()
        self._lines: dict[int, Line] = {}
        self._folded: dict[int, str] = {}
        """Casefolded sentences, for searching."""
        self._users: frozenset[int] = frozenset()
        """Ids of user-scoped facts, which other sessions may erase."""
        self._figure: tuple[object, object] = (None, None)

    def apply(self, record: EventRecord) -> None:
        """Add an event, oldest first."""
        self.index.apply(record)

    def check(self, users: frozenset[int]) -> None:
        """Forget all sentences if a user-scoped fact is gone: another session erased its words."""
        if not self._users <= users:
            self._lines, self._folded = {}, {}
        self._users = users

    def figure(self, key: object, make: Callable[[], Made]) -> Made:
        """The last figure if it was made under this key, otherwise a new one from `make`."""
        # Key and figure are replaced together, so that another thread never sees the new key with the old figure.
        position, figure = self._figure
        if position != key:
            figure = make()
            self._figure = key, figure
        return cast(Made, figure)

    def lines(self, records: Sequence[EventRecord], memory: Memory) -> list[Line]:
        """Return a sentence per event."""
        lines = self._lines
        # Two threads may make the same sentences at once: the results are equal, so no lock is needed.
        untold = [record for record in records if record.position not in lines]
        if untold:
            new_lines = lines_in_log(memory, untold)
            lines.update((record.position, line) for record, line in zip(untold, new_lines, strict=True))
        return [lines[record.position] for record in records]

    def matching(self, records: Sequence[EventRecord], text: str, memory: Memory) -> list[EventRecord]:
        """The events whose sentences contain every word of `text`, ignoring case."""
        wanted, folded = text.casefold().split(), self._folded
        missing = [record for record in records if record.position not in folded]
        for record, line in zip(missing, self.lines(missing, memory), strict=True):
            folded[record.position] = line.text.casefold()
        return [record for record in records if all(word in folded[record.position] for word in wanted)]


def remembered(memory: Memory) -> Timeline:
    """The timeline of a session in this process, up to its newest event."""
    users, timeline = _users_facts(memory), memory.log.follow(Timeline)
    timeline.check(users)
    return timeline


def _users_facts(memory: Memory) -> frozenset[int]:
    """Ids of user-scoped facts, whichever session learned them."""
    blocks = [a.name for a in memory.blocks if a.kind == "facts" and a.record.settings.get("scope") == "user"]
    return frozenset(fact.id for block in blocks for fact in memory.facts.read(block, states=None))
