"""Contents of vector blocks, and searches in them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.engine.session import Session
from memory_core.events import Actor, expand
from memory_core.history.log import history_of_session
from memory_core.retrieval import explain, recall, reembed
from memory_core.retrieval.explain import FoundBy, Neighbour, Search, found_by
from memory_core.retrieval.recall import RecalledTurn
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.vector_rows import read_nodes


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
        self._session.open()
        return recall.recall_turns(self._session, query, block=block)

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
        explain.forget_turn(self._session, block, number, actor)

    def under_other_embedders(self, block: str | None = None) -> int:
        """Count the stored turns of a vector block (None: the first) without a vector of the present embedding model.

        They were stored with another model, or while this one failed, and are found by keyword only until `reembed`.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the dimension of the model's vectors is not known yet and its endpoint does not answer.
        """
        return reembed.stored_under_others(self._session, block)

    def vectors_pending(self, block: str) -> bool:
        """Return whether units of a vector block are being embedded; until then they are found by keyword only."""
        return reembed.follow(self._session, block)

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
        return reembed.reembed(self._session, block, progress, actor)

    def resume_vectors(self) -> None:
        """Compute, in the background, the vectors that an ended process had not computed yet."""
        reembed.take_up(self._session)
