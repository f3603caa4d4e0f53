"""A one-sentence introduction and three steps for a first visit, above the chat of the demo until it is closed.

Pressing a step first plays the demo up to the turn that it shows, unless it was played before. A step is done once its
page has shown that turn, however the user got there. Completed steps are stored in the app's folder, so that
a reload or another browser finds them done; a reset of the demo begins the guide again.
"""

import streamlit as st

from memory_core import Memory
from memory_core.events import SessionReset
from memory_core.history.by_turn import History
from memory_core.sessions.recorded_conversation import Recording
from memory_inspector.demo.conversations import FORGOTTEN_WORDS, RECORDED_TURNS
from memory_inspector.server import chat_turns
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import DEMO_SESSION, GUIDE_CLOSED, GUIDE_CUT, GUIDE_FORGOTTEN, guide_marker
from memory_inspector.wording.terms import explained
from ui.chat.player import next_message, start
from ui.sessions.session_dialogs import reset_dialog
from ui.tab import nav
from ui.tab.model import chosen_model
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View

WHAT_THIS_IS = "An agent's memory, turn by turn: what is flushed, learned, recalled or cut."

PLAYED_SECONDS = 10.0
"""Seconds for which a step waits for its turn to be played before its page is shown."""


def draw_guide(view: View, recording: Recording | None) -> bool:
    """Draw the sentence and the line with the three steps; return whether they are drawn."""
    if view.memory.session_id != DEMO_SESSION or recording is None or _is_set(GUIDE_CLOSED):
        return False
    cut = last_cut(view.history)
    with st.container(gap="xxsmall", key="chat__what"):
        st.markdown(f":small[{explained(WHAT_THIS_IS)}]")
        with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="chat__guide"):
            _draw_sending(view, recording)
            step = _step(2, "See what was cut", _is_set(GUIDE_CUT))
            if cut is not None:
                nav.link("context", step, icon="", turn=None if cut == view.latest_turn else cut)
            elif _pressed(step, "cut", view):
                nav.go("context", turn=None)
            step, words = _step(3, "Find what it forgot", _is_set(GUIDE_FORGOTTEN)), nav.followed(FORGOTTEN_WORDS)
            if view.latest_turn > RECORDED_TURNS:
                nav.link("trace", step, icon="", turn=None, **words)
            elif _pressed(step, "forgotten", view):
                nav.go("trace", turn=None, **words)
            st.button(
                "Close",
                icon=":material/close:",
                key="chat__guide_close",
                type="tertiary",
                help="Close the guide until the demo is reset",
                on_click=_set,
                args=(GUIDE_CLOSED,),
            )
    return True


def _draw_sending(view: View, recording: Recording) -> None:
    """Draw the first step: it sends the next recorded message, or offers to reset the demo after the last one."""
    step = _step(1, "Send the next message", view.latest_turn > RECORDED_TURNS)
    if view.running is not None:
        st.markdown(step, width="content")  # one is being sent
    elif recording.next_turn:
        st.button(
            step,
            key="chat__guide_send",
            type="tertiary",
            on_click=next_message,
            args=(view.memory, view.status.position),
        )
    elif st.button(step, key="chat__guide_again", type="tertiary", **allowed(SessionReset)):
        reset_dialog(DEMO_SESSION)


def _pressed(step: str, name: str, view: View) -> bool:
    """Draw a step whose turn was not played yet; once it is pressed, play it and return True."""
    if not st.button(step, key=f"chat__guide_{name}", type="tertiary"):
        return False
    # A job that runs already would keep this one from starting.
    engine().stop(DEMO_SESSION)
    job_id = f"{chat_turns.STEP}{DEMO_SESSION}-cut-{view.status.position}"
    start(DEMO_SESSION, job_id, lambda job: _play_to_cut(job, view.memory), chosen_model())
    # The page shows what was played, so the run waits for it.
    if (job := engine().job(DEMO_SESSION)) is not None:
        job.wait(PLAYED_SECONDS)
    return True


def _play_to_cut(job: Job, memory: Memory) -> None:
    """Play turn by turn until something was cut from a prompt."""
    while last_cut(memory.log.history()) is None and (recording := memory.session.recording()) and recording.next_turn:
        chat_turns.play(job, memory, turns=1, pace=0)


def last_cut(history: History) -> int | None:
    """The newest turn whose prompt had something cut."""
    return max((number for number, turn in history.turns.items() if turn.cut_tokens), default=None)


def arrived(page: str, view: View) -> None:
    """Mark the guide's step for this page as done. Called by the frame on every run."""
    if view.memory.session_id != DEMO_SESSION or view.latest_turn <= RECORDED_TURNS:
        return
    if page == "context" and view.then is not None and view.then.cut_tokens:
        _set(GUIDE_CUT)
    if page == "trace" and FORGOTTEN_WORDS in st.query_params.get(nav.WORDS, ""):
        _set(GUIDE_FORGOTTEN)


def _is_set(name: str) -> bool:
    return guide_marker(engine(), name).exists()


def _set(name: str) -> None:
    marker = guide_marker(engine(), name)
    if not marker.exists():
        marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch()


def _step(number: int, words: str, done: bool) -> str:
    return f":small[:gray[:material/check: {words}]]" if done else f":small[**{number}** {words}]"
