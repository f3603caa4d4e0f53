"""Facts and relations that have or had another value, with their wordings and sources."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, exists, func, select, true

from memory_core.events import Ref
from memory_core.planning.former_values import ENDED, FALSE_REASONS, Source, Statement, says_false
from memory_core.planning.graph_rules import normal_predicate, slot_of
from memory_core.planning.slots import ATTRIBUTES, Slot, single_slot
from memory_core.store.database import chunks
from memory_core.store.fact_rows import last_curated, read_contradicted, read_reviewed
from memory_core.store.tables import (
    USERS,
    entity_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    relation_source_table,
    relation_table,
)
from memory_core.store.writing import read_texts

_f, _v, _r, _e = fact_table.c, fact_revision_table.c, relation_table.c, entity_table.c

_VERSIONS = select(_v.fact_id, _v.version, _v.content, _v.state, _v.turn, _v.reason, _v.actor)

_STATED = _f.state.in_(("active", "superseded", "retired"))
_FALSE = [reason.lower() for reason in (ENDED, *FALSE_REASONS)]

_Slots = Collection[Slot | None]


def _summed_up(columns: Any) -> Select[Any]:
    sums = [func.count(), func.max(columns.id), func.sum(columns.version)]
    # The sum of times, as an undone confirmation sets an earlier time again.
    sums += [func.sum(columns.confirmed_at)] if columns is not _e else []
    of_scopes = columns.scope.in_(bindparam("scopes", expanding=True))
    return select(*(func.coalesce(one, 0) for one in sums)).where(of_scopes)


_SUMMED_UP = [_summed_up(columns) for columns in (_f, _e, _r)]


def statements_revision(connection: Connection, scopes: Collection[str]) -> tuple[float, ...]:
    """Return a value that changes with any fact, entity or relation of these scopes, confirmations included."""
    of_scopes = {"scopes": list(scopes)}
    numbers = [float(number) for query in _SUMMED_UP for number in connection.execute(query, of_scopes).one()]
    # A person's review, and its undo, may change no row of a fact.
    return (*numbers, *(float(last_curated(connection, scope)) for scope in scopes))


def read_statements(
    connection: Connection, scopes: Collection[str], imagined: Collection[Statement] = ()
) -> list[Statement]:
    """Return the facts and relations of these scopes that can have a former value, those that replaced them, and all
    in their slots; in a preview also those that it changes, which are `imagined`."""
    also = {one.ref.number for one in imagined if one.ref.kind == "fact"}
    relations = [one for scope in scopes for one in _relations(connection, scope, _ended(connection, scope))]
    changed = {scope: _changed(connection, scope, preview=bool(imagined)) for scope in scopes}
    rows = [row for of_scope in changed.values() for row in of_scope.values()]
    slots = ({one.slot for one in (*imagined, *relations)} | {single_slot(row.slot) for row in rows}) - {None}
    statements = [one for scope in scopes for one in _facts(connection, scope, changed[scope], slots, also)]
    holding = [one for scope in scopes for one in _relations(connection, scope, _holding(connection, scope, slots))]
    by_ref = {one.ref: one for one in [*statements, *(one for one in holding if one.slot in slots), *relations]}
    return list(by_ref.values())


def _changed(connection: Connection, scope: str, *, preview: bool) -> dict[int, Any]:
    """Return the rows of the facts that have a former value of their own, by id.

    A fact that was only left out when facts were condensed has none: most facts of a long session are of that kind.
    """
    worded_anew = _v.content != _f.content
    put_away = (_f.state == "superseded") & (func.lower(_v.reason).in_(_FALSE) | _v.actor.in_(USERS))
    former = exists().where(_v.fact_id == _f.id, worded_anew | put_away)
    # In a preview any of them may be put away.
    changed = (_f.version > 1) & (true() if preview else (_f.state == "retired") | former)
    return _rows(connection, scope, _STATED & changed)


def _rows(connection: Connection, scope: str, where: ColumnElement[bool]) -> dict[int, Any]:
    return {row.id: row for row in connection.execute(select(fact_table).where(_f.scope == scope, where))}


def _facts(
    connection: Connection, scope: str, changed: Mapping[int, Any], slots: _Slots, also: Collection[int]
) -> list[Statement]:
    # 1. A contradicted fact has a former value, too; and another fact of a slot may still state what a changed one no
    #    longer does. A preview may bring back or accept a fact, so those are read in any state.
    contradicted = read_contradicted(connection, scope)
    taking_part = {id for new, others in contradicted.items() for id in (new, *others)}
    rows = dict(changed)
    for some in chunks(sorted(taking_part - rows.keys())):
        rows |= _rows(connection, scope, _STATED & _f.id.in_(some))
    for some in chunks(sorted(also - rows.keys())):
        rows |= _rows(connection, scope, _f.id.in_(some))
    if slots:
        mates = _rows(connection, scope, _STATED & _f.slot.is_not(None) & ((_f.state == "active") | (_f.version > 1)))
        rows |= {id: row for id, row in mates.items() if single_slot(row.slot) in slots}
    if not rows:
        return []
    # 2. Its versions have its former wordings, the reason why it ended, and who changed it.
    rows = {row.id: row for row in sorted(rows.values(), key=_order)}
    versions: dict[int, list[Any]] = {id: [] for id in rows}
    for some in chunks(sorted(rows)):
        query = _VERSIONS.where(_v.fact_id.in_(some)).order_by(_v.fact_id, _v.version)
        for version in connection.execute(query).all():
            versions[version.fact_id].append(version)
    reviewed = read_reviewed(connection, scope)
    words = read_texts(connection, scope, {version.content for several in versions.values() for version in several})
    sources = _sources(connection, fact_source_table, "fact_id", rows)
    # 3. Condensed and merged facts were stated all the same. Facts that a person retired for another reason, that the
    #    user asked to forget, or that expired are left out: their text must not come back in a mark.
    return [
        Statement(
            ref=Ref.of("fact", id),
            wordings=wordings,
            turn=_changed_in(versions[id]),
            sources=sources.get(id, ()),
            # A fact that a preview brings back or accepts counts as ended before, so that it changes in that turn.
            ended=row.state != "active"
            and (versions[id][-1].reason == ENDED or says_false(versions[id][-1].reason) or id in also),
            confirmed_at=row.confirmed_at,
            reviewed=id in reviewed,
            decided=row.state == "superseded" and versions[id][-1].actor == "user",
            version=row.version,
            block=row.block,
            contradicts=tuple(Ref.of("fact", other) for other in contradicted.get(id, ())),
            slot=single_slot(row.slot),
        )
        for id, row in rows.items()
        if (wordings := tuple(words[version.content] for version in versions[id] if version.content in words))
        and (row.state != "retired" or says_false(versions[id][-1].reason) or id in also)
    ]


def _order(row: Any) -> tuple[Any, ...]:
    """Return the sort key of facts: which of two values that changed in one turn counts as the last depends on it."""
    in_slot = row.state == "active" and single_slot(row.slot) is not None
    return (0 if in_slot else 1, row.block, row.state, row.id) if in_slot or row.version > 1 else (2, row.id)


def _changed_in(versions: list[Any]) -> int:
    """Return the turn of the last version whose text or state differs from the version before it."""
    turn = versions[0].turn
    for before, after in pairwise(versions):
        if (before.content, before.state) != (after.content, after.state):
            turn = after.turn
    return int(turn)


def _ended(connection: Connection, scope: str) -> dict[int, Any]:
    """Return the rows of the relations that ended, and of those that replaced them."""
    query = select(relation_table).where(_r.scope == scope, _r.state == "ended")
    rows = {row.id: row for row in connection.execute(query)}
    # A replacing relation may have been replaced itself, and is then in `rows` already.
    later = {row.ended_by for row in rows.values()} - set(rows) - {None}
    for some in chunks(sorted(later)):
        rows |= {row.id: row for row in connection.execute(select(relation_table).where(_r.id.in_(some)))}
    return rows


def _holding(connection: Connection, scope: str, slots: _Slots) -> dict[int, Any]:
    """Return the rows of the active relations whose predicates have the attribute of one of these slots."""
    of_scope = (_r.scope == scope, _r.state == "active")
    if not slots:
        return {}
    # Predicates first: a graph has few of them, and names are read for the remaining relations alone.
    predicates = set(connection.execute(select(_r.predicate).where(*of_scope).distinct()).scalars())
    wanted, words = {slot.attribute for slot in slots if slot}, read_texts(connection, scope, predicates)
    fitting = [key for key, text in words.items() if ATTRIBUTES.get(normal_predicate(text)) in wanted]
    query = select(relation_table).where(*of_scope, _r.predicate.in_(fitting))
    return {row.id: row for row in connection.execute(query)}


def _relations(connection: Connection, scope: str, rows: Mapping[int, Any]) -> list[Statement]:
    if not rows:
        return []
    ends = {entity for row in rows.values() for entity in (row.subject, row.object)}
    names: dict[int, str] = {}
    for some in chunks(sorted(ends)):
        names |= {row.id: row.name for row in connection.execute(select(_e.id, _e.name).where(_e.id.in_(some)))}
    words = read_texts(connection, scope, {*names.values(), *(row.predicate for row in rows.values())})
    sources = _sources(connection, relation_source_table, "relation_id", rows)
    result = []
    for id, row in rows.items():
        parts = [words.get(key or "") for key in (names.get(row.subject), row.predicate, names.get(row.object))]
        if None not in parts:
            result.append(
                Statement(
                    ref=Ref.of("relation", id),
                    wordings=(" ".join(part for part in parts if part),),
                    turn=row.turn if row.ended_turn is None else row.ended_turn,
                    sources=sources.get(id, ()),
                    ended=row.state == "ended",
                    confirmed_at=row.confirmed_at,
                    reviewed=row.origin == "written",
                    block=row.block,
                    slot=slot_of(parts[0] or "", parts[1] or ""),
                    replaced_by=None if row.ended_by is None else Ref.of("relation", row.ended_by),
                )
            )
    return result


def _sources(connection: Connection, table: Any, key: str, ids: Mapping[int, Any]) -> dict[int, tuple[Source, ...]]:
    """Return the source messages of each fact or relation, by its id."""
    sources: defaultdict[int, list[Source]] = defaultdict(list)
    for some in chunks(sorted(ids)):
        of, session, seq = table.c[key], table.c.session_id, table.c.seq
        query = select(of, session, seq).where(of.in_(some)).order_by(session, seq)
        for id, *source in connection.execute(query).all():
            sources[id].append(tuple(source))
    return {id: tuple(several) for id, several in sources.items()}
