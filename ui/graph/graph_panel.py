"""The right side of Graph: the list of relations, and the open relation or the entity in focus."""

import zlib

import streamlit as st

from memory_core.events import Ref
from memory_core.planning.graph_rules import Entity, Relation
from memory_core.text import capitalised
from memory_inspector.reading.graph_neighbourhood import (
    BADGES,
    Seen,
    entity_lines,
    relation_words,
    source_line,
    state_line,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.graph import graph_changes, graph_dialogs, graph_tab
from ui.graph.graph_snapshot import GraphSnapshot, sources_of
from ui.parts import forgetting
from ui.parts.components import filled, heading
from ui.parts.sources import draw_source
from ui.tab import nav

PAGE = 12
"""Number of relations on one page of the list."""

LIST_PIXELS, BESIDE_PIXELS = 345, 520
"""In pixels: minimum height of the list (five relations), and the height that the page takes above and below it."""

UNSCROLLED = 5

SHOWN_SOURCES = 2


def draw_list(desk: GraphSnapshot, seen: Seen) -> None:
    """Draw the relations around the focus, each with author and state; a click opens a relation."""
    listed = seen.relations
    if not listed:
        st.markdown(":small[:gray[No relation of these kinds.]]")
        return
    # Division rounded up. The list may have become shorter since the page was chosen.
    pages = -(-len(listed) // PAGE)
    number = min(graph_tab.looking(desk.place).page, pages)
    part = listed[(number - 1) * PAGE : number * PAGE]
    long = len(part) > UNSCROLLED
    with (
        filled("graph__list", minus=BESIDE_PIXELS, least=LIST_PIXELS, border=True, gap=None)
        if long
        else st.container(key="graph__list", border=True, gap=None)
    ):
        for place, relation in enumerate(part, (number - 1) * PAGE + 1):
            _row(desk, seen, relation, place)
    if pages > 1:
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="graph__pager"
        ):
            first = (number - 1) * PAGE + 1
            st.markdown(
                f":small[:gray[{tokens(first)} to {tokens(first + len(part) - 1)} of {tokens(len(listed))}]]",
                width="content",
            )
            looking = graph_tab.looking(desk.place)
            # Another list begins at its first page, so it needs another widget.
            mark = zlib.crc32(repr((looking.focus, looking.to, looking.kinds, looking.steps, pages)).encode())
            widget = f"{graph_tab.key(desk.place, 'page')}_{mark}"
            st.pagination(
                pages,
                default=number,
                key=widget,
                max_visible_pages=3,
                on_change=lambda: graph_tab.look(desk.place, page=st.session_state[widget] or 1),
                width=230,
            )


def _row(desk: GraphSnapshot, seen: Seen, relation: Relation, number: int) -> None:
    opened = graph_tab.looking(desk.place).relation == relation.id
    words = plain(relation_words(desk.graph, relation))
    if relation.id in seen.lit:
        # Relations of the path are numbered in its order. The backslash keeps markdown from making a list of it.
        words = f"{number}\\. {words}"
    with st.container(gap=None, key=f"graph__row_{relation.id}"):
        st.button(
            f"**{words}**" if opened else words,
            key=f"graph__open_{relation.id}",
            type="tertiary",
            icon=":material/chevron_right:" if opened else None,
            on_click=_open,
            args=(desk.place, relation.id),
            wrap=False,
        )
        who = source_line(relation, desk.first_heard(relation), session_id=desk.memory.session_id)
        state = plain(state_line(desk.graph, relation))
        mark = "" if relation.state == "active" else f":material/{BADGES[relation.state][1]}: "
        held = " · :orange[:material/block: in quarantine]" if relation.id in desk.withheld else ""
        st.markdown(f":small[:gray[{plain(who)} · {mark}{state}]{held}]")


def _open(place: graph_tab.ListPosition, relation: int) -> None:
    # A click on the open relation closes it.
    opened = graph_tab.looking(place).relation == relation
    graph_tab.look(place, relation=None if opened else relation)


# -- one relation --------------------------------------------------------------------------------


def draw_relation(desk: GraphSnapshot, relation: Relation) -> None:
    """Draw the sources of a relation, and its actions."""
    graph = desk.graph
    with st.container(border=True, gap="xsmall", key="graph__panel"):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="top", gap="small"):
            heading(plain(relation_words(graph, relation, 80)), width="stretch")
            st.button(
                "Close it",
                icon=":material/close:",
                key="graph__close",
                type="tertiary",
                help="Close",
                on_click=_open,
                args=(desk.place, relation.id),
            )
        label, icon = BADGES[relation.state]
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.badge(plain(label), icon=f":material/{icon}:", color="green" if relation.state == "active" else "gray")
            if relation.state == "ended":
                st.markdown(f":small[:gray[{plain(state_line(graph, relation))}]]", width="content")
            if relation.id in desk.withheld:
                st.badge("Quarantined", icon=":material/block:", color="orange")
        _sources(desk, relation)
        _ends(desk, relation)
        if not desk.read_only:
            _relation_actions(desk, relation)


def _sources(desk: GraphSnapshot, relation: Relation) -> None:
    sources = sources_of(desk, relation, SHOWN_SOURCES)
    for source in sources:
        draw_source(source)
    # Sources in other sessions are counted, and not read.
    more = len(relation.sources) - len(sources)
    if sources and more > 0:
        st.markdown(f":small[:gray[and in {count(more, 'more message')}]]")
    elif not sources:
        who = source_line(relation, desk.first_heard(relation), session_id=desk.memory.session_id)
        st.markdown(f":small[:gray[{plain(capitalised(who))}.]]")


def _ends(desk: GraphSnapshot, relation: Relation) -> None:
    """Draw the buttons that move the focus to an end of the relation."""
    focus = graph_tab.looking(desk.place).focus
    # An end that is in focus already, or was removed, cannot be looked at.
    others = [id for id in (relation.subject, relation.object) if id != focus and desk.entity(id) is not None]
    with st.container(horizontal=True, gap="small"):
        for id in others:
            st.button(
                f"Look at {plain(short(desk.graph.name(id)))}",
                key=f"graph__go_{id}",
                type="tertiary",
                icon=":material/center_focus_strong:",
                on_click=graph_tab.look,
                args=(desk.place,),
                kwargs={"focus": id},
            )


def _relation_actions(desk: GraphSnapshot, relation: Relation) -> None:
    graph = desk.graph
    with st.container(horizontal=True, gap="xsmall"):
        if st.button("Edit", key="graph__edit", disabled=relation.state == "retired"):
            graph_dialogs.edit_dialog(desk, relation.id)
        if relation.state == "active":
            st.button(
                "End",
                key="graph__end",
                help="It was true until now. It is kept, marked as ended.",
                on_click=graph_changes.make,
                args=(desk, lambda graph: graph.end([relation])),
            )
        else:
            st.button(
                "Mark as current",
                key="graph__hold",
                help="Relations that contradict it end.",
                on_click=graph_changes.make,
                args=(desk, lambda graph: graph.reactivate([relation])),
            )
        nav.follow_link(Ref.of("relation", relation.id), "Follow")
        # A menu reports the chosen label, which is mapped back to the entity.
        names = {id: short(graph.name(id)) for id in (relation.subject, relation.object)}
        if len(set(names.values())) < len(names):
            names = {id: f"{graph.name(id)} ({id})" for id in names}
        ends = {f"Merge {name} with…": id for id, name in names.items()}
        chosen = st.menu_button(
            "Merge with…",
            list(ends),
            key=f"graph__merge_{relation.id}",
            format_func=plain,
            help="Merge two entities that are the same.",
        )
        if relation.state != "retired":
            st.button(
                "Remove",
                key="graph__retire",
                type="tertiary",
                help="It was never true. It is left out of prompts and not learned again.",
                on_click=graph_changes.retire,
                args=(desk, relation),
            )
    if chosen is not None:
        graph_dialogs.merge_dialog(desk, ends[chosen])


# -- one entity ----------------------------------------------------------------------------------


def draw_entity(desk: GraphSnapshot, entity: Entity) -> None:
    """Draw the details of the entity in focus, and its actions."""
    with st.container(border=True, gap="xsmall", key="graph__panel"):
        heading(plain(short(desk.graph.name(entity.id), 80)))
        st.markdown(f":small[:gray[{' · '.join(entity_lines(desk.graph, entity))}]]")
        if desk.read_only:
            return
        with st.container(horizontal=True, gap="small"):
            if st.button("Edit", key="graph__entity_edit", help="Change its name, other names or type."):
                graph_dialogs.entity_dialog(desk, entity.id)
            if st.button("Merge with…", key="graph__entity_merge", help="Merge two entities that are the same."):
                graph_dialogs.merge_dialog(desk, entity.id)
            if st.button("Remove", key="graph__entity_remove", type="tertiary"):
                graph_dialogs.remove_dialog(desk, entity.id)
        with st.container(horizontal=True, gap="small"):
            forgetting.draw_buttons(desk.memory.session_id, entity, "graph__entity")
