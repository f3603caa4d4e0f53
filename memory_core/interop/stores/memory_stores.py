"""Facts from stores of Mem0, Agno and CrewAI."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_core.attach.mirrored_facts import MirroredFact
from memory_core.errors import MessageError
from memory_core.formats.message_times import seconds_of
from memory_core.interop.located_json import Place, problem
from memory_core.interop.stores.sqlite_file import decoded, opened, quoted, tables_with
from memory_core.messages import storable
from memory_core.planning.curation import each_topic
from memory_core.planning.fact_merging import metadata_text
from memory_core.text import shortened

_MEM0 = ("memory_id", "old_memory", "new_memory", "event")
_AGNO = ("memory_id", "memory", "topics", "user_id")
_CREWAI = ("task_description", "metadata", "datetime", "score")


@dataclass(frozen=True, slots=True)
class Memories:
    """Facts that a store holds under one name."""

    facts: list[MirroredFact]
    note: str = ""
    """Sentence on rows that were left out."""


def facts_of(data: bytes, *, filename: str) -> list[tuple[Place, dict[str, Any]]]:
    """Return facts of a SQLite file with row numbers, each in its latest text and state.

    Raises:
        FormatError: The file is damaged, of another kind, or holds several users' facts.
    """
    try:
        with opened(data, filename=filename) as connection:
            for name in tables_with(connection, _MEM0):
                return list(_mem0(connection, name))
            for name in tables_with(connection, _AGNO):
                return list(_agno(connection, name, filename))
            for name in tables_with(connection, _CREWAI):
                return list(_crewai(connection, name))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(filename, f"cannot be read: it is a damaged SQLite database ({error}).") from error
    raise problem(filename, "is not a list of facts: it is a SQLite database of neither Mem0, Agno nor CrewAI.")


def memories_of(path: Path) -> dict[str, Memories]:
    """Return Mem0's, Agno's or CrewAI's facts by user, with all their texts; empty for other SQLite files.

    Raises:
        sqlite3.Error: The file is damaged.
    """
    by_user: dict[str, list[MirroredFact]] = {}
    crews: dict[str, Memories] = {}
    with opened(path, filename=path.name) as connection:
        for name in tables_with(connection, _MEM0):
            chains = _chains(connection, name).values()
            by_user["memories"] = [
                MirroredFact(texts, active=not deleted)
                for _, words, deleted in chains
                if (texts := tuple(filter(None, map(_one_line, words))))
            ]
        for name in tables_with(connection, _AGNO):
            for _, memory, topics, user in _agno_rows(connection, name):
                text, named = _one_line(_memory_text(memory)), decoded(topics)
                if text:
                    about = each_topic([str(topic) for topic in named]) if isinstance(named, list) else ()
                    by_user.setdefault(f"memories of {user}", []).append(MirroredFact((text,), topics=about))
        for name in tables_with(connection, _CREWAI):
            crews["long-term memory"] = _crewai_memories(connection, name)
    all_named = {name: Memories(facts) for name, facts in by_user.items()} | crews
    return {name: memories for name, memories in all_named.items() if memories.facts or memories.note}


def _one_line(text: Any) -> str:
    return " ".join(str(storable(text)[0]).split()) if isinstance(text, str) else ""


def _mem0(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    for row, texts, deleted in _chains(connection, table).values():
        yield row, {"text": texts[-1], "state": "retired" if deleted else "active"}


def _chains(connection: sqlite3.Connection, table: str) -> dict[str, tuple[int, list[str], bool]]:
    """Return by memory id: last row number, texts, and whether it was deleted."""
    chains: dict[str, tuple[int, list[str], bool]] = {}
    query = f"SELECT rowid, memory_id, old_memory, new_memory, event FROM {quoted(table)} ORDER BY rowid"
    for row, memory, old, new, event in connection.execute(query):
        _, texts, _ = chains.get(str(memory), (0, [], False))
        deleted = event == "DELETE"
        # A deletion repeats the last text, which is needed only if the log has no earlier one of this memory.
        text = None if deleted and texts else (old if deleted else new) or ""
        if text and texts[-1:] != [text]:  # Mem0 records metadata changes as updates with equal text
            texts.append(text)
        chains[str(memory)] = row, texts or [""], deleted
    return chains


def _agno(connection: sqlite3.Connection, table: str, filename: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    rows = _agno_rows(connection, table)
    users = {user for *_, user in rows}
    # Facts of several people in one session would all count as the same user's.
    if len(users) > 1:
        raise problem(
            filename, f"holds what is known of {len(users)} users, and facts belong to one. Give those of one."
        )
    for row, memory, topics, _ in rows:
        yield row, {"text": _memory_text(memory), "topics": decoded(topics) or ()}


def _agno_rows(connection: sqlite3.Connection, table: str) -> list[Any]:
    return connection.execute(f"SELECT rowid, memory, topics, user_id FROM {quoted(table)} ORDER BY rowid").fetchall()


def _memory_text(memory: Any) -> Any:
    text = decoded(memory)
    return text.get("memory") if isinstance(text, dict) else text


def _crewai(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield each row as a fact. That of an unreadable row has a text or metadata that no fact can have."""
    query = f"SELECT rowid, task_description, metadata, datetime, score FROM {quoted(table)} ORDER BY rowid"
    for row, task, about, at, score in connection.execute(query):
        fields = decoded(about or "{}")
        if not isinstance(fields, dict):
            yield row, {"text": task, "metadata": about}
            continue
        advice = fields.pop("suggestions", None)
        if isinstance(advice, list) and all(isinstance(line, str) for line in advice):
            advice = "; ".join(filter(None, (line.strip().removesuffix(".") for line in advice)))
        yield row, {"text": advice or task, "metadata": {"quality": score} | fields | {"task": task, "time": _time(at)}}


def _time(at: Any) -> Any:
    """Return CrewAI's text of seconds since 1970 as ISO 8601, and any other as it is."""
    with suppress(TypeError, ValueError):
        if (seconds := seconds_of(float(at))) is not None:
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return at


def _crewai_memories(connection: sqlite3.Connection, table: str) -> Memories:
    facts: list[MirroredFact] = []
    unread: list[str] = []
    for row, fact in _crewai(connection, table):
        text, metadata = _one_line(fact["text"]), fact["metadata"]
        try:
            metadata_text(metadata)
        except MessageError:
            text = ""
        if text:
            facts.append(MirroredFact((text,), metadata=metadata))
        else:
            unread.append(str(row))
    if not unread:
        return Memories(facts)
    rows = f"{len(unread):,} {'row was' if len(unread) == 1 else 'rows were'}"
    places = shortened(", ".join(unread), 40)
    return Memories(facts, f"{rows} left out, as no fact can be read there: {places}.")
