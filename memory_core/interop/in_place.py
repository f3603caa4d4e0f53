"""Stores opened read only where they lie: each conversation of one as a session that follows it.

Nothing is ever written back. Where a session's file lies is known to this database alone: it is in no bundle and no
branch, and only what runs on this machine can name it (`memory-inspector open`), no visitor of the app.
"""

import hashlib
import itertools
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_core.attach.mirroring import mirror
from memory_core.config import MAX_TOKENS
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import FormatError
from memory_core.events import AgentAttached
from memory_core.interop.files import Preview, read_path
from memory_core.interop.located_json import problem
from memory_core.interop.notes import folder_fingerprint
from memory_core.interop.openai_format import Conversation
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.writing import read_opened, read_session

MAX_OPENED = 50
"""Conversations of one store that are opened at once."""

_BESIDE = ("", "-wal", "-journal")
"""Endings of the files in which a SQLite database changes."""

_log = logging.getLogger(__name__)


def open_store(path: Path, database: Database, *, services: Services, only: str | None = None) -> list[str]:
    """Open a store; the ids of the sessions that show it, the same whenever it is opened again.

    `only`: the name of one of its conversations.

    Raises:
        FormatError: it cannot be read, holds no conversation that can be shown, or has too many of them.
        StoreError: the database cannot be reached.
    """
    path = path.expanduser().resolve()
    if database.is_sqlite and str(path) == str(Path(database.engine.url.database or "").resolve()):
        raise problem(path.name, "is the database that it would be shown in. Give another --database.")
    preview = read_path(path)
    names = [listed.title for listed in preview.conversations]
    if not names:
        raise problem(path.name, f"is not opened where it lies: it is a {preview.label}. Import it in the app.")
    picked = [number for number, name in enumerate(names) if only in (None, name)]
    if not picked:
        raise problem(path.name, f"has no conversation called {only!r}.")
    if len(picked) > MAX_OPENED:
        raise problem(path.name, f"holds {len(picked):,} conversations. Choose one of them with --only NAME.")
    return [_open(path, preview, number, database, services) for number in picked]


def _open(path: Path, preview: Preview, number: int, database: Database, services: Services) -> str:
    conversation = preview.conversation(number)
    place = json.dumps({"path": str(path), "conversation": _name(preview, number)})
    session = Session(database, _free_id(database, place), services=services)
    title = conversation.title if conversation.title == path.name else f"{conversation.title} ({path.name})"
    create_or_join(
        session,
        title=title,
        user_id=None,
        # Nothing is ever flushed or cut here: the store's owner decides about that.
        config={"token_limit": MAX_TOKENS, "chat_history_token_ratio": 1.0},
        blocks=None,
        begun=AgentAttached(source="file", name=path.name),
    )
    _take_over(session, conversation)
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


def _name(preview: Preview, number: int) -> list[str | int]:
    """A conversation's name, and which of those that are called so."""
    names = [listed.title for listed in preview.conversations]
    return [names[number], names[:number].count(names[number])]


def _take_over(session: Session, conversation: Conversation) -> bool:
    return mirror(session, conversation.messages, archived=conversation.archived, blocks=conversation.blocks)


@dataclass(slots=True)
class StoreFollower:
    """Keeps the opened sessions of a database as their stores are; for one thread."""

    database: Database
    services: Services
    problems: Mapping[str, str] = field(default_factory=dict)
    """By session, why it shows what its store was earlier: the store is gone, or cannot be read."""
    _seen: dict[Path, object] = field(default_factory=dict)

    def look(self) -> int:
        """Read every store that has changed since the last look; the number of sessions that changed.

        Raises:
            StoreError: the database cannot be reached.
        """
        stores: dict[Path, dict[str, Any]] = {}
        with self.database.read() as connection:
            opened = read_opened(connection)
        for session_id, place in opened.items():
            followed = json.loads(place)
            stores.setdefault(Path(followed["path"]), {})[session_id] = followed["conversation"]
        changed = 0
        problems = {session: told for session, told in self.problems.items() if session in opened}
        for path, sessions in stores.items():
            now = fingerprint(path), list(sessions)
            if self._seen.get(path) == now:
                continue
            try:
                changed += self._read(path, sessions, problems)
            except FormatError as error:  # tried again once it has changed
                _log.warning("a store that is followed cannot be read: %s", type(error).__name__)
                problems.update(dict.fromkeys(sessions, str(error).removesuffix(" Nothing was imported.")))
            self._seen[path] = now
        self.problems = problems
        return changed

    def _read(self, path: Path, sessions: Mapping[str, Any], problems: dict[str, str]) -> int:
        """Read one store for the sessions that show conversations of it; how many changed."""
        preview = read_path(path)
        numbers = {json.dumps(_name(preview, n)): n for n in range(len(preview.conversations))}
        changed = 0
        for session_id, name in sessions.items():
            number = numbers.get(json.dumps(name))
            if number is None:
                problems[session_id] = f"{path.name} no longer holds this conversation."
                continue
            problems.pop(session_id, None)
            session = Session(self.database, session_id, services=self.services)
            session.open()
            changed += _take_over(session, preview.conversation(number))
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
