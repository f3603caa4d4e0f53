"""Protocol of a vector index.

The vectors themselves are stored in the database, in *collections*. An index searches fast in copies of the
collections; it follows the database and can be deleted and rebuilt at any time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]


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


class VectorSource(Protocol):
    """Collection of vectors in the database, which an index copies."""

    @property
    def collection(self) -> str:
        """A stable name of 3 to 60 characters from `[a-z0-9-]`, different per scope, block and embedder."""
        ...

    def revision(self, *, since: Revision = EMPTY) -> Revision:
        """Return the present state. Given an earlier one, only what was added `since` need be counted."""
        ...

    def vectors(self, *, after: int = 0) -> Iterator[StoredVector]:
        """Return all vectors with a number above `after`, smallest number first."""
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
