"""Stores opened read only where they lie: each conversation of one as a session that follows it.

Nothing is ever written back. Where a session's file lies is known to this database alone: it is in no bundle and no
branch, and only what runs on this machine can name it (`memory-inspector open`), no visitor of the app.
"""

import hashlib
import itertools
import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from memory_core.attach.mirrored_facts import MirroredFact, mirror_facts, mirror_relations
from memory_core.attach.mirroring import mirror
from memory_core.config import MAX_TOKENS
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import FormatError, MemoryInspectorError, StoreError
from memory_core.events import AgentAttached
from memory_core.interop.files import Preview, check_files, read_path
from memory_core.interop.graph_files import graph_of, named_relations
from memory_core.interop.located_json import problem, read_text
from memory_core.interop.memory_stores import memories_of
from memory_core.interop.notes import folder_fingerprint
from memory_core.interop.reference_memory import read_reference_memory
from memory_core.interop.sqlite_file import SQLITE_MAGIC
from memory_core.limits import MAX_FILE_BYTES
from memory_core.planning.graph_changes import NamedRelation
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.writing import read_opened, read_session

MAX_OPENED = 50
"""Conversations of one store that are opened at once."""

_BESIDE = ("", "-wal", "-journal")
"""Endings of the files in which a SQLite database changes."""

_Name = tuple[str, int]
"""What a part of a store is called there, and which of those that are called so."""
_Bring = Callable[[Session], bool]
"""Brings a session to what a part of a store holds; whether anything had changed."""


@dataclass(frozen=True, slots=True)
class _Part:
    bring: _Bring
    note: str = ""
    """What of it is left out, in a sentence."""


_log = logging.getLogger(__name__)


def open_store(path: Path, database: Database, *, services: Services, only: str | None = None) -> list[str]:
    """Open a store; the ids of the sessions that show it, the same whenever it is opened again.

    `only`: the name of one of its conversations.

    Raises:
        FormatError: it cannot be read, holds nothing that can be shown, or too much.
        StoreError: the database cannot be reached.
    """
    path = path.expanduser().resolve()
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


def _parts(path: Path) -> dict[_Name, _Part]:
    """What a store holds, each part with how it is brought into a session.

    Raises:
        FormatError: it cannot be read, or holds nothing that can be shown.
    """
    check_files(path)
    if graph := _reference_memory(path):
        return graph
    parts = _facts_tables(path)
    try:
        preview = read_path(path)
    except FormatError:
        if parts:  # of a memory that keeps facts and no conversations
            return parts
        raise
    if not preview.conversations:
        raise problem(path.name, f"is not opened where it lies: it is a {preview.label}. Import it in the app.")
    seen: Counter[str] = Counter()
    for number, listed in enumerate(preview.conversations):
        parts[listed.title, seen[listed.title]] = _Part(partial(_bring_conversation, preview, number))
        seen[listed.title] += 1
    return parts


def _facts_tables(path: Path) -> dict[_Name, _Part]:
    """What memories know that keep facts in a database; none where it is no database, or damaged."""
    if _beginning(path, len(SQLITE_MAGIC)) != SQLITE_MAGIC:
        return {}
    try:
        return {(name, 0): _Part(partial(_bring_facts, facts)) for name, facts in memories_of(path).items()}
    except (OSError, sqlite3.Error):  # said by who reads it as conversations
        return {}


def _reference_memory(path: Path) -> dict[_Name, _Part]:
    """What MCP's reference memory server knows; nothing where the file is none of its."""
    data = _beginning(path, MAX_FILE_BYTES + 1)
    try:
        memory = read_reference_memory(read_text(data, filename=path.name), filename=path.name)
    except FormatError:  # said by who reads it as conversations
        return {}
    if memory is None:
        return {}
    facts = [MirroredFact((f"{said.entity}: {said.text}",)) for said in memory.observations]
    relations = named_relations(graph_of(memory, path.name))
    return {(path.stem, 0): _Part(partial(_bring_graph, facts, relations), " ".join(memory.notes))}


def _beginning(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:  # a folder, or said by who reads it as conversations
        return b""


def _bring_conversation(preview: Preview, number: int, session: Session) -> bool:
    found = preview.conversation(number)
    return mirror(session, found.messages, archived=found.archived, blocks=found.blocks)


def _bring_facts(facts: Sequence[MirroredFact], session: Session) -> bool:
    return mirror_facts(session, facts)


def _bring_graph(facts: Sequence[MirroredFact], relations: Sequence[NamedRelation], session: Session) -> bool:
    told, related = mirror_facts(session, facts), mirror_relations(session, relations)
    return told or related


def _open(path: Path, name: _Name, bring: _Bring, database: Database, services: Services) -> str:
    place = json.dumps({"path": str(path), "name": name})
    session = Session(database, _free_id(database, place), services=services)
    create_or_join(
        session,
        title=name[0] if name[0] == path.name else f"{name[0]} ({path.name})",
        user_id=None,
        # Nothing is ever flushed or cut here: the store's owner decides about that.
        config={"token_limit": MAX_TOKENS, "chat_history_token_ratio": 1.0},
        blocks=None,
        begun=AgentAttached(source="file", name=path.name),
    )
    bring(session)
    with session.changing() as w:
        w.session.opened_from = place
    return session.id


def _free_id(database: Database, place: str) -> str:
    """The id of the session that shows this place; another one where that was deleted."""
    base = f"opened-{hashlib.sha256(place.encode()).hexdigest()[:12]}"
    with database.read() as connection:
        ids = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        states = ((id, read_session(connection, id)) for id in ids)
        return next(id for id, state in states if state is None or state.deleted_at is None)


@dataclass(slots=True)
class StoreFollower:
    """Keeps the opened sessions of a database as their stores are; for one thread."""

    database: Database
    services: Services
    problems: Mapping[str, str] = field(default_factory=dict)
    """By session, why it shows what its store was earlier: the store is gone, or cannot be read."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """By session, what of its store is left out; empty for nothing."""
    _seen: dict[Path, object] = field(default_factory=dict)

    def look(self) -> int:
        """Read every store that has changed since the last look; the number of sessions that changed.

        Raises:
            StoreError: the database cannot be reached.
        """
        stores: dict[Path, dict[str, _Name]] = {}
        with self.database.read() as connection:
            opened = read_opened(connection)
        for session_id, place in opened.items():
            followed = json.loads(place)
            stores.setdefault(Path(followed["path"]), {})[session_id] = tuple(followed["name"])
        changed = 0
        problems = {session: told for session, told in self.problems.items() if session in opened}
        for path, sessions in stores.items():
            now = fingerprint(path), list(sessions)
            if self._seen.get(path) == now:
                continue
            try:
                changed += self._read(path, sessions, problems)
            except StoreError:
                raise
            except MemoryInspectorError as error:  # tried again once it has changed
                _log.warning("a store that is followed cannot be read: %s", type(error).__name__)
                problems.update(dict.fromkeys(sessions, str(error).removesuffix(" Nothing was imported.")))
            self._seen[path] = now
        self.problems = problems
        return changed

    def _read(self, path: Path, sessions: Mapping[str, _Name], problems: dict[str, str]) -> int:
        """Read one store for the sessions that show parts of it; how many changed."""
        parts = _parts(path)
        changed = 0
        for session_id, name in sessions.items():
            part = parts.get(name)
            if part is None:
                problems[session_id] = f"{path.name} no longer holds this conversation."
                continue
            problems.pop(session_id, None)
            self.notes = {**self.notes, session_id: part.note}
            session = Session(self.database, session_id, services=self.services)
            session.open()
            changed += part.bring(session)
        return changed


def fingerprint(path: Path) -> object:
    """What changes whenever a store may have changed: sizes and times of its files."""
    try:
        if path.is_dir():
            return folder_fingerprint(path)
        found = [Path(f"{path}{ending}") for ending in _BESIDE]
        return [(about.st_size, about.st_mtime_ns) for each in found if each.exists() and (about := each.stat())]
    except (OSError, FormatError) as error:  # said when it is read
        return type(error).__name__
