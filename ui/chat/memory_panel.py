"""The right side of Chat: the budget of the last prompt, the story of a turn, and what can be done about both."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import Memory, Status
from memory_core.events import ContextBuilt, EventRecord, FlushPlanned, Retrieved, ToolCalled, spread
from memory_core.messages import message_text
from memory_core.store.messages import StoredMessage
from ui import nav, state
from ui.blocks.editor import edit_dialog
from ui.budget_card import draw_budget, lanes_of, overflow_sentence, queue_sentence
from ui.chat.player import start
from ui.frame import View
from ui.jobs import Job
from ui.model import chosen_model
from ui.stored import units
from ui.story import story
from ui.telling import Line, Words, relations_of
from ui.text import plain, short

PREVIEW_CHARACTERS = 90
DETAIL_CHARACTERS = 60
STORY_KINDS = (
    "recipe_chosen",
    "tool_called",
    "flush_planned",
    "queue_recounted",
    "fact_added",
    "fact_confirmed",
    "fact_decided",
    "proposal_refused",
    "relation_added",
    "relation_confirmed",
    "relation_ended",
    "facts_condensed",
    "condensing_refused",
    "summary_rewritten",
    "vectors_stored",
    "delivery_queued",
    "delivery_done",
    "delivery_failed",
    "delivery_parked",
    "delivery_skipped",
    "delivery_retried",
    "retrieved",
    "context_built",
    "block_failed",
    "memory_stripped",
)


def draw_prompt(memory: Memory, status: Status, slot: DeltaGenerator, *, overflow: FlushPlanned | None = None) -> None:
    """The budget, drawn into its place as often as anything happens; with `overflow`, as it was before that flush.

    What it shows is read before the place is emptied, so that it does not flicker.
    """
    built = memory.events(kinds=("context_built",), limit=1, newest_first=True)
    event = built[0].event if built else None
    kinds = {attached.name: attached.kind for attached in memory.blocks}
    then = status if overflow is None else replace(status, queue_tokens=overflow.queue_before)
    lanes = lanes_of(then, event if isinstance(event, ContextBuilt) else None, kinds)
    sentence = queue_sentence(status) if overflow is None else overflow_sentence(overflow)
    with slot.container(gap="xsmall"):
        draw_budget(lanes, sentence, turn=built[0].turn if built else None)


def draw_past_prompt(view: View, slot: DeltaGenerator) -> None:
    """The budget as it stood at the end of an earlier turn."""
    then = view.history.turns[view.shown_turn]
    status = replace(
        view.status,
        queue_tokens=then.queue_tokens,
        queue_messages=then.queue_messages,
        history_budget=then.history_budget,
        token_limit=then.token_limit,
        in_transit_messages=0,
        in_transit_tokens=0,
    )
    event = then.built.event if then.built else None
    kinds = {block.name: block.kind for block in view.history.blocks_at(view.position)}
    lanes = lanes_of(status, event if isinstance(event, ContextBuilt) else None, kinds)
    with slot.container(gap="xsmall"):
        draw_budget(
            replace(lanes, queue_name="Queue then"),
            queue_sentence(status, name="Queue then"),
            turn=then.turn if then.built else None,
        )


def draw_story(memory: Memory, status: Status, slot: DeltaGenerator, *, otherwise: int | None = None) -> None:
    """The story of the chosen turn, drawn into its place in the same way; else of the latest or of `otherwise`."""
    chosen = state.story_turn(memory.session_id)
    latest = status.turns if otherwise is None else otherwise
    turn = latest if chosen is None or chosen > latest else chosen
    events = memory.events(turn=turn, kinds=STORY_KINDS)
    lines = story(events, _words(memory, events))
    with slot.container(gap="small"):
        if not turn:
            st.markdown("**What memory did**  \n:small[:gray[Nothing yet. Every turn is told here.]]")
            return
        st.markdown(f"**What memory did in turn {turn}**")
        with st.container(gap="xxsmall"):
            if not lines:
                st.markdown(":small[:gray[Nothing left the queue, and nothing had to be cut.]]")
            for line in lines:
                _line(line)
        nav.link(
            "context", f":small[See the prompt of turn {turn}]", icon="", turn=None if turn == status.turns else turn
        )


def _line(line: Line) -> None:
    told = plain(line.text)
    coloured = {"plain": told, "loss": f":red[{told}]", "waiting": f":orange[{told}]"}[line.tone]
    details = plain("; ".join(short(detail, DETAIL_CHARACTERS) for detail in line.details))
    if details:
        coloured += f": :gray[{details}]"
    more = "  \n".join(plain(words) for words in line.more) or None
    st.markdown(f":small[:material/{line.icon}: {coloured}]", help=more)


def draw_story_actions(memory: Memory, running: Job | None) -> None:
    """What can be done about the story: try again what failed, or go back to the latest turn."""
    parked = tuple(delivery.id for delivery in memory.deliveries(states=("parked",)))
    if running is None and (parked or memory.deliveries(states=("pending",))):
        st.button(
            "Try now",
            icon=":material/refresh:",
            type="tertiary",
            on_click=_retry,
            args=(memory, parked),
            help="Attempt the waiting deliveries at once",
        )
    if running is None and state.story_turn(memory.session_id) is not None:
        st.button(
            "Back to the latest turn",
            type="tertiary",
            icon=":material/last_page:",
            on_click=lambda: state.show_story("", None),
        )


def draw_actions(memory: Memory, status: Status, running: Job | None) -> None:
    """What can be done to the queue and the fixed texts; everything else stands on the Blocks page."""
    session_id, busy = memory.session_id, running is not None
    static = [attached.name for attached in memory.blocks if attached.kind == "static"]
    with st.container(horizontal=True, gap="small"):
        st.button(
            "Flush now",
            type="tertiary",
            icon=":material/keyboard_tab:",
            disabled=busy or status.queue_messages == 0,
            on_click=_flush,
            args=(memory, f"flush-{session_id}-{status.position}"),
            help="Move one batch out of the queue by the usual rules",
        )
        if len(static) == 1 and st.button(
            f"Edit {plain(short(static[0]))}", type="tertiary", icon=":material/edit:", disabled=busy
        ):
            edit_dialog(session_id, static[0])
        if len(static) > 1:
            chosen = st.menu_button(
                "Edit blocks", static, key="chat__blocks", type="tertiary", format_func=plain, disabled=busy
            )
            if chosen:
                edit_dialog(session_id, chosen)


def _flush(memory: Memory, job_id: str) -> None:
    start(memory.session_id, job_id, lambda job: memory.flush(), chosen_model())


def _retry(memory: Memory, parked: tuple[int, ...]) -> None:
    def work(job: Job) -> None:
        if parked:
            memory.retry_deliveries(parked)
        memory.deliver()

    start(memory.session_id, f"retry-{uuid.uuid4().hex}", work, chosen_model())


def _words(memory: Memory, events: Sequence[EventRecord]) -> Words:
    """The words that these events name."""
    facts, found = {}, []
    numbers = {c[0] for record in events if isinstance(record.event, Retrieved) for c in record.event.candidates}
    for attached in memory.blocks:
        if attached.kind == "facts":
            facts.update({fact.id: fact.text for fact in memory.facts(attached.name, states=None)})
        elif attached.kind == "vector" and numbers:
            found += memory.stored_turns(attached.name, numbers=numbers)
    entities, relations = _graph_words(memory, events)
    called = [record.event for record in events if isinstance(record.event, ToolCalled)]
    return Words(
        facts=facts,
        turns={turn.number: turn.turn for turn in found},
        previews={turn.number: _preview(turn.messages) for turn in found},
        due=frozenset(delivery.id for delivery in memory.deliveries(states=("pending", "parked"))),
        relations=relations,
        entities=entities,
        units=units(memory),
        said=memory.words(key for event in called for key in (event.arguments, event.result)) if called else {},
    )


def _graph_words(memory: Memory, events: Sequence[EventRecord]) -> tuple[dict[int, str], dict[int, str]]:
    """Names of entities and words of relations, where these events name any."""
    entities: dict[int, str] = {}
    relations: dict[int, str] = {}
    named = {each for record in events for each in relations_of(record.event)}
    for record in events:
        cuts = record.event.cuts if isinstance(record.event, ContextBuilt) else ()
        named |= {int(ref[1:]) for cut in cuts for ref in spread(cut["refs"]) if ref[0] == "r"}
    for attached in memory.blocks if named else ():
        if attached.kind == "graph":
            graph = memory.graph(attached.name).graph()
            entities |= {entity.id: entity.name for entity in graph.entities.values()}
            relations |= {each: graph.told(graph.relations[each]) for each in named & set(graph.relations)}
    return entities, relations


def _preview(messages: Sequence[StoredMessage]) -> str:
    return short(" ".join(message_text(messages[0].message).split()), PREVIEW_CHARACTERS)
