"""Back up a whole database into one file while others write, and restore it into an empty one of either kind.

A file `.zip` holds every table as JSON lines, and `manifest.json` with columns, number of rows and checksum of each; it
is read in one transaction. Of SQLite, any other name gives a copy of the database made by SQLite itself. Leases of
running programs are not restored.
"""

import base64
import json
import os
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from sqlalchemy import Connection, LargeBinary, Table, func, insert, select, text, update

from memory_core.bundles.archive import MAX_LINE_BYTES, Packing
from memory_core.errors import ConflictError, FormatError, MemoryInspectorError, StoreError, problem
from memory_core.store.database import Database
from memory_core.store.tables import SCHEMA_VERSION, TABLES, lease_table, schema_table, tenant_table
from memory_core.store.tenants import qualified
from memory_core.store.writing import PIECE

FORMAT = "memory-inspector-backup"
VERSION = 1
PIECE_BYTES = 16 * 1024 * 1024
"""Bytes of rows after which they are stored."""

COPIED = {table.name: table for table in TABLES if table not in (lease_table, tenant_table)}
"""Tables in a backup, by name. It holds one tenant."""

_MANIFEST = "manifest.json"
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, NotImplementedError)


class TableCopy(BaseModel, strict=True):
    """Contents of one table, without its rows."""

    columns: list[str]
    rows: int
    digest: str
    """Sum of the SHA-256 of all rows modulo 2**256, in hexadecimal; it does not depend on their order."""


class _BackupManifest(BaseModel, strict=True):
    format: str
    version: int
    schema_version: int
    tables: dict[str, TableCopy]
    last_ids: dict[str, Annotated[int, Field(ge=0, le=2**53)]]
    """The highest id ever given by each table that gives none twice."""


@dataclass(frozen=True, slots=True)
class _BackupSource:
    """An opened backup."""

    filename: str
    manifest: _BackupManifest
    archive: zipfile.ZipFile

    def lines(self, name: str) -> Iterator[bytes]:
        with self.archive.open(f"{name}.jsonl") as member:
            while line := member.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    raise problem(self.filename, f"has a row of more than {MAX_LINE_BYTES:,} bytes in {name}.")
                yield line


def write_backup(database: Database, path: Path) -> dict[str, int]:
    """Write a database into a new file, readable by its owner only; return the number of rows by table.

    Raises:
        FormatError: the file exists or cannot be written, or its name does not fit the kind of database.
        StoreError: the database cannot be reached.
    """
    if path.exists():
        raise FormatError(f"{path.name} exists already. Choose another name: no backup is overwritten.")
    zipped = path.suffix.lower() == ".zip"
    if not zipped and not database.is_sqlite:
        raise FormatError(f"A backup of PostgreSQL is a zip archive: name it {path.stem}.zip, not {path.name}.")
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w+b") as file:
                rows = _write_zip(database, file) if zipped else _copy_sqlite(database, part)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        finally:
            for unfinished in (part, *(f"{part}-{kind}" for kind in ("journal", "wal", "shm"))):
                Path(unfinished).unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"{path.name} cannot be written: {getattr(error, 'strerror', None) or error}.") from error
    return rows


def restore_backup(path: Path, url: str, *, tenant: str = "") -> dict[str, int]:
    """Store a backup in an empty database, created if missing; return the number of rows by table. All or nothing.

    `tenant`: the rows become this tenant's, in a database that may hold others.

    The restored rows are read again, and compared with those of the backup by number and checksum.

    Raises:
        FormatError: the file is no backup, or damaged, or of a newer version.
        ConflictError: the database is not empty.
        StoreError: the database cannot be reached, or did not store what the backup has.
    """
    with (
        _opened(path) as source,
        closing(Database.open(url, tenant=tenant)) as database,
        database.write() as connection,
    ):
        if filled := [name for name, table in COPIED.items() if table is not schema_table and _any(connection, table)]:
            raise ConflictError(f"The database at {database.url} is not empty: {filled[0]} has rows. Choose a new one.")
        for name, copy in source.manifest.tables.items():
            if not tenant or COPIED[name] is not schema_table:  # a tenant has a database's id in common with others
                _restore_table(connection, source, copy, COPIED[name])
        _set_last_ids(connection, source.manifest.last_ids)
        if not tenant:
            database.id = connection.execute(select(schema_table.c.database_id)).scalar_one()
    return {name: copy.rows for name, copy in source.manifest.tables.items()}


# -- out -----------------------------------------------------------------------------------------


def _write_zip(database: Database, file: Any) -> dict[str, int]:
    tables = dict[str, TableCopy]()
    with closing(Packing(file)) as packing, database.read() as connection:
        for name, table in COPIED.items():
            columns, sums = [column.name for column in table.columns], _Sums()
            packing.add(f"{name}.jsonl", sums.through(_lines(connection, table, columns)))
            tables[name] = TableCopy(columns=columns, rows=sums.rows, digest=sums.digest)
        last_ids = _last_ids(connection)
        manifest = _BackupManifest(
            format=FORMAT, version=VERSION, schema_version=SCHEMA_VERSION, tables=tables, last_ids=last_ids
        )
        packing.add(_MANIFEST, [manifest.model_dump_json(indent=1).encode()])
    return {name: copy.rows for name, copy in tables.items()}


def _copy_sqlite(database: Database, part: str) -> dict[str, int]:
    """Copy a SQLite database by its backup API, in one step, which other writers do not disturb."""
    with closing(sqlite3.connect(part)) as target, database.read() as connection:
        driver: Any = connection.connection.driver_connection
        driver.backup(target)
        if (state := target.execute("PRAGMA integrity_check").fetchone()[0]) != "ok":
            raise StoreError(f"The copy of {database.url} is damaged ({state}), as may be the database itself.")
        target.execute("PRAGMA journal_mode=DELETE")  # one file, without a write-ahead log beside it
        return {name: target.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in COPIED}


class _Sums:
    """Number and checksum of the rows that pass through."""

    def __init__(self) -> None:
        self.rows = self._total = 0

    @property
    def digest(self) -> str:
        return f"{self._total % 2**256:064x}"

    def through(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            self.rows += 1
            self._total += int.from_bytes(sha256(line).digest())
            yield line


def _lines(connection: Connection, table: Table, columns: Sequence[str]) -> Iterator[bytes]:
    """Yield the rows of a table, each as a line of JSON with the values of these columns."""
    binary = [n for n, name in enumerate(columns) if isinstance(table.c[name].type, LargeBinary)]
    query = select(*(table.c[name] for name in columns))
    for row in connection.execute(query, execution_options={"yield_per": PIECE}):
        values = list(row)
        for n in binary:
            values[n] = None if values[n] is None else base64.b64encode(values[n]).decode()
        yield json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


# -- in ------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[_BackupSource]:
    """Open a backup. Of a SQLite file, the rows are packed into a temporary archive first; the file stays as it is."""
    try:
        with open(path, "rb") as file, tempfile.TemporaryDirectory() as folder:
            start = file.read(16)
            file.seek(0)
            packed: Any = file
            if start == b"SQLite format 3\x00":
                # A copy, as opening a database of an earlier version brings it up to date.
                copy = Path(folder, "copy.db")
                address = f"{path.resolve().as_uri()}?mode=ro"
                with closing(sqlite3.connect(address, uri=True)) as ours, closing(sqlite3.connect(copy)) as target:
                    ours.backup(target)
                packed = Path(folder, "copy.zip")
                with closing(Database.open(f"sqlite:///{copy}")) as database:
                    write_backup(database, packed)
            with zipfile.ZipFile(packed) as archive:
                yield _BackupSource(path.name, _read_manifest(archive, path.name), archive)
    except (OSError, sqlite3.Error) as error:
        raise FormatError(f"{path.name} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    except _DAMAGED as error:
        if isinstance(error, MemoryInspectorError):
            raise
        raise FormatError(
            f"{path.name} is no backup, or is damaged: it cannot be unpacked. Nothing was stored."
        ) from error


def _read_manifest(archive: zipfile.ZipFile, name: str) -> _BackupManifest:
    try:
        manifest = _BackupManifest.model_validate_json(archive.read(_MANIFEST))
    except ValidationError as error:
        raise problem(name, "is no backup of a database: its manifest has another form.") from error
    if manifest.format != FORMAT:
        raise problem(name, "is no backup of a database.")
    unknown = [
        f"{table}.{column}"
        for table, copy in manifest.tables.items()
        for column in copy.columns
        if table not in COPIED or column not in COPIED[table].c
    ]
    if manifest.version > VERSION or manifest.schema_version > SCHEMA_VERSION or unknown:
        raise problem(name, "was written by a newer Memory Inspector. Update Memory Inspector.")
    return manifest


def _restore_table(connection: Connection, source: _BackupSource, copy: TableCopy, table: Table) -> None:
    binary = [name for name in copy.columns if isinstance(table.c[name].type, LargeBinary)]
    sums, stored = _Sums(), _Sums()
    for piece in _pieces(sums.through(source.lines(table.name))):
        rows: list[dict[str, Any]] = [dict(zip(copy.columns, json.loads(line), strict=True)) for line in piece]
        for row in rows:
            row.update((name, base64.b64decode(row[name])) for name in binary if row[name] is not None)
        if table is schema_table:  # only the id: the version is that of the new tables
            connection.execute(update(table).values(database_id=rows[0]["database_id"]))
        else:
            connection.execute(insert(table), rows)
    if (sums.rows, sums.digest) != (copy.rows, copy.digest):
        raise problem(source.filename, f"is damaged: {table.name} was changed since it was written.")
    if table is schema_table:
        return
    for _ in stored.through(_lines(connection, table, copy.columns)):
        pass
    if (stored.rows, stored.digest) != (copy.rows, copy.digest):
        raise StoreError(f"The database did not store {table.name} as it is in {source.filename}. Nothing was stored.")


def _pieces(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Split lines into lists of at most `PIECE`, and of few if they are long, as all of a list is in memory."""
    piece, size = list[bytes](), 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if len(piece) == PIECE or size > PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _any(connection: Connection, table: Table) -> bool:
    return connection.execute(select(func.count()).select_from(select(table).limit(1).subquery())).scalar_one() > 0


# -- ids -----------------------------------------------------------------------------------------


def _numbered() -> Mapping[str, Table]:
    """Return the tables whose ids the database gives."""
    return {name: table for name, table in COPIED.items() if getattr(table.autoincrement_column, "name", "") == "id"}


def _last_ids(connection: Connection) -> dict[str, int]:
    """Return the last id of each table that gives none twice: the row with it may have been deleted since."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, seq FROM sqlite_sequence").all()
        return {name: int(last) for name, last in rows if name in COPIED}
    return {
        name: int(connection.execute(text(f"SELECT last_value FROM {_sequence(connection, name)}")).scalar_one())
        for name in _numbered()
    }


def _set_last_ids(connection: Connection, last_ids: Mapping[str, int]) -> None:
    for name, table in _numbered().items():
        highest = connection.execute(select(func.max(table.c.id))).scalar() or 0
        last = max(last_ids.get(name, 0), highest)
        if connection.dialect.name != "sqlite":
            if last:
                sequence = _sequence(connection, name)
                # Never back: other tenants' rows have their numbers from the same sequence.
                connection.execute(
                    text(f"SELECT setval('{sequence}', greatest({int(last)}, last_value)) FROM {sequence}")
                )
        elif table.dialect_options["sqlite"]["autoincrement"]:
            connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), {"name": name})
            connection.execute(text("INSERT INTO sqlite_sequence VALUES (:name, :last)"), {"name": name, "last": last})


def _sequence(connection: Connection, name: str) -> str:
    schema = (connection.get_execution_options().get("schema_translate_map") or {}).get(None)
    table = {"name": qualified(name, schema)}
    return str(connection.execute(text("SELECT pg_get_serial_sequence(:name, 'id')"), table).scalar_one())
