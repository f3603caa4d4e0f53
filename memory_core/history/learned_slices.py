"""Learned items of a session at each position of its log: facts, knowledge graphs and stored units.

Pure over events: words are stored by hash and read from the content store where needed.
"""

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter
from typing import Any, Generic, TypeGuard, TypeVar

from memory_core.events import (
    KINDS,
    EntityAdded,
    EntityChanged,
    EntityErased,
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactsCondensed,
    FactsCurated,
    Ranges,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    VectorsRemoved,
    VectorsStored,
    expand,
    ranges,
)
from memory_core.planning.fact_merging import Fact
from memory_core.planning.graph_rules import Entity, Graph, Relation

State = TypeVar("State")
Value = TypeVar("Value")


def state_at(states: Sequence[tuple[int, State]], position: int) -> State | None:
    """Return the state at a position; None before the first. `states`: (first position, state), in order."""
    place = bisect_right(states, position, key=lambda state: state[0])
    return states[place - 1][1] if place else None


class RangeIndex(Generic[Value]):
    """Values by numbers, in the order added: kept once per range and page of numbers, as one event names many.

    >>> events = RangeIndex[str]()
    >>> events.add([*range(1, 900), 905], "delivered")
    >>> events[2], events[901], events[905]
    (['delivered'], [], ['delivered'])
    """

    _PAGE = 256

    def __init__(self) -> None:
        self._pages: dict[int, list[tuple[int, int, Value]]] = {}

    def add(self, numbers: Iterable[int], value: Value) -> None:
        for first, last in ranges(numbers):
            for page in range(first // self._PAGE, last // self._PAGE + 1):
                self._pages.setdefault(page, []).append((first, last, value))

    def __getitem__(self, number: int) -> list[Value]:
        """Return the values of a number."""
        page = self._pages.get(number // self._PAGE, ())
        return [value for first, last, value in page if first <= number <= last]


# -- facts ----------------------------------------------------------------------------------------


FACT_EVENTS = frozenset(
    {FactsCondensed, FactsCurated, *(event for event in KINDS.values() if "fact" in event.__dataclass_fields__)}
)

Source = tuple[str, int]
"""Session id and sequence number of a message."""

WORDING = (FactAdded.kind, FactChanged.kind)
"""Events that record the words of facts."""

CONDENSING = (FactsCondensed.kind,)
"""Events that record how a list of facts was condensed."""


def adds_fact(event: Event) -> TypeGuard[FactAdded]:
    return isinstance(event, FactAdded)


def rewords_fact(event: Event) -> TypeGuard[FactChanged]:
    return isinstance(event, FactChanged)


def decides_on_fact(event: Event) -> TypeGuard[FactDecided]:
    return isinstance(event, FactDecided)


def condenses(event: Event) -> TypeGuard[FactsCondensed]:
    return isinstance(event, FactsCondensed)


def wordings(records: Iterable[EventRecord]) -> set[str]:
    """Return content hashes of all wordings in records of `WORDING`."""
    events = [record.event for record in records]
    added = {event.content for event in events if isinstance(event, FactAdded)}
    return added | {event.after for event in events if isinstance(event, FactChanged)}


@dataclass(frozen=True, slots=True)
class FactWords:
    """A fact's words at one position of the log."""

    content: str
    """Content hash."""
    tokens: int | None
    """Size in tokens; None if unknown without counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFact(Fact):
    """Fact at a position of the log, with content hashes as `text` and `key`; no event names its scope."""

    record: EventRecord
    """`FactAdded` record of the fact."""
    metadata_hash: str | None
    """Content hash of the metadata; `metadata` itself is empty."""

    @property
    def added(self) -> FactAdded:
        assert isinstance(self.record.event, FactAdded)
        return self.record.event

    @property
    def content(self) -> str:
        """Content hash of the fact's current words."""
        return self.text

    def worded(self, words: Callable[[str], str | None]) -> Fact:
        """Return the fact with its words, read by hash; erased ones are empty."""
        values = {value.name: getattr(self, value.name) for value in fields(Fact)}
        values["text"] = words(self.text) or ""
        values["key"] = words(self.key) if self.key is not None else None
        values["metadata"] = json.loads(words(self.metadata_hash) or "{}") if self.metadata_hash is not None else {}
        return Fact(**values)


_RECORDED = {value.name for value in fields(Fact)} & FactAdded.__dataclass_fields__.keys() - {"sources", "metadata"}
"""Values of a fact that the event of its addition has under the same names."""


class FactSlice:
    """Facts recorded in the logs applied so far: those of a session, or of a user across any number of sessions."""

    def __init__(self) -> None:
        self.by_id: dict[int, PastFact] = {}
        """Facts in the order in which they were added."""
        self._words: dict[int, list[tuple[int, FactWords]]] = {}
        """Words of each fact by the position from which they applied, erased facts included."""

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactChanged):  # also of a fact that another session's log records
            self._words.setdefault(event.fact, []).append((record.position, FactWords(event.after, event.tokens)))
        if isinstance(event, FactAdded):
            self._add(record, event)
        elif isinstance(event, FactsCondensed):
            self._hand_on(event)
        elif isinstance(event, FactsCurated):
            self._support(record.session_id, event)
        elif not isinstance(event, FactDecided) and (known_state := self.by_id.get(getattr(event, "fact", None) or 0)):
            self._change(known_state, record)

    @property
    def ever_worded(self) -> Mapping[int, Sequence[tuple[int, FactWords]]]:
        """Words of each fact by the position from which they applied, by id; erased facts included."""
        return self._words

    def words(self, id: int, position: int) -> FactWords | None:
        """Return the words of a fact at a log position."""
        return state_at(self._words.get(id, []), position)

    def reworded_after(self, id: int, position: int) -> bool:
        """Return whether the fact was reworded after a position."""
        states = self._words.get(id, [])
        return bool(states) and states[-1][0] > position

    def forget(self, sources: Collection[Source]) -> None:
        """Remove these messages from the sources of all facts."""
        for id in self.by_id if sources else ():
            self._lose(id, sources)

    def _add(self, record: EventRecord, event: FactAdded) -> None:
        self.by_id[event.fact] = PastFact(
            **{name: getattr(event, name) for name in _RECORDED},
            id=event.fact,
            scope="",
            text=event.content,
            turn=record.turn,
            created_at=record.at,
            confirmed_at=record.at if event.said_at is None else event.said_at,
            updated_at=record.at,
            version=1,
            sources=tuple((record.session_id, seq) for seq in expand(event.sources)),
            record=record,
            metadata_hash=event.metadata,
        )
        self._words.setdefault(event.fact, []).append((record.position, FactWords(event.content, event.tokens)))

    def _change(self, fact: PastFact, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactErased):
            del self.by_id[event.fact]
            return
        if isinstance(event, FactConfirmed):
            confirmed_at = next(at for at in (event.restores, event.said_at, record.at) if at is not None)
            sources = ((record.session_id, seq) for seq in expand(event.sources))
            self._gain(fact.id, sources, confirmed_at=confirmed_at)
            return
        # Every other event about one fact is a version of it.
        values = {name: getattr(event, name) for name in event.sets}
        if event.becomes is not None:
            values["state"] = event.becomes
        if isinstance(event, FactChanged):
            values |= {"text": event.after, "tokens": event.tokens, "metadata_hash": event.metadata}
            values["slot"] = event.slot or fact.slot
        self.by_id[fact.id] = replace(fact, **values, version=fact.version + 1, updated_at=record.at)

    def _gain(self, id: int, sources: Iterable[Source], **values: Any) -> None:
        """Add sources to a fact, if the log that was applied has the fact; `values` are set as well."""
        if (fact := self.by_id.get(id)) is not None:
            self.by_id[id] = replace(fact, sources=tuple(sorted({*fact.sources, *sources})), **values)

    def _lose(self, id: int, sources: Collection[Source]) -> None:
        """Remove sources from a fact, if the log that was applied has the fact."""
        if (fact := self.by_id.get(id)) is not None and any(source in sources for source in fact.sources):
            rest = tuple(source for source in fact.sources if source not in sources)
            self.by_id[id] = replace(fact, sources=rest)

    def _hand_on(self, event: FactsCondensed) -> None:
        """Give condensed facts the sources of the facts they replace, or of the whole list if they replace none."""
        longer = {*event.kept, *event.vanished, *(id for sources, _ in event.merged for id in sources)}
        for ids, into in [*event.merged, *((longer, id) for id in event.new)]:
            # A fact of a user may have been added in another session, whose log was not applied.
            self._gain(into, [source for id in ids if id in self.by_id for source in self.by_id[id].sources])

    def _support(self, session_id: str, event: FactsCurated) -> None:
        # An undo takes back the sources that its set added; a redo (`again`) adds them once more.
        taken_back = event.undoes is not None and not event.again
        for id, session, seqs in event.support:
            places = {(session or session_id, seq) for seq in expand(seqs)}
            if taken_back:
                self._lose(id, places)
            else:
                self._gain(id, places)


# -- knowledge graphs -----------------------------------------------------------------------------


@dataclass(slots=True)
class PastGraph:
    """All graphs of one session, built by applying its log, oldest record first.

    After a reset, call `forget` with the messages that `message_slice` reports as forgotten.
    """

    entities: dict[int, Entity] = field(default_factory=dict)
    """Entities by id; their names and aliases are hashes."""
    relations: dict[int, Relation] = field(default_factory=dict)
    """Relations by id; their predicates are hashes."""

    def apply(self, record: EventRecord) -> None:
        handler = _HANDLERS.get(type(record.event))
        if handler is not None:
            handler(self, record, record.event)

    def forget(self, seqs: Collection[int]) -> None:
        """Remove these messages from the sources of all relations."""
        for id, relation in self.relations.items() if seqs else ():
            if any(seq in seqs for _, seq in relation.sources):
                rest = tuple(source for source in relation.sources if source[1] not in seqs)
                self.relations[id] = replace(relation, sources=rest)

    def _entity_added(self, record: EventRecord, event: EntityAdded) -> None:
        self.entities[event.entity] = Entity(
            id=event.entity,
            scope=f"session:{record.session_id}",
            block=event.block,
            name=event.name,
            aliases=event.aliases,
            type=event.type,
            state="active",
            merged_into=None,
            origin=event.origin,
            turn=record.turn,
            created_at=record.at,
            updated_at=record.at,
            version=1,
        )

    def _entity_changed(self, record: EventRecord, event: EntityChanged) -> None:
        if (entity := self.entities.get(event.entity)) is not None:
            names = ("name", "type", "state", "merged_into")  # a newer version may have recorded more
            values: dict[str, Any] = {name: event.after[name] for name in names if name in event.after}
            values |= {"aliases": tuple(event.after.get("aliases", entity.aliases)), "updated_at": record.at}
            self.entities[event.entity] = replace(entity, **values, version=entity.version + 1)

    def _entity_erased(self, record: EventRecord, event: EntityErased) -> None:
        self.entities.pop(event.entity, None)

    def _relation_added(self, record: EventRecord, event: RelationAdded) -> None:
        self.relations[event.relation] = Relation(
            id=event.relation,
            scope=f"session:{record.session_id}",
            block=event.block,
            subject=event.subject,
            predicate=event.predicate,
            object=event.object,
            state="active",
            origin=event.origin,
            turn=record.turn,
            ended_turn=None,
            ended_by=None,
            created_at=record.at,
            confirmed_at=record.at,
            updated_at=record.at,
            version=1,
            sources=_sources(record, event.sources),
        )

    def _relation_confirmed(self, record: EventRecord, event: RelationConfirmed) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            # A confirmation changes no value, so it makes no version.
            sources = tuple(sorted({*relation.sources, *_sources(record, event.sources)}))
            self.relations[event.relation] = replace(relation, confirmed_at=record.at, sources=sources)

    def _relation_ended(self, record: EventRecord, event: RelationEnded) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            self._revise(record, relation, state="ended", ended_turn=record.turn, ended_by=event.by)

    def _relation_changed(self, record: EventRecord, event: RelationChanged) -> None:
        if (relation := self.relations.get(event.relation)) is not None:
            names = ("subject", "predicate", "object", "state", "ended_turn", "ended_by")
            values: dict[str, Any] = {name: event.after[name] for name in names if name in event.after}
            if "sources" in event.after:
                values["sources"] = _sources(record, event.after["sources"])
            self._revise(record, relation, **values)

    def _revise(self, record: EventRecord, relation: Relation, **values: Any) -> None:
        version = relation.version + 1
        self.relations[relation.id] = replace(relation, **values, updated_at=record.at, version=version)

    def _relation_erased(self, record: EventRecord, event: RelationErased) -> None:
        self.relations.pop(event.relation, None)

    def graphs(self, session_id: str, words: Callable[[str], str | None]) -> dict[str, Graph]:
        """Return the graph of each block that has one, by name; erased names are empty."""
        scope = f"session:{session_id}"
        blocks = {e.block for e in self.entities.values()} | {r.block for r in self.relations.values()}
        return {
            block: Graph(
                {e.id: _worded(e, scope, words) for e in self.entities.values() if e.block == block},
                {r.id: _relation(r, scope, words) for r in self.relations.values() if r.block == block},
            )
            for block in sorted(blocks)
        }


Joined = tuple[int, str, int]
"""Id of the subject, hash of the predicate and id of the object of a relation."""


class GraphWords:
    """Names of entities and words of relations, by the position from which they applied; erased ones included."""

    def __init__(self) -> None:
        self._names: dict[int, list[tuple[int, str]]] = {}
        self._relations: dict[int, list[tuple[int, Joined]]] = {}

    def apply(self, record: EventRecord) -> None:
        handler = _WORDS.get(type(record.event))
        if handler is not None:
            handler(self, record, record.event)

    @property
    def ever_related(self) -> Collection[int]:
        """Ids of all relations, erased ones included."""
        return self._relations.keys()

    def name(self, entity: int, position: int) -> str | None:
        """Return the hash of an entity's name at a position."""
        return state_at(self._names.get(entity, []), position)

    def joined(self, relation: int, position: int) -> Joined | None:
        return state_at(self._relations.get(relation, []), position)

    def _entity_added(self, record: EventRecord, event: EntityAdded) -> None:
        self._names[event.entity] = [(record.position, event.name)]

    def _entity_changed(self, record: EventRecord, event: EntityChanged) -> None:
        if "name" in event.after and event.entity in self._names:
            self._names[event.entity].append((record.position, event.after["name"]))

    def _relation_added(self, record: EventRecord, event: RelationAdded) -> None:
        self._relations[event.relation] = [(record.position, (event.subject, event.predicate, event.object))]

    def _relation_changed(self, record: EventRecord, event: RelationChanged) -> None:
        if event.relation in self._relations:
            versions, now = self._relations[event.relation], event.after
            subject, predicate, object = versions[-1][1]
            words = (now.get("subject", subject), now.get("predicate", predicate), now.get("object", object))
            versions.append((record.position, words))


# An erasure is not handled on purpose: past prompts still name the words that applied before it.
_WORDS: dict[type[Event], Callable[[GraphWords, EventRecord, Any], None]] = {
    EntityAdded: GraphWords._entity_added,
    EntityChanged: GraphWords._entity_changed,
    RelationAdded: GraphWords._relation_added,
    RelationChanged: GraphWords._relation_changed,
}

_HANDLERS: dict[type[Event], Callable[[PastGraph, EventRecord, Any], None]] = {
    EntityAdded: PastGraph._entity_added,
    EntityChanged: PastGraph._entity_changed,
    EntityErased: PastGraph._entity_erased,
    RelationAdded: PastGraph._relation_added,
    RelationConfirmed: PastGraph._relation_confirmed,
    RelationEnded: PastGraph._relation_ended,
    RelationChanged: PastGraph._relation_changed,
    RelationErased: PastGraph._relation_erased,
}

GRAPH_EVENTS = frozenset(_HANDLERS)


def _worded(entity: Entity, scope: str, words: Callable[[str], str | None]) -> Entity:
    aliases = tuple(text for alias in entity.aliases if (text := words(alias)) is not None)
    return replace(entity, scope=scope, name=words(entity.name) or "", aliases=aliases)


def _relation(relation: Relation, scope: str, words: Callable[[str], str | None]) -> Relation:
    return replace(relation, scope=scope, predicate=words(relation.predicate) or "")


def _sources(record: EventRecord, seqs: Ranges) -> tuple[tuple[str, int], ...]:
    return tuple((record.session_id, seq) for seq in expand(seqs))


# -- stored units ---------------------------------------------------------------------------------


UNIT_EVENTS = frozenset({VectorsStored, VectorsRemoved})

Node = tuple[int, Ranges, int]
"""Number, messages and tokens of a stored unit."""


def stores_units(event: Event) -> TypeGuard[VectorsStored]:
    return isinstance(event, VectorsStored)


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """Messages that a vector block stored as one unit."""

    block: str
    seqs: Ranges
    tokens: int


class Vectors:
    """All stored units of a session, up to the last record applied."""

    def __init__(self) -> None:
        self.there: set[int] = set()
        """Numbers of the units currently stored."""
        self.counts: Counter[str] = Counter()
        """Number of units currently stored, by block."""
        self._stored = RangeIndex[tuple[str, Sequence[Node]]]()
        self._all: list[tuple[str, Sequence[Node]]] = []
        """Block and units of each event that stored some, by unit and in the order of the log."""

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, VectorsStored):
            # Not an object for each: a log of 100,000 messages has as many, and few are looked at.
            nodes = sorted(event.nodes, key=itemgetter(0))
            numbers = [number for number, _, _ in nodes]
            self._stored.add(numbers, (event.block, nodes))
            self._all.append((event.block, nodes))
            self.there.update(numbers)
            self.counts[event.block] += len(numbers)
        elif isinstance(event, VectorsRemoved):
            self._remove(event.numbers)

    def unit(self, number: int) -> StoredUnit | None:
        """Return a unit by number; past prompts still show removed ones. None if there never was one."""
        for block, nodes in reversed(self._stored[number]):
            _, seqs, tokens = nodes[bisect_right(nodes, number, key=itemgetter(0)) - 1]
            return StoredUnit(block, seqs, tokens)
        return None

    def units(self) -> Iterator[tuple[int, StoredUnit]]:
        """Yield the units currently stored, with their numbers."""
        for block, nodes in self._all:
            for number, seqs, tokens in nodes:
                if number in self.there:
                    yield number, StoredUnit(block, seqs, tokens)

    def drop(self, block: str) -> None:
        """Remove the units of a block that a person removed."""
        self._remove([number for number, unit in self.units() if unit.block == block])

    def forget(self, seqs: Collection[int]) -> None:
        """Remove units that contain any of these messages."""
        gone = set(seqs)
        self._remove([number for number, unit in self.units() if not gone.isdisjoint(expand(unit.seqs))])

    def _remove(self, numbers: Collection[int]) -> None:
        for number in self.there.intersection(numbers):
            self.there.remove(number)
            self.counts[self._stored[number][-1][0]] -= 1
