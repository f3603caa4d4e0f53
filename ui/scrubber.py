"""The scrubber under the header: all turns on one track, with ▼ at flushes and ✂ where something was cut.

It drives the one clock of all pages: by dragging, with ← and →, and with Shift by single steps inside a turn. The
browser counts, and asks for a place: so quick keys add up, and an older answer does not take back a newer wish.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.history.by_turn import History
from ui import nav, state
from ui.story import STORY_KINDS
from ui.view import View, opened

STEP_KINDS = frozenset({"message_added", *STORY_KINDS})
"""What is a step inside a turn: what was said, and every decision that the story tells."""

_KEY = "scrubber-track"
_TAKEN = "scrubber_taken"
"""Number of the last place that the browser asked for and got; what it says again is not taken twice."""

_HTML = """
<div class="scrubber">
  <div class="track" role="slider" tabindex="0" aria-label="Turn" aria-valuemin="1"
       title="Drag, or press ← and → for turns, Shift + ← and → for steps"></div>
  <span class="words"></span>
  <span class="steps"><button class="back" title="One step back (Shift + ←)" aria-label="One step back">‹ step</button
  ><button class="on" title="One step on (Shift + →)" aria-label="One step on">step ›</button></span>
</div>
"""

_track = st.components.v2.component(
    "scrubber",
    html=_HTML,
    css=(nav.STATIC / "scrubber.css").read_text(encoding="utf-8"),
    js=(nav.STATIC / "scrubber.js").read_text(encoding="utf-8"),
)


def draw_scrubber(view: View) -> None:
    """The track of the session's turns; nothing of the past changes by moving on it."""
    _track(
        key=_KEY,
        data={**track(view), "taken": st.session_state.get(_TAKEN, 0)},
        height=34,
        on_place_change=_take_place,
    )


def track(view: View) -> dict[str, Any]:
    """What the track shows; turns by number, steps counted within their turn."""
    turns = {number: turn for number, turn in view.history.turns.items() if number <= view.latest_turn}
    steps = steps_of(view.history)
    return {
        "session": view.memory.session_id,
        "turns": view.latest_turn,
        "shown": view.shown_turn,
        # tuples: of a list Streamlit asks pandas whether it is a table, and loading that takes 0.3 s
        "flushes": tuple(number for number, turn in turns.items() if turn.flushes),
        "cuts": tuple(number for number, turn in turns.items() if turn.cut_tokens),
        "step": bisect_right(steps.get(view.shown_turn, ()), view.position) if view.step is not None else None,
        "steps": tuple(len(steps.get(number, ())) for number in range(1, view.latest_turn + 1)),
        "past": view.past,
    }


def steps_of(history: History) -> Mapping[int, Sequence[int]]:
    """By turn, the positions in the log of all that one can step to, oldest first."""
    steps: dict[int, list[int]] = {}
    for record in history.records:
        if record.turn and record.kind in STEP_KINDS:
            steps.setdefault(record.turn, []).append(record.position)
    return steps


def place_of(view: View, turn: int | None, step: int | None) -> tuple[int | None, int | None]:
    """The turn (None: the latest) and the position in the log of what the browser asks for: a step of a turn by its
    number, or (None) the turn's end, which shows all that its last step did."""
    if turn is None:
        return None, None
    turn = max(1, min(turn, view.latest_turn))
    inside = steps_of(view.history).get(turn, ())
    if step is not None and 0 < step < len(inside):
        return turn, inside[step - 1]
    return (turn if turn < view.latest_turn else None), None


def _take_place() -> None:
    asked: Any = getattr(st.session_state.get(_KEY), "place", None)
    session_id = state.selected_session()
    if asked is None or session_id is None or asked["session"] != session_id:
        return  # of a session that was left meanwhile
    if asked["number"] > st.session_state.get(_TAKEN, 0):
        st.session_state[_TAKEN] = asked["number"]
        with suppress(MemoryInspectorError):  # the page says what is wrong
            state.show_turn(*place_of(opened(session_id), asked["turn"], asked["step"]))
