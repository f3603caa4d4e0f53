"""The Chat page of one session: the conversation at the left, what memory makes of it at the right.

A turn is a job that this only watches: drawing starts nothing, and leaving stops nothing.
"""

import streamlit as st

from memory_core import ConfigError
from ui.chat.conversation import draw_conversation
from ui.chat.guide import draw_guide
from ui.chat.memory_panel import draw_actions, draw_prompt, draw_story, draw_story_actions
from ui.chat.player import draw_failed, draw_input, draw_player, draw_unfinished
from ui.chat.replying import draw_coming
from ui.components import filled, unseen_heading
from ui.model import Chosen, chosen_model
from ui.text import plain
from ui.view import View

ABOVE, SCRUBBER, GUIDE, PLAYER, INPUT = 127, 49, 78, 54, 102
"""Pixels of the window that the conversation leaves to the header, and to each of the others where it is drawn, so that
player and input stay above the fold."""

MARGIN = 32
"""Pixels under the conversation where nothing else stands there."""

LOWEST = 220
"""Pixels of the conversation in a very low window."""


def draw(view: View) -> None:
    """The page of one session, at its latest turn or at an earlier moment, at which nothing can be changed."""
    chosen: Chosen | None = None
    try:
        chosen = chosen_model()
    except ConfigError as error:
        st.error(plain(str(error)))
    memory, running = view.memory, view.running
    recording = memory.session.recording(upto=view.last_seq)
    with st.container():  # there in any case: what follows keeps its place, and the conversation its scroll position
        guided = not view.past and draw_guide(view, recording)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left:
        unseen_heading("Conversation")
        beside = {SCRUBBER: bool(view.latest_turn), GUIDE: guided, PLAYER: recording is not None and not view.past}
        minus = ABOVE + sum(pixels for pixels, there in beside.items() if there) + (MARGIN if view.past else INPUT)
        box = filled("chat__box", minus=minus, least=LOWEST, border=True, autoscroll=True, gap="xsmall")

        def coming() -> None:
            if not view.past:
                draw_coming(view)

        draw_conversation(box, view, ending=coming)
        if not view.past and chosen is not None:
            with box, st.empty().container(gap="xsmall"):  # in its place also when empty, so that it goes at once
                draw_unfinished(memory, chosen, running)
            with st.container():  # there in any case: the input under it keeps the words that are being typed
                draw_failed(view)
                draw_player(view, recording)
            draw_input(memory, chosen, running)
    with right:
        with st.container(border=True, gap="xsmall", key="chat__budget"):
            draw_prompt(view)
        with st.container(border=True, gap="small", key="chat__story"):
            draw_story(view)
            if not view.past:
                draw_story_actions(memory, running)
                draw_actions(memory, view.status, running)
