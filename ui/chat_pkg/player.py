"""What moves a conversation on: the player of a recording, the input, and trying again.

Each starts a job under an id of its own; drawing starts nothing.
"""

import uuid
from collections.abc import Callable

import streamlit as st

from memory_core import Memory, Status
from memory_core.recording import Recording
from ui import state, turns
from ui.jobs import Job
from ui.model import Chosen, chosen_model
from ui.services import engine
from ui.text import plain, tokens

MOST_CHARACTERS = 200_000
"""Longest message that can be typed or pasted; longer ones come by import."""

SPEEDS = {"½ ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "4 ×": 4.0}


def draw_player(memory: Memory, status: Status, recording: Recording | None, running: Job | None) -> None:
    """Step or play a recording; not drawn without one, or once it is played."""
    if recording is None or (not recording.next_turn and running is None):
        return
    playing = running is not None and running.id.startswith("play-")
    session_id = memory.session_id
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Next message",
            type="primary",
            icon=":material/skip_next:",
            disabled=running is not None or not recording.next_turn,
            on_click=start,
            args=(
                session_id,
                f"step-{session_id}-{status.position}",
                lambda job: turns.play(job, memory, turns=1),
                chosen_model(),
            ),
        )
        if playing:
            st.button("Pause", icon=":material/pause:", on_click=_cancel, args=(session_id,))
        else:
            speed = SPEEDS[st.session_state.get("chat__speed", "1 ×")]
            st.button(
                "Play",
                icon=":material/play_arrow:",
                disabled=running is not None,
                on_click=start,
                args=(
                    session_id,
                    f"play-{uuid.uuid4().hex}",
                    lambda job: turns.play(job, memory, turns=None, pace=speed),
                    chosen_model(),
                ),
            )
        st.selectbox(
            "Speed",
            list(SPEEDS),
            index=1,
            key="chat__speed",
            label_visibility="collapsed",
            width=92,
            disabled=running is not None,
        )
        st.markdown(f":small[{tokens(recording.played)} of {tokens(len(recording.messages))}]", width="content")


def draw_input(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    answering = running is not None and running.id.startswith("turn-")
    session_id = memory.session_id
    with st.container(horizontal=True, vertical_alignment="center"):
        st.chat_input(
            "Write a message",
            key="chat__input",
            max_chars=MOST_CHARACTERS,
            disabled=running is not None,
            on_submit=_send,
            args=(memory, chosen),
        )
        if answering:
            st.button("Stop", icon=":material/stop_circle:", on_click=_cancel, args=(session_id,))


def draw_unfinished(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    """A reply that was cut off or failed, with a way to try again."""
    left = turns.unanswered(memory, running=running is not None)
    if left is None:
        return
    if left.reason == turns.INTERRUPTED:
        st.warning("The reply was interrupted. Your message is stored.", icon=":material/refresh:")
    else:
        st.error(f"{plain(left.reason)} Your message is stored.", icon=":material/error:")
    retry = f"{left.reply}+"
    st.button(
        "Try again",
        icon=":material/refresh:",
        on_click=start,
        args=(memory.session_id, retry, lambda job: turns.answer(job, memory, chosen.model, retry), chosen),
    )


def _send(memory: Memory, chosen: Chosen) -> None:
    text = str(st.session_state.get("chat__input") or "")
    if not text.strip():
        return
    turn = f"turn-{uuid.uuid4().hex}"
    start(memory.session_id, turn, lambda job: turns.send(job, memory, chosen.model, turn, text), chosen)
    job = engine().job(memory.session_id)
    if job is None or job.id != turn:
        state.say("warning", f"Another turn is running in this session. Your message was not sent: {text[:500]}")


def start(session_id: str, job_id: str, work: Callable[[Job], object], chosen: Chosen) -> None:
    """Start work for the session, unless something else runs for it."""
    state.show_story(session_id, None)
    engine().start(session_id, job_id, work, browser_model=chosen.pasted)


def _cancel(session_id: str) -> None:
    running = engine().running(session_id)
    if running is not None:
        running.cancel.set()
