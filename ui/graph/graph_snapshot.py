"""Data of the Graph page, read from the engine: one block's graph now, or at a past turn.

No Streamlit. Nothing is written, and no model is called.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memory_core import Memory
from memory_core.curation.fact_desk import SourceMessage
from memory_core.curation.graph_desk import GraphDesk
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.slices.graph_slice import PastGraph
from memory_core.planning.graph_rules import Entity, Graph, Relation
from memory_inspector.reading.graph_neighbourhood import RelationSource
from ui.parts.sources import source_messages
from ui.tab.view import View


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
