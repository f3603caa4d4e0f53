"""Keyword search in memory, for exact names and numbers, which embeddings blur.

An index over (number, text) pairs, which its owner fills; nothing is stored in the database. `text.py` has the stems,
stop words and character pairs of Chinese, Japanese and Korean.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError
from memory_core.text import keyword_terms, stems

K1 = 1.2
"""BM25's k1, saturation of term frequency. Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009),
find 1.2 to 2 good in most collections; 1.2 is also Lucene's default."""

B = 0.75
"""BM25's b, length normalisation, 0 to 1; the source named at `K1` finds 0.5 to 0.8 good. Lucene's default."""

_COMPACT_AT = 0.5
"""Fraction of removed texts at which the postings are rebuilt without them."""


_AT_ONCE = 1_000
"""Texts whose terms are in memory together while they are added."""


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A text that shares words with the query."""

    number: int
    score: float
    """Score of the text divided by the maximum for the query, 0 to 1. Does not depend on other hits."""


@dataclass(frozen=True, slots=True)
class KeywordScores:
    """All texts that share a term with a query."""

    numbers: NDArray[np.int64]
    """Numbers of the texts, ascending."""
    scores: NDArray[np.float64]

    def best(self, limit: int) -> list[KeywordHit]:
        """Return the best texts first, ties by number, at most `limit`.

        Raises:
            ConfigError: `limit` is below 1.
        """
        if limit < 1:
            raise ConfigError(f"A keyword search must ask for at least 1 result: {limit=}")
        places = np.arange(len(self.scores))
        # Only the best and their ties are sorted: a frequent word may be in every text.
        if limit < len(places):
            places = np.flatnonzero(self.scores >= np.partition(self.scores, -limit)[-limit])
        # Stable, so that ties stay in the order of their numbers.
        best = places[np.argsort(-self.scores[places], kind="stable")[:limit]]
        return [KeywordHit(*hit) for hit in zip(self.numbers[best].tolist(), self.scores[best].tolist(), strict=True)]

    def of(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of these texts; 0 for one that shares no term."""
        wanted = np.asarray(numbers, dtype=np.int64)
        places = np.searchsorted(self.numbers, wanted)
        # The appended 0 is for numbers beyond the last one, and for all if there are no scores.
        same = np.append(self.numbers, -1)[places] == wanted
        return np.where(same, np.append(self.scores, 0.0)[places], 0.0)


NO_SCORES = KeywordScores(np.empty(0, dtype=np.int64), np.empty(0))


@dataclass(slots=True)
class _Posting:
    """Occurrences of a term, one entry per text; entries of removed texts stay until the next compaction."""

    slots: "array[int]" = field(default_factory=lambda: array("i"))
    counts: "array[int]" = field(default_factory=lambda: array("i"))


# The posting of a term that no text has; nothing is ever added to it.
_NOWHERE = _Posting()


class KeywordIndex:
    """BM25 over numbered texts, normalised to 0..1. Thread-safe.

    score = Σ idf(t) · tf·(k1+1) / (tf + k1·(1 - b + b·length/average)) over the query's distinct terms,
    divided by Σ idf(t)·(k1+1), the limit for a text of only these terms. A term that no text has
    counts in the divisor with the highest idf: a query of mostly unknown words scores low whatever it finds.
    One mention of every term in a text of average length scores 1 / (k1+1), about 0.45.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._postings: defaultdict[str, _Posting] = defaultdict(_Posting)
        self._first_postings: dict[str, slice] = {}
        """Place in the two below of the occurrences of a term before those in `_postings`; empty unless loaded."""
        self._first_slots: NDArray[np.intc] = np.empty(0, dtype=np.intc)
        self._first_counts: NDArray[np.intc] = np.empty(0, dtype=np.intc)
        self._slot_of: dict[int, int] = {}  # number -> position in the two below
        self._numbers: array[int] = array("q")
        self._lengths: array[int] = array("i")  # in terms; -1 once removed
        self._total_length = 0

    @classmethod
    def loaded(cls, arrays: Mapping[str, NDArray[Any]]) -> "KeywordIndex":
        """Return the index that gave these `arrays`, which are used in place and never written to."""
        index = cls()
        terms = arrays["terms"].tobytes().decode().split(" ") if len(arrays["ends"]) else []
        index._first_postings = {
            term: slice(start, end)
            for term, (start, end) in zip(terms, pairwise([0, *arrays["ends"].tolist()]), strict=True)
        }
        index._first_slots, index._first_counts = arrays["slots"], arrays["counts"]
        index._numbers = array("q", arrays["texts of terms"].tobytes())
        index._lengths = array("i", arrays["lengths"].tobytes())
        index._slot_of = dict(zip(index._numbers, range(len(index._numbers)), strict=True))
        index._total_length = sum(index._lengths)
        return index

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the index as arrays, for `loaded`; texts that were removed are left out."""
        with self._lock:
            if self._first_postings or len(self._slot_of) < len(self._numbers):
                self._compact()
            slots = [np.array(posting.slots, np.intc) for posting in self._postings.values()]
            counts = [np.array(posting.counts, np.intc) for posting in self._postings.values()]
            return {
                "terms": np.frombuffer(" ".join(self._postings).encode(), np.uint8),  # no term has a space
                "ends": np.cumsum([len(several) for several in slots], dtype=np.int64),
                "slots": np.concatenate([np.empty(0, np.intc), *slots]),
                "counts": np.concatenate([np.empty(0, np.intc), *counts]),
                "texts of terms": np.array(self._numbers, np.int64),
                "lengths": np.array(self._lengths, np.intc),
            }

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, number: int) -> bool:
        return number in self._slot_of

    def numbers(self) -> list[int]:
        """Return the numbers of all texts in the index, unsorted."""
        with self._lock:
            return list(self._slot_of)

    def add(self, texts: Mapping[int, str]) -> None:
        """Index texts by number; replace those that already have such a number."""
        self.add_stemmed({number: " ".join(stems(text)) for number, text in texts.items()})

    def add_stemmed(self, texts: Mapping[int, str]) -> None:
        """Index texts, passed as their stems with spaces between, as `add` does."""
        with self._lock:
            for number in texts:
                self._remove(number)
            self._add(texts)

    def remove(self, number: int) -> None:
        """Remove a text; unknown numbers are ignored."""
        with self._lock:
            self._remove(number)

    def search(self, query: str, limit: int) -> list[KeywordHit]:
        """Return texts that share a term with the query; see `KeywordScores.best`."""
        return self.scores(query).best(limit)

    def scores(self, query: str, *, also: Mapping[int, str] | None = None) -> KeywordScores:
        """Return the scores of all texts that share a term with the query.

        `also` are the stems of further texts by number, none of which is in the index: they are searched as if they
        were in it.
        """
        terms = sorted(set(keyword_terms(" ".join(stems(query)))))
        parts = [self]
        if also:
            parts.append(KeywordIndex())
            parts[1].add_stemmed(also)
        with self._lock:
            texts = sum(len(part) for part in parts)
            if not terms or not texts:
                return NO_SCORES
            average = sum(part._total_length for part in parts) / texts
            sums = [np.zeros(len(part._numbers)) for part in parts]
            reachable = 0.0
            for term in terms:
                occurrences = [part._occurrences(term) for part in parts]
                idf = _idf(texts, sum(len(slots) for slots, _, _ in occurrences))
                reachable += idf * (K1 + 1)
                for total, (slots, counts, lengths) in zip(sums, occurrences, strict=True):
                    held_back = K1 * (1 - B + B * lengths / average)
                    np.add.at(total, slots, idf * counts * (K1 + 1) / (counts + held_back))
            numbers = np.concatenate([np.array(part._numbers, dtype=np.int64) for part in parts])
        scores = np.concatenate(sums) / reachable
        places = np.flatnonzero(scores)
        places = places[np.argsort(numbers[places], kind="stable")]
        return KeywordScores(numbers[places], scores[places])

    def _occurrences(self, term: str) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intc]]:
        """Return the slots of the texts with a term, how often they have it, and their lengths."""
        posting = self._postings.get(term, _NOWHERE)
        first = self._first_postings.get(term, slice(0))
        # Copies, as the arrays below cannot grow while others refer to their memory.
        slots = np.concatenate([self._first_slots[first], np.array(posting.slots)], dtype=np.intp)
        counts = np.concatenate([self._first_counts[first], np.array(posting.counts)], dtype=np.float64)
        lengths = np.array(self._lengths, dtype=np.intc)[slots]
        live = lengths >= 0
        return (slots, counts, lengths) if live.all() else (slots[live], counts[live], lengths[live])

    def _add(self, texts: Mapping[int, str]) -> None:
        first, end = len(self._numbers), len(self._numbers) + len(texts)
        ids: defaultdict[str, int] = defaultdict()
        # A term gets the next free id when it is first looked up.
        ids.default_factory = ids.__len__
        lengths: array[int] = array("i")

        def terms_of_several() -> Iterator[list[str]]:
            # Some texts after others: the terms of all together would take more memory than the whole index.
            rest = iter(texts.values())
            while several := list(islice(rest, _AT_ONCE)):
                if all(text.isascii() for text in several):  # as nearly always: their stems are the terms
                    lengths.extend(text.count(" ") + 1 if text else 0 for text in several)
                    yield keyword_terms(" ".join(filter(None, several)))
                    continue
                for text in several:
                    terms = keyword_terms(text)
                    lengths.append(len(terms))
                    yield terms

        term_ids = np.fromiter(map(ids.__getitem__, chain.from_iterable(terms_of_several())), np.int64)
        slots = np.repeat(np.arange(first, end), lengths)
        # Sorted by term, then by slot, a run for each pair of both.
        pairs = (term_ids << 32) + slots
        pairs.sort()
        runs = np.flatnonzero(np.diff(pairs, prepend=-1))
        all_counts = np.diff(runs, append=len(pairs)).astype(np.intc)
        all_slots = (pairs[runs] & 0xFFFFFFFF).astype(np.intc)
        ends = np.searchsorted(pairs[runs], np.arange(1, len(ids) + 1) << 32).tolist()
        for term, (start, stop) in zip(ids, pairwise([0, *ends]), strict=True):
            posting = self._postings[term]
            posting.slots.frombytes(all_slots[start:stop].tobytes())
            posting.counts.frombytes(all_counts[start:stop].tobytes())
        self._slot_of.update(zip(texts, range(first, end), strict=True))
        self._numbers.extend(texts)
        self._lengths.extend(lengths)
        self._total_length += len(term_ids)

    def _remove(self, number: int) -> None:
        slot = self._slot_of.pop(number, None)
        if slot is None:
            return
        self._total_length -= self._lengths[slot]
        self._lengths[slot] = -1
        if len(self._slot_of) < len(self._numbers) * (1 - _COMPACT_AT):
            self._compact()

    def _compact(self) -> None:
        """Renumber the slots, without the removed texts."""
        for term, first in self._first_postings.items():
            posting = self._postings[term]
            posting.slots = array("i", self._first_slots[first].tobytes()) + posting.slots
            posting.counts = array("i", self._first_counts[first].tobytes()) + posting.counts
        self._first_postings = {}
        live = np.array(self._lengths) >= 0
        new_slots = (np.cumsum(live) - 1).astype(np.intc)
        for term, posting in list(self._postings.items()):
            remaining = live[np.array(posting.slots, dtype=np.intp)]
            posting.slots = array("i", new_slots[np.array(posting.slots)][remaining].tobytes())
            posting.counts = array("i", np.array(posting.counts)[remaining].tobytes())
            if not posting.slots:
                del self._postings[term]
        self._numbers = array("q", np.array(self._numbers)[live].tobytes())
        self._lengths = array("i", np.array(self._lengths)[live].tobytes())
        self._slot_of = {number: slot for slot, number in enumerate(self._numbers)}


def _idf(texts: int, having: int) -> float:
    """Return the Robertson and Spärck Jones weight of a term in Lucene's form, which is never negative."""
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))
