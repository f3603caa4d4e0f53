"""Nearest-neighbour search: an exact scan of the database's vectors, or a faster copy in pgvector or Chroma.

`vector_index.py` has the protocol of an index, and `keyword.py` the keyword search. `planning/retrieval_plan.py`
decides which results the context gets.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from memory_core.errors import ConfigError, StoreError, VectorIndexError
from memory_core.vectors.vector_index import VectorIndex

__all__ = ["forget_copies", "open_index"]

_log = logging.getLogger(__name__)


def open_index(url_or_path: str | Path | None) -> VectorIndex:
    """Return the index for a setting: None: exact scan; `http://host:port`: Chroma server; a path: Chroma in a folder.

    Nothing is opened or connected before the first search or `check`.

    Raises:
        ConfigError: the setting is empty, or an address that is not http.
    """
    from memory_core.vectors.chroma import ChromaIndex
    from memory_core.vectors.exact import ExactIndex

    if url_or_path is None:
        return ExactIndex()
    if isinstance(url_or_path, Path):
        return ChromaIndex(path=url_or_path)
    scheme, separator, _ = url_or_path.strip().partition("://")
    # Without `://` it is a path, also on Windows with a drive letter and a colon.
    if not separator and url_or_path.strip():
        return ChromaIndex(path=url_or_path.strip())
    if scheme.lower() in ("http", "https"):
        return ChromaIndex(url=url_or_path.strip())
    raise ConfigError(
        f"The vector index must be a folder or an address with http:// or https://, not {scheme or 'empty'}."
    )


def forget_copies(index: VectorIndex | None, collections: Iterable[str]) -> None:
    """Drop the copies of collections whose vectors were erased, or log that they stay in an index that fails."""
    if index is None:
        return
    try:
        for collection in collections:
            index.forget(collection)
    except (StoreError, VectorIndexError) as error:  # one wait is enough: the rest stays, too
        _log.warning("Copies of erased vectors stay until `memory-inspector maintain --repair` drops them: %s", error)
