"""Reasons why nothing was learned from a message, recorded by every block that learns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_core.blocks.base import Batch, PendingWrite
from memory_core.events import NothingLearned
from memory_core.models.protocols import FactExtractor, NothingFound, RelationExtractor, Summariser
from memory_core.planning.learning_outcomes import Reason, grouped, unread
from memory_core.store.message_rows import StoredMessage
from memory_core.store.writing import Writing


@dataclass(slots=True)
class NothingRead(PendingWrite):
    """Pending write for a delivery in which the block reads no message."""

    block: str
    learner: str
    batch: Batch

    def save(self, w: Writing) -> None:
        record_reasons(w, self.block, self.learner, unread_among(self.batch, ()))


def record_reasons(w: Writing, block: str, learner: str, reasons: Mapping[int, Reason]) -> None:
    """Record reasons, by sequence number of the message. A model's remarks go to the session's content store."""
    if reasons:
        empty = [
            (reason.code, seqs, reason.fact, w.store_text(reason.said) if reason.said else "")
            for reason, seqs in grouped(reasons)
        ]
        w.record(NothingLearned(block, learner, tuple(empty)))


def unread_among(batch: Batch, read: Iterable[StoredMessage]) -> dict[int, Reason]:
    """Return the reasons why messages of a batch were not read, by sequence number."""
    seqs, withheld = {message.seq for message in read}, batch.quarantine.seqs(batch.session_id)
    return {
        message.seq: Reason("quarantined") if message.seq in withheld else unread(message.message)
        for message in batch.messages
        if message.seq not in seqs
    }


def reasons_given(
    nothing: Mapping[int, NothingFound], read: Sequence[StoredMessage], known: Mapping[str, int]
) -> dict[int, Reason]:
    """Return a learner's reasons by sequence number of the message; `known`: ids of the known facts, by text.

    A reason whose text is not in `known` means that a fact from an earlier piece of the delivery was repeated.
    """
    reasons = {}
    for index, why in nothing.items():
        # A model may name messages that it was not given.
        if 0 <= index < len(read):
            beside = why.known is not None and why.known not in known
            fact = None if why.known is None else known.get(why.known)
            reasons[read[index].seq] = Reason("repeated" if beside else why.code, fact, why.said)
    return reasons


def without_reason(learner: FactExtractor | RelationExtractor | Summariser) -> Reason:
    """Return the default reason for messages to which the learner gave none."""
    return Reason("no_rule" if learner.offline else "model_found_none")
