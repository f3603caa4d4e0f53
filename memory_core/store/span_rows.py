"""Ids of recorded spans, so that a span that an exporter sends again is not recorded again."""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select, update

from memory_core.store.database import chunks
from memory_core.store.tables import span_table
from memory_core.store.writing import Writing

_s = span_table.c


def recorded_spans(connection: Connection, keys: Sequence[str]) -> set[str]:
    """Return the keys (`trace:span`) among these whose spans were recorded, in any session."""
    wanted, result = set(keys), set[str]()
    # By trace alone: for a list of pairs SQLite would scan the whole table.
    for chunk in chunks(sorted({key.partition(":")[0] for key in keys})):
        rows = connection.execute(select(_s.trace, _s.span).where(_s.trace.in_(chunk)))
        result.update(key for trace, span in rows if (key := f"{trace}:{span}") in wanted)
    return result


def sessions_of_traces(connection: Connection, traces: Iterable[str]) -> dict[str, str]:
    """Return for each trace a session in which its spans were recorded; unknown traces are missing."""
    result: dict[str, str] = {}
    for chunk in chunks(sorted(set(traces))):
        result.update(connection.execute(select(_s.trace, _s.session_id).where(_s.trace.in_(chunk)).distinct()).all())
    return result


def move_spans(w: Writing, keys: Iterable[str], session_id: str) -> None:
    """Count spans that were recorded in another session as this one's."""
    for chunk in chunks(sorted({key.partition(":")[0] for key in keys})):
        of_session = (_s.session_id == session_id) & _s.trace.in_(chunk)
        w.connection.execute(update(span_table).where(of_session).values(session_id=w.session.id))


def add_spans(w: Writing, keys: Iterable[str]) -> None:
    """Record spans as stored, in the same transaction as their effects."""
    rows = [
        {"trace": trace, "span": span, "session_id": w.session.id}
        for trace, _, span in (key.partition(":") for key in keys)
    ]
    w.database.insert_if_new(w.connection, span_table, rows)
