"""State of the Graph page in one browser tab: focus, path, open relation.

Kept for each block of each session, also while another page is shown.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui.tab import state

ENTITY = "entity"
"""URL parameter with the focus."""

RELATION = "relation"
"""URL parameter with the open relation."""

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
    written: tuple[str | None, str | None] = (None, None)
    """Entity and relation this page last wrote to the URL."""
    generation: int = 0
    """Counter in the widget keys; increasing it empties the fields of a dialog."""


_PLACES = state.ByPlace("graph", Looking())
looking = _PLACES.at
blocks: state.ByPlace[str | None] = state.ByPlace("graph_block", None)
"""Name of the graph block shown last, by session."""


def look(place: ListPosition, **changes: Any) -> None:
    """Change parts of the state. A new focus closes the open relation."""
    before = looking(place)
    if changes.get("focus", before.focus) != before.focus:
        # What is named in the call wins over these defaults. A path to the new focus itself would be none.
        changes = {"relation": None, "page": 1, "to": before.to if before.to != changes["focus"] else None} | changes
    _PLACES.change(place, **changes)


def asked() -> tuple[str | None, int | None]:
    """Entity and relation named by the URL."""
    relation = st.query_params.get(RELATION)
    # Anyone can write an address: only a short run of digits is taken for an id.
    valid = relation is not None and relation.isdecimal() and len(relation) < 16
    return st.query_params.get(ENTITY), int(relation) if relation and valid else None


def is_new(place: ListPosition) -> bool:
    """Tell whether the URL was changed by something other than this page."""
    now = st.query_params.get(ENTITY), st.query_params.get(RELATION)
    # An address that names neither asks for nothing.
    return now != (None, None) and now != looking(place).written


def write_link(place: ListPosition, focus: int | None, relation: int | None) -> None:
    """Write focus and open relation to the URL, so that the page can be reloaded and linked to."""
    written = tuple(None if value is None else str(value) for value in (focus, relation))
    _PLACES.change(place, written=written)
    for name, value in zip((ENTITY, RELATION), written, strict=True):
        state.write_address(name, value)


def key(place: ListPosition, name: str) -> str:
    """Widget key for one block of one session."""
    return f"graph__{name}_{zlib.crc32(repr(place).encode())}"


def fill(widget: str, value: Any) -> None:
    """Set a widget's value before it is drawn."""
    # Only a differing value is assigned: Streamlit treats an assignment as a new value of the widget.
    if widget not in st.session_state or st.session_state[widget] != value:
        st.session_state[widget] = value


def redraw(place: ListPosition) -> None:
    """Empty the fields of a dialog."""
    _PLACES.change(place, generation=looking(place).generation + 1)
