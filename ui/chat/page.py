"""The Chat page of one session: the conversation at the left, what memory makes of it at the right.

A turn is a job that this only watches: drawing starts nothing, and leaving stops nothing.
"""

import time
from collections.abc import Sequence
from typing import NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import ConfigError, Memory, MessageRole, Status
from memory_core.agent import STEP
from memory_core.events import FlushPlanned, MessageAdded
from memory_core.store.messages import StoredMessage
from ui import state
from ui.chat.conversation import (
    AVATARS,
    SUMMARY_KINDS,
    draw_conversation,
    draw_group,
    draw_steps,
    is_step,
    spoken_together,
)
from ui.chat.guide import draw_guide
from ui.chat.memory_panel import draw_actions, draw_past_prompt, draw_prompt, draw_story, draw_story_actions
from ui.chat.player import draw_input, draw_player, draw_unfinished
from ui.frame import View
from ui.jobs import Job
from ui.model import chosen_model
from ui.story import Summary, summaries
from ui.text import plain

CHAT_HEIGHT = 398
GUIDED_HEIGHT = 358
"""Pixels of the conversation; less while the guide's line shows, so that the input stays above the fold."""

MOST_STEPS = 200
"""Messages among which those of a reply that is being made are found."""

SEEN_SECONDS = 0.7
"""How long the queue is shown above its flush line before it is shown flushed."""


def draw(view: View) -> None:
    """The page of one session, at its latest turn or at an earlier one."""
    if view.past:
        draw_past(view)
        return
    memory, status, running = view.memory, view.status, view.running
    try:
        chosen = chosen_model()
    except ConfigError as error:
        st.error(plain(str(error)))
        return
    session_id = memory.session_id
    recording = memory.recording()
    with st.container():  # there in any case: what follows keeps its place, and the conversation its scroll position
        guided = draw_guide(view, recording)
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


def draw_past(view: View) -> None:
    """The page as it stood at the end of an earlier turn: nothing on it can be changed."""
    added = (r.event for r in reversed(view.history.upto(view.position)) if isinstance(r.event, MessageAdded))
    last = next(added, None)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left:
        box = st.container(height=CHAT_HEIGHT, border=True, autoscroll=True, gap="xsmall", key="chat__box")
        draw_conversation(box, view.memory, view.status, None, upto=last.seq if last else 0)
    with right:
        with st.container(border=True, gap="xsmall"):
            draw_past_prompt(view, st.empty())
        with st.container(border=True, gap="small"):
            draw_story(view.memory, view.status, st.empty(), otherwise=view.shown_turn)


def _follow(
    job: Job, memory: Memory, box: DeltaGenerator, budget: DeltaGenerator, told: DeltaGenerator, last_seq: int
) -> NoReturn:
    """Draw what the running job does, as it does it; then draw the page anew."""
    answering = job.id.startswith("turn-") or job.id.endswith("+")
    session_id = memory.session_id
    position, words, last_turn = -1, "", None
    bubble: DeltaGenerator | None = None
    steps: DeltaGenerator | None = None
    shown = _said_in_steps(job, memory.messages(last=MOST_STEPS))  # characters of the reply that are drawn for good
    for piece in job.follow():
        status = memory.status()
        if status.position != position:
            position = status.position
            memory.refresh()
            for group in spoken_together(memory.messages(after=last_seq)):
                last_seq = group[-1].seq
                with box:
                    if last_turn is not None and group[0].turn != last_turn:
                        _told_turn(memory, last_turn)
                    last_turn = group[0].turn
                    if not answering or group[0].message.role is MessageRole.USER:
                        draw_group(group)
                    elif steps is not None:
                        with steps:
                            draw_steps([stored for stored in group if is_step(stored)])
                        shown += _said_in_steps(job, group)
            draw_story(memory, status, told)
            if status.flushes > state.seen_flushes(session_id, status.flushes):
                _show_overflow(memory, status, budget)
            state.saw_flushes(session_id, status.flushes)
            draw_prompt(memory, status, budget)
        words += piece
        if answering:
            if bubble is None:
                with box, st.chat_message("assistant", avatar=AVATARS[MessageRole.ASSISTANT]):
                    steps, bubble = st.container(gap="xsmall"), st.empty()
            if words[shown:].strip():
                bubble.text(words[shown:])
            else:
                bubble.markdown(f":shimmer[{plain(job.progress[-1] if job.progress else 'Starting')}]")
    if job.error is not None and not answering:
        state.say("error", job.error)
    st.rerun()


def _said_in_steps(job: Job, messages: Sequence[StoredMessage]) -> int:
    """Characters that the agent said beside the calls of its tools, in the reply that this job makes."""
    said = (m for m in messages if m.id.startswith(f"{job.id}{STEP}") and m.message.role is MessageRole.ASSISTANT)
    return sum(len(stored.message.content or "") for stored in said)


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
