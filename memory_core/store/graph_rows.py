"""Knowledge graphs in the database: entities and relations with their texts, states and sources.

Each version of an entity or a relation is one event. Adding makes version 1, and every `EntityChanged`,
`RelationChanged` and `RelationEnded` the next; `RelationConfirmed` makes none. The log thus holds every former
state, for undo and past graphs.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update

from memory_core.errors import ConflictError
from memory_core.events import (
    Actor,
    EntityAdded,
    EntityChanged,
    EntityErased,
    GraphCurated,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    ranges,
)
from memory_core.planning.graph_draft import GraphPlan, Source
from memory_core.planning.graph_rules import Entity, Graph, Relation
from memory_core.store.database import chunks
from memory_core.store.log_rows import read_events
from memory_core.store.tables import entity_table, relation_source_table, relation_table
from memory_core.store.text_erasing import erase_unneeded, graph_words
from memory_core.store.writing import Writing, read_texts

_e = entity_table.c
_r = relation_table.c
_s = relation_source_table.c

Revision = tuple[float, ...]
Versions = tuple[int, int, int]
"""An id with its versions before and after a change; see `GraphCurated`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Result of storing a plan."""

    entities: tuple[Versions, ...]
    """Changed entities, merged ones first."""
    relations: tuple[Versions, ...]


# -- reading -------------------------------------------------------------------------------------


def read_graph(connection: Connection, scope: str, block: str) -> Graph:
    """Return a block's graph: all entities and relations, whatever their state."""
    entities = connection.execute(
        select(entity_table).where(_e.scope == scope, _e.block == block).order_by(_e.id)
    ).all()
    relations = connection.execute(
        select(relation_table).where(_r.scope == scope, _r.block == block).order_by(_r.id)
    ).all()
    aliases = {row.id: tuple(json.loads(row.aliases)) for row in entities}
    hashes = {row.name for row in entities} | {row.predicate for row in relations}
    words = read_texts(connection, scope, hashes.union(*aliases.values()))
    sources: dict[int, list[Source]] = {}
    # By a subquery, as a list of ids may be longer than a statement's parameters.
    of_block = select(_r.id).where(_r.scope == scope, _r.block == block)
    query = select(relation_source_table).where(_s.relation_id.in_(of_block)).order_by(_s.session_id, _s.seq)
    for id, session, seq in connection.execute(query) if relations else ():
        sources.setdefault(id, []).append((session, seq))
    return Graph(
        {
            row.id: Entity(
                **{
                    **row._mapping,
                    "name": words.get(row.name, ""),
                    "aliases": tuple(words[key] for key in aliases[row.id] if key in words),
                }
            )
            for row in entities
        },
        {
            row.id: Relation(
                **{
                    **row._mapping,
                    "predicate": words.get(row.predicate, ""),
                    "sources": tuple(sources.get(row.id, ())),
                }
            )
            for row in relations
        },
    )


def graph_revision(connection: Connection, scope: str, block: str) -> Revision:
    """Return a value that changes with any entity or relation of a block."""

    def of(columns: Any, *more: Any) -> Any:
        sums = func.count(), func.coalesce(func.max(columns.id), 0), func.coalesce(func.sum(columns.version), 0)
        return select(*sums, *more).where(columns.scope == scope, columns.block == block)

    of_block = select(_r.id).where(_r.scope == scope, _r.block == block)
    confirmed = func.coalesce(func.max(_r.confirmed_at), 0.0)
    # Sources change without a new version, for example by erasing, and so do confirmations.
    sources = select(func.count()).select_from(relation_source_table).where(_s.relation_id.in_(of_block))
    rows = (connection.execute(query).one() for query in (of(_e), of(_r, confirmed), sources))
    return tuple(float(number) for row in rows for number in row)


def count_graph(connection: Connection, scope: str, block: str) -> tuple[dict[str, int], dict[str, int]]:
    """Count a block's entities and relations by state."""
    rows = []
    for table in (entity_table, relation_table):
        of_block = (table.c.scope == scope) & (table.c.block == block)
        query = select(table.c.state, func.count()).where(of_block).group_by(table.c.state)
        rows.append({str(state): int(number) for state, number in connection.execute(query)})
    return rows[0], rows[1]


def last_number(connection: Connection, session_id: str, block: str) -> int:
    """Return the number of a block's newest change set on its graph; 0 for none."""
    kinds = (GraphCurated.kind,)
    newest = read_events(connection, session_id, kinds=kinds, block=block, limit=1, newest_first=True)
    return newest[0].event.number if newest and isinstance(newest[0].event, GraphCurated) else 0


# -- writing -------------------------------------------------------------------------------------


def store_plan(w: Writing, scope: str, block: str, plan: GraphPlan, *, actor: Actor) -> Stored:
    """Store a plan, with its events.

    Raises:
        ConflictError: something was changed elsewhere since the plan was made.
    """
    # Stored ids by the ids of the plan, which numbers new items from -1 downwards.
    entity_ids: dict[int, int] = {}
    relation_ids: dict[int, int] = {}
    entities: dict[int, Versions] = {}
    relations: dict[int, Versions] = {}

    def real(entity: int) -> int:
        return entity_ids.get(entity, entity)

    # 1. All new entities as active: any of them may be named below.
    for new in plan.added_entities:
        id = entity_ids[new.id] = add_entity(w, scope, block, new, actor=actor)
        entities[id] = (id, 0, 1)
    # 2. Merges among new entities, once their targets have ids. Adding and merging are two events, as for known ones.
    for new in plan.added_entities:
        if new.state != "active":  # the same plan merged it
            before = _as_stored(new, scope, block, id=real(new.id))
            after = replace(
                before, state=new.state, merged_into=None if new.merged_into is None else real(new.merged_into)
            )
            entities[before.id] = (before.id, 0, change_entity(w, before, after, actor=actor))
    # 3. Known entities, which may be merged into new ones; then relations, whose ends all exist now.
    for old, changed in plan.changed_entities:
        merged_into = None if changed.merged_into is None else real(changed.merged_into)
        version = change_entity(w, old, replace(changed, merged_into=merged_into), actor=actor)
        entities[old.id] = (old.id, old.version, version)
    for id, sources in plan.confirmed:
        confirm_relation(w, block, id, sources, actor=actor)
    # 4. New relations as active, as one may be ended by another that is added after it.
    added = []
    for fresh in plan.added_relations:
        values: dict[str, Any] = {"id": fresh.id, "subject": real(fresh.subject), "object": real(fresh.object)}
        stored = _as_stored(replace(fresh, **values), scope, block, id=fresh.id)
        id = relation_ids[fresh.id] = add_relation(w, scope, block, stored, actor=actor)
        relations[id] = (id, 0, 1)
        added.append((fresh, replace(stored, id=id)))

    def settled(relation: Relation) -> dict[str, Any]:
        """Return the relation's references to other rows as stored ids."""
        by = relation.ended_by
        return {
            "subject": real(relation.subject),
            "object": real(relation.object),
            "ended_by": by if by is None else relation_ids.get(by, by),
        }

    # 5. Ends of new and known relations, once every relation has an id.
    for fresh, stored in added:
        if fresh.state != "active":
            changed_to = replace(stored, state=fresh.state, ended_turn=fresh.ended_turn, **settled(fresh))
            relations[stored.id] = (stored.id, 0, change_relation(w, stored, changed_to, actor=actor))
    for past, now in plan.changed_relations:
        version = change_relation(w, past, replace(now, **settled(now)), actor=actor)
        relations[past.id] = (past.id, past.version, version)
    # 6. Rows that an undo removes come last, when nothing changed above refers to them any more.
    entities |= {gone.id: (gone.id, gone.version, 0) for gone in plan.removed_entities}
    relations |= {gone.id: (gone.id, gone.version, 0) for gone in plan.removed_relations}
    gone_entities = [(gone.id, block) for gone in plan.removed_entities]
    erase_graph(w, gone_entities, [(gone.id, block) for gone in plan.removed_relations], actor=actor)
    merged = {before.id for before, after in plan.changed_entities if after.state == "merged"}
    ordered = sorted(entities.values(), key=lambda row: row[0] not in merged)
    return Stored(tuple(ordered), tuple(relations.values()))


def add_entity(w: Writing, scope: str, block: str, new: Entity, *, actor: Actor) -> int:
    """Store an entity as active and record it; return its id."""
    name = w.store_text(new.name, scope=scope)
    aliases = tuple(w.store_text(alias, scope=scope) for alias in new.aliases)
    values = {
        "scope": scope,
        "block": block,
        "name": name,
        "aliases": json.dumps(aliases),
        "type": new.type,
        "state": "active",
        "origin": new.origin,
        "turn": w.session.turns,
        "created_at": w.now,
        "updated_at": w.now,
        "version": 1,
    }
    id = int(w.connection.execute(insert(entity_table).values(values).returning(_e.id)).scalar_one())
    w.record(EntityAdded(id, block, name, new.type, aliases, new.origin), actor=actor)
    return id


def change_entity(w: Writing, before: Entity, after: Entity, *, actor: Actor) -> int:
    """Change an entity's name, type, state or aliases; return the new version.

    Raises:
        ConflictError: the entity was changed elsewhere since `before` was read.
    """
    was, now = _entity_values(w, before), _entity_values(w, after)
    # Only what differs is written, and an entity that stays the same gets no version.
    names = [name for name in was if was[name] != now[name]]
    if not names:
        return before.version
    values = {name: json.dumps(now[name]) if name == "aliases" else now[name] for name in names}
    _advance(w, entity_table, before, values)
    changed = EntityChanged(before.id, before.block, {n: was[n] for n in names}, {n: now[n] for n in names})
    w.record(changed, actor=actor)
    return before.version + 1


def add_relation(w: Writing, scope: str, block: str, new: Relation, *, actor: Actor) -> int:
    """Store a relation as active and record it; return its id."""
    predicate = w.store_text(new.predicate, scope=scope)
    values = {
        "scope": scope,
        "block": block,
        "subject": new.subject,
        "predicate": predicate,
        "object": new.object,
        "state": "active",
        "origin": new.origin,
        "turn": w.session.turns,
        "created_at": w.now,
        "confirmed_at": w.now,
        "updated_at": w.now,
        "version": 1,
    }
    id = int(w.connection.execute(insert(relation_table).values(values).returning(_r.id)).scalar_one())
    _add_sources(w, id, new.sources)
    of_session = ranges(seq for session, seq in new.sources if session == w.session.id)
    w.record(RelationAdded(id, block, new.subject, predicate, new.object, of_session, new.origin), actor=actor)
    return id


def confirm_relation(w: Writing, block: str, id: int, sources: Iterable[Source], *, actor: Actor) -> None:
    """Confirm a relation that was said again: update its date, add sources; no new version."""
    sources = list(sources)
    # No version: the relation states the same.
    w.connection.execute(update(relation_table).where(_r.id == id).values(confirmed_at=w.now))
    _add_sources(w, id, sources)
    of_session = ranges(seq for session, seq in sources if session == w.session.id)
    w.record(RelationConfirmed(id, block, of_session), actor=actor)


def end_relation(w: Writing, relation: Relation, *, by: int | None = None, actor: Actor) -> int:
    """End a relation in this turn; return the new version.

    Raises:
        ConflictError: the relation was changed elsewhere since it was read.
    """
    values = {"state": "ended", "ended_turn": w.session.turns, "ended_by": by}
    _advance(w, relation_table, relation, values)
    w.record(RelationEnded(relation.id, relation.block, by), actor=actor)
    return relation.version + 1


def change_relation(w: Writing, before: Relation, after: Relation, *, actor: Actor) -> int:
    """Change a relation's ends, predicate, state or sources; return the new version.

    A relation set to `ended` without an `ended_turn` ends in this turn.

    Raises:
        ConflictError: the relation was changed elsewhere since `before` was read.
    """
    # A relation that only ends has an event of its own; with other changes, the end is one of them.
    ends_now = after.state == "ended" and after.ended_turn is None
    if ends_now and before.state == "active" and replace(after, state="active", ended_by=None) == before:
        return end_relation(w, before, by=after.ended_by, actor=actor)
    if ends_now:
        after = replace(after, ended_turn=w.session.turns)
    was, now = _relation_values(w, before), _relation_values(w, after)
    names = [name for name in was if was[name] != now[name]]
    if not names:
        return before.version
    # Sources are rows of another table.
    _advance(w, relation_table, before, {name: now[name] for name in names if name != "sources"})
    if "sources" in names:
        gone = set(before.sources) - set(after.sources)
        for session, seq in gone:
            where = (_s.relation_id == before.id) & (_s.session_id == session) & (_s.seq == seq)
            w.connection.execute(delete(relation_source_table).where(where))
        _add_sources(w, before.id, set(after.sources) - set(before.sources))
    changed = RelationChanged(before.id, before.block, {n: was[n] for n in names}, {n: now[n] for n in names})
    w.record(changed, actor=actor)
    return before.version + 1


# -- forgetting ----------------------------------------------------------------------------------


def erase_graph(
    w: Writing, entities: Sequence[tuple[int, str]], relations: Sequence[tuple[int, str]], *, actor: Actor = "engine"
) -> None:
    """Delete entities and relations, and texts that only they had; tombstones remain in the log."""
    if not entities and not relations:
        return
    w.save()  # their texts are looked up in the log too
    scope = w.session.scope
    # Before the rows are deleted, which name the texts.
    gone = graph_words(w.connection, scope, {id for id, _ in entities}, {id for id, _ in relations})
    for ids in chunks([id for id, _ in relations]):
        w.connection.execute(delete(relation_source_table).where(_s.relation_id.in_(ids)))
        w.connection.execute(delete(relation_table).where(_r.id.in_(ids)))
    for ids in chunks([id for id, _ in entities]):
        w.connection.execute(delete(entity_table).where(_e.id.in_(ids)))
    erase_unneeded(w, scope, gone)
    w.record(*(RelationErased(id, block) for id, block in relations), actor=actor)
    w.record(*(EntityErased(id, block) for id, block in entities), actor=actor)


def forget_sources(w: Writing, seqs: Sequence[int] | None, *, with_unsourced: bool) -> None:
    """Remove messages of this session as sources (None: all), and delete what was learned from them alone.

    Deletes relations left without a source, except those a person wrote, and found entities left without a relation.
    `with_unsourced` also deletes found relations that name no message.
    """
    touched = drop_relation_sources(w, seqs)
    in_scope = (_r.scope == w.session.scope) & (_r.origin != "written")
    sourced = select(_s.relation_id).where(_s.relation_id == _r.id).exists()
    unsourced = w.connection.execute(select(_r.id, _r.block).where(in_scope, ~sourced)).all()
    relations = [(id, block) for id, block in unsourced if with_unsourced or id in touched]
    # After a reset of everything, entities may be lonely without any relation being deleted now.
    if relations or with_unsourced:
        lonely = lonely_entities(w.connection, w.session.scope, {id for id, _ in relations})
        erase_graph(w, lonely, relations)


def drop_relation_sources(w: Writing, seqs: Sequence[int] | None) -> set[int]:
    """Remove messages of this session as sources of relations (None: all); return the ids of relations that had one."""
    of_session = _s.session_id == w.session.id
    touched: set[int] = set()
    for where in [of_session] if seqs is None else [of_session & _s.seq.in_(chunk) for chunk in chunks(seqs)]:
        touched.update(w.connection.execute(select(_s.relation_id).where(where)).scalars())
        w.connection.execute(delete(relation_source_table).where(where))
    return touched


def erase_all_graphs(w: Writing) -> None:
    """Delete every graph of the session, those of removed blocks included."""
    scope = w.session.scope
    for table in (entity_table, relation_table):
        if table is relation_table:
            ids = select(_r.id).where(_r.scope == scope)
            w.connection.execute(delete(relation_source_table).where(_s.relation_id.in_(ids)))
        w.connection.execute(delete(table).where(table.c.scope == scope))


def lonely_entities(connection: Connection, scope: str, without: Collection[int]) -> list[tuple[int, str]]:
    """Return id and block of each extracted entity that no relation refers to; those in `without` do not count.

    Entities that a person wrote are never included; a merged entity is included only if its target is.
    """
    rows = connection.execute(select(_r.id, _r.subject, _r.object).where(_r.scope == scope)).all()
    needed = {end for id, subject, object in rows if id not in without for end in (subject, object)}
    columns = (_e.id, _e.block, _e.origin, _e.merged_into)
    entities = connection.execute(select(*columns).where(_e.scope == scope).order_by(_e.id)).all()
    into = {id: merged_into for id, _, _, merged_into in entities}
    # Entities that a person wrote stay, related or not.
    needed |= {id for id, _, origin, _ in entities if origin == "written"}

    def stays(id: int) -> bool:
        seen: set[int] = set()
        following: int | None = id
        # `seen` ends a circle of merges, which only a damaged database has.
        while following is not None and following not in seen:
            if following in needed:
                return True
            seen.add(following)
            following = into.get(following)
        return False

    return [(id, block) for id, block, _, _ in entities if not stays(id)]


# -- inside --------------------------------------------------------------------------------------


def _advance(w: Writing, table: Any, before: Entity | Relation, values: Mapping[str, Any]) -> None:
    """Write a row's next version.

    Raises:
        ConflictError: the row is not in the version that was read.
    """
    # The version in the condition makes a change elsewhere a conflict.
    where = (table.c.id == before.id) & (table.c.version == before.version)
    query = update(table).where(where).values(**values, version=before.version + 1, updated_at=w.now)
    if w.connection.execute(query.returning(table.c.id)).one_or_none() is None:
        what = f'"{before.name}"' if isinstance(before, Entity) else "The relation"
        raise ConflictError(f"{what} was changed elsewhere. Nothing was changed here.")


def _entity_values(w: Writing, entity: Entity) -> dict[str, Any]:
    """Return the changeable values of an entity, in the form in which the log has them."""
    return {
        "name": w.store_text(entity.name, scope=entity.scope),
        "type": entity.type,
        "aliases": [w.store_text(alias, scope=entity.scope) for alias in entity.aliases],
        "state": entity.state,
        "merged_into": entity.merged_into,
    }


def _relation_values(w: Writing, relation: Relation) -> dict[str, Any]:
    """Return the changeable values of a relation, in the form in which the log has them."""
    return {
        "subject": relation.subject,
        "predicate": w.store_text(relation.predicate, scope=relation.scope),
        "object": relation.object,
        "state": relation.state,
        "ended_turn": relation.ended_turn,
        "ended_by": relation.ended_by,
        "sources": ranges(seq for session, seq in relation.sources if session == w.session.id),
    }


def _add_sources(w: Writing, id: int, sources: Iterable[Source]) -> None:
    rows = [{"relation_id": id, "session_id": session, "seq": seq} for session, seq in sorted(set(sources))]
    w.database.insert_if_new(w.connection, relation_source_table, rows)


Value = TypeVar("Value", Entity, Relation)


def _as_stored(value: Value, scope: str, block: str, *, id: int) -> Value:
    """Return a new entity or relation of a plan as it is first stored."""
    # New rows are stored as active; another state in the plan is a change that follows (see `store_plan`).
    more: dict[str, Any] = (
        {"merged_into": None} if isinstance(value, Entity) else {"ended_turn": None, "ended_by": None}
    )
    return replace(value, id=id, scope=scope, block=block, state="active", version=1, **more)
