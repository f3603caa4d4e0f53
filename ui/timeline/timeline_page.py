"""The Timeline page: tokens by turn, the outcome of the messages, and every event in plain words."""

from collections.abc import Sequence

import streamlit as st

from memory_core.events import AgentAttached, Family, SessionImported
from memory_core.history.by_turn import TurnRecord
from memory_inspector.reading.event_rows import GROUPS, NEWER, OPERATIONS, Index
from memory_inspector.reading.timeline_cache import remembered
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts.components import empty
from ui.parts.overlooked import draw_overlooked
from ui.parts.watching import draw_watched
from ui.tab import nav
from ui.tab.view import View
from ui.timeline.event_drawer import event_drawer
from ui.timeline.event_list import draw_events
from ui.timeline.opened_event import opened, take_link
from ui.timeline.timeline_cards import draw_calls, draw_outcomes, draw_tokens

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
