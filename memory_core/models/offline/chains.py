"""Join relations (sentences) where one begins with the words that end another, to answer multi-step questions."""

from collections.abc import Iterator, Sequence

MAX_JOINED = 300
"""Maximum number of joined sentences."""


def joined(relations: Sequence[str]) -> list[str]:
    """Return sentences of two or three relations each, wherever one continues another; sentences of three first.

    >>> joined(["Alice manages Project Alpha", "Project Alpha deadline March 2026"])
    ['Alice manages Project Alpha; Project Alpha deadline March 2026']
    """
    # Relations by their first word, so that no pair is compared that cannot follow.
    first_words: dict[str, list[str]] = {}
    for relation in dict.fromkeys(relations):
        if relation.strip():
            first_words.setdefault(relation.split()[0], []).append(relation)
    pairs = [
        (one, other) for several in first_words.values() for one in several for other in _following(one, first_words)
    ][:MAX_JOINED]
    # A relation may not occur twice in a chain, or two that name each other would go in a circle.
    triples = [
        (one, two, three) for one, two in pairs for three in _following(two, first_words) if three not in (one, two)
    ]
    return ["; ".join(chain) for chain in (*triples, *pairs)][:MAX_JOINED]


def _following(relation: str, first_words: dict[str, list[str]]) -> Iterator[str]:
    """Yield the relations that begin with the last words of `relation`."""
    words = relation.split()
    for length in range(len(words) - 2, 0, -1):  # subject and predicate precede the shared part
        for other in first_words.get(words[-length], ()):
            if other != relation and len(other.split()) > length and other.split()[:length] == words[-length:]:
                yield other
