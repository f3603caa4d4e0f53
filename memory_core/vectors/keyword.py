"""Keyword search in memory, for exact names and numbers, which embeddings blur.

An index over (number, text) pairs, which its owner fills; nothing is stored in the database. `text.py` has the stems,
stop words and character pairs of Chinese, Japanese and Korean.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from threading import Lock

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


@dataclass(frozen=True, slots=True)
class KeywordHit:
    """A text that shares words with the query."""

    number: int
    score: float
    """Score of the text divided by the maximum for the query, 0 to 1. Does not depend on other hits."""


@dataclass(slots=True)
class _Posting:
    """Occurrences of a term, one entry per text; entries of removed texts stay until the next compaction."""

    slots: "array[int]" = field(default_factory=lambda: array("i"))
    counts: "array[int]" = field(default_factory=lambda: array("i"))
    texts: int = 0
    """Live texts with the term: its document frequency."""


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
        self._clear()

    def __len__(self) -> int:
        return len(self._slot_of)

    def __contains__(self, number: int) -> bool:
        return number in self._slot_of

    def numbers(self) -> list[int]:
        """Return the numbers of all texts in the index, unsorted."""
        with self._lock:
            return list(self._slot_of)

    def add(self, number: int, text: str | Sequence[str]) -> None:
        """Index a text, or its stems, under a number; replace the text that already has the number, if any."""
        terms = keyword_terms(stems(text) if isinstance(text, str) else text)
        with self._lock:
            if number in self._slot_of:
                self._remove(number)
            self._add(number, terms)

    def add_all(self, texts: Mapping[int, Sequence[str]]) -> None:
        """Index texts in bulk, passed as stems by number; much faster than one by one for thousands."""
        with self._lock:
            for number in texts:
                if number in self._slot_of:
                    self._remove(number)
            self._add_all({number: keyword_terms(stemmed) for number, stemmed in texts.items()})

    def remove(self, number: int) -> None:
        """Remove a text; unknown numbers are ignored."""
        with self._lock:
            if number in self._slot_of:
                self._remove(number)

    def search(
        self, query: str | Sequence[str], limit: int, *, also: Mapping[int, Sequence[str]] | None = None
    ) -> list[KeywordHit]:
        """Return texts that share a term with the query, best first, ties by number, at most `limit`.

        `query` is a text or its stems. `also` are the stems of further texts by number, none of which is in the
        index: they are searched as if they were in it.

        Raises:
            ConfigError: `limit` is below 1.
        """
        if limit < 1:
            raise ConfigError(f"A keyword search must ask for at least 1 result: {limit=}")
        terms = sorted(set(keyword_terms(stems(query) if isinstance(query, str) else query)))
        more = {number: keyword_terms(stemmed) for number, stemmed in (also or {}).items()}
        with self._lock:
            if not terms or not (self._slot_of or more):
                return []
            scores = self._scores(terms, list(more.values()))
            # Copied under the lock, so that sorting needs none.
            numbers = np.append(np.array(self._numbers, dtype=np.int64), np.array(list(more), dtype=np.int64))
        slots = np.flatnonzero(scores)
        # Only the best and their ties are sorted: a frequent word may be in every text.
        if len(slots) > limit:
            least = np.partition(scores[slots], -limit)[-limit]
            slots = slots[scores[slots] >= least]
        best = slots[np.lexsort((numbers[slots], -scores[slots]))[:limit]]
        return [KeywordHit(*hit) for hit in zip(numbers[best].tolist(), scores[best].tolist(), strict=True)]

    def _scores(self, terms: Sequence[str], more: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """Return a score per slot, 0 for removed texts, then one for each further text, passed as stems."""
        lengths = np.append(np.array(self._lengths, dtype=np.float64), [float(len(words)) for words in more])
        texts = len(self._slot_of) + len(more)
        average = (self._total_length + sum(len(words) for words in more)) / texts
        held_back = K1 * (1 - B + B * lengths / average) if average else np.full_like(lengths, K1)
        # Removed texts: a count over infinity is a score of 0.
        held_back[lengths < 0] = np.inf
        scores = np.zeros(len(lengths))
        reachable = 0.0
        for term in terms:
            added = [(slot, n) for slot, words in enumerate(more, len(self._lengths)) if (n := words.count(term))]
            posting = self._postings.get(term, _NOWHERE)
            idf = _idf(texts, posting.texts + len(added))
            reachable += idf * (K1 + 1)
            slots = np.array(posting.slots, dtype=np.intp)
            counts = np.array(posting.counts, dtype=np.float64)
            if added:
                slots = np.append(slots, [slot for slot, _ in added])
                counts = np.append(counts, [float(n) for _, n in added])
            # A posting has each slot once, or adding by index would lose all but one of its values.
            scores[slots] += idf * counts * (K1 + 1) / (counts + held_back[slots])
        return scores / reachable

    def _clear(self) -> None:
        self._postings: dict[str, _Posting] = {}
        self._slot_of: dict[int, int] = {}  # number -> position in the three below
        self._numbers: array[int] = array("q")
        self._lengths: array[int] = array("i")  # in stems; -1 once removed
        self._terms: list[tuple[str, ...]] = []  # for removing
        self._total_length = 0

    def _add(self, number: int, terms: Sequence[str]) -> None:
        slot = len(self._numbers)
        counts: dict[str, int] = {}
        for term in terms:
            counts[term] = counts.get(term, 0) + 1
        for term, count in counts.items():
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting()
            posting.slots.append(slot)
            posting.counts.append(count)
            posting.texts += 1
        self._slot_of[number] = slot
        self._numbers.append(number)
        self._lengths.append(len(terms))
        self._terms.append(tuple(terms))
        self._total_length += len(terms)

    def _add_all(self, texts: Mapping[int, Sequence[str]]) -> None:
        first = len(self._numbers)
        ids: defaultdict[str, int] = defaultdict()
        # A term gets the next free id when it is first looked up.
        ids.default_factory = ids.__len__
        lengths = np.fromiter(map(len, texts.values()), np.int32, len(texts))
        total = int(lengths.sum())
        term_ids = np.fromiter(map(ids.__getitem__, chain.from_iterable(texts.values())), np.int64, total)
        slots = np.repeat(np.arange(first, first + len(texts)), lengths)
        # Sorted by term, then by slot, as if they were added one by one.
        pairs, counts = np.unique(term_ids * (first + len(texts)) + slots, return_counts=True)
        of_term, slots = np.divmod(pairs, first + len(texts))
        ends = np.searchsorted(of_term, np.arange(len(ids)), side="right").tolist()
        all_slots, all_counts = slots.astype(np.intc), counts.astype(np.intc)
        start = 0
        for term, end in zip(ids, ends, strict=True):
            posting = self._postings.get(term)
            if posting is None:
                posting = self._postings[term] = _Posting()
            posting.slots.frombytes(all_slots[start:end].tobytes())
            posting.counts.frombytes(all_counts[start:end].tobytes())
            posting.texts += end - start
            start = end
        self._slot_of.update(zip(texts, range(first, first + len(texts)), strict=True))
        self._numbers.extend(texts)
        self._lengths.frombytes(lengths.astype(np.intc).tobytes())
        self._terms += map(tuple, texts.values())
        self._total_length += total

    def _remove(self, number: int) -> None:
        slot = self._slot_of.pop(number)
        for term in set(self._terms[slot]):
            posting = self._postings[term]
            posting.texts -= 1
            if not posting.texts:
                del self._postings[term]
        self._total_length -= self._lengths[slot]
        self._lengths[slot] = -1
        self._terms[slot] = ()
        if len(self._slot_of) < len(self._numbers) * (1 - _COMPACT_AT):
            self._compact()

    def _compact(self) -> None:
        """Renumber the slots, without the removed texts."""
        old_numbers, old_lengths, old_terms = self._numbers, self._lengths, self._terms
        new_slot: dict[int, int] = {}
        for slot, length in enumerate(old_lengths):
            if length >= 0:
                new_slot[slot] = len(new_slot)
        for posting in self._postings.values():
            remaining = [
                (new_slot[slot], count)
                for slot, count in zip(posting.slots, posting.counts, strict=True)
                if slot in new_slot
            ]
            posting.slots = array("i", [slot for slot, _ in remaining])
            posting.counts = array("i", [count for _, count in remaining])
        self._numbers = array("q", [old_numbers[slot] for slot in new_slot])
        self._lengths = array("i", [old_lengths[slot] for slot in new_slot])
        self._terms = [old_terms[slot] for slot in new_slot]
        self._slot_of = {number: slot for slot, number in enumerate(self._numbers)}


def _idf(texts: int, having: int) -> float:
    """Return the Robertson and Spärck Jones weight of a term in Lucene's form, which is never negative."""
    return math.log(1 + (texts - having + 0.5) / (having + 0.5))
