"""First opening of a large session in this server: read in the background while the page shows the progress.

Pages draw from a session's whole log and from everything its blocks have stored, cached once read.
"""

import streamlit as st

from memory_core import Memory
from memory_core.process import keep_loaded
from memory_inspector.reading.event_rows import remembered
from memory_inspector.reading.outcomes import outcomes_of
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, tokens
from ui.tab import drawing
from ui.tab.services import engine

LARGE = 20_000
"""Minimum unread events for background reading; fewer are read within half a second before the page is drawn."""

SHOWN_AFTER_SECONDS = 0.3
"""Delay, in seconds, before the progress is shown."""

LOOK_SECONDS = 0.3


def reading(memory: Memory) -> Job | None:
    """The job that is reading a large session; None if its pages can be drawn."""
    key = f"\x00opening-{memory.session_id}"  # once per server process
    job = engine().reading(key)
    if job is None:
        unread = memory.log.unread()
        if unread < LARGE:
            return None
        job = engine().read(key, lambda job: _read(memory, job, unread))
    # A short wait first: many sessions are read by then, and no progress flickers.
    return None if job.wait(SHOWN_AFTER_SECONDS) else job


def _read(memory: Memory, job: Job, unread: int) -> None:
    whole = count(unread, "event")
    job.add_progress(f"Reading the log of this session, {whole}")
    memory.log.read_ahead(
        lambda events: job.add_progress(
            f"Reading the log of this session, {tokens(events)} of {whole}"
            if events < unread
            else "Reading what its blocks have stored"
        )
    )
    job.add_progress("Working out what became of each message")
    remembered(memory)
    memory.log.query(outcomes_of)
    memory.log.usage()
    # The log just read stays in memory: Streamlit collects garbage after every run, and need not walk through it.
    keep_loaded()


def draw(job: Job) -> None:
    """Show the progress; the page is redrawn when the job has ended, and reports any error itself."""

    def look() -> None:
        if job.done:
            drawing.again()
        st.markdown(f":shimmer[{job.progress[-1]}]")
        st.markdown(":small[:gray[Needed once per start of the app. Other sessions can be opened meanwhile.]]")

    with st.container(key="opening"):
        st.fragment(look, run_every=LOOK_SECONDS)()
