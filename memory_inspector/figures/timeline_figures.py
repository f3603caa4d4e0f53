"""Figures of the Timeline: tokens by turn, with clickable marks for flushes and cuts; outcomes of messages. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, hatch, shown
from memory_inspector.palette import PALETTES, Mode, block_colour, colour, ink_on
from memory_inspector.reading.outcomes import Kind, Run
from memory_inspector.reading.turn_series import IDLE, Course, Layer, Mark, TurnCall, breaks
from memory_inspector.wording.event_sentences import seconds
from memory_inspector.wording.formatting import count, tokens

TOKENS_PIXELS = 270

NO_PROMPT_OPACITY = 0.4
"""Opacity of the queue in a turn without a prompt."""

RIGHT_PIXELS = 84
"""Pixels to the right of the turns for the labels of the two lines: space for seven digits."""

DASH = "9px,7px"
"""Dash pattern in pixels: named patterns scale with the line width."""

SCISSORS = "✂\ufe0e"
"""Scissors, with the variation selector for the monochrome glyph."""


def tokens_figure(course: Course, mode: Mode, *, picked: int | None = None) -> go.Figure:
    """Draw stacked bars, or areas for a long session, under the limit and the flush line; marks above them.

    `picked` is the selected turn, if it is not the newest: it is highlighted, and later turns are faded.
    """
    palette = PALETTES[mode]
    figure = blank(mode, TOKENS_PIXELS)
    for layer in course.layers:
        figure.add_trace(_bar(course, layer, mode) if course.bars else _area(course, layer, mode))
    # Marks stand above the highest value drawn, each kind at a height of its own; the range of y leaves room for them.
    top = course.highest
    figure.add_trace(_line(course.limit, palette.line, "solid"))
    # A halo in the colour of the page, so that the dashes stand out on any colour.
    figure.add_trace(_line(course.flush_line, palette.page, "solid", width=4, opacity=0.5))
    figure.add_trace(_line(course.flush_line, palette.line, DASH))
    figure.add_trace(_flush_marks(course, top * 1.09, mode))
    figure.add_trace(_cut_marks(course, top * 1.18, mode))
    if course.without_prompt:
        figure.add_trace(_empty_marks(course, top * 0.05, mode))
    first = course.limit[0][0] if course.limit else 1
    for stretch, words in ((course.limit, "limit"), (course.flush_line, "flush")):
        if stretch:
            figure.add_annotation(
                x=1, xref="paper", xanchor="left", xshift=4, y=stretch[-1][2], yanchor="middle",
                text=f"{words} {tokens(stretch[-1][2])}", showarrow=False, font={"size": 11, "color": palette.text},
            )  # fmt: skip
    if course.step > 1:
        figure.add_annotation(
            x=0, xref="paper", xanchor="left", y=0.99, yref="paper", yanchor="top",
            text=f"every {_ordinal(course.step)} turn drawn, all flushes and cuts", showarrow=False,
            font={"size": 11, "color": palette.unknown},
        )  # fmt: skip
    if picked is not None:
        _mark_picked(figure, picked, course.last, mode)
    ticks = {"tickmode": "linear", "dtick": 1, "tick0": 1} if course.last <= 30 else {"nticks": 12}
    figure.update_layout(
        barmode="stack",
        bargap=0.25 if course.last <= 40 else 0.1,
        margin={"l": 44, "r": RIGHT_PIXELS, "t": 4, "b": 26},
        xaxis={**ticks, "range": [first - 0.6, course.last + 0.6], "tickformat": ",d"},
        yaxis={"range": [0, top * (1.26 if course.step == 1 else 1.38)], "tickformat": ",d", "nticks": 6},
    )
    return figure


def _bar(course: Course, layer: Layer, mode: Mode) -> go.Bar:
    colour = block_colour(layer.kind, mode)
    return go.Bar(
        name=shown(layer.label),
        x=np.array(course.turns),
        y=np.array(layer.tokens),
        marker={
            "color": colour,
            "line": {"color": PALETTES[mode].page, "width": 1},
            "opacity": np.array([1.0 if prompt else NO_PROMPT_OPACITY for prompt in course.prompts]),
        },
        customdata=np.array(course.prompts),
        # Bars have no text of their own; this one only extends the hover text.
        text=["" if prompt else "<br>No prompt was built: the queue at its end" for prompt in course.prompts],
        textposition="none",
        hovertemplate=_hover(layer, more="%{text}"),
    )


def _area(course: Course, layer: Layer, mode: Mode) -> go.Scatter:
    colour = block_colour(layer.kind, mode)
    return go.Scatter(
        name=shown(layer.label),
        x=np.array(course.turns),
        y=np.array(layer.tokens),
        mode="lines",
        stackgroup="prompt",
        line={"width": 0.5, "color": PALETTES[mode].page, "shape": "hv"},
        fillcolor=colour,
        hovertemplate=_hover(layer),
    )


def _hover(layer: Layer, more: str = "") -> str:
    return f"Turn %{{x:,}}<br>{shown(layer.label)} %{{y:,}} tokens{more}<extra></extra>"


def _line(
    stretches: Sequence[tuple[int, int, int]], colour: str, dash: str, *, width: int = 2, opacity: float = 1
) -> go.Scatter:
    return go.Scatter(
        # Half a turn to each side, so that the line covers the whole width of the bars.
        x=[x for first, last, _ in stretches for x in (first - 0.5, last + 0.5)],
        y=[level for _, _, level in stretches for _ in (0, 1)],
        mode="lines",
        line={"color": colour, "width": width, "dash": dash},
        opacity=opacity,
        hoverinfo="skip",
    )


def _flush_marks(course: Course, height: float, mode: Mode) -> go.Scatter:
    ink = PALETTES[mode].line
    return go.Scatter(
        name="flush",
        **_places(course.flushes, height),
        text=np.array([mark.tokens for mark in course.flushes]),
        mode="markers",
        marker={"symbol": "triangle-down", "size": 13 if course.bars else 9, "color": ink, "opacity": 1},
        unselected={"marker": {"opacity": 1}},
        hovertemplate="Turn %{x:,}: flushed %{text:,} tokens<br>Click for what became of them<extra></extra>",
    )


def _cut_marks(course: Course, height: float, mode: Mode) -> go.Scatter:
    """Draw scissors, or thin strokes if there are too many turns."""
    red = PALETTES[mode].cut
    # The transparent square takes the click; the scissors are its text.
    marks = {"symbol": "square", "size": 16, "color": "rgba(0,0,0,0)"}
    words: dict[str, Any] = {"mode": "markers+text", "text": [SCISSORS] * len(course.cuts)}
    # In a long session scissors would overlap.
    if not course.bars:
        marks, words = {"symbol": "line-ns", "size": 9, "line": {"color": red, "width": 1}}, {"mode": "markers"}
    return go.Scatter(
        name="cut",
        **_places(course.cuts, height),
        marker=marks,
        textfont={"size": 15, "color": red},
        textposition="middle center",
        unselected={"marker": {"opacity": 1}, "textfont": {"color": red}},
        hovertemplate="Turn %{x:,}: cut<br>Click for what was left out<extra></extra>",
        **words,
    )


def _empty_marks(course: Course, above: float, mode: Mode) -> go.Scatter:
    """Draw a ring over the queue of each turn without a prompt."""
    turns = course.without_prompt
    return go.Scatter(
        name="no prompt",
        x=list(turns),
        y=[size + above for size in turns.values()],
        mode="markers",
        marker={"symbol": "circle-open", "size": 9, "color": PALETTES[mode].text, "line": {"width": 2}},
        unselected={"marker": {"opacity": 1}},
        hovertemplate="Turn %{x:,}: no prompt was built<extra></extra>",
    )


def _places(marks: Sequence[Mark], height: float) -> dict[str, Any]:
    """Coordinates of the marks, and log positions of the events they open, as arrays: there may be thousands."""
    return {
        "x": np.array([mark.turn for mark in marks]),
        "y": np.full(len(marks), height),
        "customdata": np.array([mark.position for mark in marks]),
    }


def _mark_picked(figure: go.Figure, picked: int, last: int, mode: Mode) -> None:
    palette = PALETTES[mode]
    across = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1}
    figure.add_shape(
        **across, x0=picked - 0.5, x1=picked + 0.5, layer="below", fillcolor=palette.accent, opacity=0.16,
        line={"width": 0},
    )  # fmt: skip
    # A veil in the colour of the page, so that later turns fade with their marks and lines.
    figure.add_shape(
        **across, x0=picked + 0.5, x1=last + 0.6, layer="above", fillcolor=palette.page, opacity=0.62,
        line={"width": 0},
    )  # fmt: skip


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{tokens(number)}{ending}"


# -- the calls of one turn as a waterfall ---------------------------------------------------------


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


# -- outcomes of messages --------------------------------------------------------------------------

STRIP_PIXELS = 34

MAX_MESSAGES = 300
"""Maximum number of messages drawn in order; with more, only the number per outcome is drawn."""

OUTCOMES: Mapping[Kind, tuple[str, str]] = {
    "gone": ("gone", "cut"),
    "flushed": ("flushed", "rest"),
    "extracted": ("flushed, learned from", "facts"),
    "recalled": ("flushed, recalled", "vector"),
    "queue": ("in the queue", "queue"),
}
"""Name of each outcome, and the theme colour it uses."""


def strip_figure(runs: Sequence[Run], mode: Mode) -> go.Figure:
    """Draw one bar, a segment per run, oldest message on the left; lost ones hatched."""
    palette = PALETTES[mode]
    figure = blank(mode, STRIP_PIXELS)
    start = 0
    total = max(1, sum(run.messages for run in runs))
    for run in runs:
        _, meaning = OUTCOMES[run.kind]
        paint = colour(meaning, mode)
        lost = run.kind == "gone"
        figure.add_trace(
            go.Bar(
                x=[run.messages],
                y=[0],
                base=[start],
                orientation="h",
                width=1,
                marker={
                    # Lost messages are hatched on the bare page: a fill would read as an outcome that exists.
                    "color": "rgba(0,0,0,0)" if lost else paint,
                    "line": {"color": palette.page, "width": 1},
                    **({"pattern": hatch(mode)} if lost else {}),
                },
                # Less than a fortieth of the strip has no room for a number; the hover text has it.
                text=tokens(run.messages) if run.messages >= total / 40 else "",
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": palette.cut if lost else ink_on(paint), "size": 12},
                hovertext=outcome_words(run),
                hovertemplate="%{hovertext}<extra></extra>",
                # Numbers keep their size: Plotly would shrink those that do not fit.
                constraintext="none",
            )
        )
        start += run.messages
    figure.update_layout(
        barmode="overlay",
        margin={"l": 0, "r": 0, "t": 2, "b": 2},
        xaxis={"visible": False, "range": [0, total]},
        yaxis={"visible": False, "range": [-0.5, 0.5]},
    )
    return figure


def outcome_words(run: Run) -> str:
    """A run in words: `Messages 1 to 6, turns 1 to 3: flushed, recalled. 240 tokens, 2 facts learned`."""
    which = f"Messages {tokens(run.first.seq)} to {tokens(run.last.seq)}" if run.messages > 1 else (
        f"Message {tokens(run.first.seq)}"
    )  # fmt: skip
    turns = f"turn {tokens(run.first.turn)}" if run.first.turn == run.last.turn else (
        f"turns {tokens(run.first.turn)} to {tokens(run.last.turn)}"
    )  # fmt: skip
    learned = f", {count(run.facts, 'fact')} learned" if run.facts else ""
    return f"{which}, {turns}: {OUTCOMES[run.kind][0]}. {count(run.tokens, 'token')}{learned}"


def counted(runs: Sequence[Run]) -> list[Run]:
    """Merge the runs of each outcome, for sessions too long to show every message."""
    joined = []
    # By outcome, not by age: each run spans from its first message to its last, with other outcomes in between.
    for kind in OUTCOMES:
        of_kind = [run for run in runs if run.kind == kind]
        if of_kind:
            sums = (sum(run.messages for run in of_kind), sum(run.tokens for run in of_kind))
            joined.append(Run(kind, of_kind[0].first, of_kind[-1].last, *sums, sum(run.facts for run in of_kind)))
    return joined


def outcome_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs as rows of a table."""
    return [
        {
            "Messages": f"{tokens(run.first.seq)} to {tokens(run.last.seq)}",
            "Turns": f"{tokens(run.first.turn)} to {tokens(run.last.turn)}",
            "Outcome": OUTCOMES[run.kind][0],
            "Number": run.messages,
            "Tokens": run.tokens,
            "Facts learned": run.facts,
        }
        for run in runs
    ]
