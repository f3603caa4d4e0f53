"""What every block, fact, relation and stored turn came to: in how many prompts, how often cut, when last written.

Pure over events. Counting grows with the log: `Counting` takes what is new, `Usage` is what it says
at one moment.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any

from memory_core.events import (
    Actor,
    BlockAdded,
    BlockEdited,
    BlockFailed,
    BlockRemoved,
    BlockStateSaved,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EntityAdded,
    EntityChanged,
    EntityErased,
    Event,
    EventRecord,
    FactAccepted,
    FactAdded,
    FactChanged,
    FactErased,
    FactLabelled,
    FactProposed,
    FactRejected,
    FactRestored,
    FactRetired,
    FactSuperseded,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    SessionReset,
    VectorsRemoved,
    VectorsStored,
    expand,
)
from memory_core.history.by_turn import History
from memory_core.history.slices.messages import Messages


@dataclass(frozen=True, slots=True)
class Use:
    """How often a fact, a relation or a stored turn was asked into prompts, and how often it was cut from them."""

    carried: int = 0
    """Prompts it stood in: granted."""
    cut: int = 0
    """Prompts it was cut from."""

    @property
    def asked(self) -> int:
        """Prompts its block wanted it in; of a stored turn: how often it was retrieved."""
        return self.carried + self.cut


@dataclass(frozen=True, slots=True)
class Write:
    """When something was last stored in a block, and by whom."""

    turn: int
    actor: Actor


@dataclass(frozen=True, slots=True)
class BlockUse:
    """What one block came to. A block that was removed and added again begins anew, as after a full reset."""

    prompts: int = 0
    """Prompts it asked to be in."""
    cut_in: int = 0
    """Of these, prompts it was cut in."""
    cut_tokens: int = 0
    """Tokens cut from it in all."""
    last_cut_turn: int | None = None
    last_write: Write | None = None
    """Of a fact, a relation, a stored turn, its text or its fields; None: never."""
    waiting: tuple[int, ...] = ()
    """Deliveries that are due to it and not done."""
    parked: tuple[int, ...] = ()
    """Of these, those given up for now."""
    delivery_error: str | None = None
    """Why the first that waits failed last."""
    read_error: str | None = None
    """Why it could not be read for the last prompt."""
    facts: int = 0
    """Active facts that this session's log tells of; a user's may come from other sessions too."""
    newest_fact: str | None = None
    """Hash of the newest active fact's text."""
    stored_turns: int = 0
    entities: int = 0
    """Of a graph: those that are active."""
    relations: int = 0
    """Those that hold."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A session's blocks, facts, relations and stored turns, counted."""

    position: int = 0
    """Of the last event that is counted."""
    blocks: Mapping[str, BlockUse] = field(default_factory=dict)
    facts: Mapping[int, Use] = field(default_factory=dict)
    """By id; facts that were in no prompt are missing."""
    turns: Mapping[int, Use] = field(default_factory=dict)
    """By number of the stored turn; those never retrieved are missing."""
    relations: Mapping[int, Use] = field(default_factory=dict)
    """By id; relations that were in no prompt are missing."""

    def of(self, block: str) -> BlockUse:
        """What a block came to; all zero for one that the log does not tell of."""
        return self.blocks.get(block, BlockUse())


def usage_of(records: Iterable[EventRecord]) -> Usage:
    """Count a log, or the beginning of one."""
    counting = Counting()
    counting.take(records)
    return counting.usage()


class Tally:
    """The usage of one session's growing log, remembered between looks. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counting = Counting()
        self._first: EventRecord | None = None

    def catch_up(self, history: History) -> Usage:
        """The usage at the end of `history`; only what is new in it is counted."""
        with self._lock:
            records = history.records
            if not records or records[0] is not self._first or history.position < self._counting.position:
                self._counting, self._first = Counting(), records[0] if records else None
            start = bisect_right(records, self._counting.position, key=lambda record: record.position)
            self._counting.take(records[start:])
            return self._counting.usage()


@dataclass(slots=True)
class _Block:
    """A block's counts while they grow."""

    prompts: int = 0
    cut_in: int = 0
    cut_tokens: int = 0
    last_cut_turn: int | None = None
    last_write: Write | None = None
    due: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Messages of each delivery that waits."""
    parked: set[int] = field(default_factory=set)
    delivery_error: str | None = None
    read_error: str | None = None
    facts: dict[int, str] = field(default_factory=dict)
    """Text by id of each active fact."""
    nodes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Messages of each stored turn."""
    entities: set[int] = field(default_factory=set)
    relations: set[int] = field(default_factory=set)
    """Those that are active."""


class Counting:
    """The count while it goes through the log. Not thread-safe: whoever shares it guards it."""

    def __init__(self) -> None:
        self.position = 0
        self._usage: Usage | None = Usage()
        self._blocks: dict[str, _Block] = {}
        self._texts: dict[int, str] = {}
        """Text of every fact that was not erased, whatever its state."""
        self._messages = Messages()
        self._unread: dict[str, str] = {}
        self._carried: Counter[tuple[str, ...]] = Counter()
        self._cut: Counter[tuple[str, ...]] = Counter()
        self._carried_refs: Counter[str] = Counter()
        self._cut_refs: Counter[str] = Counter()

    def take(self, records: Iterable[EventRecord]) -> None:
        """Count further events, oldest first."""
        for record in records:
            self.position = record.position
            self._usage = None
            gone = self._messages.apply(record)
            if isinstance(record.event, SessionReset):
                self._forget(record.event.status, gone)
            handler = _HANDLERS.get(type(record.event))
            if handler is not None:
                handler(self, record, record.event)

    def usage(self) -> Usage:
        """What was counted so far."""
        if self._usage is None:
            # Prompts mostly repeat each other's lists of refs: lists are counted as a whole, and taken apart here.
            _take_apart(self._carried, self._carried_refs)
            _take_apart(self._cut, self._cut_refs)
            carried, cut = _by_number(self._carried_refs), _by_number(self._cut_refs)
            self._usage = Usage(
                self.position,
                {name: _frozen(block) for name, block in self._blocks.items()},
                _uses(carried["f"], cut["f"]),
                _uses(carried["v"], cut["v"]),
                _uses(carried["r"], cut["r"]),
            )
        return self._usage

    def _block(self, name: str) -> _Block:
        found = self._blocks.get(name)
        if found is None:
            found = self._blocks[name] = _Block()
        return found

    def _wrote(self, block: str, record: EventRecord) -> _Block:
        found = self._block(block)
        found.last_write = Write(record.turn, record.actor)
        return found

    # -- blocks ----------------------------------------------------------------------------------

    def _added(self, record: EventRecord, event: BlockAdded) -> None:
        self._blocks[event.block] = _Block()

    def _removed(self, record: EventRecord, event: BlockRemoved) -> None:
        self._blocks.pop(event.block, None)

    def _edited(self, record: EventRecord, event: BlockEdited) -> None:
        if event.after is not None and event.after != event.before:
            self._wrote(event.block, record)

    def _state_saved(self, record: EventRecord, event: BlockStateSaved) -> None:
        self._wrote(event.block, record)

    def _stored(self, record: EventRecord, event: VectorsStored) -> None:
        block = self._wrote(event.block, record)
        block.nodes.update({number: tuple(expand(seqs)) for number, seqs, _ in event.nodes})

    def _forgotten(self, record: EventRecord, event: VectorsRemoved) -> None:
        block = self._wrote(event.block, record)
        for number in event.numbers:
            block.nodes.pop(number, None)

    # -- prompts ---------------------------------------------------------------------------------

    def _failed_to_read(self, record: EventRecord, event: BlockFailed) -> None:
        self._unread[event.block] = event.error

    def _built(self, record: EventRecord, event: ContextBuilt) -> None:
        for part in event.parts:
            block = self._block(part["name"])
            block.read_error = self._unread.get(part["name"])
            if part["asked"]:
                block.prompts += 1
            if part["refs"]:
                self._carried[tuple(part["refs"])] += 1
        self._unread.clear()
        cut_here = set()
        for cut in event.cuts:
            if cut["part"] not in self._blocks:
                continue  # the queue
            block = self._blocks[cut["part"]]
            block.cut_in += cut["part"] not in cut_here
            block.cut_tokens += int(cut["tokens"])
            block.last_cut_turn = record.turn
            cut_here.add(cut["part"])
            if cut["refs"]:
                self._cut[tuple(cut["refs"])] += 1

    # -- deliveries ------------------------------------------------------------------------------

    def _queued(self, record: EventRecord, event: DeliveryQueued) -> None:
        self._block(event.block).due[event.delivery] = tuple(expand(event.seqs))

    def _delivered(self, record: EventRecord, event: DeliveryDone | DeliverySkipped) -> None:
        block = self._block(event.block)
        for delivery in event.deliveries:
            block.due.pop(delivery, None)
            block.parked.discard(delivery)
        block.delivery_error = None

    def _failed(self, record: EventRecord, event: DeliveryFailed) -> None:
        self._block(event.block).delivery_error = event.error

    def _parked(self, record: EventRecord, event: DeliveryParked) -> None:
        block = self._block(event.block)
        block.delivery_error = event.error
        block.parked.update(delivery for delivery in event.deliveries if delivery in block.due)

    def _retried(self, record: EventRecord, event: DeliveryRetried) -> None:
        self._block(event.block).parked.difference_update(event.deliveries)

    # -- facts -----------------------------------------------------------------------------------

    def _fact_added(self, record: EventRecord, event: FactAdded) -> None:
        self._texts[event.fact] = event.content
        facts = self._wrote(event.block, record).facts
        if event.state == "active":
            facts[event.fact] = event.content

    def _fact_changed(self, record: EventRecord, event: FactChanged) -> None:
        self._texts[event.fact] = event.after
        facts = self._wrote(event.block, record).facts
        if event.fact in facts:
            facts[event.fact] = event.after

    def _fact_left(
        self, record: EventRecord, event: FactSuperseded | FactRetired | FactRejected | FactProposed
    ) -> None:
        self._wrote(event.block, record).facts.pop(event.fact, None)

    def _fact_erased(self, record: EventRecord, event: FactErased) -> None:
        self._texts.pop(event.fact, None)
        self._wrote(event.block, record).facts.pop(event.fact, None)

    def _fact_joined(self, record: EventRecord, event: FactRestored | FactAccepted) -> None:
        facts = self._wrote(event.block, record).facts
        if event.fact in self._texts:
            facts[event.fact] = self._texts[event.fact]

    def _fact_labelled(self, record: EventRecord, event: FactLabelled) -> None:
        self._wrote(event.block, record)

    # -- graphs ----------------------------------------------------------------------------------

    def _entity_added(self, record: EventRecord, event: EntityAdded) -> None:
        self._wrote(event.block, record).entities.add(event.entity)

    def _entity_changed(self, record: EventRecord, event: EntityChanged) -> None:
        _keep(self._wrote(event.block, record).entities, event.entity, event.after.get("state"))

    def _entity_erased(self, record: EventRecord, event: EntityErased) -> None:
        self._wrote(event.block, record).entities.discard(event.entity)

    def _relation_added(self, record: EventRecord, event: RelationAdded) -> None:
        self._wrote(event.block, record).relations.add(event.relation)

    def _relation_confirmed(self, record: EventRecord, event: RelationConfirmed) -> None:
        self._wrote(event.block, record)

    def _relation_changed(self, record: EventRecord, event: RelationChanged) -> None:
        _keep(self._wrote(event.block, record).relations, event.relation, event.after.get("state"))

    def _relation_left(self, record: EventRecord, event: RelationEnded | RelationErased) -> None:
        self._wrote(event.block, record).relations.discard(event.relation)

    # -- messages --------------------------------------------------------------------------------

    def _here(self, seq: int) -> bool:
        state = self._messages.by_seq.get(seq)
        return state is not None and state.here

    def _forget(self, status: str | None, gone: Collection[int]) -> None:
        """What a reset forgot is due to nobody, and no stored turn holds it."""
        for block in self._blocks.values():
            block.nodes = {n: seqs for n, seqs in block.nodes.items() if not any(seq in gone for seq in seqs)}
            block.due = {d: seqs for d, seqs in block.due.items() if any(self._here(seq) for seq in seqs)}
            block.parked &= set(block.due)
            block.delivery_error = block.read_error = None  # they may quote what was forgotten
        if status is None:  # turns are counted from 1 again
            self._blocks = {
                name: _Block(facts=b.facts, nodes=b.nodes, entities=b.entities, relations=b.relations)
                for name, b in self._blocks.items()
            }


_HANDLERS: dict[type[Event], Callable[[Counting, EventRecord, Any], None]] = {
    BlockAdded: Counting._added,
    BlockRemoved: Counting._removed,
    BlockEdited: Counting._edited,
    BlockStateSaved: Counting._state_saved,
    BlockFailed: Counting._failed_to_read,
    VectorsStored: Counting._stored,
    VectorsRemoved: Counting._forgotten,
    ContextBuilt: Counting._built,
    DeliveryQueued: Counting._queued,
    DeliveryDone: Counting._delivered,
    DeliverySkipped: Counting._delivered,
    DeliveryFailed: Counting._failed,
    DeliveryParked: Counting._parked,
    DeliveryRetried: Counting._retried,
    FactAdded: Counting._fact_added,
    FactChanged: Counting._fact_changed,
    FactSuperseded: Counting._fact_left,
    FactRetired: Counting._fact_left,
    FactRejected: Counting._fact_left,
    FactErased: Counting._fact_erased,
    FactProposed: Counting._fact_left,
    FactRestored: Counting._fact_joined,
    FactAccepted: Counting._fact_joined,
    FactLabelled: Counting._fact_labelled,
    EntityAdded: Counting._entity_added,
    EntityChanged: Counting._entity_changed,
    EntityErased: Counting._entity_erased,
    RelationAdded: Counting._relation_added,
    RelationConfirmed: Counting._relation_confirmed,
    RelationChanged: Counting._relation_changed,
    RelationEnded: Counting._relation_left,
    RelationErased: Counting._relation_left,
}


def _frozen(block: _Block) -> BlockUse:
    return BlockUse(
        prompts=block.prompts,
        cut_in=block.cut_in,
        cut_tokens=block.cut_tokens,
        last_cut_turn=block.last_cut_turn,
        last_write=block.last_write,
        waiting=tuple(block.due),
        parked=tuple(sorted(block.parked)),
        delivery_error=block.delivery_error if block.due else None,
        read_error=block.read_error,
        facts=len(block.facts),
        newest_fact=block.facts[max(block.facts)] if block.facts else None,
        stored_turns=len(block.nodes),
        entities=len(block.entities),
        relations=len(block.relations),
    )


def _keep(active: set[int], number: int, state: str | None) -> None:
    """Add or leave out what is active by its state; None: that did not change."""
    if state == "active":
        active.add(number)
    elif state is not None:
        active.discard(number)


def _take_apart(lists: Counter[tuple[str, ...]], refs: Counter[str]) -> None:
    for several, times in lists.items():
        for ref in several:
            refs[ref] += times
    lists.clear()


def _by_number(refs: Mapping[str, int]) -> dict[str, dict[int, int]]:
    """How often each fact (`f`), stored turn (`v`) and relation (`r`) occurs, from refs as in events: `f1-f9`."""
    steps: dict[str, Counter[int]] = {"f": Counter(), "v": Counter(), "r": Counter()}
    for ref, times in refs.items():
        if ref[0] in steps:
            first, _, last = ref.partition("-")
            steps[ref[0]][int(first[1:])] += times
            steps[ref[0]][int((last or first)[1:]) + 1] -= times
    return {mark: _summed(changes) for mark, changes in steps.items()}


def _summed(changes: Mapping[int, int]) -> dict[int, int]:
    """Counts by number from the changes between one number and the next."""
    found: dict[int, int] = {}
    times = 0
    for place, following in pairwise(sorted(changes)):
        times += changes[place]
        if times:
            found.update(dict.fromkeys(range(place, following), times))
    return found


def _uses(carried: Mapping[int, int], cut: Mapping[int, int]) -> dict[int, Use]:
    return {number: Use(carried.get(number, 0), cut.get(number, 0)) for number in sorted({*carried, *cut})}
