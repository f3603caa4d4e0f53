"""Elements shared by the panel, Review and the dialogs of the Facts page."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.fact_desk import SourceMessage
from memory_inspector.wording.formatting import plain, tokens
from memory_inspector.wording.marked_text import markdown, source_pieces
from ui.facts import fact_changes
from ui.facts.fact_snapshot import FactSnapshot

_SAID = {"user": "Said by the user", "assistant": "Said by the assistant", "tool": "Returned by a tool"}


def draw_source(source: SourceMessage, *, elsewhere: bool = False) -> None:
    """Draw one source message, with the fact's words highlighted."""
    where = "in another session" if elsewhere else f"in turn {tokens(source.turn)}"
    words = markdown(source_pieces(source.text, source.spans))
    st.markdown(f":small[:gray[{_SAID.get(source.role, 'Said')} {where}:]]  \n:small[“{words}”]")


def foreseen_line(desk: FactSnapshot, plan: fact_changes.Plan, *, before: str = "") -> None:
    """Draw the effect of a change on the next prompt, or why the change is impossible."""
    try:
        preview = fact_changes.foreseen(desk, plan())
        # After a colon the sentence goes on in lower case; after a full stop it starts anew.
        preview = f"{before}{preview[:1].lower()}{preview[1:]}" if before.endswith(": ") else f"{before}{preview}"
    except MemoryInspectorError as error:
        preview = str(error)
    st.markdown(f":small[:gray[{plain(preview)}]]")
