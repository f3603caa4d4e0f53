"""The Chat page's parts: the conversation, the player, the budget, the story of a turn.

A turn is a job that this only watches: drawing starts nothing, and leaving stops nothing.
"""

import base64
import binascii
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import (
    ChatMessage,
    ConfigError,
    FilePart,
    ImagePart,
    Memory,
    MemoryInspectorError,
    MessageRole,
    NotFoundError,
    Status,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from memory_core.events import ContextBuilt, EventRecord, FlushPlanned, Retrieved
from memory_core.messages import message_text
from memory_core.recording import Recording
from memory_core.store.messages import StoredMessage
from ui import state, turns
from ui.block_editor import add_dialog, edit_dialog, remove_dialog
from ui.budget_card import draw_budget, lanes_of, overflow_sentence, queue_sentence
from ui.importing import import_dialog
from ui.jobs import Job
from ui.model import Chosen, chosen_model, services_for
from ui.new_session import TRIP
from ui.services import engine
from ui.settings import settings_dialog
from ui.story import Line, Summary, Words, story, summaries
from ui.text import plain, short, tokens

CHAT_HEIGHT = 398
GUIDED_HEIGHT = 358
"""Pixels of the conversation; less while the guide's line shows, so that the input stays above the fold."""

SEEN_SECONDS = 0.7
"""How long the queue is shown above its flush line before it is shown flushed."""

SHOWN_MESSAGES = 40
"""Messages drawn at first; a thousand would take seconds."""

MOST_CHARACTERS = 200_000
"""Longest message that can be typed or pasted; longer ones come by import."""

LONGEST_SHOWN = 4_000
LONGEST_ASIDE = 600
"""Characters of one message that are drawn; the second for system messages and tool results."""

PREVIEW_CHARACTERS = 90
DETAIL_CHARACTERS = 60
AVATARS = {
    MessageRole.USER: ":material/person:",
    MessageRole.ASSISTANT: ":material/neurology:",
    MessageRole.SYSTEM: ":material/settings:",
    MessageRole.TOOL: ":material/build:",
}
SPEEDS = {"½ ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "4 ×": 4.0}
SUMMARY_KINDS = ("flush_planned", "fact_added", "context_built")
STORY_KINDS = (
    "flush_planned",
    "queue_recounted",
    "fact_added",
    "fact_confirmed",
    "facts_condensed",
    "condensing_refused",
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


def draw_preparing(job: Job) -> None:
    """The page's frame while the demo is being made."""
    left, right = st.columns([0.58, 0.42], gap="medium")
    left.skeleton(CHAT_HEIGHT)
    right.skeleton(CHAT_HEIGHT)
    st.markdown(":shimmer[Preparing the demo conversation]")
    for _ in job.follow():
        st.session_state.get(state.SESSION)  # a place where this run can be stopped
    if job.error is not None:
        state.say("error", job.error)
    st.rerun()


def draw_no_session() -> None:
    """There is no session: the demo could not be made, or everything was deleted."""
    st.markdown("**No session yet.**  \nStart a new one in the sidebar, or import a conversation.")


def draw(session_id: str, header: DeltaGenerator) -> None:
    """The page of one session."""
    shared = engine()
    try:
        chosen = chosen_model()
        memory = shared.open(session_id, services_for(chosen))
        status = memory.status()
    except ConfigError as error:
        st.error(plain(str(error)))
        return
    except NotFoundError:
        st.warning("This session was deleted elsewhere. Choose another one in the sidebar.")
        return
    if header.button("Settings", icon=":material/tune:", type="tertiary"):
        settings_dialog(session_id)
    running = shared.running(session_id)
    recording = memory.recording()
    with st.container():  # there in any case: what follows keeps its place, and the conversation its scroll position
        guided = _guide(status, recording, running)
    left, right = st.columns([0.58, 0.42], gap="medium")
    with left:
        height = GUIDED_HEIGHT if guided else CHAT_HEIGHT
        box = st.container(height=height, border=True, autoscroll=True, gap="xsmall", key="chat__box")
        last_seq = _conversation(box, memory, status, running)
        with box, st.empty().container(gap="xsmall"):  # in its place also when empty, so that it goes at once
            _unfinished(memory, chosen, running)
        _player(memory, status, recording, running)
        _input(memory, chosen, running)
    with right:
        with st.container(border=True, gap="xsmall"):
            budget = st.empty()
            if running is None:
                _budget(memory, status, budget)
            _actions(memory, status, running)
        with st.container(border=True, gap="small"):
            told = st.empty()
            if running is None:
                _told(memory, status, told)
            _story_actions(memory, running)
    if running is not None:
        _follow(running, memory, box, budget, told, last_seq)
    state.saw_flushes(session_id, status.flushes)
    if status.in_transit_messages:
        _watch(session_id, status.position)


# -- the conversation ----------------------------------------------------------------------------


def _guide(status: Status, recording: Recording | None, running: Job | None) -> bool:
    """One line for a first visit, gone with the first step; whether it is there."""
    fresh = recording is not None and recording.next_turn and status.flushes == 1 and running is None
    shown = bool(fresh) and status.to_next_flush < status.flush_size
    if shown:
        st.markdown(
            ":small[:gray[New here? **Next message** plays the next turn: watch the queue pass its flush line, "
            "and what memory makes of it at the right.]]"
        )
    return shown


def _conversation(box: DeltaGenerator, memory: Memory, status: Status, running: Job | None) -> int:
    """The newest messages; the sequence number of the last one drawn."""
    wanted = SHOWN_MESSAGES + state.earlier_messages()
    messages = memory.messages(last=wanted)
    first_turn = messages[0].turn if messages else 0
    told = summaries(memory.events(kinds=SUMMARY_KINDS, from_turn=first_turn))
    with box:
        if not messages:
            _nothing_said(memory)
            return 0
        total = status.queue_messages + status.archived_messages
        if total > len(messages):
            st.button(
                f"Show earlier ({tokens(total - len(messages))} more)",
                type="tertiary",
                icon=":material/expand_less:",
                on_click=lambda: state.show_earlier(state.earlier_messages() + SHOWN_MESSAGES),
            )
        for index, stored in enumerate(messages):
            draw_message(stored.message)
            last = index + 1 == len(messages)
            ends = running is None if last else messages[index + 1].turn != stored.turn
            if ends and stored.turn:
                _turn_line(memory.session_id, stored.turn, told.get(stored.turn, Summary()))
    return messages[-1].seq


def _turn_line(session_id: str, turn: int, summary: Summary) -> None:
    st.button(
        f":small[:gray[{summary.in_short(turn)}]]",
        type="tertiary",
        key=f"chat__turn_{turn}",
        on_click=lambda: state.show_story(session_id, turn),
        help="Show what memory did in this turn",
    )


def draw_message(message: ChatMessage) -> None:
    """One message: its words as plain text, its other parts named. Nothing in it is fetched or run."""
    with st.chat_message(str(message.role), avatar=AVATARS[message.role]):
        for part in message.parts:
            if isinstance(part, TextPart):
                spoken = message.role in (MessageRole.USER, MessageRole.ASSISTANT)
                _body(part.text, LONGEST_SHOWN if spoken else LONGEST_ASIDE)
            elif isinstance(part, ThinkingPart):
                st.markdown(":small[:gray[Thought]]")
                _body(part.text)
            elif isinstance(part, ToolCallPart):
                st.markdown(f":material/build: {plain(short(part.tool_name, 60))}")
                _body(part.arguments)
            elif isinstance(part, ImagePart):
                _image(part)
            elif isinstance(part, FilePart):
                st.markdown(f":material/attach_file: {plain(part.type)}")
                _body(part.title or part.url[:80])
        if not message.parts:
            st.markdown(":small[:gray[No text]]")


def _body(text: str, longest: int = LONGEST_SHOWN) -> None:
    st.text(text[:longest])
    if len(text) > longest:
        st.markdown(f":small[:gray[{tokens(len(text) - longest)} more characters are stored and not drawn.]]")


def _image(part: ImagePart) -> None:
    """An image that came with the message is drawn; one by address is only named."""
    head, _, data = part.url.partition(";base64,")
    if head in ("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp"):
        try:
            st.image(base64.b64decode(data, validate=True), width=220)
            return
        except (binascii.Error, ValueError, OSError):
            st.markdown(":material/broken_image: An image that cannot be read")
            return
    st.markdown(":material/image: Image, not loaded")
    st.text(part.url[:200])


def _nothing_said(memory: Memory) -> None:
    st.markdown("**Nothing said yet.**")
    st.markdown("Write a message, or play a conversation. The budget fills as you go.")
    if memory.recording() is not None:
        return
    chosen = st.pills("Start with", ["Plan a trip", "Import a conversation"], label_visibility="collapsed")
    if chosen == "Plan a trip":
        _attach_trip(memory)
        st.rerun()
    elif chosen == "Import a conversation":
        import_dialog()


def _attach_trip(memory: Memory) -> None:
    memory.attach_recording(TRIP, source="Plan a trip")


def _unfinished(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    """A reply that was cut off or failed, with a way to try again."""
    left = turns.unanswered(memory, running=running is not None)
    if left is None:
        return
    if left.reason == turns.INTERRUPTED:
        st.warning("The reply was interrupted. Your message is stored.", icon=":material/refresh:")
    else:
        st.error(f"{plain(left.reason)} Your message is stored.", icon=":material/error:")
    retry = f"{left.reply}+"
    st.button(
        "Try again",
        icon=":material/refresh:",
        on_click=_start,
        args=(memory.session_id, retry, lambda job: turns.answer(job, memory, chosen.model, retry), chosen),
    )


# -- playing and writing -------------------------------------------------------------------------


def _player(memory: Memory, status: Status, recording: Recording | None, running: Job | None) -> None:
    """Step or play a recording; not drawn without one, or once it is played."""
    if recording is None or (not recording.next_turn and running is None):
        return
    playing = running is not None and running.id.startswith("play-")
    session_id = memory.session_id
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Next message",
            type="primary",
            icon=":material/skip_next:",
            disabled=running is not None or not recording.next_turn,
            on_click=_start,
            args=(
                session_id,
                f"step-{session_id}-{status.position}",
                lambda job: turns.play(job, memory, turns=1),
                chosen_model(),
            ),
        )
        if playing:
            st.button("Pause", icon=":material/pause:", on_click=_cancel, args=(session_id,))
        else:
            speed = SPEEDS[st.session_state.get("chat__speed", "1 ×")]
            st.button(
                "Play",
                icon=":material/play_arrow:",
                disabled=running is not None,
                on_click=_start,
                args=(
                    session_id,
                    f"play-{uuid.uuid4().hex}",
                    lambda job: turns.play(job, memory, turns=None, pace=speed),
                    chosen_model(),
                ),
            )
        st.selectbox(
            "Speed",
            list(SPEEDS),
            index=1,
            key="chat__speed",
            label_visibility="collapsed",
            width=92,
            disabled=running is not None,
        )
        st.markdown(f":small[{tokens(recording.played)} of {tokens(len(recording.messages))}]", width="content")


def _input(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    answering = running is not None and running.id.startswith("turn-")
    session_id = memory.session_id
    with st.container(horizontal=True, vertical_alignment="center"):
        st.chat_input(
            "Write a message",
            key="chat__input",
            max_chars=MOST_CHARACTERS,
            disabled=running is not None,
            on_submit=_send,
            args=(memory, chosen),
        )
        if answering:
            st.button("Stop", icon=":material/stop_circle:", on_click=_cancel, args=(session_id,))


def _send(memory: Memory, chosen: Chosen) -> None:
    text = str(st.session_state.get("chat__input") or "")
    if not text.strip():
        return
    turn = f"turn-{uuid.uuid4().hex}"
    _start(memory.session_id, turn, lambda job: turns.send(job, memory, chosen.model, turn, text), chosen)
    job = engine().job(memory.session_id)
    if job is None or job.id != turn:
        state.say("warning", f"Another turn is running in this session. Your message was not sent: {text[:500]}")


def _start(session_id: str, job_id: str, work: Callable[[Job], object], chosen: Chosen) -> None:
    """Start work for the session, unless something else runs for it."""
    state.show_story(session_id, None)
    engine().start(session_id, job_id, work, browser_model=chosen.pasted)


def _cancel(session_id: str) -> None:
    running = engine().running(session_id)
    if running is not None:
        running.cancel.set()


# -- the right side ------------------------------------------------------------------------------


def _budget(memory: Memory, status: Status, slot: DeltaGenerator, *, overflow: FlushPlanned | None = None) -> None:
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


def _told(memory: Memory, status: Status, slot: DeltaGenerator) -> None:
    """The story of the chosen turn, drawn into its place in the same way."""
    chosen = state.story_turn(memory.session_id)
    turn = status.turns if chosen is None else chosen
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


def _line(line: Line) -> None:
    told = plain(line.text)
    coloured = {"plain": told, "loss": f":red[{told}]", "waiting": f":orange[{told}]"}[line.tone]
    details = plain("; ".join(short(detail, DETAIL_CHARACTERS) for detail in line.details))
    if details:
        coloured += f": :gray[{details}]"
    more = "  \n".join(plain(words) for words in line.more) or None
    st.markdown(f":small[:material/{line.icon}: {coloured}]", help=more)


def _story_actions(memory: Memory, running: Job | None) -> None:
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


def _actions(memory: Memory, status: Status, running: Job | None) -> None:
    """What can be done to the queue and the blocks."""
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
        options = [f"Edit {name}" for name in static] if len(static) > 1 else []
        chosen = st.menu_button(
            "Blocks",
            [*options, "Add a block", "Remove a block"],
            key="chat__blocks",
            type="tertiary",
            format_func=plain,
            disabled=busy,
        )
    if chosen == "Add a block":
        add_dialog(session_id)
    elif chosen == "Remove a block":
        remove_dialog(session_id)
    elif chosen:
        edit_dialog(session_id, chosen.removeprefix("Edit "))


def _flush(memory: Memory, job_id: str) -> None:
    _start(memory.session_id, job_id, lambda job: memory.flush(), chosen_model())


def _retry(memory: Memory, parked: tuple[int, ...]) -> None:
    def work(job: Job) -> None:
        if parked:
            memory.retry_deliveries(parked)
        memory.deliver()

    _start(memory.session_id, f"retry-{uuid.uuid4().hex}", work, chosen_model())


def _words(memory: Memory, events: Sequence[EventRecord]) -> Words:
    """The words that these events name."""
    facts, found = {}, []
    numbers = {c[0] for record in events if isinstance(record.event, Retrieved) for c in record.event.candidates}
    for attached in memory.blocks:
        if attached.kind == "facts":
            facts.update({fact.id: fact.text for fact in memory.facts(attached.name, states=None)})
        elif attached.kind == "vector" and numbers:
            found += memory.stored_turns(attached.name, numbers=numbers)
    return Words(
        facts=facts,
        turns={turn.number: turn.turn for turn in found},
        previews={turn.number: _preview(turn.messages) for turn in found},
        due=frozenset(delivery.id for delivery in memory.deliveries(states=("pending", "parked"))),
    )


def _preview(messages: Sequence[StoredMessage]) -> str:
    return short(" ".join(message_text(messages[0].message).split()), PREVIEW_CHARACTERS)


# -- following -----------------------------------------------------------------------------------


def _follow(
    job: Job, memory: Memory, box: DeltaGenerator, budget: DeltaGenerator, told: DeltaGenerator, last_seq: int
) -> NoReturn:
    """Draw what the running job does, as it does it; then draw the page anew."""
    answering = job.id.startswith("turn-") or job.id.endswith("+")
    session_id = memory.session_id
    position, words, last_turn = -1, "", None
    bubble: DeltaGenerator | None = None
    for piece in job.follow():
        status = memory.status()
        if status.position != position:
            position = status.position
            memory.refresh()
            for stored in memory.messages(after=last_seq):
                last_seq = stored.seq
                with box:
                    if last_turn is not None and stored.turn != last_turn:
                        _told_turn(memory, last_turn)
                    last_turn = stored.turn
                    if not (answering and stored.message.role is MessageRole.ASSISTANT):
                        draw_message(stored.message)
            _told(memory, status, told)
            if status.flushes > state.seen_flushes(session_id, status.flushes):
                _show_overflow(memory, status, budget)
            state.saw_flushes(session_id, status.flushes)
            _budget(memory, status, budget)
        words += piece
        if answering:
            if bubble is None:
                with box, st.chat_message("assistant", avatar=AVATARS[MessageRole.ASSISTANT]):
                    bubble = st.empty()
            if words:
                bubble.text(words)
            else:
                bubble.markdown(f":shimmer[{plain(job.progress[-1] if job.progress else 'Starting')}]")
    if job.error is not None and not answering:
        state.say("error", job.error)
    st.rerun()


def _told_turn(memory: Memory, turn: int) -> None:
    """A finished turn in one line, as it is under the reply once the page is drawn anew."""
    told = summaries(memory.events(turn=turn, kinds=SUMMARY_KINDS))
    st.markdown(f":small[:gray[{told.get(turn, Summary()).in_short(turn)}]]")


def _show_overflow(memory: Memory, status: Status, slot: DeltaGenerator) -> None:
    """The queue as it was before the flush, for a moment: both happen in one step of the engine."""
    planned = memory.events(kinds=("flush_planned",), limit=1, newest_first=True)
    event = planned[0].event if planned else None
    if isinstance(event, FlushPlanned) and event.trigger == "over_budget":
        _budget(memory, status, slot, overflow=event)
        time.sleep(SEEN_SECONDS)


@st.fragment(run_every=2)
def _watch(session_id: str, position: int) -> None:
    """While something is due to a block, look every two seconds whether it was delivered."""
    try:
        changed = engine().open(session_id).status().position != position
    except MemoryInspectorError:
        changed = True
    if changed:
        st.rerun()
