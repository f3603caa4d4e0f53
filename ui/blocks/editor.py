"""Drawers that change which blocks there are and what the static ones say."""

from collections.abc import Sequence

import streamlit as st

from memory_core import ConflictError, Memory, MemoryInspectorError
from memory_core.blocks.plugins import plugins
from memory_core.editing import agent_may_edit
from memory_core.store.blocks import WITH_TEXT
from ui import state
from ui.blocks.cards import characters_used
from ui.blocks.drafts import Draft, draft, forget, keep_draft, kept, leave
from ui.blocks.effects import draw_effect
from ui.blocks.kinds import Kind, free_name, kinds, make
from ui.blocks.versions import draw_difference, draw_versions, text_block
from ui.components import closing_button, error_inside
from ui.model import chosen_model, services_for
from ui.services import engine
from ui.stored import stored, unit_of
from ui.text import count, plain, short, tokens

MOST_CHARACTERS = 100_000


# -- editing ---------------------------------------------------------------------------------------


@st.dialog("Edit block", width=440, position="right", icon=":material/edit_note:", on_dismiss=leave)
@error_inside
def edit_dialog(session_id: str, name: str) -> None:
    """Edit a block's words, with what that does to the next prompt, and its history."""
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
    draft(key, box, Draft(attached.record.revision))
    st.markdown(f"**{plain(name)}**")
    place = st.container()  # a conflict is said above the text
    text = str(st.text_area("Text", value=current, height=220, key=box, max_chars=MOST_CHARACTERS))
    before, after = memory.count_tokens(current), memory.count_tokens(text)
    bound = f" of {tokens(attached.settings['max_tokens'])}" if attached.kind == "summary" else ""
    st.markdown(f"{tokens(before)} → **{tokens(after)}{bound} tokens**  :small[:gray[Ctrl+Enter to recount]]")
    if agent_may_edit(attached):
        limit = attached.settings["limit"]
        over = ": the agent can only shorten it" if limit is not None and len(text) > limit else ""
        st.markdown(f":small[{characters_used(len(text), limit)}{over}. The agent edits this text too.]")
    if text != current:
        draw_effect(memory, texts={name: text})
    with st.container(horizontal=True):
        st.button(
            "Save",
            key=f"blocks__{key}_save",
            type="primary",
            disabled=text == current,
            on_click=_save,
            args=(session_id, name, key, box),
        )
        closing_button("Discard", forget, (key, box), key=f"blocks__{key}_discard")
    opened = kept(key)
    if opened.saved:
        forget(key)
        st.rerun()
    if opened.problem is not None:
        place.error(plain(opened.problem))
    if opened.conflict:
        with place:
            _conflict(key, box, current, attached.record.revision)
    elif opened.theirs is not None and text != current:
        draw_difference("What Save would change", current, text)
    if opened.mine is not None:
        with st.expander("Your text, not saved", expanded=True):
            st.text(opened.mine)
            st.button("Edit yours", key=f"blocks__{key}_mine", on_click=_take_mine, args=(key, box))
    revisions = memory.block_revisions(name)
    history = st.expander(
        f"History: {count(len(revisions), 'version')}", key=f"blocks__{key}_history", on_change="rerun"
    )
    if history.open:
        with history:
            draw_versions(memory, attached, revisions, key)


def _conflict(key: str, box: str, theirs: str, revision: int) -> None:
    st.warning("Changed in another tab since you opened it. Nothing was saved.", icon=":material/warning:")
    with st.container(horizontal=True):
        st.button("Show theirs", key=f"blocks__{key}_theirs", on_click=_show_theirs, args=(key, box, theirs, revision))
        st.button("Keep editing", key=f"blocks__{key}_keep", on_click=_keep_editing, args=(key, theirs, revision))


def _save(session_id: str, name: str, key: str, box: str) -> None:
    text, opened = str(st.session_state.get(box, "")), kept(key)
    try:
        engine().open(session_id).edit_block(name, text, revision=opened.revision)
    except ConflictError:
        keep_draft(key, Draft(opened.revision, conflict=True))
    except MemoryInspectorError as error:
        keep_draft(key, Draft(opened.revision, problem=str(error)))
    else:
        keep_draft(key, Draft(opened.revision, saved=True))


def _show_theirs(key: str, box: str, theirs: str, revision: int) -> None:
    mine = str(st.session_state.get(box, ""))
    st.session_state[box] = theirs
    keep_draft(key, Draft(revision, mine=mine))


def _keep_editing(key: str, theirs: str, revision: int) -> None:
    keep_draft(key, Draft(revision, theirs=theirs))


def _take_mine(key: str, box: str) -> None:
    opened = kept(key)
    theirs = str(st.session_state.get(box, ""))
    st.session_state[box] = opened.mine or ""
    keep_draft(key, Draft(opened.revision, theirs=theirs))


# -- adding ----------------------------------------------------------------------------------------


@st.dialog("Add a block", width=440, position="right", icon=":material/add:", on_dismiss="rerun")
@error_inside
def add_dialog(session_id: str, kind: str = "static") -> None:
    """Add a block of any kind there is, and offer to fill it from what left the queue before."""
    memory = engine().open(session_id)
    offered = kinds(plugins())
    chosen = offered[
        str(
            st.segmented_control(
                "Kind",
                list(offered),
                default=kind,
                key="blocks__add_kind",
                format_func=lambda key: plain(short(offered[key].label)),
                required=True,
            )
        )
    ]
    st.markdown(f":small[:gray[{plain(chosen.help)}]]")
    _broken()
    taken = [attached.name for attached in memory.blocks]
    suggested = free_name(chosen.name, taken)
    name = st.text_input("Name", value="", placeholder=suggested, max_chars=60, key="blocks__add_name")
    name = name.strip() or suggested
    text = ""
    if chosen.key == "static":
        text = str(st.text_area("Text", key="blocks__add_text", height=140, max_chars=MOST_CHARACTERS))
    priority = st.number_input(
        "Priority",
        min_value=0,
        value=chosen.priority,
        key=f"blocks__add_priority_{chosen.key}",
        help="`priority`: 0 is never cut. Of the rest, the order stands above the blocks.",
    )
    archived = memory.status().archived_messages
    fill = chosen.learns and bool(archived) and _filling(chosen, archived)
    possible = _possible(memory, chosen, name, int(priority), text, taken)
    closing_button(
        "Add block",
        _add,
        (session_id, chosen, name, int(priority), text, fill),
        kind="primary",
        disabled=not possible,
        key="blocks__add_save",
    )


def _broken() -> None:
    """Name the plug-ins that cannot be used, with the reason."""
    for plugin in plugins():
        if plugin.error is not None:
            named = f"“{plugin.name}” of {plugin.package}" if plugin.package else f"“{plugin.name}”"
            st.warning(
                f"{plain(named)} cannot be used: {plain(short(plugin.error, 200))}",
                icon=":material/extension_off:",
            )


def _filling(kind: Kind, archived: int) -> bool:
    fill = st.checkbox(
        f"Fill it from the {count(archived, 'message')} that left the queue before",
        value=True,
        key=f"blocks__add_fill_{kind.key}",
        help="Without this, it learns only from what leaves from now on.",
    )
    if fill and kind.key in ("facts", "summary", "graph") and not chosen_model().offline:
        st.markdown(":small[This calls the model once for about every 8,000 tokens of archived messages.]")
    return bool(fill)


def _possible(memory: Memory, kind: Kind, name: str, priority: int, text: str, taken: Sequence[str]) -> bool:
    """Say what the block would do to the next prompt, or why it cannot be added."""
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
        st.markdown(":small[:gray[It begins empty. What it learns asks for room in the prompts after.]]")
    return possible


def _add(session_id: str, kind: Kind, name: str, priority: int, text: str, fill: bool) -> None:
    try:
        memory = engine().open(session_id, services_for(chosen_model()))
        memory.add_block(make(kind, name, priority, text))
        if fill:
            memory.fill_block(name, wait=False)
    except MemoryInspectorError as error:
        state.say("error", str(error))


# -- removing --------------------------------------------------------------------------------------


@st.dialog("Remove a block", width=440, position="right", icon=":material/delete:", on_dismiss="rerun")
@error_inside
def remove_dialog(session_id: str, name: str | None = None) -> None:
    """Remove a block: what goes with it, and what stays."""
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
    draw_effect(memory, without=[name])
    with st.container(horizontal=True):
        closing_button("Remove block", _remove, (session_id, name), kind="primary", key="blocks__remove_save")
        closing_button("Keep", _nothing, key="blocks__remove_keep")


def what_goes(memory: Memory, name: str) -> list[str]:
    """What is gone with a block, and what stays without it, a line of markdown each."""
    attached = next(each for each in memory.blocks if each.name == name)
    holding, archived = memory.holding(name), memory.status().archived_messages
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
    lines = [f":material/delete: Goes: {', '.join(goes)}."]
    return lines + ([f":material/inventory_2: Stays: {', '.join(stays)}."] if stays else [])


def _remove(session_id: str, name: str) -> None:
    try:
        engine().open(session_id).remove_block(name)
    except MemoryInspectorError as error:
        state.say("error", str(error))


def _nothing() -> None:
    """For a button that only closes its drawer."""
