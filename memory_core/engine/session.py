"""Open session: its configuration and blocks, as stored, joined with the caller's objects."""

import copy
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from memory_core.blocks import BUILT_IN, WITH_TEXT, plugins
from memory_core.blocks.base import BaseMemoryBlock, Batch
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock, decode, encode
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, NotFoundError
from memory_core.events import QueueRecounted
from memory_core.planning.fact_merging import Fact
from memory_core.planning.graph_rules import Graph
from memory_core.planning.quarantine import NOTHING_IN_QUARANTINE, Quarantine, quarantine_of
from memory_core.services import Services
from memory_core.store.block_rows import BlockRecord, read_blocks
from memory_core.store.database import Database
from memory_core.store.message_rows import QueueRow, StoredMessage, read_queue, recount
from memory_core.store.quarantine_rows import read_all_sets
from memory_core.store.writing import (
    LEARNERS,
    Clock,
    SessionState,
    Writing,
    read_existing,
    read_texts,
    session_scope,
    user_scope,
    writing,
)
from memory_core.tokens import TokenCounter, Tokenizer, counter_for, default_counter

Block = BaseMemoryBlock[Any]


@dataclass(frozen=True, slots=True)
class SessionBlock:
    """Block of the session; `block` is None if this process cannot make it."""

    record: BlockRecord
    block: Block | None
    state: str | None
    """Stored fields of a custom block, or the text of a static block or a summary."""
    initial: str | None = None
    """Fields of a custom block before it learned anything, and after a reset."""
    learner: str | None = None
    """Name of the model that learns for the block; None: any process may learn for it."""

    def waits_for(self, services: Services) -> str | None:
        """Return the name of the model that the block waits for; None if this process may learn for it."""
        here = self.block.learner(services) if self.block is not None else None
        return self.learner if self.learner != here else None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def kind(self) -> str:
        return self.block.kind if self.block else self.record.type if self.record.type in BUILT_IN else "custom"

    @property
    def priority(self) -> int:
        """Priority of the block; 0: never cut."""
        return int(self.record.settings.get("priority", 0))

    @property
    def learns(self) -> bool:
        """True if the block receives messages."""
        settings = self.record.settings
        wanted = settings.get("enabled", True) and settings.get("accept_short_term_memory", True)
        return bool(wanted) and self.kind != "static"

    @property
    def settings(self) -> dict[str, Any]:
        """Stored settings, with defaults for settings that a later version added."""
        defaults = self.block.settings() if self.block is not None else {}
        return {**defaults, **self.record.settings}

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Merge changes into the settings, without checking the values.

        Raises:
            ConfigError: the block has no such setting, or the setting is `name`, which cannot be changed.
        """
        # The name is a field of every block, but the key of its row and of its log: it cannot change.
        unknown = set(changes) - set(self.settings) | {"name"} & set(changes)
        if unknown:
            raise ConfigError(f'the block "{self.name}" has no setting called {sorted(unknown)[0]!r}')
        return {**self.settings, **changes}

    @property
    def deliver_on(self) -> str:
        return str(self.record.settings.get("deliver_on", "flush"))


@dataclass(frozen=True, slots=True)
class ImaginedBlocks:
    """Trial changes to a session's blocks, for building a context that is not recorded."""

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Changed settings by block."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Replacement text by static block or summary."""
    facts: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    """Active facts by block, in place of the stored ones."""
    without: Collection[str] = ()
    added: Sequence[Block] = ()
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    """Graph by block, in place of the stored one."""

    def of(self, attached: SessionBlock) -> SessionBlock:
        """Return the block with the trial changes applied.

        Raises:
            ConfigError: a setting is impossible, or the block has no text, no facts or no graph.
        """
        name = attached.name
        # Settings first: the replacements below are put into the changed copy.
        attached = _with_settings(attached, self.settings.get(name, {}))
        if name in self.texts:
            if attached.kind not in WITH_TEXT:
                raise ConfigError(
                    f'the text of "{name}" is learned, not written: only static blocks and summaries are edited'
                )
            attached = replace(attached, state=encode(self.texts[name]))
            if isinstance(attached.block, StaticMemoryBlock):
                block = attached.block.model_copy(update={"static_content": self.texts[name]})
                attached = replace(attached, block=block)
        if name in self.facts:
            if not isinstance(attached.block, FactExtractionMemoryBlock):
                raise ConfigError(f'the block "{name}" holds no facts')
            attached = replace(attached, block=attached.block.imagining(self.facts[name]))
        if name in self.graphs:
            if not isinstance(attached.block, GraphMemoryBlock):
                raise ConfigError(f'the block "{name}" holds no graph')
            attached = replace(attached, block=attached.block.imagining(self.graphs[name]))
        return attached


class Session:
    """State of one session, shared by the engine's parts. It takes no lock of its own."""

    def __init__(
        self,
        database: Database,
        session_id: str,
        *,
        services: Services,
        tokenizer_fn: Tokenizer | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.database = database
        self.id = session_id
        self.services = services
        self.clock = clock
        self.user_id: str | None = None
        self.config = MemoryConfig()
        self.blocks: tuple[SessionBlock, ...] = ()
        self._loaded: tuple[float, int] | None = None
        """Revision of `config` and `blocks`; None if they are still to be loaded."""
        self.tokenizer_fn = tokenizer_fn
        """The caller's own tokenizer, if it gave one."""
        # The counter of a configuration, made anew for another one.
        self._counting: tuple[MemoryConfig, TokenCounter | None] = self.config, None
        # The program's own objects by name; they are used in place of new ones whenever blocks are loaded.
        self._given: dict[str, Block] = {}
        self._initial: dict[str, str] = {}
        self._imagined = False
        # Rows of the queue, with the key under which they are still valid (see `queue`).
        self._queue: tuple[object, tuple[QueueRow, ...]] = (None, ())
        self._other_queue: tuple[QueueRow, ...] | None = None
        self._other_quarantine: Quarantine | None = None

    @property
    def whole_id(self) -> tuple[str, str]:
        """Id that is unique across databases."""
        return self.database.id, self.id

    @property
    def counter(self) -> TokenCounter:
        """Token counter of this session's configuration."""
        config, counter = self._counting
        if counter is None or config is not self.config:
            counter = self.config.counting(self._own_counter or _encoding(self.config.encoding))
            self._counting = self.config, counter
        return counter

    @property
    def counter_id(self) -> str:
        """Id of `counter`, without loading its encoding, which takes 0.3 s the first time."""
        config, counter = self._counting
        if counter is None or config is not self.config:
            counter = self.config.counting(self._own_counter or TokenCounter(list, id=self.config.encoding))
        return counter.id

    @cached_property
    def _own_counter(self) -> TokenCounter | None:
        """Counter of the caller's own tokenizer; made once, as its id takes some calls of it."""
        return counter_for(self.tokenizer_fn) if self.tokenizer_fn else None

    def adopt(self, blocks: Sequence[Block], *, initial: Mapping[str, str] | None = None) -> None:
        """Use a program's block objects as the live ones; `initial`: JSON fields of custom blocks by name."""
        for block in blocks:
            block.hand_over(self.whole_id)
            self._given[block.name] = block
        self._initial.update(initial or {})

    def block(self, name: str) -> SessionBlock:
        """Return the block of that name.

        Raises:
            NotFoundError: the session has no such block.
        """
        for attached in self.blocks:
            if attached.name == name:
                return attached
        raise NotFoundError(f'This session has no block called "{name}".')

    def imagined(self, config: MemoryConfig, blocks: "ImaginedBlocks") -> "Session":
        """Return a copy of the session under another configuration, with trial changes to its blocks. Read-only."""
        other = copy.copy(self)
        other.config = config
        stay = [attached for attached in self.blocks if attached.name not in blocks.without]
        other.blocks = (*(blocks.of(attached) for attached in stay), *(_unstored(block) for block in blocks.added))
        other._imagined = True
        return other

    def with_queue(self, rows: Sequence[QueueRow]) -> "Session":
        """Return a copy of the session with another queue. Read-only."""
        other = copy.copy(self)
        other._imagined, other._other_queue = True, tuple(rows)
        return other

    def with_quarantine(self, quarantine: Quarantine) -> "Session":
        """Return a copy of the session with other items in quarantine. Read-only."""
        other = copy.copy(self)
        other._imagined, other._other_quarantine = True, quarantine
        return other

    def with_blocks(self, blocks: Sequence[SessionBlock]) -> "Session":
        """Return a copy of the session with other block states. Read-only."""
        other = copy.copy(self)
        other._imagined, other.blocks = True, tuple(blocks)
        return other

    def batch(self, messages: Sequence[StoredMessage], state: str | None, *, deliveries: Sequence[int] = ()) -> Batch:
        """Return these messages as a batch, with the services and the quarantine that a block needs to learn from them;
        `state`: the block's fields or text."""
        with self.database.read() as connection:
            quarantine = self.quarantine(connection)
        return Batch(
            deliveries=tuple(deliveries),
            messages=tuple(messages),
            session_id=self.id,
            user_id=self.user_id,
            database=self.database,
            counter=self.counter,
            services=self.services,
            state=state,
            quarantine=quarantine,
            context_tokens=self.config.learning_context,
        )

    @property
    def scopes(self) -> tuple[str, ...]:
        """Database scopes that the session reads: its own and, if it has a user, the user's."""
        return session_scope(self.id), *([user_scope(self.user_id)] if self.user_id is not None else [])

    def quarantine(self, connection: Connection, state: SessionState | None = None) -> Quarantine:
        """Return the items in quarantine, which the session's prompts may not hold; `state`, if it was just read."""
        if self._other_quarantine is not None:
            return self._other_quarantine
        # Nothing ever was in this session, and without a user there is no other one.
        if state is not None and state.quarantined is False and self.user_id is None:
            return NOTHING_IN_QUARANTINE
        return quarantine_of(read_all_sets(connection, self.id, self.user_id))

    def sibling(self, session_id: str) -> "Session":
        """Open another session with the services, tokenizer and copies of the block objects of this one.

        A branch thus learns with the same models. Static blocks are not copied: their stored texts apply.

        Raises:
            NotFoundError: there is no such session.
        """
        other = Session(
            self.database, session_id, services=self.services, tokenizer_fn=self.tokenizer_fn, clock=self.clock
        )
        # Copies, as a block object belongs to one session only.
        other._given = {name: block.on_its_own() for name, block in self._given.items() if block.kind != "static"}
        other._initial = dict(self._initial)
        other.open()
        return other

    @contextmanager
    def changing(self) -> Iterator[Writing]:
        """Open a writing transaction after loading what another process changed."""
        with self.writing() as w:
            self.refresh(w)
            yield w

    @contextmanager
    def writing(self, *, create: SessionState | None = None, patience: float | None = None) -> Iterator[Writing]:
        """Open a writing transaction on this session; see `memory_core.store.writing.writing`."""
        config, blocks = self.config, self.blocks
        try:
            with writing(self.database, self.id, clock=self.clock, create=create, patience=patience) as w:
                yield w
        except BaseException:
            # Values loaded inside were rolled back: restore the former ones, and load again at the next use.
            self.config, self.blocks, self._loaded = config, blocks, None
            raise

    # -- opening ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open an existing session with what is stored.

        Raises:
            NotFoundError: there is no such session.
        """
        with self.database.read() as connection:
            self.keep_up(connection)

    def queue(self, connection: Connection, state: SessionState | None = None) -> tuple[QueueRow, ...]:
        """Return the messages of the queue, pinned ones included. Between flushes only new rows are read.

        `state`: what `keep_up` has just returned.
        """
        state = state or self.keep_up(connection)
        if self._other_queue is not None:
            return self._other_queue
        # A flush takes rows away, a removal or other settings change the version, an accounting changes the sizes.
        key = (state.flushes, _version(state), self.config.accounting)
        position, rows = self._queue
        if position != key:
            rows = ()
        # Otherwise messages were only appended, and those known need not be read again.
        last = rows[-1].sized.seq if rows else 0
        if last + 1 < state.next_seq:
            new = read_queue(connection, self.id, self.config.accounting, self.services.messages, after=last)
            rows = (*rows, *new)
        self._queue = (key, rows)
        return rows

    def keep_up(self, connection: Connection) -> SessionState:
        """Load what another process changed, custom blocks' fields included. For read transactions.

        Raises:
            NotFoundError: the session was deleted.
        """
        state = read_existing(connection, self.id)
        # A trial copy keeps its configuration and blocks, whatever is stored meanwhile.
        if self._imagined:
            return state
        # A custom block's fields change with each delivery, without a new revision.
        learned = any(attached.record.type not in BUILT_IN for attached in self.blocks)
        if learned or _version(state) != self._loaded:
            self.load(connection, state)
        return state

    def load(self, connection: Connection, state: SessionState) -> None:
        """Load the stored configuration, and every block with its settings and state."""
        self.user_id = state.user_id
        self.config = MemoryConfig(**json.loads(state.config))
        records = read_blocks(connection, self.id)
        hashes = [key for record in records for key in (record.state, record.text) if key]
        words = read_texts(connection, state.scope, hashes)
        learners = json.loads(state.constructor).get(LEARNERS, {})
        self.blocks = tuple(self._attach(record, words, learners.get(record.name)) for record in records)
        self._loaded = _version(state)

    def refresh(self, w: Writing) -> None:
        """Load configuration and blocks if another process changed them. For write transactions."""
        # The session's row is locked, so nothing can change between this comparison and the writing.
        if _version(w.session) != self._loaded:
            self.load(w.connection, w.session)
        self.recount(w)

    def recount(self, w: Writing) -> None:
        """Count the queue again if it was counted with another tokenizer."""
        if w.session.counter == self.counter_id:
            return
        counter = self.counter
        before, had = w.session.counter, w.session.queue(self.config.accounting).tokens
        w.session.counter = counter.id
        # An empty queue has nothing to count: only the id is noted, and no event.
        if w.session.queue_messages or w.session.pinned_messages:
            recount(w, counter, self.services.messages)
            after = w.session.queue(self.config.accounting).tokens
            w.session.revision += 1
            w.record(QueueRecounted(before=before, after=counter.id, tokens_before=had, tokens_after=after))

    def _attach(self, record: BlockRecord, words: dict[str, str], learner: str | None) -> SessionBlock:
        state = words.get(record.text or record.state or "")
        block = self._given.get(record.name)
        initial = None
        # Before its first delivery a custom block has the fields of its constructor, stored with the block or just
        # given.
        if record.type not in BUILT_IN:
            initial = json.loads(record.constructor)["state"] if record.constructor else self._initial.get(record.name)
            state = initial if record.state is None else state
        if block is None and record.type in BUILT_IN:
            extra = {"static_content": decode(state or "")} if record.type == "static" else {}
            block = BUILT_IN[record.type](name=record.name, **extra)
        # The program gave no object of this custom class: an installed plug-in may make one.
        if block is None:
            block = plugins.made(record.type, record.name)
        if block is not None:
            # Stored values win over those of the object; they were reconciled when the program opened the session.
            block.apply(record.settings)
            # So that the program's object shows the stored text and fields.
            if isinstance(block, StaticMemoryBlock) and state is not None:
                block.mirror({"static_content": decode(state)})
            elif record.type not in BUILT_IN:
                block.take_state(state)
        return SessionBlock(record=record, block=block, state=state, initial=initial, learner=learner)


def _version(state: SessionState) -> tuple[float, int]:
    """Return a value that changes with the configuration, and for a new session under a reused id."""
    return state.created_at, state.revision


def _unstored(block: Block) -> SessionBlock:
    """Return a block that is not stored, in the state right after it is added."""
    state = encode(block.static_content) if isinstance(block, StaticMemoryBlock) else None
    record = BlockRecord(block.name, 0, block.type, block.settings(), "", None, 0, None)
    if isinstance(block, FactExtractionMemoryBlock):
        block = block.imagining(())
    if block.type not in BUILT_IN:
        state = block.state_json()
    return SessionBlock(record=record, block=block, state=state)


def _with_settings(attached: SessionBlock, changes: Mapping[str, Any]) -> SessionBlock:
    if not changes:
        return attached
    settings = attached.changed(changes)
    block = None
    if attached.block is not None:
        # A copy: the live block must not take over trial settings.
        block = attached.block.model_copy()
        block.apply(settings)
    return replace(attached, record=replace(attached.record, settings=settings), block=block)


def _encoding(name: str) -> TokenCounter:
    try:
        return default_counter(name)
    except OSError as error:  # tiktoken tried to download it
        raise ConfigError(f"encoding cannot be {name!r}: its file is not here, and could not be fetched") from error
