"""Quarantine in the database: read from the logs of a session and of its user's other sessions."""

from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import ColumnElement, Connection, select

from memory_core.events import Actor, EventRecord, QuarantineChanged, ranges
from memory_core.planning.quarantine import Quarantine, QuarantinedSet, quarantine_of, sets_in_force
from memory_core.store.log_rows import RECORD_COLUMNS, as_records
from memory_core.store.tables import event_table, session_table
from memory_core.store.writing import Writing


def read_sets(connection: Connection, session_id: str) -> list[QuarantinedSet]:
    """Return the sets of a session's items that are in quarantine, oldest first."""
    return sets_in_force(_changes(connection, session_id))


def read_all_sets(connection: Connection, session_id: str, user_id: str | None) -> list[QuarantinedSet]:
    """Return the sets of a session and of its user's other sessions, oldest first."""
    return sets_in_force(_changes(connection, session_id, user_id))


def read_quarantine(connection: Connection, session_id: str, user_id: str | None) -> Quarantine:
    """Return the items that a session's prompts must not contain: its own, and those of its user's other sessions."""
    return quarantine_of(read_all_sets(connection, session_id, user_id))


def read_states(connection: Connection, session_id: str) -> list[Quarantine]:
    """Return the session's quarantine after each change, oldest first."""
    changes = [[record] for record in _changes(connection, session_id)]
    return [quarantine_of(sets_in_force(records)) for records in accumulate(changes)]


def add_set(
    w: Writing,
    *,
    seqs: Sequence[int],
    facts: Sequence[int],
    relations: Sequence[int],
    sentences: Sequence[str],
    actor: Actor,
) -> QuarantinedSet:
    """Put items into quarantine: messages by number, facts and relations by id, sentences by hash; return the set."""
    w.save()
    before = [record.event for record in _changes(w.connection, w.session.id)]
    # An event of a newer version may be unknown.
    numbers = [event.number for event in before if isinstance(event, QuarantineChanged)]
    event = QuarantineChanged(
        number=max(numbers, default=0) + 1,
        messages=ranges(seqs),
        facts=tuple(facts),
        relations=tuple(relations),
        sentences=tuple(sentences),
    )
    w.record(event, actor=actor)
    w.save()
    return read_sets(w.connection, w.session.id)[-1]


def end_set(w: Writing, number: int, *, actor: Actor) -> None:
    """Release the items of a set."""
    w.record(QuarantineChanged(number=number, released=True), actor=actor)


def _changes(connection: Connection, session_id: str, user_id: str | None = None) -> list[EventRecord]:
    events, sessions = event_table.c, session_table.c
    # One condition, not two joined by OR, for which SQLite would read the whole log of all sessions.
    of_session: ColumnElement[bool] = events.session_id == session_id
    if user_id is not None:
        of_session = events.session_id.in_(select(sessions.id).where(sessions.user_id == user_id))
    query = select(*RECORD_COLUMNS).where(of_session, events.kind == QuarantineChanged.kind).order_by(events.id)
    return as_records(connection.execute(query).all())
