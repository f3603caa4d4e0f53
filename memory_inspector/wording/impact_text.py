"""Texts on everything that forgetting or quarantine affects."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from memory_core.planning.impact import Affected, Impact
from memory_core.planning.quarantine import QuarantinedSet
from memory_core.text import listed
from memory_inspector.wording.formatting import count, short

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
