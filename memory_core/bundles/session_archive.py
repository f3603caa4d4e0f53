"""Archive whole sessions as bundles in a folder, each verified by reading it back."""

import os
import re
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

from memory_core.bundles.bundle import read_bundle, write_bundle
from memory_core.errors import FormatError
from memory_core.sessions.retention import NewFile
from memory_core.store.database import Database
from memory_core.store.writing import read_existing


def archive_session(database: Database, session_id: str, folder: Path) -> Path:
    """Write a session as a bundle into a folder, read it back, and return its path; existing files stay.

    The name is the date of the last use (UTC) and the id. `import_bundle` restores it as a new session.

    Raises:
        NotFoundError: there is no such session.
        FormatError: the session is too large for a bundle, or cannot be read back, or the folder cannot be written.
    """
    with database.read() as connection:
        day = time.strftime("%Y-%m-%d", time.gmtime(read_existing(connection, session_id).updated_at))
    data = write_bundle(database, session_id)
    # An id may hold any characters, and be of any length.
    stem = day + "-" + re.sub(r"[^\w.-]", "-", session_id)[:80]
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = _reserve(folder, stem, data)
        if isinstance(path, NewFile):
            _write(path, data)
        stored = path.read_bytes()
    except OSError as error:
        raise FormatError(f"{folder} cannot be written: {error.strerror or error}. Nothing was deleted.") from error
    if stored != data:
        raise FormatError(f"{path.name} has other bytes than were written. Nothing was deleted: check the disk.")
    read_bundle(stored, path.name)
    return path


def _reserve(folder: Path, stem: str, data: bytes) -> Path:
    """Return the file that has these bytes already, else create an empty one under a name that was free."""
    for number in count(1):
        path = folder / (f"{stem}.zip" if number == 1 else f"{stem}-{number}.zip")
        try:
            # In one step, as another program may archive the same session.
            path.touch(mode=0o600, exist_ok=False)
            return NewFile(path)
        except FileExistsError:
            with suppress(FileNotFoundError):  # taken back in between
                if path.read_bytes() == data:
                    return path
    raise AssertionError("a free name is found")


def _write(path: Path, data: bytes) -> None:
    """Fill a reserved file; where that fails, remove it."""
    # Readable by its owner only, and never half of it under its name.
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        for unfinished in (Path(name), path):
            unfinished.unlink(missing_ok=True)
        raise
