"""Three steps for a first visit, in one line above the chat; gone after the third or by the cross, for good."""

from pathlib import Path

import streamlit as st

from memory_core.recording import Recording
from ui import nav, state
from ui.demo import DEMO_SESSION
from ui.demo_script import FORGOTTEN_QUESTION, RECORDED_TURNS
from ui.frame import View
from ui.services import engine

_QUESTION = {"query": FORGOTTEN_QUESTION}

_SEEN = "guide-seen"
"""An empty file of this name in the app's folder: the guide was finished or put away."""


def draw_guide(view: View, recording: Recording | None) -> bool:
    """The line with its three steps; whether it is there."""
    if view.memory.session_id != DEMO_SESSION or recording is None or _marker().exists():
        return False
    sent = view.status.turns > RECORDED_TURNS
    looked, found = state.visited("context"), state.visited("retrieval")
    if sent and looked and found:
        finish_guide()
        return False
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chat__guide"):
        st.markdown(":small[:gray[New here?]]", width="content")
        st.markdown(_step(1, "Send the next message", sent), width="content")
        steps: tuple[tuple[str, str, bool, dict[str, str]], ...]
        steps = (("context", "See what was cut", looked, {}), ("retrieval", "Find what it forgot", found, _QUESTION))
        for number, (page, words, done, query) in enumerate(steps, start=2):
            step = _step(number, words, done)
            if sent:
                nav.link(page, step, icon="", turn=None, **query)
            else:
                st.markdown(step, width="content")
        st.button(
            ":material/close:", key="chat__guide_close", type="tertiary", help="Close the guide", on_click=finish_guide
        )
    return True


def finish_guide() -> None:
    """Put the guide away, in every browser that uses this folder. For callbacks."""
    marker = _marker()
    marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    marker.touch()


def _marker() -> Path:
    home = engine().settings.home
    assert home is not None  # `app_settings` gives one in any case
    return home / _SEEN


def _step(number: int, words: str, done: bool) -> str:
    return f":small[:gray[:material/check: {words}]]" if done else f":small[**{number}** {words}]"
