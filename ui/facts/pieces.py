"""Small pieces of screen that the panel, Review and the drawers of this page share."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.facts import SourceMessage
from ui.facts import changes, tab
from ui.facts.marks import markdown, source_pieces
from ui.facts.reading import Desk
from ui.text import plain, tokens

_FINISHED = "finished"

_SAID = {"user": "Said by the user", "assistant": "Said by the assistant", "tool": "Returned by a tool"}


def finish(desk: Desk, on_click: Callable[..., None], *args: Any) -> None:
    """A callback of a dialog's last button, where what it does takes that button away.

    `closing_button` closes a dialog when its button is drawn again; here the dialog finds a mark instead.
    """
    tab.keep(desk.place, _FINISHED, True)
    on_click(*args)


def close_if_finished(desk: Desk) -> None:
    """The first line of such a dialog."""
    if forget_finished(desk.place):
        st.rerun()


def forget_finished(place: tab.ListPosition) -> bool:
    """Was there a mark? The page takes it away too, when it is drawn as a whole."""
    found = bool(tab.kept(place, _FINISHED))
    tab.keep(place, _FINISHED, None)
    return found


def draw_source(source: SourceMessage, *, elsewhere: bool = False) -> None:
    """One message that a fact was learned from, the fact's words lit."""
    where = "in another session" if elsewhere else f"in turn {tokens(source.turn)}"
    words = markdown(source_pieces(source.text, source.spans))
    st.markdown(f":small[:gray[{_SAID.get(source.role, 'Said')} {where}:]]  \n:small[“{words}”]")


def foreseen_line(desk: Desk, plan: changes.Plan, *, before: str = "") -> None:
    """What a change would do to the next prompt, or why it cannot be done."""
    try:
        said = changes.foreseen(desk, plan())
        said = f"{before}{said[:1].lower()}{said[1:]}" if before.endswith(": ") else f"{before}{said}"
    except MemoryInspectorError as error:
        said = str(error)
    st.markdown(f":small[:gray[{plain(said)}]]")
