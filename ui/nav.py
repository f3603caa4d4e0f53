"""Which pages there are, and the guard that makes every one of them a good first request.

Streamlit treats a folder named `pages` as its older kind of app until `st.navigation` is called for the first time in a
process. When the first request to a new server is a deep link, it runs that page alone, without app.py; `require_shell`
notices and starts the run again inside the app.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Literal, NoReturn

import streamlit as st

from ui import state

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

TITLE = "Memory Inspector"
SIDEBAR_PIXELS = 232
ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "static"
ICON = str(STATIC / "icon.svg")  # a local file: a page's Material icon would be fetched from a font server as favicon

_SHELL = "_shell_ready"


def configure_page() -> None:
    """Title, icon and layout; must come before `st.navigation`."""
    st.set_page_config(page_title=TITLE, page_icon=ICON, layout="wide", initial_sidebar_state=SIDEBAR_PIXELS)


def build_pages() -> Mapping[str, Sequence["Page"]]:
    """The menu, by group, and the pages without a menu line."""
    chat = _page("chat", "Chat", "forum", url_path="home", default=True)
    return {
        "Watch": [
            chat,
            _alias("chat", chat),
            _page("context", "Context", "stacks"),
            _page("timeline", "Timeline", "timeline"),
        ],
        "Memory": [
            _page("blocks", "Blocks", "view_agenda"),
            _page("facts", "Facts", "fact_check"),
            _page("graph", "Graph", "hub", visibility="visible" if state.has_graph() else "hidden"),
        ],
        "Find out": [
            _page("retrieval", "Retrieval", "manage_search"),
            _page("sessions", "Sessions", "folder_open", visibility="hidden"),
        ],
    }


def link(
    page: str, label: str, *, icon: str | None = None, turn: int | EllipsisType | None = ..., **query: str
) -> None:
    """A link to a page, named as its file, that keeps the session and, unless another is given, the turn.

    `turn=None` is the latest. `label` is markdown: others' words in it go through `plain`.
    """
    parameters = _parameters(turn, query)
    st.page_link(_file(page), label=label, icon=icon, query_params=parameters)


def go(page: str, *, turn: int | EllipsisType | None = ..., **query: str) -> NoReturn:
    """Go to a page, with what `link` keeps."""
    st.switch_page(_file(page), query_params=_parameters(turn, query))


def _parameters(turn: int | EllipsisType | None, query: Mapping[str, str]) -> dict[str, str]:
    shown = state.selected_turn() if turn is ... else turn
    session_id = state.selected_session()
    kept = {state.SESSION: session_id, state.TURN: None if shown is None else str(shown)}
    return {name: value for name, value in {**kept, **query}.items() if value is not None}


def _file(stem: str) -> str:
    return str(ROOT / "pages" / f"{stem}.py")


def mark_shell_ready() -> None:
    """Said by app.py on every run: this session's pages are drawn inside the app."""
    st.session_state[_SHELL] = True


def require_shell() -> None:
    """The first line of every page: when the page was run without app.py, set the app up and run again."""
    if _SHELL not in st.session_state:
        configure_page()
        st.navigation(build_pages(), position="hidden")
        st.rerun()


def _page(
    stem: str,
    title: str,
    icon: str,
    *,
    url_path: str | None = None,
    default: bool = False,
    visibility: Literal["visible", "hidden"] = "visible",
) -> "Page":
    return st.Page(
        _file(stem),
        title=title,
        icon=f":material/{icon}:",
        url_path=url_path or stem,
        default=default,
        visibility=visibility,
    )


def _alias(url_path: str, target: "Page") -> "Page":
    """A second address of a page, which goes on to the first and keeps what the address asks for."""

    def go_on() -> None:
        st.switch_page(target, query_params=st.query_params.to_dict())

    return st.Page(go_on, title=target.title, url_path=url_path, visibility="hidden")
