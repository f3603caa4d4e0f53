"""Dialogs to add, edit and remove blocks."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st

from memory_core import BaseMemoryBlock, ConflictError, Memory, MemoryInspectorError
from memory_core.blocks import WITH_TEXT
from memory_core.blocks.plugins import plugins
from memory_core.curation.settings import agent_may_edit
from memory_core.text import listed
from memory_inspector.server.engine import Place
from memory_inspector.wording.block_kinds import Kind, free_name, kinds, make, stored, unit_of
from memory_inspector.wording.block_text import characters_used
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from memory_inspector.wording.settings import SETTINGS
from ui.blocks.block_text import draw_difference, draw_versions, restore, text_block
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, drawer_actions, error_noticed, give_while_typing
from ui.parts.effect import draw_effect
from ui.parts.fields import (
    Done,
    Draft,
    Drawer,
    draft,
    draw_conflict,
    draw_setting,
    forget_draft,
    keep_draft,
    leave,
    open_draft,
)
from ui.tab.model import chosen_model, services_for
from ui.tab.services import engine

MAX_CHARACTERS = 100_000


# -- editing ---------------------------------------------------------------------------------------


@dialog("Edit block", "edit_note", side=True, on_dismiss=leave)
def edit_dialog(session_id: str, name: str) -> None:
    """Edit a block's text, with a preview of the next prompt, and its history."""
    memory = engine().open(session_id)
    attached = text_block(memory, name)
    if attached is None:
        return
    current = attached.state or ""
    if current.startswith("\x01"):
        st.info("This text holds images or files. It can be changed from Python only.")
        return
    key = f"edit_{session_id}_{name}"
    box = f"blocks__{key}_text"
    # Unsaved text outlives the dialog and the tab.
    unsaved = engine().unsaved.at(_place(session_id, name))
    if unsaved is None:
        opened = draft(key, Draft(attached.record.revision), box)
    else:
        opened = draft(key, Draft(unsaved.began, since=unsaved.at), box)
    if opened.saved:  # before its widgets are drawn again, which would keep their values
        forget_draft(key)
        st.rerun()
    st.session_state.setdefault(box, current if unsaved is None else unsaved.value)
    st.markdown(f"**{plain(name)}**")
    place = st.container()  # messages, such as a conflict, are drawn above the text
    give_while_typing()
    text = str(
        st.text_area(
            "Text", height=220, key=box, max_chars=MAX_CHARACTERS, on_change=_keep_unsaved, args=(session_id, name)
        )
    )
    before, after = memory.session.count_tokens(current), memory.session.count_tokens(text)
    bound = f" of {tokens(attached.settings['max_tokens'])}" if attached.kind == "summary" else ""
    size = f"{tokens(before)} → **{tokens(after)}" if text != current else f"**{tokens(after)}"
    st.markdown(f"{size}{bound} tokens**")
    if agent_may_edit(attached):
        limit = attached.settings["limit"]
        over = ": the agent can only shorten it" if limit is not None and len(text) > limit else ""
        st.markdown(f":small[{characters_used(len(text), limit)}{over}. The agent edits this text too.]")
    if text != current:
        draw_effect(memory, texts={name: text})
    # The typed text equals the stored one again: no draft is left to keep.
    elif unsaved is not None:
        engine().unsaved.forget(_place(session_id, name))
    if opened.problem is not None:
        place.error(plain(opened.problem))
    elif opened.message is not None:
        place.success(plain(opened.message), icon=":material/check:")
    elif opened.since is not None and text != current:
        place.markdown(f":small[:material/edit_note: Your draft, {ago(opened.since, time.time())}. It is not saved.]")
    if opened.conflict:
        with place:
            revision = attached.record.revision
            draw_conflict(
                f"blocks__{key}_",
                partial(_show_theirs, key, box, current, revision),
                partial(keep_draft, key, Draft(revision, theirs=current)),
            )
    # Editing goes on after a conflict, so the difference is to what is stored now.
    elif opened.theirs is not None and text != current:
        draw_difference("What Save would change", current, text)
    if opened.mine is not None:
        with st.expander("Your text, not saved", expanded=True):
            st.text(opened.mine)
            st.button("Edit yours", key=f"blocks__{key}_mine", on_click=_take_mine, args=(key, box))
    revisions = memory.blocks.revisions(name)
    history = st.expander(
        f"History: {count(len(revisions), 'version')}", key=f"blocks__{key}_history", on_change="rerun"
    )
    # Versions are compared only once somebody looks at them.
    if history.open:
        with history:
            draw_versions(memory, attached, revisions, key, box)
    with drawer_actions("edit"):
        # Always enabled: a text field reports its value only when it loses focus to the button.
        st.button("Save", key=f"blocks__{key}_save", type="primary", on_click=_save, args=(session_id, name, key, box))
        st.button("Discard changes", key=f"blocks__{key}_discard", on_click=_discard, args=(session_id, name, key))


def _place(session_id: str, name: str) -> Place:
    """Key of a block's unsaved text."""
    return ("text", session_id, name)


def _keep_unsaved(session_id: str, name: str) -> None:
    """Keep the typed text when the dialog is closed."""
    key = f"edit_{session_id}_{name}"
    # A late report of the field, after saving or discarding, must not keep its text again.
    if opened := open_draft(key):
        text = str(st.session_state[f"blocks__{key}_text"])
        engine().unsaved.keep(_place(session_id, name), text, opened.revision)


def _discard(session_id: str, name: str, key: str) -> None:
    engine().unsaved.forget(_place(session_id, name))
    keep_draft(key, Draft(saved=True))


def _save(session_id: str, name: str, key: str, box: str) -> None:
    text, opened = str(st.session_state.get(box, "")), open_draft(key)
    if opened is None:
        return
    try:
        saved = engine().open(session_id).blocks.edit(name, text, revision=opened.revision)
    except ConflictError:
        keep_draft(key, Draft(opened.revision, conflict=True))
    except MemoryInspectorError as error:
        keep_draft(key, Draft(opened.revision, problem=str(error)))
    else:
        keep_draft(key, Draft(opened.revision, saved=True))
        engine().unsaved.forget(_place(session_id, name))
        # Without a new revision, there is nothing to undo.
        if saved == opened.revision:
            toasts.done(f"{short(name)} is unchanged: nothing to save.")
        else:
            toasts.done(
                f"Saved {short(name)}. The next prompt has it.",
                undo=partial(restore, session_id, name, opened.revision, saved),
            )


def _show_theirs(key: str, box: str, theirs: str, revision: int) -> None:
    mine = str(st.session_state.get(box, ""))
    st.session_state[box] = theirs
    keep_draft(key, Draft(revision, mine=mine))


def _take_mine(key: str, box: str) -> None:
    opened = open_draft(key)
    if opened is None:
        return
    theirs = str(st.session_state.get(box, ""))
    st.session_state[box] = opened.mine or ""
    keep_draft(key, Draft(opened.revision, theirs=theirs))


# -- adding ----------------------------------------------------------------------------------------


@dialog("Add a block", "add", side=True, on_dismiss=leave)
def add_dialog(session_id: str, kind: str | None = None) -> None:
    """Add a block of any kind, optionally filled from the archive."""
    memory = engine().open(session_id)
    offered = kinds(plugins())
    begun: dict[str, Any] = {"kind": "static", "name": "", "text": ""}
    # A priority and a choice for each kind, so that trying another kind loses neither.
    for field in offered.values():
        begun |= {f"priority_{field.key}": field.priority, f"fill_{field.key}": True}
    drawer = Drawer("blocks__add_", ("add_block", session_id), begun)
    # Only when the dialog opens: afterwards the person chooses.
    if kind is not None:
        st.session_state.setdefault(drawer.widget("kind"), kind)
    chosen = offered[
        str(
            st.segmented_control(
                "Kind",
                list(offered),
                key=drawer.field("kind"),
                format_func=lambda key: plain(short(offered[key].label)),
                required=True,
                on_change=drawer.keep,
            )
        )
    ]
    st.markdown(f":small[:gray[{plain(chosen.help)}]]")
    _broken()
    taken = [attached.name for attached in memory.blocks]
    suggested = free_name(chosen.name, taken)
    name = st.text_input("Name", placeholder=suggested, max_chars=60, key=drawer.field("name"), on_change=drawer.keep)
    name = name.strip() or suggested
    text = ""
    if chosen.key == "static":
        text = st.text_area(
            "Text", key=drawer.field("text"), height=140, max_chars=MAX_CHARACTERS, on_change=drawer.keep
        )
    priority = f"priority_{chosen.key}"
    draw_setting(
        SETTINGS["priority"],
        BaseMemoryBlock,
        drawer.field(priority, needed=True),
        on_change=drawer.keep,
        empty=drawer.stays(priority),
    )
    archived = memory.session.status().archived_messages
    if chosen.learns and archived:
        _filling(chosen, archived, drawer)
    drawer.end(
        partial(_add, session_id, chosen, suggested, drawer),
        changed=bool(drawer.changes()),
        ready=_possible(memory, chosen, name, int(drawer.chosen()[priority]), text, taken),
        says="Add block",
        state="added",
    )


def _broken() -> None:
    """List the plug-ins that cannot be used, with the reasons."""
    for plugin in plugins():
        if plugin.error is not None:
            named = f"“{plugin.name}” of {plugin.package}" if plugin.package else f"“{plugin.name}”"
            st.warning(
                f"{plain(named)} cannot be used: {plain(short(plugin.error, 200))}",
                icon=":material/extension_off:",
            )


def _filling(kind: Kind, archived: int, drawer: Drawer) -> None:
    fill = st.checkbox(
        f"Fill it from the {count(archived, 'message')} flushed before",
        key=drawer.field(f"fill_{kind.key}"),
        help="Otherwise it learns only from messages flushed from now on.",
        on_change=drawer.keep,
    )
    if fill and kind.asks_model and not chosen_model().offline:
        st.markdown(":small[This calls the model once for about every 8,000 tokens of archived messages.]")


def _possible(memory: Memory, kind: Kind, name: str, priority: int, text: str, taken: Sequence[str]) -> bool:
    """Draw the effect of adding the block, or why it is impossible; return whether it is possible."""
    if name in taken:
        st.error(f"“{plain(name)}” is taken. Choose another name.")
        return False
    try:
        block = make(kind, name, priority, text)
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
        return False
    possible = draw_effect(memory, added=[block])
    if possible and kind.learns:
        st.markdown(":small[:gray[It starts empty. What it learns will take tokens in later prompts.]]")
    return possible


def _add(session_id: str, kind: Kind, suggested: str, drawer: Drawer) -> Done:
    values = drawer.chosen()
    name = values["name"].strip() or suggested
    fill = values.get(f"fill_{kind.key}", False)
    memory = engine().open(session_id, services_for(chosen_model()))
    memory.blocks.add(make(kind, name, int(values[f"priority_{kind.key}"]), values.get("text", "")))
    if fill:
        # Filling may take many calls of a model, so it goes on in the background.
        memory.blocks.fill(name, wait=False)
    # Only a static block can be removed without losing something learned meanwhile.
    undo = partial(_take_out, session_id, name) if kind.key == "static" else None
    return f"Added {short(name)}{'. It is being filled' if fill else ''}.", undo


def _take_out(session_id: str, name: str) -> None:
    memory = engine().open(session_id)
    # The first revision is the text it was added with.
    if any(attached.name == name and attached.record.revision > 1 for attached in memory.blocks):
        raise ConflictError(f"The text of {name} was edited since.")
    memory.blocks.remove(name)


# -- removing --------------------------------------------------------------------------------------


@dialog("Remove a block", "delete", side=True)
def remove_dialog(session_id: str, name: str | None = None) -> None:
    """Confirm the removal of a block, listing what is deleted and kept."""
    memory = engine().open(session_id)
    names = [attached.name for attached in memory.blocks]
    if name is None:
        name = st.selectbox("Block", names, key="blocks__remove_name")
    if name is None:
        st.markdown("This session has no blocks.")
        return
    if name not in names:
        st.warning("This block was removed elsewhere.")
        return
    st.markdown(f"Remove **{plain(name)}**?")
    for line in what_goes(memory, name):
        st.markdown(line)
    st.markdown(":small[This cannot be undone.]")
    draw_effect(memory, without=[name])
    keys = "blocks__remove_save", "blocks__remove_keep"
    closing_buttons("Remove block", _remove, (session_id, name), keys=keys)


def what_goes(memory: Memory, name: str) -> list[str]:
    """Lines of markdown on what is deleted with a block, and what is kept."""
    goes, stays = gone_and_left(memory, name)
    lines = [f":material/delete: Deleted: {', '.join(goes)}."]
    return lines + ([f":material/inventory_2: Kept: {', '.join(stays)}."] if stays else [])


def gone_and_left(memory: Memory, name: str) -> tuple[list[str], list[str]]:
    """Lists of what is deleted with a block, and of what is kept.

    Raises:
        NotFoundError: there is no such block.
    """
    holding, archived = memory.blocks.holding(name), memory.session.status().archived_messages
    attached = next(block for block in memory.blocks if block.name == name)
    goes, stays = ["its settings"], []
    if attached.kind in WITH_TEXT:
        goes.append(f"its text with {count(holding.texts, 'version')}")
    elif attached.kind == "vector":
        goes.append(stored(holding.turns, unit_of(attached.settings)))
    elif attached.kind == "facts":
        facts = sum(holding.facts.values())
        stays.append(f"{count(facts, 'fact')}, which {'returns' if facts == 1 else 'return'} with a block of this name")
    elif attached.kind == "graph":
        relations = sum(holding.relations.values())
        again = "returns" if relations == 1 else "return"
        stays.append(f"{count(relations, 'relation')}, which {again} with a block of this name")
    else:
        goes.append("what it learned")
    if holding.waiting:
        goes.append(f"{count(holding.waiting, 'delivery')} that {'waits' if holding.waiting == 1 else 'wait'} for it")
    if archived:
        stays.append(f"the {count(archived, 'message')} that left the queue")
    return goes, stays


@error_noticed
def _remove(session_id: str, name: str) -> None:
    memory = engine().open(session_id)
    # Read before the removal, after which there is nothing left to count.
    gone, remaining = gone_and_left(memory, name)
    memory.blocks.remove(name)
    stays = f" Kept: {listed(remaining)}." if remaining else ""
    toasts.done(f"Removed {short(name)}. Deleted: {listed(gone)}.{stays}")
