"""The change sets of a graph as the log tells them: which can be undone, and how things stood before.

Pure: event records in, values out.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_core.errors import ConflictError, NotFoundError
from memory_core.events import (
    EntityChanged,
    EventRecord,
    GraphCurated,
    RelationChanged,
    RelationEnded,
)

Kind = Literal["entity", "relation"]
Version = tuple[Kind, int, int]
"""An entity or a relation, and one of its versions."""

KINDS = (GraphCurated.kind, EntityChanged.kind, RelationChanged.kind, RelationEnded.kind)
"""The events that a `GraphLog` is made from."""

SINCE = "It was changed since by somebody else. Nothing was undone."


@dataclass(frozen=True, slots=True)
class Applied:
    """One change set of the log."""

    record: EventRecord
    event: GraphCurated
    undone: bool
    final: bool
    """It cannot be undone any more: something of it was erased for good."""


@dataclass(slots=True)
class GraphLog:
    """All change sets of a block's graph, folded.

    An undo gives an entity a new version that stands for the one before the change set; `same` follows
    that, so that the change sets below an undone one can be undone in their turn.
    """

    entities: Collection[int]
    relations: Collection[int]
    """Ids of those that still exist."""
    _sets: dict[int, tuple[EventRecord, GraphCurated]] = field(default_factory=dict)
    _undone: set[int] = field(default_factory=set)
    _same: dict[Version, Version] = field(default_factory=dict)
    _steps: dict[tuple[Kind, int], list[Mapping[str, Any]]] = field(default_factory=dict)
    """What each change of a thing was before it: the first is that of its second version."""

    @classmethod
    def read(cls, records: Iterable[EventRecord], entities: Collection[int], relations: Collection[int]) -> "GraphLog":
        """From the `KINDS` of one block in any order; the ids are those that still exist."""
        log = cls(entities, relations)
        for record in sorted(records, key=lambda record: record.position):
            log._take(record)
        return log

    def changes(self) -> list[Applied]:
        """All change sets but undos, newest first."""
        return [self._applied(number) for number in sorted(self._sets, reverse=True)]

    def undoable(self, number: int | None) -> Applied | None:
        """What an undo takes back: that change set, or the newest of a person that can be; None: there is none.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: it was undone before, or something of it was erased.
        """
        if number is None:
            found = (c for c in self.changes() if not c.undone and not c.final and c.record.actor != "engine")
            return next(found, None)
        if number not in self._sets:
            raise NotFoundError(f"There is no change set {number} of this graph.")
        chosen = self._applied(number)
        if chosen.undone:
            raise ConflictError("This was undone already.")
        if chosen.final:
            raise ConflictError("Something of this change was erased since: it cannot be undone any more.")
        return chosen

    def before(self, event: GraphCurated, kind: Kind, id: int, now: int) -> Mapping[str, Any]:
        """How a thing that a change set changed stood before it: only what was another, names as hashes.

        `now` is its version.

        Raises:
            ConflictError: it was changed since.
        """
        rows = event.entities if kind == "entity" else event.relations
        old, new = next((old, new) for known, old, new in rows if known == id)
        if self.same(kind, id, now) != self.same(kind, id, new):
            raise ConflictError(SINCE)
        steps = self._steps.get((kind, id), [])[max(0, old - 1) : new - 1]
        if old and len(steps) != new - old:
            raise ConflictError("The log does not tell any more how it was before: it cannot be undone.")
        was: dict[str, Any] = {}
        for step in reversed(steps):
            was.update(step)
        return was

    def former_names(self, event: GraphCurated) -> dict[int, str]:
        """What the entities that a change set renamed were called before it, as hashes."""
        found: dict[int, str] = {}
        for id, old, new in event.entities:
            for step in reversed(self._steps.get(("entity", id), [])[max(0, old - 1) : max(0, new - 1)]):
                if "name" in step:
                    found[id] = step["name"]
        return found

    def same(self, kind: Kind, id: int, version: int) -> Version:
        """The first version that the thing stood in like this."""
        return self._same.get((kind, id, version), (kind, id, version))

    def _take(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, EntityChanged):
            self._steps.setdefault(("entity", event.entity), []).append(event.before)
        elif isinstance(event, RelationChanged):
            self._steps.setdefault(("relation", event.relation), []).append(event.before)
        elif isinstance(event, RelationEnded):
            was = {"state": "active", "ended_turn": None, "ended_by": None}
            self._steps.setdefault(("relation", event.relation), []).append(was)
        elif isinstance(event, GraphCurated):
            if event.undoes is None:
                self._sets[event.number] = record, event
            else:
                self._take_undo(event, event.undoes)

    def _take_undo(self, event: GraphCurated, number: int) -> None:
        self._undone.add(number)
        if number not in self._sets:
            return
        _, undone = self._sets[number]
        rows: tuple[tuple[Kind, Any, Any], ...] = (
            ("entity", undone.entities, event.entities),
            ("relation", undone.relations, event.relations),
        )
        for kind, done, back in rows:
            olds = {id: old for id, old, _ in done}
            for id, _, new in back:
                if new and id in olds:
                    self._same[kind, id, new] = self.same(kind, id, olds[id])

    def _applied(self, number: int) -> Applied:
        record, event = self._sets[number]
        there = all(id in self.entities for id, _, _ in event.entities) and all(
            id in self.relations for id, _, _ in event.relations
        )
        undone = number in self._undone
        return Applied(record, event, undone, final=not undone and not there)
