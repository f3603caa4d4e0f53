"""References in events to facts, relations, deliveries, ... by id. Each database assigns its own ids.

A session that is copied to another database gets new ids there, also in its events. The types of an event's fields
(`events.FactId` and similar types) tell which fields are references.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

from memory_core.events import KINDS, Event, Ref, RefKind, compact, runs, spread

Thing = Literal["facts", "vectors", "deliveries", "entities", "relations"]
"""Kinds of things with ids; messages are numbered within their session and keep their numbers."""

Renumber = Callable[[Thing, int], int]
"""Function from a thing and its old id to its new id."""

Walk = Callable[[Any, Renumber], Any]
"""Function that changes the ids within a stored value."""

_NUMBERED: dict[RefKind, Thing] = {"fact": "facts", "unit": "vectors", "day": "vectors", "relation": "relations"}
# A lookahead finds overlapping matches: the letter before the hash in a ref may be a hex digit itself.
_HASH = re.compile(r"(?=([0-9a-f]{32}))")


def hashes_in(data: str) -> set[str]:
    """Return everything in an event's JSON that may be the hash of a text, also within refs."""
    return set(_HASH.findall(data))


def _refs(refs: Sequence[str], to: Renumber) -> tuple[str, ...]:
    # Nothing to change in most lists, which are then not spread.
    if not any(kind in _NUMBERED for kind, _, _ in runs(refs)):
        return tuple(refs)
    return compact(
        Ref.of(ref.kind, to(_NUMBERED[ref.kind], ref.number)) if ref.kind in _NUMBERED else ref for ref in spread(refs)
    )


def _marks(part: Mapping[str, Any], to: Renumber) -> dict[str, Any]:
    """Return the marks of former values in a part of a prompt with new ids."""
    if "marks" not in part:
        return {}
    renamed = [
        [*_refs([beside], to), kind, None if now is None else _refs([now], to)[0], turn]
        for beside, kind, now, turn in part["marks"]
    ]
    return {"marks": renamed}


def _walk(hint: Any) -> Walk | None:
    """Return a walk for stored values of a type; None for a type without references."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return _named(inner[1])
    walks = [_walk(part) for part in inner]
    walk = next(filter(None, walks), None)
    if walk is None:
        return None
    if get_origin(hint) is not tuple:  # `... | None`
        return lambda value, to: None if value is None else walk(value, to)
    # A list of any length, each item of one type; below, a row with a type for each place.
    if inner[1:] == (Ellipsis,):
        return lambda value, to: [walk(item, to) for item in value]
    return lambda value, to: [
        # Rows of earlier versions may be shorter than the type, and those of later ones longer.
        *(walk_item(item, to) if walk_item else item for walk_item, item in zip(walks, value, strict=False)),
        *value[len(walks) :],
    ]


def _named(means: Any) -> Walk:
    """Return a walk for a reference type of `memory_core.events`, by its annotation."""
    if means == "refs":
        return lambda value, to: {**value, "refs": list(_refs(value["refs"], to)), **_marks(value, to)}
    if isinstance(means, str):
        return lambda value, to: to(cast(Thing, means), value)
    return lambda value, to: {
        name: to(means[name], number) if name in means and number is not None else number
        for name, number in value.items()
    }


def _walks(event: type[Event]) -> dict[str, Walk]:
    hints = get_type_hints(event, include_extras=True)
    return {field.name: walk for field in fields(event) if (walk := _walk(hints[field.name])) is not None}


REFERENCES: dict[str, dict[str, Walk]] = {kind: walks for kind, event in KINDS.items() if (walks := _walks(event))}
"""References by kind of event and field, derived from the fields' types; fields of newer versions are missing."""


def refers(kind: str) -> bool:
    """Return whether events of a kind may refer to anything by id, or be about a fact."""
    return kind in REFERENCES or kind.startswith("fact")


def renumbered(kind: str, data: Mapping[str, Any], to: Renumber) -> dict[str, Any]:
    """Return an event's stored values with new ids."""
    walks = REFERENCES.get(kind, {})
    return {name: walks[name](value, to) if name in walks else value for name, value in data.items()}


def referred(kind: str, data: Mapping[str, Any]) -> set[tuple[Thing, int]]:
    """Return everything that an event refers to by id."""
    things: set[tuple[Thing, int]] = set()

    def note(thing: Thing, number: int) -> int:
        things.add((thing, number))
        return number

    for name, walk in REFERENCES.get(kind, {}).items():
        if name in data:
            walk(data[name], note)
    return things


def numbered(kind: str, data: Mapping[str, Any]) -> set[tuple[Thing, int]]:
    """Return the things whose ids an event assigns."""
    name = KINDS[kind].gives
    return referred(kind, {name: data[name]}) if name is not None else set()


def subjects(kind: str, data: Mapping[str, Any]) -> set[int]:
    """Return the facts that an event is about, as opposed to those it only mentions."""
    # A change set names facts in its rows, and `fact_decided` in its candidates as well.
    if kind == "facts_curated":
        return {row[0] for row in data["facts"]}
    if kind == "fact_decided":
        return {row[0] for row in data["candidates"]} | ({data["fact"]} - {None})
    if not kind.startswith("fact_"):
        return set()
    return {data[name] for name in ("fact", "near") if name in data}
