"""The dialog Save as page: choose turns and replace words in them, then download one HTML file to share.

Replacements are tried on the page before it is offered.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import FormatError
from memory_core.events import Ref
from memory_core.tracing.exported_page import Page
from memory_core.tracing.replacements import Replacements, mask_keys
from memory_inspector.wording.formatting import count, file_stem, plain, short, tokens
from ui.parts.components import dialog
from ui.tab.view import memory_of

TRACE, TURNS, SESSION = "This trace", "Several turns", "Whole session"

BEFORE = 5
"""Number of turns before the shown one in the preset range."""

MAX_TYPED = 4_000
"""Maximum characters of the replacement lines."""

_LINES = "showing__replace"
_FIELDS = ("showing__what", "showing__turns", _LINES)
_READY = "showing_ready"


@dataclass(frozen=True, slots=True)
class _Ready:
    """A page that can be downloaded."""

    key: tuple[object, ...]
    """Session, target, turn and position of the dialog that it belongs to."""
    page: Page
    words: Replacements
    turns: Sequence[int]
    fields: Mapping[str, object]
    """Values of the dialog's fields, for Back."""


def forget() -> None:
    """Discard the prepared page when its dialog is closed."""
    st.session_state.pop(_READY, None)


@dialog("Save as page", "ios_share", width="medium", on_dismiss=forget)
def page_dialog(
    session_id: str, target: str | Ref | None = None, turn: int | None = None, upto: int | None = None
) -> None:
    """Offer turns of a session as one file, with the trace of `target` in each; `turn`: the turn on screen."""
    memory = memory_of(session_id)
    history = memory.log.history()
    turns = sorted(
        number for number, turn_record in history.turns.items() if upto is None or turn_record.first_position <= upto
    )
    if not turns:
        st.markdown("Nothing was said in this session yet.")
        return
    shown = turn if turn in turns else turns[-1]
    st.markdown(
        ":small[:gray[One HTML file: opens in any browser without a network, and steps through the turns with the "
        "arrow keys. Keys and passwords are masked.]]"
    )
    # One place for both steps, so that the fields are gone while the file is offered.
    place, key = st.empty(), (session_id, str(target), shown, upto)
    ready = st.session_state.get(_READY)
    # A page made for another trace, turn or moment does not count.
    if ready is None or ready.key != key:
        # Not called yet: making a page traces every turn of it.
        made = partial(memory.trace.page, target, start=shown, upto=upto)
        with place.container():
            ready = _draw_choices(key, turns, shown, made, traced=target is not None)
        if ready is None:
            return
        st.session_state[_READY] = ready
        place.empty()
    _draw_file(ready, mask_keys(memory.session.status().title or "Session"))


def _draw_choices(
    key: tuple[object, ...], numbers: Sequence[int], shown: int, made: Callable[..., Page], *, traced: bool
) -> _Ready | None:
    """Draw the fields for turns and replacements; return the page once Make page is pressed.

    No file is offered beside the fields: a download right after typing would miss the last words.
    """
    turns = _draw_turns(numbers, shown, traced=traced)
    lines = st.text_area(
        "Replace words, one per line",
        key=_LINES,
        placeholder="Teresa = Eva",
        height=96,
        max_chars=MAX_TYPED,
        help="A private word, =, and its replacement.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        asked = st.button("Make page", key="showing__make", type="primary")
        st.markdown(f":small[:gray[{count(len(turns), 'turn')}]]", width="content")
    if not asked:
        return None
    try:
        words = Replacements(replacements_of(lines))
        with st.spinner("Making the page"):
            page = made(turns=turns)
            # Tried on all texts now, so that what cannot be replaced is said before a file is offered.
            words.replace_all(page.texts)
    except FormatError as error:
        st.error(plain(str(error)))
        return None
    # The fields are not drawn while the file is offered, and Streamlit forgets them then.
    fields = {field: st.session_state[field] for field in _FIELDS if field in st.session_state}
    return _Ready(key, page, words, turns, fields)


def _draw_file(ready: _Ready, name: str) -> None:
    """Draw what is replaced, and the download of the file, which is written on the click."""
    words, turns = ready.words, ready.turns
    if seen := preview(words, ready.page.texts):
        st.markdown("\n".join(f"- {plain(line)}" for line in seen))
        st.markdown(":small[:gray[This list is not in the file.]]")
    which = f"turn {turns[0]}" if len(turns) == 1 else f"turns {turns[0]}-{turns[-1]}"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.download_button(
            "Download page",
            lambda: ready.page.to_html(words.words).encode(),
            # The file's name is seen by others, too: the title goes through the same replacements.
            file_name=f"{file_stem(short(words.replace(name), 60))} {which}.html",
            mime="text/html",
            key="showing__download",
            type="primary",
            icon=":material/download:",
            on_click="ignore",
        )
        st.button("Back", key="showing__back", on_click=_back)
        st.markdown(f":small[:gray[{count(len(turns), 'turn')}]]", width="content")


def _back() -> None:
    st.session_state.update(st.session_state.pop(_READY).fields)


def _draw_turns(turns: Sequence[int], shown: int, *, traced: bool) -> list[int]:
    """Draw the choice of turns, and return the chosen ones."""
    # Without a followed thing there is no trace, and of a single turn there is no range.
    options = [*([TRACE] if traced else []), *([TURNS] if len(turns) > 1 else []), SESSION]
    what = st.segmented_control("What to save", options, default=options[0] if traced else SESSION, required=True,
                                key="showing__what", label_visibility="collapsed")  # fmt: skip
    if what == TRACE:
        return [shown]
    if what == SESSION:
        return list(turns)
    place = turns.index(shown)
    first, last = st.select_slider(
        "Turns",
        turns,
        (turns[max(0, place - BEFORE)], shown),
        format_func=tokens,
        key="showing__turns",
        label_visibility="collapsed",
    )
    return [number for number in turns if first <= number <= last]


def replacements_of(lines: str | None) -> dict[str, str]:
    """Parse lines such as `Teresa = Eva` into replacements by word.

    Raises:
        FormatError: a word is in two lines with different replacements.
    """
    words: dict[str, str] = {}
    for line in (lines or "").splitlines():
        # The last sign parts them: a key that is to be replaced may end with some.
        before, sign, behind = line.rpartition("=")
        word, other = (" ".join(text.split()) for text in ((before, behind) if sign else (line, "")))
        if word and words.setdefault(word, other) != other:
            raise FormatError(f"“{word}” is in two lines. Keep one of them.")
    return words


def preview(replacements: Replacements, texts: Iterable[str]) -> list[str]:
    """Return a line on each replaced word, with its number of occurrences: `“Ana” by “Eva”: 12 times`."""
    times = replacements.count(texts)
    return [
        f"“{word}” by “{other}”: {count(times[word], 'time') if times[word] else 'not on this page'}"
        for word, other in replacements.words.items()
    ]
