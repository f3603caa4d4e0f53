"""The Chat page of one session: the conversation at the left, what memory makes of it at the right.

A turn is a job that this only watches: drawing starts nothing, and leaving stops nothing.
"""

import time
from typing import NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import ConfigError, Memory, MemoryInspectorError, MessageRole, NotFoundError, Status
from memory_core.events import FlushPlanned
from memory_core.recording import Recording
from ui import state
from ui.conversation import AVATARS, SUMMARY_KINDS, draw_conversation, draw_message
from ui.jobs import Job
from ui.memory_panel import draw_actions, draw_prompt, draw_story, draw_story_actions
from ui.model import chosen_model, services_for
from ui.player import draw_input, draw_player, draw_unfinished
from ui.services import engine
from ui.settings import settings_dialog
from ui.story import Summary, summaries
from ui.text import plain

CHAT_HEIGHT = 398
GUIDED_HEIGHT = 358
"""Pixels of the conversation; less while the guide's line shows, so that the input stays above the fold."""

SEEN_SECONDS = 0.7
"""How long the queue is shown above its flush line before it is shown flushed."""


def draw_preparing(job: Job) -> None:
    """The page's frame while the demo is being made."""
    left, right = st.columns([0.58, 0.42], gap="medium")
    left.skeleton(CHAT_HEIGHT)
    right.skeleton(CHAT_HEIGHT)
    st.markdown(":shimmer[Preparing the demo conversation]")
    for _ in job.follow():
        st.session_state.get(state.SESSION)  # a place where this run can be stopped
    if job.error is not None:
        state.say("error", job.error)
    st.rerun()


def draw_no_session() -> None:
    """There is no session: the demo could not be made, or everything was deleted."""
    st.markdown("**No session yet.**  \nStart a new one in the sidebar, or import a conversation.")


def draw(session_id: str, header: DeltaGenerator) -> None:
    """The page of one session."""
    shared = engine()
    try:
        chosen = chosen_model()
        memory = shared.open(session_id, services_for(chosen))
        status = memory.status()
    except ConfigError as error:
        st.error(plain(str(error)))
        return
    except NotFoundError:
        st.warning("This session was deleted elsewhere. Choose another one in the sidebar.")
        return
    if header.button("Settings", icon=":material/tune:", type="tertiary"):
        settings_dialog(session_id)
    running = shared.running(session_id)
    recording = memory.recording()
    with st.container():  # there in any case: what follows keeps its place, and the conversation its scroll position
        guided = _guide(status, recording, running)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left:
        height = GUIDED_HEIGHT if guided else CHAT_HEIGHT
        box = st.container(height=height, border=True, autoscroll=True, gap="xsmall", key="chat__box")
        last_seq = draw_conversation(box, memory, status, running)
        with box, st.empty().container(gap="xsmall"):  # in its place also when empty, so that it goes at once
            draw_unfinished(memory, chosen, running)
        draw_player(memory, status, recording, running)
        draw_input(memory, chosen, running)
    with right:
        with st.container(border=True, gap="xsmall"):
            budget = st.empty()
            if running is None:
                draw_prompt(memory, status, budget)
            draw_actions(memory, status, running)
        with st.container(border=True, gap="small"):
            told = st.empty()
            if running is None:
                draw_story(memory, status, told)
            draw_story_actions(memory, running)
    if running is not None:
        _follow(running, memory, box, budget, told, last_seq)
    state.saw_flushes(session_id, status.flushes)
    if status.in_transit_messages:
        _watch(session_id, status.position)


def _guide(status: Status, recording: Recording | None, running: Job | None) -> bool:
    """One line for a first visit, gone with the first step; whether it is there."""
    fresh = recording is not None and recording.next_turn and status.flushes == 1 and running is None
    shown = bool(fresh) and status.to_next_flush < status.flush_size
    if shown:
        st.markdown(
            ":small[:gray[New here? **Next message** plays the next turn: watch the queue pass its flush line, "
            "and what memory makes of it at the right.]]"
        )
    return shown


def _follow(
    job: Job, memory: Memory, box: DeltaGenerator, budget: DeltaGenerator, told: DeltaGenerator, last_seq: int
) -> NoReturn:
    """Draw what the running job does, as it does it; then draw the page anew."""
    answering = job.id.startswith("turn-") or job.id.endswith("+")
    session_id = memory.session_id
    position, words, last_turn = -1, "", None
    bubble: DeltaGenerator | None = None
    for piece in job.follow():
        status = memory.status()
        if status.position != position:
            position = status.position
            memory.refresh()
            for stored in memory.messages(after=last_seq):
                last_seq = stored.seq
                with box:
                    if last_turn is not None and stored.turn != last_turn:
                        _told_turn(memory, last_turn)
                    last_turn = stored.turn
                    if not (answering and stored.message.role is MessageRole.ASSISTANT):
                        draw_message(stored.message)
            draw_story(memory, status, told)
            if status.flushes > state.seen_flushes(session_id, status.flushes):
                _show_overflow(memory, status, budget)
            state.saw_flushes(session_id, status.flushes)
            draw_prompt(memory, status, budget)
        words += piece
        if answering:
            if bubble is None:
                with box, st.chat_message("assistant", avatar=AVATARS[MessageRole.ASSISTANT]):
                    bubble = st.empty()
            if words:
                bubble.text(words)
            else:
                bubble.markdown(f":shimmer[{plain(job.progress[-1] if job.progress else 'Starting')}]")
    if job.error is not None and not answering:
        state.say("error", job.error)
    st.rerun()


def _told_turn(memory: Memory, turn: int) -> None:
    """A finished turn in one line, as it is under the reply once the page is drawn anew."""
    told = summaries(memory.events(turn=turn, kinds=SUMMARY_KINDS))
    st.markdown(f":small[:gray[{told.get(turn, Summary()).in_short(turn)}]]")


def _show_overflow(memory: Memory, status: Status, slot: DeltaGenerator) -> None:
    """The queue as it was before the flush, for a moment: both happen in one step of the engine."""
    planned = memory.events(kinds=("flush_planned",), limit=1, newest_first=True)
    event = planned[0].event if planned else None
    if isinstance(event, FlushPlanned) and event.trigger == "over_budget":
        draw_prompt(memory, status, slot, overflow=event)
        time.sleep(SEEN_SECONDS)


@st.fragment(run_every=2)
def _watch(session_id: str, position: int) -> None:
    """While something is due to a block, look every two seconds whether it was delivered."""
    try:
        changed = engine().open(session_id).status().position != position
    except MemoryInspectorError:
        changed = True
    if changed:
        st.rerun()
