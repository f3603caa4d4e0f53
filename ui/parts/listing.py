"""The toolkit of a list beside a panel: choice of a block, table to pick a row in, changes to undo, and sources."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import Memory
from memory_core.curation.fact_desk import SourceMessage
from memory_core.history.change_log import AppliedChangeSet, maker
from memory_core.history.fact_evidence import source_spans
from memory_core.messages import message_text
from memory_inspector.wording.formatting import ago, plain, short, tokens
from memory_inspector.wording.marked_text import markdown, source_pieces
from ui.parts.components import closing_button, dialog
from ui.tab import state

Id = TypeVar("Id")

CHANGES_SHOWN = 30
"""Maximum number of change sets listed, the newest."""


class BlockChoice:
    """The choice of one of a session's blocks of a kind, kept while other pages are drawn."""

    def __init__(self, page: str, *, width: int) -> None:
        """`page` begins the keys; `width`: in pixels."""
        self._page, self._width = page, width
        self._chosen: state.ByPlace[str | None] = state.ByPlace(f"{page}_block", None)
        self.choose = self._chosen.put

    def shown(self, session_id: str, blocks: Sequence[str]) -> str:
        """Return the block that was chosen last, otherwise the first."""
        chosen = self._chosen.at(session_id)
        return chosen if chosen is not None and chosen in blocks else blocks[0]

    def draw(self, session_id: str, blocks: Sequence[str]) -> None:
        """Draw the choice, if there are several blocks."""
        if len(blocks) == 1:
            return
        key = f"{self._page}__block_{session_id}"
        st.selectbox(
            "Block",
            blocks,
            index=list(blocks).index(self.shown(session_id, blocks)),
            key=key,
            format_func=short,
            label_visibility="collapsed",
            on_change=lambda: self.choose(session_id, st.session_state[key]),
            width=self._width,
        )


def pick_row(
    rows: Any,
    ids: Sequence[Id],
    key: str,
    on_pick: Callable[[Id | None], None],
    *,
    picked: Id | None = None,
    slot: DeltaGenerator | None = None,
    **options: Any,
) -> None:
    """Draw a table in which one row at a time is picked. `ids`: of the items in its rows; `key` begins its widget key.

    `on_pick` is called with the id of the row that was clicked, or with None when the picked row was clicked again.
    `options` are those of `st.dataframe`.
    """
    # A row is picked by its number: other rows are another table, or the pick would move to another item.
    table = f"{key}_{crc32(repr(tuple(ids)).encode()):x}"

    def pick() -> None:
        chosen = st.session_state[table]["selection"]["rows"]
        # A click may come for a longer list than the one that is drawn now.
        on_pick(ids[chosen[0]] if chosen and chosen[0] < len(ids) else None)

    (slot or st).dataframe(
        rows,
        key=table,
        hide_index=True,
        on_select=pick,
        selection_mode="single-row",
        # A filter may hide the picked item: it stays picked, and no row is marked.
        selection_default={"selection": {"rows": [ids.index(picked)] if picked in ids else []}},
        **options,
    )


@dialog("Changes", "history", side=True)
def changes_dialog(read: Callable[[], Sequence[AppliedChangeSet]], undo: Callable[[AppliedChangeSet], None]) -> None:
    """List the changes, newest first. `undo` reverts a change, or redoes a reverted one."""
    listed = read()[:CHANGES_SHOWN]
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


# -- the messages that a fact or a relation was learned from, with its words marked in them -------


_SAID = {"user": "Said by the user", "assistant": "Said by the assistant", "tool": "Returned by a tool"}


def source_messages(memory: Memory, seqs: Iterable[int], words: str) -> list[SourceMessage]:
    """Read messages of this session by number, with the spans that support `words`; erased ones are missing."""
    messages: list[SourceMessage] = []
    for seq in seqs:
        for stored in memory.session.messages(after=seq - 1, upto=seq):
            text = message_text(stored.message)
            spans = source_spans(words, text)
            messages.append(SourceMessage(memory.session_id, seq, stored.turn, str(stored.message.role), text, spans))
    return messages


def draw_source(source: SourceMessage, *, elsewhere: bool = False) -> None:
    """Draw one source message, with the words that it supports highlighted."""
    where = "in another session" if elsewhere else f"in turn {tokens(source.turn)}"
    words = markdown(source_pieces(source.text, source.spans))
    st.markdown(f":small[:gray[{_SAID.get(source.role, 'Said')} {where}:]]  \n:small[“{words}”]")
