"""Index from the items of a session's log (messages, facts, relations, stored units) to the events about them. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

from memory_core.events import (
    Event,
    EventRecord,
    FactHeldBack,
    FactsCurated,
    NothingLearned,
    Operation,
    SessionImported,
    VectorsRemoved,
    VectorsReplaced,
    VectorsStored,
    expand,
)
from memory_core.history.block_slice import edits_text
from memory_core.history.learned_slices import RangeIndex, condenses
from memory_core.history.message_slice import adds_message, queues_delivery

Records = list[EventRecord]


class ItemEvents:
    """Events about each message, fact, relation, stored unit and block of a session. Lists are in log order.

    One object grows with the log: readers ignore events after their moment. Of other sessions, only fact events count.
    """

    def __init__(self, session_id: str | None = None) -> None:
        """`session_id` None: that of the first event."""
        self.session_id = session_id
        self.revisions: dict[tuple[str, int], EventRecord] = {}
        """First event that names a revision of a block's text, by block and revision."""
        self.texts: defaultdict[str, Records] = defaultdict(list)
        """Events that wrote or read a block's text, by name."""
        self.deliveries = RangeIndex[Records]()
        """Events of each delivery containing a message, by message."""
        self.by_delivery: dict[int, Records] = {}
        """Events of each delivery, by number."""
        self.facts: defaultdict[int, Records] = defaultdict(list)
        """Events of every fact in the log, by id."""
        self.learned: defaultdict[int, dict[int, EventRecord]] = defaultdict(dict)
        """`FactAdded`, `FactConfirmed` or `FactsCurated` with a message as source, by message and fact."""
        self.unsupported: defaultdict[int, dict[int, EventRecord]] = defaultdict(dict)
        """`FactsCurated` that removes a message as source, by message and fact."""
        self.condensed: Records = []
        self.suppressed = RangeIndex[EventRecord]()
        """`FactHeldBack` by message."""
        self.nothing = RangeIndex[EventRecord]()
        """`NothingLearned` by message."""
        self.related: defaultdict[int, dict[int, EventRecord]] = defaultdict(dict)
        """`RelationAdded`, `RelationConfirmed` or `RelationChanged` by message and relation."""
        self.relations: defaultdict[int, Records] = defaultdict(list)
        """Events of every relation in the log, by id."""
        self.storing = RangeIndex[EventRecord]()
        """`VectorsStored` by message."""
        self.stored = RangeIndex[EventRecord]()
        """`VectorsStored` by unit number."""
        self.replaced = RangeIndex[EventRecord]()
        """`VectorsReplaced` by unit number."""
        self.removed: dict[int, EventRecord] = {}
        """`VectorsRemoved` by unit number."""
        self.summarised = RangeIndex[EventRecord]()
        """`SummaryRewritten` events for which a message was read, by the message's sequence number."""
        self.blocks: defaultdict[str, Records] = defaultdict(list)
        """Additions and removals of blocks, by name."""
        self.numbered: dict[str, dict[int, int]] = {}
        """Cached numbers of facts and relations by kind and id; see `number`."""
        self.reset: EventRecord | None = None
        """The latest `SessionReset`."""
        self.imported: EventRecord | None = None
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

    def units(self, seq: int) -> list[int]:
        """Return the numbers of the stored units with a message."""
        events: list[Any] = [record.event for record in self.storing[seq]]
        return [number for event in events for number, seqs, _ in event.nodes if seq in expand(seqs)]

    def embedder(self, number: int, position: int) -> str | None:
        """Return the embedding model of a stored unit's vector at a log position; None without a vector."""
        records = (*self.stored[number], *self.replaced[number])
        then = [record for record in records if record.position <= position]
        event: Any = max(then, key=_position).event if then else None
        without = event is None or (event.operation == "create" and (event.error is not None or event.follow))
        return None if without else str(event.embedder)

    def with_others(self, records: Iterable[EventRecord]) -> "ItemEvents":
        """Return a copy with fact events of the user's other sessions."""
        others = ItemEvents(self.session_id)
        for record in records:
            others.apply(record)
        both = copy(self)
        both.facts, both.numbered = defaultdict(list, self.facts), {}  # the cached numbers are outdated
        for id, more in others.facts.items():
            both.facts[id] = sorted([*self.facts.get(id, ()), *more], key=_position)
        both.condensed = sorted([*self.condensed, *others.condensed], key=_position)
        # A change set of another session may name this session's messages.
        both.learned, both.unsupported = defaultdict(dict, self.learned), defaultdict(dict, self.unsupported)
        for of_both, more_of in ((both.learned, others.learned), (both.unsupported, others.unsupported)):
            for seq, facts in more_of.items():
                of_both[seq] = {**facts, **of_both[seq]}
        return both

    def apply(self, record: EventRecord) -> None:
        """Add an event, oldest first."""
        self.session_id = self.session_id or record.session_id
        event: Any = record.event
        if adds_message(event):
            return  # most events: a message's own record is that of the projection
        if (revision := getattr(event, "revision", None)) is not None:
            self.revisions.setdefault((event.block, revision), record)
        if event.operation in ("create_store", "delete_store"):
            self.blocks[event.block].append(record)
        if edits_text(event) or event.family == "summaries":
            self.texts[event.block].append(record)
        if reader := _READERS.get(type(event)):
            reader(self, record, event)
        elif event.family == "vectors":
            if of_units := _OF_UNITS.get(event.operation):
                of_units(self, record, event)
        elif event.item in ("fact", "relation") and (number := getattr(event, event.item)) is not None:
            self._item(record, event.item, number)
        elif queues_delivery(event):
            # One list for all messages of a delivery, so that its later events are added once.
            events = self.by_delivery[event.delivery] = [record]
            self.deliveries.add(expand(event.seqs), events)
        elif event.family == "summaries":
            self.summarised.add(expand(event.seqs), record)
        # Only a reset of the whole queue ends what is known; forgetting single messages does not.
        elif event.forgets and event.seqs is None:
            self.reset = record
        # Checked last and only for fact events, as this runs over the whole log.
        elif event.family == "facts":
            if event.support:
                self._curated(record, event)
            elif condenses(event):
                self.condensed.append(record)
        elif event.family == "deliveries":
            for delivery in getattr(event, "deliveries", ()):
                # A log that starts in the middle names deliveries without recording that they were queued.
                if delivery in self.by_delivery:
                    self.by_delivery[delivery].append(record)

    def _item(self, record: EventRecord, kind: str, number: int) -> None:
        """Add an event of a fact or a relation, also under the messages that state it."""
        events, by_message = (self.facts, self.learned) if kind == "fact" else (self.relations, self.related)
        events[number].append(record)
        # Facts of the user's other sessions are followed too, but their sources are numbers of other messages.
        for seq in expand(record.event.stated_in) if record.session_id == self.session_id else ():
            by_message[seq].setdefault(number, record)

    def _nothing(self, record: EventRecord, event: NothingLearned) -> None:
        self.nothing.add(expand(event.messages_named), record)

    def _curated(self, record: EventRecord, event: FactsCurated) -> None:
        """Add sources gained by a merge of facts; remove them when the merge is undone."""
        undone = event.undoes is not None and not event.again
        for fact, session, spans in event.support:
            for seq in expand(spans) if (session or record.session_id) == self.session_id else ():
                if not undone:
                    self.learned[seq].setdefault(fact, record)
                    self.unsupported[seq].pop(fact, None)
                # An undo takes back what its change set gave, but not a source that the fact was learned from.
                elif self.learned[seq].get(fact, record).kind == record.kind:
                    self.unsupported[seq][fact] = record

    def _suppressed(self, record: EventRecord, event: FactHeldBack) -> None:
        self.suppressed.add(expand(event.sources), record)

    def _stored(self, record: EventRecord, event: VectorsStored) -> None:
        self.storing.add(expand(event.messages_named), record)
        self.stored.add((number for number, _, _ in event.nodes), record)

    def _embedded(self, record: EventRecord, event: VectorsReplaced) -> None:
        self.replaced.add(event.numbers, record)

    def _removed(self, record: EventRecord, event: VectorsRemoved) -> None:
        self.removed.update(dict.fromkeys(event.numbers, record))

    def _imported(self, record: EventRecord, event: SessionImported) -> None:
        self.imported = record


def _position(record: EventRecord) -> int:
    return record.position


_READERS: dict[type[Event], Callable[[ItemEvents, EventRecord, Any], None]] = {
    NothingLearned: ItemEvents._nothing,
    FactHeldBack: ItemEvents._suppressed,
    SessionImported: ItemEvents._imported,
}

_OF_UNITS: dict[Operation | None, Callable[[ItemEvents, EventRecord, Any], None]] = {
    "create": ItemEvents._stored,
    "delete": ItemEvents._removed,
    "update": ItemEvents._embedded,
}
"""Readers of events about stored units, by operation."""
