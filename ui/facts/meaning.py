"""Facts similar in meaning to the search, with their scores."""

from zlib import crc32

import streamlit as st

from memory_core import MemoryInspectorError
from memory_inspector.reading.fact_rows import Picked, WantedFacts
from memory_inspector.wording.formatting import plain, short
from ui.facts import fact_tab
from ui.facts.fact_snapshot import FactSnapshot

HITS = 8

SHOWN_CHARACTERS = 120


def draw_meanings(desk: FactSnapshot, words: str) -> None:
    """Draw the results under the list; searches only when expanded."""
    if not words:
        return
    offline = desk.memory.session.services.embedder.offline
    says = "Nearest in meaning" if offline else "Nearest in meaning (one embedding call)"
    # The search is part of the key: another one starts folded, and costs no embedding call unasked.
    opened = st.expander(says, key=f"facts__meaning_{crc32(words.encode())}", on_change="rerun", type="compact")
    if not opened.open:
        return
    with opened:
        try:
            hits = desk.memory.facts.search(words, block=desk.block, top_k=HITS)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))
            return
        if not hits:
            st.markdown(":small[:gray[No active fact matches.]]")
        for hit in hits:
            st.button(
                f"{hit.score:.2f}\N{EN SPACE}{plain(short(hit.fact.text, SHOWN_CHARACTERS))}",
                key=f"facts__hit_{hit.fact.id}",
                type="tertiary",
                on_click=_open,
                args=(desk.place, hit.fact.id),
            )


def _open(place: fact_tab.ListPosition, fact: int) -> None:
    """Open a fact, and clear the search that may hide it."""
    fact_tab.change(place, wanted=WantedFacts())
    fact_tab.change(place, view="active")
    fact_tab.change(place, picked=Picked(fact))
    fact_tab.redraw(place)
