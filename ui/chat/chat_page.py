"""The Chat page of one session: the conversation on the left, its effects on memory on the right.

A turn runs as a job that this page only observes: drawing starts nothing, and leaving the page stops nothing.
"""

import streamlit as st

from memory_core import ConfigError
from memory_inspector.wording.formatting import plain
from ui.chat.conversation import draw_coming, draw_conversation
from ui.chat.guide import draw_guide
from ui.chat.memory_panel import draw_actions, draw_prompt, draw_story, draw_story_actions
from ui.chat.player import draw_failed, draw_input, draw_no_input, draw_player, draw_unfinished, held
from ui.parts.components import filled, unseen_heading
from ui.tab.model import Chosen, chosen_model
from ui.tab.view import View

ABOVE, SCRUBBER, GUIDE, PLAYER, STOP, AGENT, INPUT = 127, 49, 78, 54, 37, 56, 102
"""Pixels of the window reserved for the header, and for each other element that is drawn, so that player and input
stay above the fold."""

NARROW = 150
"""Additional pixels that header, guide and player take on a phone, where they wrap."""

MARGIN = 32
"""Pixels below the conversation if nothing else is drawn there."""

LOWEST = 220
"""Minimum height of the conversation, in pixels."""


def draw(view: View) -> None:
    """Draw the page of one session, at its latest turn or read-only at an earlier moment."""
    chosen: Chosen | None = None
    try:
        chosen = chosen_model()
    except ConfigError as error:
        st.error(plain(str(error)))
    memory, running, read_only = view.memory, view.running, view.read_only
    # The input stays, disabled, where an agent writes, and for a viewer.
    agents = read_only is not None and read_only.because in ("agent", "role")
    recording = memory.session.recording(upto=view.last_seq)
    conversation_column, memory_column = st.columns([0.58, 0.42], gap="medium")
    with conversation_column:
        with (
            st.container()
        ):  # always drawn, so that what follows keeps its place, and the conversation its scroll position
            guided = not read_only and draw_guide(view, recording)
        above = ABOVE + SCRUBBER * bool(view.latest_turn) + GUIDE * guided
        unseen_heading("Conversation")
        beside = {
            PLAYER: recording is not None and not read_only,
            STOP: not read_only and held(view) is not None,
            AGENT: agents,
        }
        below = INPUT if agents or not read_only else MARGIN
        minus = above + sum(pixels for pixels, shown in beside.items() if shown) + below
        box = filled("chat__box", minus=minus, least=LOWEST, narrow=NARROW, border=True, autoscroll=True, gap="xsmall")

        def coming() -> None:
            if not view.past:
                draw_coming(view)

        draw_conversation(box, view, ending=coming)
        if not read_only and chosen is not None:
            with box, st.empty().container(gap="xsmall"):  # keeps its place when empty, so that it disappears at once
                draw_unfinished(memory, chosen, running)
            with st.container():  # always drawn, so that the input below keeps the words being typed
                draw_failed(view)
                draw_player(view, recording)
            draw_input(memory, chosen, running)
        elif agents and read_only is not None:
            draw_no_input(read_only)
    with memory_column:
        with st.container(border=True, gap="xsmall", key="chat__budget"):
            draw_prompt(view)
        # Below the budget, which keeps its place while the story grows.
        with st.container(border=True, gap="xsmall", key="chat__story"):
            draw_story(view)
            if not read_only:
                draw_story_actions(memory, running)
                draw_actions(memory, view.status, running)
