"""All stored turns ranked for one question, best first; built on demand, as there may be a hundred thousand."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from memory_core.planning.retrieval_plan import GateOutcome

CandidateOutcome = Literal[GateOutcome, "cut", "no_prompt", "not_proposed"]
"""Stage at which a stored turn ended.

Beside the gates of `plan_retrieval`: `cut` by the token limit; `no_prompt`: requested, but there is no prompt to
include it; `not_proposed`: neither search listed it among its nearest.
"""

OUTCOMES: tuple[CandidateOutcome, ...] = ("granted", "cut", "no_prompt", *get_args(GateOutcome)[:0:-1], "not_proposed")
"""All outcomes, from the prompt backwards."""

AT_ONCE = 500
"""Number of turns whose words are read together while iterating over all."""


@dataclass(frozen=True, slots=True)
class RankedTurn:
    """Stored turn, scored for a question."""

    number: int
    rank: int
    """Rank by score; 1 is best."""
    turn: int
    """Conversation turn; 0 if its messages are gone."""
    words: str
    tokens: int
    vector: float | None
    """Cosine similarity, -1 to 1; None if unknown or the search is disabled."""
    keyword: float | None
    score: float
    """The weighted match plus the boosts."""
    outcome: CandidateOutcome
    boosts: tuple[float, ...] = ()
    """Boost from each of `planning.boosts.BOOSTS`; empty if there are none."""

    @property
    def match(self) -> float:
        """Vector and keyword score combined by their weights, 0 to 1."""
        return self.score - sum(self.boosts)


Texts = Callable[[Sequence[int]], Mapping[int, tuple[int, str]]]
"""Function that returns turn number and words of stored turns, by id; those with deleted messages are omitted."""

Holding = Callable[[Sequence[str]], Collection[int]]
"""Function that returns the numbers of the stored turns whose text contains each of these casefolded words."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of the stored turns that are not candidates, row by row."""

    numbers: NDArray[np.int64]
    vector: NDArray[np.float64]
    """Cosine similarity; NaN if unknown."""
    keyword: NDArray[np.float64]
    """Keyword score; NaN if keyword search is disabled."""
    score: NDArray[np.float64]


class Ranked(Sequence[RankedTurn]):
    """Stored turns, best first; equal scores: smaller number first. Turn and words are read on access.

    A subset (`only`, `holding`) keeps the ranks of the whole.
    """

    def __init__(
        self,
        turns: Sequence[RankedTurn],
        rest: Scores | None = None,
        *,
        tokens: Callable[[int], int] = lambda number: 0,
        texts: Texts | None = None,
        holding: Holding | None = None,
    ) -> None:
        """With `texts`, turn numbers, words and ranks are filled in on access; without, those of `turns` are kept."""
        self._found = {one.number: one for one in turns}
        self._rest, self._tokens, self._texts, self._holding = rest, tokens, texts, holding
        numbers = np.array([one.number for one in turns], dtype=np.int64)
        scores = np.array([one.score for one in turns], dtype=np.float64)
        if rest is not None:
            numbers, scores = np.append(numbers, rest.numbers), np.append(scores, rest.score)
        # Recorded candidates keep their order and their ranks.
        order = np.arange(len(numbers)) if texts is None else np.lexsort((numbers, -scores))
        self._numbers = numbers[order]
        self._rows = order - len(turns)
        """Row in `rest` of each turn; negative for those in `turns`."""
        self._places = np.arange(len(numbers))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> RankedTurn: ...
    @overload
    def __getitem__(self, place: slice) -> list[RankedTurn]: ...
    def __getitem__(self, place: int | slice) -> RankedTurn | list[RankedTurn]:
        if isinstance(place, slice):
            return self._made(self._places[place])
        return self._made(self._places[[place]])[0]

    def __iter__(self) -> Iterator[RankedTurn]:
        places = iter(self._places)
        while part := list(islice(places, AT_ONCE)):
            yield from self._made(np.array(part))

    def one(self, number: int) -> RankedTurn | None:
        """Return the stored turn with this number; None if it is not included."""
        return next(iter(self.some([number])), None)

    def some(self, numbers: Collection[int]) -> list[RankedTurn]:
        """Return the stored turns with these numbers, best first."""
        return self._made(self._places[np.isin(self._numbers[self._places], list(numbers))])

    def only(self, *outcomes: CandidateOutcome) -> "Ranked":
        """Return the stored turns with one of these outcomes."""
        wanted = {number for number, one in self._found.items() if one.outcome in outcomes}
        picked = np.isin(self._numbers[self._places], list(wanted))
        # Turns that are no candidates are rows in `rest`, without an outcome of their own.
        if "not_proposed" in outcomes:
            picked |= self._rows[self._places] >= 0
        return self._part(picked)

    def holding(self, words: Sequence[str]) -> "Ranked":
        """Return the stored turns whose text contains each of these words or word beginnings, ignoring case."""
        wanted = [word.casefold() for word in words]
        # The database searches the texts of all stored turns; recorded candidates already hold their texts.
        if self._holding is not None:
            numbers = self._holding(wanted)
        else:
            numbers = [one.number for one in self if all(word in one.words.casefold() for word in wanted)]
        return self._part(np.isin(self._numbers[self._places], list(numbers)))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self._numbers[self._places].tolist())

    @property
    def candidates(self) -> tuple[RankedTurn, ...]:
        """Turns that a search listed among its nearest, best first, without words and rank."""
        return tuple(one for one in self._found.values() if one.outcome != "not_proposed")

    @property
    def counts(self) -> Counter[CandidateOutcome]:
        """Number of turns by outcome, over all turns."""
        result: Counter[CandidateOutcome] = Counter(one.outcome for one in self._found.values())
        result["not_proposed"] += len(self._numbers) - len(self._found)
        return result

    def _part(self, picked: NDArray[np.bool_]) -> "Ranked":
        # Without the constructor, which would sort everything again: a part only selects places, so ranks stay.
        part = Ranked.__new__(Ranked)
        part.__dict__.update(self.__dict__, _places=self._places[picked])
        return part

    def _made(self, places: NDArray[np.intp]) -> list[RankedTurn]:
        numbers = self._numbers[places].tolist()
        # The words of all these turns with one query.
        texts = self._texts(numbers) if self._texts is not None and numbers else {}
        turns = []
        for place, number in zip(places.tolist(), numbers, strict=True):
            one = self._found.get(number)
            turn, words = texts.get(number, (0, ""))
            if one is None:
                one = self._not_proposed(number, int(self._rows[place]))
            turns.append(one if self._texts is None else replace(one, rank=place + 1, turn=turn, words=words))
        return turns

    def _not_proposed(self, number: int, row: int) -> RankedTurn:
        assert self._rest is not None, "only what is no candidate has a row"
        vector, keyword = float(self._rest.vector[row]), float(self._rest.keyword[row])
        scores = (None if np.isnan(vector) else vector, None if np.isnan(keyword) else keyword)
        score = float(self._rest.score[row])
        return RankedTurn(number, 0, 0, "", self._tokens(number), *scores, score, "not_proposed")
