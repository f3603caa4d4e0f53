"""Stored turns and their vectors: the source that a vector index copies."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableSet, Sequence, Set
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from sqlalchemy import BindParameter, ColumnElement, Connection, Row, bindparam, delete, func, select, update

from memory_core.events import Ranges, expand, ranges
from memory_core.store.database import Database, chunks
from memory_core.store.derived_files import DerivedFile, forget_derived
from memory_core.store.direct_statements import DirectStatement, insert_numbered
from memory_core.store.tables import (
    block_table,
    collection_table,
    content_table,
    session_table,
    vector_table,
    word_vector_table,
)
from memory_core.store.writing import Writing, user_scope
from memory_core.vectors.vector_index import EMPTY, Numbers, Revision, Rows, StoredVector, Vector, stack

NO_EMBEDDER = ""
"""Embedder name of stored turns without a vector, because the embedding model failed: found by keyword only."""
NO_VECTOR: Vector = np.ones(1, dtype=np.float32)
"""Placeholder in a row without a vector; never compared with anything."""


_v = vector_table.c

_NODE = select(_v.id, _v.seqs, _v.tokens, _v.turn, _v.session_id)
_PAGE = 2_000
"""Rows read together. With such a limit, PostgreSQL reads the newest rows by their index, whatever it expects of them:
of a collection that has a large part of all vectors it would otherwise read the whole table."""

_COLLECTIONS: BindParameter[str] = bindparam("collections", expanding=True)
_IN_COLLECTIONS = _v.collection.in_(_COLLECTIONS)
_OF_BLOCK = _v.session_id.in_(bindparam("sessions", expanding=True)) & (_v.block == bindparam("block"))
_NEWEST = func.coalesce(func.max(_v.id), 0)
_REMOVED = select(func.coalesce(func.sum(collection_table.c.deleted), 0)).where(
    collection_table.c.name.in_(_COLLECTIONS)
)
# Statements of the background, which runs them for a few turns at a time: making one costs as much as running it.
_IN_COLLECTION = _NODE.where(_v.collection == bindparam("collection")).order_by(_v.id).limit(bindparam("limit"))
_TO_MOVE = select(_v.id, _v.collection).where(
    _v.session_id == bindparam("session"),
    _v.block == bindparam("block"),
    (_v.embedder != bindparam("embedder")) | _v.id.in_(bindparam("unusable", expanding=True)),
    _v.id.in_(bindparam("numbers", expanding=True)),
)
_NEWEST_OF = select(_NEWEST).where(_IN_COLLECTIONS)
_MOVE = DirectStatement(
    update(vector_table)
    .where(_v.id == bindparam("number"))
    .values(collection=bindparam("new_collection"), embedder=bindparam("new_embedder"), embedding=bindparam("vector"))
)
_GONE = DirectStatement(
    update(collection_table)
    .where(collection_table.c.name == bindparam("collection"))
    .values(deleted=collection_table.c.deleted + bindparam("count"))
)


class Node(NamedTuple):
    """A stored turn: its messages and its size in tokens."""

    number: int
    seqs: Ranges
    tokens: int
    turn: int
    session_id: str = ""
    """Id of the session that stored the turn; empty: the session that is read."""

    def covers(self, seqs: Set[int]) -> bool:
        """Return whether all messages of the stored turn are in `seqs`."""
        if self.seqs and self.seqs[0][0] not in seqs:  # so for nearly all, and each search checks all
            return False
        return all(seq in seqs for seq in expand(self.seqs))


@dataclass(frozen=True, slots=True)
class NewNode:
    """A turn to be stored."""

    seqs: tuple[int, ...]
    tokens: int
    vector: Vector
    heard: str
    """Search metadata (see `VectorRow.heard`)."""


def collection_name(database: Database, session_id: str, block: str, embedder: str) -> str:
    """Return the collection name for one block of one session and one embedder; vectors of two embedders never mix."""
    # With the database's id, as several databases may share one index.
    return "mi-" + sha256("\x00".join((database.id, session_id, block, embedder)).encode()).hexdigest()[:40]


def add_nodes(w: Writing, block: str, embedder: str, nodes: Sequence[NewNode]) -> list[int]:
    """Store turns with their vectors; return their ids, ascending in input order."""
    if not nodes:
        return []
    collection = collection_name(w.database, w.session.id, block, embedder)
    values = [
        {
            "collection": collection,
            "session_id": w.session.id,
            "block": block,
            "embedder": embedder,
            "seqs": json.dumps(ranges(node.seqs)),
            "first_seq": min(node.seqs),
            "tokens": node.tokens,
            "embedding": _encode(node.vector),
            "turn": w.session.turns,
            "created_at": w.now,
            "heard": node.heard,
        }
        for node in nodes
    ]
    return insert_numbered(w.connection, vector_table, values)


def sessions_that_share(connection: Connection, user_id: str, block: str) -> tuple[str, ...]:
    """Return the ids of the user's sessions with a vector block of this name whose scope is the user, oldest first."""
    b, s = block_table.c, session_table.c
    query = (
        select(s.id, b.settings)
        .join(block_table, b.session_id == s.id)
        .where(s.user_id == user_id, s.deleted_at.is_(None), b.name == block, b.type == "vector")
        .order_by(s.created_at, s.id)
    )
    rows = connection.execute(query)
    return tuple(session_id for session_id, settings in rows if json.loads(settings).get("scope") == "user")


def turns_revision(
    connection: Connection, sessions: Sequence[str], block: str, collections: Collection[str], since: Revision = EMPTY
) -> Revision:
    """Return the state of a block's stored turns in these sessions, as `VectorSource.revision` does.

    Removals are those from `collections`, in which the turns were at the time of `since`.
    """
    values = {"sessions": sessions, "block": block, "collections": list(collections)}
    return _revision(connection, _OF_BLOCK, values, since if len(sessions) == 1 else EMPTY)


def count_removed(connection: Connection, collections: Collection[str]) -> int:
    """Return how many stored turns were ever removed from these collections."""
    return int(connection.execute(_REMOVED, {"collections": list(collections)}).scalar_one())


def _revision(
    connection: Connection, where: ColumnElement[bool], values: Mapping[str, Any], since: Revision
) -> Revision:
    """Return the state of stored turns; their ids must be committed in ascending order unless `since` is empty."""
    if since.count:
        # PostgreSQL looks up a maximum in the index, but visits every row that it counts.
        query = select(_NEWEST, _REMOVED.scalar_subquery()).where(where)
        newest, removed = map(int, connection.execute(query, values).one())
        if newest == since.last_number and removed == since.deleted:
            return since
        if newest > since.last_number and removed == since.deleted:
            added = select(_v.id).where(where, _v.id > since.last_number).order_by(_v.id).limit(_PAGE)
            if (count := len(connection.execute(added, values).all())) < _PAGE:
                return Revision(since.count + count, newest, removed)
    counted = select(func.count(), _NEWEST, _REMOVED.scalar_subquery()).where(where)
    return Revision(*map(int, connection.execute(counted, values).one()))


def read_nodes(connection: Connection, session_id: str, block: str) -> list[Node]:
    """Return the stored turns of a block, oldest first."""
    query = _NODE.where(_v.session_id == session_id, _v.block == block)
    return _nodes(connection.execute(query.order_by(_v.id)).all())


def read_heard(
    connection: Connection, sessions: tuple[str, ...], block: str, *, after: int = 0, limit: int | None = None
) -> Iterator[tuple[list[Node], list[str | None], set[str]]]:
    """Return the stored turns of a block with an id above `after`, oldest first, a page at a time.

    Each page has turns, their stored metadata, and the names of their collections. `limit`: at most so many turns.
    """
    query = _NODE.add_columns(_v.heard, _v.collection).where(_v.session_id.in_(sessions), _v.block == block)
    with connection.execute(query.where(_v.id > after).order_by(_v.id).limit(limit)) as result:
        for rows in result.partitions(_PAGE):
            yield _nodes(rows), [row.heard for row in rows], {row.collection for row in rows}


def read_all_heard(connection: Connection, session_id: str) -> dict[int, str]:
    """Return the stored metadata of a session's stored turns, by id; turns without metadata are missing."""
    query = select(_v.id, _v.heard).where(_v.session_id == session_id, _v.heard.is_not(None))
    return {int(number): heard for number, heard in connection.execute(query)}


def count_of_others(connection: Connection, session_id: str, block: str, embedder: str) -> int:
    """Return the number of a block's stored turns with a vector of another embedder, or without a vector."""
    query = select(func.count()).where(_v.session_id == session_id, _v.block == block, _v.embedder != embedder)
    return int(connection.execute(query).scalar_one())


def read_nodes_of_others(
    connection: Connection, session_id: str, block: str, embedder: str, *, after: int, limit: int
) -> list[Node]:
    """Return the first stored turns with an id above `after` that have no vector of this embedder."""
    query = _NODE.where(_v.session_id == session_id, _v.block == block, _v.embedder != embedder)
    return _nodes(connection.execute(query.where(_v.id > after).order_by(_v.id).limit(limit)).all())


def count_without_vector(connection: Connection, database: Database, session_id: str, block: str) -> int:
    """Return the number of a block's stored turns under `NO_EMBEDDER`."""
    collection = collection_name(database, session_id, block, NO_EMBEDDER)
    return int(connection.execute(select(func.count()).where(_v.collection == collection)).scalar_one())


def sessions_without_vectors(connection: Connection, database: Database) -> list[str]:
    """Return the ids of sessions with stored turns under `NO_EMBEDDER`."""
    b = block_table.c
    # A collection's name is a hash and cannot be read back: the names of all vector blocks are made and compared.
    named = connection.execute(select(b.session_id, b.name).where(b.type == "vector"))
    sessions = {collection_name(database, session, block, NO_EMBEDDER): session for session, block in named}
    texts: set[str] = set()
    for chunk in chunks(list(sessions)):
        query = select(_v.collection).where(_v.collection.in_(chunk)).distinct()
        texts.update(sessions[name] for name in connection.execute(query).scalars())
    return sorted(texts)


def read_nodes_without_vector(
    connection: Connection, database: Database, session_id: str, block: str, *, limit: int
) -> list[Node]:
    """Return the first stored turns of a block under `NO_EMBEDDER`."""
    collection = collection_name(database, session_id, block, NO_EMBEDDER)  # this column has an index
    return _nodes(connection.execute(_IN_COLLECTION, {"collection": collection, "limit": limit}).all())


def _nodes(rows: Sequence[Any]) -> list[Node]:
    """Return rows that begin with the columns of `_NODE` as stored turns."""
    if not rows:
        return []
    # By columns, and one text for all sequence numbers: this takes a third of the time of one row after another.
    numbers, texts, tokens, turns, sessions, *_ = zip(*rows, strict=True)
    seqs = (tuple(map(tuple, several)) for several in json.loads(f"[{','.join(texts)}]"))
    return list(map(Node, numbers, seqs, tokens, turns, sessions))


def replace_vectors(
    w: Writing, block: str, embedder: str, vectors: Mapping[int, Vector], *, unusable: Collection[int] = ()
) -> list[int]:
    """Store vectors of this embedder, by id, in place of another embedder's or missing ones; return the updated ids.

    Turns deleted meanwhile, or with a vector of this embedder, are skipped, except those with an `unusable` vector.
    """
    collection = collection_name(w.database, w.session.id, block, embedder)
    moved: dict[int, str] = {}
    for chunk in chunks(sorted(vectors)):
        values = {"session": w.session.id, "block": block, "embedder": embedder, "numbers": chunk}
        values["unusable"] = [number for number in chunk if number in unusable]
        moved.update(w.connection.execute(_TO_MOVE, values).all())
    if not moved:
        return []
    # Before the rows are moved, as they belong to the collection afterwards.
    newest = w.connection.execute(_NEWEST_OF, {"collections": [collection]}).scalar_one()
    new = {"new_collection": collection, "new_embedder": embedder}
    _MOVE.run(w.connection, *({**new, "number": number, "vector": _encode(vectors[number])} for number in moved))
    gone = Counter(moved.values())
    if newest > min(moved):
        # Copies of the collection read only newer ids; a counted deletion makes them start again.
        gone[collection] = len(moved)
    for name, count in gone.items():
        _count_gone(w.database, w.connection, name, count)
    forget_derived(w.database, w.session.id)
    return sorted(moved)


def remove_nodes(
    w: Writing,
    *,
    block: str | None = None,
    seqs: Sequence[int] | None = None,
    numbers: Collection[int] | None = None,
) -> int:
    """Remove stored turns of this session; return their number.

    `block`, `seqs` (any of a turn's messages) and `numbers` (ids) filter together; None does not filter.
    """
    query = select(_v.id, _v.collection, _v.seqs).where(_v.session_id == w.session.id)
    if block is not None:
        query = query.where(_v.block == block)
    if numbers is not None:
        query = query.where(_v.id.in_(numbers))
    # Messages of a stored turn are JSON ranges, so these are filtered here.
    gone_seqs = None if seqs is None else set(seqs)
    gone: dict[str, list[int]] = {}
    for number, collection, spans in w.connection.execute(query):
        if gone_seqs is None or gone_seqs.intersection(expand(json.loads(spans))):
            gone.setdefault(collection, []).append(number)
    for collection, gone_numbers in gone.items():
        for chunk in chunks(gone_numbers):
            w.connection.execute(delete(vector_table).where(_v.id.in_(chunk)))
        _count_gone(w.database, w.connection, collection, len(gone_numbers))
    if gone:
        forget_derived(w.database, w.session.id)
    return sum(len(gone_numbers) for gone_numbers in gone.values())


def count_gone(database: Database, connection: Connection, session_id: str) -> list[str]:
    """Count the removals in a session's collections, so that copies of them are updated; return the collections."""
    query = select(_v.collection, func.count()).where(_v.session_id == session_id).group_by(_v.collection)
    gone = connection.execute(query).all()
    for collection, number in gone:
        _count_gone(database, connection, collection, number)
    forget_derived(database, session_id)
    return [collection for collection, _ in gone]


def note_joined(w: Writing) -> list[str]:
    """Note the collections that join a session's vectors with those of its user's other sessions; return their names.

    Their copies are found by these names once no session has such vectors.
    """
    if w.session.user_id is None:
        return []
    units = w.connection.execute(select(_v.block, _v.embedder).where(_v.session_id == w.session.id).distinct())
    # In one order: deletions of two sessions of a user would otherwise wait for each other.
    joined = sorted(collection_name(w.database, user_scope(w.session.user_id), *unit) for unit in units)
    note_collections(w.database, w.connection, joined)
    return joined


def note_collections(database: Database, connection: Connection, names: Iterable[str]) -> None:
    """Note collections whose copies have to go when they have no vectors: see `totals.emptied_collections`."""
    database.insert_if_new(connection, collection_table, [{"name": name, "deleted": 0} for name in names])


def joined_collections(database: Database, connection: Connection) -> set[str]:
    """Return the names of all collections that join the vectors of a user's sessions."""
    b, s = block_table.c, session_table.c
    query = select(s.user_id, _v.block, _v.embedder, b.settings).where(
        s.id == _v.session_id, s.user_id.is_not(None), b.session_id == s.id, b.name == _v.block
    )
    return {
        collection_name(database, user_scope(user_id), block, embedder)
        for user_id, block, embedder, settings in connection.execute(query.distinct())
        if json.loads(settings).get("scope") == "user"
    }


def _count_gone(database: Database, connection: Connection, collection: str, count: int) -> None:
    note_collections(database, connection, [collection])
    _GONE.run(connection, {"count": count, "collection": collection})


def collections_of(connection: Connection, session_id: str) -> set[tuple[str, str]]:
    """Return block and collection name of every collection with vectors of a session."""
    query = select(_v.block, _v.collection).where(_v.session_id == session_id).distinct()
    return {(row.block, row.collection) for row in connection.execute(query)}


def read_nodes_of(connection: Connection, session_id: str, block: str, numbers: Collection[int]) -> list[Node]:
    """Return the stored turns with these ids; missing ones are left out."""
    query = _NODE.where(_v.session_id == session_id, _v.block == block)
    rows = [row for chunk in chunks(sorted(numbers)) for row in connection.execute(query.where(_v.id.in_(chunk)))]
    return _nodes(rows)


class DatabaseVectors:
    """Collection of vectors with `dimensions` numbers each (None: any), as a `VectorSource`.

    `joined`: stored collections of which this one is the union. A copy is rebuilt when another set is joined.
    `file`: see `VectorSource.file`.
    A vector of another length or with non-numeric values (stored before such were refused) is returned as a zero
    vector, which no question finds, and its id is added to `unusable`.
    """

    def __init__(
        self,
        database: Database,
        collection: str,
        dimensions: int | None = None,
        unusable: MutableSet[int] | None = None,
        joined: Sequence[str] | None = None,
        file: DerivedFile | None = None,
    ) -> None:
        self._database = database
        self.collection = collection
        self._of = [collection] if joined is None else list(joined)
        # Part of the revision of a joined collection: other parts give another revision, whatever their counts.
        self._makeup = 0 if joined is None else crc32("\x00".join(joined).encode())
        self._file = file
        self._dimensions = dimensions
        self._unusable = set() if unusable is None else unusable

    @property
    def file(self) -> DerivedFile | None:
        # Which vectors are unusable is in no file: the next process has to find them, too.
        return None if self._unusable else self._file

    def revision(self, *, since: Revision = EMPTY) -> Revision:
        # Several sessions write to a joined collection, and may commit their ids in any order: all are counted.
        since = replace(since, deleted=since.deleted - self._makeup) if len(self._of) == 1 else EMPTY
        with self._database.read() as connection:
            revision = _revision(connection, _IN_COLLECTIONS, {"collections": self._of}, since)
        return replace(revision, deleted=revision.deleted + self._makeup)

    def vectors(self, *, after: int = 0) -> Iterator[StoredVector]:
        for rows in self._pages(after):
            yield from self._all_stored(rows)

    def arrays(self, *, after: int = 0) -> Iterator[tuple[Numbers, Rows]]:
        for rows in self._pages(after):
            whole = self._whole(rows)
            yield stack(self._all_stored(rows), None) if whole is None else (np.array([row.id for row in rows]), whole)

    def _pages(self, after: int) -> Iterator[Sequence[Row[int, bytes]]]:
        # Of a joined collection, each page would sort all rows.
        page = _PAGE if len(self._of) == 1 else None
        query = select(_v.id, _v.embedding).where(_v.collection.in_(self._of)).order_by(_v.id).limit(page)
        while True:
            with self._database.read() as connection:
                rows = connection.execute(query.where(_v.id > after)).all()
            # After the connection is released: the consumer of the vectors may be slow.
            yield from chunks(rows, _PAGE)
            if len(rows) != page:
                return
            after = rows[-1].id

    def numbers(self) -> Sequence[int]:
        with self._database.read() as connection:
            return connection.execute(select(_v.id).where(_v.collection.in_(self._of))).scalars().all()

    def some(self, numbers: Sequence[int]) -> list[StoredVector]:
        """Return the vectors with these ids, by ascending id."""
        vectors: list[StoredVector] = []
        with self._database.read() as connection:
            for chunk in chunks(numbers):
                where = _v.collection.in_(self._of) & _v.id.in_(chunk)
                vectors += self._all_stored(
                    connection.execute(select(_v.id, _v.embedding).where(where).order_by(_v.id)).all()
                )
        return vectors

    def _all_stored(self, rows: Sequence[Row[int, bytes]]) -> list[StoredVector]:
        """Decode rows into vectors, all at once if every one is valid."""
        whole = self._whole(rows)
        if whole is None:
            return [self._stored(row.id, row.embedding) for row in rows]
        return [StoredVector(row.id, vector) for row, vector in zip(rows, whole, strict=True)]

    def _whole(self, rows: Sequence[Row[int, bytes]]) -> Rows | None:
        """Decode rows into one array, much faster than one by one.

        Return None if some vector has another length or is not finite.
        """
        embeddings = [row.embedding for row in rows]
        size = len(embeddings[0]) if rows else 0
        if size and not size % 4 and self._dimensions in (None, size // 4) and {*map(len, embeddings)} == {size}:
            # Not copied: a reader of an array neither keeps it nor writes to it.
            decoded = np.frombuffer(b"".join(embeddings), dtype="<f4").astype(np.float32, copy=False)
            vectors = decoded.reshape(len(rows), size // 4)
            with np.errstate(over="ignore"):
                # A sum of squares is finite only if every number is.
                sound = np.isfinite(np.einsum("ij,ij->i", vectors, vectors)).all()
            if sound:
                return vectors
        return None

    def _stored(self, number: int, embedding: bytes) -> StoredVector:
        # Cut to whole numbers: a damaged row is refused by its length, and must not raise here.
        vector = np.frombuffer(embedding[: len(embedding) // 4 * 4], dtype="<f4").astype(np.float32)
        dimensions = len(vector) if self._dimensions is None else self._dimensions
        with np.errstate(over="ignore"):
            usable = len(vector) == dimensions and np.isfinite(vector @ vector)
        if not usable:
            self._unusable.add(number)
            vector = np.zeros(dimensions, dtype=np.float32)
        return StoredVector(number, vector)


def _encode(vector: Vector) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


# -- vectors of facts' texts ----------------------------------------------------------------------


_w = word_vector_table.c


def read_word_vectors(connection: Connection, scope: str, hashes: Iterable[str], embedder: str) -> dict[str, Vector]:
    """Return the vectors of one embedder by hash of the text; those not stored are missing."""
    result: dict[str, Vector] = {}
    for chunk in chunks(sorted(set(hashes))):
        where = (_w.scope == scope) & (_w.embedder == embedder) & _w.hash.in_(chunk)
        for key, embedding in connection.execute(select(_w.hash, _w.embedding).where(where)):
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
        stored_hashes = select(_w.hash).where(_w.scope == scope, _w.embedder == embedder, _w.hash.in_(chunk))
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
    connection.execute(delete(word_vector_table).where(_w.scope == scope, _w.hash.not_in(words)))
