"""The Graph page: explore and edit the relations between entities.

On the left the figure with its controls, on the right the list of relations, and below it the open relation or the
entity in focus.
"""

import zlib
from collections.abc import Sequence
from functools import partial

import streamlit as st

from memory_core.events import BlockAdded, Ref
from memory_core.history.change_log import next_undo
from memory_core.planning.graph_rules import Entity, Graph, Path, Relation
from memory_core.text import capitalised
from memory_inspector.figures.graph_figure import ENTITY, HEIGHT, RELATION, graph_figure, legend
from memory_inspector.reading.graph_neighbourhood import (
    BADGES,
    Seen,
    around,
    by_mentions,
    entity_label,
    entity_lines,
    find,
    how_many,
    kinds,
    number_rows,
    opening,
    relation_words,
    shortest,
    source_line,
    state_line,
    way,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.blocks.editor import add_dialog as add_block
from ui.graph import graph_dialogs, graph_tab
from ui.graph.graph_tab import GraphSnapshot, read_desk, sources_of
from ui.parts import forgetting
from ui.parts.components import chart, empty, filled, heading, numbers_table, unseen_heading
from ui.parts.listing import changes_dialog, draw_source
from ui.tab import nav, state
from ui.tab.drawing import mode
from ui.tab.people import allowed
from ui.tab.view import View

BESIDE_PIXELS = 410
"""Height in pixels used above and below the figure."""

STEPS = {1: "1 step", 2: "2 steps"}

PAGE = 12
"""Number of relations on one page of the list."""

LIST_PIXELS, BESIDE_LIST_PIXELS = 345, 520
"""In pixels: minimum height of the list (five relations), and the height that the page takes above and below it."""

UNSCROLLED = 5

SHOWN_SOURCES = 2


def draw(view: View) -> None:
    """Draw the graph of one block of the session, now or at a past turn."""
    blocks = view.blocks_of("graph")
    if not blocks:
        _no_block(view)
        return
    desk = read_desk(view, graph_tab.blocks.shown(view.memory.session_id, blocks))
    _head(view, desk, blocks)
    if not by_mentions(desk.graph):
        _nothing(view, desk)
        return
    # 1. What is looked at: a link first, then the focus, which everything below depends on.
    _take_link(desk)
    focus, looking = _focus(desk), graph_tab.looking(desk.place)
    # 2. What is drawn of it. Kinds that the graph lost since they were chosen are ignored, or nothing would be shown.
    path = shortest(desk.graph, focus, looking.to) if looking.to is not None else None
    only = [kind for kind in looking.kinds if kind in kinds(desk.graph)]
    seen = around(desk.graph, focus, steps=looking.steps, only=only, path=path)
    # 3. The controls are filled from the state, and change it by their callbacks only.
    _controls(desk, focus)
    relation = desk.graph.relations.get(looking.relation) if looking.relation is not None else None
    graph_tab.link.put(focus, relation.id if relation is not None else None, place=desk.place)
    # 4. Figure and list show the same relations: the list can be read where the figure cannot.
    picture, detail = st.columns([0.58, 0.42], gap="medium")
    with picture:
        unseen_heading("Relations")
        if looking.to is not None:
            _way(desk.graph, path)
        _draw_figure(desk, seen, relation.id if relation is not None else None)
    with detail:
        _list(desk, seen)
        if relation is not None:
            _relation(desk, relation)
        else:
            _entity(desk, desk.graph.entities[focus])
        _undo_line(desk)


def _no_block(view: View) -> None:
    when = "yet" if view.past else "in this session"

    def add() -> None:
        if st.button("Add a graph block", key="graph__add_block", icon=":material/add:", **allowed(BlockAdded)):
            add_block(view.memory.session_id, "graph")

    empty(
        f"No graph block {when}.", "It learns who is related to what.", icon="hub", act=None if view.read_only else add
    )


def _nothing(view: View, desk: GraphSnapshot) -> None:
    if view.past:
        empty("No relations yet.", "Nothing had been learned by then.", icon="hub")
        return
    room = f"{count(view.status.to_next_flush, 'token')} to the next flush."
    empty("No relations yet.", f"They are learned when messages leave the queue. {room}", icon="hub")
    # Undo stays where the last relation was removed: there is no other way back.
    _undo_line(desk)


def _head(view: View, desk: GraphSnapshot, blocks: Sequence[str]) -> None:
    """Draw the summary of the graph, and the buttons to add to it."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph__head"):
        past_turn = view.shown_turn if view.past else None
        st.markdown(plain(opening(desk.graph, past_turn=past_turn)), width="stretch")
        graph_tab.blocks.draw(view.memory.session_id, blocks)
        if view.read_only:
            return
        if st.button("Import", key="graph__import", type="tertiary", icon=":material/upload:"):
            graph_dialogs.import_dialog(desk)
        if st.button("Add a relation", key="graph__add", icon=":material/add:"):
            graph_dialogs.add_dialog(desk)


def _take_link(desk: GraphSnapshot) -> None:
    """Show what the URL names: an entity, or a relation with its subject."""
    asked, relation_asked = graph_tab.link.asked(desk.place)
    relation_id = state.address_number(relation_asked)
    relation = desk.graph.relations.get(relation_id) if relation_id is not None else None
    focus = find(desk.graph, asked) if asked else None
    if focus is None and relation is not None:
        # A relation is shown around its subject, which may have been removed since.
        focus = relation.subject if desk.entity(relation.subject) is not None else None
    if asked and focus is None:
        st.warning(f"{plain(short(asked, 60))} is not in this graph. Showing the most mentioned entity.")
    if focus is not None:
        graph_tab.look(desk.place, focus=focus, relation=relation.id if relation is not None else None)


def _focus(desk: GraphSnapshot) -> int:
    """The chosen entity, or the one it was merged into, otherwise the most mentioned one."""
    chosen = graph_tab.looking(desk.place).focus
    # By id, which follows an entity into the one that it was merged into.
    chosen_entity = find(desk.graph, str(chosen)) if chosen is not None else None
    focus = chosen_entity if chosen_entity is not None else by_mentions(desk.graph)[0].id
    looking = graph_tab.looking(desk.place)
    # A path leads to another entity that still exists.
    to = looking.to if looking.to is not None and desk.entity(looking.to) is not None and looking.to != focus else None
    graph_tab.look(desk.place, focus=focus, to=to, relation=looking.relation if chosen_entity is not None else None)
    return focus


# -- controls ------------------------------------------------------------------------------------


def _controls(desk: GraphSnapshot, focus: int) -> None:
    place, looking = desk.place, graph_tab.looking(desk.place)
    ranked = [entity.id for entity in by_mentions(desk.graph)]
    labels = {id: entity_label(desk.graph.entities[id]) for id in ranked}
    with st.container(horizontal=True, vertical_alignment="top", gap="small", key="graph__controls"):
        # A click in the figure or the list changes the focus, too: the field follows, with the same key.
        widget = graph_tab.filled_key(place, "focus", focus)
        st.selectbox(
            "Focus",
            ranked,
            key=widget,
            format_func=lambda id: labels.get(id, ""),
            on_change=lambda: graph_tab.look(place, focus=st.session_state[widget]),
            width=190,
        )
        others = [id for id in ranked if id != focus]
        to = graph_tab.filled_key(place, "to", looking.to)
        st.selectbox(
            "Path to",
            others,
            index=None,
            key=to,
            placeholder="Choose an entity",
            format_func=lambda id: labels.get(id, ""),
            on_change=lambda: graph_tab.look(place, to=st.session_state[to], page=1),
            width=190,
            help="Shortest path over current relations, in either direction.",
        )
        kinds_present = kinds(desk.graph)
        chosen = graph_tab.filled_key(place, "kinds", [kind for kind in looking.kinds if kind in kinds_present])
        st.multiselect(
            "Kinds",
            kinds_present,
            key=chosen,
            placeholder="All kinds",
            format_func=short,
            on_change=lambda: graph_tab.look(place, kinds=tuple(st.session_state[chosen]), page=1),
            width="stretch",
        )
        far = graph_tab.filled_key(place, "steps", looking.steps)
        st.segmented_control(
            "Around the focus",
            list(STEPS),
            key=far,
            format_func=lambda steps: STEPS[steps],
            required=True,
            on_change=lambda: graph_tab.look(place, steps=st.session_state[far] or 1, page=1),
            width="content",
        )


def _way(graph: Graph, path: Path | None) -> None:
    icon = "route" if path is not None else "wrong_location"
    st.markdown(f":material/{icon}: **{plain(way(graph, path))}**")


# -- the figure ----------------------------------------------------------------------------------


def _draw_figure(desk: GraphSnapshot, seen: Seen, picked: int | None) -> None:
    place, widget = desk.place, graph_tab.key(desk.place, "figure")
    figure = graph_figure(desk.graph, seen, mode(), picked=picked)
    # Rings use all the height of the window; entities in a line need only their own height.
    fills = figure.layout.height > HEIGHT / 2
    with filled("graph__figure", minus=BESIDE_PIXELS, least=figure.layout.height) if fills else st.container():
        around_focus = f"{desk.graph.name(seen.focus)} with {count(seen.around, 'entity')} around it"
        alt = f"{around_focus}; the list beside it says the same"
        chart(figure, widget, alt, lambda: _pick(place, widget), height="stretch" if fills else "content")
    with st.container(gap=None):
        if (number := how_many(seen)) is not None:
            st.markdown(f":small[{number}]")
        st.markdown(f":small[:gray[{legend(desk.graph, seen, mode())}]]")
    numbers_table(lambda: number_rows(desk.graph, seen), "graph__numbers")


def _pick(place: graph_tab.ListPosition, widget: str) -> None:
    """Handle a click: an entity becomes the focus, a relation is opened."""
    for point in st.session_state[widget]["selection"]["points"]:
        # Entities and relations carry data; any other point of the figure means nothing.
        meant = point.get("customdata")
        if meant and meant[0] == ENTITY:
            graph_tab.look(place, focus=int(meant[1]))
        elif meant and meant[0] == RELATION:
            graph_tab.look(place, relation=int(meant[1]))


def _undo_line(desk: GraphSnapshot) -> None:
    """Draw the button that undoes the newest change; repeated use undoes earlier ones."""
    if desk.read_only:
        return
    # Changes that are undone already are passed over, so that pressing again goes further back.
    newest = next_undo(desk.changes)
    with st.container(horizontal=True, gap="small", key="graph__undo"):
        if newest is not None:
            st.button(
                f"Undo: {plain(short(newest.sentence.removesuffix('.'), 90))}",
                key="graph__undo_button",
                type="tertiary",
                icon=":material/undo:",
                help=plain(newest.obstacle) or None,
                disabled=bool(newest.obstacle),
                on_click=graph_tab.undo,
                args=(desk, newest),
            )
        if desk.changes and st.button("All changes", key="graph__changes", type="tertiary", icon=":material/history:"):
            changes_dialog(desk.desk.changes, partial(graph_tab.undo, desk))


# -- the list of relations ------------------------------------------------------------------------


def _list(desk: GraphSnapshot, seen: Seen) -> None:
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
        filled("graph__list", minus=BESIDE_LIST_PIXELS, least=LIST_PIXELS, border=True, gap=None)
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


def _relation(desk: GraphSnapshot, relation: Relation) -> None:
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
                on_click=graph_tab.make,
                args=(desk, lambda graph: graph.end([relation])),
            )
        else:
            st.button(
                "Mark as current",
                key="graph__hold",
                help="Relations that contradict it end.",
                on_click=graph_tab.make,
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
                on_click=graph_tab.retire,
                args=(desk, relation),
            )
    if chosen is not None:
        graph_dialogs.merge_dialog(desk, ends[chosen])


# -- one entity ----------------------------------------------------------------------------------


def _entity(desk: GraphSnapshot, entity: Entity) -> None:
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
