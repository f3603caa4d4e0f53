"""Retention: choose the sessions that leave a memory by age and size, archive and delete them.

What a person wrote or pinned never leaves this way: a session that has any of it stays, whatever its age.
"""

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, LargeBinary, Select, case, cast, func, select

from memory_core.bundles.bundle import read_bundle, write_bundle
from memory_core.errors import ConflictError, FormatError, NotFoundError
from memory_core.sessions.overview import delete_session
from memory_core.store.database import Database
from memory_core.store.leases import running_agents
from memory_core.store.tables import (
    USERS,
    block_revision_table,
    block_table,
    content_table,
    entity_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    model_output_table,
    relation_table,
    vector_table,
    word_vector_table,
)
from memory_core.store.writing import SessionState, read_existing, read_sessions, session_scope, user_scope
from memory_core.vectors.vector_index import VectorIndex

_b, _e, _f = block_revision_table.c, event_table.c, fact_table.c


class NewFile(type(Path())):  # type: ignore[misc]  # `Path` itself cannot be subclassed before Python 3.12
    """The path of a file that did not exist before the call that returns it."""


@dataclass(frozen=True, slots=True)
class SessionSize:
    """A session with its age and its share of the database."""

    session_id: str
    title: str
    user_id: str | None
    used_at: float
    """Time of the last change, in seconds since the epoch."""
    messages: int
    events: int
    vectors: int
    """Number of stored turns."""
    summaries: int
    bytes: int
    """Bytes of its texts, events, vectors and cached model outputs; the database also needs some for its indexes."""
    reasons: tuple[str, ...]
    """Reasons for which it stays whatever its age; empty: it may leave."""


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """The sessions that leave, and what stays."""

    leaving: tuple[SessionSize, ...]
    """Oldest first."""
    staying: tuple[SessionSize, ...]
    """Sessions that are old enough to leave, or would have to make room, and stay for a reason."""
    total_bytes: int
    """Bytes of all sessions and users, counted as in `SessionSize.bytes`."""
    shared_facts: int
    """Facts of users that were learned in a leaving session. They stay."""
    unsourced_facts: int
    """Number of these that have no source in another session."""
    pinned_facts: int
    """Pinned facts of all sessions and users. They stay."""

    @property
    def freed_bytes(self) -> int:
        return sum(session.bytes for session in self.leaving)


def plan_retention(
    database: Database, *, now: float, used_before: float | None = None, max_bytes: int | None = None
) -> RetentionPlan:
    """Choose the sessions last used before a time, and then the oldest others until at most `max_bytes` are left.

    Times are in seconds since the epoch. Nothing is changed.
    """
    with database.read() as connection:
        sizes, total = _read_sizes(connection, now)
        leaving, staying, rest = list[SessionSize](), list[SessionSize](), total
        for size in sorted(sizes, key=lambda size: (size.used_at, size.session_id)):
            old = used_before is not None and size.used_at < used_before
            if not old and (max_bytes is None or rest <= max_bytes):
                continue
            if size.reasons:
                staying.append(size)
            else:
                leaving.append(size)
                rest -= size.bytes
        sources = _shared_sources(connection)
        pinned = connection.execute(select(func.count()).where(_f.pinned)).scalar_one()
    gone = {size.session_id for size in leaving}
    losing = [sessions for sessions in sources.values() if sessions & gone]
    lost = sum(sessions <= gone for sessions in losing)
    return RetentionPlan(tuple(leaving), tuple(staying), total, len(losing), lost, pinned)


def delete_old_sessions(
    database: Database,
    index: VectorIndex,
    plan: RetentionPlan,
    *,
    archive: Callable[[str], Path] | None = None,
    progress: Callable[[SessionSize, Path | None], None] = lambda session, file: None,
) -> dict[str, str]:
    """Delete the leaving sessions of a plan; return, by session id, why some of them stayed.

    `archive` stores a session as a file and returns its path, as a `NewFile` if the file may be taken back where the
    session stays. A session that it refuses stays, and so does one that was used since the plan was made. Other
    programs can write, and delete sessions, all the while; what they deleted is passed over.
    """
    refused: dict[str, str] = {}
    for session in plan.leaving:
        id, file = session.session_id, None
        try:
            file = archive(id) if archive is not None else None
            stored = partial(_check_archive, file)
            delete_session(database, id, unused_since=session.used_at, index=index, check=stored)
        except NotFoundError:
            continue  # the file stays: it may be the only copy
        except (ConflictError, FormatError) as error:
            refused[id] = str(error)
            if isinstance(file, NewFile):
                _take_back(database, id, file)
        else:
            progress(session, file)
    return refused


def _check_archive(file: Path | None) -> None:
    """Check that a session's archive exists; under the session's lock, where none is taken back."""
    if file is not None and not file.exists():
        raise ConflictError("Its archive was taken back by another program. Nothing of it was deleted.")


def _take_back(database: Database, session_id: str, file: NewFile) -> None:
    """Remove the archive of a session that goes on, as its next one will have more; keep that of a deleted one."""
    with suppress(NotFoundError), database.write() as connection:
        read_existing(connection, session_id, lock=not database.is_sqlite)
        file.unlink(missing_ok=True)


def _read_sizes(connection: Connection, now: float) -> tuple[list[SessionSize], int]:
    """Return the sizes of all sessions, and the bytes of everything, that of users included."""
    # A person's changes of a graph are only in the log: its rows have no history. So are those of quarantine.
    by_hand = _e.actor.in_(USERS) & (_e.kind.like("entity%") | _e.kind.like("relation%"))
    chosen = case((by_hand | _e.kind.like("quarantine%"), 1), else_=0)
    log = select(_e.session_id, func.count(), _bytes(connection, _e.data), func.sum(chosen)).group_by(_e.session_id)
    events = {id: (int(count), int(size), int(hand)) for id, count, size, hand in connection.execute(log)}
    vectors = _by_owner(connection, vector_table.c.session_id, vector_table.c.embedding)
    outputs = _by_owner(connection, model_output_table.c.session_id, model_output_table.c.data)
    texts = _by_owner(connection, content_table.c.scope, content_table.c.data)
    words = _by_owner(connection, word_vector_table.c.scope, word_vector_table.c.embedding)
    summary = select(block_table.c.session_id).where(block_table.c.type == "summary", block_table.c.text.is_not(None))
    summaries = Counter(connection.execute(summary).scalars())
    sessions = read_sessions(connection)
    reasons = _reasons(connection, sessions, now, {id for id, (_, _, hand) in events.items() if hand})
    sizes = [
        SessionSize(
            session_id=s.id,
            title=s.title,
            user_id=s.user_id,
            used_at=s.updated_at,
            messages=s.messages,
            events=events.get(s.id, (0, 0, 0))[0],
            vectors=vectors.get(s.id, (0, 0))[0],
            summaries=summaries[s.id],
            bytes=events.get(s.id, (0, 0, 0))[1]
            + vectors.get(s.id, (0, 0))[1]
            + outputs.get(s.id, (0, 0))[1]
            + texts.get(s.scope, (0, 0))[1]
            + words.get(s.scope, (0, 0))[1],
            reasons=tuple(reason for reason, ids in reasons.items() if s.id in ids),
        )
        for s in sessions
    ]
    others = (size for owners in (vectors, outputs, texts, words) for _, size in owners.values())
    return sizes, sum(size for _, size, _ in events.values()) + sum(others)


def _reasons(
    connection: Connection, sessions: Iterable[SessionState], now: float, changed_by_hand: Collection[str]
) -> dict[str, set[str]]:
    """Return the ids of the sessions that stay, by reason."""

    def owners(query: Select[Any]) -> set[str]:
        return {scope.removeprefix(session_scope("")) for scope in connection.execute(query.distinct()).scalars()}

    revision = fact_revision_table.c
    revised = select(revision.fact_id).where(revision.actor.in_(USERS))
    by_agent = select(revision.fact_id).where(revision.version == 1, revision.actor == "agent")
    # As in `fact_rows.read_protected`: an agent's tools write facts, too.
    written = _f.id.in_(revised) | ((_f.origin == "written") & _f.id.not_in(by_agent))
    graphs = (select(table.c.scope).where(table.c.origin == "written") for table in (entity_table, relation_table))
    return {
        "it has pinned facts": owners(select(_f.scope).where(_f.pinned)),
        "a person wrote facts in it": owners(select(_f.scope).where(written)),
        "a person wrote a text in it": owners(select(_b.session_id).where(_b.actor.in_(USERS))),
        "a person changed its graph or quarantine": set(changed_by_hand).union(*map(owners, graphs)),
        "it has probes or watched phrases": {s.id for s in sessions if s.probes or s.watched},
        "an agent works in it": set(running_agents(connection, now)),
    }


def _shared_sources(connection: Connection) -> dict[int, set[str]]:
    """Return the sessions with a source of each fact of a user, by the fact's id."""
    source = fact_source_table.c
    shared = _f.scope.startswith(user_scope(""), autoescape=True)
    query = select(source.fact_id, source.session_id).join(fact_table, _f.id == source.fact_id).where(shared).distinct()
    sources: dict[int, set[str]] = {}
    for fact, session in connection.execute(query):
        sources.setdefault(fact, set()).add(session)
    return sources


def _by_owner(
    connection: Connection, owner: ColumnElement[str], data: ColumnElement[Any]
) -> dict[str, tuple[int, int]]:
    query = select(owner, func.count(), _bytes(connection, data)).group_by(owner)
    return {key: (int(count), int(size)) for key, count, size in connection.execute(query)}


def _bytes(connection: Connection, data: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the SQL expression for the total bytes of a column's values."""
    # The length of a text is in characters on SQLite, and its `octet_length` is missing before version 3.43.
    sqlite = connection.dialect.name == "sqlite"
    return func.sum(func.length(cast(data, LargeBinary)) if sqlite else func.octet_length(data))


# -- archive whole sessions as bundles in a folder, each verified by reading it back ---------------


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
