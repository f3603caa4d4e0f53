"""Conversations stored by LlamaIndex: a chat store as JSON, and the table of its SQL chat store.

A chat store holds several conversations by key. Unreadable messages are skipped individually, with a reason.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from memory_core.errors import problem
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_core.messages import ChatMessage, seconds_of
from memory_inspector.files.openai_format import one_line
from memory_inspector.files.stored import StoredConversation
from memory_inspector.files.stores.memory_stores import NAMES
from memory_inspector.files.stores.sqlite_file import StoreConnection, decoded, opened, quoted, tables_with

DEFAULT_TABLE = "llama_index_memory"

_COLUMNS = {"key", "role", "status", "timestamp", "data"}
_OUR_TABLE = "mi_session"
_ARCHIVED = "{} archived there, and here too. What blocks had learned is not in this table"


def is_chat_store(value: Any) -> bool:
    """Return whether a JSON value is a chat store, or a memory that contains one."""
    return isinstance(value, dict) and _store_of(value) is not None


def read_chat_store(value: Mapping[str, Any], *, filename: str) -> tuple[StoredConversation, ...]:
    """Parse the conversations of a chat store in JSON, saved by itself or inside a memory.

    Raises:
        FormatError: It has no conversations.
    """
    store = _store_of(value)
    if isinstance(store, dict):
        conversations = []
        for key, messages in store.items():
            if not isinstance(messages, list):
                raise problem(filename, f"cannot be imported: “{one_line(key)}” is not a list of messages.")
            conversations.append(StoredConversation(key, tuple(messages)))
    else:
        rows = [row for row in store or [] if isinstance(row, dict) and isinstance(row.get("key"), str)]
        conversations = _by_key((row["key"], row.get("data"), row.get("status"), row.get("timestamp")) for row in rows)
    # A key without messages is not offered.
    conversations = [conversation for conversation in conversations if conversation.messages]
    if not conversations:
        raise problem(filename, "is a chat store without messages.")
    return tuple(conversations)


def read_table(
    data: bytes | Path,
    *,
    filename: str,
    others: Callable[[StoreConnection], list[StoredConversation]] | None = None,
) -> tuple[StoredConversation, ...]:
    """Parse the conversations of LlamaIndex's SQL chat store in a SQLite file, opened read-only.

    `others` looks for other frameworks' conversations if the table is missing.

    With `data` as bytes, rows still in the write-ahead log are not seen.

    Raises:
        FormatError: The file is not a SQLite database, is damaged, or lacks the table.
    """
    try:
        with opened(data, filename=filename) as connection:
            # LlamaIndex's default name first
            tables = sorted(tables_with(connection, _COLUMNS), key=lambda name: name != DEFAULT_TABLE)
            if not tables and others is not None and (foreign := others(connection)):
                return tuple(foreign)
            if not tables:
                # The user may have taken the app's own database for a store of conversations.
                ours = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_OUR_TABLE,)).fetchone()
                agents = tables_with(connection, _CODING_AGENT)
                raise problem(filename, _CODE.format(filename) if agents else _not_theirs(ours is not None))
            conversations = [
                replace(conversation, key=f"{conversation.key} ({table})") if len(tables) > 1 else conversation
                for table in tables
                for conversation in _read_table(connection, table)
            ]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(filename, f"cannot be read: it is a damaged SQLite database ({error}).") from error
    if not conversations:
        raise problem(filename, f"has no messages in its table {tables[0]}.")
    return tuple(conversations)


def write_chat_store(conversations: Mapping[str, Sequence[ChatMessage]]) -> str:
    """Serialise conversations by key for LlamaIndex's `SimpleChatStore`."""
    store = {key: [message_to_llamaindex(message) for message in messages] for key, messages in conversations.items()}
    return json.dumps({"store": store, "class_name": "SimpleChatStore"}, ensure_ascii=False, indent=1)


def _store_of(value: Mapping[str, Any]) -> dict[str, Any] | list[Any] | None:
    """Return the container of messages: by key in a simple store, rows in an SQL store."""
    # A memory holds its store under one of these, possibly inside another memory.
    for name in ("chat_store", "sql_store"):
        if isinstance(inner := value.get(name), dict):
            return _store_of(inner)
    if isinstance(store := value.get("store"), dict):
        return store
    rows = value.get("db_data")
    return rows if isinstance(rows, list) and "table_name" in value else None


def _by_key(rows: Iterator[tuple[str, Any, Any, Any]]) -> list[StoredConversation]:
    by_key: dict[str, list[tuple[Any, bool, float | None]]] = {}
    for key, data, status, timestamp in rows:
        by_key.setdefault(key, []).append((data, status == "archived", seconds_of(timestamp)))
    return [_conversation(key, messages) for key, messages in by_key.items()]


def _conversation(key: str, rows: list[tuple[Any, bool, float | None]]) -> StoredConversation:
    messages, archived_flags, times = zip(*rows, strict=True)
    archived = frozenset(index for index, gone in enumerate(archived_flags) if gone)
    notes = (_ARCHIVED.format("1 message is" if len(archived) == 1 else f"{len(archived):,} messages are"),)
    return StoredConversation(key, messages, archived, times, notes=notes if archived else ())


# -- SQLite --------------------------------------------------------------------------------------


def _read_table(connection: sqlite3.Connection, table: str) -> list[StoredConversation]:
    query = f"SELECT key, data, status, timestamp FROM {quoted(table)} ORDER BY timestamp, rowid"
    rows = connection.execute(query)
    return _by_key((str(key), decoded(data), status, timestamp) for key, data, status, timestamp in rows)


_CODING_AGENT = {"message_id", "session_id", "data"}
"""Columns of the parts of messages in a coding agent's database."""

_CODE = "is a database of OpenCode, a coding agent: `memory-inspector code {0}` shows its sessions."


def _not_theirs(ours: bool) -> str:
    if ours:
        return (
            "is a database of Memory Inspector: start it with MEMORY_INSPECTOR_DATABASE_URL set to this file, "
            "or export a session from there."
        )
    return (
        "is not a conversation: it is a SQLite database without a table of messages that is known "
        "(LlamaIndex, OpenAI Agents, LangChain, LangGraph, Agno, Google ADK). "
        f"For facts of {NAMES}: `memory-inspector open`."
    )
