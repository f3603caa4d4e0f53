"""Search facts by meaning and by keyword, best first.

Reading changes nothing. Vectors of facts' texts are stored in the database by blocks that learned with them; others are
computed when first needed, and cached in this process.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from memory_core.errors import ConfigError, EmbedderError
from memory_core.messages import content_hash
from memory_core.models.protocols import Embedder, embedded
from memory_core.planning.fact_merging import STATES, Fact
from memory_core.planning.retrieval_plan import Signals, plan_retrieval
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.fact_rows import read_facts
from memory_core.store.vector_rows import read_word_vectors
from memory_core.vectors.keyword import KeywordIndex
from memory_core.vectors.vector_index import Vector

VECTOR_WEIGHT = 0.85
KEYWORD_WEIGHT = 0.15
"""Weights of vector and keyword score. Keywords weigh less, as a question rarely uses the words of its answer."""

THRESHOLD = 0.1
"""Minimum score, 0 to 1, of a result."""

MAX_REORDERED = 100
"""Number of best results that are reordered by contradiction (see `order_contradicted`) before `top_k` applies."""

_COMPARISONS = ("in", "ne", "gt", "gte", "lt", "lte", "prefix")
_FIELDS = (
    "state", "pinned", "origin", "category", "topics", "block", "turn", "created_at", "confirmed_at", "session", "key",
)  # fmt: skip
_METADATA = "metadata."
"""Prefix of a filter on a value in the caller's metadata, such as `metadata.address.city`."""


@dataclass(frozen=True, slots=True)
class FactHit:
    """A search result."""

    fact: Fact
    score: float
    """0 to 1: vector and keyword score combined, or the keyword score alone if nothing could be embedded."""
    vector: float | None
    """Cosine similarity, -1 to 1; None: nothing could be embedded."""
    keyword: float
    """Keyword score, 0 to 1."""


class WordVectors:
    """Cache of the vectors of one scope's facts under one embedder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[str, Vector] = {}

    def of(self, database: Database, scope: str, embedder: Embedder, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors by text: from the cache, from the database, or computed now.

        Raises:
            EmbedderError: the embedder does not answer.
        """
        hashes = {text: content_hash(text) for text in texts}
        with self._lock:
            vectors = {key: self._known[key] for key in hashes.values() if key in self._known}
        # Without the lock: an endpoint may take seconds, and computing a vector twice does no harm.
        if missing := set(hashes.values()) - vectors.keys():
            with database.read() as connection:
                vectors |= read_word_vectors(connection, scope, missing, embedder.id)
        if new := [text for text, key in hashes.items() if key not in vectors]:
            vectors |= {hashes[text]: vector for text, vector in zip(new, embedded(embedder, new), strict=True)}
        with self._lock:
            if len(self._known) > 1_000 + 4 * len(vectors):  # most entries belong to deleted facts
                self._known = {}
            self._known |= vectors
        return {text: vectors[key] for text, key in hashes.items()}


class Keywords:
    """Keyword index of the facts searched last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._texts: dict[int, str] = {}
        self._index = KeywordIndex()

    def search(self, facts: Sequence[Fact], query: str) -> dict[int, float]:
        """Return the score, 0 to 1, of each fact that shares a word with the query, by fact id."""
        texts = {fact.id: fact.text for fact in facts}
        with self._lock:
            # Only the difference to the last search is indexed anew.
            for id in self._texts.keys() - texts.keys():
                self._index.remove(id)
            self._index.add({id: text for id, text in texts.items() if self._texts.get(id) != text})
            self._texts = texts
            return {hit.number: hit.score for hit in self._index.search(query, limit=max(1, len(texts)))}


def word_vectors(
    services: Services, database: Database, scope: str, texts: Iterable[str], embedder: Embedder | None = None
) -> dict[str, Vector]:
    """Return the vectors by text. See `WordVectors.of`."""
    embedder = embedder or services.embedder
    cache = services.cached(("words", database.id, scope, embedder.id), WordVectors)
    return cache.of(database, scope, embedder, texts)


def rank_facts(
    facts: Sequence[Fact],
    query: str,
    *,
    database: Database,
    services: Services,
    top_k: int,
    threshold: float = THRESHOLD,
) -> list[FactHit]:
    """Return the facts that match the question, best first, at most `top_k`; of equal ones, the older fact first.

    Raises:
        ConfigError: `top_k` is below 1, or the threshold outside 0 to 1.
    """
    by_id = {fact.id: fact for fact in facts}
    scopes = sorted({fact.scope for fact in facts})
    keyword = services.cached(("keywords", database.id, *scopes), Keywords).search(facts, query)
    vector = _cosines(facts, query, database, services)
    plan = plan_retrieval(
        [Signals(fact.id, None if vector is None else vector[fact.id], keyword.get(fact.id, 0.0)) for fact in facts],
        top_k=top_k,
        threshold=threshold,
        in_queue=(),
        # Without vectors the keyword score alone is the match; its small weight would leave all below the threshold.
        vector_weight=0.0 if vector is None else VECTOR_WEIGHT,
        keyword_weight=KEYWORD_WEIGHT,
    )
    return [
        FactHit(by_id[c.number], c.score, c.vector, c.keyword or 0.0)
        for c in plan.candidates
        # A threshold of 0 would also let through what has nothing in common with the question.
        if c.outcome == "granted" and c.score > 0
    ]


def search_facts(
    query: str,
    places: Sequence[tuple[str, str]],
    *,
    database: Database,
    services: Services,
    top_k: int = 20,
    threshold: float = THRESHOLD,
    categories: Collection[str] | None = None,
    topics: Collection[str] | None = None,
    filters: Mapping[str, Any] | None = None,
    withheld: Collection[int] = (),
) -> list[FactHit]:
    """Search facts; see `Memory.facts.search`. `places` are scope and name of the blocks to search.

    `withheld` are ids of facts in quarantine.

    Raises:
        ConfigError: a filter is unknown, or `top_k` or `threshold` out of range.
    """
    wanted = dict(filters or {})
    _check(wanted)
    # A filter by state replaces the usual restriction to active facts.
    states = None if "state" in wanted else ("active",)
    facts: list[Fact] = []
    with database.read() as connection:
        for scope, block in places:
            facts += read_facts(connection, scope, block, states=states)
    facts = [
        fact
        for fact in facts
        if fact.id not in withheld
        and _any_among((fact.category,), categories)
        and _any_among(fact.topics, topics)
        and fits(fact, wanted)
    ]
    # Continue without facts, so that impossible numbers are refused for an empty question as well.
    if not query.strip():
        facts = []
    return rank_facts(facts, query, database=database, services=services, top_k=top_k, threshold=threshold)


def order_contradicted(hits: Sequence[FactHit], later: Mapping[int, int]) -> list[FactHit]:
    """Move each contradicted fact right behind the contradicting one; `later`: contradicting id by contradicted id."""
    by_id = {hit.fact.id: hit for hit in hits}
    ordered: dict[int, FactHit] = {}
    for hit in hits:
        # Follow the contradictions to the latest fact; a circular chain ends before it repeats a fact.
        chain = [hit.fact.id]
        while (after := later.get(chain[-1])) in by_id and after not in chain:
            chain.append(after)
        for id in reversed(chain):
            ordered.setdefault(id, by_id[id])
    return list(ordered.values())


def fits(fact: Fact, filters: Mapping[str, Any]) -> bool:
    """Return whether a fact passes the filters.

    A filter names a field and a value, several values, or comparisons.

    `{"pinned": True}`, `{"category": ["work", "plan"]}`, `{"turn": {"gte": 3, "lt": 9}}`, `{"session": "s"}` (a
    session that it was learned in), `{"key": {"prefix": "users/ada/"}}`, `{"metadata.address.city": "Faro"}` (any
    value of a list). At least one topic must match.

    Raises:
        ConfigError: there is no such field or comparison.
    """
    _check(filters)
    return all(_fits(_values(fact, name), wanted) for name, wanted in filters.items())


def _cosines(facts: Sequence[Fact], query: str, database: Database, services: Services) -> dict[int, float] | None:
    """Return the cosine similarity by fact id; None if nothing could be embedded."""
    if not facts:
        return {}
    # Vectors are stored by scope, so one query for each fetches them.
    scopes: dict[str, list[Fact]] = {}
    for fact in facts:
        scopes.setdefault(fact.scope, []).append(fact)
    try:
        embedder = services.embedder
        asked = embedded(embedder, [query])[0]
        scores: dict[int, float] = {}
        for scope, group in scopes.items():
            vectors = word_vectors(services, database, scope, {fact.text for fact in group}, embedder)
            rows = np.stack([vectors[fact.text] for fact in group])
            scores |= {fact.id: float(score) for fact, score in zip(group, rows @ asked, strict=True)}
    except EmbedderError:
        return None
    return scores


def _values(fact: Fact, name: str) -> tuple[Any, ...]:
    if name == "topics":
        return fact.topics
    if name == "session":
        return tuple({session for session, _ in fact.sources})
    if name.startswith(_METADATA):
        value: Any = fact.metadata
        for part in name.removeprefix(_METADATA).split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return tuple(value) if isinstance(value, list) else () if value is None else (value,)
    return (getattr(fact, name),)


def _fits(values: tuple[Any, ...], wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return all(_compares(values, how, other) for how, other in wanted.items())
    if isinstance(wanted, list | tuple | set | frozenset):
        return _any_among(values, wanted)
    return _any_among(values, (wanted,))


def _compares(values: tuple[Any, ...], how: str, other: Any) -> bool:
    if how == "in":
        return _any_among(values, other)
    if how == "ne":
        return not _any_among(values, (other,))
    if how == "prefix":
        return any(str(value).startswith(str(other)) for value in values if value is not None)
    try:
        return any({"gt": v > other, "gte": v >= other, "lt": v < other, "lte": v <= other}[how] for v in values)
    except TypeError as error:
        raise ConfigError(f"a filter cannot compare {values[0]!r} with {other!r}") from error


def _any_among(values: Iterable[Any], wanted: Collection[Any] | None) -> bool:
    """Return whether one of the values is wanted, ignoring case; None accepts all."""
    return wanted is None or any(_folded(value) == _folded(other) for value in values for other in wanted)


def _folded(value: Any) -> Any:
    return value.casefold() if isinstance(value, str) else value


def _check(filters: Mapping[str, Any]) -> None:
    for name, wanted in filters.items():
        if name not in _FIELDS and not name.startswith(_METADATA):
            fields = f"{', '.join(_FIELDS)}, {_METADATA}…"
            raise ConfigError(f"facts cannot be filtered by {name!r}: choose among {fields}")
        unknown = set(wanted) - set(_COMPARISONS) if isinstance(wanted, Mapping) else set()
        if unknown:
            raise ConfigError(f"a filter cannot compare by {sorted(unknown)[0]!r}: use {', '.join(_COMPARISONS)}")
    states = filters.get("state")
    for state in [states] if isinstance(states, str) else states if isinstance(states, list | tuple) else ():
        if state not in STATES:
            raise ConfigError(f"there is no state {state!r}: facts are {', '.join(STATES)}")
