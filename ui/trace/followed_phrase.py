"""The phrase or item that a tab follows in each session, as its URL says."""

from dataclasses import dataclass

import streamlit as st

from memory_core.events import Ref, is_target
from ui.tab import nav, state

BOX = "trace__words"
"""Widget key of the phrase."""

_LINKED = "trace_linked"


@dataclass(frozen=True, slots=True)
class Asked:
    """The phrase or item that is followed in a session."""

    target: str | Ref | None = None
    words: str | None = None
    """The words of the item that matter; None: all of it."""
    word: str | None = None
    """The word that was clicked; None if none was."""


_ASKED = state.ByPlace("trace_asked", Asked())
asked, ask = _ASKED.at, _ASKED.change
"""The followed phrase or item in a session, and its setter."""


def take_link(session_id: str) -> None:
    """Follow what the URL asks for, unless this page wrote it there itself."""
    ref, words, word = (st.query_params.get(name) for name in (nav.FOLLOW, nav.WORDS, nav.WORD))
    linked = (session_id, ref, words)
    # Without this the page would follow its own link again after each click.
    if (ref is None and words is None) or linked == st.session_state.get(_LINKED):
        return
    st.session_state[_LINKED] = linked
    if ref is not None and is_target(ref):
        follow(session_id, Ref(ref), words=(words or "").strip() or None, word=word)
    elif words is not None and words.strip():
        follow(session_id, words.strip())


def write_link(session_id: str) -> None:
    """Put what is followed in the URL, so that the page can be reloaded and linked to."""
    now = asked(session_id)
    ref = str(now.target) if isinstance(now.target, Ref) else None
    words = now.words if ref is not None else now.target
    # Browsers and proxies cut long addresses.
    words = words if words is not None and len(words) <= nav.MAX_WORDS else None
    state.write_address(nav.FOLLOW, ref)
    state.write_address(nav.WORDS, words)
    state.write_address(nav.WORD, now.word)
    st.session_state[_LINKED] = (session_id, ref, words)


def follow(session_id: str, target: str | Ref | None, *, words: str | None = None, word: str | None = None) -> None:
    """Follow another phrase or item (None: nothing). For callbacks, and before the field is drawn."""
    ask(session_id, target=target, words=words, word=word)
    # A `Ref` is a string too, but an id is no phrase to show in the field.
    st.session_state[BOX] = target if isinstance(target, str) and not isinstance(target, Ref) else ""


def typed(session_id: str) -> None:
    """Follow the phrase in the field. The field's callback."""
    words = str(st.session_state.get(BOX) or "").strip()
    ask(session_id, target=words or None, words=None, word=None)
