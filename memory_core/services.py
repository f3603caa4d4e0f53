"""Default dependencies of blocks: local models and the vector index, loaded lazily.

Everything slow to load is created on first use, once per `Services`.
"""

import copy
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TypeVar, cast

from memory_core.argument_checks import coerce_to_protocol
from memory_core.models.protocols import ChatModel, Embedder, FactDecider, FactExtractor, RelationExtractor, Summariser
from memory_core.store.database import Database
from memory_core.store.message_rows import MessageCache
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.pgvector import PgvectorIndex
from memory_core.vectors.vector_index import VectorIndex

Made = TypeVar("Made")

MAX_REMEMBERED = 96
"""Maximum number of cached objects per process, least recently used evicted first; a block can always recreate them."""


class Services:
    """Models and index of one process; a context manager that closes them. Objects passed in replace the defaults."""

    def __init__(
        self,
        *,
        index: VectorIndex | str | Path | None = None,
        embedder: Embedder | None = None,
        extractor: FactExtractor | None = None,
    ) -> None:
        # An address or a folder is opened at the first use; only an object can be checked now.
        if not isinstance(index, str | Path):
            index = coerce_to_protocol("index", index, VectorIndex)
        self._index = self._given_index = index
        self._embedder: Embedder | None = coerce_to_protocol("embedder", embedder, Embedder)
        # Set only if given: a set attribute would hide the property that makes the default.
        coerce_to_protocol("extractor", extractor, FactExtractor)
        if extractor is not None:
            self.extractor = extractor
        self._base: Services | None = None
        self.records_learners = True
        """True if these models are recorded as the learners of their sessions for every later process. False for models
        that a user only tries in a browser tab."""
        self._lock = Lock()
        self._remembered: OrderedDict[tuple[Hashable, ...], object] = OrderedDict()
        self.messages = MessageCache()
        self._pgvector: weakref.WeakKeyDictionary[Database, PgvectorIndex] = weakref.WeakKeyDictionary()
        self.exact = ExactIndex()
        """Index that searches the database's own vectors: for explanations, and when `index` does not respond."""
        self.executor: Executor | None = None
        """Executor that serves and reads blocks; None: threads of this process. The simulator sets it, and `sleep`."""
        self.sleep: Callable[[float], object] | None = None

    def with_extractor(self, extractor: FactExtractor) -> "Services":
        """Return a copy of these services with another extractor; everything loaded is shared."""
        other = copy.copy(self)
        other.extractor = extractor
        # Index and embedder come from the original, so that all copies share them once one has opened them.
        other._base = self._base or self
        return other

    def with_chat(self, chat: ChatModel) -> "Services":
        """Return a copy of these services that learns with a chat model: facts, decisions, summaries and relations."""
        from memory_core.models.deciding import ModelDecider
        from memory_core.models.extraction import ModelExtractor
        from memory_core.models.relating import ModelRelations
        from memory_core.models.summarising import ModelSummariser

        chat = coerce_to_protocol("chat", chat, ChatModel)
        other = self.with_extractor(ModelExtractor(chat))
        other.decider = ModelDecider(chat)
        other.summariser = ModelSummariser(chat)
        other.relations = ModelRelations(chat)
        return other

    def close(self) -> None:
        """Close the vector index if it is open; it reopens on the next use.

        A copy (`with_extractor`, `with_chat`) closes nothing, as the index belongs to the original.
        """
        if self._base is not None:
            return
        with self._lock:
            # Swapped under the lock but closed outside of it, as closing may wait for a server.
            indexes = [self._index, *self._pgvector.values()]
            self._index = self._given_index
            self._pgvector.clear()
        for index in indexes:
            close = getattr(index, "close", None)  # a custom index may have none
            if callable(close):
                close()

    def __enter__(self) -> "Services":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def index_of(self, database: Database) -> VectorIndex:
        """Return the index in which a database's vectors are searched: pgvector on PostgreSQL unless one was given."""
        if self._base is not None:
            return self._base.index_of(database)
        if database.is_sqlite or self._given_index is not None:
            return self.index
        with self._lock:
            index = self._pgvector.get(database)
            if index is None:
                # By a weak reference, as the dictionary would otherwise keep every database.
                index = self._pgvector[database] = PgvectorIndex(weakref.proxy(database), exact=self.exact)
            return index

    @property
    def index(self) -> VectorIndex:
        """The index that was given, or the exact scan; that of a database is `index_of`."""
        if self._base is not None:
            return self._base.index
        with self._lock:
            if self._index is None or isinstance(self._index, str | Path):
                from memory_core.vectors import open_index

                self._index = open_index(self._index)
            return self._index

    @property
    def embedder(self) -> Embedder:
        if self._base is not None:
            return self._base.embedder
        with self._lock:
            if self._embedder is None:
                from memory_core.models.embedding import MiniLMEmbedder

                self._embedder = MiniLMEmbedder()
            return self._embedder

    @cached_property
    def extractor(self) -> FactExtractor:
        from memory_core.models.offline.fact_extraction import RuleExtractor

        return RuleExtractor()

    @cached_property
    def decider(self) -> FactDecider:
        from memory_core.models.deciding import RuleDecider

        return RuleDecider()

    @cached_property
    def summariser(self) -> Summariser:
        from memory_core.models.summarising import RuleSummariser

        return RuleSummariser()

    @cached_property
    def relations(self) -> RelationExtractor:
        from memory_core.models.relating import RuleRelations

        return RuleRelations()

    def cached(self, key: tuple[Hashable, ...], make: Callable[[], Made]) -> Made:
        """Return the object cached in this process under a key, created on first use.

        The first item of a key is its type (`"history"`), the others its owner; a tuple, since names joined into one
        text could collide with another owner's.
        """
        with self._lock:
            # Taken out and put back at the end: the order of the dictionary is that of use.
            value = self._remembered.pop(key) if key in self._remembered else make()
            self._remembered[key] = value
            while len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)
            return cast(Made, value)
