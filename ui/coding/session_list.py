"""The list of coding agents' sessions, and what projects took by day."""

from collections.abc import Sequence
from functools import partial
from time import time
from typing import Any

import streamlit as st

from memory_inspector.coding.listing import PROGRAM_NAMES, SessionOverview, stem_of
from memory_inspector.coding.project import by_project_and_day
from memory_inspector.coding.transcript import quotable
from memory_inspector.server.coding_sessions import coding_sessions
from memory_inspector.wording.coding_text import COST
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from ui.parts.components import choose_view, empty, filled_rows, heading, unseen_heading
from ui.parts.listing import pick_row
from ui.tab import appearance, live, nav, state

MAX_LOSSES = 200
"""Statements of a project that are listed."""

VIEWS = {"sessions": "Sessions", "projects": "Projects"}

BESIDE_PIXELS, MIN_PIXELS = 300, 260


def draw() -> None:
    """Draw the list; it is redrawn as sessions are written to."""
    overviews, problems = coding_sessions().look()
    for problem in problems:
        st.warning(plain(problem))
    if not overviews:
        empty(
            "No sessions found.",
            f"Looked for are those of {PROGRAM_NAMES}, in the folders where these write them. Others: see "
            "memory-inspector code --help.",
        )
    elif choose_view(VIEWS, "code__list") == "sessions":
        _table(overviews)
    else:
        _projects(overviews)
    if not state.dialog_open():
        live.follow(_news, _state_of(overviews))


def _news() -> object:
    return _state_of(coding_sessions().look()[0])


def _state_of(overviews: Sequence[SessionOverview]) -> object:
    now = time()
    return [(one.id, one.size, one.read, one.is_live(now)) for one in overviews]


def _table(overviews: Sequence[SessionOverview]) -> None:
    # A large home is counted over several looks, newest first.
    unread = sum(not one.read for one in overviews)
    compactions = sum(one.compactions for one in overviews)
    counted = f"{count(len(overviews), 'session')} · {count(compactions, 'compaction')}"
    st.markdown(counted + (f" · {tokens(unread)} still to be counted" if unread else ""))
    number = partial(st.column_config.NumberColumn, width="small")
    unseen_heading("List of coding agents' sessions")
    pick_row(
        [_row(one) for one in overviews],
        [one.id for one in overviews],
        "code__sessions",
        partial(state.write_address, nav.CODE),
        slot=filled_rows("code__rows", len(overviews), minus=BESIDE_PIXELS, least=MIN_PIXELS),
        height="stretch",
        placeholder="–",
        column_config={
            "Session": st.column_config.TextColumn(width="medium", help="Its title, or what the user said first"),
            "Compactions": number(),
            "Tokens": number(format="localized", help="Sent and written in all calls, subagents included"),
            "Cost": number(format="$%.2f", help=COST),
            "Calls": number(format="localized", help="Without those of subagents, if they have files of their own"),
            "Written": st.column_config.TextColumn(width="small"),
        },
        alt=f"{count(len(overviews), 'session')} of coding agents, newest first",
    )
    st.markdown(":gray[Select a session to open it. Nothing is ever written to these files.]")


def _row(one: SessionOverview) -> dict[str, Any]:
    now = time()
    return {
        "Session": one.title or stem_of(one.path),
        "Project": one.project,
        "Compactions": one.compactions,
        # A part of the tokens would look like all of them.
        "Tokens": one.tokens if one.read else None,
        "Cost": one.cost,
        "Calls": one.calls,
        "Written": "live" if one.is_live(now) else ago(one.changed, now, appearance.zone()),
        "Program": one.problem or one.program,
    }


def _projects(overviews: Sequence[SessionOverview]) -> None:
    """Draw what projects took by day, and what was lost most often in one of them."""
    rows = by_project_and_day(overviews)
    st.dataframe(
        [
            {
                "Day": row.day,
                "Project": row.project,
                "Sessions": row.sessions,
                "Compactions": row.compactions,
                "Tokens": row.tokens,
                "Cost": row.dollars if not row.without_price else None,
            }
            for row in rows
        ],
        hide_index=True,
        key="code__days",
        placeholder="–",
        column_config={
            "Tokens": st.column_config.NumberColumn(format="localized"),
            "Cost": st.column_config.NumberColumn(format="$%.2f", help=COST),
        },
        alt="Projects by day, newest first",
    )
    # By folder: two projects may have the same name.
    names = list(dict.fromkeys(row.folder for row in rows))
    folder = st.selectbox("Project", names, key="code__project", format_func=lambda name: short(name, 80))
    _losses([one for one in overviews if folder == (one.folder or str(one.path.parent))])


def _losses(overviews: Sequence[SessionOverview]) -> None:
    with st.spinner("Comparing statements with summaries …"):
        rows, notes = coding_sessions().losses(overviews)
    heading("Lost most often", "\n:small[:gray[What the user said before compactions]]", level=3)
    for note in notes:
        st.warning(plain(note))
    if not rows:
        st.markdown(":gray[Nothing the user said crossed a compaction.]")
        return
    st.dataframe(
        [
            {
                "Statement": quotable(row.text, 200),
                "Rule": "rule" if row.is_rule else "",
                "Compactions": row.fates.total(),
                "Lost": row.lost,
                "Said again": row.fates["said_again"],
                "Read again": row.fates["read_again"],
                "Calls until back": row.median_until_back,
            }
            for row in rows[:MAX_LOSSES]
        ],
        hide_index=True,
        key="code__losses",
        placeholder="–",
        column_config={"Statement": st.column_config.TextColumn(width="large")},
        alt="Statements of the user, those that summaries lacked most often first",
    )
