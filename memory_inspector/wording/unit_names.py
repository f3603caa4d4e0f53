"""Nouns for the units that vector blocks store: a message, a turn or a batch. Pure; no Streamlit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_core import Memory
from memory_inspector.wording.formatting import count, plural, tokens

TURN = "turn"
"""Noun used if the stored unit is unknown, or differs between blocks: every message belongs to a turn."""


def unit_of(settings: Mapping[str, Any]) -> str:
    """Noun for the stored units of a vector block with these settings: `message`, `turn` or `batch`."""
    return str(settings.get("unit", TURN))


def units(memory: Memory) -> dict[str, str]:
    """Noun for the stored units of each vector block of a session, by the block's name."""
    return {attached.name: unit_of(attached.settings) for attached in memory.blocks if attached.kind == "vector"}


def common(units: Iterable[str]) -> str:
    """Noun for the stored units of several blocks; `turn` if they differ."""
    names = set(units)
    return names.pop() if len(names) == 1 else TURN


def stored(n: int, unit: str) -> str:
    """A count of stored units: `62 stored messages`, `1 stored turn`, `3 stored batches`."""
    return count(n, f"stored {unit}")


def stored_plural(unit: str) -> str:
    """Plural of a stored unit: `stored messages`."""
    return plural(f"stored {unit}")


def from_turn(unit: str, turn: int | str, article: str = "") -> str:
    """Name a stored unit by its turn: `turn 4`, or `message of turn 4` for other units; these take the `article`:
    `a message of turn 4`."""
    number = turn if isinstance(turn, str) else tokens(turn)
    if unit == TURN:
        return f"turn {number}"
    return f"{article} {unit} of turn {number}".lstrip()


def by_score(scored: Sequence[tuple[str, float | None]]) -> str:
    """Units cut from one search, lowest score first: `turn 3, turn 4 (scores not recorded), turn 9 (0.31)`.

    Only the best candidates of a search are recorded with their scores, so those without one come first.
    """
    ranked = sorted(((name, score) for name, score in scored if score is not None), key=lambda pair: pair[1])
    # The names keep the order they came in: without scores, there is no other.
    unknown = [name for name, score in scored if score is None]
    scores = "scores" if len(unknown) > 1 else "score"
    parts = [f"{', '.join(unknown)} ({scores} not recorded)"] if unknown else []
    return ", ".join([*parts, *(f"{name} ({score:.2f})" for name, score in ranked)])


def score_note(score: float | None) -> str:
    """The score in words: `score 0.23`, or that it was not recorded."""
    return "score not recorded" if score is None else f"score {score:.2f}"
