"""Copies of vectors in pgvector and Chroma go with the session, the user or the tenant whose vectors they hold."""

import logging
from contextlib import closing

import numpy as np
import pytest
from engine_fakes import HashEmbedder, note, on_file, open_memory
from sqlalchemy import text
from vector_fakes import ListSource, random_vectors

from memory_core.blocks.storing import vectors_of, vectors_of_user
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import AccessError, StoreError, VectorIndexError
from memory_core.sessions import forgetting as forgetting
from memory_core.sessions.forgetting import forget_user
from memory_core.sessions.overview import delete_session, delete_tenant
from memory_core.store.database import Database
from memory_core.store.vector_rows import DatabaseVectors
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.pgvector import PgvectorIndex
from memory_inspector.__main__ import main
from memory_inspector.upkeep.agents import new_token, tenant_of
from memory_inspector.upkeep.damage import find_damage, repair_damage

NOTES = 30


def filled(database_uri, session_id="s", user_id="ana", scope="user", tenant=""):
    """A session with stored turns that all of the user's sessions search."""
    turns = VectorMemoryBlock(name="turns", embed_model=HashEmbedder(), scope=scope)
    memory = open_memory(session_id, database_uri=database_uri, user_id=user_id, tenant=tenant, memory_blocks=[turns])
    for number in range(NOTES):
        memory.put(note(number))
    return memory


def own(memory):
    session = memory.session
    return vectors_of(session.database, session.services, memory.session_id, "turns", HashEmbedder())


def joined(memory, *sessions, user_id="ana"):
    session = memory.session
    return vectors_of_user(session.database, session.services, user_id, sessions, "turns", HashEmbedder())


def hits(index, source):
    return index.search(source, HashEmbedder().embed(["note 3"])[0], limit=4)


def left_over(database, index):
    return [finding.number for finding in find_damage(database, index) if "all deleted" in finding.what]


def numbers(source):
    return set(source.numbers())


# -- pgvector ------------------------------------------------------------------------------------


def pgvector(memory):
    return PgvectorIndex(memory.session.database, min_vectors=1)


@pytest.fixture
def large(shared_server):
    """The URL of a new, empty database with pgvector."""
    return shared_server.new_database("vector")


def copies(database):
    """Numbers of the vectors in each copy, by its collection, past this package."""
    with database.read() as connection:
        listed = connection.execute(text("SELECT collection, id FROM mi_pgvector")).all()
        tables = connection.execute(text("SELECT relname FROM pg_class WHERE relname ~ '^mi_pgvector_[0-9]+$'"))
        if not database.tenant and database.tenants() == [""]:
            assert sorted(tables.scalars()) == sorted(f"mi_pgvector_{number}" for _, number in listed)
        rows = {name: connection.execute(text(f"SELECT number FROM mi_pgvector_{number}")) for name, number in listed}
        return {name: set(found.scalars()) for name, found in rows.items()}


@pytest.mark.postgres
class TestPgvector:
    @pytest.mark.parametrize("reusable", [False, True])
    def test_a_deleted_sessions_copy_goes_and_its_branchs_stays(self, large, reusable):
        memory = filled(large, scope="session")
        branch = memory.branch(NOTES - 6)
        index = pgvector(memory)
        sources = own(memory), own(branch)
        assert all(index.build(source) for source in sources)
        before = hits(index, sources[1])
        delete_session(memory.session.database, "s", reusable=reusable)
        assert copies(memory.session.database) == {sources[1].collection: numbers(sources[1])}
        assert hits(index, sources[1]) == before

    def test_a_copy_that_sessions_share_loses_the_deleted_ones_vectors_and_goes_with_the_last(self, large):
        memory, other = filled(large), filled(large, "other")
        database, index = memory.session.database, pgvector(memory)
        both, rest = joined(memory, "s", "other"), joined(other, "other")
        assert index.build(both)
        delete_session(database, "s")
        assert copies(database) == {both.collection: numbers(rest)}
        assert hits(index, rest) == hits(ExactIndex(), rest)
        assert find_damage(database, index) == []
        delete_session(database, "other")
        assert copies(database) == {}

    def test_a_forgotten_users_copies_go_and_anothers_stay(self, large):
        memory, other, bens = filled(large), filled(large, "other"), filled(large, "ben", user_id="ben")
        database, index = memory.session.database, pgvector(memory)
        stays = joined(bens, "ben", user_id="ben")
        for source in (own(memory), own(other), joined(memory, "s", "other"), stays):
            assert index.build(source)
        forget_user(database, "ana")
        assert copies(database) == {stays.collection: numbers(stays)}

    def test_copies_stay_if_the_forgetting_fails(self, large, monkeypatch):
        memory = filled(large)
        database, index, source = memory.session.database, pgvector(memory), own(memory)
        assert index.build(source)
        erase = forgetting.erase_remains

        def erase_and_fail(*given, **named):
            erase(*given, **named)
            raise StoreError("The connection is lost.")

        monkeypatch.setattr(forgetting, "erase_remains", erase_and_fail)
        with pytest.raises(StoreError):
            forget_user(database, "ana")
        assert copies(database) == {source.collection: numbers(source)}
        assert hits(index, source) == hits(ExactIndex(), source)

    def test_a_deleted_tenants_copies_go_and_anothers_stay(self, large):
        acme, globex = filled(large, tenant="acme"), filled(large, tenant="globex")
        for memory in (acme, globex):
            assert pgvector(memory).build(own(memory))
            assert pgvector(memory).build(joined(memory, "s"))
        acme.session.database.delete_tenant()
        assert len(copies(globex.session.database)) == 2
        assert copies(Database.open(large, tenant="acme")) == {}
        with Database.open(large).read() as connection:
            tables = "SELECT count(*) FROM pg_class WHERE relname ~ '^mi_pgvector_[0-9]+$'"
            assert connection.execute(text(tables)).scalar() == 2

    def test_a_copy_that_is_being_built_goes_too(self, large):
        memory = filled(large, scope="session")
        database, index, source = memory.session.database, pgvector(memory), own(memory)
        some, asked = source.some, []

        def delete_meanwhile(numbers):
            asked.append(numbers)
            if len(asked) == 2:  # the copy exists, and is about to be filled
                found = some(numbers)
                delete_session(database, "s")
                return found
            return some(numbers)

        source.some = delete_meanwhile
        index.build(source)
        assert len(asked) >= 2
        assert copies(database) == {}

    def test_a_copy_without_vectors_is_found_and_dropped_and_one_in_use_is_not(self, large, monkeypatch, capsys):
        for name in ("MEMORY_INSPECTOR_HOME", "MEMORY_INSPECTOR_CHROMA_URL"):
            monkeypatch.delenv(name, raising=False)
        memory = filled(large)
        database, index = memory.session.database, pgvector(memory)
        shared = joined(memory, "s")
        gone = ListSource("mi-gone").add(*random_vectors(NOTES))
        for source in (own(memory), shared, gone):
            assert index.build(source)
        assert left_over(database, index) == [1]
        assert main(["maintain", "--database", large, "--repair"]) == 0
        assert (
            "1  copies in pgvector in the database of vectors that were all deleted: mended" in capsys.readouterr().out
        )
        assert find_damage(database, index) == []
        assert set(copies(database)) == {own(memory).collection, shared.collection}

    def test_copies_of_another_account_stay_with_a_warning_until_that_account_repairs(
        self, large, shared_server, caplog
    ):
        memory = filled(large)
        database, index, role = memory.session.database, pgvector(memory), f"writer_of_{large.rsplit('/', 1)[1]}"
        assert index.build(own(memory))
        shared_server.execute(f"CREATE ROLE {role} LOGIN")
        database.grant(role)
        with Database.open(large.replace("ana:secret-word", role)) as others:
            delete_session(others, "s", index=PgvectorIndex(others))
        assert "another account" in caplog.text
        assert left_over(database, index) == [1]
        repair_damage(database, index)
        assert copies(database) == {}


# -- Chroma and other indexes --------------------------------------------------------------------


class FailingIndex(ExactIndex):
    """An index that lists its copies, and can be unreachable."""

    name = "Chroma at localhost:8000"

    def __init__(self):
        super().__init__()
        self.held, self.reached = {}, True

    def search(self, source, query, *, limit):
        self.held[source.collection] = numbers(source)
        return super().search(source, query, limit=limit)

    def forget(self, collection):
        if not self.reached:
            raise VectorIndexError("Nothing answers at localhost:8000.")
        self.held.pop(collection, None)

    def copied_collections(self):
        return set(self.held)


@pytest.mark.slow
def test_a_deleted_sessions_copies_go_from_the_index_and_others_stay(tmp_path):
    memory, other = filled(on_file(tmp_path)), filled(on_file(tmp_path), "other")
    database, index = memory.session.database, FailingIndex()
    for source in (own(memory), own(other), joined(memory, "s", "other")):
        hits(index, source)
    delete_session(database, "s", index=index)
    rest = joined(other, "other")
    assert hits(index, rest) == hits(ExactIndex(), rest)
    assert index.held == {own(other).collection: numbers(rest), rest.collection: numbers(rest)}
    assert left_over(database, index) == []
    forget_user(database, "ana", index=index)
    assert index.held == {}


@pytest.mark.parametrize("delete", [lambda d, i: delete_session(d, "s", index=i), lambda d, i: forget_user(d, "ana")])
def test_copies_in_an_index_that_is_not_reached_are_found_and_dropped_later(tmp_path, caplog, delete):
    memory = filled(on_file(tmp_path))
    database, index = memory.session.database, FailingIndex()
    others = ListSource("mi-of-another-database").add(*np.eye(8, dtype=np.float32))
    for source in (own(memory), joined(memory, "s"), others):
        hits(index, source)
    assert left_over(database, index) == []
    index.reached = False
    delete(database, index)
    assert len(index.held) == 3
    assert left_over(database, index) == [2]
    index.reached = True
    repair_damage(database, index)
    assert list(index.held) == [others.collection]
    assert find_damage(database, index) == []


def test_an_index_that_is_not_reached_is_named_in_one_warning(tmp_path, caplog):
    memory = filled(on_file(tmp_path))
    index = FailingIndex()
    index.reached = False
    with caplog.at_level(logging.WARNING):
        delete_session(memory.session.database, "s", index=index)
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "Nothing answers at localhost:8000." in warning
    assert "maintain --repair" in warning


def check_deleted_tenant(uri):
    default = Database.open(uri)
    token, other = new_token(default, "a", tenant="acme"), new_token(default, "b", tenant="globex")
    acme, globex = filled(uri, tenant="acme"), filled(uri, tenant="globex")
    index = FailingIndex()
    for memory in (acme, globex):
        hits(index, own(memory))
        hits(index, joined(memory, "s"))
    stay = {own(globex).collection, joined(globex, "s").collection}
    index.reached = False
    assert delete_tenant(acme.session.database, index) == 1
    with pytest.raises(AccessError, match="unknown"):
        tenant_of(default, token)
    assert tenant_of(default, other) == "globex"
    assert left_over(default, index) == [2]
    assert left_over(globex.session.database, index) == []
    index.reached = True
    repair_damage(default, index)
    assert set(index.held) == stay
    assert delete_tenant(globex.session.database, index) == 1
    assert index.held == {}


@pytest.mark.slow
def test_a_deleted_tenants_tokens_and_copies_go(tmp_path):
    check_deleted_tenant(on_file(tmp_path))


@pytest.mark.postgres
def test_a_deleted_tenants_tokens_and_copies_go_on_postgresql(url):
    check_deleted_tenant(url)


@pytest.mark.slow
def test_copies_in_a_folder_of_chroma_go(tmp_path):
    memory, other = filled(on_file(tmp_path)), filled(on_file(tmp_path), "other")
    database = memory.session.database
    with closing(ChromaIndex(path=tmp_path / "chroma")) as index:
        delete_session(database, filled(on_file(tmp_path), "early").session_id, index=index)
        assert not (tmp_path / "chroma").exists()  # nothing to forget: Chroma is not even loaded
        for source in (own(memory), own(other), joined(memory, "s", "other")):
            hits(index, source)
        assert len(index.copied_collections()) == 3
        assert find_damage(database, index) == []
        delete_session(database, "s")  # by a program that knows of no index
        assert left_over(database, index) == [1]
        repair_damage(database, index)
        assert index.copied_collections() == {own(other).collection, joined(other, "other").collection}
        forget_user(database, "ana", index=index)
        assert index.copied_collections() == set()
        assert [path for path in (tmp_path / "chroma").iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_the_session_of_a_reused_id_is_searched_in_a_copy_of_its_own(tmp_path):
    memory = filled(on_file(tmp_path))
    index, source = FailingIndex(), own(memory)
    hits(index, source)
    delete_session(memory.session.database, "s", reusable=True, index=index)
    again = filled(on_file(tmp_path))
    hits(index, own(again))
    assert index.held == {source.collection: numbers(DatabaseVectors(again.session.database, source.collection))}
