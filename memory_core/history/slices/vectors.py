"""Stored units of vector blocks: what each one holds, and whether it is still there."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from memory_core.events import EventRecord, Ranges, VectorsRemoved, VectorsStored, expand

HANDLED = frozenset({VectorsStored, VectorsRemoved})


@dataclass(frozen=True, slots=True)
class StoredUnit:
    """What a vector block stored as one."""

    block: str
    seqs: Ranges
    tokens: int


class Vectors:
    """All stored units of a session as far as its log was applied."""

    def __init__(self) -> None:
        self.ever: dict[int, StoredUnit] = {}
        """By number, also those that were removed since: what past prompts show of them."""
        self.there: dict[int, StoredUnit] = {}
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """How many units are there, by block."""
        return self._counts

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, VectorsStored):
            for number, seqs, tokens in event.nodes:
                self.ever[number] = self.there[number] = StoredUnit(event.block, seqs, tokens)
            self._counts[event.block] += len(event.nodes)
        elif isinstance(event, VectorsRemoved):
            self._remove(event.numbers)

    def drop(self, block: str) -> None:
        """A person removed the block, and its units with it."""
        self._remove([number for number, unit in self.there.items() if unit.block == block])

    def forget(self, seqs: Collection[int]) -> None:
        """Units that hold one of these messages are gone."""
        gone = set(seqs)
        self._remove([number for number, unit in self.there.items() if not gone.isdisjoint(expand(unit.seqs))])

    def _remove(self, numbers: Collection[int]) -> None:
        for number in numbers:
            unit = self.there.pop(number, None)
            if unit is not None:
                self._counts[unit.block] -= 1
