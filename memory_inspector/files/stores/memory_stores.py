"""Facts from other programs' stores, SQLite or text such as JSON; `PROGRAMS` lists the programs that are read."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from memory_core.errors import FormatError, MessageError, Place, problem
from memory_core.limits import MAX_FILE_BYTES
from memory_core.messages import seconds_of
from memory_core.planning.curation import each_topic
from memory_core.planning.fact_merging import metadata_text
from memory_core.planning.graph_changes import NamedRelation
from memory_core.text import listed
from memory_inspector.files.graph_files import graph_of, named_relations
from memory_inspector.files.located_json import left_out, read_text
from memory_inspector.files.mirroring import MirroredFact
from memory_inspector.files.reference_memory import ReferenceMemory, read_reference_memory
from memory_inspector.files.stores.sqlite_file import SQLITE_MAGIC, decoded, opened, quoted, tables_with


@dataclass(frozen=True, slots=True)
class Row:
    """A fact with values as its store has them. A row with values that no fact can have is left out."""

    number: Place
    texts: list[Any]
    """Oldest first; never empty."""
    state: str = "active"
    topics: Any = ()
    metadata: Any = field(default_factory=dict)
    """Object with all values that have no field here; times as `_iso_time` returns them."""
    id: str = ""
    """Id that lasts while the text changes, if the store has no log of the texts."""
    part: str = ""
    """Title of the session that shows the fact if the store is opened in place, where there is one per user."""


@dataclass(frozen=True, slots=True)
class SQLiteProgram:
    """A program whose facts are read from a table."""

    name: str
    file: str
    """Name or kind of the program's file, for the advice in error messages."""
    columns: tuple[str, ...]
    """Columns by which the program's table is recognised, and which are read."""
    read: Callable[[Iterable[Any]], Iterator[Row]]
    """Function that reads facts from the rows of the table, each given as its number and the values of `columns`."""


@dataclass(frozen=True, slots=True)
class TextProgram:
    """A program whose facts are read from a text."""

    name: str
    file: str
    read: Callable[[str, str], Iterable[Row | NamedRelation] | None]
    """Function from a text and its file's name to facts and relations; None for a text of another program."""


@dataclass(frozen=True, slots=True)
class Memories:
    """Facts and relations that a store holds under one name."""

    facts: list[MirroredFact] = field(default_factory=list)
    unread: list[Place] = field(default_factory=list)
    relations: list[NamedRelation] = field(default_factory=list)

    @property
    def note(self) -> str:
        """Sentence on rows that were left out."""
        return left_out(self.unread, "row", "fact")


def facts_of(data: bytes, *, filename: str) -> list[tuple[Place, dict[str, Any]]]:
    """Return facts of a SQLite file with row numbers, each in its latest text and state.

    Raises:
        FormatError: The file is damaged, of another kind, or holds several users' facts.
    """
    try:
        with opened(data, filename=filename) as connection:
            for rows in _tables(connection):
                return _of_one_user(rows, filename)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(filename, f"cannot be read: it is a damaged SQLite database ({error}).") from error
    raise problem(filename, f"is not a list of facts: it is a SQLite database of none of {NAMES}.")


def facts_in(text: str, *, filename: str) -> list[tuple[Place, dict[str, Any]]] | None:
    """Return facts of a text with their places; None if it is of none of the programs.

    Raises:
        FormatError: The text holds too much, or several users' facts.
    """
    for program in TEXTS:
        if (items := program.read(text, filename)) is not None:
            return _of_one_user((item for item in items if isinstance(item, Row)), filename)
    return None


def _of_one_user(rows: Iterable[Row], filename: str) -> list[tuple[Place, dict[str, Any]]]:
    rows, names = list(rows), ("state", "topics", "metadata")
    # Facts of several people in one session would all count as the same user's.
    if (users := len({row.part for row in rows})) > 1:
        what = f"holds what is known of {users} users, and facts belong to one. Give those of one."
        raise problem(filename, what)
    return [(row.number, {"text": row.texts[-1]} | {name: getattr(row, name) for name in names}) for row in rows]


def memories_of(path: Path) -> dict[str, Memories]:
    """Return a file's facts by user, with all their texts; empty if it is of none of the programs.

    Raises:
        FormatError: The file is being written, or holds too much.
        OSError: The file cannot be read.
        sqlite3.Error: The file is damaged.
    """
    if is_database(path):
        with opened(path, filename=path.name) as connection:
            return _by_part(chain.from_iterable(_tables(connection)), "memories")
    try:
        text = read_text(_beginning(path, MAX_FILE_BYTES + 1), filename=path.name)
        read = (program.read(text, path.name) for program in TEXTS)
        items = next((items for items in read if items is not None), None)
    except FormatError:  # of another kind
        return {}
    # One session, also while there is nothing in the store.
    return {} if items is None else _by_part(items, path.stem) or {path.stem: Memories()}


def is_database(path: Path) -> bool:
    return _beginning(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC


def _beginning(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:  # a folder, or reported when it is read as conversations
        return b""


def _by_part(items: Iterable[Row | NamedRelation], name: str) -> dict[str, Memories]:
    """Return items by the part that they name, or else `name`."""
    parts: dict[str, Memories] = {}
    for item in items:
        memories = parts.setdefault(item.part or name if isinstance(item, Row) else name, Memories())
        if isinstance(item, NamedRelation):
            memories.relations.append(item)
        elif fact := _mirrored(item):
            memories.facts.append(fact)
        else:
            memories.unread.append(item.number)
    return parts


def _tables(connection: sqlite3.Connection) -> Iterator[Iterator[Row]]:
    for program in SQLITE:
        columns = ", ".join(map(quoted, program.columns))
        for table in tables_with(connection, program.columns):
            yield program.read(connection.execute(f"SELECT rowid, {columns} FROM {quoted(table)} ORDER BY rowid"))


def _mirrored(row: Row) -> MirroredFact | None:
    """Return a row as a fact; None if it has no text, or topics or metadata that no fact can have."""
    if not isinstance(row.topics, list | tuple | str):
        return None
    texts = tuple(text for text in row.texts if isinstance(text, str) and text.strip())
    topics = each_topic([str(topic) for topic in row.topics]) if isinstance(row.topics, list) else ()
    try:
        metadata_text(row.metadata)
    except MessageError:
        return None
    return MirroredFact(texts, row.state == "active", topics, row.metadata, row.id) if texts else None


def _iso_time(at: Any) -> Any:
    """Return a number of seconds since 1970, also as a text, as ISO 8601; any other value as it is."""
    with suppress(TypeError, ValueError):
        if (seconds := seconds_of(float(at))) is not None:
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return at


def _mem0(log: Iterable[Any]) -> Iterator[Row]:
    """Yield each memory with all its texts, by the last row of its log."""
    memories: dict[str, Row] = {}
    for number, memory, old, new, event in log:
        texts = memories[str(memory)].texts if str(memory) in memories else []
        deleted = event == "DELETE"
        # A deletion repeats the last text, which is needed only if the log has no earlier one of this memory.
        text = None if deleted and texts else (old if deleted else new) or ""
        if text and texts[-1:] != [text]:  # Mem0 records metadata changes as updates with equal text
            texts.append(text)
        memories[str(memory)] = Row(number, texts or [""], state="retired" if deleted else "active")
    yield from memories.values()


def _agno(rows: Iterable[Any]) -> Iterator[Row]:
    for number, id, memory, topics, user in rows:
        text = decoded(memory)
        text = text.get("memory") if isinstance(text, dict) else text
        yield Row(number, [text], topics=decoded(topics) or (), id=str(id or ""), part=f"memories of {user}")


def _crewai(rows: Iterable[Any]) -> Iterator[Row]:
    for number, task, about, at, score in rows:
        fields, advice = decoded(about or "{}"), None
        if isinstance(fields, dict):
            advice = fields.pop("suggestions", None)
            if isinstance(advice, list) and all(isinstance(line, str) for line in advice):
                advice = "; ".join(filter(None, (line.strip().removesuffix(".") for line in advice)))
            about = {"quality": score} | fields | {"task": task, "time": _iso_time(at)}
        yield Row(number, [advice or task], metadata=about, part="long-term memory")


def _mcp_memory_service(rows: Iterable[Any]) -> Iterator[Row]:
    for number, text, tags, memory_type, about, at, deleted in rows:
        if deleted is not None:
            continue
        fields = decoded(about or "{}")
        if isinstance(fields, dict):
            fixed = {"memory_type": memory_type or None, "time": _iso_time(at)}
            about = fields | {name: value for name, value in fixed.items() if value is not None}
        yield Row(number, [text], topics=tags.split(",") if isinstance(tags, str) else tags or (), metadata=about)


_TEXTS = ("content", "text", "memory", "data", "fact", "value")
"""Fields of an item's value that may hold its text, as a LangGraph agent or LangMem writes it."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _langgraph(rows: Iterable[Any]) -> Iterator[Row]:
    for number, namespace, key, stored, changed in rows:
        value = fields = decoded(stored)
        # LangMem writes the kind of a memory beside its own object.
        if isinstance(fields, dict) and isinstance(fields.get("content"), dict) and set(fields) == {"kind", "content"}:
            fields = fields["content"]
        name = next((name for name in _TEXTS if isinstance(fields, dict) and _is_text(fields.get(name))), None)
        text: Any = fields if isinstance(fields, str) else None
        about: dict[str, Any] = {"key": key, "time": changed}
        if isinstance(fields, dict):
            text = fields[name] if name is not None else json.dumps(value, ensure_ascii=False)
            about |= {key: inner for key, inner in fields.items() if key != name} if name is not None else {}
        yield Row(number, [text], metadata=about, id=f"{namespace}\n{key}", part=str(namespace))


def _reference_memory(text: str, filename: str) -> Iterator[Row | NamedRelation] | None:
    memory = read_reference_memory(text, filename=filename)
    return None if memory is None else _reference_items(memory, filename)


def _reference_items(memory: ReferenceMemory, filename: str) -> Iterator[Row | NamedRelation]:
    for place, entity, text in memory.observations:
        yield Row(place, [f"{entity}: {text}"], topics=[entity])
    yield from (Row(place, [""]) for place in memory.unread)
    yield from named_relations(graph_of(memory, filename))


_MCP_MEMORY_SERVICE = ("content", "tags", "memory_type", "metadata", "created_at", "deleted_at")
SQLITE = (
    SQLiteProgram("Mem0", "history.db", ("memory_id", "old_memory", "new_memory", "event"), _mem0),
    SQLiteProgram("Agno", "SQLite", ("memory_id", "memory", "topics", "user_id"), _agno),
    SQLiteProgram(
        "CrewAI", "long_term_memory_storage.db", ("task_description", "metadata", "datetime", "score"), _crewai
    ),
    SQLiteProgram("LangGraph", "store", ("prefix", "key", "value", "updated_at"), _langgraph),
    SQLiteProgram("mcp-memory-service", "sqlite_vec.db", _MCP_MEMORY_SERVICE, _mcp_memory_service),
)
TEXTS = (TextProgram("MCP's reference memory", "JSONL", _reference_memory),)
PROGRAMS = (*SQLITE, *TEXTS)
NAMES = listed(program.name for program in SQLITE)
