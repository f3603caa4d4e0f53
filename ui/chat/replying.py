"""The pending end of a conversation: the reply being generated, and messages waiting to be sent.

A fragment redraws the reply as it grows, so no script run lasts as long as the reply.
"""

import streamlit as st

from memory_core import Memory, MessageRole, StoredMessage
from memory_core.agent.loop import STEP
from memory_inspector.server.chat_turns import ASKED, answers
from memory_inspector.server.engine import Waiting
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain
from ui.chat.conversation import AVATARS, draw_steps
from ui.tab.services import engine
from ui.tab.view import View

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
