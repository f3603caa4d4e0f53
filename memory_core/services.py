"""What blocks lean on where nothing else was given: the local models and the vector index.

Everything slow to load is made when it is first needed, once per `Services`.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TypeVar

from memory_core.models.base import Embedder, FactExtractor
from memory_core.store.messages import MessageCache
from memory_core.vectors.base import VectorIndex
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.keyword import KeywordIndex

Made = TypeVar("Made")

MOST_KEYWORD_INDEXES = 32
"""Keyword indexes kept in a process, the last used ones."""


class Services:
    """The defaults of one process; pass your own objects to replace them."""

    def __init__(
        self,
        *,
        index: VectorIndex | str | Path | None = None,
        embedder: Embedder | None = None,
        extractor: FactExtractor | None = None,
    ) -> None:
        self._index = index
        self._embedder = embedder
        self._extractor = extractor
        self._lock = Lock()
        self._keywords: OrderedDict[str, KeywordIndex] = OrderedDict()
        self.messages = MessageCache()
        self.exact = ExactIndex()
        """Searches the database's own vectors when the index does not answer."""

    def with_extractor(self, extractor: FactExtractor) -> "Services":
        """The same services with another extractor; everything loaded is shared."""
        other = copy.copy(self)
        other._extractor = extractor
        return other

    @property
    def index(self) -> VectorIndex:
        """Where vectors are searched."""
        with self._lock:
            if self._index is None or isinstance(self._index, str | Path):
                from memory_core.vectors import open_index

                self._index = open_index(self._index)
            return self._index

    @property
    def embedder(self) -> Embedder:
        with self._lock:
            if self._embedder is None:
                from memory_core.models.embedding import MiniLMEmbedder

                self._embedder = MiniLMEmbedder()
            return self._embedder

    @property
    def extractor(self) -> FactExtractor:
        with self._lock:
            if self._extractor is None:
                from memory_core.models.rules import RuleExtractor

                self._extractor = RuleExtractor()
            return self._extractor

    def keywords(self, collection: str, make: Callable[[], KeywordIndex]) -> KeywordIndex:
        """The keyword index of a collection, made when it is first asked for."""
        with self._lock:
            index = self._keywords.pop(collection, None) or make()
            self._keywords[collection] = index
            while len(self._keywords) > MOST_KEYWORD_INDEXES:
                self._keywords.popitem(last=False)
            return index
