"""The trial settings for a question, their effect, and the button that stores them."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import streamlit as st

from memory_core import ConflictError, MemoryInspectorError, VectorMemoryBlock
from memory_core.engine.session import SessionBlock
from memory_core.events import BlockEdited
from memory_core.retrieval.explain import Search
from memory_inspector.reading.search_rows import SEARCHES, SIGNALS, changed_sentence
from memory_inspector.wording.formatting import short
from memory_inspector.wording.settings import SETTINGS
from memory_inspector.wording.unit_names import stored_plural
from ui.parts import toasts
from ui.parts.effect import draw_effect
from ui.parts.fields import change_settings, draw_setting
from ui.retrieval import search_state
from ui.tab import state
from ui.tab.people import allowed
from ui.tab.view import View

TOP_K, THRESHOLD = "similarity_top_k", "similarity_threshold"
WEIGHTS = tuple(signal.setting for signal in SIGNALS.values())
MAX_RESULTS = 100
"""Maximum number of results that can be tried; more than any prompt holds."""


def tried(session_id: str, block: SessionBlock) -> dict[str, Any]:
    """The settings tried in this tab that differ from the stored ones."""
    stored = block.settings
    wanted = search_state.asked(session_id).tried.get(block.name, {})
    # Compared at each drawing: once a tried value is stored, it is no change any more.
    return {name: value for name, value in wanted.items() if stored.get(name) != value}


def set_tried(session_id: str, block: str, **changes: Any) -> None:
    """Change trial settings, keeping the others. For callbacks."""
    tried = search_state.asked(session_id).tried.get(block, {})
    search_state.try_settings(session_id, block, {**tried, **changes})


def draw(view: View, block: SessionBlock, before: Search, after: Search, unit: str) -> None:
    """Draw the trial settings, their effect, and the button that applies them; `unit`: noun for a stored item."""
    session_id, name = view.memory.session_id, block.name
    stored = block.settings
    now = {**stored, **tried(session_id, block)}
    changes = tried(session_id, block)
    # Before the widgets are drawn: afterwards their values cannot be set.
    _fill(now)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="retrieval__knobs"):
        draw_setting(
            SETTINGS[TOP_K],
            VectorMemoryBlock,
            _key(TOP_K),
            on_change=_moved,
            args=(session_id, name, TOP_K),
            width=190,
            help=f"Maximum number of {stored_plural(unit)} requested for one prompt (top-k). Empty: as many as fit.",
            # A stored number above the usual maximum would be refused by the field.
            max_value=max(MAX_RESULTS, int(now[TOP_K] or 0)),
        )
        draw_setting(
            SETTINGS[THRESHOLD],
            VectorMemoryBlock,
            _key(THRESHOLD),
            on_change=_moved,
            args=(session_id, name, THRESHOLD),
            format="%.2f",
            width=130,
            help=f"Minimum score of a stored {unit} to be used. Empty: no threshold.",
        )
        # All settings of this drawer, so that a change of any of them elsewhere is a conflict.
        opened = {key: stored[key] for key in (TOP_K, THRESHOLD, *WEIGHTS)}
        st.button(
            "Apply from the next turn",
            key="retrieval__apply",
            on_click=_apply,
            args=(session_id, name, changes, opened),
            **allowed(
                BlockEdited,
                disabled=not changes or view.read_only is not None,
                help=view.read_only.sentence if view.read_only is not None else None,
            ),
        )
        if changes:
            back = partial(search_state.try_settings, session_id, name, {})
            st.button("Discard changes", key="retrieval__back", type="tertiary", on_click=back)
    st.pills(
        "What counts in the score",
        list(SIGNALS),
        selection_mode="multi",
        key=_key("signals"),
        format_func=lambda signal_name: SIGNALS[signal_name].label,
        help="  \n".join(f"**{signal.label}**: {signal.means}" for signal in SIGNALS.values()),
        on_change=_switched,
        args=(
            session_id,
            name,
            {signal_name: float(stored[signal.setting]) for signal_name, signal in SIGNALS.items()},
        ),
    )
    if not changes:
        st.markdown(
            ":small[:gray[These are the stored settings. Change them to see what this question would find then.]]"
        )
        return
    # The sentence begins with the unit that is looked at.
    picked = search_state.asked(session_id).number
    st.markdown(f":small[With these: **{changed_sentence(before, after, first=picked, unit=unit)}**.]")
    if before.query:
        draw_effect(view.memory, blocks={name: changes}, ask=before.query)


def _key(knob: str) -> str:
    return f"retrieval__{knob}"


def _fill(now: dict[str, Any]) -> None:
    """Set the widgets to the trial settings, whoever changed them."""
    for setting in (TOP_K, THRESHOLD):
        st.session_state[_key(setting)] = SETTINGS[setting].in_field(now[setting])
    st.session_state[_key("signals")] = [name for name, signal in SIGNALS.items() if now[signal.setting]]


def _moved(session_id: str, name: str, setting: str) -> None:
    set_tried(session_id, name, **{setting: st.session_state[_key(setting)]})


def _switched(session_id: str, name: str, stored: Mapping[str, float]) -> None:
    on = set(st.session_state[_key("signals")])
    if not on & set(SEARCHES):
        # Nothing is changed, and the next drawing fills the pills from the settings again.
        state.say("info", "One of the two searches must stay on.")
        return
    set_tried(session_id, name, **switched(on, stored))


def switched(on: Collection[str], stored: Mapping[str, float]) -> dict[str, float]:
    """Weights by setting: the block's own for enabled signals, the usual one if that is 0; 0 for disabled signals."""
    return {signal.setting: (stored[name] or signal.usual) if name in on else 0.0 for name, signal in SIGNALS.items()}


def _apply(session_id: str, name: str, changes: dict[str, Any], opened: dict[str, Any]) -> None:
    try:
        change_settings(session_id, name, opened, changes)
    except ConflictError:
        state.say("warning", f"“{short(name)}” was changed in another tab since you opened it. Nothing was saved.")
    except MemoryInspectorError as error:
        state.say("error", str(error))
    else:
        search_state.try_settings(session_id, name, {})
        # Undo expects the changed settings only: others may have moved on.
        before = {setting: opened[setting] for setting in changes}
        toasts.done(
            f"Saved. “{short(name)}” searches with these settings from the next turn on.",
            undo=partial(change_settings, session_id, name, changes, before),
        )
