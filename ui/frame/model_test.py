"""Test of the chosen model: one small request, reported in a sentence. Runs as a job, so that nothing waits for it."""

import time
import uuid
from contextlib import closing
from copy import copy
from functools import partial

import streamlit as st

from memory_core.access import STORING, needs
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.openai_client import OpenAIChat
from memory_inspector.server.jobs import Job
from memory_inspector.wording.event_sentences import seconds
from memory_inspector.wording.formatting import plain, short
from ui.sessions import health
from ui.tab import drawing, state
from ui.tab.services import engine

PATIENCE_SECONDS = 15.0
"""Time limit, in seconds, for the first word of a model's answer."""

QUESTION = "Answer with the word: ready"
LOOK_SECONDS = 0.3
NAME_CHARACTERS = 60

_TRIAL = "model__trial"
_HEARD = "model__heard"
"""Key under which the tab stores the id of the last test whose result was passed on to the health check."""


def forget() -> None:
    """Discard the result, because another key, address or model was entered."""
    st.session_state.pop(_TRIAL, None)


def take_over() -> None:
    """Pass each successful result on to the health check once: a model that answered is not unreachable."""
    key = st.session_state.get(_TRIAL, "")
    job = engine().job(key)
    # Passed on once, or an old success would override every later failure.
    if job is not None and job.done and job.error is None and st.session_state.get(_HEARD) != key:
        st.session_state[_HEARD] = key
        health.model_answered()


def draw(model: OpenAIChat) -> None:
    """Draw the button, and the result of the last test."""
    job = engine().job(st.session_state.get(_TRIAL, ""))
    trying = job is not None and not job.done
    st.button(
        "Test", key="model__test", icon=":material/network_check:", disabled=trying, on_click=partial(_try, model)
    )
    if job is None:
        return
    if trying:
        st.markdown(f":small[:shimmer[{plain(f'Asking {short(model.name, NAME_CHARACTERS)}')}]]")
        # A fragment looks at the job, so that the page is not redrawn meanwhile.
        st.fragment(partial(_look, job), run_every=LOOK_SECONDS)()
    elif job.error is not None:
        st.error(plain(job.error), icon=":material/error:")
    else:
        st.success(plain(job.text), icon=":material/check:")


def _try(model: OpenAIChat) -> None:
    key = f"\x00model-{uuid.uuid4().hex}"  # in place of a session id: it belongs to no session
    engine().start(key, key, partial(_ask, model))
    st.session_state[_TRIAL] = key


@needs(STORING)  # or a viewer would see what an address that only the server reaches answers
def _ask(model: OpenAIChat, job: Job) -> None:
    # A copy, so that the model keeps its own time limit and retries.
    asked = copy(model)
    asked.endpoint = model.endpoint.once(PATIENCE_SECONDS)
    try:
        asked.endpoint.client().chat.completions  # noqa: B018  (loads modules, which must not count in the time)
        started = time.monotonic()
        with closing(asked.stream([ChatMessage(role=MessageRole.USER, content=QUESTION)])) as reply:
            next(iter(reply), None)
            took = time.monotonic() - started
    finally:
        asked.close()
    job.add_text(f"{short(model.name, NAME_CHARACTERS)} at {model.endpoint.host} answered in {seconds(took)}.")


def _look(job: Job) -> None:
    # A redraw would close an open dialog.
    if job.done and not state.dialog_open():
        drawing.again()
