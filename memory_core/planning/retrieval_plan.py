"""Decide which of the messages found by search are granted a place in the context.

Pure: scores of each search go in, a frozen plan comes out. Elsewhere: searching (`vectors/`), the text of granted
messages, and the token limit (`context_plan.py`).

Boosts are terms of a unit's score beside the match of its own words. An answer seldom repeats the words of its
question. The message before it often does, and its episode has the same subject, so a unit gets part of the match of
its neighbours and of its episode. Speaker and date are compared with the question; informativeness and length measure
the unit's worth per token.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal, TypeVar, get_args

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
        for weight in fields(self):
            value = getattr(self, weight.name)
            if not math.isfinite(value) or value < 0:
                raise ConfigError(f"the weight of a boost must not be negative: {weight.name}={value}")

    @property
    def any(self) -> bool:
        """True if any boost is switched on."""
        return any(getattr(self, weight.name) > 0 for weight in fields(self))


BOOSTS = tuple(weight.name for weight in fields(BoostWeights))
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


GateOutcome = Literal[
    "granted", "quarantined", "below_threshold", "in_queue", "replaced", "repeated", "beyond_top_k", "postprocessed",
    "no_room",
]  # fmt: skip
"""Outcome of a candidate: `granted`, or the gate that stopped it; gates are in the order in which they apply.

`quarantined`: a person keeps one of its messages out of all prompts; `replaced`: it says a former value, and the block
leaves these out; `repeated`: the question or another candidate has its text; `no_room`: it does not fit beside better
ones.
"""

NO_PLACE: frozenset[GateOutcome] = frozenset({"quarantined", "in_queue", "replaced", "repeated"})
"""Outcomes that do not count against `top_k`, whatever the score."""

Signal = TypeVar("Signal", float, NDArray[np.float64])
"""Signals of one message, or arrays for many."""

Head = tuple[int, str]
"""Key of a date line shared by several units: episode and day."""

MIN_SHARE = 10
"""A block that asks for as many tokens as fit may always ask for at least `token_limit // MIN_SHARE`."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Search scores of one message."""

    number: int
    vector: float | None
    """Cosine similarity, -1 to 1; None if vector search did not find the message, or is switched off."""
    keyword: float | None
    """Keyword score, 0 to 1; None if keyword search did not find the message, or is switched off."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Message found by search, with its outcome."""

    number: int
    vector: float | None
    keyword: float | None
    score: float
    """Sum of the match (0 to 1) and the boosts; larger is better."""
    outcome: GateOutcome
    boosts: tuple[float, ...] = ()
    """Contribution of each of `boosts.BOOSTS` to the score; empty where none is switched on."""


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    """All messages found, each listed once, with their outcome."""

    candidates: tuple[Candidate, ...]
    """Best first; of equal scores, the smaller (older) number first. After postprocessing, granted ones come first."""
    gates: dict[GateOutcome, int]
    """Number of candidates for each outcome; includes zeros."""

    @property
    def granted(self) -> tuple[int, ...]:
        """Numbers of the granted candidates, best first."""
        return tuple(candidate.number for candidate in self.candidates if candidate.outcome == "granted")


@dataclass(frozen=True, slots=True)
class Repeats:
    """Candidates that are left out because the prompt or another candidate has their text."""

    repeated: frozenset[int] = frozenset()
    takes_place_of: Mapping[int, Collection[int]] = field(default_factory=dict)
    """Others that a candidate is shown for, such as earlier copies of the question that it answers."""


def plan_retrieval(
    signals: Sequence[Signals],
    *,
    top_k: int | None,
    threshold: float | None,
    in_queue: Collection[int],
    vector_weight: float,
    keyword_weight: float,
    replaced: Collection[int] = (),
    quarantined: Collection[int] = (),
    repeats: Repeats = Repeats(),
    boosts: Callable[[Mapping[int, float]], Mapping[int, tuple[float, ...]]] | None = None,
) -> RetrievalPlan:
    """Score candidates, then pass them through six gates: `quarantined`, threshold, already in the queue, `replaced`
    (they say a former value, and the block leaves these out), repeated, beyond `top_k`.

    The match is the weighted mean of the two signals, `(v·vector + k·keyword) / (v + k)`. A negative cosine counts as
    0, as does a signal that did not find the message. A weight of 0 switches a signal off, and the other alone is the
    match: do so when there are no embeddings at all, or every match is lowered by the missing signal. A number that
    occurs several times, as for a long message embedded in pieces, is one candidate with its best signals.

    The two are fused by value, not by rank: a keyword score is near 0 where only common words agree, and then counts
    for little, which a rank does not show. Questions often have other words than the messages that answer them.

    `boosts` computes further terms of each candidate from the matches of all; the score is the match plus their sum.
    One that takes the place of others (`repeats`) has at least their score, the difference as lent by a neighbour.
    `threshold` is the minimum score, inclusive; None for no such gate, as for `top_k`.

    >>> found = [Signals(1, vector=0.9, keyword=None), Signals(2, vector=0.8, keyword=1.0)]
    >>> plan_retrieval(
    ...     found, top_k=1, threshold=None, in_queue=(), vector_weight=0.5, keyword_weight=0.5
    ... ).granted
    (2,)

    Raises:
        ConfigError: `top_k` is below 1, the threshold outside 0 to 1, a weight negative or both 0.
    """
    _check(top_k, threshold, vector_weight, keyword_weight)
    merged = {found_signals.number: found_signals for found_signals in _merged(signals)}
    cosines, shared = (
        np.maximum(np.array(values, dtype=np.float64), 0.0)
        for values in ([s.vector or 0.0 for s in merged.values()], [s.keyword or 0.0 for s in merged.values()])
    )
    matches = dict(zip(merged, match(cosines, shared, vector_weight, keyword_weight).tolist(), strict=True))
    added = dict(boosts(matches)) if boosts is not None else {}
    scores = {number: match + sum(added.get(number, ())) for number, match in matches.items()}
    for number, others in repeats.takes_place_of.items():
        lent = max(0.0, *(scores[other] - scores[number] for other in others))
        scores[number] += lent
        added |= {number: (added[number][0] + lent, *added[number][1:])} if added else {}
    scored = sorted(
        ((scores[number], signals_of) for number, signals_of in merged.items()), key=lambda p: (-p[0], p[1].number)
    )
    queued = frozenset(in_queue)
    candidates: list[Candidate] = []
    granted = 0
    for score, signals_of in scored:
        outcome: GateOutcome
        number = signals_of.number
        if number in quarantined:
            outcome = "quarantined"
        elif threshold is not None and score < threshold:
            outcome = "below_threshold"
        # Before the limit is counted: what the prompt has anyway takes no place from others.
        elif number in queued:
            outcome = "in_queue"
        elif number in replaced:
            outcome = "replaced"
        elif number in repeats.repeated:
            outcome = "repeated"
        elif top_k is not None and granted >= top_k:
            outcome = "beyond_top_k"
        else:
            outcome = "granted"
            granted += 1
        boosts_of = added.get(number, ())
        candidates.append(Candidate(number, signals_of.vector, signals_of.keyword, score, outcome, boosts_of))
    return RetrievalPlan(tuple(candidates), _gates(candidates))


def _gates(candidates: Iterable[Candidate]) -> dict[GateOutcome, int]:
    gates = Counter([candidate.outcome for candidate in candidates])
    return {outcome: gates[outcome] for outcome in get_args(GateOutcome)}


def postprocessed(plan: RetrievalPlan, kept: Sequence[int]) -> RetrievalPlan:
    """Return the plan with granted candidates first, in the order of `kept`; missing ones become `postprocessed`."""
    places = {number: place for place, number in enumerate(kept)}
    candidates = [
        replace(c, outcome="postprocessed") if c.outcome == "granted" and c.number not in places else c
        for c in plan.candidates
    ]
    # A stable sort: those that are not granted stay in the order of their scores, behind the granted ones.
    candidates.sort(key=lambda c: places[c.number] if c.outcome == "granted" else len(places))
    return RetrievalPlan(tuple(candidates), _gates(candidates))


def fill(
    plan: RetrievalPlan,
    token_budget: int,
    sizes: Mapping[int, int],
    heads: Mapping[int, Head] | None = None,
    head_sizes: Mapping[Head, int] | None = None,
) -> RetrievalPlan:
    """Return the plan with as many granted candidates as fit into `token_budget` tokens, best first.

    `sizes` are the tokens of candidates; one without a size does not fit. `heads` names the date line above a
    candidate, whose tokens (`head_sizes`) count once for all candidates under it.
    """
    remaining = token_budget
    headings_used: set[Head] = set()
    candidates = []
    for candidate in plan.candidates:
        if candidate.outcome == "granted":
            head = (heads or {}).get(candidate.number)
            size = sizes.get(candidate.number, token_budget + 1)
            # The first unit under a date line pays for the line.
            if head is not None and head not in headings_used:
                size += (head_sizes or {})[head]
            # Left out, but the search goes on: a smaller one further down may still fit.
            if size > remaining:
                c = candidate
                candidate = Candidate(c.number, c.vector, c.keyword, c.score, "no_room", c.boosts)
            else:
                remaining -= size
                headings_used |= {head} if head is not None else set()
        candidates.append(candidate)
    return RetrievalPlan(tuple(candidates), _gates(candidates))


def budget_for(token_limit: int, others: int) -> int:
    """Return the tokens for a block that asks for as much as fits, if the other parts ask for `others` tokens.

    A tenth of the limit at least, so that the priorities decide about a prompt that is full already.
    """
    return max(token_limit - others, token_limit // MIN_SHARE)


def _check(top_k: int | None, threshold: float | None, vector_weight: float, keyword_weight: float) -> None:
    if top_k is not None and top_k < 1:
        raise ConfigError(f"Retrieval must grant at least 1 message: {top_k=}")
    if threshold is not None and not 0 <= threshold <= 1:
        raise ConfigError(f"The retrieval threshold must be from 0 to 1, or None: {threshold=}")
    weights = (vector_weight, keyword_weight)
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise ConfigError(
            "Retrieval weights must not be negative, and at least one must be above 0: "
            f"{vector_weight=}, {keyword_weight=}"
        )


def _merged(signals: Sequence[Signals]) -> list[Signals]:
    """Merge into one `Signals` for each number, with its best value of each kind."""
    best: dict[int, Signals] = {}
    for signal in signals:
        previous = best.get(signal.number)
        best[signal.number] = (
            signal
            if previous is None
            else Signals(
                signal.number, _larger(previous.vector, signal.vector), _larger(previous.keyword, signal.keyword)
            )
        )
    return list(best.values())


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)


def match(vector: Signal, keyword: Signal, vector_weight: float, keyword_weight: float) -> Signal:
    """Return the weighted mean of two signals that are not negative; with a weight of 0, the other signal alone."""
    if not keyword_weight:
        return vector
    if not vector_weight:
        return keyword
    share = vector_weight / (vector_weight + keyword_weight)
    return share * vector + (1 - share) * keyword
