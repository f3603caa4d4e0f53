"""Forget a user: all their sessions, and the facts that these share."""

import json
import time
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, select

from memory_core.errors import NotFoundError
from memory_core.messages import MessageRole, message_text
from memory_core.planning.impact import TELLING, Target
from memory_core.sessions.overview import Status, list_sessions
from memory_core.store.database import Database
from memory_core.store.erasing.fact_erasing import erase_facts
from memory_core.store.erasing.session_erasing import bury, erase_remains
from memory_core.store.fact_rows import read_by_ids
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.split_writes import OnePiece
from memory_core.store.tables import fact_table, lease_table
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.writing import Clock, Writing, read_session, user_scope, writing

MOST_SEARCHED = 200
"""Texts of a user by which files are searched afterwards: the longest, as a search takes time for each length."""


@dataclass(frozen=True, slots=True)
class UserData:
    """Sessions, messages and facts of a user, counted and named."""

    user_id: str
    sessions: tuple[Status, ...]
    facts: tuple[str, ...]
    """Texts of the facts that their sessions share, in every state."""
    searched: tuple[str, ...] = ()
    """Texts by which a search of files finds what is left: the longest of their messages and facts."""

    @property
    def messages(self) -> int:
        return sum(status.queue_messages + status.archived_messages for status in self.sessions)


def data_of_user(database: Database, user_id: str) -> UserData:
    """Return what forgetting a user would erase.

    Raises:
        NotFoundError: no session belongs to this user.
    """
    sessions = tuple(list_sessions(database, user_id=user_id))
    if not sessions:
        raise NotFoundError(f'No session belongs to the user "{user_id}".')
    with database.read() as connection:
        facts = tuple(fact.text for fact in read_by_ids(connection, _fact_ids(connection, user_id)))
    return UserData(user_id, sessions, facts)


def forget_user(database: Database, user_id: str, *, clock: Clock = time.time) -> UserData:
    """Erase all sessions of a user and the facts that these share; return what it was. No undo.

    In one transaction: if it fails, nothing was erased. Another process that works in one of these sessions is told at
    its next call that the session was deleted.

    Raises:
        NotFoundError: no session belongs to this user.
    """
    data, scope = data_of_user(database, user_id), user_scope(user_id)
    data = replace(data, searched=_telling_texts(database, data))
    # In order of id: of two processes that forget the same user, one then waits for the other.
    first, *others = sorted(status.session_id for status in data.sessions)
    # The facts first: their events are in the sessions' logs, and no session is theirs once all are deleted.
    with writing(database, first, clock=clock) as w:
        erase_facts(w, read_by_ids(w.connection, _fact_ids(w.connection, user_id)), actor="user")
        erase_unneeded(w, scope)
        # The names of leases hold the user's.
        of_user = lease_table.c.key.startswith(f"[{json.dumps(scope)},", autoescape=True)
        w.connection.execute(delete(lease_table).where(of_user))
        _erase_session(w)
        for session_id in others:
            session = read_session(w.connection, session_id, lock=not database.is_sqlite)
            if session is not None and session.deleted_at is None:
                _erase_session(Writing(database, w.connection, session, w.now))
    database.forget_log()
    return data


def _erase_session(w: Writing) -> None:
    """Erase a session and its words, in an open transaction; see `delete_session`."""
    bury(w)
    # Pending rows first, so that they are erased with the rest.
    w.save()
    erase_remains(OnePiece(w.database, w.connection), w.session.id)


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
