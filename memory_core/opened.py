"""An opened session as everybody reads it: what it is, its messages and log, what its blocks hold, what searches find.

Nothing here changes memory. `memory_core.arranging` and `memory_core.memory` add what does.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core import delivery, editing, fact_search, recalling, recording, reembedding, searching
from memory_core.analysis.found_by import FoundBy, found_by
from memory_core.analysis.history import History
from memory_core.analysis.prompt import Prompt
from memory_core.analysis.usage import Tally, Usage, usage_of
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, NotFoundError
from memory_core.events import (
    EventRecord,
    expand,
)
from memory_core.fact_search import FactHit
from memory_core.log import Log
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, independent
from memory_core.planning.facts import Fact
from memory_core.planning.rendering import InsertMethod
from memory_core.prompts import Prompts
from memory_core.recalling import RecalledTurn
from memory_core.recording import Recording
from memory_core.searching import Neighbour, Search, TurnMap
from memory_core.services import Services
from memory_core.session import Attached, Session
from memory_core.status import Status, status_of
from memory_core.store.blocks import Holding, TextRevision, read_holding, read_revisions
from memory_core.store.database import Database
from memory_core.store.deliveries import (
    Delivery,
    in_transit,
    read_deliveries,
)
from memory_core.store.facts import FactRevision, read_facts, read_history
from memory_core.store.log import last_position, read_events
from memory_core.store.messages import (
    StoredMessage,
    read_messages,
)
from memory_core.store.vectors import read_nodes
from memory_core.store.writing import SessionState, contents, read_session, session_scope, user_scope
from memory_core.tokens import Tokenizer
from memory_core.vectors.base import Vector


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One unit of a vector block: its number, the turn of the conversation it is from, its messages."""

    number: int
    turn: int
    tokens: int
    messages: tuple[StoredMessage, ...]


class Opened:
    """What can be read of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def user_id(self) -> str | None:
        return self._session.user_id

    @property
    def config(self) -> MemoryConfig:
        return self._session.config

    @property
    def database(self) -> Database:
        return self._session.database

    @property
    def services(self) -> Services:
        return self._session.services

    @property
    def tokenizer_fn(self) -> Tokenizer | None:
        """The tokenizer that the memory was given; None where the encoding of its settings counts."""
        return self._session.tokenizer_fn

    @property
    def blocks(self) -> tuple[Attached, ...]:
        """The session's blocks in their order."""
        return self._session.blocks

    @property
    def memory_blocks(self) -> list[BaseMemoryBlock[Any]]:
        """The block objects, LlamaIndex's name; those that this process cannot make are missing."""
        return [attached.block for attached in self._session.blocks if attached.block is not None]

    @property
    def has_tools(self) -> bool:
        """May an agent edit one of the blocks? Then its model is offered tools (see `memory_core.tools`)."""
        return any(editing.agent_may_edit(attached) for attached in self._session.blocks)

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as this session counts them."""
        return self._session.counter.text(text)

    @property
    def counter_id(self) -> str:
        """What tokens are counted with: a tiktoken encoding, or a tokenizer function's name."""
        return self._session.counter_id

    def refresh(self) -> None:
        """Take over configuration and blocks that another process changed."""
        self._session.open()

    def status(self) -> Status:
        """Totals of the session.

        Raises:
            NotFoundError: it was deleted.
        """
        with self.database.read() as connection:
            state = self._existing(read_session(connection, self.session_id))
            moving = in_transit(connection, self.session_id)
            position = last_position(connection, self.session_id)
        return status_of(state, self.config, in_transit=moving, position=position)

    # -- messages and the log ----------------------------------------------------------------------

    def get_all(self, status: MessageStatus | str | None = None) -> list[ChatMessage]:
        """Every message of the session in order, or those in the queue or the archive only."""
        return [independent(stored.message) for stored in self.messages(status)]

    def messages(
        self,
        status: MessageStatus | str | None = None,
        *,
        role: MessageRole | str | None = None,
        after: int = 0,
        upto: int | None = None,
        last: int | None = None,
    ) -> list[StoredMessage]:
        """Messages with their places, sizes and states; `last` keeps the newest n."""
        with self.database.read() as connection:
            return read_messages(
                connection,
                self.session_id,
                self.services.messages,
                status=MessageStatus(status) if status else None,
                role=MessageRole(role) if role else None,
                after=after,
                upto=upto,
                last=last,
            )

    def events(
        self,
        after: int = 0,
        *,
        kinds: Iterable[str] | None = None,
        block: str | None = None,
        turn: int | None = None,
        from_turn: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EventRecord]:
        """Recorded decisions with a position above `after`, oldest first unless asked otherwise."""
        with self.database.read() as connection:
            return read_events(
                connection,
                self.session_id,
                after=after,
                kinds=list(kinds) if kinds is not None else None,
                block=block,
                turn=turn,
                from_turn=from_turn,
                limit=limit,
                newest_first=newest_first,
            )

    def history(self) -> History:
        """The whole log folded by turn, kept in this process: each call reads only what is new."""
        key = "history", self.database.id, self.session_id
        return self.services.remembered(key, Log).catch_up(self.database, self.session_id)

    def unread(self) -> int:
        """Events that this process has not read yet: `history`, and with it most of what is here, reads them first."""
        key = "history", self.database.id, self.session_id
        return self.services.remembered(key, Log).unread(self.database, self.session_id)

    def read_ahead(self, progress: Callable[[int], None] | None = None) -> None:
        """Read the log and what vector blocks have stored into this process, where it was not yet.

        `progress` is given the number of events read so far, in the end that of all.
        """
        key = "history", self.database.id, self.session_id
        self.services.remembered(key, Log).catch_up(self.database, self.session_id, progress)
        searching.read_ahead(self._session)

    def words(self, hashes: Iterable[str]) -> dict[str, str]:
        """Words by the hash that events know them by; those erased since are missing."""
        scopes = [session_scope(self.session_id), *([user_scope(self.user_id)] if self.user_id else ())]
        wanted = set(hashes)
        with self.database.read() as connection:
            return {key: text for scope in scopes for key, text in contents(connection, scope, wanted).items()}

    def prompt(self, context: EventRecord) -> Prompt:
        """A past prompt part by part, word for word; `context` is a recorded one, `history().turns[12].built`, say."""
        return self._prompts().read(self._session, self.history(), context, self.words)

    def same_start(self, before: EventRecord, after: EventRecord, *, insert_method: str | None = None) -> int:
        """Billed tokens with which the prompts of two recorded contexts begin alike: what a prompt cache can reuse.

        As they were sent, or as they would be with the memory section put in by `insert_method`.
        """
        method = None if insert_method is None else InsertMethod(insert_method)
        return self._prompts().same_start(self._session, self.history(), before, after, self.words, method)

    def recording(self, *, upto: int | None = None) -> Recording | None:
        """The recorded conversation and how far it has been played; None when there is none.

        With `upto`, how far it had been played by the message of that sequence number.
        """
        with self.database.read() as connection:
            return recording.read(connection, self._existing(read_session(connection, self.session_id)), upto=upto)

    def deliveries(self, *, states: Sequence[str] | None = None, last: int | None = None) -> list[Delivery]:
        """Deliveries in order, by state (`pending`, `done`, `parked`, `skipped`) or all."""
        with self.database.read() as connection:
            return read_deliveries(connection, self.session_id, states=states, last=last)

    # -- what blocks hold --------------------------------------------------------------------------

    def block_settings(self, name: str) -> dict[str, Any]:
        """A block's settings as they apply.

        Raises:
            NotFoundError: there is no such block.
        """
        return self._session.block(name).settings

    def holding(self, name: str) -> Holding:
        """What a block has stored, counted.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        scope = delivery.scope_key(self._session, attached)
        with self.database.read() as connection:
            return read_holding(connection, self.session_id, scope, name, attached.kind)

    def usage(self, upto: int | None = None) -> Usage:
        """How often each block, fact and stored turn was in prompts and cut; up to a position of the log, or now."""
        history = self.history()
        if upto is None or upto >= history.position:
            return self.services.remembered(("usage", self.database.id, self.session_id), Tally).catch_up(history)
        key = "usage", self.database.id, self.session_id, upto, history.position
        return self.services.remembered(key, lambda: usage_of(history.upto(upto)))

    def block_revisions(self, name: str) -> list[TextRevision]:
        """Every text a static block or a summary had, oldest first."""
        with self.database.read() as connection:
            return read_revisions(connection, self.session_id, name)

    def facts(self, block: str, *, states: Iterable[str] | None = ("active",)) -> list[Fact]:
        """Facts of a block, oldest first; `states=None` for all.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(block)
        scope = delivery.scope_key(self._session, attached)
        with self.database.read() as connection:
            return read_facts(connection, scope, block, states=states)

    def fact_history(self, fact: Fact) -> list[FactRevision]:
        """Every state a fact ever had, oldest first, with who changed it and why."""
        with self.database.read() as connection:
            return read_history(connection, fact.scope, fact.id)

    def stored_turns(self, block: str, *, numbers: Collection[int] | None = None) -> list[StoredTurn]:
        """What a vector block holds, oldest first, or some of it by number."""
        with self.database.read() as connection:
            nodes = read_nodes(connection, self.session_id, block)
            nodes = [node for node in nodes if numbers is None or node.number in numbers]
            seqs = sorted({seq for node in nodes for seq in expand(node.seqs)})
            found = read_messages(connection, self.session_id, self.services.messages, seqs=seqs)
        by_seq = {message.seq: message for message in found}
        turns = []
        for node in nodes:
            messages = tuple(by_seq[seq] for seq in expand(node.seqs) if seq in by_seq)
            if messages:
                turns.append(StoredTurn(node.number, messages[0].turn, node.tokens, messages))
        return turns

    def stored_under_other_embedders(self, block: str | None = None) -> int:
        """How many stored turns of a vector block (None: the first) have no vector of the present embedding model.

        They were stored under another, or while it failed, and are found by keyword only until `embed_again`.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the dimension of the model's vectors is not known yet and its endpoint does not answer.
        """
        return reembedding.stored_under_others(self._session, block)

    # -- what searches find ------------------------------------------------------------------------

    def vectors_follow(self, block: str) -> bool:
        """Are stored units of a vector block being embedded in the background? They are found by keyword so far."""
        return reembedding.follow(self._session, block)

    def search(self, query: str, *, block: str | None = None, settings: Mapping[str, Any] | None = None) -> Search:
        """What a question would find in a vector block (None: the first), and what becomes of it. Records nothing.

        `settings` of the block (`similarity_top_k`, `similarity_threshold`, ...) are tried, not stored.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: a setting is impossible, or the block stores no turns.
        """
        self.refresh()
        return searching.search(self._session, query, block=block, settings=settings)

    def search_facts(
        self,
        query: str,
        *,
        block: str | None = None,
        top_k: int = 20,
        threshold: float = fact_search.THRESHOLD,
        categories: Collection[str] | None = None,
        topics: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[FactHit]:
        """The active facts that fit a question, best first, of one block or (None) of all that are on.

        `threshold` is the least score, 0 to 1. `categories` and `topics` narrow the choice to facts under one of
        them, letters' case aside; `filters` by any field: see `memory_core.fact_search.fits`. Changes nothing.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block holds no facts, a filter is unknown, or a number impossible.
        """
        self.refresh()
        on = [attached for attached in self.blocks if attached.settings.get("enabled", True)]
        chosen = on if block is None else [self._session.block(block)]
        if block is not None and chosen[0].kind != "facts":
            raise ConfigError(f'the block "{block}" holds no facts')
        return fact_search.search_facts(
            query,
            [(delivery.scope_key(self._session, b), b.name) for b in chosen if b.kind == "facts"],
            database=self.database,
            services=self.services,
            top_k=top_k,
            threshold=threshold,
            categories=categories,
            topics=topics,
            filters=filters,
        )

    def recall_turns(self, query: str, *, block: str | None = None) -> tuple[RecalledTurn, ...]:
        """The turns that fit a question best, best first, those in the queue included. Records nothing.

        As many as the vector block (None: the first) brings back at most, by its other settings too.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
        """
        self.refresh()
        return recalling.recall_turns(self._session, query, block=block)

    def recorded_searches(self, turn: int, block: str, *, upto: int | None = None) -> list[Search]:
        """The searches of a turn as they were recorded, in order; at most 25 candidates of each, the rest as counts.

        `upto` is the position of the log up to which they are looked for, None its end.
        """
        return searching.recorded_searches(self._session, turn, block, upto)

    def found_by(self, number: int, *, block: str | None = None, upto: int | None = None) -> tuple[FoundBy, ...]:
        """The recorded searches that had a stored turn of a vector block (None: the first) among their candidates.

        Newest first; `upto` is the position of the log up to which they are looked for, None its end.

        Raises:
            NotFoundError: no block is named, and none stores turns.
        """
        name = searching.vector_block(self._session, None).name if block is None else block
        history = self.history()
        return found_by(history.upto(history.position if upto is None else upto), name, number)

    def neighbours(self, block: str, number: int, *, limit: int = 5) -> tuple[Neighbour, ...]:
        """The stored turns nearest to one of them by meaning, nearest first.

        Raises:
            NotFoundError: there is no such block or stored turn.
        """
        return searching.neighbours(self._session, block, number, limit=limit)

    def turn_map(
        self, block: str, *, query: Vector | None = None, keep: Collection[int] = (), most: int = searching.MOST_DRAWN
    ) -> TurnMap:
        """Stored turns on a plane, at most `most` of them, those in `keep` first; and where a query's vector lies.

        Raises:
            NotFoundError: there is no such block.
        """
        return searching.turn_map(self._session, block, query, keep, most)

    # -- inside ------------------------------------------------------------------------------------

    def _prompts(self) -> Prompts:
        key = "prompts", self.database.id, self.session_id
        return self.services.remembered(key, lambda: Prompts(self.session_id))

    @staticmethod
    def _existing(state: SessionState | None) -> SessionState:
        if state is None or state.deleted_at is not None:
            raise NotFoundError("This session does not exist any more.")
        return state
