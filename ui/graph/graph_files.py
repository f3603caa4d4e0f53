"""Import a graph from a file, with a preview. Export is on Sessions."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.planning import graph_changes as plans
from memory_core.planning.graph_draft import GraphPlan
from memory_core.planning.graph_rules import Graph
from memory_inspector.files.graph_files import GraphFile, import_graph, read_graph_file
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.graph import graph_changes, graph_tab
from ui.graph.graph_snapshot import GraphSnapshot
from ui.parts.components import closing_button, dialog, more_line

MAX_MEGABYTES = 20
SHOWN = 200


@dialog("Import a graph", "upload", width=720)
def import_dialog(desk: GraphSnapshot) -> None:
    """Choose a file, preview what is new in it, and import it as one change."""
    uploaded = st.file_uploader(
        "A graph as JSON",
        key=f"{graph_tab.key(desk.place, 'import')}_{graph_tab.looking(desk.place).generation}",
        max_upload_size=MAX_MEGABYTES,
        help="Files exported on Sessions, and the JSONL file of MCP's reference memory. GraphML and Cypher "
        "cannot be imported.",
    )
    if uploaded is None:
        closing_button("Cancel")
        return
    # Read at each drawing: the plan says what is new compared with the graph as it is now.
    graph = desk.desk.graph()
    try:
        file = read_graph_file(uploaded.getvalue(), uploaded.name)
    except MemoryInspectorError as error:
        st.error(f"{plain(str(error))} Nothing was imported.")
        closing_button("Cancel", graph_tab.redraw, (desk.place,))
        return
    # Planned by the engine's own rules, which also say what they refuse and why.
    planned = foreseen(graph, file)
    st.markdown(f"**{plain(preview(file, planned))}**")
    for reason, number in planned.refused:
        st.markdown(f":small[Left out, {tokens(number)}: {plain(reason)}]")
    rows = [
        {
            "From": relation.subject,
            "Relation": relation.predicate,
            "To": relation.object,
            "State": _state(relation.state),
        }
        for relation in file.relations
    ]
    st.dataframe(rows[:SHOWN], hide_index=True, key="graph__import_rows", alt="Relations in the file")
    more_line(len(rows) - SHOWN)
    with st.container(horizontal=True):
        # Without new relations there is nothing to import; entities alone are in no prompt.
        if planned.added_relations:
            says = f"Import {count(len(planned.added_relations), 'relation')}"
            closing_button(says, _import, (desk, file), kind="primary")
        closing_button("Cancel", graph_tab.redraw, (desk.place,))


def foreseen(graph: Graph, file: GraphFile) -> GraphPlan:
    """Plan the import of a file."""
    new = [
        plans.NamedRelation(relation.subject, relation.predicate, relation.object, ended=relation.state == "ended")
        for relation in file.relations
    ]
    return plans.add_many(graph, new, {})


def preview(file: GraphFile, planned: GraphPlan) -> str:
    """Summarise a file and its plan: `graph.json: 12 entities, 15 relations. 3 relations already exist.`"""
    size = f"{count(len(file.entities), 'entity')}, {count(len(file.relations), 'relation')}"
    parts = [f"{short(file.name, 40)}: {size}."]
    if planned.repeated:
        parts.append(f"{count(planned.repeated, 'relation')} already {'exists' if planned.repeated == 1 else 'exist'}.")
    if file.isolated:
        parts.append(
            f"{count(file.isolated, 'entity')} without a relation {'is' if file.isolated == 1 else 'are'} left out."
        )
    if not planned.added_relations:
        parts.append("There is nothing new in it.")
    return " ".join(parts)


def _state(state: str) -> str:
    return "ended" if state == "ended" else "holds"


def _import(desk: GraphSnapshot, file: GraphFile) -> None:
    graph_tab.redraw(desk.place)
    graph_changes.apply(desk, lambda graph: import_graph(graph, file))
