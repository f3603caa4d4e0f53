"""Recorded contexts: the events of all prompts, and counts of what they held or had to leave out."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeGuard

from memory_core.events import (
    Actor,
    BlockFailed,
    ContextBuilt,
    Event,
    EventRecord,
    ModelCalled,
    RefKind,
    expand,
    numbers,
    runs,
)
from memory_core.history.block_slice import Blocks, PastBlock, is_rewriting
from memory_core.history.learned_slices import Vectors


def is_context(event: Event) -> TypeGuard[ContextBuilt]:
    return isinstance(event, ContextBuilt)


def is_call(event: Event) -> TypeGuard[ModelCalled]:
    return isinstance(event, ModelCalled)


def places_of(event: ContextBuilt) -> list[int]:
    """Return the sequence numbers of a context's messages, in the order of the context.

    It is the order of the conversation or, in another program's prompt, that program's order.
    """
    seqs = [*expand(event.pinned), *expand(event.queue)]
    return sorted(seqs) if event.known == "built" else seqs


def context_of(record: EventRecord) -> ContextBuilt:
    """Return the context that a record contains.

    Raises:
        TypeError: the record is of another event.
    """
    if isinstance(record.event, ContextBuilt):
        return record.event
    raise TypeError(f"position {record.position} of the log is no context but {record.kind}")


def failure_of(record: EventRecord) -> BlockFailed | None:
    """Return the failure to read a block that a record contains; None if it is of another event."""
    return record.event if isinstance(record.event, BlockFailed) else None


# -- counts over all prompts ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Turn and actor of the last write to a block."""

    turn: int
    actor: Actor


@dataclass(slots=True)
class BlockCounts:
    """Counts over the prompts since a block was added; fields as in `history.usage.BlockUse`."""

    prompts: int = 0
    cut_in: int = 0
    cut_tokens: int = 0
    last_cut_turn: int | None = None
    last_write: Write | None = None
    read_error: str | None = None


class PromptCounts:
    """Counts over all prompts of a session, up to the last record applied."""

    def __init__(self, blocks: Blocks, vectors: Vectors) -> None:
        self.latest: EventRecord | None = None
        """The latest prompt."""
        self.blocks: tuple[PastBlock, ...] = ()
        """Blocks that existed when the latest prompt was built."""
        self.by_block: dict[tuple[str, int], BlockCounts] = {}
        """Counts by a block's name and the position at which it was added: a block added again starts from zero."""
        self.summarised: set[int] = set()
        """Messages that a running summary has read, by sequence number."""
        self._blocks, self._vectors = blocks, vectors
        self._unread: dict[str, str] = {}
        # Consecutive prompts mostly repeat the same lists of refs: each list is counted as a whole, and split only
        # when somebody asks.
        self._carried: Counter[tuple[str, ...]] = Counter()
        self._cut: Counter[tuple[str, ...]] = Counter()
        self._recalled: Counter[tuple[str, ...]] = Counter()
        self._carried_refs: Counter[str] = Counter()
        self._cut_refs: Counter[str] = Counter()
        self._recalled_seqs: Counter[int] = Counter()

    def apply(self, record: EventRecord, forgotten: Collection[int]) -> None:
        """Apply an event, after the blocks and the stored units; `forgotten`: messages that it forgot."""
        event = record.event
        if event.writes and event.about is not None:
            self.of(event.about).last_write = Write(record.turn, record.actor)
        elif is_context(event):
            self._built(record, event)
        elif (failure := failure_of(record)) is not None:
            self._unread[failure.block] = failure.error
        elif is_rewriting(event):
            self.summarised.update(expand(event.seqs))
        elif event.forgets:
            for counts in self.by_block.values():
                counts.read_error = None  # it may quote forgotten messages
            if event.empties_session:  # turns are counted from 1 again
                self.by_block = {key: BlockCounts() for key in self.by_block}
            recalled = self.recalled()
            for seq in forgotten:
                recalled.pop(seq, None)

    def of(self, block: str) -> BlockCounts:
        """Return the counts of a block that is present."""
        key = self.key(block)
        counts = self.by_block.get(key)
        if counts is None:
            counts = self.by_block[key] = BlockCounts()
        return counts

    def key(self, block: str) -> tuple[str, int]:
        return block, self._blocks.added_at.get(block, 0)

    def carried(self) -> Mapping[RefKind, Mapping[int, int]]:
        """Return the number of prompts that held each numbered item, by kind and number."""
        return _by_number(_split(self._carried, self._carried_refs))

    def cut(self) -> Mapping[RefKind, Mapping[int, int]]:
        """Return the number of prompts that each numbered item was cut from, by kind and number."""
        return _by_number(_split(self._cut, self._cut_refs))

    def recalled(self) -> Counter[int]:
        """Return the number of prompts that held a stored unit with each message, by sequence number."""
        for refs, times in self._recalled.items():
            units = (self._vectors.unit(number) for number in numbers(refs, "unit"))
            # A set: a message that is in two recalled units counts once for the prompt.
            for seq in {seq for unit in units if unit is not None for seq in expand(unit.seqs)}:
                self._recalled_seqs[seq] += times
        self._recalled.clear()
        return self._recalled_seqs

    def _built(self, record: EventRecord, event: ContextBuilt) -> None:
        self.latest, self.blocks = record, self._blocks.now
        for part in event.parts:
            counts = self.of(part["name"])
            counts.read_error = self._unread.get(part["name"])
            counts.prompts += bool(part["asked"])
            if part["refs"]:
                self._carried[tuple(part["refs"])] += 1
        # Failures precede the prompt that they belong to; the next one may read the block again.
        self._unread.clear()
        if units := tuple(ref for part in event.parts for ref in part["refs"] if ref[0] == "v"):
            self._recalled[units] += 1
        cut_here = set()
        for cut in event.cuts:
            if self.key(cut["part"]) not in self.by_block:
                continue  # the queue
            counts = self.of(cut["part"])
            # A block may be cut twice in one prompt, by its share and by its priority.
            counts.cut_in += cut["part"] not in cut_here
            counts.cut_tokens += int(cut["tokens"])
            counts.last_cut_turn = record.turn
            cut_here.add(cut["part"])
            if cut["refs"]:
                self._cut[tuple(cut["refs"])] += 1


def _split(lists: Counter[tuple[str, ...]], refs: Counter[str]) -> Counter[str]:
    """Move the counts of lists to their refs."""
    for several, times in lists.items():
        for ref in several:
            refs[ref] += times
    lists.clear()
    return refs


def _by_number(refs: Mapping[str, int]) -> Mapping[RefKind, Mapping[int, int]]:
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
