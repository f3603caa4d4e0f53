"""Search a PostgreSQL database: every column of every table that the account may read.

It has its own connection and queries, and shares no code with the modules that erase.
"""

import re
from collections.abc import Iterator
from typing import Any

from memory_core.errors import ConfigError, StoreError
from memory_inspector.verification.fingerprints import Wanted
from memory_inspector.verification.searching import Searched, search_values

_URL = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_POOLER = re.compile(r"(?<=[?&])pgbouncer=[^&]*&?")  # a parameter of ours, which the driver does not know
_ROWS_AT_ONCE = 1_000
_CONNECT_SECONDS = 10
# Materialised views keep copies of rows; a partitioned table holds no rows itself, its partitions do.
_COLUMNS = """
    SELECT n.nspname, c.relname, a.attname, a.atttypid = 'bytea'::regtype
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'm') AND a.attnum > 0 AND NOT a.attisdropped
        AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
    ORDER BY 1, 2, a.attnum
"""


def is_server(place: str) -> bool:
    """Return whether this is the URL of a PostgreSQL database.

    >>> is_server("postgresql+psycopg://127.0.0.1/memory"), is_server("/var/lib/memory")
    (True, False)
    """
    return _URL.match(place) is not None


def search_server(url: str, wanted: Wanted) -> list[Searched]:
    """Search the database at a URL. Unreadable columns are reported with the reason; the URL's password never is.

    Raises:
        ConfigError: psycopg is not installed.
        StoreError: the server cannot be reached.
    """
    try:
        import psycopg
    except ImportError as error:
        raise ConfigError("Searching PostgreSQL needs psycopg: pip install 'memory-inspector[postgres]'.") from error
    try:
        connection = psycopg.connect(
            _POOLER.sub("", _URL.sub("postgresql://", url, count=1)), connect_timeout=_CONNECT_SECONDS
        )
    # The text of an error may hold the URL, and so its password.
    except psycopg.Error as error:
        raise StoreError(f"The PostgreSQL database cannot be reached ({type(error).__name__}).") from None
    with connection:
        connection.read_only = True
        name = f"PostgreSQL {connection.info.dbname} at {connection.info.host}:{connection.info.port}"
        try:
            return [*_tables(connection, name, wanted)]
        except psycopg.Error as error:
            raise StoreError(f"The search of {name} was cut off ({type(error).__name__}).") from None


def _tables(connection: Any, name: str, wanted: Wanted) -> Iterator[Searched]:
    from psycopg import DatabaseError, OperationalError

    for schema, table, column, is_bytes in connection.execute(_COLUMNS).fetchall():
        part = f"{table}.{column}" if schema == "public" else f"{schema}.{table}.{column}"
        try:
            # A failed query ends a transaction: each column has one of its own, within that of the whole search.
            with connection.transaction():
                yield search_values(name, part, _values(connection, (schema, table), column, is_bytes), wanted)
        except OperationalError:
            raise
        except DatabaseError as error:
            yield Searched(name, part, 0, 0, f"cannot be read: {type(error).__name__}")
    (large_objects,) = connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone()
    if large_objects:
        yield Searched(name, "large objects", 0, 0, f"{large_objects:,} are not read")


def _values(connection: Any, table: tuple[str, str], column: str, is_bytes: bool) -> Iterator[bytes]:
    """Yield the values of a column as bytes: text, JSON, arrays and all other types as they are written in text."""
    from psycopg import sql

    value = sql.Identifier(column) if is_bytes else sql.SQL("{}::text").format(sql.Identifier(column))
    query = sql.SQL("SELECT {} FROM {} WHERE {} IS NOT NULL").format(
        value, sql.Identifier(*table), sql.Identifier(column)
    )
    # On the server, so that a large table is not held in memory here.
    with connection.cursor(name="values") as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        for (read,) in cursor.execute(query):
            yield read.encode() if isinstance(read, str) else bytes(read)
