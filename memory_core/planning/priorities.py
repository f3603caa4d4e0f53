"""Cut order of blocks, as their priorities define it.

Pure. The numbers themselves are the engine's (0 is never cut, `truncation_order` says which end goes
first); people think in places: first to go, next, never.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_core.planning.context_plan import TruncationOrder


@dataclass(frozen=True, slots=True)
class CutOrder:
    """The order in which blocks are cut when a context is too large."""

    groups: tuple[tuple[str, ...], ...]
    """First to be cut first. Blocks of one group have one priority: of these the earlier goes first."""
    never: tuple[str, ...]
    """Priority 0."""


def cut_order(priorities: Mapping[str, int], truncation_order: TruncationOrder) -> CutOrder:
    """Cut order for these priorities; `priorities` in the order of the blocks.

    >>> cut_order({"a": 0, "b": 1, "c": 2}, "largest_first")
    CutOrder(groups=(('c',), ('b',)), never=('a',))
    """
    numbers = sorted({number for number in priorities.values() if number}, reverse=truncation_order == "largest_first")
    return CutOrder(
        groups=tuple(tuple(name for name in priorities if priorities[name] == number) for number in numbers),
        never=tuple(name for name in priorities if not priorities[name]),
    )
