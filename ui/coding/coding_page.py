"""The page Coding agents: the list of sessions with what projects took by day, or one session in five views."""

from collections.abc import Callable, Sequence
from functools import partial
from time import time
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.text import listed
from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.listing import LIVE_SECONDS, PROGRAM_NAMES, SessionOverview, stem_of
from memory_inspector.coding.prices import price_of
from memory_inspector.coding.project import by_project_and_day
from memory_inspector.coding.transcript import quotable
from memory_inspector.server.coding_sessions import OpenSession, coding_sessions
from memory_inspector.wording.coding_text import COST
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from ui.coding.statement_views import WORDS, draw_compactions, draw_phrase, quoted
from ui.parts.components import choose_view, empty, filled_rows, heading, unseen_heading
from ui.parts.listing import pick_row
from ui.tab import drawing, nav, state

VIEWS = {
    "compactions": "Compactions",
    "prompts": "Prompts",
    "follow": "Follow a phrase",
    "memory": "Memory files",
    "records": "Records",
}

VIEW = "code__view"

_BEGUN = "code__begun"


def draw() -> None:
    """Draw the session that the address names, or the list of all."""
    if not nav.reads_coding_agents():
        empty(
            "Not shown here.",
            f"Run memory-inspector code on your own machine: it reads the sessions of {PROGRAM_NAMES} there.",
        )
        return
    try:
        id = st.query_params.get(nav.CODE) or _named_by_the_command()
        if id is None:
            _list()
            return
        opened = coding_sessions().open(id)
        if opened is None:
            st.warning("This session is not on this machine any more.")
            _back()
            return
        with opened.held() as session:
            _draw_session(opened, session)
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
        _back()


def _named_by_the_command() -> str | None:
    """Return the id of the session that was given to the command, for the first visit of a tab only."""
    if st.session_state.get(_BEGUN):
        return None
    st.session_state[_BEGUN] = True
    id = coding_sessions().first()
    state.write_address(nav.CODE, id)
    return id


def _back() -> None:
    st.button("Back to the list", icon=":material/arrow_back:", key="code__back", type="tertiary", on_click=_to_list)


def _to_list() -> None:
    # The view and the phrase belong to the session that is left.
    for name in (nav.CODE, WORDS, "view"):
        state.write_address(name, None)


def _draw_session(opened: OpenSession, session: CodingSession) -> None:
    # Before drawing: what is written meanwhile counts as news.
    seen = opened.revision
    branches = session.main.branches
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        _back()
        heading(quoted(opened.overview.title or stem_of(opened.overview.path), 80))
    _facts(opened, session)
    for gap in session.gaps:
        st.warning(plain(gap))
    if not branches:
        empty("Nothing was said yet.", "The file has no message so far. This page follows it.")
    else:
        branch = _branch(branches)
        _view(choose_view(VIEWS, VIEW))(opened, session, branch)
    # A redraw would close a dialog.
    if not state.dialog_open():
        drawing.follow(opened.follow, seen)


def _view(name: str) -> Callable[[OpenSession, CodingSession, Branch], None]:
    """Return the function that draws a view; figures and git, which take half a second, are loaded when shown."""
    if name in ("prompts", "memory", "records"):
        from ui.coding.source_views import draw_memory_files, draw_prompts, draw_records

        return {"prompts": draw_prompts, "memory": draw_memory_files, "records": draw_records}[name]
    return draw_phrase if name == "follow" else draw_compactions


def _facts(opened: OpenSession, session: CodingSession) -> None:
    """Draw what the session took, in one line of badges."""
    overview = opened.overview
    usage, cost = session.usage_and_cost()
    # Steps, not branches: two branches share the calls before their fork.
    calls = sum(step.usage is not None for step in session.main.steps.values())
    with st.container(horizontal=True, gap="xsmall", key="code__facts"):
        # The list, which looks at the files, is not looked at while a session is open.
        written = max(overview.changed, session.last_at)
        if time() - written < LIVE_SECONDS:
            st.badge("live", icon=":material/sensors:", color="green", help="Written to in the last two minutes")
        st.badge(overview.program, color="gray")
        st.badge(plain(short(overview.project)), icon=":material/folder:", color="gray", help=plain(overview.folder))
        st.badge(ago(written, time(), drawing.zone()), icon=":material/schedule:", color="gray")
        st.badge(count(calls, "call"), color="gray")
        total = sum(used.tokens for used in usage.values())
        st.badge(f"{tokens(total)} tokens", color="gray", help="Sent and written in all calls, subagents included")
        if cost is not None:
            st.badge(f"${cost:,.2f}", color="gray", help=COST)
        elif unknown := [model for model in usage if price_of(model) is None]:
            st.badge("cost unknown", color="gray", help=plain(f"Not in the file; no price known: {listed(unknown)}"))
        if session.lanes:
            st.badge(count(len(session.lanes), "subagent"), icon=":material/account_tree:", color="gray")
    if overview.copied:
        st.markdown(
            f":small[:gray[{tokens(overview.copied)} of these tokens stand in another session as well; the list counts "
            "them and their cost there.]]"
        )


def _branch(branches: list[Branch]) -> Branch:
    """Draw the choice between branches, where there are several."""
    # Most sessions have one, and nothing to choose.
    if len(branches) == 1:
        return branches[0]
    number = st.selectbox(
        "Branch",
        range(len(branches)),
        format_func=lambda n: f"{n + 1}: {count(len(branches[n].calls), 'call')}, {_ends(branches[n])}",
        key="code__branch",
        help="A rewind or an edited prompt begins another branch. The first was written to last.",
        width=420,
    )
    return branches[number or 0]


def _ends(branch: Branch) -> str:
    prompts = [item for step in branch.steps for item in step.items if item.kind == "user"]
    return f"ends with “{quotable(prompts[-1].text, 40)}”" if prompts else "nothing said by the user"


# -- the list of sessions -------------------------------------------------------------------------


MAX_LOSSES = 200
"""Statements of a project that are listed."""

LISTS = {"sessions": "Sessions", "projects": "Projects"}

BESIDE_PIXELS, MIN_PIXELS = 300, 260


def _list() -> None:
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
    elif choose_view(LISTS, "code__list") == "sessions":
        _table(overviews)
    else:
        _projects(overviews)
    if not state.dialog_open():
        drawing.follow(_news, _state_of(overviews))


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
        [_list_row(one) for one in overviews],
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


def _list_row(one: SessionOverview) -> dict[str, Any]:
    now = time()
    return {
        "Session": one.title or stem_of(one.path),
        "Project": one.project,
        "Compactions": one.compactions,
        # A part of the tokens would look like all of them.
        "Tokens": one.tokens if one.read else None,
        "Cost": one.cost,
        "Calls": one.calls,
        "Written": "live" if one.is_live(now) else ago(one.changed, now, drawing.zone()),
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
