"""Search results in the user's other sessions, each with its session and a link."""

import streamlit as st

from memory_core import list_sessions
from memory_core.retrieval.explain import Elsewhere, Search
from memory_inspector.reading.search_rows import THEN
from memory_inspector.wording.formatting import plain, session_name, short, tokens
from memory_inspector.wording.unit_names import stored
from ui.parts.components import heading
from ui.tab import nav, state
from ui.tab.services import engine

SHOWN = 8
WORDS_SHOWN = 220


def also(search: Search) -> str:
    """Return the headline's part about them; empty if none was found."""
    return f" **{tokens(len(search.elsewhere))} from other sessions.**" if search.elsewhere else ""


def draw_elsewhere(search: Search, unit: str) -> None:
    """Draw the best of them, below this session's own; nothing where none was found."""
    found = search.elsewhere
    if not found:
        return
    sent = sum(each.outcome == "granted" for each in found)
    heading("From other sessions", f" :small[:gray[{tokens(sent)} of {stored(len(found), unit)} in the prompt]]")
    titles = {each.session_id: each.title for each in list_sessions(engine().database)}
    with st.container(gap="xsmall", key="retrieval__elsewhere"):
        for each in found[:SHOWN]:
            _draw(each, titles)
    if len(found) > SHOWN:
        st.markdown(f":small[:gray[and {tokens(len(found) - SHOWN)} more]]")


def _draw(each: Elsewhere, titles: dict[str, str]) -> None:
    st.markdown(plain(short(" ".join(each.words.split()), WORDS_SHOWN) or "(erased)"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        turn = f"Turn {tokens(each.turn)}"
        if each.session_id in titles:
            title = session_name(titles[each.session_id], each.session_id)
            label = f":small[{turn} of {plain(short(title, 40))}]"
            nav.link("chat", label, icon="", turn=each.turn, **{state.SESSION: each.session_id})
        else:
            st.markdown(f":small[:gray[{turn} of a session that was deleted since]]", width="content")
        st.markdown(f":small[:gray[score {each.score:.2f} · {THEN[each.outcome]}]]", width="content")
