"""What a knowledge graph is made of: entities, and typed, directed relations that hold or held between them.

Pure. What becomes of relations that were found, and how paths are told, is decided here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

EntityState = Literal["active", "merged", "retired"]
RelationState = Literal["active", "ended", "retired"]
Action = Literal["add", "edit", "end", "hold", "retire", "merge", "rename", "import", "undo"]

TYPES = ("person", "place", "organisation", "project", "thing", "date", "other")


@dataclass(frozen=True, slots=True)
class Entity:
    """Somebody or something, as it stood when it was read."""

    id: int
    scope: str
    block: str
    name: str
    aliases: tuple[str, ...]
    type: str
    state: EntityState
    merged_into: int | None
    origin: str
    turn: int
    created_at: float
    updated_at: float
    version: int


@dataclass(frozen=True, slots=True)
class Relation:
    """What holds, or held, between two entities, as it stood when it was read."""

    id: int
    scope: str
    block: str
    subject: int
    predicate: str
    object: int
    state: RelationState
    """`ended`: it held once. `retired`: it never did."""
    origin: str
    turn: int
    """Since which turn it holds."""
    ended_turn: int | None
    ended_by: int | None
    """The relation that contradicted it."""
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int
    sources: tuple[tuple[str, int], ...]
    """Session and sequence number of each message it was learned from."""


@dataclass(frozen=True, slots=True)
class Graph:
    """All of a block's entities and relations by id, those merged, ended and retired included."""

    entities: Mapping[int, Entity] = field(default_factory=dict)
    relations: Mapping[int, Relation] = field(default_factory=dict)

    def name(self, entity: int) -> str:
        """An entity's name; a dash where its words were erased."""
        known = self.entities.get(entity)
        return known.name if known is not None and known.name else "\N{EN DASH}"

    def told(self, relation: Relation) -> str:
        """A relation in words: `Ana → lives in → Lisbon`."""
        return f"{self.name(relation.subject)} → {relation.predicate} → {self.name(relation.object)}"


@dataclass(frozen=True, slots=True)
class Step:
    """One relation of a path, walked along its direction or against it."""

    relation: int
    forward: bool


@dataclass(frozen=True, slots=True)
class Path:
    """A way from one entity to another."""

    start: int
    steps: tuple[Step, ...]
