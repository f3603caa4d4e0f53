"""Texts of the page “Where did it go?” that a printed trace does not have. Pure."""

import re
from collections.abc import Mapping

from memory_core.planning.context_plan import QUEUE
from memory_core.tracing.values import Stage, Trace, Track, Verdict
from memory_core.tracing.words import KNOWLEDGE, NAME_CHARACTERS, VERDICTS, carrier_name, stage_name
from memory_inspector.wording.formatting import plain, short

QUOTED = 160
"""Maximum characters quoted of the followed text."""

_MARKUP = re.compile(r"[*`]+|^#+ ", re.MULTILINE)
"""Markdown that a quotation leaves out."""

ICONS: Mapping[Verdict, str] = {
    "passed": "check_circle",
    "lost": "cancel",
    "waiting": "hourglass_empty",
    "not_reached": "remove",
    "unknown": "help",
}


def rows(track: Track) -> list[dict[str, object]]:
    """Every stage of a track as a row of a table."""
    return [
        {
            "Stage": stage_name(stage),
            "Verdict": VERDICTS[stage.verdict],
            "What happened": stage.text,
            "Turn": stage.turn or None,
            "Known": KNOWLEDGE[stage.knowledge],
        }
        for stage in track.stages
    ]


def title(stage: Stage) -> str:
    """Markdown: a stage's verdict as an icon, and its name."""
    return f":material/{ICONS[stage.verdict]}: **{stage_name(stage)}**"


def target_name(trace: Trace) -> str:
    """Name the picked target: `Fact 7 of Facts`, `A cut of Earlier turns`."""
    if trace.cut is not None:
        return "A cut of the queue" if trace.cut.part == QUEUE else f"A cut of {short(trace.cut.part, NAME_CHARACTERS)}"
    first = trace.tracks[0].carrier if trace.tracks else None
    picked = next((track.carrier for track in trace.tracks if track.carrier.ref == trace.target), first)
    return carrier_name(picked) if picked is not None else "it"


def quoted(trace: Trace, word: str | None = None) -> str:
    """Return the followed text in quotes as markdown, with the clicked word marked; empty for a cut."""
    # A cut is followed as a whole and has no words of its own.
    if trace.cut is not None:
        return ""
    words = short(" ".join(_MARKUP.sub("", trace.asked).split()), QUOTED)
    place = _place(words, word) if word else None
    if place is None:
        return f":gray[“{plain(words)}”]"
    parts = (words[: place.start()], words[place.end() :])
    before, after = (f":gray[{plain(part)}]" if part.strip() else "" for part in (f"“{parts[0]}", f"{parts[1]}”"))
    # `plain` drops blanks at the ends, so those beside the marked word are put back.
    gaps = [" " * parts[0].endswith(" "), " " * parts[1].startswith(" ")]
    return f"{before}{gaps[0]}:blue-background[{plain(place.group())}]{gaps[1]}{after}"


def says(trace: Trace, word: str) -> bool:
    """Tell whether a word is part of the followed text."""
    return _place(trace.asked, word) is not None


def _place(words: str, word: str) -> re.Match[str] | None:
    # A whole word first; scripts without spaces have no word boundaries, so then the characters themselves.
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", words) or re.search(re.escape(word), words)
