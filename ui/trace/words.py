"""Texts of the page Where did it go? that only a screen has. Pure."""

from collections.abc import Mapping

from memory_core.tracing.values import Stage, Track, Verdict
from memory_core.tracing.words import KNOWLEDGE, STAGES, VERDICTS

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
            "Stage": STAGES[stage.name],
            "Verdict": VERDICTS[stage.verdict],
            "What happened": stage.text,
            "Turn": stage.turn or None,
            "Known": KNOWLEDGE[stage.knowledge],
        }
        for stage in track.stages
    ]


def title(stage: Stage) -> str:
    """Markdown: a stage's verdict as an icon, and its name."""
    return f":material/{ICONS[stage.verdict]}: **{STAGES[stage.name]}**"
