"""What vector blocks store as one, as nouns: a message, a turn or a batch. Pure; no Streamlit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_core import Memory
from ui.text import count, plural, tokens

TURN = "turn"
"""Right enough where it is not known, or where blocks differ: every message is of a turn."""


def unit_of(settings: Mapping[str, Any]) -> str:
    """What a vector block with these settings stores as one: `message`, `turn` or `batch`."""
    return str(settings.get("unit", TURN))


def units(memory: Memory) -> dict[str, str]:
    """The same of each vector block of a session, by its name."""
    return {attached.name: unit_of(attached.settings) for attached in memory.blocks if attached.kind == "vector"}


def common(units: Iterable[str]) -> str:
    """The unit of several blocks together."""
    found = set(units)
    return found.pop() if len(found) == 1 else TURN


def stored(n: int, unit: str) -> str:
    """`62 stored messages`, `1 stored turn`, `3 stored batches`."""
    return count(n, f"stored {unit}")


def stored_plural(unit: str) -> str:
    """`stored messages`."""
    return plural(f"stored {unit}")


def from_turn(unit: str, turn: int | str, article: str = "") -> str:
    """One that is from a turn of the conversation: `turn 4`; with an article `a message of turn 4`."""
    number = turn if isinstance(turn, str) else tokens(turn)
    if unit == TURN:
        return f"turn {number}"
    return f"{article} {unit} of turn {number}".lstrip()


def beginning(words: str) -> str:
    """The same at the beginning of a sentence."""
    return words[:1].upper() + words[1:]


def by_score(found: Sequence[tuple[str, float | None]]) -> str:
    """`turn 3, turn 4 (scores not recorded), turn 9 (0.31)`: what was left out of one search, lowest score first.

    Only the best candidates of a search are recorded with their scores, so those without one stand before the rest.
    """
    known = sorted(((name, score) for name, score in found if score is not None), key=lambda each: each[1])
    unknown = [name for name, score in found if score is None]
    scores = "scores" if len(unknown) > 1 else "score"
    told = [f"{', '.join(unknown)} ({scores} not recorded)"] if unknown else []
    return ", ".join([*told, *(f"{name} ({score:.2f})" for name, score in known)])


def score_note(score: float | None) -> str:
    """`score 0.23`, or that it is not known."""
    return "score not recorded" if score is None else f"score {score:.2f}"
