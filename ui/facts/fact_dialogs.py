"""Dialogs of the Facts page: change facts one by one or as a table, try extraction, export and import them."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.fact_desk import TriedFact
from memory_core.errors import place_words
from memory_core.planning import curation as plans
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import Fact
from memory_core.text import listed, similarity
from memory_inspector.files.facts_file import ImportPlan, facts_to_csv, facts_to_json, plan_import, read_facts_file
from memory_inspector.files.stores.memory_stores import PROGRAMS
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
from ui.facts import fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, MIN_PIXELS
from ui.facts.fact_tab import FactSnapshot
from ui.parts.components import closing_button, closing_buttons, dialog, filled_rows, more_line
from ui.parts.facts_limit import draw_limit
from ui.tab import state
from ui.tab.people import allowed

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
        fact_tab.draw_effect(desk, lambda: plans.add(text, pinned))
    else:
        st.markdown(":small[:gray[Enter a fact to preview the next prompt.]]")


def _add(desk: FactSnapshot, words: str, pin: str) -> None:
    text = str(st.session_state.get(words, ""))
    pinned = bool(st.session_state.get(pin, False))
    # `apply` does not return the new fact's id: it is the one that was not there before.
    before = {fact.id for fact in desk.curation.facts()}
    if fact_tab.apply(desk, lambda: plans.add(text, pinned)):
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
    fact_tab.draw_effect(desk, lambda: plans.split(fact, _lines(text)))


def _split(desk: FactSnapshot, fact: Fact, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    fact_tab.apply(desk, lambda: plans.split(fact, _lines(text)))


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
        fact_tab.draw_effect(desk, lambda: plans.merge([fact, other], text))


def _merge(desk: FactSnapshot, fact: Fact, other: Fact, key: str) -> None:
    text = str(st.session_state.get(key, ""))
    fact_tab.apply(desk, lambda: plans.merge([fact, other], text))


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
            closing_button(reason, fact_tab.make, change, key=f"facts__reject_{reason}")


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
    closing_buttons("Delete for good", fact_tab.erase, (desk, facts))


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
    closing_buttons("Copy", fact_tab.make, (other, partial(plans.add, fact.text, fact.pinned, fact.category)))


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
            fact_tab.store(desk, plan_table(base, edits))
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


# -- try extraction: what a text would teach the block; only ticked facts are stored --------------


TRIED_PIXELS = 140
LONGEST_TRIED = 20_000

_OUTCOMES = {
    "added": "New",
    "proposed": "New",
    "confirmed": "Known already",
    "held_back": "Held back: rejected before",
    "repeated": "Found twice",
    "updated": "Updates a known fact",
    "ended": "Ends a known fact",
}


@dataclass(frozen=True, slots=True)
class Tries:
    """Facts found in a text."""

    text: str
    facts: tuple[TriedFact, ...]


def outcome(tried: TriedFact) -> str:
    """Describe the outcome for a fact: `Known already (0.94): Ana likes jazz`."""
    label = _OUTCOMES[tried.outcome]
    if tried.conflicts_with and tried.outcome in ("added", "proposed"):
        return f"{label}, contradicts: {short(tried.conflicts_with[0].text, 80)}"
    if tried.fact is not None and tried.outcome in ("confirmed", "held_back", "updated", "ended"):
        alike = f" ({tried.similarity:.2f})" if tried.similarity is not None else ""
        return f"{label}{alike}: {short(tried.fact.text, 80)}"
    return label


@dialog("Try extraction", "science", width=720)
def try_dialog(desk: FactSnapshot) -> None:
    """Paste a text, preview the facts found in it, and add some of them."""
    key = fact_tab.key(desk.place, "try_words")
    st.text_area("Text, as if the user had said it", key=key, height=TRIED_PIXELS, max_chars=LONGEST_TRIED)
    extractor = desk.memory.session.services.extractor.name
    with st.container(horizontal=True, vertical_alignment="center"):
        # Not a closing button: what was found is shown in the same dialog.
        st.button("Try", key="facts__try", on_click=_try, args=(desk, key))
        st.markdown(f":small[:gray[Read by {plain(extractor)}. Nothing is stored.]]", width="content")
    tries = _tries(desk)
    if tries is None:
        return
    if not tries.facts:
        st.markdown("No fact was found in it.")
        return
    rows = [
        {
            # Ticked are those that a flush would add; whoever wants a repeated or suppressed one ticks it by hand.
            "Take": tried.outcome in ("added", "proposed"),
            "Fact": tried.text,
            "Outcome": outcome(tried),
        }
        for tried in tries.facts
    ]
    # Another text finds other rows: ticks of the text before must not apply to them.
    ticks = fact_tab.key(desk.place, f"try_rows_{zlib.crc32(tries.text.encode())}")
    taken = st.data_editor(
        rows,
        key=ticks,
        hide_index=True,
        disabled=["Fact", "Outcome"],
        column_config={"Take": st.column_config.CheckboxColumn("Take", width=60)},
        height="content",
        alt="Facts found in the text",
    )
    chosen = [tried for tried, row in zip(tries.facts, taken, strict=True) if row["Take"]]
    closing_buttons(
        f"Add {count(len(chosen), 'fact')}",
        _take,
        (desk, [(tried.text, tried.category) for tried in chosen]),
        on_cancel=partial(forget_tries, desk.place),
        **allowed(disabled=not chosen or desk.read_only),
    )


def forget_tries(place: fact_tab.ListPosition) -> None:
    """Clear the results of a trial."""
    fact_tab.keep(place, "tries", None)
    fact_tab.redraw(place)


def _tries(desk: FactSnapshot) -> Tries | None:
    failed = fact_tab.remembered(desk.place, "try_failed")
    if failed:
        st.error(plain(failed))
    tries: Tries | None = fact_tab.remembered(desk.place, "tries")
    return tries


def _try(desk: FactSnapshot, key: str) -> None:
    text = str(st.session_state.get(key, "")).strip()
    if not text:
        return
    # The text is tried anew: an error of the last try is over, also if this one finds nothing.
    fact_tab.keep(desk.place, "try_failed", None)
    try:
        tries = desk.curation.try_extraction(text, services=desk.memory.session.services)
        fact_tab.keep(desk.place, "tries", Tries(text, tuple(tries)))
    except MemoryInspectorError as error:
        fact_tab.keep(desk.place, "try_failed", f"{error} Nothing was stored.")


def _take(desk: FactSnapshot, facts: Sequence[tuple[str, str]]) -> None:
    # One change set, so that one Undo takes all of them back.
    made = [plans.add(text, category=category) for text, category in facts]
    fact_tab.apply(desk, lambda: plans.together("add", *made))
    forget_tries(desk.place)


# -- files: export, and import with a preview -----------------------------------------------------


MAX_MEGABYTES = 20
SHOWN = 200
LONGEST_PROBLEMS = 6


@dialog("Export facts", "download", side=True)
def export_dialog(desk: FactSnapshot) -> None:
    """Export the active facts, or those in every state, as CSV or JSON."""
    every = st.toggle("Include inactive facts", key="facts__export_all")
    facts = [fact for fact in desk.curation.facts() if every or fact.state == "active"]
    # Read once for both formats; the files themselves are written only when a button is pressed.
    turns = desk.curation.source_turns(facts)
    st.markdown(f"{count(len(facts), 'fact')}, each with its state and sources.")
    name = f"{_file_name(desk.block)}-facts"
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: facts_to_csv(facts, turns),
            f"{name}.csv",
            "text/csv",
            key="facts__csv",
            icon=":material/table:",
            on_click="ignore",
        )
        st.download_button(
            "JSON",
            lambda: facts_to_json(facts, turns),
            f"{name}.json",
            "application/json",
            key="facts__json",
            icon=":material/data_object:",
            on_click="ignore",
        )


@dialog("Import facts", "upload", width=720)
def import_dialog(desk: FactSnapshot) -> None:
    """Choose a file, preview its facts and problems, and import it as one change."""
    stores = listed(f"{store.name} ({store.file})" for store in PROGRAMS)
    uploaded = st.file_uploader(
        "A CSV or JSON file of facts, or the store of another memory",
        key=fact_tab.key(desk.place, "import"),
        max_upload_size=MAX_MEGABYTES,
        help='CSV with a column "text", or JSON: a list of texts or of objects with "text". '
        f"What {stores} know is read too.",
    )
    if uploaded is None:
        closing_button("Cancel")
        return
    try:
        # Planned on every drawing against the facts as they are now: what was added meanwhile shows as a duplicate.
        plan = plan_import(read_facts_file(uploaded.getvalue(), filename=uploaded.name), desk.curation.facts())
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
        closing_button("Cancel", fact_tab.redraw, (desk.place,))
        return
    _preview(plan)
    if plan.change is not None:
        # An import can exceed `max_facts`, and the next flush would condense the imported facts: warned of here.
        added = [step for step in plan.change.steps if isinstance(step, FactDraft)]
        draw_limit(desk.memory, desk.block, desk.curation.limit_effect(added), key="facts__import")
    with st.container(horizontal=True):
        if plan.change is not None:
            closing_button(f"Import {tokens(plan.importable)}", _import, (desk, plan), kind="primary")
        closing_button("Cancel", fact_tab.redraw, (desk.place,))


def _preview(plan: ImportPlan) -> None:
    st.markdown(f"**{plain(plan.sentence)}**")
    problems = plan.problems[:LONGEST_PROBLEMS] if len(plan.problems) > 1 else ()  # the sentence names a single one
    for problem in problems:
        st.markdown(f":small[{_where(problem.place)}: {plain(problem.what)}]")
    for duplicate in plan.duplicates[:LONGEST_PROBLEMS]:
        of = duplicate.of_place
        same = "duplicates an existing fact" if of is None else f"repeats {plain(place_words(of))}"
        st.markdown(f":small[{_where(duplicate.place)} {same}: {plain(short(duplicate.text, 80))}]")
    hidden = max(0, len(plan.problems) - LONGEST_PROBLEMS) + max(0, len(plan.duplicates) - LONGEST_PROBLEMS)
    if hidden:
        st.markdown(f":small[:gray[and {tokens(hidden)} more lines]]")
    if plan.change is not None:
        # Only the first rows are sent to the browser; the sentence above counts all.
        texts = [step.text for step in plan.change.steps if isinstance(step, FactDraft)]
        st.dataframe({"Fact": texts[:SHOWN]}, hide_index=True, key="facts__import_rows", alt="Facts to import")
        more_line(len(texts) - SHOWN)


def _where(place: int | str) -> str:
    return f"Line {tokens(place)}" if isinstance(place, int) else plain(place)


def _import(desk: FactSnapshot, plan: ImportPlan) -> None:
    change = plan.change
    # The planned change, and no new plan: what is stored is what was previewed, or an error is reported.
    if change is not None and fact_tab.apply(desk, lambda: change):
        fact_tab.change(desk.place, view="active")
    fact_tab.redraw(desk.place)


def _file_name(block: str) -> str:
    """Turn a block's name into the beginning of a file name.

    >>> _file_name("Sam's facts / 2")
    'sam-s-facts-2'
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in block.lower())
    return "-".join(letters.split()) or "block"
