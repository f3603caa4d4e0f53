"""Texts of the page “Where did it go?” that a printed trace does not have,
and on all that forgetting or quarantine affects. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.planning.context_plan import QUEUE
from memory_core.planning.impact import Affected, Impact
from memory_core.planning.quarantine import QuarantinedSet
from memory_core.text import listed
from memory_core.tracing.values import Stage, Trace, Track, Verdict
from memory_core.tracing.words import KNOWLEDGE, NAME_CHARACTERS, VERDICTS, carrier_name, stage_name
from memory_inspector.wording.formatting import count, plain, short

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


WORDS_SHOWN, TITLE_SHOWN = 160, 40
KINDS = {
    "message": "Message",
    "fact": "Fact",
    "relation": "Relation",
    "entity": "Entity",
    "summary": "Summary",
    "text": "Block text",
    "fields": "Block fields",
    "recording": "Recording",
    "probe": "Test",
    "watched": "Watched phrase",
    "title": "Title",
    "session": "Other session",
}
"""Label of each kind of affected item."""
MATCHES = {
    "verbatim": "Says it word for word",
    "reworded": "Says it in other words",
    "part": "Has it within a longer word",
}
"""Label of each way to say a phrase."""


def impact_rows(impact: Impact) -> list[dict[str, Any]]:
    """Return a table row per affected item, all ticked, with its session if there are several. Texts are plain."""
    titles = {other.session: short(other.title, TITLE_SHOWN) for other in impact.others}
    return [
        {
            "Include": True,
            "What": KINDS[row.kind],
            "Why": MATCHES[row.match] if row.match and row.why == "says it" else row.why.capitalize(),
            "Turn": row.turn,
            **({"Session": titles.get(row.session, "this one")} if titles else {}),
            "Text": short(row.words, WORDS_SHOWN),
        }
        for row in impact.erased
    ]


def set_name(one: QuarantinedSet, rows: Sequence[Affected]) -> str:
    """Return the name of a set in quarantine: `Set 2, turn 14: 1 message, 2 facts`."""
    numbers = Counter(row.kind for row in rows)
    held = [count(number, KINDS[kind].lower()) for kind, number in numbers.items()]
    return f"Set {one.number:,}, turn {one.turn:,}: {', '.join(held) or 'erased since'}"


def set_line(row: Affected) -> str:
    """Return an item of a set in one line: `Fact: The user lives in Tucson`."""
    return f"{KINDS[row.kind]}: {short(row.words, WORDS_SHOWN)}"


def beside(impact: Impact) -> str:
    """Describe what else forgetting changes: `Also erased: 2 stored turns. ...`"""
    also = [count(impact.stored_units, "stored turn")] if impact.stored_units else []
    also += [f"the words in {count(impact.prompts, 'recorded prompt')}"] if impact.prompts else []
    parts = [f"Also erased: {listed(also)}."] if also else []
    return " ".join([*parts, "Texts and summaries lose the sentences that say it. This cannot be undone."])
