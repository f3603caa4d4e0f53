"""pgvector, the index in PostgreSQL, against the exact scan."""

import gc
import multiprocessing
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from engine_fakes import HashEmbedder, note, on_file, open_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, text
from vector_fakes import ListSource, queries, random_vectors

from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.config import Settings
from memory_core.errors import StoreError, VectorIndexError
from memory_core.services import Services
from memory_core.store.database import Database, parse_url
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.pgvector import AT_ONCE, PgvectorIndex
from memory_inspector.checks.promises import check_vector_index

pytestmark = pytest.mark.postgres


class BuildsAtOnce(PgvectorIndex):
    """Copies in the search what a thread would copy beside it, and every collection however small."""

    def __init__(self, database, min_vectors=1):
        super().__init__(database, min_vectors=min_vectors)

    def _search(self, source, revision, query, limit):
        return super()._search(source, revision, query, limit) if self.build(source) else None


class Counting(ExactIndex):
    """An exact scan that counts its searches."""

    searches = 0

    def search(self, source, query, *, limit):
        self.searches += 1
        return super().search(source, query, limit=limit)


class Tenant:
    """A database in which each transaction names a tenant."""

    def __init__(self, database, tenant):
        self._database, self.engine, self._tenant = database, database.engine, tenant

    @contextmanager
    def read(self):
        with self._database.read() as connection:
            connection.execute(text("SELECT set_config('memory.tenant', :tenant, true)"), {"tenant": self._tenant})
            yield connection

    @contextmanager
    def write(self):
        with self._database.write() as connection:
            connection.execute(text("SELECT set_config('memory.tenant', :tenant, true)"), {"tenant": self._tenant})
            yield connection


@pytest.fixture(scope="module")
def shared_database(shared_server):
    with Database.open(shared_server.new_database("vector")) as database:
        yield database


@pytest.fixture
def database(shared_database):
    """A database with the extension, in which nothing is copied yet."""
    yield shared_database
    index = PgvectorIndex(shared_database)
    for collection in rows(shared_database, "SELECT collection FROM mi_pgvector"):
        index.forget(collection)


def rows(database, query):
    with database.read() as connection:
        return list(connection.execute(text(query)).scalars())


def tables(database):
    return rows(database, "SELECT relname FROM pg_class WHERE relname ~ '^mi_pgvector_[0-9]+$' ORDER BY relname")


def same(index, source, limit=8, count=10, dim=32):
    for query in queries(count, dim=dim):
        assert index.search(source, query, limit=limit) == ExactIndex().search(source, query, limit=limit)


def source_of(count, *, name="session-1-recall-minilm", **more):
    return ListSource(name).add(*random_vectors(count, **more))


def test_it_keeps_the_promises_of_an_index(database):
    check_vector_index(lambda: BuildsAtOnce(database))


def test_every_search_follows_additions_and_deletions_with_the_index(database):
    index = BuildsAtOnce(database)
    index._exact = Counting()
    source = source_of(400)
    same(index, source)
    source.add(*random_vectors(3, seed=5))
    same(index, source)
    source.delete(7, 403, 12)
    same(index, source)
    source.add(*random_vectors(2, seed=6))
    same(index, source)
    assert source.read_after[-10:].count(0) >= 10  # by the scans that it is compared with
    assert index._exact.searches == 0
    assert len(tables(database)) == 1


def test_equal_vectors_are_hits_by_their_number_however_many_there_are(database):
    index, source = BuildsAtOnce(database), source_of(200)
    index._exact = Counting()
    source.add(*[random_vectors(1, seed=9)[0]] * 150)
    hits = index.search(source, random_vectors(1, seed=9)[0], limit=12)
    assert [hit.number for hit in hits] == list(range(201, 213))
    assert index._exact.searches == 0


def test_a_small_collection_is_scanned_and_stored_nowhere(database):
    index, source = PgvectorIndex(database, min_vectors=300), source_of(299)
    same(index, source)
    assert tables(database) == []


def test_a_large_collection_is_scanned_until_a_thread_has_copied_it(database):
    index, source = PgvectorIndex(database, min_vectors=300), source_of(1_200)
    index._exact = Counting()
    same(index, source, count=1)
    for builder in index._builders.values():
        builder.join()
    scans = index._exact.searches
    assert scans == 1
    same(index, source)
    assert index._exact.searches == scans
    source.add(*random_vectors(AT_ONCE + 1, seed=4))  # more than a search adds
    same(index, source, count=1)
    assert index._exact.searches == scans + 1
    index.close()


def test_a_build_that_was_stopped_goes_on_where_it_stopped(database):
    index, source = PgvectorIndex(database, min_vectors=1), source_of(1_700)
    some = source.some

    def stop_after_two(numbers):
        index._closed.set()
        return some(numbers)

    source.some = stop_after_two
    assert not index.build(source)
    source.some = some
    asked = []
    source.some = lambda numbers: asked.extend(numbers) or some(numbers)
    assert PgvectorIndex(database, min_vectors=1).build(source)
    assert 0 < len(asked) <= 1_700
    same(PgvectorIndex(database, min_vectors=1), source)


def test_forgetting_drops_the_table_of_the_collection_alone(database):
    index = BuildsAtOnce(database)
    one, two = source_of(60, name="mi-one"), source_of(60, name="mi-two", seed=2)
    same(index, one)
    same(index, two)
    before = tables(database)
    index.forget("mi-one")
    assert (len(before), len(tables(database))) == (2, 1)
    assert rows(database, "SELECT collection FROM mi_pgvector") == ["mi-two"]
    same(index, two)
    same(index, one)


def test_a_collection_may_have_other_dimensions_after_it_was_forgotten(database):
    index, source = BuildsAtOnce(database), source_of(60)
    same(index, source)
    index.forget(source.collection)
    source = source_of(60, dim=12)
    same(index, source, dim=12)
    with pytest.raises(VectorIndexError, match="The query has 32 dimensions and the stored vectors have 12"):
        index.search(source, queries(1)[0], limit=3)


def test_a_vector_that_was_replaced_under_its_number_is_read_again(database):
    index, source = BuildsAtOnce(database), source_of(100)
    source.stored[40] = np.zeros(32, dtype=np.float32)  # as an unusable one is read
    same(index, source, limit=60)
    source.stored[40] = random_vectors(1, seed=8)[0]
    source.deleted += 1
    same(index, source, limit=60)
    assert index.search(source, source.stored[40], limit=1)[0].number == 40


def test_a_vector_with_a_low_number_may_be_committed_after_higher_ones(database):
    index, source = BuildsAtOnce(database), source_of(100)
    late = source.stored.pop(90)
    same(index, source)
    source.stored[90] = late
    same(index, source)
    assert index.search(source, late, limit=1)[0].number == 90


def test_processes_and_threads_that_copy_one_collection_agree(database):
    source = source_of(1_300)

    def search_apart(_):
        engine = create_engine(parse_url(url_of(database)))  # as another process would: nothing is shared
        with Database(engine) as other:
            index = PgvectorIndex(other, min_vectors=1)
            index.build(source)
            for query in queries(3):
                index.search(source, query, limit=5)
            index.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(search_apart, range(4)))
    index = BuildsAtOnce(database)
    index._exact = Counting()
    same(index, source)
    assert index._exact.searches == 0
    assert len(tables(database)) == 1
    assert sorted(rows(database, f"SELECT number FROM {tables(database)[0]}")) == sorted(source.stored)


def url_of(database):
    return database.engine.url.render_as_string(hide_password=False)


def _grow(url, number, start):
    """Search a collection of the database again and again, in a process of its own."""
    source = source_of(400)
    with Database.open(url) as database:
        index = BuildsAtOnce(database)
        start.wait()
        for query in queries(20, seed=number):
            assert index.search(source, query, limit=5) == ExactIndex().search(source, query, limit=5)


def test_processes_search_one_copy_at_once(database, monkeypatch):
    # A page that an earlier test ran may stand as the main module, which a new process would run again.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    spawn = multiprocessing.get_context("spawn")
    start = spawn.Event()
    processes = [spawn.Process(target=_grow, args=(url_of(database), number, start)) for number in range(3)]
    for process in processes:
        process.start()
    start.set()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(tables(database)) == 1


def test_vectors_of_two_tenants_never_hide_each_other(database):
    near = random_vectors(1, seed=3)[0]
    many = ListSource().add(*(near + 0.001 * random_vectors(900, seed=4)))  # all nearer than those of the other
    few = source_of(60, seed=5)
    acme, other = (BuildsAtOnce(Tenant(database, tenant)) for tenant in ("acme", ""))
    assert len(acme.search(many, near, limit=10)) == 10
    assert other.search(few, near, limit=10) == ExactIndex().search(few, near, limit=10)
    assert acme.search(many, near, limit=10) == ExactIndex().search(many, near, limit=10)
    assert len(tables(database)) == 2
    # A tenant sees no row of another's copy, and forgets only its own, though both have one name.
    seen = {tenant: rows(Tenant(database, tenant), "SELECT tenant FROM mi_pgvector") for tenant in ("acme", "", "x")}
    assert seen == {"acme": ["acme"], "": [""], "x": []}
    counts = [rows(Tenant(database, "acme"), f"SELECT count(*) FROM {table}")[0] for table in tables(database)]
    assert sorted(counts) == [0, 900]
    acme.forget(many.collection)
    assert len(tables(database)) == 1
    assert other.search(few, near, limit=10) == ExactIndex().search(few, near, limit=10)


def test_tables_stand_in_the_schema_of_the_database(database):
    with Database.open(url_of(database), schema="odd schema") as other:
        index = BuildsAtOnce(other)
        same(index, source_of(60))
        in_schema = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'odd schema'"
        assert rows(other, f"{in_schema} AND table_name LIKE 'mi_pgvector%'") == [2]
        index.forget("session-1-recall-minilm")
        assert rows(other, f"{in_schema} AND table_name LIKE 'mi_pgvector%'") == [1]


def test_without_the_extension_one_sentence_is_logged_and_vectors_are_scanned(url, caplog):
    index, source = PgvectorIndex(Database.open(url), min_vectors=1), source_of(100)
    assert index.name == "pgvector in the database"
    same(index, source)
    sentence = "no pgvector here: an administrator can run CREATE EXTENSION vector"
    assert index.name == f"exact scan ({sentence})"
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"Vectors are scanned: {sentence}."
    ]
    index.forget(source.collection)
    index.check()


def test_an_account_that_may_not_create_tables_scans(shared_server, caplog):
    import psycopg

    url = shared_server.new_database("vector")
    Database.open(url).close()
    with psycopg.connect(url) as connection:
        connection.execute("DROP ROLE IF EXISTS writer")
        connection.execute("CREATE ROLE writer LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO writer")
    with Database.open(url.replace("ana:secret-word@", "writer@")) as database:
        index = PgvectorIndex(database, min_vectors=1)
        same(index, source_of(50), count=2)
        assert index.name == "exact scan (this account may not create tables for pgvector)"
    assert "secret-word" not in caplog.text


def test_a_copy_that_was_damaged_from_outside_is_scanned_until_it_is_rebuilt(database):
    index, source = BuildsAtOnce(database), source_of(100)
    same(index, source)
    with database.write() as connection:
        connection.execute(text(f"DROP TABLE {tables(database)[0]}"))
    same(index, source, count=2)
    index.forget(source.collection)
    same(index, source)
    assert len(tables(database)) == 1


def test_forgetting_and_closing_do_not_wait_until_an_index_is_built(database, monkeypatch):
    for end in (lambda index: index.forget("mi-large"), lambda index: index.close()):
        index = PgvectorIndex(database, min_vectors=1)
        source, started = ListSource("mi-large").add(*clustered(4_000)), threading.Event()
        create = index._create_index
        monkeypatch.setattr(index, "_create_index", lambda *given, make=create, on=started: (on.set(), make(*given)))
        index._start_building(source)
        assert started.wait(60)
        end(index)
        index._builders["mi-large"].join(60)
        assert not index._builders["mi-large"].is_alive()
        index.forget("mi-large")
    assert tables(database) == []


def test_an_unreachable_server_is_an_error_of_the_store(own_server):
    server = own_server()
    with Database.open(server.new_database("vector")) as database:
        index, source = BuildsAtOnce(database), source_of(50)
        same(index, source, count=1)
        server.kill()
        with pytest.raises(StoreError):
            index.check() or index.forget(source.collection)
        server.start()
        same(index, source)


changes = st.lists(st.one_of(st.integers(1, 30), st.integers(-30, -1)), min_size=1, max_size=8)


@given(changes=changes, seed=st.integers(0, 1_000))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_additions_and_deletions_leave_the_hits_of_the_scan(database, changes, seed):
    """Each number adds so many vectors, or deletes as many of the oldest and the newest in turn."""
    index, source = BuildsAtOnce(database), source_of(20, name=f"mi-{seed}", seed=seed)
    for step, change in enumerate(changes):
        if change > 0:
            source.add(*random_vectors(change, seed=seed + step))
        else:
            numbers = sorted(source.stored)
            source.delete(*(numbers[change:] if step % 2 else numbers[:-change]))
        for query in queries(2, seed=seed):
            hits = index.search(source, query, limit=5)
            assert hits == ExactIndex().search(source, query, limit=5)
    index.forget(source.collection)


def test_ten_nearest_of_many_clustered_vectors_are_found(database):
    index, source = PgvectorIndex(database, min_vectors=1), ListSource("mi-clustered").add(*clustered(6_000))
    assert index.build(source)
    index._exact = Counting()
    scan, near = ExactIndex(), 0
    asked = clustered(100, seed=2)
    for query in asked:
        exact = {hit.number for hit in scan.search(source, query, limit=10)}
        near += len(exact & {hit.number for hit in index.search(source, query, limit=10)})
    assert near >= 0.99 * 10 * len(asked)
    assert index._exact.searches == 0


def clustered(count, *, seed=1, dim=384):
    """Return unit vectors `(count, dim)` around 200 topics, as sentence vectors lie."""
    topics = np.random.default_rng(0).normal(size=(200, dim))
    random = np.random.default_rng(seed)
    vectors = topics[random.integers(0, len(topics), count)] + 0.9 * random.normal(size=(count, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def turns():
    return [VectorMemoryBlock(name="turns", embed_model=HashEmbedder())]


def test_a_memory_on_postgresql_searches_with_pgvector_and_finds_what_sqlite_finds(
    shared_server, tmp_path, monkeypatch
):
    monkeypatch.setattr("memory_core.blocks.vector.WIDE_CANDIDATES", 50)  # fewer than there are turns
    contexts = []
    for uri in (shared_server.new_database("vector"), on_file(tmp_path)):
        memory = open_memory(database_uri=uri, memory_blocks=turns())
        database, index = memory.session.database, memory.session.services.index_of(memory.session.database)
        index._min_vectors = 20
        for number in range(100):
            memory.put(note(number))
        if not database.is_sqlite:
            assert index is memory.session.services.index_of(database)
            assert memory.retrieval.search("What was note 7?").index == index.name == "pgvector in the database"
            for builder in index._builders.values():
                builder.join()
            assert len(tables(database)) == 1
        contexts.append([memory.get(f"What was note {number}?") for number in range(5)])
        if not database.is_sqlite:
            memory.session.forget("note 7")
            assert tables(database) == []
        memory.session.services.close()
        database.close()
    assert contexts[0] == contexts[1]


def test_an_index_that_was_chosen_stays_chosen_on_postgresql(url, monkeypatch, tmp_path):
    chosen = ExactIndex()
    with Database.open(url) as database, Services(index=chosen) as services:
        assert services.index_of(database) is chosen
    of_server = {"MEMORY_INSPECTOR_DATABASE_URL": url, "MEMORY_INSPECTOR_HOME": str(tmp_path)}
    assert Settings.from_environment(of_server).index is None
    with_chroma = Settings.from_environment(of_server | {"MEMORY_INSPECTOR_CHROMA_URL": "http://localhost:8000"})
    assert with_chroma.index == "http://localhost:8000"
    assert Settings.from_environment({"MEMORY_INSPECTOR_HOME": str(tmp_path)}).index == tmp_path / "chroma"


def test_an_index_does_not_keep_its_database_open(url):
    services = Services()
    database = Database.open(url)
    services.index_of(database)
    database.close()
    gone = weakref.ref(database)
    del database
    gc.collect()
    assert gone() is None
    services.close()
