"""Connections to Chroma: a server by its address, or a folder held by this process alone.

Quirks of Chroma's client are numbered where they are handled: its settings, locks, leftovers and errors. `chroma.py`
decides what its collections hold.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from memory_core.errors import ConfigError, VectorIndexError

REQUEST_TIMEOUT_SECONDS = 30.0
"""Maximum seconds to wait for an answer of a server; Chroma's client itself would wait for ever."""

CONNECT_TIMEOUT_SECONDS = 5.0
"""Maximum seconds to wait for a server's heartbeat."""

LOCK_NAME = "memory-inspector.lock"
_DATABASE_NAME = "chroma.sqlite3"
_COUNT = slice(20, 28)
"""Place in an index's `header.bin` of the number of its vectors; 0 until Chroma writes them there."""
_KEPT = "Messages are kept and will be indexed later."


class Server:
    """A Chroma server at `http://host:port`."""

    def __init__(self, url: str) -> None:
        self._host, self._port, self._ssl = _parse(url)
        self._lock = RLock()
        self._client: Any = None

    @property
    def name(self) -> str:
        return f"Chroma at {self._host}:{self._port}"

    def client(self) -> Any:
        """Return the connected client.

        Raises:
            VectorIndexError: no server answers, or it is not Chroma.
        """
        with self._lock:
            if self._client is None:
                # Quirk 1: the client connects while it is created, without a timeout. So the server is checked first,
                # by a request that has one.
                self.check()
                chromadb = load_chromadb()
                with self.errors():
                    client = chromadb.HttpClient(
                        host=self._host, port=self._port, ssl=self._ssl, settings=_settings_class()()
                    )
                # Quirk 2: every later request blocks for ever too, unless it has a timeout.
                for session in _sessions(client):
                    session.timeout = REQUEST_TIMEOUT_SECONDS
                self._client = client
            return self._client

    def check(self) -> None:
        """Raise `VectorIndexError` unless a Chroma server answers."""
        import httpx

        with self.errors():
            answer = httpx.get(
                f"{'https' if self._ssl else 'http'}://{self._host}:{self._port}/api/v2/heartbeat",
                timeout=CONNECT_TIMEOUT_SECONDS,
            )
        if "nanosecond heartbeat" not in answer.text:
            raise VectorIndexError(
                f"What answers at {self._host}:{self._port} is no Chroma server. Correct or unset the address. {_KEPT}"
            )

    @property
    def is_empty(self) -> bool:
        """False: only the server knows."""
        return False

    def sweep(self) -> None:
        """Do nothing: a server manages its own files."""

    def clear_unused(self) -> None:
        """Do nothing, as `sweep`."""

    def close(self) -> None:
        with self._lock:
            client, self._client = self._client, None
            if client is not None:
                with self.errors():
                    client.close()
                    for session in _sessions(client):  # quirk 3: Chroma leaves the connections open
                        session.close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate exceptions of Chroma's client into `VectorIndexError`."""
        import httpx

        place = f"{self._host}:{self._port}"
        with _chroma_errors() as caught:
            yield
        if caught:
            error = caught[0]
            if isinstance(error, httpx.TimeoutException):
                text = f"{place} does not answer in time. Look at the Chroma server."
            elif isinstance(error, httpx.TransportError):
                text = f"Nothing answers at {place}. Start the Chroma server or unset the address."
            else:
                text = f"The Chroma server at {place} answered with an error: {_first_line(error)}. Look at its log."
            raise VectorIndexError(f"{text} {_KEPT}") from error


class Folder:
    """An embedded Chroma database.

    Chroma lets two processes open one folder, and then one does not see what the other writes
    (chroma-core/chroma#3792), so a lock file admits one process. Within a process, `Folder.at` returns the same object
    for the same path, and the last `close` frees the folder.
    """

    _shared: "dict[Path, Folder]" = {}  # noqa: RUF012  # one for the process, on purpose
    _shared_lock = RLock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process = os.getpid()
        self._users = 0
        self._lock = RLock()
        from filelock import FileLock  # here: the first page shows no index

        self._file_lock = FileLock(path / LOCK_NAME, thread_local=False, mode=0o600)
        self._client: Any = None
        self._opened: tuple[int, ...] = ()
        self._elsewhere = False

    @classmethod
    def at(cls, path: Path) -> "Folder":
        path = path.expanduser().resolve()
        with cls._shared_lock:
            folder = cls._shared.get(path)
            if folder is None or folder._process != os.getpid():
                folder = cls._shared[path] = cls(path)
            folder._users += 1
            return folder

    @property
    def name(self) -> str:
        if self._elsewhere:
            return "exact scan (Chroma is open in another process)"
        return f"Chroma in {self._path}"

    def client(self) -> Any | None:
        """Return the opened client, or None while another process has the folder; checked on each call.

        Raises:
            VectorIndexError: the folder cannot be used.
        """
        # Quirk 4: a forked process has the client without Chroma's threads, so its parent keeps the folder. Checked
        # before the lock is taken: a thread that held the lock at the fork cannot release it here.
        if os.getpid() != self._process:
            self._elsewhere = True
            return None
        with self._lock:
            # Quirk 5: after the folder was deleted or replaced, Chroma continues on the unlinked files.
            # Released before it is opened again, as the held lock is on a deleted file.
            if self._client is not None and self._identity() != self._opened:
                self._release()
            if self._client is None:
                self._elsewhere = not self._open()
            return self._client

    @property
    def is_empty(self) -> bool:
        """True if nothing was ever stored in the folder, so that Chroma need not be loaded to forget something."""
        return not (self._path / _DATABASE_NAME).exists()

    def check(self) -> None:
        """Raise `VectorIndexError` unless the folder can be used; no error if another process has it open."""
        client = self.client()
        if client is not None:
            with self.errors():
                client.heartbeat()

    def sweep(self) -> None:
        """Remove the files of deleted collections, which Chroma 1.5 leaves behind with their vectors."""
        database = self._path / _DATABASE_NAME
        with self.errors():
            folders = [entry for entry in self._path.iterdir() if entry.is_dir() and _is_uuid(entry.name)]
            if not folders or not database.exists():
                return
            with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
                segments = {segment for (segment,) in connection.execute("SELECT id FROM segments")}
            for folder in folders:
                if folder.name not in segments:
                    # Windows cannot remove open files; they are removed at the next opening.
                    shutil.rmtree(folder, ignore_errors=os.name == "nt")

    def clear_unused(self) -> None:
        """Clear what Chroma writes into the files of a new index before it has anything to write there.

        Quirk 13: until its first thousand vectors, they hold what this process had in memory: parts of texts, or of a
        key.
        """
        with self.errors():
            for header in self._path.glob("*/header.bin"):
                if any(header.read_bytes()[_COUNT]):
                    continue
                for unused in (file for file in header.parent.glob("*.bin") if file != header):
                    with unused.open("r+b") as file:
                        file.write(bytes(unused.stat().st_size))

    def close(self) -> None:
        with Folder._shared_lock, self._lock:
            self._users -= 1
            if self._users == 0 and self._process == os.getpid():
                Folder._shared.pop(self._path, None)
                self._release()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Translate exceptions of Chroma's client into `VectorIndexError`."""
        with _chroma_errors() as caught:
            yield
        if caught:
            raise VectorIndexError(
                f"Chroma cannot use the folder {self._path}: {_first_line(caught[0])}. "
                "Close the app and delete the folder: it is built anew from the database."
            ) from caught[0]

    def _open(self) -> bool:
        """Open the folder; return whether this process now holds it."""
        # Quirk 6: Chroma lets two processes open one folder, so the lock is taken before anything in it is read.
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file_lock.acquire(blocking=False)
        except TimeoutError:  # includes that of FileLock
            return False
        except OSError as exc:
            raise VectorIndexError(
                f"The folder {self._path} for Chroma cannot be written: {exc.strerror}. Choose another folder."
            ) from exc
        try:
            load_chromadb()
            # Quirk 7: the files of deleted collections stay. They can be removed now: nothing in the folder is open
            # yet, and no other process can open it.
            self.sweep()
            with self.errors():
                self._client = _open_database(self._path)
            for file in self._path.glob("chroma.sqlite3*"):  # whatever the folder's mode; later files take this one
                file.chmod(0o600)
            self._opened = self._identity()
        finally:
            if self._client is None:  # opening failed: another process may try
                self._file_lock.release()
        return True

    def _release(self) -> None:
        client, self._client = self._client, None
        try:
            if client is not None:
                with self.errors():
                    client.close()
        finally:
            self._file_lock.release()

    def _identity(self) -> tuple[int, ...]:
        """Inodes of the lock file and the database at the path; empty if either is missing."""
        try:
            return tuple((self._path / name).stat().st_ino for name in (LOCK_NAME, _DATABASE_NAME))
        except FileNotFoundError:
            return ()


def load_chromadb() -> Any:
    """Return the chromadb module, imported when first needed: it takes a second.

    Raises:
        VectorIndexError: it cannot be imported, for example because of an ill-typed setting in the environment or in
            the working directory's `.env` file, which it reads at import.
    """
    from pydantic import ValidationError

    # Quirk 8: the import parses the whole environment as settings, so any program's variable can make it fail.
    try:
        import chromadb
    except ValueError as exc:
        settings = _first_line(exc)
        if isinstance(exc, ValidationError):  # its text would show the values
            settings = ", ".join(str(part) for error in exc.errors(include_input=False) for part in error["loc"])
        raise VectorIndexError(
            f"Chroma does not start with this setting in the environment or in .env: {settings}. Correct or remove it."
        ) from exc
    except ModuleNotFoundError as exc:
        raise VectorIndexError("Chroma is not installed. Run: pip install 'memory-inspector[chroma]'") from exc
    except (ImportError, RuntimeError) as exc:
        raise VectorIndexError(f"Chroma cannot be loaded: {_first_line(exc)}. Install chromadb again.") from exc
    return chromadb


@cache
def _settings_class() -> Any:
    """Return Chroma's settings class, changed to ignore the environment and `.env` and to send no telemetry."""
    from chromadb.config import Settings

    # Quirk 9: each client reads the environment once more, and names such as `IS_PERSISTENT` may be anyone's.

    class OwnSettings(Settings):  # type: ignore[misc]  # chromadb is not type-checked
        anonymized_telemetry: bool = False

        @classmethod
        def settings_customise_sources(cls, settings_cls: Any, init_settings: Any, **others: Any) -> tuple[Any, ...]:
            return (init_settings,)

    return OwnSettings


@contextmanager
def _chroma_errors() -> Iterator[list[BaseException]]:
    """Put the exception that ends the `with` block into the list; the caller must raise its own error from it."""
    caught: list[BaseException] = []
    try:
        yield caught
    except VectorIndexError:
        raise
    except Exception as exc:  # quirk 10: it raises a plain Exception if the answer is not from Chroma
        caught.append(exc)
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":  # quirk 11: how a damaged file ends in Chroma's Rust core
            raise
        caught.append(exc)


def was_reached(error: VectorIndexError) -> bool:
    """Return whether Chroma was reached and then failed, so that a retry or a rebuild of the copy may help."""
    cause = error.__cause__
    return cause is not None and not type(cause).__module__.startswith("httpx")


def _open_database(path: Path) -> Any:
    """Return an embedded client."""
    chromadb = load_chromadb()

    was_open = any(str(path) in registry for registry in _registries())  # by someone else in this process
    try:
        return chromadb.PersistentClient(path=path, settings=_settings_class()())
    except BaseException:
        # Quirk 12: Chroma would return the broken client of a failed opening at the next one.
        if not was_open:
            for registry in _registries():
                registry.pop(str(path), None)
        raise


def _parse(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether the scheme is https. Errors omit the address, which may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # Without the reason, which quotes the part that cannot be read: it may be a password.
        raise ConfigError("The address of the Chroma server cannot be read: give http://host:port.") from None
    plain = not (parts.username or parts.password or parts.path.strip("/") or parts.query or parts.fragment)
    if parts.scheme not in ("http", "https") or not parts.hostname or not plain:
        raise ConfigError("The address of a Chroma server has the form http://host:port, with nothing before or after.")
    ssl = parts.scheme == "https"
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return host, port or (443 if ssl else 8000), ssl


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200].rstrip(".")


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False


# -- private attributes of chromadb --------------------------------------------------------------
# Private, as there is no public API for this. They are named here alone, and
# `tests/vectors/test_chroma.py` checks each: if an upgrade of chromadb moved one, adapt it here.


def _registries() -> tuple[dict[str, Any], ...]:
    """Return Chroma's registries of this process: embedded clients, and their use counts, both by path."""
    from chromadb.api.shared_system_client import SharedSystemClient

    return SharedSystemClient._identifier_to_system, SharedSystemClient._identifier_to_refcount


def _sessions(client: Any) -> tuple[Any, ...]:
    """Return the two httpx clients in a server's client, to set their timeouts and close their connections."""
    return client._server._session, client._admin_client._server._session
