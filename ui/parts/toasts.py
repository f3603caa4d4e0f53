"""Toasts: a sentence after a change, with Undo, at the bottom right of every page for some seconds.

Position and fading are defined in static/app.css; toasts take no space on the page.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType

import streamlit as st

from memory_core import MemoryInspectorError
from memory_inspector.wording.formatting import plain
from ui.tab import state

SECONDS = 10.0
"""Seconds for which a toast is shown, as in the style sheet; longer while the pointer is over it."""

_NUMBER = "toast_number"

_NAMES = ("even", "odd")


@dataclass(frozen=True, slots=True)
class Toast:
    """A message about a change, and the function that undoes it."""

    number: int
    text: str
    """Text of the toast, unescaped; it is escaped when drawn."""
    session_id: str | None
    """Id of the session that must be selected for the toast to be shown; None: any session."""
    undo: Callable[[], object] | None
    until: float
    """Monotonic time, in seconds, after which the toast is not drawn."""
    failed: bool = False
    """True if the toast reports that a watched item was lost, or that a change could not be undone."""


def done(text: str, *, undo: Callable[[], object] | None = None, session_id: str | EllipsisType | None = ...) -> None:
    """Show a message about a change on the next drawing. For callbacks; the newest replaces the one before.

    `undo` runs at most once. If it is not possible, for example after another change, it raises a
    `MemoryInspectorError`. `session_id`: shown while it is selected; default: the selected one; None: always.
    """
    _say(text, undo, state.selected_session() if session_id is ... else session_id)


def warn(text: str) -> None:
    """Show a message about a loss in the selected session, on this drawing if the toasts are not drawn yet."""
    _say(text, None, state.selected_session(), failed=True)


def draw() -> None:
    """Draw the newest toast until it expires. Called by the frame on every run."""
    toast: Toast | None = st.session_state.get(state.TOAST)
    if toast is None:
        return
    # A rerun can come at any time: an old toast must not come back with it.
    if time.monotonic() > toast.until or toast.session_id not in (None, state.selected_session()):
        st.session_state.pop(state.TOAST, None)
        return
    # Two alternating names: the browser restarts the fading only if the name changes.
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"toast_{_NAMES[toast.number % 2]}"
    ):
        if toast.failed:
            st.warning(plain(toast.text), icon=":material/warning:")
        else:
            st.success(plain(toast.text), icon=":material/check:")
        if toast.undo is not None:
            st.button(
                "Undo",
                key=f"toast__undo_{toast.number}",
                type="tertiary",
                shortcut="Alt+Z",
                on_click=_undo,
                args=(toast.number,),
            )
        st.button("Dismiss", key="toast__close", type="tertiary", icon=":material/close:", on_click=dismiss)


def _say(text: str, undo: Callable[[], object] | None, session_id: str | None, *, failed: bool = False) -> None:
    # Numbers only grow, so that a click on an old toast's Undo can be told from one on the newest.
    number = st.session_state[_NUMBER] = int(st.session_state.get(_NUMBER, 0)) + 1
    until = time.monotonic() + SECONDS
    st.session_state[state.TOAST] = Toast(number, text, session_id, undo, until, failed)


def _undo(number: int) -> None:
    toast: Toast | None = st.session_state.get(state.TOAST)
    if toast is None or toast.number != number or toast.undo is None:
        return  # a second click on it
    # Before the undo, so that a second click finds no toast, and the thing is not undone twice.
    dismiss()
    try:
        toast.undo()
    except MemoryInspectorError as error:
        _say(str(error), None, toast.session_id, failed=True)
    else:
        _say("Undone.", None, toast.session_id)


def dismiss() -> None:
    """Remove the toast. For callbacks."""
    st.session_state.pop(state.TOAST, None)
