"""The Sessions page: the list of conversations, and the health of the system."""

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import streamlit as st

from memory_core import StoreError, delete_session, list_sessions
from memory_core.access import acting_person
from memory_core.events import SessionBranched, SessionImported, SessionRenamed, SessionReset
from memory_core.sessions.forgetting import outliving_users
from memory_core.sessions.overview import Overview, overview
from memory_inspector.reading.write_access import left_to_agent
from memory_inspector.recorder.attaching import refused_spans
from memory_inspector.server.shipped_demo import DEMO_SESSION
from memory_inspector.upkeep.health import Health
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts.components import filled_rows, heading, unseen_heading
from ui.parts.forgetting import draw_user_button
from ui.parts.listing import pick_row
from ui.parts.saved_page import page_dialog
from ui.sessions import session_dialogs
from ui.sessions.connect import CONNECT, draw_card, draw_live_links, live_sessions
from ui.sessions.health import LABELS, draw_health, latest
from ui.sessions.session_files import export_dialog, import_dialog
from ui.sessions.session_rows import (
    EVERYONE,
    NOBODY,
    ORDERS,
    lost_words,
    named,
    of_user,
    origin_in_words,
    rows,
    sorted_sessions,
    source_of,
    totals,
    users,
)
from ui.tab import drawing, nav, state
from ui.tab.people import allowed
from ui.tab.services import engine

FEW = 8
"""Number of sessions that are seen at a glance, without a search or an order."""

ANYWHERE = "anywhere"

LOST = (
    "Now: left out of the latest prompt, deliveries given up, and messages that left the queue where no block takes "
    "them. What blocks made of the others is on the session's own pages."
)

MAX_REFUSED = 5
"""Maximum reasons shown for which agents' spans were refused."""

BESIDE_PIXELS, MIN_PIXELS = 480, 240
"""Pixels around the table, and its minimum height in a low window."""

_PICKED = "sessions__picked"


def draw() -> None:
    """Draw the list of sessions with their actions, and the health of the dependencies."""
    # If it is still None after an error, there is no engine whose health could be checked.
    shared = None
    try:
        shared = engine()
        # Read before the list: a change in between then counts as news, and triggers a redraw.
        seen, agents = _news(), live_sessions(shared.database)
        sessions, outliving = overview(shared.database), outliving_users(shared.database)
    except StoreError as error:
        st.error(f"{plain(str(error))} Messages you already sent are safe. Check that it runs, then reload.")
        if shared is not None:
            draw_health(follow=True)
        return
    st.markdown(_sentence(sessions, latest()))
    _draw_refused()
    draw_live_links(
        {session.status.session_id: named(session) for session in sessions if session.status.session_id in agents}
    )
    dialog_open = _begin()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="sessions__filters"):
        words = ""
        if len(sessions) > FEW:
            words = st.text_input(
                "Find",
                key="sessions__find",
                placeholder="Find a session",
                icon=":material/search:",
                label_visibility="collapsed",
                width=200,
                persist_state="session",
            )
        user = _filter(sessions, outliving)
        shown = _narrowed(of_user(sessions, user), words)
    if user not in (EVERYONE, NOBODY):
        dialog_open = draw_user_button(user) or dialog_open
    picked = _picked(sessions)
    if shown or not sessions:
        _table(shown, picked, agents)
    else:
        st.markdown(":gray[No session matches.]")
    if picked is not None:
        dialog_open = _selected(picked, sessions) or dialog_open
        _connect(picked.status.session_id, folded=len(sessions) > 1)
    else:
        st.markdown(":gray[Select a session to open, rename, branch, export or delete it.]")
    st.space("small")
    # A redraw would close the dialog, and lose what is typed in it.
    draw_health(follow=not dialog_open)
    if not dialog_open and not state.dialog_open():
        drawing.follow(_news, seen)


def _draw_refused() -> None:
    """Say what agents sent and could not be recorded, as their own programs do not."""
    refused = refused_spans.of(tenant := _tenant())
    if not refused:
        return
    lines = [f"- {plain(one.sender)}, {count(one.requests, 'request')}: {plain(one.reason)}" for one in refused]
    with st.container(horizontal=True):
        st.warning("Not recorded of what agents sent:\n\n" + "\n".join(lines[:MAX_REFUSED]))
        st.button("Dismiss", on_click=refused_spans.forget, args=(tenant,), key="sessions__refused")


def _tenant() -> str:
    person = acting_person()
    return person.tenant if person is not None else ""


def _news() -> object:
    """Values on which the list depends, except health: a difference triggers a redraw."""
    database = engine().database
    listed = [(status.session_id, status.title, status.updated_at) for status in list_sessions(database)]
    refused = [(one.reason, one.requests) for one in refused_spans.of(_tenant())]
    return listed, live_sessions(database), outliving_users(database), refused


def _connect(session_id: str, *, folded: bool) -> None:
    """Draw how to connect an agent; folded once there is more than the demo."""
    opened = st.expander(CONNECT, not folded, key="sessions__connect", icon=":material/cable:", on_change="rerun")
    if opened.open:
        with opened:
            draw_card(session_id, framed=False)


def _sentence(sessions: Sequence[Overview], health: Health | None) -> str:
    counted = count(len(sessions), "session")
    if health is None:
        return counted
    if not health.problems:
        return f"{counted} · all systems OK"
    return f"{counted} · not working: {', '.join(LABELS[check.part].lower() for check in health.problems)}"


def _begin() -> bool:
    """Draw the buttons that create a session; return whether a dialog was opened."""
    with st.container(horizontal=True, width="content"):
        imports = st.button(
            "Import a conversation",
            type="primary",
            icon=":material/upload_file:",
            key="sessions__import",
            **allowed(SessionImported),
        )
        new = st.button("New", icon=":material/add:", key="sessions__new", **allowed())
    if imports:
        import_dialog()
    elif new:
        session_dialogs.new_dialog()
    return imports or new


def _filter(sessions: Sequence[Overview], outliving: Sequence[str]) -> str:
    """Draw the user filter; return the chosen user. `outliving`: users whose facts are left, but no session."""
    names = sorted([*users(sessions), *outliving])
    if not names:
        return EVERYONE
    # "nobody" is offered only where it would find something.
    options = [EVERYONE, *names, *([NOBODY] if any(session.status.user_id is None for session in sessions) else [])]
    user = _choice("User", options, lambda user: _user(user) + (" (only facts)" if user in outliving else ""))
    return user or EVERYONE


def _choice(label: str, options: Sequence[str], says: Callable[[str], str] = str) -> str:
    """Draw a choice whose options say what they choose, the first one at first."""
    chosen = st.selectbox(
        label,
        options,
        format_func=says,
        key=f"sessions__{label.lower()}",
        label_visibility="collapsed",
        width=158,
        # Kept when another page is drawn, where Streamlit would forget the widget.
        persist_state="session",
    )
    return chosen or options[0]


def _narrowed(sessions: Sequence[Overview], words: str) -> list[Overview]:
    """Draw the other filters, each where it would find something and leave something out, and the order of many."""
    sources = sorted({source_of(session) for session in sessions})
    source = _choice("From", [ANYWHERE, *sources], "From {}".format) if len(sources) > 1 else ANYWHERE
    by = _choice("Sort", list(ORDERS), "By {}".format) if len(sessions) > FEW else next(iter(ORDERS))
    losing, lost_only = sum(bool(lost_words(session)) for session in sessions), False
    if 0 < losing < len(sessions):
        lost_only = st.toggle(f"Lost something ({tokens(losing)})", key="sessions__lost", help=LOST)
    return sorted_sessions(sessions, words, None if source == ANYWHERE else source, lost_only=lost_only, by=by)


def _user(user: str) -> str:
    return {EVERYONE: "All users", NOBODY: "No user"}.get(user) or short(user)


def _table(shown: Sequence[Overview], picked: Overview | None, agents: Collection[str]) -> None:
    ids = [session.status.session_id for session in shown]
    number: Callable[..., Any] = partial(st.column_config.NumberColumn, format="localized", width="small")
    unseen_heading("List of sessions")
    pick_row(
        rows(shown, time.time(), agents=agents),
        ids,
        "sessions__table",
        _pick,
        picked=picked.status.session_id if picked else None,
        slot=filled_rows("sessions__rows", len(ids), minus=BESIDE_PIXELS, least=MIN_PIXELS),
        height="stretch",
        placeholder="–",
        column_config={
            "Session": st.column_config.TextColumn(width="medium"),
            "Lost": st.column_config.TextColumn(width="medium", help=LOST),
            "Errors": number(help="Failed calls, replies and deliveries, each try, and blocks that could not be read"),
            "Cost": number(format="$%.4f", help="As recorded, or by list price. Calls without a price are not in it"),
            "Turns": number(),
            "All tokens": number(help="All messages, also those that left the queue; a prompt has its own size"),
            "Flushes": number(),
            "Facts": number(help="Active facts, with those that belong to its user"),
        },
        alt=f"List of {count(len(ids), 'session')}",
    )


def _pick(chosen: str | None) -> None:
    # Stored with the session open at the click, to notice when another one is opened later.
    st.session_state[_PICKED] = (state.selected_session(), chosen)


def _picked(sessions: Sequence[Overview]) -> Overview | None:
    """The session whose row is selected; initially, and after another one was opened, the open session."""
    by_id = {session.status.session_id: session for session in sessions}
    open_one = state.selected_session()
    while_open, chosen = st.session_state.get(_PICKED, (open_one, open_one))
    # Another session was opened since the row was clicked: that one is meant from now on.
    if while_open != open_one:
        chosen = open_one
    if chosen is not None and chosen not in by_id:
        st.warning("This session was deleted elsewhere.")
        st.session_state.pop(_PICKED, None)
        chosen = open_one
    return by_id.get(chosen) if chosen is not None else None


def _selected(picked: Overview, sessions: Sequence[Overview]) -> bool:
    """Draw the selected session's contents and actions; return whether a dialog was opened."""
    session_id = picked.status.session_id
    titles = {session.status.session_id: named(session) for session in sessions}
    about = " ".join(filter(None, [totals(picked), origin_in_words(picked, titles)]))
    heading(plain(short(named(picked), 60)), f"\n:small[:gray[{plain(about)}]]")
    # An agent that is running would go on writing into a session that was deleted or reset under it.
    waiting = left_to_agent(engine().database, session_id)
    why = waiting.sentence if waiting is not None else None
    unless_waiting: dict[str, Any] = {"disabled": waiting is not None, "help": why}
    # The demo is there for every visitor, so it is never deleted.
    last = ("Delete", "delete", session_dialogs.delete_dialog, allowed(delete_session, **unless_waiting))
    if session_id == DEMO_SESSION:
        last = ("Reset demo", "restart_alt", session_dialogs.reset_dialog, allowed(SessionReset, **unless_waiting))
    unspoken = picked.status.turns == 0
    actions: list[tuple[str, str, Callable[[str], None], dict[str, Any]]] = [
        ("Rename", "edit", session_dialogs.rename_dialog, allowed(SessionRenamed)),
        ("Branch…", "call_split", session_dialogs.branch_dialog, allowed(SessionBranched, disabled=unspoken)),
        ("Export", "download", export_dialog, {}),
        ("Save as page", "ios_share", page_dialog, {"disabled": unspoken}),
        last,
    ]
    with st.container(horizontal=True, gap="small", key="sessions__actions"):
        opens = st.button(
            "Open",
            icon=":material/forum:",
            key="sessions__open",
            on_click=state.select_session,
            args=(session_id,),
            help="Show this session on every page",
        )
        pressed = [
            dialog
            for says, icon, dialog, options in actions
            if st.button(
                says,
                icon=f":material/{icon}:",
                key=f"sessions__{dialog.__name__.removesuffix('_dialog')}",
                **options,
            )
        ]
    if opens:
        nav.go("chat")
    for dialog in pressed:
        dialog(session_id)
    return bool(pressed)
