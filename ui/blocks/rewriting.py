"""Rewriting a summary on demand: the dialog shows what would be read, then a job does the work."""

import uuid

import streamlit as st

from memory_core import Memory
from memory_core.messages import content_hash
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.summary_text import Freshness, cost_line, freshness_line
from ui.parts.components import closing_buttons, dialog, error_noticed
from ui.tab.model import chosen_model, services_for
from ui.tab.services import engine

REWRITE = "Rewrite now"
"""Label in a block's menu, and on the button that starts rewriting."""

_SOURCES = {"text": "Its own text", "messages": "The messages it summarises"}


@dialog("Rewrite the summary", "autorenew", side=True)
def rewrite_dialog(session_id: str, name: str) -> None:
    """Ask for the source and show the cost; nothing happens before the button is pressed."""
    chosen = chosen_model()
    memory = engine().open(session_id, services_for(chosen))
    # The dialog is redrawn by itself, and the block can be gone by then.
    if name not in [attached.name for attached in memory.blocks]:
        st.warning("This block was removed elsewhere.")
        return
    desk = memory.blocks.summary(name)
    now, writer = desk.state(), desk.summariser
    st.markdown(f"**{plain(name)}** :gray[{tokens(now.tokens)} of {tokens(now.max_tokens)} tokens]")
    st.markdown(f":small[:gray[{freshness_line(Freshness(now.covers_turn, now.latest_turn))}.]]")
    source = st.segmented_control(
        "Source",
        list(_SOURCES),
        # Rules make the same of the same text; from the messages they begin anew.
        default="messages" if writer.offline else "text",
        key=f"blocks__rewrite_{session_id}_{name}_source",
        format_func=lambda value: _SOURCES[value],
        required=True,
    )
    from_messages = source == "messages"
    # What would be read is said before anything is paid for.
    messages, size = desk.rewrite_cost(from_messages)
    possible = bool(messages) if from_messages else bool(now.text)
    if not possible:
        st.info("It has received no message yet." if from_messages else "It is empty: there is nothing to rewrite.")
    else:
        model = None if writer.offline else writer.name
        st.markdown(cost_line(messages, size, model))
        if not from_messages and writer.offline and not now.over:
            st.markdown(":small[:gray[The rules write the same text again as long as it fits.]]")
    # Only one job runs for a session: a second would be answered with the first, and do nothing.
    if engine().running(session_id) is not None:
        st.info("Other work is running for this session. Rewrite the summary when it has finished.")
        possible = False
    st.markdown(":small[:gray[The current text stays in the history. If rewriting fails, it remains in use.]]")
    closing_buttons(
        REWRITE,
        _rewrite,
        (session_id, name, from_messages),
        disabled=not possible,
        keys=("blocks__rewrite_now", "blocks__rewrite_leave"),
    )


def rewriting(session_id: str, name: str) -> str | None:
    """Status of the last rewrite requested here: running, or why it failed; None otherwise."""
    job = engine().job(session_id)
    if job is None or not job.id.startswith(_begin(name)):
        return None
    if not job.done:
        return ":orange[:material/autorenew: Rewriting. The former text stays until it is done.]"
    problem = job.error
    if problem is None:
        return None
    return f":red[:material/error: Could not be rewritten: {plain(short(problem, 240))}]"


@error_noticed
def _rewrite(session_id: str, name: str, from_messages: bool) -> None:
    chosen = chosen_model()
    memory = engine().open(session_id, services_for(chosen))
    # A removed block is reported now, and not by a job that fails.
    memory.blocks.summary(name)
    engine().start(
        session_id,
        # A new id each time, as a job that succeeded is not run again under its id.
        f"{_begin(name)}{uuid.uuid4().hex}",
        lambda job: rewrite(job, memory, name, from_messages),
        browser_model=chosen.pasted,
    )


def rewrite(job: Job, memory: Memory, name: str, from_messages: bool) -> None:
    """Rewrite a summary; the work of the job.

    Raises:
        ModelError: the model failed; the former text stays.
    """
    job.add_progress("Rewriting the summary")
    memory.blocks.summary(name).rewrite(from_messages)


def _begin(name: str) -> str:
    # Hashed, because names can begin alike, and the id is compared by its beginning.
    return f"rewrite-{content_hash(name)}-"
