"""The messages that a fact or a relation was learned from, with its words marked in them."""

from collections.abc import Iterable

import streamlit as st

from memory_core import Memory
from memory_core.curation.fact_desk import SourceMessage
from memory_core.history.fact_evidence import source_spans
from memory_core.messages import message_text
from memory_inspector.wording.formatting import tokens
from memory_inspector.wording.marked_text import markdown, source_pieces

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
