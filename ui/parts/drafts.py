"""State of an open drawer: the values it was opened with, and the result of saving it.

A drawer's widget keys disappear when it is closed, however that happens; a draft without its widget is left over from
an earlier opening and is not used again. The last keystrokes may arrive after the drawer was closed: an abandoned
draft still takes them, a saved or discarded one does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import streamlit as st

_DRAFTS = "blocks_drafts"


@dataclass(frozen=True, slots=True)
class Draft:
    """An edit in progress."""

    revision: int = 0
    """Revision of the text that the edit started from."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the edit started from, by name."""
    conflict: bool = False
    """True if saving failed because another revision was stored meanwhile."""
    saved: bool = False
    """True if the edit was saved or discarded, so that the drawer closes."""
    abandoned: bool = False
    """True if the drawer was closed without saving or discarding the edit."""
    since: float | None = None
    """Time of the last keystroke of an edit that was left unsaved and is reopened, in seconds since 1970; or None."""
    message: str | None = None
    """Message on an action in the drawer, which stays open."""
    problem: str | None = None
    """Error that prevented saving."""
    theirs: str | None = None
    """Text that somebody else stored, while the user goes on editing; None without a conflict."""
    mine: str | None = None
    """The user's unsaved text, while another one is shown in its place; otherwise None."""


def draft(key: str, begun: Draft, *widgets: str) -> Draft:
    """The draft of this key; `begun` if there is none, or its drawer was closed since (its first widget has no state).

    `widgets`: keys of the drawer's fields; emptied when a draft begins, so that they show its values.
    """
    drafts = _drafts()
    # Streamlit drops a widget's key once a run does not draw it: without the key, the drawer was closed meanwhile.
    if widgets[0] not in st.session_state or key not in drafts or drafts[key].abandoned:
        drafts[key] = begun
        # A run that ends early drops no key: the drawer would show the text that was discarded.
        for widget in widgets:
            st.session_state.pop(widget, None)
    return drafts[key]


def open_draft(key: str) -> Draft | None:
    """The draft of this key, in a callback of its drawer; None: it was saved or discarded before."""
    draft = _drafts().get(key)
    return None if draft is None or draft.saved else draft


def keep_draft(key: str, changed: Draft) -> None:
    """Store a new state of the draft. For callbacks."""
    _drafts()[key] = changed


def forget(key: str, *widgets: str) -> None:
    """Remove a draft and the keys of its widgets."""
    _drafts().pop(key, None)
    for widget in widgets:
        st.session_state.pop(widget, None)


def leave() -> None:
    """Mark every draft as abandoned, because a drawer was closed."""
    drafts = _drafts()
    drafts.update({key: replace(draft, abandoned=True) for key, draft in drafts.items()})


def _drafts() -> dict[str, Draft]:
    drafts: dict[str, Draft] = st.session_state.setdefault(_DRAFTS, {})
    return drafts
