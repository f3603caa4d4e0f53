"""Creation of sessions that takes a while: an import or a branch runs as a job, and the dialog follows it to its end.

Closing the dialog changes nothing: the session is listed when it is done, and playback in it continues.
"""

import uuid
from collections.abc import Callable

import streamlit as st

from memory_core import MemoryInspectorError
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain, tokens
from ui.tab import nav, state
from ui.tab.services import engine

_JOB = "sessions__making"
_PAGE = "sessions__making_page"

SHOWN_AFTER_SECONDS = 0.3
"""Delay, in seconds, before progress is shown; a session created sooner opens directly."""

CANCELLED = "Cancelled. Nothing was stored."

LOOK_SECONDS = 0.5
"""Interval, in seconds, between progress updates; clicks are handled in between."""


def begin(work: Callable[[Job], str], page: str = "chat") -> None:
    """Start creating a session; `work` returns its id. For callbacks; a second click meanwhile has no effect.

    `page`: where it is opened.

    A job that `work` starts for the session is followed too, before the session is opened.
    """
    # The mark stays until the dialog has taken the job's end, so that a double click makes one session.
    if engine().job(st.session_state.get(_JOB, "")) is not None:
        return
    key = f"\x00making-{uuid.uuid4().hex}"  # in place of the session's id, which does not exist yet
    # The job's text is its result: the id of the session.
    engine().start(key, key, lambda job: job.add_text(work(job)))
    st.session_state[_JOB], st.session_state[_PAGE] = key, page


def counted(job: Job, says: str, about: int | None = None) -> Callable[[int], None]:
    """A progress callback: reports the rows stored, out of about `about`, and stops the work when it is cancelled.

    Raises:
        MemoryInspectorError: it was cancelled.
    """
    stored = 0
    job.add_progress(says)

    def step(rows: int) -> None:
        nonlocal stored
        # Raised inside the import or branch, which then removes what it has stored so far.
        if job.cancel.is_set():
            raise MemoryInspectorError(CANCELLED)
        stored += rows
        whole = f" of about {tokens(about)}" if about is not None and stored < about else ""
        if stored:
            job.add_progress(f"{says}: {tokens(stored)}{whole} rows stored")

    return step


def follow(says: str) -> bool:
    """Draw the progress of creating a session; return whether there is any: the dialog then draws nothing else.

    The session is opened as soon as it is done.
    """
    job = _job()
    if job is None:
        return False
    # A session that is made quickly opens without any progress in between.
    if job.wait(SHOWN_AFTER_SECONDS) and (job.error is not None or _playing(job) is None):
        _end(job)
        return False
    _watch(says)
    return True


def forget() -> None:
    """Stop following the job; it continues."""
    st.session_state.pop(_JOB, None)


@st.fragment(run_every=LOOK_SECONDS)
def _watch(says: str) -> None:
    """Show the progress and refresh it; no script run lasts as long as the work."""
    job = _job()
    if job is None:
        return
    playing = _playing(job)
    # The session exists, and its own job plays it: closing the dialog does not stop that.
    if playing is not None:
        _progress(job.text, playing)
    elif not job.done:
        lines = job.progress
        st.markdown(f":shimmer[{plain(lines[-1] if lines else says)}]")
        if lines:  # rows are being stored, so the work can be cancelled
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button("Cancel", key="making__cancel", on_click=job.cancel.set, disabled=job.cancel.is_set())
                st.markdown(":small[:gray[Cancelling stores nothing.]]", width="content")
    else:
        _end(job)


def _progress(session_id: str, playing: Job) -> None:
    """Show the number of messages played so far, and a button to stop."""
    try:
        recording = engine().open(session_id).session.recording()
    except MemoryInspectorError:  # deleted meanwhile: the job ends, and the next refresh reports it
        return
    if recording is not None:
        played, total = recording.played, len(recording.messages)
        st.progress(played / total, text=f"Playing without pauses: {tokens(played)} of {count(total, 'message')}")
    else:
        st.markdown(":shimmer[Blocks learn from the archived messages]")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Cancel", key="making__cancel", on_click=playing.cancel.set, disabled=playing.cancel.is_set())
        st.markdown(":small[:gray[What was done stays; the rest can be done later.]]", width="content")


def _job() -> Job | None:
    key: str | None = st.session_state.get(_JOB)
    return engine().job(key) if key else None


def _playing(job: Job) -> Job | None:
    """The job running for the created session."""
    return engine().running(job.text) if job.done and job.text else None


def _end(job: Job) -> None:
    """Open the session, or show why there is none."""
    forget()
    if job.error is not None:
        (st.info if job.error == CANCELLED else st.error)(plain(job.error))
        return
    # The session is there even if its playing failed: it is opened, with the reason.
    played = engine().job(job.text)
    if played is not None and played.error is not None:
        state.say("error", played.error)
    state.select_session(job.text)
    nav.go(st.session_state.get(_PAGE, "chat"))
