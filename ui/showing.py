"""The dialog Save as page: which turns, what is replaced in them, and one file of HTML to show to others.

The file is written when it is downloaded. What could be replaced is looked for as soon as it is to be shown.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import streamlit as st

from memory_core import FormatError
from memory_core.events import Ref
from memory_core.tracing.showing.page import Page
from memory_core.tracing.showing.pseudonyms import MAX_CHARACTERS, OriginalKind, Pseudonyms, invent
from ui.components import error_inside
from ui.text import count, file_stem, plain, short, tokens
from ui.view import memory_of

TRACE, TURNS, SESSION = "This trace", "Several turns", "Whole session"

BEFORE = 5
"""Turns before the shown one that are offered with it."""

KINDS: Mapping[OriginalKind, str] = {
    "name": "Name", "mail": "Mail", "number": "Number", "key": "Key", "other": "Word",
}  # fmt: skip

REPLACE, FOUND, KIND, TIMES, BY = "Replace", "Found", "Kind", "Times", "By"

_PAGE = "showing_page"
_CHECKED = "showing_checked"


def forget() -> None:
    """Keep nothing of a page whose dialog is closed."""
    for key in (_PAGE, _CHECKED):
        st.session_state.pop(key, None)


@st.dialog("Save as page", width="medium", icon=":material/ios_share:", on_dismiss=forget)
@error_inside
def page_dialog(
    session_id: str, target: str | Ref | None = None, turn: int | None = None, upto: int | None = None
) -> None:
    """Offer some turns of a session as one file, with what is followed in each; `turn` is the one that is shown."""
    memory = memory_of(session_id)
    history = memory.log.history()
    known = sorted(number for number, each in history.turns.items() if upto is None or each.first_position <= upto)
    if not known:
        st.markdown("Nothing was said in this session yet.")
        return
    shown = turn if turn in known else known[-1]
    st.markdown(
        ":small[:gray[One HTML file: opens in any browser without a network, and steps through the turns with the "
        "arrow keys.]]"
    )
    turns = _draw_turns(known, shown, traced=target is not None)
    hidden = st.toggle("Replace names, mails, numbers and keys", value=True, key="showing__replace")
    made = partial(memory.trace.page, target, turns=turns, start=shown, upto=upto)
    name = memory.session.status().title or "Session"
    if not hidden:
        _draw_download(lambda: made().to_html().encode(), name, turns)
        return
    key = (session_id, str(target), tuple(turns), upto, history.position)
    if st.session_state.get(_PAGE, (None,))[0] != key:
        with st.spinner("Looking for names, mails, numbers and keys"):
            page = made()
            st.session_state[_PAGE] = key, page, page.originals
    page = st.session_state[_PAGE][1]
    pseudonyms = _draw_originals(page, f"showing__rows_{crc32(repr(key).encode()):x}")
    if (wrong := _wrong(page, pseudonyms)) is not None:
        st.error(plain(wrong))
        return
    _draw_download(lambda: page.to_html(pseudonyms).encode(), Pseudonyms(pseudonyms).replace(name), turns)


def _draw_turns(known: Sequence[int], shown: int, *, traced: bool) -> list[int]:
    """Ask which turns; return them."""
    options = [*([TRACE] if traced else []), *([TURNS] if len(known) > 1 else []), SESSION]
    what = st.segmented_control("What to save", options, default=options[0] if traced else SESSION, required=True,
                                key="showing__what", label_visibility="collapsed")  # fmt: skip
    if what == TRACE:
        return [shown]
    if what == SESSION:
        return list(known)
    place = known.index(shown)
    first, last = st.select_slider(
        "Turns",
        known,
        (known[max(0, place - BEFORE)], shown),
        format_func=tokens,
        key="showing__turns",
        label_visibility="collapsed",
    )
    return [number for number in known if first <= number <= last]


def _draw_originals(page: Page, key: str) -> dict[str, str]:
    """Show what is replaced by what, to be changed; return it."""
    edited: Sequence[Mapping[str, Any]] = []
    if page.originals:
        rows = [
            {REPLACE: True, FOUND: each.text, BY: each.pseudonym, KIND: KINDS[each.kind], TIMES: each.times}
            for each in page.originals
        ]
        edited = st.data_editor(
            rows,
            key=key,
            hide_index=True,
            disabled=[FOUND, KIND, TIMES],
            column_config={
                REPLACE: st.column_config.CheckboxColumn(REPLACE, width=70),
                BY: st.column_config.TextColumn(BY, max_chars=MAX_CHARACTERS),
                KIND: st.column_config.TextColumn(KIND, width=70),
                TIMES: st.column_config.NumberColumn(TIMES, width=60, format="localized"),
            },
            height=min(35 * (len(rows) + 1) + 3, 320),
            alt="What is replaced on the page, and by what",
        )
    else:
        st.markdown("No names, mails, numbers or keys were found.")
    also = st.text_input(
        "Also replace", key="showing__also", placeholder="Other words, separated by commas", max_chars=2_000
    )
    chosen = with_words(kept(edited), split(also), page.contents["texts"])
    added = [f"“{plain(word)}” by {plain(chosen[word])}" for word in split(also)]
    said = f"{count(len(chosen), 'word')} replaced. Which stood for which is not in the file."
    st.markdown(f":small[:gray[{' · '.join([*added, said])}]]")
    return chosen


def kept(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Pseudonyms of the rows that are ticked."""
    return {str(row[FOUND]): str(row[BY] or "").strip() for row in rows if row[REPLACE]}


def split(words: str | None) -> list[str]:
    """Words that are separated by commas or lines, each once."""
    return list(dict.fromkeys(word for each in re.split(r"[,\n]", words or "") if (word := " ".join(each.split()))))


def with_words(pseudonyms: Mapping[str, str], words: Sequence[str], texts: Iterable[str]) -> dict[str, str]:
    """Pseudonyms, with invented ones for more words."""
    more = [word for word in words if word not in pseudonyms]
    return {**pseudonyms, **invent([(word, "other") for word in more], (*texts, *pseudonyms.values()))}


def _wrong(page: Page, pseudonyms: Mapping[str, str]) -> str | None:
    """What keeps the page from being written; looked for once, because a long one takes a moment."""
    asked = tuple(pseudonyms.items())
    if st.session_state.get(_CHECKED, (None,))[0] != (id(page), asked):
        try:
            page.replaced(pseudonyms)
            found = None
        except FormatError as error:
            found = str(error)
        st.session_state[_CHECKED] = (id(page), asked), found
    wrong: str | None = st.session_state[_CHECKED][1]
    return wrong


def _draw_download(make: Any, name: str, turns: Sequence[int]) -> None:
    """Offer the file, which is written when it is asked for."""
    which = f"turn {turns[0]}" if len(turns) == 1 else f"turns {turns[0]}-{turns[-1]}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download page",
            make,
            file_name=f"{file_stem(short(name, 60))} {which}.html",
            mime="text/html",
            key="showing__download",
            type="primary",
            icon=":material/download:",
            on_click="ignore",
        )
        st.markdown(f":small[:gray[{count(len(turns), 'turn')}]]", width="content")
