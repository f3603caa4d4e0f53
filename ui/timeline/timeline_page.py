"""The Timeline page: tokens by turn, the outcome of the messages, and every event in plain words."""

from collections.abc import Sequence
from functools import partial

import plotly.graph_objects as go
import streamlit as st

from memory_core.events import AgentAttached, Family, SessionImported
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
from memory_inspector.reading.event_rows import GROUPS, NEWER, OPERATIONS, Index, Timeline, remembered
from memory_inspector.reading.outcomes import outcomes_of
from memory_inspector.reading.turn_series import Course, calls_rows, course, course_rows, describe, summary, turn_calls
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts.components import chart, empty, heading, numbers_table
from ui.parts.overlooked import draw_overlooked
from ui.parts.watching import draw_watched
from ui.tab import nav
from ui.tab.drawing import mode
from ui.tab.view import View
from ui.timeline.event_drawer import event_drawer
from ui.timeline.event_list import draw_events
from ui.timeline.opened_event import figure_key, opened, take_link, take_mark

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
    draw_events(view, timeline)
    draw_overlooked(view)
    # After everything else: the drawer is drawn over the page, and a link opens it like a click.
    take_link()
    position = opened()
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
