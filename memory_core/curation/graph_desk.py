"""The desk of a graph block: entities, relations, paths between them, and changes with undo.

    desk = memory.graph()
    desk.relations("Alice")
    for path in desk.paths("Alice", "March 2026"):
        print(desk.describe(path))  # Alice → manages → Project Alpha → deadline → March 2026

Only reads and combines. Decisions are in `memory_core.planning.graph_changes`, storing in
`memory_core.curation.graph_change_sets`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from sqlalchemy import Connection

from memory_core.blocks.graph import GraphCache, GraphMemoryBlock
from memory_core.curation.change_sets import Change, ChangeSetDesk
from memory_core.curation.fact_change_sets import FactChangeSetTransaction, Known
from memory_core.curation.fact_desk import Curation
from memory_core.curation.graph_change_sets import GraphChangeSetTransaction, read_graph_log, tell
from memory_core.engine.context import Context, build_context
from memory_core.engine.next_prompt import NOT_STORED
from memory_core.engine.session import ImaginedBlocks, Session
from memory_core.errors import ConfigError, NotFoundError
from memory_core.events import Actor
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.planning import graph_changes as changes
from memory_core.planning.curation import FactDraft
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_draft import GraphPlan
from memory_core.planning.graph_rules import (
    Entity,
    Graph,
    Names,
    Path,
    Relation,
    find_paths,
    neighbourhood,
    normal_predicate,
)
from memory_core.store.fact_rows import read_facts
from memory_core.store.graph_rows import read_graph
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing

MAX_STEPS = 6
"""Maximum length of a path, in steps: beyond that nearly everything is connected to everything."""


class GraphDesk(ChangeSetDesk[GraphChangeSetTransaction]):
    def __init__(self, session: Session, block: str | None = None) -> None:
        """See `Memory.blocks.graph`."""
        graphs = [attached.name for attached in session.blocks if attached.kind == GraphMemoryBlock.kind]
        if block is None and not graphs:
            raise NotFoundError("This session has no graph block. Add one to relate what is said in it.")
        name = graphs[0] if block is None else block
        # An unknown name raises here, before the kind of the block is asked.
        if session.block(name).name not in graphs:
            raise ConfigError(f'the block "{name}" holds no graph')
        super().__init__(session, name)

    # -- reading ----------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """Return all entities and relations by id, those merged, ended and retired included.

        Cheap: cached until it changes.
        """
        return self._read_graph()[0]

    def entity(self, name: str) -> Entity:
        """Return the active entity of that name or alias, ignoring case and a leading "the".

        Raises:
            NotFoundError: there is none.
        """
        return _find_entity(self._read_graph()[1], name)

    def relations(self, name: str | None = None, *, type: str | None = None, ended: bool = True) -> list[Relation]:
        """Return relations, oldest first; optionally with the entity `name` at an end, or of one predicate (`type`).

        `ended=False` leaves out ended ones. Retired ones are in `graph()` only.

        Raises:
            NotFoundError: there is no such entity.
        """
        graph, names = self._read_graph()
        entity = None if name is None else _find_entity(names, name).id
        predicate = None if type is None else normal_predicate(type)
        states = ("active", "ended") if ended else ("active",)
        return [
            relation
            for _, relation in sorted(graph.relations.items())
            if relation.state in states
            and (entity is None or entity in (relation.subject, relation.object))
            and (predicate is None or normal_predicate(relation.predicate) == predicate)
        ]

    def neighbourhood(self, entity_ids: Iterable[int], hops: int = 2) -> dict[int, int]:
        """Return active relations' distance from these entities, 1 (their own) to `hops` steps, by relation id."""
        return neighbourhood(self.graph(), entity_ids, hops)

    def paths(self, start: str, end: str, *, hops: int = 4, most: int = 5) -> list[Path]:
        """Return paths from one entity to another over active relations in either direction, shortest first.

        Raises:
            NotFoundError: there is no such entity.
            ConfigError: `hops` is not 1 to 6, or `most` below 1.
        """
        if not 1 <= hops <= MAX_STEPS:
            raise ConfigError(f"hops must be 1 to {MAX_STEPS}, not {hops}")
        if most < 1:
            raise ConfigError(f"most must be at least 1, not {most}")
        graph, names = self._read_graph()
        return find_paths(graph, _find_entity(names, start).id, _find_entity(names, end).id, hops=hops, most=most)

    def describe(self, path: Path) -> str:
        """Describe a path: `Alice → manages → Project Alpha`; against the direction `Rui ← brother ← Ana`.

        Raises:
            NotFoundError: a relation of the path was erased.
        """
        return self.graph().describe_path(path)

    # -- changing ---------------------------------------------------------------------------------

    def preview(self, plan: GraphPlan, input: str | None = None) -> Context:
        """Return the next context after a plan made by `memory_core.planning.graph_changes`. Changes nothing."""
        self._session.open()
        imagined = self._session.imagined(self._session.config, ImaginedBlocks(graphs={self.block: self.after(plan)}))
        return build_context(imagined, input, record=False)

    def after(self, plan: GraphPlan) -> Graph:
        """Return the graph after a plan; new entities and relations get temporary ids. Changes nothing."""
        return plan.applied_to(self.graph(), count(NOT_STORED))

    def add(
        self,
        subject: str,
        predicate: str,
        object: str,
        types: tuple[str, str] = ("other", "other"),
        *,
        preview: bool = False,
        actor: Actor = "user",
    ) -> Change:
        """Add a relation; missing entities are added with these `types`.

        With `preview`, as in the other methods, nothing is stored, and `Change.prompt` is the next prompt with it.
        """
        new = NamedRelation(subject, predicate, object, *types)
        return self._apply("add", lambda graph: changes.add(graph, new), actor, preview)

    def add_many(
        self,
        relations: Sequence[NamedRelation],
        *,
        aliases: Mapping[str, Sequence[str]] | None = None,
        actor: Actor = "user",
    ) -> AppliedChangeSet | None:
        """Add relations as one change set (`import`); existing and invalid ones are left out.

        `aliases` are other names by entity name. Returns None if nothing is new.
        """
        change = self._apply_some("import", lambda graph: changes.add_many(graph, relations, aliases or {}), actor)
        return change

    def edit(
        self,
        relation: Relation,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        preview: bool = False,
        actor: Actor = "user",
    ) -> Change:
        """Change a relation's ends, by name, or its predicate; missing entities are added."""
        return self._apply(
            "edit", lambda graph: changes.edit(graph, relation, subject, predicate, object), actor, preview
        )

    def end(self, relations: Sequence[Relation], *, preview: bool = False, actor: Actor = "user") -> Change:
        """End relations as of now; they stay, marked as ended."""
        return self._apply("end", lambda graph: changes.end(graph, relations), actor, preview)

    def reactivate(self, relations: Sequence[Relation], *, preview: bool = False, actor: Actor = "user") -> Change:
        """Make ended or retired relations active again; relations that contradict them end (action `hold`)."""
        return self._apply("hold", lambda graph: changes.reactivate(graph, relations), actor, preview)

    def retire(self, relations: Sequence[Relation], *, preview: bool = False, actor: Actor = "user") -> Change:
        """Retire relations as never true: they are in no context, and not learned again."""
        return self._apply("retire", lambda graph: changes.retire(graph, relations), actor, preview)

    def remove(self, entities: Sequence[Entity], *, preview: bool = False, actor: Actor = "user") -> Change:
        """Retire entities with all their relations (action `retire`); they are not learned again."""
        return self._apply("retire", lambda graph: changes.remove(graph, entities), actor, preview)

    def rename(
        self,
        entity: Entity,
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        *,
        preview: bool = False,
        actor: Actor = "user",
    ) -> Change:
        """Change an entity's name, type or aliases; without `aliases` its former name becomes one."""
        return self._apply("rename", lambda graph: changes.rename(graph, entity, name, type, aliases), actor, preview)

    def merge(
        self, entities: Sequence[Entity], into: Entity, *, preview: bool = False, actor: Actor = "user"
    ) -> Change:
        """Merge entities: `into` gets their names as aliases, and their relations.

        A relation that would join `into` to itself is retired; of duplicates one stays, with the sources of both.
        """
        return self._apply("merge", lambda graph: changes.merge(graph, entities, into), actor, preview)

    # -- inside -----------------------------------------------------------------------------------

    def _read_graph(self) -> tuple[Graph, Names]:
        with self._session.database.read() as connection:
            return self._read(connection)

    def _read(self, connection: Connection) -> tuple[Graph, Names]:
        cache = GraphCache.of(self._session.services, self._session.database, self.scope, self.block)
        _, graph, names = cache.catch_up(connection, self.scope, self.block)
        return graph, names

    def _transaction(self, w: Writing, actor: Actor) -> GraphChangeSetTransaction:
        return GraphChangeSetTransaction(w, self.scope, self.block, actor)

    def _log(self, connection: Connection) -> ChangeLog:
        graph, _ = self._read(connection)
        return read_graph_log(connection, self.scope, self.block, graph)[0]

    def _apply(self, action: str, wish: Callable[[Graph], GraphPlan], actor: Actor, preview: bool) -> Change:
        change = self._apply_some(action, wish, actor, preview=preview)
        assert change is not None, "a wish that changes nothing raises"
        return change

    def _apply_some(
        self, action: str, wish: Callable[[Graph], GraphPlan], actor: Actor, *, preview: bool = False
    ) -> Change | None:
        """Plan a change and store it as one change set; return None if it changes nothing."""
        with self._changing(actor, preview=preview) as transaction:
            before = transaction.read()
            plan = wish(before)
            # Returning here ends the transaction without having written anything.
            if not plan:
                return None
            done = transaction.store(before, plan, action)
            if action == "import":
                after = transaction.read()
                new = [id for (kind, id), old, _ in done.event.rows if kind == "relation" and not old]
                sentences = {id: (after.sentence(after.relations[id]),) for id in new}
                join_sets(transaction.w, self._session.services.messages, relations=sentences)
        # In the order of the event, entities before relations, as `applied_to` takes them.
        added = (id for (_, id), old, _ in done.event.rows if not old)
        sentence = tell(done.event, plan.applied_to(before, added), before.name)
        return Change(done.record, done.event, sentence, prompt=self.preview(plan) if preview else None)


def _find_entity(names: Names, name: str) -> Entity:
    entity = names.find(name)
    if entity is None:
        raise NotFoundError(f'Nothing in this graph is called "{name}".')
    return entity


# -- a graph and the facts beside it, read at one moment and changed in one transaction -----------


Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RequestedChange(Generic[Result]):
    """Change sets for the graph and the facts, and the value to return."""

    result: Result
    plan: GraphPlan = field(default_factory=GraphPlan)
    action: str = "add"
    """Action of the graph's change set."""
    kept: Mapping[str, FactDraft | None] = field(default_factory=dict)
    """Facts by key; see `Curation.put`."""


class GraphAndFacts:
    """See `Memory.blocks.graph_and_facts`."""

    def __init__(self, session: Session, graph: str, facts: str) -> None:
        self._session = session
        self._graph, self._facts = GraphDesk(session, graph), Curation(session, facts)

    def read(self) -> tuple[Graph, Known]:
        """Return the graph, and the facts by id: items in every state, except those in quarantine."""
        graph, facts = self._graph, self._facts
        with self._session.database.read() as connection:
            known_facts = read_facts(connection, facts.scope, facts.block, states=None)
            withheld = self._session.quarantine(connection)
            return (
                read_graph(connection, graph.scope, graph.block).without_relations(withheld.relations),
                {fact.id: fact for fact in known_facts if fact.id not in withheld.facts},
            )

    def change(self, wish: Callable[[Graph, Known], RequestedChange[Result]], *, actor: Actor = "agent") -> Result:
        """Change graph and facts as `wish` decides from their present state; all or nothing.

        Raises:
            MessageError: a fact or relation cannot be stored; also whatever `wish` raises. Nothing was changed.
        """
        count = self._session.counter.text
        # Both are read in the transaction that changes them, so that `wish` decides on what it finds there.
        with self._session.writing() as w:
            self._session.refresh(w)
            graphs = GraphChangeSetTransaction(w, self._graph.scope, self._graph.block, actor)
            facts = FactChangeSetTransaction(w, self._facts.scope, self._facts.block, actor, count)
            held = graphs.read()
            wished = wish(held, facts.read())
            # An empty plan makes no change set: there would be nothing to undo.
            if wished.plan:
                graphs.store(held, wished.plan, wished.action)
            if wished.kept:
                facts.put(wished.kept)
            return wished.result
