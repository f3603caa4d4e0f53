"""Trials of every recipe on the open conversation: a job whose result the server caches."""

import streamlit as st

from memory_core import Memory
from memory_core.recipes import RECIPES
from memory_core.systems.compare_recipes import compare_recipes
from memory_inspector.reading.recipe_rows import Tried
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import tokens
from ui.parts.components import error_noticed
from ui.tab import state
from ui.tab.services import engine

LOOK_SECONDS = 0.3
"""Interval, in seconds, between updates of the progress on the page."""


class _Kept:
    """The last result of one session."""

    def __init__(self) -> None:
        self.tried: Tried | None = None


def result(memory: Memory) -> Tried | None:
    """The last trial result; None before the first, and after a reset."""
    tried = _cache(memory).tried
    # After a reset the session has fewer turns than were tried: the result is of another conversation.
    return tried if tried is not None and tried.turns <= memory.session.status().turns else None


def running(memory: Memory) -> Job | None:
    return engine().running(_place(memory.session_id))


@error_noticed
def begin(session_id: str) -> None:
    """Try all recipes in the background. For callbacks; a second click joins the running job."""
    memory = engine().open(session_id)
    position = memory.session.status().position
    place = _place(session_id)
    last = engine().job(place)
    # A job that succeeded is not run again under its id: a new number tries the same position once more.
    again = 0 if last is None else int(last.id.rpartition("/")[2]) + 1
    engine().start(place, f"{place}/{position}/{again}", lambda job: _try(job, memory))


def _try(job: Job, memory: Memory) -> None:
    status, keys = memory.session.status(), list(RECIPES)
    # The prompt to compare with, of the same moment as the trials. Looking must not leave an event in the log.
    now = memory.build_context(record=False)
    last_percent = -1

    def progress(done: int, of: int) -> None:
        nonlocal last_percent
        percent = 100 * done // max(1, of)
        if percent != last_percent:  # one line per percent: all lines are stored
            last_percent = percent
            number = min(len(keys), 1 + done * len(keys) // max(1, of))
            job.add_progress(f"Recipe {number} of {len(keys)}: {tokens(done)} of {tokens(of)} turns")

    trials = compare_recipes(memory, keys, progress=progress, cancelled=job.cancel.is_set)
    # A cancel that came after the last trial has stopped nothing.
    stopped = job.cancel.is_set() and len(trials) < len(keys)
    if trials:
        _cache(memory).tried = Tried(status.position, status.turns, tuple(trials), now, stopped)


@st.fragment(run_every=LOOK_SECONDS)
def follow(session_id: str) -> None:
    """Show the progress and refresh it; rerun the page when the job has ended."""
    job = engine().job(_place(session_id))
    # The whole page is redrawn, since the table beside the progress changes with the result.
    if job is None or job.done:
        if job is not None and job.error is not None:
            state.say("error", job.error)
        st.rerun()
    st.markdown(f":shimmer[{job.progress[-1] if job.progress else 'Reading the conversation'}]")


def _place(session_id: str) -> str:
    """Key of the trial job, separate from the session's own job because a trial does not change the session."""
    # No session's id can hold this character.
    return f"\x00recipes-{session_id}"


def _cache(memory: Memory) -> _Kept:
    services = engine().services
    return services.cached(("recipes", memory.session.database.id, memory.session_id), _Kept)
