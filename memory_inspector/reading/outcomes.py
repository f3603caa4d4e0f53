"""Outcome of every message and every flush, computed from the log alone.

Pure. Where `rebuild` gives the complete state of a session at one position, this gives one summary of all messages,
quickly.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Literal

from memory_core.events import Event, EventRecord, FlushPlanned, expand
from memory_core.history.block_slice import is_rewriting
from memory_core.history.learned_slices import stores_units
from memory_core.history.message_slice import Deliveries, MessagePlace, Messages, State, is_flush
from memory_core.history.projection import Projection

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


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Outcomes of all messages of a session at one position of its log."""

    messages: tuple[MessageOutcome, ...]
    """Every message ever added, in order."""

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


def outcomes_of(past: Projection) -> Outcomes:
    """Return the outcomes of the messages in the part of a log that was applied."""
    facts, relations = past.facts.by_id.values(), past.graph.relations.values()
    learned = Counter(seq for fact in facts for session, seq in fact.sources if session == past.session_id)
    related = Counter(seq for relation in relations for _, seq in relation.sources)
    recalled = past.prompts.recalled()
    return Outcomes(
        tuple(
            MessageOutcome(
                seq,
                state.record.turn,
                state.added.tokens,
                state.place,
                state.flush,
                learned.get(seq, 0),
                recalled.get(seq, 0),
                related.get(seq, 0),
                seq in past.prompts.summarised,
            )
            for seq, state in sorted(past.messages.by_seq.items())
        )
    )


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
