"""The strip of message outcomes: one horizontal bar, the oldest message on the left. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from memory_inspector.figures.chart_style import blank, hatch
from memory_inspector.palette import PALETTES, Mode, colour, ink_on
from memory_inspector.reading.outcomes import Kind, Run
from memory_inspector.wording.formatting import count, tokens

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
