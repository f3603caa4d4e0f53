"""State of one browser tab between runs: ids and small values only."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar
from zlib import crc32

import streamlit as st

SESSION = "session"
"""Key of the selected session, and the URL parameter that names it."""

TURN = "turn"
"""Key of the selected turn, and the URL parameter that names it; empty for the latest."""

TOAST = "toast"
"""Key of the last action's message while it is still to be shown; see `ui.parts.toasts`."""

_NOTICE = "notice"
_SHOWN = "notice_shown"

STEP = "step"
"""Key of the log position of the selected step inside a turn, and the URL parameter that names it."""

LANES = "lanes"
"""Key of the budget lanes that this tab drew last, from which the next drawing is animated."""

_LONGEST_NUMBER = 16
"""Number of digits from which on an id in the address is refused."""

_EARLIER = "chat_earlier"
_DIALOG = "dialog_open"
_CLOSING = "dialog_closing"
_GRAPH = "has_graph"
_WHOLE = "whole_messages"


State = TypeVar("State")


class ByPlace(Generic[State]):
    """Page state by place, a session or one of its blocks: one frozen value each, kept while other pages are drawn."""

    def __init__(self, name: str, begun: State) -> None:
        """`begun`: state of a place that was not visited yet."""
        self._name, self._begun = name, begun

    def at(self, place: Hashable) -> State:
        states: dict[Hashable, State] = st.session_state.get(self._name, {})
        return states.get(place, self._begun)

    def put(self, place: Hashable, value: State) -> None:
        st.session_state[self._name] = {**st.session_state.get(self._name, {}), place: value}

    def change(self, place: Hashable, /, **changes: Any) -> None:
        """Change the named fields of a place's state; the others stay."""
        before: Any = self.at(place)
        self.put(place, replace(before, **changes))

    def key(self, place: Hashable, name: str) -> str:
        """Return the widget key of one place."""
        # The place is hashed, because a block's name can hold any character and a key becomes a CSS class.
        return f"{self._name}__{name}_{crc32(repr(place).encode())}"


def write_address(name: str, value: str | None) -> None:
    """Put a parameter in the address, so that the page can be reloaded and linked to; None: take it out."""
    if value is None:
        st.query_params.pop(name, None)
    # Streamlit sends every assignment to the browser, so an equal value is not written again.
    elif st.query_params.get(name) != value:
        st.query_params[name] = value


def address_number(value: str | None) -> int | None:
    """Return the id that a parameter of the address holds; None if it is none."""
    # Anyone can write an address: only a short run of digits is taken for an id.
    return int(value) if value is not None and value.isdecimal() and len(value) < _LONGEST_NUMBER else None


class PageLink:
    """Parameters of the address that a page reads and writes: what it wrote there itself asks for nothing."""

    def __init__(self, key: str, *names: str) -> None:
        """`key`: of the session state with what the page wrote last, by place."""
        self._names, self._nothing = names, (None,) * len(names)
        self._written: ByPlace[tuple[str | None, ...]] = ByPlace(key, self._nothing)

    def asked(self, place: Hashable = None) -> tuple[str | None, ...]:
        """Return the value of each parameter, if something other than the page changed one of them; otherwise None."""
        values = tuple(st.query_params.get(name) for name in self._names)
        return self._nothing if values == self._written.at(place) else values

    def take(self, place: Hashable = None) -> tuple[str | None, ...]:
        """Return what the address asks for, once for each change of it; see `asked`."""
        asked = self.asked(place)
        if asked != self._nothing:
            self._written.put(place, asked)
        return asked

    def put(self, *values: object, place: Hashable = None) -> None:
        """Put the values in the address, so that the page can be reloaded and linked to; None: take one out."""
        written = tuple(None if value is None else str(value) for value in values)
        self._written.put(place, written)
        for name, value in zip(self._names, written, strict=True):
            write_address(name, value)


@dataclass(frozen=True, slots=True)
class Notice:
    """A message to show once, on the next drawing."""

    kind: Literal["error", "warning", "info"]
    text: str


def say(kind: Literal["error", "warning", "info"], text: str) -> None:
    """Show a sentence on the next drawing, in place of any toast. For callbacks."""
    st.session_state.pop(TOAST, None)
    st.session_state[_NOTICE] = Notice(kind, text)


def take_notice() -> Notice | None:
    """Return the message to show, once; None if there is none."""
    notice: Notice | None = st.session_state.pop(_NOTICE, None)
    st.session_state[_SHOWN] = notice
    return notice


def keep_notice() -> None:
    """Keep the current message for a redraw that is due to new events, not to a user's action."""
    shown: Notice | None = st.session_state.get(_SHOWN)
    if shown is not None:
        # A newer notice, said since that drawing, is not replaced.
        st.session_state.setdefault(_NOTICE, shown)


def open_dialog() -> None:
    """Record that this run draws a dialog."""
    st.session_state[_DIALOG] = True


def dialog_open() -> bool:
    """Tell whether this run has drawn a dialog."""
    return bool(st.session_state.get(_DIALOG))


def close_dialog() -> None:
    """Close the open dialog at its next drawing. For callbacks of its buttons."""
    st.session_state[_CLOSING] = True


def take_closing() -> bool:
    """Tell, once, whether the dialog that is drawn now is to be closed."""
    return bool(st.session_state.pop(_CLOSING, False))


def begin_run() -> None:
    """Reset the record of open dialogs, which a run of the whole page has closed. Called by app.py on every run."""
    st.session_state[_DIALOG] = st.session_state[_CLOSING] = False


def has_graph() -> bool:
    """Tell whether the selected session has a graph, as of this tab's last check."""
    return bool(st.session_state.get(_GRAPH))


def saw_graph(exists: bool) -> None:
    st.session_state[_GRAPH] = exists


def earlier_messages() -> int:
    """Number of earlier messages drawn in addition to the initial ones."""
    return int(st.session_state.get(_EARLIER, 0))


def show_earlier(more: int) -> None:
    st.session_state[_EARLIER] = more


def whole(message: str) -> bool:
    """Tell whether this message is shown in full."""
    return message in st.session_state.get(_WHOLE, ())


def show_whole(message: str, whole: bool) -> None:
    """Show a message in full, or only its beginning again. For callbacks."""
    opened: frozenset[str] = st.session_state.get(_WHOLE, frozenset())
    st.session_state[_WHOLE] = opened | {message} if whole else opened - {message}


def selected_session() -> str | None:
    """The id in the session picker."""
    value: str | None = st.session_state.get(SESSION)
    return value


def selected_turn() -> int | None:
    """The selected turn; None for the latest."""
    value: int | None = st.session_state.get(TURN)
    return value


def selected_step() -> int | None:
    """Log position of the step selected inside the turn; None for the turn's end."""
    value: int | None = st.session_state.get(STEP)
    return value


def show_turn(turn: int | None, step: int | None = None) -> None:
    """Show one turn on every page, at its end or at one of its steps, or the latest again. For callbacks."""
    st.session_state[TURN] = turn
    st.session_state[STEP] = step


def select_session(session_id: str | None) -> None:
    """Select another session. For callbacks, before the picker is drawn."""
    st.session_state[SESSION] = session_id
    show_turn(None)
    show_earlier(0)
    st.session_state.pop(_WHOLE, None)
