"""The budget card: two lanes, a sentence about them, and the numbers as a small table."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import streamlit as st

from memory_inspector.figures.budget_lanes import Lanes, Motion, lanes_html, legend_html
from memory_inspector.wording.formatting import tokens
from memory_inspector.wording.terms import HELP
from ui.parts.components import heading
from ui.tab import state
from ui.tab.drawing import mode

MOVING_SECONDS = 3.0
"""Duration, in seconds, of the animation of changed lanes; a page opened later shows them without it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The lanes that a tab shows, and those it showed before."""

    session_id: str
    position: int
    """Log position of the moment that the lanes show."""
    lanes: Lanes
    motion: Motion | None = None
    since: float = field(default_factory=time.monotonic)
    """Monotonic time, in seconds."""


def moved(before: Shown | None, shown: Shown, flushes: Mapping[int, int]) -> Shown:
    """The lanes to show, animated if the same session showed other lanes before.

    `flushes`: tokens in the queue before each flush of the shown turn, by log position; seen when moving past it.
    """
    # Lanes of two sessions have nothing to do with each other: no animation between them.
    if before is None or before.session_id != shown.session_id:
        return shown
    # A redraw during the animation keeps the motion and its begin, so that it neither stops nor starts again.
    if before.lanes == shown.lanes:
        over = shown.since - before.since > MOVING_SECONDS
        return replace(before, position=shown.position, motion=None if over else before.motion)
    peak = max((size for position, size in flushes.items() if position > before.position), default=0)
    # A queue that stands at its peak already only has to drop.
    return replace(shown, motion=Motion(before.lanes, peak if peak > before.lanes.queue_now else 0))


def draw_budget(shown: Shown, sentence: str, title: str, flushes: Mapping[int, int]) -> None:
    """Draw the card's content. `sentence` describes the queue, `title` names the prompt: markdown without quoted words.

    `flushes`: as for `moved`.
    """
    shown, lanes = moved(st.session_state.get(state.LANES), shown, flushes), shown.lanes
    st.session_state[state.LANES] = shown
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        heading("Token budget", title, help=f"{HELP['prompt']} {HELP['limit']}", width="content")
        st.markdown(f"{tokens(lanes.total)} of {tokens(lanes.limit)}", width="content")
    st.html(lanes_html(lanes, mode(), shown.motion))
    # What was said after the prompt was built is in the queue now, and was not in that prompt.
    sent = next(segment.tokens for segment in lanes.sent if segment.kind == "queue")
    since = f" {tokens(sent)} of it were in the prompt; the rest came later." if lanes.queue_now > sent else ""
    st.markdown(f":small[{sentence}]", help=f"{HELP['queue']} {HELP['flush']}{since}")
    st.html(legend_html(lanes, mode()))
