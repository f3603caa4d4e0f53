"""The token budget as two lanes on one scale, and the small table beneath it. Pure: values in, HTML out.

Lane 1 shows the tokens sent against the limit, with the cut tokens hatched behind them. Lane 2 shows the queue against
the flush line, which applies to the queue alone. The HTML contains only numbers and escaped names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from itertools import pairwise
from typing import Literal

from memory_core import Status
from memory_core.events import ContextBuilt
from memory_core.history.prompt import MARKUP
from memory_core.planning.context_plan import RESERVED_LABEL
from memory_inspector.palette import PALETTES, Appearance, Palette, block_colour, ink_on
from memory_inspector.wording.formatting import count, short, tokens
from memory_inspector.wording.terms import marked_html, term

NARROWEST = 300
"""Width, in pixels, at which the lanes must be readable: a 42 % column at 849 px of content, less the padding."""

NAME_PIXELS, MARK_PIXELS = 7.1, 6.2
"""Maximum average pixels per character of a lane's name and of its mark's label, in 12 px Inter (Chromium)."""

LEGEND_COLUMNS = ("35%", "28%", "37%")
"""Column widths of the table: name, tokens, note. At `NARROWEST` they hold "279 of 335" and "flushes above 2,800"."""

SENT_PIXELS = 26
QUEUE_PIXELS = 14


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the prompt: the queue, or a block."""

    label: str
    """Name as the user typed it, unescaped; it is escaped when drawn."""
    kind: str
    """Kind of block, from `memory_inspector.palette.BLOCK_KINDS`; any other is drawn as custom."""
    tokens: int
    """Tokens granted: what is in the prompt."""
    priority: int | None
    """Priority of the block; blocks with 0 are never cut. None for the queue."""
    asked: int
    """Tokens requested; more than `tokens` if the part was cut."""
    note: str = ""
    """Note shown in the table; empty: a note derived from the numbers is shown."""

    @property
    def cut(self) -> int:
        """Tokens requested and not granted."""
        return max(0, self.asked - self.tokens)


@dataclass(frozen=True, slots=True)
class Lanes:
    """The budget of one prompt and of the queue as it is now. All numbers are tokens."""

    limit: int
    flush_line: int
    """Size of the queue above which it is flushed."""
    sent: tuple[Segment, ...]
    """Parts of the prompt in the order of configuration; `in_order` gives the order of drawing."""
    free: int
    queue_now: int
    cut: int
    """Tokens requested for this prompt and left out of it."""
    cut_first: Literal["largest", "smallest"] = "largest"
    """Priority numbers that are cut first: the largest or the smallest (`truncation_order`)."""
    queue_name: str = "Queue now"
    """Name of the second lane; for an earlier turn, `Queue then`."""
    sent_name: str = "Sent"
    """Name of the first lane; `Last sent` in a turn that has no prompt yet."""

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError(f"must be at least 1: {self.limit=}")
        if self.flush_line < 0 or self.free < 0 or self.queue_now < 0 or self.cut < 0:
            raise ValueError(f"must not be negative: {self.flush_line=}, {self.free=}, {self.queue_now=}, {self.cut=}")

    @property
    def total(self) -> int:
        """Tokens sent."""
        return sum(segment.tokens for segment in self.sent)

    @property
    def over(self) -> int:
        """Tokens sent above the limit."""
        return max(0, self.total - self.limit)

    @property
    def scale(self) -> int:
        """Tokens across the full width of both lanes."""
        return max(self.limit, self.total + self.cut, self.queue_now, self.flush_line)


def lanes_of(status: Status, built: ContextBuilt | None, kinds: Mapping[str, str]) -> Lanes:
    """The lanes of the last prompt and of the queue now; before any prompt, of the queue alone."""
    # The limit of the prompt that is drawn, which may be another one now.
    limit = built.token_limit if built else status.token_limit
    flushes = f"flushes above {tokens(int(status.history_budget))}"
    # 1. The queue comes first, and is drawn before there is any prompt.
    segments = [
        Segment(
            label="Queue",
            kind="queue",
            tokens=built.queue_tokens if built else 0,
            priority=None,
            asked=built.queue_asked if built else 0,
            note="" if built and built.queue_asked > built.queue_tokens else flushes,
        )
    ]
    # 2. System messages are in every prompt, and belong neither to the queue nor to a block.
    if built and built.pinned_tokens:
        pinned = built.pinned_tokens
        segments.append(Segment("System messages", "custom", pinned, 0, pinned, note="pinned, never cut"))
    if built and built.reserved_tokens:
        beside = built.reserved_tokens
        segments.append(Segment(RESERVED_LABEL, "custom", beside, 0, beside, note="the agent's, never cut"))
    # 3. The blocks; one whose kind is not known here has the colour of custom blocks.
    for part in built.parts if built else ():
        segments.append(
            Segment(
                label=str(part["name"]),
                kind=kinds.get(str(part["name"]), "custom"),
                tokens=int(part["granted"]),
                priority=int(part["priority"]),
                asked=int(part["asked"]),
            )
        )
    # 4. Markup, where it counts, belongs to no part: without it the table would not add up to the prompt.
    around = built.asked - sum(segment.asked for segment in segments) if built else 0
    if built and around > 0:
        granted = built.total - sum(segment.tokens for segment in segments)
        segments.append(Segment(MARKUP, "custom", granted, 0, around, note="around the blocks"))
    smallest = built is not None and built.truncation_order == "smallest_first"
    return Lanes(
        limit=limit,
        flush_line=int(status.history_budget),
        sent=tuple(segments),
        free=max(0, limit - (built.total if built else 0)),
        queue_now=status.queue_tokens,
        cut=sum(int(cut["tokens"]) for cut in built.cuts) if built else 0,
        cut_first="smallest" if smallest else "largest",
    )


def queue_sentence(status: Status, *, leaving: bool = False) -> str:
    """Tokens until the next flush, in words; markdown without quoted words. The queue's size stands above it.

    `leaving`: the moment before a flush."""
    line = int(status.history_budget)
    over = status.queue_tokens - line
    if over > 0:
        then = "its oldest messages leave now" if leaving else "the next message flushes it"
        ending = f"{tokens(over)} above the flush line: {then}."
    else:
        ending = f"**{tokens(status.to_next_flush)} to the next flush.**"
    moving = ""
    if status.in_transit_messages:
        moving = f" {count(status.in_transit_messages, 'message')} in transit to the blocks."
    return f"{ending}{moving}"


def in_order(lanes: Lanes) -> tuple[Segment, ...]:
    """The queue, then blocks from "never cut" to "cut first"; of equal priority, the first configured goes first."""
    queue = [segment for segment in lanes.sent if segment.kind == "queue"]
    never = [segment for segment in lanes.sent if segment.kind != "queue" and not segment.priority]
    # Reversed: the sort is stable, and of equal priority the first configured block is cut first, so it is last.
    rest = [segment for segment in reversed(lanes.sent) if segment.kind != "queue" and segment.priority]
    sign = 1 if lanes.cut_first == "largest" else -1
    return (*queue, *never, *sorted(rest, key=lambda segment: sign * (segment.priority or 0)))


@dataclass(frozen=True, slots=True)
class Motion:
    """Animation from the previous lanes to the new ones, shown once when these are drawn."""

    before: Lanes
    peak: int = 0
    """Maximum tokens in the queue between the previous and the new lanes, before a flush; 0 without a flush."""


def lanes_html(lanes: Lanes, mode: Appearance, motion: Motion | None = None, *, queue: bool = True) -> str:
    """The two lanes as one block of HTML with inline styles, full width, 90 px high; the first alone without `queue`.

    The animations are defined in static/app.css; the markup itself is their final state.
    """
    palette = PALETTES[mode]
    drawn = _lane(
        _sent_boxes(lanes, mode, motion),
        name=f"{lanes.sent_name} {tokens(lanes.total)}",
        mark=f"limit {tokens(lanes.limit)}",
        at=Fraction(lanes.limit, lanes.scale),
        line="solid",
        height=SENT_PIXELS,
        palette=palette,
    )
    if queue:
        drawn += _lane(
            _queue_boxes(lanes, mode, motion),
            name=f"{lanes.queue_name} {tokens(lanes.queue_now)}",
            mark=f"flush above {tokens(lanes.flush_line)}",
            at=Fraction(lanes.flush_line, lanes.scale),
            line="dashed",
            height=QUEUE_PIXELS,
            palette=palette,
        )
    style = (
        f"display:flex;flex-direction:column;gap:10px;width:100%;"
        f"color:{palette.text};font-size:12px;line-height:18px;font-variant-numeric:tabular-nums"
    )
    return f'<div role="img" aria-label="{escape(describe(lanes, queue=queue))}" style="{style}">{drawn}</div>'


def describe(lanes: Lanes, *, queue: bool = True) -> str:
    """The lanes in words, for screen readers."""
    parts = ", ".join(f"{short(segment.label)} {amount(segment)}" for segment in in_order(lanes))
    sent = f"Sent {tokens(lanes.total)} of {tokens(lanes.limit)} tokens"
    ends = [f"{tokens(lanes.over)} over the limit" if lanes.over else f"{tokens(lanes.free)} free"]
    if lanes.cut:
        ends.append(f"{tokens(lanes.cut)} cut")
    of_queue = f" {lanes.queue_name} {tokens(lanes.queue_now)}, flushed above {tokens(lanes.flush_line)}."
    return f"{sent}: {parts}; {', '.join(ends)}.{of_queue if queue else ''}"


def legend_html(lanes: Lanes, mode: Appearance) -> str:
    """Return a table with a row per part: colour, name, tokens, note. Full width, columns of fixed proportions.

    Custom HTML, because Streamlit's table loads pandas and pyarrow, which delays the first page by 0.7 s.
    """
    palette = PALETTES[mode]
    smallest = lanes.cut_first == "smallest"
    rows = "".join(_legend_row(segment, palette, mode, smallest) for segment in in_order(lanes))
    widths = "".join(f'<col style="width:{width}">' for width in LEGEND_COLUMNS)
    style = (
        "table-layout:fixed;width:100%;border-collapse:collapse;margin:0;"
        f"color:{palette.text};font-size:13px;line-height:18px;font-variant-numeric:tabular-nums"
    )
    return (
        f'<table aria-label="Tokens by part" style="{style}"><colgroup>{widths}</colgroup><tbody>{rows}</tbody></table>'
    )


def _legend_row(segment: Segment, palette: Palette, mode: Appearance, smallest_first: bool) -> str:
    cell = "border:0;padding:4px 0;text-align:left;vertical-align:top"
    name = "overflow:hidden;white-space:nowrap;text-overflow:ellipsis;padding-right:8px;font-weight:400"
    note = f"color:{palette.unknown};font-size:12px"
    lost = segment.cut and not segment.note
    cut = f', <span style="color:{palette.cut};white-space:nowrap">{term("cut", "cut")} {tokens(segment.cut)}</span>'
    why = marked_html(note_of(segment), smallest_first=smallest_first)
    label = escape(short(segment.label))
    if segment.kind == "queue" or not segment.note:  # system messages are neither queue nor block
        label = term("queue" if segment.kind == "queue" else "block", label, whole=segment.label)
    return (
        f'<tr><th scope="row" title="{escape(segment.label)}" style="{cell};{name}">'
        f'<span aria-hidden="true" style="color:{block_colour(segment.kind, mode)}">■</span> {label}</th>'
        f'<td style="{cell}">{amount(segment)}</td>'
        f'<td style="{cell};{note}">{why}{cut if lost else ""}</td></tr>'
    )


def amount(segment: Segment) -> str:
    return tokens(segment.tokens) + (f" of {tokens(segment.asked)}" if segment.cut else "")


def note_of(segment: Segment) -> str:
    return segment.note or _rule(segment)


def _rule(segment: Segment) -> str:
    """Describe how the segment is cut, or that it never is."""
    if segment.kind == "queue":
        return "oldest left out" if segment.cut else "flushed, not cut"
    return f"priority {segment.priority}" if segment.priority else "never cut"


def _places(lanes: Lanes) -> dict[str, tuple[Fraction, Fraction]]:
    """Start and length of each part of the first lane, as fractions of the lane's width."""
    places, start = {}, 0
    for segment in in_order(lanes):
        places[segment.label] = Fraction(start, lanes.scale), Fraction(segment.tokens, lanes.scale)
        start += segment.tokens
    return places


def _sent_boxes(lanes: Lanes, mode: Appearance, motion: Motion | None) -> str:
    """Boxes for the free space up to the limit and for the parts; hatched ones for tokens cut or over the limit."""
    palette, scale = PALETTES[mode], lanes.scale
    drawn = [segment for segment in in_order(lanes) if segment.tokens]
    boxes, start = [], 0
    places, before = _places(lanes), _places(motion.before) if motion else {}
    # Drawn first, so that the hatching of what was cut lies on top of it.
    unused = max(0, lanes.limit - lanes.total)
    boxes.append(_box(lanes.total, unused, scale, f"background:{palette.free}"))
    for segment, gap in zip(drawn, _gaps(drawn), strict=True):
        # A part that was not in the previous prompt grows out of the end of the row.
        was, now = before.get(segment.label, (Fraction(lanes.total, scale), Fraction(0))), places[segment.label]
        moves = f";animation:lane-move .7s;--was-left:{_percent(was[0])};--was-width:{_percent(was[1])}"
        boxes.append(_segment_box(segment, start, scale, gap, mode, moves if motion and was != now else ""))
        start += segment.tokens
    # What was cut was never sent, so it stands behind the last part; what exceeds the limit lies on top of the parts.
    cut, over = f"Cut: {count(lanes.cut, 'token')}", f"Over the limit: {count(lanes.over, 'token')}"
    boxes.append(_box(lanes.total, lanes.cut, scale, _hatch(palette), title=cut))
    boxes.append(_box(lanes.limit, lanes.over, scale, _hatch(palette), title=over))
    return "".join(boxes)


def _gaps(drawn: Sequence[Segment]) -> list[int]:
    """Pixels left free after each segment: 2 between two blocks of one kind, which share a colour, otherwise 1."""
    return [2 if before.kind == after.kind else 1 for before, after in pairwise(drawn)] + [1] * bool(drawn)


def _queue_boxes(lanes: Lanes, mode: Appearance, motion: Motion | None) -> str:
    palette, moves = PALETTES[mode], ""
    if motion is not None:
        was = _percent(Fraction(motion.before.queue_now, motion.before.scale))
        # The scale covers the queue after its flush; the peak before the flush may exceed it.
        peak = _percent(min(Fraction(1), Fraction(motion.peak, lanes.scale)))
        way = f"animation:lane-over 1.6s;--peak-width:{peak}" if motion.peak else "animation:lane-move .7s"
        moves = f";{way};--was-left:0%;--was-width:{was}"
    track = _box(0, lanes.flush_line, lanes.scale, f"background:{palette.free}")
    title = f"{lanes.queue_name}: {count(lanes.queue_now, 'token')}"
    return track + _box(0, lanes.queue_now, lanes.scale, f"background:{palette.queue}{moves}", title=title)


def _segment_box(segment: Segment, start: int, scale: int, gap: int, mode: Appearance, moves: str) -> str:
    background = block_colour(segment.kind, mode)
    title = f"{segment.label}: {amount(segment)} tokens, {_rule(segment)}"
    # A name that does not fit wraps below the box, out of sight, as the empty first item holds the first line.
    name = (
        f'<span style="width:0;height:{SENT_PIXELS}px"></span>'
        f'<span style="padding:0 6px;white-space:nowrap;line-height:{SENT_PIXELS}px;font-weight:500">'
        f"{escape(short(segment.label))}</span>"
    )
    style = f"background:{background};color:{ink_on(background)}{moves}"
    return _box(start, segment.tokens, scale, style, gap=gap, title=title, inside=name)


def _box(start: int, length: int, scale: int, style: str, *, gap: int = 0, title: str = "", inside: str = "") -> str:
    """A box from `start`, `length` tokens long, its last `gap` pixels left free; empty if it has no length.

    A lane's first box has a round end.
    """
    if not length:
        return ""
    from_left, width = _percent(Fraction(start, scale)), _percent(Fraction(length, scale))
    wide = f"calc({width} - {gap}px)" if gap else width
    place = f"position:absolute;top:0;bottom:0;left:{from_left};width:{wide};min-width:1px;box-sizing:border-box"
    end = "" if start else "border-radius:4px 0 0 4px;"
    hint = f' title="{escape(title)}"' if title else ""
    return f'<div{hint} style="{place};display:flex;flex-wrap:wrap;overflow:hidden;{end}{style}">{inside}</div>'


def _hatch(palette: Palette) -> str:
    red = palette.cut
    # Between the stripes, the part beneath remains visible.
    stripes = f"repeating-linear-gradient(135deg,{red} 0 2px,color-mix(in srgb,{red} 18%,transparent) 2px 6px)"
    return f"background:{stripes};border:1px solid {red};border-radius:0 4px 4px 0"


def _lane(
    boxes: str,
    *,
    name: str,
    mark: str,
    at: Fraction,
    line: Literal["solid", "dashed"],
    height: int,
    palette: Palette,
) -> str:
    """Return a lane as HTML: name above the left end, boxes, and a line at `at` (0 to 1) with `mark` beside it."""
    # The width of the card is unknown here: what fits at the narrowest fits at any width.
    name_ends, mark_width = NAME_PIXELS * len(name) + 8, MARK_PIXELS * len(mark) + 8
    line_at = NARROWEST * at
    up = 16 if line_at >= name_ends else 2  # the line extends up beside its label, but not through the lane's name
    if line_at >= name_ends + mark_width:
        # Left of the line if the lane's name leaves room, else right of it, else at the end of the lane.
        beside = f"right:calc({_percent(1 - at)} + 6px)"
    elif line_at + mark_width <= NARROWEST:
        beside = f"left:max({_percent(at)} + 6px, {name_ends:.0f}px)"
    else:
        beside, up = "right:0", 2
    halo = f"box-shadow:0 0 0 1px {palette.page};" if line == "solid" else ""
    return (
        '<div><div style="position:relative;height:18px;margin-bottom:2px;white-space:nowrap">'
        f'<span style="font-weight:500">{name}</span>'
        f'<span style="position:absolute;{beside};color:{palette.unknown}">{mark}</span></div>'
        f'<div style="position:relative;height:{height}px">{boxes}'
        f'<div style="position:absolute;top:-{up}px;bottom:-2px;left:calc({_percent(at)} - 1px);'
        f'{halo}border-left:2px {line} {palette.line}"></div></div></div>'
    )


def _percent(share: Fraction | int) -> str:
    return f"{float(100 * share):.3f}%"
