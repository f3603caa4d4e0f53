"""The map of stored turns as a figure. Pure; no Streamlit.

A turn's outcome is shown by shape and colour together; the question is a star in the text colour. Drawn as SVG: the map
is thinned to what SVG draws without delay, and WebGL is not available in every browser.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import plotly.graph_objects as go

from memory_core.retrieval.explain import Search, TurnMap
from memory_core.retrieval.ranked import CandidateOutcome, RankedTurn
from memory_inspector.figures.chart_style import blank, shown
from memory_inspector.palette import PALETTES, Mode, Palette
from memory_inspector.reading.excerpt import excerpt, matches
from memory_inspector.reading.search_rows import outcome as outcome_words
from memory_inspector.wording.formatting import plural, tokens
from memory_inspector.wording.unit_names import TURN, stored_plural

HEIGHT = 320
"""Height in pixels; the map and the list that alternates with it are about equally high."""

ABOVE, BELOW = 0.14, 0.12
"""Margins as fractions of the map's height: above for names of the highest marks, below for the question's name."""

NAMED = 5
"""Number of best turns labelled with their turn number."""

HOVER_CHARACTERS = 140

ColourBy = Literal["outcome", "time"]


@dataclass(frozen=True, slots=True)
class Mark:
    """Appearance and legend label of turns with one outcome."""

    label: str
    symbol: str
    glyph: str
    """Text character that resembles the symbol."""
    meaning: str
    """Name of the colour in `memory_inspector.palette`."""
    size: int
    opacity: float = 1.0


MARKS: dict[CandidateOutcome, Mark] = {
    "not_proposed": Mark("no candidate", "circle", "●", "unknown", 6, 0.45),
    "quarantined": Mark("in quarantine", "hexagon-open", "⬡", "unknown", 10),
    "below_threshold": Mark("below the threshold", "circle-open", "○", "unknown", 9),
    "in_queue": Mark("in the queue", "square", "■", "queue", 9),
    "replaced": Mark("former value", "hourglass-open", "⧖", "unknown", 10),
    "repeated": Mark("repeated", "square-open", "□", "unknown", 9),
    "beyond_top_k": Mark("beyond the results", "diamond-open", "◇", "unknown", 10),
    "postprocessed": Mark("left out by a postprocessor", "diamond-tall-open", "⬨", "unknown", 10),
    "no_room": Mark("no room", "triangle-down-open", "▽", "unknown", 10),
    "no_prompt": Mark("recalled, in no prompt", "triangle-up", "▲", "vector", 10),
    "cut": Mark("cut", "x", "✕", "cut", 10),
    "granted": Mark("in the prompt", "circle", "●", "vector", 12),
}
"""Mark of each outcome, in drawing order: the most important marks are on top."""


def map_figure(
    drawn: TurnMap, search: Search, mode: Mode, *, by: ColourBy = "outcome", picked: int | None = None
) -> go.Figure:
    """Draw every turn as a mark that carries its number; the question and the selected turn above them."""
    palette = PALETTES[mode]
    figure = blank(mode, HEIGHT)
    figure.update_layout(xaxis_visible=False, yaxis_visible=False, hoverlabel_align="left")
    # The map may be thinned, so only the turns it draws are looked up.
    ranked = {one.number: one for one in search.found.some(drawn.numbers)}
    places = {number: (float(x), float(y)) for number, (x, y) in zip(drawn.numbers, drawn.points, strict=True)}
    turns = [one.turn for one in ranked.values()]
    # One scale for all outcomes: each is a trace of its own and would otherwise have its own colours.
    scale = (min(turns, default=0), max(turns, default=1))
    for outcome, mark in MARKS.items():
        numbers = [number for number in drawn.numbers if number in ranked and ranked[number].outcome == outcome]
        if numbers:
            colouring = _by_time([ranked[n].turn for n in numbers], scale, palette) if by == "time" else {}
            figure.add_trace(_trace(numbers, places, ranked, search, mark, palette, colouring))
    if drawn.query is not None:
        named = sorted((ranked[number] for number in places if number in ranked), key=lambda one: one.rank)[:NAMED]
        figure.add_trace(_names(named, places, palette))
        figure.add_trace(_question(drawn.query, palette))
    if picked in places:
        figure.add_trace(_ring(places[picked], palette))
    # The question is not a turn, but must be within the range as well.
    heights = [y for _, y in places.values()] + ([float(drawn.query[1])] if drawn.query is not None else [])
    if heights:
        # Or 1: turns that lie on one line have no height.
        room = (max(heights) - min(heights)) or 1.0
        figure.update_yaxes(range=[min(heights) - BELOW * room, max(heights) + ABOVE * room])
    return figure


def _trace(
    numbers: list[int],
    places: Mapping[int, tuple[float, float]],
    ranked: Mapping[int, RankedTurn],
    search: Search,
    mark: Mark,
    palette: Palette,
    colouring: dict[str, Any],
) -> go.Scatter:
    # The outline of an open symbol is the symbol, so it keeps the colour of the mark.
    outline = {"width": 2} if mark.symbol.endswith("-open") else {"width": 1, "color": palette.page}
    look = {"symbol": mark.symbol, "size": mark.size, "opacity": mark.opacity, "line": outline}
    return go.Scatter(
        x=[places[number][0] for number in numbers],
        y=[places[number][1] for number in numbers],
        mode="markers",
        name=mark.label,
        customdata=[[number] for number in numbers],
        text=[_hover(ranked[number], search) for number in numbers],
        hovertemplate="%{text}<extra></extra>",
        marker={**look, "color": getattr(palette, mark.meaning), **colouring},
        # The selected turn has a ring of its own; the others must not fade.
        selected={"marker": {"opacity": mark.opacity}},
        unselected={"marker": {"opacity": mark.opacity}},
    )


def _by_time(turns: list[int], scale: tuple[int, int], palette: Palette) -> dict[str, Any]:
    return {
        "color": turns,
        "cmin": scale[0],
        # Turns of one number would leave the scale without a length.
        "cmax": max(scale[1], scale[0] + 1),
        "colorscale": [[0, palette.unknown], [1, palette.vector]],
        "showscale": False,
    }


def _hover(one: RankedTurn, search: Search) -> str:
    # Without weights nothing was scored, or the record does not say how: a number would mislead.
    numbers = f"{one.score:.2f}, " if search.weights is not None else ""
    return f"<b>Turn {tokens(one.turn)}</b>  {numbers}{outcome_words(one, search)}<br>{shown(_begins(one, search))}"


def _begins(one: RankedTurn, search: Search) -> str:
    """Return a turn's text, shortened, from the passage that matches the question."""
    return excerpt(one.words, matches(one.words, search.query or ""), HOVER_CHARACTERS)


def _names(named: list[RankedTurn], places: Mapping[int, tuple[float, float]], palette: Palette) -> go.Scatter:
    """Labels of the best turns; a hover text names the other turns."""
    return go.Scatter(
        x=[places[one.number][0] for one in named],
        y=[places[one.number][1] for one in named],
        mode="text",
        name="names",
        text=[f"turn {tokens(one.turn)}<br>\N{NO-BREAK SPACE}" for one in named],  # one line above its mark
        textposition="top center",
        textfont={"size": 11, "color": palette.text},
        hoverinfo="skip",
    )


def _question(place: tuple[float, float], palette: Palette) -> go.Scatter:
    return go.Scatter(
        x=[place[0]],
        y=[place[1]],
        mode="markers+text",
        name="question",
        text=["the question"],
        textposition="bottom center",
        textfont={"size": 11, "color": palette.text},
        hovertemplate="The question<extra></extra>",
        marker={"symbol": "star", "size": 17, "color": palette.line, "line": {"width": 1, "color": palette.page}},
    )


def _ring(place: tuple[float, float], palette: Palette) -> go.Scatter:
    return go.Scatter(
        x=[place[0]],
        y=[place[1]],
        mode="markers",
        name="picked",
        hoverinfo="skip",
        marker={"symbol": "circle-open", "size": 22, "color": palette.accent, "line": {"width": 2}},
    )


def legend(search: Search, mode: Mode, by: ColourBy) -> str:
    """Legend of the marks on the figure, as markdown."""
    palette = PALETTES[mode]
    if by == "time":
        ends = ((palette.unknown, "earlier"), (palette.vector, "later"))
        parts = [f':color[●]{{foreground="{colour}"}} {label}' for colour, label in ends]
    else:
        # Only outcomes that occur, the most important first.
        drawn = {outcome for outcome, number in search.found.counts.items() if number}
        parts = [
            f':color[{mark.glyph}]{{foreground="{getattr(palette, mark.meaning)}"}} {mark.label}'
            for outcome, mark in reversed(MARKS.items())
            if outcome in drawn
        ]
    return "  ".join(["★ the question", *parts]).replace("  ", "\N{EM SPACE}")


def map_rows(drawn: TurnMap, search: Search) -> list[dict[str, Any]]:
    """The figure's numbers: the position of each turn, with its score and outcome."""
    ranked = {one.number: one for one in search.found.some(drawn.numbers)}
    return [
        {
            "Turn": ranked[number].turn,
            "Across": round(float(x), 3),
            "Up": round(float(y), 3),
            "Score": round(ranked[number].score, 2),
            "Outcome": outcome_words(ranked[number], search),
            "Text": " ".join(ranked[number].words.split())[:120],
        }
        for number, (x, y) in zip(drawn.numbers, drawn.points, strict=True)
        if number in ranked
    ]


def map_note(drawn: TurnMap, *, unit: str = TURN) -> str:
    """Note on what the map can and cannot show; `unit`: noun for a stored unit."""
    what = f"Each mark is a stored {unit}, near others of similar meaning; the map has no axes."
    shown = (
        f"This map keeps {100 * drawn.share:.0f} % of the differences between the {plural(unit)}, "
        "so near here is not always near in meaning."
    )
    if len(drawn.numbers) < drawn.stored:
        return (
            f"Showing {tokens(len(drawn.numbers))} of {tokens(drawn.stored)} {stored_plural(unit)}, evenly by age, "
            f"and every candidate. {what} {shown}"
        )
    return f"{what} {shown}"
