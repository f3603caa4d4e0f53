"""The sidebar: which session, what to do with it, and which model answers."""

import uuid

import streamlit as st

from memory_core import ConfigError, MemoryInspectorError, StoreError, delete_session, sessions
from ui import model, state
from ui.components import closing_button
from ui.demo import DEMO_SESSION, demo_memory, has_demo, prepare_demo, reset_demo
from ui.importing import import_dialog
from ui.new_session import new_memory
from ui.services import engine
from ui.text import plain

PREPARING = "preparing"


def draw_sidebar() -> None:
    """The session picker with its menu, and the status line."""
    try:
        shared = engine()
        if not has_demo(shared.database) and shared.job(DEMO_SESSION) is None:
            demo_memory(shared.database, shared.services)  # quick: it can be selected from the first drawing on
            shared.start(DEMO_SESSION, PREPARING, lambda job: prepare_demo(job, shared.database, shared.services))
        known = {status.session_id: status for status in sessions(shared.database)}
    except StoreError as error:
        st.error(plain(str(error)), icon=":material/database_off:")
        return
    ids = sorted(known, key=lambda id: (id != DEMO_SESSION, -known[id].updated_at))
    _check_link(ids)
    st.selectbox(
        "Session",
        ids,
        key=state.SESSION,
        format_func=lambda id: _title(known[id].title, id),
        bind="query-params",
        placeholder="No session yet",
        on_change=lambda: state.show_earlier(0),
    )
    with st.container(horizontal=True, gap="small"):
        st.button("New", icon=":material/add:", on_click=_new_session, help="Start an empty session")
        _session_menu(state.selected_session())
    _status_line()


def _check_link(ids: list[str]) -> None:
    """Say it when the address asks for a session that is not there; Streamlit would drop it silently."""
    chosen = st.session_state.get(state.SESSION)
    asked = st.query_params.get(state.SESSION) if chosen is None else chosen
    if asked is not None and asked not in ids:
        state.say("warning", "This session was deleted elsewhere, or never existed. Showing another one.")
        st.session_state[state.SESSION] = ids[0] if ids else None


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
    chosen = st.menu_button("More", list(actions), icon=":material/more_horiz:", key="session__menu")
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
def _rename_dialog(session_id: str) -> None:
    memory = engine().open(session_id)
    title = st.text_input("Title", value=memory.status().title, max_chars=80)
    if st.button("Save", type="primary", disabled=not title.strip()):
        memory.rename(title.strip())
        st.rerun()


@st.dialog("Reset the session", icon=":material/restart_alt:")
def _reset_dialog(session_id: str) -> None:
    status = engine().open(session_id).status()
    messages = status.queue_messages + status.archived_messages
    st.markdown(
        f"Removes {messages:,} messages of **{plain(_title(status.title, session_id))}**, and what was learned "
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
            job = f"reset-{uuid.uuid4().hex}"
            shared.start(DEMO_SESSION, job, lambda job: reset_demo(job, shared.database, shared.services))
        else:
            shared.open(session_id).reset()
    except MemoryInspectorError as error:
        state.say("error", str(error))
    state.show_story("", None)


@st.dialog("Delete the session", icon=":material/delete:")
def _delete_dialog(session_id: str) -> None:
    status = engine().open(session_id).status()
    messages = status.queue_messages + status.archived_messages
    st.markdown(
        f"Delete **{plain(_title(status.title, session_id))}** with {messages:,} messages and what was learned "
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
    try:
        chosen = model.chosen_model()
        label, icon = plain(chosen.model.name), "cloud_off" if chosen.offline else "cloud"
        source = chosen.source
    except ConfigError as error:
        label, icon, source = "The model's address is wrong", "error", str(error)
    with st.popover(label, icon=f":material/{icon}:", width="stretch", help="Which model answers and learns"):
        st.markdown(f"**{label}**  \n:gray[{plain(source)}]")
        st.text_input("API key", type="password", key=model.KEY, help="Kept in this browser session only")
        st.text_input("Base URL", key=model.ADDRESS, placeholder="the endpoint's own address")
        st.text_input("Model", key=model.NAME, placeholder="gpt-4o-mini")
        st.markdown(
            ":small[:gray[Any OpenAI-compatible endpoint. The key is never stored, logged or exported. "
            "Without one, rules answer and learn: they are no language model.]]"
        )


def _title(title: str, session_id: str) -> str:
    return title or f"Session {session_id[:8]}"
