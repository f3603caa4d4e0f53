"""What became of every message, and of every flush: from the log alone.

Pure. `Fates` grows with the log, so that following a long session costs only what is new. Where
`rebuild` says everything about a session at one position, this says one thing about all messages
quickly.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Literal

from memory_core.events import (
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    Event,
    EventRecord,
    FactAdded,
    FactConfirmed,
    FactErased,
    FactsCondensed,
    FactsCurated,
    FlushPlanned,
    RelationAdded,
    RelationConfirmed,
    RelationErased,
    SummaryRewritten,
    VectorsStored,
    expand,
    spread,
)
from memory_core.history.slices.messages import Messages, Place

Kind = Literal["queue", "recalled", "extracted", "flushed", "gone"]
KINDS: tuple[Kind, ...] = ("gone", "flushed", "extracted", "recalled", "queue")
"""In the order a message goes through them, the lost ones first."""


@dataclass(frozen=True, slots=True)
class MessageFate:
    """What became of one message."""

    seq: int
    turn: int
    tokens: int
    place: Place = "queued"
    flush: int | None = None
    """Number of the flush in which it left the queue."""
    facts: int = 0
    """Facts learned from it, whatever became of them; erased ones do not count."""
    recalled: int = 0
    """Prompts into which a stored turn with it was brought back."""
    relations: int = 0
    """Relations learned from it, in the same way as facts."""
    summarised: bool = False
    """Was it read for a running summary?"""

    @property
    def kind(self) -> Kind:
        """The one word for it: where it is, or the best way in which it still reaches a prompt."""
        if self.place == "queued":
            return "queue"
        if self.place != "archived":
            return "gone"
        learned = self.facts or self.relations or self.summarised
        return "recalled" if self.recalled else "extracted" if learned else "flushed"


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages that met the same fate."""

    kind: Kind
    first: MessageFate
    last: MessageFate
    messages: int
    tokens: int
    facts: int
    """Facts learned from them, counted message by message."""
    relations: int = 0
    """Relations, in the same way."""


class Fates:
    """The fates of a session's messages as far as its log was taken. Not thread-safe."""

    def __init__(self, records: Iterable[EventRecord] = ()) -> None:
        self._messages = Messages()
        self._summarised: set[int] = set()
        self._facts: dict[int, set[int]] = {}
        """Messages each fact was learned from."""
        self._learned: Counter[int] = Counter()
        """Facts by message."""
        self._relations: dict[int, set[int]] = {}
        """Messages each relation was learned from."""
        self._related: Counter[int] = Counter()
        """Relations by message."""
        self._recalled: Counter[int] = Counter()
        self._nodes: dict[int, tuple[int, ...]] = {}
        """Messages of each stored turn."""
        self._now: tuple[MessageFate, ...] | None = None
        self.position = 0
        """Of the last event taken."""
        self.take(records)

    def take(self, records: Iterable[EventRecord]) -> "Fates":
        """Add what is new, oldest first."""
        for record in records:
            self.position = record.position
            self._now = None
            self._take(record)
        return self

    @property
    def messages(self) -> tuple[MessageFate, ...]:
        """Every message there ever was, in order."""
        if self._now is None:
            learned, recalled, related = self._learned, self._recalled, self._related
            self._now = tuple(
                MessageFate(
                    seq,
                    state.record.turn,
                    state.added.tokens,
                    state.place,
                    state.flush,
                    learned.get(seq, 0),
                    recalled.get(seq, 0),
                    related.get(seq, 0),
                    seq in self._summarised,
                )
                for seq, state in sorted(self._messages.by_seq.items())
            )
        return self._now

    @property
    def counts(self) -> dict[Kind, int]:
        """How many messages met each fate; all five are there."""
        found = Counter(message.kind for message in self.messages)
        return {kind: found[kind] for kind in KINDS}

    def runs(self) -> list[Run]:
        """The messages in order, neighbours with one fate together."""
        runs = []
        for kind, group in groupby(self.messages, key=lambda message: message.kind):
            members = list(group)
            sizes = [sum(getattr(message, of) for message in members) for of in ("tokens", "facts", "relations")]
            runs.append(Run(kind, members[0], members[-1], len(members), *sizes))
        return runs

    def _take(self, record: EventRecord) -> None:
        event = record.event
        if gone := self._messages.apply(record):
            self._forget(gone)
        if isinstance(event, VectorsStored):
            self._nodes |= {number: tuple(expand(seqs)) for number, seqs, _ in event.nodes}
        elif isinstance(event, ContextBuilt):
            refs = (ref for part in event.parts for ref in spread(part["refs"]) if ref[0] == "v")
            self._recalled.update({seq for ref in refs for seq in self._nodes.get(int(ref[1:]), ())})
        elif isinstance(event, SummaryRewritten):
            self._summarised.update(expand(event.seqs))
        elif isinstance(event, RelationAdded | RelationConfirmed):
            said = self._relations.setdefault(event.relation, set())
            self._related.update(new := set(expand(event.sources)) - said)
            said |= new
        elif isinstance(event, RelationErased):
            self._related.subtract(self._relations.pop(event.relation, ()))
        else:
            self._take_fact(event)

    def _take_fact(self, event: Event) -> None:
        if isinstance(event, FactAdded | FactConfirmed):
            self._support(event.fact, expand(event.sources))
        elif isinstance(event, FactErased):
            self._learned.subtract(self._facts.pop(event.fact, ()))
        elif isinstance(event, FactsCondensed):
            longer = {*event.kept, *event.vanished, *(fact for sources, _ in event.merged for fact in sources)}
            for sources, into in [*event.merged, *((longer, fact) for fact in event.new)]:
                self._support(into, {seq for fact in sources for seq in self._facts.get(fact, ())})
        elif isinstance(event, FactsCurated):
            for fact, session, seqs in event.support:
                if not session:
                    self._support(fact, expand(seqs), gained=event.undoes is None)

    def _support(self, fact: int, seqs: Iterable[int], *, gained: bool = True) -> None:
        """A fact has more messages that say it, or fewer."""
        known = self._facts.setdefault(fact, set())
        if gained:
            new = set(seqs) - known
            known |= new
            self._learned.update(new)
        else:
            gone = known.intersection(seqs)
            known -= gone
            self._learned.subtract(gone)

    def _forget(self, gone: Collection[int]) -> None:
        """What a reset forgot supports nothing any more."""
        for seq in gone:
            self._learned.pop(seq, None)
            self._recalled.pop(seq, None)
            self._related.pop(seq, None)
        for sources in (*self._facts.values(), *self._relations.values()):
            sources.difference_update(gone)


# -- one flush -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """What became of one flush at one block."""

    block: str
    state: Literal["pending", "done", "parked", "skipped"] = "pending"
    attempts: int = 0
    error: str | None = None
    seconds: float | None = None
    """Of the delivery that succeeded, with what else was delivered in it."""
    learned: tuple[int, ...] = ()
    """Facts that were new, in order."""
    confirmed: tuple[int, ...] = ()
    """Facts that were known."""
    stored: tuple[int, ...] = ()
    """Stored turns, in order."""
    related: tuple[int, ...] = ()
    """Relations that were new, in order."""
    summarised: int = 0
    """Messages that were taken into a running summary."""


@dataclass(frozen=True, slots=True)
class FlushFate:
    """A flush with what every block made of it."""

    event: FlushPlanned
    given: tuple[Given, ...]
    """In the order it was handed out; empty when no block learns from flushes."""


@dataclass(slots=True)
class _Handed:
    given: Given
    seqs: frozenset[int] = field(default_factory=frozenset)


def flush_fate(records: Sequence[EventRecord], position: int) -> FlushFate | None:
    """What became of the flush recorded at `position`, as far as these records tell; None when there is none."""
    after = [record.event for record in records if record.position >= position]
    flush = after[0] if after else None
    if not isinstance(flush, FlushPlanned):
        return None
    left = frozenset(expand(flush.seqs))
    handed: dict[int, _Handed] = {}
    for event in after[1:]:
        if isinstance(event, DeliveryQueued):
            seqs = frozenset(expand(event.seqs))
            if event.trigger == "flush" and seqs <= left:
                handed[event.delivery] = _Handed(Given(event.block), seqs)
        else:
            _take_delivery(event, handed)
            _take_learned(event, handed)
    return FlushFate(flush, tuple(each.given for each in handed.values()))


def _take_delivery(event: Event, handed: dict[int, _Handed]) -> None:
    changes: dict[str, object] = {}
    if isinstance(event, DeliveryDone):
        changes = {"state": "done", "attempts": event.attempt, "error": None, "seconds": event.seconds}
    elif isinstance(event, DeliveryFailed):
        changes = {"attempts": event.attempt, "error": event.error}
    elif isinstance(event, DeliveryParked):
        changes = {"state": "parked", "attempts": event.attempts, "error": event.error}
    elif isinstance(event, DeliveryRetried):
        changes = {"state": "pending", "attempts": 0, "error": None}
    elif isinstance(event, DeliverySkipped):
        changes = {"state": "skipped"}
    if isinstance(event, DeliveryDone | DeliveryFailed | DeliveryParked | DeliveryRetried | DeliverySkipped):
        for delivery in event.deliveries:
            if delivery in handed:
                handed[delivery].given = replace(handed[delivery].given, **changes)  # type: ignore[arg-type]


def _take_learned(event: Event, handed: dict[int, _Handed]) -> None:
    for each in handed.values():
        if event.about != each.given.block:
            continue
        given = each.given
        if isinstance(event, FactAdded) and each.seqs.intersection(expand(event.sources)):
            each.given = replace(given, learned=(*given.learned, event.fact))
        elif isinstance(event, FactConfirmed) and each.seqs.intersection(expand(event.sources)):
            each.given = replace(given, confirmed=(*given.confirmed, event.fact))
        elif isinstance(event, RelationAdded) and each.seqs.intersection(expand(event.sources)):
            each.given = replace(given, related=(*given.related, event.relation))
        elif isinstance(event, SummaryRewritten):
            taken = len(each.seqs.intersection(expand(event.seqs)))
            each.given = replace(given, summarised=max(given.summarised, taken))
        elif isinstance(event, VectorsStored):
            new = tuple(number for number, seqs, _ in event.nodes if each.seqs.issuperset(expand(seqs)))
            each.given = replace(given, stored=(*given.stored, *new))
