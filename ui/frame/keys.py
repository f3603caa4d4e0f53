"""Keyboard shortcuts: the list of them, and the browser side of those that Streamlit does not support.

They have no effect while a field has the focus, except those with Ctrl, which type nothing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from memory_core.events import Ref
from ui.frame.goto import open_goto
from ui.parts.components import dialog, heading
from ui.tab import nav, state

if TYPE_CHECKING:
    from streamlit.navigation.page import Page

KEYS: Mapping[str, Sequence[tuple[str, str]]] = {
    "Everywhere": (
        ("Ctrl+K", "Go to anything (⌘K on a Mac)"),
        ("/", "Search on this page; go to anything where there is no search"),
        ("?", "These keys"),
        ("Left, Right", "One turn back, one turn forward"),
        ("Esc", "Close the open dialog or panel"),
        ("Alt+Z", "Undo the change that was just made"),
        ("Ctrl+click", "Open a link in a new tab, at the same session and turn"),
    ),
    "Chat": (
        ("Alt+N", "Next message of the recording"),
        ("Up, Down", "From turn to turn, once the conversation has the focus"),
        ("Y", "Copy a message: Up and Down choose, Enter copies, F opens its trace"),
        ("Enter", "Send what you wrote"),
    ),
    "Context": (("F", "Choose a sentence of the prompt: Up and Down move, Enter opens its trace"),),
    "Facts": (("E", "Edit the words of the open fact"),),
    "Facts, Review": (
        ("Alt+A", "Accept"),
        ("Alt+E", "Edit"),
        ("Alt+X", "Reject, then 1 to 5 for the reason"),
        ("Alt+M", "Merge with the nearest fact"),
        ("Alt+S", "Skip"),
        ("Enter", "Save the edit, or merge"),
    ),
    "Facts, Still true?": (
        ("Alt+T", "Still true"),
        ("Alt+X", "Retire"),
        ("Alt+A", "Have the agent ask"),
        ("Alt+S", "Skip"),
    ),
    "Where you write": (("Ctrl+Enter", "Preview the next prompt with your text"),),
}
"""Keys and their effects, by place."""

EDITED = "facts__words_"
"""The field that `e` focuses, on Facts: the prefix of its widget's key."""

SEARCH: Mapping[str, str] = {
    "facts": "facts__search_",
    "timeline": "timeline__text",
    "trace": "trace__words",
    "retrieval": "retrieval__query",
}
"""The field that `/` focuses, by page: the prefix of its widget's key."""

_watch = st.components.v2.component("keys", js=(nav.STATIC / "keys.js").read_text(encoding="utf-8"))


def listen(page: "Page") -> None:
    """Enable the shortcuts on this page, except behind a dialog."""
    field = SEARCH.get(page.url_path)
    with st.container(key="keys"):
        heard = _watch(
            key="keys-watch",
            data={
                "page": page.url_path,
                "search": f'[class*="st-key-{field}"] input' if field else None,
                "edit": f'[class*="st-key-{EDITED}"] textarea' if page.url_path == "facts" else None,
            },
            on_asked_change=lambda: None,
            on_follow_change=lambda: None,
        )
    if state.dialog_open():
        return
    if heard.follow:
        nav.go("trace", **_followed(heard.follow))
    if heard.asked == "goto":
        open_goto()
    elif heard.asked == "keys":
        keys_dialog()


def _followed(asked: Any) -> dict[str, Any]:
    """Return URL parameters for the trace of the message, or of the selected words, that the browser requests."""
    message, words = str(asked.get("message") or ""), str(asked.get("words") or "")
    return dict(nav.followed(Ref.of("message", message) if message.isdecimal() else words))


@dialog("Keys", "keyboard", on_dismiss="ignore")
def keys_dialog() -> None:
    """List all shortcuts."""
    for place, keys in KEYS.items():
        heading(place, level=3)
        with st.container(gap="xxsmall"):
            for key, does in keys:
                with st.container(horizontal=True, wrap=False, gap="small"):
                    st.markdown(f":small[`{key}`]", width=110)
                    st.markdown(f":small[{does}]")
