"""The calls of one turn as a waterfall: a bar a call, as long as it took, ending when it had ended. Pure."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, hatch, shown
from memory_inspector.palette import PALETTES, Mode, block_colour
from memory_inspector.reading.turn_calls import IDLE, TurnCall, breaks
from memory_inspector.wording.event_sentences import seconds

MAX_CALLS = 30
"""Calls that are drawn, the longest; the table has all."""

ROW_PIXELS = 42

NAME_CHARACTERS = 26
"""Maximum characters of a call's name above its bar."""


def drawn(calls: Sequence[TurnCall]) -> list[TurnCall]:
    """Return the calls that are drawn, in their order; none if no time of any is known."""
    # Without any time there is nothing to compare: the table says the rest.
    longest = sorted(range(len(calls)), key=lambda place: -(calls[place].seconds or 0))[:MAX_CALLS]
    return [calls[place] for place in sorted(longest)] if any(call.seconds for call in calls) else []


def calls_figure(calls: Sequence[TurnCall], kinds: Mapping[str, str], mode: Mode) -> go.Figure:
    """Draw the calls; `kinds` are those of the blocks by name. One whose time is not known is a mark at its end.

    Idle time between calls that would leave no room for them is left out, and named on a dotted line.
    """
    palette = PALETTES[mode]
    figure = blank(mode, ROW_PIXELS * len(calls) + 12)
    # Half of what may be idle unshortened stands for each break.
    idle = breaks(calls)
    gap = IDLE * sum(call.seconds or 0 for call in calls) / 2

    def at(time: float) -> float:
        return 1000 * (time - calls[0].begin - sum(end - begin - gap for begin, end in idle if end <= time))

    text = {"showarrow": False, "xanchor": "left", "font": {"size": 12}}
    for place, call in enumerate(calls):
        kind = kinds.get(call.event.about or "")
        paint = palette.cut if call.failed else palette.unknown if kind is None else block_colour(kind, mode)
        name = f"{call.what} · {call.name}"
        hover = {"hovertext": f"{shown(name)}: {call.amount}", "hovertemplate": "%{hovertext}<extra></extra>"}
        if call.seconds is None:
            mark = {"symbol": "diamond-open", "size": 9, "color": paint}
            figure.add_scatter(x=[at(call.end)], y=[place], mode="markers", marker=mark, cliponaxis=False, **hover)
        else:
            fill = {"color": "rgba(0,0,0,0)", "pattern": hatch(mode)} if call.failed else {"color": paint}
            mark = {**fill, "line": {"color": paint, "width": 1}}
            size = {"x": [call.seconds * 1000], "base": [at(call.begin)], "width": 0.36}
            figure.add_bar(y=[place], orientation="h", marker=mark, **size, **hover)
        took = f'<span style="color:{palette.unknown}">{call.amount}</span>'
        figure.add_annotation(x=0, xref="paper", y=place - 0.44, text=f"{shown(name, NAME_CHARACTERS)} {took}", **text)
    for begin, end in idle:
        middle, words = at(begin) + gap * 500, f"{seconds(end - begin)} idle"
        figure.add_vline(x=middle, line={"color": palette.unknown, "width": 1, "dash": "dot"})
        figure.add_annotation(x=middle, y=1, yref="paper", yanchor="top", text=words, textangle=-90, **text)
    # A little room at the end, where a mark would be cut off; the first call is above.
    last = max(at(call.end) for call in calls)
    figure.update_layout(
        barmode="overlay",
        margin={"l": 0, "r": 8, "t": 2, "b": 2},
        xaxis={"visible": False, "range": [-0.01 * last, last * 1.02]},
        yaxis={"visible": False, "range": [len(calls) - 0.6, -0.8]},
    )
    return figure
