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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core import delivery, editing, queueing, recording, searching
from memory_core.analysis.history import History
from memory_core.analysis.prompt import Prompt
from memory_core.analysis.usage import Tally, Usage, usage_of
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.branching import branch_session
from memory_core.config import MemoryConfig, Settings
from memory_core.context import Context, build_context
from memory_core.curation import Curation
from memory_core.delivery import Served
from memory_core.errors import MessageError, NotFoundError
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
from memory_core.log import Log
from memory_core.messages import ChatMessage, MessageStatus, independent
from memory_core.planning.facts import Fact
from memory_core.planning.flush import FlushPlan
from memory_core.planning.rendering import InsertMethod, neutralise_message
from memory_core.prompts import Prompts
from memory_core.recording import Recording
from memory_core.searching import Neighbour, Search, TurnMap
from memory_core.services import Services
from memory_core.session import Attached, ImaginedBlocks, Session
from memory_core.status import Status, status_of
from memory_core.store.blocks import Holding, TextRevision, read_holding, read_revisions
from memory_core.store.database import Database
from memory_core.store.deliveries import (
    Delivery,
    given_seqs,
    in_transit,
    read_deliveries,
)
from memory_core.store.erasing import message_seqs, remove_messages, reset_messages
from memory_core.store.facts import FactRevision, read_facts, read_history
from memory_core.store.log import last_position, read_events
from memory_core.store.messages import (
    StoredMessage,
    add_messages,
    known_ids,
    read_messages,
)
from memory_core.store.vectors import read_nodes
from memory_core.store.writing import Clock, SessionState, contents, read_session, session_scope, user_scope
from memory_core.tokens import Tokenizer
from memory_core.vectors.base import Vector


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


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """One unit of a vector block: its number, the turn of the conversation it is from, its messages."""

    number: int
    turn: int
    tokens: int
    messages: tuple[StoredMessage, ...]


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
        had been given before; see `memory_core.session`.

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
            queueing.as_text(message)  # before anything is stored
        session.create_or_join(
            title=title, user_id=user_id, config=given, blocks=memory_blocks, without_messages=bool(history)
        )
        memory = cls(session)
        if history:
            memory.put_messages(history)
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
        """An existing session with what is stored; blocks that this process cannot make show what they last held.

        Raises:
            NotFoundError: there is no such session.
        """
        session = Session(database, session_id, services=services, tokenizer_fn=tokenizer_fn, clock=clock)
        session.open()
        return cls(session)

    # -- what it is -------------------------------------------------------------------------------

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
    def blocks(self) -> tuple[Attached, ...]:
        """The session's blocks in their order."""
        return self._session.blocks

    @property
    def memory_blocks(self) -> list[BaseMemoryBlock[Any]]:
        """The block objects, LlamaIndex's name; those that this process cannot make are missing."""
        return [attached.block for attached in self._session.blocks if attached.block is not None]

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as this session counts them."""
        return self._session.counter.text(text)

    @property
    def counter_id(self) -> str:
        """What tokens are counted with: a tiktoken encoding, or a tokenizer function's name."""
        return self._session.counter.id

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
        self, messages: Sequence[ChatMessage], *, message_ids: Sequence[str] | None = None, wait: bool = True
    ) -> Receipt:
        """Append messages in one transaction, then flush at most once. See `put`."""
        ids = list(message_ids) if message_ids is not None else [uuid.uuid4().hex for _ in messages]
        if len(ids) != len(messages) or len(set(ids)) != len(ids):
            raise MessageError("give each message an id of its own, as many ids as messages")
        prepared = queueing.prepare(self._session, messages, ids)
        with self._session.writing() as w:
            self._session.refresh(w)
            known = known_ids(w.connection, self.session_id, ids) if message_ids is not None else {}
            seqs = queueing.append(self._session, w, prepared, known)
            plan = queueing.flush_queue(self._session, w, "over_budget")
            queueing.queue_turns(self._session, w)
            queue_tokens = w.session.queue(self.config.accounting).tokens
        return Receipt(tuple(seqs), plan or None, self._serve(wait), queue_tokens)

    def flush(self, all: bool = False, *, wait: bool = True) -> Receipt:
        """Move one batch out of the queue by the usual boundary rules, whatever its size.

        `all=True` closes the session: everything leaves, and what is due at the end is due.
        """
        with self._session.writing() as w:
            self._session.refresh(w)
            plan = queueing.flush_queue(self._session, w, "closed" if all else "asked")
            if all:
                queueing.queue_turns(self._session, w, closing=True)
                queueing.queue_session_end(self._session, w)
                w.record(SessionClosed())
            queue_tokens = w.session.queue(self.config.accounting).tokens
        return Receipt((), plan or None, self._serve(wait), queue_tokens)

    def set(self, messages: Sequence[ChatMessage]) -> Receipt:
        """Replace the queue; the archive and what was learned stay. Then flush.

        What the new list has in common with the queue from its beginning keeps its place, so
        handing back what `get` returned, with more at the end, is a put of what is new.
        """
        prepared = queueing.prepare(self._session, messages, [uuid.uuid4().hex for _ in messages])
        with self._session.writing() as w:
            self._session.refresh(w)
            prepared = queueing.without_sections(self._session, w.connection, prepared)
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
            plan = queueing.flush_queue(self._session, w, "over_budget")
            queueing.queue_turns(self._session, w)
            queue_tokens = w.session.queue(self.config.accounting).tokens
        return Receipt(tuple(seqs), plan or None, self._serve(True), queue_tokens)

    def reset(self, status: MessageStatus | str | None = None, *, user_memory: bool = False) -> None:
        """Forget messages (None: all) and what was learned from them alone.

        What has other support stays; what is the user's stays unless `user_memory`.
        """
        with self._session.writing() as w:
            reset_messages(w, MessageStatus(status) if status else None, with_user_memory=user_memory)
            self._session.load(w.connection, w.session)
        self.database.forget_log()

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
        self.refresh()
        config = self.config.changed(**(changes or {}))
        wanted = ImaginedBlocks(blocks or {}, texts or {}, facts or {}, without, added)
        return build_context(self._session.imagined(config, wanted), input, record=False)

    def get_all(self, status: MessageStatus | str | None = None) -> list[ChatMessage]:
        """Every message of the session in order, or those in the queue or the archive only."""
        return [independent(stored.message) for stored in self.messages(status)]

    def messages(
        self,
        status: MessageStatus | str | None = None,
        *,
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
        key = f"history/{self.database.id}/{self.session_id}"
        return self.services.remembered(key, Log).catch_up(self.database, self.session_id)

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

    def record(self, *events: Event, actor: Actor = "engine") -> None:
        """Add events of a caller's own to the log, an agent's model calls, say."""
        with self._session.writing() as w:
            w.record(*events, actor=actor)

    def branch(self, turn: int, *, title: str | None = None) -> "Memory":
        """Another session that stands as this one stood at the end of a turn; this one is not touched.

        What was due then and not delivered is due there. What was erased since stays erased, and facts
        of the user are shared, as they are now.

        Raises:
            NotFoundError: there is no such turn.
        """
        return Memory(branch_session(self._session, turn, title=title))

    # -- a recorded conversation, played into the session -----------------------------------------

    def attach_recording(self, messages: Sequence[ChatMessage], *, source: str, skipped: int = 0) -> None:
        """Keep a recorded conversation with the session, to be played into it turn by turn."""
        with self._session.writing() as w:
            w.session.recording = w.keep(recording.encode(messages))
            w.record(SessionImported(source=source, messages=len(messages), skipped=skipped), actor="curator")

    def recording(self) -> Recording | None:
        """The recorded conversation and how far it has been played; None when there is none."""
        with self.database.read() as connection:
            return recording.read(connection, self._existing(read_session(connection, self.session_id)))

    # -- deliveries -------------------------------------------------------------------------------

    def deliver(self, *, timeout: float | None = None, force: bool = True) -> dict[str, Served]:
        """Attempt what waits, now, after whoever is serving a block at the moment.

        `force=False` leaves alone what has its next attempt later, and what somebody else is serving.
        """
        return delivery.serve(self._session, timeout=timeout, force=force)

    def deliveries(self, *, states: Sequence[str] | None = None, last: int | None = None) -> list[Delivery]:
        """Deliveries in order, by state (`pending`, `done`, `parked`, `skipped`) or all."""
        with self.database.read() as connection:
            return read_deliveries(connection, self.session_id, states=states, last=last)

    def retry_deliveries(self, ids: Sequence[int] | None = None) -> dict[str, Served]:
        """Attempt parked deliveries again (None: all of them)."""
        delivery.retry(self._session, ids)
        return self.deliver()

    def skip_deliveries(self, ids: Sequence[int]) -> None:
        """Give deliveries up; their messages stay in the archive."""
        delivery.skip(self._session, ids)

    # -- configuration and blocks -----------------------------------------------------------------

    def configure(self, *, actor: Actor = "curator", **changes: Any) -> MemoryConfig:
        """Change settings; a lowered limit acts at the next put.

        Raises:
            ConfigError: a value is impossible; nothing was changed.
        """
        editing.configure(self._session, changes, actor)
        return self.config

    def rename(self, title: str, *, actor: Actor = "curator") -> None:
        """Give the session another title."""
        editing.rename(self._session, title, actor)

    def add_block(self, block: BaseMemoryBlock[Any], *, actor: Actor = "curator") -> None:
        """Add a block in mid-session. `fill_block` gives it what left the queue before.

        Raises:
            ConfigError: the name is taken, or the block is the user's and there is no user.
        """
        editing.add_block(self._session, block, actor)

    def fill_block(self, name: str, *, wait: bool = True) -> dict[str, Served]:
        """Deliver to a block that came later what is in the archive and was never due to it.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        with self._session.writing() as w:
            archived = message_seqs(w.connection, self.session_id, MessageStatus.ARCHIVED)
            given = given_seqs(w.connection, self.session_id, name)
            for first, last in ranges(seq for seq in archived if seq not in given) if attached.kind != "static" else ():
                queueing.queue_for(self._session, w, attached, "archive", range(first, last + 1))
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
        """Give a static block other words; the new revision.

        `revision` is the one the edit started from: if it is no longer the newest, nothing is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block is not static.
            ConflictError: it was changed elsewhere meanwhile.
        """
        return editing.edit_block(self._session, name, text, revision, actor)

    def restore_block(self, name: str, earlier: int, *, revision: int | None = None, actor: Actor = "curator") -> int:
        """Give a static block the words of an earlier revision again; the new revision. See `edit_block`.

        Raises:
            NotFoundError: there is no such block, or it never had that revision.
            ConflictError: it was changed elsewhere since `revision`.
        """
        return editing.restore_block(self._session, name, earlier, revision, actor)

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
            return self.services.remembered(f"usage/{self.database.id}/{self.session_id}", Tally).catch_up(history)
        key = f"usage/{self.database.id}/{self.session_id}/{upto}/{history.position}"
        return self.services.remembered(key, lambda: usage_of(history.upto(upto)))

    def block_revisions(self, name: str) -> list[TextRevision]:
        """Every text a static block had, oldest first."""
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

    def curation(self, block: str) -> Curation:
        """The curation desk of a facts block: change sets with undo, what waits for review, rewrites.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: it holds no facts.
        """
        return Curation(self._session, block)

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

    # -- looking into what is stored ----------------------------------------------------------------

    def search(self, query: str, *, block: str | None = None, settings: Mapping[str, Any] | None = None) -> Search:
        """What a question would find in a vector block (None: the first), and what becomes of it. Records nothing.

        `settings` of the block (`similarity_top_k`, `similarity_threshold`, ...) are tried, not stored.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: a setting is impossible, or the block stores no turns.
        """
        self.refresh()
        return searching.search(self._session, query, block=block, settings=settings)

    def recorded_searches(self, turn: int, block: str) -> list[Search]:
        """The searches of a turn as they were recorded, in order; at most 50 candidates of each, the rest as counts."""
        return searching.recorded_searches(self._session, turn, block)

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

    def forget_turn(self, block: str, number: int, *, actor: Actor = "curator") -> None:
        """Delete a stored turn from a vector block: it is found no more. Its messages stay in the archive.

        Raises:
            NotFoundError: there is no such block, or no such stored turn any more.
        """
        searching.forget_turn(self._session, block, number, actor)

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

    # -- inside -----------------------------------------------------------------------------------

    def _prompts(self) -> Prompts:
        key = f"prompts/{self.database.id}/{self.session_id}"
        return self.services.remembered(key, lambda: Prompts(self.session_id))

    def _serve(self, wait: bool) -> dict[str, Served]:
        if not any(attached.learns for attached in self.blocks):
            return {}
        return delivery.serve(self._session, timeout=self.config.delivery_timeout if wait else 0)

    @staticmethod
    def _existing(state: SessionState | None) -> SessionState:
        if state is None or state.deleted_at is not None:
            raise NotFoundError("This session does not exist any more.")
        return state
