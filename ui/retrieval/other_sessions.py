"""Search results in the user's other sessions, each with its session and a link."""

import streamlit as st

from memory_core import list_sessions
from memory_core.retrieval.explain import Elsewhere, Search
from memory_core.tracing.rule_words import SEARCH
from memory_inspector.wording.formatting import plain, session_name, short, tokens
from memory_inspector.wording.unit_names import stored
from ui.parts.components import heading, more_line
from ui.tab import nav, state
from ui.tab.services import engine

SHOWN = 8
WORDS_SHOWN = 220


def also(search: Search) -> str:
    """Return the headline's part about results from other sessions; empty if there are none."""
    return f" **{tokens(len(search.elsewhere))} from other sessions.**" if search.elsewhere else ""


def draw_elsewhere(search: Search, unit: str) -> None:
    """Draw the best results from other sessions; nothing if there are none."""
    units = search.elsewhere
    if not units:
        return
    sent = sum(other.outcome == "granted" for other in units)
    heading("From other sessions", f" :small[:gray[{tokens(sent)} of {stored(len(units), unit)} in the prompt]]")
    # What was found is kept in the prompt by its text: the session it came from may be gone.
    titles = {other.session_id: other.title for other in list_sessions(engine().database)}
    with st.container(gap="xsmall", key="retrieval__elsewhere"):
        for other in units[:SHOWN]:
            _draw(other, titles)
    more_line(len(units) - SHOWN)


def _draw(unit: Elsewhere, titles: dict[str, str]) -> None:
    st.markdown(plain(short(" ".join(unit.words.split()), WORDS_SHOWN) or "(erased)"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        turn = f"Turn {tokens(unit.turn)}"
        if unit.session_id in titles:
            title = session_name(titles[unit.session_id], unit.session_id)
            label = f":small[{turn} of {plain(short(title, 40))}]"
            nav.link("chat", label, icon="", turn=unit.turn, **{state.SESSION: unit.session_id})
        else:
            st.markdown(f":small[:gray[{turn} of a session that has been deleted since]]", width="content")
        st.markdown(f":small[:gray[score {unit.score:.2f} · {plain(SEARCH[unit.outcome].label())}]]", width="content")
