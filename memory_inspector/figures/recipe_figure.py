"""Tokens by turn of one recipe against other recipes and the session itself; and two prompts as bars. Pure."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, hatch, shown
from memory_inspector.palette import PALETTES, Mode, block_colour
from memory_inspector.reading.recipe_rows import PartShown
from memory_inspector.wording.formatting import short, tokens

LINES_PIXELS = 190
ROW_PIXELS = 34
NAME_CHARACTERS = 20
FAR = 2
"""Omit a limit more than this many times the largest prompt; everything else would be flattened."""

GAP = 2 * "\N{NO-BREAK SPACE}"
LIMIT_PIXELS = 136
"""Pixels to the right of the turns for the labels of lines."""


def lines_figure(
    chosen: Sequence[int],
    title: str,
    really: Mapping[int, int],
    others: Sequence[Sequence[int]],
    mode: Mode,
    *,
    limit: int,
    first: int = 1,
) -> go.Figure:
    """Draw the chosen recipe's prompts as a line, the session's own dashed, those of other recipes faded behind.

    `really`: tokens that the session itself sent, by index of the tried turn, from 1. `first`: number of the first
    tried turn.
    """
    palette = PALETTES[mode]
    figure = blank(mode, LINES_PIXELS)
    # Drawn first, so that the other recipes lie behind the chosen one.
    for other in others:
        _line(figure, range(first, first + len(other)), other, palette.unknown, 1.5, opacity=0.25)
    # Turns of the session after those tried have nothing to be compared with.
    turns = [turn for turn in really if turn <= len(chosen)]
    if turns:
        _line(
            figure,
            [first + turn - 1 for turn in turns],
            [really[turn] for turn in turns],
            palette.unknown,
            2,
            "7px,5px",
            "This session",
        )
    _line(figure, range(first, first + len(chosen)), chosen, palette.queue, 2.5, None, title)
    # At least 1, so that the axis has a length even if every prompt was empty.
    top = max([*chosen, *really.values(), *(value for other in others for value in other), 1])
    if limit <= top * FAR:
        top = max(top, limit)
        figure.add_shape(
            type="line", xref="paper", x0=0, x1=1, y0=limit, y1=limit, line={"color": palette.line, "width": 2}
        )
        _named(figure, limit, f"limit {tokens(limit)}", palette.text)
    labels = {"it": (chosen[-1], short(title, NAME_CHARACTERS), palette.queue)} if chosen else {}
    if turns:
        labels["own"] = (really[turns[-1]], "this session", palette.unknown)
    # A limit too far away to be drawn is above the top, and its label takes no space.
    placed: list[float] = [limit] if limit <= top else []
    for height, words, colour in labels.values():
        place = _apart(height, placed, top)
        placed.append(place)
        _named(figure, place, words, colour)
    last = first + max(len(chosen), 1) - 1
    ticks = {"tickmode": "linear", "dtick": 1, "tick0": 1} if last - first < 20 else {"nticks": 10}
    figure.update_layout(
        margin={"l": 44, "r": LIMIT_PIXELS, "t": 8, "b": 26},
        xaxis={**ticks, "range": [first - 0.3, last + 0.3], "tickformat": ",d"},
        yaxis={"range": [0, top * 1.1], "tickformat": ",d", "nticks": 5},
    )
    return figure


def _line(
    figure: go.Figure,
    x: Sequence[int],
    y: Sequence[int],
    colour: str,
    width: float,
    dash: str | None = None,
    name: str | None = None,
    opacity: float = 1,
) -> None:
    figure.add_trace(
        go.Scatter(
            x=list(x),
            y=list(y),
            mode="lines+markers" if len(y) == 1 else "lines",
            line={"color": colour, "width": width, "dash": dash or "solid"},
            opacity=opacity,
            hoverinfo="skip" if name is None else None,
            hovertemplate=None if name is None else f"Turn %{{x:,}}<br>{shown(name)}: %{{y:,}} tokens<extra></extra>",
        )
    )


def _named(figure: go.Figure, height: float, words: str, colour: str) -> None:
    figure.add_annotation(
        x=1, xref="paper", xanchor="left", xshift=6, y=height, yanchor="middle", text=shown(words), showarrow=False,
        font={"size": 11, "color": colour},
    )  # fmt: skip


def _apart(height: float, taken: Sequence[float], top: float) -> float:
    """The nearest height at which a label overlaps no other label."""
    # About 16 pixels at this height of the figure: the height of a label.
    least = top * 0.11
    place = height
    # Moving off one label may move it onto another; the number of attempts is bounded, so that it ends.
    for _ in range(2 * len(taken)):
        near = [other for other in taken if abs(place - other) < least]
        if not near:
            break
        below = near[0] - least
        place = below if below >= 0 else near[0] + least
    return place


def bars_figure(
    now: Sequence[PartShown], then: Sequence[PartShown], title: str, mode: Mode, *, limits: tuple[int, int]
) -> go.Figure:
    """Draw two prompts as bars on one scale, the session's own on top; cuts are hatched behind each."""
    palette = PALETTES[mode]
    figure = blank(mode, 2 * ROW_PIXELS + 26)
    largest = max(1, *(sum(max(part.asked, part.granted) for part in parts) for parts in (now, then)))
    # One rule for both limits: with only one drawn, the other prompt would look unlimited.
    near = max(limits) <= largest * FAR
    scale = max(largest, *limits) if near else largest
    for place, parts in enumerate((now, then)):
        start = 0
        for part in parts:
            _bar(figure, place, start, part.granted, block_colour(part.kind, mode), f"{part.name}: {part.size}")
            start += part.granted
        lost = sum(max(0, part.asked - part.granted) for part in parts)
        if lost > 0:
            figure.add_trace(
                go.Bar(
                    x=[lost], y=[place], base=[start], orientation="h", width=0.62,
                    marker={"color": "rgba(0,0,0,0)", "pattern": hatch(mode), "line": {"width": 0}},
                    hovertemplate=f"Cut: {tokens(lost)}<extra></extra>",
                )
            )  # fmt: skip
        if near:
            figure.add_shape(
                type="line", x0=limits[place], x1=limits[place], y0=place - 0.42, y1=place + 0.42,
                line={"color": palette.line, "width": 2},
            )  # fmt: skip
    figure.update_xaxes(range=[0, scale * 1.01], visible=False)
    figure.update_yaxes(
        # Reversed: the prompt of the session stands on top.
        range=[1.5, -0.5],
        tickmode="array",
        tickvals=[0, 1],
        ticktext=[f"{name}{GAP}" for name in ("Now", shown(title, NAME_CHARACTERS))],
        tickfont={"color": palette.text, "size": 13},
        showline=False,
        automargin=True,
    )
    figure.update_layout(barmode="overlay", bargap=0.2, margin={"l": 8, "r": 8, "t": 4, "b": 4})
    return figure


def _bar(figure: go.Figure, place: int, start: int, length: int, colour: str, hover: str) -> None:
    if length > 0:
        figure.add_trace(
            go.Bar(
                x=[length], y=[place], base=[start], orientation="h", width=0.62,
                marker={"color": colour, "line": {"color": "rgba(0,0,0,0)", "width": 1}},
                hovertemplate=f"{shown(hover)}<extra></extra>",
            )
        )  # fmt: skip
