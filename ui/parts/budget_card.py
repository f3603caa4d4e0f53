"""The budget card: two lanes, a sentence about them, and the numbers as a small table."""

import time
from dataclasses import dataclass, replace

import streamlit as st

from memory_inspector.figures.budget_lanes import Lanes, Motion, lanes_html, legend_html
from memory_inspector.wording.formatting import tokens
from memory_inspector.wording.terms import HELP
from ui.parts.components import heading
from ui.tab import state
from ui.tab.appearance import mode

MOVING_SECONDS = 3.0
"""Duration, in seconds, of the animation of changed lanes; a page opened later shows them without it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The lanes that a tab shows, and those it showed before."""

    session_id: str
    turn: int
    lanes: Lanes
    motion: Motion | None = None
    since: float = 0.0
    """Monotonic time, in seconds."""


def moved(before: Shown | None, shown: Shown, peak: int) -> Shown:
    """The lanes to show, animated if the same session showed other lanes before.

    `peak`: tokens in the queue before the flush of the shown turn, if any; animated only when moving forward.
    """
    # Lanes of two sessions have nothing to do with each other: no animation between them.
    if before is None or before.session_id != shown.session_id:
        return shown
    # A redraw during the animation keeps the motion and its begin, so that it neither stops nor starts again.
    if before.lanes == shown.lanes:
        over = shown.since - before.since > MOVING_SECONDS
        return replace(before, turn=shown.turn, motion=None if over else before.motion)
    return replace(shown, motion=Motion(before.lanes, peak if shown.turn > before.turn else 0))


def draw_budget(session_id: str, lanes: Lanes, sentence: str, *, turn: int | None, peak: int = 0) -> None:
    """Draw the card's content: `sentence`, markdown without quoted words, describes the queue.

    The title names the turn of the prompt. `peak`: tokens in the queue before the flush of this turn.
    """
    shown = moved(st.session_state.get(state.LANES), Shown(session_id, turn or 0, lanes, since=time.monotonic()), peak)
    st.session_state[state.LANES] = shown
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        of_turn = f" of turn {tokens(turn)}" if turn else ""
        heading("Token budget", of_turn, help=f"{HELP['prompt']} {HELP['limit']}", width="content")
        st.markdown(f"{tokens(lanes.total)} of {tokens(lanes.limit)}", width="content")
    st.html(lanes_html(lanes, mode(), shown.motion))
    # What was said after the prompt was built is in the queue now, and was not in that prompt.
    sent = next(segment.tokens for segment in lanes.sent if segment.kind == "queue")
    since = f" {tokens(sent)} of it were in the prompt; the rest came later." if lanes.queue_now > sent else ""
    st.markdown(f":small[{sentence}]", help=f"{HELP['queue']} {HELP['flush']}{since}")
    st.html(legend_html(lanes, mode()))
