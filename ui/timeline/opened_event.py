"""The event whose drawer is open in this tab, and the callbacks with which the figure and the list open it."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from ui.tab import state

LIST = "timeline__events"
"""Widget key of the event list."""

EVENT = "event"
"""URL parameter that opens the drawer of an event, by its position."""

_OPENED = "timeline_opened"
_DRAWN = "timeline_drawn"


def opened() -> int | None:
    """Position of the event whose drawer is open in the selected session."""
    value: tuple[str | None, int] | None = st.session_state.get(_OPENED)
    # Positions are of one log: after a change of the session the drawer does not open.
    return value[1] if value and value[0] == state.selected_session() else None


def take_link() -> None:
    """Open the event that the URL requests, once."""
    # Taken out, or a drawer that was closed would open again with every redraw.
    position = state.address_number(st.query_params.pop(EVENT, None))
    if position is not None:
        open_event(position)


def open_event(position: int) -> None:
    """Open the drawer of an event; it stays open across redraws until it is closed."""
    st.session_state[_OPENED] = (state.selected_session(), position)


def close() -> None:
    """Close the drawer and clear the selection that opened it, so that the same mark or row opens it again."""
    st.session_state.pop(_OPENED, None)
    if LIST in st.session_state:
        st.session_state[LIST] = {"selection": {"rows": [], "columns": [], "cells": []}}
    # A figure keeps its selection: under a new key it starts without, so that the same mark can be clicked again.
    if _points(figure_key()):
        st.session_state[_DRAWN] = st.session_state.get(_DRAWN, 0) + 1


def figure_key() -> str:
    """Widget key of the figure; changes after every click, because a mark stays selected in a figure."""
    return f"timeline__tokens_{st.session_state.get(_DRAWN, 0)}"


def take_row(positions: Sequence[int]) -> None:
    """Open the event of the selected row; `positions`: log positions of the rows as drawn."""
    selection: Any = st.session_state.get(LIST)
    rows = selection["selection"]["rows"] if selection else []
    if rows and rows[0] < len(positions):
        open_event(positions[rows[0]])


def take_mark(key: str) -> None:
    """Handle a click on a mark of the figure, or on a turn's bar, which opens its prompt."""
    selected = [point.get("customdata") for point in _points(key)]
    # Depending on the trace, Plotly reports a list or a plain value.
    positions = [value[0] if isinstance(value, list) else value for value in selected]
    if positions and positions[0]:
        open_event(int(positions[0]))


def _points(key: str) -> list[dict[str, Any]]:
    """The points selected in the figure."""
    selection: Any = st.session_state.get(key)
    return list(selection["selection"]["points"]) if selection else []
