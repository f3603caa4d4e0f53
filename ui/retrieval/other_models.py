"""Stored turns without a vector of the current embedding model: the warning, embedding them again, and its progress."""

import uuid

import streamlit as st

from memory_core.retrieval.explain import Search
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, tokens
from memory_inspector.wording.unit_names import stored
from ui.parts import toasts
from ui.tab import state
from ui.tab.services import engine

FOLLOW_SECONDS = 0.5
"""Interval, in seconds, between progress updates; shorter work is waited for."""


def draw_others(session_id: str, search: Search, unit: str, *, offline: bool, may_embed: bool) -> None:
    """Warn about stored units that can be found by keyword only, and draw the button that re-embeds them."""
    # 1. Somebody embeds them already, in whichever tab.
    if engine().running(_key(session_id, search.block)) is not None:
        st.fragment(_follow, run_every=FOLLOW_SECONDS)(session_id, search.block, unit)
    # 2. Words are stored first, and their vectors follow: no reason to warn.
    elif engine().open(session_id).retrieval.vectors_pending(search.block):
        st.fragment(_coming, run_every=FOLLOW_SECONDS)(session_id, search.block, unit)
    # 3. Only a person can decide this, as it may cost something.
    elif search.other_embedder:
        costs = "" if offline or not may_embed else " Embedding them again calls the embedding model."
        st.warning(
            f"{stored(search.other_embedder, unit)} can be found by keyword only: no vector from the current "
            f"embedding model.{costs}"
        )
        if may_embed:
            args = (session_id, search.block, unit)
            st.button("Embed them again", key="retrieval__embed", on_click=_embed, args=args)


def _key(session_id: str, block: str) -> str:
    """Key of the job, separate from the session's own job so that chatting can continue meanwhile."""
    return f"embed/{session_id}/{block}"


def _embed(session_id: str, block: str, unit: str) -> None:
    shared = engine()

    def work(job: Job) -> None:
        def describe(done: int, of: int) -> None:
            job.add_progress(f"Embedding again: {tokens(done)} of {stored(of, unit)}")

        job.add_text(str(shared.open(session_id).retrieval.reembed(block, progress=describe)))

    job = shared.start(_key(session_id, block), f"embed-{uuid.uuid4().hex}", work)
    # Reported here, because no fragment follows a job that has ended already.
    if job.wait(FOLLOW_SECONDS):
        _tell(job, unit)


def _follow(session_id: str, block: str, unit: str) -> None:
    job = engine().job(_key(session_id, block))
    if job is None or job.done:
        if job is not None:
            _tell(job, unit)
        st.rerun()
    lines = job.progress
    st.markdown(f":shimmer[{plain(lines[-1] if lines else 'Embedding again')}]")


def _coming(session_id: str, block: str, unit: str) -> None:
    """Show the number of units that wait for their vectors, while they are being embedded."""
    memory = engine().open(session_id)
    if not memory.retrieval.vectors_pending(block):
        st.rerun()
    remaining = memory.retrieval.under_other_embedders(block)
    st.markdown(f":shimmer[{stored(remaining, unit)} can be found by keyword only so far: vectors follow]")


def _tell(job: Job, unit: str) -> None:
    if job.error is not None:
        state.say("error", f"Not all were embedded: {job.error}")
    else:
        toasts.done(f"Embedded {stored(int(job.text or 0), unit)} again.")
