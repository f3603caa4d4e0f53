"""Decide which of the messages found by search are granted a place in the context.

Pure: scores of each search go in, a frozen plan comes out. Elsewhere: searching (`vectors/`), boosts beside the match
(`boosts.py`), the text of granted messages, and the token limit (`context_plan.py`).
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError

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
