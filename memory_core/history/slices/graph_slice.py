"""The knowledge graphs of a session at a position of its log.

Pure over events: words are stored by hash and read from the content store where needed.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.events import (
    EntityAdded,
    EntityChanged,
    EntityErased,
    Event,
    EventRecord,
    Ranges,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    expand,
)
from memory_core.history.slices.states import state_at
from memory_core.planning.graph_rules import Entity, Graph, Relation


@dataclass(slots=True)
class PastGraph:
    """All graphs of one session, built by applying its log, oldest record first.

    After a reset, call `forget` with the messages that `message_slice` reports as forgotten.
    """

    entities: dict[int, Entity] = field(default_factory=dict)
    """Entities by id; their names and aliases are hashes."""
    relations: dict[int, Relation] = field(default_factory=dict)
    """Relations by id; their predicates are hashes."""

    def apply(self, record: EventRecord) -> None:
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record, record.event)

    def forget(self, seqs: Collection[int]) -> None:
        """Remove these messages from the sources of all relations."""
        for id, relation in self.relations.items() if seqs else ():
            if any(seq in seqs for _, seq in relation.sources):
                rest = tuple(source for source in relation.sources if source[1] not in seqs)
                self.relations[id] = replace(relation, sources=rest)

    def _entity_added(self, record: EventRecord, event: EntityAdded) -> None:
        self.entities[event.entity] = Entity(
            id=event.entity,
            scope=f"session:{record.session_id}",
            block=event.block,
            name=event.name,
            aliases=event.aliases,
            type=event.type,
            state="active",
            merged_into=None,
            origin=event.origin,
            turn=record.turn,
            created_at=record.at,
            updated_at=record.at,
            version=1,
        )

    def _entity_changed(self, record: EventRecord, event: EntityChanged) -> None:
        if (entity := self.entities.get(event.entity)) is not None:
            names = ("name", "type", "state", "merged_into")  # a newer version may have recorded more
            values: dict[str, Any] = {name: event.after[name] for name in names if name in event.after}
            values |= {"aliases": tuple(event.after.get("aliases", entity.aliases)), "updated_at": record.at}
            self.entities[event.entity] = replace(entity, **values, version=entity.version + 1)

    def _entity_erased(self, record: EventRecord, event: EntityErased) -> None:
        self.entities.pop(event.entity, None)

    def _relation_added(self, record: EventRecord, event: RelationAdded) -> None:
        self.relations[event.relation] = Relation(
            id=event.relation,
            scope=f"session:{record.session_id}",
            block=event.block,
            subject=event.subject,
            predicate=event.predicate,
            object=event.object,
            state="active",
            origin=event.origin,
            turn=record.turn,
            ended_turn=None,
            ended_by=None,
            created_at=record.at,
            confirmed_at=record.at,
            updated_at=record.at,
            version=1,
            sources=_sources(record, event.sources),
        )

    def _relation_confirmed(self, record: EventRecord, event: RelationConfirmed) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            # A confirmation changes no value, so it makes no version.
            sources = tuple(sorted({*relation.sources, *_sources(record, event.sources)}))
            self.relations[event.relation] = replace(relation, confirmed_at=record.at, sources=sources)

    def _relation_ended(self, record: EventRecord, event: RelationEnded) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            self._revise(record, relation, state="ended", ended_turn=record.turn, ended_by=event.by)

    def _relation_changed(self, record: EventRecord, event: RelationChanged) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            names = ("subject", "predicate", "object", "state", "ended_turn", "ended_by")
            values: dict[str, Any] = {name: event.after[name] for name in names if name in event.after}
            if "sources" in event.after:
                values["sources"] = _sources(record, event.after["sources"])
            self._revise(record, relation, **values)

    def _revise(self, record: EventRecord, relation: Relation, **values: Any) -> None:
        version = relation.version + 1
        self.relations[relation.id] = replace(relation, **values, updated_at=record.at, version=version)

    def _relation_erased(self, record: EventRecord, event: RelationErased) -> None:
        self.relations.pop(event.relation, None)

    def graphs(self, session_id: str, words: Callable[[str], str | None]) -> dict[str, Graph]:
        """Return the graph of each block that has one, by name; erased names are empty."""
        scope = f"session:{session_id}"
        blocks = {e.block for e in self.entities.values()} | {r.block for r in self.relations.values()}
        return {
            block: Graph(
                {e.id: _worded(e, scope, words) for e in self.entities.values() if e.block == block},
                {r.id: _relation(r, scope, words) for r in self.relations.values() if r.block == block},
            )
            for block in sorted(blocks)
        }


Joined = tuple[int, str, int]
"""Id of the subject, hash of the predicate and id of the object of a relation."""


class GraphWords:
    """Names of entities and words of relations, by the position from which they applied; erased ones included."""

    def __init__(self) -> None:
        self._names: dict[int, list[tuple[int, str]]] = {}
        self._relations: dict[int, list[tuple[int, Joined]]] = {}

    def apply(self, record: EventRecord) -> None:
        handler = _WORDS.get(type(record.event))
        if handler is not None:
            handler(self, record, record.event)

    @property
    def ever_related(self) -> Collection[int]:
        """Ids of all relations, erased ones included."""
        return self._relations.keys()

    def name(self, entity: int, position: int) -> str | None:
        """Return the hash of an entity's name at a position."""
        return state_at(self._names.get(entity, []), position)

    def joined(self, relation: int, position: int) -> Joined | None:
        return state_at(self._relations.get(relation, []), position)

    def _entity_added(self, record: EventRecord, event: EntityAdded) -> None:
        self._names[event.entity] = [(record.position, event.name)]

    def _entity_changed(self, record: EventRecord, event: EntityChanged) -> None:
        if "name" in event.after and event.entity in self._names:
            self._names[event.entity].append((record.position, event.after["name"]))

    def _relation_added(self, record: EventRecord, event: RelationAdded) -> None:
        self._relations[event.relation] = [(record.position, (event.subject, event.predicate, event.object))]

    def _relation_changed(self, record: EventRecord, event: RelationChanged) -> None:
        if event.relation in self._relations:
            versions, now = self._relations[event.relation], event.after
            subject, predicate, object = versions[-1][1]
            words = (now.get("subject", subject), now.get("predicate", predicate), now.get("object", object))
            versions.append((record.position, words))


# An erasure is not handled on purpose: past prompts still name the words that applied before it.
_WORDS: dict[type[Event], Callable[[GraphWords, EventRecord, Any], None]] = {
    EntityAdded: GraphWords._entity_added,
    EntityChanged: GraphWords._entity_changed,
    RelationAdded: GraphWords._relation_added,
    RelationChanged: GraphWords._relation_changed,
}

_HANDLERS: dict[type[Event], Callable[[PastGraph, EventRecord, Any], None]] = {
    EntityAdded: PastGraph._entity_added,
    EntityChanged: PastGraph._entity_changed,
    EntityErased: PastGraph._entity_erased,
    RelationAdded: PastGraph._relation_added,
    RelationConfirmed: PastGraph._relation_confirmed,
    RelationEnded: PastGraph._relation_ended,
    RelationChanged: PastGraph._relation_changed,
    RelationErased: PastGraph._relation_erased,
}

HANDLED = frozenset(_HANDLERS)


def _worded(entity: Entity, scope: str, words: Callable[[str], str | None]) -> Entity:
    aliases = tuple(text for alias in entity.aliases if (text := words(alias)) is not None)
    return replace(entity, scope=scope, name=words(entity.name) or "", aliases=aliases)


def _relation(relation: Relation, scope: str, words: Callable[[str], str | None]) -> Relation:
    return replace(relation, scope=scope, predicate=words(relation.predicate) or "")


def _sources(record: EventRecord, seqs: Ranges) -> tuple[tuple[str, int], ...]:
    return tuple((record.session_id, seq) for seq in expand(seqs))
