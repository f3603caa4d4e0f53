"""The dialog that erases a user: the stored data, and the receipt of a search afterwards."""

import streamlit as st

from memory_core import MemoryInspectorError, forget_user
from memory_core.sessions.forget_user import UserData, data_of_user
from memory_inspector.server.forget_receipt import receipt_for
from memory_inspector.verification.receipts import ForgetReceipt
from memory_inspector.wording.formatting import count, plain, short
from ui.parts.components import ROW_PIXELS, dialog
from ui.parts.forgetting import draw_receipt
from ui.tab.people import allowed
from ui.tab.services import engine

_DONE = "forget_user__done"
TABLE_PIXELS = 280


def draw_button(user_id: str) -> bool:
    """Draw the button that opens the dialog; return whether it was clicked."""
    clicked = st.button(
        "Forget this user",
        key="sessions__forget_user",
        type="tertiary",
        icon=":material/person_off:",
        **allowed(forget_user),
    )
    if clicked:
        st.session_state.pop(_DONE, None)
        forget_user_dialog(user_id)
    return clicked


@dialog("Forget this user", "person_off", width="large")
def forget_user_dialog(user_id: str) -> None:
    """Ask before all sessions and facts of a user are erased; afterwards show the receipt of a search for them."""
    # Kept until the dialog is closed: a second drawing must show the receipt, and not forget once more.
    done: tuple[str, ForgetReceipt | str] | None = st.session_state.get(_DONE)
    if done is not None:
        draw_receipt(*done)
        return
    try:
        data = data_of_user(engine().database, user_id)
    except MemoryInspectorError as error:
        st.markdown(plain(str(error)))
        return
    st.markdown(f"Everything stored about **{plain(short(user_id, 80))}**: {plain(_line(data))}.")
    # Without a session the facts are all there is.
    sessions: list[dict[str, object]] = [
        {
            "Session": status.title or status.session_id,
            "Messages": status.queue_messages + status.archived_messages,
            "Turns": status.turns,
        }
        for status in data.sessions
    ]
    listed = sessions or [{"Shared fact": fact} for fact in data.facts]
    st.dataframe(listed, hide_index=True, width="stretch", height=min(TABLE_PIXELS, ROW_PIXELS * (len(listed) + 1) + 3))
    st.markdown(":small[:gray[This cannot be undone. Mentions in the sessions of others stay.]]")
    if st.button(
        f"Forget {count(len(listed), 'session' if sessions else 'fact')}",
        key="forget_user__do",
        type="primary",
        icon=":material/person_off:",
    ):
        st.session_state[_DONE] = _forgotten(data)
        st.rerun(scope="fragment")


def _line(data: UserData) -> str:
    parts = [(len(data.sessions), "session"), (data.messages, "message"), (len(data.facts), "shared fact")]
    return ", ".join(count(number, noun) for number, noun in parts if number)


def _forgotten(data: UserData) -> tuple[str, ForgetReceipt | str]:
    """Forget, then search; return what was done, and the receipt or why there is none."""
    # A running turn could go on writing while its session is erased.
    if not all(engine().stop(status.session_id) for status in data.sessions):
        return "Nothing was changed.", "A turn is still being written: try again when it has ended."
    database = engine().database
    with st.spinner("Forgetting"):
        try:
            gone = forget_user(database, data.user_id, index=engine().services.index_of(database))
        except MemoryInspectorError as error:
            return "Nothing was forgotten.", str(error)
    with st.spinner("Searching for what is left"):
        try:
            receipt: ForgetReceipt | str = receipt_for(database, gone.searched)
        except MemoryInspectorError as error:
            receipt = str(error)
    return f"Forgot {_line(gone)}.", receipt
