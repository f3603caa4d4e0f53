"""State of the Graph page in one browser tab: focus, path, open relation.

Kept for each block of each session, also while another page is shown.
"""

from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.parts.listing import BlockChoice
from ui.tab import state

ListPosition = tuple[str, str]
"""Session id and name of one of its graph blocks."""


@dataclass(frozen=True, slots=True)
class Looking:
    """State of the page for one block."""

    focus: int | None = None
    """Chosen focus; None: the most mentioned entity."""
    to: int | None = None
    """Target of the requested path."""
    kinds: tuple[str, ...] = ()
    """Predicates to show; empty: all."""
    steps: int = 1
    relation: int | None = None
    """Id of the open relation."""
    page: int = 1
    """Page of the list."""
    generation: int = 0
    """Counter in the widget keys; increasing it empties the fields of a dialog."""


_PLACES = state.ByPlace("graph", Looking())
looking, key = _PLACES.at, _PLACES.key
link = state.PageLink("graph_link", "entity", "relation")
"""URL parameters with the focus and the open relation."""
blocks = BlockChoice("graph", width=180)


def look(place: ListPosition, **changes: Any) -> None:
    """Change parts of the state. A new focus closes the open relation."""
    before = looking(place)
    if changes.get("focus", before.focus) != before.focus:
        # What is named in the call wins over these defaults. A path to the new focus itself would be none.
        changes = {"relation": None, "page": 1, "to": before.to if before.to != changes["focus"] else None} | changes
    _PLACES.change(place, **changes)


def field(place: ListPosition, name: str, value: Any) -> str:
    """Return the key of a widget that is drawn next, and give it a value: a click elsewhere may have changed it."""
    widget = key(place, name)
    # Only a differing value is assigned: Streamlit treats an assignment as a new value of the widget.
    if widget not in st.session_state or st.session_state[widget] != value:
        st.session_state[widget] = value
    return widget


def redraw(place: ListPosition) -> None:
    """Empty the fields of a dialog."""
    _PLACES.change(place, generation=looking(place).generation + 1)
