"""Sessions that take a moment to make: an import or a branch runs as a job, and the dialog follows it to its end.

Closing the dialog changes nothing: the session is in the list when it is done.
"""

import uuid
from collections.abc import Callable

import streamlit as st

from ui import nav, state
from ui.jobs import Job
from ui.services import engine
from ui.text import plain

_JOB = "sessions__making"

SHOWN_AFTER_SECONDS = 0.3
"""A session that is made sooner is opened without a word about the work."""

LOOK_SECONDS = 0.25
"""How often the dialog looks for progress; between two looks a click is heard."""


def begin(work: Callable[[Job], str]) -> None:
    """Have a session made; `work` gives its id. For callbacks; a second click while it is made changes nothing."""
    if engine().job(st.session_state.get(_JOB, "")) is not None:
        return
    key = f"\x00making-{uuid.uuid4().hex}"  # stands for the session, which has no id yet
    engine().start(key, key, lambda job: job.add_text(work(job)))
    st.session_state[_JOB] = key


def follow(says: str) -> None:
    """In the dialog that began it: wait for the session and open it. Does nothing when none is being made."""
    key: str | None = st.session_state.get(_JOB)
    job = engine().job(key) if key else None
    if job is None:
        return
    if not job.wait(SHOWN_AFTER_SECONDS):
        slot = st.empty()
        while not job.wait(LOOK_SECONDS):
            lines = job.progress
            slot.markdown(f":shimmer[{plain(lines[-1] if lines else says)}]")
    forget()
    if job.error is not None:
        st.error(plain(job.error))
    elif job.text:
        state.select_session(job.text)
        nav.go("chat")


def forget() -> None:
    """Leave what is being made to itself."""
    st.session_state.pop(_JOB, None)
