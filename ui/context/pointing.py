"""Any word of a prompt leads to where its sentence came from, by a click or by keys: the places that take one.

What is followed is a sentence of an entry of the prompt, so that a copy in another part is another carrier of the same.
"""

from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core.events import Ref, is_target
from ui.tab import nav

HINT = "Click a word to trace it (F)"

_SELF_CONTAINED = ("fact", "relation")
"""Kinds of entries that say one thing: all of it is followed."""

_watch = st.components.v2.component("prompt-words", js=(nav.STATIC / "prompt.js").read_text(encoding="utf-8"))


def words_of(part: str, ref: Ref, **options: Any) -> DeltaGenerator:
    """The place of an entry's words; `part` tells parts with the same entry apart, in hex digits."""
    return st.container(key=f"context__said_{part}_{ref}", gap=None, **options)


def listen() -> None:
    """Take a click on a word, or the key that stands for it."""
    with st.container(key="context__pointing"):
        heard = _watch(key="context-prompt-words", on_follow_change=lambda: None)
    if heard.follow:
        query = followed(heard.follow)
        if query:
            nav.go("trace", **query)


def followed(asked: Any) -> dict[str, Any]:
    """URL parameters that follow what a browser asks for; none if it asks for nothing that there can be."""
    ref, words, word = (str(asked.get(name) or "").strip() for name in ("ref", "words", "word"))
    # A browser may send anything, so only the form of a ref is trusted.
    if not is_target(ref):
        return {}
    query: dict[str, Any] = nav.followed(Ref(ref))
    # A fact or a relation is followed as a whole; of a longer text, only the sentence.
    if words and Ref(ref).kind not in _SELF_CONTAINED:
        query[nav.WORDS] = words[: nav.MAX_WORDS]
    return query | ({nav.WORD: word[:40]} if word else {})
