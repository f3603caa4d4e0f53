"""Files of arrays beside an SQLite database: what a process derived from a session's units, for the next to map.

A file is never needed: it holds nothing but what can be read from the database again, and is ignored unless it fits.
It has words (the stems of messages), so it goes in the transaction that removes any unit, and only its owner reads it.
"""

import hashlib
import json
import mmap
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from memory_core.errors import MemoryInspectorError, StoreError
from memory_core.process import is_running
from memory_core.store.database import Database
from memory_core.store.tables import vector_table
from memory_core.vectors.vector_index import Revision

FORMAT = 1
"""Version of the files, of the stems and of everything else that is derived: others are ignored."""

PATIENCE_SECONDS = 0.5
"""Wait for the right to write; without it nothing is kept this time."""

_MAGIC = b"memory arrays 1\n"
_ALIGNED = 64
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class DerivedFile:
    """A file of arrays of one session, under a name that says what they are."""

    database: Database
    session_id: str
    name: str

    def load(self) -> tuple[Revision, dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return revision, notes and arrays as they were kept; None if there are none that fit the database.

        The caller compares the revision: units may have been added since.
        """
        folder = _folder(self.database, self.session_id)
        if folder is None:
            return None
        try:
            header, arrays = _mapped(folder / self._file_name)
            revision = Revision(*header["revision"])
            with self.database.read() as connection:
                fits = header["fits"] == self._fits(connection, revision)
            return (revision, header["notes"], arrays) if fits else None
        except (OSError, ValueError, KeyError, TypeError):  # none, cut, or of another version
            return None

    def keep(
        self, revision: Revision, notes: Mapping[str, Any], arrays: Arrays, now: Callable[[Connection], Revision]
    ) -> bool:
        """Keep arrays that were derived at a revision, unless it has changed `now`; return whether they are kept.

        A full disk, or a folder that cannot be written to, is no error: the next process reads the database.
        """
        folder = _folder(self.database, self.session_id)
        if folder is None:
            return False
        with suppress(OSError, MemoryInspectorError), _draft(folder, self._file_name) as draft:
            with self.database.read() as connection:
                fits = self._fits(connection, revision)
            _write(draft, {"revision": astuple(revision), "notes": notes, "fits": fits}, arrays)
            # Whoever removes a unit deletes the files while it has the right to write: with it, this file is either
            # deleted after this, or seen to be out of date here.
            with self.database.write(patience=PATIENCE_SECONDS) as connection:
                if now(connection) == revision:
                    os.replace(draft, folder / self._file_name)
                    return True
        return False

    @property
    def _file_name(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()[:32]

    def _fits(self, connection: Connection, revision: Revision) -> list[Any]:
        """Return what a file has in common with its database only.

        A database that was restored from a copy may have other units under the same numbers since.
        """
        v = vector_table.c
        query = select(v.created_at, v.first_seq).where(v.id == revision.last_number, v.session_id == self.session_id)
        last = connection.execute(query).one_or_none()
        return [FORMAT, sys.byteorder, self.database.id, self.name, list(last) if last is not None else None]


def forget_derived(database: Database, session_id: str) -> None:
    """Delete the files of a session, within the transaction that removes any of its units.

    Raises:
        StoreError: they cannot be deleted.
    """
    folder = _folder(database, session_id)
    if folder is None or not os.path.lexists(folder):
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # by another process meanwhile
        return
    except OSError as error:
        raise StoreError(f"{folder} has words of this session and cannot be deleted ({error.strerror}).") from error


def _folder(database: Database, session_id: str) -> Path | None:
    """Return the folder of a session's files; None where there are none."""
    folder = database.derived_folder
    return None if folder is None else folder / hashlib.sha256(session_id.encode()).hexdigest()[:32]


@contextmanager
def _draft(folder: Path, name: str) -> Iterator[Path]:
    """Make an empty file, private to its owner, that is deleted unless it was renamed."""
    for one in (folder.parent, folder):
        with suppress(FileExistsError):
            os.mkdir(one, 0o700)
        if one.is_symlink():
            raise NotADirectoryError(str(one))
    for other in folder.glob("*.draft-*"):  # of processes that were killed
        process = other.name.rpartition("-")[2]
        if not (process.isdecimal() and is_running(int(process))):
            other.unlink(missing_ok=True)
    draft = folder / f"{name}.draft-{os.getpid()}"
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NOFOLLOW, 0o600))
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def _write(file: Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    layout, offset = {}, 0
    for name, array in arrays.items():
        layout[name] = (array.dtype.str, array.shape, offset)
        offset += array.nbytes + -array.nbytes % _ALIGNED
    begin = json.dumps({**header, "layout": layout, "bytes": offset}).encode()
    begin = _MAGIC + len(begin).to_bytes(8, "little") + begin
    with file.open("r+b") as stream:
        stream.write(begin + bytes(-len(begin) % _ALIGNED))
        for array in arrays.values():
            stream.write(np.ascontiguousarray(array).data)
            stream.write(bytes(-array.nbytes % _ALIGNED))


def _mapped(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file.

    Raises:
        OSError: there is no such file, or it is not its owner's alone.
        ValueError: it is no such file, or it was cut.
    """
    descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW)
    try:
        about = os.fstat(descriptor)
        if about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise PermissionError(f"{path} can be read or was made by others")
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    start = len(_MAGIC) + 8
    end = start + int.from_bytes(mapped[len(_MAGIC) : start], "little")
    if mapped[: len(_MAGIC)] != _MAGIC or end > len(mapped):
        raise ValueError(f"{path} is no file of arrays")
    header = json.loads(mapped[start:end])
    begin = end + -end % _ALIGNED
    if len(mapped) != begin + header["bytes"]:
        raise ValueError(f"{path} was cut")
    arrays = {}
    for name, (kind, shape, offset) in header["layout"].items():
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(mapped, np.dtype(kind), count, begin + offset).reshape(shape)
    return header, arrays
