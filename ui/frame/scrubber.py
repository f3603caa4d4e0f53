"""The scrubber below the header: all turns on one track, with ▼ at flushes and ✂ where something was cut.

It sets the turn of all pages, by dragging or with ← and →; with Shift, or from its menu, it moves by single steps. The
browser numbers its requests, so quick keystrokes add up, and an older answer does not override a newer request.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.history.by_turn import History
from memory_inspector.wording.story import STORY_KINDS
from ui.tab import nav, state
from ui.tab.view import View, opened

STEP_KINDS = frozenset({"message_added", *STORY_KINDS})
"""Event kinds that are steps inside a turn: messages, and every decision that the story reports."""

_KEY = "scrubber-track"
_TAKEN = "scrubber_taken"
"""Key under which the tab stores the number of the last request applied; the same request is not applied twice."""

_HTML = """
<div class="scrubber">
  <div class="track" role="slider" tabindex="0" aria-label="Turn" aria-valuemin="1"
       title="Drag, or press ← and → for turns, Shift + ← and → for steps"></div>
  <span class="words"></span>
  <button class="more" title="Steps inside a turn" aria-label="Steps inside a turn">⋯</button>
  <div class="steps"><button class="back">One step back <kbd>Shift + ←</kbd></button
  ><button class="on">One step on <kbd>Shift + →</kbd></button></div>
</div>
"""

_track = st.components.v2.component(
    "scrubber",
    html=_HTML,
    css=(nav.STATIC / "scrubber.css").read_text(encoding="utf-8"),
    js=(nav.STATIC / "scrubber.js").read_text(encoding="utf-8"),
)


def draw_scrubber(view: View) -> None:
    """Draw the track of the session's turns; moving on it changes nothing stored."""
    _track(
        key=_KEY,
        data={**track(view), "taken": st.session_state.get(_TAKEN, 0)},
        height=34,
        on_place_change=_take_place,
    )


def track(view: View) -> dict[str, Any]:
    """Data of the track; turns by number, steps counted within their turn."""
    # A running turn without a prompt is in the history already, but cannot be shown yet.
    turns = {number: turn for number, turn in view.history.turns.items() if number <= view.latest_turn}
    steps = steps_of(view.history)
    return {
        "session": view.memory.session_id,
        "turns": view.latest_turn,
        "shown": view.shown_turn,
        # tuples: for a list Streamlit asks pandas whether it is a table, and loading that takes 0.3 s
        "flushes": tuple(number for number, turn in turns.items() if turn.flushes),
        "cuts": tuple(number for number, turn in turns.items() if turn.cut_tokens),
        # The number of steps up to the shown position is the place of the handle inside the turn.
        "step": bisect_right(steps.get(view.shown_turn, ()), view.position) if view.step is not None else None,
        "steps": tuple(len(steps.get(number, ())) for number in range(1, view.latest_turn + 1)),
        "past": view.turn is not None,
    }


def steps_of(history: History) -> Mapping[int, Sequence[int]]:
    """Log positions of all steps by turn, oldest first."""
    steps: dict[int, list[int]] = {}
    for record in history.records:
        if record.turn and record.kind in STEP_KINDS:
            steps.setdefault(record.turn, []).append(record.position)
    return steps


def place_of(view: View, turn: int | None, step: int | None) -> tuple[int | None, int | None]:
    """Return the turn (None: the latest) and the log position (None: the end of the turn) that the browser requests;
    `step` counts from 1, and the last step of a turn is its end."""
    if turn is None:
        return None, None
    # The request comes from the browser, which may have seen another state of the session.
    turn = max(1, min(turn, view.latest_turn))
    inside = steps_of(view.history).get(turn, ())
    # The last step of a turn is its end, which is shown as the turn itself.
    if step is not None and 0 < step < len(inside):
        return turn, inside[step - 1]
    return (turn if turn < view.latest_turn else None), None


def _take_place() -> None:
    asked: Any = getattr(st.session_state.get(_KEY), "place", None)
    session_id = state.selected_session()
    if asked is None or session_id is None or asked["session"] != session_id:
        return  # the request is for a session that was left meanwhile
    # An older request that arrives late has a smaller number.
    if asked["number"] > st.session_state.get(_TAKEN, 0):
        st.session_state[_TAKEN] = asked["number"]
        with suppress(MemoryInspectorError):  # the page reports the error
            state.show_turn(*place_of(opened(session_id), asked["turn"], asked["step"]))
