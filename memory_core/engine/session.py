"""One opened session: its configuration and blocks, as stored, joined with the caller's objects.

Configuration and static texts are versioned per session. A constructor's values apply when the
session is made, and later when they differ from the last constructor's; otherwise what is stored
wins, an edit made in the app, say. Either way an event names the loser.
"""

import copy
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from memory_core.blocks import BUILT_IN, plugins
from memory_core.blocks.base import BaseMemoryBlock, Batch, scope_of
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock, decode, encode
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, NotFoundError
from memory_core.events import (
    Actor,
    BlockAdded,
    BlockEdited,
    BlockRemoved,
    BlocksOrdered,
    ConfigurationChanged,
    QueueRecounted,
    SessionCreated,
)
from memory_core.messages import content_hash, unstorable
from memory_core.planning.facts import Fact
from memory_core.planning.graph import Graph
from memory_core.services import Services
from memory_core.store.blocks import (
    WITH_TEXT,
    BlockRecord,
    add_block,
    read_blocks,
    remove_block,
    update_block,
    write_text,
)
from memory_core.store.database import Database
from memory_core.store.deliveries import skip_deliveries
from memory_core.store.facts import NewFact, add_fact, read_facts
from memory_core.store.messages import QueueRow, StoredMessage, read_queue, recount
from memory_core.store.writing import (
    LEARNERS,
    Clock,
    SessionState,
    Writing,
    contents,
    read_session,
    writing,
)
from memory_core.tokens import TokenCounter, Tokenizer, counter_for, default_counter

Block = BaseMemoryBlock[Any]


@dataclass(frozen=True, slots=True)
class SessionBlock:
    """A block of the session; `block` is None where this process cannot make it."""

    record: BlockRecord
    block: Block | None
    state: str | None
    """A custom block's fields, or the text of a static block or a summary, as stored."""
    initial: str | None = None
    """A custom block's fields before it learned anything, and again after a reset."""
    learner: str | None = None
    """The model that learns for it, where a program gave one; any process may learn for the others."""

    def waits_for(self, services: Services) -> str | None:
        """The model that learns for it, where that is not at hand here."""
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
        """0: never cut."""
        return int(self.record.settings.get("priority", 0))

    @property
    def learns(self) -> bool:
        """Is it given messages?"""
        settings = self.record.settings
        wanted = settings.get("enabled", True) and settings.get("accept_short_term_memory", True)
        return bool(wanted) and self.kind != "static"

    @property
    def settings(self) -> dict[str, Any]:
        """As stored, with the defaults of those that came with a later version."""
        defaults = self.block.settings() if self.block is not None else {}
        return {**defaults, **self.record.settings}

    def changed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with changes; whether the values are possible is the block's to say.

        Raises:
            ConfigError: the block has no such setting. Its name is none.
        """
        unknown = set(changes) - set(self.settings) | {"name"} & set(changes)
        if unknown:
            raise ConfigError(f'the block "{self.name}" has no setting called {sorted(unknown)[0]!r}')
        return {**self.settings, **changes}

    @property
    def deliver_on(self) -> str:
        return str(self.record.settings.get("deliver_on", "flush"))


@dataclass(frozen=True, slots=True)
class ImaginedBlocks:
    """How blocks would stand in a context that is only looked at."""

    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Changed settings by block."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Another text by static block or summary."""
    facts: Mapping[str, Sequence[Fact]] = field(default_factory=dict)
    """The active facts by block, in place of those that are stored."""
    without: Collection[str] = ()
    added: Sequence[Block] = ()
    graphs: Mapping[str, Graph] = field(default_factory=dict)
    """The graph by block, in place of what is stored."""

    def of(self, attached: SessionBlock) -> SessionBlock:
        """The block as it would stand.

        Raises:
            ConfigError: a setting is impossible, or the block has no text, no facts or no graph.
        """
        name = attached.name
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
    """What the parts of the engine share about one session. Thread-safe as far as its users are."""

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
        self.revision = 0
        self._tokenizer_fn = tokenizer_fn
        self._given: dict[str, Block] = {}
        self._initial: dict[str, str] = {}
        self._imagined = False
        self._queue: tuple[object, tuple[QueueRow, ...]] = (None, ())
        self._other_queue: tuple[QueueRow, ...] | None = None

    @property
    def _whole_id(self) -> tuple[str, str]:
        """The session among those of all databases."""
        return self.database.id, self.id

    @property
    def tokenizer_fn(self) -> Tokenizer | None:
        """The caller's own tokenizer, if it gave one."""
        return self._tokenizer_fn

    @property
    def counter(self) -> TokenCounter:
        """Counts as this session's configuration says."""
        return self._with_estimates(
            counter_for(self._tokenizer_fn) if self._tokenizer_fn else _encoding(self.config.encoding)
        )

    @property
    def counter_id(self) -> str:
        """The id of `counter`. An encoding is not loaded for it, which takes 0.3 s the first time."""
        return self._with_estimates(
            counter_for(self._tokenizer_fn) if self._tokenizer_fn else TokenCounter(list, id=self.config.encoding)
        ).id

    def _with_estimates(self, base: TokenCounter) -> TokenCounter:
        return base.with_estimates(
            image=self.config.image_token_size_estimate,
            audio=self.config.audio_token_size_estimate,
            video=self.config.video_token_size_estimate,
            document=self.config.document_token_size_estimate,
        )

    def block(self, name: str) -> SessionBlock:
        """The block of that name.

        Raises:
            NotFoundError: the session has none.
        """
        for attached in self.blocks:
            if attached.name == name:
                return attached
        raise NotFoundError(f'This session has no block called "{name}".')

    def imagined(self, config: MemoryConfig, blocks: "ImaginedBlocks") -> "Session":
        """The same session under another configuration, or with other blocks: for looking only."""
        other = copy.copy(self)
        other.config = config
        stay = [attached for attached in self.blocks if attached.name not in blocks.without]
        other.blocks = (*(blocks.of(attached) for attached in stay), *(_unstored(block) for block in blocks.added))
        other._imagined = True
        return other

    def with_queue(self, rows: Sequence[QueueRow]) -> "Session":
        """The same session with another queue: for looking only."""
        other = copy.copy(self)
        other._imagined, other._other_queue = True, tuple(rows)
        return other

    def with_blocks(self, blocks: Sequence[SessionBlock]) -> "Session":
        """The same session with its blocks as they would stand: for looking only."""
        other = copy.copy(self)
        other._imagined, other.blocks = True, tuple(blocks)
        return other

    def batch(self, messages: Sequence[StoredMessage], state: str | None, *, deliveries: Sequence[int] = ()) -> Batch:
        """Messages for a block to learn from, with what it may use; `state` is its stored fields or text."""
        return Batch(
            deliveries=tuple(deliveries),
            messages=tuple(messages),
            session_id=self.id,
            user_id=self.user_id,
            database=self.database,
            counter=self.counter,
            services=self.services,
            state=state,
        )

    def sibling(self, session_id: str) -> "Session":
        """Another session, opened with this one's services, tokenizer and copies of its block objects.

        So a branch learns with the same models. Static blocks are not among them: their words are the stored ones.

        Raises:
            NotFoundError: there is no such session.
        """
        other = Session(
            self.database, session_id, services=self.services, tokenizer_fn=self._tokenizer_fn, clock=self.clock
        )
        other._given = {name: block.on_its_own() for name, block in self._given.items() if block.kind != "static"}
        other._initial = dict(self._initial)
        other.open()
        return other

    @contextmanager
    def writing(self, *, create: SessionState | None = None, patience: float | None = None) -> Iterator[Writing]:
        """A transaction on this session; see `memory_core.store.writing.writing`."""
        config, blocks = self.config, self.blocks
        try:
            with writing(self.database, self.id, clock=self.clock, create=create, patience=patience) as w:
                yield w
        except BaseException:
            # What was taken over inside was never stored: back, and load again at the next use.
            self.config, self.blocks, self.revision = config, blocks, 0
            raise

    # -- opening ----------------------------------------------------------------------------------

    def create_or_join(
        self,
        *,
        title: str,
        user_id: str | None,
        config: dict[str, Any],
        blocks: Sequence[Block] | None,
        without_messages: bool = False,
    ) -> None:
        """Make the session, or open it and settle whose values apply.

        Raises:
            ConfigError: values are impossible, two blocks have one name, the session is another user's,
                or it has messages and should be `without_messages`; nothing was stored.
        """
        MemoryConfig(**config)  # before anything is stored
        for what, name in (("session_id", self.id), ("user_id", user_id or "")):
            if problem := unstorable(name):
                raise ConfigError(f"{what} {problem}")
        _check_names(blocks or ())
        made = [block.as_made(self._whole_id) for block in blocks or ()]
        with self.writing(create=_new_state(self.id, title, user_id, self.clock())) as w:
            if user_id is not None and w.session.user_id != user_id:
                raise ConfigError(f'the session "{self.id}" belongs to another user: choose another session_id')
            if without_messages and w.session.messages:
                raise ConfigError(f'the session "{self.id}" has messages already: leave chat_history out, or use set()')
            self.user_id = w.session.user_id
            if not w.session.counter:  # nobody has opened it yet; several may have inserted it at once
                w.record(SessionCreated(title=w.session.title, user_id=self.user_id))
            self._settle_config(w, config)
            self.config = MemoryConfig(**json.loads(w.session.config))
            if blocks is not None:
                self._settle_blocks(w, made)
            for block in blocks or ():
                block.hand_over(self._whole_id)
            self._given = {block.name: block for block in blocks or ()}
            w.flush_contents()
            self.load(w.connection, w.session)
            self._settle_learners(w)
            self.recount(w)

    def open(self) -> None:
        """Open an existing session with what is stored.

        Raises:
            NotFoundError: there is no such session.
        """
        self.revision = 0
        with self.database.read() as connection:
            self.keep_up(connection)

    def queue(self, connection: Connection) -> tuple[QueueRow, ...]:
        """The queue, pinned messages included. Between flushes it only grows, so only what is new is read."""
        state = self.keep_up(connection)
        if self._other_queue is not None:
            return self._other_queue
        key = (state.flushes, state.revision, self.config.accounting)
        known, rows = self._queue
        if known != key:
            rows = ()
        last = rows[-1].sized.seq if rows else 0
        if last + 1 < state.next_seq:
            new = read_queue(connection, self.id, self.config.accounting, self.services.messages, after=last)
            rows = (*rows, *new)
        self._queue = (key, rows)
        return rows

    def keep_up(self, connection: Connection) -> SessionState:
        """For reading: load again what another process changed, custom blocks' fields included.

        Raises:
            NotFoundError: the session was deleted.
        """
        state = read_session(connection, self.id)
        if state is None or state.deleted_at is not None:
            raise NotFoundError("This session does not exist any more.")
        if self._imagined:
            return state
        learned = any(attached.record.type not in BUILT_IN for attached in self.blocks)
        if learned or state.revision != self.revision:
            self.load(connection, state)
        return state

    def load(self, connection: Connection, state: SessionState) -> None:
        """Take over what is stored: configuration, and every block with its settings and state."""
        self.user_id = state.user_id
        self.config = MemoryConfig(**json.loads(state.config))
        records = read_blocks(connection, self.id)
        hashes = [key for record in records for key in (record.state, record.text) if key]
        words = contents(connection, state.scope, hashes)
        learners = json.loads(state.constructor).get(LEARNERS, {})
        self.blocks = tuple(self._attach(record, words, learners.get(record.name)) for record in records)
        self.revision = state.revision

    def refresh(self, w: Writing) -> None:
        """Inside a transaction: load again if another process changed configuration or blocks."""
        if w.session.revision != self.revision:
            self.load(w.connection, w.session)
        self.recount(w)

    def recount(self, w: Writing) -> None:
        """Count the queue again if it was counted with another tokenizer."""
        if w.session.counter == self.counter_id:
            return
        counter = self.counter
        before, had = w.session.counter, w.session.queue(self.config.accounting).tokens
        w.session.counter = counter.id
        if w.session.queue_messages or w.session.pinned_messages:
            recount(w, counter, self.services.messages)
            after = w.session.queue(self.config.accounting).tokens
            w.session.revision += 1
            w.record(QueueRecounted(before=before, after=counter.id, tokens_before=had, tokens_after=after))

    def _attach(self, record: BlockRecord, words: dict[str, str], learner: str | None) -> SessionBlock:
        state = words.get(record.text or record.state or "")
        block = self._given.get(record.name)
        initial = None
        if record.type not in BUILT_IN:
            initial = json.loads(record.constructor)["state"] if record.constructor else self._initial.get(record.name)
            state = initial if record.state is None else state
        if block is None and record.type in BUILT_IN:
            extra = {"static_content": decode(state or "")} if record.type == "static" else {}
            block = BUILT_IN[record.type](name=record.name, **extra)
        if block is None:
            block = plugins.made(record.type, record.name)
        if block is not None:
            block.apply(record.settings)
            if isinstance(block, StaticMemoryBlock) and state is not None:
                block.mirror({"static_content": decode(state)})
            elif record.type not in BUILT_IN:
                block.take_state(state)
        return SessionBlock(record=record, block=block, state=state, initial=initial, learner=learner)

    # -- whose values apply -----------------------------------------------------------------------

    def _settle_config(self, w: Writing, given: dict[str, Any]) -> None:
        stored, last = json.loads(w.session.config), json.loads(w.session.constructor)
        given = json.loads(MemoryConfig(**given).model_dump_json(include=set(given)))
        wins = {name: value for name, value in given.items() if last.get(name, _MISSING) != value}
        loses = {name: value for name, value in given.items() if name not in wins and stored.get(name, value) != value}
        w.session.constructor = json.dumps({**last, **given})
        if wins:
            before = {name: stored[name] for name in wins if name in stored and stored[name] != wins[name]}
            MemoryConfig(**{**stored, **wins})
            w.session.config = json.dumps({**stored, **wins})
            w.session.revision += 1
            w.record(ConfigurationChanged(before=before, after=wins, source="constructor", ignored=before))
        if loses:
            w.record(ConfigurationChanged(before={}, after={}, source="app", ignored=loses))

    def _settle_blocks(self, w: Writing, given: Sequence[Block]) -> None:
        stored = {record.name: record for record in read_blocks(w.connection, self.id)}
        for record in stored.values():
            if record.constructor and record.name not in {block.name for block in given}:
                remove_block(w, record.name)
                skip_deliveries(w, record.name)
                w.record(BlockRemoved(block=record.name))
                w.session.revision += 1
        moved = self._settle_order(w, [block.name for block in given])
        for position, block in enumerate(given):
            if isinstance(block, FactExtractionMemoryBlock) and block.scope == "user" and not self.user_id:
                raise ConfigError(f'the block "{block.name}" belongs to the user: give the memory a user_id')
            known = stored.get(block.name)
            if known is None:
                self.add(w, block, position=position)
                continue
            self._settle_block(w, block, known)
            if moved and known.position != position:
                update_block(w, block.name, position=position)
                w.session.revision += 1
        names = [record.name for record in read_blocks(w.connection, self.id)]
        if [name for name in names if name in stored] != [name for name in stored if name in names]:
            w.record(BlocksOrdered(names=tuple(names)))

    def _settle_order(self, w: Writing, names: list[str]) -> bool:
        """Does the constructor's order of blocks apply? It does when it is not what it was the last time."""
        constructor = json.loads(w.session.constructor)
        if constructor.get(_ORDER) == names:
            return False
        w.session.constructor = json.dumps({**constructor, _ORDER: names})
        return True

    def _settle_learners(self, w: Writing) -> None:
        """Store which models this program learns with: who opens the session without them leaves it to them."""
        blocks = [each.block for each in self.blocks if each.block is not None and self.services.standing]
        here = {block.name: model for block in blocks if (model := block.learner(self.services)) is not None}
        self._set_learners(w, here)

    def free_learners(self, w: Writing, names: Collection[str]) -> None:
        """Let any process learn for these blocks, until a program gives a model for them again."""
        self._set_learners(w, {}, freed=names)

    def _set_learners(self, w: Writing, given: Mapping[str, str], *, freed: Collection[str] = ()) -> None:
        constructor = json.loads(w.session.constructor)
        before = constructor.pop(LEARNERS, {})
        left = {each.name for each in self.blocks}.difference(freed)
        after = {name: model for name, model in {**before, **given}.items() if name in left}
        if after != before:
            w.session.constructor = json.dumps({**constructor, **({LEARNERS: after} if after else {})})
            w.session.revision += 1
            self.load(w.connection, w.session)

    def add(self, w: Writing, block: Block, *, position: int, actor: Actor | None = None) -> None:
        """Store a block that the session does not have yet; without an actor, a constructor gave it."""
        constructor = constructor_values(block) if actor is None else ""
        settings = block.settings()
        add_block(w, name=block.name, position=position, type=block.type, settings=settings, constructor=constructor)
        w.record(BlockAdded(block=block.name, type=block.type, settings=settings), actor=actor or "engine")
        w.session.revision += 1
        if isinstance(block, StaticMemoryBlock):
            record = next(r for r in read_blocks(w.connection, self.id) if r.name == block.name)
            write_text(w, record, encode(block.static_content), actor=actor or "engine")
        elif isinstance(block, FactExtractionMemoryBlock):
            scope = _fact_scope(block, w.session)
            known = {fact.text for fact in read_facts(w.connection, scope, block.name, states=None)}
            for text in dict.fromkeys(block.facts):
                if text in known:  # the user's, or of a block of that name that was removed
                    continue
                new = NewFact(text=text, tokens=self.counter.text(text), origin="written")
                add_fact(w, scope, block.name, new, actor="curator")
        elif block.type not in BUILT_IN:
            update_block(w, block.name, state=w.keep(block.state_json()))

    def attach(self, w: Writing, block: Block, *, position: int, actor: Actor) -> None:
        """Add a block in mid-session."""
        made = block.as_made(self._whole_id)
        self.add(w, made, position=position, actor=actor)
        block.hand_over(self._whole_id)
        self._given[block.name] = block
        self._initial[block.name] = made.state_json()
        w.flush_contents()
        self.load(w.connection, w.session)
        self._settle_learners(w)

    def _settle_block(self, w: Writing, block: Block, record: BlockRecord) -> None:
        if block.type != record.type:
            raise ConfigError(
                f'the block "{block.name}" is stored as {record.type} and given as {block.type}: '
                "choose another name, or remove the stored one first"
            )
        constructor = constructor_values(block)
        given, last = json.loads(constructor), json.loads(record.constructor or '{"settings": {}, "state": null}')
        # A setting that came with a newer version had its default before.
        before = {**_defaults(block), **block.meant_before(record.settings)}
        later = {k: v for k, v in before.items() if k not in record.settings}
        had = {**later, **last["settings"]} if record.constructor else {}
        wins = {k: v for k, v in given["settings"].items() if had.get(k, _MISSING) != v}
        changed = {k: v for k, v in wins.items() if {**later, **record.settings}.get(k, _MISSING) != v}
        loses = {k: v for k, v in given["settings"].items() if k not in wins and record.settings.get(k, v) != v}
        if constructor != record.constructor:
            settings = {**record.settings, **wins}
            update_block(w, block.name, settings=settings, constructor=constructor)
            w.session.revision += 1
        lost = {name: record.settings[name] for name in changed if name in record.settings}
        for after, ignored in ((changed, lost), ({}, loses)):
            if after or ignored:
                w.record(_settings_edited(record, after, ignored))
        if isinstance(block, StaticMemoryBlock):
            text = encode(block.static_content)
            if given["state"] != last["state"]:
                ignored_text = record.text if record.text != content_hash(text) else None
                write_text(w, record, text, actor="engine", ignored=ignored_text)
            elif record.text != content_hash(text):
                edited = BlockEdited(
                    block=block.name,
                    revision=record.revision,
                    before=record.text,
                    after=record.text,
                    ignored=w.keep(text),
                )
                w.record(edited)
        elif block.type not in BUILT_IN and given["state"] != last["state"]:
            update_block(w, block.name, state=w.keep(block.state_json()))


_MISSING = object()

_ORDER = "order of blocks"
"""Among a constructor's values: which blocks it was given, in which order."""


def _defaults(block: Block) -> dict[str, Any]:
    """Settings of a built-in block that nobody set; of a custom one they are not known."""
    if block.type not in BUILT_IN:
        return {}
    extra = {"static_content": ""} if isinstance(block, StaticMemoryBlock) else {}
    return BUILT_IN[block.type](name=block.name, **extra).settings()


def _settings_edited(record: BlockRecord, settings: dict[str, Any], ignored: dict[str, Any]) -> BlockEdited:
    return BlockEdited(record.name, record.revision, None, None, settings, ignored_settings=ignored)


def _unstored(block: Block) -> SessionBlock:
    """A block that the session does not have, as it would be right after it was added."""
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
        block = attached.block.model_copy()
        block.apply(settings)
    return replace(attached, record=replace(attached.record, settings=settings), block=block)


def constructor_values(block: Block) -> str:
    """A block as its constructor was given it, as one comparable text."""
    state = encode(block.static_content) if isinstance(block, StaticMemoryBlock) else block.state_json()
    if block.type in BUILT_IN and not isinstance(block, StaticMemoryBlock):
        state = ""
    return json.dumps({"settings": block.settings(), "state": state}, sort_keys=True)


def _fact_scope(block: FactExtractionMemoryBlock, state: SessionState) -> str:
    return scope_of(block.scope, state.id, state.user_id, block.name)


def _check_names(blocks: Sequence[Block]) -> None:
    seen: set[str] = set()
    for block in blocks:
        if block.name in seen:
            raise ConfigError(f'two blocks are called "{block.name}": block names must differ')
        seen.add(block.name)


def _encoding(name: str) -> TokenCounter:
    try:
        return default_counter(name)
    except OSError as error:  # tiktoken wanted to download it
        raise ConfigError(f"encoding cannot be {name!r}: its file is not here, and could not be fetched") from error


def _new_state(session_id: str, title: str, user_id: str | None, now: float) -> SessionState:
    return SessionState(
        id=session_id,
        user_id=user_id,
        title=title,
        created_at=now,
        updated_at=now,
        deleted_at=None,
        next_seq=1,
        turns=0,
        newest_turn=None,
        queue_messages=0,
        queue_content=0,
        queue_reference=0,
        pinned_messages=0,
        pinned_content=0,
        pinned_reference=0,
        archived_messages=0,
        flushes=0,
        turn_delivered=0,
        counter="",
        config="{}",
        constructor="{}",
        recording=None,
        revision=1,
    )
