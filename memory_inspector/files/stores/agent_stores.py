"""Conversations in tables of agent frameworks: OpenAI Agents, LangChain, Agno and Google's ADK.

Tables are recognised by their columns, because all these frameworks let users rename the tables. Unreadable messages
are skipped with a reason.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.bundles.archive import MAX_FILES
from memory_core.errors import MessageError
from memory_core.formats.any_message import read_messages
from memory_core.limits import MAX_FILE_BYTES, Budget
from memory_core.messages import ChatMessage
from memory_inspector.files.located_json import read_json
from memory_inspector.files.mirroring import MirroredBlock, TextVersion
from memory_inspector.files.stored import StoredConversation
from memory_inspector.files.stores.framework_states import Read, adk_conversation, read_each, read_items, read_or_error
from memory_inspector.files.stores.sqlite_file import decoded, quoted, tables_with

_BRANCHES, _MAIN = frozenset({"session_id", "message_id", "branch_id", "sequence_number"}), "main"
"""Columns of the Agents SDK's branch table, and the name of its default branch."""


@dataclass(frozen=True, slots=True)
class _StoreTable:
    """A framework's table: columns that identify it, sort order, and a parser for one session's rows."""

    columns: frozenset[str]
    data: str
    order: str
    read: Callable[[list[Any]], list[Read]]


def conversations_of(connection: sqlite3.Connection) -> list[StoredConversation]:
    """Return all conversations of the frameworks' tables in a SQLite file, titled by session."""
    in_tables = [
        StoredConversation(title, tuple(table.read(lane)), blocks=_summary(connection, title) if is_agno else ())
        for table in _TABLES
        for is_agno in [table.read is _agno]
        for name in tables_with(connection, table.columns)
        for session, rows in _by_session(connection, name, table).items()
        for title, lane in (_by_member(session, rows) if is_agno else {session: rows}).items()
    ]
    return [*in_tables, *_adk(connection)]


def _by_session(connection: sqlite3.Connection, name: str, table: _StoreTable) -> dict[str, list[Any]]:
    sessions: dict[str, list[Any]] = {}
    # A session with branches holds the messages of all branches in one table, in mixed order.
    if table.read is read_items and (branches := tables_with(connection, _BRANCHES)):
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


def _agno(rows: list[Any]) -> list[Read]:
    """Return the messages of runs, without those repeated from earlier runs and without Agno's instructions."""
    return [
        read
        for run in rows
        for message in _said_in(run)
        # Each run repeats the history that the model was given, and Agno writes its system message anew for each run.
        if not (isinstance(message, dict) and (message.get("from_history") or message.get("role") == "system"))
        for read in read_or_error(_from_agno, message)
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


def _adk(connection: sqlite3.Connection) -> list[StoredConversation]:
    """Return the sessions of Google's ADK, each by the names of its app and user, of which its own may be one of many.

    Its first schema keeps what an event did, such as a compaction, as a pickled object, which is not read.
    """
    events: dict[str, list[Any]] = {}
    for fields in (("event_data",), ("author", "content", "partial", "timestamp", "invocation_id")):
        for table in tables_with(connection, {"id", "app_name", "user_id", "session_id", "timestamp", *fields}):
            columns = ", ".join(map(quoted, ("app_name", "user_id", "session_id", *fields)))
            query = f"SELECT {columns} FROM {quoted(table)} ORDER BY timestamp, id"
            for app, user, session, *values in connection.execute(query):
                event: Any = dict(zip(fields, values, strict=True))
                if "content" in event:
                    content = decoded(event["content"])
                    event = None if content is None and event["content"] is not None else event | {"content": content}
                else:
                    event = decoded(event["event_data"])
                events.setdefault(f"{app} / {user} / {session}", []).append(event)
    return [adk_conversation(title, stored) for title, stored in events.items()]


def _said_in(run: Any) -> Iterable[Any]:
    messages = run.get("messages") if isinstance(run, dict) else None
    return messages if isinstance(messages, list) else ()


def _from_agno(message: Any) -> list[ChatMessage]:
    fields = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "created_at")
    # Agno names the tool of a result under `tool_name`.
    named = {"name": message.get("tool_name")} if isinstance(message, dict) else {}
    return read_messages({key: message[key] for key in fields if message.get(key) is not None} | named)


_TABLES = (
    _StoreTable(frozenset({"id", "session_id", "message_data"}), "message_data", "id", read_items),
    _StoreTable(frozenset({"id", "session_id", "message"}), "message", "id", read_each),
    _StoreTable(frozenset({"run_id", "session_id", "run_data"}), "run_data", "created_at, rowid", _agno),
    _StoreTable(frozenset({"session_id", "session_type", "runs"}), "runs", "created_at, rowid", _agno),
)


# -- sessions of Strands Agents in a folder -------------------------------------------------------


_NUMBER = re.compile(r"message_(\d+)\.json")


def sessions_of_strands(folder: Path) -> tuple[StoredConversation, ...]:
    """Return the conversations of a session's folder, or of a folder of sessions; none for other folders.

    Raises:
        FormatError: It holds too many or too large files.
        OSError: The folder cannot be read.
    """
    sessions = [folder] if (folder / "session.json").is_file() else sorted(folder.glob("session_*/"))
    budget = Budget(folder.name, items=MAX_FILES, bytes=MAX_FILE_BYTES)
    conversations = []
    for session in sessions:
        agents = [*_agents(session)] if (session / "session.json").is_file() else []
        name = session.name.removeprefix("session_")
        titles = {
            agent: name if len(agents) == 1 else f"{name} ({agent.name.removeprefix('agent_')})" for agent in agents
        }
        conversations += [_conversation(titles[agent], agent, budget) for agent in agents]
    return tuple(conversation for conversation in conversations if conversation.messages)


def _agents(session: Path) -> Iterator[Path]:
    for agent in sorted(session.glob("agents/agent_*/")):
        if not agent.is_symlink():
            yield agent


def _conversation(title: str, agent: Path, budget: Budget) -> StoredConversation:
    numbered = ((_NUMBER.fullmatch(file.name), file) for file in (agent / "messages").glob("message_*.json"))
    files = sorted((int(match[1]), match[0], file) for match, file in numbered if match)
    messages: list[Read] = []
    ends = [0]
    for _, name, file in files:
        stored = _object(file, budget)
        if stored is None:
            messages.append(MessageError(f"{name} is damaged, or no message"))
        else:
            # What a guardrail put in the place of a message is what the agent goes on with.
            redacted = stored.get("redact_message")
            messages += read_each([{**stored, "message": redacted} if isinstance(redacted, dict) else stored])
        ends.append(len(messages))
    about = _object(agent / "agent.json", budget) or {}
    state = about.get("conversation_manager_state")
    state = state if isinstance(state, dict) else {}
    removed = state.get("removed_message_count")
    summary = read_each([state["summary_message"]]) if isinstance(state.get("summary_message"), dict) else []
    texts = [TextVersion(read.content) for read in summary if not isinstance(read, MessageError) and read.content]
    return StoredConversation(
        title,
        tuple(messages),
        frozenset(range(ends[max(0, min(removed, len(files)))] if isinstance(removed, int) else 0)),
        blocks=(MirroredBlock("Summary", tuple(texts)),) if texts else (),
    )


def _object(file: Path, budget: Budget) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if there is none, also where it is a link or no ordinary file."""
    if file.is_symlink() or not file.is_file():
        return None
    budget.take(items=1, bytes=file.stat().st_size)
    value = read_json(file.read_bytes())
    return value if isinstance(value, dict) else None
