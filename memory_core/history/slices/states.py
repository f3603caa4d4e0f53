"""Look up the state in effect at a log position, and what was recorded of a number."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from memory_core.events import ranges

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
