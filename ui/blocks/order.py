"""The drawer in which blocks are put into another order: that of cutting, and that of the prompt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from memory_core import ConflictError, Memory, MemoryInspectorError
from memory_core.planning.priorities import CutOrder, cut_order, plan_priorities
from ui.blocks.cards import labelled, strip
from ui.blocks.effects import draw_effect
from ui.components import closing_button, error_inside
from ui.services import engine
from ui.text import plain
from ui.theme import mode

_KEY = "blocks_order"

_VIEWS = {"cuts": "Cut first", "prompt": "Place in the prompt"}


@dataclass(frozen=True, slots=True)
class _Draft:
    """An order under way, and what it started from."""

    session_id: str
    opened: Mapping[str, int]
    """Priorities, in the order of the blocks."""
    cuts: CutOrder
    names: tuple[str, ...]
    """In the order of the prompt."""
    conflict: bool = False
    problem: str | None = None
    saved: bool = False


def leave_order() -> None:
    """Begin anew the next time. For callbacks."""
    st.session_state.pop(_KEY, None)


@st.dialog("Change order", width=440, position="right", icon=":material/swap_vert:", on_dismiss=leave_order)
@error_inside
def order_dialog(session_id: str) -> None:
    """Say which block is cut before which, and where each stands in the prompt."""
    memory = engine().open(session_id)
    draft = _draft(memory)
    if draft.saved:
        leave_order()
        st.rerun()
    if draft.conflict:
        _conflict(memory)
    elif draft.problem is not None:
        st.error(plain(draft.problem))
    shown = st.segmented_control(
        "Order",
        list(_VIEWS),
        default="cuts",
        key="blocks__order_view",
        format_func=lambda view: _VIEWS[view],
        required=True,
        label_visibility="collapsed",
    )
    kinds = {attached.name: attached.kind for attached in memory.blocks}
    planned = plan_priorities(draft.cuts, draft.opened, memory.config.truncation_order)
    if shown == "cuts":
        _cut_rows(draft, kinds)
        st.markdown(f":small[{strip(draft.cuts, planned, kinds, mode())}]")
    else:
        _prompt_rows(draft, kinds)
    changed = {name: number for name, number in planned.items() if draft.opened[name] != number}
    reordered = draft.names != tuple(draft.opened)
    possible = bool(changed or reordered)
    if changed:
        known = {name: {"priority": number} for name, number in changed.items() if name in kinds}
        possible = draw_effect(memory, blocks=known)
    elif reordered:
        st.markdown(":small[:gray[The prompt says the same in another order. Among blocks of one place, the "
                    "first in the prompt is cut first.]]")  # fmt: skip
    with st.container(horizontal=True):
        st.button(
            "Apply from the next turn",
            key="blocks__order_apply",
            type="primary",
            disabled=not possible,
            on_click=_apply,
            args=(session_id, draft, changed, reordered),
        )
        closing_button("Discard", leave_order, key="blocks__order_discard")


def _cut_rows(draft: _Draft, kinds: Mapping[str, str]) -> None:
    st.markdown(
        ":small[:gray[The first is cut first. ▲ and ▼ go one step: onto the next place, then past it. Blocks may "
        "share a place (`priority`).]]"
    )
    order = draft.cuts
    for name in (*(name for group in order.groups for name in group), *order.never):
        with _row(name, kinds):
            _step("▲", f"Cut {name} sooner", name, order.can_move(name, -1), lambda cuts, name: cuts.sooner(name))
            _step("▼", f"Cut {name} later", name, order.can_move(name, 1), lambda cuts, name: cuts.later(name))
            st.checkbox(
                "never cut",
                value=name in order.never,
                key=f"blocks__order_never_{name}",
                on_change=_move_cut,
                args=(lambda cuts, name: cuts.set_never(name, name not in cuts.never), name),
            )


def _prompt_rows(draft: _Draft, kinds: Mapping[str, str]) -> None:
    st.markdown(":small[:gray[The order of the blocks' sections in the prompt.]]")
    last = len(draft.names) - 1
    for place, name in enumerate(draft.names):
        with _row(name, kinds):
            for mark, step in (("▲", -1), ("▼", 1)):
                st.button(
                    mark,
                    key=f"blocks__order_prompt_{mark}_{name}",
                    help="One place up" if step < 0 else "One place down",
                    disabled=not 0 <= place + step <= last,
                    on_click=_move_in_prompt,
                    args=(name, step),
                )


def _row(name: str, kinds: Mapping[str, str]) -> Any:
    row = st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False)
    shown = labelled(name, kinds.get(name, "custom"), mode())
    row.markdown(shown, width="stretch")
    return row


def _step(mark: str, says: str, name: str, possible: bool, move: Callable[[CutOrder, str], CutOrder]) -> None:
    st.button(
        mark,
        key=f"blocks__order_{mark}_{name}",
        help=plain(says),
        disabled=not possible,
        on_click=_move_cut,
        args=(move, name),
    )


# -- the draft -------------------------------------------------------------------------------------


def _draft(memory: Memory) -> _Draft:
    found: _Draft | None = st.session_state.get(_KEY)
    if found is None or found.session_id != memory.session_id:
        found = st.session_state[_KEY] = _begun(memory)
    return found


def _begun(memory: Memory) -> _Draft:
    priorities = {a.name: int(a.record.settings.get("priority", 0)) for a in memory.blocks}
    cuts = cut_order(priorities, memory.config.truncation_order)
    return _Draft(memory.session_id, priorities, cuts, tuple(priorities))


def _move_cut(move: Callable[[CutOrder, str], CutOrder], name: str) -> None:
    draft: _Draft = st.session_state[_KEY]
    st.session_state[_KEY] = replace(draft, cuts=move(draft.cuts, name).listed(draft.opened), problem=None)


def _move_in_prompt(name: str, step: int) -> None:
    draft: _Draft = st.session_state[_KEY]
    names = list(draft.names)
    place = names.index(name)
    names[place], names[place + step] = names[place + step], names[place]
    st.session_state[_KEY] = replace(draft, names=tuple(names), problem=None)


def _apply(session_id: str, draft: _Draft, changed: Mapping[str, int], reordered: bool) -> None:
    try:
        engine().open(session_id).configure_blocks(
            {name: {"priority": number} for name, number in changed.items()},
            order=draft.names if reordered else None,
            opened={name: {"priority": number} for name, number in draft.opened.items()},
        )
    except ConflictError:
        st.session_state[_KEY] = replace(draft, conflict=True)
    except MemoryInspectorError as error:
        st.session_state[_KEY] = replace(draft, problem=str(error))
    else:
        st.session_state[_KEY] = replace(draft, saved=True)


def _conflict(memory: Memory) -> None:
    st.warning("Changed in another tab since you opened it. Nothing was saved.", icon=":material/warning:")
    with st.container(horizontal=True):
        st.button("Show theirs", key="blocks__order_theirs", on_click=_show_theirs, args=(memory,))
        st.button("Keep editing", key="blocks__order_keep", on_click=_keep_editing, args=(memory,))


def _show_theirs(memory: Memory) -> None:
    st.session_state[_KEY] = _begun(memory)


def _keep_editing(memory: Memory) -> None:
    """My order of the blocks that are still there; those that came since stand where the other tab put them."""
    draft: _Draft = st.session_state[_KEY]
    theirs = _begun(memory)
    names = [name for name in draft.names if name in theirs.opened]
    names += [name for name in theirs.names if name not in draft.opened]
    groups = [tuple(name for name in group if name in theirs.opened) for group in draft.cuts.groups]
    groups += [(name,) for group in theirs.cuts.groups for name in group if name not in draft.opened]
    never = [name for name in draft.cuts.never if name in theirs.opened]
    never += [name for name in theirs.cuts.never if name not in draft.opened]
    cuts = CutOrder(tuple(group for group in groups if group), tuple(never)).listed(theirs.opened)
    st.session_state[_KEY] = replace(theirs, cuts=cuts, names=tuple(names))
