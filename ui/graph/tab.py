"""What one browser tab remembers about the Graph page: which entity, which way, which relation is open.

Plain values under plain keys, so that they outlive a visit to another page. Everything belongs to one block of one
session.
"""

import zlib
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

ENTITY = "entity"
"""The parameter of the address that names the focus."""

RELATION = "relation"
"""The parameter of the address that names the open relation."""

Place = tuple[str, str]
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


def looking(place: Place) -> Looking:
    found: Looking = st.session_state.get(_key(place, "looking"), Looking())
    return found


def look(place: Place, **changes: Any) -> None:
    """Look at something else; what is not named stays. Another focus closes the relation that was open."""
    before = looking(place)
    if changes.get("focus", before.focus) != before.focus:
        changes = {"relation": None, "page": 1, "to": before.to if before.to != changes["focus"] else None} | changes
    st.session_state[_key(place, "looking")] = replace(before, **changes)


def chosen_block(session_id: str) -> str | None:
    """The block whose graph was shown last."""
    found: str | None = st.session_state.get(_key((session_id, ""), "block"))
    return found


def choose_block(session_id: str, block: str) -> None:
    st.session_state[_key((session_id, ""), "block")] = block


def asked() -> tuple[str | None, int | None]:
    """The entity and the relation that the address names."""
    relation = st.query_params.get(RELATION)
    known = relation is not None and relation.isdecimal() and len(relation) < 16
    return st.query_params.get(ENTITY), int(relation) if relation and known else None


def is_new(place: Place) -> bool:
    """Was it somebody else than this page who wrote that there?"""
    written: tuple[str | None, str | None] = st.session_state.get(_key(place, "written"), (None, None))
    now = st.query_params.get(ENTITY), st.query_params.get(RELATION)
    return now != (None, None) and now != written


def write_link(place: Place, focus: int | None, relation: int | None) -> None:
    """Put focus and open relation in the address, so that the page can be reloaded and linked to."""
    values = {ENTITY: None if focus is None else str(focus), RELATION: None if relation is None else str(relation)}
    st.session_state[_key(place, "written")] = (values[ENTITY], values[RELATION])
    for name, value in values.items():
        if value is None:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != value:
            st.query_params[name] = value


def key(place: Place, name: str) -> str:
    """The key of a widget that belongs to one block of one session."""
    return f"graph__{name}_{zlib.crc32(repr(place).encode())}"


def fill(widget: str, value: Any) -> None:
    """What a widget shows; before it is drawn."""
    if widget not in st.session_state or st.session_state[widget] != value:
        st.session_state[widget] = value


def generation(place: Place) -> int:
    """Grows when a drawer is to begin with empty fields."""
    return int(st.session_state.get(_key(place, "generation"), 0))


def finish(place: Place) -> None:
    """For a drawer whose last button may be gone when it is drawn again."""
    st.session_state[_key(place, "finished")] = True
    st.session_state[_key(place, "generation")] = generation(place) + 1


def finished(place: Place) -> bool:
    """Has what a drawer asked been done? Once."""
    return bool(st.session_state.pop(_key(place, "finished"), False))


def _key(place: Place, name: str) -> str:
    return f"graph_{name} {place!r}"
