"""Progress of the Lab's jobs, with a button that cancels them; the page is drawn again when all have ended."""

from collections.abc import Callable, Sequence

import streamlit as st

from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain
from ui.lab.playing import LOOK_SECONDS


@st.fragment(run_every=LOOK_SECONDS)
def follow(
    jobs: Sequence[Job], key: str = "lab__cancel", stopped: Callable[[], object] = lambda: None, *, holds: bool = False
) -> None:
    """Show the progress of jobs. `stopped` is called when they are cancelled; with `holds`, a failed job starts again
    only when a button is pressed."""
    if all(job.done for job in jobs):
        problem = next((job.error for job in jobs if job.error is not None), None)
        # A job that failed and is begun again by the page itself would fail again, and again.
        if problem is None or not holds:
            st.rerun()
        st.warning(plain(problem))
        # A click in a fragment redraws only that, and it is the page that begins the job once more.
        if st.button("Play", key="lab__play_again", icon=":material/science:"):
            st.rerun()
        return
    draw(jobs, key, stopped)


def draw(jobs: Sequence[Job], key: str, stopped: Callable[[], object] = lambda: None) -> None:
    """Draw the progress of the first job that has not ended."""
    job = next((job for job in jobs if not job.done), jobs[-1])
    with st.container(horizontal=True, vertical_alignment="center"):
        words = plain(job.progress[-1]) if job.progress else "Reading the conversation"
        st.markdown(f":shimmer[{'Cancelling' if job.cancel.is_set() else words}]", width="content")
        if not job.cancel.is_set():
            st.button("Cancel", key=key, on_click=_stop, args=(jobs, stopped))


def _stop(jobs: Sequence[Job], stopped: Callable[[], object]) -> None:
    for job in jobs:
        job.cancel.set()
    stopped()
