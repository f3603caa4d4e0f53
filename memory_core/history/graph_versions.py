"""Versions of a graph's entities and relations, read from the log: author and changes of each.

Pure: event records in, values out; words are given as hashes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from memory_core.errors import ConflictError
from memory_core.events import Actor, EntityChanged, EventRecord, GraphCurated, RelationChanged, RelationEnded, Thing

KINDS = (GraphCurated.kind, EntityChanged.kind, RelationChanged.kind, RelationEnded.kind)
"""Event kinds read here: change sets of a graph, and changes that make a new version of an entity or relation."""

Values = Mapping[str, Any]


class GraphVersions:
    """Changes to entities and relations by version, from records of `KINDS` in any order."""

    def __init__(self, records: Iterable[EventRecord]) -> None:
        self.authors: dict[tuple[Thing, int], tuple[Actor, int]] = {}
        """Author and turn of each version after the first."""
        self._steps: dict[Thing, list[tuple[Values, Values]]] = {}
        """Values before and after each change, in order; the first change made version 2."""
        for record in sorted(records, key=lambda record: record.position):
            event = record.event
            if isinstance(event, EntityChanged):
                self._add(record, ("entity", event.entity), event.before, event.after)
            elif isinstance(event, RelationChanged):
                self._add(record, ("relation", event.relation), event.before, event.after)
            elif isinstance(event, RelationEnded):
                # The event of an ending holds only what ended it, so both states are completed here.
                before = {"state": "active", "ended_turn": None, "ended_by": None}
                after = {"state": "ended", "ended_turn": record.turn, "ended_by": event.by}
                self._add(record, ("relation", event.relation), before, after)

    def _add(self, record: EventRecord, thing: Thing, before: Values, after: Values) -> None:
        steps = self._steps.setdefault(thing, [])
        steps.append((before, after))
        self.authors[thing, len(steps) + 1] = record.actor, record.turn

    def values(self, thing: Thing, old: int, new: int, *, again: bool) -> Values:
        """Return the fields that differ between two versions, with old values or, with `again`, new ones.

        Raises:
            ConflictError: the log does not record every change between the versions.
        """
        if len(self._between(thing, old, new)) != new - old:
            raise ConflictError("The log does not tell any more how it was before: it cannot be undone.")
        return self._changed(thing, old, new, again=again)

    def former_names(self, event: GraphCurated) -> dict[int, str]:
        """Return the former names of the entities that a change set renamed, as hashes."""
        was = {id: self._changed(("entity", id), max(1, old), new) for id, old, new in event.entities}
        return {id: values["name"] for id, values in was.items() if "name" in values}

    def _changed(self, thing: Thing, old: int, new: int, *, again: bool = False) -> Values:
        result: dict[str, Any] = {}
        steps = self._between(thing, old, new)
        for before, after in steps if again else reversed(steps):
            result.update(after if again else before)
        return result

    def _between(self, thing: Thing, old: int, new: int) -> list[tuple[Values, Values]]:
        # The first step leads from version 1 to version 2, so the step after version `old` is at `old - 1`.
        return self._steps.get(thing, [])[old - 1 : max(1, new) - 1]
