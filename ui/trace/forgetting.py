"""The dialog Forget: what says a phrase, as rows that can be unticked, and the receipt of the search afterwards."""

import streamlit as st

from memory_core import ConfigError, Memory, MemoryInspectorError
from memory_core.planning.impact import Affected
from memory_core.verification.receipts import Receipt
from memory_inspector.server.forget_receipt import receipt_for
from memory_inspector.wording.formatting import count, plain
from memory_inspector.wording.impact_text import beside, impact_rows
from ui.parts.components import ROW_PIXELS, error_inside
from ui.tab.services import engine

_PHRASE, _DONE = "forget__phrase", "forget__done"
MAX_CHARACTERS = 500
TABLE_PIXELS = 320


def forget() -> None:
    """Keep no phrase and no receipt of a dialog that is closed."""
    for key in (_PHRASE, _DONE):
        st.session_state.pop(key, None)


@st.dialog("Forget", width="large", icon=":material/delete_forever:", on_dismiss="rerun")
@error_inside
def forget_dialog(session_id: str, phrase: str) -> None:
    """Ask what is forgotten with a phrase; afterwards show what a search for it finds."""
    memory = engine().open(session_id)
    # Kept until the dialog is closed: a second drawing must show the receipt, and not forget once more.
    done: tuple[str, Receipt | str] | None = st.session_state.get(_DONE)
    if done is not None:
        _draw_receipt(*done)
        return
    typed = st.text_input("Phrase", value=phrase, key=_PHRASE, max_chars=MAX_CHARACTERS).strip()
    try:
        impact = memory.session.forget(typed, preview=True)
    except MemoryInspectorError as error:
        st.markdown(plain(str(error)))
        return
    if not impact.rows:
        st.markdown("Nothing in this session says it.")
        return
    # Rows of other sessions cannot be ticked: they are forgotten there.
    rows = impact.erased
    edited = st.data_editor(
        impact_rows(rows),
        # The phrase is part of the key: ticks of another phrase's rows must not apply to these.
        key=f"forget__rows_{typed}",
        disabled=["What", "Why", "Turn", "Text"],
        height=min(TABLE_PIXELS, ROW_PIXELS * (len(rows) + 1) + 3),
        column_config={
            "Forget": st.column_config.CheckboxColumn(width=64),
            "Turn": st.column_config.NumberColumn(width=64),
        },
    )
    unticked = [row for row, line in zip(rows, edited, strict=True) if not line["Forget"]]
    for row in impact.rows:
        if row.stays:
            st.markdown(f":small[:orange[:material/warning:] Also in {plain(row.words)}. Forget it there, too.]")
    # A second preview: it tells what goes once the unticked rows are kept.
    going = memory.session.forget(typed, keep=unticked, preview=True) if unticked else impact
    st.markdown(f":small[:gray[{plain(beside(going))}]]")
    number = len(going.erased)
    if st.button(
        f"Forget {count(number, 'thing')}",
        key="forget__do",
        type="primary",
        icon=":material/delete_forever:",
        disabled=not number,
    ):
        st.session_state[_DONE] = _forgotten(memory, typed, unticked)
        st.rerun(scope="fragment")


def _forgotten(memory: Memory, phrase: str, unticked: list[Affected]) -> tuple[str, Receipt | str]:
    """Forget, then search; return what was done, and the receipt or why there is none."""
    # A running turn could learn again from the words while they are forgotten.
    if not engine().stop(memory.session_id):
        return "Nothing was changed.", "A turn is still being written: try again when it has ended."
    with st.spinner("Forgetting"):
        try:
            impact = memory.session.forget(phrase, keep=unticked)
        except MemoryInspectorError as error:
            return "Not all was forgotten.", str(error)
    with st.spinner("Searching for what is left"):
        try:
            receipt: Receipt | str = receipt_for(memory, phrase)
        except ConfigError as error:
            receipt = str(error)
    return f"Forgot {count(len(impact.erased), 'thing')}.", receipt


def _draw_receipt(done: str, receipt: Receipt | str) -> None:
    if isinstance(receipt, str):
        st.warning(f"{plain(done)} {plain(receipt)}")
        return
    if receipt.clean:
        st.success(f"{plain(done)} A search of all files finds the words nowhere.")
    else:
        st.warning(f"{plain(done)} The words still stand in what is listed here.")
    st.code(receipt.page(), language=None, wrap_lines=True)
    with st.container(horizontal=True):
        st.download_button(
            "Receipt",
            receipt.to_json(),
            "receipt.json",
            "application/json",
            key="forget__json",
            icon=":material/download:",
            on_click="ignore",
        )
        st.download_button(
            "Page to print", receipt.page(), "receipt.txt", "text/plain", key="forget__page", on_click="ignore"
        )
    st.markdown(":small[:gray[The receipt holds no words. `memory-inspector verify receipt.json` searches again.]]")
