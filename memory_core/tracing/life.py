"""What a log tells of some messages, facts, relations and stored units, in one pass over it. Pure."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockRemoved,
    DeliveryQueued,
    Event,
    EventRecord,
    FactAdded,
    FactConfirmed,
    FactHeldBack,
    FactsCondensed,
    FactsCurated,
    NothingLearned,
    Ranges,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    SessionImported,
    SessionReset,
    SummaryRewritten,
    VectorsRemoved,
    VectorsReplaced,
    VectorsStored,
)
from memory_core.history.by_turn import History

Records = list[EventRecord]


def held(spans: Ranges, wanted: Sequence[int]) -> Iterator[int]:
    """Those of the wanted numbers (ascending) that ranges contain."""
    for first, last in spans:
        place = bisect_left(wanted, first)
        while place < len(wanted) and wanted[place] <= last:
            yield wanted[place]
            place += 1


@dataclass(slots=True)
class Life:
    """Events about the followed messages, and about everything made of them. Lists are in log order."""

    seqs: tuple[int, ...]
    """Followed messages, ascending."""
    picked: frozenset[int]
    """Followed stored units."""
    session_id: str
    """Numbers of messages are this session's; of others, only events about facts are read."""
    revisions: dict[tuple[str, int], EventRecord] = field(default_factory=dict)
    """The first event that names a revision of a block's text, by block and revision."""
    deliveries: defaultdict[int, dict[int, Records]] = field(default_factory=lambda: defaultdict(dict))
    """Events of each delivery that contained a message, by message and number."""
    by_delivery: dict[int, Records] = field(default_factory=dict)
    """The same, by number alone."""
    facts: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """All events about each fact of the log, by id."""
    learned: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`FactAdded`, `FactConfirmed` or `FactsCurated` that names a message as a source, by message and fact."""
    unsupported: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`FactsCurated` that takes back a message as a source, by message and fact."""
    condensed: Records = field(default_factory=list)
    suppressed: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`FactHeldBack` that names a message, by message."""
    nothing: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`NothingLearned` that names a message, by message."""
    related: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`RelationAdded`, `RelationConfirmed` or `RelationChanged` that names a message, by message and relation."""
    relations: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """All events about each relation of the log, by id."""
    units: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`VectorsStored` of each unit that contains a message, by message and number; of a followed unit, by message 0."""
    embedders: defaultdict[int, list[tuple[int, str | None]]] = field(default_factory=lambda: defaultdict(list))
    """Model of the vector of each of these units, None without one, by the position from which it had it."""
    removed: dict[int, EventRecord] = field(default_factory=dict)
    """`VectorsRemoved` of a unit, by number."""
    summarised: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`SummaryRewritten` that read a message, by message."""
    blocks: defaultdict[str, Records] = field(default_factory=lambda: defaultdict(list))
    """When a block was added and removed, by name."""
    numbered: dict[str, dict[int, int]] = field(default_factory=dict)
    """Numbers of facts and relations by kind and id, as far as they were asked for; see `number`."""
    reset: EventRecord | None = None
    """The last `SessionReset`."""
    imported: EventRecord | None = None
    """`SessionImported`, if the conversation came from a file."""

    def number(self, kind: str, id: int) -> int:
        """Return the number of a fact or a relation in its block, 1 for the first that came: ids are the database's."""
        if id not in self.numbered.get(kind, {}):  # the log was read on since
            known = tuple((self.facts if kind == "fact" else self.relations).items())  # another thread may read on
            firsts = sorted(((own[0], each) for each, own in known if own), key=lambda pair: pair[0].position)
            counts: Counter[str | None] = Counter()
            numbers = {}
            for first, each in firsts:
                counts[first.event.about] += 1
                numbers[each] = counts[first.event.about]
            self.numbered[kind] = numbers
        return self.numbered[kind].get(id, id)


def read_life(
    records: Iterable[EventRecord], seqs: Collection[int], *, session_id: str, units: Collection[int] = ()
) -> Life:
    """Read what happened to these messages, and to these stored units, in one pass."""
    life = Life(tuple(sorted(seqs)), frozenset(units), session_id)
    _read_on(life, records)
    return life


class GrowingLife:
    """What a log tells of all its facts and relations, and of no message: read on as the log grows. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._life = Life((), frozenset(), "")
        self._first: EventRecord | None = None
        self._position = 0

    def catch_up(self, history: History, session_id: str) -> Life:
        """Read what is new. The lists of a life given out earlier grow too: its readers ignore what is after theirs."""
        with self._lock:
            first = history.records[0] if history.records else None
            if first is not self._first or history.position < self._position:  # words were erased: another log
                self._life, self._first, self._position = Life((), frozenset(), session_id), first, 0
            _read_on(self._life, history.after(self._position))
            self._position = history.position
            return self._life


def with_others(life: Life, records: Iterable[EventRecord]) -> Life:
    """With events of the user's other sessions about facts; the life itself is left as it is."""
    others = read_life(records, (), session_id=life.session_id)
    facts = defaultdict(list, life.facts)
    for id, more in others.facts.items():
        facts[id] = sorted([*facts[id], *more], key=_position)
    condensed = sorted([*life.condensed, *others.condensed], key=_position)
    return replace(life, facts=facts, numbered={}, condensed=condensed)


def _position(record: EventRecord) -> int:
    return record.position


def _read_on(life: Life, records: Iterable[EventRecord]) -> None:
    for record in records:
        event: Any = record.event
        reader = _READERS.get(type(event))
        if reader is not None:
            reader(life, record, event)
        elif event.family == "facts" and (fact := getattr(event, "fact", None)) is not None:
            life.facts[fact].append(record)
        elif event.family == "relations" and (relation := getattr(event, "relation", None)) is not None:
            life.relations[relation].append(record)
        elif event.family == "deliveries":
            for number in getattr(event, "deliveries", ()):
                if number in life.by_delivery:
                    life.by_delivery[number].append(record)


def _due(life: Life, record: EventRecord, event: DeliveryQueued) -> None:
    events = [record]
    for seq in held(event.seqs, life.seqs):
        life.by_delivery[event.delivery] = life.deliveries[seq][event.delivery] = events


def _nothing(life: Life, record: EventRecord, event: NothingLearned) -> None:
    for seq in life.seqs:
        if event.reason_for(seq) is not None:
            life.nothing[seq].append(record)


def _edited(life: Life, record: EventRecord, event: BlockEdited) -> None:
    life.revisions.setdefault((event.block, event.revision), record)


def _fact_added(life: Life, record: EventRecord, event: FactAdded | FactConfirmed) -> None:
    life.facts[event.fact].append(record)
    for seq in held(event.sources, life.seqs) if record.session_id == life.session_id else ():
        life.learned[seq].setdefault(event.fact, record)


def _condensed(life: Life, record: EventRecord, event: FactsCondensed) -> None:
    life.condensed.append(record)


def _curated(life: Life, record: EventRecord, event: FactsCurated) -> None:
    """Messages that support a merged fact; an undo of the merge takes them away again."""
    undone = event.undoes is not None and not event.again
    for fact, session, spans in event.support:
        for seq in held(spans, life.seqs) if (session or record.session_id) == life.session_id else ():
            if not undone:
                life.learned[seq].setdefault(fact, record)
                life.unsupported[seq].pop(fact, None)
            elif life.learned[seq].get(fact, record).kind == record.kind:
                life.unsupported[seq][fact] = record


def _suppressed(life: Life, record: EventRecord, event: FactHeldBack) -> None:
    for seq in held(event.sources, life.seqs):
        life.suppressed[seq].append(record)


def _related(life: Life, record: EventRecord, event: RelationAdded | RelationConfirmed) -> None:
    life.relations[event.relation].append(record)
    for seq in held(event.sources, life.seqs):
        life.related[seq].setdefault(event.relation, record)


def _relation_changed(life: Life, record: EventRecord, event: RelationChanged) -> None:
    life.relations[event.relation].append(record)
    for seq in held(event.after.get("sources", ()), life.seqs):
        life.related[seq].setdefault(event.relation, record)


def _stored(life: Life, record: EventRecord, event: VectorsStored) -> None:
    first, last = (life.seqs[0], life.seqs[-1]) if life.seqs else (1, 0)
    embedder = event.embedder if event.error is None and not event.follow else None
    for number, spans, _ in event.nodes:
        if number in life.picked:
            life.units[0][number] = record
            life.embedders[number] = [(record.position, embedder)]
        if spans and spans[0][0] <= last and spans[-1][1] >= first:
            for seq in held(spans, life.seqs):
                life.units[seq][number] = record
                life.embedders[number] = [(record.position, embedder)]


def _embedded(life: Life, record: EventRecord, event: VectorsReplaced) -> None:
    for number in event.numbers:
        if number in life.embedders:
            life.embedders[number].append((record.position, event.embedder))


def _removed(life: Life, record: EventRecord, event: VectorsRemoved) -> None:
    for number in event.numbers:
        life.removed[number] = record


def _summarised(life: Life, record: EventRecord, event: SummaryRewritten) -> None:
    life.revisions.setdefault((event.block, event.revision), record)
    for seq in held(event.seqs, life.seqs):
        life.summarised[seq].append(record)


def _block(life: Life, record: EventRecord, event: BlockAdded | BlockRemoved) -> None:
    life.blocks[event.block].append(record)


def _reset(life: Life, record: EventRecord, event: SessionReset) -> None:
    life.reset = record


def _imported(life: Life, record: EventRecord, event: SessionImported) -> None:
    life.imported = record


_READERS: dict[type[Event], Callable[[Life, EventRecord, Any], None]] = {
    BlockEdited: _edited,
    DeliveryQueued: _due,
    NothingLearned: _nothing,
    FactAdded: _fact_added,
    FactConfirmed: _fact_added,
    FactsCondensed: _condensed,
    FactsCurated: _curated,
    FactHeldBack: _suppressed,
    RelationAdded: _related,
    RelationConfirmed: _related,
    RelationChanged: _relation_changed,
    VectorsStored: _stored,
    VectorsRemoved: _removed,
    VectorsReplaced: _embedded,
    SummaryRewritten: _summarised,
    BlockAdded: _block,
    BlockRemoved: _block,
    SessionReset: _reset,
    SessionImported: _imported,
}
