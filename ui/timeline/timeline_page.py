"""The Timeline page: tokens by turn, the outcome of the messages, and every event in plain words."""

import time
import zlib
from collections.abc import Iterable, Sequence
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from memory_core.events import AgentAttached, EventRecord, Family, SessionImported
from memory_core.history.by_turn import TurnRecord
from memory_inspector.figures.chart_style import BETWEEN, legend_entry
from memory_inspector.figures.timeline_figures import (
    MAX_MESSAGES,
    OUTCOMES,
    SCISSORS,
    calls_figure,
    counted,
    drawn,
    outcome_rows,
    strip_figure,
    tokens_figure,
)
from memory_inspector.palette import Mode, block_colour, colour
from memory_inspector.reading.event_rows import (
    ACTORS,
    GROUPS,
    NEWER,
    OPERATIONS,
    Filter,
    Index,
    Timeline,
    by_whom,
    chosen,
    ledger,
    remembered,
    totals,
)
from memory_inspector.reading.outcomes import outcomes_of
from memory_inspector.reading.turn_series import Course, calls_rows, course, course_rows, describe, summary, turn_calls
from memory_inspector.wording.event_sentences import omitted_words, seconds
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from ui.lab.tried_variants import struck_in
from ui.parts.components import chart, empty, filled, filled_rows, heading, numbers_table, unseen_heading
from ui.parts.overlooked import draw_overlooked
from ui.parts.struck import crossed_out, greyed
from ui.parts.watching import draw_watched
from ui.tab import drawing, nav
from ui.tab.drawing import mode
from ui.tab.view import View
from ui.timeline.event_drawer import LIST, event_drawer, figure_key, opened_event, take_link, take_mark, take_row

LIVED: tuple[Family, ...] = ("messages", "facts", "relations")
"""Families of events that show a session is in use: a program may keep facts without a conversation."""


def draw(view: View) -> None:
    """Draw the page of one session."""
    timeline = remembered(view.memory)
    # A session begins with events of its set-up, which do not count as use.
    lived = any(timeline.index.groups[GROUPS[family].name] for family in LIVED)
    if not (lived or view.attached or _came_from_elsewhere(view)):
        empty("Nothing has happened yet.", "Every decision memory makes will be listed here.", icon="timeline")
        nav.link("chat", "Write the first message", icon=":material/forum:")
        return
    st.markdown(_sentence(view, timeline.index.groups[OPERATIONS]) if view.history.turns else _cache(timeline.index))
    if unknown := timeline.index.groups[NEWER]:
        was, are = ("was", "is") if unknown == 1 else ("were", "are")
        sentence = f"{count(unknown, 'event')} {was} written by a newer version and {are} shown without details."
        st.warning(sentence)
    draw_watched(view)
    if view.history.turns:
        draw_tokens(view, timeline)
        draw_calls(view)
    attachment = view.history.attachment
    if attachment is None or attachment.source == "file":  # otherwise the outcomes are not known
        draw_outcomes(view)
    _draw_events(view, timeline)
    draw_overlooked(view)
    # After everything else: the drawer is drawn over the page, and a link opens it like a click.
    take_link()
    position = opened_event()
    if position is not None:
        event_drawer(view, position)


def _came_from_elsewhere(view: View) -> bool:
    """Return whether the session was imported or attached, and so may hold texts without messages."""
    return any(isinstance(record.event, SessionImported | AgentAttached) for record in view.history.records[1:2])


def _sentence(view: View, operations: int) -> str:
    """A summary sentence: `2 flushes, 1 cut, 9 facts in 12 turns.` `operations`: number of memory operations."""
    turns = view.history.turns
    everything = _sums(list(turns.values()))
    attachment = view.history.attachment
    if attachment is not None and attachment.source == "file":
        return f"{everything} in {count(len(turns), 'turn')}, as {plain(short(attachment.name))} has it."
    if attachment is not None:
        prompts = sum(len(turn.contexts) for turn in turns.values())
        did = f" and {count(operations, 'memory operation')}" if operations else ""
        return f"{count(prompts, 'prompt')} in {count(len(turns), 'turn')}{did}, from an attached agent."
    sentence = f"{everything} in {count(len(turns), 'turn')}."
    if not view.past:
        return sentence
    # The shown turn counts up to its step only.
    before = [turn for number, turn in turns.items() if number < view.shown_turn]
    until = [*before, view.then] if view.then is not None else before
    return f"{sentence} Up to turn {tokens(view.shown_turn)}: {_sums(until)}."


def _cache(index: Index) -> str:
    """A summary of a session without a conversation: `9 events about facts, kept by a program.`"""
    named: tuple[Family, ...] = ("facts", "relations")
    sizes = {family: index.groups[GROUPS[family].name] for family in named}
    sentence = " and ".join(f"{count(size, 'event')} about {what}" for what, size in sizes.items() if size)
    return f"{sentence}, kept by a program: no conversation yet."


def _sums(turns: Sequence[TurnRecord]) -> str:
    cuts = sum(bool(turn.cut_tokens) for turn in turns)
    flushes, facts = sum(len(turn.flushes) for turn in turns), sum(turn.facts_added for turn in turns)
    relations = sum(turn.relations_added for turn in turns)
    parts = [count(flushes, "flush"), count(cuts, "cut"), count(facts, "fact")]
    if relations:
        parts.append(count(relations, "relation"))
    return ", ".join(parts)


# -- the timeline's two cards ---------------------------------------------------------------------


ABOUT = (
    "What the last prompt of each turn held, part by part. Limit: all of it must fit in. "
    "Flush: when the queue (short-term memory) grows above this line (history budget), its oldest messages leave. "
    "Click a bar for the prompt of that turn, a mark for its flush or cut."
)
CALLS = (
    "Searches, models, tools and deliveries to blocks. A bar is as long as its call took, and ends when the call was "
    "recorded, or as the agent's spans report it. A ◇ has no recorded time. Models that a delivery asked are within it."
)
OUTCOME = (
    "Where each message is, oldest first. Flushed ones are in the archive; recalled: brought back into a prompt; "
    "learned from: at least one fact came from it; gone: replaced or forgotten."
)


def draw_tokens(view: View, timeline: Timeline) -> None:
    """Draw tokens by turn, with the marks that open an event."""
    kinds = view.history.kinds(view.history.position)
    turns, appearance = view.history.turns, mode()

    def make() -> tuple[Course, go.Figure]:
        drawn = course(turns, kinds)
        return drawn, tokens_figure(drawn, appearance, picked=view.turn)

    # Kept until one of these three changes: most redraws change none.
    drawn, figure = timeline.figure((view.history.position, appearance, view.turn), make)
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, horizontal_alignment="distribute"):
            heading("Tokens by turn", width="content", help=ABOUT)
            cut = SCISSORS if drawn.bars else "❘"
            scissors = f':color[{cut}]{{foreground="{colour("cut", appearance)}"}}'
            empty = f"○\N{NO-BREAK SPACE}no\N{NO-BREAK SPACE}prompt{BETWEEN}" if drawn.without_prompt else ""
            st.markdown(
                f":small[{empty}▼\N{NO-BREAK SPACE}flush{BETWEEN}{scissors}\N{NO-BREAK SPACE}cut: click one]",
                width="content",
            )
        key = figure_key()
        chart(figure, key, describe(drawn), partial(take_mark, key))
        st.markdown(f":small[{_legend(drawn, appearance)}]")
        numbers_table(lambda: course_rows(turns, kinds), key="timeline__numbers")


def _legend(drawn: Course, appearance: Mode) -> str:
    entries = [legend_entry(short(layer.label), block_colour(layer.kind, appearance)) for layer in drawn.layers]
    line = "┄ flush line: counts the queue only".replace(" ", "\N{NO-BREAK SPACE}")
    return BETWEEN.join([*entries, *([line] if drawn.flush_line else [])])


def draw_calls(view: View) -> None:
    """Draw the calls of the shown turn with their times; nothing if neither a time nor a cost of any is known."""
    turn = view.history.turns.get(view.shown_turn)
    records = view.history.after(turn.first_position - 1) if turn is not None else ()
    calls = turn_calls(r for r in records if r.turn == view.shown_turn and r.position <= view.position)
    if not any(call.seconds or call.cost for call in calls):
        return
    with st.container(border=True, gap="xsmall"):
        heading(f"Calls of turn {tokens(view.shown_turn)}", f"\n:small[:gray[{plain(summary(calls))}]]", help=CALLS)
        if some := drawn(calls):
            figure = calls_figure(some, view.history.kinds(view.history.position), mode())
            chart(figure, "timeline__turn_calls", ", ".join(f"{call.what} {call.name}: {call.amount}" for call in some))
        if len(some) < len(calls):
            drawn_ones = f"The {tokens(len(some))} longest are drawn." if some else "No time was recorded."
            st.markdown(f":small[:gray[{drawn_ones}]]")
        numbers_table(lambda: calls_rows(calls), key="timeline__turn_calls_numbers")


def draw_outcomes(view: View) -> None:
    """Draw what became of every message, as of the shown moment."""
    outcomes = view.memory.log.query(outcomes_of, view.position)
    runs = outcomes.runs()
    if not runs:
        return
    # Too many messages to draw one by one are counted by outcome.
    several = sum(run.messages for run in runs) > MAX_MESSAGES
    shown, appearance = counted(runs) if several else runs, mode()
    with st.container(border=True, gap="xsmall"):
        at = f" at the end of turn {tokens(view.shown_turn)}" if view.past else ""
        entries = [
            legend_entry(f"{tokens(number)} {OUTCOMES[kind][0]}", colour(OUTCOMES[kind][1], appearance))
            for kind, number in outcomes.counts.items()
            if number
        ]
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            heading("What became of the messages", at, width="content", help=OUTCOME)
            st.markdown(f":small[{BETWEEN.join(entries)}]", width="content")
        chart(strip_figure(shown, appearance), "timeline__fates", "What became of the messages, oldest first")
        numbers_table(lambda: outcome_rows(shown), key="timeline__fate_numbers")


# -- the events: filters, one row per event, and pages; and the list of model calls ---------------


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

EVENTS, MODEL_CALLS = "Events", "Model calls"

WHO = "Engine: memory itself. User: a person. Agent: a model that called a tool."


def _draw_events(view: View, timeline: Timeline) -> None:
    """Draw the list with its filters, or the model calls."""
    with st.container(border=True, gap="small"):
        unseen_heading("Events")
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            what = st.segmented_control(
                "View", (EVENTS, MODEL_CALLS), default=EVENTS, required=True, label_visibility="collapsed",
                key="timeline__view",
            )  # fmt: skip
            until = False
            # At the latest turn there is nothing after it to hide.
            if view.past and view.shown_turn:
                until = st.toggle(f"Up to turn {tokens(view.shown_turn)}", value=True, key="timeline__upto")
        records = view.history.upto(view.position) if until else view.history.records
        if what == MODEL_CALLS:
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
