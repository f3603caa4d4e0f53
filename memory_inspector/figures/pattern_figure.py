"""The figure of failure patterns: for each property, the failure rate of its cases and of all others. Pure."""

from collections.abc import Sequence

import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, shown
from memory_inspector.lab.failure_patterns import Pattern
from memory_inspector.palette import PALETTES, Mode

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
