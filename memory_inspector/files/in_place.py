"""Open other programs' stores read-only and in place; each conversation becomes a session that follows it.

Stores are never written. A session's file path is stored in this database only, never in bundles or branches, and can
be set only on this machine (`memory-inspector open`), not by visitors of the app.
"""

import hashlib
import itertools
import json
import logging
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from memory_core.config import MAX_TOKENS
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import FormatError, MemoryInspectorError, StoreError, problem
from memory_core.events import AgentAttached
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.writing import read_opened, read_session
from memory_inspector.files.files import Preview, check_files, read_path
from memory_inspector.files.mirroring import GRAPH, mirror, mirror_facts, mirror_relations
from memory_inspector.files.notes import folder_fingerprint
from memory_inspector.files.stores.memory_stores import Memories, is_database, memories_of

MAX_OPENED = 50
"""Maximum conversations of a store opened together."""

_BESIDE = ("", "-wal", "-journal")
"""Suffixes of the files in which a SQLite database changes."""

_Name = tuple[str, int]
"""Name of a store's part, and its index among equal names."""
_Bring = Callable[[Session], bool]
"""Function that updates a session from a part of a store; returns whether anything changed."""


@dataclass(frozen=True, slots=True)
class _PlacePart:
    bring: _Bring
    note: str = ""
    """Sentence on skipped contents; empty if nothing was skipped."""


_log = logging.getLogger(__name__)


def open_store(path: Path, database: Database, *, services: Services, only: str | None = None) -> list[str]:
    """Open a store; return the ids of its sessions, which stay the same on every opening.

    `only`: open just the conversation of this name.

    Raises:
        FormatError: The store cannot be read, is empty, or holds too much.
        StoreError: The database cannot be reached.
    """
    path = Path(os.path.realpath(path.expanduser()))  # `resolve` raises for links in a circle
    # A session that follows its own database would change it by following.
    if database.is_sqlite and str(path) == str(Path(database.engine.url.database or "").resolve()):
        raise problem(path.name, "is the database that it would be shown in. Give another --database.")
    picked = {name: part for name, part in _parts(path).items() if only in (None, name[0])}
    if not picked:
        raise problem(path.name, f"has no conversation called {only!r}.")
    if len(picked) > MAX_OPENED:
        raise problem(path.name, f"holds {len(picked):,} conversations. Choose one of them with --only NAME.")
    for name, part in picked.items():
        if part.note:
            _log.warning("%s: %s", name[0], part.note)
    return [_open(path, name, part.bring, database, services) for name, part in picked.items()]


def _parts(path: Path) -> dict[_Name, _PlacePart]:
    """Return the parts of a store, each with its update function.

    Raises:
        FormatError: The store cannot be read, or is empty.
    """
    check_files(path)
    parts = _memories(path)
    # A database may hold both facts and conversations, as Agno's does.
    if parts and not is_database(path):
        return parts
    try:
        preview = read_path(path)
    except FormatError:
        if parts:  # a memory that stores facts but no conversations
            return parts
        raise
    if not preview.conversations:
        raise problem(path.name, f"is not opened where it lies: it is a {preview.label}. Import it in the app.")
    seen: Counter[str] = Counter()
    for number, listed in enumerate(preview.conversations):
        # Titles are not unique, and a part must be found again after the store has changed.
        parts[listed.title, seen[listed.title]] = _PlacePart(partial(_bring_conversation, preview, number))
        seen[listed.title] += 1
    return parts


def _memories(path: Path) -> dict[_Name, _PlacePart]:
    """Return what programs store of facts and relations in a file; empty if it is damaged or of another kind."""
    try:
        return {(name, 0): _PlacePart(partial(_bring_memories, m), m.note) for name, m in memories_of(path).items()}
    except (OSError, sqlite3.Error):  # reported when it is read as conversations
        return {}


def _bring_conversation(preview: Preview, number: int, session: Session) -> bool:
    conversation = preview.conversation(number)
    return mirror(session, conversation.messages, archived=conversation.archived, blocks=conversation.blocks)


def _bring_memories(memories: Memories, session: Session) -> bool:
    changed = mirror_facts(session, memories.facts)
    # Also when the last relation has gone.
    if memories.relations or any(attached.name == GRAPH for attached in session.blocks):
        changed |= mirror_relations(session, memories.relations)
    return changed


def _open(path: Path, name: _Name, bring: _Bring, database: Database, services: Services) -> str:
    # The id is a hash of this text, so it must be written alike each time.
    place = json.dumps({"path": str(path), "name": name})
    session = Session(database, _free_id(database, place), services=services)
    create_or_join(
        session,
        title=name[0] if name[0] == path.name else f"{name[0]} ({path.name})",
        user_id=None,
        # Nothing is flushed or cut here: the store's owner decides about that.
        config={"token_limit": MAX_TOKENS, "chat_history_token_ratio": 1.0},
        blocks=None,
        begun=AgentAttached(source="file", name=path.name),
    )
    bring(session)
    # Last, so that a session that could not be filled is not followed.
    with session.changing() as w:
        w.session.opened_from = place
    return session.id


def _free_id(database: Database, place: str) -> str:
    """Return the session id for this place; a new one if that session was deleted."""
    base = f"opened-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    with database.read() as connection:
        ids = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        states = ((id, read_session(connection, id)) for id in ids)
        return next(id for id, state in states if state is None or state.deleted_at is None)


@dataclass(slots=True)
class StoreFollower:
    """Keeps opened sessions in sync with their stores. Not thread-safe."""

    database: Database
    services: Services
    problems: Mapping[str, str] = field(default_factory=dict)
    """Reason a session is out of date, by session: its store is gone or unreadable."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Note on skipped contents by session; empty if complete."""
    _seen: dict[Path, object] = field(default_factory=dict)

    def look(self) -> int:
        """Read all stores changed since the last look; return the number of changed sessions.

        Raises:
            StoreError: The database cannot be reached.
        """
        stores: dict[Path, dict[str, _Name]] = {}
        with self.database.read() as connection:
            opened = read_opened(connection)
        for session_id, place in opened.items():
            followed = json.loads(place)
            stores.setdefault(Path(followed["path"]), {})[session_id] = tuple(followed["name"])
        changed = 0
        problems = {session: reason for session, reason in self.problems.items() if session in opened}
        for path, sessions in stores.items():
            # Taken before reading, so that a change during it is noticed next time. With the sessions, as a newly
            # opened one must be read although its store did not change.
            now = fingerprint(path), list(sessions)
            if self._seen.get(path) == now:
                continue
            try:
                changed += self._read(path, sessions, problems)
            # The app's own database is away, which says nothing about the store: the next look tries again.
            except StoreError:
                raise
            except MemoryInspectorError as error:  # retried after the next change
                _log.warning("a store that is followed cannot be read: %s", type(error).__name__)
                problems.update(dict.fromkeys(sessions, str(error).removesuffix(" Nothing was imported.")))
            self._seen[path] = now
        self.problems = problems
        return changed

    def _read(self, path: Path, sessions: Mapping[str, _Name], problems: dict[str, str]) -> int:
        """Update the sessions of one store; return how many changed."""
        parts = _parts(path)
        changed = 0
        for session_id, name in sessions.items():
            part = parts.get(name)
            if part is None:
                problems[session_id] = f"{path.name} no longer holds this conversation."
                continue
            # A conversation that came back is in sync again.
            problems.pop(session_id, None)
            self.notes = {**self.notes, session_id: part.note}
            session = Session(self.database, session_id, services=self.services)
            session.open()
            changed += part.bring(session)
        return changed


def fingerprint(path: Path) -> object:
    """Return a value that differs whenever a store may have changed: its files' sizes and times."""
    try:
        if path.is_dir():
            return folder_fingerprint(path)
        paths = [Path(f"{path}{ending}") for ending in _BESIDE]
        return [(about.st_size, about.st_mtime_ns) for file in paths if file.exists() and (about := file.stat())]
    except (OSError, FormatError) as error:  # reported when it is read
        return type(error).__name__
