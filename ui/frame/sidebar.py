"""The sidebar: the session with its actions, the model that answers with a test of it, and who is signed in."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from copy import copy
from functools import partial

import streamlit as st

from memory_core import (
    ConfigError,
    Delivery,
    Memory,
    MemoryInspectorError,
    Status,
    StoreError,
    delete_session,
    list_sessions,
)
from memory_core.access import STORING, acting_person, needs
from memory_core.events import SessionImported, SessionRenamed, SessionReset
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.openai_client import DEFAULT_MODEL, OpenAIChat
from memory_core.sessions.overview import has_graph
from memory_inspector.reading.write_access import ROLE_MEANS
from memory_inspector.server.jobs import Job
from memory_inspector.server.people import sign_out
from memory_inspector.server.shipped_demo import DEMO_SESSION, ensure_demo
from memory_inspector.wording.event_sentences import seconds
from memory_inspector.wording.formatting import count, plain, session_name, short
from ui.frame.goto import draw_goto_button
from ui.frame.keys import keys_dialog
from ui.sessions import health
from ui.sessions.health import at_a_glance
from ui.sessions.session_dialogs import delete_dialog, new_dialog, rename_dialog, reset_dialog
from ui.tab import drawing, model, nav, selection, state
from ui.tab.entry_point import missing
from ui.tab.people import allowed, obstacle
from ui.tab.services import engine, engine_of

STATUS_CHARACTERS = 40
"""Maximum characters of a model's name in the status line: two lines of the sidebar."""


def select_session() -> Mapping[str, Status] | None:
    """Decide which session this run shows; return all sessions by id, or None if the database cannot be reached."""
    try:
        shared = engine()
        sessions = {status.session_id: status for status in list_sessions(shared.database)}
        # The server's start may be storing it just now, so the list is read again in any case.
        if DEMO_SESSION not in sessions:
            ensure_demo(shared)
            sessions = {status.session_id: status for status in list_sessions(shared.database)}
    except StoreError:  # the page says more
        return None
    # The demo first, then by the latest change.
    ids = sorted(sessions, key=lambda id: (id != DEMO_SESSION, -sessions[id].updated_at))
    selection.take(ids)
    # The menu asks for this when it is drawn again.
    state.saw_graph(_has_graph(state.selected_session()))
    return {id: sessions[id] for id in ids}


def _has_graph(session_id: str | None) -> bool:
    try:
        return session_id is not None and has_graph(engine().database, session_id)
    except MemoryInspectorError:  # the page reports the error
        return state.has_graph()


def draw_sidebar(sessions: Mapping[str, Status] | None, memory: Memory | None, *, alone: bool = False) -> str | None:
    """Draw the session picker with its menu, and the status line; return the title of the selected session.

    `memory`: the selected session, if it could be opened; `alone`: the page shows something else than the database's
    sessions, and only the ways to them are drawn.
    """
    if alone:
        draw_goto_button()
        nav.link("sessions", "All sessions", icon=":material/folder_open:")
        draw_person()
        return None
    if sessions is None:
        st.error("Database not reachable", icon=":material/database_off:")
        return None
    draw_goto_button()
    # Numbered from the oldest: the browser identifies its choice by these words, which a newer session must not change.
    titles = _titles(sorted(sessions.values(), key=lambda status: status.created_at))
    selection.draw_picker({id: titles[id] for id in sessions})
    nav.link("sessions", "All sessions", icon=":material/folder_open:")
    with st.container(horizontal=True, gap="medium"):
        starts = allowed(help="Start a session")
        if st.button("New", key="session__new", type="tertiary", icon=":material/add:", **starts):
            new_dialog()
        _session_menu(state.selected_session())
    _status_line(memory)
    draw_person()
    return titles.get(state.selected_session() or "")


def _titles(sessions: Sequence[Status]) -> dict[str, str]:
    """Return the display title of each session by id, numbered if another session has the same title."""
    shown: dict[str, str] = {}
    uses: Counter[str] = Counter()
    for status in sessions:
        name = session_name(status.title, status.session_id)
        uses[name] += 1
        shown[status.session_id] = name if uses[name] == 1 else f"{name} ({uses[name]})"
    return shown


def _session_menu(session_id: str | None) -> None:
    # A line of a menu cannot be disabled: what the visitor's role does not allow is left out.
    actions: dict[str, Callable[[], None]] = {} if obstacle(SessionImported) else {"Import a conversation": _import}
    if session_id is not None:
        actions |= {} if obstacle(SessionRenamed) else {"Rename": lambda: rename_dialog(session_id)}
        actions["Export"] = lambda: _export(session_id)
        actions |= {} if obstacle(SessionReset) else {"Reset": lambda: reset_dialog(session_id)}
        if session_id != DEMO_SESSION and not obstacle(delete_session):
            actions["Delete"] = lambda: delete_dialog(session_id)
    actions["Keys"] = keys_dialog
    chosen = st.menu_button("More", list(actions), key="session__menu", type="tertiary")
    if chosen:
        actions[chosen]()


def _import() -> None:
    from ui.sessions.session_files import import_dialog  # imports every file format: too slow for the first page

    import_dialog()


def _export(session_id: str) -> None:
    from ui.sessions.session_files import export_dialog  # imports every file format

    export_dialog(session_id)


def _status_line(memory: Memory | None) -> None:
    """Draw the model that answers and learns here; failures come first."""
    chosen: model.Chosen | None = None
    try:
        chosen = model.chosen_model()
        title, icon, source = chosen.model.name, "cloud_off" if chosen.offline else "cloud", chosen.source
    except ConfigError as error:
        title, icon, source = "The model's address is wrong", "error", str(error)
    _take_over_trial()
    failed, problem = _failed_deliveries(memory), at_a_glance()
    # Failed deliveries come before the server's health, and both before the name of the model.
    if failed:
        shown, icon = f"{count(len(failed), 'delivery')} failed", "error"
    elif problem:
        icon, shown = problem
    else:
        shown = short(title, STATUS_CHARACTERS)
    lacks = missing()
    with st.popover(
        plain(shown),
        key="sidebar__model",
        icon=f":material/{icon}:",
        width="stretch",
        help="Which model answers and learns",
    ):
        # Several deliveries of a block often fail for one reason, which is shown once.
        for block, why in dict.fromkeys((delivery.block, delivery.error or "") for delivery in failed):
            st.error(f"{plain(short(block))} could not be updated: {plain(why)}")
        st.markdown(f"**{plain(title)}**  \n:gray[{plain(source)}]")
        nav.link("sessions", "Health: is everything working?", icon=":material/monitor_heart:")
        st.text_input(
            "API key",
            type="password",
            key=model.KEY,
            help="Kept in this browser session only",
            on_change=_forget_trial,
        )
        if chosen is not None and chosen.pasted:
            st.markdown(":small[:material/check: In use here, and forgotten when this tab is closed.]")
        if not obstacle():
            st.text_input(
                "Base URL", key=model.ADDRESS, placeholder="the endpoint's own address", on_change=_forget_trial
            )
        st.text_input("Model", key=model.NAME, placeholder=DEFAULT_MODEL, on_change=_forget_trial)
        if chosen is not None and isinstance(chosen.model, OpenAIChat):
            st.markdown(f":small[:material/key: {plain(model.key_line(chosen))}]")
            if not obstacle():
                _draw_trial(chosen.model)
        st.markdown(
            ":small[:gray[Any OpenAI-compatible endpoint. The key is never stored, logged or exported. "
            "Without one, rules answer and learn, not a language model.]]"
        )
        _in_use(chosen, memory)
        if lacks:
            st.markdown(f":small[:gray[{lacks}]]")


def _in_use(chosen: model.Chosen | None, memory: Memory | None) -> None:
    """Show the components that this session uses, one per line."""
    if memory is None or chosen is None:
        return
    services = model.services_for(chosen)
    try:
        parts = {
            "Facts learned by": services.extractor.name,
            "Embeddings": services.embedder.id,
            "Vectors": services.index_of(engine().database).name,
            **({} if obstacle() else {"Database": engine().database.url}),
            "Tokens counted with": memory.session.counter_id,
        }
    except MemoryInspectorError:  # the page reports the error
        return
    lines = "  \n".join(f"{label}: {plain(value)}" for label, value in parts.items())
    st.markdown(f":small[:gray[{lines}]]")


def _failed_deliveries(memory: Memory | None) -> list[Delivery]:
    """Failed deliveries of the selected session that are not done: parked, or to be retried."""
    if memory is None:
        return []
    try:
        waiting = memory.session.deliveries(states=("pending", "parked"))
    except MemoryInspectorError:  # the page reports the error
        return []
    return [delivery for delivery in waiting if delivery.error]


# -- the sign-in in place of a page, and who is signed in, in the sidebar -------------------------


CARD_PIXELS = 440


def require_person() -> None:
    """Draw the sign-in in place of every page until the visitor is signed in and belongs to a tenant."""
    problem = _problem() if st.user.is_logged_in else None
    if st.user.is_logged_in and problem is None:
        return
    with st.container(horizontal_alignment="center"), st.container(border=True, width=CARD_PIXELS, key="sign_in_card"):
        st.title("Memory Inspector")
        if problem is None:
            st.markdown("See, debug and curate what an agent remembers.")
        else:
            st.error(plain(problem), icon=":material/error:")
        with st.container(horizontal=True):
            says = "Sign in" if problem is None else "Sign in again"
            st.button(says, type="primary", icon=":material/login:", key="sign_in", on_click=st.login)
            if problem is not None:
                st.button("Sign out", icon=":material/logout:", key="sign_out", on_click=_sign_out)
    st.stop()


def _sign_out() -> None:
    sign_out(st.user.to_dict())  # for the other tabs: Streamlit ends this one alone
    st.logout()


def _problem() -> str | None:
    """Return why a visitor who signed in is not let in; None if they are."""
    try:
        person = acting_person()
        engine()  # creates a new tenant
        if person is None or person.tenant in engine_of("").database.tenants():
            return None
    except MemoryInspectorError as error:
        return str(error)
    return f"The tenant {person.tenant} was deleted. Nothing more can be read or stored in it."


def draw_person() -> None:
    """Draw name, role and tenant of the visitor, with the way out; nothing where nobody signs in."""
    person = acting_person()
    if person is None:
        return
    words = filter(None, (short(person.name or person.id, 40), person.role, person.tenant))
    with st.container(gap="xxsmall"):
        st.markdown(f":small[{plain(' · '.join(words))}]", help=f"{plain(person.id)}  \n{ROLE_MEANS[person.role]}")
        st.button("Sign out", type="tertiary", icon=":material/logout:", key="sign_out", on_click=_sign_out)


# -- a test of the chosen model: one small request, reported in a sentence ------------------------


PATIENCE_SECONDS = 15.0
"""Time limit, in seconds, for the first word of a model's answer."""

QUESTION = "Answer with the word: ready"
LOOK_SECONDS = 0.3
NAME_CHARACTERS = 60

_TRIAL = "model__trial"
_HEARD = "model__heard"
"""Key under which the tab stores the id of the last test whose result was passed on to the health check."""


def _forget_trial() -> None:
    """Discard the result, because another key, address or model was entered."""
    st.session_state.pop(_TRIAL, None)


def _take_over_trial() -> None:
    """Pass each successful result on to the health check once: a model that answered is not unreachable."""
    key = st.session_state.get(_TRIAL, "")
    job = engine().job(key)
    # Passed on once, or an old success would override every later failure.
    if job is not None and job.done and job.error is None and st.session_state.get(_HEARD) != key:
        st.session_state[_HEARD] = key
        health.model_answered()


def _draw_trial(model: OpenAIChat) -> None:
    """Draw the button, and the result of the last test."""
    job = engine().job(st.session_state.get(_TRIAL, ""))
    trying = job is not None and not job.done
    st.button(
        "Test", key="model__test", icon=":material/network_check:", disabled=trying, on_click=partial(_try, model)
    )
    if job is None:
        return
    if trying:
        st.markdown(f":small[:shimmer[{plain(f'Asking {short(model.name, NAME_CHARACTERS)}')}]]")
        # A fragment looks at the job, so that the page is not redrawn meanwhile.
        st.fragment(partial(_look, job), run_every=LOOK_SECONDS)()
    elif job.error is not None:
        st.error(plain(job.error), icon=":material/error:")
    else:
        st.success(plain(job.text), icon=":material/check:")


def _try(model: OpenAIChat) -> None:
    # A job, so that nothing waits for the answer.
    key = f"\x00model-{uuid.uuid4().hex}"  # in place of a session id: it belongs to no session
    engine().start(key, key, partial(_ask, model))
    st.session_state[_TRIAL] = key


@needs(STORING)  # or a viewer would see what an address that only the server reaches answers
def _ask(model: OpenAIChat, job: Job) -> None:
    # A copy, so that the model keeps its own time limit and retries.
    asked = copy(model)
    asked.endpoint = model.endpoint.once(PATIENCE_SECONDS)
    try:
        asked.endpoint.client().chat.completions  # noqa: B018  (loads modules, which must not count in the time)
        started = time.monotonic()
        with closing(asked.stream([ChatMessage(role=MessageRole.USER, content=QUESTION)])) as reply:
            next(iter(reply), None)
            took = time.monotonic() - started
    finally:
        asked.close()
    job.add_text(f"{short(model.name, NAME_CHARACTERS)} at {model.endpoint.host} answered in {seconds(took)}.")


def _look(job: Job) -> None:
    # A redraw would close an open dialog.
    if job.done and not state.dialog_open():
        drawing.again()
