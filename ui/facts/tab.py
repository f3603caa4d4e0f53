"""What one browser tab remembers about the Facts page: which view, which fact, which words are half written.

Plain values under plain keys, so that they outlive a visit to another page. Everything belongs to one block of one
session.
"""

import zlib
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

from ui.facts.desk import Picked, View, Wanted

FACT = "fact"
"""The parameter of the address that names the open fact."""

Place = tuple[str, str]
"""A session and one of its fact blocks."""

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Draft:
    """Words that are being edited, and what they were when the editing began."""

    version: int
    opened: str
    text: str

    @property
    def changed(self) -> bool:
        return self.text != self.opened


def chosen_block(session_id: str) -> str | None:
    """The block whose facts were shown last."""
    return _get((session_id, ""), "block", None)


def choose_block(session_id: str, block: str) -> None:
    _set((session_id, ""), "block", block)


def view(place: Place) -> View:
    return _get(place, "view", "active")


def show(place: Place, shown: View) -> None:
    _set(place, "view", shown)


def wanted(place: Place) -> Wanted:
    return _get(place, "wanted", Wanted())


def want(place: Place, values: Wanted) -> None:
    _set(place, "wanted", values)


def order(place: Place) -> str:
    return _get(place, "order", "newest")


def sort_by(place: Place, chosen: str) -> None:
    _set(place, "order", chosen)


def picked(place: Place) -> Picked:
    return _get(place, "picked", Picked())


def pick(place: Place, chosen: Picked) -> None:
    _set(place, "picked", chosen)


def unselect(place: Place) -> None:
    """Untick everything; the list is drawn anew without its ticks."""
    pick(place, Picked(picked(place).open))
    redraw(place)


def draft(place: Place, fact: int) -> Draft | None:
    """What is half written in the panel of a fact."""
    return _drafts(place).get(fact)


def keep_draft(place: Place, fact: int, written: Draft | None) -> None:
    """Remember what is half written, or forget it."""
    drafts = {key: value for key, value in _drafts(place).items() if key != fact}
    _set(place, "drafts", drafts | ({fact: written} if written is not None else {}))


def _drafts(place: Place) -> dict[int, Draft]:
    return _get(place, "drafts", {})


def skipped(place: Place) -> tuple[int, ...]:
    """Facts that were passed over in Review, in that order."""
    return _get(place, "skipped", ())


def skip(place: Place, fact: int) -> None:
    _set(place, "skipped", (*(id for id in skipped(place) if id != fact), fact))


def asks(place: Place) -> tuple[str, int] | None:
    """What Review asks about the fact it shows: `edit` or `reject`, and its id."""
    return _get(place, "asks", None)


def ask(place: Place, what: str | None, fact: int = 0) -> None:
    _set(place, "asks", None if what is None else (what, fact))


def asked_fact() -> int | None:
    """The fact that the address names."""
    asked = st.query_params.get(FACT)
    return int(asked) if asked is not None and asked.isdecimal() and len(asked) < 16 else None


def is_new(asked: int, place: Place) -> bool:
    """Was it somebody else than this page who wrote it there?"""
    return str(asked) != _get(place, "written", None)


def take_link(place: Place) -> int | None:
    """The fact that the address asks for, once."""
    asked = asked_fact()
    if asked is None or not is_new(asked, place):
        return None
    _set(place, "written", str(asked))
    return asked


def write_link(place: Place, fact: int | None) -> None:
    """Put the open fact in the address, so that the page can be reloaded and linked to."""
    _set(place, "written", None if fact is None else str(fact))
    if fact is None:
        st.query_params.pop(FACT, None)
    elif st.query_params.get(FACT) != str(fact):
        st.query_params[FACT] = str(fact)


def generation(place: Place) -> int:
    """Grows when the fields of this page are to be drawn anew with what is stored."""
    return _get(place, "generation", 0)


def key(place: Place, name: str) -> str:
    """The key of a widget that belongs to one block of one session, new with each generation."""
    return f"facts__{name}_{zlib.crc32(repr(place).encode())}_{generation(place)}"


def redraw(place: Place) -> None:
    _set(place, "generation", generation(place) + 1)


def kept(place: Place, name: str) -> Any:
    """What a drawer left to be found at its next drawing; None for nothing."""
    return _get(place, name, None)


def keep(place: Place, name: str, value: Any) -> None:
    _set(place, name, value)


def _get(place: Place, name: str, otherwise: Kept) -> Kept:
    """What `_set` left under this name; each name is used with one type."""
    found: Kept = st.session_state.get(_key(place, name), otherwise)
    return found


def _set(place: Place, name: str, value: Any) -> None:
    st.session_state[_key(place, name)] = value


def _key(place: Place, name: str) -> str:
    return f"facts_{name} {place!r}"
