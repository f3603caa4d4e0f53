"""An exact scan over the vectors in the database, kept in memory: no service, no approximation.

The scan is as fast as Chroma up to some 50,000 vectors per collection, and the reference for every other index.
"""

from collections import OrderedDict
from collections.abc import Collection
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_core.process import collector_paused
from memory_core.vectors.vector_index import (
    EMPTY,
    Hit,
    Numbers,
    Revision,
    Rows,
    StoredVector,
    Vector,
    VectorSource,
    check_dimension,
    check_search,
    rank,
    similarities,
    stack,
    worth_keeping,
)

MAX_COLLECTIONS = 16
"""Maximum collections kept in memory; the least recently used is dropped first."""

MAX_BYTES = 512 * 1024 * 1024
"""Maximum bytes of vectors kept in memory, over all collections; the collection just used always stays."""

_SLACK = 1e-4
"""Maximum error of a float32 cosine over some thousand dimensions; closer candidates are compared exactly."""


def only_grew(before: Revision, now: Revision) -> bool:
    """Return whether a copy at revision `before` is up to date after adding newer vectors, as none were deleted."""
    return now.deleted == before.deleted and now.count >= before.count and now.last_number >= before.last_number


class ExactIndex:
    """Exact scan of a copy of each collection in memory, which follows the database. Thread-safe."""

    name = "exact scan"

    def __init__(self, *, max_collections: int = MAX_COLLECTIONS, max_bytes: int = MAX_BYTES) -> None:
        self._max_collections = max_collections
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._copies: OrderedDict[str, _ExactCopy] = OrderedDict()  # the one used last comes last

    def search(self, source: VectorSource, query: Vector, *, limit: int) -> list[Hit]:
        """See `VectorIndex.search`."""
        check_search(query, limit)
        numbers, rows, lengths = self._copy(source).caught_up(source)
        self._make_room()
        if not len(numbers):
            return []
        check_dimension(query, rows.shape[1])
        # The fast scan returns all rows that may be among the nearest; only these are ranked exactly.
        near = _nearest(rows, lengths, query, limit)
        return rank(numbers[near], rows[near], query)[:limit]

    def score(self, source: VectorSource, query: Vector, numbers: Collection[int]) -> list[Hit]:
        """Return the cosine similarity of the query to the vectors with these numbers; unknown numbers are omitted.

        Raises:
            VectorIndexError: the query has another dimension than the stored vectors.
        """
        if not numbers:
            return []
        stored_numbers, rows, _ = self._copy(source).caught_up(source)
        if not len(stored_numbers):
            return []
        check_dimension(query, rows.shape[1])
        wanted = np.array(sorted(numbers), dtype=np.int64)
        # Stored numbers ascend. Those beyond the last one are clipped to it, and dropped by the comparison.
        places = np.minimum(np.searchsorted(stored_numbers, wanted), len(stored_numbers) - 1)
        positions = places[stored_numbers[places] == wanted]
        return rank(stored_numbers[positions], rows[positions], query)

    def load(self, source: VectorSource) -> None:
        """Read the stored vectors ahead of the next search."""
        self._copy(source).caught_up(source)
        self._make_room()

    def scores(self, source: VectorSource, query: Vector) -> tuple[Numbers, NDArray[np.float64]]:
        """Return the numbers `(n,)` and cosine similarities `(n,)` of all vectors, unsorted.

        Raises:
            VectorIndexError: the query has another dimension than the stored vectors.
        """
        numbers, rows, _ = self._copy(source).caught_up(source)
        if len(numbers):
            check_dimension(query, rows.shape[1])
        return numbers, similarities(rows, query)

    def forget(self, collection: str) -> None:
        with self._lock:
            self._copies.pop(collection, None)

    def check(self) -> None:
        """Do nothing: the scan is always available."""

    def close(self) -> None:
        """Free the memory; the next search reads the database again."""
        with self._lock:
            self._copies.clear()

    def _copy(self, source: VectorSource) -> "_ExactCopy":
        with self._lock:
            copy = self._copies.setdefault(source.collection, _ExactCopy())
            self._copies.move_to_end(source.collection)
            return copy

    def _make_room(self) -> None:
        with self._lock:
            total = sum(copy.size for copy in self._copies.values())
            while len(self._copies) > 1 and (len(self._copies) > self._max_collections or total > self._max_bytes):
                _, oldest = self._copies.popitem(last=False)
                total -= oldest.size


class _ExactCopy:
    """Copy of a collection in memory.

    The arrays only grow at their end, so slices passed to a search stay valid while vectors are appended.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._revision = EMPTY
        self._kept = 0
        """Number of vectors in the file."""
        self._begun = True
        self._clear()

    @property
    def size(self) -> int:
        """Bytes of the vectors."""
        return self._rows.nbytes

    def caught_up(self, source: VectorSource) -> tuple[Numbers, Rows, NDArray[np.float32]]:
        """Return the numbers `(n,)`, vectors `(n, dim)` and their lengths `(n,)` as the database has them now."""
        with self._lock:
            if self._revision == EMPTY:
                self._load(source)
            revision = source.revision(since=self._revision)
            if revision != self._revision:
                with collector_paused():
                    self._follow(source, revision)
            self._keep(source)
            return self._numbers[: self._count], self._rows[: self._count], self._lengths[: self._count]

    def _follow(self, source: VectorSource, revision: Revision) -> None:
        known_revision, self._revision = self._revision, EMPTY  # should reading fail, the next search starts afresh
        if known_revision == EMPTY or not only_grew(known_revision, revision):
            self._clear()
        self._append(source, revision.count)
        if self._count != revision.count:  # another version, or written to meanwhile: read all of it again
            self._clear()
            self._append(source, revision.count)
        if self._count == revision.count:
            self._revision = revision
        # otherwise the database changed between two reads: answer with the first, look again next time

    def _clear(self) -> None:
        self._count = 0
        self._numbers: Numbers = np.empty(0, dtype=np.int64)
        self._rows: Rows = np.empty((0, 0), dtype=np.float32)
        self._lengths: NDArray[np.float32] = np.empty(0, dtype=np.float32)

    def _load(self, source: VectorSource) -> None:
        loaded = source.file.load() if source.file is not None else None
        if loaded is not None:
            self._revision, _, arrays = loaded
            self._numbers, self._rows, self._lengths = arrays["numbers"], arrays["rows"], arrays["lengths"]
            self._count = self._kept = self._revision.count

    def _keep(self, source: VectorSource) -> None:
        file, revision, end = source.file, self._revision, self._count
        if file is not None and worth_keeping(revision.count, self._kept, begun=self._begun):
            arrays: dict[str, NDArray[Any]] = {
                "numbers": self._numbers[:end],
                "rows": self._rows[:end],
                "lengths": self._lengths[:end],
            }
            file.keep(revision, {}, arrays, lambda _: source.revision(since=revision))
            self._kept = revision.count
        self._begun = False

    def _append(self, source: VectorSource, expected: int) -> None:
        """Read the vectors with higher numbers than these; `expected` is the number of all."""
        after = int(self._numbers[self._count - 1]) if self._count else 0
        for numbers, rows in source.arrays(after=after):
            if self._count and rows.shape[1] != self._rows.shape[1]:
                stack([*map(StoredVector, numbers.tolist(), rows)], self._rows.shape[1])  # raises
            end = self._count + len(numbers)
            if end > len(self._numbers):
                # With room for more, so that growing batch by batch copies each vector only a few times. What is empty
                # takes no memory yet.
                self._grow(max(end, expected + expected // 8, 2 * self._count), rows.shape[1])
            self._numbers[self._count : end] = numbers
            self._rows[self._count : end] = rows
            self._lengths[self._count : end] = np.sqrt(np.einsum("ij,ij->i", rows, rows))  # without squares in memory
            self._count = end

    def _grow(self, capacity: int, dim: int) -> None:
        numbers, rows, lengths = self._numbers, self._rows, self._lengths
        self._numbers = np.empty(capacity, dtype=np.int64)
        self._rows = np.empty((capacity, dim), dtype=np.float32)
        self._lengths = np.empty(capacity, dtype=np.float32)
        self._numbers[: self._count] = numbers[: self._count]
        self._lengths[: self._count] = lengths[: self._count]
        if self._count:
            self._rows[: self._count] = rows[: self._count]


def _nearest(rows: Rows, lengths: NDArray[np.float32], query: Vector, limit: int) -> NDArray[np.intp]:
    """Return the positions of all rows that may be among the `limit` nearest, by a fast float32 scan."""
    if limit >= len(rows):
        return np.arange(len(rows))
    unit = query.astype(np.float32) / (np.linalg.norm(query) or 1.0)
    cosines = np.divide(rows @ unit, lengths, out=np.zeros(len(rows), dtype=np.float32), where=lengths > 0)
    least = np.partition(cosines, -limit)[-limit]
    return np.flatnonzero(cosines >= least - _SLACK)
