"""The Timeline page: tokens by turn, the outcome of the messages, and every event in plain words."""

from collections.abc import Sequence

import streamlit as st

from memory_core.history.by_turn import TurnRecord
from memory_core.history.slices.contexts import context_of
from ui import baseline, nav
from ui.components import empty
from ui.overlooked import draw_overlooked
from ui.text import count, tokens
from ui.timeline.cards import draw_outcomes, draw_tokens
from ui.timeline.drawer import event_drawer
from ui.timeline.event_list import draw_events
from ui.timeline.listing import NEWER, OPERATIONS
from ui.timeline.opened import opened, take_link
from ui.timeline.timeline_cache import remembered
from ui.view import View
from ui.watching import draw_watched


def draw(view: View) -> None:
    """Draw the page of one session."""
    timeline = remembered(view.memory)
    timeline.catch_up(view.memory, view.history)
    if not (timeline.index.groups["Messages"] or view.attached):  # spans without content tell of no message
        empty("Nothing has happened yet.", "Every decision memory makes will be listed here.", icon="timeline")
        nav.link("chat", "Write the first message", icon=":material/forum:")
        return
    st.markdown(_sentence(view, timeline.index.groups[OPERATIONS]))
    if baseline.pinned() is not None:
        turns = list(view.history.turns.values())
        sent = [context_of(turn.built).total for turn in turns if turn.built is not None]
        baseline.draw_totals(sum(len(turn.flushes) for turn in turns), sent)
    if unknown := timeline.index.groups[NEWER]:
        was, are = ("was", "is") if unknown == 1 else ("were", "are")
        told = f"{count(unknown, 'event')} {was} written by a newer version and {are} shown without details."
        st.warning(told)
    draw_watched(view)
    if view.history.turns:
        draw_tokens(view, timeline)
    if not view.attached:  # what becomes of messages is decided by the agent, and not seen
        draw_outcomes(view, timeline)
    draw_events(view, timeline)
    draw_overlooked(view)
    take_link()
    position = opened()
    if position is not None:
        event_drawer(view, position)


def _sentence(view: View, operations: int) -> str:
    """A summary sentence: `2 flushes, 1 cut, 9 facts in 12 turns.` `operations` are those on an agent's own memory."""
    turns = view.history.turns
    if view.attached:
        prompts = sum(len(turn.contexts) for turn in turns.values())
        did = f" and {count(operations, 'memory operation')}" if operations else ""
        return f"{count(prompts, 'prompt')} in {count(len(turns), 'turn')}{did}, from an agent that is attached."
    told = f"{_sums(list(turns.values()))} in {count(len(turns), 'turn')}."
    if not view.past:
        return told
    before = [turn for number, turn in turns.items() if number < view.shown_turn]
    until = [*before, view.then] if view.then is not None else before
    return f"{told} Up to turn {tokens(view.shown_turn)}: {_sums(until)}."


def _sums(turns: Sequence[TurnRecord]) -> str:
    cuts = sum(bool(turn.cut_tokens) for turn in turns)
    flushes, facts = sum(len(turn.flushes) for turn in turns), sum(turn.facts_added for turn in turns)
    relations = sum(turn.relations_added for turn in turns)
    found = f", {count(relations, 'relation')}" if relations else ""
    return f"{count(flushes, 'flush')}, {count(cuts, 'cut')}, {count(facts, 'fact')}{found}"
