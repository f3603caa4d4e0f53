"""Dialogs of the Facts page: add, split, merge, reject, delete and copy facts."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_core.text import similarity
from memory_inspector.reading.fact_rows import (
    PINNED,
    PUT_AWAY,
    REASONS,
    TEXT,
    Conflict,
    Edits,
    Picked,
    conflicts,
    merged_words,
    over_theirs,
    plan_table,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, MIN_PIXELS
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import closing_button, closing_buttons, dialog, filled_rows, more_line
from ui.tab import state

FIELD_PIXELS = 110
OFFERED = 50
"""Maximum number of facts offered for merging, the most similar ones."""


@dialog("Add a fact", "add", side=True)
def add_dialog(desk: FactSnapshot) -> None:
    """Add a fact, with a preview of the next prompt."""
    words, pin = fact_tab.key(desk.place, "add_words"), fact_tab.key(desk.place, "add_pin")
    text = st.text_area("Fact", key=words, height=FIELD_PIXELS, max_chars=4_000, placeholder="Ana likes jazz")
    pinned = st.toggle("Pin it", key=pin, help="A pinned fact is cut last.")
    closing_buttons("Add fact", _add, (desk, words, pin), on_cancel=partial(fact_tab.redraw, desk.place))
    if text.strip():
        fact_changes.draw_effect(desk, lambda: plans.add(text, pinned))
    else:
        st.markdown(":small[:gray[Enter a fact to preview the next prompt.]]")


def _add(desk: FactSnapshot, words: str, pin: str) -> None:
    text = str(st.session_state.get(words, ""))
    pinned = bool(st.session_state.get(pin, False))
    # `apply` does not return the new fact's id: it is the one that was not there before.
    before = {fact.id for fact in desk.curation.facts()}
    if fact_changes.apply(desk, lambda: plans.add(text, pinned)):
        fact_tab.redraw(desk.place)
        new = [fact.id for fact in desk.curation.facts() if fact.id not in before]
        fact_tab.change(desk.place, view="active", picked=Picked(new[-1] if new else None))


@dialog("Split a fact", "call_split", side=True)
def split_dialog(desk: FactSnapshot, id: int) -> None:
    """Split a fact into several; each keeps its sources."""
    fact = _still(desk, id)
    if fact is None:
        return
    st.markdown(f"**{plain(short(fact.text, 200))}**")
    # The version is in the key: a fact that was changed meanwhile is offered with its new words.
    key = f"facts__split_{id}_{fact.version}"
    text = st.text_area("One fact per line", value=_halves(fact.text), key=key, height=FIELD_PIXELS, max_chars=4_000)
    closing_buttons("Split", _split, (desk, fact, key))
    fact_changes.draw_effect(desk, lambda: plans.split(fact, _lines(text)))


def _split(desk: FactSnapshot, fact: Fact, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    fact_changes.apply(desk, lambda: plans.split(fact, _lines(text)))


@dialog("Merge with another fact", "merge", side=True)
def merge_dialog(desk: FactSnapshot, id: int) -> None:
    """Merge two facts, keeping the sources of both; the most similar fact is preselected."""
    fact = _still(desk, id)
    if fact is None:
        return
    others = [other for other in desk.curation.facts(states=("active", "proposed")) if other.id != id]
    if not others:
        st.markdown("There is no other fact to merge it with.")
        return
    # By shared words, which needs no model: near copies differ in few of them.
    others = sorted(others, key=lambda other: -similarity(other.text, fact.text))[:OFFERED]
    by_id = {other.id: other for other in others}
    st.markdown(f"**{plain(short(fact.text, 200))}**")
    chosen = st.selectbox(
        "With", list(by_id), key=f"facts__merge_with_{id}", format_func=lambda other: short(by_id[other].text, 90)
    )
    other = by_id[chosen] if chosen is not None else others[0]
    # Another partner needs another suggestion, so the field belongs to the pair.
    key = f"facts__merge_words_{id}_{other.id}"
    text = st.text_area(
        "Into",
        value=merged_words([fact.text, other.text]),
        key=key,
        height=FIELD_PIXELS,
        max_chars=4_000,
        placeholder="One sentence that says what both say",
    )
    closing_buttons("Merge", _merge, (desk, fact, other, key))
    if text.strip():
        fact_changes.draw_effect(desk, lambda: plans.merge([fact, other], text))


def _merge(desk: FactSnapshot, fact: Fact, other: Fact, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    fact_changes.apply(desk, lambda: plans.merge([fact, other], text))


@dialog("Reject a fact", "block", width=560)
def reject_dialog(desk: FactSnapshot, id: int) -> None:
    """Reject a fact; similar facts that are found later are suppressed."""
    fact = _still(desk, id)
    if fact is None:
        return
    st.markdown(f"**{plain(short(fact.text, 200))}**")
    st.markdown("It and similar facts will not be learned again. Why do you reject it?")
    with st.container(horizontal=True, gap="small"):
        for reason in REASONS:
            change = desk, partial(plans.reject, [fact], reason.lower())
            closing_button(reason, fact_changes.make, change, key=f"facts__reject_{reason}")


@dialog("Delete for good", "delete")
def delete_dialog(desk: FactSnapshot, ids: Sequence[int]) -> None:
    """Confirm a permanent deletion."""
    facts = [fact for fact in desk.curation.facts() if fact.id in set(ids)]
    if not facts:
        st.markdown("It was deleted elsewhere.")
        return
    if len(facts) == 1:
        st.markdown(f"Delete **{plain(short(facts[0].text, 200))}** with its history?")
    else:
        st.markdown(f"Delete these {count(len(facts), 'fact')} with their history?")
        # A confirmation names what it deletes, but must fit a small dialog.
        for fact in facts[:8]:
            st.markdown(f":small[{plain(short(fact.text, 90))}]")
        more_line(len(facts) - 8)
    st.markdown(":small[The words are removed everywhere. This cannot be undone. The messages they came from stay.]")
    closing_buttons("Delete for good", fact_changes.erase, (desk, facts))


@dialog("Copy a fact", "content_copy", side=True)
def copy_dialog(desk: FactSnapshot, id: int, block: str) -> None:
    """Copy a fact to another facts block, of the session or of the user."""
    fact = _still(desk, id)
    if fact is None:
        return
    st.markdown(f"**{plain(short(fact.text, 200))}**")
    scope = next((a.record.settings.get("scope") for a in desk.memory.blocks if a.name == block), "session")
    whose = "All sessions of the user then include it." if scope == "user" else "Both blocks then hold it."
    st.markdown(f"Copy it to **{plain(short(block))}**? {whose}")
    # A desk on the other block, where the copy is stored, and is taken back by Undo.
    other = FactSnapshot(memory=desk.memory, block=block, rows=())
    closing_buttons("Copy", fact_changes.make, (other, partial(plans.add, fact.text, fact.pinned, fact.category)))


def _still(desk: FactSnapshot, id: int) -> Fact | None:
    """The current fact; shows a message and returns None if it was deleted."""
    fact = next((fact for fact in desk.curation.facts() if fact.id == id), None)
    if fact is None:
        st.markdown("This fact was deleted elsewhere.")
    return fact


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _halves(text: str) -> str:
    """Suggest a split into two facts, at the first `and`, semicolon or comma.

    >>> _halves("Ana likes jazz and swims")
    'Ana likes jazz\\nswims'
    """
    for mark in (" and ", "; ", ", "):
        before, match, after = text.partition(mark)
        if match:
            return f"{before}\n{after}"
    return text


# -- edit as table ---------------------------------------------------------------------------------


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
