"""Changes that a person, or an agent's tool, makes to a session: its settings, its blocks, its fixed texts.

Each is one transaction with its event; what is impossible changes nothing.
"""

import json
from collections.abc import Mapping
from typing import Any

from memory_core.blocks import BUILT_IN
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.errors import ConfigError, ConflictError
from memory_core.events import Actor, BlockEdited, BlockRemoved, ConfigurationChanged, SessionRenamed
from memory_core.session import Attached, Session
from memory_core.store.blocks import remove_block as delete_block
from memory_core.store.blocks import update_block, write_text
from memory_core.store.deliveries import forget_deliveries
from memory_core.store.vectors import remove_nodes


def configure(session: Session, changes: Mapping[str, Any], actor: Actor) -> None:
    """See `Memory.configure`."""
    with session.writing() as w:
        session.refresh(w)
        before, after = session.config, session.config.changed(**changes)
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        changed = {name: value for name, value in new.items() if old[name] != value}
        if changed:
            w.session.config = json.dumps({**json.loads(w.session.config), **changed})
            w.session.revision += 1
            w.record(
                ConfigurationChanged(before={name: old[name] for name in changed}, after=changed, source="app"),
                actor=actor,
            )
            session.load(w.connection, w.session)
            session.recount(w)


def rename(session: Session, title: str, actor: Actor) -> None:
    """See `Memory.rename`."""
    with session.writing() as w:
        w.record(SessionRenamed(before=w.session.title, after=title), actor=actor)
        w.session.title = title


def add_block(session: Session, block: BaseMemoryBlock[Any], actor: Actor) -> None:
    """See `Memory.add_block`."""
    with session.writing() as w:
        session.refresh(w)
        if any(attached.name == block.name for attached in session.blocks):
            raise ConfigError(f'"{block.name}" is taken. Choose another name.')
        if isinstance(block, FactExtractionMemoryBlock) and block.scope == "user" and not session.user_id:
            raise ConfigError(f'the block "{block.name}" belongs to the user: give the memory a user_id')
        position = 1 + max((attached.record.position for attached in session.blocks), default=-1)
        session.attach(w, block, position=position, actor=actor)


def remove_block(session: Session, name: str, actor: Actor) -> None:
    """See `Memory.remove_block`."""
    session.block(name)
    with session.writing() as w:
        delete_block(w, name)
        remove_nodes(w, block=name)
        forget_deliveries(w, name)
        w.session.revision += 1
        w.record(BlockRemoved(block=name), actor=actor)
        session.load(w.connection, w.session)


def configure_block(session: Session, name: str, settings: Mapping[str, Any], actor: Actor) -> None:
    """See `Memory.configure_block`."""
    with session.writing() as w:
        session.refresh(w)
        attached = session.block(name)
        before = attached.record.settings
        unknown = set(settings) - set(before)
        if unknown:
            raise ConfigError(f'the block "{name}" has no setting called {sorted(unknown)[0]!r}')
        after = {**before, **settings}
        _check_settings(attached, after)
        if after.get("scope") == "user" and not session.user_id:
            raise ConfigError(f'the block "{name}" would belong to the user: give the memory a user_id')
        changed = {key: value for key, value in after.items() if before[key] != value}
        if changed:
            update_block(w, name, settings=after)
            w.session.revision += 1
            edited = BlockEdited(
                block=name, revision=attached.record.revision, before=None, after=None, settings=changed
            )
            w.record(edited, actor=actor)
            session.load(w.connection, w.session)


def edit_block(session: Session, name: str, text: str, revision: int | None, actor: Actor) -> int:
    """See `Memory.edit_block`."""
    with session.writing() as w:
        session.refresh(w)
        attached = session.block(name)
        if attached.kind != "static":
            raise ConfigError(f'the text of "{name}" is learned, not written: only static blocks are edited')
        if revision is not None and attached.record.revision != revision:
            raise ConflictError(f'"{name}" was changed elsewhere since you opened it. Nothing was saved.')
        saved = write_text(w, attached.record, text, actor=actor)
        if saved != attached.record.revision:
            w.session.revision += 1
        w.flush_contents()
        session.load(w.connection, w.session)
    return saved


def _check_settings(attached: Attached, settings: dict[str, Any]) -> None:
    """Make a block with these settings once, to see that they are possible."""
    if attached.kind in BUILT_IN:
        extra = {"static_content": ""} if attached.kind == "static" else {}
        BUILT_IN[attached.kind](**{**settings, **extra})
    else:
        BaseMemoryBlock[Any](**settings)
