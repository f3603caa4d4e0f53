"""Vectors of units that are not stored yet, such as those of the queue, for searching them like stored ones."""

from collections.abc import Mapping, Sequence
from threading import Lock

from memory_core.messages import content_hash
from memory_core.models.protocols import Embedder, embedded
from memory_core.store.message_rows import StoredMessage
from memory_core.vectors.vector_index import Vector

PendingUnits = Mapping[int, Sequence[StoredMessage]]
"""Units by id, in conversation order, after all stored ones. Their ids are negative, or above any stored id."""


class PendingVectors:
    """Cache of the vectors of unsaved units, each embedded when first searched.

    Thread-safe. Only the vectors of the last search are kept.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vectors: dict[tuple[str, str], Vector] = {}

    def of(self, words: Sequence[str], embedder: Embedder) -> list[Vector]:
        keys = [(embedder.id, content_hash(text)) for text in words]
        with self._lock:
            missing = {key: text for key, text in zip(keys, words, strict=True) if key not in self._vectors}
            vectors = dict(self._vectors)
            if missing:
                vectors.update(zip(missing, embedded(embedder, list(missing.values())), strict=True))
            self._vectors = {key: vectors[key] for key in keys}
        return [vectors[key] for key in keys]

    def clear(self) -> None:
        with self._lock:
            self._vectors = {}
