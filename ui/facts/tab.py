"""What one browser tab remembers about the Facts page: which view, which fact, which words are half written.

Everything belongs to one block of one session, and outlives a visit to another page.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from ui import state
from ui.facts.desk import Picked, View, Wanted

FACT = "fact"
"""The parameter of the address that names the open fact."""

ListPosition = tuple[str, str]
"""A session and one of its fact blocks."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Words that are being edited, and what they were when the editing began."""

    version: int
    opened: str
    text: str

    @property
    def changed(self) -> bool:
        return self.text != self.opened


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown of one block's facts, and what is under way there."""

    view: View = "active"
    wanted: Wanted = field(default_factory=Wanted)
    order: str = "newest"
    picked: Picked = field(default_factory=Picked)
    drafts: Mapping[int, Draft] = field(default_factory=dict)
    """By fact: what is half written in its panel."""
    skipped: tuple[int, ...] = ()
    """Facts that were passed over in Review, in that order."""
    asks: tuple[str, int] | None = None
    """What Review asks about the fact it shows: `edit` or `reject`, and its id."""
    written: str | None = None
    """The fact as this page put it in the address."""
    generation: int = 0
    """Grows when the fields of this page are to be drawn anew with what is stored."""
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What drawers left to be found at their next drawing."""


_PAGES = state.ByPlace("facts", Page())
at, change = _PAGES.at, _PAGES.change
blocks: state.ByPlace[str | None] = state.ByPlace("facts_block", None)
"""By session: the block whose facts were shown last."""


def unselect(place: ListPosition) -> None:
    """Untick everything; the list is drawn anew without its ticks."""
    change(place, picked=Picked(at(place).picked.open))
    redraw(place)


def keep_draft(place: ListPosition, fact: int, written: Draft | None) -> None:
    """Remember what is half written in the panel of a fact, or forget it."""
    drafts = {key: value for key, value in at(place).drafts.items() if key != fact}
    change(place, drafts=drafts | ({fact: written} if written is not None else {}))


def skip(place: ListPosition, fact: int) -> None:
    change(place, skipped=(*(id for id in at(place).skipped if id != fact), fact))


def ask(place: ListPosition, what: str | None, fact: int = 0) -> None:
    change(place, asks=None if what is None else (what, fact))


def asked_fact() -> int | None:
    """The fact that the address names."""
    asked = st.query_params.get(FACT)
    return int(asked) if asked is not None and asked.isdecimal() and len(asked) < 16 else None


def is_new(asked: int, place: ListPosition) -> bool:
    """Was it somebody else than this page who wrote it there?"""
    return str(asked) != at(place).written


def take_link(place: ListPosition) -> int | None:
    """The fact that the address asks for, once."""
    asked = asked_fact()
    if asked is None or not is_new(asked, place):
        return None
    change(place, written=str(asked))
    return asked


def write_link(place: ListPosition, fact: int | None) -> None:
    """Put the open fact in the address, so that the page can be reloaded and linked to."""
    written = None if fact is None else str(fact)
    change(place, written=written)
    state.write_address(FACT, written)


def key(place: ListPosition, name: str) -> str:
    """The key of a widget that belongs to one block of one session, new with each generation."""
    return f"facts__{name}_{zlib.crc32(repr(place).encode())}_{at(place).generation}"


def redraw(place: ListPosition) -> None:
    change(place, generation=at(place).generation + 1)


def kept(place: ListPosition, name: str) -> Any:
    """What a drawer left to be found at its next drawing; None for nothing."""
    return at(place).kept.get(name)


def keep(place: ListPosition, name: str, value: Any) -> None:
    change(place, kept={**at(place).kept, name: value})
