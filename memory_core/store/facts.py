"""Facts in the database: each with its words, state, sources and history."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from memory_core.errors import ConflictError, NotFoundError
from memory_core.events import (
    Actor,
    Event,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactErased,
    FactPinned,
    FactRejected,
    FactRestored,
    FactRetired,
    FactSuperseded,
    ranges,
)
from memory_core.store.tables import content_table, fact_revision_table, fact_source_table, fact_table
from memory_core.store.writing import Writing, contents

Item = TypeVar("Item")

_f = fact_table.c
_COLUMNS = [
    _f[name]
    for name in (
        "id",
        "scope",
        "block",
        "content",
        "tokens",
        "category",
        "slot",
        "state",
        "pinned",
        "origin",
        "turn",
        "created_at",
        "confirmed_at",
        "updated_at",
        "version",
    )
]

STATES = ("proposed", "active", "superseded", "retired", "rejected")


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a block believes. Only `active` facts reach a context."""

    id: int
    scope: str
    block: str
    text: str
    tokens: int
    category: str
    slot: str | None
    state: str
    pinned: bool
    origin: str
    turn: int
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int
    sources: tuple[tuple[str, int], ...]
    """Session and sequence number of each message it was learned from."""


@dataclass(frozen=True, slots=True)
class FactRevision:
    """One state of a fact's history."""

    version: int
    text: str
    state: str
    pinned: bool
    actor: str
    reason: str | None
    turn: int
    at: float


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact about to be stored."""

    text: str
    tokens: int
    category: str = "other"
    slot: str | None = None
    sources: tuple[int, ...] = ()
    conflicts_with: tuple[int, ...] = ()
    pinned: bool = False
    origin: str = "extracted"


def read_facts(
    connection: Connection, scope: str, block: str, *, states: Iterable[str] | None = ("active",)
) -> list[Fact]:
    """Facts of a block, oldest first; `states=None` for all."""
    query = select(*_COLUMNS).where(_f.scope == scope, _f.block == block).order_by(_f.id)
    if states is not None:
        query = query.where(_f.state.in_(list(states)))
    return _facts(connection, connection.execute(query).all())


def read_history(connection: Connection, scope: str, fact_id: int) -> list[FactRevision]:
    """Every state a fact ever had, oldest first."""
    table = fact_revision_table
    rows = connection.execute(select(table).where(table.c.fact_id == fact_id).order_by(table.c.version)).all()
    words = contents(connection, scope, (row.content for row in rows))
    return [
        FactRevision(r.version, words.get(r.content, ""), r.state, r.pinned, r.actor, r.reason, r.turn, r.at)
        for r in rows
    ]


def add_fact(w: Writing, scope: str, block: str, new: NewFact, *, actor: Actor = "engine") -> int:
    """Store a fact and say so in the log; its id."""
    content = w.keep(new.text, scope=scope)
    values = {
        "scope": scope,
        "block": block,
        "content": content,
        "tokens": new.tokens,
        "category": new.category,
        "slot": new.slot,
        "state": "active",
        "pinned": new.pinned,
        "origin": new.origin,
        "turn": w.session.turns,
        "created_at": w.now,
        "confirmed_at": w.now,
        "updated_at": w.now,
        "version": 1,
    }
    id = int(w.connection.execute(insert(fact_table).values(values).returning(_f.id)).scalar_one())
    _add_sources(w, id, new.sources)
    _add_revision(w, id, 1, content, "active", new.pinned, actor, None)
    w.record(
        FactAdded(
            fact=id,
            block=block,
            content=content,
            tokens=new.tokens,
            category=new.category,
            sources=ranges(new.sources),
            conflicts_with=new.conflicts_with,
            pinned=new.pinned,
            origin=new.origin,
        ),
        actor=actor,
    )
    return id


def confirm_fact(w: Writing, fact: Fact, *, similarity: float, sources: Sequence[int]) -> None:
    """The same was said again: a newer date and more sources."""
    w.connection.execute(update(fact_table).where(_f.id == fact.id).values(confirmed_at=w.now))
    have = {seq for session, seq in fact.sources if session == w.session.id}
    _add_sources(w, fact.id, [seq for seq in sources if seq not in have])
    w.record(FactConfirmed(fact=fact.id, block=fact.block, similarity=round(similarity, 3), sources=ranges(sources)))


def hand_on_sources(w: Writing, facts: Sequence[Fact], into: int) -> None:
    """A fact that stands for others has their support too, that from other sessions included."""
    sources = {source for fact in facts for source in fact.sources}
    rows = [{"fact_id": into, "session_id": session, "seq": seq} for session, seq in sorted(sources)]
    w.database.insert_if_new(w.connection, fact_source_table, rows)


def change_text(w: Writing, fact: Fact, text: str, *, tokens: int, actor: Actor = "curator") -> None:
    """Give a fact other words.

    Raises:
        ConflictError: it was changed elsewhere since `fact` was read.
    """
    content = w.keep(text, scope=fact.scope)
    _change(w, fact, actor=actor, reason=None, content=content, tokens=tokens)
    before = w.keep(fact.text, scope=fact.scope)
    w.record(FactChanged(fact=fact.id, block=fact.block, before=before, after=content, tokens=tokens), actor=actor)


def change_state(w: Writing, fact: Fact, state: str, *, reason: str = "", by: int | None = None, actor: Actor) -> None:
    """Supersede, retire, reject or restore a fact.

    Raises:
        ConflictError: it was changed elsewhere since `fact` was read.
    """
    _change(w, fact, actor=actor, reason=reason or None, state=state)
    events: dict[str, Event] = {
        "superseded": FactSuperseded(fact=fact.id, block=fact.block, by=by),
        "retired": FactRetired(fact=fact.id, block=fact.block, reason=reason),
        "rejected": FactRejected(fact=fact.id, block=fact.block, reason=reason),
        "active": FactRestored(fact=fact.id, block=fact.block),
    }
    w.record(events[state], actor=actor)


def pin_fact(w: Writing, fact: Fact, pinned: bool, *, actor: Actor = "curator") -> None:
    """Pin a fact, or let it go: a pinned fact is cut last and survives condensing.

    Raises:
        ConflictError: it was changed elsewhere since `fact` was read.
    """
    _change(w, fact, actor=actor, reason=None, pinned=pinned)
    w.record(FactPinned(fact=fact.id, block=fact.block, pinned=pinned), actor=actor)


def erase_facts(w: Writing, facts: Sequence[Fact]) -> None:
    """Remove facts and their words for good; a tombstone stays in the log."""
    hashes: dict[str, set[str]] = {}
    for fact in facts:
        table = fact_revision_table
        found = w.connection.execute(select(table.c.content).where(table.c.fact_id == fact.id)).scalars()
        hashes.setdefault(fact.scope, set()).update(found)
        w.record(FactErased(fact=fact.id, block=fact.block))
    for ids in _chunks([fact.id for fact in facts]):
        for table, column in ((fact_revision_table, "fact_id"), (fact_source_table, "fact_id"), (fact_table, "id")):
            w.connection.execute(delete(table).where(table.c[column].in_(ids)))
    for scope, gone in hashes.items():
        for chunk in _chunks(sorted(gone)):
            still = select(_f.content).where(_f.scope == scope, _f.content.in_(chunk))
            unused = set(chunk) - set(w.connection.execute(still).scalars())
            where = (content_table.c.scope == scope) & content_table.c.hash.in_(unused)
            w.connection.execute(delete(content_table).where(where))


def drop_sources(w: Writing, seqs: Sequence[int] | None) -> list[int]:
    """Forget messages of this session as sources (None: all); ids of facts that then have none left."""
    table = fact_source_table
    own = table.c.session_id == w.session.id
    wheres = [own] if seqs is None else [own & table.c.seq.in_(chunk) for chunk in _chunks(seqs)]
    touched: set[int] = set()
    for where in wheres:
        touched.update(w.connection.execute(select(table.c.fact_id).where(where)).scalars())
        w.connection.execute(delete(table).where(where))
    supported: set[int] = set()
    for chunk in _chunks(sorted(touched)):
        query = select(table.c.fact_id).where(table.c.fact_id.in_(chunk)).distinct()
        supported.update(w.connection.execute(query).scalars())
    return sorted(touched - supported)


def read_by_ids(connection: Connection, ids: Sequence[int]) -> list[Fact]:
    """Facts by id, in order of id.

    Raises:
        NotFoundError: one of them does not exist.
    """
    rows = [
        row
        for chunk in _chunks(sorted(set(ids)))
        for row in connection.execute(select(*_COLUMNS).where(_f.id.in_(chunk)).order_by(_f.id))
    ]
    if len(rows) != len(set(ids)):
        raise NotFoundError("A fact does not exist any more. Reload to see what is there.")
    return _facts(connection, rows)


def scope_revision(connection: Connection, scope: str, block: str) -> tuple[int, int, int]:
    """Changes whenever a fact of the block does: how many there are, the newest, and the sum of their versions."""
    newest, versions = func.coalesce(func.max(_f.id), 0), func.coalesce(func.sum(_f.version), 0)
    row = connection.execute(select(func.count(), newest, versions).where(_f.scope == scope, _f.block == block)).one()
    return int(row[0]), int(row[1]), int(row[2])


def _change(w: Writing, fact: Fact, *, actor: Actor, reason: str | None, **values: object) -> None:
    values |= {"version": fact.version + 1, "updated_at": w.now}
    where = (_f.id == fact.id) & (_f.version == fact.version)
    changed = w.connection.execute(
        update(fact_table).where(where).values(values).returning(_f.content, _f.state, _f.pinned)
    )
    row = changed.one_or_none()
    if row is None:
        raise ConflictError(f'The fact "{fact.text}" was changed elsewhere. Nothing was overwritten.')
    _add_revision(w, fact.id, fact.version + 1, row.content, row.state, row.pinned, actor, reason)


def _add_revision(
    w: Writing, fact_id: int, version: int, content: str, state: str, pinned: bool, actor: Actor, reason: str | None
) -> None:
    values = {
        "fact_id": fact_id,
        "version": version,
        "content": content,
        "state": state,
        "pinned": pinned,
        "actor": actor,
        "reason": reason,
        "turn": w.session.turns,
        "at": w.now,
    }
    w.connection.execute(insert(fact_revision_table).values(values))


def _add_sources(w: Writing, fact_id: int, seqs: Iterable[int]) -> None:
    rows = [{"fact_id": fact_id, "session_id": w.session.id, "seq": seq} for seq in sorted(set(seqs))]
    w.database.insert_if_new(w.connection, fact_source_table, rows)


def _facts(connection: Connection, rows: Sequence[Row[Any]]) -> list[Fact]:
    scopes = {row.scope for row in rows}
    words = {
        (scope, key): text
        for scope in scopes
        for key, text in contents(connection, scope, (row.content for row in rows if row.scope == scope)).items()
    }
    sources = _sources(connection, [row.id for row in rows])
    return [
        Fact(
            **{name: value for name, value in row._mapping.items() if name != "content"},
            text=words.get((row.scope, row.content), ""),
            sources=tuple(sources.get(row.id, ())),
        )
        for row in rows
    ]


def _sources(connection: Connection, ids: Sequence[int]) -> dict[int, list[tuple[str, int]]]:
    table = fact_source_table
    found: dict[int, list[tuple[str, int]]] = {}
    for chunk in _chunks(ids):
        query = select(table).where(table.c.fact_id.in_(chunk))
        for fact_id, session_id, seq in connection.execute(query.order_by(table.c.fact_id, table.c.seq)):
            found.setdefault(fact_id, []).append((session_id, seq))
    return found


def _chunks(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Below the parameter limit of every database."""
    for start in range(0, len(items), 500):
        yield list(items[start : start + 500])
