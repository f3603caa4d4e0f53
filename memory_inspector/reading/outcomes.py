"""Outcome of every message and every flush, computed from the log alone.

Pure. `Outcomes` is incremental: following a long session costs only its new events. Where `rebuild` gives the complete
state of a session at one position, this gives one summary of all messages, quickly.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from memory_core.events import Event, EventRecord, FlushPlanned, expand, numbers
from memory_core.history.slices.contexts import is_context
from memory_core.history.slices.delivery_slice import Deliveries, State
from memory_core.history.slices.message_slice import MessagePlace, Messages, is_flush
from memory_core.history.slices.projection import Projection
from memory_core.history.slices.vector_slice import stores_units
from memory_core.history.summaries import is_rewriting
from memory_core.process import collector_paused

Kind = Literal["queue", "recalled", "extracted", "flushed", "gone"]
KINDS: tuple[Kind, ...] = ("gone", "flushed", "extracted", "recalled", "queue")
"""Kinds of outcomes, from lost messages to those still in the queue."""


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    seq: int
    turn: int
    tokens: int
    place: MessagePlace = "queued"
    flush: int | None = None
    """Number of the flush in which the message left the queue; None: it has not."""
    facts: int = 0
    """Number of facts learned from the message, in any state except erased."""
    recalled: int = 0
    """Number of prompts that included a stored turn with the message."""
    relations: int = 0
    """Number of relations learned from the message, in any state except erased."""
    summarised: bool = False
    """True if a running summary has read the message."""

    @property
    def kind(self) -> Kind:
        """Category of the outcome: the message's location, or the best way in which it still reaches a prompt."""
        if self.place == "queued":
            return "queue"
        if self.place != "archived":
            return "gone"
        learned = self.facts or self.relations or self.summarised
        return "recalled" if self.recalled else "extracted" if learned else "flushed"


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages with the same outcome."""

    kind: Kind
    first: MessageOutcome
    last: MessageOutcome
    messages: int
    tokens: int
    facts: int
    """Number of facts learned from each message, summed."""
    relations: int = 0
    """Number of relations learned from each message, summed."""


class Outcomes:
    """Outcomes of a session's messages, up to the last record applied. Not thread-safe."""

    def __init__(self, records: Iterable[EventRecord] = ()) -> None:
        self._past = Projection()
        self._summarised: set[int] = set()
        self._recalled: Counter[int] = Counter()
        self._now: tuple[MessageOutcome, ...] | None = None
        self.position = 0
        """Position of the last record applied."""
        self.apply(records)

    @collector_paused()
    def apply(self, records: Iterable[EventRecord]) -> "Outcomes":
        """Apply new records, oldest first."""
        for record in records:
            self.position = record.position
            self._now = None
            self._take(record)
        return self

    @property
    def messages(self) -> tuple[MessageOutcome, ...]:
        """Every message ever added, in order."""
        if self._now is None:
            session_id = self._past.session_id
            facts, relations = self._past.facts.by_id.values(), self._past.graph.relations.values()
            learned = Counter(seq for fact in facts for session, seq in fact.sources if session == session_id)
            related = Counter(seq for relation in relations for seq in relation.sources)
            self._now = tuple(
                MessageOutcome(
                    seq,
                    state.record.turn,
                    state.added.tokens,
                    state.place,
                    state.flush,
                    learned.get(seq, 0),
                    self._recalled.get(seq, 0),
                    related.get(seq, 0),
                    seq in self._summarised,
                )
                for seq, state in sorted(self._past.messages.by_seq.items())
            )
        return self._now

    @property
    def counts(self) -> dict[Kind, int]:
        """Number of messages per outcome; all five keys are present."""
        numbers = Counter(message.kind for message in self.messages)
        return {kind: numbers[kind] for kind in KINDS}

    def runs(self) -> list[Run]:
        """Return the messages in order, with neighbours of equal outcome grouped."""
        runs = []
        for kind, group in groupby(self.messages, key=lambda message: message.kind):
            members = list(group)
            sizes = [sum(getattr(message, of) for message in members) for of in ("tokens", "facts", "relations")]
            runs.append(Run(kind, members[0], members[-1], len(members), *sizes))
        return runs

    def _take(self, record: EventRecord) -> None:
        event = record.event
        for seq in self._past.apply(record):
            self._recalled.pop(seq, None)
        if is_context(event):
            recalled = (number for part in event.parts for number in numbers(part["refs"], "unit"))
            units = (self._past.vectors.ever.get(number) for number in recalled)
            # A set: a message that is in two recalled units counts once for the prompt.
            self._recalled.update({seq for unit in units if unit is not None for seq in expand(unit.seqs)})
        elif is_rewriting(event):
            self._summarised.update(expand(event.seqs))


# -- one flush -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Given:
    """Outcome of one flush at one block."""

    block: str
    state: State = "pending"
    attempts: int = 0
    error: str | None = None
    seconds: float | None = None
    """Seconds of the successful delivery, including anything else delivered with it."""
    learned: tuple[int, ...] = ()
    """Ids of new facts, in order."""
    confirmed: tuple[int, ...] = ()
    """Ids of existing facts that were confirmed."""
    stored: tuple[int, ...] = ()
    """Numbers of new stored turns, in order."""
    related: tuple[int, ...] = ()
    """Ids of new relations, in order."""
    summarised: int = 0
    """Number of messages taken into a running summary."""


@dataclass(frozen=True, slots=True)
class FlushOutcome:
    """A flush with its outcome at every block."""

    event: FlushPlanned
    given: tuple[Given, ...]
    """Outcomes in delivery order; empty if no block learns from flushes."""


def flush_outcome(records: Sequence[EventRecord], position: int) -> FlushOutcome | None:
    """Return the outcome of the flush recorded at `position`, as far as `records` go; None if there is none."""
    after = [record for record in records if record.position >= position]
    flush = after[0].event if after else None
    if flush is None or not is_flush(flush):
        return None
    flushed = frozenset(expand(flush.seqs))
    # `Deliveries` needs messages only for flush numbers and resets, which do not matter here.
    deliveries = Deliveries(Messages())
    for record in after[1:]:
        deliveries.apply(record)
    # A later flush may deliver to the same blocks, but other messages.
    handed = [s for s in deliveries.by_number.values() if s.queued.trigger == "flush" and s.seqs <= flushed]
    outcomes = [Given(state.queued.block, state.state, state.attempts, state.error, state.seconds) for state in handed]
    blocks = {outcome.block for outcome in outcomes}
    for event in (record.event for record in after[1:] if record.event.about in blocks):
        # Events of a block say which messages they came from, not which delivery.
        outcomes = [
            _learned(outcome, state.seqs, event) if event.about == outcome.block else outcome
            for outcome, state in zip(outcomes, handed, strict=True)
        ]
    return FlushOutcome(flush, tuple(outcomes))


def _learned(outcome: Given, seqs: frozenset[int], event: Event) -> Given:
    """Return the outcome at a block, updated with one of the block's events."""
    details: Any = event
    stated = seqs.intersection(expand(getattr(event, "sources", ())))
    if event.adds == "facts" and stated:
        return replace(outcome, learned=(*outcome.learned, details.fact))
    if event.item == "fact" and event.confirms and stated:
        return replace(outcome, confirmed=(*outcome.confirmed, details.fact))
    if event.adds == "relations" and stated:
        return replace(outcome, related=(*outcome.related, details.relation))
    if is_rewriting(event):
        # A later rewrite may read the same messages again, so the largest number counts, not the sum.
        return replace(outcome, summarised=max(outcome.summarised, len(seqs.intersection(expand(event.seqs)))))
    if stores_units(event):
        new = tuple(number for number, held, _ in event.nodes if seqs.issuperset(expand(held)))
        return replace(outcome, stored=(*outcome.stored, *new))
    return outcome
