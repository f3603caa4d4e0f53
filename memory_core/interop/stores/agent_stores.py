"""Conversations stored by agent frameworks: OpenAI Agents sessions, LangChain histories, Agno's runs.

Tables are recognised by their columns, because all these frameworks let users rename the tables. Unreadable messages
are skipped with a reason.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.attach.mirroring import MirroredBlock, TextVersion
from memory_core.errors import MessageError
from memory_core.formats.any_message import langchain_fields, read_messages, unread_notes
from memory_core.formats.openai_items import messages_from_items
from memory_core.interop.stored import StoredConversation
from memory_core.interop.stores.sqlite_file import decoded, quoted, tables_with
from memory_core.messages import ChatMessage

Read = ChatMessage | MessageError
"""A message, or the reason it cannot be read."""

_ITEM_TYPES = ("reasoning", "compaction", "item_reference", "mcp_list_tools")
_ITEM_ENDINGS = ("_call", "_output", "_request", "_response")
"""Responses API item types besides messages, and suffixes of the remaining ones."""


_BRANCHES, _MAIN = frozenset({"session_id", "message_id", "branch_id", "sequence_number"}), "main"
"""Columns of the Agents SDK's branch table, and the name of its default branch."""


@dataclass(frozen=True, slots=True)
class _Table:
    """A framework's table: columns that identify it, sort order, and a parser for one session's rows."""

    columns: frozenset[str]
    data: str
    order: str
    read: Callable[[list[Any]], list[Read]]


def conversations_of(connection: sqlite3.Connection) -> list[StoredConversation]:
    """Return all conversations of the frameworks' tables in a SQLite file, titled by session."""
    return [
        StoredConversation(title, tuple(table.read(lane)), blocks=_summary(connection, title) if is_agno else ())
        for table in _TABLES
        for is_agno in [table.read is _agno]
        for name in tables_with(connection, table.columns)
        for session, rows in _by_session(connection, name, table).items()
        for title, lane in (_by_member(session, rows) if is_agno else {session: rows}).items()
    ]


def conversation_in(value: Any) -> StoredConversation | None:
    """Return the conversation of a JSON list (Responses API items, or LangChain's messages); None for others."""
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return None
    if all(langchain_fields(entry) is not None for entry in value):
        return StoredConversation("Conversation", tuple(_langchain(value)), notes=tuple(unread_notes(value)))
    # Messages of the Responses API look like any others; one typed item identifies the format.
    if any("role" not in entry and _is_item(str(entry.get("type"))) for entry in value):
        return StoredConversation("Conversation", tuple(_items(value)))
    return None


def _is_item(kind: str) -> bool:
    return kind in _ITEM_TYPES or kind.endswith(_ITEM_ENDINGS)


def _by_session(connection: sqlite3.Connection, name: str, table: _Table) -> dict[str, list[Any]]:
    sessions: dict[str, list[Any]] = {}
    # A session with branches holds the messages of all branches in one table, in mixed order.
    if table.read is _items and (branches := tables_with(connection, _BRANCHES)):
        return _by_branch(connection, name, branches[0])
    query = f"SELECT session_id, {quoted(table.data)} FROM {quoted(name)} ORDER BY {table.order}"
    for session, data in connection.execute(query):
        sessions.setdefault(str(session), []).append(decoded(data))
    return sessions


def _by_branch(connection: sqlite3.Connection, name: str, branches: str) -> dict[str, list[Any]]:
    """Return the messages of each branch of each session; messages without a branch belong to the main one."""
    query = (
        f"SELECT m.session_id, b.branch_id, m.message_data FROM {quoted(name)} m LEFT JOIN {quoted(branches)} b "
        "ON b.session_id = m.session_id AND b.message_id = m.id "
        "ORDER BY b.sequence_number IS NULL, b.sequence_number, m.id"
    )
    sessions: dict[str, list[Any]] = {}
    for session, branch, data in connection.execute(query):
        title = str(session) if branch in (None, _MAIN) else f"{session} (branch {branch})"
        sessions.setdefault(title, []).append(decoded(data))
    return sessions


def _items(rows: list[Any]) -> list[Read]:
    """Convert a list of items to messages; an invalid item becomes a `MessageError`."""
    read: list[Read] = []
    good: list[Mapping[str, Any]] = []
    for row in rows:
        try:
            # Tested alone, but converted with its neighbours: several items may make one message.
            messages_from_items([row])
        except MessageError:
            read += [*messages_from_items(good), MessageError("it is no item of the Responses API")]
            good = []
        else:
            good.append(row)
    return [*read, *messages_from_items(good)]


def _langchain(rows: list[Any]) -> list[Read]:
    return [message for row in rows for message in _read_or_error(read_messages, row)]


def _agno(rows: list[Any]) -> list[Read]:
    """Return the messages of runs, without those repeated from earlier runs and without Agno's instructions."""
    return [
        read
        for run in rows
        for message in _said_in(run)
        # Each run repeats the history that the model was given, and Agno writes its system message anew for each run.
        if not (isinstance(message, dict) and (message.get("from_history") or message.get("role") == "system"))
        for read in _read_or_error(_from_agno, message)
    ]


def _by_member(session: str, rows: list[Any]) -> dict[str, list[Any]]:
    """Return a session's runs, and those of each member of a team as a conversation of its own.

    What a member is asked is the team's task, and not the user's words.
    """
    lanes: dict[str, list[Any]] = {session: []}
    # Agno 2 stores all runs of a session in one column.
    for run in (run for row in rows for run in (row if isinstance(row, list) else [row])):
        member = isinstance(run, dict) and run.get("parent_run_id")
        name = (run.get("agent_name") or run.get("agent_id") or "a member") if member else ""
        lanes.setdefault(f"{session} ({name})" if member else session, []).append(run)
    return {title: lane for title, lane in lanes.items() if lane or len(lanes) == 1}


def _summary(connection: sqlite3.Connection, session: str) -> tuple[MirroredBlock, ...]:
    """Return the summary of a session with which Agno replaces what left its history, as a block."""
    texts: list[TextVersion] = []
    for name in tables_with(connection, frozenset({"session_id", "session_type", "summary"})):
        query = f"SELECT summary FROM {quoted(name)} WHERE session_id = ?"
        for (data,) in connection.execute(query, [session]):
            summary = decoded(data)
            text = summary.get("summary") if isinstance(summary, dict) else None
            texts += [TextVersion(text)] if isinstance(text, str) and text else []
    return (MirroredBlock("Session summary", tuple(texts)),) if texts else ()


def _said_in(run: Any) -> Iterable[Any]:
    messages = run.get("messages") if isinstance(run, dict) else None
    return messages if isinstance(messages, list) else ()


def _from_agno(message: Any) -> list[ChatMessage]:
    fields = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "created_at")
    # Agno names the tool of a result under `tool_name`.
    named = {"name": message.get("tool_name")} if isinstance(message, dict) else {}
    return read_messages({key: message[key] for key in fields if message.get(key) is not None} | named)


def _read_or_error(read: Callable[[Any], list[ChatMessage]], value: Any) -> list[Read]:
    try:
        return list(read(value))
    except MessageError as error:
        return [error]
    except (AttributeError, TypeError):
        return [MessageError("it is not an object")]


_TABLES = (
    _Table(frozenset({"id", "session_id", "message_data"}), "message_data", "id", _items),
    _Table(frozenset({"id", "session_id", "message"}), "message", "id", _langchain),
    _Table(frozenset({"run_id", "session_id", "run_data"}), "run_data", "created_at, rowid", _agno),
    _Table(frozenset({"session_id", "session_type", "runs"}), "runs", "created_at, rowid", _agno),
)
