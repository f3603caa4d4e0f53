"""The page Coding agents: the list of sessions, or one of them in five views."""

from collections.abc import Callable
from time import time

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.text import listed
from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.listing import LIVE_SECONDS, PROGRAM_NAMES, stem_of
from memory_inspector.coding.prices import price_of
from memory_inspector.coding.transcript import quotable
from memory_inspector.server.coding_sessions import OpenSession, coding_sessions
from memory_inspector.wording.coding_text import COST
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from ui.coding import phrase_view, session_list
from ui.coding.keep_dialog import quoted
from ui.parts.components import choose_view, empty, heading
from ui.tab import appearance, live, nav, state

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
            session_list.draw()
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
    for name in (nav.CODE, phrase_view.WORDS, "view"):
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
        live.follow(opened.follow, seen)


def _view(name: str) -> Callable[[OpenSession, CodingSession, Branch], None]:
    """Return the function that draws a view. Each is loaded when it is shown: figures and git take half a second."""
    match name:
        case "prompts":
            from ui.coding.call_view import draw
        case "follow":
            draw = phrase_view.draw
        case "memory":
            from ui.coding.source_view import draw_memory_files as draw
        case "records":
            from ui.coding.source_view import draw_records as draw
        case _:
            from ui.coding.compaction_view import draw
    return draw


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
        st.badge(ago(written, time(), appearance.zone()), icon=":material/schedule:", color="gray")
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
