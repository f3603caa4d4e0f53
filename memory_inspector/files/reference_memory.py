"""The file format of MCP's reference memory server and similar servers: entities with observations, and relations.

One object per line, a JSON array of them, or the output of `read_graph`. Unreadable lines, such as a half-written
last line, are named; markers of the format are not.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from memory_core.errors import Place
from memory_core.limits import Budget
from memory_core.messages import storable

_FIRST = 20
"""Lines examined to detect the format."""


class Observed(NamedTuple):
    """An observation of an entity."""

    place: Place
    entity: str
    text: str


@dataclass(frozen=True, slots=True)
class ReferenceMemory:
    entities: tuple[tuple[str, str], ...]
    """Name and type of each distinct entity, in order."""
    observations: tuple[Observed, ...]
    relations: tuple[tuple[str, str, str], ...]
    """Triples of source, type and target. Ends may be missing from the file, or equal."""
    unread: tuple[Place, ...]
    """Places of lines that are neither."""


def read_reference_memory(text: str, *, filename: str = "") -> ReferenceMemory | None:
    """Parse a file of this format; None if it has another.

    >>> line = '{"type": "entity", "name": "Ana", "entityType": "person", "observations": ["rows"]}'
    >>> read_reference_memory(line).observations
    (Observed(place=1, entity='Ana', text='rows'),)

    Raises:
        LimitError: The file holds too many values.
    """
    Budget(filename).take_json(text)
    rows = list(_rows(text))
    if not any(_is_entity(row) or _is_relation(row) for _, row in rows):
        return None
    entities: dict[str, str] = {}
    observations: list[Observed] = []
    relations: list[tuple[str, str, str]] = []
    unread: list[Place] = []
    for place, row in rows:
        if _is_entity(row):
            name, kind = _text(row["name"]), _text(row.get("entityType"))
            # An entity may be there twice: its first type counts, and all observations are kept.
            entities.setdefault(name, kind)
            raw = row.get("observations")
            texts = [_text(entry) for entry in (raw if isinstance(raw, list) else [raw])]
            observations += [Observed(place, name, observation) for observation in texts if observation]
        elif _is_relation(row):
            relations.append((_text(row["from"]), _text(row.get("relationType")) or "related to", _text(row["to"])))
        elif not (isinstance(row, Mapping) and str(row.get("type")).startswith("_")):  # not a marker of the file format
            unread.append(place)
    return ReferenceMemory(tuple(entities.items()), tuple(observations), tuple(dict.fromkeys(relations)), tuple(unread))


def _rows(text: str) -> Iterator[tuple[Place, Any]]:
    """Yield a file's objects with their places; None for a line that is not JSON."""
    whole = _decoded(text)
    if isinstance(whole, list):
        yield from ((f"[{n}]", row) for n, row in enumerate(whole))
        return
    if isinstance(whole, dict) and not _is_entity(whole) and not _is_relation(whole):
        for name in ("entities", "relations"):
            rows = whole.get(name)
            yield from ((f"{name}[{n}]", row) for n, row in enumerate(rows if isinstance(rows, list) else ()))
        return
    seen = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            row = _decoded(line)
            seen = seen or _is_entity(row) or _is_relation(row)
            # A long JSONL file of another kind is not parsed to its end.
            if not seen and number > _FIRST:
                return
            yield number, row


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_entity(row: Any) -> bool:
    return isinstance(row, Mapping) and bool(_text(row.get("name"))) and ("entityType" in row or "observations" in row)


def _is_relation(row: Any) -> bool:
    return isinstance(row, Mapping) and bool(_text(row.get("from"))) and bool(_text(row.get("to")))


def _text(value: Any) -> str:
    """Normalise to one line of storable text; objects by their text field, other values as JSON."""
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, Mapping):
        # Similar servers keep an observation as an object with its text in a field.
        value = next((value[key] for key in ("content", "text", "observation") if value.get(key)), value)
    try:
        written = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""
    return " ".join(str(storable(written)[0]).split())
