"""Exact cosine similarity, by which every index ranks, even if its candidates come from an approximate search."""

import numpy as np
from numpy.typing import NDArray

from memory_core.errors import ConfigError, VectorIndexError
from memory_core.vectors.vector_index import Hit, StoredVector, Vector

SCORE_DECIMALS = 6
"""Decimals of a score: float32 vectors carry no more, and rounding makes equal texts tie however they were summed."""

_AT_ONCE = 8_192  # rows that are widened to float64 together: 25 MB of 384 dimensions

Numbers = NDArray[np.int64]
Rows = NDArray[np.float32]


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
