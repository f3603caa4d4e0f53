"""Search state of this tab for a session's stored turns: the question, the trial settings, the selected row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from memory_core import Memory, MessageRole, StoredMessage
from memory_core.messages import message_text
from memory_core.retrieval.explain import Search
from ui.tab import state

BOX = "retrieval__query"
"""Widget key of the question."""

QUERY = "query"
"""URL parameter that asks a question."""

MISSED = "retrieval__missed"
"""Widget key of the words that should have been found."""

FIND = "find"
"""URL parameter for sought words: `?query=Does Rui eat meat?&find=Rui stays off meat` opens with the stored turn that
contains them, the reason why the question did not find it, and what would change that."""

LONGEST_ADDRESS = 300
"""Maximum characters of a question, or of sought words, put in the URL; longer ones stay in the tab."""

_BOXED = "retrieval_boxed"
_QUERY_LINK, _FIND_LINK = state.PageLink("retrieval_linked", QUERY), state.PageLink("retrieval_find_linked", FIND)
_RESULTS = "retrieval_results"
_ELSEWHERE = "retrieval_elsewhere"
MAX_RESULTS = 6


@dataclass(frozen=True, slots=True)
class SearchPageState:
    """State of the page for one session, kept when the page is left."""

    query: str | None = None
    """The query that was searched; None: the latest user message."""
    sent: bool = False
    """True if the search button was pressed; if a search costs a call, none is made before."""
    block: str | None = None
    number: int | None = None
    """Number of the stored turn whose row or mark is selected."""
    place: tuple[int, int] | None = None
    """Turn and index of the recorded search shown; None: the last one of the shown turn."""
    tried: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that differ from the stored ones, by block."""


_ASKED = state.ByPlace("retrieval_asked", SearchPageState())
asked, ask = _ASKED.at, _ASKED.change
"""State of the search in a session, and its setter."""


def try_settings(session_id: str, block: str, changes: Mapping[str, Any]) -> None:
    """Replace the trial settings of a block."""
    ask(session_id, tried={**asked(session_id).tried, block: dict(changes)})


def take_link(session_id: str) -> None:
    """Put the question and the sought words of the URL in the fields, unless this page wrote them there itself."""
    (query,) = _QUERY_LINK.take()
    if query is not None:
        # Not sent: following a link must not cost a call.
        ask(session_id, query=query.strip() or None, sent=False, number=None)
    (find,) = _FIND_LINK.take()
    # Streamlit forgets the field while another page is drawn: the address brings its words back.
    if find is None and MISSED not in st.session_state:
        find = st.query_params.get(FIND)
    if find is not None:
        st.session_state[MISSED] = find.strip()[:LONGEST_ADDRESS]


def write_link(session_id: str) -> None:
    """Put the question and the sought words in the URL, so that the page can be reloaded and linked to."""
    query = asked(session_id).query
    find = str(st.session_state.get(MISSED) or "").strip() or None
    # Browsers and proxies cut long addresses, and half a question is another question.
    for link, words in ((_QUERY_LINK, query), (_FIND_LINK, find)):
        link.put(None if words is None or len(words) > LONGEST_ADDRESS else words)


def fill_box(session_id: str, query: str) -> None:
    """Put the question into the box, unless the user has typed into it since."""
    # Compared with what was put in last, so that words typed since survive a redraw.
    if BOX not in st.session_state or st.session_state.get(_BOXED) != (session_id, query):
        st.session_state[BOX] = query
        st.session_state[_BOXED] = (session_id, query)


def search_now(session_id: str) -> None:
    """Search for the content of the box. For callbacks."""
    ask(session_id, query=str(st.session_state.get(BOX, "")).strip() or None, sent=True, number=None)


def searched(memory: Memory, position: int, block: str, query: str, settings: Mapping[str, Any]) -> Search:
    """The search result, cached while nothing happens in the session."""
    # The position stands for all that could change the result in this session.
    key = (memory.session_id, position, block, query, tuple(sorted(settings.items())))
    results: dict[tuple[Any, ...], Search] = st.session_state.setdefault(_RESULTS, {})
    if key not in results:
        search = memory.retrieval.search(query, block=block, settings=settings)
        # Dicts keep their order: the first is the oldest.
        while len(results) >= MAX_RESULTS:
            del results[next(iter(results))]
        results[key] = search
    return results[key]


def said_elsewhere(memory: Memory, position: int, words: str) -> StoredMessage | None:
    """The newest message that contains each of these words, cached while nothing happens in the session."""
    key = (memory.session_id, position, words)
    last: tuple[Any, StoredMessage | None] = st.session_state.get(_ELSEWHERE, (None, None))
    if last[0] != key:
        wanted = words.casefold().split()
        holding = (
            stored
            # Newest first, and lazily: most words are found after a few messages.
            for stored in reversed(memory.session.messages())
            if stored.message.role is not MessageRole.SYSTEM
            and all(word in message_text(stored.message).casefold() for word in wanted)
        )
        last = st.session_state[_ELSEWHERE] = (key, next(holding, None))
    return last[1]
