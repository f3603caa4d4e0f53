"""The text of a block: its versions with differences and losses, restoring one, and rewriting a summary on demand."""

import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from memory_core import Memory, MemoryInspectorError, SummaryMemoryBlock, TextRevision
from memory_core.blocks import WITH_TEXT
from memory_core.curation.block_desks import SummaryRevision
from memory_core.engine.session import SessionBlock
from memory_core.history.change_log import maker
from memory_core.messages import content_hash
from memory_inspector.server.jobs import Job
from memory_inspector.wording.block_text import (
    Freshness,
    as_lines,
    by_whom,
    cost_line,
    freshness_line,
    lost_line,
    origin_line,
)
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from memory_inspector.wording.marked_text import MAX_LINES, difference
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, error_noticed
from ui.parts.effect import draw_effect
from ui.parts.fields import Draft, draft, forget_draft, keep_draft, open_draft
from ui.tab.model import chosen_model, services_for
from ui.tab.services import engine

NOTE_CHARACTERS = 40
"""Maximum characters of a note on who wrote a version elsewhere."""

_COMPARED = {"now": "Changed since", "before": "What it changed", "text": "Its text"}


@dialog("History", "history", side=True)
def history_dialog(session_id: str, name: str) -> None:
    """Browse the versions of a block's text, and restore one."""
    memory = engine().open(session_id)
    attached = text_block(memory, name)
    if attached is None:
        return
    revisions = memory.blocks.revisions(name)
    key = f"history_{session_id}_{name}"
    opened = draft(key, Draft(attached.record.revision), _version_key(key))
    # A version was restored: the rerun closes the dialog, so that the page shows the restored text.
    if opened.message is not None:
        forget_draft(key)
        st.rerun()
    if opened.problem is not None:
        st.error(plain(opened.problem))
    st.markdown(f"**{plain(name)}** :gray[{count(len(revisions), 'version')}]")
    draw_versions(memory, attached, revisions, key)


def draw_versions(
    memory: Memory, attached: SessionBlock, revisions: Sequence[TextRevision], key: str, box: str | None = None
) -> None:
    """Draw one version: its text, what it changed, what has changed since, and the effect of restoring it.

    `key` identifies the dialog's draft, `box` the text widget if the dialog has one.
    """
    by_number = {revision.revision: revision for revision in revisions}
    # Only the log records what a version of a summary read and lost.
    logged = {at.revision: at for at in memory.blocks.summary(attached.name).revisions()} if _sums_up(attached) else {}
    latest = attached.record.revision
    numbers = sorted(by_number, reverse=True)
    if not numbers:
        st.markdown(":gray[No text yet.]")
        return
    number = st.selectbox(
        "Version",
        numbers,
        key=_version_key(key),
        format_func=lambda n: _version(by_number[n], latest, logged.get(n)),
    )
    if number is None:
        return
    chosen, current = by_number[number], attached.state or ""
    if number in logged:
        _draw_origin(logged[number])
    if chosen.note:
        st.markdown(f":small[:gray[{plain(chosen.note)}]]")
    # An attached agent's text cannot be changed from here.
    if chosen.text != current and not memory.log.history().attached:
        st.button(
            f"Restore version {number}",
            key=f"blocks__{key}_restore",
            on_click=_restore,
            args=(memory.session_id, attached.name, number, latest, key, box),
        )
        if not chosen.text.startswith("\x01"):
            draw_effect(memory, texts={attached.name: chosen.text})
    # The newest version has no changes since.
    compared = st.segmented_control(
        "Compared",
        [mode for mode in _COMPARED if number != latest or mode != "now"],
        default="before" if number == latest else "now",
        # A key for each version, because the newest one offers other options.
        key=f"blocks__{key}_compared_{number}",
        format_func=lambda value: _COMPARED[value],
        required=True,
        label_visibility="collapsed",
    )
    lines = as_lines if _sums_up(attached) else str  # a summary is compared sentence by sentence
    older = [other for other in numbers if other < number]
    if compared == "text":
        st.text(_shown(chosen.text) or "(empty)")
    elif compared == "before":
        draw_difference(None, lines(by_number[older[0]].text) if older else "", lines(chosen.text))
    else:
        draw_difference(None, lines(chosen.text), lines(current))


def _sums_up(attached: SessionBlock) -> bool:
    return isinstance(attached.block, SummaryMemoryBlock)


def _draw_origin(revision: SummaryRevision) -> None:
    """Draw the origin of a summary's version, and what it lost."""
    for line in (origin_line(revision), lost_line(revision.lost)):
        if line:
            st.markdown(f":small[{line}]")


def _version(revision: TextRevision, latest: int, summary: SummaryRevision | None = None) -> str:
    now, at = ", now" if revision.revision == latest else "", ago(revision.at, time.time())
    if revision.note:  # written elsewhere, in no turn of this session
        return f"{revision.revision}{now} · {at} · {short(revision.note, NOTE_CHARACTERS)}"
    when = f"turn {tokens(revision.turn)}" if revision.turn else "at the start"
    written = "from Python" if revision.actor == "engine" else f"by {maker(revision.actor, revision.person)}"
    who = by_whom(summary) if summary is not None else written
    return f"{revision.revision}{now} · {when} · {who} · {at}"


def draw_difference(title: str | None, before: str, after: str) -> None:
    if title:
        st.markdown(f":small[**{title}**]")
    changes = difference(_shown(before), _shown(after))
    if changes is None:
        st.markdown(f":small[:gray[Texts of more than {tokens(MAX_LINES)} lines are not compared.]]")
    elif changes:
        st.code(changes, language="diff", wrap_lines=True)
    else:
        st.markdown(":small[:gray[No difference.]]")


def _shown(text: str) -> str:
    return "(images or files)" if text.startswith("\x01") else text


def restore(session_id: str, name: str, earlier: int, revision: int) -> int:
    """Restore an earlier version unless the block was changed since `revision`; return the new revision."""
    return engine().open(session_id).blocks.restore(name, earlier, revision=revision)


def _restore(session_id: str, name: str, earlier: int, revision: int, key: str, box: str | None) -> None:
    try:
        stored = {version.revision: version.text for version in engine().open(session_id).blocks.revisions(name)}
        restored = restore(session_id, name, earlier, revision)
    except MemoryInspectorError as error:
        keep_draft(key, replace(open_draft(key) or Draft(revision), problem=str(error), message=None))
        return
    sentence = f"Restored version {earlier} of {short(name)}."
    # Unsaved text in the dialog is kept, and offered again beside the restored text.
    typed = None if box is None else str(st.session_state.get(box, ""))
    keep_draft(key, Draft(restored, message=sentence, mine=None if typed == stored.get(revision) else typed))
    if box is not None:
        st.session_state[box] = stored[earlier]
    st.session_state[_version_key(key)] = restored
    toasts.done(sentence, undo=partial(restore, session_id, name, revision, restored))


def _version_key(key: str) -> str:
    return f"blocks__{key}_version"


def text_block(memory: Memory, name: str) -> SessionBlock | None:
    """The block if it exists and has a text; otherwise shows a message and returns None."""
    attached = next((block for block in memory.blocks if block.name == name), None)
    if attached is None:
        st.warning("This block was removed elsewhere.")
    elif attached.kind not in WITH_TEXT:
        st.info("The contents of this block are learned and cannot be edited.")
        return None
    return attached


# -- rewriting a summary: the dialog shows what would be read, then a job does the work -----------


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
