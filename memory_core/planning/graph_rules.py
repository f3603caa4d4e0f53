"""Knowledge graph: entities, and typed, directed relations that hold or held between them.

Pure. Compares names and predicates, finds mentions in a text, and words paths;
found relations are merged in `memory_core.planning.graph_changes`.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Literal

from memory_core.errors import NotFoundError
from memory_core.planning.slots import ATTRIBUTES, Slot
from memory_core.text import STOP_WORDS, words

EntityState = Literal["active", "merged", "retired"]
RelationState = Literal["active", "ended", "retired"]
Action = Literal["add", "edit", "end", "hold", "retire", "merge", "rename", "import", "undo"]

TYPES = ("person", "place", "organisation", "project", "thing", "date", "other")

LONGEST = 80
"""Maximum characters of a name or predicate; longer texts are sentences."""

THE_USER = "The user"
"""Name of the entity that "I" and "me" mean."""

SYMMETRIC = frozenset(
    {
        "married to", "engaged to", "sibling of", "twin of", "friend of", "friends with", "colleague of",
        "neighbour of", "related to", "partner of", "works with", "connected to",
    }
)  # fmt: skip
"""Predicates that say the same in either direction."""

SAME_AS = "same as"
"""The predicate by which an extractor says that two names are of one entity."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Person, place or thing, as of when it was read."""

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
    """Directed relation that holds or held between two entities, as of when it was read."""

    id: int
    scope: str
    block: str
    subject: int
    predicate: str
    object: int
    state: RelationState
    """`active`: it holds. `ended`: it held once. `retired`: it never held."""
    origin: str
    turn: int
    """Turn from which on the relation holds."""
    ended_turn: int | None
    ended_by: int | None
    """Id of the relation that contradicted and so ended this one; None if there is none."""
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int
    sources: tuple[tuple[str, int], ...]
    """Session and sequence number of each message that the relation was learned from."""


@dataclass(frozen=True, slots=True)
class PathStep:
    """Relation of a path, walked along its direction or against it."""

    relation: int
    forward: bool


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of relations from one entity to another."""

    start: int
    steps: tuple[PathStep, ...]


@dataclass(frozen=True, slots=True)
class Graph:
    """All of a block's entities and relations by id, those merged, ended and retired included."""

    entities: Mapping[int, Entity] = field(default_factory=dict)
    relations: Mapping[int, Relation] = field(default_factory=dict)

    def name(self, entity: int) -> str:
        """Return an entity's name; a dash where its words were erased."""
        known_entity = self.entities.get(entity)
        return known_entity.name if known_entity is not None and known_entity.name else "\N{EN DASH}"

    def describe(self, relation: Relation) -> str:
        """Return a relation in words: `Ana → lives in → Lisbon`."""
        return f"{self.name(relation.subject)} → {relation.predicate} → {self.name(relation.object)}"

    def sentence(self, relation: Relation) -> str:
        """Return a relation as a model reads it: `Ana lives in Lisbon`."""
        return f"{self.name(relation.subject)} {relation.predicate} {self.name(relation.object)}"

    def describe_path(self, path: Path) -> str:
        """Return a path in words: `Alice → manages → Project Alpha`; against the direction `Rui ← brother ← Ana`."""
        parts = [self.name(path.start)]
        for step in path.steps:
            relation = self.relations.get(step.relation)
            if relation is None:
                raise NotFoundError("A relation of this path does not exist any more. Look for the path again.")
            arrow = "→" if step.forward else "←"
            parts.append(f"{arrow} {relation.predicate} {arrow}")
            parts.append(self.name(relation.object if step.forward else relation.subject))
        return " ".join(parts)

    def without_relations(self, ids: Collection[int]) -> "Graph":
        """Return the graph without some of its relations; entities stay."""
        if not ids:
            return self
        return Graph(self.entities, {id: relation for id, relation in self.relations.items() if id not in ids})

    def active(self) -> Iterator[Relation]:
        """Return the relations that hold, oldest first."""
        return (self.relations[id] for id in sorted(self.relations) if self.relations[id].state == "active")


class Names:
    """Index of a graph's active entities by name."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def find(self, name: str) -> Entity | None:
        """Return the entity of that name or alias, or None; case, a leading "the" and quotes do not matter."""
        return self._by_name.get(normal_name(clean_name(name)))

    def mentioned(self, text: str, *, first_person: bool = True) -> tuple[int, ...]:
        """Return the ids of the entities that a text names by whole words, in order.

        Of overlapping names the longer counts. With `first_person`, as in user texts, "I", "me" and "my" mean the user.
        """
        asked = [_bare(word) for word in words(text)]
        ids: list[int] = []
        place = 0
        while place < len(asked):
            id, length = self._longest_at(asked, place)
            if id is None and first_person and asked[place] in _FIRST_PERSON:
                me = self._by_name.get(normal_name(THE_USER))
                id = me.id if me is not None else None
            if id is not None:
                ids.append(id)
            place += length
        return tuple(dict.fromkeys(ids))

    def _longest_at(self, asked: list[str], place: int) -> tuple[int | None, int]:
        for length in self._lengths:
            id = self._by_words.get(tuple(asked[place : place + length]))
            # Near the end a slice is shorter than asked for, and may match a shorter name, whose turn comes later.
            if id is not None and place + length <= len(asked):
                return id, length
        return None, 1

    @cached_property
    def _by_name(self) -> dict[str, Entity]:
        result: dict[str, Entity] = {}
        active = [entity for _, entity in sorted(self._graph.entities.items()) if entity.state == "active"]
        for entity in active:
            result.setdefault(normal_name(entity.name), entity)
        for entity in active:  # a name goes before an alias
            for alias in entity.aliases:
                result.setdefault(normal_name(alias), entity)
        # Entities whose words were erased have no name.
        result.pop("", None)
        return result

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], int]:
        result: dict[tuple[str, ...], int] = {}
        for name, entity in self._by_name.items():
            key = tuple(_bare(word) for word in words(name))
            # An entity called "Will" would be mentioned in every other question.
            if key and not (len(key) == 1 and key[0] in STOP_WORDS):
                result.setdefault(key, entity.id)
        return result

    @cached_property
    def _lengths(self) -> list[int]:
        """Return the lengths of names in words, longest first."""
        return sorted({len(key) for key in self._by_words}, reverse=True)


def neighbourhood(graph: Graph, entities: Iterable[int], hops: int) -> dict[int, int]:
    """Return the distances of active relations near some entities, by id: from 1 (touches one of them) to `hops`."""
    edges = _edges(graph)
    reached = set(entities)
    border, result = reached, dict[int, int]()
    for distance in range(1, hops + 1):
        ends = set()
        for entity in border:
            for relation in edges.get(entity, ()):
                result.setdefault(relation.id, distance)
                ends |= {relation.subject, relation.object}
        border = ends - reached
        reached = reached | border
    return result


def find_paths(graph: Graph, start: int, end: int, *, hops: int, most: int) -> list[Path]:
    """Return paths of up to `hops` active relations between two entities, in either direction, shortest first.

    No entity is visited twice. Longer paths are looked for only if there are fewer than `most` shorter ones.
    """
    edges = _edges(graph)
    away = {end: 0}
    """Distance of entities from the end, in relations; only entities within `hops` are listed."""
    border = [end]
    for distance in range(1, hops + 1):
        ends = {_other_end(entity, relation) for entity in border for relation in edges.get(entity, ())}
        border = [entity for entity in ends if away.setdefault(entity, distance) == distance]

    def walks(entity: int, steps_left: int, visited: frozenset[int]) -> Iterator[tuple[PathStep, ...]]:
        if not steps_left:
            yield ()
            return
        for relation in edges.get(entity, ()):
            other = _other_end(entity, relation)
            # The end is reached with the last step only, and any other step must leave enough of them to get there.
            in_time = other == end if steps_left == 1 else other != end and away.get(other, steps_left) < steps_left
            if in_time and other not in visited:
                step = PathStep(relation.id, forward=relation.subject == entity)
                yield from ((step, *rest) for rest in walks(other, steps_left - 1, visited | {other}))

    paths: list[Path] = []
    # Empty if the end is out of reach, and if it is the start itself, which is 0 steps away.
    for length in range(away.get(start, hops + 1) or hops + 1, hops + 1):
        some = islice(walks(start, length, frozenset((start,))), most - len(paths))
        paths += sorted((Path(start, steps) for steps in some), key=lambda path: [step.relation for step in path.steps])
    return paths


def _edges(graph: Graph) -> dict[int, list[Relation]]:
    """Return the active relations that touch each entity."""
    edges: dict[int, list[Relation]] = {}
    for relation in graph.relations.values():
        if relation.state == "active":
            edges.setdefault(relation.subject, []).append(relation)
            edges.setdefault(relation.object, []).append(relation)
    return edges


def _other_end(entity: int, relation: Relation) -> int:
    return relation.object if relation.subject == entity else relation.subject


# -- what counts as the same ---------------------------------------------------------------------

_SPACE = re.compile(r"[\s\x00-\x1f\x7f]+")
_ENDS = " \t\"'“”‘’«»()[]{}<>,;:!?"
_FIRST_PERSON = frozenset({"i", "me", "my", "mine", "myself", "i'm", "i've", "i'll", "i'd"})
_USER = _FIRST_PERSON | {"user"}
_NOBODY = {
    "he", "him", "his", "she", "her", "hers", "it", "its", "they", "them", "their", "theirs", "we", "us", "our",
    "ours", "you", "your", "yours", "this", "that", "these", "those", "who", "whom", "whose", "which", "what",
    "someone", "somebody", "something", "anyone", "anybody", "anything", "everyone", "everybody", "everything",
    "nobody", "nothing", "one", "here", "there", "himself", "herself", "itself", "themselves", "yourself",
    "ourselves",
}  # fmt: skip
_COPULA = re.compile(r"^(?:(?:is|are|was|were|am|be|been|being|has been|have been|had been) )+(?:(?:a|an|the) )?")
_HAS = re.compile(r"^(?:has|have|had) (?:(?:a|an|the) )?")
_IS = re.compile(r" (?:is|are|was|set to|set for)$")
_BASE = {
    "live in": "lives in", "resides in": "lives in", "reside in": "lives in", "living in": "lives in",
    "work at": "works at", "works for": "works at", "work for": "works at", "employed by": "works at",
    "employed at": "works at", "working at": "works at", "working for": "works at", "work as": "works as",
    "working as": "works as", "due": "deadline", "due on": "deadline", "due date": "deadline", "due by": "deadline",
    "based in": "located in", "situated in": "located in", "named": "name", "called": "name",
    "married with": "married to", "spouse": "married to", "spouse of": "married to",
    "born on": "date of birth", "birth date": "date of birth", "favorite color": "favourite colour",
    "sibling": "sibling of", "friend": "friend of", "colleague": "colleague of", "neighbor of": "neighbour of",
    "alias": SAME_AS, "alias of": SAME_AS, "same": SAME_AS, "same person as": SAME_AS, "identical to": SAME_AS,
    "also known as": SAME_AS, "known as": SAME_AS, "also called": SAME_AS, "aka": SAME_AS, "nickname": SAME_AS,
    "nickname of": SAME_AS, "short for": SAME_AS, "also": SAME_AS,
}  # fmt: skip
"""Other wordings of predicates that the engine treats specially, each with the usual wording."""


def clean_name(name: str) -> str:
    """Normalise a name: without quotes and needless space; empty if nothing is left. "I" is "The user"."""
    text = _SPACE.sub(" ", unicodedata.normalize("NFC", _whole(name))).lstrip(_ENDS).rstrip(_ENDS + ".")
    return THE_USER if normal_name(text) in _USER else text


def normal_name(name: str) -> str:
    """Normalise a name; names of one entity compare equal.

    >>> normal_name("The  Project Alpha"), normal_name("project alpha")
    ('project alpha', 'project alpha')
    """
    text = (
        _SPACE.sub(" ", unicodedata.normalize("NFKC", name))
        .lstrip(_ENDS)
        .rstrip(_ENDS + ".")
        .casefold()
        .replace("’", "'")
    )
    return text.removeprefix("the ") or text


def names_nobody(name: str) -> bool:
    """Return whether a name is a pronoun, which refers to somebody named before."""
    return normal_name(name) in _NOBODY


def clean_predicate(predicate: str) -> str:
    """Normalise a predicate: one wording for those that the engine treats specially, else unchanged.

    >>> clean_predicate("WORKS_FOR"), clean_predicate("is allergic to"), clean_predicate("CEO of")
    ('works at', 'allergic to', 'CEO of')
    """
    # Models write predicates as identifiers, in capitals or not: `WORKS_FOR`.
    text = _whole(predicate).replace("_", " ") if " " not in predicate.strip() else _whole(predicate)
    text = _SPACE.sub(" ", unicodedata.normalize("NFC", text)).lstrip(_ENDS).rstrip(_ENDS + ".")
    if "_" in predicate and text.isupper():
        text = text.lower()
    same = normal_predicate(text)
    if same in ATTRIBUTES or same in SYMMETRIC or same == SAME_AS:
        return text if text.isupper() and text.casefold() == same and len(text) <= 4 else same  # CEO
    return _without(_COPULA, text)


def normal_predicate(predicate: str) -> str:
    """Normalise a predicate; predicates of one meaning compare equal."""
    text = (
        _SPACE.sub(" ", unicodedata.normalize("NFKC", predicate).replace("_", " "))
        .lstrip(_ENDS)
        .rstrip(_ENDS + ".")
        .casefold()
    )
    text = _without(_COPULA, text)
    # "has the deadline" and "deadline is" are both "deadline".
    for shorter in (text, _HAS.sub("", text), _IS.sub("", text)):
        base = _BASE.get(shorter, shorter)
        if base in ATTRIBUTES or base in SYMMETRIC or base == SAME_AS:
            return base
    return text


def slot_of(subject: str, predicate: str) -> Slot | None:
    """Return the slot of a relation that holds for one object at a time; None for any other relation.

    >>> slot_of("The user's sister", "lives in"), slot_of("Ana", "likes")
    (Slot(subject='user.sister', attribute='home'), None)
    """
    attribute = ATTRIBUTES.get(normal_predicate(predicate))
    return None if attribute is None else Slot(normal_name(subject).replace("'s ", "."), attribute)


def _whole(text: str) -> str:
    """Return the text without lone surrogates, which cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def _without(opening: re.Pattern[str], predicate: str) -> str:
    """Return a predicate without its opening, unless nothing would be left: `is a` stays."""
    shorter = opening.sub("", predicate)
    return predicate if shorter in ("", "a", "an", "the") else shorter


def _bare(word: str) -> str:
    """Return a word without the ending of a possessive."""
    return word.removesuffix("'s").removesuffix("'")
