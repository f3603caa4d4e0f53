"""Which event's drawer is open in this tab, and how the figure and the list open it. For callbacks."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui import state

LIST = "timeline__events"
"""Widget of the event list."""

EVENT = "event"
"""Parameter of an address that opens the drawer of an event, by its position."""

_OPENED = "timeline_opened"
_DRAWN = "timeline_drawn"


def opened() -> int | None:
    """Position of the event whose drawer is open in the selected session."""
    value: tuple[str | None, int] | None = st.session_state.get(_OPENED)
    return value[1] if value and value[0] == state.selected_session() else None


def take_link() -> None:
    """Open the event that the address asks for, once."""
    asked = st.query_params.pop(EVENT, None)
    if asked is not None and asked.isdecimal() and len(asked) < 16:
        open_event(int(asked))


def open_event(position: int) -> None:
    """Open the drawer of an event; it stays until it is closed, whatever is drawn anew meanwhile."""
    st.session_state[_OPENED] = (state.selected_session(), position)


def close() -> None:
    """Close the drawer, and take back the click that opened it: the same mark or row opens it again."""
    st.session_state.pop(_OPENED, None)
    if LIST in st.session_state:
        st.session_state[LIST] = {"selection": {"rows": [], "columns": [], "cells": []}}
    if _points(figure_key()):
        st.session_state[_DRAWN] = st.session_state.get(_DRAWN, 0) + 1


def figure_key() -> str:
    """Widget of the figure; another one after every click, because a mark stays selected in a figure."""
    return f"timeline__tokens_{st.session_state.get(_DRAWN, 0)}"


def take_row(positions: Sequence[int]) -> None:
    """A row of the list was selected; `positions` are those of its rows, as they were drawn."""
    selection: Any = st.session_state.get(LIST)
    rows = selection["selection"]["rows"] if selection else []
    if rows and rows[0] < len(positions):
        open_event(positions[rows[0]])


def take_mark(key: str) -> None:
    """A mark of the figure was clicked, or a turn's bar, which stands for its prompt."""
    given = [point.get("customdata") for point in _points(key)]
    positions = [value[0] if isinstance(value, list) else value for value in given]
    if positions and positions[0]:
        open_event(int(positions[0]))


def _points(key: str) -> list[dict[str, Any]]:
    """What is selected in the figure."""
    selection: Any = st.session_state.get(key)
    return list(selection["selection"]["points"]) if selection else []
