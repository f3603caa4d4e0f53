"""LangGraph's SQLite checkpoints: each thread's messages, including those dropped before the newest checkpoint.

Checkpoints are untrusted: serialised objects are read as plain fields. No class is instantiated, no module imported,
and nothing unpickled.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memory_core.errors import LimitError, MessageError, problem
from memory_core.formats.any_message import read_messages
from memory_core.limits import Budget
from memory_core.messages import MAX_DEPTH, ChatMessage, seconds_of
from memory_inspector.files.stored import StoredConversation, counted
from memory_inspector.files.stores.sqlite_file import StoreConnection, quoted, tables_with

_COLUMNS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint"})
_MODELS = (4, 5)
"""Msgpack extension types of LangGraph's pydantic models: module, class, fields and constructor."""
_INTERNAL = ("__", "branch:")
"""Prefixes of LangGraph's internal channels."""

Unpack = Callable[[bytes], Any]


@dataclass(frozen=True, slots=True)
class _Model:
    """Fields of a serialised pydantic object."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    at: float | None
    state: Mapping[str, Any]


def threads_of(connection: StoreConnection, filename: str) -> list[StoredConversation]:
    """Return all threads of LangGraph's tables in a SQLite file.

    Raises:
        FormatError: A checkpoint is damaged or unsupported, or the msgpack package is not installed.
    """
    return [
        _thread(connection, table, str(thread), filename)
        for table in tables_with(connection, _COLUMNS)
        for (thread,) in connection.execute(
            # Other namespaces are those of subgraphs, whose messages are not the thread's.
            f"SELECT DISTINCT thread_id FROM {quoted(table)} WHERE checkpoint_ns = '' ORDER BY thread_id"
        ).fetchall()
    ]


def _thread(connection: StoreConnection, table: str, thread: str, filename: str) -> StoredConversation:
    """Return a thread at its newest checkpoint; messages only in its ancestors are archived."""
    line = [_decoded(*row, filename=filename, budget=connection.budget) for row in _line(connection, table, thread)]
    last = line[-1]
    # The first checkpoint of a run may hold the user's message only as the graph's input.
    inputs = _graph_inputs(last.state)
    entries: dict[str, tuple[Any, float | None]] = {}
    for checkpoint in line:
        for entry in [*_messages(checkpoint.state), *(inputs if checkpoint is last else ())]:
            key = _key(entry)
            # Keep the newest content of a message, with the time of the first checkpoint that has it.
            entries[key] = entry, entries[key][1] if key in entries else checkpoint.at
    newest = {_key(entry): None for entry in [*_messages(last.state), *inputs]}
    older = [key for key in entries if key not in newest]
    # One entry may become several messages, which share its place and time.
    read = [(key, message) for key in [*older, *newest] for message in _read(entries[key][0])]
    notes = []
    if older:
        notes.append(
            f"{'1 message' if len(older) == 1 else f'{len(older):,} messages'} of earlier checkpoints had left the "
            "thread’s state: archived here"
        )
    others = [name for name in last.state if name != "messages" and not name.startswith(_INTERNAL)]
    if others:
        notes.append(f"of the state only messages are imported, not {counted(others)}")
    return StoredConversation(
        thread,
        tuple(message for _, message in read),
        frozenset(n for n, (key, _) in enumerate(read) if key not in newest),
        tuple(entries[key][1] for key, _ in read),
        notes=tuple(notes),
    )


def _line(connection: StoreConnection, table: str, thread: str) -> list[tuple[Any, Any]]:
    """Return type and bytes of the newest checkpoint and its ancestors, oldest first, without other branches."""
    query = (
        f"SELECT checkpoint_id, parent_checkpoint_id, type, checkpoint FROM {quoted(table)} "
        "WHERE thread_id = ? AND checkpoint_ns = '' ORDER BY checkpoint_id"
    )
    rows = {row[0]: row[1:] for row in connection.execute(query, (thread,))}
    line: list[tuple[Any, Any]] = []
    # Ids of checkpoints sort by time.
    current = max(rows, default=None)
    while current in rows:
        # Removed from `rows`, so that a parent that names a descendant ends the loop.
        parent, kind, data = rows.pop(current)
        line.append((kind, data))
        current = parent
    return line[::-1]


def _decoded(kind: Any, data: Any, *, filename: str, budget: Budget) -> _Checkpoint:
    # Other types, such as pickle, are refused: unpickling runs code of the file.
    if kind not in ("msgpack", "json"):
        raise problem(
            filename,
            f"holds checkpoints of the type “{str(kind)[:40]}”, which are not read: only msgpack and JSON are.",
        )
    unpack = json.loads if kind == "json" else _unpacker(filename, budget)
    try:
        value = unpack(bytes(data) if kind == "msgpack" else data)
    except LimitError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise problem(filename, "cannot be read: one of its checkpoints is damaged.") from error
    state = value.get("channel_values") if isinstance(value, dict) else None
    if not isinstance(state, dict):
        raise problem(filename, "holds checkpoints of a version of LangGraph that is not known.")
    return _Checkpoint(seconds_of(value.get("ts")), {str(name): content for name, content in state.items()})


def _unpacker(filename: str, budget: Budget) -> Unpack:
    try:
        import msgpack
    except ImportError as error:
        raise problem(
            filename,
            "holds LangGraph's checkpoints, and reading them needs msgpack: pip install 'memory-inspector[stores]'.",
        ) from error

    def counted(container: Any) -> Any:
        # Called for each container while it is unpacked, as nothing counts msgpack before.
        budget.take(items=1 + len(container))
        return container

    def unpack(data: bytes, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:  # extensions nest recursively
            raise RecursionError
        hooks = {"ext_hook": partial(model, depth + 1), "object_hook": counted, "list_hook": counted}
        return msgpack.unpackb(data, strict_map_key=False, **hooks)

    def model(depth: int, code: int, data: bytes) -> Any:
        """Decode a pydantic model's fields; other object types become None."""
        if code not in _MODELS:
            return None
        written = unpack(data, depth)
        fields = written[2] if isinstance(written, list) and len(written) > 2 else None
        return _Model(fields) if isinstance(fields, dict) else None

    return unpack


def _messages(state: Mapping[str, Any]) -> Sequence[Any]:
    messages = state.get("messages")
    return messages if isinstance(messages, list) else ()


def _graph_inputs(state: Mapping[str, Any]) -> Sequence[Any]:
    """Return the graph's input messages if they have not entered its state yet."""
    begun = state.get("__start__")
    return _messages(begun) if "messages" not in state and isinstance(begun, dict) else ()


def _key(entry: Any) -> str:
    """Return a message's identity across checkpoints: its id, or else its content."""
    fields = _fields(entry)
    return str(fields.get("id") or json.dumps(fields, sort_keys=True, default=str))


def _fields(entry: Any) -> Mapping[str, Any]:
    """Return a message's fields from any serialised form."""
    match entry:
        case _Model(fields):
            return fields
        case {"lc": _, "id": [*_, str(name)], "kwargs": dict(fields)}:
            return {"type": name, **fields}
        case dict():
            return entry
        case [str(role), content]:
            return {"role": role, "content": content}
        case str():
            return {"role": "user", "content": entry}
    return {}


def _read(entry: Any) -> list[ChatMessage] | list[MessageError]:
    """Return the messages of an entry, or the reason it is unreadable."""
    try:
        return read_messages(entry if isinstance(entry, dict) and "lc" in entry else dict(_fields(entry)))
    except MessageError as error:
        return [error]
