"""The frame around every page: the header with its turn picker, and one way to open what a page draws.

One clock drives all pages: the turn in the header. A page of the past shows that turn and changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import streamlit as st

from memory_core import ConfigError, Memory, MemoryInspectorError, NotFoundError, Services, Status, StoreError
from memory_core.analysis.history import History
from memory_core.store.blocks import uses_graph
from ui import live, nav, state
from ui.components import empty
from ui.demo import DEMO_SESSION, being_made
from ui.jobs import Job
from ui.model import chosen_model, services_for
from ui.services import engine
from ui.sessions.dialogs import branch_dialog
from ui.settings import settings_dialog
from ui.text import plain, tokens

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

SKELETON_PIXELS = 398

_WITHOUT_CLOCK = ("sessions",)
"""Pages that show no single session at a single turn."""

_WRITTEN = "_written_turn"
_UNKNOWN = "_unknown_turn"
_LONGEST_NUMBER = 10
"""Digits of a turn's number in an address."""


@dataclass(frozen=True)
class View:
    """One session at one turn, as a page shows it."""

    memory: Memory
    """Opened with the services of the chosen model."""
    status: Status
    """As it is now."""
    turn: int | None
    """The turn that was picked, if it is not the latest."""
    running: Job | None
    """What runs for this session in this process."""

    @cached_property
    def history(self) -> History:
        """The session's log folded by turn; read when it is first asked for."""
        return self.memory.history()

    @property
    def past(self) -> bool:
        """Is this an earlier turn? Then nothing can be changed."""
        return self.turn is not None

    @property
    def shown_turn(self) -> int:
        """The picked turn or the latest; 0 when nothing was said yet."""
        return self.turn if self.turn is not None else self.status.turns

    @property
    def position(self) -> int:
        """Of the log: what happened up to the end of the shown turn is at or below it."""
        return self.history.position if self.turn is None else self.history.position_at(self.turn)


def draw_header(page: "Page") -> None:
    """Title, turn picker and settings, a banner in the past, and what is to be said once."""
    session_id = state.selected_session()
    _check_menu(session_id)
    state.visit(page.url_path)
    clock = page.url_path not in _WITHOUT_CLOCK
    latest = _latest_turn(session_id) if clock and session_id else 0
    _check_turn(latest)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="frame__header"
    ):
        st.title(page.title, width="content")
        if clock and session_id:
            _controls(session_id, latest)
    _write_link()
    turn = state.selected_turn()
    if clock and session_id and turn is not None and turn < latest:
        _banner(session_id, turn, latest)
    with st.container():  # there in any case, so that what follows keeps its place
        if notice := state.take_notice():
            {"error": st.error, "warning": st.warning, "info": st.info}[notice.kind](plain(notice.text))


def _check_menu(session_id: str | None) -> None:
    """Begin again where the menu, drawn before the session was known, lacks the Graph page or shows it in vain."""
    try:
        with engine().database.read() as connection:
            there = session_id is not None and uses_graph(connection, session_id)
    except MemoryInspectorError:  # the page says what is wrong
        return
    if there != state.has_graph():
        state.saw_graph(there)
        st.rerun()


def page(draw: Callable[[View], None], *, follows: bool = False) -> None:
    """Open the selected session and draw its page; what is wrong is said in one sentence.

    With `follows`, the page is drawn anew when another process writes to the session; not while a dialog is open,
    which that would close, with the words typed in it.
    """
    try:
        session_id = state.selected_session()
        preparing = being_made(engine())
        if session_id == DEMO_SESSION and preparing is not None:
            _draw_preparing(preparing)
        elif session_id is None:
            empty("No session yet.", "Start a new one in the sidebar, or import a conversation.")
        else:
            view = opened(session_id)
            draw(view)
            if follows and not view.past and not state.dialog_open():
                live.follow(session_id, view.status.position)
    except NotFoundError:
        st.warning("This session was deleted elsewhere.")
        nav.link("sessions", "All sessions")
    except StoreError as error:
        st.error(f"{plain(str(error))} Messages you already sent are safe. Check that it runs, then reload.")
    except MemoryInspectorError as error:
        st.error(plain(str(error)))


def opened(session_id: str) -> View:
    """What pages show of a session.

    Raises:
        NotFoundError: it was deleted.
        StoreError: the database cannot be reached.
    """
    shared = engine()
    memory = shared.open(session_id, _services())
    status = memory.status()
    turn = state.selected_turn()
    return View(
        memory=memory,
        status=status,
        turn=turn if turn is not None and turn < status.turns else None,
        running=shared.running(session_id),
    )


def _services() -> Services:
    """Those of the chosen model; without one when its address is wrong, which the sidebar says."""
    try:
        return services_for(chosen_model())
    except ConfigError:
        return engine().services


def _latest_turn(session_id: str) -> int:
    try:
        return engine().open(session_id).status().turns
    except MemoryInspectorError:  # the page says what is wrong
        return 0


def _controls(session_id: str, latest: int) -> None:
    turn = state.selected_turn()
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", width="content", key="frame__controls"
    ):
        if latest:
            before, after = _neighbours(turn, latest)
            st.button(
                ":material/chevron_left:",
                key="frame__before",
                type="tertiary",
                help="One turn back",
                disabled=before is None,
                on_click=state.show_turn,
                args=(before,),
            )
            st.selectbox(
                "Turn",
                range(1, latest + 1),
                index=None,
                key=state.TURN,
                placeholder=f"Latest turn: {tokens(latest)}",
                format_func=lambda number: f"Turn {tokens(number)}",
                label_visibility="collapsed",
                width=176,
            )
            st.button(
                ":material/chevron_right:",
                key="frame__after",
                type="tertiary",
                help="One turn on",
                disabled=turn is None or turn >= latest,
                on_click=state.show_turn,
                args=(after,),
            )
        past = turn is not None and turn < latest
        if st.button("Settings", icon=":material/tune:", type="tertiary", key="frame__settings", disabled=past):
            settings_dialog(session_id)


def _neighbours(turn: int | None, latest: int) -> tuple[int | None, int | None]:
    """The turn before the shown one, if there is one, and the one after it; None for the latest."""
    shown = turn if turn is not None else latest
    return (shown - 1 if shown > 1 else None), (shown + 1 if shown + 1 < latest else None)


def _banner(session_id: str, turn: int, latest: int) -> None:
    with (
        st.container(border=True, key="frame__past"),
        st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"),
    ):
        st.markdown(
            f":material/history: You are looking at **turn {tokens(turn)}** of {tokens(latest)}. "
            "Nothing can be changed here.",
            width="content",
        )
        with st.container(horizontal=True, width="content", gap="small"):
            st.button("Back to latest", key="frame__latest", on_click=state.show_turn, args=(None,))
            if st.button("Branch from here", icon=":material/call_split:", key="frame__branch"):
                branch_dialog(session_id, turn)


def take_link() -> None:
    """Take over the turn that the address asks for, when it was not this app that wrote it there.

    Comes before anything else writes to the address. The menu drops what an address carries; the pages' own
    links name the session, and then the turn with it.
    """
    state.begin_run()
    asked = st.query_params.get(state.TURN)
    if state.SESSION not in st.query_params or asked == st.session_state.get(_WRITTEN):
        return
    known = asked is not None and asked.isdecimal() and len(asked) < _LONGEST_NUMBER
    state.show_turn(int(asked) if asked and known else None)
    st.session_state[_UNKNOWN] = None if known else asked


def _check_turn(latest: int) -> None:
    """Show the latest turn, and say so, where the one that was asked for is not in the session."""
    turn, missing = state.selected_turn(), st.session_state.pop(_UNKNOWN, None)
    if turn is not None and not 1 <= turn <= latest:
        missing = str(turn)
        state.show_turn(None)
    if missing and latest:
        shown = tokens(latest)
        state.say("warning", f"Turn {missing[:12]} is not in this session. Showing the latest, turn {shown}.")


def _write_link() -> None:
    """Put the turn in the address, so that the page can be reloaded and linked to; none for the latest."""
    turn = state.selected_turn()
    if turn is None:
        st.query_params.pop(state.TURN, None)
        st.session_state[_WRITTEN] = None
    else:
        st.query_params[state.TURN] = st.session_state[_WRITTEN] = str(turn)


def _draw_preparing(job: Job) -> None:
    """The page's frame while the demo is being made."""
    left, right = st.columns([0.58, 0.42], gap="medium")
    left.skeleton(SKELETON_PIXELS)
    right.skeleton(SKELETON_PIXELS)
    st.markdown(":shimmer[Preparing the demo conversation]")
    for _ in job.follow():
        st.session_state.get(state.SESSION)  # a place where this run can be stopped
    if job.error is not None:
        state.say("error", job.error)
    st.rerun()
