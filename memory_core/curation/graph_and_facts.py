"""A graph and the facts beside it, read at one moment and changed in one transaction: one change set in each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from memory_core.curation.fact_change_sets import FactChangeSetTransaction, Known
from memory_core.curation.fact_desk import Curation
from memory_core.curation.graph_change_sets import GraphChangeSetTransaction
from memory_core.curation.graph_desk import GraphDesk
from memory_core.engine.session import Session
from memory_core.events import Actor
from memory_core.planning.curation import Kept
from memory_core.planning.graph_draft import GraphPlan
from memory_core.planning.graph_rules import Graph
from memory_core.store.fact_rows import read_facts
from memory_core.store.graph_rows import read_graph

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RequestedChange(Generic[Result]):
    """Change sets for the graph and the facts, and the value to return."""

    result: Result
    plan: GraphPlan = field(default_factory=GraphPlan)
    action: str = "add"
    """Action of the graph's change set."""
    kept: Mapping[str, Kept | None] = field(default_factory=dict)
    """Facts by key; see `Curation.put`."""


class GraphAndFacts:
    """See `Memory.blocks.graph_and_facts`."""

    def __init__(self, session: Session, graph: str, facts: str) -> None:
        self._session = session
        self._graph, self._facts = GraphDesk(session, graph), Curation(session, facts)

    def read(self) -> tuple[Graph, Known]:
        """Return the graph, and the facts by id: items in every state, except those in quarantine."""
        graph, facts = self._graph, self._facts
        with self._session.database.read() as connection:
            known_facts = read_facts(connection, facts.scope, facts.block, states=None)
            withheld = self._session.quarantine(connection)
            return (
                read_graph(connection, graph.scope, graph.block).without_relations(withheld.relations),
                {fact.id: fact for fact in known_facts if fact.id not in withheld.facts},
            )

    def change(self, wish: Callable[[Graph, Known], RequestedChange[Result]], *, actor: Actor = "agent") -> Result:
        """Change graph and facts as `wish` decides from their present state; all or nothing.

        Raises:
            MessageError: a fact or relation cannot be stored; also whatever `wish` raises. Nothing was changed.
        """
        count = self._session.counter.text
        # Both are read in the transaction that changes them, so that `wish` decides on what it finds there.
        with self._session.writing() as w:
            self._session.refresh(w)
            graphs = GraphChangeSetTransaction(w, self._graph.scope, self._graph.block, actor)
            facts = FactChangeSetTransaction(w, self._facts.scope, self._facts.block, actor, count)
            held = graphs.read()
            wished = wish(held, facts.read())
            # An empty plan makes no change set: there would be nothing to undo.
            if wished.plan:
                graphs.store(held, wished.plan, wished.action)
            if wished.kept:
                facts.put(wished.kept)
            return wished.result
