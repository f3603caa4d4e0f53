"""The conversation on screen: messages as plain text, and one summary line per turn.

Nothing in a message is fetched or run.
"""

import base64
import binascii
from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core import (
    ChatMessage,
    FilePart,
    ImagePart,
    Memory,
    MessageRole,
    StoredMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from memory_core.agent.loop import STEP
from memory_core.events import Ref, SessionImported
from memory_core.models.offline.responder import NAME
from memory_inspector.server.chat_turns import ASKED, answers
from memory_inspector.server.engine import TRIP, Waiting
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.story import TurnLine, summaries
from memory_inspector.wording.tool_call_text import Told, chat_line, pretty_json
from ui.parts.components import heading
from ui.sessions.connect import draw_card
from ui.tab import nav, state
from ui.tab.people import obstacle
from ui.tab.services import engine
from ui.tab.view import View

SHOWN_MESSAGES = 40
"""Number of messages drawn initially; a thousand would take seconds."""

AVATARS = {
    MessageRole.USER: ":material/person:",
    MessageRole.ASSISTANT: ":material/neurology:",
    MessageRole.SYSTEM: ":material/settings:",
    MessageRole.TOOL: ":material/build:",
}

_ASKED_AGAIN = state.ByPlace("chat_asked_again", 0)
"""Number of the turn below which the form to ask again is open, by session; 0 if none."""

SUMMARY_KINDS = ("flush_planned", "fact_added", "relation_added", "context_built", "tool_called")


def draw_conversation(box: DeltaGenerator, view: View, *, ending: Callable[[], None]) -> None:
    """Draw the newest messages at this moment; `ending` draws pending messages, above the last turn's line.

    A message that was just sent appears as soon as it is stored, before its turn has a prompt.
    """
    memory, replying = view.memory, view.running is not None and answers(view.running)
    # The message that is being answered shows at once, before its turn has a prompt.
    upto = None if replying and not view.past else view.last_seq
    messages = memory.session.messages(last=SHOWN_MESSAGES + state.earlier_messages(), upto=upto)
    reply = view.running.id if replying and view.running else None
    # What the running reply stored so far is drawn by `ending`, as it grows.
    messages = [stored for stored in messages if reply is None or not stored.id.startswith(f"{reply}{STEP}")]
    with box:
        if not messages:
            _nothing_said(memory, read_only=view.read_only is not None)
            ending()
            return
        if (before := messages[0].seq - 1) > 0:
            st.button(
                f"Show earlier ({tokens(before)} more)",
                key="chat__earlier",
                type="tertiary",
                icon=":material/expand_less:",
                on_click=lambda: state.show_earlier(state.earlier_messages() + SHOWN_MESSAGES),
            )
        # Only the kinds that a summary names, of the turns on screen: a log may have 100,000 events.
        events = memory.events(kinds=SUMMARY_KINDS, from_turn=messages[0].turn)
        # Events after this moment must not show in a summary of the past.
        lines_by_turn = summaries([record for record in events if record.position <= view.position])
        groups, withheld = spoken_together(messages), memory.session.withheld().seqs(memory.session_id)
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            draw_group(group)
            if not withheld.isdisjoint(stored.seq for stored in group):
                nav.follow_link(Ref.of("message", group[-1].seq), ":small[:orange[In quarantine]]")
            turn = group[-1].turn
            if following is None:
                ending()
            if 0 < turn <= view.shown_turn and (following is None or following[0].turn != turn):
                answered = group[-1].message.role is MessageRole.ASSISTANT
                summary = lines_by_turn.get(turn, TurnLine())
                # Only the turn shown offers to ask again: below every answer, the button would disturb reading.
                _turn_line(view, turn, summary, asks_again=answered and turn == view.shown_turn)


def _turn_line(view: View, turn: int, summary: TurnLine, *, asks_again: bool) -> None:
    """Draw the summary line of a turn; `asks_again` adds the button to ask again without an item of its prompt."""
    session_id, past = view.memory.session_id, view.history.turns.get(turn)
    opened = _ASKED_AGAIN.at(session_id) == turn
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            f":small[:gray[{summary.in_short(turn)}]]",
            type="tertiary",
            key=f"chat__turn_{turn}",
            on_click=state.show_turn,
            args=(None if turn == view.latest_turn else turn,),
            help="Look at this turn on every page",
            wrap=True,
        )
        if asks_again and past is not None and past.built is not None:
            st.button(
                ":small[:gray[Close]]" if opened else ":small[:gray[Did memory matter?]]",
                type="tertiary",
                key=f"chat__again_{turn}",
                icon=":material/close:" if opened else ":material/balance:",
                on_click=_ASKED_AGAIN.put,
                args=(session_id, 0 if opened else turn),
                help="Ask this turn's question again with one item of the prompt left out or reworded",
            )
    if opened and asks_again and past is not None and past.built is not None:
        from ui.context.ablation import draw_form  # here, as the first page is drawn without it

        with st.container(border=True, key="chat__matter"):
            draw_form(view, view.memory.log.prompt(past.built))


def is_step(stored: StoredMessage) -> bool:
    """Tell whether a message is a call of a memory tool, or its result."""
    return STEP in stored.id and stored.message.role in (MessageRole.ASSISTANT, MessageRole.TOOL)


def spoken_together(messages: Sequence[StoredMessage]) -> list[list[StoredMessage]]:
    """Group messages into bubbles: an agent's tool calls and its following reply share one."""
    groups: list[list[StoredMessage]] = []
    for stored in messages:
        if not groups and is_step(stored) and stored.message.role is MessageRole.TOOL:
            continue  # its call is above the first message drawn
        last = groups[-1][-1] if groups else None
        joins = last is not None and is_step(last) and last.turn == stored.turn
        if joins and (is_step(stored) or stored.message.role is MessageRole.ASSISTANT):
            groups[-1].append(stored)
        else:
            groups.append([stored])
    return groups


def draw_group(group: Sequence[StoredMessage]) -> None:
    """Draw one bubble."""
    if not is_step(group[0]):
        draw_message(group[0])
        return
    with st.chat_message("assistant", avatar=AVATARS[MessageRole.ASSISTANT]):
        draw_steps([stored for stored in group if is_step(stored)])
        for stored in group:
            if not is_step(stored):
                with _spoken(stored):
                    _parts(stored)


def draw_steps(steps: Sequence[StoredMessage]) -> None:
    """Draw the agent's words before its tool calls, and one line per call."""
    # A call and its result are two messages; on screen they are one line.
    # By the id of the call: results may come in another order than the calls.
    results = {stored.message.tool_call_id: stored.message for stored in steps}
    called = {call.tool_call_id for stored in steps for call in stored.message.tool_calls}
    # Gemini's calls have no id, and their results the agent's: they are paired by their order.
    unnamed = iter([result for id, result in results.items() if result.role is MessageRole.TOOL and id not in called])
    for stored in steps:
        message = stored.message
        if message.role is MessageRole.TOOL:
            continue
        if message.content:
            draw_text(message.content, str(stored.seq))
        lines = [
            _call_line(call, results.get(call.tool_call_id) if call.tool_call_id else next(unnamed, None))
            for call in message.tool_calls
        ]
        with st.container(gap="xxsmall"):
            for line in lines:
                colour = "orange" if line.refused else "gray"
                st.markdown(f":small[:{colour}[:material/{line.icon}: {plain(line.text)}]]")
            if message.additional_kwargs.get("model") == NAME:
                edited = any(line.wrote for line in lines)
                st.markdown(f":small[:gray[{'Edited by' if edited else 'By'} rules, not by a model]]")


def _call_line(call: ToolCallPart, result: ChatMessage | None) -> Told:
    arguments = call.tool_kwargs if isinstance(call.tool_kwargs, dict) else {}
    refused = result is not None and bool(result.additional_kwargs.get("is_error"))
    return chat_line(call.tool_name, arguments, result.content if result else None, refused=refused)


def draw_message(stored: StoredMessage) -> None:
    """Draw one message: its words as plain text, its other parts by name. Nothing in it is fetched or run."""
    role = stored.message.role
    with st.chat_message(str(role), avatar=AVATARS[role]), _spoken(stored):
        _parts(stored)


def _spoken(stored: StoredMessage) -> DeltaGenerator:
    """Return the container of one message; static/keys.js reads from its key which message *Follow* means."""
    return st.container(key=f"chat__said_{stored.seq}")


def _parts(stored: StoredMessage) -> None:
    message = stored.message
    spoken = message.role in (MessageRole.USER, MessageRole.ASSISTANT)
    for place, part in enumerate(message.parts):
        key = f"{stored.seq}_{place}"
        if isinstance(part, TextPart):
            if spoken or not draw_data("Result" if message.role is MessageRole.TOOL else "Data", part.text, key):
                draw_text(part.text, key, LONGEST_SHOWN if spoken else LONGEST_ASIDE)
        elif isinstance(part, ThinkingPart):
            st.markdown(":small[:gray[Thought]]")
            draw_text(part.text, key)
        elif isinstance(part, ToolCallPart):
            st.markdown(f":material/build: {plain(short(part.tool_name, 60))}")
            if not draw_data("Arguments", part.arguments, key):
                draw_text(part.arguments, key)
        elif isinstance(part, ImagePart):
            _image(part)
        elif isinstance(part, FilePart):
            st.markdown(f":material/attach_file: {plain(part.type)}")
            draw_text(part.title or part.url[:80], key)
    if not message.parts:
        st.markdown(":small[:gray[No text]]")


def _image(part: ImagePart) -> None:
    """Draw an image contained in the message; one given by URL is only named."""
    head, _, data = part.url.partition(";base64,")
    # Only these types are drawn as images: SVG, for one, may hold scripts.
    if head in ("data:image/png", "data:image/jpeg", "data:image/gif", "data:image/webp"):
        try:
            st.image(base64.b64decode(data, validate=True), width=220)
            return
        except (binascii.Error, ValueError, OSError):
            st.markdown(":material/broken_image: An image that cannot be read")
            return
    st.markdown(":material/image: Image, not loaded")
    st.text(part.url[:200])


def _nothing_said(memory: Memory, *, read_only: bool) -> None:
    heading("Nothing said yet.")
    if read_only:
        return
    st.markdown("Write a message, or play a conversation. The budget fills as you go.")
    # A session with a recording has its player, and needs no other start.
    if memory.session.recording() is not None:
        return
    if obstacle(SessionImported):  # one of several pills cannot be disabled
        draw_card(memory.session_id)
        return
    chosen = st.pills("Start with", ["Plan a trip", "Import a conversation"], label_visibility="collapsed")
    if chosen == "Plan a trip":
        _attach_trip(memory)
        st.rerun()
    elif chosen == "Import a conversation":
        from ui.sessions.session_files import import_dialog  # imports every file format: too slow for the first page

        import_dialog()
    draw_card(memory.session_id)


def _attach_trip(memory: Memory) -> None:
    memory.session.attach_recording(TRIP, source="Plan a trip")


# -- message texts on screen ----------------------------------------------------------------------


LONGEST_SHOWN = 4_000
LONGEST_ASIDE = 600
"""Characters of a message drawn initially; `LONGEST_ASIDE` applies to system messages and tool results."""

LONGEST_COLOURED = 20_000
"""Maximum characters of highlighted JSON; a browser takes seconds to highlight more."""

PREVIEW_CHARACTERS = 60


def draw_text(text: str, key: str, longest: int = LONGEST_SHOWN) -> None:
    """Draw a text as plain text, shortened at first; `key` identifies it within the conversation."""
    more = len(text) - longest
    # The page redraws for each new event, and must not close what was opened.
    whole = more > 0 and state.whole(key)
    st.text(text if whole or more <= 0 else text[:longest])
    if more > 0:
        st.button(
            "Show less" if whole else f"Show all ({tokens(more)} more characters)",
            key=f"chat__whole_{key}",
            type="tertiary",
            icon=":material/unfold_less:" if whole else ":material/unfold_more:",
            on_click=state.show_whole,
            args=(key, not whole),
        )


def draw_data(says: str, text: str, key: str) -> bool:
    """Draw JSON in an expander labelled with its beginning; False if the text is not JSON."""
    pretty = pretty_json(text)
    if pretty is None:
        return False
    begins = plain(short(" ".join(text.split()), PREVIEW_CHARACTERS))
    # JSON is not formatted before somebody opens it.
    box = st.expander(f":small[{says}: {begins}]", key=f"chat__data_{key}", on_change="rerun", type="compact")
    if box.open:
        box.code(pretty, language="json" if len(pretty) <= LONGEST_COLOURED else None, wrap_lines=True)
    return True


# -- the pending end of a conversation ------------------------------------------------------------


DRAW_SECONDS = 0.1
"""Interval, in seconds, between redraws of a growing reply."""


def draw_coming(view: View) -> None:
    """Draw the message that was just sent, its reply so far, and the messages that wait."""
    shared, session_id, job = engine(), view.memory.session_id, view.running
    sending = shared.sending(session_id)
    # The message is drawn from memory until it is stored, then by the conversation.
    if sending is not None and not _stored(view.memory, sending):
        with st.chat_message("user", avatar=AVATARS[MessageRole.USER]):
            st.text(sending.text)
    if job is not None and answers(job):
        _draw_reply(view.memory, job)
    for message in shared.waiting(session_id):
        with st.chat_message("user", avatar=AVATARS[MessageRole.USER]):
            st.text(message.text)
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(":small[:gray[Not sent yet: it is sent when the turn above is done.]]", width="content")
                st.button(
                    ":small[Take back]",
                    key=f"chat__withdraw_{message.job_id}",
                    type="tertiary",
                    on_click=shared.withdraw,
                    args=(session_id, message.job_id),
                )


def _stored(memory: Memory, sending: Waiting) -> bool:
    return any(stored.id == sending.job_id + ASKED for stored in memory.session.messages(role=MessageRole.USER, last=2))


def _draw_reply(memory: Memory, job: Job) -> None:
    # Only messages after the last question can belong to this reply.
    asked = memory.session.messages(role=MessageRole.USER, last=1)
    after = asked[-1].seq if asked else 0

    def draw() -> None:
        steps = [stored for stored in memory.session.messages(after=after) if stored.id.startswith(f"{job.id}{STEP}")]
        # The job's text is the whole reply; the part stored with tool calls is drawn with the calls.
        words = job.text[_reply_text(steps) :]
        with st.chat_message("assistant", avatar=AVATARS[MessageRole.ASSISTANT]):
            draw_steps(steps)
            if words.strip():
                st.text(words)
            else:
                st.markdown(f":shimmer[{plain(job.progress[-1] if job.progress else 'Starting')}]")

    st.fragment(draw, run_every=DRAW_SECONDS)()


def _reply_text(steps: list[StoredMessage]) -> int:
    """Length in characters of the reply's text that was stored with tool calls, and is therefore drawn with them."""
    return sum(len(stored.message.content or "") for stored in steps if stored.message.role is MessageRole.ASSISTANT)
