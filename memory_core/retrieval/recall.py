"""Conversation turns retrieved by a question, as messages: those stored in a vector block, and those not stored yet.

Explaining a search, with the outcome of every turn in a prompt, is in `explain.py`.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.blocks.vector_parts.background_embedding import PATIENCE_SECONDS
from memory_core.blocks.vector_parts.units import messages_of, searchable
from memory_core.engine.context import reading_of
from memory_core.engine.session import Session
from memory_core.errors import VectorIndexError
from memory_core.events import expand
from memory_core.retrieval.explain import vector_block
from memory_core.store.delivery_rows import delivered_messages, read_deliveries
from memory_core.store.message_rows import StoredMessage, read_messages

NOT_STORED = ("pending", "parked")
"""States of the deliveries whose messages the block has not stored yet."""


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A unit of the conversation that matches a question: a user message with the replies to it."""

    messages: tuple[StoredMessage, ...]
    score: float
    """Match plus boosts; larger is better."""
    cosine: float | None
    """Similarity of meaning alone, -1 to 1; None: the turn was not compared by meaning."""


def recall_turns(session: Session, query: str, *, block: str | None = None) -> tuple[RecalledTurn, ...]:
    """See `Memory.retrieval.recall`."""
    found_in = vector_block(session, block)
    # The question alone counts; messages in the queue may be returned as well.
    reading = replace(reading_of(session, query), queue_seqs=frozenset(), for_prompt=False, patience=PATIENCE_SECONDS)
    with session.database.read() as connection:
        heard = _not_stored_yet(session, connection, found_in.name)
    # A delivery may have stored some of these messages in between.
    nodes = found_in.stored(reading).holding(session.id, {message.seq for message in heard})
    stored_seqs = {seq for node in nodes for seq in expand(node.seqs)}
    # Numbered below 0, so that no number is that of a stored unit.
    units = searchable([message for message in heard if message.seq not in stored_seqs], found_in.unit)
    recall = found_in.recall(reading, dict(zip(range(-len(units), 0), units, strict=True)))
    if recall is None:
        return ()
    candidates = {candidate.number: candidate for candidate in recall.plan.candidates}
    granted = [recall.nodes[number] for number in recall.plan.granted]
    with session.database.read() as connection:
        messages = messages_of(connection, session.id, session.services.messages, granted)
    turns = [
        RecalledTurn(tuple(messages.get(number, ())), candidates[number].score, candidates[number].vector)
        for number in recall.plan.granted
    ]
    return tuple(turn for turn in turns if turn.messages)


def forget_copies(session: Session, emptied: Collection[tuple[str, str]]) -> None:
    """Drop the copies of emptied collections, given by block, from the index and from this process.

    Raises:
        VectorIndexError: an index cannot be reached.
    """
    blocks = {attached.name: attached.block for attached in session.blocks}
    for name, collection in sorted(emptied):
        block = blocks.get(name)
        index = session.services.index_of(session.database)
        if isinstance(block, VectorMemoryBlock):
            block.evict(session.services, session.database, session.id)
            index = block.vector_store or index
        session.services.exact.forget(collection)
        try:
            index.forget(collection)
        except VectorIndexError as error:
            raise VectorIndexError(
                f"Everything was forgotten here, but {index.name} still has a copy of the vectors: {error} "
                "It goes with the next search that reaches it."
            ) from error


def _not_stored_yet(session: Session, connection: Connection, name: str) -> list[StoredMessage]:
    """Return the messages in the queue, and messages that left it and are still due to the block."""
    cache = session.services.messages
    queued = [row.sized.seq for row in session.queue(connection) if not row.pinned]
    messages = {message.seq: message for message in read_messages(connection, session.id, cache, seqs=queued)}
    for delivery in read_deliveries(connection, session.id, states=NOT_STORED):
        if delivery.block == name:
            messages |= {message.seq: message for message in delivered_messages(connection, delivery, cache)}
    return [messages[seq] for seq in sorted(messages)]
