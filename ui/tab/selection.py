"""The session, turn and step that a tab shows: one decision from its address, its picker and the existing sessions.

An address counts only where a person asked for it. The browser reports its address with every run, and reports an old
one until it has received the new one; a run that only follows new events may carry any of them.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from ui.tab import drawing, state

BEHIND_SECONDS = 1.5
"""Seconds after writing within which a new address may not have reached the browser."""

_LONGEST_NUMBER = 10
"""Number of digits from which on a number in an address is refused."""

_WRITTEN = "_written_link"
_UNKNOWN = "_unknown_turn"
_PAGE = "_page_before"
_PICKER = "_session_picker_number"

Cause = Literal["person", "history", "news"]
"""Reason for a run: a person's action, going back or forward in the browser, or new events of the session."""


@dataclass(frozen=True, slots=True)
class Link:
    """Session, turn and step as in an address; the turn is None for the latest, the step for the turn's end."""

    session: str | None = None
    turn: str | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The address that the app wrote last, and earlier ones that the browser may still report."""

    link: Link = Link()
    before: Mapping[Link, float] = field(default_factory=dict)
    """For each earlier address: the monotonic time, in seconds, until which it may be reported."""

    def then(self, link: Link, now: float) -> "Written":
        """Return the state after writing another address."""
        if link == self.link:
            return self
        # Addresses whose time is over are dropped here, so that the record stays small.
        before = {old: until for old, until in self.before.items() if until > now}
        return Written(link, {**before, self.link: now + BEHIND_SECONDS})

    def earlier(self, now: float) -> frozenset[Link]:
        """Return the earlier addresses that the browser may still report."""
        return frozenset(old for old, until in self.before.items() if now < until)


def decide(
    shown: Link | None,
    asked: Link,
    cause: Cause,
    *,
    written: Link,
    earlier: Collection[Link],
    existing: Sequence[str],
) -> Link:
    """Return what a tab shows in this run.

    `shown` is what it showed before, or what its picker or a button has just selected; None in its first run. `asked`
    is the browser's address, `written` the address the app wrote last, `earlier` those it wrote before. A session that
    does not exist is not shown: the one before stays, otherwise the first of `existing` is shown.
    """
    # 1. Usually a tab shows what it showed; the address only counts in its first run.
    wanted = shown or asked
    if shown is not None and asked.session is not None and asked != written:
        # 2. Later the address counts where a person went back or forward, or typed one. An address that the app
        # itself wrote, or that a click has overtaken, only reports the past.
        selected_now = shown != written  # so the browser's address is older
        if cause == "history" or (cause == "person" and not selected_now and asked not in earlier):
            wanted = asked
    # 3. A session can be deleted while it is shown, or be named by an old bookmark.
    if wanted.session in existing:
        return wanted
    if shown is not None and shown.session in existing:
        return shown
    return Link(next(iter(existing), None))


# -- the tab -----------------------------------------------------------------------------------------


def take(existing: Sequence[str]) -> None:
    """Select what this run shows. Must run before anything is drawn that depends on it."""
    shown = _shown() if state.SESSION in st.session_state else None
    written: Written = st.session_state.get(_WRITTEN, Written())
    asked = Link(*(st.query_params.get(name) for name in (state.SESSION, state.TURN, state.STEP)))
    now = time.monotonic()
    link = decide(shown, asked, _cause(), written=written.link, earlier=written.earlier(now), existing=existing)
    # The session that was shown and is gone; otherwise the one in the address, which may not exist.
    missing = shown.session if shown is not None and shown.session not in existing else asked.session
    if missing is not None and missing not in existing:
        state.say("warning", "This session was deleted elsewhere, or never existed. Showing another one.")
    # Also clears what belongs to the session that was shown before, such as its expanded messages.
    if shown is None or link.session != shown.session:
        state.select_session(link.session)
    if link == shown:
        return
    state.show_turn(_number(link.turn), _number(link.step))
    # Kept for the header, which reports a turn that is no number.
    st.session_state[_UNKNOWN] = None if _number(link.turn) is not None else link.turn
    if link == asked:
        st.session_state[_WRITTEN] = replace(written, link=link)  # the browser has it already


def write_link(page: str) -> None:
    """Put the selection in the address, so that the page can be reloaded and linked to."""
    if state.SESSION not in st.session_state:
        return  # the database could not be read: the address is still to be taken
    link = _shown()
    for name, value in ((state.SESSION, link.session), (state.TURN, link.turn), (state.STEP, link.step)):
        state.write_address(name, value)
    if st.session_state.get(_PAGE) == page and link.session is not None:
        # A link to the current page reaches the server but not the browser's address: write it again.
        st.query_params[state.SESSION] = link.session
    written: Written = st.session_state.get(_WRITTEN, Written())
    st.session_state[_WRITTEN] = written.then(link, time.monotonic())
    st.session_state[_PAGE] = page


def take_unknown_turn() -> str | None:
    """Return the turn in the address if it is no number; it is returned once."""
    unknown: str | None = st.session_state.pop(_UNKNOWN, None)
    return unknown


def draw_picker(titles: Mapping[str, str]) -> None:
    """Draw the session picker; `titles` by id, in the order of the list.

    If the session changes by other means, a new widget replaces it, as with the turn picker: the browser reports the
    value of every widget with every run, and its value must not depend on messages of a run that was interrupted.
    """
    # A key that ends in another number is another widget to Streamlit, and starts with `index`.
    number, shown, ids = st.session_state.get(_PICKER, 0), state.selected_session(), list(titles)
    if st.session_state.get(f"{state.SESSION}-{number}") != shown:
        st.session_state[_PICKER] = number = number + 1
    key = f"{state.SESSION}-{number}"
    with st.container(key=state.SESSION):
        st.selectbox(
            "Session",
            ids,
            index=ids.index(shown) if shown is not None and shown in titles else None,
            key=key,
            format_func=lambda id: titles.get(id, id),
            placeholder="No session yet",
            on_change=lambda: _pick(st.session_state[key]),
        )


def _pick(session_id: str | None) -> None:
    if session_id is not None and session_id != state.selected_session():
        state.select_session(session_id)


def _cause() -> Cause:
    context = get_script_run_ctx()
    if context is not None and context.is_history_navigation:
        return "history"
    return "news" if drawing.following() else "person"


def _shown() -> Link:
    turn, step = state.selected_turn(), state.selected_step()
    return Link(state.selected_session(), None if turn is None else str(turn), None if step is None else str(step))


def _number(asked: str | None) -> int | None:
    """Return the number in an address, if it is one."""
    # `isdecimal` refuses signs and blanks, which `int` would take.
    return int(asked) if asked is not None and asked.isdecimal() and len(asked) < _LONGEST_NUMBER else None
