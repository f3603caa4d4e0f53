"""Promises of a vector index, tried on random vectors against the exact scan."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memory_core.errors import ConfigError, VectorIndexError
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.vector_index import (
    EMPTY,
    Hit,
    Numbers,
    Revision,
    Rows,
    StoredVector,
    Vector,
    VectorIndex,
    stack,
)
from memory_inspector.checks.conformance import Conformance, check_promises, name_of

SCORE_ERROR = 1.1e-6
"""Largest difference to the exact score: one step of its rounding."""


@dataclass
class ListSource:
    """A `VectorSource` without a database. Numbers only grow, as they do there."""

    collection: str = "session-1-recall-minilm"
    stored: dict[int, Vector] = field(default_factory=dict)
    last_number: int = 0
    deleted: int = 0
    file: None = None

    def revision(self, *, since: Revision = EMPTY) -> Revision:
        return Revision(len(self.stored), max(self.stored, default=0), self.deleted)

    def vectors(self, *, after: int = 0) -> Iterator[StoredVector]:
        return (StoredVector(number, vector) for number, vector in sorted(self.stored.items()) if number > after)

    def arrays(self, *, after: int = 0) -> Iterator[tuple[Numbers, Rows]]:
        return (stack([one], None) for one in self.vectors(after=after))

    def numbers(self) -> Sequence[int]:
        return list(self.stored)

    def some(self, numbers: Sequence[int]) -> list[StoredVector]:
        return [StoredVector(number, self.stored[number]) for number in sorted(numbers) if number in self.stored]

    def add(self, *vectors: ArrayLike) -> "ListSource":
        for vector in vectors:
            self.last_number += 1
            self.stored[self.last_number] = np.asarray(vector, dtype=np.float32)
        return self

    def delete(self, *numbers: int) -> None:
        for number in numbers:
            del self.stored[number]
            self.deleted += 1


def random_vectors(count: int, *, dim: int = 32, seed: int = 0) -> NDArray[np.float32]:
    """Return vectors `(count, dim)`, half of them loose, half in tight clusters, none of unit length."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(8, dim))
    loose = random.normal(size=(count - count // 2, dim))
    tight = centres[random.integers(0, 8, count // 2)] + 0.05 * random.normal(size=(count // 2, dim))
    return random.permutation(np.concatenate([loose, tight])).astype(np.float32)


def check_vector_index(make: Callable[[], VectorIndex], *, recall: float = 1.0) -> Conformance:
    """Check a vector index against its promises, and print the result.

    `make` opens the index, in the same folder or server each time if it has one; what the check stores there is dropped
    again. `recall` is the share of the nearest vectors that the index finds at least.

    Raises:
        AssertionError: a promise is broken; it holds the result.
    """
    __tracebackhide__ = True
    return check_promises(name_of(make), IndexPromises, make, recall)


@dataclass
class IndexPromises:
    """Promises of a vector index."""

    folder: Path
    opened: ExitStack
    make: Callable[[], VectorIndex]
    recall: float

    def __post_init__(self) -> None:
        self.index = self.make()
        self.index.check()
        self.opened.callback(self._close)

    def ranks_like_the_exact_scan(self) -> None:
        """Hits come best first with their exact cosine, ties by number, among them the nearest to the stated recall."""
        source = self._source(600).add(np.zeros(32))
        source.add(*[source.stored[7]] * 20)
        for limit in (1, 8, 1_000):
            self._compare(source, limit)
            for hits, exact in self._searches(source, limit):
                ranked = sorted(hits, key=lambda hit: (-hit.score, hit.number))
                assert hits == ranked, f"The order is {hits[:5]}, and by score {ranked[:5]}."
                wrong = [hit for hit in hits if abs(hit.score - exact[hit.number]) > SCORE_ERROR]
                assert not wrong, f"It returned {wrong[0]}, which scores {exact[wrong[0].number]}."

    def follows_its_source(self) -> None:
        """Vectors that were added are hits of the next search, once each, and deleted ones are none any more."""
        source = self._source(60)
        self._compare(source)
        for number in (60, 3, 30):
            source.delete(number)
            self._compare(source.add(*random_vectors(5, seed=number)), 100)
            self._compare(source, 100)
        source.delete(*source.stored.copy())
        hits = self.index.search(source, random_vectors(1)[0], limit=3)
        assert hits == [], f"After everything was deleted it has {hits}."

    def keeps_collections_apart(self) -> None:
        """Collections whose vectors have the same numbers are searched apart, also when one of them changes."""
        one, two = self._source(), self._source(seed=2)
        for _ in range(2):
            self._compare(one)
            self._compare(two)
            two.delete(min(two.stored))

    def keeps_models_apart(self) -> None:
        """Collections of two embedding models are searched side by side, and no collection takes vectors of both."""
        small, large = self._source(dim=8), self._source(dim=48)
        for source in (small, large, small):
            self._compare(source)
        self._assert_refused(self._source(3, dim=8).add(large.stored[1]), small.stored[1])

    def refuses_impossible_questions(self) -> None:
        """A question of other dimensions, without numbers or without results is refused, and the next one answered."""
        source, query = self._source(), random_vectors(1)[0]
        for impossible in (query[:4], np.append(query, query), query * np.nan, query.reshape(1, -1)):
            self._compare(source)
            self._assert_refused(source, impossible)
        self._assert_refused(source, query, limit=0)

    def forgets_collections(self) -> None:
        """A forgotten collection is read anew from its source, others stay, and one that was never seen is no error."""
        one, two = self._source(50), self._source(50, seed=2)
        self._compare(one)
        self._compare(two)
        for name in (one.collection, one.collection, f"{one.collection}-x"):
            self.index.forget(name)
        one.stored = self._source(50, seed=3).stored
        self._compare(one)
        self._compare(two)

    def reopens(self) -> None:
        """An index can be closed twice, and after reopening it answers with what its source holds by then."""
        source = self._source()
        for number in (3, 300):
            self._compare(source)
            self._close()
            self._close()
            source.delete(number)
            self.index = self.make()
        self._compare(source, 1_000)

    def _close(self) -> None:
        getattr(self.index, "close", lambda: None)()

    def _source(self, count: int = 300, *, seed: int = 0, dim: int = 32) -> ListSource:
        """Return a collection of its own, which the index forgets after the check."""
        source = ListSource(f"conformance-{uuid4().hex}").add(*random_vectors(count, dim=dim, seed=seed))
        self.opened.callback(lambda: self.index.forget(source.collection))
        return source

    def _searches(self, source: ListSource, limit: int) -> Iterator[tuple[list[Hit], dict[int, float]]]:
        """Yield the hits of some questions, with the exact scores of all vectors, nearest first."""
        for query in random_vectors(12, dim=len(next(iter(source.stored.values()))), seed=1):
            exact = ExactIndex().search(source, query, limit=len(source.stored))
            yield self.index.search(source, query, limit=limit), {hit.number: hit.score for hit in exact}

    def _compare(self, source: ListSource, limit: int = 8) -> None:
        """Assert that hits are vectors of the collection, once each, and the nearest to the stated recall."""
        near = wanted = 0
        for hits, exact in self._searches(source, limit):
            numbers, nearest = [hit.number for hit in hits], list(exact)[:limit]
            assert len(set(numbers)) == len(hits) <= limit, f"Asked for {limit}, it returned {numbers[: limit + 9]}."
            strange = set(numbers) - set(exact)
            assert not strange, f"It returned vectors that the collection does not hold: {sorted(strange)[:5]}."
            near, wanted = near + len(set(nearest) & set(numbers)), wanted + len(nearest)
        assert near >= self.recall * wanted, f"Of the {wanted} nearest vectors it returned {near}."

    def _assert_refused(self, source: ListSource, query: Vector, limit: int = 3) -> None:
        try:
            hits = self.index.search(source, query, limit=limit)
        except (VectorIndexError, ConfigError):
            return
        raise AssertionError(f"Asked for {limit} with a query of the shape {query.shape}, it answered {hits}.")
