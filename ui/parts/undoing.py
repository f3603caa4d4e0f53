"""The drawer that lists changes made by hand, each with Undo, or with the reason why it cannot be undone."""

import time
from collections.abc import Callable, Sequence

import streamlit as st

from memory_core.history.change_log import AppliedChangeSet, maker
from memory_inspector.wording.formatting import ago, plain, short, tokens
from ui.parts.components import closing_button, dialog

SHOWN = 30
"""Maximum number of change sets listed, the newest."""


@dialog("Changes", "history", side=True)
def changes_dialog(read: Callable[[], Sequence[AppliedChangeSet]], undo: Callable[[AppliedChangeSet], None]) -> None:
    """List the changes, newest first. `undo` reverts a change, or redoes a reverted one."""
    listed = read()[:SHOWN]
    if not listed:
        st.markdown(":gray[Nothing was changed by hand yet.]")
    for change in listed:
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", wrap=False):
            st.markdown(f"{plain(short(change.sentence, 120))}  \n:small[:gray[{plain(about(change, time.time()))}]]")
            # An obstacle disables the button, and stands in the line beside it as the reason.
            says, key = "Redo" if change.undone else "Undo", f"changes__{change.number}"
            closing_button(says, undo, (change,), disabled=bool(change.obstacle), key=key)


def about(change: AppliedChangeSet, now: float) -> str:
    """Return the line below a change: `Turn 4, a person, 2 minutes ago. Undone.`"""
    record = change.record
    turn = f"Turn {tokens(record.turn)}" if record.turn else "Before the first turn"
    who = f"{turn}, {maker(change.actor, record.person)}, {ago(record.at, now)}."
    return " ".join(part for part in (who, "Undone." if change.undone else "", change.obstacle) if part)
