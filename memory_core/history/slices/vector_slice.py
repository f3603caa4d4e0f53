"""Stored units of vector blocks: the contents of each, and whether it is still stored."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeGuard

from memory_core.events import Event, EventRecord, Ranges, VectorsRemoved, VectorsStored, expand
from memory_core.history.slices.states import RangeIndex

HANDLED = frozenset({VectorsStored, VectorsRemoved})

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
