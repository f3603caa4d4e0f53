"""A graph block on the Graph page in one browser tab: its data, where the tab looks, and changes by clicks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st

from memory_core import Memory
from memory_core.curation.fact_desk import SourceMessage
from memory_core.curation.graph_desk import GraphDesk
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.learned_slices import PastGraph
from memory_core.planning.graph_rules import Entity, Graph, Relation
from memory_inspector.reading.graph_neighbourhood import RelationSource
from ui.parts import toasts
from ui.parts.components import noticed
from ui.parts.effect import foreseen, next_prompt
from ui.parts.listing import BlockChoice, source_messages
from ui.tab import state
from ui.tab.view import View

# -- data, read from the engine: the graph now, or at a past turn ---------------------------------


@dataclass(frozen=True, slots=True)
class GraphSnapshot:
    """Data of one graph block for the page."""

    memory: Memory
    block: str
    graph: Graph
    heard: Mapping[int, RelationSource] = field(default_factory=dict)
    """Role and turn of each message, by sequence number."""
    read_only: bool = False
    changes: tuple[AppliedChangeSet, ...] = ()
    """Change sets, newest first."""
    withheld: frozenset[int] = frozenset()
    """Ids of the relations in quarantine."""

    @property
    def place(self) -> tuple[str, str]:
        return self.memory.session_id, self.block

    @property
    def desk(self) -> GraphDesk:
        """Editor of the graph. Raises `NotFoundError` if the block was removed."""
        return self.memory.blocks.graph(self.block)

    def first_heard(self, relation: Relation) -> RelationSource | None:
        """Role and turn of the first source message of a relation in this session."""
        # Sequence numbers count within one session; the same number in another session is another message.
        here = [seq for session, seq in relation.sources if session == self.memory.session_id and seq in self.heard]
        return self.heard[min(here)] if here else None

    def entity(self, id: int) -> Entity | None:
        """An active entity; None if it was merged, removed or never existed."""
        entity = self.graph.entities.get(id)
        return entity if entity is not None and entity.state == "active" else None


def read_desk(view: View, block: str) -> GraphSnapshot:
    """Read the graph of a block at the turn shown.

    Raises:
        NotFoundError: the block was removed.
    """
    heard = {
        state.added.seq: RelationSource(state.record.turn, state.added.role)
        for state in view.memory.log.pieces().messages
    }
    if view.past:
        return GraphSnapshot(view.memory, block, past_graph(view, block), heard, read_only=True)
    desk, read_only = view.memory.blocks.graph(block), view.read_only is not None
    return GraphSnapshot(
        view.memory,
        block,
        desk.graph(),
        heard,
        read_only=read_only,
        changes=tuple(desk.changes()),
        withheld=view.memory.session.withheld().relations,
    )


def past_graph(view: View, block: str) -> Graph:
    """A block's graph at the moment shown (a turn's end or a step), rebuilt from the log."""
    # 1. Apply the events up to the moment; they name texts by their hashes.
    past = PastGraph()
    for record in view.history.upto(view.position):
        past.apply(record)
    # 2. Read all of these texts with one query; erased texts are missing.
    hashes = {hash for entity in past.entities.values() for hash in (entity.name, *entity.aliases)}
    hashes |= {relation.predicate for relation in past.relations.values()}
    words = view.memory.log.texts(hashes)
    return past.graphs(view.memory.session_id, words.get).get(block, Graph())


def sources_of(desk: GraphSnapshot, relation: Relation, most: int) -> Sequence[SourceMessage]:
    """The first `most` source messages of a relation in this session, with the relation's words marked."""
    # Only as many as are shown are read; other sessions may be gone.
    here = sorted(seq for session, seq in relation.sources if session == desk.memory.session_id)[:most]
    return source_messages(desk.memory, here, desk.graph.sentence(relation))


# -- where the tab looks, for each block of each session, also while another page is shown --------


ListPosition = tuple[str, str]
"""Session id and name of one of its graph blocks."""


@dataclass(frozen=True, slots=True)
class Looking:
    """State of the page for one block."""

    focus: int | None = None
    """Chosen focus; None: the most mentioned entity."""
    to: int | None = None
    """Target of the requested path."""
    kinds: tuple[str, ...] = ()
    """Predicates to show; empty: all."""
    steps: int = 1
    relation: int | None = None
    """Id of the open relation."""
    page: int = 1
    """Page of the list."""
    generation: int = 0
    """Counter in the widget keys; increasing it empties the fields of a dialog."""


_PLACES = state.ByPlace("graph", Looking())
looking, key = _PLACES.at, _PLACES.key
link = state.PageLink("graph_link", "entity", "relation")
"""URL parameters with the focus and the open relation."""
blocks = BlockChoice("graph", width=180)


def look(place: ListPosition, **changes: Any) -> None:
    """Change parts of the state. A new focus closes the open relation."""
    before = looking(place)
    if changes.get("focus", before.focus) != before.focus:
        # What is named in the call wins over these defaults. A path to the new focus itself would be none.
        changes = {"relation": None, "page": 1, "to": before.to if before.to != changes["focus"] else None} | changes
    _PLACES.change(place, **changes)


def filled_key(place: ListPosition, name: str, value: Any) -> str:
    """Return the key of a widget that is drawn next, and give it a value: a click elsewhere may have changed it."""
    widget = key(place, name)
    # Only a differing value is assigned: Streamlit treats an assignment as a new value of the widget.
    if widget not in st.session_state or st.session_state[widget] != value:
        st.session_state[widget] = value
    return widget


def redraw(place: ListPosition) -> None:
    """Empty the fields of a dialog."""
    _PLACES.change(place, generation=looking(place).generation + 1)


# -- changes, as `on_click` callbacks: one change set and one message for each --------------------


Change = Callable[[GraphDesk], AppliedChangeSet | None]
"""Function that makes a change of the graph; None if nothing changed."""


def apply(desk: GraphSnapshot, change: Change, *, before: str = "") -> AppliedChangeSet | None:
    """Apply a change set and announce it, after the words `before`, with its effect; return None if nothing changed."""
    with noticed():
        old = next_prompt(desk.memory)
        made = change(desk.desk)
        if made is not None:
            new = next_prompt(desk.memory)
            effect = f" {foreseen(old, new)}" if old is not None and new is not None else ""
            sentence = f"{before}{made.words}." if before else made.sentence
            # What was undone gets no Undo in its toast: the list of all changes redoes it.
            toasts.done(f"{sentence}{effect}", undo=None if made.undone else partial(desk.desk.undo, made.number))
        return made
    return None


def make(desk: GraphSnapshot, change: Change) -> None:
    """Apply a change set as the callback of a button; see `apply`."""
    apply(desk, change)


def retire(desk: GraphSnapshot, relation: Relation) -> None:
    # A retired relation is in no list any more, so its panel is closed.
    if apply(desk, lambda graph: graph.retire([relation])) is not None:
        look(desk.place, relation=None)


def remove(desk: GraphSnapshot, entity: Entity) -> None:
    """Retire an entity with all its relations."""
    if apply(desk, lambda graph: graph.remove([entity])) is not None:
        look(desk.place, focus=None, to=None)


def merge(desk: GraphSnapshot, entities: Sequence[Entity], into: Entity) -> None:
    if apply(desk, lambda graph: graph.merge(entities, into)) is not None:
        look(desk.place, focus=into.id)


def undo(desk: GraphSnapshot, change: AppliedChangeSet) -> None:
    """Undo a change; redo one that was undone."""
    before = "Redone: " if change.undone else "Undone: "
    apply(desk, lambda graph: graph.undo(change.undone_by or change.number), before=before)
