"""Trying every recipe on the open conversation: a job, whose result the server keeps."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import Memory, MemoryInspectorError
from memory_core.comparing import compare_recipes
from memory_core.recipes import RECIPES
from ui import state
from ui.jobs import Job
from ui.recipes.reading import Tried
from ui.services import engine
from ui.text import tokens


class _Kept:
    """The last result of one session."""

    def __init__(self) -> None:
        self.tried: Tried | None = None


def result(memory: Memory) -> Tried | None:
    """What trying gave last; None before, and after a reset."""
    tried = _kept(memory).tried
    return tried if tried is not None and tried.turns <= memory.status().turns else None


def running(memory: Memory) -> Job | None:
    return engine().running(_place(memory))


def begin(session_id: str) -> None:
    """Try all recipes, in the background. For callbacks; a second click joins what runs."""
    try:
        memory = engine().open(session_id)
        position = memory.status().position
    except MemoryInspectorError as error:
        state.say("error", str(error))
        return
    place = _place(memory)
    last = engine().job(place)
    again = 0 if last is None else int(last.id.rpartition("/")[2]) + 1
    engine().start(place, f"{place}/{position}/{again}", lambda job: _try(job, memory))


def _try(job: Job, memory: Memory) -> None:
    status, keys = memory.status(), list(RECIPES)
    now = memory.build_context(record=False)
    each = -1

    def progress(done: int, of: int) -> None:
        nonlocal each
        percent = 100 * done // max(1, of)
        if percent != each:  # a line a percent: followers are woken by every line
            each = percent
            number = min(len(keys), 1 + done * len(keys) // max(1, of))
            job.add_progress(f"Recipe {number} of {len(keys)}: {tokens(done)} of {tokens(of)} turns")

    trials = compare_recipes(memory, keys, progress=progress, cancelled=job.cancel.is_set)
    stopped = job.cancel.is_set() and len(trials) < len(keys)
    if trials:
        _kept(memory).tried = Tried(status.position, status.turns, tuple(trials), now, stopped)


def follow(job: Job, slot: DeltaGenerator) -> None:
    """Say in `slot` how far it is until it has ended, and draw the page anew."""
    for _ in job.follow():
        lines = job.progress
        slot.markdown(f":shimmer[{lines[-1] if lines else 'Reading the conversation'}]")
    if job.error is not None:
        state.say("error", job.error)
    st.rerun()


def _place(memory: Memory) -> str:
    """Under which it runs: beside what runs for the session itself, which it does not change."""
    return f"\x00recipes-{memory.session_id}"


def _kept(memory: Memory) -> _Kept:
    services = engine().services
    return services.remembered(f"recipes/{memory.database.id}/{memory.session_id}", _Kept)
