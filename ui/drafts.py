"""State of an open drawer: the values it was opened with, and the result of saving it.

A drawer's widget keys disappear when it is closed, however that happens; a draft without its widget is left over from
an earlier opening and is not used again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

_DRAFTS = "blocks_drafts"


@dataclass(frozen=True, slots=True)
class Draft:
    """An edit in progress."""

    revision: int = 0
    """Revision of the text it started from."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings it started from."""
    conflict: bool = False
    """Whether saving it found another revision."""
    saved: bool = False
    """Whether it was saved or discarded, so that the drawer closes."""
    since: float | None = None
    """Time of the last keystroke, in seconds since 1970, if it was left unsaved and is reopened."""
    said: str | None = None
    """Message on an action in the drawer, which stays open."""
    problem: str | None = None
    """Error that prevented saving it."""
    theirs: str | None = None
    """The conflicting text, if it is known and this one is kept nevertheless."""
    mine: str | None = None
    """The user's own text, if the conflicting one is shown."""


def draft(key: str, widget: str, begun: Draft) -> Draft:
    """The draft of this key; `begun` if its widget was not drawn before."""
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
    """Store a new state of the draft. For callbacks."""
    _drafts()[key] = changed


def forget(key: str, *widgets: str) -> None:
    """Remove a draft and the keys of its widgets."""
    _drafts().pop(key, None)
    for widget in widgets:
        st.session_state.pop(widget, None)


def leave() -> None:
    """Remove every draft, because a drawer was closed."""
    st.session_state.pop(_DRAFTS, None)


def _drafts() -> dict[str, Any]:
    found: dict[str, Any] = st.session_state.setdefault(_DRAFTS, {})
    return found
