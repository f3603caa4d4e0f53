"""The desk of a graph block: entities, relations, paths between them, and changes with undo.

    desk = memory.graph()
    desk.relations("Alice")
    for path in desk.paths("Alice", "March 2026"):
        print(desk.describe(path))  # Alice → manages → Project Alpha → deadline → March 2026

Reads, combines, and stores each change set within one writing transaction. Decisions are in
`memory_core.planning.graph_changes`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from memory_core.blocks.graph import GraphCache, GraphMemoryBlock
from memory_core.curation.change_sets import Change, ChangeSetDesk, ChangeSetTransaction
from memory_core.curation.fact_change_sets import FactChangeSetTransaction, Known
from memory_core.curation.fact_desk import Curation
from memory_core.engine.context import Context, build_context
from memory_core.engine.next_prompt import NOT_STORED
from memory_core.engine.session import ImaginedBlocks, Session
from memory_core.errors import ConfigError, ConflictError, NotFoundError
from memory_core.events import (
    Actor,
    Curated,
    EntityChanged,
    EventRecord,
    GraphCurated,
    RelationChanged,
    RelationEnded,
    Thing,
    expand,
)
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.planning import graph_changes as changes
from memory_core.planning.curation import FactDraft
from memory_core.planning.graph_changes import NamedRelation, describe_change_set
from memory_core.planning.graph_draft import GraphPlan, check_whole
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
from memory_core.store.delivery_rows import still_there
from memory_core.store.fact_rows import read_facts, read_scope_events
from memory_core.store.graph_rows import Stored, last_number, read_graph, store_plan
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing, read_texts

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


Item = TypeVar("Item", Entity, Relation)

WORDS = ("name", "predicate")
"""Values stored in the log as the hash of one text."""


def read_graph_log(connection: Connection, scope: str, block: str, graph: Graph) -> tuple[ChangeLog, GraphVersions]:
    """Return all change sets on a block's graph, described with the names in `graph`, and the versions they made."""
    records = read_scope_events(connection, scope, block, KINDS)
    past = GraphVersions(records)
    sets = [record for record in records if isinstance(record.event, GraphCurated)]
    # A sentence about a past change set uses the names of its time, which the entities may have lost since.
    former = {e.number: past.former_names(e) for change in sets if isinstance(e := change.event, GraphCurated)}
    words = read_texts(connection, scope, {key for names in former.values() for key in names.values()})

    def name(thing: Thing) -> str:
        kind, id = thing
        return f'"{graph.name(id) if kind == "entity" else graph.describe(graph.relations[id])}"'

    def tell_logged(event: Curated) -> str:
        names = former[event.number] if isinstance(event, GraphCurated) else {}
        return tell(event, graph, lambda id: words.get(names.get(id, "")))

    entities = {("entity", entity.id): entity.version for entity in graph.entities.values()}
    relations = {("relation", relation.id): relation.version for relation in graph.relations.values()}
    return ChangeLog(sets, versions=entities | relations, authors=past.authors, name=name, tell=tell_logged), past


def tell(event: Curated, graph: Graph, former: Callable[[int], str | None]) -> str:
    """Describe a change set: `Merged Bob into Robert Smith.` `former` gives an entity's name before the change."""
    assert isinstance(event, GraphCurated)
    return describe_change_set(event.action, graph, event.entities, event.relations, former)


@dataclass(slots=True)
class GraphChangeSetTransaction(ChangeSetTransaction[Graph, GraphPlan, Stored]):
    past: GraphVersions = field(init=False)
    """Past versions, as read by the last call of `log`."""

    def read(self) -> Graph:
        # Texts of this transaction are buffered: write them, so that the graph can be read with them.
        self.w.flush_contents()
        return read_graph(self.w.connection, self.scope, self.block)

    def lock(self, plan: GraphPlan) -> None:
        """Do nothing: a graph belongs to its session, whose row this transaction has locked."""

    def write(self, held: Graph, plan: GraphPlan) -> Stored:
        return store_plan(self.w, self.scope, self.block, plan, actor=self.actor)

    def record(self, written: Stored, action: str, reason: str, back: AppliedChangeSet | None) -> Curated:
        return GraphCurated(
            self.block,
            action if back is None else "undo",
            written.entities,
            written.relations,
            undoes=back.number if back else None,
            number=last_number(self.w.connection, self.w.session.id, self.block) + 1,
            again=back is not None and back.undone,
        )

    def log(self, held: Graph) -> ChangeLog:
        log, self.past = read_graph_log(self.w.connection, self.scope, self.block, held)
        return log

    def plan_back(self, held: Graph, back: AppliedChangeSet) -> GraphPlan:
        event, again = back.event, back.undone
        # Version 0 stands for "not there": an undo removes what the change set added, and its redo what the undo did.
        staying = [(thing, old, new) for thing, old, new in event.rows if (new if again else old)]
        was = {thing: self.past.values(thing, old, new, again=again) for thing, old, new in staying}
        hashes = {values[name] for values in was.values() for name in WORDS if name in values}
        hashes.update(alias for values in was.values() for alias in values.get("aliases", ()))
        words = read_texts(self.w.connection, self.scope, hashes)
        going = {thing for thing, *_ in event.rows} - was.keys()
        entities = [(held.entities[id], values) for (kind, id), values in was.items() if kind == "entity"]
        relations = [(held.relations[id], values) for (kind, id), values in was.items() if kind == "relation"]
        plan = GraphPlan(
            changed_entities=tuple((now, self._back(now, values, words)) for now, values in entities),
            changed_relations=tuple((now, self._back(now, values, words)) for now, values in relations),
            removed_entities=tuple(held.entities[id] for kind, id in sorted(going) if kind == "entity"),
            removed_relations=tuple(held.relations[id] for kind, id in sorted(going) if kind == "relation"),
        )
        # Items learned since may depend on an item to remove, or have taken a name to restore.
        check_whole(plan.applied_to(held), (now.id for now, _ in entities), (now.id for now, _ in relations))
        return plan

    def _back(self, now: Item, was: Values, words: Mapping[str, str]) -> Item:
        """Return an entity or relation with the values of another version, given as hashes of texts."""
        values: dict[str, Any] = {name: words.get(value, "") if name in WORDS else value for name, value in was.items()}
        if "aliases" in was:
            values["aliases"] = tuple(words[key] for key in was["aliases"] if key in words)
        if "sources" in was and isinstance(now, Relation):
            here = self.w.session.id
            # The event has the sources in this session only. Messages erased since do not become sources again.
            others = {source for source in now.sources if source[0] != here}
            of_session = {(here, seq) for seq in expand(was["sources"]) if still_there(self.w.connection, here, [seq])}
            values["sources"] = tuple(sorted(others | of_session))
        return replace(now, **values)


# -- the desk -------------------------------------------------------------------------------------


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
