"""Totals over all sessions: one query per kind of total, for any number of sessions."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from memory_core.store.database import chunks
from memory_core.store.tables import (
    block_table,
    collection_table,
    delivery_table,
    event_table,
    fact_table,
    message_table,
    session_table,
    vector_table,
)

ORIGINS = ("session_imported", "session_branched", "agent_attached")
"""Kinds of events that record a session's origin; the newest one counts."""

PROMPTS = ("context_built",)
WORK = ("model_called", "reply_ended", "delivery_failed", "block_failed")
"""Kinds of events that tell what a session's models cost, and what failed."""

_m, _e, _v = message_table.c, event_table.c, vector_table.c


@dataclass(frozen=True, slots=True)
class MessageSums:
    """Totals of a session's messages, archived ones included: their number, and their tokens by either accounting."""

    messages: int = 0
    content: int = 0
    reference: int = 0


def sum_messages(connection: Connection, session_ids: Collection[str] | None = None) -> dict[str, MessageSums]:
    """Return the message totals of these sessions, or of all; a session without messages is missing."""
    sums = select(_m.session_id, func.count(), func.sum(_m.tokens), func.sum(_m.reference_tokens)).group_by(
        _m.session_id
    )
    if session_ids is not None:
        sums = sums.where(_m.session_id.in_(bindparam("ids", expanding=True)))
        rows = [row for ids in chunks(sorted(session_ids)) for row in connection.execute(sums, {"ids": ids})]
    else:
        rows = list(connection.execute(sums))
    return {id: MessageSums(int(messages), int(content), int(reference)) for id, messages, content, reference in rows}


def count_facts(connection: Connection) -> dict[str, int]:
    """Return the number of active facts by scope (`session:<id>`, `user:<id>`)."""
    counts = select(fact_table.c.scope, func.count()).where(fact_table.c.state == "active").group_by(fact_table.c.scope)
    return {scope: int(count) for scope, count in connection.execute(counts)}


def reading_user_facts(connection: Connection) -> set[str]:
    """Return the ids of the sessions with a facts block of user scope."""
    b = block_table.c
    # The scope is within the JSON of the settings: one pass over the few facts blocks.
    rows = connection.execute(select(b.session_id, b.settings).where(b.type == "facts"))
    return {session for session, settings in rows if json.loads(settings).get("scope") == "user"}


def read_origins(connection: Connection) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return kind and data of the newest event on a session's origin, by session; sessions created here are missing."""
    # One lookup in the index by kind for each session, instead of reading all such events.
    newest = (
        select(func.max(_e.id))
        .where(_e.session_id == session_table.c.id, _e.kind.in_(ORIGINS))
        .correlate(session_table)
        .scalar_subquery()
    )
    query = (
        select(_e.session_id, _e.kind, _e.data)
        .select_from(session_table.join(event_table, _e.id == newest))
        .where(session_table.c.deleted_at.is_(None))
    )
    return {id: (kind, json.loads(data)) for id, kind, data in connection.execute(query)}


def read_work(connection: Connection, after: Mapping[str, int]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield session, position and data of the events of `WORK`, of each session those after a position.

    In no order: sorting would take longer than reading.
    """
    query = select(_e.session_id, _e.id, _e.data).where(
        _e.session_id.in_(bindparam("ids", expanding=True)), _e.kind.in_(WORK), _e.id > bindparam("after")
    )
    # Sessions that were read up to about the same position are read together.
    for ids in chunks(sorted(after, key=after.__getitem__)):
        for rows in connection.execute(query, {"ids": ids, "after": after[ids[0]]}).partitions(1_000):
            # A thousand texts are decoded as one list: a session may have many thousand calls.
            values = json.loads(f"[{','.join([row[2] for row in rows])}]")
            for (id, position, _), data in zip(rows, values, strict=True):
                if position > after[id]:
                    yield id, position, data


@dataclass(frozen=True, slots=True)
class Present:
    """A session's state, as far as it tells what was lost."""

    prompt: dict[str, Any]
    """Data of its newest prompt; empty without one."""
    parked: int
    """Deliveries that were given up."""
    served: bool
    """True if anything was ever due to a block."""


def read_present(connection: Connection, session_ids: Collection[str]) -> dict[str, Present]:
    """Return the present state of each session, with a look-up in an index for each part."""
    s, d = session_table.c, delivery_table.c
    newest = select(func.max(_e.id)).where(_e.session_id == s.id, _e.kind.in_(PROMPTS))
    prompt = select(_e.data).where(_e.id == newest.correlate(session_table).scalar_subquery())
    parked = select(func.count()).where(d.session_id == s.id, d.state == "parked")
    parts = (prompt.correlate(session_table).scalar_subquery(), parked.correlate(session_table).scalar_subquery())
    served = select(1).where(d.session_id == s.id).correlate(session_table).exists()
    query = select(s.id, parts[0], parts[1], served).where(s.id.in_(bindparam("ids", expanding=True)))
    rows = (row for ids in chunks(sorted(session_ids)) for row in connection.execute(query, {"ids": ids}))
    return {id: Present(json.loads(data or "{}"), parked, bool(served)) for id, data, parked, served in rows}


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """The stored turns of one block of one session under one embedder; a vector index holds a copy of them."""

    name: str
    session_id: str
    block: str
    vectors: int
    newest: int
    """Id of the newest vector."""


def read_collections(connection: Connection) -> list[StoredCollection]:
    """Return all collections with vectors, the most recently written first."""
    newest = func.max(_v.id)
    query = select(_v.collection, _v.session_id, _v.block, func.count(), newest).group_by(
        _v.collection, _v.session_id, _v.block
    )
    rows = connection.execute(query.order_by(newest.desc()))
    return [StoredCollection(*row) for row in rows]


def emptied_collections(connection: Connection) -> list[str]:
    """Return the names of collections whose vectors were all deleted."""
    filled = select(_v.collection)
    query = select(collection_table.c.name).where(collection_table.c.name.not_in(filled))
    return list(connection.execute(query).scalars())
