"""Forget a user: all their sessions, and the facts that these share."""

import json
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, select

from memory_core.access import needs
from memory_core.errors import NotFoundError
from memory_core.messages import MessageRole, message_text
from memory_core.planning.impact import TELLING, Target
from memory_core.sessions.overview import Status, list_sessions
from memory_core.store.database import Database, chunks
from memory_core.store.erasing import bury, erase_facts, erase_remains
from memory_core.store.fact_rows import read_by_ids
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.tables import (
    content_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    lease_table,
    session_table,
)
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.vector_rows import drop_lonely_vectors
from memory_core.store.writing import Clock, OnePiece, SessionState, Writing, read_session, read_sessions, user_scope
from memory_core.vectors import forget_copies
from memory_core.vectors.vector_index import VectorIndex

MOST_SEARCHED = 200
"""Maximum number of a user's texts to search for in files after erasing, longest first; more would take longer."""

_NOTHING = 'Nothing is stored of the user "{}".'


@dataclass(frozen=True, slots=True)
class UserData:
    """Sessions, messages and facts of a user, counted and named."""

    user_id: str
    sessions: tuple[Status, ...]
    facts: tuple[str, ...]
    """Texts of the facts, in any state, that the user's sessions share."""
    searched: tuple[str, ...] = ()
    """Texts to search files for, to find what is left: the longest of the user's messages and facts."""

    @property
    def messages(self) -> int:
        return sum(status.queue_messages + status.archived_messages for status in self.sessions)


def outliving_users(database: Database) -> list[str]:
    """Return the users of whom facts are left, but no session, in alphabetical order."""
    prefix = user_scope("")
    with database.read() as connection:
        of_facts = select(fact_table.c.scope).where(fact_table.c.scope.startswith(prefix, autoescape=True)).distinct()
        scopes = set(connection.execute(of_facts).scalars())
        return sorted({scope.removeprefix(prefix) for scope in scopes} - {s.user_id for s in read_sessions(connection)})


def data_of_user(database: Database, user_id: str) -> UserData:
    """Return the data that forgetting a user would erase.

    Raises:
        NotFoundError: nothing is stored of this user.
    """
    sessions = tuple(list_sessions(database, user_id=user_id))
    with database.read() as connection:
        facts = tuple(fact.text for fact in read_by_ids(connection, _fact_ids(connection, user_id)))
    if not sessions and not facts:
        raise NotFoundError(_NOTHING.format(user_id))
    return UserData(user_id, sessions, facts)


@needs("owner")
def forget_user(
    database: Database, user_id: str, *, clock: Clock = time.time, index: VectorIndex | None = None
) -> UserData:
    """Erase all sessions of a user and the facts that these share; return what was erased. No undo.

    All in one transaction: if it fails, nothing was erased. A process that works in one of these sessions gets an error
    at its next call, as the session was deleted. Calls for one user wait for each other: the later one finds nothing.
    `index`: see `delete_session`.

    Raises:
        NotFoundError: nothing is stored of this user.
        AccessError: the acting person is no owner.
    """
    data, scope = data_of_user(database, user_id), user_scope(user_id)
    data = replace(data, searched=_telling_texts(database, data))
    with database.write() as connection:
        # Before any row: calls that lock different sessions first could otherwise wait for each other in a circle.
        database.lock_name(connection, f"forget {scope}")
        sessions = [
            Writing(database, connection, state, clock()) for state in _lock_sessions(database, connection, user_id)
        ]
        facts, copies = _fact_ids(connection, user_id), set[str]()
        # Another call has erased all while this one waited.
        if not sessions and not facts:
            raise NotFoundError(_NOTHING.format(user_id))
        if sessions:
            # The facts first: their events are in the sessions' logs, and no session is theirs once all are deleted.
            _erase_tombstones(connection, facts)
            erase_facts(sessions[0], read_by_ids(connection, facts), actor="user")
            erase_unneeded(sessions[0], scope)
            _erase_leases(connection, scope)
            for w in sessions:
                joined = bury(w)
                w.save()  # pending rows first, so that they are erased with the rest
                copies.update(erase_remains(OnePiece(database, connection), w.session.id, joined=joined))
        else:
            _erase_outliving(connection, user_id)
    database.forget_log()
    forget_copies(index, copies)
    return data


def _lock_sessions(database: Database, connection: Connection, user_id: str) -> list[SessionState]:
    """Lock and return a user's sessions, new ones included; every writer locks a session before its rows."""
    ids = sorted(state.id for state in read_sessions(connection, user_id=user_id))
    locked = (read_session(connection, id, lock=not database.is_sqlite) for id in ids)
    return [session for session in locked if session is not None and session.deleted_at is None]


def _erase_outliving(connection: Connection, user_id: str) -> None:
    """Erase the facts of a user whose sessions were all deleted before."""
    scope, facts = user_scope(user_id), _fact_ids(connection, user_id)
    _erase_tombstones(connection, facts)
    for some in chunks(facts):
        for table, column in ((fact_revision_table, "fact_id"), (fact_source_table, "fact_id"), (fact_table, "id")):
            connection.execute(delete(table).where(table.c[column].in_(some)))
    connection.execute(delete(content_table).where(content_table.c.scope == scope))
    drop_lonely_vectors(connection, scope)
    _erase_leases(connection, scope)


def _erase_tombstones(connection: Connection, facts: Collection[int]) -> None:
    """Erase the logs of deleted sessions that name these facts: reasons in them, for example, were written by a person.

    A session belongs to one user: if its log names one of the facts, all that is left of it is about this user's facts.
    """
    e, s = event_table.c, session_table.c
    deleted = select(s.id).where(s.deleted_at.is_not(None))
    about = select(e.session_id, e.data).where(e.session_id.in_(deleted), e.kind.like("fact%"))
    ids = frozenset(facts)
    sessions = {row.session_id for row in connection.execute(about) if json.loads(row.data).get("fact") in ids}
    for some in chunks(sorted(sessions)):
        connection.execute(delete(event_table).where(e.session_id.in_(some)))


def _erase_leases(connection: Connection, scope: str) -> None:
    # The keys of leases contain the user's id.
    of_user = lease_table.c.key.startswith(f"[{json.dumps(scope)},", autoescape=True)
    connection.execute(delete(lease_table).where(of_user))


def _fact_ids(connection: Connection, user_id: str) -> list[int]:
    query = select(fact_table.c.id).where(fact_table.c.scope == user_scope(user_id))
    return list(connection.execute(query).scalars())


def _telling_texts(database: Database, data: UserData) -> tuple[str, ...]:
    """Return the longest texts of a user's messages and facts."""
    texts, cache = set(data.facts), MessageCache()
    with database.read() as connection:
        for status in data.sessions:
            for stored in read_messages(connection, status.session_id, cache):
                if stored.message.role is MessageRole.USER:
                    texts.update(Target((message_text(stored.message),)).searched)
    telling = sorted((text for text in texts if len(text) >= TELLING), key=len, reverse=True)
    return tuple(telling[:MOST_SEARCHED])
