"""What one browser tab remembers about the Graph page: which entity, which way, which relation is open.

Everything belongs to one block of one session, and outlives a visit to another page.
"""

import zlib
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import state

ENTITY = "entity"
"""The parameter of the address that names the focus."""

RELATION = "relation"
"""The parameter of the address that names the open relation."""

ListPosition = tuple[str, str]
"""A session and one of its graph blocks."""


@dataclass(frozen=True, slots=True)
class Looking:
    """What is looked at."""

    focus: int | None = None
    """The most mentioned entity unless one was chosen."""
    to: int | None = None
    """Where a path is to lead."""
    kinds: tuple[str, ...] = ()
    """Only relations called one of these; all when empty."""
    steps: int = 1
    relation: int | None = None
    """The relation that is open."""
    page: int = 1
    """Of the list."""
    written: tuple[str | None, str | None] = (None, None)
    """Entity and relation as this page put them in the address."""
    generation: int = 0
    """Grows when a drawer is to begin with empty fields."""
    finished: bool = False
    """Has what a drawer asked been done, which is not drawn again yet?"""


_PLACES = state.ByPlace("graph", Looking())
looking = _PLACES.at
blocks: state.ByPlace[str | None] = state.ByPlace("graph_block", None)
"""By session: the block whose graph was shown last."""


def look(place: ListPosition, **changes: Any) -> None:
    """Look at something else; what is not named stays. Another focus closes the relation that was open."""
    before = looking(place)
    if changes.get("focus", before.focus) != before.focus:
        changes = {"relation": None, "page": 1, "to": before.to if before.to != changes["focus"] else None} | changes
    _PLACES.change(place, **changes)


def asked() -> tuple[str | None, int | None]:
    """The entity and the relation that the address names."""
    relation = st.query_params.get(RELATION)
    known = relation is not None and relation.isdecimal() and len(relation) < 16
    return st.query_params.get(ENTITY), int(relation) if relation and known else None


def is_new(place: ListPosition) -> bool:
    """Was it somebody else than this page who wrote that there?"""
    now = st.query_params.get(ENTITY), st.query_params.get(RELATION)
    return now != (None, None) and now != looking(place).written


def write_link(place: ListPosition, focus: int | None, relation: int | None) -> None:
    """Put focus and open relation in the address, so that the page can be reloaded and linked to."""
    written = tuple(None if each is None else str(each) for each in (focus, relation))
    _PLACES.change(place, written=written)
    for name, value in zip((ENTITY, RELATION), written, strict=True):
        state.write_address(name, value)


def key(place: ListPosition, name: str) -> str:
    """The key of a widget that belongs to one block of one session."""
    return f"graph__{name}_{zlib.crc32(repr(place).encode())}"


def fill(widget: str, value: Any) -> None:
    """What a widget shows; before it is drawn."""
    if widget not in st.session_state or st.session_state[widget] != value:
        st.session_state[widget] = value


def finish(place: ListPosition) -> None:
    """For a drawer whose last button may be gone when it is drawn again."""
    _PLACES.change(place, finished=True, generation=looking(place).generation + 1)


def finished(place: ListPosition) -> bool:
    """Has what a drawer asked been done? Once."""
    done = looking(place).finished
    _PLACES.change(place, finished=False)
    return done
