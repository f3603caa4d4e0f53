"""Writing transaction on a session: its row is locked first, and saved with the events last.

Every change to a session goes through `writing`, so that all changes to one session are in sequence, whichever process
makes them. Long writes are split into many short transactions, so that others can write in between.
"""

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from operator import attrgetter, ne
from typing import Any

from sqlalchemy import Connection, Executable, Update, bindparam, insert, select, update

from memory_core.access import acting_person, require
from memory_core.errors import NotFoundError
from memory_core.events import Actor, Event
from memory_core.messages import content_hash
from memory_core.planning.flush import Queue
from memory_core.store.database import Database, chunks
from memory_core.store.direct_statements import DirectStatement, run_all
from memory_core.store.leases import note_agent
from memory_core.store.postgresql import DELIVERIES
from memory_core.store.tables import content_table, event_table, message_table, session_table
from memory_core.tokens import Accounting, total_tokens

Clock = Callable[[], float]

LEARNERS = "learners"
"""Key in a session's constructor values: for each block, the model that a program passed to learn for it."""


@dataclass(slots=True)
class SessionState:
    """A session's row within a transaction. See `SessionRow` for the fields."""

    id: str
    user_id: str | None
    title: str
    created_at: float
    updated_at: float
    deleted_at: float | None = None
    next_seq: int = 1
    turns: int = 0
    newest_turn: int | None = None
    queue_messages: int = 0
    queue_content: int = 0
    queue_reference: int = 0
    pinned_messages: int = 0
    pinned_content: int = 0
    pinned_reference: int = 0
    archived_messages: int = 0
    flushes: int = 0
    turn_delivered: int = 0
    counter: str = ""
    config: str = "{}"
    constructor: str = "{}"
    recording: str | None = None
    watched: str | None = None
    probes: str | None = None
    opened_from: str | None = None
    quarantined: bool | None = None
    revision: int = 1

    @property
    def scope(self) -> str:
        return session_scope(self.id)

    @property
    def messages(self) -> int:
        """Number of all messages of the session: queued, pinned and archived."""
        return self.queue_messages + self.pinned_messages + self.archived_messages

    def queue(self, accounting: Accounting) -> Queue:
        """Return the running totals of the queue for the flush planner."""
        tokens = total_tokens(self.queue_content, self.queue_reference, self.queue_messages, accounting)
        return Queue(tokens=tokens, messages=self.queue_messages, newest_turn=self.newest_turn)

    def pinned_tokens(self, accounting: Accounting) -> int:
        """Return the tokens of the pinned system messages."""
        return total_tokens(self.pinned_content, self.pinned_reference, self.pinned_messages, accounting)


_FIELDS = [field.name for field in dataclasses.fields(SessionState)]
_COLUMNS = [session_table.c[name] for name in _FIELDS]
_SELECT = select(*_COLUMNS)

_BY_ID = DirectStatement(_SELECT.where(session_table.c.id == bindparam("id")))
_LOCKED = DirectStatement(_SELECT.where(session_table.c.id == bindparam("id")).with_for_update())
_values_of = attrgetter(*_FIELDS)
_INSERT_MESSAGES = DirectStatement(insert(message_table))
_INSERT_EVENTS = DirectStatement(insert(event_table).inline())  # nobody waits for the ids
# Built once: making a statement costs as much as running it.
_CONTENTS = select(content_table.c.hash, content_table.c.data).where(
    content_table.c.scope == bindparam("scope"), content_table.c.hash.in_(bindparam("hashes", expanding=True))
)


@lru_cache(maxsize=256)
def _update_session(fields: tuple[str, ...]) -> DirectStatement:
    """Return a statement that saves these fields of a session's row; the parameter `key` is its id."""
    return DirectStatement(_saving(fields))


def _saving(fields: tuple[str, ...]) -> Update:
    statement = update(session_table).where(session_table.c.id == bindparam("key"))
    return statement.values({name: bindparam(name) for name in fields})


@lru_cache(maxsize=256)
def _store_message(fields: tuple[str, ...], columns: tuple[tuple[str, ...], ...]) -> DirectStatement:
    """Return one statement for PostgreSQL that stores a text, a message and an event, and saves the session's row.

    `columns` are those of the first three tables; their parameters have the table's name before that of the column.
    """
    from sqlalchemy.dialects.postgresql import insert  # takes 30 ms, needed on PostgreSQL only

    whole = _saving(fields)
    for table, names in zip(_STORED_TOGETHER, columns, strict=True):
        statement = insert(table).values({name: bindparam(f"{table.name}_{name}") for name in names}).inline()
        if table is content_table:
            # The text already stored under a hash is the same text.
            statement = statement.on_conflict_do_nothing()
        whole = whole.add_cte(statement.cte(f"new_{table.name}"))
    return DirectStatement(whole)


_STORED_TOGETHER = (content_table, message_table, event_table)


def session_scope(session_id: str) -> str:
    return f"session:{session_id}"


def recorded_ids(recording: str) -> str:
    """Return the beginning of the ids of messages that were put from a recording, given by its key."""
    return f"{recording[:16]}-"


def user_scope(user_id: str) -> str:
    return f"user:{user_id}"


class Writing:
    """An open transaction: collects events and texts, and writes them at its end."""

    def __init__(
        self,
        database: Database,
        connection: Connection,
        session: SessionState,
        now: float,
        *,
        stored: Sequence[object] | None = None,
    ) -> None:
        """`stored`: values of the session's row, of which only those that change are saved; None: all are saved."""
        self.database = database
        self._connection = connection
        self.session = session
        self._stored = stored or [object()] * len(_FIELDS)
        self._messages: list[dict[str, object]] = []
        self.now = now
        self.due = False
        """True once deliveries were queued."""
        self._events: list[dict[str, object]] = []
        # Whoever may create a session may also choose what it begins with: it has no counter yet. A database in memory
        # is a trial.
        self._checked = bool(session.counter) and not database.in_memory
        person = acting_person()
        self.person = person.label if person is not None else None
        """Person on whose behalf the transaction runs, as recorded with its events; None: a program."""
        # By scope and hash: a text that several events name is written once.
        self._contents: dict[tuple[str, str], str] = {}

    @property
    def connection(self) -> Connection:
        """The transaction's connection, for statements that see all messages added so far."""
        if self._messages:
            rows, self._messages = self._messages, []
            _INSERT_MESSAGES.run(self._connection, *rows)
        return self._connection

    def add_message(self, row: dict[str, object], words: str, *events: Event) -> None:
        """Add a message: its row, its text under the hash that the row has as its content, and the events about it.

        The row is inserted when the transaction's connection is used, or at the end.
        """
        self._contents[(self.session.scope, str(row["content"]))] = words
        self._messages.append(row)
        self.record(*events)

    def record(self, *events: Event, actor: Actor = "engine") -> None:
        """Add events to the session's log, in order.

        Raises:
            AccessError: the acting person's role does not allow such a change.
        """
        for event in events:
            if self._checked and self.person is not None:
                require(event.least_role)
            self._events.append(
                {
                    "session_id": self.session.id,
                    "turn": self.session.turns,
                    "at": self.now,
                    "actor": actor,
                    "kind": event.kind,
                    "block": event.about,
                    "data": event.to_json(),
                    "person": self.person,
                }
            )

    def store_text(self, words: str, *, scope: str | None = None) -> str:
        """Add a text to the content store; return its hash."""
        key = content_hash(words)
        self._contents[(scope or self.session.scope, key)] = words
        return key

    def flush_contents(self) -> None:
        """Write collected texts now, for readers within the same transaction."""
        self.database.insert_if_new(self.connection, content_table, self._content_rows())
        self._contents = {}

    def _content_rows(self) -> list[dict[str, object]]:
        # Sorted by scope and hash: a user's texts are shared by sessions, whose transactions would otherwise wait for
        # each other's rows in a circle.
        # PostgreSQL cannot store a NUL, and it carries no meaning.
        return [
            {"scope": scope, "hash": key, "data": data.replace("\x00", "\ufffd")}
            for (scope, key), data in sorted(self._contents.items())
        ]

    def save(self) -> None:
        """Write the collected rows and events, then the session's row."""
        self.session.updated_at = self.now
        current = _values_of(self.session)
        changed = compress(zip(_FIELDS, current, strict=True), map(ne, current, self._stored))
        values = {name: value for name, value in changed if name != "id"}
        # Nearly every put adds one message only. SQLite has no statement that inserts into several tables.
        contents = self._content_rows()
        together = contents, self._messages, self._events
        if not self.database.is_sqlite and all(len(rows) == 1 for rows in together):
            self._save_message([rows[0] for rows in together], values)
        else:
            steps = (
                (_INSERT_MESSAGES, self._messages),
                # 1. Texts before the events that name them.
                (self.database.insert_texts, contents),
                # 2. Events in the order they were recorded. Their ids are positions of the log, given under the
                #    session's lock, so that no other transaction's events of this session come in between.
                (_INSERT_EVENTS, self._events),
                # 3. The row last: its totals are right only after everything else is written.
                (_update_session(tuple(values)), [{"key": self.session.id, **values}] if values else []),
            )
            run_all(self._connection, *((statement, rows) for statement, rows in steps if rows))
        self._stored, self._messages, self._events, self._contents = current, [], [], {}

    def _save_message(self, rows: Sequence[dict[str, object]], values: dict[str, object]) -> None:
        """Write one message with its text, its event and the session's row, in one statement."""
        statement = _store_message(tuple(values), tuple(tuple(row) for row in rows))
        parameters = {
            f"{table.name}_{name}": value
            for table, row in zip(_STORED_TOGETHER, rows, strict=True)
            for name, value in row.items()
        }
        statement.run(self._connection, {"key": self.session.id, **values, **parameters})


@contextmanager
def writing(
    database: Database,
    session_id: str,
    *,
    clock: Clock = time.time,
    create: SessionState | None = None,
    patience: float | None = None,
) -> Iterator[Writing]:
    """Open a transaction on an existing session, or create it in the same transaction where `create` is given.

    `patience`: see `Database.write`.

    Raises:
        NotFoundError: there is no such session, or it was deleted.
    """
    with database.write(patience=patience) as connection:
        # 1. Created in the same transaction as its first change, so that no session is seen without one. Of two
        #    processes that create it at once, the second finds it there.
        if create is not None:
            create_session(database, connection, create)
        # 2. The session's row is locked before any other row of it is read or written. Every writer begins with this
        #    lock, so none holds one of the session's rows while it waits for another. SQLite has locked the whole file
        #    by now.
        session = read_session(connection, session_id, lock=not database.is_sqlite)
        if session is None or session.deleted_at is not None:
            raise NotFoundError("This session does not exist any more. Nothing was stored.")
        # 3. Read the time once the lock is held, so that times follow the order of the log.
        transaction = Writing(database, connection, session, clock(), stored=_values_of(session))
        yield transaction
        transaction.save()
        # 4. Last, as this process remembers it: after a failure above it must not count as stored.
        if session.deleted_at is None:
            note_agent(database, connection, session_id, transaction.now)
    # On SQLite others look at the file itself.
    if not database.is_sqlite:
        database.notifications.send(session_id, *([DELIVERIES] if transaction.due else []))


def read_session(connection: Connection, session_id: str, *, lock: bool = False) -> SessionState | None:
    """Return the session's row, None if there is none; `lock` keeps other writers out until the transaction ends."""
    rows = (_LOCKED if lock else _BY_ID).rows(connection, {"id": session_id})
    return SessionState(*rows[0]) if rows else None


def read_existing(connection: Connection, session_id: str, *, lock: bool = False) -> SessionState:
    """Return the row of an existing session; `lock`: see `read_session`.

    Raises:
        NotFoundError: there is no such session, or it was deleted.
    """
    state = read_session(connection, session_id, lock=lock)
    if state is None or state.deleted_at is not None:
        raise NotFoundError("This session does not exist any more.")
    return state


def read_sessions(connection: Connection, *, user_id: str | None = None) -> list[SessionState]:
    """Return all sessions that were not deleted, the last used first."""
    query = _SELECT.where(session_table.c.deleted_at.is_(None)).order_by(session_table.c.updated_at.desc())
    if user_id is not None:
        query = query.where(session_table.c.user_id == user_id)
    return [SessionState(*row) for row in connection.execute(query)]


def read_opened(connection: Connection) -> dict[str, str]:
    """Return the location (JSON) of the file that a session follows, by session id, for sessions opened from a file."""
    s = session_table.c
    query = select(s.id, s.opened_from).where(s.opened_from.is_not(None), s.deleted_at.is_(None)).order_by(s.id)
    return {row.id: row.opened_from for row in connection.execute(query)}


def create_session(database: Database, connection: Connection, state: SessionState) -> None:
    """Insert a session unless it exists already."""
    database.insert_if_new(connection, session_table, [dataclasses.asdict(state)])


def read_texts(connection: Connection, scope: str, hashes: Iterable[str]) -> dict[str, str]:
    """Return the texts by hash; erased ones are missing."""
    result: dict[str, str] = {}
    for chunk in chunks(sorted(set(hashes))):
        result.update(connection.execute(_CONTENTS, {"scope": scope, "hashes": chunk}).all())
    return result


# -- long writes in pieces ------------------------------------------------------------------------


PIECE = 2_000
"""Maximum rows per transaction; other writers wait for about 50 ms while it runs."""

Step = Callable[[int], None]
"""Function that is called after each piece with its number of rows; it raises an exception to stop."""


class PieceWriter:
    """Writer that stores each piece of rows in a transaction of its own.

    Rows written this way must stay invisible until all are written: a session is stored as deleted, and appears with
    its last piece. Rows left by a dead process are erased later, by `erase_what_was_left`.
    """

    def __init__(self, database: Database, step: Step | None = None) -> None:
        self.database = database
        self._step = step

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.database.write() as connection:
            yield connection

    def run(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement for each of the rows, one piece at a time."""
        direct = DirectStatement(statement)
        for piece in chunks(rows, PIECE):
            with self.transaction() as connection:
                direct.run(connection, *piece)
            self.count(len(piece))

    def count(self, rows: int) -> None:
        if self._step is not None:
            self._step(rows)


class OnePiece(PieceWriter):
    """Writer that stores all rows in the caller's transaction."""

    def __init__(self, database: Database, connection: Connection) -> None:
        super().__init__(database)
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        yield self._connection
