"""Clickable words of a prompt: a click, or a key, follows a word's sentence to where it came from.

The sentence of one entry is followed; a copy of it in another part of the prompt is a different carrier.
"""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core.events import Ref, is_target
from ui.tab import nav

HINT = "Click a word to trace it (F)"

_SELF_CONTAINED = ("fact", "relation")
"""Kinds of entries that are followed as a whole, not sentence by sentence."""

_watch = st.components.v2.component("prompt-words", js=(nav.STATIC / "prompt.js").read_text(encoding="utf-8"))


def words_of(part: str, ref: Ref, **options: Any) -> DeltaGenerator:
    """Return the container of an entry's words; `part`: hex digits that tell apart parts with the same entry."""
    return st.container(key=f"context__said_{part}_{ref}", gap=None, **options)


def listen() -> None:
    """Open the trace of a word that was clicked, or chosen with the keyboard."""
    with st.container(key="context__pointing"):
        heard = _watch(key="context-prompt-words", on_follow_change=lambda: None)
    if heard.follow:
        query = followed(heard.follow)
        if query:
            nav.go("trace", **query)


def followed(asked: Any) -> dict[str, Any]:
    """Return URL parameters for the trace that the browser requests; empty if its reference is invalid."""
    ref, words, word = (str(asked.get(name) or "").strip() for name in ("ref", "words", "word"))
    # A browser may send anything, so only the form of a ref is trusted.
    if not is_target(ref):
        return {}
    query: dict[str, Any] = nav.followed(Ref(ref))
    # A fact or a relation is followed as a whole; of a longer text, only the sentence.
    if words and Ref(ref).kind not in _SELF_CONTAINED:
        query[nav.WORDS] = words[: nav.MAX_WORDS]
    return query | ({nav.WORD: word[:40]} if word else {})
