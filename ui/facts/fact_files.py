"""Export facts to files, and import them with a preview."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.errors import place_words
from memory_core.planning.curation import FactDraft
from memory_core.text import listed
from memory_inspector.files.facts_file import ImportPlan, facts_to_csv, facts_to_json, plan_import, read_facts_file
from memory_inspector.files.stores.memory_stores import PROGRAMS
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import closing_button, dialog, more_line
from ui.parts.facts_limit import draw_limit

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
    if change is not None and fact_changes.apply(desk, lambda: change):
        fact_tab.change(desk.place, view="active")
    fact_tab.redraw(desk.place)


def _file_name(block: str) -> str:
    """Turn a block's name into the beginning of a file name.

    >>> _file_name("Sam's facts / 2")
    'sam-s-facts-2'
    """
    letters = "".join(letter if letter.isalnum() else " " for letter in block.lower())
    return "-".join(letters.split()) or "block"
