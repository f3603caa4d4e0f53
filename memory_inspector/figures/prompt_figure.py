"""Requested and granted tokens of a prompt's parts, as bars that begin where the bar above ends. Pure."""

import plotly.graph_objects as go

from memory_core.history.prompt import MARKUP, Prompt
from memory_inspector.figures import chart_style
from memory_inspector.palette import PALETTES, Mode, block_colour
from memory_inspector.wording.formatting import count, tokens
from memory_inspector.wording.prompt_text import amount, colour_kind, part_name, sizes

ROW_PIXELS = 34
AROUND_PIXELS = 46
"""Pixels above and below the rows: the limit's label, and margins."""

PLOT_PIXELS = 250
"""Width available to bars and numbers: the figure beside the cuts at 849 px of content, less the names."""

DIGIT_PIXELS, GAP_PIXELS = 7, 12
"""Maximum pixels per character of a number, and the space before and after the number."""

LONGEST_NAME = 18
"""Maximum characters of a part's name beside its bar; the full name is in the hover text and in the table."""


def waterfall(prompt: Prompt, mode: Mode) -> go.Figure:
    """Draw one row per part and a last row for the total; cuts and excess are hatched, the limit is a line."""
    built, palette = prompt.built, PALETTES[mode]
    rows = [(part_name(part), block_colour(colour_kind(part), mode), part.granted, part.asked) for part in prompt.parts]
    if prompt.around_asked:
        rows.append((MARKUP, palette.rest, prompt.around, prompt.around_asked))
    figure = chart_style.blank(mode, ROW_PIXELS * (len(rows) + 1) + AROUND_PIXELS)
    ends, start = [], 0
    for place, (name, colour, granted, asked) in enumerate(rows):
        _bar(figure, place, start, granted, colour, f"{chart_style.shown(name)}: {sizes(granted, asked)}")
        start += granted
        _hatched(
            figure, place, start, asked - granted, mode, f"{chart_style.shown(name)}: cut {tokens(asked - granted)}"
        )
        ends.append(start + max(0, asked - granted))
    last = len(rows)
    # Over the limit, the last row is solid up to the limit and hatched beyond it.
    inside = min(built.total, built.token_limit)
    _bar(figure, last, 0, inside, palette.rest, f"Sent: {tokens(built.total)}")
    _hatched(figure, last, inside, built.over_by, mode, f"Over the limit: {tokens(built.over_by)}")
    _bar(figure, last, built.total, prompt.free, palette.free, f"Free: {tokens(prompt.free)}")
    amounts = [sizes(granted, asked) for *_, granted, asked in rows]
    # With free space, the number of the last row stands behind the free part, at the limit.
    numbers = list(zip([*ends, max(built.total, built.token_limit)], [*amounts, tokens(built.total)], strict=True))
    # The scale leaves room for the number beside every bar, not only for the bars.
    scale = max(built.token_limit, *(_with_room(end, words) for end, words in numbers))
    for place, (end, words) in enumerate(numbers):
        _number(figure, place, end, words, scale, built.token_limit)
    if built.known == "built":  # another program's limit is not known
        _limit(figure, built.token_limit, last, mode)
    names = [*(chart_style.shown(name, LONGEST_NAME) for name, *_ in rows), "<b>Sent</b>"]
    figure.update_xaxes(range=[0, scale], visible=False)
    # Reversed: the first part stands on top.
    figure.update_yaxes(
        range=[last + 0.5, -0.5],
        tickmode="array",
        tickvals=list(range(last + 1)),
        ticktext=[f"{name}\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}" for name in names],
        tickfont={"color": palette.text, "size": 13},
        showline=False,
        automargin=True,
    )
    figure.update_layout(barmode="overlay", bargap=0.36, margin={"l": 8, "r": 4, "t": 24, "b": 4})
    return figure


def describe(prompt: Prompt) -> str:
    """The figure in words, for screen readers. Plain text."""
    parts = ", ".join(f"{part_name(part)} {amount(part)}" for part in prompt.parts)
    built = prompt.built
    if built.known != "built":
        return f"{parts}. Sent {count(built.total, 'token')}."
    end = f"{tokens(built.over_by)} over the limit" if built.over_by else f"{tokens(prompt.free)} free"
    return f"{parts}. Sent {tokens(built.total)} of {tokens(built.token_limit)} tokens, {end}."


def _bar(figure: go.Figure, place: int, start: int, length: int, colour: str, hover: str) -> None:
    if length > 0:
        figure.add_bar(
            x=[length],
            y=[place],
            base=[start],
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            hovertemplate=f"{hover}<extra></extra>",
        )


def _hatched(figure: go.Figure, place: int, start: int, length: int, mode: Mode, hover: str) -> None:
    if length > 0:
        red = PALETTES[mode].cut
        figure.add_bar(
            x=[length],
            y=[place],
            base=[start],
            orientation="h",
            marker={"color": "rgba(0,0,0,0)", "line": {"color": red, "width": 1}, "pattern": chart_style.hatch(mode)},
            hovertemplate=f"{hover}<extra></extra>",
        )


def _with_room(end: float, words: str) -> float:
    """Length of the axis at which a bar that ends at `end` has room for its number beside it."""
    # The number takes a fixed share of the plot, so this solves `end + share * scale = scale`.
    return end / (1 - (DIGIT_PIXELS * len(words) + GAP_PIXELS) / PLOT_PIXELS)


def _number(figure: go.Figure, place: int, end: float, words: str, scale: float, limit: int) -> None:
    """Draw a row's number of tokens to the right of its bar, or of the limit's line if the number would cross it."""
    room = scale * (DIGIT_PIXELS * len(words) + GAP_PIXELS) / PLOT_PIXELS
    beside = limit if end <= limit < end + room and _with_room(limit, words) <= scale else end
    figure.add_annotation(x=beside, y=place, text=words, showarrow=False, xanchor="left", xshift=6, font={"size": 12})


def _limit(figure: go.Figure, limit: int, last: int, mode: Mode) -> None:
    line = PALETTES[mode].line
    figure.add_shape(
        type="line", x0=limit, x1=limit, y0=-0.5, y1=last + 0.5, line={"color": line, "width": 2, "dash": "solid"}
    )
    figure.add_annotation(
        x=limit,
        y=-0.5,
        text=f"limit {tokens(limit)}",
        showarrow=False,
        xanchor="right",
        yanchor="bottom",
        xshift=4,
        font={"size": 12, "color": PALETTES[mode].unknown},
    )
