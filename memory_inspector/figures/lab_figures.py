"""Figures of the Lab: a sweep as a heat map, with unknown values hatched, and as a measure against tokens with its
Pareto front; patterns of failures. Pure.
"""

from collections.abc import Collection, Sequence

import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, hatch, shown
from memory_inspector.lab.failure_patterns import Pattern
from memory_inspector.lab.sweeping import BETTER_HIGH, Cell, Measure, Range, Sweep
from memory_inspector.palette import PALETTES, Mode, ink_on
from memory_inspector.wording.formatting import tokens

CELL_PIXELS = 34
FRONT_PIXELS = 320
OWN_MARK = "◆"
"""Mark of the session's own values, in the map and in the sentence above it."""
MOST_WRITTEN = 12
"""Maximum number of columns at which cells still show their numbers."""


def sweep_figure(
    sweep: Sweep,
    measure: Measure,
    axes: tuple[Sequence[str], Sequence[str]],
    titles: tuple[str, str],
    front: Collection[Cell],
    base: Cell,
    mode: Mode,
) -> go.Figure:
    """Draw a sweep, better cells in a stronger colour, the session's own values (`base`) marked.

    `axes`: labels of x and y values; `titles`: of the settings.
    """
    palette = PALETTES[mode]
    figure = blank(mode, 86 + CELL_PIXELS * len(sweep.y.values))
    # Ranges do not count: colours are for values that are certain.
    lows = [
        measured.low for cell in sweep.cells if (measured := cell.measures.get(measure)) is not None and measured.exact
    ]
    least, most = min(lows, default=0), max(lows, default=1)
    fills, inks = [], []
    for cell in sweep.cells:
        measured = cell.measures.get(measure)
        share = 1.0  # if all values are equal, none is worse than another
        if measured is not None and most > least:
            share = (measured.low - least) / (most - least)
            # Stronger means better, so measures where less is better run the other way.
            share = share if measure in BETTER_HIGH else 1 - share
        fill = _between(palette.free, palette.queue, share)
        fills.append(fill if measured is not None and measured.exact else palette.page)
        inks.append(ink_on(fill) if measured is not None and measured.exact else palette.text)
    best = {(cell.x, cell.y) for cell in front}
    # Bars instead of a heat map, which can neither hatch nor outline a cell.
    for sure, pattern in ((True, {}), (False, hatch(mode, "unknown") | {"size": 9, "solidity": 0.1})):
        here = [n for n, cell in enumerate(sweep.cells) if _sure(cell, measure) is sure]
        cells = [sweep.cells[n] for n in here]
        outlined = [(cell.x, cell.y) in best for cell in cells]
        figure.add_trace(
            go.Bar(
                x=[cell.x for cell in cells],
                base=[cell.y - 0.47 for cell in cells],
                y=[0.94] * len(cells),
                width=0.94,
                marker={
                    "color": [fills[n] for n in here] if sure else "rgba(0,0,0,0)",
                    "pattern": pattern,
                    "line": {
                        "color": [palette.text if is_outlined else palette.free for is_outlined in outlined],
                        "width": [2.5 if is_outlined else 1 for is_outlined in outlined],
                    },
                },
                hoverinfo="skip",
                unselected={"marker": {"opacity": 1}},
            )
        )
    # With more columns the numbers would overlap; hovering a cell shows its number.
    written = len(sweep.x.values) <= MOST_WRITTEN
    figure.add_trace(  # bars with a base of their own get no clicks, but invisible marks over them do
        go.Scatter(
            x=[cell.x for cell in sweep.cells],
            y=[cell.y for cell in sweep.cells],
            customdata=[[cell.x, cell.y] for cell in sweep.cells],
            mode="markers+text" if written else "markers",
            marker={"symbol": "square", "size": CELL_PIXELS - 4, "opacity": 0},
            text=[f"{f'{OWN_MARK} ' * (cell is base)}{value_words(cell, measure)}" for cell in sweep.cells],
            textfont={"color": inks, "size": 11},
            hovertext=[_described(cell, measure, axes) for cell in sweep.cells],
            hovertemplate="%{hovertext}<extra></extra>",
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
        )
    )
    # The nearest mark gets a click, so that a wide cell can be clicked anywhere.
    figure.update_layout(barmode="overlay", bargap=0, hovermode="closest", hoverdistance=-1)
    for axis, values in (("xaxis", axes[0]), ("yaxis", axes[1])):
        # Rounded up, so that at most that many values are written below the map.
        step = max(1, -(-len(values) // MOST_WRITTEN)) if axis == "xaxis" else 1
        places = list(range(0, len(values), step))
        figure.update_layout(
            {axis: {"tickvals": places, "ticktext": [values[n] for n in places], "range": [-0.5, len(values) - 0.5]}}
        )
    x, y = (shown(title) for title in titles)
    figure.update_layout(xaxis={"title": x}, yaxis={"title": {"text": y, "standoff": 12}})
    return figure.update_layout(margin={"l": 96, "r": 8, "t": 8, "b": 52})


def front_figure(
    sweep: Sweep,
    measure: Measure,
    axes: tuple[Sequence[str], Sequence[str]],
    front: Sequence[Cell],
    base: Cell,
    mode: Mode,
) -> go.Figure:
    """Draw each known cell by the tokens it sends and its measure; a line joins the cells that no other cell beats.

    `front`: the joined cells in order of their tokens. A click returns the cell's x and y, as in the map.
    """
    palette = PALETTES[mode]
    figure = blank(mode, FRONT_PIXELS)
    best = {(cell.x, cell.y) for cell in front}
    cells = [cell for cell in sweep.cells if cell.value(measure) is not None and cell.value("sent") is not None]
    cells.sort(key=lambda cell: (cell.x, cell.y) in best)  # drawn last, they are on top
    points = [(_low(cell, "sent"), _low(cell, measure)) for cell in front]
    figure.add_trace(
        go.Scatter(
            x=[x for x, _ in points],
            y=[y for _, y in points],
            mode="lines",
            # A staircase: up to the next cell of the front, no cell is better for these tokens.
            line={"color": palette.line, "width": 1.5, "shape": "hv"},
            hoverinfo="skip",
        )
    )
    figure.add_trace(
        go.Scatter(
            x=[_low(cell, "sent") for cell in cells],
            y=[_low(cell, measure) for cell in cells],
            customdata=[[cell.x, cell.y] for cell in cells],
            mode="markers",
            marker={
                "symbol": ["diamond" if cell is base else "circle" for cell in cells],
                "size": [12 if (cell.x, cell.y) in best or cell is base else 8 for cell in cells],
                "color": [palette.queue if (cell.x, cell.y) in best else palette.free for cell in cells],
                "line": {"color": palette.unknown, "width": 1},
                "opacity": 1,
            },
            hovertext=[_described(cell, measure, axes) for cell in cells],
            hovertemplate="%{hovertext}<extra></extra>",
            selected={"marker": {"opacity": 1}},
            unselected={"marker": {"opacity": 1}},
        )
    )
    form = {"stable": ".0%", "recall": ".0%", "cost": "$,.2~f"}.get(measure, ",~r")
    figure.update_layout(
        xaxis={"title": "Tokens a turn", "tickformat": ",", "rangemode": "tozero"},
        yaxis={"tickformat": form, "showgrid": True, "gridcolor": palette.free, "rangemode": "tozero"},
        margin={"l": 56, "r": 12, "t": 8, "b": 44},
    )
    return figure


def _low(cell: Cell, measure: Measure) -> float:
    amount = cell.value(measure)
    return amount.low if amount is not None else 0.0


def _sure(cell: Cell, measure: Measure) -> bool:
    """Tell whether the plan knows this cell exactly, so that a play would add nothing."""
    measured = cell.measures.get(measure)
    # An invalid configuration counts too: no play would make it valid.
    return cell.problem is not None or cell.played or (measured is not None and measured.exact)


def value_words(cell: Cell, measure: Measure) -> str:
    """Format a measure of a cell: `3`, `1–3`, `62%`, `?`."""
    measured = cell.measures.get(measure)
    if cell.problem is not None:
        return "×"
    if measured is None:
        # If a play gave no value, that is final; without a play, the value is unknown.
        return "–" if cell.played else "?"
    return _words(measured, measure)


def _words(amount: Range, measure: Measure) -> str:
    low, high = (_value(bound, measure) for bound in (amount.low, amount.high))
    return low if amount.exact else f"{low}–{high}"


def _value(value: float, measure: Measure) -> str:
    if measure == "cost":
        return f"${value:,.2f}" if value >= 1 else f"${value:.2g}"
    return f"{value:.0%}" if measure in ("stable", "recall") else tokens(round(value))


def _described(cell: Cell, measure: Measure, axes: tuple[Sequence[str], Sequence[str]]) -> str:
    if cell.problem is not None:
        return shown(cell.problem, 120)
    sent = cell.measures.get("sent")
    rest = f"<br>{_words(sent, 'sent')} tokens a turn" if sent is not None and measure != "sent" else ""
    unknown = "" if _sure(cell, measure) else "<br>not played yet"
    return f"{shown(axes[0][cell.x])} × {shown(axes[1][cell.y])}: {value_words(cell, measure)}{rest}{unknown}"


def _between(low: str, high: str, share: float) -> str:
    """A colour between two, as `#RRGGBB`."""
    pairs = ((int(low[n : n + 2], 16), int(high[n : n + 2], 16)) for n in (1, 3, 5))
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


# -- patterns of failures --------------------------------------------------------------------------

MAX_PATTERNS = 12
"""Maximum number of patterns drawn, the strongest ones."""

ROW_PIXELS = 28


def pattern_figure(patterns: Sequence[Pattern], mode: Mode) -> go.Figure:
    """Draw a line for each pattern, from the failure rate of all other cases (ring) to the pattern's own (dot)."""
    palette, rows = PALETTES[mode], list(patterns[:MAX_PATTERNS])[::-1]
    figure = blank(mode, 56 + ROW_PIXELS * len(rows))
    labels = [f"{pattern.name}: {shown(pattern.value, 40)}" for pattern in rows]
    others = [pattern.others_failed / pattern.others for pattern in rows]
    rates = [pattern.failed / pattern.cases for pattern in rows]
    for label, low, high in zip(labels, others, rates, strict=True):
        figure.add_trace(
            go.Scatter(
                x=[low, high], y=[label] * 2, mode="lines", line={"color": palette.free, "width": 3}, hoverinfo="skip"
            )
        )
    ring = {"color": palette.page, "size": 10, "line": {"color": palette.unknown, "width": 2}}
    for values, marker, what in ((others, ring, "others"), (rates, {"color": palette.cut, "size": 12}, "these")):
        counts = [f"{p.failed} of {p.cases}" if what == "these" else f"{p.others_failed} of {p.others}" for p in rows]
        figure.add_trace(
            go.Scatter(
                x=values,
                y=labels,
                mode="markers",
                marker=marker,
                customdata=counts,
                hovertemplate=f"%{{customdata}} of {what} fail<extra></extra>".replace("of these", "of these cases"),
            )
        )
    figure.update_layout(
        margin={"l": 8, "r": 16, "t": 8, "b": 32},
        xaxis={"range": [-0.02, 1.02], "tickformat": ".0%", "title": {"text": "Failing"}, "showgrid": True,
               "gridcolor": palette.free},
        yaxis={"automargin": True},
    )  # fmt: skip
    return figure
