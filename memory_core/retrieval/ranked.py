"""All stored turns under one question, best first: of a hundred thousand, each is made when it is looked at."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

Fate = Literal["granted", "cut", "no_prompt", "no_room", "beyond_top_k", "in_queue", "below_threshold", "not_proposed"]
"""Where a stored turn ended, from the prompt backwards.

`cut` by the token limit; `no_prompt`: asked for, and there is no prompt to stand in; `no_room`: it does not fit beside
better ones; `not_proposed`: neither search named it among its nearest."""

AT_ONCE = 500
"""Turns whose words are read together while all are looked at."""


@dataclass(frozen=True, slots=True)
class Found:
    """One stored turn under one question."""

    number: int
    rank: int
    """1 is the best score."""
    turn: int
    """Of the conversation; 0 where its messages are gone."""
    words: str
    tokens: int
    vector: float | None
    """Cosine similarity, -1 to 1; None: not known, or the search is switched off."""
    keyword: float | None
    score: float
    """The match, both by their weights, and what the terms add."""
    fate: Fate
    terms: tuple[float, ...] = ()
    """What each of `planning.terms.TERMS` adds; empty where none does."""

    @property
    def match(self) -> float:
        """Vector and keyword by their weights, 0 to 1."""
        return self.score - sum(self.terms)


Texts = Callable[[Sequence[int]], Mapping[int, tuple[int, str]]]
"""Turn of the conversation and words of stored turns, by number; those whose messages are gone are missing."""

Holding = Callable[[Sequence[str]], Collection[int]]
"""Numbers of the stored turns whose text holds each of these casefolded words."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What a search says of the stored turns that are no candidates, row by row."""

    numbers: NDArray[np.int64]
    vector: NDArray[np.float64]
    """NaN: not known."""
    keyword: NDArray[np.float64]
    """NaN: the search is switched off."""
    score: NDArray[np.float64]


class Ranked(Sequence[Found]):
    """Stored turns, best first; equal scores: smaller number first. Turn and words are read when one is looked at.

    A part of them (`only`, `holding`) keeps the ranks of the whole.
    """

    def __init__(
        self,
        found: Sequence[Found],
        rest: Scores | None = None,
        *,
        tokens: Callable[[int], int] = lambda number: 0,
        texts: Texts | None = None,
        holding: Holding | None = None,
    ) -> None:
        """With `texts`, turns, words and ranks are put in here; without, `found` is kept as it is."""
        self._found = {one.number: one for one in found}
        self._rest, self._tokens, self._texts, self._holding = rest, tokens, texts, holding
        numbers = np.array([one.number for one in found], dtype=np.int64)
        scores = np.array([one.score for one in found], dtype=np.float64)
        if rest is not None:
            numbers, scores = np.append(numbers, rest.numbers), np.append(scores, rest.score)
        order = np.arange(len(numbers)) if texts is None else np.lexsort((numbers, -scores))
        self._numbers = numbers[order]
        self._rows = order - len(found)
        """Where each stands in `rest`; below 0 in `found`."""
        self._places = np.arange(len(numbers))

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Found: ...
    @overload
    def __getitem__(self, place: slice) -> list[Found]: ...
    def __getitem__(self, place: int | slice) -> Found | list[Found]:
        if isinstance(place, slice):
            return self._made(self._places[place])
        return self._made(self._places[[place]])[0]

    def __iter__(self) -> Iterator[Found]:
        places = iter(self._places)
        while part := list(islice(places, AT_ONCE)):
            yield from self._made(np.array(part))

    def one(self, number: int) -> Found | None:
        """A stored turn by its number."""
        return next(iter(self.some([number])), None)

    def some(self, numbers: Collection[int]) -> list[Found]:
        """Those of these numbers, best first."""
        return self._made(self._places[np.isin(self._numbers[self._places], list(numbers))])

    def only(self, *fates: Fate) -> "Ranked":
        """Those with one of these fates."""
        wanted = {number for number, one in self._found.items() if one.fate in fates}
        picked = np.isin(self._numbers[self._places], list(wanted))
        if "not_proposed" in fates:
            picked |= self._rows[self._places] >= 0
        return self._part(picked)

    def holding(self, words: Sequence[str]) -> "Ranked":
        """Those whose text holds each of these words, in upper or lower case, or the beginning of one."""
        wanted = [word.casefold() for word in words]
        if self._holding is not None:
            numbers = self._holding(wanted)
        else:
            numbers = [one.number for one in self if all(word in one.words.casefold() for word in wanted)]
        return self._part(np.isin(self._numbers[self._places], list(numbers)))

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self._numbers[self._places].tolist())

    @property
    def candidates(self) -> tuple[Found, ...]:
        """Those that a search named among its nearest, best first, without words and rank."""
        return tuple(one for one in self._found.values() if one.fate != "not_proposed")

    @property
    def counts(self) -> Counter[Fate]:
        """How many of all met each fate."""
        found: Counter[Fate] = Counter(one.fate for one in self._found.values())
        found["not_proposed"] += len(self._numbers) - len(self._found)
        return found

    def _part(self, picked: NDArray[np.bool_]) -> "Ranked":
        part = Ranked.__new__(Ranked)
        part.__dict__.update(self.__dict__, _places=self._places[picked])
        return part

    def _made(self, places: NDArray[np.intp]) -> list[Found]:
        numbers = self._numbers[places].tolist()
        texts = self._texts(numbers) if self._texts is not None and numbers else {}
        found = []
        for place, number in zip(places.tolist(), numbers, strict=True):
            one = self._found.get(number)
            turn, words = texts.get(number, (0, ""))
            if one is None:
                one = self._not_proposed(number, int(self._rows[place]))
            found.append(one if self._texts is None else replace(one, rank=place + 1, turn=turn, words=words))
        return found

    def _not_proposed(self, number: int, row: int) -> Found:
        assert self._rest is not None, "only what is no candidate has a row"
        vector, keyword = float(self._rest.vector[row]), float(self._rest.keyword[row])
        scores = (None if np.isnan(vector) else vector, None if np.isnan(keyword) else keyword)
        score = float(self._rest.score[row])
        return Found(number, 0, 0, "", self._tokens(number), *scores, score, "not_proposed")
