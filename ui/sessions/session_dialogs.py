"""Dialogs that create, rename, branch, reset and delete a session.

What takes a while is followed to its end. Closing the dialog meanwhile changes nothing: the session is listed when it
is done, and playback in it continues.
"""

import uuid
from collections.abc import Callable
from typing import Literal

import streamlit as st

from memory_core import Memory, MemoryInspectorError, NotFoundError, delete_session
from memory_core.events import SessionImported
from memory_core.recipes import RECIPES
from memory_core.sessions.overview import Overview, overview
from memory_inspector.demo.conversations import EXAMPLES, RECORDED_TURNS, TURNS
from memory_inspector.server.engine import RECIPE, TOKEN_LIMIT, new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import DEMO_SESSION, reset_demo
from memory_inspector.wording.block_kinds import common, stored_plural, units
from memory_inspector.wording.event_sentences import Words, describe
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts import toasts
from ui.parts.components import closing_button, closing_buttons, dialog, error_noticed
from ui.sessions.session_rows import branch_title, delete_question, named, users
from ui.tab import nav, state
from ui.tab.people import allowed
from ui.tab.services import engine

# -- creation that takes a while: it runs as a job, and the dialog follows it ---------------------


_JOB = "sessions__making"
_PAGE = "sessions__making_page"

SHOWN_AFTER_SECONDS = 0.3
"""Delay, in seconds, before progress is shown; a session created sooner opens directly."""

CANCELLED = "Cancelled. Nothing was stored."

LOOK_SECONDS = 0.5
"""Interval, in seconds, between progress updates; clicks are handled in between."""


def begin_making(work: Callable[[Job], str], page: str = "chat") -> None:
    """Start creating a session; `work` returns its id. For callbacks; a second click meanwhile has no effect.

    `page`: where it is opened.

    A job that `work` starts for the session is followed too, before the session is opened.
    """
    # The mark stays until the dialog has taken the job's end, so that a double click makes one session.
    if engine().job(st.session_state.get(_JOB, "")) is not None:
        return
    key = f"\x00making-{uuid.uuid4().hex}"  # in place of the session's id, which does not exist yet
    # The job's text is its result: the id of the session.
    engine().start(key, key, lambda job: job.add_text(work(job)))
    st.session_state[_JOB], st.session_state[_PAGE] = key, page


def counted(job: Job, says: str, about: int | None = None) -> Callable[[int], None]:
    """A progress callback: reports the rows stored, out of about `about`, and stops the work when it is cancelled.

    Raises:
        MemoryInspectorError: it was cancelled.
    """
    stored = 0
    job.add_progress(says)

    def step(rows: int) -> None:
        nonlocal stored
        # Raised inside the import or branch, which then removes what it has stored so far.
        if job.cancel.is_set():
            raise MemoryInspectorError(CANCELLED)
        stored += rows
        whole = f" of about {tokens(about)}" if about is not None and stored < about else ""
        if stored:
            job.add_progress(f"{says}: {tokens(stored)}{whole} rows stored")

    return step


def follow_making(says: str) -> bool:
    """Draw the progress of creating a session; return whether there is any: the dialog then draws nothing else.

    The session is opened as soon as it is done.
    """
    job = _job()
    if job is None:
        return False
    # A session that is made quickly opens without any progress in between.
    if job.wait(SHOWN_AFTER_SECONDS) and (job.error is not None or _playing(job) is None):
        _end(job)
        return False
    _watch(says)
    return True


def forget_making() -> None:
    """Stop following the job; it continues."""
    st.session_state.pop(_JOB, None)


@st.fragment(run_every=LOOK_SECONDS)
def _watch(says: str) -> None:
    """Show the progress and refresh it; no script run lasts as long as the work."""
    job = _job()
    if job is None:
        return
    playing = _playing(job)
    # The session exists, and its own job plays it: closing the dialog does not stop that.
    if playing is not None:
        _progress(job.text, playing)
    elif not job.done:
        lines = job.progress
        st.markdown(f":shimmer[{plain(lines[-1] if lines else says)}]")
        if lines:  # rows are being stored, so the work can be cancelled
            with st.container(horizontal=True, vertical_alignment="center"):
                st.button("Cancel", key="making__cancel", on_click=job.cancel.set, disabled=job.cancel.is_set())
                st.markdown(":small[:gray[Cancelling stores nothing.]]", width="content")
    else:
        _end(job)


def _progress(session_id: str, playing: Job) -> None:
    """Show the number of messages played so far, and a button to stop."""
    try:
        recording = engine().open(session_id).session.recording()
    except MemoryInspectorError:  # deleted meanwhile: the job ends, and the next refresh reports it
        return
    if recording is not None:
        played, total = recording.played, len(recording.messages)
        st.progress(played / total, text=f"Playing without pauses: {tokens(played)} of {count(total, 'message')}")
    else:
        st.markdown(":shimmer[Blocks learn from the archived messages]")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Cancel", key="making__cancel", on_click=playing.cancel.set, disabled=playing.cancel.is_set())
        st.markdown(":small[:gray[What was done stays; the rest can be done later.]]", width="content")


def _job() -> Job | None:
    key: str | None = st.session_state.get(_JOB)
    return engine().job(key) if key else None


def _playing(job: Job) -> Job | None:
    """The job running for the created session."""
    return engine().running(job.text) if job.done and job.text else None


def _end(job: Job) -> None:
    """Open the session, or show why there is none."""
    forget_making()
    if job.error is not None:
        (st.info if job.error == CANCELLED else st.error)(plain(job.error))
        return
    # The session is there even if its playing failed: it is opened, with the reason.
    played = engine().job(job.text)
    if played is not None and played.error is not None:
        state.say("error", played.error)
    state.select_session(job.text)
    nav.go(st.session_state.get(_PAGE, "chat"))


# -- the dialogs ----------------------------------------------------------------------------------


NEW_TITLE = "New session"

TITLE_CHARACTERS = 80
"""Maximum length of a typed title, in characters."""

USER_CHARACTERS = 60
"""Maximum length of a typed user name, in characters."""


def _all() -> dict[str, Overview]:
    return {session.status.session_id: session for session in overview(engine().database)}


def one(session_id: str) -> Overview:
    """The session that a dialog concerns.

    Raises:
        NotFoundError: it was deleted meanwhile.
    """
    session = _all().get(session_id)
    if session is None:
        raise NotFoundError("This session was deleted elsewhere.")
    return session


# -- a new one -----------------------------------------------------------------------------------


@dialog("New session", "add", on_dismiss=forget_making)
def new_dialog() -> None:
    """Ask for the title, the user, and the memory system of a new session."""
    # The work goes on although the dialog was redrawn: its progress takes the place of the form.
    if follow_making("Starting the session"):
        return
    title = st.text_input("Title", value=NEW_TITLE, max_chars=TITLE_CHARACTERS, key="new__title").strip()
    user = st.selectbox(
        "User",
        users(list(_all().values())),
        index=None,
        accept_new_options=True,
        placeholder="Nobody in particular",
        key="new__user",
        help="The user in this conversation.",
    )
    name = str(user or "").strip()
    recipe = RECIPES[
        st.selectbox(
            "Recipe",
            list(RECIPES),
            index=list(RECIPES).index(RECIPE),
            key="new__recipe",
            format_func=lambda key: RECIPES[key].title,
            help="The memory system it starts with. It can be switched later, on Blocks.",
        )
    ]
    st.markdown(f":small[:gray[{plain(recipe.tagline)} {plain(recipe.limits)}]]")
    # Without a user, such a recipe would have no scope to store in.
    nobody = recipe.of_user and not name
    if nobody:
        st.warning("This recipe keeps what it learns for a user: choose one, or type a name.", icon=":material/person:")
    # Recipes of a user keep facts with the user anyway; for others, this is asked only if they learn facts.
    has_facts = not recipe.of_user and any(
        block.kind == "facts" and block.accept_short_term_memory for block in recipe.made().blocks
    )
    shared_facts = (
        bool(name)
        and has_facts
        and st.checkbox(
            plain(f"Facts belong to {short(name)}"),
            value=True,
            key="new__shared",
            help="All sessions of this user share them, and they stay when a session is deleted.",
        )
    )
    too_long = len(name) > USER_CHARACTERS
    if too_long:
        st.error(f"A user's name may have at most {USER_CHARACTERS} characters; this one has {tokens(len(name))}.")
    # A recipe without a conversation of its own starts with an empty session.
    example = EXAMPLES.get(recipe.key)
    played = example is not None and st.checkbox(
        f"With a short conversation to play: {plain(example.title)}",
        value=False,
        key="new__example",
        **allowed(SessionImported, help=f"{plain(example.watch)} Its token limit is small, so that this can be seen."),
    )
    shared = engine()

    def work(job: object) -> str:
        facts_of: Literal["session", "user"] = "user" if shared_facts else "session"
        # The example's own limit is small on purpose: with the usual one, nothing would be flushed or cut.
        limit = example.token_limit if example is not None and played else TOKEN_LIMIT
        made = new_memory(
            shared, title=title, user_id=name or None, facts_of=facts_of, recipe=recipe.key, token_limit=limit
        )
        if example is not None and played:
            made.session.attach_recording(example.messages, source=example.title)
        return made.session_id

    st.button(
        "Start session",
        type="primary",
        on_click=begin_making,
        args=(work,),
        disabled=not title or too_long or nobody,
        key="new__start",
    )


# -- rename --------------------------------------------------------------------------------------


@dialog("Rename the session", "edit")
def rename_dialog(session_id: str) -> None:
    """Ask for another title."""
    status = one(session_id).status
    title = st.text_input("Title", value=status.title, max_chars=TITLE_CHARACTERS)
    closing_button("Save", _rename, (session_id, title.strip()), disabled=not title.strip(), kind="primary")


@error_noticed
def _rename(session_id: str, title: str) -> None:
    engine().open(session_id).session.rename(title)


# -- branch --------------------------------------------------------------------------------------


@dialog("Branch", "call_split", on_dismiss=forget_making)
def branch_dialog(session_id: str, turn: int | None = None) -> None:
    """Create a second session in the state of this session at the end of a turn (None: the latest)."""
    # The dialog was opened again while the work goes on: its progress takes the place of the form.
    if follow_making("Branching"):
        return
    sessions = _all()
    if session_id not in sessions:
        raise NotFoundError("This session was deleted elsewhere.")
    session = sessions[session_id]
    latest = session.status.turns
    if latest == 0:
        st.markdown("There is no turn to branch from yet.")
        return
    chosen = int(
        st.number_input(
            f"Branch at the end of turn (1 to {tokens(latest)})",
            min_value=1,
            max_value=latest,
            # A page of the past asks for its turn, which a reset may have removed since.
            value=min(turn or latest, latest),
            key=f"branch__turn_{session_id}",
        )
    )
    title = st.text_input(
        "Title",
        value=branch_title(named(session), {named(other) for other in sessions.values()}),
        max_chars=TITLE_CHARACTERS,
        key=f"branch__title_{session_id}",
    ).strip()
    st.markdown(plain(branch_effect(session_id, chosen, latest)))
    st.markdown(plain(f"“{short(named(session))}” stays as it is."))
    shared = engine()

    def work(job: Job) -> str:
        step = counted(job, "Branching")
        return shared.open(session_id).branch(chosen, title=title, step=step).session_id

    st.button("Branch", type="primary", on_click=begin_making, args=(work,), disabled=not title, key="branch__go")


def branch_effect(session_id: str, turn: int, latest: int) -> str:
    """Contents of a branch, in words."""
    memory = engine().open(session_id)
    messages = memory.session.messages()
    # All messages, the archived ones too: a branch takes the whole past up to its turn.
    taken = [message for message in messages if message.turn <= turn]
    sentence = f"The branch begins with {count(turn, 'turn')}: {count(len(taken), 'message')}"
    remaining = len(messages) - len(taken)
    rest = (
        f"; {count(remaining, 'message')} said later {'is' if remaining == 1 else 'are'} not in it"
        if turn < latest
        else ""
    )
    units_kept = stored_plural(common(units(memory).values()))
    return f"{sentence}, with the facts, {units_kept} and settings of that moment{rest}."


# -- reset and delete ----------------------------------------------------------------------------


@dialog("Reset the session", "restart_alt")
def reset_dialog(session_id: str) -> None:
    """Ask before deleting all messages and what was learned from them."""
    session = one(session_id)
    for line in reset_question(session):
        st.markdown(plain(line))
    closing_buttons("Reset demo" if session_id == DEMO_SESSION else "Reset session", _reset, (session_id,))


def reset_question(session: Overview) -> tuple[str, ...]:
    """Paragraphs on what a reset deletes and what it keeps."""
    asked = f'Reset "{short(named(session), 60)}"?'
    held_facts = count(session.facts, "fact")
    held = f"{count(session.messages, 'message')} and {held_facts}"
    if session.status.session_id != DEMO_SESSION:
        return (
            f"{asked} Removes {count(session.messages, 'message')} and what was learned only from "
            f"{'this message' if session.messages == 1 else 'these messages'}"
            f"{f' (the session has {held_facts})' if session.facts else ''}. "
            "Blocks, their texts and the settings stay. This cannot be undone.",
        )
    # Other sessions of the user read them, too.
    note = f" Facts that belong to {short(session.status.user_id)} stay." if session.status.user_id else ""
    return (
        f"{asked} Deletes everything in it: {held}, its log, and all changes to its limits, blocks, texts and "
        f"priorities. This cannot be undone.{note if session.user_facts else ''}",
        f"It becomes the demo as shipped, at turn {RECORDED_TURNS} of {TURNS}.",
    )


def _reset(session_id: str) -> None:
    shared = engine()
    if not _stopped(session_id):
        return
    try:
        # The demo is brought back as shipped, blocks and settings included; other sessions keep these.
        if session_id == DEMO_SESSION:
            reset_demo(shared)
            done = f"The demo is as shipped, at turn {RECORDED_TURNS} of {TURNS}."
        else:
            memory = shared.open(session_id)
            memory.reset()
            done = _was_reset(memory)
    except MemoryInspectorError as error:
        state.say("error", str(error))
    else:
        toasts.done(done, session_id=session_id)
    # The turn that was shown may not exist any more.
    state.show_turn(None)


def _was_reset(memory: Memory) -> str:
    """Sentence on what the last reset deleted, from the log."""
    # The engine's own count: what was in the dialog may have changed before the click.
    record = memory.events(kinds=("session_reset",))[-1]
    return f"{describe(record.event, Words({}, {}, {}, units=units(memory))).text}."


def _stopped(session_id: str) -> bool:
    """Stop the job of a session before it is changed; show a warning if it does not stop."""
    if engine().stop(session_id):
        return True
    state.say("warning", "A turn is still being written. Nothing was changed: try again when it has ended.")
    return False


@dialog("Delete the session", "delete")
def delete_dialog(session_id: str) -> None:
    """Ask before deleting a session permanently; the demo is reset instead."""
    st.markdown(plain(delete_question(one(session_id))))
    closing_buttons("Delete session", _delete, (session_id,))


def _delete(session_id: str) -> None:
    if not _stopped(session_id):
        return
    try:
        session = one(session_id)
        database = engine().database
        delete_session(database, session_id, index=engine().services.index_of(database))
    except NotFoundError:
        state.say("warning", "This session was deleted elsewhere.")
        return
    except MemoryInspectorError as error:
        state.say("error", str(error))
        return
    gone = f"{count(session.messages, 'message')} and {count(session.facts, 'fact')}"
    toasts.done(f'Deleted "{short(named(session), 60)}" with {gone}.', session_id=None)
    # The demo is always there.
    if state.selected_session() == session_id:
        state.select_session(DEMO_SESSION)
