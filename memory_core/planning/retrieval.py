"""Decide which of the messages found by search are granted a place in the context.

Pure: what each search said goes in, a frozen plan comes out. Searching is not here (`vectors/`), nor is the text of
what is granted, nor whether it fits the token limit (`context.py`).
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from memory_core.errors import ConfigError

Fate = Literal["granted", "below_threshold", "in_queue", "beyond_top_k"]
"""Where a candidate ended; the last three are gates, in the order in which they are passed."""


@dataclass(frozen=True, slots=True)
class Signals:
    """What the searches said of one message."""

    number: int
    vector: float | None
    """Cosine similarity, -1 to 1; None: not found by this search, or it is switched off."""
    keyword: float | None
    """0 to 1; None: not found by this search, or it is switched off."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One message found, with what became of it."""

    number: int
    vector: float | None
    keyword: float | None
    score: float
    """0 to 1: larger is closer."""
    fate: Fate


@dataclass(frozen=True, slots=True)
class RetrievalPlan:
    """Every message found, once."""

    candidates: tuple[Candidate, ...]
    """Best first; equal scores: smaller number, that is the older, first."""
    gates: dict[Fate, int]
    """How many candidates met each fate; all four are there."""

    @property
    def granted(self) -> tuple[int, ...]:
        """Numbers, best first."""
        return tuple(candidate.number for candidate in self.candidates if candidate.fate == "granted")


def plan_retrieval(
    signals: Sequence[Signals],
    *,
    top_k: int,
    threshold: float | None,
    in_queue: Collection[int],
    vector_weight: float,
    keyword_weight: float,
) -> RetrievalPlan:
    """Score what was found, then pass it through three gates: threshold, already in the queue, beyond `top_k`.

    The score is the weighted mean of the two signals, `(v·vector + k·keyword) / (v + k)`. A negative cosine counts as
    0, as does a signal that did not find the message. A weight of 0 switches a signal off, and the other alone is the
    score: do so when there are no embeddings at all, else every score is held down by what could not be known. A number
    that is given several times, as for a long message embedded in pieces, is one candidate with its best signals.

    The keyword weight is meant to be low (the engine's default is 0.15 to 0.85): people ask in other words than
    they told. On 60 paraphrased questions, ranking by BM25 and embeddings (MiniLM) as equals took the rate of right
    answers in first place from .77 to .40; a small bonus helps exact names and numbers past equally near neighbours.

    `threshold` (None: no such gate) and the score are on the same scale, 0 to 1; at the threshold is enough.

    >>> found = [Signals(1, vector=0.9, keyword=None), Signals(2, vector=0.8, keyword=1.0)]
    >>> plan_retrieval(
    ...     found, top_k=1, threshold=None, in_queue=(), vector_weight=0.5, keyword_weight=0.5
    ... ).granted
    (2,)

    Raises:
        ConfigError: `top_k` is below 1, the threshold outside 0 to 1, a weight negative or both 0.
    """
    _check(top_k, threshold, vector_weight, keyword_weight)
    scored = sorted(
        ((_score(found, vector_weight, keyword_weight), found) for found in _merged(signals)),
        key=lambda pair: (-pair[0], pair[1].number),
    )
    queued = frozenset(in_queue)
    candidates: list[Candidate] = []
    gates: Counter[Fate] = Counter()
    for score, found in scored:
        fate: Fate
        if threshold is not None and score < threshold:
            fate = "below_threshold"
        elif found.number in queued:
            fate = "in_queue"
        elif gates["granted"] >= top_k:
            fate = "beyond_top_k"
        else:
            fate = "granted"
        gates[fate] += 1
        candidates.append(Candidate(found.number, found.vector, found.keyword, score, fate))
    return RetrievalPlan(tuple(candidates), {fate: gates[fate] for fate in get_args(Fate)})


def _check(top_k: int, threshold: float | None, vector_weight: float, keyword_weight: float) -> None:
    if top_k < 1:
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
    """One `Signals` for each number, with its best of each kind."""
    best: dict[int, Signals] = {}
    for found in signals:
        known = best.get(found.number, found)
        best[found.number] = Signals(
            found.number, _larger(known.vector, found.vector), _larger(known.keyword, found.keyword)
        )
    return list(best.values())


def _larger(a: float | None, b: float | None) -> float | None:
    return max((value for value in (a, b) if value is not None), default=None)


def _score(found: Signals, vector_weight: float, keyword_weight: float) -> float:
    vector, keyword = max(found.vector or 0.0, 0.0), max(found.keyword or 0.0, 0.0)
    if not keyword_weight:
        return vector
    if not vector_weight:
        return keyword
    share = vector_weight / (vector_weight + keyword_weight)
    return share * vector + (1 - share) * keyword
