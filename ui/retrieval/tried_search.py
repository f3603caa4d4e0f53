"""The search that this tab tries on a session's stored turns: its question, its settings, and their effect."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from memory_core import ConflictError, Memory, MemoryInspectorError, MessageRole, StoredMessage, VectorMemoryBlock
from memory_core.engine.session import SessionBlock
from memory_core.events import BlockEdited
from memory_core.messages import message_text
from memory_core.retrieval.explain import Search
from memory_inspector.reading.search_rows import SEARCHES, SIGNALS, changed_sentence
from memory_inspector.wording.block_kinds import stored_plural
from memory_inspector.wording.formatting import short
from memory_inspector.wording.settings import SETTINGS
from ui.parts import toasts
from ui.parts.effect import draw_effect
from ui.parts.fields import change_settings, draw_setting
from ui.tab import state
from ui.tab.people import allowed
from ui.tab.view import View

# -- state: the question, the trial settings, the selected row ------------------------------------


BOX = "retrieval__query"
"""Widget key of the question."""

QUERY = "query"
"""URL parameter that asks a question."""

MISSED = "retrieval__missed"
"""Widget key of the words that should have been found."""

FIND = "find"
"""URL parameter for sought words: `?query=Does Rui eat meat?&find=Rui stays off meat` opens with the stored turn that
contains them, the reason why the question did not find it, and what would change that."""

LONGEST_ADDRESS = 300
"""Maximum characters of a question, or of sought words, put in the URL; longer ones stay in the tab."""

_BOXED = "retrieval_boxed"
_QUERY_LINK, _FIND_LINK = state.PageLink("retrieval_linked", QUERY), state.PageLink("retrieval_find_linked", FIND)
_RESULTS = "retrieval_results"
_ELSEWHERE = "retrieval_elsewhere"
MAX_KEPT = 6


@dataclass(frozen=True, slots=True)
class SearchPageState:
    """State of the page for one session, kept when the page is left."""

    query: str | None = None
    """The query that was searched; None: the latest user message."""
    sent: bool = False
    """True if the search button was pressed; if a search costs a call, none is made before."""
    block: str | None = None
    number: int | None = None
    """Number of the stored turn whose row or mark is selected."""
    place: tuple[int, int] | None = None
    """Turn and index of the recorded search shown; None: the last one of the shown turn."""
    tried: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that differ from the stored ones, by block."""


_ASKED = state.ByPlace("retrieval_asked", SearchPageState())
asked, ask = _ASKED.at, _ASKED.change
"""State of the search in a session, and its setter."""


def try_settings(session_id: str, block: str, changes: Mapping[str, Any]) -> None:
    """Replace the trial settings of a block."""
    ask(session_id, tried={**asked(session_id).tried, block: dict(changes)})


def take_link(session_id: str) -> None:
    """Put the question and the sought words of the URL in the fields, unless this page wrote them there itself."""
    (query,) = _QUERY_LINK.take()
    if query is not None:
        # Not sent: following a link must not cost a call.
        ask(session_id, query=query.strip() or None, sent=False, number=None)
    (find,) = _FIND_LINK.take()
    # Streamlit forgets the field while another page is drawn: the address brings its words back.
    if find is None and MISSED not in st.session_state:
        find = st.query_params.get(FIND)
    if find is not None:
        st.session_state[MISSED] = find.strip()[:LONGEST_ADDRESS]


def write_link(session_id: str) -> None:
    """Put the question and the sought words in the URL, so that the page can be reloaded and linked to."""
    query = asked(session_id).query
    find = str(st.session_state.get(MISSED) or "").strip() or None
    # Browsers and proxies cut long addresses, and half a question is another question.
    for link, words in ((_QUERY_LINK, query), (_FIND_LINK, find)):
        link.put(None if words is None or len(words) > LONGEST_ADDRESS else words)


def fill_box(session_id: str, query: str) -> None:
    """Put the question into the box, unless the user has typed into it since."""
    # Compared with what was put in last, so that words typed since survive a redraw.
    if BOX not in st.session_state or st.session_state.get(_BOXED) != (session_id, query):
        st.session_state[BOX] = query
        st.session_state[_BOXED] = (session_id, query)


def search_now(session_id: str) -> None:
    """Search for the content of the box. For callbacks."""
    ask(session_id, query=str(st.session_state.get(BOX, "")).strip() or None, sent=True, number=None)


def searched(memory: Memory, position: int, block: str, query: str, settings: Mapping[str, Any]) -> Search:
    """The search result, cached while nothing happens in the session."""
    # The position stands for all that could change the result in this session.
    key = (memory.session_id, position, block, query, tuple(sorted(settings.items())))
    results: dict[tuple[Any, ...], Search] = st.session_state.setdefault(_RESULTS, {})
    if key not in results:
        search = memory.retrieval.search(query, block=block, settings=settings)
        # Dicts keep their order: the first is the oldest.
        while len(results) >= MAX_KEPT:
            del results[next(iter(results))]
        results[key] = search
    return results[key]


def said_elsewhere(memory: Memory, position: int, words: str) -> StoredMessage | None:
    """The newest message that contains each of these words, cached while nothing happens in the session."""
    key = (memory.session_id, position, words)
    last: tuple[Any, StoredMessage | None] = st.session_state.get(_ELSEWHERE, (None, None))
    if last[0] != key:
        wanted = words.casefold().split()
        holding = (
            stored
            # Newest first, and lazily: most words are found after a few messages.
            for stored in reversed(memory.session.messages())
            if stored.message.role is not MessageRole.SYSTEM
            and all(word in message_text(stored.message).casefold() for word in wanted)
        )
        last = st.session_state[_ELSEWHERE] = (key, next(holding, None))
    return last[1]


# -- the trial settings, their effect, and the button that stores them ----------------------------


TOP_K, THRESHOLD = "similarity_top_k", "similarity_threshold"
WEIGHTS = tuple(signal.setting for signal in SIGNALS.values())
MAX_RESULTS = 100
"""Maximum number of results that can be tried; more than any prompt holds."""


def tried(session_id: str, block: SessionBlock) -> dict[str, Any]:
    """The settings tried in this tab that differ from the stored ones."""
    stored = block.settings
    wanted = asked(session_id).tried.get(block.name, {})
    # Compared at each drawing: once a tried value is stored, it is no change any more.
    return {name: value for name, value in wanted.items() if stored.get(name) != value}


def set_tried(session_id: str, block: str, **changes: Any) -> None:
    """Change trial settings, keeping the others. For callbacks."""
    tried = asked(session_id).tried.get(block, {})
    try_settings(session_id, block, {**tried, **changes})


def draw_settings(view: View, block: SessionBlock, before: Search, after: Search, unit: str) -> None:
    """Draw the trial settings, their effect, and the button that applies them; `unit`: noun for a stored item."""
    session_id, name = view.memory.session_id, block.name
    stored = block.settings
    now = {**stored, **tried(session_id, block)}
    changes = tried(session_id, block)
    # Before the widgets are drawn: afterwards their values cannot be set.
    _fill(now)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="retrieval__knobs"):
        draw_setting(
            SETTINGS[TOP_K],
            VectorMemoryBlock,
            _key(TOP_K),
            on_change=_moved,
            args=(session_id, name, TOP_K),
            width=190,
            help=f"Maximum number of {stored_plural(unit)} requested for one prompt (top-k). Empty: as many as fit.",
            # A stored number above the usual maximum would be refused by the field.
            max_value=max(MAX_RESULTS, int(now[TOP_K] or 0)),
        )
        draw_setting(
            SETTINGS[THRESHOLD],
            VectorMemoryBlock,
            _key(THRESHOLD),
            on_change=_moved,
            args=(session_id, name, THRESHOLD),
            format="%.2f",
            width=130,
            help=f"Minimum score of a stored {unit} to be used. Empty: no threshold.",
        )
        # All settings of this drawer, so that a change of any of them elsewhere is a conflict.
        opened = {key: stored[key] for key in (TOP_K, THRESHOLD, *WEIGHTS)}
        st.button(
            "Apply from the next turn",
            key="retrieval__apply",
            on_click=_apply,
            args=(session_id, name, changes, opened),
            **allowed(
                BlockEdited,
                disabled=not changes or view.read_only is not None,
                help=view.read_only.sentence if view.read_only is not None else None,
            ),
        )
        if changes:
            back = partial(try_settings, session_id, name, {})
            st.button("Discard changes", key="retrieval__back", type="tertiary", on_click=back)
    st.pills(
        "What counts in the score",
        list(SIGNALS),
        selection_mode="multi",
        key=_key("signals"),
        format_func=lambda signal_name: SIGNALS[signal_name].label,
        help="  \n".join(f"**{signal.label}**: {signal.means}" for signal in SIGNALS.values()),
        on_change=_switched,
        args=(
            session_id,
            name,
            {signal_name: float(stored[signal.setting]) for signal_name, signal in SIGNALS.items()},
        ),
    )
    if not changes:
        st.markdown(
            ":small[:gray[These are the stored settings. Change them to see what this question would find then.]]"
        )
        return
    # The sentence begins with the unit that is looked at.
    picked = asked(session_id).number
    st.markdown(f":small[With these: **{changed_sentence(before, after, first=picked, unit=unit)}**.]")
    if before.query:
        draw_effect(view.memory, blocks={name: changes}, ask=before.query)


def _key(knob: str) -> str:
    return f"retrieval__{knob}"


def _fill(now: dict[str, Any]) -> None:
    """Set the widgets to the trial settings, whoever changed them."""
    for setting in (TOP_K, THRESHOLD):
        st.session_state[_key(setting)] = SETTINGS[setting].in_field(now[setting])
    st.session_state[_key("signals")] = [name for name, signal in SIGNALS.items() if now[signal.setting]]


def _moved(session_id: str, name: str, setting: str) -> None:
    set_tried(session_id, name, **{setting: st.session_state[_key(setting)]})


def _switched(session_id: str, name: str, stored: Mapping[str, float]) -> None:
    on = set(st.session_state[_key("signals")])
    if not on & set(SEARCHES):
        # Nothing is changed, and the next drawing fills the pills from the settings again.
        state.say("info", "One of the two searches must stay on.")
        return
    set_tried(session_id, name, **switched(on, stored))


def switched(on: Collection[str], stored: Mapping[str, float]) -> dict[str, float]:
    """Weights by setting: the block's own for enabled signals, the usual one if that is 0; 0 for disabled signals."""
    return {signal.setting: (stored[name] or signal.usual) if name in on else 0.0 for name, signal in SIGNALS.items()}


def _apply(session_id: str, name: str, changes: dict[str, Any], opened: dict[str, Any]) -> None:
    try:
        change_settings(session_id, name, opened, changes)
    except ConflictError:
        state.say("warning", f"“{short(name)}” was changed in another tab since you opened it. Nothing was saved.")
    except MemoryInspectorError as error:
        state.say("error", str(error))
    else:
        try_settings(session_id, name, {})
        # Undo expects the changed settings only: others may have moved on.
        before = {setting: opened[setting] for setting in changes}
        toasts.done(
            f"Saved. “{short(name)}” searches with these settings from the next turn on.",
            undo=partial(change_settings, session_id, name, changes, before),
        )
