"""The Go to dialog: finds pages, sessions, turns, facts, blocks, messages and events by words."""

from collections.abc import Iterator, Mapping

import streamlit as st

from memory_core import Database, Memory, list_sessions
from memory_core.messages import message_text
from memory_inspector.reading.event_rows import remembered
from memory_inspector.reading.navigation_targets import MAX_OF_A_KIND, Kind, PageTarget, around, find, turn_asked
from memory_inspector.wording.formatting import plain, session_name, tokens
from ui.parts.components import dialog
from ui.tab import nav, state
from ui.tab.services import engine

MIN_LETTERS = 3
"""Minimum number of characters for which messages and events are searched."""

ICONS: Mapping[Kind, str] = {
    "Turn": "history",
    "Page": "web_asset",
    "Session": "folder_open",
    "Block": "view_agenda",
    "Fact": "fact_check",
    "Message": "forum",
    "Event": "timeline",
    "Trace": "route",
}

_WORDS = "goto__words"


def draw_goto_button() -> None:
    """Draw the button that opens the dialog, with its shortcut."""
    if st.button(
        "Go to",
        key="goto__open",
        icon=":material/search:",
        shortcut="Ctrl+K",
        width="stretch",
        help="Pages, sessions, turns, facts, blocks, messages and events",
    ):
        open_goto()


def open_goto() -> None:
    """Open the dialog, empty."""
    st.session_state[_WORDS] = ""
    goto_dialog()


@dialog("Go to", "search", width="medium", on_dismiss="ignore")
def goto_dialog() -> None:
    """Draw one field and its matches; every line is a link."""
    words = st.text_input(
        "Go to",
        key=_WORDS,
        live="200ms",
        placeholder="A page, a session, turn 12, or words of a fact, a block, a message, an event",
        label_visibility="collapsed",
        icon=":material/search:",
    )
    session_id = state.selected_session()
    matches = places(engine().open(session_id) if session_id else None, engine().database, words)
    with st.container(key="goto__found", gap=None):
        for target in matches:
            _line(target, words)
        # Following the words is always offered, so it does not count as a match.
        if words.strip() and all(target.kind == "Trace" for target in matches):
            st.markdown(":gray[No page, session or block has this name, and nothing in this session contains it.]")
    st.markdown(":small[:gray[↑ ↓ to choose, Enter to go, Ctrl+Enter to open it in a new tab. ? lists all keys.]]")


def places(memory: Memory | None, database: Database, words: str) -> list[PageTarget]:
    """Targets that match the words, in all sessions and inside the open one; the pages if there are no words."""
    if not words.strip():
        return _pages()
    return [*_turn(memory, words), *find(_everything(memory, database, words), words), *_trace(memory, words)]


def _pages() -> list[PageTarget]:
    pages = [page for group in nav.MENU.values() for page in group if page != "graph" or state.has_graph()]
    return [PageTarget("Page", nav.title(page), page) for page in (*pages, "sessions")]


def _trace(memory: Memory | None, words: str) -> Iterator[PageTarget]:
    """Yield the target that opens the trace of the words, whether or not they occur in the session."""
    if memory is not None and len(words.strip()) >= MIN_LETTERS and turn_asked(words) is None:
        yield PageTarget("Trace", f"Where did it go? “{words.strip()}”", "trace", query=nav.followed(words.strip()))


def _turn(memory: Memory | None, words: str) -> Iterator[PageTarget]:
    number = turn_asked(words)
    if memory is not None and number is not None and 1 <= number <= (latest := memory.session.status().turns):
        # Links to the latest turn carry no number, so that they follow new turns.
        shown = None if number == latest else number
        yield PageTarget("Turn", f"Turn {tokens(number)}: chat", "chat", shown)
        yield PageTarget("Turn", f"Turn {tokens(number)}: prompt", "context", shown)


def _everything(memory: Memory | None, database: Database, words: str) -> Iterator[PageTarget]:
    yield from _pages()
    for status in list_sessions(database):
        yield PageTarget("Session", session_name(status.title, status.session_id), "chat", session=status.session_id)
    if memory is None:
        return
    for attached in memory.blocks:
        yield PageTarget("Block", attached.name, "blocks")
    for attached in memory.blocks:
        if attached.kind == "facts":
            for fact in memory.facts.read(attached.name, states=None):
                yield PageTarget("Fact", fact.text, "facts", query={"fact": str(fact.id)})
    # With fewer letters nearly every message matches.
    if len(words.strip()) < MIN_LETTERS:
        return
    latest = memory.session.status().turns
    for stored in memory.session.messages():
        shown = None if stored.turn in (0, latest) else stored.turn
        yield PageTarget("Message", message_text(stored.message), "chat", shown)
    yield from _events(memory, words, latest)


def _events(memory: Memory, words: str, latest: int) -> Iterator[PageTarget]:
    """The newest events whose sentences contain the words, except added messages, which are targets themselves."""
    timeline, history = remembered(memory), memory.log.history()
    # Messages are offered themselves, so their events would repeat the same words.
    records = [record for record in history.after(0) if record.kind != "message_added"]
    # As many as are shown of a kind, the newest first.
    last = timeline.matching(records, words, memory)[: -MAX_OF_A_KIND - 1 : -1]
    for record, line in zip(last, timeline.lines(last, memory), strict=True):
        shown = None if record.turn in (0, latest) else record.turn
        yield PageTarget("Event", line.text, "timeline", shown, query={nav.EVENT: str(record.position)})


def _line(target: PageTarget, words: str) -> None:
    where = [target.kind.lower()] if target.kind not in ("Turn", "Trace") else []
    if target.turn is not None and target.kind != "Turn":
        where.append(f"turn {tokens(target.turn)}")
    beside = f"  :small[:gray[{' · '.join(where)}]]" if where else ""
    query = dict(target.query)
    if target.session is not None:
        query[state.SESSION] = target.session
    nav.link(
        target.page,
        plain(around(target.words, words)) + beside,
        icon=f":material/{ICONS[target.kind]}:",
        # Pages and traces keep the turn that is shown; all others lead to their own.
        turn=... if target.kind in ("Page", "Trace") else target.turn,
        **query,
    )
