"""What one browser tab remembers between runs: ids and small values, nothing else."""

from dataclasses import dataclass
from typing import Literal

import streamlit as st

SESSION = "session"
"""Widget of the selected session, and the parameter of the address that names it."""

TURN = "turn"
"""Widget of the turn that is looked at, and the parameter of the address that names it; empty for the latest."""

_NOTICE = "notice"
_SHOWN = "notice_shown"
_STORY = "story_turn"
_EARLIER = "chat_earlier"
_FLUSHES = "seen_flushes"
_VISITED = "visited_pages"
_DIALOG = "dialog_open"
_GRAPH = "has_graph"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to say once, on the next drawing."""

    kind: Literal["error", "warning", "info"]
    text: str


def say(kind: Literal["error", "warning", "info"], text: str) -> None:
    """Have a sentence shown on the next drawing. For callbacks."""
    st.session_state[_NOTICE] = Notice(kind, text)


def take_notice() -> Notice | None:
    """The sentence to show, once."""
    notice: Notice | None = st.session_state.pop(_NOTICE, None)
    st.session_state[_SHOWN] = notice
    return notice


def keep_notice() -> None:
    """Have the sentence that is shown stay for another drawing: nobody did anything, the log only went on."""
    shown: Notice | None = st.session_state.get(_SHOWN)
    if shown is not None:
        st.session_state.setdefault(_NOTICE, shown)


def story_turn(session_id: str) -> int | None:
    """The turn whose story was asked for; None for the latest."""
    chosen: tuple[str, int] | None = st.session_state.get(_STORY)
    return chosen[1] if chosen and chosen[0] == session_id else None


def show_story(session_id: str, turn: int | None) -> None:
    """Show one turn's story, or the latest again."""
    st.session_state[_STORY] = None if turn is None else (session_id, turn)


def seen_flushes(session_id: str, otherwise: int) -> int:
    """How many of a session's flushes this tab has shown."""
    seen: tuple[str, int] | None = st.session_state.get(_FLUSHES)
    return seen[1] if seen and seen[0] == session_id else otherwise


def saw_flushes(session_id: str, flushes: int) -> None:
    st.session_state[_FLUSHES] = (session_id, flushes)


def open_dialog() -> None:
    """Remember that this run draws a dialog."""
    st.session_state[_DIALOG] = True


def dialog_open() -> bool:
    """Has this run drawn a dialog?"""
    return bool(st.session_state.get(_DIALOG))


def begin_run() -> None:
    """Nothing is open yet. Said by app.py on every run."""
    st.session_state[_DIALOG] = False


def has_graph() -> bool:
    """Is there a graph in the selected session? As it was when this tab looked last."""
    return bool(st.session_state.get(_GRAPH))


def saw_graph(there: bool) -> None:
    st.session_state[_GRAPH] = there


def visit(page: str) -> None:
    """Remember that this tab has shown a page, by its address."""
    st.session_state[_VISITED] = st.session_state.get(_VISITED, frozenset()) | {page}


def visited(page: str) -> bool:
    """Has this tab shown that page?"""
    return page in st.session_state.get(_VISITED, ())


def earlier_messages() -> int:
    """How many more messages than usual are drawn."""
    return int(st.session_state.get(_EARLIER, 0))


def show_earlier(more: int) -> None:
    st.session_state[_EARLIER] = more


def selected_session() -> str | None:
    """The id in the session picker."""
    value: str | None = st.session_state.get(SESSION)
    return value


def selected_turn() -> int | None:
    """The turn in the header's picker; None for the latest."""
    value: int | None = st.session_state.get(TURN)
    return value


def show_turn(turn: int | None) -> None:
    """Look at one turn on every page, or at the latest again. For callbacks, before the picker is drawn."""
    st.session_state[TURN] = turn


def select_session(session_id: str | None) -> None:
    """Choose another session. For callbacks, before the picker is drawn."""
    st.session_state[SESSION] = session_id
    show_turn(None)
    show_story("", None)
    show_earlier(0)
