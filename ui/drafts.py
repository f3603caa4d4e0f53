"""What an open drawer remembers: what it was opened with, and what became of saving it.

A drawer's widget keys go when it is closed, however that happens; a draft without its widget is from an
earlier opening and is not used again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

_DRAFTS = "blocks_drafts"


@dataclass(frozen=True, slots=True)
class Draft:
    """An edit under way."""

    revision: int = 0
    """Of the text it started from."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings it started from."""
    conflict: bool = False
    """Saving it found another revision."""
    saved: bool = False
    """Or discarded: the drawer is to close."""
    since: float | None = None
    """When it was typed in last, where it was left unsaved and is opened again. Seconds since 1970."""
    said: str | None = None
    """What was done in the drawer, which stays open."""
    problem: str | None = None
    """Why it could not be saved otherwise."""
    theirs: str | None = None
    """The other text, where it is known and this one is kept all the same."""
    mine: str | None = None
    """This text, where the other was chosen to be shown."""


def draft(key: str, widget: str, begun: Draft) -> Draft:
    """The draft of this key; `begun` when its widget was not drawn before."""
    drafts = _drafts()
    if widget not in st.session_state or key not in drafts:
        drafts[key] = begun
    found: Draft = drafts[key]
    return found


def kept(key: str) -> Draft:
    """The draft of this key, in a callback of its drawer."""
    found: Draft = _drafts()[key]
    return found


def keep_draft(key: str, changed: Draft) -> None:
    """Remember another state of the draft. For callbacks."""
    _drafts()[key] = changed


def forget(key: str, *widgets: str) -> None:
    """Leave a draft behind."""
    _drafts().pop(key, None)
    for widget in widgets:
        st.session_state.pop(widget, None)


def leave() -> None:
    """A drawer was closed: leave every draft behind."""
    st.session_state.pop(_DRAFTS, None)


def _drafts() -> dict[str, Any]:
    found: dict[str, Any] = st.session_state.setdefault(_DRAFTS, {})
    return found
