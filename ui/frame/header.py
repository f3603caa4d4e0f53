"""The frame around every page: the header with its turn picker, the scrubber below it, and the function that
opens and draws a page.

One clock drives all pages: the turn in the header. A page of the past shows that turn read-only.
The scrubber has all turns on one track, with ▼ at flushes and ✂ where something was cut. It sets the turn by dragging
or with ← and →; with Shift, or from its menu, it moves by single steps. The browser numbers its requests, so quick
keystrokes add up, and an older answer does not override a newer request.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError, NotFoundError, StoreError
from memory_core.events import ConfigurationChanged, SessionBranched
from memory_core.history.by_turn import History
from memory_core.process import keep_loaded
from memory_inspector.reading.event_rows import remembered
from memory_inspector.reading.outcomes import outcomes_of
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain, tokens
from memory_inspector.wording.story import STORY_KINDS
from ui.chat import guide
from ui.parts import facts_limit, flushing, forgetting, toasts, watching
from ui.parts.components import empty, error_noticed
from ui.sessions import connect
from ui.sessions.session_dialogs import branch_dialog
from ui.settings_drawer import settings_dialog
from ui.tab import drawing, nav, selection, state
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View, memory_of, news, opened

if TYPE_CHECKING:
    from streamlit.navigation.page import Page


STEP_KINDS = frozenset({"message_added", *STORY_KINDS})
"""Event kinds that are steps inside a turn: messages, and every decision that the story reports."""

_KEY = "scrubber-track"
_TAKEN = "scrubber_taken"
"""Key under which the tab stores the number of the last request applied; the same request is not applied twice."""

_HTML = """
<div class="scrubber">
  <div class="track" role="slider" tabindex="0" aria-label="Turn" aria-valuemin="1"
       title="Drag, or press ← and → for turns, Shift + ← and → for steps"></div>
  <span class="words"></span>
  <button class="more" title="Steps inside a turn" aria-label="Steps inside a turn">⋯</button>
  <div class="steps"><button class="back">One step back <kbd>Shift + ←</kbd></button
  ><button class="on">One step on <kbd>Shift + →</kbd></button></div>
</div>
"""

_track = st.components.v2.component(
    "scrubber",
    html=_HTML,
    css=(nav.STATIC / "scrubber.css").read_text(encoding="utf-8"),
    js=(nav.STATIC / "scrubber.js").read_text(encoding="utf-8"),
)


def draw_scrubber(view: View) -> None:
    """Draw the track of the session's turns; moving on it changes nothing stored."""
    _track(
        key=_KEY,
        data={**track(view), "taken": st.session_state.get(_TAKEN, 0)},
        height=34,
        on_place_change=_take_place,
    )


def track(view: View) -> dict[str, Any]:
    """Data of the track; turns by number, steps counted within their turn."""
    # A running turn without a prompt is in the history already, but cannot be shown yet.
    turns = {number: turn for number, turn in view.history.turns.items() if number <= view.latest_turn}
    steps = steps_of(view.history)
    return {
        "session": view.memory.session_id,
        "turns": view.latest_turn,
        "shown": view.shown_turn,
        # tuples: for a list Streamlit asks pandas whether it is a table, and loading that takes 0.3 s
        "flushes": tuple(number for number, turn in turns.items() if turn.flushes),
        "cuts": tuple(number for number, turn in turns.items() if turn.cut_tokens),
        # The number of steps up to the shown position is the place of the handle inside the turn.
        "step": bisect_right(steps.get(view.shown_turn, ()), view.position) if view.step is not None else None,
        "steps": tuple(len(steps.get(number, ())) for number in range(1, view.latest_turn + 1)),
        "past": view.turn is not None,
    }


def steps_of(history: History) -> Mapping[int, Sequence[int]]:
    """Log positions of all steps by turn, oldest first."""
    steps: dict[int, list[int]] = {}
    for record in history.records:
        if record.turn and record.kind in STEP_KINDS:
            steps.setdefault(record.turn, []).append(record.position)
    return steps


def place_of(view: View, turn: int | None, step: int | None) -> tuple[int | None, int | None]:
    """Return the turn (None: the latest) and the log position (None: the end of the turn) that the browser requests;
    `step` counts from 1, and the last step of a turn is its end."""
    if turn is None:
        return None, None
    # The request comes from the browser, which may have seen another state of the session.
    turn = max(1, min(turn, view.latest_turn))
    inside = steps_of(view.history).get(turn, ())
    # The last step of a turn is its end, which is shown as the turn itself.
    if step is not None and 0 < step < len(inside):
        return turn, inside[step - 1]
    return (turn if turn < view.latest_turn else None), None


def _take_place() -> None:
    asked: Any = getattr(st.session_state.get(_KEY), "place", None)
    session_id = state.selected_session()
    if asked is None or session_id is None or asked["session"] != session_id:
        return  # the request is for a session that was left meanwhile
    # An older request that arrives late has a smaller number.
    if asked["number"] > st.session_state.get(_TAKEN, 0):
        st.session_state[_TAKEN] = asked["number"]
        with suppress(MemoryInspectorError):  # the page reports the error
            state.show_turn(*place_of(opened(session_id), asked["turn"], asked["step"]))


WITHOUT_CLOCK = (nav.title("sessions"),)
"""Titles of pages below this header that do not show a single session at a single turn."""

TAKEN_OVER = (
    "You took over a session in which an agent works: your changes are in its next prompt. The agent keeps running."
)

_PICKER = "_picker_number"

_view: ContextVar[View | None] = ContextVar("view", default=None)
"""View of this run: header and page read the session once, so that both show the same moment."""


_being_read: ContextVar[Job | None] = ContextVar("being_read", default=None)
"""Job that reads a large session in the background, if there is no view of this run yet."""


def open_session() -> Memory | None:
    """Open the selected session once for the whole run; None if there is none, or it fails, which the page reports."""
    # One thread may run several times: what the run before showed must not remain.
    _view.set(None)
    _being_read.set(None)
    try:
        return memory_of(session_id) if (session_id := state.selected_session()) else None
    except MemoryInspectorError:
        return None


def draw_header(page: "Page", memory: Memory | None) -> None:
    """Draw title, turn picker and settings, a banner in the past, and any notice. `memory`: see `open_session`."""
    session_id = state.selected_session()
    clock = page.title not in WITHOUT_CLOCK
    view, being_read = _opened(memory) if clock and memory is not None else (None, None)
    _being_read.set(being_read)
    latest = view.latest_turn if view else 0
    if being_read is None:  # otherwise the existing turns are not known
        _check_turn(latest)
    if view is not None and state.selected_turn() is None:
        view = replace(view, turn=None, step=None)  # the turn requested by the URL does not exist
    _view.set(view)
    if view is not None:
        guide.arrived(page.url_path, view)
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="frame__header"
    ):
        st.title(page.title, width="content")
        if clock and session_id:
            _controls(session_id, latest, view)
    selection.write_link(page.url_path)
    # Always draw the containers: what follows keeps its place, and an input its typed words.
    with st.container():
        if view is not None and view.locked is not None and view.locked.because == "agent":
            _left_to_agent(view.memory.session_id, view.locked.sentence)
    with st.container():
        if view is not None and latest:
            draw_scrubber(view)
    draw_notice()
    if view is not None:
        with st.container():
            flushing.look(view)
        watching.look(view)
        facts_limit.announce(view)
    draw_toast()


def page(draw: Callable[[View], None], *, follows: bool = False) -> None:
    """Open the selected session and draw its page; report an error in one sentence.

    With `follows`, the page is redrawn when another process writes to the session; not while a dialog is open, which a
    redraw would close, losing the words typed in it.
    """
    try:
        session_id = state.selected_session()
        engine()  # reports an unreachable database, instead of an empty page
        if session_id is None:
            empty("No session yet.", "Start a new one in the sidebar, or import a conversation.")
        elif job := _being_read.get():
            _draw_reading(job)
        else:
            view = _view.get() or opened(session_id)
            draw(view)
            # Only the latest turn changes by what another process writes.
            if follows and view.turn is None and not state.dialog_open():
                drawing.follow(partial(news, session_id), view.seen, running=view.running)
    except NotFoundError:
        st.warning("This session was deleted elsewhere.")
        nav.link("sessions", "All sessions")
    except StoreError as error:
        st.error(f"{plain(str(error))} Messages you already sent are safe. Check that it runs, then reload.")
    except MemoryInspectorError as error:
        st.error(plain(str(error)))


def _opened(memory: Memory) -> tuple[View | None, Job | None]:
    """The view of a session, or the job that reads it."""
    try:
        job = _reading(memory)
        return (None, job) if job else (opened(memory.session_id, memory), None)
    except MemoryInspectorError:  # the page reports the error
        return None, None


def _left_to_agent(session_id: str, sentence: str) -> None:
    """Draw why the session is only read here, and the button that takes it over."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="frame__agent"):
        st.markdown(f":material/visibility: :small[{plain(sentence)}]", width="content")
        st.button(
            "Take over",
            key="frame__take_over",
            type="tertiary",
            icon=":material/back_hand:",
            help="Your changes are then in the agent's next prompt. It keeps running; you can hand the session back.",
            on_click=_take_over,
            args=(session_id,),
        )


@error_noticed
def _take_over(session_id: str) -> None:
    memory_of(session_id).session.take_over()
    toasts.done("You have taken this session over.", undo=partial(_hand_back, session_id), session_id=session_id)


@error_noticed
def _hand_back(session_id: str) -> None:
    memory_of(session_id).session.hand_back()


def _controls(session_id: str, latest: int, view: View | None) -> None:
    turn = state.selected_turn()
    with st.container(
        horizontal=True, vertical_alignment="center", gap="xsmall", width="content", key="frame__controls"
    ):
        connect.draw_live(session_id)
        if view is not None and not view.past:
            _proposed(view)
            forgetting.draw_count(view)
        if view is not None and view.history.attachment is not None:
            connect.draw_attachment(session_id, view.history.attachment)
        elif view is not None and view.taken_over:
            st.badge("taken over", icon=":material/back_hand:", color="orange", help=TAKEN_OVER)
            st.button(
                "Hand back",
                key="frame__hand_back",
                type="tertiary",
                help="Give the session back to its agent: it is then read-only here.",
                on_click=_hand_back,
                args=(session_id,),
            )
        if turn is not None and (turn < latest or state.selected_step() is not None):
            st.button("Back to latest", key="frame__latest", type="tertiary", on_click=state.show_turn, args=(None,))
            branches = allowed(SessionBranched)
            if st.button(
                "Branch from here", icon=":material/call_split:", key="frame__branch", type="tertiary", **branches
            ):
                branch_dialog(session_id, turn)
        if latest:
            shown = turn if turn is not None else latest
            st.button(
                "One turn back",
                icon=":material/chevron_left:",
                key="frame__before",
                type="tertiary",
                help="One turn back",
                disabled=shown <= 1,
                on_click=_turn_on,
                args=(-1, latest),
            )
            _picker(turn, latest)
            st.button(
                "One turn forward",
                icon=":material/chevron_right:",
                key="frame__after",
                type="tertiary",
                help="One turn forward",
                disabled=turn is None or turn >= latest,
                on_click=_turn_on,
                args=(1, latest),
            )
        read_only = view.read_only if view is not None else None
        refused = read_only.sentence if read_only is not None else None
        changes = allowed(ConfigurationChanged, disabled=refused is not None, help=refused)
        if st.button("Settings", icon=":material/tune:", type="tertiary", key="frame__settings", **changes):
            settings_dialog(session_id)


def _proposed(view: View) -> None:
    """Draw how many facts wait for a person's approval, as a link to the first of them; nothing if none do."""
    try:
        waiting = [
            fact
            for attached in view.memory.blocks
            if attached.kind == "facts"
            for fact in view.memory.facts.read(attached.name, states=("proposed",))
        ]
    except MemoryInspectorError:  # the page reports the error
        return
    if waiting:
        label = f":orange[{tokens(len(waiting))} to approve]"
        tooltip = "Proposed facts are in no prompt until a person accepts them."
        nav.link("facts", label, icon=":material/rule:", help=tooltip, turn=None, fact=str(waiting[0].id))


def _picker(turn: int | None, latest: int) -> None:
    """Draw the turn picker. If the turn changes by other means, a new widget replaces it.

    With every user action, the browser reports the picker's value; if the server has set a new one that has not reached
    the browser yet, that report would look like a choice of the previous turn. The new widget gets its value from its
    index, which every run sends, rather than once through session state: that run may be replaced by a newer one before
    it has sent anything.
    """
    number = st.session_state.get(_PICKER, 0)
    key = f"{state.TURN}-{number}"
    if st.session_state.get(key) != turn:
        st.session_state[_PICKER] = number = number + 1
        key = f"{state.TURN}-{number}"
    with st.container(key=state.TURN, width="content"):
        st.selectbox(
            "Turn",
            range(1, latest + 1),
            index=None if turn is None else turn - 1,
            key=key,
            placeholder=f"Latest turn: {tokens(latest)}",
            format_func=lambda number: f"Turn {tokens(number)}",
            label_visibility="collapsed",
            width=176,
            on_change=lambda: state.show_turn(st.session_state[key]),
        )


def _turn_on(by: int, latest: int) -> None:
    """Move by this many turns from the server's current turn: of two quick clicks, each counts."""
    turn = state.selected_turn()
    asked = max((turn if turn is not None else latest) + by, 1)
    state.show_turn(asked if asked < latest else None)


def _check_turn(latest: int) -> None:
    """Show the latest turn, with a warning, if the requested turn is not in the session."""
    turn, missing = state.selected_turn(), selection.take_unknown_turn()
    if turn is not None and not 1 <= turn <= latest:
        missing = str(turn)
        state.show_turn(None)
    if missing and latest:
        shown = tokens(latest)
        # The number comes from the address, so only its beginning is repeated.
        state.say("warning", f"Turn {missing[:12]} is not in this session. Showing the latest, turn {shown}.")


# -- the header of a page that shows no session of the database -----------------------------------


def draw_plain_header(title: str) -> None:
    """Draw the title of a page, and what is to be said above it."""
    with st.container(horizontal=True, vertical_alignment="center", key="frame__header"):
        st.title(title, width="content")
    draw_notice()
    draw_toast()


def draw_notice() -> None:
    """Draw the message that is to be shown once, in a container that is always there: what follows keeps its place."""
    with st.container():
        if notice := state.take_notice():
            {"error": st.error, "warning": st.warning, "info": st.info}[notice.kind](plain(notice.text))


def draw_toast() -> None:
    """Draw the newest toast, in a container that is always there."""
    with st.container(key="toasts"):
        toasts.draw()


# -- the first opening of a large session in this server ------------------------------------------


LARGE = 20_000
"""Minimum unread events for background reading; fewer are read within half a second before the page is drawn."""

SHOWN_AFTER_SECONDS = 0.3
"""Delay, in seconds, before the progress is shown."""

LOOK_SECONDS = 0.3


def _reading(memory: Memory) -> Job | None:
    """The job that reads a large session's log and all that its blocks have stored; None if its pages can be drawn."""
    key = f"\x00opening-{memory.session_id}"  # once per server process
    job = engine().reading(key)
    if job is None:
        unread = memory.log.unread()
        if unread < LARGE:
            return None
        job = engine().read(key, lambda job: _read_ahead(memory, job, unread))
    # A short wait first: many sessions are read by then, and no progress flickers.
    return None if job.wait(SHOWN_AFTER_SECONDS) else job


def _read_ahead(memory: Memory, job: Job, unread: int) -> None:
    whole = count(unread, "event")
    job.add_progress(f"Reading the log of this session, {whole}")
    memory.log.read_ahead(
        lambda events: job.add_progress(
            f"Reading the log of this session, {tokens(events)} of {whole}"
            if events < unread
            else "Reading what its blocks have stored"
        )
    )
    job.add_progress("Working out what became of each message")
    remembered(memory)
    memory.log.query(outcomes_of)
    memory.log.usage()
    # The log just read stays in memory: Streamlit collects garbage after every run, and need not walk through it.
    keep_loaded()


def _draw_reading(job: Job) -> None:
    """Show the progress; the page is redrawn when the job has ended, and reports any error itself."""

    def look() -> None:
        if job.done:
            drawing.again()
        st.markdown(f":shimmer[{job.progress[-1]}]")
        st.markdown(":small[:gray[Needed once per start of the app. Other sessions can be opened meanwhile.]]")

    with st.container(key="opening"):
        st.fragment(look, run_every=LOOK_SECONDS)()
