"""The part of a graph to show, and sentences on it: the focus, its neighbourhood, a path to another entity. Pure.

Distances are in steps; a step follows one relation, in either direction. Only what is documented as markdown is
escaped: names and predicates are untrusted text. No Streamlit.
"""

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.planning.graph_rules import Entity, Graph, Names, Path, PathStep, Relation
from memory_inspector.wording.formatting import count, plain, short, tokens

MOST = 40
"""Maximum number of entities drawn around the focus, and of relations with a label."""

BESIDE_A_PATH = 12
"""Maximum number of entities drawn beside a shown path."""

ON_A_BRANCH = 20
"""Maximum number of entities drawn beyond one neighbour of the focus: about the rows on one side of the figure."""

FARTHEST = 4
"""Maximum length of a path, in steps."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A focus with its neighbourhood."""

    focus: int
    relations: tuple[Relation, ...]
    """Relations of the path, then those of the focus, then the rest; in each group current ones before ended ones."""
    distances: Mapping[int, int]
    """Distance from the focus of every drawn entity, in steps."""
    reached: int
    """Number of entities around the focus, including those not drawn."""
    path: tuple[int, ...] = ()
    """Entities along the path shown, starting with the focus."""
    lit: frozenset[int] = frozenset()
    """Relations on the path."""

    @property
    def around(self) -> int:
        """Number of entities drawn around the focus."""
        return len(self.distances) - 1

    def drawn(self) -> list[Relation]:
        """Relations between drawn entities."""
        return [
            relation
            for relation in self.relations
            if relation.subject in self.distances and relation.object in self.distances
        ]


def entities(graph: Graph) -> list[Entity]:
    """Active entities: neither merged nor removed."""
    return [entity for entity in graph.entities.values() if entity.state == "active"]


def relations(graph: Graph) -> list[Relation]:
    """Current and ended relations between active entities."""
    existing = {entity.id for entity in entities(graph)}
    return [
        relation
        for relation in graph.relations.values()
        if relation.state != "retired" and relation.subject in existing and relation.object in existing
    ]


def mentions(graph: Graph) -> Counter[int]:
    """Mentions of each entity in relations: one for each source message, or for a relation written by a person."""
    mentioned = Counter({entity.id: 0 for entity in entities(graph)})
    for relation in relations(graph):
        # A relation written by a person has no source message, but counts as one mention.
        times = max(1, len(relation.sources))
        mentioned[relation.subject] += times
        mentioned[relation.object] += times
    return mentioned


def by_mentions(graph: Graph) -> list[Entity]:
    """Active entities, the most mentioned first; of equals the oldest first."""
    mentioned = mentions(graph)
    return sorted(entities(graph), key=lambda entity: (-mentioned[entity.id], entity.id))


def find(graph: Graph, asked: str) -> int | None:
    """Return the id of the entity that a URL names by id, name or alias, ignoring case; None if it does not exist."""
    # A longer number is no id, and int() refuses very long ones.
    if asked.isdecimal() and len(asked) < 16:
        entity = graph.entities.get(int(asked))
        # A merged entity leads to the one it was merged into, and on, so that old links keep working.
        passed: set[int] = set()
        while entity is not None and entity.merged_into is not None and entity.id not in passed:
            passed.add(entity.id)
            entity = graph.entities.get(entity.merged_into)
        if entity is not None and entity.state == "active":
            return entity.id
    named = Names(graph).find(asked)
    return named.id if named is not None else None


def kinds(graph: Graph) -> list[str]:
    """Predicates of the graph, the most frequent first."""
    counted = Counter(relation.predicate for relation in relations(graph))
    return sorted(counted, key=lambda name: (-counted[name], name.casefold()))


def around(
    graph: Graph, focus: int, *, steps: int = 1, only: Collection[str] = (), path: Path | None = None, most: int = MOST
) -> Seen:
    """Neighbourhood of the focus within `steps` steps, over the predicates `only` (empty: all), and a path from it.

    Of more than `most` entities the nearest are drawn, and of these the most mentioned, with a maximum on each branch;
    the path is always drawn.
    """
    wanted = [relation for relation in relations(graph) if not only or relation.predicate in only]
    on_path = [graph.relations[step.relation] for step in path.steps] if path is not None else []
    along = stops(graph, path) if path is not None else ()
    lit = frozenset(relation.id for relation in on_path)
    within = _distances(wanted, focus, steps)
    mentioned = mentions(graph)
    others = sorted(
        (entity for entity in within if entity != focus and entity not in along),
        key=lambda entity: (within[entity], -mentioned[entity], entity),
    )
    # Beside a path only a few others are drawn, because the path is what was asked for.
    room = most if path is None else min(most, BESIDE_A_PATH)
    far = {entity: number for number, entity in enumerate(along)}
    # An entity of the path beyond the steps shown gets its place on the path as its distance.
    distances = {focus: 0} | {entity: within.get(entity, far[entity]) for entity in along if entity != focus}
    taken = _taken(others, within, mentioned, _beside(wanted), set(along) | {focus}, room)
    distances |= {entity: within[entity] for entity in taken}
    listed = [
        relation
        for relation in wanted
        # Relations of the path are listed first already.
        if relation.id not in lit
        and relation.subject in within
        and relation.object in within
        # One end must be nearer than the outermost ring: relations within that ring are beyond the steps asked for.
        and min(within[relation.subject], within[relation.object]) < steps
    ]
    listed.sort(
        key=lambda relation: (
            focus not in (relation.subject, relation.object),
            relation.state == "ended",
            -relation.turn,
            relation.id,
        )
    )
    return Seen(
        focus=focus,
        relations=(*on_path, *listed),
        distances=distances,
        reached=len(others) + len(set(along) - {focus}),
        path=along,
        lit=lit,
    )


def _taken(
    others: Sequence[int],
    within: Mapping[int, int],
    mentioned: Mapping[int, int],
    beside: Mapping[int, Sequence[Relation]],
    existing: set[int],
    room: int,
) -> list[int]:
    """Entities to draw, in order; each is connected to one drawn before it."""
    taken: list[int] = []
    branches: Counter[int] = Counter()
    for entity in others:
        if len(taken) == room:
            break
        # Direct neighbours are always connected to the focus; farther ones need a drawn entity one step nearer.
        if within[entity] > 1:
            ends = {end for relation in beside[entity] for end in (relation.subject, relation.object)}
            above = [end for end in ends & existing if within.get(end) == within[entity] - 1]
            branch = min(above, key=lambda end: (-mentioned.get(end, 0), end)) if above else None
            # A branch that is full, or starts at an entity left out, is not continued.
            if branch is None or branches[branch] == ON_A_BRANCH:
                continue
            branches[branch] += 1
        taken.append(entity)
        existing.add(entity)
    return taken


def _distances(relations_wanted: Sequence[Relation], start: int, most: int) -> dict[int, int]:
    """Distances in steps from an entity, up to `most`."""
    beside = _beside(relations_wanted)
    distances, waiting = {start: 0}, deque([start])
    while waiting:
        here = waiting.popleft()
        if distances[here] == most:
            continue
        for relation in beside.get(here, ()):
            neighbour = relation.object if relation.subject == here else relation.subject
            if neighbour not in distances:
                distances[neighbour] = distances[here] + 1
                waiting.append(neighbour)
    return distances


def shortest(graph: Graph, start: int, end: int, *, most: int = FARTHEST) -> Path | None:
    """Shortest path over current relations, in either direction; None if there is none of at most `most` steps.

    Of equally short paths, the one with the oldest relations.
    """
    # Sorted by id, so that older relations are tried first at every entity.
    beside = _beside(sorted((edge for edge in relations(graph) if edge.state == "active"), key=lambda edge: edge.id))
    came: dict[int, tuple[int, PathStep]] = {}
    far, waiting = {start: 0}, deque([start])
    while waiting and end not in far:
        here = waiting.popleft()
        if far[here] == most:
            continue
        for relation in beside.get(here, ()):
            forward = relation.subject == here
            neighbour = relation.object if forward else relation.subject
            if neighbour not in far:
                far[neighbour] = far[here] + 1
                came[neighbour] = here, PathStep(relation.id, forward)
                waiting.append(neighbour)
    if end not in far:
        return None
    steps: list[PathStep] = []
    # Back from the end, over the relation that each entity was reached by.
    while end != start:
        end, step = came[end]
        steps.append(step)
    return Path(start, tuple(reversed(steps)))


def stops(graph: Graph, path: Path) -> tuple[int, ...]:
    """Entities along a path, its start first."""
    ids = [path.start]
    for step in path.steps:
        relation = graph.relations[step.relation]
        ids.append(relation.object if step.forward else relation.subject)
    return tuple(ids)


def _beside(relations_wanted: Sequence[Relation]) -> dict[int, list[Relation]]:
    """Relations by entity."""
    beside: dict[int, list[Relation]] = {}
    for relation in relations_wanted:
        beside.setdefault(relation.subject, []).append(relation)
        beside.setdefault(relation.object, []).append(relation)
    return beside


# -- sentences -------------------------------------------------------------------------------------

NAME_CHARACTERS = 40
"""Maximum length of a name in a sentence or a list, in characters."""

BADGES: Mapping[str, tuple[str, str]] = {
    "active": ("Holds now", "check"),
    "ended": ("Ended", "history"),
    "retired": ("Removed", "archive"),
}
"""Label and icon of each state of a relation."""

TYPES: Mapping[str, str] = {
    "person": "Person",
    "place": "Place",
    "organisation": "Organisation",
    "project": "Project",
    "thing": "Thing",
    "date": "Date",
    "other": "Other",
}

SAID_BY = {"user": "the user", "assistant": "the assistant", "tool": "a tool", "system": "the system message"}


@dataclass(frozen=True, slots=True)
class RelationSource:
    """The first source message of a relation."""

    turn: int
    role: str


def opening(graph: Graph, *, past_turn: int | None = None) -> str:
    """Summary of the page: `12 entities, 15 relations, 2 ended.`"""
    shown, named = relations(graph), len(entities(graph))
    ended = sum(relation.state == "ended" for relation in shown)
    size = f"{count(named, 'entity')}, {count(len(shown), 'relation')}"
    size += f", {tokens(ended)} ended." if ended else "."
    return size if past_turn is None else f"After turn {tokens(past_turn)}: {size}"


def relation_words(graph: Graph, relation: Relation, most: int = NAME_CHARACTERS) -> str:
    """A relation in words: `Ana → lives in → Lisbon`, each part shortened to `most` characters."""
    parts = (graph.name(relation.subject), relation.predicate, graph.name(relation.object))
    return " → ".join(short(part, most) for part in parts)


def way(graph: Graph, path: Path | None) -> str:
    """Sentence on the requested path: `Ana → brother → Rui: 1 step.`"""
    if path is None:
        return f"No path of at most {FARTHEST} steps."
    return f"{graph.describe_path(path)}: {count(len(path.steps), 'step')}."


def how_many(seen: Seen) -> str | None:
    """Sentence on entities left out of the figure: `Showing the 40 most mentioned of 212.` None: all are shown."""
    if seen.around >= seen.reached:
        return None
    nearest = " nearest and" if max(seen.distances.values()) > 1 and not seen.path else ""
    return f"Showing the {tokens(seen.around)}{nearest} most mentioned of {tokens(seen.reached)}."


def source_line(relation: Relation, heard: RelationSource | None, *, session_id: str) -> str:
    """Author of a relation, and its turn: `said in turn 3 by the user`."""
    if relation.origin == "written":
        # The user, or an agent with the tools of a memory server: the log knows.
        return f"written in turn {tokens(relation.turn)}" if relation.turn else "written, not learned"
    times = f"said {tokens(len(relation.sources))} times, first" if len(relation.sources) > 1 else "said"
    if heard is not None:
        return f"{times} in turn {tokens(heard.turn)} by {SAID_BY.get(heard.role, heard.role)}"
    # Its messages are not in this log, so their turn and author are unknown here.
    if relation.sources and all(session != session_id for session, _ in relation.sources):
        return f"{times} in another session"
    return f"{times} in turn {tokens(relation.turn)}" if relation.turn else "source message deleted"


def state_line(graph: Graph, relation: Relation) -> str:
    """State of a relation: `holds now`, or `ended in turn 9, replaced by Porto`."""
    if relation.state == "active":
        return "holds now"
    if relation.state == "retired":
        return "removed"
    when = f"ended in turn {tokens(relation.ended_turn)}" if relation.ended_turn else "ended"
    by = graph.relations.get(relation.ended_by) if relation.ended_by is not None else None
    if by is None:
        return when
    # With the same subject, the new object says enough.
    new = graph.name(by.object) if by.subject == relation.subject else relation_words(graph, by)
    return f"{when}, replaced by {short(new, NAME_CHARACTERS)}"


def entity_label(entity: Entity) -> str:
    """Label of an entity in a selection, with aliases so that they can be searched."""
    # Three aliases at most, so that the name stays readable.
    also = f" ({', '.join(short(alias) for alias in entity.aliases[:3])})" if entity.aliases else ""
    return f"{short(entity.name, NAME_CHARACTERS)}{also}"


def entity_lines(graph: Graph, entity: Entity) -> list[str]:
    """Details of an entity, as markdown."""
    of_entity = [relation for relation in relations(graph) if entity.id in (relation.subject, relation.object)]
    ended = sum(relation.state == "ended" for relation in of_entity)
    lines = [TYPES.get(entity.type, "Other")]
    if entity.aliases:
        lines.append("also " + ", ".join(plain(short(alias, NAME_CHARACTERS)) for alias in entity.aliases))
    lines.append(count(len(of_entity), "relation") + (f", {tokens(ended)} ended" if ended else ""))
    lines.append(f"mentioned {count(mentions(graph)[entity.id], 'time')}")
    return lines


def number_rows(graph: Graph, seen: Seen) -> list[dict[str, Any]]:
    """Rows of the table below the figure, one for each drawn relation."""
    return [
        {
            "From": graph.name(relation.subject),
            "Relation": relation.predicate,
            "To": graph.name(relation.object),
            "Since turn": relation.turn,
            "State": state_line(graph, relation),
            "Path": "✓" if relation.id in seen.lit else "",
        }
        for relation in seen.drawn()
    ]
