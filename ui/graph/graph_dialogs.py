"""Dialogs of the Graph page: add or edit a relation; edit, merge or remove an entity; import a file.

Each shows the effect of the change, or why it is impossible, before it is applied. Export is on Sessions.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import partial

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.graph_desk import GraphDesk
from memory_core.planning import graph_changes as plans
from memory_core.planning.graph_draft import GraphPlan
from memory_core.planning.graph_rules import LONGEST, Entity, Graph, Names
from memory_core.text import similarity
from memory_inspector.files.graph_files import GraphFile, import_graph, read_graph_file
from memory_inspector.reading.graph_neighbourhood import (
    NAME_CHARACTERS,
    TYPES,
    by_mentions,
    entity_label,
    kinds,
    relation_words,
    relations,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.graph import graph_tab
from ui.graph.graph_tab import GraphSnapshot
from ui.parts.components import closing_button, closing_buttons, dialog, more_line
from ui.parts.effect import effect_of

LIKELY = 0.7
"""Minimum similarity of names, 0 to 1, of an entity that is preselected for merging."""

OFFERED = 200
"""Maximum number of entities offered for merging, the most similar ones."""

SHOWN_ENDS = 3
"""Maximum number of relations listed that a change would end."""

MAX_MEGABYTES = 20
ROWS_SHOWN = 200


# -- relations -----------------------------------------------------------------------------------


@dialog("Add a relation", "add", side=True)
def add_dialog(desk: GraphSnapshot) -> None:
    """Add a relation between two entities; unknown names are added as entities."""
    graph, mark = desk.graph, "add"
    focus = graph_tab.looking(desk.place).focus
    # The entity in focus is suggested: most relations are added while looking at one of their ends.
    entity = desk.entity(focus) if focus is not None else None
    subject = _name(graph, "From", f"graph__{mark}_subject", entity.name if entity is not None else None)
    predicate = _predicate(graph, f"graph__{mark}_predicate", None)
    object = _name(graph, "To", f"graph__{mark}_object", None)
    types = (_type_of(graph, subject, "add_subject"), _type_of(graph, object, "add_object"))
    possible = False
    if subject and predicate and object:
        new = plans.NamedRelation(subject, predicate, object, *types)
        possible = _foreseen(desk, graph, lambda: plans.add(graph, new))
    else:
        st.markdown(":small[:gray[Ana · lives in · Lisbon. Type a new name to add an entity.]]")
    closing_buttons("Add relation", _add, (desk, subject, predicate, object, types), disabled=not possible)


def _add(desk: GraphSnapshot, subject: str, predicate: str, object: str, types: tuple[str, str]) -> None:
    made = graph_tab.apply(desk, lambda graph: graph.add(subject, predicate, object, types))
    if made is not None:
        now = desk.desk.graph()
        # Read again, because the subject may be an entity that this change has made.
        match = Names(now).find(subject)
        added = [id for id in made.ids("relation") if id not in desk.graph.relations]
        if match is not None:
            graph_tab.look(desk.place, focus=match.id, relation=added[-1] if added else None)


@dialog("Edit a relation", "edit", side=True)
def edit_dialog(desk: GraphSnapshot, id: int) -> None:
    """Edit a relation's ends and predicate. Its sources stay."""
    graph = desk.desk.graph()
    relation = graph.relations.get(id)
    # Read anew at each drawing: the page below may be older than the dialog.
    if relation is None or relation.state == "retired":
        st.markdown("This relation was removed elsewhere.")
        return
    st.markdown(f"**{plain(relation_words(graph, relation))}**")
    # The version is in the keys: a relation that was changed meanwhile is edited from its new words.
    mark = f"graph__edit_{id}_{relation.version}"
    subject = _name(graph, "From", f"{mark}_subject", graph.name(relation.subject))
    predicate = _predicate(graph, f"{mark}_predicate", relation.predicate)
    object = _name(graph, "To", f"{mark}_object", graph.name(relation.object))
    before = (graph.name(relation.subject), relation.predicate, graph.name(relation.object))
    changed = (subject, predicate, object) != before and bool(subject and predicate and object)
    possible = changed and _foreseen(desk, graph, lambda: plans.edit(graph, relation, subject, predicate, object))
    edited = partial(GraphDesk.edit, relation=relation, subject=subject, predicate=predicate, object=object)
    closing_buttons("Save", graph_tab.make, (desk, edited), disabled=not possible)


def _name(graph: Graph, label: str, key: str, value: str | None) -> str:
    return _typed(label, [entity.name for entity in by_mentions(graph)], key, value, "Choose or type a name")


def _predicate(graph: Graph, key: str, value: str | None) -> str:
    return _typed("Relation", kinds(graph), key, value, "Choose or type a relation")


def _typed(label: str, names: Sequence[str], key: str, value: str | None, placeholder: str) -> str:
    """Draw the choice of a name, or of another one that is typed."""
    # The present value stays on offer even where nothing active has it any more.
    offered = list(names) if value is None or value in names else [value, *names]
    chosen = st.selectbox(
        label,
        offered,
        index=None if value is None else offered.index(value),
        key=key,
        placeholder=placeholder,
        accept_new_options=True,
        format_func=lambda name: short(name, NAME_CHARACTERS),
    )
    return str(chosen or "").strip()


def _type_of(graph: Graph, name: str, mark: str) -> str:
    """Ask for the type of a new entity; existing ones keep theirs."""
    # Names are compared as the engine does, aliases included, so that a known entity is never asked about.
    if not name or Names(graph).find(name) is not None:
        return "other"
    return str(
        st.selectbox(
            f"{plain(short(name))} is new. What is it?",
            list(TYPES),
            index=list(TYPES).index("other"),
            key=f"graph__{mark}_type",
            format_func=lambda kind: TYPES[kind],
        )
    )


def _foreseen(desk: GraphSnapshot, graph: Graph, plan: Callable[[], GraphPlan]) -> bool:
    """Draw the effect of a change, or why it is impossible; return whether it is possible."""
    try:
        planned = plan()
        preview = effect_of(desk.memory, graphs={desk.block: desk.desk.after(planned)})
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
        return False
    # Not asked for by the person: relations that contradict the new one end with it, and are named beforehand.
    ending = [old for old, new in planned.changed_relations if old.state == "active" and new.state == "ended"]
    for relation in ending[:SHOWN_ENDS]:
        st.markdown(f":small[:material/history: {plain(relation_words(graph, relation))} will end.]")
    if len(ending) > SHOWN_ENDS:
        st.markdown(f":small[and {count(len(ending) - SHOWN_ENDS, 'more relation')}]")
    st.markdown(f":small[:gray[{plain(preview)}]]")
    return True


# -- entities ------------------------------------------------------------------------------------


@dialog("Edit an entity", "edit", side=True)
def entity_dialog(desk: GraphSnapshot, id: int) -> None:
    """Edit an entity's name, aliases and type. Its relations stay."""
    graph = desk.desk.graph()
    entity = _still(graph, id)
    if entity is None:
        return
    mark = f"graph__entity_{id}_{entity.version}"
    name = st.text_input("Name", value=entity.name, key=f"{mark}_name", max_chars=LONGEST).strip()
    aliases = st.multiselect(
        "Also called",
        list(entity.aliases),
        default=list(entity.aliases),
        key=f"{mark}_aliases",
        accept_new_options=True,
        placeholder="Type another name",
        help="Mentions of these names refer to this entity.",
    )
    # A type that is not known here, from another program say, is shown as "other".
    types = list(TYPES)
    type = st.selectbox(
        "What it is",
        types,
        index=types.index(entity.type) if entity.type in types else types.index("other"),
        key=f"{mark}_type",
        format_func=lambda kind: TYPES[kind],
    )
    others = [alias for alias in aliases if alias.strip()]
    # A renamed entity is still found under its old name, unless the other names were edited by hand.
    if name != entity.name and name and others == list(entity.aliases):
        others = [*others, entity.name]
        st.markdown(f":small[:gray[{plain(short(entity.name))} stays as another name.]]")
    changed = (name, tuple(others), type) != (entity.name, entity.aliases, entity.type) and bool(name)
    possible = changed and _foreseen(desk, graph, lambda: plans.rename(graph, entity, name, type, others))
    renamed = partial(GraphDesk.rename, entity=entity, name=name, type=type, aliases=others)
    closing_buttons("Save", graph_tab.make, (desk, renamed), disabled=not possible)


@dialog("Merge two entities", "merge", side=True)
def merge_dialog(desk: GraphSnapshot, id: int) -> None:
    """Merge two entities; the most similar one is preselected."""
    graph = desk.desk.graph()
    entity = _still(graph, id)
    if entity is None:
        return
    ranked = [other for other in by_mentions(graph) if other.id != id]
    if not ranked:
        st.markdown("There is no other entity to merge it with.")
        return
    # The sort is stable: of equally similar entities, the most mentioned comes first.
    ranked.sort(key=lambda other: -_alike(entity, other))
    by_id = {other.id: other for other in ranked[:OFFERED]}
    # Below the threshold nothing is preselected: a merge by mistake mixes the relations of two entities.
    likely = _alike(entity, ranked[0]) >= LIKELY
    chosen = st.selectbox(
        f"{plain(short(entity.name, NAME_CHARACTERS))} is the same as",
        list(by_id),
        index=0 if likely else None,
        placeholder="Choose an entity",
        key=f"graph__merge_with_{id}",
        format_func=lambda other: entity_label(by_id[other]),
    )
    if chosen is None:
        closing_button("Cancel")
        return
    other = by_id[chosen]
    # The entity with more relations keeps its name, unless the person chooses the other.
    first, second = sorted((entity, other), key=lambda endpoint: -_degree(graph, endpoint))
    into_id = st.segmented_control(
        "Keep the name",
        [first.id, second.id],
        default=first.id,
        key=f"graph__merge_name_{id}_{other.id}",
        format_func=lambda endpoint: plain(short(graph.name(endpoint))),
        required=True,
    )
    into, gone = (second, first) if into_id == second.id else (first, second)
    moved = count(_degree(graph, gone), "relation")
    st.markdown(
        f"**{plain(short(gone.name, NAME_CHARACTERS))}** becomes another name of "
        f"**{plain(short(into.name, NAME_CHARACTERS))}**, which gets its {moved}."
    )
    possible = _foreseen(desk, graph, lambda: plans.merge(graph, [gone], into))
    closing_buttons("Merge", graph_tab.merge, (desk, [gone], into), disabled=not possible)


@dialog("Remove an entity", "archive", side=True)
def remove_dialog(desk: GraphSnapshot, id: int) -> None:
    """Confirm the removal of an entity, which can be undone."""
    graph = desk.desk.graph()
    entity = _still(graph, id)
    if entity is None:
        return
    degree = _degree(graph, entity)
    st.markdown(f"Remove **{plain(short(entity.name, NAME_CHARACTERS))}** with {count(degree, 'relation')}?")
    st.markdown(":small[They are then in no prompt, and are not learned again. This can be undone.]")
    possible = _foreseen(desk, graph, lambda: plans.remove(graph, [entity]))
    closing_buttons("Remove", graph_tab.remove, (desk, entity), disabled=not possible)


def _alike(one: Entity, other: Entity) -> float:
    """Similarity of two entities' names, 0 to 1: by letters, or by words (`Rui` and `Rui Costa`) if that is more."""
    return max(
        max(SequenceMatcher(None, a.casefold(), b.casefold()).ratio(), similarity(a, b))
        for a in (one.name, *one.aliases)
        for b in (other.name, *other.aliases)
    )


def _degree(graph: Graph, entity: Entity) -> int:
    return sum(entity.id in (relation.subject, relation.object) for relation in relations(graph))


def _still(graph: Graph, id: int) -> Entity | None:
    """The current entity; shows a message and returns None if it was merged or removed."""
    entity = graph.entities.get(id)
    if entity is None or entity.state != "active":
        st.markdown("This entity was merged or removed elsewhere.")
        return None
    return entity


# -- a file ----------------------------------------------------------------------------------------


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
    planned = planned_import(graph, file)
    st.markdown(f"**{plain(preview(file, planned))}**")
    for reason, number in planned.refused:
        st.markdown(f":small[Left out, {tokens(number)}: {plain(reason)}]")
    rows = [
        {
            "From": relation.subject,
            "Relation": relation.predicate,
            "To": relation.object,
            "State": "ended" if relation.ended else "holds",
        }
        for relation in file.relations
    ]
    st.dataframe(rows[:ROWS_SHOWN], hide_index=True, key="graph__import_rows", alt="Relations in the file")
    more_line(len(rows) - ROWS_SHOWN)
    with st.container(horizontal=True):
        # Without new relations there is nothing to import; entities alone are in no prompt.
        if planned.added_relations:
            says = f"Import {count(len(planned.added_relations), 'relation')}"
            closing_button(says, _import, (desk, file), kind="primary")
        closing_button("Cancel", graph_tab.redraw, (desk.place,))


def planned_import(graph: Graph, file: GraphFile) -> GraphPlan:
    """Plan the import of a file."""
    return plans.add_many(graph, file.relations, {})


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


def _import(desk: GraphSnapshot, file: GraphFile) -> None:
    graph_tab.redraw(desk.place)
    graph_tab.apply(desk, lambda graph: import_graph(graph, file))
