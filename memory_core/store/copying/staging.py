"""Load a session's rows into a temporary database, to find inconsistencies among them.

The tables and keys are the usual ones, and rows keep their ids. SQLite spills to an unnamed temporary file, which is
deleted with the object.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from threading import RLock
from typing import Any

from sqlalchemy import Engine, Table, create_engine, func, select, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import NullPool

from memory_core.errors import StoreError
from memory_core.store.copying.copies import Rows, SessionCopy
from memory_core.store.copying.session_copying import Values, read_rows, table_rows
from memory_core.store.database import SQLiteConnection, statements_for_tables
from memory_core.store.direct_statements import inserting
from memory_core.store.erasing import recompute_totals
from memory_core.store.message_rows import DatedMessage, MessageCache, read_dated
from memory_core.store.tables import entity_table
from memory_core.store.totals import sum_messages
from memory_core.store.writing import SessionState, read_session, read_texts, session_scope

_ID = "staged"

_NO_WORDS = """
    SELECT named.what FROM (
        SELECT 'message ' || seq AS what, 'session:staged' AS scope, content AS hash FROM mi_message
        UNION ALL SELECT 'the block "' || name || '"', 'session:staged', text FROM mi_block
        UNION ALL SELECT 'the block "' || name || '"', 'session:staged', state FROM mi_block
        UNION ALL SELECT 'fact ' || id, scope, content FROM mi_fact
        UNION ALL SELECT 'fact ' || id, scope, key FROM mi_fact
        UNION ALL SELECT 'fact ' || id, scope, metadata FROM mi_fact
        UNION ALL SELECT 'entity ' || id, scope, name FROM mi_entity
        UNION ALL SELECT 'entity ' || e.id, scope, value FROM mi_entity AS e, json_each(aliases)
        UNION ALL SELECT 'relation ' || id, scope, predicate FROM mi_relation
        UNION ALL SELECT 'the recorded conversation', 'session:staged', recording FROM mi_session
    ) AS named
    LEFT JOIN mi_content AS words ON words.scope = named.scope AND words.hash = named.hash
    WHERE named.hash IS NOT NULL AND words.hash IS NULL
"""
_WRONG = {
    "the words of {} are missing": _NO_WORDS,
    "relation {} is of an entity there never was": """
        SELECT r.id FROM mi_relation AS r
        LEFT JOIN mi_entity AS s ON s.id = r.subject AND s.block = r.block
        LEFT JOIN mi_entity AS o ON o.id = r.object AND o.block = r.block
        WHERE s.id IS NULL OR o.id IS NULL
    """,
    "relation {} was ended by a relation there never was": """
        SELECT id FROM mi_relation WHERE ended_by NOT IN (
            SELECT id FROM mi_relation
            UNION SELECT json_extract(data, '$.relation') FROM mi_event WHERE kind = 'relation_added'
        )
    """,
    "entity {} is merged into an entity there never was": """
        SELECT id FROM mi_entity WHERE merged_into NOT IN (
            SELECT id FROM mi_entity
            UNION SELECT json_extract(data, '$.entity') FROM mi_event WHERE kind = 'entity_added'
        )
    """,
}
"""Queries for invalid rows, by the sentence about them.

A relation that ended another, or the target of a merge, may have been erased since; then it is only in the log.
"""

_MESSAGE_TEXTS = """
    SELECT named.seq, words.data FROM (
        SELECT seq, content FROM mi_message
        UNION
        SELECT json_extract(data, '$.seq'), json_extract(data, '$.content') FROM mi_event WHERE kind = 'message_added'
    ) AS named
    JOIN mi_content AS words ON words.scope = 'session:staged' AND words.hash = named.content
"""


@cache
def _engine() -> Engine:
    """Return an engine in which each connection is its own database. Shared, so that statements are compiled once."""

    def connect() -> sqlite3.Connection:
        # An empty name is SQLite's for a temporary database, which spills to disk and is deleted when it is closed.
        return sqlite3.connect("", check_same_thread=False, isolation_level=None, factory=SQLiteConnection)

    return create_engine("sqlite://", creator=connect, poolclass=NullPool)


class NotUniqueError(Exception):
    """Raised for a row that has the key of another row. `number` is its index among the added rows, from 0."""

    def __init__(self, number: int, columns: str) -> None:
        super().__init__(columns)
        self.number, self.columns = number, columns


class Staging:
    """A session's rows before validation. Not thread-safe: see `lock`."""

    def __init__(self) -> None:
        self._connection = _engine().connect()
        # Nothing here has to survive: no journal and no syncing, and 16 MB in memory before it spills.
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-16000"):
            self._connection.exec_driver_sql(f"PRAGMA {pragma}")
        # One transaction that never ends: nothing is ever committed.
        self._connection.exec_driver_sql("BEGIN")
        for statement in statements_for_tables():
            # Of the indexes only those that refuse something.
            if not statement.startswith("CREATE INDEX"):
                self._connection.exec_driver_sql(statement)
        self._stored: Counter[Table] = Counter()
        self._user_id: str | None = None
        self.lock = RLock()

    def add(self, copies: Sequence[Any]) -> None:
        """Add rows of one kind; the session comes first.

        Raises:
            NotUniqueError: a row has the id or name of another row. Nothing can be added after that.
            StoreError: the disk is full.
        """
        if copies and isinstance(copies[0], SessionCopy):
            self._user_id = copies[0].user_id
        rows: dict[Table, list[tuple[int, Values]]] = {}
        for number, copy in enumerate(copies):
            for table, values in table_rows(copy, _ID, self._user_id):
                rows.setdefault(table, []).append((number, values))
        for table, numbered in rows.items():
            try:
                inserting(table).run(self._connection, *(values for _, values in numbered))
            except IntegrityError as error:
                stored = self._connection.execute(select(func.count()).select_from(table)).scalar_one()
                # SQLite names the columns only in its message: "UNIQUE constraint failed: mi_block.name".
                columns = str(error.orig).partition(": ")[2].replace(f"{table.name}.", "")
                failed = numbered[stored - self._stored[table]]  # the rows before it are stored
                raise NotUniqueError(failed[0], columns) from error
            except OperationalError as error:
                raise StoreError(f"There is no room for a temporary file to open it in ({error.orig}).") from error
            self._stored[table] += len(numbered)

    def wrong(self) -> str | None:
        """Return the first inconsistency found, as the rest of a sentence; None if there is none."""
        for what, query in _WRONG.items():
            for (row,) in self._connection.execute(text(f"{query} LIMIT 1")):
                return what.format(row)
        e = entity_table.c
        merged = select(e.id, e.merged_into).where(e.merged_into.is_not(None))
        into: dict[int, int] = dict(self._connection.execute(merged).all())
        # Circles of merges. A chain that was followed once is not followed again.
        settled: set[int] = set()
        for start in into:
            walked, at = set[int](), start
            while at in into and at not in settled:
                if at in walked:
                    return f"entity {start} is merged into itself"
                walked.add(at)
                at = into[at]
            settled |= walked
        return None

    def rows(self) -> Rows:
        """Return all rows; each iteration reads them from this database."""
        # All the user's facts: only those of the bundle are in this database.
        return read_rows(self._connection, self.session(), whole_user=True)

    def session(self) -> SessionState:
        """Return the session's row, with totals of its messages."""
        state = read_session(self._connection, _ID)
        if state is None:
            raise LookupError("no session was staged")
        # A bundle has no totals: they follow from its messages.
        recompute_totals(self._connection, state)
        return state

    def tokens(self) -> int:
        return sum(sums.content for sums in sum_messages(self._connection).values())

    def word(self, key: str) -> str | None:
        """Return the session's text under a hash."""
        return read_texts(self._connection, session_scope(_ID), [key]).get(key)

    def message_texts(self) -> Iterator[tuple[int, str]]:
        """Yield the number and text of every present or former message whose text is stored."""
        yield from self._connection.execute(text(_MESSAGE_TEXTS), execution_options={"yield_per": 500})

    def messages(self, seqs: Collection[int]) -> dict[int, DatedMessage]:
        """Return the present messages with these numbers, by number."""
        return {message.seq: message for message in read_dated(self._connection, _ID, MessageCache(), seqs)}
