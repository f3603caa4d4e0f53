"""Protocol of a vector index.

The vectors themselves are stored in the database, in *collections*. An index searches fast in copies of the
collections; it follows the database and can be deleted and rebuilt at any time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError, VectorIndexError

Vector = NDArray[np.float32]
Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class StoredVector:
    """Vector as the database holds it; `number` is unique within its collection and only grows."""

    number: int
    vector: Vector


@dataclass(frozen=True, slots=True)
class Revision:
    """State of a collection of vectors; it differs after every addition and deletion."""

    count: int
    last_number: int
    deleted: int
    """Number of vectors deleted from the collection so far."""


EMPTY = Revision(count=0, last_number=0, deleted=0)


@dataclass(frozen=True, slots=True)
class Hit:
    """A stored vector near the query."""

    number: int
    score: float
    """Cosine similarity, -1 to 1: larger is closer."""


LEAST_KEPT = 2_000
"""Vectors or units below which reading the database is as quick as a file."""


def worth_keeping(count: int, kept: int, *, begun: bool) -> bool:
    """Return whether so many are worth a new file, where the one there is has `kept` of them.

    `begun`: this process has just begun, and the next one would have to read as much as it did.
    """
    return count >= LEAST_KEPT and (count - kept) * (50 if begun else 4) > count


class KeptFile(Protocol):
    """File of what was derived from a collection, for the next process."""

    def load(self) -> tuple[Revision, Mapping[str, Any], Mapping[str, NDArray[Any]]] | None:
        """Return revision, notes and arrays as they were kept; None if there are none that fit the database."""
        ...

    def keep(
        self,
        revision: Revision,
        notes: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        now: Callable[[Any], Revision],
    ) -> bool:
        """Keep arrays of a revision, unless it has changed `now`, which is given a connection."""
        ...


class VectorSource(Protocol):
    """Collection of vectors in the database, which an index copies."""

    @property
    def collection(self) -> str:
        """A stable name of 3 to 60 characters from `[a-z0-9-]`, different per scope, block and embedder."""
        ...

    @property
    def file(self) -> KeptFile | None:
        """File of a copy of the collection; None: no copy is kept."""
        ...

    def revision(self, *, since: Revision = EMPTY) -> Revision:
        """Return the present state. Given an earlier one, only what was added `since` need be counted."""
        ...

    def vectors(self, *, after: int = 0) -> Iterator[StoredVector]:
        """Return all vectors with a number above `after`, smallest number first."""
        ...

    def arrays(self, *, after: int = 0) -> Iterator[tuple[Numbers, Rows]]:
        """Return the same as numbers `(n,)` and vectors `(n, dim)`, many at a time.

        Raises:
            VectorIndexError: vectors differ in dimension.
        """
        ...

    def numbers(self) -> Sequence[int]:
        """Return the numbers of all vectors, in any order."""
        ...

    def some(self, numbers: Sequence[int]) -> list[StoredVector]:
        """Return the vectors with these numbers, smallest number first; unknown numbers are left out."""
        ...


class VectorIndex(Protocol):
    """Index that finds the nearest vectors of a collection."""

    @property
    def name(self) -> str:
        """Display name: `Chroma at localhost:8000`, `exact scan`, ..."""
        ...

    def search(self, source: VectorSource, query: Vector, *, limit: int) -> list[Hit]:
        """Return up to `limit` hits, best first, ties by number, after catching up with the source.

        Raises:
            VectorIndexError: the index cannot be reached or read.
        """
        ...

    def forget(self, collection: str) -> None:
        """Drop the copy of a collection, if any."""
        ...

    def check(self) -> None:
        """Raise `VectorIndexError` unless the index answers."""
        ...


# -- exact cosine similarity, by which every index ranks, even if its candidates come from an approximate search


SCORE_DECIMALS = 6
"""Decimals of a score: float32 vectors carry no more, and rounding makes equal texts tie however they were summed."""

_AT_ONCE = 8_192  # rows that are widened to float64 together: 25 MB of 384 dimensions


def rank(numbers: Numbers, rows: Rows, query: Vector) -> list[Hit]:
    """Return all rows `(n, dim)` scored against the query `(dim,)`, best first, ties by number."""
    scores = similarities(rows, query)
    order = np.lexsort((numbers, -scores))
    return [Hit(number, score) for number, score in zip(numbers[order].tolist(), scores[order].tolist(), strict=True)]


def similarities(rows: Rows, query: Vector) -> NDArray[np.float64]:
    """Cosines `(n,)` of rows `(n, dim)` with the query `(dim,)`; a zero vector scores 0."""
    wanted = query.astype(np.float64)
    scores = np.zeros(len(rows))
    for start in range(0, len(rows), _AT_ONCE):
        exact = rows[start : start + _AT_ONCE].astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(wanted)
        cosines = np.divide(exact @ wanted, lengths, out=np.zeros(len(exact)), where=lengths > 0)
        scores[start : start + _AT_ONCE] = np.round(cosines, SCORE_DECIMALS) + 0.0  # no negative zero
    return scores


def check_search(query: Vector, limit: int) -> None:
    """Refuse a search that cannot be answered.

    Raises:
        ConfigError: `limit` is below 1.
        VectorIndexError: the query is not one vector of finite numbers.
    """
    if limit < 1:
        raise ConfigError(f"A vector search must ask for at least 1 result: {limit=}")
    if query.ndim != 1 or not query.size or not np.isfinite(query).all():
        raise VectorIndexError("The query is not a vector of finite numbers. Check the embedding model.")


def check_dimension(query: Vector, dim: int) -> None:
    """Raise `VectorIndexError` unless the query has as many dimensions as the stored vectors."""
    if len(query) != dim:
        raise VectorIndexError(
            f"The query has {len(query)} dimensions and the stored vectors have {dim}: "
            "they come from different embedding models. Index the messages again with the present one."
        )


def stack(batch: list[StoredVector], dim: int | None) -> tuple[Numbers, Rows]:
    """Return a non-empty batch as numbers `(n,)` and vectors `(n, dim)`; `dim` None: as many as the first vector has.

    Raises:
        VectorIndexError: a vector differs in dimension from the others or is not finite.
    """
    dim = len(batch[0].vector) if dim is None else dim
    for stored in batch:
        if stored.vector.shape != (dim,):
            raise VectorIndexError(
                f"Vector {stored.number} has {stored.vector.size} dimensions and its collection has {dim}: "
                "they come from different embedding models. Index the messages again."
            )
    rows = np.stack([stored.vector for stored in batch]).astype(np.float32, copy=False)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        number = batch[int(np.argmin(finite))].number
        raise VectorIndexError(f"Vector {number} holds values that are no numbers. Index its message again.")
    return np.array([stored.number for stored in batch], dtype=np.int64), rows
