"""The drawer of one event: its sentence, its numbers, its outcome, links to other pages, and the raw record."""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

import streamlit as st

from memory_core import Memory
from memory_core.events import (
    ContextBuilt,
    Event,
    EventRecord,
    FactsCondensed,
    FlushPlanned,
    MessageAdded,
    Ref,
    Retrieved,
    UnknownEvent,
    expand,
)
from memory_core.messages import message_text
from memory_inspector.lab.striking import SET_BY_PEOPLE, changes_without, may_be_struck
from memory_inspector.lab.variants import VariantChange
from memory_inspector.reading.event_rows import GROUPS, MAX_FOLLOWED, by_whom, followable, label
from memory_inspector.reading.outcomes import FlushOutcome, Given, flush_outcome
from memory_inspector.wording.block_kinds import TURN
from memory_inspector.wording.event_details import number_rows
from memory_inspector.wording.event_sentences import (
    ERASED,
    QUOTED,
    SAID,
    Line,
    Words,
    describe,
    omitted_words,
    one_cut,
    seconds,
    stored_as,
)
from memory_inspector.wording.event_sentences.event_words import ERASED_RELATION, named_in_log, words_in_log
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from memory_inspector.wording.terms import marked
from ui.lab import tried_variants
from ui.parts.components import dialog, heading
from ui.tab import drawing, nav, state
from ui.tab.view import View

# -- the event whose drawer is open in this tab; figure and list open it with these callbacks -----


LIST = "timeline__events"
"""Widget key of the event list."""

_OPENED = "timeline_opened"
_DRAWN = "timeline_drawn"


def opened_event() -> int | None:
    """Position of the event whose drawer is open in the selected session."""
    value: tuple[str | None, int] | None = st.session_state.get(_OPENED)
    # Positions are of one log: after a change of the session the drawer does not open.
    return value[1] if value and value[0] == state.selected_session() else None


def take_link() -> None:
    """Open the event that the URL requests, once."""
    # Taken out, or a drawer that was closed would open again with every redraw.
    position = state.address_number(st.query_params.pop(nav.EVENT, None))
    if position is not None:
        open_event(position)


def open_event(position: int) -> None:
    """Open the drawer of an event; it stays open across redraws until it is closed."""
    st.session_state[_OPENED] = (state.selected_session(), position)


def close() -> None:
    """Close the drawer and clear the selection that opened it, so that the same mark or row opens it again."""
    st.session_state.pop(_OPENED, None)
    if LIST in st.session_state:
        st.session_state[LIST] = {"selection": {"rows": [], "columns": [], "cells": []}}
    # A figure keeps its selection: under a new key it starts without, so that the same mark can be clicked again.
    if _selected_points(figure_key()):
        st.session_state[_DRAWN] = st.session_state.get(_DRAWN, 0) + 1


def figure_key() -> str:
    """Widget key of the figure; changes after every click, because a mark stays selected in a figure."""
    return f"timeline__tokens_{st.session_state.get(_DRAWN, 0)}"


def take_row(positions: Sequence[int]) -> None:
    """Open the event of the selected row; `positions`: log positions of the rows as drawn."""
    selection: Any = st.session_state.get(LIST)
    rows = selection["selection"]["rows"] if selection else []
    if rows and rows[0] < len(positions):
        open_event(positions[rows[0]])


def take_mark(key: str) -> None:
    """Handle a click on a mark of the figure, or on a turn's bar, which opens its prompt."""
    selected = [point.get("customdata") for point in _selected_points(key)]
    # Depending on the trace, Plotly reports a list or a plain value.
    positions = [value[0] if isinstance(value, list) else value for value in selected]
    if positions and positions[0]:
        open_event(int(positions[0]))


def _selected_points(key: str) -> list[dict[str, Any]]:
    """The points selected in the figure."""
    selection: Any = st.session_state.get(key)
    return list(selection["selection"]["points"]) if selection else []


# -- the drawer -----------------------------------------------------------------------------------


MAX_SHOWN = 12
"""Maximum number of messages, facts or stored turns listed in words; the rest are counted."""

MAX_ROWS = 7
"""Maximum rows of the table of flushed messages before it scrolls."""

MAX_CHARACTERS = 2_000
"""Maximum characters of a text shown in full."""


@dialog("What happened", "timeline", side=True, on_dismiss=close)
def event_drawer(view: View, position: int) -> None:
    """Show one event of the log."""
    # A link may name an event that was erased with its session's reset.
    record = next((r for r in view.history.after(position - 1)[:1] if r.position == position), None)
    if record is None:
        st.warning("This event is not in the log any more.")
        return
    event = record.event
    # 1. The sentence, as the list has it.
    words = words_in_log(view.memory, [record])
    line = describe(event, words)
    who = by_whom(record, in_full=True)
    when = ago(record.at, time.time(), drawing.zone())
    turn = f"Turn {tokens(record.turn)}" if record.turn else "Before the first turn"
    _sentence(line, f"{turn} · {who} · {when}", view.history.kinds(position))
    _draw_omitted(view, record)
    _in_full(event, words)
    # 2. The numbers that the sentence leaves out, and what came of the event.
    if rows := number_rows(event, stored_as(event, words)):
        cells = [{"what": f":gray[{plain(what)}]", "value": plain(value)} for what, value in rows]
        st.table(cells, border=False, hide_header=True, hide_index=True)
    if isinstance(event, FlushPlanned):
        # At a past turn, the outcome up to that turn is shown; for a later event, the whole outcome.
        upto = view.position if position <= view.position else view.history.position
        log = view.history.upto(upto)
        outcome = flush_outcome(log, position)
        if outcome is not None:
            _flush(view.memory, outcome, log[-1])
    elif isinstance(event, ContextBuilt):
        _cuts(view, record, event, words)
    # 3. Where to go from here.
    _follow_what_it_is_about(view, record)
    _strike(view.memory, record)
    _ways_on(view, record)
    _raw(record)


def _sentence(line: Line, about: str, names: Iterable[str]) -> None:
    sentence = marked(line.text, names=names)
    coloured = {"plain": sentence, "loss": f":red[{sentence}]", "waiting": f":orange[{sentence}]"}[line.tone]
    st.markdown(f":material/{line.icon}: **{coloured}**  \n:small[:gray[{plain(about)}]]")
    _listed(line.details)
    _listed(line.more)


def _draw_omitted(view: View, record: EventRecord) -> None:
    """Draw the results of an attached agent's search that are missing in the prompt that followed."""
    for omitted in view.memory.trace.omitted_results([record] if view.attached else ()).values():
        st.markdown(f":red[{plain(omitted_words(omitted).strip())}]")
        nav.link("context", f":small[The prompt of turn {tokens(omitted.prompt.turn)}]", icon=":material/stacks:",
                 turn=omitted.prompt.turn)  # fmt: skip


def _listed(items: Sequence[str]) -> None:
    """List quoted texts, one per line."""
    if items:
        # Each on one line: a text with line breaks would look like several.
        lines = [f":gray[–] {plain(short(' '.join(item.split()), 120))}" for item in items[:MAX_SHOWN]]
        more = [f"and {tokens(len(items) - MAX_SHOWN)} more"] if len(items) > MAX_SHOWN else []
        joined = "  \n".join([*lines, *more])
        st.markdown(f":small[{joined}]")


def _in_full(event: Event, words: Words) -> None:
    """Show texts that the sentence had to shorten."""
    quoted: list[str] = []
    if isinstance(event, MessageAdded):
        quoted = [words.texts.get(event.content, "")]
    # The question of a search is never in its sentence.
    elif isinstance(event, Retrieved):
        asked = words.texts.get(event.query)
        quoted = ["The question has been erased since then." if asked is None else f"Asked with: {asked}"]
    # These two name many facts, which the list under the sentence quotes already.
    elif not isinstance(event, ContextBuilt | FactsCondensed):
        quoted = list(words.facts.values())
    for text in quoted:
        # A text that fitted into the sentence is not shown twice.
        if len(text) > (SAID if isinstance(event, MessageAdded) else QUOTED) or isinstance(event, Retrieved):
            st.text(short(text, MAX_CHARACTERS))


def _flush(memory: Memory, outcome: FlushOutcome, now: EventRecord) -> None:
    """Show the flushed messages, and the outcome at every block up to an event."""
    seqs = expand(outcome.event.seqs)
    heading("What left", level=3)
    # Read in one query, not one for each message of a long flush.
    candidates = (
        {message.seq: message for message in memory.session.messages(after=seqs[0] - 1, upto=seqs[-1])} if seqs else {}
    )
    rows = []
    for seq in seqs:
        message = candidates.get(seq)
        text = "erased since" if message is None else " ".join(message_text(message.message).split())
        rows.append(
            {
                "Turn": message.turn if message else None,
                "Role": str(message.message.role) if message else "",
                "Message": short(text, 200) or "(without text)",
                "Tokens": message.tokens.content if message else None,
            }
        )
    st.dataframe(
        rows,
        hide_index=True,
        height="content" if len(rows) <= MAX_ROWS else 250,
        column_config={
            "Turn": st.column_config.NumberColumn(width=52, format="localized"),
            "Role": st.column_config.TextColumn(width=78),
            "Tokens": st.column_config.NumberColumn(width=60, format="localized"),
        },
        key="timeline__left",
        alt="Messages that left the queue",
    )
    into = "To the archive (none is deleted) and to the blocks that learn:"
    heading("Where it went", f"\n:small[:gray[{into}]]", level=3)
    if not outcome.given:
        st.markdown(":small[No block learns from flushes.]")
    learned = [fact for of_block in outcome.given for fact in (*of_block.learned, *of_block.confirmed)]
    related = [relation for of_block in outcome.given for relation in of_block.related]
    words = named_in_log(memory, now, facts=learned, relations=related)
    for of_block in outcome.given:
        with st.container(gap="xxsmall"):
            _draw_outcome(of_block, words)


def _draw_outcome(outcome: Given, words: Words) -> None:
    effect = _outcome(outcome, words.units.get(outcome.block, TURN))
    st.markdown(f":material/outbox: **{plain(short(outcome.block))}**: {plain(effect)}")
    # An error of an earlier try is history once a later one succeeded.
    if outcome.error and outcome.state != "done":
        st.text(outcome.error)
    _listed([words.facts.get(fact, ERASED) for fact in outcome.learned])
    _listed([words.relations.get(relation, ERASED_RELATION) for relation in outcome.related])


def _outcome(outcome: Given, unit: str) -> str:
    """Return the outcome of a flush at one block, in words; `unit`: noun for one item that the block stores."""
    if outcome.state == "pending":
        return "waiting" if not outcome.attempts else f"waiting, {count(outcome.attempts, 'try')} failed"
    if outcome.state == "parked":
        return f"given up after {count(outcome.attempts, 'try')}"
    if outcome.state == "skipped":
        return "skipped"
    made = []
    if outcome.learned:
        made.append(f"learned {count(len(outcome.learned), 'fact')}")
    if outcome.related:
        made.append(f"learned {count(len(outcome.related), 'relation')}")
    if outcome.confirmed:
        made.append(f"{count(len(outcome.confirmed), 'fact')} already known")
    if outcome.stored:
        made.append(f"stored {count(len(outcome.stored), unit)}")
    if outcome.summarised:
        made.append(f"took {count(outcome.summarised, 'message')} into its text")
    took = f", in {seconds(outcome.seconds)}" if outcome.seconds is not None else ""
    return f"{', '.join(made) or 'nothing new'}{took}"


def _cuts(view: View, record: EventRecord, event: ContextBuilt, words: Words) -> None:
    """Show each cut with its removed items, lowest score first."""
    if not event.cuts:
        return
    turn = view.history.turns.get(record.turn)
    # A prompt's searches are recorded right before it.
    before = view.history.upto(record.position)[-50:]
    recalled = [r.event for r in before if isinstance(r.event, Retrieved) and turn and r.turn == record.turn]
    heading("Cuts", "\n:small[:gray[Left out of this one prompt: what is stored did not change.]]", level=3)
    for number, cut in enumerate(event.cuts, start=1):
        line = one_cut(cut, recalled, words)
        with st.container(gap="xxsmall"):
            st.markdown(f":small[{number}. {plain(line.text)}]")
            _listed(line.details)
            _follow(view, record, Ref.of_cut(record.position, number), "Follow this cut")


def _follow_what_it_is_about(view: View, record: EventRecord) -> None:
    """Draw a button for each item that an event is about, which opens its trace to the prompt of that turn."""
    refs = followable(record)
    if not refs:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        for ref in refs[:MAX_FOLLOWED]:
            _follow(view, record, ref, label(ref))
        if more := refs[MAX_FOLLOWED:]:
            st.markdown(f":small[:gray[and {tokens(len(more))} more]]", width="content")


def _follow(view: View, record: EventRecord, target: Ref, says: str) -> None:
    if st.button(says, icon=nav.icon("trace"), type="tertiary", key=f"timeline__follow_{target.replace('.', '_')}"):
        close()
        # Links to the latest turn carry no number, so that they follow new turns.
        in_history = record.turn in view.history.turns and record.turn < view.status.turns
        query: dict[str, Any] = nav.followed(target)
        nav.go("trace", turn=record.turn if in_history else None, **query)


def _strike(memory: Memory, record: EventRecord) -> None:
    """Offer to play the conversation as if the event had not happened; the session itself stays as it is."""
    if not may_be_struck(record):
        return
    session_id = memory.session_id
    # Struck in the configuration that the Lab shows, so that this configuration is played.
    tried = tried_variants.desk(session_id).current
    before = changes_without(memory, record)
    struck = tried_variants.is_struck(tried, record, before)
    # Striking it would change nothing, and the button would say that it did.
    if not struck and record.kind in SET_BY_PEOPLE and not before:
        return  # set again since: without this event nothing would differ
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if struck:
            st.markdown(f":small[~~This event~~ is struck in the Lab's {plain(tried.name)}.]", width="content")
        st.button(
            "Take it back" if struck else "Strike",
            icon=":material/undo:" if struck else ":material/format_strikethrough:",
            type="tertiary",
            key="timeline__strike",
            help="The Lab plays the conversation without this event. The session stays as it is.",
            on_click=_toggle,
            args=(session_id, tried.name, record, before, struck),
        )
        if struck and st.button("See the effect", icon=nav.icon("lab"), type="tertiary", key="timeline__to_lab"):
            tried_variants.ask(session_id)
            close()
            nav.go("lab")


def _toggle(session_id: str, name: str, record: EventRecord, before: Sequence[VariantChange], struck: bool) -> None:
    # An event of the engine is struck itself; a person's setting is set back.
    if not before:
        tried_variants.strike(session_id, record.position)
    elif struck:
        for change in before:
            tried_variants.take_back(session_id, name, change.setting)
    else:
        tried_variants.mend(session_id, name, before)


def _ways_on(view: View, record: EventRecord) -> None:
    """Draw the button that shows the event's turn everywhere, and links to pages about that turn."""
    turns = view.history.turns
    turn_record = turns.get(record.turn)
    if turn_record is None or record.position < turn_record.first_position:
        return  # the event is older than a full reset: its turn no longer exists
    # None is the latest turn, which pages then follow.
    turn = record.turn if record.turn < view.status.turns else None
    if turn != view.turn:
        says = "Back to the latest turn" if turn is None else f"Show turn {tokens(record.turn)} everywhere"
        if st.button(says, icon=":material/history:", key="timeline__show", on_click=_show, args=(turn,)):
            st.rerun()
    with st.container(horizontal=True, gap="small"):
        for page in GROUPS[record.event.family].pages:
            if page == "context" and not turn_record.contexts:
                continue  # no prompt was built in that turn
            says = f"{page.capitalize()} of turn {tokens(record.turn)}"
            if st.button(says, icon=nav.icon(page), type="tertiary", key=f"timeline__to_{page}"):
                close()
                nav.go(page, turn=turn)
        if isinstance(record.event, ContextBuilt) and any(
            earlier < record.turn and turn_record.contexts for earlier, turn_record in turns.items()
        ):
            says = "Changes since the previous prompt"
            if st.button(says, icon=":material/difference:", type="tertiary", key="timeline__to_changes"):
                close()
                nav.go("context", turn=turn, show="changes")


def _show(turn: int | None) -> None:
    close()
    state.show_turn(turn)


def _raw(record: EventRecord) -> None:
    """Show the event as it is stored."""
    box = st.expander("Raw record", key="timeline__raw", on_change="rerun", type="compact")
    # JSON of a large event is only written where somebody looks at it.
    if not box.open:
        return
    event = record.event
    # An event of a newer version is shown as it is stored, under its own name.
    name, data = (event.name, event.data) if isinstance(event, UnknownEvent) else (record.kind, None)
    stored = data if data is not None else json.loads(event.to_json())
    whole = {"position": record.position, "kind": name, "turn": record.turn, "at": record.at, "actor": record.actor}
    whole |= {"person": record.person} if record.person else {}
    box.code(json.dumps({**whole, "data": stored}, ensure_ascii=False, indent=2), language="json", wrap_lines=True)
