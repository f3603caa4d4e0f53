"""Sentences of the Graph page: size of the graph, sources and states of relations, paths. Pure; no Streamlit.

Only what is documented as markdown is escaped: names and predicates are untrusted text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.planning.graph_rules import Entity, Graph, Path, Relation
from memory_inspector.reading.neighbourhood import FARTHEST, Seen, entities, mentions, relations
from memory_inspector.wording.formatting import count, plain, short, tokens

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
