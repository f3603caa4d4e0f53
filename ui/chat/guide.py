"""A one-sentence introduction and three steps for a first visit, above the chat of the demo until it is closed.

A step is done when its page has shown what the step promises, however the user got there. Completed steps are stored in
the app's folder, so that a reload or another browser finds them done.
"""

from pathlib import Path

import streamlit as st

from memory_core.history.by_turn import History
from memory_core.sessions.recording import Recording
from ui import nav
from ui.demo import DEMO_SESSION
from ui.demo_script import FORGOTTEN_WORDS, RECORDED_TURNS
from ui.services import engine
from ui.terms import explained
from ui.view import View

WHAT_THIS_IS = "What an agent remembers, turn by turn: what is sent, flushed, learned, recalled or cut, and why."

_CLOSED, _CUT, _FORGOTTEN = "guide-seen", "guide-cut", "guide-forgotten"
"""Names of empty marker files in the app's folder: the guide was closed, or a step of it is done."""


def draw_guide(view: View, recording: Recording | None) -> bool:
    """Draw the sentence and the line with the three steps; return whether they are drawn."""
    if view.memory.session_id != DEMO_SESSION or recording is None or _is_set(_CLOSED):
        return False
    sent, cut = view.latest_turn > RECORDED_TURNS, last_cut(view.history)
    with st.container(gap="xxsmall", key="chat__what"):
        st.markdown(f":small[{explained(WHAT_THIS_IS)}]")
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chat__guide"):
            st.markdown(":small[:gray[New here?]]", width="content")
            st.markdown(_step(1, "Send the next message", sent), width="content")
            step = _step(2, "See what was cut", _is_set(_CUT))
            if cut is not None:
                nav.link("context", step, icon="", turn=None if cut == view.latest_turn else cut)
            else:
                st.markdown(step, width="content")
            step = _step(3, "Find what it forgot", _is_set(_FORGOTTEN))
            if sent:
                nav.link("trace", step, icon="", turn=None, **nav.followed(FORGOTTEN_WORDS))
            else:
                st.markdown(step, width="content")
            st.button(
                "Close",
                icon=":material/close:",
                key="chat__guide_close",
                type="tertiary",
                help="Close the guide permanently",
                on_click=_set,
                args=(_CLOSED,),
            )
    return True


def last_cut(history: History) -> int | None:
    """The newest turn whose prompt had something cut."""
    return max((number for number, turn in history.turns.items() if turn.cut_tokens), default=None)


def arrived(page: str, view: View) -> None:
    """Mark as done the step whose promise this page shows. Called by the frame on every run."""
    if view.memory.session_id != DEMO_SESSION or _is_set(_CLOSED):
        return
    if page == "context" and view.then is not None and view.then.cut_tokens:
        _set(_CUT)
    if page == "trace" and st.query_params.get(nav.WORDS) == FORGOTTEN_WORDS:
        _set(_FORGOTTEN)


def _marker(name: str) -> Path:
    home = engine().settings.home
    assert home is not None  # `Settings.of_the_app` always sets one
    return home / name


def _is_set(name: str) -> bool:
    return _marker(name).exists()


def _set(name: str) -> None:
    marker = _marker(name)
    if not marker.exists():
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch()


def _step(number: int, words: str, done: bool) -> str:
    return f":small[:gray[:material/check: {words}]]" if done else f":small[**{number}** {words}]"
