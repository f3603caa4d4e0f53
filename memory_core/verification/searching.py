"""Search a data folder: the bytes of every file, free pages included, and the contents of databases and archives."""

import gzip
import lzma
import sqlite3
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from memory_core.errors import NotFoundError
from memory_core.verification.fingerprints import CHUNK_BYTES, Wanted, count

_SQLITE, _ZIP, _GZIP = b"SQLite format 3\x00", b"PK\x03\x04", b"\x1f\x8b"
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
    """`bytes` or `name` of the file, `table.column`, an archive's member, or `unpacked`; `contents` if unreadable."""
    bytes: int
    hits: int
    """Number of matches of all texts."""
    problem: str | None = None
    """Reason why the part could not be searched; None if it was."""


def search(place: Path, wanted: Wanted) -> list[Searched]:
    """Search a folder with its subfolders, or one file with SQLite's files beside it. Links are not followed.

    Raises:
        NotFoundError: there is no such folder or file.
    """
    if place.is_dir():
        # A link could lead outside of the folder, or around in a circle.
        files = sorted(file for file in place.rglob("*") if file.is_file() and not file.is_symlink())
        return [part for file in files for part in _file(file, str(file.relative_to(place)), wanted)]
    if not place.is_file():
        raise NotFoundError(f"There is no folder or file {place.name}.")
    # The write-ahead log still holds pages that were not yet copied into the database.
    beside = [place.with_name(place.name + ending) for ending in _BESIDE]
    return [part for file in (place, *beside) if file.is_file() for part in _file(file, file.name, wanted)]


def _file(file: Path, name: str, wanted: Wanted) -> Iterator[Searched]:
    if in_name := _in_name(name, wanted):
        # The receipt must not contain the words, not even in a path.
        name = "(a file with the words in its name)"
        yield Searched(name, "name", 0, in_name)
    try:
        with file.open("rb") as raw:
            beginning = raw.read(len(_SQLITE))
        # Bytes first: deleted rows remain in free pages that no query reads.
        yield Searched(name, "bytes", file.stat().st_size, sum(count(_chunks(file), wanted)))
        # By content, not by ending: exports and backups are often renamed.
        if beginning == _SQLITE:
            yield from _database(file, name, wanted)
        elif beginning.startswith(_ZIP):
            yield from _archive(file, name, wanted)
        elif beginning.startswith(_GZIP):
            with gzip.open(file) as stream:
                # One byte above the limit distinguishes a truncated member from one that just fits.
                yield _unpacked(name, "unpacked", stream.read(MAX_UNPACKED_BYTES + 1), wanted)
    except (OSError, EOFError, zlib.error, sqlite3.Error, lzma.LZMAError, zipfile.BadZipFile, RuntimeError) as error:
        # The text of an error may hold the file's name, and so the words.
        why = getattr(error, "strerror", None) or type(error).__name__
        yield Searched(name, "contents", 0, 0, f"cannot be read: {why}")


def _in_name(name: str, wanted: Wanted) -> int:
    # Names of files are bytes, which need not be UTF-8.
    return sum(count([name.encode("utf-8", "surrogateescape")], wanted))


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def _archive(file: Path, name: str, wanted: Wanted) -> Iterator[Searched]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            part = member.filename
            if in_name := _in_name(part, wanted):
                part = "(a member with the words in its name)"
                yield Searched(name, part, 0, in_name)
            with archive.open(member) as stream:
                yield _unpacked(name, part, stream.read(MAX_UNPACKED_BYTES + 1), wanted)


def _unpacked(name: str, part: str, data: bytes, wanted: Wanted) -> Searched:
    problem = f"unpacks to more than {MAX_UNPACKED_BYTES:,} bytes" if len(data) > MAX_UNPACKED_BYTES else None
    return Searched(name, part, len(data), sum(count([data], wanted)), problem)


def _database(file: Path, name: str, wanted: Wanted) -> Iterator[Searched]:
    """Search every column of every table. Unlike in the file's bytes, no value is split across pages or compressed."""
    # Read only, and through SQLite, which also reads the changes that are still in its write-ahead log.
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        # Stored text may be invalid UTF-8, which decoding would refuse.
        connection.text_factory = bytes
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).fetchall():
            quoted = table.decode().replace('"', '""')
            columns = [row[1].decode() for row in connection.execute(f'PRAGMA table_info("{quoted}")')]
            for column in columns:
                value = column.replace('"', '""')
                # Numbers hold no words; the type is tested per value, as SQLite does not enforce declared types.
                rows = connection.execute(
                    f'SELECT "{value}" FROM "{quoted}" WHERE typeof("{value}") IN (\'text\', \'blob\')'
                )
                part = f"{table.decode()}.{column}"
                yield search_values(name, part, (row[0] for row in rows), wanted)


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
