"""Live updates: a page is redrawn when there are new events, from a job of this server or another process.

No script run lasts as long as a job: a fragment polls and requests a redraw.
"""

from collections.abc import Callable

import streamlit as st

from memory_core import MemoryInspectorError
from memory_inspector.server.jobs import Job
from ui.tab import drawing, state

LOOK_SECONDS = 1.0
"""Polling interval, in seconds, while nothing runs in this server; each poll is a single index lookup."""

WATCH_SECONDS = 0.15
"""Polling interval, in seconds, while a job runs for the session."""

UNPACED_SECONDS = 0.7
"""Polling interval, in seconds, during playback without pauses: nobody can follow every turn, and redraws slow it."""


def follow(news: Callable[[], object], seen: object, *, running: Job | None = None) -> None:
    """Redraw the page once its news differ from what was `seen`."""

    def look() -> None:
        try:
            # Compared by value: what is drawn may be older than the last poll.
            changed = news() != seen
        except MemoryInspectorError:
            changed = True  # the page reports the error
        if changed:
            # A redraw that nobody asked for must not take away what was just said.
            state.keep_notice()
            drawing.again()

    every = LOOK_SECONDS if running is None else WATCH_SECONDS if running.pace > 0 else UNPACED_SECONDS
    st.fragment(look, run_every=every)()
