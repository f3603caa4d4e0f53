"""Entities and relations as a figure. Pure; no Streamlit.

Drawn as SVG, with a bounded number of marks. Each meaning is shown in two ways: ended relations are grey and dotted, a
path is thick with numbered relations, the focus is larger with a ring; entity types differ in shape. The focus is in
the centre, the others on rings around it, and the same entities always get the same positions. On each side of the
focus entities have rows of equal height, so that names beside them never overlap. Coordinates range from -1 to 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from memory_core.planning.graph_rules import Graph, Relation
from memory_inspector.figures.chart_style import blank, shown
from memory_inspector.palette import PALETTES, Mode, Palette
from memory_inspector.reading.graph_neighbourhood import MOST, TYPES, Seen, mentions, relation_words, state_line
from memory_inspector.wording.formatting import count

Point = tuple[float, float]

INNER = 0.56
"""Radius of the first ring if there is a second. Entities without children are on the outer ring in any case."""

ROWS = 22
"""Maximum number of names on one side of the figure that do not touch."""

ZIGZAG = 0.16
"""Distance of a path's entities above and below the path's axis."""

HEIGHT = 440
"""Height in pixels of a figure with entities all around the focus; a figure with entities in a line is lower."""

HALF, AROUND = 1.22, 0.34
"""Half the height of the plot's range (entities have coordinates up to 1), and the space for names above and below."""

BESIDE = 92
"""Pixels on each side of the outer ring for names; a narrower window shrinks the rings."""

OUTER = 0.9
"""Squared distance from the centre beyond which a name is drawn beside its entity instead of below it."""

ACROSS = 1.1
"""Half the width of the plot's range (entities have coordinates up to 1)."""

PIXELS = 470
"""Width in pixels of the narrowest supported layout; names are shortened to fit it."""

LETTER = 6.7
"""Average width of a letter in pixels."""

CROWDED = 16
"""Number of entities above which labels of relations are smaller and moved towards the outer ring, where space is."""

SHAPES: Mapping[str, tuple[str, str]] = {
    "person": ("circle", "●"),
    "place": ("square", "■"),
    "organisation": ("hexagon", "⬢"),
    "project": ("diamond", "◆"),
    "thing": ("triangle-up", "▲"),
    "date": ("pentagon", "⬟"),
    "other": ("circle-open", "○"),
}
"""Marker of each type of entity, and a similar character for the legend."""

PARALLEL = 0.16
"""Bend of parallel relations between the same two entities, as a fraction of their length."""

ENTITY, RELATION = "entity", "relation"
"""Kind of a mark: the first value of its `customdata`, before the id."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The line of one relation."""

    relation: Relation
    line: tuple[Point, ...]
    """Points from the subject to the object."""
    middle: Point
    """Position of the relation's label."""


def graph_figure(graph: Graph, seen: Seen, mode: Mode, *, picked: int | None = None) -> go.Figure:
    """Draw the focus with its neighbourhood; every mark carries its kind and id. `picked`: id of the open relation."""
    palette = PALETTES[mode]
    figure = blank(mode, HEIGHT)
    beside = 40 if seen.path else BESIDE  # along a path names stand above and below
    figure.update_layout(
        xaxis={"visible": False, "range": [-ACROSS, ACROSS]},
        hoverlabel_align="left",
        margin={"l": beside, "r": beside, "t": 0, "b": 0},
    )
    mentioned = mentions(graph)
    where = places(seen, mentioned)
    # The height follows the entities, so that a neighbourhood in a line leaves no empty space around it.
    low = max(-HALF, min(y for _, y in where.values()) - AROUND)
    high = min(HALF, max(y for _, y in where.values()) + AROUND)
    figure.update_layout(
        yaxis={"visible": False, "range": [low, high]}, height=round(HEIGHT * (high - low) / (2 * HALF))
    )
    edges = _edges(seen, where)
    lines = _lines(edges, seen, palette, picked)
    # Entities last, so that lines end beneath them.
    figure.add_traces([*lines, _handles(edges, graph), *_nodes(graph, seen, where, mentioned, palette)])
    # Relations are in order of importance, so the first ones get the labels.
    notes = [*_labels(edges[:MOST], seen, palette, picked), *_names(graph, seen, where, palette)]
    figure.update_layout(annotations=notes)  # all at once: one by one is quadratic
    return figure


# -- lines ---------------------------------------------------------------------------------------


def _edges(seen: Seen, where: Mapping[int, Point]) -> list[Edge]:
    """Lines of the drawn relations; several between the same two entities are bent apart."""
    between: dict[frozenset[int], list[Relation]] = {}
    # Direction is ignored here, because relations in opposite directions would cover each other as well.
    for relation in seen.drawn():
        between.setdefault(frozenset((relation.subject, relation.object)), []).append(relation)
    # Outside the middle, where lines of a crowded figure are farther apart.
    outwards = 0.79 if len(seen.distances) > CROWDED else 0.54
    shapes = []
    for relation in seen.drawn():
        pair = between[frozenset((relation.subject, relation.object))]
        # Spread evenly to both sides. Twice, since a quadratic curve reaches half as far as its control point.
        bow = (pair.index(relation) - (len(pair) - 1) / 2) * PARALLEL * 2
        if relation.subject > relation.object:
            # Sides are relative to the direction: without this, opposite relations would bend onto each other.
            bow = -bow
        line = _curve(where[relation.subject], where[relation.object], bow)
        near, far = seen.distances[relation.subject], seen.distances[relation.object]
        # On a path, and between entities equally far away, the label stays in the middle.
        share = 0.5
        if near != far and not seen.path:
            share = outwards if max(near, far) == 1 else 0.6
            # The share counts from the subject, which may be the end farther from the focus.
            share = share if near < far else 1 - share
        shapes.append(Edge(relation, line, _at(line, share)))
    return shapes


def _curve(start: Point, end: Point, bow: float) -> tuple[Point, ...]:
    """Points of a line: straight if `bow` is 0, otherwise bent to the side by this fraction of its length."""
    if not bow:
        return start, end
    across, up = end[0] - start[0], end[1] - start[1]
    bent = (start[0] + end[0]) / 2 - up * bow, (start[1] + end[1]) / 2 + across * bow
    # Thirteen points of a quadratic Bézier curve: enough to look smooth at this size.
    line = []
    for number in range(13):
        t = number / 12
        weights = (1 - t) ** 2, 2 * t * (1 - t), t**2
        line.append(
            (
                sum(weight * point[0] for weight, point in zip(weights, (start, bent, end), strict=True)),
                sum(weight * point[1] for weight, point in zip(weights, (start, bent, end), strict=True)),
            )
        )
    return tuple(line)


def _at(line: Sequence[Point], share: float) -> Point:
    """Point at a fraction of a line's length, 0 to 1."""
    place = share * (len(line) - 1)
    first = min(int(place), len(line) - 2)
    rest = place - first
    (x, y), (to_x, to_y) = line[first], line[first + 1]
    return x + rest * (to_x - x), y + rest * (to_y - y)


def _lines(edges: Sequence[Edge], seen: Seen, palette: Palette, picked: int | None) -> Iterable[go.Scatter]:
    """Plotly traces of the relations, one per appearance: ended, current, on the path, selected; with arrow heads."""
    looks = {
        "ended": {"color": palette.unknown, "width": 1.2, "dash": "dot"},
        "holds": {"color": palette.graph, "width": 1.4, "dash": "solid"},
        "path": {"color": palette.text, "width": 3.5, "dash": "solid"},
        "picked": {"color": palette.accent, "width": 2.5, "dash": "solid"},
    }
    of: dict[str, list[Edge]] = {name: [] for name in looks}
    for edge in edges:
        of[_look(edge.relation, seen, picked)].append(edge)
    for name, look in looks.items():
        if of[name]:
            # The open relation keeps its dots, so that selecting it does not hide that it has ended.
            dash = {"dash": "dot"} if name == "picked" and of[name][0].relation.state == "ended" else {}
            faint = 0.45 if seen.lit and name in ("holds", "ended") else 1.0
            yield _line(name, of[name], look | dash, faint, seen)


def _look(relation: Relation, seen: Seen, picked: int | None) -> str:
    if relation.id == picked:
        return "picked"
    if relation.id in seen.lit:
        return "path"
    return "ended" if relation.state == "ended" else "holds"


def _line(name: str, edges: Sequence[Edge], look: dict[str, Any], opacity: float, seen: Seen) -> go.Scatter:
    x: list[float | None] = []
    y: list[float | None] = []
    sizes: list[int] = []
    off: list[int] = []
    # One trace for all lines of one appearance: None separates them, and only the last point of each has a marker with
    # a size, the arrow head.
    for edge in edges:
        for point in edge.line:
            x.append(point[0])
            y.append(point[1])
        x.append(None)
        y.append(None)
        before = len(edge.line) - 1
        sizes += [0] * before + [13 if name == "path" else 9, 0]
        off += [0] * before + [13 if edge.relation.object == seen.focus else 10, 0]
    return go.Scatter(
        x=x,
        y=y,
        mode="lines+markers",
        name=name,
        hoverinfo="skip",
        opacity=opacity,
        line=look,
        marker={
            "symbol": "arrow",
            "angleref": "previous",
            "size": sizes,
            "standoff": off,
            "color": look["color"],
            "opacity": 1,
            "line": {"width": 0},
        },
    )


def _handles(edges: Sequence[Edge], graph: Graph) -> go.Scatter:
    """Invisible marks, one for each relation at the place of its label, for hover texts and clicks."""
    return go.Scatter(
        x=[edge.middle[0] for edge in edges],
        y=[edge.middle[1] for edge in edges],
        mode="markers",
        name="relations",
        customdata=[[RELATION, edge.relation.id] for edge in edges],
        text=[
            f"{shown(relation_words(graph, edge.relation), 120)}<br>{shown(state_line(graph, edge.relation), 80)}"
            for edge in edges
        ],
        hovertemplate="%{text}<extra></extra>",
        marker={"size": 16, "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
    )


def _over(one: Point, other: Point) -> bool:
    """Tell whether labels at these positions would overlap."""
    # The space of one label, 60 by 13 pixels, in coordinates of the figure.
    wide, high = 60 / ((PIXELS - 2 * BESIDE) / (2 * ACROSS)), 13 / (HEIGHT / (2 * HALF))
    return abs(one[0] - other[0]) < wide and abs(one[1] - other[1]) < high


def _labels(edges: Sequence[Edge], seen: Seen, palette: Palette, picked: int | None) -> Iterable[dict[str, Any]]:
    """Labels of relations, with the page's background so that lines do not cross them."""
    # The relations of a path come first, in the order of the path, so their index is the number of the step.
    numbers = {relation.id: number for number, relation in enumerate(seen.relations[: len(seen.lit)], 1)}
    crowded = len(seen.distances) > CROWDED
    taken: list[Point] = []
    for edge in edges:
        relation = edge.relation
        highlighted = relation.id == picked or relation.id in numbers
        if crowded and not highlighted and any(_over(edge.middle, other) for other in taken):
            continue  # Hovering its line still shows it, and so does the list beside the figure.
        taken.append(edge.middle)
        ink = palette.unknown if relation.state == "ended" and relation.id != picked else palette.text
        words = shown(relation.predicate, 13 if crowded else 18)
        if relation.state == "ended" and not crowded:
            words += " (ended)"
        number = numbers.get(relation.id)
        if number is not None:
            words = f"<b>{number}  {words}</b>"
        yield {
            **_note(edge.middle, words, 10 if crowded else 11, ink, palette),
            "opacity": 0.6 if seen.lit and number is None else 1.0,
            # Labels along a path alternate in height, so that neighbouring ones do not meet.
            "yshift": 0 if number is None else (10, -10)[number % 2],
        }


# -- entities ------------------------------------------------------------------------------------


def _nodes(
    graph: Graph, seen: Seen, where: Mapping[int, Point], mentioned: Mapping[int, int], palette: Palette
) -> Iterable[go.Scatter]:
    # Or 1: in a graph without mentions, sizes would be divided by 0.
    most = max((mentioned.get(entity, 0) for entity in seen.distances), default=1) or 1
    for kind, (symbol, _) in SHAPES.items():
        ids = [entity for entity in seen.distances if _type(graph, entity) == kind]
        if ids:
            yield go.Scatter(
                x=[where[entity][0] for entity in ids],
                y=[where[entity][1] for entity in ids],
                mode="markers",
                name=TYPES[kind],
                customdata=[[ENTITY, entity] for entity in ids],
                text=[_hover(graph, entity, mentioned) for entity in ids],
                hovertemplate="%{text}<extra></extra>",
                marker={
                    "symbol": symbol,
                    "size": [_size(entity, seen, mentioned, most) for entity in ids],
                    "color": palette.graph,
                    "line": {"width": 2 if symbol.endswith("-open") else 1.5, "color": palette.page}
                    if not symbol.endswith("-open")
                    else {"width": 2.5},
                    "opacity": [0.5 if seen.path and entity not in seen.path else 1.0 for entity in ids],
                },
                selected={"marker": {}},
                unselected={"marker": {"opacity": 1}},
            )
    x, y = where[seen.focus]
    yield go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        name="focus",
        hoverinfo="skip",
        marker={
            "symbol": "circle-open",
            "size": _size(seen.focus, seen, mentioned, most) + 11,
            "color": palette.accent,
            "line": {"width": 2},
        },
    )


def _type(graph: Graph, entity: int) -> str:
    kind = graph.entities[entity].type
    return kind if kind in SHAPES else "other"


def _size(entity: int, seen: Seen, mentioned: Mapping[int, int], most: int) -> float:
    """Size of an entity's marker in pixels: 10 to 16 by its number of mentions, 20 for the focus."""
    return 20.0 if entity == seen.focus else round(10 + 6 * math.sqrt(mentioned.get(entity, 0) / most), 1)


def _hover(graph: Graph, entity: int, mentioned: Mapping[int, int]) -> str:
    node = graph.entities[entity]
    also = f"<br>also {shown(', '.join(node.aliases), 80)}" if node.aliases else ""
    kind = TYPES[_type(graph, entity)]
    return f"<b>{shown(node.name, 80)}</b>  {kind}, mentioned {count(mentioned.get(entity, 0), 'time')}{also}"


def _names(graph: Graph, seen: Seen, where: Mapping[int, Point], palette: Palette) -> Iterable[dict[str, Any]]:
    """Names of entities: beside those on the outer ring, below inner ones, above or below those on a path."""
    rings = max(seen.distances.values(), default=0)
    for entity in seen.distances:
        x, y = where[entity]
        words = graph.name(entity)
        if entity == seen.focus or seen.path or x * x + y * y < OUTER:
            bold = entity == seen.focus or entity in seen.path
            short_name = shown(words, 22 if bold else 12)
            note = _note((x, y), f"<b>{short_name}</b>" if bold else short_name, 12, palette.text, palette)
            away = 19 if entity == seen.focus else 13
            above = y > 0 if seen.path else entity == seen.focus and rings > 1
            note |= {"yanchor": "bottom" if above else "top", "yshift": away if above else -away}
            if seen.path:
                # Names at the ends of a path grow inwards, where the figure has room.
                note |= {"xanchor": "left" if x < -0.95 else "right" if x > 0.95 else "center"}
                note |= {"xshift": -14 if x < -0.95 else 14 if x > 0.95 else 0}
                note |= {"opacity": 1.0 if bold else 0.7}
        else:
            # Pixels from the entity to the edge of the narrowest figure, less the marker and its gap.
            room = BESIDE + (ACROSS - abs(x)) * (PIXELS - 2 * BESIDE) / (2 * ACROSS) - 14
            note = _note((x, y), shown(words, max(8, int(room / LETTER))), 12, palette.text, palette)
            right = x >= 0
            note |= {"xanchor": "left" if right else "right", "xshift": 9 if right else -9}
        yield note


def _note(place: Point, words: str, size: int, ink: str, palette: Palette) -> dict[str, Any]:
    return {
        "x": place[0],
        "y": place[1],
        "text": words,
        "showarrow": False,
        "font": {"size": size, "color": ink},
        "bgcolor": palette.page,
        "borderpad": 1,
    }


def legend(graph: Graph, seen: Seen, mode: Mode) -> str:
    """Legend of the marks in the figure, as markdown."""
    ink = PALETTES[mode].graph
    types = {_type(graph, entity) for entity in seen.distances}
    parts = [
        f':color[{glyph}]{{foreground="{ink}"}} {TYPES[kind].lower()}'
        for kind, (_, glyph) in SHAPES.items()
        if kind in types
    ]
    if any(relation.state == "ended" for relation in seen.drawn()):
        parts.append("┄ ended")
    # Wrapping may separate entries, but not a mark from its words.
    parts = [part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts]
    return "\N{EM SPACE}".join(parts)


# -- positions of entities -------------------------------------------------------------------------


def places(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, Point]:
    """Position of every drawn entity. `mentioned`: number of mentions by entity."""
    if len(seen.path) > 1:
        return _along(seen, mentioned)
    return {seen.focus: (0.0, 0.0)} | _rings(seen, mentioned)


# -- rings ---------------------------------------------------------------------------------------


def _rings(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, Point]:
    """Positions in a tree around the focus: half of its branches to the right, half to the left."""
    # The graph may have cycles, but rows need a tree: every entity gets one parent.
    children = _tree(seen, mentioned)
    leaves = {entity: _leaves(entity, children) for entity in seen.distances}
    right, on_left = _halves(_neighbourly(children.get(seen.focus, ()), seen), leaves)
    rings = max(seen.distances.values(), default=0)
    positions: dict[int, Point] = {}
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
    positions: dict[int, Point],
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


def _along(seen: Seen, mentioned: Mapping[int, int]) -> dict[int, Point]:
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
