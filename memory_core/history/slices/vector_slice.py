"""Stored units of vector blocks: the contents of each, and whether it is still stored."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeGuard

from memory_core.events import Event, EventRecord, Ranges, VectorsRemoved, VectorsStored, expand

HANDLED = frozenset({VectorsStored, VectorsRemoved})


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
        self.ever: dict[int, StoredUnit] = {}
        """Units by number, including removed ones, which past prompts still show."""
        self.there: dict[int, StoredUnit] = {}
        self.counts: Counter[str] = Counter()
        """Number of units currently stored, by block."""

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, VectorsStored):
            for number, seqs, tokens in event.nodes:
                self.ever[number] = self.there[number] = StoredUnit(event.block, seqs, tokens)
            self.counts[event.block] += len(event.nodes)
        elif isinstance(event, VectorsRemoved):
            self._remove(event.numbers)

    def drop(self, block: str) -> None:
        """Remove the units of a block that a person removed."""
        self._remove([number for number, unit in self.there.items() if unit.block == block])

    def forget(self, seqs: Collection[int]) -> None:
        """Remove units that contain any of these messages."""
        gone = set(seqs)
        self._remove([number for number, unit in self.there.items() if not gone.isdisjoint(expand(unit.seqs))])

    def _remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            unit = self.there.pop(number, None)
            if unit is not None:
                self.counts[unit.block] -= 1
