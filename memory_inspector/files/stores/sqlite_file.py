"""Open other programs' SQLite files read-only, with limits on time and size."""

import contextlib
import json
import shutil
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from memory_core.errors import problem
from memory_core.limits import BYTES_PER_VALUE, MAX_FILE_BYTES, Budget, check_size, values_in
from memory_core.process import scratch_folder

SQLITE_MAGIC = b"SQLite format 3\x00"

MAX_SECONDS = 60
"""Maximum seconds of reading a file."""
MAX_STORE_BYTES = 500 * 1024 * 1024
"""Maximum bytes of a database read in place, as every change requires a new copy."""
TIMES_UNPACKED = 4
"""Maximum ratio of rows read to file size; column defaults and reused pages can multiply rows."""
COPY_ATTEMPTS, COPY_PAUSE_SECONDS = 10, 0.02
"""Attempts to copy between two writes, and the increment of the pause before each: 0.9 s in total."""
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_WAL_HEADER = 32
MAX_DEFAULT = 1_000
"""Maximum characters of a column default."""
MAX_VALUE_BYTES = 2 * MAX_FILE_BYTES
"""Maximum bytes of a value."""


class StoreConnection(sqlite3.Connection):
    """A connection that counts the bytes of rows read."""

    budget: Budget

    def counted(self, _: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        texts = [value for value in row if isinstance(value, str | bytes)]
        self.budget.take(bytes=sum(map(len, texts)), items=1 + sum(map(values_in, texts)))
        return row


@contextmanager
def opened(data: bytes | Path, *, filename: str) -> Iterator[StoreConnection]:
    """Open a file read-only, with limits on time and size.

    A file at a path is copied with its write-ahead log first: even read-only, SQLite takes locks, writes to shared
    memory and leaves files beside it.

    Raises:
        FormatError: The file was left in the middle of a write, or is written continuously.
        LimitError: Reading exceeds the limits.
        OSError: The file cannot be read.
    """
    uploaded = isinstance(data, bytes)
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    check_size(size, MAX_FILE_BYTES if uploaded else MAX_STORE_BYTES)
    with scratch_folder() as folder:
        path = folder / "copy.db"
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            _copy(data, path)
        # An upload has no log and is never written. A copy must be writable for SQLite to recover its log.
        uri = f"{path.as_uri()}?mode={'ro&immutable=1' if uploaded else 'rw'}"
        with closing(sqlite3.connect(uri, uri=True, factory=StoreConnection)) as connection:
            # A small file gets the budget of the largest upload.
            size = max(MAX_FILE_BYTES, size)
            items = size // BYTES_PER_VALUE
            budget = Budget(filename, bytes=TIMES_UNPACKED * size, items=items, seconds=MAX_SECONDS)
            connection.budget = budget
            connection.row_factory = connection.counted
            # By default one text that is not UTF-8 fails the query, and with it every other row.
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            # Called every 100 steps of SQLite's machine; a true answer interrupts the query.
            connection.set_progress_handler(lambda: budget.out_of_time, 100)
            # A file's schema is code of a stranger: it must not call unsafe functions, write, or run its checks.
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA ignore_check_constraints=ON")
            # Notices damaged pages when they are read rather than later.
            connection.execute("PRAGMA cell_size_check=ON")
            # An expression of the schema may make a value of any length from a few bytes.
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_only_reading)
            try:
                # SQLite reads what is cut off from a page as zeros, and a page used twice may fill a disk.
                torn = path.stat().st_size % connection.execute("PRAGMA page_size").fetchone()[0]
                if torn or (uploaded and connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",)):
                    raise sqlite3.DatabaseError("its pages do not fit together")
                yield connection
            except sqlite3.OperationalError:
                budget.take()  # if the deadline caused the interrupt, raise that error
                raise


def _copy(source: Path, target: Path) -> None:
    """Copy a database and its write-ahead log in a consistent state."""
    for attempt in range(COPY_ATTEMPTS):
        # No pause before the first attempt; longer ones if the store is busy.
        time.sleep(attempt * COPY_PAUSE_SECONDS)
        before = _moment(source)
        if before.mid_write:
            continue
        shutil.copyfile(source, target)
        if before.log is not None:
            with contextlib.suppress(FileNotFoundError):  # checkpointed meanwhile, which also changes the database
                shutil.copyfile(f"{source}-wal", f"{target}-wal")
        # A log that only grew is fine: incomplete frames fail their checksum and are ignored.
        if _moment(source) == before:
            return
        # A log of a failed attempt would be applied to the next copy, which may have none.
        Path(f"{target}-wal").unlink(missing_ok=True)
    raise problem(
        source.name, "is in the middle of a write, or was left so. Try again, or open it once with its own program."
    )


@dataclass(frozen=True, slots=True)
class _Moment:
    """State that changes whenever a concurrent copy would be inconsistent."""

    size: int
    changed: int
    log: bytes | None
    """Header of the write-ahead log, which changes with every checkpoint."""
    mid_write: bool
    """True if a rollback journal shows an unfinished write."""


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
    # Functions are allowed for LIKE in `tables_with`.
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def tables_with(connection: sqlite3.Connection, columns: Collection[str]) -> list[str]:
    """Return the ordinary tables with these columns, sorted; tables with long defaults, which every row repeats, are
    skipped."""
    # The query excludes virtual tables and views: reading them runs code of a module or of the file.
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' ORDER BY name"
    return [
        name
        for (name,) in connection.execute(query).fetchall()
        if {
            row[1]
            for row in connection.execute(f"PRAGMA table_info({quoted(name)})")
            if len(row[4] or "") < MAX_DEFAULT
        }
        >= set(columns)
    ]


def decoded(data: Any) -> Any:
    """Decode a value's JSON, even if nested in a JSON string; None if invalid."""
    try:
        parsed = json.loads(data)
        # Some frameworks store JSON as a JSON text.
        return json.loads(parsed) if isinstance(parsed, str) and parsed[:1] in ("[", "{") else parsed
    except (ValueError, TypeError, RecursionError):
        return None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
