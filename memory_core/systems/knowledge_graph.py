"""Methods of MCP's reference memory server (`KnowledgeGraphManager`), over a graph block and a facts block.

Relations are in the graph. Observations and types of entities are facts, as the graph has few types and also holds
entities that are only named in a relation. Names that differ in case or in a leading "the" are one entity.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock
from memory_core.curation.fact_change_sets import Known
from memory_core.curation.graph_desk import RequestedChange
from memory_core.curation.known_facts import FactsAsked
from memory_core.errors import MessageError, NotFoundError
from memory_core.memory import Memory
from memory_core.messages import storable
from memory_core.planning import graph_changes
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import Fact, key_of, parts_of
from memory_core.planning.graph_draft import GraphDraft, GraphPlan
from memory_core.planning.graph_rules import LONGEST, Graph, normal_name, normal_predicate
from memory_core.recipes import recipe

GRAPH, OBSERVATIONS = "Relations", "Observations"
"""Names of the blocks."""

_NAME, _TYPE, _OBSERVED = "entity", "entityType", "observation"
"""Keys of the facts' metadata, which holds the original text, as blanks in a fact's text are normalised."""

Row = Mapping[str, Any]
"""An entity, relation or observation as the server's tools write it."""


class KnowledgeGraph:
    """Entities with observations, and relations, in one session. Every change is the agent's, and can be undone."""

    def __init__(
        self, session_id: str = "knowledge-graph", *, database_uri: str | None = None, **settings: Any
    ) -> None:
        """Create or open the session; `settings` are those of `Memory.from_defaults`."""
        made = recipe("graph").made()
        blocks = [*made.blocks, FactExtractionMemoryBlock(name=OBSERVATIONS, priority=2)]
        all_settings = {"title": "Knowledge graph", "memory_blocks": blocks, **made.settings, **settings}
        self.memory = Memory.from_defaults(session_id, database_uri=database_uri, **all_settings)
        """The `Memory` behind this object, with its events, settings, and changes with their undo."""
        self._both = self.memory.blocks.graph_and_facts(GRAPH, OBSERVATIONS)

    # -- changing ---------------------------------------------------------------------------------

    def create_entities(self, entities: Sequence[Row]) -> list[Row]:
        """Add entities, each with `name`, `entityType` and `observations`; return those that were new.

        Raises:
            MessageError: a name cannot be stored.
        """

        def wish(graph: Graph, facts: Known) -> RequestedChange[list[Row]]:
            state, created = _GraphState(graph, facts), list[Row]()
            for new in entities:
                id = state.draft.find(_checked(new["name"], "A name"))
                # An entity that only a relation named so far is new to the server's tools.
                if id is None or id not in state.entities:
                    state.declare(new["name"], new["entityType"])
                    state.observe(new["name"], new["observations"])
                    created.append(new)
            return RequestedChange(created, state.draft.plan(), "add", state.kept)

        return self._both.change(wish)

    def create_relations(self, relations: Sequence[Row]) -> list[Row]:
        """Add relations, each with `from`, `to` and `relationType`; return those that were new.

        Raises:
            MessageError: a name or a relation's type cannot be stored, or both ends are one entity.
        """

        def wish(graph: Graph, facts: Known) -> RequestedChange[list[Row]]:
            draft, created = GraphDraft(graph), list[Row]()
            for new in relations:
                type = _checked(new["relationType"], "A relation's type")
                ends = [draft.entity(_checked(new[end], "A name")) for end in ("from", "to")]
                # Two spellings of one name: the graph has no relation of an entity to itself.
                if ends[0] == ends[1]:
                    raise MessageError(f'{graph_changes.TWO_DIFFERENT} "{new["from"]}" and "{new["to"]}" are one.')
                if not any(
                    (relation.subject, relation.predicate, relation.object, relation.state)
                    == (ends[0], type, ends[1], "active")
                    for relation in draft.relations.values()
                ):
                    draft.add_relation(ends[0], type, ends[1], origin="written", contradicts=False)
                    created.append(new)
            # An empty plan stores no change, so that repeating a call leaves nothing to undo.
            return RequestedChange(created, draft.plan() if created else GraphPlan())

        return self._both.change(wish)

    def add_observations(self, observations: Sequence[Row]) -> list[Row]:
        """Add `contents` to the observations of `entityName`; return the new ones for each.

        Raises:
            NotFoundError: there is no such entity; nothing was added.
        """

        def wish(graph: Graph, facts: Known) -> RequestedChange[list[Row]]:
            state, results = _GraphState(graph, facts), list[Row]()
            for observation in observations:
                name = observation["entityName"]
                observed = state.observed(name)
                if observed is None:
                    raise NotFoundError(f"Entity with name {name} not found")
                # Also compared with what this call adds, as one entity may be listed twice.
                added = [content for content in dict.fromkeys(observation["contents"]) if content not in observed]
                state.observe(name, added)
                results.append({"entityName": name, "addedObservations": added})
            return RequestedChange(results, kept=state.kept)

        return self._both.change(wish)

    def delete_entities(self, names: Sequence[str]) -> None:
        """Retire entities with their observations and relations; missing ones are ignored."""

        def wish(graph: Graph, facts: Known) -> RequestedChange[None]:
            state = _GraphState(graph, facts)
            ids = {id for name in names if (id := state.draft.find(name)) is not None}
            # Facts and graph change together, and one undo brings both back.
            gone = [fact for id in ids for fact in state.facts_of(id)]
            plan = graph_changes.remove(graph, [graph.entities[id] for id in ids]) if ids else GraphPlan()
            return RequestedChange(None, plan, "retire", {fact.key: None for fact in gone if fact.key is not None})

        self._both.change(wish)

    def delete_observations(self, deletions: Sequence[Row]) -> None:
        """Retire `observations` of each `entityName`; missing ones are ignored."""

        def wish(graph: Graph, facts: Known) -> RequestedChange[None]:
            state, gone = _GraphState(graph, facts), dict[str, FactDraft | None]()
            for deletion in deletions:
                of = state.observations.get(state.draft.find(deletion["entityName"]) or 0, ())
                gone |= {fact.key: None for fact in of if fact.key and _observed(fact) in deletion["observations"]}
            return RequestedChange(None, kept=gone)

        self._both.change(wish)

    def delete_relations(self, relations: Sequence[Row]) -> None:
        """Retire relations by `from`, `to` and `relationType`; missing ones are ignored."""

        def wish(graph: Graph, facts: Known) -> RequestedChange[None]:
            draft = GraphDraft(graph)
            # A name that is unknown has no id, and no relation has None for an end.
            wanted = {
                (draft.find(relation["from"]), relation["relationType"], draft.find(relation["to"]))
                for relation in relations
            }
            gone = [
                relation
                for relation in graph.active()
                if (relation.subject, relation.predicate, relation.object) in wanted
            ]
            return RequestedChange(None, graph_changes.retire(graph, gone) if gone else GraphPlan(), "retire")

        self._both.change(wish)

    # -- reading ----------------------------------------------------------------------------------

    def read_graph(self) -> dict[str, list[Row]]:
        """Return the whole graph: `entities` and `relations`."""
        return self._shown(_GraphState(*self._both.read()))

    def search_nodes(self, query: str) -> dict[str, list[Row]]:
        """Return entities whose name, type or observations contain the query, in any case, and their relations."""
        sought, state = query.lower(), _GraphState(*self._both.read())
        ids = {
            id
            for id, row in state.rows()
            if any(sought in text.lower() for text in (row["name"], row["entityType"], *row["observations"]))
        }
        return self._shown(state, ids, query)

    def open_nodes(self, names: Sequence[str]) -> dict[str, list[Row]]:
        """Return the entities of these names, and the relations that touch them."""
        state = _GraphState(*self._both.read())
        ids = {id for name in names if (id := state.draft.find(name)) in state.entities}
        return self._shown(state, {id for id in ids if id is not None}, ", ".join(names))

    def _shown(
        self, state: "_GraphState", only: set[int] | None = None, query: str | None = None
    ) -> dict[str, list[Row]]:
        rows = {id: row for id, row in state.rows() if only is None or id in only}
        relations: list[Row] = [
            {
                "from": state.graph.name(relation.subject),
                "to": state.graph.name(relation.object),
                "relationType": relation.predicate,
            }
            for relation in state.graph.active()
            # One end is enough, so that an opened node shows its neighbours.
            if only is None or {relation.subject, relation.object} & rows.keys()
        ]
        # Recorded as read by the agent, so that a trace can show it.
        given_facts = [fact for id in rows for fact in state.facts_of(id)]
        self.memory.facts.record_reads(OBSERVATIONS, [FactsAsked(given_facts, query=query)])
        return {"entities": list(rows.values()), "relations": relations}


@dataclass(slots=True)
class _GraphState:
    """Present graph and facts, with the changes to store."""

    graph: Graph
    facts: Known
    draft: GraphDraft = field(init=False)
    entities: dict[int, Fact | None] = field(init=False, default_factory=dict)
    """Fact with an entity's type, by entity id; None if just added. Entities that only a relation names are missing."""
    observations: dict[int, list[Fact]] = field(init=False, default_factory=dict)
    kept: dict[str, FactDraft | None] = field(init=False, default_factory=dict)
    _new: dict[int, list[str]] = field(init=False, default_factory=dict)
    _last: dict[str, int] = field(init=False, default_factory=dict)
    """Highest number that an observation of an entity ever had, by the entity's key."""

    def __post_init__(self) -> None:
        self.draft = GraphDraft(self.graph)
        for fact in self.facts.values():
            name, *number = parts_of(fact.key) if fact.key is not None else ("",)
            # Numbers are never used again: a retired observation keeps its key, and may be restored.
            if number and number[0].isdigit():
                self._last[key_of([name])] = max(self._last.get(key_of([name]), 0), int(number[0]))
            id = self.draft.find(name)
            if fact.state == "active" and id is not None:
                if _TYPE in fact.metadata:
                    self.entities[id] = fact
                elif _OBSERVED in fact.metadata:
                    self.observations.setdefault(id, []).append(fact)

    def rows(self) -> Iterable[tuple[int, dict[str, Any]]]:
        """Yield each entity as the tools show it, the oldest first."""
        for id, fact in self.entities.items():
            if fact is not None:
                observed = [_observed(text) for text in self.observations.get(id, ())]
                yield id, {"name": self.graph.name(id), "entityType": _type_of(fact), "observations": observed}

    def facts_of(self, id: int) -> list[Fact]:
        fact = self.entities.get(id)
        return [*([fact] if fact is not None else []), *self.observations.get(id, ())]

    def observed(self, name: str) -> list[str] | None:
        """Return the observations of an entity; None if there is no entity of that name."""
        id = self.draft.find(name)
        if id is None or id not in self.entities:
            return None
        return [*(_observed(fact) for fact in self.observations.get(id, ())), *self._new.get(id, ())]

    def declare(self, name: str, type: str) -> None:
        """Add the fact that an entity exists, with its type."""
        id = self.draft.entity(name, type=type)
        entity_name = self.draft.entities[id].name
        if entity_name != name and normal_name(entity_name) == normal_name(name):  # as it is written now
            self.draft.change_entity(id, name=name)
        self.entities[id] = None
        self.kept[key_of([name])] = FactDraft(
            _is_a(name, type), category=_NAME, topics=(name,), metadata={_NAME: name, _TYPE: type}
        )

    def observe(self, name: str, contents: Iterable[str]) -> None:
        """Add observations of an existing entity."""
        owner = key_of([name])
        for content in contents:
            self._last[owner] = self._last.get(owner, 0) + 1
            self._new.setdefault(self.draft.find(name) or 0, []).append(content)
            key = key_of([name, str(self._last[owner])])
            metadata = {_NAME: name, _OBSERVED: content}
            self.kept[key] = FactDraft(_is(name, content), category=_OBSERVED, topics=(name,), metadata=metadata)


def _is_a(name: str, type: str) -> str:
    return f"{name} ({type})"


def _is(name: str, observation: str) -> str:
    return f"{name}: {observation}"


def _as_kept(text: str) -> str:
    """Return a text as facts store it: storable characters, single blanks."""
    return " ".join(storable(text)[0].split())


def _type_of(fact: Fact) -> str:
    """Return an entity's type: as learned, or as a person has reworded it since."""
    name, type = fact.metadata[_NAME], str(fact.metadata[_TYPE])
    reworded = re.fullmatch(r".*\((.*)\)", fact.text)
    # The type in the text wins only if a person changed it; tidying alone is no rewording.
    return reworded[1] if reworded and fact.text != _as_kept(_is_a(name, type)) else type


def _observed(fact: Fact) -> str:
    """Return an observation: as stored, or as a person has reworded it since."""
    name, observation = fact.metadata[_NAME], str(fact.metadata[_OBSERVED])
    # A person's rewording wins over what the agent stored.
    same = fact.text == _as_kept(_is(name, observation))
    return observation if same else fact.text.removeprefix(f"{_as_kept(name)}:").strip()


def _checked(text: str, what: str) -> str:
    """Return a name or a relation's type if the graph can store it."""
    # A name that storing would change could not be found again in the agent's spelling.
    if not normal_name(text) or not normal_predicate(text) or storable(text)[0] != text:
        raise MessageError(f"{what} must have letters or digits, and no control character: {text[:LONGEST]!r} has not.")
    if len(text) > LONGEST:
        raise MessageError(f"{what} may have {LONGEST} characters, not {len(text)}.")
    return text
