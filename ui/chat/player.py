"""Controls that advance a conversation: the player of a recording, the input, and retrying a reply.

Each starts a job under an id of its own; drawing starts nothing.
"""

import uuid
from collections.abc import Callable, Mapping
from hashlib import sha256

import streamlit as st

from memory_core import Memory
from memory_core.sessions.recorded_conversation import Recording
from memory_inspector.demo.conversations import RECORDED_TURNS
from memory_inspector.reading.forgotten import Forgotten, forgotten
from memory_inspector.reading.write_access import ReadOnly
from memory_inspector.server import chat_turns
from memory_inspector.server.engine import Waiting
from memory_inspector.server.jobs import Job, Reveal, Stop
from memory_inspector.server.shipped_demo import DEMO_SESSION
from memory_inspector.wording.formatting import plain, short, tokens
from ui.parts import toasts
from ui.parts.components import error_noticed
from ui.sessions.session_dialogs import reset_dialog
from ui.tab import nav, state
from ui.tab.model import Chosen, chosen_model
from ui.tab.people import obstacle
from ui.tab.services import engine
from ui.tab.view import View

MAX_CHARACTERS = 200_000
"""Maximum length of a typed or pasted message, in characters; longer ones can be imported."""

SPEEDS = {"½ ×": 0.5, "1 ×": 1.0, "2 ×": 2.0, "4 ×": 4.0}

_SPEED = "chat__speed"
_DRAFT = "chat_draft"
_MISSED = "chat_missed"


STOPS: Mapping[str, tuple[str, str]] = {
    "flushed": ("Flush", "The queue was full, so its oldest messages left it."),
    "learned": ("Learning", "Facts were taken from what left the queue."),
    "recalled": ("Recall", "Earlier turns that fit the question were added."),
    "cut": ("Cut", "Over the limit, so the least relevant was left out."),
}
"""Name and sentence shown when the demo stops playing, by the stage after which it stops."""

WORDS_SHOWN = 36
"""Maximum characters shown of the words that an answer lacked."""

FORGOTTEN_AMONG = 20
"""Number of the last answers of a recording that are searched for words they lacked, at its end."""


def held(view: View) -> Stop | None:
    """Reason why playback has stopped in the middle; None if it goes on, or nothing is played."""
    return view.reveal.held if view.reveal is not None and view.running is None and view.turn is None else None


def stop_sentence(stop: Stop) -> str:
    """Say in markdown why playback has stopped."""
    if stop.forgotten is not None:
        words = plain(short(stop.forgotten.words, WORDS_SHOWN))
        return f"**Forgotten.** Turn {tokens(stop.forgotten.turn)} said: “{words}”"
    name, sentence = STOPS[stop.stage]
    return f"**{f'First {name.lower()}' if stop.first else name}.** {sentence}"


def _forgotten_in(view: View) -> Forgotten | None:
    """Words that one of the last answers of a recording lacked."""
    # Each answer that admits not to know takes a trace or two: not with every drawing.
    moment, before = (view.memory.session_id, view.position), st.session_state.get(_MISSED)
    if before is None or before[0] != moment:
        before = st.session_state[_MISSED] = moment, forgotten(view.memory, last=FORGOTTEN_AMONG)
    missed: Forgotten | None = before[1]
    return missed


def _draw_find(missed: Forgotten) -> None:
    """Draw the button that follows forgotten words to what lost them."""
    if st.button("Find what it forgot", type="primary", icon=":material/route:", key="chat__find"):
        nav.go("trace", turn=None, **nav.followed(missed.words))


def draw_player(view: View, recording: Recording | None) -> None:
    """Draw the controls to step through or play a recording, if there is one; at its end, offer to restart it."""
    if recording is None:
        return
    memory, session_id, running = view.memory, view.memory.session_id, view.running
    played = f":small[{tokens(recording.played)} of {tokens(len(recording.messages))}]"
    if running is None and not recording.next_turn:
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chat__player"):
            ended = "End of demo" if session_id == DEMO_SESSION else "End of recording"
            st.markdown(f"{ended} {played}", width="content")
            if (missed := _forgotten_in(view)) is not None:
                _draw_find(missed)
            if st.button("Play again", icon=":material/replay:", key="chat__again"):
                reset_dialog(session_id)
        return
    # One message that is being played is no playback: it cannot be paused.
    playing, stop = running is not None and running.id.startswith(chat_turns.PLAY), held(view)
    reveal = view.reveal if stop is not None else None
    if stop is not None:
        st.markdown(f":small[:material/pause_circle: {stop_sentence(stop)}]  {played}")
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="chat__player"):
        missed = stop.forgotten if stop is not None else None
        if missed is not None:
            _draw_find(missed)
        st.button(
            "Next message",
            type="primary" if stop is None else "secondary",
            icon=":material/skip_next:",
            shortcut="Alt+N",
            key="chat__next",
            disabled=running is not None,
            on_click=next_message,
            args=(memory, view.status.position),
        )
        if playing:
            st.button("Pause", icon=":material/pause:", key="chat__pause", on_click=_cancel, args=(session_id,))
        else:
            st.button(
                "Play" if stop is None else "Continue",
                type="secondary" if stop is None or missed is not None else "primary",
                icon=":material/play_arrow:",
                key="chat__play",
                disabled=running is not None,
                on_click=_play,
                args=(memory, None, reveal),
            )
        if missed is None:  # otherwise there is no room
            st.button(
                "To the end",
                icon=":material/fast_forward:",
                key="chat__to_the_end",
                type="tertiary",
                disabled=running is not None and not playing,
                on_click=_play,
                args=(memory, 0.0, reveal),
                help="Play the rest without pauses",
            )
            st.selectbox(
                "Speed",
                list(SPEEDS),
                index=1,
                key=_SPEED,
                persist_state="session",
                label_visibility="collapsed",
                width=80,
                on_change=_change_speed,
                args=(session_id,),
            )
        if stop is None:
            st.markdown(played, width="content")


def next_message(memory: Memory, position: int) -> None:
    """Play the next turn, or the rest of an interrupted turn; at most once for each position of the log."""
    # A double click asks for the same job twice, and it runs once.
    job_id = f"{chat_turns.STEP}{memory.session_id}-{position}"
    start(memory.session_id, job_id, lambda job: chat_turns.play(job, memory, turns=1, pace=1), chosen_model())


def _play(memory: Memory, pace: float | None = None, reveal: Reveal | None = None) -> None:
    """Play at `pace` (None: the chosen speed), from `reveal` if playback stopped there; if it runs, change its pace."""
    session_id = memory.session_id
    speed = _chosen_pace() if pace is None else pace
    # The first turns of the demo were played before it was opened, so stages count as first only after them.
    stops_after = RECORDED_TURNS if session_id == DEMO_SESSION else None
    start(
        session_id,
        f"{chat_turns.PLAY}{uuid.uuid4().hex}",
        lambda job: chat_turns.play(job, memory, turns=None, pace=speed, stops_after=stops_after, reveal=reveal),
        chosen_model(),
    )
    # A playback that runs already was not started anew: it only changes its pace.
    _set_pace(session_id, speed)


def _change_speed(session_id: str) -> None:
    _set_pace(session_id, _chosen_pace())


def _chosen_pace() -> float:
    return SPEEDS[st.session_state.get(_SPEED, "1 ×")]


def _set_pace(session_id: str, pace: float) -> None:
    running = engine().running(session_id)
    # Replies and flushes have no pace.
    if running is not None and running.id.startswith(chat_turns.PLAY):
        running.pace = pace


def draw_failed(view: View) -> None:
    """Show why the last requested action failed; a failed reply is shown in the conversation instead."""
    job = engine().job(view.memory.session_id)
    if view.running is None and job is not None and job.error is not None and not chat_turns.answers(job):
        st.error(plain(job.error), icon=":material/error:")


def draw_input(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    """Draw the input, which is always enabled, and a button to stop the current reply."""
    answering = running is not None and chat_turns.answers(running)
    session_id = memory.session_id
    with st.container(horizontal=True, vertical_alignment="center"):
        st.chat_input(
            "Write a message",
            key="chat__input",
            max_chars=MAX_CHARACTERS,
            on_submit=_send,
            # With this id, a message sent twice, as after a lost connection, is stored once.
            args=(memory, chosen, st.session_state.setdefault(_DRAFT, uuid.uuid4().hex)),
        )
        if answering:
            st.button("Stop", icon=":material/stop_circle:", on_click=_cancel, args=(session_id,))


def draw_no_input(reason: ReadOnly) -> None:
    """Draw a disabled input for a viewer, or for a session left to its agent; the header gives that reason in full."""
    words = "An agent works here: take over to write" if reason.because == "agent" else reason.sentence
    st.chat_input(words, key="chat__no_input", disabled=True)


def draw_unfinished(memory: Memory, chosen: Chosen, running: Job | None) -> None:
    """Show an interrupted or failed reply, with a button to retry."""
    unanswered = chat_turns.unanswered(memory, running=running is not None)
    if unanswered is None:
        return
    if unanswered.reason == chat_turns.NOT_ASKED:
        model = plain(short(chat_turns.agents_model(memory) or ""))
        st.info(f"Your message is stored. An agent with {model} works in this session.", icon=":material/smart_toy:")
    elif unanswered.reason == chat_turns.INTERRUPTED:
        st.warning("The reply was interrupted. Your message is stored.", icon=":material/refresh:")
    else:
        st.error(f"{plain(unanswered.reason)} Your message is stored.", icon=":material/error:")
    # The id derives from the failed reply, so that a double click asks once.
    retry = f"{unanswered.reply}+"
    answers = "rules" if chosen.offline else plain(short(chosen.model.name))
    st.button(
        "Try again" if unanswered.reason != chat_turns.NOT_ASKED else f"Answer with {answers}",
        icon=":material/refresh:",
        on_click=start,
        args=(memory.session_id, retry, lambda job: chat_turns.answer(job, memory, chosen.model, retry), chosen),
    )


@error_noticed
def _send(memory: Memory, chosen: Chosen, draft: str) -> None:
    """Send the typed message once: Streamlit may repeat the callback for one submit, with the same `draft`."""
    text = str(st.session_state.get("chat__input") or "")
    if not text.strip():
        return
    if refused := obstacle():  # since the page was drawn
        state.say("error", f"{refused} This was not sent: {text}")
        return
    # The same draft and text give the same id, so that a repeated callback sends nothing new.
    session_id, turn = memory.session_id, f"{chat_turns.TURN}{sha256((draft + text).encode()).hexdigest()[:32]}"
    st.session_state[_DRAFT] = uuid.uuid4().hex
    running = engine().running(session_id)
    if running is not None and running.id.startswith(chat_turns.PLAY):
        running.cancel.set()  # a user who writes wants an answer, not the rest of the recording first
    toasts.dismiss()
    message = Waiting(turn, text, lambda job: chat_turns.send(job, memory, chosen.model, turn, text), chosen.pasted)
    engine().send(session_id, message)


@error_noticed
def start(session_id: str, job_id: str, work: Callable[[Job], object], chosen: Chosen) -> None:
    """Dismiss the toast, and start work for the session unless other work is running for it."""
    toasts.dismiss()
    engine().start(session_id, job_id, work, browser_model=chosen.pasted)


@error_noticed
def _cancel(session_id: str) -> None:
    running = engine().running(session_id)
    if running is not None:
        running.cancel.set()
