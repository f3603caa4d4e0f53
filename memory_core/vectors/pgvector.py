"""pgvector index: copies of large collections in tables of the PostgreSQL database that holds the vectors.

Each collection of at least `MIN_VECTORS` vectors has a table of its own with one HNSW index, so that no search meets
vectors of another collection or tenant, and forgetting a collection drops its table. Smaller collections have no copy:
the exact scan is faster there. The table `mi_pgvector` lists the copies, with the revision of the database that each
equals; a search first adds and deletes what has changed since. Large changes are copied by a thread, while the exact
scan answers.

The index holds half-precision vectors of length 1 and finds candidates; `ranking.rank` scores them in full precision.
"""

import logging
import threading
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, cast

import numpy as np
from sqlalchemy import Connection, Engine, text

from memory_core.errors import StoreError
from memory_core.vectors.exact import ExactIndex, only_grew
from memory_core.vectors.vector_index import (
    EMPTY,
    Hit,
    Revision,
    StoredVector,
    Vector,
    VectorSource,
    check_dimension,
    check_search,
    rank,
    stack,
)

MIN_VECTORS = 5_000
"""Vectors from which on a collection has a copy; fewer are scanned in 1 ms, and read from the database in 30."""

EF_SEARCH = 200
"""HNSW's `ef_search`: candidates that a search keeps, at least as many as are asked for."""

MAX_CANDIDATES = 1_000
"""pgvector's limit of `ef_search`; a search for more is answered by the exact scan."""

MAX_DIMENSIONS = 4_000
"""pgvector's limit of an index over half-precision vectors."""

MARGIN = 16
"""Candidates requested beyond the limit, so that rounding to half precision cannot decide which are the best."""

AT_ONCE = 500
"""Vectors added in one transaction, and at most by a search, which takes 1 to 2 s; a thread adds more."""

POLL_SECONDS = 0.2
"""Interval, in seconds, at which a thread checks whether the server has built its index."""

_READINGS = 3  # attempts to catch up with a database that other processes write to
_TIE = 2e-6  # two steps of the scores' rounding
_ROUNDING = 1e-5  # error of PostgreSQL's float32 sums
_TENANT = "coalesce(current_setting('memory.tenant', true), '')"

_COLUMNS = """
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, collection text NOT NULL, dimensions int NOT NULL,
    version bigint NOT NULL DEFAULT 0, changed_at timestamptz NOT NULL DEFAULT now(),
    held_count bigint, held_last bigint, held_deleted bigint, UNIQUE (tenant, collection)
"""

_log = logging.getLogger(__name__)


class Transactions(Protocol):
    """PostgreSQL database, as `memory_core.store.database.Database` opens it."""

    engine: Engine

    def read(self) -> AbstractContextManager[Connection]: ...

    def write(self) -> AbstractContextManager[Connection]: ...


@dataclass(frozen=True, slots=True)
class _PostgresCopy:
    """Row of `mi_pgvector`."""

    id: int
    dimensions: int
    version: int
    """Number of changes to the copy: who planned one by an earlier version must plan it again."""
    busy: bool
    """True if a process changed the copy in the last half minute."""
    held: Revision | None
    """Revision of the database that the copy equals; None while it is built."""


class _Changed(Exception):
    """Raised if another process changed the copy since it was read."""


class PgvectorIndex:
    """Index in the PostgreSQL database that holds the vectors. Thread-safe.

    Without the extension `vector`, version 0.8 or later, all collections are scanned. `exact`: the scan to use.
    """

    def __init__(
        self, database: Transactions, *, exact: ExactIndex | None = None, min_vectors: int = MIN_VECTORS
    ) -> None:
        self._database = database
        self._exact = exact or ExactIndex()
        self._min_vectors = min_vectors
        self._missing: str | None = None
        self._prepared = self._warned = False
        self._lock = threading.Lock()
        self._revisions: dict[str, Revision] = {}
        """Last known revision of each collection, to count from."""
        self._builders: dict[str, threading.Thread] = {}
        self._one_build = threading.Lock()  # one collection at a time: building takes a core of the server
        self._closed = threading.Event()
        preparer = database.engine.dialect.identifier_preparer
        schema = database.engine.get_execution_options().get("schema_translate_map", {}).get(None)
        self._schema = f"{preparer.quote(schema)}." if schema else ""
        self._copies = f"{self._schema}mi_pgvector"

    @property
    def name(self) -> str:
        return f"exact scan ({self._missing})" if self._missing else "pgvector in the database"

    def search(self, source: VectorSource, query: Vector, *, limit: int) -> list[Hit]:
        """See `VectorIndex.search`."""
        check_search(query, limit)
        revision = self._revision(source)
        suits = self._min_vectors <= revision.count and limit + MARGIN <= min(MAX_CANDIDATES, revision.count - 1)
        if suits and query.any() and len(query) <= MAX_DIMENSIONS:
            try:
                hits = self._search(source, revision, query, limit) if self._ready() else None
            except (StoreError, _Changed) as error:  # such as a copy that another process dropped meanwhile
                _log.warning("the vectors of %s are scanned: %s", source.collection, error)
                hits = None
            if hits is not None:
                return hits
        return self._exact.search(source, query, limit=limit)

    def build(self, source: VectorSource) -> bool:
        """Copy a collection, however long it takes; return False if it was changed by others all the while."""
        return self._ready() and self._catch_up(source, None)

    def load(self, source: VectorSource) -> None:
        """Read the vectors of a small collection ahead of the next search."""
        if self._revision(source).count < self._min_vectors:
            self._exact.load(source)

    def forget(self, collection: str) -> None:
        """Drop the table with the copy of a collection."""
        self._exact.forget(collection)
        self._revisions.pop(collection, None)
        with self._database.write() as connection:
            if self._may_drop(connection):
                query = f"SELECT id FROM {self._copies} WHERE tenant = {_TENANT} AND collection = :collection"
                for number in connection.execute(text(query), {"collection": collection}).scalars().all():
                    self._drop(connection, number)

    def forget_erased(self, connection: Connection, collections: Collection[str] | None = None) -> None:
        """Delete from the copies of collections (None: all) the vectors that the database lacks, in its transaction.

        A copy that is empty then is dropped.
        """
        if not self._may_drop(connection):
            return
        # A new version, so that who planned a change reads the database again.
        query = (
            f"UPDATE {self._copies} SET version = version + 1 WHERE tenant = {_TENANT} "
            "AND (:all OR collection = ANY(:names)) RETURNING id, to_regclass(CAST(:table AS text) || id) IS NOT NULL"
        )
        values = {"all": collections is None, "names": list(collections or ()), "table": self._table("")}
        for number, exists in connection.execute(text(query), values).all():
            table, stored = self._table(number), f"EXISTS (SELECT FROM {self._schema}mi_vector WHERE id = number)"
            if exists and connection.execute(text(f"SELECT EXISTS (SELECT FROM {table} WHERE {stored})")).scalar():
                connection.execute(text(f"DELETE FROM {table} WHERE NOT {stored}"))
            else:
                self._drop(connection, number)

    def copied_collections(self) -> set[str]:
        """Return the names of this tenant's collections that have a copy, finished or not."""
        with self._database.read() as connection:
            query = f"SELECT collection FROM {self._copies} WHERE tenant = {_TENANT}"
            return set(connection.execute(text(query)).scalars()) if self._may_drop(connection) else set()

    def _may_drop(self, connection: Connection) -> bool:
        """Return whether there may be copies, and they are of this account; log if they are another's."""
        query = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(:name)"
        mine = connection.execute(text(query), {"name": self._copies}).scalar()
        if mine is False and not self._warned:
            self._warned = True
            _log.warning("copies of vectors are another account's: `memory-inspector maintain --repair` as that one")
        return bool(mine)

    def _drop(self, connection: Connection, number: int) -> None:
        # The row first, as who changes the copy does: otherwise two could wait for each other.
        connection.execute(text(f"DELETE FROM {self._copies} WHERE id = :id"), {"id": number})
        # Who builds its index would hold the table for minutes.
        cancel = (
            "SELECT pg_cancel_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE granted AND "
            "relation = to_regclass(:name) AND usename = current_user AND left(query, 12) = 'CREATE INDEX'"
        )
        connection.execute(text(cancel), {"name": self._table(number)})
        connection.execute(text(f"DROP TABLE IF EXISTS {self._table(number)}"))

    def check(self) -> None:
        """Raise `StoreError` unless the database answers."""
        self._ready()

    def close(self) -> None:
        """Stop building; what was copied so far stays."""
        self._closed.set()
        for builder in list(self._builders.values()):
            builder.join()
        self._exact.close()

    def _ready(self) -> bool:
        """Return whether the extension can be used; create it and the list of copies where possible."""
        with self._lock:
            if not self._prepared:
                self._missing = self._prepare()
                self._prepared = True
                if self._missing:
                    _log.warning("Vectors are scanned: %s.", self._missing)
        return self._missing is None

    def _prepare(self) -> str | None:
        """Return what is missing, if anything."""
        version = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        with self._database.read() as connection:
            stored = connection.execute(text(version)).scalar()
        try:
            with self._database.write() as connection:
                # Two processes may be the first at once; the number is arbitrary.
                connection.execute(text("SELECT pg_advisory_xact_lock(7034922)"))
                if stored is None:
                    connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
                    stored = connection.execute(text(version)).scalar_one()
                if tuple(int(part) for part in str(stored).split(".")[:2]) < (0, 8):
                    return f"pgvector {stored} is too old: an administrator can run ALTER EXTENSION vector UPDATE"
                if connection.execute(text("SELECT to_regclass(:name)"), {"name": self._copies}).scalar() is None:
                    self._create_table(connection, self._copies, _COLUMNS)
        except StoreError as error:
            _log.info("pgvector cannot be used: %s", error)
            if stored is None:
                return "no pgvector here: an administrator can run CREATE EXTENSION vector"
            return "this account may not create tables for pgvector"
        return None

    def _create_table(self, connection: Connection, name: str, columns: str) -> None:
        """Create a table whose rows only their tenant sees."""
        mine = f"tenant = {_TENANT}"
        connection.execute(text(f"CREATE TABLE {name} (tenant text NOT NULL DEFAULT {_TENANT}, {columns})"))
        connection.execute(text(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"))
        connection.execute(text(f"CREATE POLICY tenant ON {name} USING ({mine}) WITH CHECK ({mine})"))

    def _revision(self, source: VectorSource) -> Revision:
        name = source.collection
        revision = self._revisions[name] = source.revision(since=self._revisions.get(name, EMPTY))
        return revision

    def _table(self, number: int | str) -> str:
        return f"{self._schema}mi_pgvector_{number}"

    def _search(self, source: VectorSource, revision: Revision, query: Vector, limit: int) -> list[Hit] | None:
        """Return the hits, or None where the exact scan must answer."""
        with self._database.read() as connection:
            copy = self._read(connection, source.collection)
            if copy is not None and copy.held == revision:
                return self._hits(connection, copy, query, limit)
        few = copy is not None and copy.held is not None and revision.count - copy.held.count <= AT_ONCE
        if few and self._catch_up(source, AT_ONCE):
            with self._database.read() as connection:
                copy = self._read(connection, source.collection)
                return self._hits(connection, copy, query, limit) if copy is not None and copy.held else None
        if copy is None or copy.held is not None or not copy.busy:
            self._start_building(source)
        return None

    def _hits(self, connection: Connection, copy: _PostgresCopy, query: Vector, limit: int) -> list[Hit] | None:
        check_dimension(query, copy.dimensions)
        asked = limit + MARGIN
        # An iterative scan goes on where deleted rows leave too few.
        settings = f"hnsw.ef_search={max(asked, EF_SEARCH)} hnsw.iterative_scan=relaxed_order enable_seqscan=off"
        calls = ", ".join("set_config('{}', '{}', true)".format(*part.split("=")) for part in settings.split())
        connection.execute(text(f"SELECT {calls}"))
        half = f"halfvec({copy.dimensions})"
        distance = f"l2_normalize(embedding)::{half} <#> l2_normalize(CAST(:query AS vector))::{half}"
        rows = f"SELECT number, vector_send(embedding) FROM {self._table(copy.id)}"
        hits = self._ranked(connection, f"{rows} ORDER BY {distance} LIMIT {asked}", query)
        if len(hits) < asked:
            return None
        if hits[limit - 1].score - hits[-1].score >= _TIE:
            return hits[:limit]
        # The limit falls within a tie, as with equal texts, whose order is by number: read all of it.
        farthest = _ROUNDING - hits[limit - 1].score
        tied = f"{rows} WHERE l2_normalize(embedding) <#> l2_normalize(CAST(:query AS vector)) <= {farthest}"
        return self._ranked(connection, tied, query)[:limit]

    def _ranked(self, connection: Connection, statement: str, query: Vector) -> list[Hit]:
        rows = connection.execute(text(statement), {"query": str(query.tolist())}).all()
        # The binary form: number of dimensions and a reserved field, 2 bytes each, then big-endian float32.
        vectors = np.frombuffer(b"".join(data[4:] for _, data in rows), dtype=">f4").reshape(len(rows), len(query))
        return rank(np.array([number for number, _ in rows], dtype=np.int64), vectors.astype(np.float32), query)

    def _read(self, connection: Connection, collection: str) -> _PostgresCopy | None:
        columns = "id, dimensions, version, changed_at > now() - interval '30 s', held_count, held_last, held_deleted"
        query = f"SELECT {columns} FROM {self._copies} WHERE tenant = {_TENANT} AND collection = :name"
        row = connection.execute(text(query), {"name": collection}).one_or_none()
        if row is None:
            return None
        return _PostgresCopy(row[0], row[1], row[2], row[3], None if row[4] is None else Revision(*row[4:]))

    def _start_building(self, source: VectorSource) -> None:
        with self._lock:
            running = self._builders.get(source.collection)
            # After a fork the child has no such thread, and none is alive.
            if self._closed.is_set() or (running is not None and running.is_alive()):
                return
            builder = threading.Thread(target=self._build, args=(source,), name="build-pgvector", daemon=True)
            self._builders = {name: thread for name, thread in self._builders.items() if thread.is_alive()}
            self._builders[source.collection] = builder
            builder.start()

    def _build(self, source: VectorSource) -> None:
        with self._one_build:
            try:
                self.build(source)
            except Exception as error:
                # Without its text, which may hold anything. The scan answers, and a later search tries again.
                _log.warning("a copy of %s was not finished: %s", source.collection, type(error).__name__)

    def _catch_up(self, source: VectorSource, most: int | None) -> bool:
        """Make the copy equal to the database.

        Return False if that takes more than `most` additions (None: any number), or if others change it all the while.
        """
        for _ in range(_READINGS):
            wanted = self._revision(source)
            with self._database.read() as connection:
                copy = self._read(connection, source.collection)
            with suppress(_Changed):  # planned anew
                if (copy is not None and copy.held == wanted) or self._follow(source, wanted, copy):
                    return True
                if self._compare(source, wanted, copy, most):
                    return True
            if self._closed.is_set():
                break
        return False

    def _follow(self, source: VectorSource, wanted: Revision, copy: _PostgresCopy | None) -> bool:
        """Add the newest vectors; return False unless they are few, and all that changed."""
        if copy is None or copy.held is None or not only_grew(copy.held, wanted):
            return False
        count = wanted.count - copy.held.count
        if count > AT_ONCE:
            return False
        # Those committed since `wanted` was read are left to the next search.
        added = [new for new in source.vectors(after=copy.held.last_number) if new.number <= wanted.last_number]
        if len(added) != count:  # one with a lower number was committed later
            return False
        self._change(copy, wanted, add=added)
        return True

    def _compare(self, source: VectorSource, wanted: Revision, copy: _PostgresCopy | None, most: int | None) -> bool:
        """Add what the copy lacks and delete what the database lacks; return False if that was not possible now."""
        numbers = set(source.numbers())
        copy = copy or self._create(source, numbers)
        if self._revision(source) != wanted or copy is None:
            return False
        # A zero vector stands for one that was unusable, and may have been replaced under its number.
        query = f"SELECT number, vector_norm(embedding) > 0 FROM {self._table(copy.id)}"
        with self._database.read() as connection:
            copied = [(int(number), bool(usable)) for number, usable in connection.execute(text(query))]
        missing = sorted(numbers.difference(number for number, usable in copied if usable))
        if most is not None and len(missing) > most:
            return False
        if remove := [number for number, usable in copied if not usable or number not in numbers]:
            copy = self._change(copy, None, remove=remove)
        for start in range(0, len(missing), AT_ONCE):
            if self._closed.is_set():
                return False
            copy = self._change(copy, None, add=source.some(missing[start : start + AT_ONCE]))
        if most is None:
            self._create_index(copy, len(numbers))
        # What was deleted since the numbers were read is missing already, and counts in the next revision.
        self._change(copy, wanted)
        return True

    def _create(self, source: VectorSource, numbers: Collection[int]) -> _PostgresCopy | None:
        """Create an empty copy; return None if the collection is empty.

        Raises:
            _Changed: another process created it.
        """
        vectors = source.some([min(numbers)]) if numbers else []
        if not vectors:
            return None
        dimensions = vectors[0].vector.size
        insert = f"INSERT INTO {self._copies} (collection, dimensions) VALUES (:name, :dimensions)"
        values = {"name": source.collection, "dimensions": dimensions}
        with self._database.write() as connection:
            number = connection.execute(text(f"{insert} ON CONFLICT DO NOTHING RETURNING id"), values).scalar()
            if number is None:
                raise _Changed
            columns = f"number bigint PRIMARY KEY, embedding vector({dimensions}) NOT NULL"
            self._create_table(connection, self._table(number), columns)
            return self._read(connection, source.collection)

    def _create_index(self, copy: _PostgresCopy, count: int) -> None:
        """Create the HNSW index once `count` vectors are copied, in a seventh of the time of adding them to it.

        Raises:
            _Changed: another process is doing so.
            StoreError: the server refuses, or the index was closed meanwhile.
        """
        # The graph must fit, or building slows down to what adding to it takes.
        megabytes = min(max(64, count * (3 * copy.dimensions + 600) // 2**20), 2_048)
        half = f"halfvec({copy.dimensions})"
        index = f"hnsw ((l2_normalize(embedding)::{half}) halfvec_ip_ops)"
        statement = f"CREATE INDEX IF NOT EXISTS mi_pgvector_{copy.id}_hnsw ON {self._table(copy.id)} USING {index}"
        with self._database.write() as connection:
            lock = text("SELECT pg_try_advisory_xact_lock(7034923, CAST(:id AS int))")
            if not connection.execute(lock, {"id": copy.id % 2**31}).scalar():
                raise _Changed
            # One process of the server: others would need shared memory, of which containers have little.
            for limit in (f"maintenance_work_mem = '{megabytes}MB'", "max_parallel_maintenance_workers = 0"):
                connection.execute(text(f"SET LOCAL {limit}"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            driver = cast(Any, connection.connection.driver_connection)
            if hasattr(driver, "leave_pipeline"):
                driver.leave_pipeline()  # until the next transaction
            server = driver.pgconn
            # Not by `execute`, which takes a server for dead that is silent for a minute.
            server.send_query(statement.encode())
            while server.is_busy():
                if self._closed.wait(POLL_SECONDS):
                    server.get_cancel().cancel()
                server.consume_input()
            problem = server.get_result().error_message.decode(errors="replace")
            while server.get_result() is not None:
                pass
            if problem:
                raise StoreError(f"The index of vectors was not built: {' '.join(problem.split())}")

    def _change(
        self,
        copy: _PostgresCopy,
        held: Revision | None,
        *,
        add: Sequence[StoredVector] = (),
        remove: Sequence[int] = (),
    ) -> _PostgresCopy:
        """Change the rows of a copy, which holds the revision `held` afterwards (None: it is not finished).

        Raises:
            _Changed: another process changed the copy since it was read. Nothing was stored.
        """
        update = (
            f"UPDATE {self._copies} SET version = version + 1, changed_at = now(), held_count = :count, "
            "held_last = :last_number, held_deleted = :deleted WHERE id = :id AND version = :version"
        )
        state = dict.fromkeys(("count", "last_number", "deleted")) if held is None else asdict(held)
        insert = (
            f"INSERT INTO {self._table(copy.id)} (number, embedding) SELECT number, embedding::vector "
            "FROM unnest(CAST(:numbers AS bigint[]), CAST(:vectors AS text[])) AS added (number, embedding)"
        )
        # With the nine digits that make a float32 again; `repr` would write 17 and take three times as long.
        template = f"[{','.join(['%.9g'] * copy.dimensions)}]"
        with self._database.write() as connection:
            # First, as it locks the row: changes to one copy happen one after another.
            changed = connection.execute(text(update), {**state, "id": copy.id, "version": copy.version})
            if not changed.rowcount:
                raise _Changed
            if remove:
                delete = f"DELETE FROM {self._table(copy.id)} WHERE number = ANY(:numbers)"
                connection.execute(text(delete), {"numbers": list(remove)})
            if add:
                numbers, rows = stack(list(add), copy.dimensions)
                vectors = [template % tuple(row) for row in rows.astype(float).tolist()]
                connection.execute(text(insert), {"numbers": numbers.tolist(), "vectors": vectors})
        return replace(copy, version=copy.version + 1, held=held)
