"""Opening a large session for the first time in this server: read in the background, while the page says how far it is.

What pages draw comes from a session's whole log and from all that its blocks stored, kept in memory once it was read.
"""

import streamlit as st

from memory_core import Memory
from memory_core.process import keep_loaded
from ui import drawing
from ui.jobs import Job
from ui.services import engine
from ui.text import count, tokens
from ui.timeline.remembered import remembered

LARGE = 20_000
"""Events not read yet; fewer are read within half a second, and the page is drawn at once."""

SHOWN_AFTER_SECONDS = 0.3
"""What is read sooner is not worth a word."""

LOOK_SECONDS = 0.3


def reading(memory: Memory) -> Job | None:
    """The job that reads a large session, while it does; None: its pages can be drawn."""
    key = f"\x00opening-{memory.session_id}"  # once in the life of a server
    job = engine().reading(key)
    if job is None:
        unread = memory.log.unread()
        if unread < LARGE:
            return None
        job = engine().read(key, lambda job: _read(memory, job, unread))
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
    job.add_progress("Counting what became of its messages")
    remembered(memory).catch_up(memory, memory.log.history())
    memory.log.usage()
    keep_loaded()


def draw(job: Job) -> None:
    """How far it is; the page is drawn when it has ended, well or not: it then says itself what is wrong."""

    def look() -> None:
        if job.done:
            drawing.again()
        st.markdown(f":shimmer[{job.progress[-1]}]")
        st.markdown(":small[:gray[Once for each start of the app. Other sessions can be opened meanwhile.]]")

    with st.container(key="opening"):
        st.fragment(look, run_every=LOOK_SECONDS)()
