"""What Mem0, Agno and MCP's reference memory server know, as rows of facts or of a graph.

The reference server's file is a graph whose entities have observations: relations go into a graph, observations into
facts, each door taking its own.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from memory_core.interop.located_json import Located, Place, problem
from memory_core.interop.sqlite_file import decoded, opened, quoted, tables_with

_MEM0 = ("memory_id", "old_memory", "new_memory", "event")
_AGNO = ("memory_id", "memory", "topics", "user_id")


def facts_of(data: bytes, *, filename: str) -> list[tuple[Place, dict[str, Any]]]:
    """Facts of a SQLite file, each with the number of its row; the last words of each, and its state.

    Raises:
        FormatError: it is damaged, is of none of these, or holds what is known of several users.
    """
    try:
        with opened(data) as connection:
            for name in tables_with(connection, _MEM0):
                return list(_mem0(connection, name))
            for name in tables_with(connection, _AGNO):
                return list(_agno(connection, name, filename))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise problem(filename, f"cannot be read: it is a damaged SQLite database ({error}).") from error
    raise problem(filename, "is not a list of facts: it is a SQLite database of neither Mem0 nor Agno.")


def _mem0(connection: sqlite3.Connection, table: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    last: dict[str, tuple[int, dict[str, Any]]] = {}
    query = f"SELECT rowid, memory_id, old_memory, new_memory, event FROM {quoted(table)} ORDER BY rowid"
    for row, memory, old, new, event in connection.execute(query):
        deleted = event == "DELETE"
        last[str(memory)] = row, {"text": (old if deleted else new) or "", "state": "retired" if deleted else "active"}
    yield from last.values()


def _agno(connection: sqlite3.Connection, table: str, filename: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    rows = connection.execute(f"SELECT rowid, memory, topics, user_id FROM {quoted(table)} ORDER BY rowid").fetchall()
    users = {user for *_, user in rows}
    if len(users) > 1:
        raise problem(
            filename, f"holds what is known of {len(users)} users, and facts belong to one. Give those of one."
        )
    for row, memory, topics, _ in rows:
        text = decoded(memory)
        yield row, {"text": text.get("memory") if isinstance(text, dict) else text, "topics": decoded(topics) or ()}


def is_reference_memory(values: Sequence[Located]) -> bool:
    """Are these the lines of the reference server's file?"""
    lines = [value.value for value in values]
    return bool(lines) and all(
        isinstance(line, dict)
        and (
            (line.get("type") == "entity" and "entityType" in line) or (line.get("type") == "relation" and "to" in line)
        )
        for line in lines
    )


def observations(values: Sequence[Located]) -> list[tuple[Place, dict[str, Any] | None]]:
    """What that file says of each entity, a fact an observation, its name in front; None for what is no text."""
    return [
        (value.place, _observed(value.value.get("name"), said))
        for value in values
        if isinstance(value.value.get("observations"), list)
        for said in value.value["observations"]
    ]


def _observed(name: Any, said: Any) -> dict[str, Any] | None:
    return {"text": f"{name}: {said}", "topics": [name]} if isinstance(name, str) and isinstance(said, str) else None
