"""`Memory`: the engine's face. It gathers, lets the planners decide, applies and records.

    memory = Memory.from_defaults(session_id="demo", token_limit=4000, memory_blocks=[...])
    memory.put(ChatMessage(role="user", content="Hello"))
    messages = memory.get()

Names and meanings are LlamaIndex's. Everything is synchronous and written once; `aput`, `aget` and
the others run the same code in a worker thread.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core import recipes
from memory_core.blocks import fact_search
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.fact_search import FactHit
from memory_core.config import MemoryConfig, Settings
from memory_core.curation import settings as editing
from memory_core.curation.facts import Curation
from memory_core.curation.graph import GraphDesk
from memory_core.curation.summary import SummaryDesk
from memory_core.engine import delivery, queue
from memory_core.engine import next_prompt as foretelling
from memory_core.engine.context import Context, build_context
from memory_core.engine.delivery import Served
from memory_core.engine.next_prompt import NextPrompt
from memory_core.engine.session import ImaginedBlocks, Session, SessionBlock
from memory_core.errors import ConfigError, MessageError, NotFoundError
from memory_core.events import (
    Actor,
    Event,
    EventRecord,
    QueueReplaced,
    SessionClosed,
    SessionImported,
    expand,
    ranges,
)
from memory_core.history.by_turn import History
from memory_core.history.log import Log
from memory_core.history.prompt import Prompt
from memory_core.history.prompt_store import Prompts
from memory_core.history.usage import Usage, UsageCount, usage_of
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, independent
from memory_core.models.base import ChatModel
from memory_core.planning.facts import Fact
from memory_core.planning.flush import FlushPlan
from memory_core.planning.graph import Graph
from memory_core.planning.rendering import InsertMethod, neutralise_message
from memory_core.retrieval import explain, recall, reembed
from memory_core.retrieval.explain import Neighbour, Search, TurnMap
from memory_core.retrieval.found_by import FoundBy, found_by
from memory_core.retrieval.recall import RecalledTurn
from memory_core.services import Services
from memory_core.sessions import recording, switch_recipe
from memory_core.sessions.branch import branch_session
from memory_core.sessions.overview import Status, status_of
from memory_core.sessions.recording import Recording
from memory_core.sessions.switch_recipe import SwitchPlan
from memory_core.store.blocks import Holding, TextRevision, read_holding, read_revisions
from memory_core.store.database import Database
from memory_core.store.deliveries import (
    Delivery,
    in_transit,
    read_deliveries,
)
from memory_core.store.erasing import remove_messages, reset_messages
from memory_core.store.facts import FactRevision, read_facts, read_history
from memory_core.store.log import last_position, read_events
from memory_core.store.messages import (
    StoredMessage,
    add_messages,
    known_ids,
    read_messages,
)
from memory_core.store.pieces import Step
from memory_core.store.vectors import collections_of, read_nodes
from memory_core.store.writing import Clock, SessionState, contents, read_session, session_scope, user_scope
from memory_core.tokens import Tokenizer
from memory_core.vectors.base import Vector


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One unit of a vector block: its number, the turn of the conversation it is from, its messages."""

    number: int
    turn: int
    tokens: int
    messages: tuple[StoredMessage, ...]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one put did."""

    seqs: tuple[int, ...]
    """Place in the session of each message, in the order given; an id put before keeps its place.

    A message that was only a memory section of this engine has none: it is not stored."""
    flushed: FlushPlan | None
    """What left the queue, if anything did."""
    served: dict[str, Served]
    """What became of each block's deliveries; what is still running counts as waiting."""
    queue_tokens: int
    """Tokens in the queue afterwards."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """Blocks that something is still due to."""
        return tuple(name for name, served in self.served.items() if served.outcome != "done")


class Memory:
    """One session's memory. Thread-safe; any number of processes may open the same session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    def from_defaults(
        cls,
        session_id: str | None = None,
        user_id: str | None = None,
        *,
        token_limit: int | None = None,
        chat_history_token_ratio: float | None = None,
        token_flush_size: int | None = None,
        memory_blocks: Sequence[BaseMemoryBlock[Any]] | None = None,
        insert_method: str | None = None,
        tokenizer_fn: Tokenizer | None = None,
        chat_history: Sequence[ChatMessage] | None = None,
        database_uri: str | None = None,
        async_database_uri: str | None = None,
        engine: Any = None,
        async_engine: Any = None,
        db_schema: str | None = None,
        title: str = "",
        services: Services | None = None,
        clock: Clock = time.time,
        **settings: Any,
    ) -> "Memory":
        """Make a session's memory, or join it if the session exists in the database.

        Without a database it lives in this process, unless `MEMORY_INSPECTOR_DATABASE_URL` or
        `MEMORY_INSPECTOR_HOME` say where it is kept. Any other setting of `MemoryConfig` may be
        given too. What was stored for an existing session wins over values that its constructor
        had been given before; see `memory_core.engine.session`.

        Raises:
            ConfigError: a setting is impossible, two blocks have one name, or `chat_history` is
                given for a session that has messages.
            MessageError: one of `chat_history` is not a message, or cannot be stored.
            StoreError: the database cannot be reached.
        """
        given = {
            "token_limit": token_limit,
            "chat_history_token_ratio": chat_history_token_ratio,
            "token_flush_size": token_flush_size,
            "insert_method": insert_method,
            **settings,
        }
        given = {name: value for name, value in given.items() if value is not None}
        MemoryConfig(**given)
        environment = Settings.from_environment()
        uri = database_uri or async_database_uri
        where = uri if uri or engine or async_engine else environment.database
        database = Database.open(where, engine=engine or async_engine, schema=db_schema)
        session = Session(
            database,
            session_id or str(uuid.uuid4()),
            services=services or Services(index=environment.index),
            tokenizer_fn=tokenizer_fn,
            clock=clock,
        )
        history = list(chat_history or ())
        for message in history:
            queue.as_text(message)  # before anything is stored
        session.create_or_join(
            title=title, user_id=user_id, config=given, blocks=memory_blocks, without_messages=bool(history)
        )
        memory = cls(session)
        if history:
            memory.put_messages(history)
        return memory

    @classmethod
    def from_recipe(
        cls,
        recipe: str,
        session_id: str | None = None,
        user_id: str | None = None,
        *,
        chat: ChatModel | None = None,
        services: Services | None = None,
        **given: Any,
    ) -> "Memory":
        """A memory as one of `memory_core.recipes.RECIPES`: `buffer`, `window`, `blocks`, `vector`, `summary`,
        `hybrid`, `graph`, `user_memories`, `consolidating` or `self_editing`.

        `given` are the recipe's parameters (`turns=4`, say) and what `from_defaults` takes, which win over
        the recipe's settings. With `chat`, what is learned is learned with that model.

        Raises:
            ConfigError: there is no such recipe, or a value is impossible.
        """
        chosen = recipes.recipe(recipe)
        made = chosen.made(**{name: value for name, value in given.items() if name in chosen.parameters})
        given = {name: value for name, value in given.items() if name not in chosen.parameters}
        if chat is not None:
            services = (services or Services(index=Settings.from_environment().index)).with_chat(chat)
        return cls.from_defaults(
            session_id, user_id, memory_blocks=made.blocks, services=services, **{**made.settings, **given}
        )

    @classmethod
    def open(
        cls,
        session_id: str,
        database: Database,
        *,
        services: Services,
        tokenizer_fn: Tokenizer | None = None,
        clock: Clock = time.time,
    ) -> "Memory":
        """An existing session with what is stored; blocks that this process cannot make show what they last held.

        Raises:
            NotFoundError: there is no such session.
        """
        session = Session(database, session_id, services=services, tokenizer_fn=tokenizer_fn, clock=clock)
        session.open()
        return cls(session)

    # -- putting ----------------------------------------------------------------------------------

    def put(self, message: ChatMessage, *, message_id: str | None = None, wait: bool = True) -> Receipt:
        """Append one message; flush if the history budget is exceeded.

        When it returns, the message is stored. `message_id` makes it idempotent: an id the session
        has already changes nothing. With `wait`, the first attempt of every delivery is waited
        for, at most `delivery_timeout` seconds; a block that fails never makes a put fail.

        Raises:
            MessageError: this is not a message, or it cannot be stored.
            NotFoundError: the session was deleted.
            StoreError: the database cannot be reached.
        """
        return self.put_messages([message], message_ids=[message_id] if message_id else None, wait=wait)

    def put_messages(
        self,
        messages: Sequence[ChatMessage],
        *,
        message_ids: Sequence[str] | None = None,
        end_turn: bool = False,
        wait: bool = True,
    ) -> Receipt:
        """Append messages in one transaction, then flush at most once. See `put`.

        `end_turn`: the newest turn is complete with them, answered or not.
        """
        ids = list(message_ids) if message_ids is not None else [uuid.uuid4().hex for _ in messages]
        if len(ids) != len(messages) or len(set(ids)) != len(ids):
            raise MessageError("give each message an id of its own, as many ids as messages")
        prepared = queue.prepare(self._session, messages, ids)
        with self._session.writing() as w:
            self._session.refresh(w)
            known = known_ids(w.connection, self.session_id, ids) if message_ids is not None else {}
            seqs = queue.append(self._session, w, prepared, known)
            plan = queue.flush_queue(self._session, w, "over_budget")
            queue.queue_turns(self._session, w, closing=end_turn)
            queue_tokens = w.session.queue(self.config.accounting).tokens
        return Receipt(tuple(seqs), plan or None, self._serve(wait), queue_tokens)

    def foresee(self, messages: Sequence[ChatMessage]) -> None:
        """Let blocks prepare in the background for messages that will be put, a recording's say. Stores nothing."""
        for attached in self.blocks:
            if attached.block is not None and attached.learns:
                attached.block.foresee(messages, self._session.services)

    def flush(self, all: bool = False, *, wait: bool = True) -> Receipt:
        """Move one batch out of the queue by the usual boundary rules, whatever its size.

        `all=True` closes the session: everything leaves, and what is due at the end is due.
        """
        with self._session.writing() as w:
            self._session.refresh(w)
            plan = queue.flush_queue(self._session, w, "closed" if all else "asked")
            if all:
                queue.queue_turns(self._session, w, closing=True)
                queue.queue_session_end(self._session, w)
                w.record(SessionClosed())
            queue_tokens = w.session.queue(self.config.accounting).tokens
        return Receipt((), plan or None, self._serve(wait), queue_tokens)

    def set(self, messages: Sequence[ChatMessage], *, archive: bool = False) -> Receipt:
        """Replace the queue; the archive and what was learned stay, unless `archive`. Then flush.

        What the new list has in common with the queue from its beginning keeps its place, so
        handing back what `get` returned, with more at the end, is a put of what is new.
        `archive` forgets everything first, as `reset` does.
        """
        prepared = queue.prepare(self._session, messages, [uuid.uuid4().hex for _ in messages])
        with self._session.writing() as w:
            self._session.refresh(w)
            emptied = collections_of(w.connection, self.session_id) if archive else set()
            if archive:
                reset_messages(w, None, with_user_memory=False)
                self._session.load(w.connection, w.session)
            prepared = queue.without_sections(self._session, w.connection, prepared)
            current = read_messages(w.connection, self.session_id, self.services.messages, status=MessageStatus.ACTIVE)
            names = [attached.name for attached in self.blocks]
            same = 0
            for have, new in zip(current, prepared, strict=False):
                safe = neutralise_message(have.message, names)  # as a context showed it
                if new.json not in (have.message.to_json(), safe.to_json()):
                    break
                same += 1
            gone = current[same:]
            if gone:
                remove_messages(w, [message.seq for message in gone])
                tokens = sum(message.tokens.by(self.config.accounting) for message in gone)
                w.record(QueueReplaced(removed=ranges(message.seq for message in gone), tokens=tokens))
            seqs = [message.seq for message in current[:same]]
            opening = all(message.pinned for message in current[:same])
            seqs += add_messages(w, prepared[same:], counter=self._session.counter.id, opening=opening)
            plan = queue.flush_queue(self._session, w, "over_budget")
            queue.queue_turns(self._session, w)
            queue_tokens = w.session.queue(self.config.accounting).tokens
        receipt = Receipt(tuple(seqs), plan or None, self._serve(True), queue_tokens)
        if archive:
            self.database.forget_log()
            recall.forget_copies(self._session, emptied)
        return receipt

    def reset(self, status: MessageStatus | str | None = None, *, user_memory: bool = False) -> None:
        """Forget messages (None: all) and what was learned from them alone.

        What has other support stays; what is the user's stays unless `user_memory`.

        Raises:
            VectorIndexError: everything was forgotten, but for the copy of the vectors in an index out of reach.
        """
        with self._session.writing() as w:
            before = collections_of(w.connection, self.session_id)
            reset_messages(w, MessageStatus(status) if status else None, with_user_memory=user_memory)
            emptied = before - collections_of(w.connection, self.session_id)
            self._session.load(w.connection, w.session)
        self.database.forget_log()
        recall.forget_copies(self._session, emptied)

    # -- reading ----------------------------------------------------------------------------------

    def get(
        self,
        input: str | ChatMessage | Sequence[ChatMessage] | None = None,
        *,
        messages: Sequence[ChatMessage] | None = None,
        **arguments: Any,
    ) -> list[ChatMessage]:
        """The messages for the model: memory section and queue. Further arguments go to the blocks.

        `input` (or `messages`, not stored yet) is what the context is for; it is not part of it.
        """
        return list(self.build_context(input if input is not None else messages, **arguments).messages)

    def build_context(
        self,
        input: str | ChatMessage | Sequence[ChatMessage] | None = None,
        *,
        record: bool = True,
        **arguments: Any,
    ) -> Context:
        """The messages for the model with the plan that produced them.

        `record=False` leaves no event: for looking only.

        Raises:
            ContextOverflowError: over the limit, and `when_over` is `"raise"`.
        """
        arguments.pop("initial_token_count", None)  # LlamaIndex's chat engines pass it, for nothing
        return build_context(self._session, input, record=record, arguments=arguments)

    def preview(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        blocks: Mapping[str, Mapping[str, Any]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Sequence[Fact]] | None = None,
        without: Collection[str] = (),
        added: Sequence[BaseMemoryBlock[Any]] = (),
        input: str | None = None,
    ) -> Context:
        """The context as it would be under other settings, or with other blocks. Changes nothing.

        `blocks` are changed settings by block, `texts` other words of static blocks, `facts` the active
        facts of a block in place of those stored, `without` blocks left out, `added` blocks not there yet.

        Raises:
            ConfigError: a value is impossible.
        """
        wanted = ImaginedBlocks(blocks or {}, texts or {}, facts or {}, without, added)
        return build_context(self._imagined(changes, wanted), input, record=False)

    def next_prompt(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        message: ChatMessage | None = None,
        blocks: Mapping[str, Mapping[str, Any]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Sequence[Fact]] | None = None,
        graphs: Mapping[str, Graph] | None = None,
        without: Collection[str] = (),
        added: Sequence[BaseMemoryBlock[Any]] = (),
    ) -> NextPrompt:
        """What the next user message will do: the flush it causes, then the prompt. Changes nothing.

        `message` is that message; without it the next one of a recording, else one of no words. The rest is as in
        `preview`: how settings and blocks would stand. What blocks learn from the flush is in it, but for those that
        need a model for it (`NextPrompt.unknown`).

        Raises:
            ConfigError: a value is impossible.
        """
        wanted = ImaginedBlocks(blocks or {}, texts or {}, facts or {}, without, added, graphs or {})
        session = self._imagined(changes, wanted)
        if message is None:
            known = self.recording()
            coming = known.next_turn if known is not None else ()
            message = next((each for each in coming if each.role is MessageRole.USER), None)
        return foretelling.next_prompt(session, message)

    def flush_plan(self) -> FlushPlan:
        """What `flush()` would move out of the queue now. Changes nothing."""
        self.refresh()
        return foretelling.flush_now(self._session)

    def _imagined(self, changes: Mapping[str, Any] | None, blocks: ImaginedBlocks) -> Session:
        self.refresh()
        return self._session.imagined(self.config.changed(**(changes or {})), blocks)

    def record(self, *events: Event, actor: Actor = "engine") -> None:
        """Add events of a caller's own to the log, an agent's model calls, say."""
        with self._session.writing() as w:
            w.record(*events, actor=actor)

    def branch(self, turn: int, *, title: str | None = None, step: Step | None = None) -> "Memory":
        """Another session that stands as this one stood at the end of a turn; this one is not touched.

        What was due then and not delivered is due there. What was erased since stays erased, and facts
        of the user are shared, as they are now. `step` is told how many rows were stored, piece by piece; what it
        raises ends the work, and leaves nothing.

        Raises:
            NotFoundError: there is no such turn.
        """
        return Memory(branch_session(self._session, turn, title=title, step=step))

    # -- a recorded conversation, played into the session -----------------------------------------

    def attach_recording(self, messages: Sequence[ChatMessage], *, source: str, skipped: int = 0) -> None:
        """Keep a recorded conversation with the session, to be played into it turn by turn."""
        with self._session.writing() as w:
            w.session.recording = w.keep(recording.encode(messages))
            w.record(SessionImported(source=source, messages=len(messages), skipped=skipped), actor="curator")

    # -- deliveries -------------------------------------------------------------------------------

    def deliver(self, *, timeout: float | None = None, force: bool = True) -> dict[str, Served]:
        """Attempt what waits, now, after whoever is serving a block at the moment, and wait for vectors that follow.

        `force=False` leaves alone what has its next attempt later, and what somebody else is serving.
        """
        served = delivery.serve(self._session, timeout=timeout, force=force)
        if force:
            reembed.settled(self._session, timeout)
        return served

    def learn_here(self, blocks: Collection[str] | None = None) -> dict[str, Served]:
        """Learn what waits for a model that is not at hand with what this process has: rules, or a model of its own.

        `blocks` by name; None: all that wait. From now on any process learns for them, until a program opens the
        session with a model for them.
        """
        self.refresh()
        waits = {each.name for each in self.blocks if each.waits_for(self._session.services) is not None}
        delivery.free(self._session, waits if blocks is None else waits & set(blocks))
        return self.deliver()

    def retry_deliveries(self, ids: Sequence[int] | None = None) -> dict[str, Served]:
        """Attempt parked deliveries again (None: all of them)."""
        delivery.retry(self._session, ids)
        return self.deliver()

    def skip_deliveries(self, ids: Sequence[int]) -> None:
        """Give deliveries up; their messages stay in the archive."""
        delivery.skip(self._session, ids)

    # -- the same for async code ------------------------------------------------------------------

    async def aput(self, message: ChatMessage, **options: Any) -> Receipt:
        return await asyncio.to_thread(self.put, message, **options)

    async def aput_messages(self, messages: Sequence[ChatMessage], **options: Any) -> Receipt:
        return await asyncio.to_thread(self.put_messages, messages, **options)

    async def aget(
        self, input: str | ChatMessage | Sequence[ChatMessage] | None = None, **arguments: Any
    ) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get, input, **arguments)

    async def aget_all(self, status: MessageStatus | str | None = None) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get_all, status)

    async def aset(self, messages: Sequence[ChatMessage]) -> Receipt:
        return await asyncio.to_thread(self.set, messages)

    async def areset(self, status: MessageStatus | str | None = None) -> None:
        await asyncio.to_thread(self.reset, status)

    # -- the session -------------------------------------------------------------------------------------

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
    def blocks(self) -> tuple[SessionBlock, ...]:
        """The session's blocks in their order."""
        return self._session.blocks

    @property
    def memory_blocks(self) -> list[BaseMemoryBlock[Any]]:
        """The block objects, LlamaIndex's name; those that this process cannot make are missing."""
        return [attached.block for attached in self._session.blocks if attached.block is not None]

    @property
    def has_tools(self) -> bool:
        """May an agent edit one of the blocks? Then its model is offered tools (see `memory_core.agent.tools`)."""
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
        return self.services.cached(key, Log).catch_up(self.database, self.session_id)

    def unread(self) -> int:
        """Events that this process has not read yet: `history`, and with it most of what is here, reads them first."""
        key = "history", self.database.id, self.session_id
        return self.services.cached(key, Log).unread(self.database, self.session_id)

    def read_ahead(self, progress: Callable[[int], None] | None = None) -> None:
        """Read the log and what vector blocks have stored into this process, where it was not yet.

        `progress` is given the number of events read so far, in the end that of all.
        """
        key = "history", self.database.id, self.session_id
        self.services.cached(key, Log).catch_up(self.database, self.session_id, progress)
        explain.read_ahead(self._session)

    def words(self, hashes: Iterable[str]) -> dict[str, str]:
        """Words by the hash that events know them by; those erased since are missing."""
        scopes = [session_scope(self.session_id), *([user_scope(self.user_id)] if self.user_id else ())]
        wanted = set(hashes)
        with self.database.read() as connection:
            return {key: text for scope in scopes for key, text in contents(connection, scope, wanted).items()}

    def prompt(self, context: EventRecord) -> Prompt:
        """A past prompt part by part, word for word; `context` is a recorded one, `history().turns[12].built`, say."""
        return self._prompts().read(self._session, self.history(), context, self.words)

    def shared_prefix_tokens(self, before: EventRecord, after: EventRecord, *, insert_method: str | None = None) -> int:
        """Billed tokens with which the prompts of two recorded contexts begin alike: what a prompt cache can reuse.

        As they were sent, or as they would be with the memory section put in by `insert_method`.
        """
        method = None if insert_method is None else InsertMethod(insert_method)
        return self._prompts().shared_prefix_tokens(self._session, self.history(), before, after, self.words, method)

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
            return self.services.cached(("usage", self.database.id, self.session_id), UsageCount).catch_up(history)
        key = "usage", self.database.id, self.session_id, upto, history.position
        return self.services.cached(key, lambda: usage_of(history.upto(upto)))

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

        They were stored under another, or while it failed, and are found by keyword only until `reembed`.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the dimension of the model's vectors is not known yet and its endpoint does not answer.
        """
        return reembed.stored_under_others(self._session, block)

    # -- what searches find ------------------------------------------------------------------------

    def vectors_follow(self, block: str) -> bool:
        """Are stored units of a vector block being embedded in the background? They are found by keyword so far."""
        return reembed.follow(self._session, block)

    def search(self, query: str, *, block: str | None = None, settings: Mapping[str, Any] | None = None) -> Search:
        """What a question would find in a vector block (None: the first), and what becomes of it. Records nothing.

        `settings` of the block (`similarity_top_k`, `similarity_threshold`, ...) are tried, not stored.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: a setting is impossible, or the block stores no turns.
        """
        self.refresh()
        return explain.search(self._session, query, block=block, settings=settings)

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
        them, letters' case aside; `filters` by any field: see `memory_core.blocks.fact_search.fits`. Changes nothing.

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
        return recall.recall_turns(self._session, query, block=block)

    def recorded_searches(self, turn: int, block: str, *, upto: int | None = None) -> list[Search]:
        """The searches of a turn as they were recorded, in order; at most 25 candidates of each, the rest as counts.

        `upto` is the position of the log up to which they are looked for, None its end.
        """
        return explain.recorded_searches(self._session, turn, block, upto)

    def found_by(self, number: int, *, block: str | None = None, upto: int | None = None) -> tuple[FoundBy, ...]:
        """The recorded searches that had a stored turn of a vector block (None: the first) among their candidates.

        Newest first; `upto` is the position of the log up to which they are looked for, None its end.

        Raises:
            NotFoundError: no block is named, and none stores turns.
        """
        name = explain.vector_block(self._session, None).name if block is None else block
        history = self.history()
        return found_by(history.upto(history.position if upto is None else upto), name, number)

    def neighbours(self, block: str, number: int, *, limit: int = 5) -> tuple[Neighbour, ...]:
        """The stored turns nearest to one of them by meaning, nearest first.

        Raises:
            NotFoundError: there is no such block or stored turn.
        """
        return explain.neighbours(self._session, block, number, limit=limit)

    def turn_map(
        self, block: str, *, query: Vector | None = None, keep: Collection[int] = (), most: int = explain.MOST_DRAWN
    ) -> TurnMap:
        """Stored turns on a plane, at most `most` of them, those in `keep` first; and where a query's vector lies.

        Raises:
            NotFoundError: there is no such block.
        """
        return explain.turn_map(self._session, block, query, keep, most)

    # -- settings and blocks -------------------------------------------------------------------------------

    def configure(
        self, *, opened: Mapping[str, Any] | None = None, actor: Actor = "curator", **changes: Any
    ) -> MemoryConfig:
        """Change settings; a lowered limit acts at the next put.

        `opened` are the settings that the change started from: if any of them is another meanwhile, nothing is saved.

        Raises:
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a setting was changed elsewhere meanwhile.
        """
        editing.configure(self._session, changes, opened or {}, actor)
        return self.config

    def rename(self, title: str, *, actor: Actor = "curator") -> None:
        """Give the session another title."""
        editing.rename(self._session, title, actor)

    # -- blocks ------------------------------------------------------------------------------------

    def add_block(self, block: BaseMemoryBlock[Any], *, actor: Actor = "curator") -> None:
        """Add a block in mid-session. `fill_block` gives it what left the queue before.

        Raises:
            ConfigError: the name is taken, or the block is the user's and there is no user.
        """
        editing.add_block(self._session, block, actor)

    def fill_block(self, name: str, *, wait: bool = True) -> dict[str, Served]:
        """Deliver to a block that came later what was never due to it: the archive, or every complete turn.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        with self._session.writing() as w:
            switch_recipe.fill(self._session, w, attached)
        return self._serve(wait)

    def remove_block(self, name: str, *, actor: Actor = "curator") -> None:
        """Remove a block and its stored turns; facts stay in the database, and return with a block of that name.

        Raises:
            NotFoundError: there is no such block.
        """
        editing.remove_block(self._session, name, actor)

    def configure_block(
        self, name: str, *, opened: Mapping[str, Any] | None = None, actor: Actor = "curator", **settings: Any
    ) -> None:
        """Change a block's settings (priority, truncation, enabled, top-k, ...). See `configure_blocks`."""
        editing.configure_blocks(self._session, {name: settings}, None, {name: opened} if opened else {}, actor)

    def configure_blocks(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        *,
        order: Sequence[str] | None = None,
        opened: Mapping[str, Mapping[str, Any]] | None = None,
        actor: Actor = "curator",
    ) -> None:
        """Change settings of several blocks, and their order (see `order_blocks`) with them: all or nothing.

        `opened` are the settings that the change started from, by block: if any of them is another
        meanwhile, nothing is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a block was changed or removed elsewhere meanwhile.
        """
        editing.configure_blocks(self._session, changes, order, opened or {}, actor)

    def order_blocks(
        self, names: Sequence[str], *, opened: Sequence[str] | None = None, actor: Actor = "curator"
    ) -> None:
        """Put the blocks into another order: that of the prompt, and of blocks with one priority, first cut first.

        Raises:
            ConfigError: not every block is named once.
            ConflictError: they are no longer as `opened` has them.
        """
        editing.order_blocks(self._session, names, opened, actor)

    def edit_block(self, name: str, text: str, *, revision: int | None = None, actor: Actor = "curator") -> int:
        """Give a static block or a summary other words; the new revision.

        `revision` is the one the edit started from: if it is no longer the newest, nothing is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block has no text of its own, or a summary would be longer than it may be.
            ConflictError: it was changed elsewhere meanwhile.
        """
        return editing.edit_block(self._session, name, text, revision, actor)

    def restore_block(self, name: str, earlier: int, *, revision: int | None = None, actor: Actor = "curator") -> int:
        """Give a static block or a summary the words of an earlier revision again; the new revision. See `edit_block`.

        Raises:
            NotFoundError: there is no such block, or it never had that revision.
            ConflictError: it was changed elsewhere since `revision`.
        """
        return editing.restore_block(self._session, name, earlier, revision, actor)

    def forget_turn(self, block: str, number: int, *, actor: Actor = "curator") -> None:
        """Delete a stored turn from a vector block: it is found no more. Its messages stay in the archive.

        Raises:
            NotFoundError: there is no such block, or no such stored turn any more.
        """
        explain.forget_turn(self._session, block, number, actor)

    def reembed(
        self,
        block: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        actor: Actor = "curator",
    ) -> int:
        """Give what a vector block (None: the first) stored under other embedding models, or while one failed,
        vectors of the present one; how many stored turns got one.

        They keep their numbers. Each 200 are stored at once, and `progress` is told how many are done, and of how
        many; what is done stays done, so after an error, or a stop half way, the next call goes on from there.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the embedding model cannot be loaded or does not answer.
        """
        return reembed.reembed(self._session, block, progress, actor)

    def take_up_vectors(self) -> None:
        """Go on, in the background, with the vectors that a process which ended left to follow."""
        reembed.take_up(self._session)

    # -- recipes -----------------------------------------------------------------------------------

    def switch_plan(self, recipe: str, **parameters: Any) -> SwitchPlan:
        """What switching to a recipe would keep, add, remove and change. Changes nothing.

        Raises:
            ConfigError: there is no such recipe, a parameter is impossible, or it needs a user.
        """
        return switch_recipe.plan_switch(self._session, recipe, parameters)

    def switch(self, recipe: str, *, wait: bool = True, actor: Actor = "curator", **parameters: Any) -> SwitchPlan:
        """Switch the session to a recipe: all or nothing. What comes is filled from the messages that are there.

        Raises:
            ConfigError: see `switch_plan`; nothing was changed.
            ConflictError: the blocks were changed elsewhere meanwhile.
        """
        plan = switch_recipe.switch(self._session, recipe, parameters, actor)
        self._serve(wait)
        return plan

    # -- desks: what a person does to what blocks hold ---------------------------------------------

    def curation(self, block: str) -> Curation:
        """The curation desk of a facts block: change sets with undo, what waits for review, rewrites.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: it holds no facts.
        """
        return Curation(self._session, block)

    def graph(self, block: str | None = None) -> GraphDesk:
        """The desk of a graph block (None: the first): relations, paths, changes with undo.

        Raises:
            NotFoundError: there is no such block, or none that holds a graph.
            ConfigError: the block holds no graph.
        """
        return GraphDesk(self._session, block)

    def summary(self, block: str | None = None) -> SummaryDesk:
        """The desk of a summary block (None: the first): how fresh it is, every text it had, rewriting on demand.

        Raises:
            NotFoundError: there is no such block, or none that keeps a summary.
            ConfigError: the block keeps no summary.
        """
        return SummaryDesk(self._session, block)

    # -- inside ------------------------------------------------------------------------------------

    def _serve(self, wait: bool) -> dict[str, Served]:
        if not any(attached.learns for attached in self.blocks):
            return {}
        return delivery.serve(self._session, timeout=self.config.delivery_timeout if wait else 0)

    def _prompts(self) -> Prompts:
        key = "prompts", self.database.id, self.session_id
        return self.services.cached(key, lambda: Prompts(self.session_id))

    @staticmethod
    def _existing(state: SessionState | None) -> SessionState:
        if state is None or state.deleted_at is not None:
            raise NotFoundError("This session does not exist any more.")
        return state
