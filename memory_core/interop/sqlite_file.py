"""A SQLite file of another program: opened so that it can only be read, and not for ever."""

import contextlib
import json
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.interop.located_json import problem
from memory_core.process import scratch_folder

SQLITE_MAGIC = b"SQLite format 3\x00"

_MAX_STEPS = 20_000
"""Thousands of instructions of SQLite's machine that reading one file may take: about a minute."""
COPY_ATTEMPTS, COPY_PAUSE_SECONDS = 10, 0.02
"""Attempts at a copy between two writes; by how many seconds each waits longer than the one before: 0.9 s in all."""
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_WAL_HEADER = 32
MAX_VALUE_BYTES = 2 * 20 * 1024 * 1024
"""Of one value in it."""


@contextmanager
def opened(data: bytes | Path) -> Iterator[sqlite3.Connection]:
    """The file in a connection that can only read it, and not for ever.

    A file at a path is copied with its write-ahead log, and the copy is read: SQLite would take locks on it, write into
    its shared memory and leave files beside it, even where it is told only to read.

    Raises:
        FormatError: the file at the path was left in the middle of a write, or is written all the time.
        OSError: it cannot be read.
    """
    with scratch_folder() as folder:
        path = folder / "copy.db"
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            _copy(data, path)
        uri = f"{path.as_uri()}?mode={'ro&immutable=1' if isinstance(data, bytes) else 'rw'}"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            steps = 0

            def still_allowed() -> int:
                nonlocal steps
                steps += 1
                return int(steps > _MAX_STEPS)

            connection.set_progress_handler(still_allowed, 1000)
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA cell_size_check=ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_only_reading)
            yield connection


def _copy(source: Path, target: Path) -> None:
    """Copy a database and its write-ahead log as they are together at one moment."""
    for attempt in range(COPY_ATTEMPTS):
        time.sleep(attempt * COPY_PAUSE_SECONDS)
        before = _moment(source)
        if before.mid_write:
            continue
        shutil.copyfile(source, target)
        if before.log is not None:
            with contextlib.suppress(FileNotFoundError):  # taken in meanwhile, which changes the database as well
                shutil.copyfile(f"{source}-wal", f"{target}-wal")
        # What is added to the log in between is whole or ignored: each part of it has its checksum.
        if _moment(source) == before:
            return
        Path(f"{target}-wal").unlink(missing_ok=True)
    raise problem(
        source.name, "is in the middle of a write, or was left so. Try again, or open it once with its own program."
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """What of a database changes whenever a copy made meanwhile would not be whole."""

    size: int
    changed: int
    log: bytes | None
    """Beginning of its write-ahead log, which is another one after each time that it was taken in."""
    mid_write: bool
    """Whether a rollback journal says that a write has begun and not ended."""


def _moment(path: Path) -> _Moment:
    about = path.stat()
    journal = _beginning(Path(f"{path}-journal"), len(_JOURNAL_MAGIC))
    return _Moment(
        about.st_size, about.st_mtime_ns, _beginning(Path(f"{path}-wal"), _WAL_HEADER), journal == _JOURNAL_MAGIC
    )


def _beginning(path: Path, size: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            return file.read(size) or None
    except FileNotFoundError:
        return None


def _only_reading(action: int, *_: str | None) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def tables_with(connection: sqlite3.Connection, columns: Collection[str]) -> list[str]:
    """Names of the ordinary tables that have these columns, in order."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' ORDER BY name"
    return [
        name
        for (name,) in connection.execute(query).fetchall()
        if {row[1] for row in connection.execute(f"PRAGMA table_info({quoted(name)})")} >= set(columns)
    ]


def decoded(data: Any) -> Any:
    """A row's value as JSON, also where it is JSON in a JSON text; None for what is none."""
    try:
        found = json.loads(data)
        return json.loads(found) if isinstance(found, str) and found[:1] in ("[", "{") else found
    except (ValueError, TypeError, RecursionError):
        return None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
