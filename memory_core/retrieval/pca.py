"""A two-dimensional map of vectors: the two directions in which they differ most (principal components).

Pure numpy. Points close on the map need not be close in the original space: two numbers cannot hold what hundreds did;
`Projection.share` is the share of the variance they preserve.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Projection:
    """Projection of vectors of one dimension onto the plane."""

    centre: Points
    """Mean of the fitted vectors, `(dim,)`."""
    axes: Points
    """Two orthogonal unit rows, `(2, dim)`; a row is zero if the vectors have no further variance."""
    share: float
    """Share of the vectors' variance that the plane preserves, 0 to 1."""

    def points(self, rows: Rows) -> Points:
        """Return the coordinates `(n, 2)` of vectors `(n, dim)` on the map."""
        placed: Points = (np.asarray(rows, dtype=np.float64) - self.centre) @ self.axes.T
        return placed


def fit(rows: Rows) -> Projection:
    """Fit a map to vectors `(n, dim)`, n at least 1. Deterministic: the same vectors give the same map.

    An axis has no natural sign; the component with the largest weight is made positive.

    >>> line = fit(np.array([[0, 0], [3, 0], [6, 0]], dtype=np.float32))
    >>> line.points(np.array([[6, 0]], dtype=np.float32)).round(6).tolist()
    [[3.0, 0.0]]

    Raises:
        ValueError: there are no vectors.
    """
    if len(rows) == 0:
        raise ValueError("a map needs at least one vector")
    exact = np.asarray(rows, dtype=np.float64)
    centre = exact.mean(axis=0)
    centred = exact - centre
    # The smaller of the two products has the same eigenvalues as the covariance: much faster than a full SVD.
    wide = centred.shape[1] > centred.shape[0]
    values, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
    total = float(values.sum())
    axes = np.zeros((2, exact.shape[1]))
    variance = 0.0
    for place in range(min(2, len(values))):
        value, vector = float(values[-1 - place]), vectors[:, -1 - place]
        # Rounding leaves tiny eigenvalues where there is no variance, and their directions mean nothing.
        if value <= 1e-9 * total or total <= 0:
            break
        # From an eigenvector of the smaller product to that of the covariance.
        axis = centred.T @ vector if wide else vector
        axis = axis / np.linalg.norm(axis)
        axes[place] = axis * np.sign(axis[np.argmax(np.abs(axis))])
        variance += value
    return Projection(centre, axes, variance / total if total > 0 else 1.0)


def thin(numbers: Sequence[int], most: int, *, keep: Collection[int] = ()) -> list[int]:
    """Sample at most `most` of the numbers, evenly along their order, keeping those in `keep` first.

    >>> thin(range(10), 4, keep=[9])
    [0, 3, 6, 9]

    Raises:
        ValueError: `most` is below 1.
    """
    if most < 1:
        raise ValueError(f"must be at least 1: {most=}")
    if len(numbers) <= most:
        return list(numbers)
    wanted = set(keep)
    # First those in `keep`, at most `most` of them; the others share the remaining number.
    drawn = [number for number in numbers if number in wanted][:most]
    rest = [number for number in numbers if number not in wanted]
    room = most - len(drawn)
    evenly = [rest[place * len(rest) // room] for place in range(room)]
    chosen = {*drawn, *evenly}
    return [number for number in numbers if number in chosen]
