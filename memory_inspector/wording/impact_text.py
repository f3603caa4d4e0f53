"""Words on what forgetting a phrase would erase."""

from collections.abc import Sequence
from typing import Any

from memory_core.planning.impact import Affected, Impact
from memory_inspector.wording.formatting import count, short

WORDS_SHOWN = 160
KINDS = {
    "message": "Message",
    "fact": "Fact",
    "relation": "Relation",
    "entity": "Entity",
    "summary": "Summary",
    "text": "Block text",
    "fields": "Block fields",
    "recording": "Recording",
    "probe": "Probe",
    "watched": "Watched phrase",
    "title": "Title",
    "session": "Other session",
}
"""Names of the kinds of rows, as they stand in the table."""


def impact_rows(rows: Sequence[Affected]) -> list[dict[str, Any]]:
    """Rows of the table, all ticked. Texts are plain cells."""
    return [
        {
            "Forget": True,
            "What": KINDS[row.kind],
            "Why": row.why.capitalize(),
            "Turn": row.turn,
            "Text": short(row.words, WORDS_SHOWN),
        }
        for row in rows
    ]


def beside(impact: Impact) -> str:
    """`2 stored units go with their messages. 3 recorded prompts show the words as erased then.`"""
    parts = []
    if impact.stored_units:
        goes = "goes" if impact.stored_units == 1 else "go"
        parts.append(f"{count(impact.stored_units, 'stored unit')} {goes} with the messages.")
    if impact.prompts:
        shows = "shows" if impact.prompts == 1 else "show"
        parts.append(f"{count(impact.prompts, 'recorded prompt')} {shows} the words as erased then.")
    return " ".join([*parts, "Texts and summaries lose the sentences that say it. This cannot be undone."])
