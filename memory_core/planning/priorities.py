"""Which block is cut before which: the order that priorities stand for, and the priorities that give another order.

Pure. The numbers themselves are the engine's (0 is never cut, `truncation_order` says which end goes
first); people think in places: first to go, next, never.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from memory_core.planning.context import TruncationOrder


@dataclass(frozen=True, slots=True)
class CutOrder:
    """The order in which blocks are cut when a context is too large."""

    groups: tuple[tuple[str, ...], ...]
    """First to be cut first. Blocks of one group have one priority: of these the earlier goes first."""
    never: tuple[str, ...]
    """Priority 0."""

    def sooner(self, name: str) -> "CutOrder":
        """One step towards being cut first: onto the next place, or ahead of those who share its own.

        >>> CutOrder((("a",), ("b",)), ()).sooner("b").groups
        (('a', 'b'),)
        >>> CutOrder((("a",), ("b",)), ()).sooner("b").sooner("b").groups
        (('b',), ('a',))
        """
        return self._moved(name, -1)

    def later(self, name: str) -> "CutOrder":
        """One step towards being cut last; undoes `sooner`."""
        return self._moved(name, 1)

    def set_never(self, name: str, never: bool) -> "CutOrder":
        """Never cut, or cut after all others that may be."""
        if never == (name in self.never):
            return self
        if never:
            return CutOrder(_without(self.groups, name), (*self.never, name))
        return CutOrder((*self.groups, (name,)), tuple(other for other in self.never if other != name))

    def can_move(self, name: str, step: int) -> bool:
        """Would `sooner` (-1) or `later` (1) change anything?"""
        return self._moved(name, step) != self

    def _moved(self, name: str, step: int) -> "CutOrder":
        place = next((index for index, group in enumerate(self.groups) if name in group), None)
        if place is None:
            return self
        groups = list(self.groups)
        if len(groups[place]) > 1:
            groups[place] = tuple(other for other in groups[place] if other != name)
            groups.insert(place if step < 0 else place + 1, (name,))
        elif 0 <= place + step < len(groups):
            groups[place + step] = (*groups[place + step], name)
            del groups[place]
        return CutOrder(tuple(groups), self.never)

    def listed(self, names: Iterable[str]) -> "CutOrder":
        """The same with shared places in the order of `names`, as the engine goes through them."""
        places = {name: place for place, name in enumerate(names)}
        return CutOrder(
            tuple(tuple(sorted(group, key=places.__getitem__)) for group in self.groups),
            tuple(sorted(self.never, key=places.__getitem__)),
        )


def cut_order(priorities: Mapping[str, int], truncation_order: TruncationOrder) -> CutOrder:
    """The order that these priorities stand for; `priorities` in the order of the blocks.

    >>> cut_order({"a": 0, "b": 1, "c": 2}, "largest_first")
    CutOrder(groups=(('c',), ('b',)), never=('a',))
    """
    numbers = sorted({number for number in priorities.values() if number}, reverse=truncation_order == "largest_first")
    return CutOrder(
        groups=tuple(tuple(name for name in priorities if priorities[name] == number) for number in numbers),
        never=tuple(name for name in priorities if not priorities[name]),
    )


def plan_priorities(order: CutOrder, before: Mapping[str, int], truncation_order: TruncationOrder) -> dict[str, int]:
    """The priority of each block that gives this order, in the order of `before`.

    Numbers in use are kept where there are as many as places, so that a swap is a swap; otherwise
    the places are counted from 1.

    >>> plan_priorities(CutOrder((("b",), ("a",)), ()), {"a": 7, "b": 2}, "largest_first")
    {'a': 2, 'b': 7}
    """
    used = sorted({number for number in before.values() if number})
    numbers = used if len(used) == len(order.groups) else list(range(1, len(order.groups) + 1))
    if truncation_order == "largest_first":
        numbers = numbers[::-1]
    of = {name: number for group, number in zip(order.groups, numbers, strict=True) for name in group}
    return {name: of.get(name, 0) for name in before}


def _without(groups: tuple[tuple[str, ...], ...], name: str) -> tuple[tuple[str, ...], ...]:
    left = (tuple(other for other in group if other != name) for group in groups)
    return tuple(group for group in left if group)
