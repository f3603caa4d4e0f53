"""Conversations that LlamaIndex kept: a chat store as JSON, and the table of its SQL chat store.

A chat store holds several conversations by key. Messages that cannot be read are left out one by
one, each with its reason: a store is not a file that somebody wrote by hand.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.llamaindex_message import message_from_llamaindex, message_to_llamaindex, says_nothing
from memory_core.interop.located_json import check_size, problem
from memory_core.interop.openai_format import MAX_BYTES, Conversation, Listed, Note, Skipped, one_line
from memory_core.messages import ChatMessage

DEFAULT_TABLE = "llama_index_memory"
SQLITE_MAGIC = b"SQLite format 3\x00"

_COLUMNS = {"key", "role", "status", "timestamp", "data"}
_OUR_TABLE = "mi_session"
_MAX_STEPS = 20_000
"""Thousands of instructions of SQLite's machine that reading one file may take: about a minute."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """One key of a store: its messages as JSON values, oldest first."""

    key: str
    messages: tuple[Any, ...]
    archived: int = 0
    """Of them, how many had left the queue there."""

    @property
    def listed(self) -> Listed:
        return Listed(one_line(self.key) or "Conversation", len(self.messages))


def is_chat_store(value: Any) -> bool:
    """Is this JSON value a chat store, or a memory that holds one?"""
    return isinstance(value, dict) and _store_of(value) is not None


def read_chat_store(value: Mapping[str, Any], *, filename: str) -> tuple[StoredConversation, ...]:
    """The conversations of a chat store as JSON: one that was saved, or one inside a saved memory.

    Raises:
        FormatError: it holds none.
    """
    store = _store_of(value)
    if isinstance(store, dict):
        found = []
        for key, messages in store.items():
            if not isinstance(messages, list):
                raise problem(filename, f"cannot be imported: “{one_line(key)}” is not a list of messages.")
            found.append(StoredConversation(key, tuple(messages)))
    else:
        rows = [row for row in store or [] if isinstance(row, dict) and isinstance(row.get("key"), str)]
        found = _by_key((row["key"], row.get("data"), row.get("status")) for row in rows)
    found = [conversation for conversation in found if conversation.messages]
    if not found:
        raise problem(filename, "is a chat store without messages.")
    return tuple(found)


def read_table(data: bytes | Path, *, filename: str, max_bytes: int = MAX_BYTES) -> tuple[StoredConversation, ...]:
    """The conversations of LlamaIndex's SQL chat store in a SQLite file. The file is only ever read.

    What its writer has not brought into the file yet (its write-ahead log) is not seen.

    Raises:
        FormatError: it is not a SQLite database, is damaged, or has no such table.
    """
    check_size(len(data) if isinstance(data, bytes) else data.stat().st_size, max_bytes)
    try:
        with _opened(data) as connection:
            tables = _tables(connection)
            if not tables:
                ours = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_OUR_TABLE,)).fetchone()
                raise problem(filename, _not_theirs(ours is not None))
            found = [
                StoredConversation(
                    f"{each.key} ({table})" if len(tables) > 1 else each.key, each.messages, each.archived
                )
                for table in tables
                for each in _read_table(connection, table)
            ]
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(filename, f"cannot be read: it is a damaged SQLite database ({error}).") from error
    if not found:
        raise problem(filename, f"has no messages in its table {tables[0]}.")
    return tuple(found)


def read_stored(conversation: StoredConversation, *, filename: str) -> Conversation:
    """The messages of one key, with what is left out and why.

    Raises:
        FormatError: not one of them can be imported.
    """
    messages: list[ChatMessage] = []
    skipped: list[Skipped] = []
    notes: list[Note] = []
    for index, value in enumerate(conversation.messages):
        try:
            message, left_out = message_from_llamaindex(value)
        except MessageError as error:
            skipped.append(Skipped(None, index, str(error).removesuffix(".")))
            continue
        notes += [Note(None, index, note) for note in left_out]
        if says_nothing(message):
            skipped.append(Skipped(None, index, "no text"))
        else:
            messages.append(message)
    if not messages:
        reason = f": {skipped[0].reason}" if skipped else ""
        raise problem(filename, f"holds no messages that can be imported{reason}.")
    if conversation.archived:
        were = "1 message was" if conversation.archived == 1 else f"{conversation.archived:,} messages were"
        notes.append(Note(None, None, f"{were} archived there; here all are played in order"))
    return Conversation(tuple(messages), tuple(skipped), tuple(notes), conversation.listed.title)


def write_chat_store(conversations: Mapping[str, Sequence[ChatMessage]]) -> str:
    """Conversations by key as LlamaIndex's `SimpleChatStore` reads them."""
    store = {key: [message_to_llamaindex(message) for message in messages] for key, messages in conversations.items()}
    return json.dumps({"store": store, "class_name": "SimpleChatStore"}, ensure_ascii=False, indent=1)


def _store_of(value: Mapping[str, Any]) -> dict[str, Any] | list[Any] | None:
    """Container of the messages: by key in a simple store, as rows in one for SQL."""
    for name in ("chat_store", "sql_store"):
        if isinstance(inner := value.get(name), dict):
            return _store_of(inner)
    if isinstance(store := value.get("store"), dict):
        return store
    rows = value.get("db_data")
    return rows if isinstance(rows, list) and "table_name" in value else None


def _by_key(rows: Iterator[tuple[str, Any, Any]]) -> list[StoredConversation]:
    messages: dict[str, list[Any]] = {}
    archived: dict[str, int] = {}
    for key, data, status in rows:
        messages.setdefault(key, []).append(data)
        archived[key] = archived.get(key, 0) + (status == "archived")
    return [StoredConversation(key, tuple(found), archived[key]) for key, found in messages.items()]


# -- SQLite --------------------------------------------------------------------------------------


@contextmanager
def _opened(data: bytes | Path) -> Iterator[sqlite3.Connection]:
    """The file in a connection that can only read it, and not for ever."""
    with TemporaryDirectory(prefix="memory-inspector-") as folder:
        path = data if isinstance(data, Path) else Path(folder) / "upload.db"
        if isinstance(data, bytes):
            path.write_bytes(data)
        uri = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            steps = 0

            def still_allowed() -> int:
                nonlocal steps
                steps += 1
                return int(steps > _MAX_STEPS)

            connection.set_progress_handler(still_allowed, 1000)
            connection.execute("PRAGMA trusted_schema=OFF")
            connection.execute("PRAGMA query_only=ON")
            connection.execute("PRAGMA cell_size_check=ON")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 2 * MAX_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            connection.set_authorizer(_only_reading)
            yield connection


def _only_reading(action: int, *_: str | None) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA, sqlite3.SQLITE_FUNCTION)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Ordinary tables with the columns of a chat store, LlamaIndex's own name for it first."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' ORDER BY name <> ?, name"
    names = [str(name) for (name,) in connection.execute(query, (DEFAULT_TABLE,))]
    return [
        name
        for name in names
        if {row[1] for row in connection.execute(f"PRAGMA table_info({_quoted(name)})")} >= _COLUMNS
    ]


def _read_table(connection: sqlite3.Connection, table: str) -> list[StoredConversation]:
    query = f"SELECT key, data, status FROM {_quoted(table)} ORDER BY timestamp, rowid"
    return _by_key((str(key), _decoded(data), status) for key, data, status in connection.execute(query))


def _decoded(data: Any) -> Any:
    """A row's message; what is not JSON stays what it is, and is then no message."""
    try:
        return json.loads(data)
    except (ValueError, TypeError, RecursionError):
        return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _not_theirs(ours: bool) -> str:
    if ours:
        return (
            "is a database of Memory Inspector: start it with MEMORY_INSPECTOR_DATABASE_URL set to this file, "
            "or export a session from there."
        )
    return "is not a conversation: it is a SQLite database without a table of LlamaIndex messages."
