"""What events refer to by number: facts, relations, deliveries, ..., whose numbers every database counts for itself.

A session that moves to another database is given other numbers, and its events with it. Where each
kind of event names such things is declared in `REFERENCES`, on the values as they are stored.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from memory_core.events import Ref, RefKind, compact, runs, spread

Thing = Literal["facts", "vectors", "deliveries", "entities", "relations"]
"""What is numbered; messages are numbered within their session and keep their numbers."""

Renumber = Callable[[Thing, int], int]
"""The new number of a thing."""

Walk = Callable[[Any, Renumber], Any]
"""A stored value with new numbers."""

_NUMBERED: dict[RefKind, Thing] = {"fact": "facts", "unit": "vectors", "day": "vectors", "relation": "relations"}
_HASH = re.compile(r"(?=([0-9a-f]{32}))")


def hashes_in(data: str) -> set[str]:
    """Everything in an event's text that may be the hash of words, also behind the mark of a ref."""
    return set(_HASH.findall(data))


def _one(thing: Thing) -> Walk:
    return lambda value, to: None if value is None else to(thing, value)


def _many(thing: Thing) -> Walk:
    return lambda value, to: [to(thing, number) for number in value]


def _first(thing: Thing) -> Walk:
    """Rows that begin with a number."""
    return lambda value, to: [[to(thing, row[0]), *row[1:]] for row in value]


def _key(value: Any, to: Renumber) -> Any:
    """A change set, named by its first fact and the version it left that in."""
    return None if value is None else [to("facts", value[0]), *value[1:]]


def _merged(value: Any, to: Renumber) -> Any:
    return [[[to("facts", number) for number in several], to("facts", one)] for several, one in value]


def _fields(**things: Thing) -> Walk:
    """Some fields of an entity or a relation, those of them that name another."""
    return lambda value, to: {
        name: to(things[name], number) if name in things and number is not None else number
        for name, number in value.items()
    }


def _with_refs(value: Any, to: Renumber) -> Any:
    return [{**part, "refs": list(_refs(part["refs"], to))} for part in value]


def _refs(refs: Sequence[str], to: Renumber) -> tuple[str, ...]:
    if not any(kind in _NUMBERED for kind, _, _ in runs(refs)):
        return tuple(refs)
    return compact(
        Ref.of(ref.kind, to(_NUMBERED[ref.kind], ref.number)) if ref.kind in _NUMBERED else ref for ref in spread(refs)
    )


REFERENCES: dict[str, dict[str, Walk]] = {
    "delivery_queued": {"delivery": _one("deliveries")},
    "delivery_done": {"deliveries": _many("deliveries")},
    "delivery_failed": {"deliveries": _many("deliveries")},
    "delivery_parked": {"deliveries": _many("deliveries")},
    "delivery_retried": {"deliveries": _many("deliveries")},
    "delivery_skipped": {"deliveries": _many("deliveries")},
    "fact_decided": {"fact": _one("facts"), "candidates": _first("facts")},
    "fact_labelled": {"fact": _one("facts")},
    "fact_added": {"fact": _one("facts"), "conflicts_with": _many("facts")},
    "fact_confirmed": {"fact": _one("facts")},
    "fact_changed": {"fact": _one("facts")},
    "fact_superseded": {"fact": _one("facts"), "by": _one("facts")},
    "fact_retired": {"fact": _one("facts")},
    "fact_restored": {"fact": _one("facts")},
    "fact_pinned": {"fact": _one("facts")},
    "fact_rejected": {"fact": _one("facts")},
    "fact_accepted": {"fact": _one("facts")},
    "fact_proposed": {"fact": _one("facts")},
    "fact_held_back": {"near": _one("facts")},
    "fact_erased": {"fact": _one("facts")},
    "facts_curated": {"facts": _first("facts"), "support": _first("facts"), "undoes": _key},
    "facts_condensed": {
        "kept": _many("facts"),
        "merged": _merged,
        "vanished": _many("facts"),
        "new": _many("facts"),
    },
    "entity_added": {"entity": _one("entities")},
    "entity_changed": {
        "entity": _one("entities"),
        "before": _fields(merged_into="entities"),
        "after": _fields(merged_into="entities"),
    },
    "entity_erased": {"entity": _one("entities")},
    "relation_added": {"relation": _one("relations"), "subject": _one("entities"), "object": _one("entities")},
    "relation_confirmed": {"relation": _one("relations")},
    "relation_ended": {"relation": _one("relations"), "by": _one("relations")},
    "relation_changed": {
        "relation": _one("relations"),
        "before": _fields(subject="entities", object="entities", ended_by="relations"),
        "after": _fields(subject="entities", object="entities", ended_by="relations"),
    },
    "relation_erased": {"relation": _one("relations")},
    "graph_curated": {"entities": _first("entities"), "relations": _first("relations")},
    "vectors_stored": {"nodes": _first("vectors")},
    "vectors_removed": {"numbers": _many("vectors")},
    "vectors_replaced": {"numbers": _many("vectors")},
    "retrieved": {"candidates": _first("vectors")},
    "context_built": {"parts": _with_refs, "cuts": _with_refs},
}
"""By kind of event and field. What a newer version added is not known here and keeps its numbers."""


def renumbered(kind: str, data: Mapping[str, Any], to: Renumber) -> dict[str, Any]:
    """An event's stored values with new numbers."""
    walks = REFERENCES.get(kind, {})
    return {name: walks[name](value, to) if name in walks else value for name, value in data.items()}


def referred(kind: str, data: Mapping[str, Any]) -> set[tuple[Thing, int]]:
    """Everything an event refers to by number."""
    found: set[tuple[Thing, int]] = set()

    def note(thing: Thing, number: int) -> int:
        found.add((thing, number))
        return number

    renumbered(kind, data, note)
    return found


def subjects(kind: str, data: Mapping[str, Any]) -> set[int]:
    """The facts whose story an event tells, as opposed to those it only mentions."""
    if kind == "facts_curated":
        return {row[0] for row in data["facts"]}
    if kind == "fact_decided":
        return {row[0] for row in data["candidates"]} | ({data["fact"]} - {None})
    if not kind.startswith("fact_"):
        return set()
    return {data[name] for name in ("fact", "near") if name in data}
