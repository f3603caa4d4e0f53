"""Facts in the database: each with its text, state, sources and history."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, delete, func, insert, select, update

from memory_core.errors import NotFoundError
from memory_core.events import (
    KINDS,
    Actor,
    Event,
    EventRecord,
    FactAccepted,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactProposed,
    FactRejected,
    FactRestored,
    FactRetired,
    FactSuperseded,
    ranges,
)
from memory_core.messages import content_hash
from memory_core.planning.curation import FactDraft, changed_elsewhere
from memory_core.planning.fact_merging import Fact, FactRevision, metadata_text
from memory_core.store.database import chunks
from memory_core.store.direct_statements import DirectStatement
from memory_core.store.log_rows import RECORD_COLUMNS, as_records
from memory_core.store.tables import (
    USERS,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    session_table,
)
from memory_core.store.writing import Writing, read_texts

_f = fact_table.c
# Built once: making a statement costs as much as running it, and every prompt reads its facts.
_OF_BLOCK = select(fact_table).where(_f.scope == bindparam("scope"), _f.block == bindparam("block")).order_by(_f.id)
_IN_STATES = _OF_BLOCK.where(_f.state.in_(bindparam("states", expanding=True)))
_SOURCES = (
    select(fact_source_table)
    .where(fact_source_table.c.fact_id.in_(bindparam("facts", expanding=True)))
    .order_by(fact_source_table.c.fact_id, fact_source_table.c.seq)
)
# Columns with hashes or JSON; a `Fact` has their decoded values.
_STORED_OTHERWISE = ("content", "topics", "key", "metadata")
_INSERT = DirectStatement(insert(fact_table).returning(_f.id))
_CONFIRM = DirectStatement(update(fact_table).where(_f.id == bindparam("fact")).values(confirmed_at=bindparam("at")))
# A version is copied within the database from the row just written, so that the two cannot differ.
_MADE = {name: fact_revision_table.c[name].type for name in ("fact_id", "actor", "reason", "turn", "at")}
_COPIED = [column.name for column in fact_revision_table.c if column.name not in _MADE]
_INSERT_REVISION = DirectStatement(
    insert(fact_revision_table).from_select(
        [*_COPIED, *_MADE],
        select(*(_f[name] for name in _COPIED), *(bindparam(name, type_=type_) for name, type_ in _MADE.items())).where(
            _f.id == bindparam("fact_id")
        ),
    )
)
_SETTING = [event for event in KINDS.values() if event.item == "fact" and event.sets]
"""Events that name new values of a fact, in the order in which they are recorded."""
_STORED_AS_THEY_ARE = [column.name for column in _f if column.name not in ("id", *_STORED_OTHERWISE)]


def read_facts(
    connection: Connection, scope: str, block: str, *, states: Iterable[str] | None = ("active",)
) -> list[Fact]:
    """Return the facts of a block, oldest first; `states=None` for all."""
    filters: dict[str, Any] = {"scope": scope, "block": block}
    if states is None:
        return _facts(connection, connection.execute(_OF_BLOCK, filters).all())
    return _facts(connection, connection.execute(_IN_STATES, {**filters, "states": list(states)}).all())


def read_history(connection: Connection, scope: str, fact_id: int) -> list[FactRevision]:
    """Return all versions of a fact, oldest first."""
    table = fact_revision_table
    rows = connection.execute(select(table).where(table.c.fact_id == fact_id).order_by(table.c.version)).all()
    people = _read_people(connection, scope, fact_id, {row.at for row in rows})
    words = read_texts(connection, scope, (key for row in rows for key in (row.content, row.metadata) if key))
    return [
        FactRevision(
            **{name: value for name, value in row._mapping.items() if name not in ("fact_id", *_STORED_OTHERWISE)},
            text=words.get(row.content, ""),
            topics=_topics(row.topics),
            metadata=_metadata(words, row.metadata),
            person=people.get(row.version),
        )
        for row in rows
    ]


def _read_people(connection: Connection, scope: str, fact_id: int, times: Iterable[float]) -> dict[int, str | None]:
    """Return the person of each change set on a fact, by the version that it made, from the log."""
    events = event_table.c
    # A version and the change set that made it have the time of their transaction, so that few events are decoded.
    in_time = events.person.is_not(None) & events.at.in_(list(times))
    query = select(*RECORD_COLUMNS).where(scope_sessions(scope), events.kind.in_(("facts_curated",)), in_time)
    records: list[Any] = as_records(connection.execute(query).all())
    return {after: record.person for record in records for id, _, after in record.event.facts if id == fact_id}


def read_keyed(connection: Connection, scope: str, block: str, keys: Iterable[str]) -> dict[str, Fact]:
    """Return the active facts of a block that have these keys, by key."""
    # Keys are texts of the caller and are stored by hash.
    hashes = [content_hash(key) for key in keys]
    queries = [_OF_BLOCK.where(_f.key.in_(some), _f.state == "active") for some in chunks(hashes)]
    rows = [row for query in queries for row in connection.execute(query, {"scope": scope, "block": block})]
    return {fact.key: fact for fact in _facts(connection, rows) if fact.key is not None}


def read_wordings(connection: Connection, scope: str, block: str | None = None) -> set[str]:
    """Return all present and former texts of a scope's facts, in any state; of one block or of all."""
    revision = fact_revision_table.c
    facts = select(_f.id).where(_f.scope == scope, *([_f.block == block] if block is not None else []))
    hashes = connection.execute(select(revision.content).where(revision.fact_id.in_(facts)).distinct()).scalars()
    return set(read_texts(connection, scope, hashes).values())


def read_protected(connection: Connection, scope: str, block: str) -> set[int]:
    """Return the ids of facts that a person wrote, imported or changed in any way, even if the change was undone.

    Facts that an agent wrote with its tools are not among them: it may reword them itself.
    """
    revision = fact_revision_table.c
    facts = select(_f.id).where(_f.scope == scope, _f.block == block)
    # An agent's tools write facts too. The author of the first version distinguishes them from a person's.
    written = facts.where(_f.origin == "written")
    query = select(revision.fact_id).where(revision.fact_id.in_(facts), revision.actor.in_(USERS))
    by_agent = select(revision.fact_id).where(revision.fact_id.in_(facts), revision.version == 1)
    by_agent = by_agent.where(revision.actor == "agent")
    ids = set(connection.execute(query.union(written.where(_f.id.not_in(by_agent)))).scalars())
    return ids | set(connection.execute(facts.where(_f.pinned.is_(True))).scalars())


def read_unwanted(connection: Connection, scope: str, block: str) -> list[Fact]:
    """Return the facts of a block that a person rejected, or retired as wrong, oldest first."""
    revision = fact_revision_table.c
    wrong = select(revision.fact_id).where(revision.state == "retired", func.lower(revision.reason) == "wrong")
    query = _OF_BLOCK.where((_f.state == "rejected") | ((_f.state == "retired") & _f.id.in_(wrong)))
    return _facts(connection, connection.execute(query, {"scope": scope, "block": block}).all())


def read_former_confirmation(connection: Connection, scope: str, block: str, fact_id: int) -> float | None:
    """Return the time of the confirmation before a person's last one (seconds since 1970); None if there is none."""
    for record in read_scope_events(connection, scope, block, ("fact_confirmed",)):
        event: Any = record.event
        # Newest first. An undo (`restores`) confirms nothing; a person's confirmation names the time before it.
        if event.fact == fact_id and event.restores is None:
            return record.at if event.former is None else event.former  # confirmed again since, not by a person
    return None


def read_authors(connection: Connection, scope: str, block: str) -> dict[tuple[int, int], tuple[Actor, int]]:
    """Return the author and the turn of each version of a block's facts, by fact and version."""
    table = fact_revision_table.c
    facts = select(_f.id).where(_f.scope == scope, _f.block == block)
    query = select(table.fact_id, table.version, table.actor, table.turn).where(table.fact_id.in_(facts))
    return {(fact, version): (actor, turn) for fact, version, actor, turn in connection.execute(query)}


def add_fact(
    w: Writing,
    scope: str,
    block: str,
    new: FactDraft,
    tokens: int,
    *,
    conflicts_with: tuple[int, ...] = (),
    actor: Actor = "engine",
    said_at: float | None = None,
) -> int:
    """Store a fact and record it; return its id. Only messages of this session become sources: see `add_support`.

    `said_at`: see `FactAdded`.
    """
    # The event names messages of its own session only; sources of others are added with `add_support`.
    seqs = [seq for session, seq in new.sources if session == w.session.id]
    fact = new.as_fact(0, scope=scope, block=block, tokens=tokens, turn=w.session.turns, at=w.now)
    fact = fact if said_at is None else replace(fact, confirmed_at=said_at)
    row: dict[str, Any] = {name: getattr(fact, name) for name in _STORED_AS_THEY_ARE}
    row["content"] = w.store_text(fact.text, scope=scope)
    row["key"] = w.store_text(fact.key, scope=scope) if fact.key is not None else None
    row["metadata"] = _store_metadata(w, scope, fact.metadata)
    # The row before its first version, which is a copy of it.
    [[new_id]] = _INSERT.rows(w.connection, {**row, "topics": _as_json(fact.topics)})
    id = int(new_id)
    _add_sources(w, id, seqs)
    _add_revision(w, id, actor)
    # The event has the values of the row that its fields name.
    recorded = {name: value for name, value in row.items() if name in FactAdded.__dataclass_fields__}
    recorded |= {"sources": ranges(seqs), "topics": fact.topics, "conflicts_with": conflicts_with, "said_at": said_at}
    w.record(FactAdded(fact=id, **recorded), actor=actor)
    return id


def confirm_fact(
    w: Writing,
    fact: Fact,
    *,
    similarity: float = 1.0,
    sources: Sequence[int] = (),
    actor: Actor = "engine",
    restores: float | None = None,
    said_at: float | None = None,
) -> None:
    """Confirm a fact that was found again, or that a person confirmed: update its date, add sources.

    `restores`: for the undo of a confirmation, the former date, in seconds since 1970. `said_at`: for
    words that were said before what is known, their time: a later date stays.
    """
    said_at = None if said_at is None else max(said_at, fact.confirmed_at)
    at = next(at for at in (restores, said_at, w.now) if at is not None)
    # No new version: the fact says the same, so a change made to it meanwhile is no conflict.
    _CONFIRM.run(w.connection, {"fact": fact.id, "at": at})
    have = {seq for session, seq in fact.sources if session == w.session.id}
    _add_sources(w, fact.id, [seq for seq in sources if seq not in have])
    # Only a person's confirmation can be undone, and needs the time before it.
    former = fact.confirmed_at if actor == "user" and restores is None else None
    confirmed = FactConfirmed(fact.id, fact.block, round(similarity, 3), ranges(sources), former, restores, said_at)
    w.record(confirmed, actor=actor)


def hand_on_sources(w: Writing, facts: Sequence[Fact], into: int) -> None:
    """Copy the sources of facts to the fact that replaces them, sources from other sessions included."""
    add_support(w, into, {source for fact in facts for source in fact.sources})


def add_support(w: Writing, fact_id: int, sources: Iterable[tuple[str, int]]) -> None:
    """Add sources to a fact: session and sequence number of each message."""
    rows = [{"fact_id": fact_id, "session_id": session, "seq": seq} for session, seq in sorted(set(sources))]
    w.database.insert_if_new(w.connection, fact_source_table, rows)


def remove_support(w: Writing, fact_id: int, sources: Iterable[tuple[str, int]]) -> None:
    table = fact_source_table.c
    for session, seq in sources:
        where = (table.fact_id == fact_id) & (table.session_id == session) & (table.seq == seq)
        w.connection.execute(delete(fact_source_table).where(where))


def revise(w: Writing, fact: Fact, after: Fact, *, actor: Actor, by: int | None = None, reason: str = "") -> int:
    """Change a fact to its values in `after`. Each changed value makes a version and an event; return the last version.

    If nothing changes, the state is recorded again, as a review. `by`: id of the superseding fact.

    Raises:
        ConflictError: the fact was changed elsewhere since `fact` was read.
    """
    # 1. Collect the changes, each with its columns and its event, so that each can be undone alone.
    changes: list[tuple[dict[str, object], Event]] = []
    if after.text != fact.text or metadata_text(after.metadata) != metadata_text(fact.metadata):
        before, content = (w.store_text(text, scope=fact.scope) for text in (fact.text, after.text))
        data = _store_metadata(w, fact.scope, after.metadata)
        slot = fact.slot or after.slot
        changed = FactChanged(fact.id, fact.block, before, content, after.tokens, metadata=data, slot=slot)
        values = {"content": content, "tokens": after.tokens, "slot": slot, "metadata": data}
        changes.append((values, changed))
    for kind in _SETTING:
        new: dict[str, Any] = {name: getattr(after, name) for name in kind.sets}
        if any(getattr(fact, name) != value for name, value in new.items()):
            values = {name: _as_json(value) if name == "topics" else value for name, value in new.items()}
            changes.append((values, kind(**{"fact": fact.id, "block": fact.block, **new})))
    # Without another change the state is recorded again: a review that keeps a fact is a decision too.
    if not changes or after.state != fact.state:
        changes.append(({"state": after.state}, _state_event(fact, after.state, by, reason)))
    # 2. Write them one after the other. The version in the condition makes a change elsewhere a conflict.
    version = fact.version
    for values, event in changes:
        written = {**values, "version": version + 1, "updated_at": w.now}
        where = {"fact": fact.id, "former": version}
        if not _update(tuple(written)).rows(w.connection, {**written, **where}):
            raise changed_elsewhere(fact)
        version += 1
        _add_revision(w, fact.id, actor, reason or None)
        w.record(event, actor=actor)
    return version


def lock_row(w: Writing, fact: Fact) -> None:
    """Lock a fact's row until the transaction ends, and check that its version is still `fact.version`.

    Raises:
        ConflictError: the fact was changed elsewhere.
    """
    # An update that changes nothing locks the row on either database; SQLite has no SELECT FOR UPDATE.
    where = (_f.id == fact.id) & (_f.version == fact.version)
    if not w.connection.execute(update(fact_table).where(where).values(version=fact.version)).rowcount:
        raise changed_elsewhere(fact)


def _state_event(fact: Fact, state: str, by: int | None, reason: str) -> Event:
    if state == "superseded":
        return FactSuperseded(fact=fact.id, block=fact.block, by=by)
    if state == "retired":
        return FactRetired(fact=fact.id, block=fact.block, reason=reason)
    if state == "rejected":
        return FactRejected(fact=fact.id, block=fact.block, reason=reason)
    if state == "proposed":
        return FactProposed(fact=fact.id, block=fact.block)
    # Otherwise the state becomes `active`: an approval, or a restored fact.
    if fact.state in ("proposed", "active"):
        return FactAccepted(fact=fact.id, block=fact.block)
    return FactRestored(fact=fact.id, block=fact.block)


def read_scope_events(connection: Connection, scope: str, block: str, kinds: Sequence[str]) -> list[EventRecord]:
    """Return the events about a block's facts, newest first; for the user's facts, from all their existing sessions."""
    events = event_table.c
    query = (
        select(*RECORD_COLUMNS)
        .where(scope_sessions(scope), events.block == block, events.kind.in_(list(kinds)))
        .order_by(events.id.desc())
    )
    return as_records(connection.execute(query).all())


def read_contradicted(connection: Connection, scope: str) -> dict[int, tuple[int, ...]]:
    """Return the ids of the facts that each fact of a scope contradicted when it was added, from the log."""
    events = event_table.c
    query = select(events.data).where(scope_sessions(scope), events.kind.in_(("fact_added",)))
    # Most facts contradict none: their events are not read.
    rows = connection.execute(query.where(events.data.not_like('%"conflicts_with":[]%'))).scalars()
    added = [json.loads(data) for data in rows]
    return {values["fact"]: tuple(values.get("conflicts_with", ())) for values in added}


def last_curated(connection: Connection, scope: str) -> int:
    """Return the position of the last change set on the facts of a scope; 0 for none."""
    events = event_table.c
    query = select(func.max(events.id)).where(scope_sessions(scope), events.kind.in_(("facts_curated",)))
    return int(connection.execute(query).scalar() or 0)


def read_reviewed(connection: Connection, scope: str) -> set[int]:
    """Return the ids of facts in change sets of a person that are not undone."""
    events = event_table.c
    query = select(*RECORD_COLUMNS).where(scope_sessions(scope), events.kind.in_(("facts_curated",)))
    in_force: dict[tuple[int, int], tuple[int, ...]] = {}
    undone: dict[tuple[int, int], tuple[int, ...]] = {}
    for record in as_records(connection.execute(query.where(events.actor.in_(USERS)).order_by(events.id)).all()):
        event: Any = record.event
        if event.undoes is None:
            in_force[event.key] = tuple(id for id, _, _ in event.facts)
        # An undo names the change set that it reverts; a redo names the same one again.
        elif event.again and event.undoes in undone:
            in_force[event.undoes] = undone.pop(event.undoes)
        elif event.undoes in in_force:
            undone[event.undoes] = in_force.pop(event.undoes)
    return {id for ids in in_force.values() for id in ids}


def scope_sessions(scope: str) -> ColumnElement[bool]:
    """Return the SQL condition that selects events of the sessions that belong to a scope."""
    kind, _, id = scope.partition(":")
    if kind == "session":
        return event_table.c.session_id == id
    return event_table.c.session_id.in_(select(session_table.c.id).where(session_table.c.user_id == id))


def drop_sources(w: Writing, seqs: Sequence[int] | None) -> list[int]:
    """Remove messages of this session as sources (None: all); return ids of facts left without any."""
    table = fact_source_table
    of_session = table.c.session_id == w.session.id
    wheres = [of_session] if seqs is None else [of_session & table.c.seq.in_(chunk) for chunk in chunks(seqs)]
    touched: set[int] = set()
    for where in wheres:
        touched.update(w.connection.execute(select(table.c.fact_id).where(where)).scalars())
        w.connection.execute(delete(table).where(where))
    # The remaining sources may be messages of other sessions, for a user's fact.
    supported: set[int] = set()
    for chunk in chunks(sorted(touched)):
        query = select(table.c.fact_id).where(table.c.fact_id.in_(chunk)).distinct()
        supported.update(w.connection.execute(query).scalars())
    return sorted(touched - supported)


def read_by_ids(connection: Connection, ids: Sequence[int]) -> list[Fact]:
    """Read facts by id, in order of id.

    Raises:
        NotFoundError: one of them does not exist.
    """
    rows = [
        row
        for chunk in chunks(sorted(set(ids)))
        for row in connection.execute(select(fact_table).where(_f.id.in_(chunk)).order_by(_f.id))
    ]
    if len(rows) != len(set(ids)):
        raise NotFoundError("A fact does not exist any more. Reload to see what is there.")
    return _facts(connection, rows)


def scope_revision(connection: Connection, scope: str, block: str) -> tuple[int, int, int]:
    """Return a value that changes with any fact of the block: number of facts, newest id, and sum of versions."""
    newest, versions = func.coalesce(func.max(_f.id), 0), func.coalesce(func.sum(_f.version), 0)
    row = connection.execute(select(func.count(), newest, versions).where(_f.scope == scope, _f.block == block)).one()
    return int(row[0]), int(row[1]), int(row[2])


def _add_revision(w: Writing, fact_id: int, actor: Actor, reason: str | None = None) -> None:
    """Store the present state of a fact as a version."""
    made = {"fact_id": fact_id, "actor": actor, "reason": reason, "turn": w.session.turns, "at": w.now}
    _INSERT_REVISION.run(w.connection, made)


@cache
def _update(columns: tuple[str, ...]) -> DirectStatement:
    """Return the statement that writes these columns of a fact of a `former` version; it returns no row of another."""
    stands = (_f.id == bindparam("fact")) & (_f.version == bindparam("former"))
    return DirectStatement(
        update(fact_table)
        .where(stands)
        .values(dict(zip(columns, map(bindparam, columns), strict=True)))
        .returning(_f.id)
    )


def _as_json(topics: Sequence[str]) -> str:
    return json.dumps(list(topics), ensure_ascii=False)


def _topics(stored: str) -> tuple[str, ...]:
    return tuple(json.loads(stored))


def _store_metadata(w: Writing, scope: str, metadata: Mapping[str, Any]) -> str | None:
    return w.store_text(metadata_text(metadata), scope=scope) if metadata else None


def _metadata(words: Mapping[str, str], key: str | None) -> dict[str, Any]:
    """Return the metadata stored under a hash; empty where there is none or it was erased."""
    text = words.get(key or "")
    return dict(json.loads(text)) if text else {}


def _add_sources(w: Writing, fact_id: int, seqs: Iterable[int]) -> None:
    rows = [{"fact_id": fact_id, "session_id": w.session.id, "seq": seq} for seq in sorted(set(seqs))]
    w.database.insert_if_new(w.connection, fact_source_table, rows)


def _facts(connection: Connection, rows: Sequence[Row[Any]]) -> list[Fact]:
    # Facts read by id may be of several scopes, and texts are stored by scope.
    hashes: dict[str, set[str]] = {}
    for row in rows:
        hashes.setdefault(row.scope, set()).update(key for key in (row.content, row.key, row.metadata) if key)
    words = {scope: read_texts(connection, scope, keys) for scope, keys in hashes.items()}
    sources: dict[int, list[tuple[str, int]]] = {}
    for chunk in chunks([row.id for row in rows]):
        for fact_id, session_id, seq in connection.execute(_SOURCES, {"facts": chunk}):
            sources.setdefault(fact_id, []).append((session_id, seq))
    return [
        Fact(
            **{name: value for name, value in row._mapping.items() if name not in _STORED_OTHERWISE},
            text=words[row.scope].get(row.content, ""),
            topics=_topics(row.topics),
            key=words[row.scope].get(row.key) if row.key else None,
            metadata=_metadata(words[row.scope], row.metadata),
            sources=tuple(sources.get(row.id, ())),
        )
        for row in rows
    ]
