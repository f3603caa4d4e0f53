"""Which pages there are, and the guard that makes every one of them a good first request.

Streamlit treats a folder named `pages` as its older kind of app until `st.navigation` is called for the first time in a
process. When the first request to a new server is a deep link, it runs that page alone, without app.py; `require_shell`
notices and starts the run again inside the app.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

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
    return {"Watch": [chat, _alias("chat", chat)]}


def mark_shell_ready() -> None:
    """Said by app.py on every run: this session's pages are drawn inside the app."""
    st.session_state[_SHELL] = True


def require_shell() -> None:
    """The first line of every page: when the page was run without app.py, set the app up and run again."""
    if _SHELL not in st.session_state:
        configure_page()
        st.navigation(build_pages(), position="hidden")
        st.rerun()


def _page(stem: str, title: str, icon: str, *, url_path: str | None = None, default: bool = False) -> "Page":
    return st.Page(
        ROOT / "pages" / f"{stem}.py",
        title=title,
        icon=f":material/{icon}:",
        url_path=url_path or stem,
        default=default,
    )


def _alias(url_path: str, target: "Page") -> "Page":
    """A second address of a page, which goes on to the first and keeps what the address asks for."""

    def go_on() -> None:
        st.switch_page(target, query_params=st.query_params.to_dict())

    return st.Page(go_on, title=target.title, url_path=url_path, visibility="hidden")
