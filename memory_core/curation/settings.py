"""Changes by a person or an agent's tool to a session: its settings, its blocks, its static texts.

Each change is one transaction with its event; an impossible one stores nothing. A caller that edits values read earlier
passes them (`opened`, `revision`): if they have changed meanwhile, nothing is saved.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_core.blocks import BUILT_IN, WITH_TEXT
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.static import decode
from memory_core.engine import queue, reconcile
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import ConfigError, ConflictError
from memory_core.events import Actor, BlockEdited, BlockRemoved, BlocksOrdered, ConfigurationChanged
from memory_core.history.change_log import changed_since
from memory_core.planning.core_memory import check
from memory_core.store.block_rows import TextOrigin, read_revisions, update_block, write_text
from memory_core.store.block_rows import remove_block as delete_block
from memory_core.store.delivery_rows import forget_deliveries
from memory_core.store.vector_rows import remove_nodes
from memory_core.store.writing import Writing


def configure(session: Session, changes: Mapping[str, Any], opened: Mapping[str, Any], actor: Actor) -> None:
    """See `Memory.configure`."""
    with session.changing() as w:
        stored = session.config.model_dump(mode="json")
        # Compared inside the writing transaction, so that no other change comes between the check and the write.
        if any(stored[name] != value for name, value in opened.items()):
            raise changed_elsewhere("The settings were")
        write_configuration(session, w, changes, actor)


def write_configuration(session: Session, w: Writing, changes: Mapping[str, Any], actor: Actor) -> None:
    """Change the memory's settings, in an open transaction."""
    before, after = session.config, session.config.changed(**changes)
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    changed = {name: value for name, value in new.items() if old[name] != value}
    if changed:
        # Merged into the stored settings, so that those of a newer version stay as they are.
        w.session.config = json.dumps({**json.loads(w.session.config), **changed})
        w.session.revision += 1
        w.record(
            ConfigurationChanged(before={name: old[name] for name in changed}, after=changed, source="app"),
            actor=actor,
        )
        session.load(w.connection, w.session)
        # The tokenizer is a setting: with another one, the sizes of the queue change.
        session.recount(w)


def add_block(
    session: Session, w: Writing, block: BaseMemoryBlock[Any], actor: Actor, written: TextOrigin | None = None
) -> None:
    """Add a block after the others, in an open transaction; `written`: origin of a text from elsewhere."""
    if any(attached.name == block.name for attached in session.blocks):
        raise ConfigError(f'"{block.name}" is taken. Choose another name.')
    position = 1 + max((attached.record.position for attached in session.blocks), default=-1)
    reconcile.attach(session, w, block, position=position, actor=actor, written=written)


def remove_block(session: Session, w: Writing, name: str, actor: Actor) -> None:
    """Remove a block and its stored units, in an open transaction."""
    delete_block(w, name)
    remove_nodes(w, block=name)
    forget_deliveries(w, name)
    w.session.revision += 1
    w.record(BlockRemoved(block=name), actor=actor)
    session.load(w.connection, w.session)
    # A later block of this name must not wait for the program that learned for this one.
    reconcile.free_learners(session, w, [name])


def agent_may_edit(attached: SessionBlock) -> bool:
    """Return whether an agent may edit a block: an enabled static block of plain text that is not read-only."""
    rules = attached.settings
    editable = attached.kind == "static" and rules.get("enabled", True) and not rules.get("read_only", True)
    return bool(editable) and isinstance(decode(attached.state or ""), str)


def edit_text(session: Session, w: Writing, name: str, change: Callable[[str], str], actor: Actor) -> tuple[str, str]:
    """Change a static block's newest text, in an open transaction; return the text before and after.

    Raises:
        NotFoundError: there is no such block.
        ConfigError: the block has no text to edit or holds more than text, or an agent may not edit it.
    """
    attached = with_text(session, w, name, None)
    stored = attached.state or ""
    if not isinstance(decode(stored), str):
        raise ConfigError(f"{name} holds more than text. Nothing was changed.")
    after = change(stored)
    write_block_text(session, w, attached, after, actor)
    return stored, after


def with_text(session: Session, w: Writing, name: str, revision: int | None) -> SessionBlock:
    """Return a block whose text can be edited; raise `ConflictError` if it changed since `revision` (None: any)."""
    attached = session.block(name)
    if attached.kind not in WITH_TEXT:
        raise ConfigError(f'the text of "{name}" is learned, not written: only static blocks and summaries are edited')
    if revision is not None and attached.record.revision != revision:
        # Read only to say who changed it.
        newest = read_revisions(w.connection, session.id, name)[-1]
        raise ConflictError(f'"{name}" {changed_since(newest.actor, newest.turn)}. Nothing was saved.')
    return attached


def write_block_text(
    session: Session,
    w: Writing,
    attached: SessionBlock,
    text: str,
    actor: Actor,
    restored: int | None = None,
    written: TextOrigin | None = None,
) -> int:
    # Limits for agents alone: a person may write what an agent may not.
    if actor == "agent":
        rules = attached.settings
        before = attached.state or ""
        check(attached.name, before, text, read_only=rules.get("read_only", True), limit=rules.get("limit"))
    if attached.kind == "summary":
        _check_size(session, attached, text)
    saved = write_text(w, attached.record, text, actor=actor, restored=restored, written=written)
    # Other processes notice by this number that they have to load the blocks again.
    if saved != attached.record.revision:
        w.session.revision += 1
    # Texts are buffered: write them now, as loading the session reads this one.
    w.flush_contents()
    session.load(w.connection, w.session)
    return saved


def _check_size(session: Session, attached: SessionBlock, text: str) -> None:
    """Raise `ConfigError` if a summary's new text exceeds its token limit, whoever wrote it."""
    tokens, most = session.counter.text(text), int(attached.settings["max_tokens"])
    if tokens > most:
        raise ConfigError(
            f'"{attached.name}" may hold {most:,} tokens, and this text has {tokens:,}. '
            "Shorten it, or raise max_tokens. Nothing was saved."
        )


def take_over(session: Session, w: Writing) -> None:
    """Increase the session's revision, so that all processes reload its blocks, and reload them here."""
    w.session.revision += 1
    session.load(w.connection, w.session)


def changed_elsewhere(what: str) -> ConflictError:
    """Return the error for a concurrent change; `what` begins its sentence."""
    return ConflictError(f"{what} changed elsewhere since you opened this. Nothing was saved.")


def write_order(session: Session, w: Writing, names: Sequence[str], actor: Actor) -> bool:
    """Store an order of blocks, in an open transaction; return whether it changed."""
    current = [attached.name for attached in session.blocks]
    # A list that lacks a block would leave its position open.
    if sorted(names) != sorted(current):
        raise ConfigError(f"name every block once to order them: {', '.join(current)}")
    if list(names) == current:
        return False
    for position, name in enumerate(names):
        update_block(w, name, position=position)
    w.record(BlocksOrdered(names=tuple(names)), actor=actor)
    return True


def check_unchanged(session: Session, opened: Mapping[str, Mapping[str, Any]]) -> None:
    stored = {attached.name: attached.settings for attached in session.blocks}
    for name, settings in opened.items():
        if name not in stored:
            raise ConflictError(f'"{name}" was removed elsewhere since you opened it. Nothing was saved.')
        if any(stored[name].get(key) != value for key, value in settings.items()):
            raise ConflictError(f'"{name}" was changed elsewhere since you opened it. Nothing was saved.')


def write_settings(session: Session, w: Writing, name: str, settings: Mapping[str, Any], actor: Actor) -> bool:
    """Store a block's settings, in an open transaction; return whether any changed."""
    attached = session.block(name)
    before, after = attached.settings, attached.changed(settings)
    _check_settings(attached, after)
    if after.get("scope") == "user" and not session.user_id:
        raise ConfigError(f'the block "{name}" would belong to the user: give the memory a user_id')
    changed = {key: value for key, value in after.items() if before[key] != value}
    if changed:
        # Schedule the turns that are complete by now; each later turn is scheduled when it is completed.
        if changed.get("deliver_on") == "turn":
            queue.begin_turns(session, w, attached)
        update_block(w, name, settings=after)
        edited = BlockEdited(block=name, revision=attached.record.revision, before=None, after=None, settings=changed)
        w.record(edited, actor=actor)
    return bool(changed)


def _check_settings(attached: SessionBlock, settings: dict[str, Any]) -> None:
    """Create a block with these settings, to check that they are possible."""
    if attached.kind in BUILT_IN:
        BUILT_IN[attached.kind].make_empty(**settings)
    else:
        # The class of a custom block may be missing here, so only the settings that every block has are checked.
        BaseMemoryBlock[Any](**settings)
