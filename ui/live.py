"""Following what happens: a page is drawn anew when its session went on, by a job of this server or in another process.

No script run is as long as a job: a fragment looks from time to time and asks for a new drawing.
"""

import streamlit as st

from memory_core import MemoryInspectorError
from ui import drawing, state
from ui.jobs import Job
from ui.view import news

LOOK_SECONDS = 1.0
"""How often a page looks whether anything was written, where nothing runs in this server: one look at an index."""

WATCH_SECONDS = 0.15
"""The same while a job runs for the session."""

UNPACED_SECONDS = 0.7
"""The same while it plays without pauses: no eye follows every turn, and every drawing takes time from the playing."""


def follow(session_id: str, seen: object, *, running: Job | None) -> None:
    """Have the page drawn anew once the session's news differ from what was `seen`."""

    def look() -> None:
        try:
            changed = news(session_id) != seen
        except MemoryInspectorError:
            changed = True  # the page says what is wrong
        if changed:
            state.keep_notice()
            drawing.again()

    every = LOOK_SECONDS if running is None else WATCH_SECONDS if running.pace > 0 else UNPACED_SECONDS
    st.fragment(look, run_every=every)()
