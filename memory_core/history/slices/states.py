"""Look up the state in effect at a log position."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeVar

State = TypeVar("State")


def state_at(states: Sequence[tuple[int, State]], position: int) -> State | None:
    """Return the state at a position; None before the first. `states`: (first position, state), in order."""
    place = bisect_right(states, position, key=lambda state: state[0])
    return states[place - 1][1] if place else None
