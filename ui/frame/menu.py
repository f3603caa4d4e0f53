"""The menu in the sidebar: one line per page, each a URL that opens the same session at the same turn.

Streamlit's own menu drops URL parameters, so that a page opened in a new tab would show another session.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from ui.tab import nav, state

if TYPE_CHECKING:
    from streamlit.navigation.page import Page


class Menu:
    """The menu, drawn at once with what is known of the session so far, and redrawn in place when that changes."""

    def __init__(self, pages: Mapping[str, Sequence["Page"]], current: "Page") -> None:
        self._current = current
        self._drawn: object = None
        with st.sidebar.container(key="menu", gap=None):
            # Each line has a place of its own, so that redrawing it moves no other.
            self._lines = [
                (page, slot)
                for group, members in pages.items()
                for page, slot in _group(group, [page for page in members if page.visibility == "visible"])
            ]
        self.draw()

    def draw(self) -> None:
        """Point every line at the session and the turn; the graph's line is present if the session has a graph."""
        query, graph = nav.address(), state.has_graph()
        if self._drawn == (query, graph):
            return
        for page, slot in self._lines:
            # The open page keeps its line even if this session has no graph.
            if page.url_path != "graph" or graph or page is self._current:
                here = page.title == self._current.title  # Chat has two URLs; its line is highlighted at both
                slot.page_link(self._current if here else page, query_params=query)
            else:
                slot.empty()
        self._drawn = (query, graph)


def _group(group: str, pages: Sequence["Page"]) -> list[tuple["Page", st.delta_generator.DeltaGenerator]]:
    st.markdown(f":small[:gray[{group}]]")
    return [(page, st.empty()) for page in pages]
