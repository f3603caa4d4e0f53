"""The sidebar: which session, what to do with it, and which model answers."""

import uuid

import streamlit as st

from memory_core import ConfigError, MemoryInspectorError, StoreError, delete_session, sessions
from memory_core.models.openai_client import DEFAULT_MODEL
from memory_core.store.deliveries import Delivery
from ui import model, state
from ui.components import closing_button, error_inside
from ui.demo import DEMO_SESSION, RESETTING, ensure_demo, reset_demo
from ui.importing import import_dialog
from ui.new_session import new_memory
from ui.services import engine
from ui.text import count, plain, short

STATUS_CHARACTERS = 40
"""Longest name of a model in the status line: two lines of the sidebar."""


def draw_sidebar() -> None:
    """The session picker with its menu, and the status line."""
    try:
        shared = engine()
        ensure_demo(shared)
        known = {status.session_id: status for status in sessions(shared.database)}
    except StoreError:  # the page says more
        st.error("Database not reachable", icon=":material/database_off:")
        return
    ids = sorted(known, key=lambda id: (id != DEMO_SESSION, -known[id].updated_at))
    _choose(ids)
    titles = _titles({id: known[id].title for id in ids})
    st.selectbox(
        "Session",
        ids,
        key=state.SESSION,
        format_func=lambda id: titles[id],
        placeholder="No session yet",
        on_change=lambda: state.show_earlier(0),
    )
    _write_link()
    with st.container(horizontal=True, gap="medium"):
        st.button("New", on_click=_new_session, help="Start an empty session", type="tertiary", icon=":material/add:")
        _session_menu(state.selected_session())
    _status_line()


def _choose(ids: list[str]) -> None:
    """The session that the address asks for, at first; another one, and a word about it, when it is not there.

    A selectbox bound to the address would put titles there, and two sessions may have one title.
    """
    fresh = state.SESSION not in st.session_state
    asked = st.query_params.get(state.SESSION) if fresh else state.selected_session()
    if asked is not None and asked not in ids:
        state.say("warning", "This session was deleted elsewhere, or never existed. Showing another one.")
    if fresh or asked not in ids:
        st.session_state[state.SESSION] = asked if asked in ids else next(iter(ids), None)


def _write_link() -> None:
    """Put the session in the address, so that the page can be reloaded and linked to."""
    session_id = state.selected_session()
    if session_id is None:
        st.query_params.pop(state.SESSION, None)
    elif st.query_params.get(state.SESSION) != session_id:
        st.query_params[state.SESSION] = session_id


def _titles(titles: dict[str, str]) -> dict[str, str]:
    """What each session is called in the picker: its title, numbered where another has the same."""
    shown: dict[str, str] = {}
    for session_id, title in titles.items():
        name = wanted = _title(title, session_id)
        again = 1
        while name in shown.values():
            again += 1
            name = f"{wanted} ({again})"
        shown[session_id] = name
    return shown


def _session_menu(session_id: str | None) -> None:
    if session_id is None:
        return
    actions = {
        "Import a conversation": lambda: import_dialog(),
        "Rename": lambda: _rename_dialog(session_id),
        "Reset": lambda: _reset_dialog(session_id),
        "Delete": lambda: _delete_dialog(session_id),
    }
    if session_id == DEMO_SESSION:
        del actions["Delete"]
    chosen = st.menu_button("More", list(actions), key="session__menu", type="tertiary")
    if chosen:
        actions[chosen]()


def _new_session() -> None:
    try:
        memory = new_memory(engine(), title="New session")
    except MemoryInspectorError as error:
        state.say("error", str(error))
        return
    state.select_session(memory.session_id)


@st.dialog("Rename the session", icon=":material/edit:")
@error_inside
def _rename_dialog(session_id: str) -> None:
    memory = engine().open(session_id)
    title = st.text_input("Title", value=memory.status().title, max_chars=80)
    closing_button("Save", _rename, (session_id, title.strip()), disabled=not title.strip(), kind="primary")


def _rename(session_id: str, title: str) -> None:
    try:
        engine().open(session_id).rename(title)
    except MemoryInspectorError as error:
        state.say("error", str(error))


@st.dialog("Reset the session", icon=":material/restart_alt:")
@error_inside
def _reset_dialog(session_id: str) -> None:
    status = engine().open(session_id).status()
    messages = status.queue_messages + status.archived_messages
    st.markdown(
        f"Removes {count(messages, 'message')} of **{plain(_title(status.title, session_id))}**, and what was learned "
        "from them alone. Blocks, their texts and the settings stay."
    )
    if session_id == DEMO_SESSION:
        st.markdown("The demo is then played anew to turn 11.")
    with st.container(horizontal=True):
        closing_button("Reset session", _reset, (session_id,), kind="primary")
        if st.button("Keep"):
            st.rerun()


def _reset(session_id: str) -> None:
    shared = engine()
    try:
        if session_id == DEMO_SESSION:
            job = f"{RESETTING}-{uuid.uuid4().hex}"
            shared.start(DEMO_SESSION, job, lambda job: reset_demo(job, shared.database, shared.services))
        else:
            shared.open(session_id).reset()
    except MemoryInspectorError as error:
        state.say("error", str(error))
    state.show_story("", None)


@st.dialog("Delete the session", icon=":material/delete:")
@error_inside
def _delete_dialog(session_id: str) -> None:
    status = engine().open(session_id).status()
    messages = status.queue_messages + status.archived_messages
    st.markdown(
        f"Delete **{plain(_title(status.title, session_id))}** with {count(messages, 'message')} and what was learned "
        "from them? Facts that belong to a user stay."
    )
    with st.container(horizontal=True):
        closing_button("Delete session", _delete, (session_id,), kind="primary")
        if st.button("Keep"):
            st.rerun()


def _delete(session_id: str) -> None:
    try:
        delete_session(engine().database, session_id)
    except MemoryInspectorError as error:
        state.say("error", str(error))
    state.select_session(DEMO_SESSION)


def _status_line() -> None:
    """What answers and learns here; what fails comes first."""
    chosen: model.Chosen | None = None
    try:
        chosen = model.chosen_model()
        title, icon, source = chosen.model.name, "cloud_off" if chosen.offline else "cloud", chosen.source
    except ConfigError as error:
        title, icon, source = "The model's address is wrong", "error", str(error)
    failed = _failed_deliveries()
    if failed:
        shown, icon = f"{count(len(failed), 'delivery')} failed", "error"
    else:
        shown = short(title, STATUS_CHARACTERS)
    with st.popover(plain(shown), icon=f":material/{icon}:", width="stretch", help="Which model answers and learns"):
        for block, why in dict.fromkeys((delivery.block, delivery.error or "") for delivery in failed):
            st.error(f"{plain(short(block))} could not be updated: {plain(why)}")
        st.markdown(f"**{plain(title)}**  \n:gray[{plain(source)}]")
        st.text_input("API key", type="password", key=model.KEY, help="Kept in this browser session only")
        st.text_input("Base URL", key=model.ADDRESS, placeholder="the endpoint's own address")
        st.text_input("Model", key=model.NAME, placeholder=DEFAULT_MODEL)
        st.markdown(
            ":small[:gray[Any OpenAI-compatible endpoint. The key is never stored, logged or exported. "
            "Without one, rules answer and learn: they are no language model.]]"
        )
        _in_use(chosen)


def _in_use(chosen: model.Chosen | None) -> None:
    """Which parts this session works with, one a line."""
    session_id = state.selected_session()
    if session_id is None or chosen is None:
        return
    services = model.services_for(chosen)
    try:
        parts = {
            "Facts learned by": services.extractor.name,
            "Embeddings": services.embedder.id,
            "Vectors": services.index.name,
            "Database": engine().database.url,
            "Tokens counted with": engine().open(session_id, services).counter_id,
        }
    except MemoryInspectorError:  # the page says what is wrong
        return
    lines = "  \n".join(f"{label}: {plain(value)}" for label, value in parts.items())
    st.markdown(f":small[:gray[{lines}]]")


def _failed_deliveries() -> list[Delivery]:
    """Of the selected session, what failed and is not yet done: given up, or to be tried again."""
    session_id = state.selected_session()
    if session_id is None:
        return []
    try:
        waiting = engine().open(session_id).deliveries(states=("pending", "parked"))
    except MemoryInspectorError:  # the page says what is wrong with the session
        return []
    return [delivery for delivery in waiting if delivery.error]


def _title(title: str, session_id: str) -> str:
    return title or f"Session {session_id[:8]}"
