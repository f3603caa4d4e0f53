"""Terms of a stored unit's score in addition to the match of its own words. Pure.

An answer seldom repeats the words of its question. The message before it often does, and its episode has the same
subject, so a unit gets part of the match of its neighbours and of its episode. Speaker and date are compared with the
question; informativeness and length measure the unit's worth per token.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError
from memory_core.planning.speakers import ParsedQuestion, agreement

EPISODE_GAP_HOURS = 3.0
"""Pause after which a conversation counts as resumed in a new episode."""

NEIGHBOURS = 2
"""Number of units on either side whose match adds to a unit's score."""

_STEPS = tuple(step for step in range(-NEIGHBOURS, NEIGHBOURS + 1) if step)

BEST_OF_EPISODE = 3
"""Number of best-matching units averaged to give an episode's match; if it has fewer, the missing ones count as 0."""

PERSON = 0.4
"""Speaker signal of a person's message if the question does not name that person; for an assistant's it is 0."""

LONG = 100
"""Tokens above which each doubling costs the `length` weight once and halves what the unit adds to its neighbours."""

TALKATIVE = 3.5
"""Value of ln(1 + distinct stems), reached at 32 stems, above which more stems add nothing to the informativeness."""

UNWRITTEN = -1
"""Stand-in for no time among the hashes of times; no text has this hash."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|we|our|us)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a stored unit that do not depend on a question."""

    number: int
    episode: int
    speakers: frozenset[str]
    """Names (in lower case) or roles of the speakers."""
    person: bool
    """True if any speaker is a user, or an assistant with a name."""
    time: float | None
    """Time of the message in seconds since 1970; None if unknown."""
    informativeness: float
    """Informativeness of the text, 0 to 1 (see `informativeness`)."""
    tokens: int


@dataclass(frozen=True, slots=True)
class BoostWeights:
    """Weight of each boost in the score; 0 switches it off.

    The defaults were found on half of the LoCoMo conversations, BEAM's and our own paraphrases together
    (`benchmarks/recall.py`), and rounded; small changes of them hardly change the results.
    """

    neighbours: float = 0.15
    """Weight of each neighbour's match."""
    episode: float = 0.4
    """Weight of the mean match of the episode's best units."""
    speaker: float = 0.25
    date: float = 0.1
    informativeness: float = 0.15
    length: float = 0.08
    """Score subtracted for each doubling of the length beyond `LONG` tokens."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(f"the weight of a boost must not be negative: {field.name}={value}")

    @property
    def any(self) -> bool:
        """True if any boost is switched on."""
        return any(getattr(self, field.name) > 0 for field in fields(self))


BOOSTS = tuple(field.name for field in fields(BoostWeights))
"""Names of the boosts, in the order in which events and candidates list them."""


def boosts(
    matches: Mapping[int, float],
    traits: Mapping[int, Traits],
    places: Mapping[int, int],
    asked: ParsedQuestion,
    weights: BoostWeights,
) -> dict[int, tuple[float, ...]]:
    """Return what each boost adds to the score of each candidate, by number, in the order of `BOOSTS`.

    `matches` holds the match of each candidate, 0 to 1, and `places` the position of each unit in the conversation.
    Only candidates add to the scores of their neighbours.
    """
    by_place = sorted((places[number], number) for number in matches)
    lends: dict[int, tuple[int, float]] = {}
    best: dict[int, list[float]] = {}
    for place, number in by_place:
        one, match = traits[number], matches[number]
        # A long text is about many things: it lends less.
        lends[place] = one.episode, match * min(1.0, LONG / max(one.tokens, 1))
        best.setdefault(one.episode, []).append(match)
    # Always over the full number: one good unit says less about its episode than several.
    means = {key: sum(sorted(several)[-BEST_OF_EPISODE:]) / BEST_OF_EPISODE for key, several in best.items()}
    result: dict[int, tuple[float, ...]] = {}
    for place, number in by_place:
        trait = traits[number]
        lent = 0.0
        for step in _STEPS:
            # Nothing is lent across the edge of an episode, where the subject changes.
            other = lends.get(place + step)
            if other is not None and other[0] == trait.episode:
                lent += other[1]
        long = math.log2(trait.tokens / LONG) if trait.tokens > LONG else 0.0
        result[number] = (
            weights.neighbours * lent,
            weights.episode * means[trait.episode],
            weights.speaker * _spoken(trait, asked),
            weights.date * agreement(asked.days, trait.time) if asked.days else 0.0,
            weights.informativeness * trait.informativeness,
            -weights.length * long,
        )
    return result


def informativeness(words: str, stems: Sequence[str]) -> float:
    """Rate a text by itself, 0 to 1: more for different words, for a speaker's first person, and for few questions."""
    sentences = [sentence for sentence in _SENTENCE.split(words) if sentence.strip()]
    questions = [sentence for sentence in sentences if sentence.rstrip().endswith(("?", "？"))]
    asking = len(questions) / max(1, len(sentences))
    varied = min(math.log1p(len(set(stems))), TALKATIVE) / TALKATIVE
    first_person = 1.0 if _FIRST_PERSON.search(words) else 0.0
    return 0.55 * varied + 0.27 * first_person + 0.18 * (1 - asking)


def begins_anew(
    written: NDArray[np.int64], times: NDArray[np.float64], stored: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Return whether each unit begins a new episode, in the order of the conversation; the first continues one.

    `written` tells the times apart as they are written, or is `UNWRITTEN`; `times` are the same in seconds, or NaN;
    `stored` are the seconds at which the units were stored. A unit without a time belongs to the episode before it,
    unless it was stored more than `EPISODE_GAP_HOURS` later.
    """
    gap = EPISODE_GAP_HOURS * 3600
    # With both times known, the pause between them decides; it may also go back in time, as in an import.
    pauses = np.diff(times, prepend=times[:1])
    # A time that cannot be read, such as "Session 2", still begins an episode where it changes.
    changed = (np.diff(written, prepend=written[:1]) != 0) & (written != UNWRITTEN)
    # Otherwise only the times of storing are left.
    later = np.diff(stored, prepend=stored[:1]) > gap
    return np.where(np.isnan(pauses), changed | later, np.abs(pauses) > gap)


def _spoken(traits: Traits, asked: ParsedQuestion) -> float:
    if asked.speaker is not None and asked.speaker in traits.speakers:
        return 1.0
    return PERSON if traits.person else 0.0
