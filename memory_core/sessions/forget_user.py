"""Forget a user: all their sessions, and the facts that these share."""

import json
import time
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, select

from memory_core.errors import NotFoundError
from memory_core.messages import MessageRole, message_text
from memory_core.planning.impact import TELLING, Target
from memory_core.sessions.overview import Status, delete_session, list_sessions
from memory_core.store.database import Database
from memory_core.store.erasing.fact_erasing import erase_facts
from memory_core.store.fact_rows import read_by_ids
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.tables import fact_table, lease_table
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.writing import Clock, user_scope, writing

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

    Another process that works in one of these sessions is told at its next call that the session was deleted.

    Raises:
        NotFoundError: no session belongs to this user.
    """
    data, scope = data_of_user(database, user_id), user_scope(user_id)
    data = replace(data, searched=_telling_texts(database, data))
    # The facts first: their events are in the sessions' logs, and no session is theirs once all are deleted.
    with writing(database, data.sessions[0].session_id, clock=clock) as w:
        erase_facts(w, read_by_ids(w.connection, _fact_ids(w.connection, user_id)), actor="user")
        erase_unneeded(w, scope)
        # The names of leases hold the user's.
        of_user = lease_table.c.key.startswith(f"[{json.dumps(scope)},", autoescape=True)
        w.connection.execute(delete(lease_table).where(of_user))
    for status in data.sessions:
        delete_session(database, status.session_id, clock=clock)
    return data


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
