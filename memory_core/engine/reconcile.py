"""Decide whose values apply where a constructor's settings, blocks and texts differ from what is stored.

Configuration and static texts are versioned per session. A constructor's values apply when the session is created, and
later when they differ from the last constructor's; otherwise the stored values win (an edit made in the app, for
example). Either way an event records the values that lost.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memory_core.blocks import BUILT_IN
from memory_core.blocks.base import BaseMemoryBlock, scope_of
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock, encode
from memory_core.config import MemoryConfig
from memory_core.engine.session import Session
from memory_core.errors import ConfigError
from memory_core.events import (
    Actor,
    BlockAdded,
    BlockEdited,
    BlockRemoved,
    BlocksOrdered,
    ConfigurationChanged,
    Event,
    SessionCreated,
)
from memory_core.messages import content_hash, unstorable
from memory_core.planning.curation import FactDraft
from memory_core.store.block_rows import (
    BlockRecord,
    TextOrigin,
    add_block,
    read_blocks,
    remove_block,
    update_block,
    write_text,
)
from memory_core.store.delivery_rows import skip_deliveries
from memory_core.store.fact_rows import add_fact, read_facts
from memory_core.store.writing import LEARNERS, SessionState, Writing

Block = BaseMemoryBlock[Any]

_MISSING = object()

_ORDER = "order of blocks"
"""Key in the constructor's values for the names of its blocks, in order."""


def create_or_join(
    session: Session,
    *,
    title: str,
    user_id: str | None,
    config: dict[str, Any],
    blocks: Sequence[Block] | None,
    without_messages: bool = False,
    begun: Event | None = None,
) -> None:
    """Create the session, or open it and reconcile the constructor's values with the stored ones.

    `begun`: an event to record if the session is created.

    Raises:
        ConfigError: values are impossible, two blocks have one name, the session is another user's, or it has messages
            although `without_messages` is set; nothing was stored.
    """
    # 1. Validate everything that can be checked without the database, before anything is stored.
    MemoryConfig(**config)
    for what, name in (("session_id", session.id), ("user_id", user_id or "")):
        if problem := unstorable(name):
            raise ConfigError(f"{what} {problem}")
    _check_names(blocks or ())
    # Only values that the program gave are compared, not those that the engine has set in its objects since.
    made = [block.as_made(session.whole_id) for block in blocks or ()]
    now = session.clock()
    with session.writing(create=SessionState(session.id, user_id, title, now, now)) as w:
        # Without a `user_id` a session of any user is joined.
        if user_id is not None and w.session.user_id != user_id:
            raise ConfigError(f'the session "{session.id}" belongs to another user: choose another session_id')
        if without_messages and w.session.messages:
            raise ConfigError(f'the session "{session.id}" has messages already: leave chat_history out, or use set()')
        session.user_id = w.session.user_id
        # 2. The first to open the session records its creation; several may have inserted it at once.
        if not w.session.counter:
            w.record(SessionCreated(title=w.session.title, user_id=session.user_id), *([begun] if begun else []))
        # 3. Settings before blocks: texts of blocks are counted with the encoding from the settings.
        _reconcile_config(w, config)
        session.config = MemoryConfig(**json.loads(w.session.config))
        if blocks is not None:
            _reconcile_blocks(session, w, made)
        # 4. Load the stored state, after writing the texts it reads.
        session.adopt(blocks or ())
        w.flush_contents()
        session.load(w.connection, w.session)
        # 5. Learners and sizes last: both need the loaded blocks and settings.
        _reconcile_learners(session, w)
        session.recount(w)


def attach(
    session: Session, w: Writing, block: Block, *, position: int, actor: Actor, written: TextOrigin | None = None
) -> None:
    """Add a block to an existing session."""
    _check_user(session, block)
    made = block.as_made(session.whole_id)
    _add(session, w, made, position=position, actor=actor, written=written)
    # After its row is stored, as loading reads the row and its texts, and finds the object by name.
    session.adopt([block], initial={block.name: made.state_json()})
    w.flush_contents()
    session.load(w.connection, w.session)
    _reconcile_learners(session, w)


def free_learners(session: Session, w: Writing, names: Collection[str]) -> None:
    """Let any process learn for these blocks, until a program gives a model for them again."""
    _set_learners(session, w, {}, freed=names)


def _reconcile_config(w: Writing, settings: dict[str, Any]) -> None:
    stored, last = json.loads(w.session.config), json.loads(w.session.constructor)
    # Converted to JSON and back, to compare with stored values, where enums are texts and tuples are lists.
    settings = json.loads(MemoryConfig(**settings).model_dump_json(include=set(settings)))
    # A value that the program changed since its last constructor wins; an unchanged one yields to what is stored.
    wins = {name: value for name, value in settings.items() if last.get(name, _MISSING) != value}
    loses = {name: value for name, value in settings.items() if name not in wins and stored.get(name, value) != value}
    # Stored in either case, with settings of earlier constructors, for the next comparison.
    w.session.constructor = json.dumps({**last, **settings})
    if wins:
        before = {name: stored[name] for name in wins if name in stored and stored[name] != wins[name]}
        # Checked together, as a new value may be impossible beside a stored one.
        MemoryConfig(**{**stored, **wins})
        w.session.config = json.dumps({**stored, **wins})
        w.session.revision += 1
        w.record(ConfigurationChanged(before=before, after=wins, source="constructor", ignored=before))
    if loses:
        w.record(ConfigurationChanged(before={}, after={}, source="app", ignored=loses))


def _reconcile_blocks(session: Session, w: Writing, blocks: Sequence[Block]) -> None:
    # 1. Remove what the program no longer gives. Blocks added in the app have no constructor's values, and stay.
    stored = {record.name: record for record in read_blocks(w.connection, session.id)}
    for record in stored.values():
        if record.constructor and record.name not in {block.name for block in blocks}:
            remove_block(w, record.name)
            skip_deliveries(w, record.name)
            w.record(BlockRemoved(block=record.name))
            w.session.revision += 1
    # 2. Add or reconcile each block. An order set in the app stays until the program gives another one.
    moved = _takes_order(w, [block.name for block in blocks])
    for position, block in enumerate(blocks):
        _check_user(session, block)
        known_record = stored.get(block.name)
        if known_record is None:
            _add(session, w, block, position=position)
            continue
        _reconcile_block(w, block, known_record)
        if moved and known_record.position != position:
            update_block(w, block.name, position=position)
            w.session.revision += 1
    # 3. Record an order only if existing blocks changed places: added and removed ones have their own events.
    names = [record.name for record in read_blocks(w.connection, session.id)]
    if [name for name in names if name in stored] != [name for name in stored if name in names]:
        w.record(BlocksOrdered(names=tuple(names)))


def _takes_order(w: Writing, names: list[str]) -> bool:
    """Return whether the constructor's order of blocks applies: it does when it differs from the last constructor's."""
    constructor = json.loads(w.session.constructor)
    if constructor.get(_ORDER) == names:
        return False
    w.session.constructor = json.dumps({**constructor, _ORDER: names})
    return True


def _reconcile_block(w: Writing, block: Block, record: BlockRecord) -> None:
    if block.type != record.type:
        raise ConfigError(
            f'the block "{block.name}" is stored as {record.type} and given as {block.type}: '
            "choose another name, or remove the stored one first"
        )
    constructor = _constructor_values(block)
    # A block added in the app has no last constructor: everything a program gives for it counts as new, and wins.
    passed, last = json.loads(constructor), json.loads(record.constructor or '{"settings": {}, "state": null}')
    # A setting that a later version added counts as stored with its legacy default.
    before = {**_defaults(block), **block.legacy_defaults(record.settings)}
    later = {k: v for k, v in before.items() if k not in record.settings}
    had = {**later, **last["settings"]} if record.constructor else {}
    # `wins`: settings the program changed; `changed`: those that differ from the row; `loses`: overridden by the row.
    wins = {k: v for k, v in passed["settings"].items() if had.get(k, _MISSING) != v}
    changed = {k: v for k, v in wins.items() if {**later, **record.settings}.get(k, _MISSING) != v}
    loses = {k: v for k, v in passed["settings"].items() if k not in wins and record.settings.get(k, v) != v}
    if constructor != record.constructor:
        settings = {**record.settings, **wins}
        update_block(w, block.name, settings=settings, constructor=constructor)
        w.session.revision += 1
    # One event for stored values that the program's replace, one for the program's that stored values override.
    lost = {name: record.settings[name] for name in changed if name in record.settings}
    for after, ignored in ((changed, lost), ({}, loses)):
        if after or ignored:
            w.record(BlockEdited(record.name, record.revision, None, None, after, ignored_settings=ignored))
    if isinstance(block, StaticMemoryBlock):
        text = encode(block.static_content)
        # The program has another text than last time: it replaces the stored one, which is recorded as overridden.
        if passed["state"] != last["state"]:
            ignored_text = record.text if record.text != content_hash(text) else None
            write_text(w, record, text, actor="engine", ignored=ignored_text)
        # The same text as last time, but the stored one was edited since: the edit stays.
        elif record.text != content_hash(text):
            edited = BlockEdited(
                block=block.name,
                revision=record.revision,
                before=record.text,
                after=record.text,
                ignored=w.store_text(text),
            )
            w.record(edited)
    elif block.type not in BUILT_IN and passed["state"] != last["state"]:
        update_block(w, block.name, state=w.store_text(block.state_json()))


def _add(
    session: Session,
    w: Writing,
    block: Block,
    *,
    position: int,
    actor: Actor | None = None,
    written: TextOrigin | None = None,
) -> None:
    """Store a new block; without an actor, it came from a constructor."""
    # Empty for a block added in the app, so that a program that does not know it will not remove it.
    constructor = _constructor_values(block) if actor is None else ""
    settings = block.settings()
    add_block(w, name=block.name, position=position, type=block.type, settings=settings, constructor=constructor)
    w.record(BlockAdded(block=block.name, type=block.type, settings=settings), actor=actor or "engine")
    w.session.revision += 1
    if isinstance(block, StaticMemoryBlock):
        record = next(r for r in read_blocks(w.connection, session.id) if r.name == block.name)
        write_text(w, record, encode(block.static_content), actor=actor or "engine", written=written)
    elif isinstance(block, FactExtractionMemoryBlock):
        scope = scope_of(block.scope, w.session.id, w.session.user_id, block.name)
        texts = {fact.text for fact in read_facts(w.connection, scope, block.name, states=None)}
        for text in dict.fromkeys(block.facts):
            if text in texts:  # the user's, or of a removed block of this name
                continue
            add_fact(w, scope, block.name, FactDraft(text), session.counter.text(text), actor="user")
    elif block.type not in BUILT_IN:
        update_block(w, block.name, state=w.store_text(block.state_json()))


def _reconcile_learners(session: Session, w: Writing) -> None:
    """Record the models this program learns with: a process without them leaves learning to one that has them."""
    blocks = [
        attached.block
        for attached in session.blocks
        if attached.block is not None and session.services.records_learners
    ]
    here = {block.name: model for block in blocks if (model := block.learner(session.services)) is not None}
    _set_learners(session, w, here)


def _set_learners(session: Session, w: Writing, learners: Mapping[str, str], *, freed: Collection[str] = ()) -> None:
    constructor = json.loads(w.session.constructor)
    before = constructor.pop(LEARNERS, {})
    remaining = {block.name for block in session.blocks}.difference(freed)
    after = {name: model for name, model in {**before, **learners}.items() if name in remaining}
    if after != before:
        w.session.constructor = json.dumps({**constructor, **({LEARNERS: after} if after else {})})
        # So that other processes load the new learners before they serve these blocks.
        w.session.revision += 1
        session.load(w.connection, w.session)


def _defaults(block: Block) -> dict[str, Any]:
    """Default settings of a built-in block; empty for a custom block, whose defaults are unknown."""
    if block.type not in BUILT_IN:
        return {}
    extra = {"static_content": ""} if isinstance(block, StaticMemoryBlock) else {}
    return BUILT_IN[block.type](name=block.name, **extra).settings()


def _constructor_values(block: Block) -> str:
    """Values a block's constructor was given, as one comparable JSON text."""
    state = encode(block.static_content) if isinstance(block, StaticMemoryBlock) else block.state_json()
    # Other built-in blocks hold learned content, which must not be compared with a constructor.
    if block.type in BUILT_IN and not isinstance(block, StaticMemoryBlock):
        state = ""
    return json.dumps({"settings": block.settings(), "state": state}, sort_keys=True)


def _check_user(session: Session, block: Block) -> None:
    if getattr(block, "scope", "session") == "user":
        scope_of("user", session.id, session.user_id, block.name)  # there is none without a user


def _check_names(blocks: Sequence[Block]) -> None:
    seen: set[str] = set()
    for block in blocks:
        if block.name in seen:
            raise ConfigError(f'two blocks are called "{block.name}": block names must differ')
        seen.add(block.name)
