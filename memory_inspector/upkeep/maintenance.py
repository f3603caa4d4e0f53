"""Maintenance: due deliveries, missing vectors, remains of crashed work, and revisions that a database lacks."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from memory_core.errors import ConflictError, StoreError
from memory_core.store.database import Database, schema_version
from memory_core.store.delivery_rows import waiting_sessions
from memory_core.store.erasing import LEFT_AFTER_SECONDS, erase_what_was_left
from memory_core.store.leases import claim, lease_key, new_owner, release, renewed
from memory_core.store.migrations import pending
from memory_core.store.postgresql import DELIVERIES
from memory_core.store.tables import SCHEMA_VERSION
from memory_core.store.vector_rows import sessions_without_vectors
from memory_core.store.writing import PieceWriter, read_opened


@contextmanager
def maintaining(database: Database) -> Iterator[None]:
    """Hold the lock of maintenance, which one program of a database has at a time.

    Raises:
        ConflictError: another one has it.
    """
    key, owner = lease_key("", "maintenance"), new_owner()
    with database.write() as connection:
        if not claim(database, connection, key, owner, time.time()):
            raise ConflictError("Another program maintains this database. Repeat the command when it has ended.")
    try:
        with renewed(database, key, owner, time.time):
            yield
    finally:
        with suppress(StoreError), database.write() as connection:  # what cannot be released expires
            release(connection, key, owner)


def wait_for_deliveries(
    database: Database, seconds: float, since: int | None, stopped: Callable[[], bool]
) -> int | None:
    """Wait until deliveries become due, at most so many seconds; return their count, to pass as `since`."""
    database.notifications.wait(DELIVERIES, seconds, since=since, polling=seconds, stopped=stopped)
    return database.notifications.count(DELIVERIES)


def sessions_with_due_deliveries(database: Database) -> list[str]:
    """Return the ids of the sessions with a delivery whose next attempt is due."""
    with database.read() as connection:
        return waiting_sessions(connection, before=time.time())


def sessions_with_vectors_to_follow(database: Database) -> list[str]:
    """Return the ids of the sessions with stored turns that have no vector."""
    with database.read() as connection:
        return sessions_without_vectors(connection, database)


def sessions_that_show_stores(database: Database) -> list[str]:
    """Return the ids of the sessions that show an opened file, and are updated when it changes."""
    with database.read() as connection:
        return list(read_opened(connection))


def erase_remains_of_crashed_work(database: Database) -> None:
    """Erase incomplete sessions of a process that ended while storing or erasing them."""
    erase_what_was_left(PieceWriter(database), before=time.time() - LEFT_AFTER_SECONDS)


@dataclass(frozen=True, slots=True)
class Schema:
    """Schema version of a database, and what it lacks."""

    version: int
    newest: int
    """Schema version of this program."""
    pending: tuple[tuple[int, str], ...]
    """Number and description of each revision that an upgrade would run, oldest first."""


def schema_of(url: str) -> Schema | None:
    """Return the schema of the database at a URL, which is not upgraded; None without our tables.

    Raises:
        ConfigError: `url` is no database URL.
        StoreError: the database cannot be reached.
    """
    version = schema_version(url)
    return Schema(version, SCHEMA_VERSION, tuple(pending(version))) if version is not None else None
