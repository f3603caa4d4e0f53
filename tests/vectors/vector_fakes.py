"""A collection of vectors that lives in a list and notes what is read of it, and questions for it."""

from dataclasses import dataclass, field

from memory_inspector.checks import promises
from memory_inspector.checks.promises import random_vectors

__all__ = ["ListSource", "queries", "random_vectors"]


@dataclass
class ListSource(promises.ListSource):
    read_after: list = field(default_factory=list)
    """What `vectors` was asked for, call by call."""

    def vectors(self, *, after=0):
        self.read_after.append(after)
        return super().vectors(after=after)


def queries(count, *, dim=32, seed=1):
    return list(random_vectors(count, dim=dim, seed=seed))
