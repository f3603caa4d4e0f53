"""A SQLite file of another program: opened so that it can only be read, and not for ever."""

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

SQLITE_MAGIC = b"SQLite format 3\x00"

_MAX_STEPS = 20_000
"""Thousands of instructions of SQLite's machine that reading one file may take: about a minute."""
MAX_VALUE_BYTES = 2 * 20 * 1024 * 1024
"""Of one value in it."""


@contextmanager
def opened(data: bytes | Path) -> Iterator[sqlite3.Connection]:
    """The file in a connection that can only read it, and not for ever."""
    with TemporaryDirectory(prefix="memory-inspector-") as folder:
        path = data if isinstance(data, Path) else Path(folder) / "upload.db"
        if isinstance(data, bytes):
            path.write_bytes(data)
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
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
    """A row's message; what is not JSON stays what it is, and is then no message."""
    try:
        return json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
