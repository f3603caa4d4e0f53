"""The list of pages with their menu, and the guard that lets any of them be the first request.

Streamlit treats a folder named `pages` as its older kind of app until `st.navigation` is called for the first time in a
process. When the first request to a new server is a deep link, it runs that page alone, without app.py; `require_shell`
detects this and restarts the run inside the app.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import streamlit as st

from memory_inspector.reading.coding_homes import offered
from memory_inspector.wording.formatting import short, tokens
from ui.tab import drawing, state

if TYPE_CHECKING:
    from streamlit.delta_generator import DeltaGenerator
    from streamlit.navigation.page import Page


TITLE = "Memory Inspector"
SIDEBAR_PIXELS = 232
ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
ICON = str(STATIC / "icon.svg")  # a local file: a page's Material icon would be fetched from a font server as favicon

TAB_CHARACTERS = 40
"""Maximum characters of a session's title in the browser's tab."""

_SHELL = "_shell_ready"
_TAB = "_tab_title"


def configure_page() -> None:
    """Set title, icon and layout; must come before `st.navigation`. Until `name_tab`, the tab keeps its last title."""
    drawing.begin()  # before a message, at which a newer run can interrupt this one
    st.set_page_config(
        page_title=st.session_state.get(_TAB, TITLE),
        page_icon=ICON,
        layout="wide",
        initial_sidebar_state=SIDEBAR_PIXELS,
    )


def name_tab(page: str, session: str | None) -> None:
    """Title the browser's tab with the page, the turn if it is an earlier one, and the session."""
    title = tab_title(page, session, state.selected_turn() if session else None)
    # Only when it changed: each call sends a message to the browser.
    if title != st.session_state.get(_TAB):
        st.session_state[_TAB] = title
        st.set_page_config(page_title=title)


def tab_title(page: str, session: str | None = None, turn: int | None = None) -> str:
    """The tab's title, plain text: `Context, turn 8 · Birthday dinner · Memory Inspector`."""
    where = page if turn is None else f"{page}, turn {tokens(turn)}"
    return " · ".join([where, *([short(session, TAB_CHARACTERS)] if session else []), TITLE])


MENU: Mapping[str, Mapping[str, str]] = {
    "Watch": {"chat": "forum", "context": "stacks", "timeline": "timeline"},
    "Memory": {"blocks": "view_agenda", "facts": "fact_check", "graph": "hub"},
    "Find out": {"trace": "route", "retrieval": "manage_search", "lab": "science"},
}
"""The pages by group, named as their files, each with its icon."""

TITLES: Mapping[str, str] = {"trace": "Where did it go?", "code": "Coding agents"}
"""Titles of pages that differ from their file's name."""


def title(page: str) -> str:
    """The title of a page, named as its file."""
    return TITLES.get(page, page.capitalize())


def icon(page: str) -> str:
    """The icon of a page of the menu."""
    return next(f":material/{pages[page]}:" for pages in MENU.values() if page in pages)


def reads_coding_agents() -> bool:
    """Return whether this visitor sees coding sessions: where people sign in, only owners without a tenant."""
    if not offered():
        return False
    from memory_core.access import acting_person  # here, as the server answers before the engine is loaded
    from memory_core.errors import AccessError

    try:
        person = acting_person()
    except AccessError:
        return False
    return person is None or (person.may("owner") and not person.tenant)


CODE = "code"
"""URL parameter with the id of the coding session that is shown."""


def shows_coding_session(page: "Page") -> bool:
    """Return whether a page shows a coding agent's session, which pages of the database's sessions say nothing of."""
    return page.title == title("code") and CODE in st.query_params and reads_coding_agents()


def build_pages() -> Mapping[str, Sequence["Page"]]:
    """The menu, by group; hidden pages have no line in it.

    Chat is included twice: at its own URL, which links use, and as the default page. Where the app was started for
    coding agents, their page is the default instead.
    """
    coding = reads_coding_agents()
    menu = {group: [_page(stem, icon(stem)) for stem in pages] for group, pages in MENU.items()}
    # Streamlit serves the default page at `/` only, so that Chat needs a second entry to keep an address of its own.
    menu["Watch"].insert(1, _page("chat", icon("chat"), url_path="home", default=not coding, visibility="hidden"))
    menu["Find out"].append(_page("sessions", ":material/folder_open:", visibility="hidden"))
    agents = [_page("code", ":material/terminal:", visibility="visible" if coding else "hidden")]
    # As Chat, the page needs a second entry to keep an address of its own.
    if coding:
        agents.append(_page("code", ":material/terminal:", url_path="start", default=True, visibility="hidden"))
        return {"Coding agents": agents, **menu}
    menu["Find out"] += agents
    return menu


def link(
    page: str,
    label: str,
    *,
    icon: str | None = None,
    help: str | None = None,
    turn: int | EllipsisType | None = ...,
    **query: str,
) -> None:
    """A link to a page, named as its file, that keeps the session and, unless another is given, the turn.

    `turn=None` is the latest. `label` and `help`, its tooltip, are markdown: quoted words must go through `plain`.
    """
    parameters = address(turn, query)
    st.page_link(_file(page), label=label, icon=icon, help=help, query_params=parameters)


FOLLOW = "follow"
"""URL parameter of *Where did it go?* with the id of the item to follow, as in events: `?follow=m7`."""

EVENT = "event"
"""URL parameter that opens the drawer of an event, by its position."""

WORDS = "words"
"""URL parameter of *Where did it go?* with a phrase to follow; beside `follow`, the part of the item that matters."""

WORD = "word"
"""URL parameter of *Where did it go?* with the word that was clicked."""

MAX_WORDS = 300
"""Maximum characters of a phrase in a URL."""


def followed(target: str) -> dict[str, str]:
    """Return the URL parameters that follow an item, by its `Ref`, or a phrase.

    >>> from memory_core.events import Ref
    >>> followed(Ref.of("fact", 7)), followed("allergic to nuts")
    ({'follow': 'f7'}, {'words': 'allergic to nuts'})
    """
    from memory_core.events import Ref  # here, because the server answers before the engine is loaded

    # A phrase is cut here, because browsers and proxies limit the length of an address.
    return {FOLLOW: str(target)} if isinstance(target, Ref) else {WORDS: target[:MAX_WORDS]}


def follow_link(target: str, label: str = ":small[Follow]", *, help: str | None = None) -> None:
    """Draw a link to the trace of an item or a phrase. `label` and `help`, its tooltip, are markdown."""
    query: dict[str, Any] = followed(target)
    link("trace", label, icon=":material/route:", help=help, **query)


def go(page: str, *, turn: int | EllipsisType | None = ..., **query: str) -> NoReturn:
    """Go to a page, keeping the same parameters as `link`."""
    st.switch_page(_file(page), query_params=address(turn, query))


def address(turn: int | EllipsisType | None = ..., query: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """URL parameters of a link: the session, the current turn unless another is given, and `query`."""
    shown = state.selected_turn() if turn is ... else turn
    # The URL counts while the tab has not selected a session yet.
    session_id = state.selected_session() or st.query_params.get(state.SESSION)
    # A step belongs to its turn: a link to another turn leads to that turn's end.
    step = state.selected_step() if turn is ... else None
    moment = {state.TURN: shown, state.STEP: step}
    parameters = {
        state.SESSION: session_id,
        **{name: None if at is None else str(at) for name, at in moment.items()},
    }
    return {name: value for name, value in {**parameters, **query}.items() if value is not None}


def _file(stem: str) -> str:
    return str(ROOT / "pages" / f"{stem}.py")


def mark_shell_ready() -> None:
    """Record that this session's pages are drawn inside the app. Called by app.py on every run."""
    st.session_state[_SHELL] = True


def require_shell() -> None:
    """Set the app up and rerun if the page was run without app.py; the first line of every page."""
    # Declaring the pages switches Streamlit to the newer kind of app; the rerun then goes through app.py.
    if _SHELL not in st.session_state:
        configure_page()
        st.navigation(build_pages(), position="hidden")
        st.rerun()


def _page(
    stem: str,
    icon: str,
    *,
    url_path: str | None = None,
    default: bool = False,
    visibility: Literal["visible", "hidden"] = "visible",
) -> "Page":
    return st.Page(
        _file(stem),
        title=title(stem),
        icon=icon,
        url_path=url_path or stem,
        default=default,
        visibility=visibility,
    )


# -- the menu in the sidebar ----------------------------------------------------------------------


class Menu:
    """A line per page, each a URL that opens the same session at the same turn, which Streamlit's own menu drops.

    Drawn at once with what is known of the session so far, and redrawn in place when that changes.
    """

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
        query, graph, alone = address(), state.has_graph(), shows_coding_session(self._current)
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
