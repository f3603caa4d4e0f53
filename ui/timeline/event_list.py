"""The event list: filters, one row per event, and pages; and the list of model calls."""

import time
import zlib
from collections.abc import Iterable, Sequence
from functools import partial

import streamlit as st

from memory_core.events import EventRecord
from memory_inspector.reading.event_rows import ACTORS, Filter, Timeline, by_whom, chosen, ledger, totals
from memory_inspector.wording.event_sentences import omitted_words, seconds
from memory_inspector.wording.formatting import ago, count, short, tokens
from ui.lab.tried_variants import struck_in
from ui.parts.components import filled, filled_rows, unseen_heading
from ui.parts.struck import crossed_out, greyed
from ui.tab import drawing
from ui.tab.view import View
from ui.timeline.opened_event import LIST, take_row

PAGE_ROWS = 100
BESIDE_PIXELS, MIN_PIXELS = 300, 430
"""Pixels of the window left around the list, and its minimum height in pixels."""

ROW_PIXELS = 28
"""Row height in pixels: lines of text can be denser than tables of numbers."""

LIST_PLACE = "timeline__list"
ABOUT_BOOKKEEPING = (
    "Routine steps: flushes handed to blocks, reads of blocks, calls and replies begun. "
    "Filtering by kind, block or words includes them."
)

EVENTS, CALLS = "Events", "Model calls"

WHO = "Engine: memory itself. User: a person. Agent: a model that called a tool."


def draw_events(view: View, timeline: Timeline) -> None:
    """Draw the list with its filters, or the model calls."""
    with st.container(border=True, gap="small"):
        unseen_heading("Events")
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            what = st.segmented_control(
                "View", (EVENTS, CALLS), default=EVENTS, required=True, label_visibility="collapsed",
                key="timeline__view",
            )  # fmt: skip
            until = False
            # At the latest turn there is nothing after it to hide.
            if view.past and view.shown_turn:
                until = st.toggle(f"Up to turn {tokens(view.shown_turn)}", value=True, key="timeline__upto")
        records = view.history.upto(view.position) if until else view.history.records
        if what == CALLS:
            _calls(records)
        else:
            _list(view, timeline, records)


def _list(view: View, timeline: Timeline, records: Sequence[EventRecord]) -> None:
    wanted = _filters(timeline)
    matching = chosen(records, wanted)
    # Words are searched last: that reads texts, the other filters only the log.
    if wanted.text.strip():
        matching = timeline.matching(matching, wanted.text, view.memory)
    if not matching:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown("No event matches.", width="content")
            st.button("Clear filters", on_click=_clear_filters, key="timeline__clear")
        return
    pages = -(-len(matching) // PAGE_ROWS)
    key = _page_key(view, wanted)
    # A filter may leave fewer pages than the one that was open.
    page = min(int(st.session_state.get(key, 1)), pages)
    on_page = matching[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    _table(view, timeline, on_page)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        total = count(len(matching), "event")
        # Hidden events are counted, or the list would look incomplete.
        if wanted.decisions_only and (hidden := sum(record.event.bookkeeping for record in records)):
            total += f", {tokens(hidden)} routine ones hidden"
        which = f"{total}, newest first" if pages == 1 else f"Page {tokens(page)} of {tokens(pages)}, {total}"
        st.markdown(f":small[:gray[{which}]]", width="content")
        if pages > 1:
            st.pagination(pages, key=key)


def _table(view: View, timeline: Timeline, records: Sequence[EventRecord]) -> None:
    now, clock = time.time(), drawing.zone()
    lines = timeline.lines(records, view.memory)
    # Only agents elsewhere report searches: without one there is nothing to compare.
    omitted = view.memory.trace.omitted_results(records, upto=view.position) if view.attached else {}
    struck = struck_in(view.memory, records)
    rows = [
        {
            "Turn": record.turn or None,
            "By": by_whom(record),
            "What happened": crossed_out(line.text)
            if record.position in struck
            else f"{omitted_words(omitted.get(record.position))}{line.text}",
            "When": ago(record.at, now, clock),
        }
        for record, line in zip(records, lines, strict=True)
    ]
    slot = filled(
        LIST_PLACE, minus=BESIDE_PIXELS, least=MIN_PIXELS, most=ROW_PIXELS * (len(rows) + 1) + 3, border=False
    )
    places = [place for place, record in enumerate(records) if record.position in struck]
    slot.dataframe(
        greyed(rows, places, "What happened"),
        hide_index=True,
        height="stretch",
        row_height=ROW_PIXELS,
        column_config={  # pinned columns keep their width, so the sentences get most of the remaining space
            "Turn": st.column_config.NumberColumn(width=56, format="localized", pinned=True),
            "By": st.column_config.TextColumn(width=70, help=WHO, pinned=True),
            "What happened": st.column_config.TextColumn(width=480),
            "When": st.column_config.TextColumn(width=96),
        },
        placeholder="–",
        key=LIST,
        on_select=partial(take_row, tuple(record.position for record in records)),
        selection_mode="single-row",
        alt="Events, newest first",
    )


_GROUP, _ACTOR, _BLOCK, _TEXT, _ALL = (
    f"timeline__{name}" for name in ("group", "actor", "block", "text", "bookkeeping")
)


def _page_key(view: View, wanted: Filter) -> str:
    """Widget key of the page number: other filters start at their first page."""
    which = repr((view.memory.session_id, view.turn, wanted))
    return f"timeline__page_{zlib.crc32(which.encode()):08x}"


def _filters(timeline: Timeline) -> Filter:
    index = timeline.index
    groups, blocks = index.options(), list(index.blocks)
    actors = [name for name in ACTORS if index.actors[name]]
    # Streamlit fails on a stored value that is no option, as after a change of the session.
    for key, options in ((_GROUP, groups), (_ACTOR, actors), (_BLOCK, blocks)):
        _forget_missing(key, options)
    columns = st.columns([0.2, 0.15, 0.2, 0.27, 0.18], gap="small", vertical_alignment="center")
    group = columns[0].selectbox(
        "Kind", groups, index=None, key=_GROUP, placeholder="All kinds",
        label_visibility="collapsed",
    )  # fmt: skip
    actor = columns[1].selectbox(
        "By", actors, index=None, key=_ACTOR, placeholder="Anyone",
        format_func=ACTORS.__getitem__, label_visibility="collapsed",
    )  # fmt: skip
    block = columns[2].selectbox(
        "Block", blocks, index=None, key=_BLOCK, placeholder="All blocks",
        format_func=short, label_visibility="collapsed",
    )  # fmt: skip
    text = columns[3].text_input(
        "Find", key=_TEXT, placeholder="Find in events", icon=":material/search:",
        label_visibility="collapsed",
    )  # fmt: skip
    every = columns[4].toggle("Routine events", key=_ALL, help=ABOUT_BOOKKEEPING)
    return Filter(group, actor, block, text or "", every)


def _forget_missing(key: str, options: Iterable[str]) -> None:
    """Clear a filter whose value does not occur in this session."""
    if st.session_state.get(key) not in (None, *options):
        st.session_state[key] = None


def _clear_filters() -> None:
    for key in (_GROUP, _ACTOR, _BLOCK):
        st.session_state[key] = None
    st.session_state[_TEXT] = ""


def _calls(records: Sequence[EventRecord]) -> None:
    """Draw model calls by turn, with purpose and cost."""
    rows = ledger(records)
    if not rows:
        st.markdown(":gray[No model was called: recorded replies are used as they are, and rules learn without one.]")
        return
    sums = totals(rows)
    parts = [
        count(sums.calls, "call"),
        f"{tokens(sums.input_tokens or 0)} tokens in{_cached(sums.cached_tokens)}",
        f"{tokens(sums.output_tokens or 0)} out",
        seconds(sums.seconds),
    ]
    if sums.cost is not None:
        parts.append(f"about ${sums.cost:,.4f}")
    if sums.failed:
        parts.append(f"{tokens(sums.failed)} failed")
    st.markdown(f"{', '.join(parts)}.")
    filled_rows("timeline__called_in_sight", len(rows), minus=BESIDE_PIXELS, least=MIN_PIXELS).dataframe(
        [
            {
                "Turn": row.turn or None,
                "For": row.purpose,
                "Model": row.model,
                "Calls": row.calls,
                "Failed": row.failed,
                "Tokens in": row.input_tokens,
                "Cached": row.cached_tokens,
                "Tokens out": row.output_tokens,
                "Seconds": row.seconds,
                "Cost": row.cost,
            }
            for row in rows
        ],
        hide_index=True,
        height="stretch",
        column_config={
            **{name: st.column_config.NumberColumn(format="localized") for name in _WHOLE},
            "Seconds": st.column_config.NumberColumn(format="%.2f"),
            "Cost": st.column_config.NumberColumn(format="$%.4f"),
        },
        placeholder="–",
        key="timeline__calls",
        alt="Model calls by turn",
    )


def _cached(size: int | None) -> str:
    return "" if size is None else f" ({tokens(size)} of them cached)"


_WHOLE = ("Turn", "Calls", "Failed", "Tokens in", "Cached", "Tokens out")
