"""Collect the events about some messages, facts, relations and stored units in one pass over the log. Pure."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from memory_core.events import (
    DeliveryQueued,
    Event,
    EventRecord,
    FactHeldBack,
    FactsCurated,
    NothingLearned,
    Operation,
    Ranges,
    SessionImported,
    VectorsRemoved,
    VectorsReplaced,
    VectorsStored,
)
from memory_core.history.by_turn import History
from memory_core.history.slices.delivery_slice import queues_delivery
from memory_core.history.slices.fact_slice import condenses

Records = list[EventRecord]


def held(spans: Ranges, wanted: Sequence[int]) -> Iterator[int]:
    """Yield the wanted numbers (ascending) that ranges contain."""
    for first, last in spans:
        place = bisect_left(wanted, first)
        while place < len(wanted) and wanted[place] <= last:
            yield wanted[place]
            place += 1


@dataclass(slots=True)
class Life:
    """Events about the traced messages and everything derived from them. Lists are in log order."""

    seqs: tuple[int, ...]
    """Sequence numbers of the traced messages, ascending."""
    picked: frozenset[int]
    """Ids of the traced stored units."""
    session_id: str
    """Session to which the message numbers belong; of other sessions, only fact events are read."""
    revisions: dict[tuple[str, int], EventRecord] = field(default_factory=dict)
    """First event that names a revision of a block's text, by block and revision."""
    deliveries: defaultdict[int, dict[int, Records]] = field(default_factory=lambda: defaultdict(dict))
    """Events of deliveries containing a message, by message and delivery number."""
    by_delivery: dict[int, Records] = field(default_factory=dict)
    """Events of deliveries that contain a traced message, by delivery number."""
    facts: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """Events of every fact in the log, by id."""
    learned: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`FactAdded`, `FactConfirmed` or `FactsCurated` with a message as source, by message and fact."""
    unsupported: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`FactsCurated` that removes a message as source, by message and fact."""
    condensed: Records = field(default_factory=list)
    suppressed: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`FactHeldBack` by message."""
    nothing: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`NothingLearned` by message."""
    related: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`RelationAdded`, `RelationConfirmed` or `RelationChanged` by message and relation."""
    relations: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """Events of every relation in the log, by id."""
    units: defaultdict[int, dict[int, EventRecord]] = field(default_factory=lambda: defaultdict(dict))
    """`VectorsStored` of units, by message and unit number; traced units are under message 0."""
    embedders: defaultdict[int, list[tuple[int, str | None]]] = field(default_factory=lambda: defaultdict(list))
    """Embedding model of each unit's vector (None without one), with the log position it applies from."""
    removed: dict[int, EventRecord] = field(default_factory=dict)
    """`VectorsRemoved` by unit number."""
    summarised: defaultdict[int, Records] = field(default_factory=lambda: defaultdict(list))
    """`SummaryRewritten` events for which a message was read, by the message's sequence number."""
    blocks: defaultdict[str, Records] = field(default_factory=lambda: defaultdict(list))
    """Additions and removals of blocks, by name."""
    numbered: dict[str, dict[int, int]] = field(default_factory=dict)
    """Cached numbers of facts and relations by kind and id; see `number`."""
    reset: EventRecord | None = None
    """The latest `SessionReset`."""
    imported: EventRecord | None = None
    """`SessionImported`, for a conversation from a file."""

    def number(self, kind: str, id: int) -> int:
        """Return the number of a fact or relation in its block, from 1; ids are the database's."""
        if id not in self.numbered.get(kind, {}):  # the log has grown since
            items = tuple((self.facts if kind == "fact" else self.relations).items())  # copied: threads may add
            firsts = sorted(((logs[0], id) for id, logs in items if logs), key=lambda pair: pair[0].position)
            counts: Counter[str | None] = Counter()
            numbers = {}
            for first, item_id in firsts:
                counts[first.event.about] += 1
                numbers[item_id] = counts[first.event.about]
            self.numbered[kind] = numbers
        return self.numbered[kind].get(id, id)


def read_life(
    records: Iterable[EventRecord], seqs: Collection[int], *, session_id: str, units: Collection[int] = ()
) -> Life:
    """Collect the events about these messages and stored units in one pass."""
    life = Life(tuple(sorted(seqs)), frozenset(units), session_id)
    _read_on(life, records)
    return life


class GrowingLife:
    """Events about all facts and relations, but no messages; extended as the log grows. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._life = Life((), frozenset(), "")
        self._first: EventRecord | None = None
        self._position = 0

    def catch_up(self, history: History, session_id: str) -> Life:
        """Read new events and return the one `Life`, which later calls extend: readers ignore events after theirs."""
        with self._lock:
            first = history.records[0] if history.records else None
            if first is not self._first or history.position < self._position:  # texts were erased: a new log
                self._life, self._first, self._position = Life((), frozenset(), session_id), first, 0
            _read_on(self._life, history.after(self._position))
            self._position = history.position
            return self._life


def with_others(life: Life, records: Iterable[EventRecord]) -> Life:
    """Return a copy with fact events of the user's other sessions."""
    others = read_life(records, (), session_id=life.session_id)
    facts = defaultdict(list, life.facts)
    for id, more in others.facts.items():
        facts[id] = sorted([*facts[id], *more], key=_position)
    condensed = sorted([*life.condensed, *others.condensed], key=_position)
    # With the facts of other sessions, the cached numbers are outdated.
    return replace(life, facts=facts, numbered={}, condensed=condensed)


def _position(record: EventRecord) -> int:
    return record.position


def _read_on(life: Life, records: Iterable[EventRecord]) -> None:
    for record in records:
        event: Any = record.event
        if (revision := getattr(event, "revision", None)) is not None:
            life.revisions.setdefault((event.block, revision), record)
        if event.operation in ("create_store", "delete_store"):
            life.blocks[event.block].append(record)
        if reader := _READERS.get(type(event)):
            reader(life, record, event)
        elif event.family == "vectors":
            if of_units := _OF_UNITS.get(event.operation):
                of_units(life, record, event)
        elif event.item in ("fact", "relation") and (number := getattr(event, event.item)) is not None:
            _item(life, record, event.item, number)
        elif queues_delivery(event):
            _due(life, record, event)
        elif event.family == "summaries":
            for seq in held(event.seqs, life.seqs):
                life.summarised[seq].append(record)
        # Only a reset of the whole queue ends what is known; forgetting single messages does not.
        elif event.forgets and event.seqs is None:
            life.reset = record
        # Checked last and only for fact events, as this runs over the whole log.
        elif event.family == "facts":
            if event.support:
                _curated(life, record, event)
            elif condenses(event):
                life.condensed.append(record)
        elif event.family == "deliveries":
            for delivery in getattr(event, "deliveries", ()):
                # Deliveries without a followed message were not entered by `_due`.
                if delivery in life.by_delivery:
                    life.by_delivery[delivery].append(record)


def _item(life: Life, record: EventRecord, kind: str, number: int) -> None:
    """Add an event of a fact or a relation, also under the traced messages that state it."""
    events, by_message = (life.facts, life.learned) if kind == "fact" else (life.relations, life.related)
    events[number].append(record)
    # Facts of the user's other sessions are followed too, but their sources are numbers of other messages.
    for seq in held(record.event.stated_in, life.seqs) if record.session_id == life.session_id else ():
        by_message[seq].setdefault(number, record)


def _due(life: Life, record: EventRecord, event: DeliveryQueued) -> None:
    # One list for all messages of a delivery, so that its later events are added once.
    events = [record]
    for seq in held(event.seqs, life.seqs):
        life.by_delivery[event.delivery] = life.deliveries[seq][event.delivery] = events


def _nothing(life: Life, record: EventRecord, event: NothingLearned) -> None:
    for seq in life.seqs:
        if event.reason_for(seq) is not None:
            life.nothing[seq].append(record)


def _curated(life: Life, record: EventRecord, event: FactsCurated) -> None:
    """Add sources gained by a merge of facts; remove them when the merge is undone."""
    undone = event.undoes is not None and not event.again
    for fact, session, spans in event.support:
        for seq in held(spans, life.seqs) if (session or record.session_id) == life.session_id else ():
            if not undone:
                life.learned[seq].setdefault(fact, record)
                life.unsupported[seq].pop(fact, None)
            # An undo takes back what its change set gave, but not a source that the fact was learned from.
            elif life.learned[seq].get(fact, record).kind == record.kind:
                life.unsupported[seq][fact] = record


def _suppressed(life: Life, record: EventRecord, event: FactHeldBack) -> None:
    for seq in held(event.sources, life.seqs):
        life.suppressed[seq].append(record)


def _stored(life: Life, record: EventRecord, event: VectorsStored) -> None:
    # Without followed messages, an interval that no unit overlaps.
    first, last = (life.seqs[0], life.seqs[-1]) if life.seqs else (1, 0)
    embedder = event.embedder if event.error is None and not event.follow else None
    for number, spans, _ in event.nodes:
        if number in life.picked:
            life.units[0][number] = record
            life.embedders[number] = [(record.position, embedder)]
        # Comparing both ends is cheap, and most units hold other messages.
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


def _imported(life: Life, record: EventRecord, event: SessionImported) -> None:
    life.imported = record


_READERS: dict[type[Event], Callable[[Life, EventRecord, Any], None]] = {
    NothingLearned: _nothing,
    FactHeldBack: _suppressed,
    SessionImported: _imported,
}

_OF_UNITS: dict[Operation | None, Callable[[Life, EventRecord, Any], None]] = {
    "create": _stored,
    "delete": _removed,
    "update": _embedded,
}
"""Readers of events about stored units, by operation."""
