"""Contents of vector blocks, searches in them, and their vectors under another embedding model.

Explaining a search, with the outcome of every turn in a prompt, is in `explain.py`. Vectors of two models are never
compared, so turns that another model embedded are found by keyword only until they are embedded again.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from memory_core.blocks.storing import PATIENCE_SECONDS, unusable_vectors, vectors_of, vectors_that_follow
from memory_core.blocks.units import node_words, searchable, stored_messages_of
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.engine.context import reading_of
from memory_core.engine.session import Session
from memory_core.errors import NotFoundError, VectorIndexError
from memory_core.events import Actor, VectorsRemoved, VectorsReplaced, expand
from memory_core.history.log import history_of_session
from memory_core.models.protocols import embedded
from memory_core.retrieval import explain
from memory_core.retrieval.explain import FoundBy, Neighbour, Search, found_by, vector_block
from memory_core.store.delivery_rows import delivered_messages, read_deliveries
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.vector_rows import (
    Node,
    collections_of,
    count_of_others,
    count_without_vector,
    read_nodes,
    read_nodes_of,
    read_nodes_of_others,
    remove_nodes,
    replace_vectors,
)

NOT_STORED = ("pending", "parked")
"""States of the deliveries whose messages the block has not stored yet."""

BATCH = 200
"""Turns embedded and stored per batch: a few seconds of work, the most that an interruption can lose."""


@dataclass(frozen=True, slots=True)
class RecalledTurn:
    """A unit of the conversation that matches a question: a user message with the replies to it."""

    messages: tuple[StoredMessage, ...]
    score: float
    """Match plus boosts; larger is better."""
    cosine: float | None
    """Similarity of meaning alone, -1 to 1; None: the turn was not compared by meaning."""


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Unit that a vector block stores, with its number, its messages and the conversation turn that it is from."""

    number: int
    turn: int
    tokens: int
    messages: tuple[StoredMessage, ...]


class SessionRetrieval:
    """Searches in a session's vector blocks, as `Memory.retrieval`; without a name, in the first such block."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def search(self, query: str, *, block: str | None = None, settings: Mapping[str, Any] | None = None) -> Search:
        """Search a vector block (None: the first) and return each result with its outcome. Records nothing.

        `settings` of the block (`similarity_top_k`, `similarity_threshold`, ...) are tried, not stored.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: a setting is impossible, or the block stores no turns.
        """
        self._session.open()
        return explain.search(self._session, query, block=block, settings=settings)

    def recall(self, query: str, *, block: str | None = None) -> tuple[RecalledTurn, ...]:
        """Return the turns that fit a question best, best first, those in the queue included. Records nothing.

        The settings of the vector block (None: the first) apply, such as its number of results and its threshold.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
        """
        session = self._session
        session.open()
        found_in = vector_block(session, block)
        # The question alone counts; messages in the queue may be returned as well.
        reading = replace(
            reading_of(session, query), queue_seqs=frozenset(), for_prompt=False, patience=PATIENCE_SECONDS
        )
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
            messages = stored_messages_of(connection, session.id, session.services.messages, granted)
        turns = [
            RecalledTurn(tuple(messages.get(number, ())), candidates[number].score, candidates[number].vector)
            for number in recall.plan.granted
        ]
        return tuple(turn for turn in turns if turn.messages)

    def recorded(self, turn: int, block: str, *, upto: int | None = None) -> list[Search]:
        """Return the recorded searches of a turn, in order; at most 25 candidates of each, the rest as counts.

        `upto` is the last log position to look at; None: the end of the log.
        """
        return explain.recorded_searches(self._session, turn, block, upto)

    def found_by(self, number: int, *, block: str | None = None, upto: int | None = None) -> tuple[FoundBy, ...]:
        """Return the recorded searches that had stored turn `number` of a vector block (None: the first) as candidate.

        Newest first; `upto` is the last log position to look at; None: the end of the log.

        Raises:
            NotFoundError: no block is named, and none stores turns.
        """
        name = explain.vector_block(self._session, None).name if block is None else block
        history = history_of_session(self._session)
        return found_by(history.upto(history.position if upto is None else upto), name, number)

    def neighbours(self, block: str, number: int, *, limit: int = 5) -> tuple[Neighbour, ...]:
        """Return the stored turns nearest in meaning to the stored turn `number`, nearest first.

        Raises:
            NotFoundError: there is no such block or stored turn.
        """
        return explain.neighbours(self._session, block, number, limit=limit)

    def stored_turns(self, block: str, *, numbers: Collection[int] | None = None) -> list[StoredTurn]:
        """Return the stored turns of a vector block, oldest first, all or those with these numbers."""
        with self._session.database.read() as connection:
            nodes = read_nodes(connection, self._session.id, block)
            nodes = [node for node in nodes if numbers is None or node.number in numbers]
            seqs = sorted({seq for node in nodes for seq in expand(node.seqs)})
            found_messages = read_messages(connection, self._session.id, self._session.services.messages, seqs=seqs)
        by_seq = {message.seq: message for message in found_messages}
        turns = []
        for node in nodes:
            messages = tuple(by_seq[seq] for seq in expand(node.seqs) if seq in by_seq)
            # A unit whose messages were erased has nothing to show.
            if messages:
                turns.append(StoredTurn(node.number, messages[0].turn, node.tokens, messages))
        return turns

    def forget(self, block: str, number: int, *, actor: Actor = "user") -> None:
        """Delete a stored turn from a vector block, so that no search finds it. Its messages stay in the archive.

        Raises:
            NotFoundError: there is no such block, or no such stored turn any more.
        """
        unit = vector_block(self._session, block).unit
        with self._session.writing() as w:
            if not remove_nodes(w, block=block, numbers=[number]):
                raise NotFoundError(f'This stored {unit} is not in "{block}" any more. Nothing was deleted.')
            w.record(VectorsRemoved(block=block, numbers=(number,)), actor=actor)

    def under_other_embedders(self, block: str | None = None) -> int:
        """Count the stored turns of a vector block (None: the first) without a vector of the present embedding model.

        They were stored with another model, or while this one failed, and are found by keyword only until `reembed`.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the dimension of the model's vectors is not known yet and its endpoint does not answer.
        """
        stored_in = vector_block(self._session, block)
        present = stored_in.embedder(self._session.services).id
        with self._session.database.read() as connection:
            others = count_of_others(connection, self._session.id, stored_in.name, present)
        return others + len(_unusable(self._session, stored_in))

    def vectors_pending(self, block: str) -> bool:
        """Return whether units of a vector block are being embedded; until then they are found by keyword only."""
        session = self._session
        return not vectors_that_follow(session.database, session.services, session.id, block).settled

    def reembed(
        self,
        block: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        actor: Actor = "user",
    ) -> int:
        """Re-embed stored turns of a vector block (None: the first) that have no vector of the present embedding
        model; return their number.

        Turns keep their numbers. Every 200 are stored together; `progress` receives the number done and the total.
        After an error or a stop, the next call continues from there.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the embedding model cannot be loaded or does not answer.
        """
        session = self._session
        stored_in = vector_block(session, block)
        embedder = stored_in.embedder(session.services)
        present = embedder.id
        with session.database.read() as connection:
            before = collections_of(connection, session.id)
            total = count_of_others(connection, session.id, stored_in.name, present)
        for _ in vectors_of(session.database, session.services, session.id, stored_in.name, embedder).vectors():
            pass  # iterating detects every unusable vector
        unusable = _unusable(session, stored_in)
        total += len(unusable)
        done = 0
        # In order of their ids, so that an interrupted run goes on where it stopped.
        nodes, words = _next(session, stored_in.name, present, 0, unusable)
        while nodes:
            vector_of = dict(zip((node.number for node in nodes), embedded(embedder, words), strict=True))
            with session.writing() as w:
                numbers = replace_vectors(w, stored_in.name, present, vector_of, unusable=unusable)
                if numbers:
                    w.record(VectorsReplaced(stored_in.name, present, tuple(numbers)), actor=actor)
            unusable.difference_update(vector_of)
            done += len(numbers)
            if progress is not None:
                progress(done, max(total, done))  # more may have been stored meanwhile
            nodes, words = _next(session, stored_in.name, present, nodes[-1].number, unusable)
        unusable.clear()  # the remaining ones were removed meanwhile
        with session.database.read() as connection:
            emptied = before - collections_of(connection, session.id)
        index = stored_in.index(session.services, session.database)
        for collection in sorted(collection for name, collection in emptied if name == stored_in.name):
            session.services.exact.forget(collection)
            with suppress(VectorIndexError):  # unreachable: that copy is never requested again
                index.forget(collection)
        return done

    def resume_vectors(self) -> None:
        """Compute, in the background, the vectors that an ended process had not computed yet.

        Only if all other vectors are of the current model; units of another program's model wait for that program.
        """
        session = self._session
        for attached in session.blocks:
            block = attached.block
            if not isinstance(block, VectorMemoryBlock) or not (embedder := block.embedder(session.services)).offline:
                continue
            with session.database.read() as connection:
                theirs = count_of_others(connection, session.id, block.name, embedder.id)
                none = count_without_vector(connection, session.database, session.id, block.name)
            # Units without a vector count as of another model; a real other model would make more.
            if none and theirs == none:
                following = vectors_that_follow(session.database, session.services, session.id, block.name)
                following.start(session.services, session.database, session.id, block.name, embedder)


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


def _next(
    session: Session, block: str, embedder: str, after: int, unusable: Collection[int]
) -> tuple[list[Node], list[str]]:
    """Return the next stored turns of other models, then those with unusable vectors, each with the text to embed."""
    with session.database.read() as connection:
        nodes = read_nodes_of_others(connection, session.id, block, embedder, after=after, limit=BATCH)
        nodes = nodes or read_nodes_of(connection, session.id, block, sorted(unusable)[:BATCH])
        return nodes, node_words(connection, session.id, session.services.messages, nodes)


def _unusable(session: Session, block: VectorMemoryBlock) -> set[int]:
    return unusable_vectors(
        session.database, session.services, session.id, block.name, block.embedder(session.services)
    )
