"""Elements shared by the panel, Review and the dialogs of the Facts page."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.fact_desk import SourceMessage
from memory_inspector.wording.formatting import plain, tokens
from memory_inspector.wording.marked_text import markdown, source_pieces
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import Desk

_FINISHED = "finished"

_SAID = {"user": "Said by the user", "assistant": "Said by the assistant", "tool": "Returned by a tool"}


def finish(desk: Desk, on_click: Callable[..., None], *args: Any) -> None:
    """Callback for the last button of a dialog, for actions that remove that button.

    `closing_button` closes a dialog when its button is drawn again; here a mark closes it instead.
    """
    fact_tab.keep(desk.place, _FINISHED, True)
    on_click(*args)


def close_if_finished(desk: Desk) -> None:
    """Close the dialog if the mark is set; to be called first in it."""
    if forget_finished(desk.place):
        st.rerun()


def forget_finished(place: fact_tab.ListPosition) -> bool:
    """Remove the mark and return whether it was set. Also called by the page when it is drawn as a whole."""
    finished = bool(fact_tab.remembered(place, _FINISHED))
    fact_tab.keep(place, _FINISHED, None)
    return finished


def draw_source(source: SourceMessage, *, elsewhere: bool = False) -> None:
    """Draw one source message, with the fact's words highlighted."""
    where = "in another session" if elsewhere else f"in turn {tokens(source.turn)}"
    words = markdown(source_pieces(source.text, source.spans))
    st.markdown(f":small[:gray[{_SAID.get(source.role, 'Said')} {where}:]]  \n:small[“{words}”]")


def foreseen_line(desk: Desk, plan: fact_changes.Plan, *, before: str = "") -> None:
    """Draw the effect of a change on the next prompt, or why the change is impossible."""
    try:
        preview = fact_changes.foreseen(desk, plan())
        # After a colon the sentence goes on in lower case; after a full stop it starts anew.
        preview = f"{before}{preview[:1].lower()}{preview[1:]}" if before.endswith(": ") else f"{before}{preview}"
    except MemoryInspectorError as error:
        preview = str(error)
    st.markdown(f":small[:gray[{plain(preview)}]]")
