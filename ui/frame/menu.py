"""The menu in the sidebar: one line per page, each a URL that opens the same session at the same turn.

Streamlit's own menu drops URL parameters, so that a page opened in a new tab would show another session.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from ui.tab import nav, state

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.navigation.page import Page


class Menu:
    """The menu, drawn at once with what is known of the session so far, and redrawn in place when that changes."""

    def __init__(self, pages: Mapping[str, Sequence["Page"]], current: "Page") -> None:
        self._current = current
        self._drawn: object = None
        with st.sidebar.container(key="menu", gap=None):
            # Each line has a place of its own, so that redrawing it moves no other.
            self._lines: list[tuple[str | Page, DeltaGenerator]] = []
            for group, members in pages.items():
                self._lines.append((group, st.empty()))
                self._lines += [(page, st.empty()) for page in members if page.visibility == "visible"]
        self.draw()

    def draw(self) -> None:
        """Point every line at the session and the turn.

        The graph's line is present if the session has a graph, and beside a coding agent's session only its own page.
        """
        query, graph, alone = nav.address(), state.has_graph(), nav.shows_coding_session(self._current)
        if self._drawn == (query, graph, alone):
            return
        for line, slot in self._lines:
            if isinstance(line, str):
                if alone:
                    slot.empty()
                else:
                    slot.markdown(f":small[:gray[{line}]]")
                continue
            here = line.title == self._current.title  # Chat has two URLs; its line is highlighted at both
            # The open page keeps its line even if this session has no graph.
            if here or not (alone or (line.url_path == "graph" and not graph)):
                slot.page_link(self._current if here else line, query_params=query)
            else:
                slot.empty()
        self._drawn = (query, graph, alone)
