"""Quarantine in the database: read from the logs of a session and of its user's other sessions."""

from collections.abc import Sequence
from itertools import accumulate

from sqlalchemy import Connection, bindparam, select

from memory_core.events import Actor, EventRecord, QuarantineChanged, ranges
from memory_core.planning.quarantine import Quarantine, QuarantinedSet, quarantine_of, sets_in_force
from memory_core.store.log_rows import RECORD_COLUMNS, as_records
from memory_core.store.tables import event_table, session_table
from memory_core.store.writing import Writing

_e, _s = event_table.c, session_table.c
# Built once, as every prompt reads them. Two statements, not one with OR, for which SQLite would read the whole log.
_CHANGES = select(*RECORD_COLUMNS).where(_e.kind == QuarantineChanged.kind).order_by(_e.id)
_OF_SESSION = _CHANGES.where(_e.session_id == bindparam("session"))
_OF_USER = _CHANGES.where(_e.session_id.in_(select(_s.id).where(_s.user_id == bindparam("user"))))


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
    if user_id is None:
        return as_records(connection.execute(_OF_SESSION, {"session": session_id}).all())
    return as_records(connection.execute(_OF_USER, {"user": user_id}).all())
