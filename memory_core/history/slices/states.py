"""What held at a position of the log, out of what began to hold where."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

State = TypeVar("State")


def state_at(states: Sequence[tuple[int, State]], position: int) -> State | None:
    """The state at a position; None before the first. `states` have the positions from which on they held, in order."""
    place = bisect_right(states, position, key=lambda state: state[0])
    return states[place - 1][1] if place else None
