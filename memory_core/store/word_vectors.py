"""Vectors of facts' texts: stored by hash of the text, and erased with it."""

from collections.abc import Iterable, Mapping

import numpy as np
from sqlalchemy import Connection, delete, select

from memory_core.store.database import chunks
from memory_core.store.tables import content_table, word_vector_table
from memory_core.store.writing import Writing
from memory_core.vectors.vector_index import Vector

_v = word_vector_table.c


def read_word_vectors(connection: Connection, scope: str, hashes: Iterable[str], embedder: str) -> dict[str, Vector]:
    """Return the vectors of one embedder by hash of the text; those not stored are missing."""
    result: dict[str, Vector] = {}
    for chunk in chunks(sorted(set(hashes))):
        where = (_v.scope == scope) & (_v.embedder == embedder) & _v.hash.in_(chunk)
        for key, embedding in connection.execute(select(_v.hash, _v.embedding).where(where)):
            # Stored little-endian, for databases that move to another machine; `astype` makes a writable copy in native
            # order.
            result[key] = np.frombuffer(embedding, dtype="<f4").astype(np.float32)
    return result


def keep_word_vectors(w: Writing, scope: str, embedder: str, vectors: Mapping[str, Vector]) -> None:
    """Store vectors by hash of the text; skip texts that are not in the content store."""
    # Texts of this transaction must be stored before they are looked up.
    w.flush_contents()
    content = content_table.c
    for chunk in chunks(sorted(vectors)):
        stored_hashes = select(_v.hash).where(_v.scope == scope, _v.embedder == embedder, _v.hash.in_(chunk))
        # Only for texts that are still there: one erased meanwhile must leave no vector.
        words = select(content.hash).where(
            content.scope == scope, content.hash.in_(chunk), content.hash.not_in(stored_hashes)
        )
        rows = [
            {"scope": scope, "hash": key, "embedder": embedder, "embedding": np.asarray(vectors[key], "<f4").tobytes()}
            for key in w.connection.execute(words).scalars()
        ]
        w.database.insert_if_new(w.connection, word_vector_table, rows)


def drop_lonely_vectors(connection: Connection, scope: str) -> None:
    """Delete vectors whose text is no longer in the content store."""
    words = select(content_table.c.hash).where(content_table.c.scope == scope)
    connection.execute(delete(word_vector_table).where(_v.scope == scope, _v.hash.not_in(words)))
