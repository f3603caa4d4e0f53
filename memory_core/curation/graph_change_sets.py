"""Change sets on a block's graph, within one writing transaction; see `memory_core.curation.change_sets`.

Changes are planned in `memory_core.planning.graph_changes`, and requested through `memory_core.curation.graph_desk`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import Connection

from memory_core.curation.change_sets import ChangeSetTransaction
from memory_core.errors import ConflictError
from memory_core.events import (
    Actor,
    Curated,
    EntityChanged,
    EventRecord,
    GraphCurated,
    RelationChanged,
    RelationEnded,
    Thing,
    expand,
)
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.planning.graph_changes import describe_change_set
from memory_core.planning.graph_draft import GraphPlan, check_whole
from memory_core.planning.graph_rules import Entity, Graph, Relation
from memory_core.store.delivery_rows import still_there
from memory_core.store.fact_rows import read_scope_events
from memory_core.store.graph_rows import Stored, last_number, read_graph, store_plan
from memory_core.store.writing import read_texts

KINDS = (GraphCurated.kind, EntityChanged.kind, RelationChanged.kind, RelationEnded.kind)
"""Event kinds read here: change sets of a graph, and changes that make a new version of an entity or relation."""

Values = Mapping[str, Any]


class GraphVersions:
    """Changes to entities and relations by version, from records of `KINDS` in any order."""

    def __init__(self, records: Iterable[EventRecord]) -> None:
        self.authors: dict[tuple[Thing, int], tuple[Actor, int]] = {}
        """Author and turn of each version after the first."""
        self._steps: dict[Thing, list[tuple[Values, Values]]] = {}
        """Values before and after each change, in order; the first change made version 2."""
        for record in sorted(records, key=lambda record: record.position):
            event = record.event
            if isinstance(event, EntityChanged):
                self._add(record, ("entity", event.entity), event.before, event.after)
            elif isinstance(event, RelationChanged):
                self._add(record, ("relation", event.relation), event.before, event.after)
            elif isinstance(event, RelationEnded):
                # The event of an ending holds only what ended it, so both states are completed here.
                before = {"state": "active", "ended_turn": None, "ended_by": None}
                after = {"state": "ended", "ended_turn": record.turn, "ended_by": event.by}
                self._add(record, ("relation", event.relation), before, after)

    def _add(self, record: EventRecord, thing: Thing, before: Values, after: Values) -> None:
        steps = self._steps.setdefault(thing, [])
        steps.append((before, after))
        self.authors[thing, len(steps) + 1] = record.actor, record.turn

    def values(self, thing: Thing, old: int, new: int, *, again: bool) -> Values:
        """Return the fields that differ between two versions, with old values or, with `again`, new ones.

        Raises:
            ConflictError: the log does not record every change between the versions.
        """
        if len(self._between(thing, old, new)) != new - old:
            raise ConflictError("The log does not tell any more how it was before: it cannot be undone.")
        return self._changed(thing, old, new, again=again)

    def former_names(self, event: GraphCurated) -> dict[int, str]:
        """Return the former names of the entities that a change set renamed, as hashes."""
        was = {id: self._changed(("entity", id), max(1, old), new) for id, old, new in event.entities}
        return {id: values["name"] for id, values in was.items() if "name" in values}

    def _changed(self, thing: Thing, old: int, new: int, *, again: bool = False) -> Values:
        result: dict[str, Any] = {}
        steps = self._between(thing, old, new)
        for before, after in steps if again else reversed(steps):
            result.update(after if again else before)
        return result

    def _between(self, thing: Thing, old: int, new: int) -> list[tuple[Values, Values]]:
        # The first step leads from version 1 to version 2, so the step after version `old` is at `old - 1`.
        return self._steps.get(thing, [])[old - 1 : max(1, new) - 1]


Item = TypeVar("Item", Entity, Relation)

WORDS = ("name", "predicate")
"""Values stored in the log as the hash of one text."""


def read_graph_log(connection: Connection, scope: str, block: str, graph: Graph) -> tuple[ChangeLog, GraphVersions]:
    """Return all change sets on a block's graph, described with the names in `graph`, and the versions they made."""
    records = read_scope_events(connection, scope, block, KINDS)
    past = GraphVersions(records)
    sets = [record for record in records if isinstance(record.event, GraphCurated)]
    # A sentence about a past change set uses the names of its time, which the entities may have lost since.
    former = {e.number: past.former_names(e) for change in sets if isinstance(e := change.event, GraphCurated)}
    words = read_texts(connection, scope, {key for names in former.values() for key in names.values()})

    def name(thing: Thing) -> str:
        kind, id = thing
        return f'"{graph.name(id) if kind == "entity" else graph.describe(graph.relations[id])}"'

    def tell_logged(event: Curated) -> str:
        names = former[event.number] if isinstance(event, GraphCurated) else {}
        return tell(event, graph, lambda id: words.get(names.get(id, "")))

    entities = {("entity", entity.id): entity.version for entity in graph.entities.values()}
    relations = {("relation", relation.id): relation.version for relation in graph.relations.values()}
    return ChangeLog(sets, versions=entities | relations, authors=past.authors, name=name, tell=tell_logged), past


def tell(event: Curated, graph: Graph, former: Callable[[int], str | None]) -> str:
    """Describe a change set: `Merged Bob into Robert Smith.` `former` gives an entity's name before the change."""
    assert isinstance(event, GraphCurated)
    return describe_change_set(event.action, graph, event.entities, event.relations, former)


@dataclass(slots=True)
class GraphChangeSetTransaction(ChangeSetTransaction[Graph, GraphPlan, Stored]):
    past: GraphVersions = field(init=False)
    """Past versions, as read by the last call of `log`."""

    def read(self) -> Graph:
        # Texts of this transaction are buffered: write them, so that the graph can be read with them.
        self.w.flush_contents()
        return read_graph(self.w.connection, self.scope, self.block)

    def lock(self, plan: GraphPlan) -> None:
        """Do nothing: a graph belongs to its session, whose row this transaction has locked."""

    def write(self, held: Graph, plan: GraphPlan) -> Stored:
        return store_plan(self.w, self.scope, self.block, plan, actor=self.actor)

    def record(self, written: Stored, action: str, reason: str, back: AppliedChangeSet | None) -> Curated:
        return GraphCurated(
            self.block,
            action if back is None else "undo",
            written.entities,
            written.relations,
            undoes=back.number if back else None,
            number=last_number(self.w.connection, self.w.session.id, self.block) + 1,
            again=back is not None and back.undone,
        )

    def log(self, held: Graph) -> ChangeLog:
        log, self.past = read_graph_log(self.w.connection, self.scope, self.block, held)
        return log

    def plan_back(self, held: Graph, back: AppliedChangeSet) -> GraphPlan:
        event, again = back.event, back.undone
        # Version 0 stands for "not there": an undo removes what the change set added, and its redo what the undo did.
        staying = [(thing, old, new) for thing, old, new in event.rows if (new if again else old)]
        was = {thing: self.past.values(thing, old, new, again=again) for thing, old, new in staying}
        hashes = {values[name] for values in was.values() for name in WORDS if name in values}
        hashes.update(alias for values in was.values() for alias in values.get("aliases", ()))
        words = read_texts(self.w.connection, self.scope, hashes)
        going = {thing for thing, *_ in event.rows} - was.keys()
        entities = [(held.entities[id], values) for (kind, id), values in was.items() if kind == "entity"]
        relations = [(held.relations[id], values) for (kind, id), values in was.items() if kind == "relation"]
        plan = GraphPlan(
            changed_entities=tuple((now, self._back(now, values, words)) for now, values in entities),
            changed_relations=tuple((now, self._back(now, values, words)) for now, values in relations),
            removed_entities=tuple(held.entities[id] for kind, id in sorted(going) if kind == "entity"),
            removed_relations=tuple(held.relations[id] for kind, id in sorted(going) if kind == "relation"),
        )
        # Items learned since may depend on an item to remove, or have taken a name to restore.
        check_whole(plan.applied_to(held), (now.id for now, _ in entities), (now.id for now, _ in relations))
        return plan

    def _back(self, now: Item, was: Values, words: Mapping[str, str]) -> Item:
        """Return an entity or relation with the values of another version, given as hashes of texts."""
        values: dict[str, Any] = {name: words.get(value, "") if name in WORDS else value for name, value in was.items()}
        if "aliases" in was:
            values["aliases"] = tuple(words[key] for key in was["aliases"] if key in words)
        if "sources" in was and isinstance(now, Relation):
            here = self.w.session.id
            # The event has the sources in this session only. Messages erased since do not become sources again.
            others = {source for source in now.sources if source[0] != here}
            of_session = {(here, seq) for seq in expand(was["sources"]) if still_there(self.w.connection, here, [seq])}
            values["sources"] = tuple(sorted(others | of_session))
        return replace(now, **values)
