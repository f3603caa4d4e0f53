"""Receipt of a search for forgotten words: what was searched, what was found, and what may remain elsewhere.

A receipt has fingerprints in place of the words, so that the search can be repeated without them. A data folder is
searched by the bytes of every file, free pages included, and by the contents of databases and archives.
"""

import bz2
import gzip
import json
import lzma
import os
import re
import sqlite3
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from memory_core.errors import ConfigError, FormatError, NotFoundError, StoreError
from memory_inspector.verification.fingerprints import CHUNK_BYTES, MODULI, Fingerprint, Wanted, count

_SQLITE, _ZIP, _TAR = b"SQLite format 3\x00", b"PK\x03\x04", b"ustar"
_TAR_AT, _BEGINNING = 257, 512
"""Byte where `_TAR` stands in a tar archive, and number of bytes by which a file's kind is recognised."""
_PACKED: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open
}  # fmt: skip
_NOT_UNPACKED = {b"\x28\xb5\x2f\xfd": "Zstandard", b"7z\xbc\xaf\x27\x1c": "7-Zip", b"Rar!": "RAR"}
"""Beginnings of compressed files that are only searched as they are."""
MAX_NESTED = 5
"""Maximum depth of archives in archives; what is deeper is reported as a problem."""
_BESIDE = ("-wal", "-shm", "-journal")
"""Endings of SQLite's own files beside a database."""
MAX_UNPACKED_BYTES = 268_435_456
"""Maximum bytes read of a member of an archive or a compressed value; larger ones are reported as a problem."""


@dataclass(frozen=True, slots=True)
class Searched:
    """Outcome of searching one file, column or member."""

    file: str
    """Path within the folder, or the name of a server's database."""
    part: str
    """`bytes` or `name` of the file, `table.column`, an archive's member, or `unpacked`; `contents` if unreadable.

    Of an archive in an archive, the path to it: `inner.zip/notes.txt`."""
    bytes: int
    hits: int
    """Number of matches of all texts."""
    problem: str | None = None
    """Reason why the part could not be searched; None if it was."""


def search(place: Path, wanted: Wanted) -> list[Searched]:
    """Search a folder with its subfolders, or one file with what is beside it of SQLite and the engine.

    A link to a file elsewhere is followed. A link to a folder elsewhere, and an unreadable folder, are problems.

    Raises:
        NotFoundError: there is no such folder or file.
    """
    if place.is_dir():
        return list(_folder(place, wanted))
    if not place.is_file():
        raise NotFoundError(f"There is no folder or file {place.name}.")
    return list(_with_beside(place, place.name, wanted))


def _folder(place: Path, wanted: Wanted) -> Iterator[Searched]:
    inside = place.resolve()
    unread: list[OSError] = []
    for folder, below, names in os.walk(place, onerror=unread.append):
        below.sort()
        for path in (Path(folder, name) for name in sorted({*below, *names})):
            name, linked = str(path.relative_to(place)), path.is_symlink()
            # A link to what is inside leads to what is searched anyway.
            if linked and path.exists() and path.resolve().is_relative_to(inside):
                continue
            if linked and path.is_dir():
                yield _not_searched(name, "is a link to another folder", wanted)
            elif path.is_file():
                yield from (_with_beside if linked else _file)(path, name, wanted)
    for error in unread:
        name = os.path.relpath(error.filename, place)
        yield _not_searched(name, f"cannot be read: {error.strerror}", wanted)


def _with_beside(file: Path, name: str, wanted: Wanted) -> Iterator[Searched]:
    """Search a file and SQLite's files beside it; beside the file itself where it is a link."""
    yield from _file(file, name, wanted)
    # The write-ahead log still holds pages that were not yet copied into the database.
    real = file.resolve()
    for ending in _BESIDE:
        beside = real.with_name(real.name + ending)
        if beside.is_file():
            yield from _file(beside, name + ending, wanted)
    derived = real.with_name(f"{real.name}-derived")  # what the engine keeps of a database for its next process
    if derived.is_dir():
        for searched in _folder(derived, wanted):
            yield replace(searched, file=f"{name}-derived/{searched.file}")


def _not_searched(name: str, problem: str, wanted: Wanted) -> Searched:
    # The receipt must not contain the words, not even in a path.
    hidden = "(a folder with the words in its name)" if _in_name(name, wanted) else name
    return Searched(hidden, "contents", 0, 0, problem)


def _file(file: Path, name: str, wanted: Wanted) -> Iterator[Searched]:
    if in_name := _in_name(name, wanted):
        # The receipt must not contain the words, not even in a path.
        name = "(a file with the words in its name)"
        yield Searched(name, "name", 0, in_name)
    try:
        with file.open("rb") as raw:
            beginning = raw.read(_BEGINNING)
        # Bytes first: deleted rows remain in free pages that no query reads.
        yield Searched(name, "bytes", file.stat().st_size, sum(count(_chunks(file), wanted)))
        # By content, not by ending: exports and backups are often renamed.
        if beginning.startswith(_SQLITE):
            # Read only, and through SQLite, which also reads the changes that are still in its write-ahead log.
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
                yield from _database(connection, name, "", wanted)
        else:
            yield from _inside(file, beginning, name, "", wanted)
    except _UNREADABLE as error:
        yield _unread(name, "contents", error)


_UNREADABLE = (
    OSError, EOFError, zlib.error, sqlite3.Error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError, RuntimeError
)  # fmt: skip


def _unread(name: str, part: str, error: Exception) -> Searched:
    # The text of an error may hold the file's name, and so the words.
    why = getattr(error, "strerror", None) or type(error).__name__
    return Searched(name, part, 0, 0, f"cannot be read: {why}")


def _in_name(name: str, wanted: Wanted) -> int:
    # Names of files are bytes, which need not be UTF-8.
    return sum(count([name.encode("utf-8", "surrogateescape")], wanted))


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _inside(
    file: Path | IO[bytes], beginning: bytes, name: str, part: str, wanted: Wanted, depth: int = 0
) -> Iterator[Searched]:
    """Search what is packed in a file or a member; `part` is the member, empty for the file itself."""
    unpack = next((opened for magic, opened in _PACKED.items() if beginning.startswith(magic)), None)
    if program := next((of for magic, of in _NOT_UNPACKED.items() if beginning.startswith(magic)), None):
        yield Searched(name, part or "contents", 0, 0, f"is packed by {program}, which is not unpacked")
    elif unpack is not None:
        with unpack(file) as stream:
            yield from _unpacked(name, f"{part}/unpacked" if part else "unpacked", stream, wanted, depth)
    elif _is_archive(file, beginning):
        for inner, stream in _members(file, beginning):
            if in_name := _in_name(inner, wanted):
                inner = "(a member with the words in its name)"
                yield Searched(name, inner, 0, in_name)
            yield from _unpacked(name, f"{part}/{inner}" if part else inner, stream, wanted, depth)


def _is_archive(file: Path | IO[bytes], beginning: bytes) -> bool:
    if beginning.startswith(_ZIP) or beginning[_TAR_AT:].startswith(_TAR):
        return True
    try:  # a zip may follow other bytes, such as a program that unpacks it
        zipfile.ZipFile(file).close()
    except zipfile.BadZipFile:
        return False
    return True


def _members(file: Path | IO[bytes], beginning: bytes) -> Iterator[tuple[str, IO[bytes]]]:
    """Return the name and contents of each member of a tar or zip archive; a link or a folder in it has none."""
    if beginning[_TAR_AT:].startswith(_TAR):
        with file.open("rb") if isinstance(file, Path) else file as raw, tarfile.open(fileobj=raw) as tar:
            for entry in tar:
                yield entry.name, (tar.extractfile(entry) if entry.isfile() else None) or BytesIO()
        return
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                yield member.filename, stream


def _unpacked(name: str, part: str, stream: IO[bytes], wanted: Wanted, depth: int) -> Iterator[Searched]:
    """Search the contents of a member, and what is packed in these."""
    # One byte above the limit distinguishes a truncated member from one that just fits.
    data = stream.read(MAX_UNPACKED_BYTES + 1)
    problem = f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes" if len(data) > MAX_UNPACKED_BYTES else None
    beginning, sqlite = data[:_BEGINNING], data.startswith(_SQLITE)
    packed = sqlite or data.startswith((*_PACKED, *_NOT_UNPACKED)) or _is_archive(BytesIO(data), beginning)
    if packed and depth == MAX_NESTED:
        problem = f"is an archive inside more than {MAX_NESTED} others"
    yield Searched(name, part, len(data), sum(count([data], wanted)), problem)
    if problem is not None or not packed:
        return
    try:
        if sqlite:
            with closing(sqlite3.connect(":memory:")) as connection:
                # Bytes 18 and 19 ask for a write-ahead log, which a database in memory cannot have.
                connection.deserialize(data[:18] + b"\x01\x01" + data[20:])
                yield from _database(connection, name, f"{part}/", wanted)
        else:
            yield from _inside(BytesIO(data), beginning, name, part, wanted, depth + 1)
    except _UNREADABLE as error:  # costs this member alone
        yield _unread(name, part, error)


def _database(connection: sqlite3.Connection, name: str, within: str, wanted: Wanted) -> Iterator[Searched]:
    """Search every column of every table. Unlike in the file's bytes, no value is split across pages or compressed."""
    # Stored text may be invalid UTF-8, which decoding would refuse.
    connection.text_factory = bytes
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall():
        quoted = table.decode().replace('"', '""')
        columns = [row[1].decode() for row in connection.execute(f'PRAGMA table_info("{quoted}")')]
        for column in columns:
            value = column.replace('"', '""')
            # Numbers hold no words; the type is tested per value, as SQLite does not enforce declared types.
            rows = connection.execute(
                f'SELECT "{value}" FROM "{quoted}" WHERE typeof("{value}") IN (\'text\', \'blob\')'
            )
            yield search_values(name, f"{within}{table.decode()}.{column}", (row[0] for row in rows), wanted)


def search_values(name: str, part: str, values: Iterator[bytes], wanted: Wanted) -> Searched:
    """Search the values of one column, and the contents of compressed ones."""
    read, hits, joined, problem = 0, 0, bytearray(), None
    for value in values:
        # Separated by zero bytes, so that no match spans two values.
        unpacked = _inflated(value)
        if len(unpacked) > MAX_UNPACKED_BYTES:
            problem = f"a value unpacks to more than {MAX_UNPACKED_BYTES:,} bytes"
        joined += value + b"\x00\x00" + unpacked + b"\x00\x00"
        read += len(value)
        # Values are searched in batches of about a chunk: that bounds memory, and saves a call for each value.
        if len(joined) >= CHUNK_BYTES:
            hits += sum(count([bytes(joined)], wanted))
            joined.clear()
    return Searched(name, part, read, hits + sum(count([bytes(joined)], wanted)), problem)


def _inflated(value: bytes) -> bytes:
    """Return the contents of a zlib-compressed value, at most one byte above the limit; empty for other values."""
    if value[:1] != b"\x78":
        return b""
    try:
        return zlib.decompressobj().decompress(value, MAX_UNPACKED_BYTES + 1)
    except zlib.error:
        return b""


# -- search a Chroma server -----------------------------------------------------------------------


_AT_ONCE, _SECONDS = 1_000, 30

TENANT = "list of collections, tenant "
"""Beginning of the part that stands for a tenant, before its name."""


def search_chroma(url: str, wanted: Wanted, *, tenants: Collection[str] = ()) -> list[Searched]:
    """Search the server at `http://host:port`. What cannot be read is reported with the reason, never a password.

    A server does not list its tenants. Searched are its default one, that of the client's credentials, and those named
    in `tenants` or in the URL: `http://host:port?tenant=one&tenant=other`.
    """
    searched, name = list[Searched](), "Chroma"
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 8000)
        name = f"Chroma at {parts.hostname}:{port}"
        with _connected(parts, port) as client:
            for tenant in dict.fromkeys([client.tenant, *parse_qs(parts.query).get("tenant", ()), *tenants]):
                searched += _tenant(name, client, tenant, wanted)
    # Of any kind, as its client raises what it likes. The text of an error may hold the address, and so a password.
    except Exception as error:
        missing = isinstance(error, ImportError)
        problem = "needs memory-inspector[chroma]" if missing else f"cannot be read: {type(error).__name__}"
        searched.append(Searched(name, "contents", 0, 0, problem))
    return searched


@contextmanager
def _connected(server: SplitResult, port: int) -> Iterator[Any]:
    """Open a client in the tenant of its credentials; without any, in the default one."""
    import chromadb
    import httpx

    # First by a request that ends: Chroma's client connects without a limit of time.
    httpx.get(f"{server.scheme}://{server.hostname}:{port}/api/v2/heartbeat", timeout=_SECONDS).raise_for_status()
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    host, ssl = server.hostname or "", server.scheme == "https"
    client = chromadb.HttpClient(host=host, port=port, ssl=ssl, settings=settings)
    sessions = client._server._session, client._admin_client._server._session
    # Its own `close` leaves the connections open.
    with closing(sessions[0]), closing(sessions[1]):
        sessions[0].timeout = sessions[1].timeout = _SECONDS
        yield client


def _tenant(server: str, client: Any, tenant: str, wanted: Wanted) -> Iterator[Searched]:
    """Search the collections of all databases of a tenant."""
    name = "(a tenant with the words in its name)" if sum(count([tenant.encode()], wanted)) else tenant
    problem = None
    try:
        # The databases of a tenant that does not exist are an empty list, as if there were nothing in it.
        client._admin_client.get_tenant(tenant)
        for database in client._admin_client.list_databases(tenant=tenant):
            client.set_tenant(tenant, database["name"])
            for offset in range(0, client.count_collections(), _AT_ONCE):
                for collection in client.list_collections(limit=_AT_ONCE, offset=offset):
                    yield from _collection(server, f"{tenant}/{database['name']}/{collection.name}", collection, wanted)
    except Exception as error:
        problem = f"cannot be read: {type(error).__name__}"
    # So that a tenant without collections stands on the receipt, too.
    yield Searched(server, f"{TENANT}{name}", 0, int(name != tenant), problem)


def _collection(server: str, part: str, collection: Any, wanted: Wanted) -> Iterator[Searched]:
    if in_name := sum(count([part.encode()], wanted)):
        part = "(a collection with the words in its name)"
        yield Searched(server, part, 0, in_name)
    for field in ("metadata", "ids", "documents", "metadatas", "uris"):
        try:
            yield search_values(server, f"{part}.{field}", _values(collection, field), wanted)
        except Exception as error:
            yield Searched(server, f"{part}.{field}", 0, 0, f"cannot be read: {type(error).__name__}")


def _values(collection: Any, field: str) -> Iterator[bytes]:
    """Yield the values of a field of all items, or the metadata of the collection itself."""
    if field == "metadata":
        yield json.dumps(collection.metadata).encode()
        return
    for offset in range(0, collection.count(), _AT_ONCE):
        include = [field] if field != "ids" else []
        for value in collection.get(limit=_AT_ONCE, offset=offset, include=include)[field] or ():
            yield value.encode() if isinstance(value, str) else json.dumps(value).encode()


# -- search a PostgreSQL database -----------------------------------------------------------------


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
                yield search_values(name, part, _column_values(connection, (schema, table), column, is_bytes), wanted)
        except OperationalError:
            raise
        except DatabaseError as error:
            yield Searched(name, part, 0, 0, f"cannot be read: {type(error).__name__}")
    (large_objects,) = connection.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone()
    if large_objects:
        yield Searched(name, "large objects", 0, 0, f"{large_objects:,} are not read")


def _column_values(connection: Any, table: tuple[str, str], column: str, is_bytes: bool) -> Iterator[bytes]:
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


# -- the receipt of a search ----------------------------------------------------------------------


VERSION = 2
"""Version 1 had no spellings: its search knows fewer forms of the same texts."""
ELSEWHERE = (
    "backups and snapshots of the folder, and the free space of its disk",
    "bundles and reports that were exported to other folders",
    "the provider of a model that was sent these words",
    "servers and databases that are not named above",
    "a Chroma server's files, where deleted rows may stay",
    "a PostgreSQL server's files: deleted rows until VACUUM FULL, its write-ahead log, its replicas",
    "other wordings: a summary may say the same in other words",
)
"""Places that no search of a folder or a database can reach; those of one search are in `ForgetReceipt.elsewhere`."""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """Outcome of a search at one time."""

    made: str
    """Time in UTC, as ISO 8601."""
    wanted: Wanted
    searched: tuple[Searched, ...]

    @property
    def hits(self) -> int:
        """Return the number of matches of all texts, in raw bytes and in unpacked contents."""
        return sum(part.hits for part in self.searched)

    @property
    def problems(self) -> list[Searched]:
        return [part for part in self.searched if part.problem is not None]

    @property
    def clean(self) -> bool:
        """True if everything could be searched and nothing was found."""
        return not self.hits and not self.problems

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Places that this search cannot have reached."""
        servers: dict[str, list[str]] = {}
        for part in self.searched:
            if part.part.startswith(TENANT) and part.problem is None:
                servers.setdefault(part.file, []).append(part.part.removeprefix(TENANT))
        tenants = (
            f"tenants of {server} other than {', '.join(names)}: only these were searched, as a server lists none"
            for server, names in servers.items()
        )
        return (*ELSEWHERE, *tenants)

    def to_json(self) -> str:
        content = {
            "receipt": VERSION,
            "made": self.made,
            "clean": self.clean,
            "bases": self.wanted.bases,
            "texts": [[[form.bytes, *form.hashes] for form in forms] for forms in self.wanted.texts],
            "spellings": [[[form.bytes, *form.hashes] for form in forms] for forms in self.wanted.spellings],
            "searched": [asdict(part) for part in self.searched],
            "elsewhere": self.elsewhere,
        }
        return json.dumps(content, indent=1)

    def page(self) -> str:
        """Return the receipt as one page of text to print."""
        files = {part.file for part in self.searched}
        read = {part.file for part in self.searched if part.part == "bytes"}
        # A server's database has no bytes of its own here: its size is that of its values.
        size = sum(part.bytes for part in self.searched if part.part == "bytes" or part.file not in read)
        # The other parts are columns and members: each file already counts by its own bytes.
        inside = sum(part.part not in ("bytes", "name", "contents") for part in self.searched)
        texts = len(self.wanted.texts)
        lines = [
            f"Search for {texts} forgotten {'text' if texts == 1 else 'texts'}, {self.made}",
            f"Searched: {len(files):,} files and databases with {size:,} bytes, {inside:,} columns and members in them",
            f"Found: {self.hits:,} times" if self.hits else "Found: nothing",
            *(f"  {part.file}, {part.part}: {part.hits:,}" for part in self.searched if part.hits),
            *(f"Not searched: {part.file}, {part.part} {part.problem}" for part in self.problems),
            "What may remain elsewhere:",
            *(f"  {place}" for place in self.elsewhere),
        ]
        return "\n".join(lines)


def receipt_of(place: Path | str, wanted: Wanted) -> ForgetReceipt:
    """Search a folder or file, or a PostgreSQL database or Chroma server given by its URL; return the receipt.

    Raises:
        ConfigError: PostgreSQL is to be searched, but psycopg is not installed.
        NotFoundError: there is no such folder or file.
        StoreError: the PostgreSQL server cannot be reached.
    """
    server = isinstance(place, str) and is_server(place)
    if isinstance(place, str) and place.startswith(("http://", "https://")):
        parts = search_chroma(place, wanted)
    else:
        parts = search_server(str(place), wanted) if server else search(Path(place), wanted)
    return ForgetReceipt(datetime.now(UTC).isoformat(timespec="seconds"), wanted, tuple(parts))


def read_receipt(text: str, name: str) -> ForgetReceipt:
    """Read a receipt from JSON.

    Raises:
        FormatError: the text is not a receipt; the message names the file.
    """
    try:
        content: dict[str, Any] = json.loads(text)
        # Another version may compute hashes differently, and a clean result would prove nothing.
        if content["receipt"] not in (1, VERSION):
            raise FormatError(f"{name} is a receipt of version {content['receipt']}; this program reads 1 and 2.")
        texts, spellings = (
            tuple(tuple(_fingerprint(form) for form in forms) for forms in of_texts)
            for of_texts in (content["texts"], content["spellings"] if content["receipt"] == VERSION else ())
        )
        bases = _pair(content["bases"])
        # A receipt without texts would search for nothing and then call every folder clean.
        if not texts or not all(texts) or len(spellings) not in (0, len(texts)):
            raise ValueError("no texts")
        searched = tuple(Searched(**part) for part in content["searched"])
        return ForgetReceipt(str(content["made"]), Wanted(bases, texts, spellings), searched)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name} is no receipt of `memory-inspector verify`.") from error


def _fingerprint(values: Sequence[int]) -> Fingerprint:
    length, *hashes = values
    # A window of no bytes hashes to 0 everywhere, and a negative length would slice from the end.
    if not isinstance(length, int) or length < 1:
        raise ValueError("a length below 1")
    return Fingerprint(length, _pair(hashes))


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    # A number outside its modulus can match no window, and the search would wrongly be clean.
    if not all(isinstance(value, int) and 0 <= value < modulus for value, modulus in zip(values, MODULI, strict=True)):
        raise ValueError("numbers out of range")
    return first, second
