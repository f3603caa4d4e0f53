"""Usage of every block, fact, relation and stored turn: number of prompts, number of cuts, last write.

Pure over events. Counting is incremental: `UsageCounter` applies new events, `Usage` is a snapshot of the counts.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock

from memory_core.events import Actor, ContextBuilt, Event, EventRecord, RefKind, runs
from memory_core.history.by_turn import History, failure_of
from memory_core.history.slices.contexts import is_context
from memory_core.history.slices.projection import Projection
from memory_core.process import collector_paused


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one fact, relation or stored turn: in how many prompts it was, and from how many it was cut."""

    carried: int = 0
    """Number of prompts that included the item."""
    cut: int = 0
    """Number of prompts that the item was cut from."""

    @property
    def asked(self) -> int:
        """Number of prompts that the item was requested for; of a stored turn, how often it was retrieved."""
        return self.carried + self.cut


@dataclass(frozen=True, slots=True)
class Write:
    """Turn and actor of the last write to a block."""

    turn: int
    actor: Actor


@dataclass(frozen=True, slots=True)
class BlockUse:
    """Usage of one block. Counts restart when a block is removed and added again, and after a full reset."""

    prompts: int = 0
    """Number of prompts that the block requested tokens for."""
    cut_in: int = 0
    """Number of prompts in which the block was cut."""
    cut_tokens: int = 0
    """Total tokens cut from the block."""
    last_cut_turn: int | None = None
    last_write: Write | None = None
    """Last write of a fact, relation or stored turn, or of the block's text or fields; None: never."""
    waiting: tuple[int, ...] = ()
    """Ids of deliveries due to the block that are not done."""
    parked: tuple[int, ...] = ()
    """Ids of deliveries due to the block that are parked."""
    delivery_error: str | None = None
    """Error of the last failed delivery attempt; None if nothing is due to the block."""
    read_error: str | None = None
    """Error from reading the block for the last prompt; None if there was none."""
    facts: int = 0
    """Number of active facts in this session's log; a user-scoped block may have more from other sessions."""
    newest_fact: str | None = None
    """Hash of the newest active fact's text."""
    stored_turns: int = 0
    entities: int = 0
    """Number of active entities, for a graph."""
    relations: int = 0
    """Number of active relations, for a graph."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage counts of a session's blocks, facts, relations and stored turns."""

    position: int = 0
    """Position of the last event counted."""
    blocks: Mapping[str, BlockUse] = field(default_factory=dict)
    facts: Mapping[int, Use] = field(default_factory=dict)
    """Use of facts by id; facts that were in no prompt are omitted."""
    turns: Mapping[int, Use] = field(default_factory=dict)
    """Use of stored turns by number; those never retrieved are omitted."""
    relations: Mapping[int, Use] = field(default_factory=dict)
    """Use of relations by id; relations that were in no prompt are omitted."""
    kept: Mapping[RefKind, AbstractSet[int]] = field(
        default_factory=lambda: {"fact": set(), "unit": set(), "relation": set()}
    )
    """Ids of active facts, stored turns and active relations, whether or not they were in a prompt."""

    def of(self, block: str) -> BlockUse:
        """Return the usage of a block; all zero if the log does not mention it."""
        return self.blocks.get(block, BlockUse())


def usage_of(records: Iterable[EventRecord]) -> Usage:
    """Count the usage in a log, or in the beginning of one."""
    counting = UsageCounter()
    counting.apply(records)
    return counting.usage()


class UsageCount:
    """Cached usage of one session's growing log. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counting = UsageCounter()
        self._first: EventRecord | None = None

    def catch_up(self, history: History) -> Usage:
        """Return the usage at the end of `history`; only new events are counted."""
        with self._lock:
            records = history.records
            # The log was read again, or this history is older than what was counted: counts cannot go back.
            if not records or records[0] is not self._first or history.position < self._counting.position:
                self._counting, self._first = UsageCounter(), records[0] if records else None
            start = bisect_right(records, self._counting.position, key=lambda record: record.position)
            self._counting.apply(records[start:])
            return self._counting.usage()


@dataclass(slots=True)
class _BlockUsage:
    """A block's counts during counting."""

    prompts: int = 0
    cut_in: int = 0
    cut_tokens: int = 0
    last_cut_turn: int | None = None
    last_write: Write | None = None
    read_error: str | None = None


class UsageCounter:
    """Incremental counter over a log. Not thread-safe: the owner must lock it."""

    def __init__(self) -> None:
        self.position = 0
        self._usage: Usage | None = Usage()
        self._blocks: dict[tuple[str, int], _BlockUsage] = {}
        """Blocks by name and position at which they were added: a block added again starts from zero."""
        self._past = Projection()
        self._unread: dict[str, str] = {}
        self._carried: Counter[tuple[str, ...]] = Counter()
        self._cut: Counter[tuple[str, ...]] = Counter()
        self._carried_refs: Counter[str] = Counter()
        self._cut_refs: Counter[str] = Counter()

    @collector_paused()
    def apply(self, records: Iterable[EventRecord]) -> None:
        """Count further events, oldest first."""
        for record in records:
            self.position = record.position
            self._usage = None
            self._past.apply(record)
            event = record.event
            if event.writes and event.about is not None:
                self._wrote(event.about, record)
            elif is_context(event):
                self._built(record, event)
            elif (failure := failure_of(record)) is not None:
                self._unread[failure.block] = failure.error
            elif event.forgets:
                self._reset(event)

    def usage(self) -> Usage:
        """Return the counts so far."""
        if self._usage is None:
            # Consecutive prompts mostly repeat the same lists of refs: count each list as a whole, and split it here.
            _take_apart(self._carried, self._carried_refs)
            _take_apart(self._cut, self._cut_refs)
            carried, cut = _by_number(self._carried_refs), _by_number(self._cut_refs)
            self._usage = Usage(
                self.position,
                self._block_uses(),
                _uses(carried["fact"], cut["fact"]),
                _uses(carried["unit"], cut["unit"]),
                _uses(carried["relation"], cut["relation"]),
                self._stored_numbers(),
            )
        return self._usage

    def _block(self, name: str) -> _BlockUsage:
        return self._blocks.setdefault(self._key(name), _BlockUsage())

    def _key(self, name: str) -> tuple[str, int]:
        return name, self._past.blocks.added_at.get(name, 0)

    def _wrote(self, block: str, record: EventRecord) -> None:
        self._block(block).last_write = Write(record.turn, record.actor)

    def _block_uses(self) -> dict[str, BlockUse]:
        past, due, facts = self._past, defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for number, delivery in past.deliveries.due.items():
            due[delivery.queued.block].append(number)
        for id, fact in past.facts.by_id.items():
            if fact.state == "active":
                facts[fact.added.block].append(id)
        entities = Counter(entity.block for entity in past.graph.entities.values() if entity.state == "active")
        relations = Counter(relation.block for relation in past.graph.relations.values() if relation.state == "active")
        # A log that starts in the middle, as in a test, mentions blocks without recording that they were added.
        others = {name for name, _ in self._blocks} | {*due, *facts, *entities, *relations, *past.vectors.counts}
        names = [*(block.name for block in past.blocks.now), *sorted(others - past.blocks.ever)]
        blocks = {name: self._blocks.get(self._key(name), _BlockUsage()) for name in names}
        return {
            name: BlockUse(
                prompts=block.prompts,
                cut_in=block.cut_in,
                cut_tokens=block.cut_tokens,
                last_cut_turn=block.last_cut_turn,
                last_write=block.last_write,
                waiting=tuple(due[name]),
                parked=tuple(sorted(n for n in due[name] if past.deliveries.due[n].state == "parked")),
                delivery_error=past.deliveries.errors.get(name) if due[name] else None,
                read_error=block.read_error,
                facts=len(facts[name]),
                newest_fact=past.facts.by_id[max(facts[name])].content if facts[name] else None,
                stored_turns=past.vectors.counts.get(name, 0),
                entities=entities[name],
                relations=relations[name],
            )
            for name, block in blocks.items()
        }

    def _stored_numbers(self) -> dict[RefKind, AbstractSet[int]]:
        past = self._past
        return {
            "fact": {id for id, fact in past.facts.by_id.items() if fact.state == "active"},
            "unit": set(past.vectors.there),
            "relation": {id for id, relation in past.graph.relations.items() if relation.state == "active"},
        }

    # -- prompts ---------------------------------------------------------------------------------

    def _built(self, record: EventRecord, event: ContextBuilt) -> None:
        for part in event.parts:
            block = self._block(part["name"])
            block.read_error = self._unread.get(part["name"])
            if part["asked"]:
                block.prompts += 1
            if part["refs"]:
                self._carried[tuple(part["refs"])] += 1
        # Failures precede the prompt that they belong to; the next one may read the block again.
        self._unread.clear()
        cut_here = set()
        for cut in event.cuts:
            if self._key(cut["part"]) not in self._blocks:
                continue  # the queue
            block = self._block(cut["part"])
            # A block may be cut twice in one prompt, by its share and by its priority.
            block.cut_in += cut["part"] not in cut_here
            block.cut_tokens += int(cut["tokens"])
            block.last_cut_turn = record.turn
            cut_here.add(cut["part"])
            if cut["refs"]:
                self._cut[tuple(cut["refs"])] += 1

    def _reset(self, event: Event) -> None:
        for block in self._blocks.values():
            block.read_error = None  # it may quote forgotten messages
        if event.empties_session:  # turns are counted from 1 again
            self._blocks = {key: _BlockUsage() for key in self._blocks}


def _take_apart(lists: Counter[tuple[str, ...]], refs: Counter[str]) -> None:
    for several, times in lists.items():
        for ref in several:
            refs[ref] += times
    lists.clear()


def _by_number(refs: Mapping[str, int]) -> dict[RefKind, dict[int, int]]:
    """Count occurrences of each numbered piece, by kind and number, from refs as in events: `f1-f9`."""
    steps: defaultdict[RefKind, Counter[int]] = defaultdict(Counter)
    for ref, times in refs.items():
        # A run of numbers is two changes, at its first number and after its last, whatever its length.
        for kind, first, last in runs((ref,)):
            steps[kind][first] += times
            steps[kind][last + 1] -= times
    return defaultdict(dict, {kind: _summed(changes) for kind, changes in steps.items()})


def _summed(changes: Mapping[int, int]) -> dict[int, int]:
    """Return the count of each number, given the numbers at which the count changes, and by how much."""
    result: dict[int, int] = {}
    times = 0
    for place, following in pairwise(sorted(changes)):
        times += changes[place]
        if times:
            result.update(dict.fromkeys(range(place, following), times))
    return result


def _uses(carried: Mapping[int, int], cut: Mapping[int, int]) -> dict[int, Use]:
    return {number: Use(carried.get(number, 0), cut.get(number, 0)) for number in sorted({*carried, *cut})}
