"""A collection of vectors that lives in a list, and ways to fill it."""

from dataclasses import dataclass, field

import numpy as np

from memory_core.vectors.vector_index import Revision, StoredVector


@dataclass
class ListSource:
    """A `VectorSource` without a database. Numbers only grow, as they do there."""

    collection: str = "session-1-recall-minilm"
    stored: dict = field(default_factory=dict)
    last_number: int = 0
    deleted: int = 0
    read_after: list = field(default_factory=list)
    """What `vectors` was asked for, call by call."""

    def revision(self):
        return Revision(len(self.stored), max(self.stored, default=0), self.deleted)

    def vectors(self, *, after=0):
        self.read_after.append(after)
        for number, vector in sorted(self.stored.items()):
            if number > after:
                yield StoredVector(number, vector)

    def add(self, *vectors):
        for vector in vectors:
            self.last_number += 1
            self.stored[self.last_number] = np.asarray(vector, dtype=np.float32)
        return self

    def delete(self, *numbers):
        for number in numbers:
            del self.stored[number]
            self.deleted += 1


def random_vectors(count, *, dim=32, seed=0):
    """Half of them loose, half in tight clusters, none of unit length: `(count, dim)`."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(8, dim))
    loose = random.normal(size=(count - count // 2, dim))
    tight = centres[random.integers(0, 8, count // 2)] + 0.05 * random.normal(size=(count // 2, dim))
    return random.permutation(np.concatenate([loose, tight])).astype(np.float32)


def queries(count, *, dim=32, seed=1):
    return list(random_vectors(count, dim=dim, seed=seed))
