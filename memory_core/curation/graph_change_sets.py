"""Change sets on a block's graph, within one writing transaction: applied and undone.

What a wish comes to is not here (`memory_core.planning.graph_changes`), nor who may have it
(`memory_core.curation.graph`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from memory_core.events import Actor, GraphCurated, expand
from memory_core.history.graph_change_log import KINDS, Applied, GraphLog
from memory_core.planning.graph import Entity, Graph, Relation
from memory_core.planning.graph_draft import GraphPlan, check_whole
from memory_core.store.facts import read_scope_events
from memory_core.store.graph import (
    Versions,
    change_entity,
    change_relation,
    erase_graph,
    last_number,
    read_graph,
    store_plan,
)
from memory_core.store.writing import Writing, contents


def read_graph_log(connection: Connection, scope: str, block: str, graph: Graph) -> GraphLog:
    """All change sets of a block's graph."""
    records = read_scope_events(connection, scope, block, KINDS)
    return GraphLog.read(records, graph.entities.keys(), graph.relations.keys())


def former_names(
    connection: Connection, scope: str, log: GraphLog, events: Iterable[GraphCurated]
) -> list[dict[int, str]]:
    """For each change set, what the entities that it renamed were called before; erased names are missing."""
    hashes = [log.former_names(event) for event in events]
    words = contents(connection, scope, {key for each in hashes for key in each.values()})
    return [{id: words[key] for id, key in each.items() if key in words} for each in hashes]


@dataclass(frozen=True, slots=True)
class GraphChangeSetTransaction:
    """One transaction on the graph of a block."""

    w: Writing
    scope: str
    block: str
    actor: Actor = "curator"

    def graph(self) -> Graph:
        """The graph as the transaction sees it."""
        self.w.flush_contents()
        return read_graph(self.w.connection, self.scope, self.block)

    def apply(self, plan: GraphPlan, action: str) -> GraphCurated:
        """Store a plan as one change set; its event.

        Raises:
            ConflictError: something was changed elsewhere since the plan was made.
        """
        number = last_number(self.w.connection, self.w.session.id, self.block) + 1
        stored = store_plan(self.w, self.scope, self.block, plan, actor=self.actor)
        event = GraphCurated(self.block, action, stored.entities, stored.relations, number=number)
        self.w.record(event, actor=self.actor)
        return event

    def undo(self, number: int | None) -> Applied | None:
        """Take a change set back (None: the newest of a person that can be); None: there is none.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: something of it was changed or erased since, or it was undone already.
        """
        graph = self.graph()
        log = read_graph_log(self.w.connection, self.scope, self.block, graph)
        chosen = log.undoable(number)
        if chosen is None:
            return None
        event = chosen.event
        was_entities = {id: log.before(event, "entity", id, graph.entities[id].version) for id, _, _ in event.entities}
        was = {id: log.before(event, "relation", id, graph.relations[id].version) for id, _, _ in event.relations}
        words = contents(self.w.connection, self.scope, _hashes((*was_entities.values(), *was.values())))
        entities = {
            id: _entity_before(graph.entities[id], was_entities[id], words) if old else None
            for id, old, _ in event.entities
        }
        relations = {
            id: _relation_before(graph.relations[id], was[id], words, self.w.session.id) if old else None
            for id, old, _ in event.relations
        }
        after = Graph(
            {id: now for id, now in {**graph.entities, **entities}.items() if now is not None},
            {id: now for id, now in {**graph.relations, **relations}.items() if now is not None},
        )
        check_whole(after, entities, relations)
        self._write(
            event, graph, entities, relations, last_number(self.w.connection, self.w.session.id, self.block) + 1
        )
        return replace(chosen, undone=True)

    def _write(
        self,
        event: GraphCurated,
        graph: Graph,
        entities: Mapping[int, Entity | None],
        relations: Mapping[int, Relation | None],
        number: int,
    ) -> None:
        rows: list[Versions] = []
        for id, back in entities.items():
            now = graph.entities[id]
            version = 0 if back is None else change_entity(self.w, now, back, actor=self.actor)
            rows.append((id, now.version, version))
        relation_rows: list[Versions] = []
        for id, back_to in relations.items():
            was = graph.relations[id]
            version = 0 if back_to is None else change_relation(self.w, was, back_to, actor=self.actor)
            relation_rows.append((id, was.version, version))
        gone = [(id, self.block) for id, back in entities.items() if back is None]
        gone_relations = [(id, self.block) for id, back in relations.items() if back is None]
        erase_graph(self.w, gone, gone_relations, actor=self.actor)
        undo = GraphCurated(self.block, "undo", tuple(rows), tuple(relation_rows), undoes=event.number, number=number)
        self.w.record(undo, actor=self.actor)


def _hashes(values: Iterable[Mapping[str, Any]]) -> set[str]:
    found: set[str] = set()
    for each in values:
        found |= {each[name] for name in ("name", "predicate") if name in each}
        found.update(each.get("aliases", ()))
    return found


def _entity_before(now: Entity, was: Mapping[str, Any], words: Mapping[str, str]) -> Entity:
    values = dict(was)
    if "name" in was:
        values["name"] = words.get(was["name"], "")
    if "aliases" in was:
        values["aliases"] = tuple(words[key] for key in was["aliases"] if key in words)
    return replace(now, **values)


def _relation_before(now: Relation, was: Mapping[str, Any], words: Mapping[str, str], session: str) -> Relation:
    values = dict(was)
    if "predicate" in was:
        values["predicate"] = words.get(was["predicate"], "")
    if "sources" in was:
        others = {source for source in now.sources if source[0] != session}
        values["sources"] = tuple(sorted({*others, *((session, seq) for seq in expand(was["sources"]))}))
    return replace(now, **values)
