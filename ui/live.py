"""Following what other processes write: a page is drawn anew within two seconds."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.log import last_position
from ui import state
from ui.services import engine

LOOK_SECONDS = 1.0
"""How often a page looks whether anything was written; one look at an index."""


@st.fragment(run_every=LOOK_SECONDS)
def follow(session_id: str, position: int) -> None:
    """Look whether the log went on from `position`, and if so draw the page anew."""
    try:
        changed = last_position(engine().database, session_id) != position
    except MemoryInspectorError:
        changed = True  # the page says what is wrong
    if changed:
        state.keep_notice()
        st.rerun()
