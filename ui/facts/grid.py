"""The dialog Edit as table: edit a snapshot of the facts in a grid, stored as one change."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_rows import (
    PINNED,
    PUT_AWAY,
    TEXT,
    Conflict,
    Edits,
    conflicts,
    over_theirs,
    plan_table,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, MIN_PIXELS
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import closing_button, dialog, filled_rows
from ui.tab import state


def open_table(desk: FactSnapshot) -> None:
    """Open the table with the present facts."""
    facts = [fact for fact in desk.curation.facts() if fact.state not in PUT_AWAY]
    fact_tab.keep(desk.place, "table", tuple(facts))  # constant: a data editor whose data changes loses its edits
    fact_tab.keep(desk.place, "table_base", tuple(facts))
    # Another number is another widget: edits that were discarded do not come back.
    fact_tab.keep(desk.place, "table_number", (fact_tab.remembered(desk.place, "table_number") or 0) + 1)
    fact_tab.keep(desk.place, "table_said", None)
    table_dialog(desk)


@dialog("Edit as table", "table_edit", width=760)
def table_dialog(desk: FactSnapshot) -> None:
    """Edit texts and pins in a grid. Concurrent changes do not alter the grid; they are detected on saving."""
    snapshot: Sequence[Fact] = fact_tab.remembered(desk.place, "table") or ()
    key = fact_tab.key(desk.place, f"table_{fact_tab.remembered(desk.place, 'table_number')}")
    sentence = fact_tab.remembered(desk.place, "table_said")
    # One slot for both kinds of answer: a string is an error, a tuple holds the conflicts.
    if isinstance(sentence, str):
        st.error(plain(sentence))
    elif sentence:
        _draw_conflicts(sentence)
    # One row more than there are facts, for the empty row that adds one.
    filled_rows("facts__edited", len(snapshot) + 1, minus=BESIDE_PIXELS, least=MIN_PIXELS).data_editor(
        pd.DataFrame(
            {
                # With dtypes, because an empty list has none and the editor could not tell which cells to offer.
                TEXT: pd.Series([fact.text for fact in snapshot], dtype="string"),
                PINNED: pd.Series([fact.pinned for fact in snapshot], dtype="boolean"),
            }
        ),
        key=key,
        num_rows="dynamic",
        hide_index=True,
        height="stretch",
        column_config={
            TEXT: st.column_config.TextColumn(TEXT, required=True, max_chars=4_000),
            PINNED: st.column_config.CheckboxColumn(PINNED, width=70, default=False),
        },
        alt="Facts to edit",
    )
    # The editor keeps what was typed, added and deleted as a difference to its data, in the session state.
    edits = Edits.of(st.session_state.get(key, {}))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Save", key="facts__table_save", type="primary", on_click=_save, args=(desk, key))
        if sentence and not isinstance(sentence, str):
            st.button("Overwrite theirs", key="facts__table_over", on_click=_write_over, args=(desk, key))
        closing_button("Discard", key="facts__table_discard")
        unsaved = count(len(edits), "unsaved change") if len(edits) else "No unsaved changes"
        st.markdown(f":small[:gray[{unsaved}. Deleted rows are retired.]]", width="content")


def _draw_conflicts(conflicting: Sequence[Conflict]) -> None:
    rows = ", ".join(tokens(conflict.row) for conflict in conflicting)
    were = "Fact {} was" if len(conflicting) == 1 else "Facts {} were"
    st.warning(f"{were.format(rows)} changed elsewhere. Your text is kept below; nothing was overwritten.")
    for conflict in conflicting:
        now = f"now says: {plain(short(conflict.theirs.text, 200))}" if conflict.theirs else "was deleted"
        st.markdown(f":small[Fact {tokens(conflict.row)} {now}]")


def _save(desk: FactSnapshot, key: str) -> None:
    """Store all edits, or show why none was stored; the grid keeps them."""
    base: Sequence[Fact] = fact_tab.remembered(desk.place, "table_base") or ()
    edits = Edits.of(st.session_state.get(key, {}))
    try:
        # Checked against the facts of now, as the table may have been open for long.
        conflicting = conflicts(base, desk.curation.facts(), edits)
        if conflicting:
            fact_tab.keep(desk.place, "table_said", tuple(conflicting))
            return
        if len(edits):
            fact_changes.store(desk, plan_table(base, edits))
    except MemoryInspectorError as error:
        fact_tab.keep(desk.place, "table_said", str(error))
        return
    # Every failure returned above: the dialog closes only when nothing is left unsaved.
    fact_tab.keep(desk.place, "table_said", None)
    state.close_dialog()


def _write_over(desk: FactSnapshot, key: str) -> None:
    base: Sequence[Fact] = fact_tab.remembered(desk.place, "table_base") or ()
    # Base the edits on what was seen just now: a change that comes after it is a conflict again.
    fact_tab.keep(desk.place, "table_base", over_theirs(base, desk.curation.facts()))
    _save(desk, key)
