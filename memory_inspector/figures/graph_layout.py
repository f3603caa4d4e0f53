"""Positions of entities in the figure: the focus in the centre, the others on rings around it. Pure.

Deterministic: the same entities always get the same positions. On each side of the focus entities have rows of equal
height, so that names beside them never overlap. Coordinates range from -1 to 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from memory_core.planning.graph_rules import Relation
from memory_inspector.reading.graph_neighbourhood import Seen

ListPosition = tuple[float, float]

INNER = 0.56
"""Radius of the first ring if there is a second. Entities without children are on the outer ring in any case."""

ROWS = 22
"""Maximum number of names on one side of the figure that do not touch."""

ZIGZAG = 0.16
"""Distance of a path's entities above and below the path's axis."""


def places(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, ListPosition]:
    """Position of every drawn entity. `mentioned`: number of mentions by entity."""
    if len(seen.path) > 1:
        return _along(seen, mentioned)
    return {seen.focus: (0.0, 0.0)} | _rings(seen, mentioned)


# -- rings ---------------------------------------------------------------------------------------


def _rings(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, ListPosition]:
    """Positions in a tree around the focus: half of its branches to the right, half to the left."""
    # The graph may have cycles, but rows need a tree: every entity gets one parent.
    children = _tree(seen, mentioned)
    leaves = {entity: _leaves(entity, children) for entity in seen.distances}
    right, on_left = _halves(_neighbourly(children.get(seen.focus, ()), seen), leaves)
    rings = max(seen.distances.values(), default=0)
    positions: dict[int, ListPosition] = {}
    for side, branch in ((1, right), (-1, on_left)):
        rows = sum(leaves[entity] for entity in branch)
        taken = 0
        for entity in branch:
            _stand(entity, taken, rows, side, 1, rings, children, leaves, positions)
            taken += leaves[entity]
    return positions


def _tree(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, list[int]]:
    """Children by entity; the parent is the most mentioned neighbour that is one step nearer to the focus."""
    nearer: dict[int, set[int]] = {}
    for relation in seen.drawn():
        for one, other in ((relation.subject, relation.object), (relation.object, relation.subject)):
            if seen.distances[one] == seen.distances[other] - 1:
                nearer.setdefault(other, set()).add(one)
    children: dict[int, list[int]] = {}
    # The most mentioned first, so that siblings stand in this order too.
    for entity in sorted(seen.distances, key=lambda id: (-mentioned.get(id, 0), id)):
        above = nearer.get(entity)
        if entity != seen.focus:
            parent = min(above, key=lambda id: (-mentioned.get(id, 0), id)) if above else seen.focus
            children.setdefault(parent, []).append(entity)
    return children


def _leaves(entity: int, children: Mapping[int, Sequence[int]]) -> int:
    """Number of rows an entity needs with its children."""
    return sum(_leaves(child, children) for child in children.get(entity, ())) or 1


def _neighbourly(first: Iterable[int], seen: Seen) -> list[int]:
    """Neighbours of the focus, ordered so that related ones are side by side."""
    waiting, linked = list(first), _links(seen.drawn(), seen.focus)
    ordered: list[int] = []
    while waiting:
        group = [waiting.pop(0)]
        for entity in group:  # grows while it is walked
            near = [other for other in waiting if other in linked.get(entity, ())]
            group += near
            waiting = [other for other in waiting if other not in near]
        ordered += group
    return ordered


def _links(drawn: Iterable[Relation], focus: int) -> dict[int, set[int]]:
    linked: dict[int, set[int]] = {}
    for relation in drawn:
        # Every neighbour of the focus is linked to it, so these relations do not show which belong together.
        if focus not in (relation.subject, relation.object):
            linked.setdefault(relation.subject, set()).add(relation.object)
            linked.setdefault(relation.object, set()).add(relation.subject)
    return linked


def _halves(first: Sequence[int], leaves: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Split branches into right and left side, each listed from the top, so that the order runs clockwise."""
    whole, taken, right = sum(leaves[entity] for entity in first), 0, []
    for entity in first:
        # The branch that crosses the middle stays on the right.
        if 2 * taken >= whole:
            break
        right.append(entity)
        taken += leaves[entity]
    on_left = list(first[len(right) :])
    if taken > ROWS:  # then even sides matter more than which entities are side by side
        right, on_left = _even(first, leaves)
    return right, on_left[::-1]


def _even(first: Sequence[int], leaves: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """Split branches evenly: the largest first, each to the side with fewer rows."""
    heights, on_right = [0, 0], set()
    for entity in sorted(first, key=lambda child: -leaves[child]):
        side = heights[0] > heights[1]
        heights[side] += leaves[entity]
        if not side:
            on_right.add(entity)
    return [child for child in first if child in on_right], [child for child in first if child not in on_right]


def _stand(
    entity: int,
    row: int,
    rows: int,
    side: int,
    ring: int,
    rings: int,
    children: Mapping[int, Sequence[int]],
    leaves: Mapping[int, int],
    positions: dict[int, ListPosition],
) -> None:
    """Place an entity in the middle of its rows, and its children recursively."""
    # Rows of equal height, from 1 at the top to -1 at the bottom.
    height = 1 - 2 * (row + leaves[entity] / 2) / rows
    below = children.get(entity, ())
    # An entity with children implies a second ring, so the divisor is not 0.
    radius = INNER + (1 - INNER) * (ring - 1) / (rings - 1) if below else 1.0
    positions[entity] = side * radius * math.sqrt(1 - height**2), height * radius
    for child in below:
        _stand(child, row, rows, side, ring + 1, rings, children, leaves, positions)
        row += leaves[child]


# -- a path --------------------------------------------------------------------------------------


def _along(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, ListPosition]:
    """Positions with a path across the middle, and all other entities in rows above and below it."""
    last = len(seen.path) - 1
    # Turning points of a longer path alternate in height, so that neighbouring names do not meet.
    positions = {
        entity: (2 * number / last - 1, (ZIGZAG if number % 2 else -ZIGZAG) if last > 1 else 0.0)
        for number, entity in enumerate(seen.path)
    }
    others = sorted(
        (other for other in seen.distances if other not in positions),
        key=lambda other: (-mentioned.get(other, 0), other),
    )
    # Alternately above and below the path, the most mentioned first; each side uses two heights for the same reason.
    for side, part in ((1, others[::2]), (-1, others[1::2])):
        for number, entity in enumerate(part):
            across = 2 * (number + 0.5) / len(part) - 1
            positions[entity] = across, side * (0.6, 0.95)[number % 2]
    return positions
