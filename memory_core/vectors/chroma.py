"""Chroma index: a copy of the database's vectors that follows the database and can be rebuilt.

Each collection of vectors is copied to a collection in Chroma, whose metadata name the revision of the copy; it is
compared with the database's before each search. Chroma's search is approximate (HNSW), so it only finds candidates:
`ranking.rank` scores their vectors as in the exact scan. Chroma's own distances are float32 sums, measured as 6e-7
off, so equal texts would not tie. The exact scan answers if the approximation could change the result, because Chroma
returned too few vectors or the limit falls within a tie, and if all vectors are requested.
"""

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import Any

import numpy as np

from memory_core.errors import ConfigError, VectorIndexError
from memory_core.vectors.chroma_client import Folder, Server, was_reached
from memory_core.vectors.exact import ExactIndex, only_grew
from memory_core.vectors.vector_index import (
    EMPTY,
    Hit,
    Revision,
    Vector,
    VectorSource,
    check_dimension,
    check_search,
    rank,
    stack,
)

PREFIX = "memory-inspector."
"""Prefix of each collection's name, so that collections of other applications on a server are left alone."""

EF_SEARCH = 4_000
"""HNSW's `ef_search`: collections up to this size are, in effect, searched whole.

Recall@10 on 10,000 hard vectors (384 dimensions, half of them noise, half in clusters of 600): .76 with 400, .97 with
2,000, .995 with 4,000 at 7 ms a search; Chroma's default is 100. On as many real sentence vectors 400 reached 1.000.
"""

MARGIN = 16
"""Candidates requested beyond the limit, so that float32 rounding in Chroma cannot decide which are the best."""

_BATCH = 1_000  # vectors per upsert; Chroma's own limit (5,461 embedded) is respected too
_PAGE = 1_000  # collections listed per request
_TIE = 2e-6  # two steps of the scores' rounding
_MAX_KNOWN = 1_024  # collections remembered as checked; a forgotten one is read from Chroma again
_LAYOUT = 1  # version of a collection's metadata; a collection with another one is rebuilt
_READINGS = 3  # attempts to catch up with a database that other processes write to


@dataclass(frozen=True, slots=True)
class _ChromaCopy:
    """Collection in Chroma that copies one in the database."""

    handle: Any
    held: Revision
    """Revision of the database that was copied; during a build, as of the last batch."""
    newest: int
    """Number of the newest vector in the copy, 0 if it is empty; `held.last_number` may belong to a deleted vector."""
    dim: int | None
    """Dimensions of the vectors; None while the collection is empty."""

    def metadata(self) -> dict[str, int]:
        return {
            "layout": _LAYOUT,
            "count": self.held.count,
            "last_number": self.held.last_number,
            "deleted": self.held.deleted,
            "newest": self.newest,
        }


class ChromaIndex:
    """Chroma as an embedded database in a folder, or as a server. Thread-safe.

    Only one process at a time can open an embedded folder. Until it is free, the others scan the vectors in the
    database, with the same results.

    >>> index = ChromaIndex(url="http://localhost:8000")
    >>> index.name
    'Chroma at localhost:8000'

    Raises:
        ConfigError: not exactly one of `path` and `url` is given, or the URL is invalid.
    """

    def __init__(self, *, path: str | Path | None = None, url: str | None = None) -> None:
        if (path is None) == (url is None):
            raise ConfigError(f"Chroma needs either a folder or an address: {path=}, url={'given' if url else None}")
        self._place: Folder | Server = Folder.at(Path(path)) if path is not None else Server(str(url))
        self._closed = False
        self._exact = ExactIndex()
        self._client: Any = None  # the client that `_known` belongs to
        self._known: OrderedDict[str, _ChromaCopy] = OrderedDict()
        self._due: set[str] = set()  # collections to forget once the folder is ours
        self._known_lock = Lock()
        self._collection_locks = [RLock() for _ in range(64)]  # one thread at a time updates a collection

    @property
    def name(self) -> str:
        return self._place.name

    def search(self, source: VectorSource, query: Vector, *, limit: int) -> list[Hit]:
        """See `VectorIndex.search`."""
        check_search(query, limit)
        client = self._ready()
        if client is None:
            return self._exact.search(source, query, limit=limit)
        # The cached state may be outdated, as another process rebuilt the collection; or Chroma's copy is damaged.
        for remedy in (self._look_again, self._delete, None):
            try:
                hits = self._search(client, source, query, limit)
                break
            except VectorIndexError as error:
                if remedy is None or not was_reached(error):
                    raise
                remedy(client, source.collection)
        return self._exact.search(source, query, limit=limit) if hits is None else hits

    def forget(self, collection: str) -> None:
        """Delete the copy of a collection and, if Chroma is embedded, its files.

        If another process has the folder open, this happens once this process can open it.
        """
        self._exact.forget(collection)
        if self._place.is_empty:
            return
        with self._known_lock:
            self._due.add(collection)
        self._ready()

    def check(self) -> None:
        """Raise `VectorIndexError` unless the index answers."""
        self._ready()
        self._place.check()

    def copied_numbers(self, collection: str) -> set[int] | None:
        """Return the numbers of the vectors in the copy of a collection; None without a copy that can be read.

        Another process may have the folder open.

        Raises:
            VectorIndexError: the index cannot be reached or read.
        """
        from chromadb.errors import NotFoundError

        client = self._ready()
        with self._place.errors(), suppress(NotFoundError):
            if client is not None:
                handle = client.get_collection(PREFIX + collection, embedding_function=None)
                return {int(number) for number in handle.get(include=[])["ids"]}
        return None

    def copied_collections(self) -> set[str]:
        """Return the names of all collections with a copy, of other databases, too; none if another has the folder.

        Raises:
            VectorIndexError: the index cannot be reached or read.
        """
        client, names = None if self._place.is_empty else self._ready(), set[str]()
        with self._place.errors():
            while client is not None and (page := client.list_collections(limit=_PAGE, offset=len(names))):
                names.update(collection.name for collection in page)
        return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}

    def close(self) -> None:
        """Release the folder or the connection. The index cannot be used afterwards."""
        if not self._closed:
            self._closed = True
            self._known.clear()
            self._exact.close()
            self._place.close()

    def _ready(self) -> Any | None:
        """Return the client, or None where only the exact scan can answer."""
        if self._closed:
            raise VectorIndexError("This Chroma index is closed. Open it again.")
        client = self._place.client()
        with self._known_lock:
            if client is not self._client:  # reopened: cached state of the old client is invalid
                self._known.clear()
                self._client = client
            due = set(self._due) if client is not None else set()
        for collection in due:
            self._delete(client, collection)
            with self._known_lock:
                self._due.discard(collection)
        return client

    def _search(self, client: Any, source: VectorSource, query: Vector, limit: int) -> list[Hit] | None:
        """Return the hits, or None where the exact scan must answer."""
        copy = self._caught_up(client, source)
        if copy is None or copy.dim is None:
            return None
        check_dimension(query, copy.dim)
        asked = limit + MARGIN
        if asked >= copy.held.count:  # all vectors are wanted, so the exact scan is enough
            return None
        with self._place.errors():
            answer = copy.handle.query(query_embeddings=[query], n_results=asked, include=["embeddings"])
        numbers = np.array(answer["ids"][0], dtype=np.int64)
        if len(numbers) < asked:
            return None
        hits = rank(numbers, np.asarray(answer["embeddings"][0], dtype=np.float32), query)
        if hits[limit - 1].score - hits[-1].score < _TIE:
            return None
        return hits[:limit]

    def _caught_up(self, client: Any, source: VectorSource) -> _ChromaCopy | None:
        """Return the copy once it equals the database; None if that fails, or both are empty."""
        name = source.collection
        with self._collection_locks[hash(name) % len(self._collection_locks)]:
            copy = self._known.get(name)
            wanted = source.revision(since=copy.held if copy is not None else EMPTY)
            if copy is not None and copy.held == wanted:
                return copy
            if copy is None or not only_grew(copy.held, wanted):
                copy = self._open(client, source)
            if copy is None and wanted.count == 0:
                return None
            for _ in range(_READINGS):
                if copy is None or not only_grew(copy.held, wanted):
                    copy = self._create(client, name, wanted.deleted)
                if copy.held != wanted:
                    copy = self._add(client, source, copy, wanted)
                with self._place.errors():
                    count = copy.handle.count()
                if copy.held == wanted and count == wanted.count:
                    self._remember(name, copy)
                    return copy
                newer = source.revision(since=wanted)
                if newer == wanted:  # the copy has vectors that the database lacks: rebuild it
                    copy = None
                wanted = newer
            return None

    def _open(self, client: Any, source: VectorSource) -> _ChromaCopy | None:
        """Return the collection in Chroma; None if it is missing or not a copy of this source.

        The newest vectors of both are compared, as a new database under an old name could have the same numbers.
        """
        from chromadb.errors import NotFoundError

        with self._place.errors():
            try:
                handle = client.get_collection(PREFIX + source.collection, embedding_function=None)
            except NotFoundError:
                return None
        metadata = handle.metadata or {}
        if metadata.get("layout") != _LAYOUT:
            return None
        held = Revision(metadata["count"], metadata["last_number"], metadata["deleted"])
        newest = metadata["newest"]
        if newest == 0:
            return _ChromaCopy(handle, held, newest, None)
        ours = next(source.vectors(after=newest - 1), None)
        with self._place.errors():
            theirs = np.asarray(handle.get(ids=[str(newest)], include=["embeddings"])["embeddings"])
        if ours is None or ours.number != newest or theirs.shape != (1, ours.vector.size):
            return None
        if not np.allclose(theirs[0], ours.vector, rtol=1e-4, atol=1e-6):
            return None
        return _ChromaCopy(handle, held, newest, ours.vector.size)

    def _create(self, client: Any, name: str, deleted: int) -> _ChromaCopy:
        """Create an empty collection, replacing any existing one."""
        self._delete(client, name)
        copy = _ChromaCopy(None, Revision(count=0, last_number=0, deleted=deleted), newest=0, dim=None)
        with self._place.errors():
            handle = client.create_collection(
                PREFIX + name,
                metadata=copy.metadata(),
                configuration={"hnsw": {"space": "cosine", "ef_search": EF_SEARCH}},
                embedding_function=None,
                get_or_create=True,  # two processes may build it at once: upserts agree
            )
        return replace(copy, handle=handle)

    def _add(self, client: Any, source: VectorSource, copy: _ChromaCopy, wanted: Revision) -> _ChromaCopy:
        """Add vectors newer than the copy's newest. Metadata follow each batch, so an interrupted run can continue."""
        with self._place.errors():
            size = min(_BATCH, client.get_max_batch_size())
        vectors = source.vectors(after=copy.newest)
        while batch := list(islice(vectors, size)):
            numbers, rows = stack(batch, copy.dim)
            newest = int(numbers[-1])
            held = Revision(copy.held.count + len(batch), newest, copy.held.deleted)
            copy = _ChromaCopy(copy.handle, held, newest, rows.shape[1])
            with self._place.errors():
                copy.handle.upsert(ids=[str(number) for number in numbers], embeddings=rows)
                copy.handle.modify(metadata=copy.metadata())
        if copy.held != wanted and copy.held.count == wanted.count:
            copy = replace(copy, held=wanted)
            with self._place.errors():
                copy.handle.modify(metadata=copy.metadata())
        self._place.clear_unused()
        return copy

    def _delete(self, client: Any, name: str) -> None:
        """Remove the collection from Chroma, if it is there, and its files."""
        from chromadb.errors import NotFoundError

        self._look_again(client, name)
        with self._place.errors(), suppress(NotFoundError):
            client.delete_collection(PREFIX + name)
        self._place.sweep()

    def _look_again(self, client: Any, name: str) -> None:
        """Drop cached state of the collection."""
        with self._known_lock:
            self._known.pop(name, None)

    def _remember(self, name: str, copy: _ChromaCopy) -> None:
        with self._known_lock:
            self._known[name] = copy
            self._known.move_to_end(name)
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
