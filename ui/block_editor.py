"""Drawers that change blocks: the text of a static one, and adding or removing one."""

import time
from typing import Any

import streamlit as st

from memory_core import (
    BaseMemoryBlock,
    ConflictError,
    FactExtractionMemoryBlock,
    Memory,
    MemoryInspectorError,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from ui import state
from ui.components import closing_button, error_inside
from ui.model import chosen_model, services_for
from ui.services import engine
from ui.text import ago, count, plain, tokens

_KINDS = {"static": "Fixed text", "facts": "Facts", "vector": "Earlier turns"}
_HELP = {
    "static": "Text that stands in every prompt.",
    "facts": "Learned from messages when they leave the queue.",
    "vector": "Turns that left the queue, found again by the question.",
}


@st.dialog("Edit block", width=440, position="right", icon=":material/edit_note:")
@error_inside
def edit_dialog(session_id: str, name: str) -> None:
    """Edit a static block's words, with what that does to the next prompt, and its history."""
    memory = engine().open(session_id)
    attached = next((a for a in memory.blocks if a.name == name), None)
    if attached is None:
        st.warning("This block was removed elsewhere.")
        return
    opened = f"edit__{session_id}__{name}"
    if opened not in st.session_state:
        st.session_state[opened] = attached.record.revision
    current = attached.state or ""
    if current.startswith("\x01"):
        st.info("This text holds images or files. It can be changed from Python only.")
        return
    st.markdown(f"**{plain(name)}**")
    text = st.text_area("Text", value=current, height=260, key=f"{opened}__text", max_chars=100_000)
    before, after = memory.count_tokens(current), memory.count_tokens(text)
    st.markdown(f"{tokens(before)} → **{tokens(after)} tokens**  :small[:gray[Ctrl+Enter to recount]]")
    _next_prompt(memory, after - before)
    with st.container(horizontal=True):
        closing_button("Save", _save, (session_id, name, opened), disabled=text == current, kind="primary")
        closing_button("Discard", _forget, (opened,))
    revisions = memory.block_revisions(name)
    with st.expander(f"History: {count(len(revisions), 'version')}"):
        for revision in reversed(revisions):
            st.markdown(
                f":small[Version {revision.revision} · {plain(revision.actor)} · {ago(revision.at, time.time())}]"
            )
            st.text(revision.text)
            if revision.text != current:
                closing_button(
                    "Restore",
                    _restore,
                    (session_id, name, revision.text, attached.record.revision, opened),
                    key=f"{opened}__restore_{revision.revision}",
                )


def _next_prompt(memory: Memory, more: int) -> None:
    plan = memory.build_context(record=False).plan
    after = plan.asked + more
    over = after - plan.token_limit
    if more and over > 0:
        st.markdown(f":small[The next prompt would ask {tokens(after)}, {tokens(over)} over the limit.]")
    elif more:
        st.markdown(f":small[The next prompt would ask {tokens(after)} of {tokens(plan.token_limit)}.]")


def _save(session_id: str, name: str, opened: str) -> None:
    text = str(st.session_state.get(f"{opened}__text", ""))
    try:
        engine().open(session_id).edit_block(name, text, revision=st.session_state.get(opened))
    except ConflictError:
        state.say("warning", f"“{name}” was changed in another tab since you opened it. Nothing was saved.")
    except MemoryInspectorError as error:
        state.say("error", str(error))
    _forget(opened)


def _restore(session_id: str, name: str, text: str, revision: int, opened: str) -> None:
    try:
        engine().open(session_id).edit_block(name, text, revision=revision)
    except MemoryInspectorError as error:
        state.say("error", str(error))
    _forget(opened)


def _forget(opened: str) -> None:
    for key in (opened, f"{opened}__text"):
        st.session_state.pop(key, None)


@st.dialog("Add a block", width=440, position="right", icon=":material/add:")
@error_inside
def add_dialog(session_id: str) -> None:
    """Add a block, and offer to fill it from what left the queue before."""
    memory = engine().open(session_id)
    kind = st.segmented_control(
        "Kind", list(_KINDS), default="static", format_func=lambda value: _KINDS[value], required=True
    )
    st.markdown(f":small[:gray[{_HELP[str(kind)]}]]")
    name = st.text_input("Name", value="", placeholder=_KINDS[str(kind)], max_chars=60)
    priority = st.number_input(
        "Priority", min_value=0, value=0 if kind == "static" else 1, help="0 is never cut. Of the rest, see Settings."
    )
    text = st.text_area("Text", key="add__text") if kind == "static" else ""
    archived = memory.status().archived_messages
    fill = False
    if kind != "static" and archived:
        fill = st.checkbox(
            f"Fill it from the {count(archived, 'message')} that left the queue before",
            value=True,
            help="Without this, it learns only from what leaves from now on.",
        )
        if fill and not chosen_model().offline and kind == "facts":
            st.markdown(":small[This calls the model once for about every 8,000 tokens of archived messages.]")
    closing_button(
        "Add block",
        _add,
        (session_id, str(kind), name.strip() or _KINDS[str(kind)], int(priority), str(text), bool(fill)),
        kind="primary",
    )


def _add(session_id: str, kind: str, name: str, priority: int, text: str, fill: bool) -> None:
    made: dict[str, type[BaseMemoryBlock[Any]]] = {
        "static": StaticMemoryBlock,
        "facts": FactExtractionMemoryBlock,
        "vector": VectorMemoryBlock,
    }
    try:
        memory = engine().open(session_id, services_for(chosen_model()))
        extra = {"static_content": text} if kind == "static" else {}
        memory.add_block(made[kind](name=name, priority=priority, **extra))
        if fill:
            memory.fill_block(name, wait=False)
    except MemoryInspectorError as error:
        state.say("error", str(error))


@st.dialog("Remove a block", icon=":material/delete:")
@error_inside
def remove_dialog(session_id: str) -> None:
    """Remove a block with what it stored."""
    memory = engine().open(session_id)
    names = [attached.name for attached in memory.blocks]
    name = st.selectbox("Block", names)
    if name is None:
        st.markdown("This session has no blocks.")
        return
    st.markdown("Its stored turns are removed. Facts stay in the database, and return with a block of that name.")
    closing_button("Remove block", _remove, (session_id, name), kind="primary")


def _remove(session_id: str, name: str) -> None:
    try:
        engine().open(session_id).remove_block(name)
    except MemoryInspectorError as error:
        state.say("error", str(error))
