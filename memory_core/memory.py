"""`Memory`: the engine's public interface. A `Memory` reads, lets the planners decide, applies and records.

    memory = Memory.from_defaults(session_id="demo", token_limit=4000, memory_blocks=[...])
    memory.put(ChatMessage(role="user", content="Hello"))
    messages = memory.get()

Names and meanings are LlamaIndex's. Everything is synchronous and written once; `aput`, `aget` and
the others run the same code in a worker thread.
"""

import asyncio
import time
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from memory_core import recipes
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.config import MemoryConfig, Settings
from memory_core.engine import delivery, queue
from memory_core.engine.context import Context, build_context
from memory_core.engine.delivery import Served
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import ConfigError, MemoryInspectorError, MessageError
from memory_core.events import Actor, EventRecord, SessionClosed
from memory_core.formats import notebooks
from memory_core.formats.any_message import GivenMessage, as_messages
from memory_core.messages import ChatMessage, MessageStatus, independent
from memory_core.models.protocols import ChatModel
from memory_core.planning.flush import FlushPlan
from memory_core.planning.rendering import neutralise_message
from memory_core.process import measured
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.erasing import reset_messages
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import read_messages
from memory_core.store.vector_rows import collections_of
from memory_core.store.writing import Clock, Step
from memory_core.tokens import Tokenizer

if TYPE_CHECKING:
    from memory_core.curation.block_desks import SessionBlocks
    from memory_core.curation.graph_desk import GraphDesk
    from memory_core.curation.known_facts import SessionFacts
    from memory_core.retrieval.retrieval import SessionRetrieval
    from memory_core.sessions.handle import SessionHandle, SessionLog
    from memory_core.sessions.preview import SessionPreview
    from memory_core.tracing.tracer import SessionTracer


@dataclass(frozen=True, slots=True)
class Receipt:
    """Result of a put."""

    seqs: tuple[int, ...]
    """Sequence number of each message, in the order given; a message whose id was put before keeps its number.

    A message that consists only of this engine's memory section has no number, as it is not stored."""
    flushed: FlushPlan | None
    """Plan with the messages that left the queue; None if none left."""
    served: dict[str, Served]
    """Outcome of each block's deliveries; those still running count as waiting."""
    queue_tokens: int
    """Tokens in the queue after the put."""

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of the blocks whose deliveries are not all done."""
        return tuple(name for name, served in self.served.items() if served.outcome != "done")


T = TypeVar("T")


class _Setting(Generic[T]):
    """A setting of the session as an attribute, under LlamaIndex's name; to set it is to `configure`."""

    def __init__(self, read: str | None = None) -> None:
        self._read = read

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, memory: "Memory", owner: type) -> T:
        return cast(T, self if memory is None else getattr(memory._session.config, self._read or self._name))

    def __set__(self, memory: "Memory", value: T) -> None:
        changes: dict[str, Any] = {self._name: value}
        memory.configure(**changes)


class _LazyPart(Generic[T]):
    """A part of a memory, whose module is loaded when it is first asked for: a put and a prompt need none of them."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, memory: "Memory", owner: type) -> T:
        if memory is None:
            return cast(T, self)
        module, _, name = self._path.rpartition(".")
        part: T = getattr(import_module(module), name)(memory._session)
        memory.__dict__[self._name] = part  # read from there from now on
        return part


class Memory:
    """Memory of one session; a context manager that closes it.

    Thread-safe; any number of processes may open the same session. `Memory(token_limit=...)` is LlamaIndex's
    constructor, and the same as `Memory.from_defaults(token_limit=...)`.
    """

    token_limit = _Setting[int]()
    token_flush_size = _Setting[int]("flush_size")
    chat_history_token_ratio = _Setting[float]()
    insert_method = _Setting[str]()

    session: "_LazyPart[SessionHandle]" = _LazyPart("memory_core.sessions.handle.SessionHandle")
    blocks: "_LazyPart[SessionBlocks]" = _LazyPart("memory_core.curation.block_desks.SessionBlocks")
    facts: "_LazyPart[SessionFacts]" = _LazyPart("memory_core.curation.known_facts.SessionFacts")
    log: "_LazyPart[SessionLog]" = _LazyPart("memory_core.sessions.handle.SessionLog")
    retrieval: "_LazyPart[SessionRetrieval]" = _LazyPart("memory_core.retrieval.retrieval.SessionRetrieval")
    preview: "_LazyPart[SessionPreview]" = _LazyPart("memory_core.sessions.preview.SessionPreview")
    trace: "_LazyPart[SessionTracer]" = _LazyPart("memory_core.tracing.tracer.SessionTracer")

    def __init__(self, session: Session | None = None, **settings: Any) -> None:
        self._owned = ExitStack()
        """Stack that closes the database and the services that were opened for this memory."""
        if session is None:
            made = Memory.from_defaults(**settings)
            session, self._owned = made._session, made._owned
        elif settings:
            raise ConfigError(f"{min(settings)} is a setting of a session to be made, and this one is there already")
        self._session: Session = session

    _repr_html_ = notebooks.repr_html

    def __repr__(self) -> str:
        """Return session, limit, queue and blocks in one line; without the queue if the session cannot be read."""
        try:
            status = self.session.status()
            number = status.queue_messages
            queue = f", queue: {status.queue_tokens:,} tokens in {number:,} message{'s' * (number != 1)}"
        except MemoryInspectorError:
            queue = ""
        limit, names = self._session.config.token_limit, ", ".join(block.name for block in self.blocks)
        return f"<Memory {self.session_id!r}: limit {limit:,} tokens{queue}, blocks: {names or 'none'}>"

    @property
    def graph(self) -> "GraphDesk":
        """The first graph block's relations, paths and changes with undo; for another, see `blocks.graph(name)`.

        Raises:
            NotFoundError: no block holds a graph.
        """
        return self.blocks.graph()

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
        chat_history: Sequence[GivenMessage] | None = None,
        database_uri: str | None = None,
        async_database_uri: str | None = None,
        engine: Any = None,
        async_engine: Any = None,
        db_schema: str | None = None,
        tenant: str = "",
        database: Database | None = None,
        title: str = "",
        services: Services | None = None,
        clock: Clock = time.time,
        **settings: Any,
    ) -> "Memory":
        """Make a session's memory, or join the session if it exists in the database.

        `database` is an open database. Without any database the memory is kept in this process, unless
        `MEMORY_INSPECTOR_DATABASE_URL` or `MEMORY_INSPECTOR_HOME` name a database. Sessions of different tenants share
        nothing. Any other setting of `MemoryConfig` may be passed too. Stored values of an existing session win over
        arguments that are unchanged since the last call for this session; see `memory_core.engine.reconcile`.

        Raises:
            ConfigError: a setting is impossible, two blocks have one name, or `chat_history` is
                given for a session that has messages.
            MessageError: one of `chat_history` is not a message, or cannot be stored.
            StoreError: the database cannot be reached.
        """
        arguments = {
            "token_limit": token_limit,
            "chat_history_token_ratio": chat_history_token_ratio,
            "token_flush_size": token_flush_size,
            "insert_method": insert_method,
            **settings,
        }
        # None is "not given", as in LlamaIndex: a stored value of an existing session then applies.
        arguments = {name: value for name, value in arguments.items() if value is not None}
        # Refuses an impossible value before a database is opened or made.
        MemoryConfig(**arguments)
        environment = Settings.from_environment()
        history = [message for arguments in chat_history or () for message in as_messages(arguments)]
        for message in history:
            message.to_json()  # refused before anything is stored
        # What is opened here is closed if anything below fails, and otherwise belongs to the memory (`pop_all`).
        with ExitStack() as owned:
            if services is None:  # services passed in already determine who learns, as in the Lab
                services = owned.enter_context(Services(index=environment.index))
                for block in memory_blocks or ():
                    block.check_services(services)
            if database is None:
                uri = database_uri or async_database_uri
                # An engine stands for its own database: the environment must not name another one.
                where = uri if uri or engine or async_engine else environment.database
                opened = Database.open(where, engine=engine or async_engine, schema=db_schema, tenant=tenant)
                database = owned.enter_context(opened)
            session = Session(
                database,
                session_id or str(uuid.uuid4()),
                services=services,
                tokenizer_fn=tokenizer_fn,
                clock=clock,
            )
            create_or_join(
                session,
                title=title,
                user_id=user_id,
                config=arguments,
                blocks=memory_blocks,
                without_messages=bool(history),
            )
            memory = cls(session)
            delivery.serve_closed(session)
            if history:
                memory.put_messages(history)
            memory._owned = owned.pop_all()
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
        **settings: Any,
    ) -> "Memory":
        """Make a memory from one of `memory_core.recipes.RECIPES`: `buffer`, `window`, `blocks`, `vector`, `summary`,
        `hybrid`, `graph`, `user_memories`, `consolidating` or `self_editing`.

        `settings` are the recipe's parameters (such as `turns=4`) and arguments of `from_defaults`, which win
        over the recipe's settings. With `chat`, blocks learn with that model.

        Raises:
            ConfigError: there is no such recipe, or a value is impossible.
        """
        chosen = recipes.recipe(recipe)
        # Arguments with the name of a parameter are the recipe's, all others are settings.
        made = chosen.made(**{name: value for name, value in settings.items() if name in chosen.parameters})
        settings = {name: value for name, value in settings.items() if name not in chosen.parameters}
        with ExitStack() as owned:
            if chat is not None:
                services = services or owned.enter_context(Services(index=Settings.from_environment().index))
                services = services.with_chat(chat)
            # A caller's settings win over the recipe's.
            memory = cls.from_defaults(
                session_id, user_id, memory_blocks=made.blocks, services=services, **{**made.settings, **settings}
            )
            memory._owned.push(owned.pop_all())
        return memory

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
        """Open an existing session; blocks that this process cannot make show their last contents.

        Raises:
            NotFoundError: there is no such session.
        """
        session = Session(database, session_id, services=services, tokenizer_fn=tokenizer_fn, clock=clock)
        session.open()
        return cls(session)

    def close(self) -> None:
        """Close the memory, with the database and services that were opened for it; a second call does nothing.

        Later use raises `StoreError`. Due deliveries stay due, and are made when the
        session is opened again; a session that is kept in this process is lost, with its branches.
        """
        # A closed view for this memory: the database may be shared and stay open for others.
        self._session.database = self._session.database.closed_for("memory")
        self._owned.close()

    def __enter__(self) -> "Memory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, message: GivenMessage, *, message_id: str | None = None, wait: bool = True) -> Receipt:
        """Append one message; flush if the history budget is exceeded.

        The message may also be a mapping in OpenAI's form, or a client library's answer, tool calls included.
        When the call returns, the message is stored. `message_id` makes it idempotent: a put with an id that
        the session already has changes nothing. With `wait`, the first attempt of every delivery is waited
        for, at most `delivery_timeout` seconds; a block that fails never makes a put fail.

        Raises:
            MessageError: this is not a message, or it cannot be stored.
            NotFoundError: the session was deleted.
            StoreError: the database cannot be reached.
        """
        return self.put_messages([message], message_ids=[message_id] if message_id else None, wait=wait)

    def put_messages(
        self,
        messages: Sequence[GivenMessage],
        *,
        message_ids: Sequence[str] | None = None,
        end_turn: bool = False,
        whole: bool = False,
        wait: bool = True,
    ) -> Receipt:
        """Append messages in one transaction, then flush at most once. See `put`.

        A list without ids that begins with the whole history, as front ends send it, only puts what follows.
        `end_turn`: the newest turn counts as complete with these messages, answered or not. `whole`: the list is the
        conversation so far, perhaps cut or edited: what follows the last message that is stored already is put.
        """
        ids = list(message_ids) if message_ids is not None else [uuid.uuid4().hex for _ in messages]
        # The same id twice would be noticed only by the database, as a conflict of keys.
        if len(ids) != len(messages) or len(set(ids)) != len(ids):
            raise MessageError("give each message an id of its own, as many ids as messages")
        new = queue.prepare(self._session, messages, ids)
        with measured("put", self._session.database.tenant), self._session.changing() as w:
            seqs, plan = queue.put(self._session, w, new, named=message_ids is not None, whole=whole, end_turn=end_turn)
        # After the commit: blocks learn from what is stored, and may take long.
        return self._receipt(seqs, plan, wait)

    def flush(self, all: bool = False, *, wait: bool = True) -> Receipt:
        """Move one batch out of the queue by the usual boundary rules, whatever its size.

        `all=True` closes the session: everything leaves, and blocks that learn at the end of a session learn now.
        """
        with self._session.changing() as w:
            plan = queue.flush_queue(self._session, w, "closed" if all else "asked")
            if all:
                queue.queue_turns(self._session, w, closing=True)
                queue.queue_session_end(self._session, w)
                w.record(SessionClosed())
        return self._receipt((), plan, wait)

    def set(self, messages: Sequence[GivenMessage], *, archive: bool = False) -> Receipt:
        """Replace the queue; the archive and what was learned stay, unless `archive`. Then flush.

        The common beginning of the new list and the queue is kept, so setting the result of `get` with
        messages appended only puts the appended ones. `archive` forgets everything first, as `reset` does.
        """
        prepared = queue.prepare(self._session, messages, [uuid.uuid4().hex for _ in messages])
        with self._session.changing() as w:
            # Read before everything is erased, as the collections are not known afterwards.
            emptied = collections_of(w.connection, self.session_id) if archive else set()
            if archive:
                reset_messages(w, None, with_user_memory=False)
                self._session.load(w.connection, w.session)
            # First, as the list is usually a prompt that was sent, memory section included.
            prepared = queue.without_sections(self._session, w, prepared)
            current = read_messages(
                w.connection, self.session_id, self._session.services.messages, status=MessageStatus.ACTIVE
            )
            names = [attached.name for attached in self.blocks]
            same = 0
            for have, new in zip(current, prepared, strict=False):
                safe = neutralise_message(have.message, names)  # as a context showed it
                # Compared in the stored form, and as a prompt shows it, where forged markup is escaped.
                if new.json not in (have.message.to_json(), safe.to_json()):
                    break
                same += 1
            gone = current[same:]
            if gone:
                tokens = sum(message.tokens.by(self._session.config.accounting) for message in gone)
                queue.drop(w, [message.seq for message in gone], tokens)
            seqs = [message.seq for message in current[:same]]
            # Where only pinned messages are kept, system messages at the front of the new ones are instructions again.
            opening = all(message.pinned for message in current[:same])
            seqs += queue.add(self._session, w, prepared[same:], opening=opening)
            plan = queue.flush_queue(self._session, w, "over_budget")
            queue.queue_turns(self._session, w)
        receipt = self._receipt(seqs, plan, wait=True)
        # After the commit: until then the old words are still valid.
        if archive:
            self._session.database.forget_log()
            _forget_copies(self._session, emptied)
        return receipt

    def _receipt(self, seqs: Sequence[int], plan: FlushPlan, wait: bool) -> Receipt:
        """Let blocks learn what became due, and return what was done."""
        served = delivery.serve_put(self._session, wait)
        return Receipt(tuple(seqs), plan if plan.leave else None, served, plan.tokens_left)

    def reset(self, status: MessageStatus | str | None = None, *, user_memory: bool = False) -> None:
        """Forget messages (None: all) and what was learned from them alone.

        Items with other sources stay; the user's memory stays unless `user_memory`.

        Raises:
            ConfigError: there is no such status.
            VectorIndexError: everything was forgotten, except copies of vectors in an index that cannot be reached.
        """
        with self._session.writing() as w:
            before = collections_of(w.connection, self.session_id)
            reset_messages(w, MessageStatus(status) if status else None, with_user_memory=user_memory)
            # Only collections that lost all their units; an index notices other removals at the next search.
            emptied = before - collections_of(w.connection, self.session_id)
            self._session.load(w.connection, w.session)
        self._session.database.forget_log()
        _forget_copies(self._session, emptied)

    def get(
        self,
        input: str | ChatMessage | Sequence[ChatMessage] | None = None,
        *,
        messages: Sequence[ChatMessage] | None = None,
        **arguments: Any,
    ) -> list[ChatMessage]:
        """Return the messages for the model: memory section and queue. Other arguments are passed to the blocks.

        `input` (or `messages`), not stored yet, is the question for which memory is read; it is not returned.
        """
        return list(self.build_context(input if input is not None else messages, **arguments).messages)

    def build_context(
        self,
        input: str | ChatMessage | Sequence[ChatMessage] | None = None,
        *,
        record: bool = True,
        reserved_tokens: int | None = None,
        **arguments: Any,
    ) -> Context:
        """Return the messages for the model with the plan that produced them.

        `record=False` records no event, as for a look at the context. `reserved_tokens` are those of the agent's system
        prompt and tools in this call, in place of the setting of that name.

        Raises:
            ConfigError: `reserved_tokens` is impossible.
            ContextOverflowError: the context is over the limit, and `when_over` is `"raise"`.
        """
        # Of the system prompt, by LlamaIndex's chat engines; 0 if they could not count it.
        counted = arguments.pop("initial_token_count", None) or None
        beside = counted if reserved_tokens is None else reserved_tokens
        with measured("context", self._session.database.tenant) if record else nullcontext():
            return build_context(self._session, input, record=record, reserved_tokens=beside, arguments=arguments)

    def branch(self, turn: int, *, title: str | None = None, step: Step | None = None) -> "Memory":
        """Create another session from this one's state at the end of a turn; this one is not changed.

        Deliveries due at that time are due in the branch. Words erased since stay erased, and the user's
        facts are shared, in their present state. `step` receives the number of rows stored so far; an
        exception from it cancels the branch and leaves nothing.

        Raises:
            NotFoundError: there is no such turn.
        """
        from memory_core.sessions.branch import branch_session

        return Memory(branch_session(self._session, turn, title=title, step=step))

    def deliver(self, *, timeout: float | None = None, force: bool = True) -> dict[str, Served]:
        """Attempt waiting deliveries now, after any attempt in progress, and wait for the vectors they need.

        `force=False` skips deliveries whose next attempt is later, and those that another process serves.
        """
        from memory_core.sessions.handle import deliver

        return deliver(self._session, timeout=timeout, force=force)

    def watch(self) -> notebooks.Watching:
        """Show this memory in a notebook cell that is drawn anew as turns are added, by this process or another.

        It ends when the memory is closed, or `stop()` is called on the result.

        Raises:
            ConfigError: there is no notebook, or no installed package draws.
        """
        return notebooks.watch(self)

    async def aput(self, message: GivenMessage, **options: Any) -> Receipt:
        return await asyncio.to_thread(self.put, message, **options)

    async def aput_messages(self, messages: Sequence[GivenMessage], **options: Any) -> Receipt:
        return await asyncio.to_thread(self.put_messages, messages, **options)

    async def aget(
        self, input: str | ChatMessage | Sequence[ChatMessage] | None = None, **arguments: Any
    ) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get, input, **arguments)

    async def aget_all(self, status: MessageStatus | str | None = None) -> list[ChatMessage]:
        return await asyncio.to_thread(self.get_all, status)

    async def aset(self, messages: Sequence[GivenMessage]) -> Receipt:
        return await asyncio.to_thread(self.set, messages)

    async def areset(self, status: MessageStatus | str | None = None) -> None:
        await asyncio.to_thread(self.reset, status)

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def tokenizer_fn(self) -> Tokenizer:
        """Function that counts: the caller's own, or that of the encoding."""
        return self._session.counter.tokenizer

    @property
    def sql_store(self) -> Database:
        """Database of the session, under LlamaIndex's name for its store of messages."""
        return self._session.database

    @property
    def memory_blocks(self) -> list[BaseMemoryBlock[Any]]:
        """Block objects, under LlamaIndex's name; blocks that this process cannot make are missing."""
        return [attached.block for attached in self._session.blocks if attached.block is not None]

    def get_all(self, status: MessageStatus | str | None = None) -> list[ChatMessage]:
        """Return every message of the session in order, or those in the queue or the archive only."""
        # The stored objects are shared and cached: a caller who changes one must not change the others.
        return [independent(stored.message) for stored in self.session.messages(status)]

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
        """Return the events with a position above `after`, oldest first unless `newest_first`; at most `limit`."""
        with self._session.database.read() as connection:
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

    def configure(
        self, *, opened: Mapping[str, Any] | None = None, actor: Actor = "user", **changes: Any
    ) -> MemoryConfig:
        """Change settings; a lowered limit acts at the next put.

        `opened` are the settings as they were when editing began: if one of them has changed since, nothing is saved.

        Raises:
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a setting was changed elsewhere meanwhile.
        """
        from memory_core.curation import settings as editing

        editing.configure(self._session, changes, opened or {}, actor)
        return self._session.config


def _forget_copies(session: Session, emptied: Collection[tuple[str, str]]) -> None:
    from memory_core.retrieval import retrieval  # here: not needed by a put or a prompt

    retrieval.forget_copies(session, emptied)
