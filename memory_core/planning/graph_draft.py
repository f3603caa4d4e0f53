"""Draft of changes to a graph, and the plan that stores them.

Pure. New items have negative ids until they are stored: -1 is the first new entity, and -1 the first new relation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from memory_core.errors import ConflictError
from memory_core.events import NothingReason
from memory_core.planning.graph_rules import (
    SYMMETRIC,
    TYPES,
    Entity,
    Graph,
    Relation,
    RelationState,
    normal_name,
    normal_predicate,
)
from memory_core.planning.slots import ATTRIBUTES

Source = tuple[str, int]
"""Session and sequence number of a message."""


_NO_NUMBERS: Iterator[int] = iter(())
"""Ids for a plan that adds no items."""


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Rows to store for a change, all or nothing."""

    added_entities: tuple[Entity, ...] = ()
    """New entities in their final states; one may have been merged into another already."""
    changed_entities: tuple[tuple[Entity, Entity], ...] = ()
    """Entities before and after the change."""
    added_relations: tuple[Relation, ...] = ()
    """New relations in their final states; one may have ended already. Their ends may be new entities."""
    changed_relations: tuple[tuple[Relation, Relation], ...] = ()
    """Relations before and after the change. A relation that is ended without an `ended_turn` ends now."""
    confirmed: tuple[tuple[int, tuple[Source, ...]], ...] = ()
    """Ids of known relations that were said again, each with the messages that say it."""
    refused: tuple[tuple[str, int], ...] = ()
    """Reasons for refusing found relations, each with its count."""
    repeated: int = 0
    """Number of found relations that were known, or repeated within the batch."""
    fruitless: tuple[tuple[int, NothingReason], ...] = ()
    """Found relations, by index, that change and confirm nothing, each with the reason."""
    removed_entities: tuple[Entity, ...] = ()
    """Entities that an undo removes, with their names."""
    removed_relations: tuple[Relation, ...] = ()

    def __bool__(self) -> bool:
        return any(
            (self.added_entities, self.changed_entities, self.added_relations, self.changed_relations, self.confirmed)
        )

    def applied_to(self, graph: Graph, numbers: Iterator[int] = _NO_NUMBERS) -> Graph:
        """Return the graph after the plan; each change is one version. New items get the passed ids.

        New or repeated relations count as the latest: their `confirmed_at` is later than any time.
        """
        # All new items get their ids first, as any of them may refer to any other by its negative one.
        entity_ids = {new.id: next(numbers) for new in self.added_entities}
        relation_ids = {new.id: next(numbers) for new in self.added_relations}

        def entity(id: Any) -> Any:
            return entity_ids.get(id, id)

        def settled(relation: Relation, **values: Any) -> Relation:
            by = relation.ended_by
            ends = {"subject": entity(relation.subject), "object": entity(relation.object)}
            return replace(relation, **ends, ended_by=by if by is None else relation_ids.get(by, by), **values)

        changed = {new.id: replace(new, version=old.version + 1) for old, new in self.changed_entities}
        added = {entity_ids[new.id]: replace(new, id=entity_ids[new.id]) for new in self.added_entities}
        entities = {id: replace(one, merged_into=entity(one.merged_into)) for id, one in (changed | added).items()}
        relations = {new.id: settled(new, version=old.version + 1) for old, new in self.changed_relations}
        for id, sources in self.confirmed:
            known_relation = relations.get(id, graph.relations[id])
            relations[id] = replace(known_relation, sources=united(known_relation.sources, sources), confirmed_at=inf)
        for new in self.added_relations:
            relations[relation_ids[new.id]] = settled(new, id=relation_ids[new.id], confirmed_at=inf)
        gone, gone_relations = ({one.id for one in rows} for rows in (self.removed_entities, self.removed_relations))
        return Graph(
            {id: one for id, one in {**graph.entities, **entities}.items() if id not in gone},
            {id: one for id, one in {**graph.relations, **relations}.items() if id not in gone_relations},
        )

    @property
    def ended(self) -> int:
        """Number of relations that this plan ends."""
        return sum(before.state == "active" and after.state == "ended" for before, after in self.changed_relations)


@dataclass(slots=True)
class GraphDraft:
    """Graph with draft changes. Never changes the original graph."""

    graph: Graph
    entities: dict[int, Entity] = field(init=False)
    relations: dict[int, Relation] = field(init=False)
    _confirmed: dict[int, list[Source]] = field(init=False, default_factory=dict)
    _names: dict[str, int] = field(init=False, default_factory=dict)
    _removed: set[str] = field(init=False, default_factory=set)
    _keys: dict[tuple[int, str, int], list[int]] = field(init=False, default_factory=dict)
    _single: dict[tuple[int, str], list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.entities, self.relations = dict(self.graph.entities), dict(self.graph.relations)
        # Oldest first: of items with one name or one meaning, the oldest is found.
        for entity in sorted(self.entities.values(), key=lambda entity: entity.id):
            self._note_names(entity)
        for relation in sorted(self.relations.values(), key=lambda relation: relation.id):
            self._note_key(relation)

    # -- looking up

    def find(self, name: str) -> int | None:
        """Return the id of the active entity with that name or alias; None if there is none."""
        # The index is never cleaned, so it may still name an entity that was merged or removed.
        id = self._names.get(normal_name(name))
        return id if id is not None and self.entities[id].state == "active" else None

    def was_removed(self, name: str) -> bool:
        """Return whether a person removed an entity of that name."""
        return normal_name(name) in self._removed

    def same(self, subject: int, predicate: str, object: int, state: str) -> int | None:
        """Return the id of the oldest relation in that state that says the same; None if there is none."""
        return next((r.id for r in self.alike(subject, predicate, object) if r.state == state), None)

    def is_rejected(self, subject: int, predicate: str, object: int) -> bool:
        """Return whether there are relations that say this, and all of them are retired."""
        states = {relation.state for relation in self.alike(subject, predicate, object)}
        return states == {"retired"}

    def current_relation(self, relation: Relation) -> Relation:
        """Return the current state of a relation.

        Raises:
            ConflictError: it was changed since it was read.
        """
        now = self.relations.get(relation.id)
        if now is None or now.version != relation.version:
            raise changed_elsewhere(self.graph, relation)
        return now

    def current_entity(self, entity: Entity) -> Entity:
        """Return the current state of an entity.

        Raises:
            ConflictError: it was changed since it was read.
        """
        now = self.entities.get(entity.id)
        if now is None or now.version != entity.version:
            raise ConflictError(f'"{entity.name}" was changed elsewhere. Nothing was changed here.')
        return now

    # -- changing

    def entity(self, name: str, *, type: str = "other", origin: str = "written") -> int:
        """Return the id of the entity of that name; a removed one is restored, a missing one is added."""
        id = self.find(name)
        if id is None and self.was_removed(name):
            id = next(
                e.id for e in self.entities.values() if e.state == "retired" and normal_name(name) in _all_names(e)
            )
            self.change_entity(id, state="active")
        if id is None:
            # The next negative id: one below zero for each entity that the draft has added, and one more.
            id = len(self.graph.entities) - len(self.entities) - 1
            self.entities[id] = Entity(id, "", "", name, (), known_type(type), "active", None, origin, 0, 0.0, 0.0, 1)
            self._note_names(self.entities[id])
        # A later mention may state the type; an entity that a person wrote keeps its type.
        elif self.entities[id].type == "other" != known_type(type) and self.entities[id].origin == "extracted":
            self.change_entity(id, type=known_type(type))
        return id

    def change_entity(self, id: int, **values: Any) -> None:
        self.entities[id] = replace(self.entities[id], **values)
        self._note_names(self.entities[id])

    def add_aliases(self, id: int, names: Iterable[str]) -> None:
        """Add further names to an entity."""
        entity = self.entities[id]
        aliases = other_names(entity.name, [*entity.aliases, *names])
        if aliases != entity.aliases:
            self.change_entity(id, aliases=aliases)

    def add_relation(
        self,
        subject: int,
        predicate: str,
        object: int,
        *,
        sources: tuple[Source, ...] = (),
        state: RelationState = "active",
        origin: str = "extracted",
        contradicts: bool = True,
    ) -> int:
        """Add a relation and return its id; an active one ends those that it contradicts."""
        id = len(self.graph.relations) - len(self.relations) - 1
        self.relations[id] = Relation(
            id, "", "", subject, predicate, object, state, origin, 0, None, None, 0.0, 0.0, 0.0, 1, united(sources)
        )
        self._note_key(self.relations[id])
        if state == "active" and contradicts:
            self.end_contradicted(id, in_time=origin == "extracted")
        return id

    def change_relation(self, id: int, **values: Any) -> None:
        self.relations[id] = replace(self.relations[id], **values)
        if {"subject", "predicate", "object"} & values.keys():
            self._note_key(self.relations[id])

    def confirm(self, id: int, sources: tuple[Source, ...]) -> None:
        """Record that a relation was said again in other messages."""
        relation = self.relations[id]
        self.relations[id] = replace(relation, sources=united(relation.sources, sources))
        # A new relation is stored with all of its sources; a known one needs a confirmation on record.
        if id >= 0:
            self._confirmed.setdefault(id, []).extend(sources)

    def end_contradicted(self, by: int, *, in_time: bool = False) -> None:
        """End the relations that cannot hold beside a given one; `in_time`: one that was said later ends it instead."""
        new = self.relations[by]
        predicate = normal_predicate(new.predicate)
        attribute = ATTRIBUTES.get(predicate)
        if attribute is None:
            return
        # Neither of two who are married may be married to another, so both ends are looked up.
        ends = (new.subject, new.object) if predicate in SYMMETRIC else (new.subject,)
        for id in dict.fromkeys(id for end in ends for id in self._single.get((end, attribute), ())):
            old = self.relations[id]
            before = normal_predicate(old.predicate)
            # The index has a relation under both of its ends; of a directed one only the subject is single.
            touches = set(ends) & ({old.subject, old.object} if before in SYMMETRIC else {old.subject})
            same_attribute = ATTRIBUTES.get(before) == attribute
            if id != by and touches and old.state == "active" and same_attribute:
                ended, stays = (by, id) if in_time and said_after(old.sources, new.sources) else (id, by)
                self.change_relation(ended, state="ended", ended_turn=None, ended_by=stays)

    def merge(self, ids: Sequence[int], into: int) -> None:
        """Merge entities into one, which takes over their names, as aliases, and their relations."""
        gone = set(ids) - {into}
        for id in sorted(gone):
            entity = self.entities[id]
            self.change_entity(id, state="merged", merged_into=into)
            self.add_aliases(into, [entity.name, *entity.aliases])
            if self.entities[into].type == "other" != entity.type:
                self.change_entity(into, type=entity.type)
        # Oldest first, stored ones before new ones, so that of two that become the same the older one stays.
        for relation in sorted(self.relations.values(), key=lambda relation: (relation.id < 0, abs(relation.id))):
            if not gone & {relation.subject, relation.object}:
                continue
            subject = into if relation.subject in gone else relation.subject
            object = into if relation.object in gone else relation.object
            # Looked up before the ends are changed, or it would find itself.
            twin = None if subject == object else self.same(subject, relation.predicate, object, relation.state)
            self.change_relation(relation.id, subject=subject, object=object)
            if subject == object and relation.state != "retired":
                self.change_relation(relation.id, state="retired", ended_turn=None, ended_by=None)
            elif twin is not None and relation.state == "active":
                self.change_relation(relation.id, state="retired")
                sources = united(self.relations[twin].sources, relation.sources)
                if sources != self.relations[twin].sources:
                    self.change_relation(twin, sources=sources)

    # -- result

    def plan(self) -> GraphPlan:
        """Return all differences from the graph; changes that were reverted are not included."""
        # From -1 downwards, which is the order in which they were added.
        new_entities = [self.entities[id] for id in sorted((id for id in self.entities if id < 0), reverse=True)]
        new_relations = [self.relations[id] for id in sorted((id for id in self.relations if id < 0), reverse=True)]
        entities = [(old, self.entities[id]) for id, old in self.graph.entities.items() if self.entities[id] != old]
        confirmed = {id: united(sources) for id, sources in self._confirmed.items()}
        relations = []
        for id, old in self.graph.relations.items():
            # A confirmation only adds sources, which does not count as a change.
            like_before = replace(old, sources=self.relations[id].sources) if id in confirmed else old
            if self.relations[id] != like_before:
                relations.append((like_before, self.relations[id]))
        return GraphPlan(
            added_entities=tuple(new_entities),
            changed_entities=tuple(entities),
            added_relations=tuple(new_relations),
            changed_relations=tuple(relations),
            confirmed=tuple(confirmed.items()),
        )

    # -- inside

    def alike(self, subject: int, predicate: str, object: int) -> list[Relation]:
        normal = normal_predicate(predicate)
        # The index is never cleaned: a changed relation is still under its former key, so the keys are compared again.
        relations = [self.relations[id] for id in self._keys.get(_key(subject, normal, object), ())]
        return [
            r
            for r in relations
            if _key(r.subject, normal_predicate(r.predicate), r.object) == _key(subject, normal, object)
        ]

    def _note_names(self, entity: Entity) -> None:
        for place, name in enumerate(_all_names(entity)):
            if entity.state == "retired":
                self._removed.add(name)
            elif entity.state == "active":
                existing = self._names.get(name)
                free = existing is None or self.entities[existing].state != "active"
                # A name goes before an alias.
                if free or (place == 0 and name != normal_name(self.entities[existing or 0].name)):
                    self._names[name] = entity.id

    def _note_key(self, relation: Relation) -> None:
        normal = normal_predicate(relation.predicate)
        self._keys.setdefault(_key(relation.subject, normal, relation.object), []).append(relation.id)
        if normal in ATTRIBUTES:
            for end in (relation.subject, relation.object):
                self._single.setdefault((end, ATTRIBUTES[normal]), []).append(relation.id)


def changed_elsewhere(graph: Graph, relation: Relation) -> ConflictError:
    """Return the error for a relation that was changed since it was read."""
    return ConflictError(f'"{graph.sentence(relation)}" was changed elsewhere. Nothing was changed here.')


def _key(subject: int, predicate: str, object: int) -> tuple[int, str, int]:
    """Return the key under which relations of one meaning compare equal; `predicate` is normalised."""
    # Being engaged to somebody does not say the same as being married to them, though both are a marital status.
    if predicate in SYMMETRIC:
        return min(subject, object), predicate, max(subject, object)
    # "Starts on 1 May" says the same again as "start date 1 May".
    return subject, ATTRIBUTES.get(predicate, predicate), object


def _all_names(entity: Entity) -> list[str]:
    return [normal_name(name) for name in (entity.name, *entity.aliases)]


def other_names(name: str, others: Iterable[str]) -> tuple[str, ...]:
    """Return `others` without `name` and without repetition."""
    # Reversed, so that of spellings that compare equal the first one stays.
    by_normal_name = {normal_name(other): other for other in reversed(list(others)) if normal_name(other)}
    by_normal_name.pop(normal_name(name), None)
    return tuple(reversed(by_normal_name.values()))


def known_type(type: str) -> str:
    return type.lower() if type.lower() in TYPES else "other"


def united(*several: Iterable[Source]) -> tuple[Source, ...]:
    return tuple(sorted({source for sources in several for source in sources}))


def said_after(one: Iterable[Source], other: Iterable[Source]) -> bool:
    """Return whether a later message says one thing than any that says the other, in a session that both are from."""
    last, before = (dict(sorted(sources)) for sources in (one, other))
    return any(last[session] > before[session] for session in last.keys() & before.keys())


def check_whole(graph: Graph, entities: Iterable[int], relations: Iterable[int]) -> None:
    """Check that the graph is consistent after a change of these entities and relations.

    Raises:
        ConflictError: a relation names a missing entity, or two entities or two relations are now the same.
    """
    changed_entities, changed_relations = set(entities), set(relations)
    for relation in graph.relations.values():
        if not {relation.subject, relation.object} <= graph.entities.keys():
            raise ConflictError("A relation was learned since about an entity that would go. Nothing was changed.")
    draft = GraphDraft(graph)
    holders: dict[str, int] = {}
    for entity in graph.entities.values():
        for name in {normal_name(entity.name)} if entity.state == "active" else ():
            other = holders.setdefault(name, entity.id)
            # Duplicates that existed before were not caused by this change.
            if other != entity.id and {other, entity.id} & changed_entities:
                raise ConflictError(f'Another entity is called "{entity.name}" by now. Nothing was changed.')
    for id in sorted(changed_relations & graph.relations.keys()):
        now = graph.relations[id]
        twins = [r for r in draft.alike(now.subject, now.predicate, now.object) if r.state == "active"]
        if now.state == "active" and len(twins) > 1:
            raise ConflictError(f'Another relation says "{graph.sentence(now)}" by now. Nothing was changed.')
