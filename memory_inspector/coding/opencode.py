"""Read the sessions of OpenCode, rows of `~/.local/share/opencode/opencode.db`, also while it writes.

Read from a database that 1.18.33 wrote, 2026-11-29. A message with its parts makes a record. A compaction is a message
of the user with a part `compaction`, its summary the answer to it. A fork is a copy with new ids. Deleted messages stay
in a log. The system prompt, with memory files in it, and tools are not in the file.

Rows are read from a copy of the database, one for all of its sessions; the path of a session is the database's with the
session's id below it. A message that was taken back waits to be deleted until the next word; then only the log of
events has it.
"""

import math
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar

from memory_core.errors import FormatError
from memory_inspector.coding.plain_reader import PlainReader, stated
from memory_inspector.coding.record_file import SourceOpener
from memory_inspector.coding.transcript import (
    Boundary,
    Record,
    TranscriptItem,
    as_amount,
    as_count,
    as_mapping,
    as_milliseconds,
    as_text,
    as_usage,
    item,
    objects,
    reasons_by_name,
)
from memory_inspector.files.stores.sqlite_file import decoded, opened, tables_with

_HEADS = """SELECT id, parent_id, title, directory, version, (SELECT count(*) FROM part WHERE session_id = session.id),
    max(time_updated, coalesce((SELECT max(time_updated) FROM part WHERE session_id = session.id), 0)) FROM session"""
_MESSAGES = "SELECT session_id, id, data FROM message WHERE ? IN ('', session_id) ORDER BY time_created, id"
_EVENTS = "SELECT type, data FROM event WHERE aggregate_id = ? AND type GLOB ? ORDER BY seq"
_PARTS = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id"

Row = Mapping[str, Any]


@dataclass(slots=True)
class _State:
    """The sessions of a database at one moment, with their messages but without the parts of these."""

    moment: object = None
    heads: dict[str, tuple[Row, int, float]] = field(default_factory=dict)
    """Description, number of parts and time of the last write in seconds since 1970, by id."""
    messages: dict[str, list[Row]] = field(default_factory=dict)


_STATES: dict[Path, _State] = {}
_LOCK = threading.Lock()


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with opened(path, filename=path.name) as connection:
            yield connection
    except FormatError as error:
        raise FormatError(str(error).removesuffix(" Nothing was imported.")) from error
    except (sqlite3.Error, OSError) as error:
        raise FormatError(f"{path.name} is not a database of OpenCode that can be read: {error}.") from error


def _state(database: Path) -> _State:
    """Return the sessions of a database, read again once it was written: a copy serves all of its sessions."""
    with _LOCK:
        try:
            status = [os.stat(path) for path in (database, f"{database}-wal") if os.path.exists(path)]
            moment = [(one.st_size, one.st_mtime_ns) for one in status]
            if not moment or database not in _STATES or _STATES[database].moment != moment:
                with _connected(database) as connection:
                    _STATES[database] = _read(connection, moment)
        except FormatError:
            # One that is written all the time is read at a later look.
            if database not in _STATES or not database.exists():
                raise
        return _STATES[database]


def _read(connection: sqlite3.Connection, moment: object) -> _State:
    state = _State(moment)
    for id, parent, title, folder, version, parts, changed in connection.execute(_HEADS):
        about = {"id": id, "parent": parent, "title": title, "folder": folder, "version": version}
        state.heads[as_text(id)] = {"session": about}, as_count(parts), as_milliseconds(changed) or 0.0
    for session, id, text in connection.execute(_MESSAGES, ("",)):
        state.messages.setdefault(session, []).append({"id": id, "info": as_mapping(decoded(text)), "parts": []})
    return state


def sessions_in(database: Path) -> Iterator[tuple[Path, int, float]]:
    """Yield the path of each session that is no subagent's, the number of its parts, and the time of its last write.

    Those of its subagents count with it.

    Raises:
        FormatError: the database cannot be read, or is not OpenCode's.
    """
    families: dict[str, list[tuple[int, float]]] = {}
    heads = _state(database).heads
    for id, (head, parts, changed) in heads.items():
        families.setdefault(as_text(head["session"]["parent"]) or id, []).append((parts, changed))
    for id, members in families.items():
        if id in heads and not heads[id][0]["session"]["parent"]:
            yield database / id, sum(parts for parts, _ in members), max(changed for _, changed in members)


def subagents_of(session: Path) -> list[str]:
    """Return the ids of the sessions that have one as their parent, as far as its database was read."""
    state = _STATES.get(session.parent, _State())
    return [id for id, (head, *_) in state.heads.items() if head["session"]["parent"] == session.name]


class OpenCodeRows:
    """The rows of a session as records: its description, then its messages with their parts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at_end, self.size = False, 0
        self._seen: object = None
        self._records: list[Row] = []

    def starts_again(self) -> bool:
        """Return whether the session was written since it was read: then all of it was."""
        heads = _state(self.path.parent).heads
        if self.path.name not in heads:
            raise FormatError(f"{self.path.parent.name} has no session {self.path.name}.")
        seen, self._seen = self._seen, heads[self.path.name]
        self.at_end = self.at_end and seen == self._seen
        return not self.at_end

    def new_records(
        self, wanted: Callable[[bytes], bool] | None = None, until: float = math.inf
    ) -> Iterator[tuple[int, Row]]:
        """Yield all records, once for each time that they were written; without their parts for a list."""
        if not self.at_end:
            state, self.at_end = _state(self.path.parent), True
            messages = state.messages.get(self.path.name, [])
            # A list needs no parts, which are most of the database.
            self._records = [state.heads[self.path.name][0], *(messages if wanted else self._messages())]
            yield from enumerate(self._records, 1)

    def record(self, line: int) -> Row:
        """Return a record again."""
        return self._records[line - 1] if 0 < line <= len(self._records) else {}

    def _messages(self) -> Iterator[Row]:
        """Yield the messages, and where the program took results of tools out of the prompt, the ids of these."""
        parts: dict[str, list[Row]] = {}
        cleared: list[tuple[float, str]] = []
        with _connected(self.path.parent) as connection:
            rows = connection.execute(_MESSAGES, (self.path.name,)).fetchall()
            self.size = sum(map(_length, (text for *_, text in rows)))
            for id, text in connection.execute(_PARTS, (self.path.name,)):
                self.size += _length(text)
                part = as_mapping(decoded(text))
                parts.setdefault(id, []).append(part)
                when = as_amount(as_mapping(as_mapping(part.get("state")).get("time")).get("compacted"))
                cleared += [(when, as_text(part.get("callID")))] if when else []
            stay = [{"id": id, "info": as_mapping(decoded(text)), "parts": parts.get(id, [])} for _, id, text in rows]
            messages = list(_with_taken_back(connection, self.path.name, stay))
        for message in messages:
            at = as_amount(as_mapping(as_mapping(message.get("info")).get("time")).get("created"))
            # A result that was taken out is in the prompts before that time.
            if gone := [tool for when, tool in cleared if when <= at]:
                yield {"cleared": gone}
                cleared = [one for one in cleared if one[0] > at]
            yield message


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str | bytes) else 0


def _with_taken_back(connection: sqlite3.Connection, session: str, messages: Sequence[Row]) -> Iterator[Row]:
    """Yield the messages with the deleted ones among them, each run of these followed by `{"back_before": ID}`."""
    logs = "event" in tables_with(connection, ("aggregate_id", "seq", "type", "data"))
    deletes = logs and connection.execute(_EVENTS, (session, "message.removed*")).fetchone()
    yield from _replayed(connection, session, messages) if deletes else messages
    if "session" in tables_with(connection, ("revert",)):
        for (text,) in connection.execute("SELECT revert FROM session WHERE id = ?", (session,)):
            if id := as_text(as_mapping(decoded(text)).get("messageID")):
                yield {"back_before": id}


def _replayed(connection: sqlite3.Connection, session: str, messages: Sequence[Row]) -> Iterator[Row]:
    stay = {as_text(row["id"]): row for row in messages}
    infos: dict[str, Row] = {}  # by the id of a message, in the order in which they were begun
    parts: dict[str, dict[str, Row]] = {}
    order: list[tuple[bool, str]] = []
    for kind, text in connection.execute(_EVENTS, (session, "message.*")):
        data = as_mapping(decoded(text))
        info, part = as_mapping(data.get("info")), as_mapping(data.get("part"))
        id = as_text(info.get("id")) or as_text(part.get("messageID")) or as_text(data.get("messageID"))
        is_removed = str(kind).startswith("message.removed")
        if is_removed or id not in infos:
            order.append((is_removed, id))
        infos[id] = info or infos.get(id, {})
        if part and id not in stay:
            parts.setdefault(id, {})[as_text(part.get("id"))] = part
    removed, places = {id for gone, id in order if gone}, list(infos)
    yield from (row for id, row in stay.items() if id not in infos)  # from before the log began
    for gone, run in groupby(order, key=lambda entry: entry[0]):
        ids = [id for _, id in run]
        if gone:
            yield {"back_before": min(ids, key=places.index)}
            continue
        for id in ids:
            if id in stay:
                yield stay[id]
            elif id in removed:
                yield {"id": id, "info": infos[id], "parts": [part for _, part in sorted(parts.get(id, {}).items())]}


# -- records to values ---------------------------------------------------------------------------


class OpenCodeReader(PlainReader):
    """Reads the records of one session."""

    program = "OpenCode"
    unseen = "the system prompt, with memory files in it"
    source: ClassVar[SourceOpener] = OpenCodeRows
    reasons = reasons_by_name(
        {
            "step of an answer": "step-start step-finish snapshot patch retry agent",
            "request of a compaction": "compaction",
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._ids: list[str] = []
        self._before: dict[str, str | None] = {}  # record before each message
        self._compactions: dict[str, Row] = {}  # by the message that asks for it

    @staticmethod
    def sessions(path: Path) -> Iterable[tuple[Path, int, float]]:
        """Return the sessions of a database, each with the number of its parts."""
        return sessions_in(path)

    @staticmethod
    def knows(record: Row) -> bool:
        """Return whether a record describes a session."""
        return "session" in record

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the sessions of the same database that name it as their parent, or that calls of tools name."""
        return {name: session.with_name(name) for name in [*subagents_of(session), *named]}

    def read(self, record: Row, line: int) -> Sequence[Record]:
        """Return the values of one record."""
        if "session" in record:
            session = as_mapping(record["session"])
            about = stated(**{key: as_text(session.get(key)) for key in ("title", "folder", "version")})
            return [Record(line, "session", left_out="description of the session", about=about)]
        parent = self.last
        if "cleared" in record:
            self.last = f"line {line}"
            gone = frozenset(map(as_text, record["cleared"] if isinstance(record["cleared"], list) else ()))
            return [Record(line, "cleared", self.last, parent, boundary=Boundary("auto", clears=gone))]
        if back := as_text(record.get("back_before")):
            before, self.last = self._before.get(back, self.last), f"line {line}"
            self._ids = self._ids[: self._ids.index(back)] if back in self._ids else self._ids
            return [Record(line, "revert", self.last, before, left_out="note of a rewind", goes_back=True)]
        info, parts = as_mapping(record.get("info")), [part for _, part in objects(record.get("parts"))]
        id, role = as_text(record.get("id")), as_text(info.get("role"))
        at = as_milliseconds(as_mapping(info.get("time")).get("created"))
        items = [one for number, part in enumerate(parts) for one in self._part(role, part, line, number, at)]
        tokens = as_mapping(info.get("tokens"))
        counted = {**tokens, **as_mapping(tokens.get("cache"))}
        usage = as_usage(counted, "input read write output+reasoning", whole=False, dollars=info.get("cost"))
        boundary = None
        for part in parts:
            if part.get("type") == "compaction":
                self._compactions[id] = part
        if info.get("summary") is True and info.get("finish") and not info.get("error"):
            asked = self._compactions.get(as_text(info.get("parentID")), {})
            trigger = "auto" if asked.get("auto") is True else "manual" if "auto" in asked else ""
            # Messages from this one on stay beside the summary.
            tail = as_text(asked.get("tail_start_id"))
            staying = self._ids[self._ids.index(tail) :] if tail in self._ids else []
            boundary = Boundary(trigger, None, parent or "", keeps=tuple(staying))
            items = [
                item("summary", one.text, line=line, part=one.part, at=at) for one in items if one.kind == "assistant"
            ]
        shown = bool(items or usage or boundary)
        types = (as_text(part.get("type")) for part in parts)
        reason = next((self.reasons[kind] for kind in types if kind in self.reasons), "message without text")
        self._ids.append(id)
        self._before[id] = parent
        self.last = id if shown else parent
        model = as_text(info.get("modelID")) if usage else ""
        made = tuple(items)
        about = {f"lane {name}": call for part in parts for name, call in _lane(part)}
        left_out = "" if shown else reason
        return [Record(line, role, id, parent, at, made, "", model, usage, boundary, left_out=left_out, about=about)]

    def _part(self, role: str, part: Row, line: int, number: int, at: float | None) -> Iterator[TranscriptItem]:
        place = {"line": line, "part": 2 * number, "at": at}
        kind, text = as_text(part.get("type")), as_text(part.get("text"))
        speaker: Any = "injected" if part.get("synthetic") is True else "assistant" if role == "assistant" else "user"
        match kind:
            case "text":
                if text.strip() and part.get("ignored") is not True:
                    yield item(speaker, text, **place)
            case "reasoning":
                if text.strip():
                    yield item("thinking", text, **place)
            case "tool":
                state, tool_id = as_mapping(part.get("state")), as_text(part.get("callID"))
                yield self.called(as_text(part.get("tool")), tool_id, state.get("input"), place)
                if state.get("status") in ("completed", "error"):
                    yield self.returned(
                        tool_id, state.get("output", state.get("error")), {**place, "part": 2 * number + 1}
                    )
            case "file":
                yield item(
                    speaker,
                    f"({as_text(part.get('mime')) or 'file'})",
                    path=as_text(part.get("filename")),
                    images=1,
                    **place,
                )
            case "subtask":
                yield item("injected", as_text(part.get("prompt")), tool="subtask", **place)
            case _ if kind not in self.reasons:
                yield item("injected", f"(part of an unknown type: {kind})", **place)


def _lane(part: Row) -> Iterator[tuple[str, str]]:
    """Yield the subagent's session that a call of a tool started, with the call's id."""
    if session := as_text(as_mapping(as_mapping(part.get("state")).get("metadata")).get("sessionId")):
        yield session, as_text(part.get("callID"))
