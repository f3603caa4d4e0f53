"""Read the event log."""

from collections.abc import Callable, Collection, Sequence
from sys import intern
from typing import Any, get_args

from sqlalchemy import Connection, func, select

from memory_core.events import Actor, EventRecord, decode_all
from memory_core.store.database import chunks
from memory_core.store.tables import event_table, fact_revision_table

_ACTORS: dict[str, Actor] = {actor: actor for actor in get_args(Actor)}

AT_ONCE = 5_000
"""Number of events decoded at a time, which takes some megabytes."""

_COLUMNS = "id", "session_id", "turn", "at", "actor", "kind", "data", "person"
RECORD_COLUMNS = [event_table.c[name] for name in _COLUMNS]


def read_events(
    connection: Connection,
    session_id: str,
    *,
    after: int = 0,
    kinds: Sequence[str] | None = None,
    block: str | None = None,
    turn: int | None = None,
    from_turn: int | None = None,
    limit: int | None = None,
    newest_first: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[EventRecord]:
    """Return the events of a session with a position above `after`, oldest first unless asked otherwise.

    `progress` is called with the number of events read so far, after every `AT_ONCE` events.
    """
    query = select(*RECORD_COLUMNS).where(event_table.c.session_id == session_id, event_table.c.id > after)
    if kinds is not None:
        query = query.where(event_table.c.kind.in_(list(kinds)))
    if block is not None:
        query = query.where(event_table.c.block == block)
    if turn is not None:
        query = query.where(event_table.c.turn == turn)
    if from_turn is not None:
        query = query.where(event_table.c.turn >= from_turn)
    query = query.order_by(event_table.c.id.desc() if newest_first else event_table.c.id)
    if limit is not None:
        query = query.limit(limit)
    records: list[EventRecord] = []
    for rows in connection.execute(query).partitions(AT_ONCE):
        records += as_records(rows)
        if progress is not None:
            progress(len(records))
    return records


def as_records(rows: Sequence[Any]) -> list[EventRecord]:
    """Decode rows of `RECORD_COLUMNS`."""
    events = decode_all([(kind, data) for _, _, _, _, _, kind, data, _ in rows])
    # Words that repeat in every row are kept once.
    return [
        EventRecord(position, intern(session_id), turn, at, _ACTORS.get(actor, actor), event, person)
        for (position, session_id, turn, at, actor, _, _, person), event in zip(rows, events, strict=True)
    ]


def count_events(connection: Connection, session_id: str, *, after: int = 0) -> int:
    """Return the number of a session's events with a position above `after`."""
    query = select(func.count()).where(event_table.c.session_id == session_id, event_table.c.id > after)
    return int(connection.execute(query).scalar_one())


def last_position(connection: Connection, session_id: str) -> int:
    """Return the position of the newest event of a session; 0 for none. One index lookup."""
    query = select(func.max(event_table.c.id)).where(event_table.c.session_id == session_id)
    return connection.execute(query).scalar() or 0


def section_went_out(connection: Connection, session_id: str, section: str) -> bool:
    """Return whether a context of this session contained the memory section with this hash."""
    # Events are stored without spaces after separators (`Event.to_json`), and a hash occurs nowhere by chance.
    mark = f'%"section":"{section}"%'
    query = select(event_table.c.id).where(
        event_table.c.session_id == session_id, event_table.c.kind == "context_built", event_table.c.data.like(mark)
    )
    return connection.execute(query.limit(1)).first() is not None


# -- former texts of facts that were learned in another session, whose log is not read ------------


def fact_words_at(connection: Connection, ids: Collection[int], at: float) -> dict[int, str]:
    """Return the hash of each fact's text at a time (seconds since the epoch), by id; unknown facts are missing."""
    table = fact_revision_table.c
    result: dict[int, str] = {}
    for chunk in chunks(sorted(ids)):
        query = select(table.fact_id, table.content).where(table.fact_id.in_(chunk), table.at <= at)
        result.update((id, content) for id, content in connection.execute(query.order_by(table.fact_id, table.version)))
    return result
