"""Flushing by hand: preview what would leave the queue, flush, and report what came of it."""

import streamlit as st

from memory_core import Memory
from memory_core.messages import message_text
from memory_core.planning.flush import FlushPlan
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.terms import HELP
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, drawer_actions, error_noticed, more_line
from ui.parts.facts_limit import draw_limits
from ui.tab import state
from ui.tab.model import Chosen, chosen_model, services_for
from ui.tab.services import engine
from ui.tab.view import View

MESSAGES_SHOWN = 8
_JOB = "flush-"

_STARTED = state.ByPlace[Job | None]("flush_started", None)
"""The flush that this tab started and has not reported, by session."""

WORDS_SHOWN = 70
"""Characters shown of each message that would leave."""


@dialog("Flush now", "keyboard_tab", side=True)
def flush_dialog(session_id: str) -> None:
    """Show what one flush would move out of the queue, the receiving blocks, and the button that does it."""
    memory = engine().open(session_id)
    # The plan is that of the engine's own planner, asked to flush now, whatever the limits say.
    status, plan = memory.session.status(), memory.preview.flush()
    if not plan:
        st.markdown("Nothing to flush: the queue holds only the newest turn.")
        return
    st.markdown(
        f"**{count(len(plan.leave), 'message')}, {count(plan.tokens, 'token')}** would leave the queue; "
        f"{tokens(plan.tokens_left)} stay.",
        help=HELP["flush"],
    )
    st.markdown(f":small[{handed_to(memory)}]")
    for speaker, beginning in _leaving(memory, plan):
        st.markdown(f":small[:gray[{speaker}:] {plain(beginning)}]")
    more_line(len(plan.leave) - MESSAGES_SHOWN)
    # A flush can make a facts block condense its list: said before the click, not after it.
    draw_limits(memory, key="flushing")
    st.markdown(":small[A flush cannot be undone. The messages stay in the archive.]")
    closing_buttons(
        f"Flush {count(len(plan.leave), 'message')}",
        _flush,
        (session_id, status.position),
        row=drawer_actions("flush"),
        disabled=engine().running(session_id) is not None,
        keys=("flushing__flush", "flushing__cancel"),
    )


_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}


def handed_to(memory: Memory) -> str:
    """Return a sentence on the blocks that receive the flushed messages, as markdown."""
    # Blocks that are served at other times, such as after each turn, receive nothing at a flush.
    names = [plain(short(block.name)) for block in memory.blocks if block.learns and block.deliver_on == "flush"]
    if not names:
        return "No block receives them: they stay in the archive, and reach no prompt again."
    return f"They are handed to {' and '.join((', '.join(names[:-1]), names[-1]) if len(names) > 1 else names)}."


def _leaving(memory: Memory, plan: FlushPlan) -> list[tuple[str, str]]:
    """Speaker and beginning of each of the first messages that would leave."""
    # The plan knows numbers and sizes only: the words are read for those that are shown.
    seqs = {message.seq for message in plan.leave[:MESSAGES_SHOWN]}
    going = [message.message for message in memory.session.messages(status="active") if message.seq in seqs]
    words = [short(" ".join(message_text(message).split()), WORDS_SHOWN) or "no text" for message in going]
    return [(_SPEAKERS.get(str(message.role), "Other"), text) for message, text in zip(going, words, strict=True)]


def start_flush(memory: Memory, position: int, model: Chosen) -> None:
    """Flush one batch as a job; `position`: log position that the person saw. For callbacks."""

    def work(job: Job) -> None:
        job.add_progress(f"Learning from what leaves the queue. {handed_to(memory)}")
        receipt = memory.flush()
        plan = receipt.flushed
        moved = f"{count(len(plan.leave), 'message')}, {count(plan.tokens, 'token')}" if plan else "nothing"
        job.add_text(f"Flushed {moved}.")
        # Without an error a block is only slower than the flush waits: no failure, and no success yet.
        if slow := [short(name) for name in receipt.waiting if receipt.served[name].error is None]:
            job.add_text(f" Not yet delivered to {', '.join(slow)}.")
        failures = [f"{short(name)}: {served.error}" for name, served in receipt.served.items() if served.error]
        job.problem = " ".join(["Not delivered to every block.", *failures]) if failures else None

    # Session and position make the job's id: a second click, or another tab, joins the same flush.
    job_id = f"{_JOB}{memory.session_id}-{position}"
    job = engine().start(memory.session_id, job_id, work, browser_model=model.pasted)
    if job.id == job_id:
        _STARTED.put(memory.session_id, job)
    else:
        state.say("warning", "Something else runs in this session. Nothing was flushed: try again when it has ended.")


def look(view: View) -> None:
    """Draw the progress of a running flush, and report in a toast how one that this tab started has ended."""
    session_id = view.memory.session_id
    if view.running is not None and view.running.id.startswith(_JOB):
        line = view.running.progress[-1] if view.running.progress else "Waiting to flush"
        st.markdown(f":small[:shimmer[{line}]]")
    started = _STARTED.at(session_id)
    if started is None or not started.done:
        return
    _STARTED.put(session_id, None)
    if started.error is not None:
        toasts.warn(f"The flush failed: {started.error}")
    elif started.problem is not None:
        toasts.warn(f"{started.text} {started.problem}")
    else:
        toasts.done(started.text)


@error_noticed
def _flush(session_id: str, position: int) -> None:
    chosen = chosen_model()
    memory = engine().open(session_id, services_for(chosen))
    # Another message may leave by now than those that were shown.
    if memory.session.status().position != position:
        state.say("warning", "The session changed meanwhile. Nothing was flushed: check again.")
        return
    start_flush(memory, position, chosen)
