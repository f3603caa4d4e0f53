"""The Chat page of one session: the conversation on the left, its effects on memory on the right.

A turn runs as a job that this page only observes: drawing starts nothing, and leaving the page stops nothing.
"""

import uuid
from collections.abc import Iterable
from dataclasses import replace

import streamlit as st

from memory_core import ConfigError, Memory, Status
from memory_core.events import ContextBuilt, FlushPlanned, expand
from memory_inspector.figures.budget_lanes import lanes_of, queue_sentence
from memory_inspector.server.jobs import Job
from memory_inspector.wording.event_sentences import KNOWN, Line
from memory_inspector.wording.event_sentences.event_words import words_in_log
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.story import STORY_KINDS, story
from memory_inspector.wording.terms import marked
from ui.blocks.editor import edit_dialog
from ui.chat.conversation import draw_coming, draw_conversation
from ui.chat.guide import draw_guide
from ui.chat.player import draw_failed, draw_input, draw_no_input, draw_player, draw_unfinished, held, start
from ui.parts.budget_card import Shown, draw_budget
from ui.parts.components import filled, heading, unseen_heading
from ui.parts.flushing import flush_dialog
from ui.tab import nav
from ui.tab.model import Chosen, chosen_model
from ui.tab.view import View

ABOVE, SCRUBBER, GUIDE, PLAYER, STOP, AGENT, INPUT = 127, 49, 78, 54, 37, 56, 102
"""Pixels of the window reserved for the header, and for each other element that is drawn, so that player and input
stay above the fold."""

NARROW = 150
"""Additional pixels that header, guide and player take on a phone, where they wrap."""

MARGIN = 32
"""Pixels below the conversation if nothing else is drawn there."""

LOWEST = 220
"""Minimum height of the conversation, in pixels."""


def draw(view: View) -> None:
    """Draw the page of one session, at its latest turn or read-only at an earlier moment."""
    chosen: Chosen | None = None
    try:
        chosen = chosen_model()
    except ConfigError as error:
        st.error(plain(str(error)))
    memory, running, read_only = view.memory, view.running, view.read_only
    # The input stays, disabled, where an agent writes, and for a viewer.
    agents = read_only is not None and read_only.because in ("agent", "role")
    recording = memory.session.recording(upto=view.last_seq)
    conversation_column, memory_column = st.columns([0.58, 0.42], gap="medium")
    with conversation_column:
        with (
            st.container()
        ):  # always drawn, so that what follows keeps its place, and the conversation its scroll position
            guided = not read_only and draw_guide(view, recording)
        above = ABOVE + SCRUBBER * bool(view.latest_turn) + GUIDE * guided
        unseen_heading("Conversation")
        beside = {
            PLAYER: recording is not None and not read_only,
            STOP: not read_only and held(view) is not None,
            AGENT: agents,
        }
        below = INPUT if agents or not read_only else MARGIN
        minus = above + sum(pixels for pixels, shown in beside.items() if shown) + below
        box = filled("chat__box", minus=minus, least=LOWEST, narrow=NARROW, border=True, autoscroll=True, gap="xsmall")

        def coming() -> None:
            if not view.past:
                draw_coming(view)

        draw_conversation(box, view, ending=coming)
        if not read_only and chosen is not None:
            with box, st.empty().container(gap="xsmall"):  # keeps its place when empty, so that it disappears at once
                draw_unfinished(memory, chosen, running)
            with st.container():  # always drawn, so that the input below keeps the words being typed
                draw_failed(view)
                draw_player(view, recording)
            draw_input(memory, chosen, running)
        elif agents and read_only is not None:
            draw_no_input(read_only)
    with memory_column:
        with st.container(border=True, gap="xsmall", key="chat__budget"):
            _draw_prompt(view)
        # Below the budget, which keeps its place while the story grows.
        with st.container(border=True, gap="xsmall", key="chat__story"):
            _draw_story(view)
            if not read_only:
                _draw_story_actions(memory, running)
                _draw_actions(memory, view.status, running)


# -- the right side: the budget of the last prompt, the story of a turn, and the actions ----------


DETAIL_CHARACTERS = 60


def _draw_prompt(view: View) -> None:
    """Draw the budget of the newest prompt at this moment, and the queue at this moment."""
    built = view.then.built if view.then else None
    # A turn without a prompt of its own, such as an imported one, shows the last one before it.
    if built is None:
        built = next((r for r in reversed(view.history.upto(view.position)) if isinstance(r.event, ContextBuilt)), None)
    event = built.event if built and isinstance(built.event, ContextBuilt) else None
    attachment = view.history.attachment
    # A store that was opened from its file has no prompts at all.
    if attachment is not None and attachment.source == "file":
        _draw_store(view)
        return
    if attachment is not None:
        _draw_seen(event)
        return
    kinds = view.history.kinds(built.position) if built else {}
    lanes = replace(
        lanes_of(view.status_then, event, kinds),
        queue_name="Queue then" if view.past else "Queue now",
        sent_name="Last sent" if built is not None and built.turn < view.shown_turn else "Sent",
    )
    of_turn = f" of turn {tokens(built.turn)}" if built and event else ""
    flushes = {
        record.position: record.event.queue_before
        for record in (view.then.flushes if view.then else ())
        if isinstance(record.event, FlushPlanned)
    }
    # The whole log: while a recording is played, the view's own ends with the moment that is shown.
    following = view.memory.log.history().after(view.position)[:1]
    leaving = any(record.kind == FlushPlanned.kind for record in following)
    shown = Shown(view.memory.session_id, view.position, lanes)
    draw_budget(shown, queue_sentence(view.status_then, leaving=leaving), of_turn, flushes)


def _draw_store(view: View) -> None:
    """Draw the size of the queue and of the archive of an opened store, which has no prompts."""
    heading("In the store")
    now = view.status_then
    st.markdown(
        f"**{tokens(now.queue_tokens)} tokens** in {count(now.queue_messages, 'message')} of the queue, "
        f"{count(now.archived_messages, 'message')} archived."
    )


def _draw_seen(event: ContextBuilt | None) -> None:
    """Draw the size of an attached agent's prompt; its limit and its queue are not known here."""
    heading("Prompt")
    if event is None:
        st.markdown(":small[:gray[No prompt seen yet.]]")
        return
    pinned, queue = (len(expand(spans)) for spans in (event.pinned, event.queue))
    system = f", including {count(pinned, 'system message')} in front" if pinned else ""
    st.markdown(
        f"**{tokens(event.total)} tokens** in {count(pinned + queue, 'message')}{system}, {KNOWN[event.known]}."
    )


def _draw_story(view: View) -> None:
    """Draw what memory did in the shown turn, up to this moment: the card grows with its story."""
    memory, turn = view.memory, view.shown_turn
    if not turn:
        heading("What memory did", "\n:small[:gray[Nothing yet. Every turn is described here.]]")
        return
    # Up to this moment: inside a turn, later events have not happened yet.
    events = [r for r in memory.events(turn=turn, kinds=STORY_KINDS) if r.position <= view.position]
    revealed = view.reveal.lines if view.reveal is not None and view.turn is None else None
    lines = story(events, words_in_log(memory, events))[:revealed]
    built = view.then is not None and view.then.built is not None
    heading(f"What memory did in turn {tokens(turn)}")
    with st.container(key="chat__lines", gap="xxsmall"):
        if not lines and not view.attached:
            quiet = "Nothing left the queue, and nothing had to be cut."
            if view.reveal is not None and not built:
                quiet = "The message is in the queue. Its prompt is not built yet."
            st.markdown(f":small[:gray[{quiet}]]")
        names = view.history.kinds(view.position)
        for number, line in enumerate(lines):
            _line(line, names, memory.session_id, number)
        if built:
            nav.link("context", f":small[See the prompt of turn {tokens(turn)}]", icon="")


def _line(line: Line, names: Iterable[str], session_id: str, number: int) -> None:
    sentence = marked(line.text, names=names)
    coloured = {"plain": sentence, "loss": f":red[{sentence}]", "waiting": f":orange[{sentence}]"}[line.tone]
    details = plain("; ".join(short(detail, DETAIL_CHARACTERS) for detail in line.details))
    if details:
        coloured += f": :gray[{details}]"
    more = "  \n".join(plain(words) for words in line.more) or None
    st.markdown(f":small[:material/{line.icon}: {coloured}]", help=more)
    if line.rewrites and st.button(":small[See Rewrites]", type="tertiary", key=f"chat__rewrites_{number}"):
        from ui.facts import fact_tab  # here, as the first page is drawn without it

        fact_tab.change((session_id, line.rewrites), view="rewrites")
        fact_tab.redraw((session_id, line.rewrites))
        nav.go("facts", turn=None)


def _draw_story_actions(memory: Memory, running: Job | None) -> None:
    """Draw the button that retries failed or waiting deliveries."""
    # Blocks that only the agent's own model can fill: trying here would not help.
    elsewhere = {block.name for block in memory.blocks if block.waits_for(memory.session.services) is not None}
    due = [
        due_delivery
        for due_delivery in memory.session.deliveries(states=("parked", "pending"))
        if due_delivery.block not in elsewhere
    ]
    # Given up: these have to be made pending again before a try.
    parked = tuple(delivery.id for delivery in due if delivery.state == "parked")
    if running is None and due:
        st.button(
            "Try now",
            icon=":material/refresh:",
            type="tertiary",
            on_click=_retry,
            args=(memory, parked),
            help="Attempt the waiting deliveries at once",
        )


def _draw_actions(memory: Memory, status: Status, running: Job | None) -> None:
    """Draw the actions on the queue and the fixed texts; all other actions are on the Blocks page."""
    session_id, busy = memory.session_id, running is not None
    static = [attached.name for attached in memory.blocks if attached.kind == "static"]
    with st.container(horizontal=True, gap="small"):
        if st.button(
            "Flush now",
            type="tertiary",
            icon=":material/keyboard_tab:",
            key="chat__flush",
            disabled=busy or status.queue_messages == 0,
            help="Move one batch out of the queue by the usual rules; what would leave is shown first",
        ):
            flush_dialog(session_id)
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


def _retry(memory: Memory, parked: tuple[int, ...]) -> None:
    def work(job: Job) -> None:
        if parked:
            memory.session.retry(parked)
        memory.deliver()

    start(memory.session_id, f"retry-{uuid.uuid4().hex}", work, chosen_model())
