"""Figures of a coding agent's session: prompts by part, the largest items, and the calls that had a phrase. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from memory_inspector.coding.context_parts import UNSEEN, CallParts, SizedItem
from memory_inspector.coding.transcript import quotable
from memory_inspector.figures.chart_style import BETWEEN, blank, hatch, legend_entry, shown
from memory_inspector.palette import PALETTES, Mode, colour
from memory_inspector.wording.formatting import tokens

PROMPTS_PIXELS, LARGEST_PIXELS, STRIP_PIXELS = 300, 380, 74
MAX_BARS = 150
"""Calls that are drawn as bars; a browser takes seconds to draw thousands of rectangles."""
MAX_ITEMS = 80
"""Items of the map; smaller ones would be too small to be seen."""

GROUPS: Mapping[str, tuple[str, str]] = {
    "unseen": (UNSEEN, "rest"),
    "memory": ("Memory files, added by the program", "facts"),
    "summary": ("Summary", "summary"),
    "user": ("User", "queue"),
    "assistant": ("Assistant", "static"),
    "calls": ("Tool calls", "custom"),
    "results": ("Results of tools", "vector"),
    "subagents": ("Results of subagents", "graph"),
}
"""Groups of parts with title and colour, from the bottom of a bar to its top."""

_GROUP_OF = {
    UNSEEN: "unseen",
    "System prompt": "unseen",
    "Tools": "unseen",
    "Memory files": "memory",
    "Added by the program": "memory",
    "Summary": "summary",
    "User": "user",
    "Assistant": "assistant",
    "Thinking": "assistant",
    "Tool calls": "calls",
    "Results of subagents": "subagents",
}


def group_of(part: str) -> str:
    """Return the group of a part; that of all tools' results for the others."""
    return _GROUP_OF.get(part, "results")


def prompts_figure(
    calls: Sequence[CallParts], mode: Mode, *, limit: int | None, chosen: int, compactions: Sequence[int]
) -> go.Figure:
    """Draw each call's prompt as a bar of its parts. `compactions`: numbers of the calls before which one came."""
    figure = blank(mode, PROMPTS_PIXELS)
    numbers = [parts.call.number for parts in calls]
    for group, (title, name) in GROUPS.items():
        sizes = [sum(n for part, n in parts.parts.items() if group_of(part) == group) for parts in calls]
        hover = f"call %{{customdata:,}}<br>{title}: %{{y:,}} tokens<extra></extra>"
        fill = colour(name, mode)
        if len(calls) <= MAX_BARS:
            figure.add_bar(x=numbers, y=sizes, customdata=numbers, marker={"color": fill}, hovertemplate=hover)
            continue
        # One area in place of hundreds of bars, with the same edges: a point at the left and the right of each call.
        figure.add_scatter(
            x=[number + side for number in numbers for side in (-0.5, 0.5)],
            y=[size for size in sizes for _ in range(2)],
            customdata=[number for number in numbers for _ in range(2)],
            stackgroup="parts",
            mode="none",
            fillcolor=fill,
            hovertemplate=hover,
        )
    # Prompts above the limit are drawn in full, too.
    top = max((parts.call.usage.prompt for parts in calls), default=1)
    # The limit belongs into the picture, also where no prompt came near it.
    if limit is not None:
        _level(figure, limit, f"limit {tokens(limit)}", mode)
        top = max(top, limit)
    _compactions(figure, compactions, mode)
    # Drawn last, over the bars.
    figure.add_vline(chosen, line={"color": PALETTES[mode].accent, "width": 2}, opacity=0.7)
    figure.update_layout(
        barmode="stack",
        bargap=0.08,
        margin={"l": 56, "r": 8, "t": 20, "b": 24},
        xaxis=_call_axis(max(numbers, default=1)),
        yaxis={"tickformat": ",d", "nticks": 5, "range": [0, top * 1.08]},
    )
    return figure


def prompts_legend(calls: Sequence[CallParts], mode: Mode) -> str:
    """Legend of the groups that the prompts have, as Markdown."""
    drawn = {group_of(part) for parts in calls for part, size in parts.parts.items() if size}
    return BETWEEN.join(
        legend_entry(title, colour(name, mode)) for group, (title, name) in GROUPS.items() if group in drawn
    )


def _call_axis(last: int) -> dict[str, Any]:
    """Return the axis of the calls from 1 to `last`; a few of them are numbered one by one."""
    ticks = {"tickmode": "linear", "dtick": 1, "tick0": 1} if last < 20 else {"nticks": 10}
    return {**ticks, "tickformat": ",d", "range": [0.4, last + 0.6]}


def _level(figure: go.Figure, height: int, label: str, mode: Mode) -> None:
    line = {"color": PALETTES[mode].line, "width": 2}
    figure.add_shape(type="line", xref="paper", x0=0, x1=1, y0=height, y1=height, line=line)
    figure.add_annotation(
        x=1, xref="paper", xanchor="right", y=height, yanchor="bottom", text=label, showarrow=False, font={"size": 11}
    )


def _compactions(figure: go.Figure, calls: Sequence[int], mode: Mode) -> None:
    for place, number in enumerate(calls):
        figure.add_vline(number - 0.5, line={"color": PALETTES[mode].line, "width": 1.5, "dash": "4px,3px"})
        text = str(place + 1) if len(calls) > 1 else ""
        if place == 0:  # the others have their number alone, as many are close together
            text = f"compaction {text}".strip()
        figure.add_annotation(
            x=number - 0.5, y=1, yref="paper", yanchor="bottom", text=text, showarrow=False, font={"size": 11}
        )


def largest_figure(items: Sequence[SizedItem], mode: Mode) -> go.Figure:
    """Draw the largest items as a map by part; results that nothing refers to are hatched."""
    largest = [one for one in items if one.tokens > 0][:MAX_ITEMS]
    parts = list(dict.fromkeys(one.part for one in largest))
    # Items may have equal names, so each has an id of its own.
    ids = [*parts, *(f"{one.part} {n}" for n, one in enumerate(largest))]
    sums = [sum(one.tokens for one in largest if one.part == part) for part in parts]
    fills = [colour(GROUPS[group_of(part)][1], mode) for part in [*parts, *(one.part for one in largest)]]
    unused = [one.referred is False for one in largest]
    figure = blank(mode, LARGEST_PIXELS)
    figure.add_trace(
        go.Treemap(
            ids=ids,
            labels=[*(shown(part) for part in parts), *(shown(item_name(one), 48) for one in largest)],
            parents=[*("" for _ in parts), *(one.part for one in largest)],
            values=[*sums, *(one.tokens for one in largest)],
            branchvalues="total",
            marker={
                "colors": fills,
                "line": {"color": PALETTES[mode].page, "width": 1},
                "pattern": {
                    **hatch(mode, "line"),
                    "shape": [*("" for _ in parts), *("/" if u else "" for u in unused)],
                },
            },
            customdata=[*("" for _ in parts), *(_described(one) for one in largest)],
            hovertemplate="%{label}<br>%{value:,} tokens<br>%{customdata}<extra></extra>",
            textinfo="label+value",
            pathbar={"visible": False},
            tiling={"pad": 2},
        )
    )
    figure.update_layout(margin={"l": 0, "r": 0, "t": 0, "b": 0})
    return figure


def item_name(one: SizedItem) -> str:
    """Return the name of an item: its file, or the beginning of its text without keys."""
    return one.item.path.rpartition("/")[2] or quotable(one.item.text, 80) or one.part


def _described(one: SizedItem) -> str:
    used = {None: "", True: "referred to later", False: "never referred to again"}[one.referred]
    sent = f"sent with {tokens(one.calls)} calls"
    return f"{sent}<br>{used}" if used else sent


def strip_figure(in_prompt: Sequence[tuple[int, bool]], compactions: Sequence[int], mode: Mode) -> go.Figure:
    """Draw one mark a call: filled where its prompt had the phrase. `in_prompt`: number of the call, and whether."""
    figure = blank(mode, STRIP_PIXELS)
    for has, title, name in ((True, "in the prompt", "queue"), (False, "not in the prompt", "free")):
        # Two traces, as a legend and hover texts belong to a trace.
        numbers = [number for number, was in in_prompt if was is has]
        figure.add_bar(
            x=numbers,
            y=[1] * len(numbers),
            marker={
                "color": colour(name, mode),
                "line": {"color": colour("unknown", mode), "width": 0 if has else 0.5},
            },
            hovertemplate=f"call %{{x:,}}: {title}<extra></extra>",
        )
    _compactions(figure, compactions, mode)
    # Calls before the phrase was said belong to the picture: they show since when it was sent.
    last = max((number for number, _ in in_prompt), default=1)
    figure.update_layout(
        barmode="stack",
        bargap=0.08,
        margin={"l": 8, "r": 8, "t": 18, "b": 20},
        xaxis=_call_axis(last),
        yaxis={"visible": False, "range": [0, 1]},
    )
    return figure
