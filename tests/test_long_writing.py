"""A session that is branched, imported or deleted is written piece by piece: others write in between, nothing is half
there, and what a stopped or dead process leaves goes."""

import threading

import pytest
from copied_rows import plain, rows_of
from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, open_memory, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_script import NoteRelations
from sqlalchemy import func, select

from memory_core import (
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
    delete_session,
    list_sessions,
)
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.store import erasing as erasing
from memory_core.store import writing
from memory_core.store.copying import session_copying as copying
from memory_core.store.database import Database
from memory_core.store.erasing import LEFT_AFTER_SECONDS
from memory_core.store.tables import TABLES

IMPORTED = ("session_imported",)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    for module in (writing, copying, erasing):
        monkeypatch.setattr(module, "PIECE", 7)


def services():
    return Services(embedder=HashEmbedder())


def a_session(uri="sqlite://", session_id="s", scope="session"):
    memory = open_memory(
        session_id,
        user_id="ana",
        database_uri=uri,
        token_limit=120,
        services=services(),
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="Be kind."),
            FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), scope=scope),
            VectorMemoryBlock(name="turns"),
            GraphMemoryBlock(name="graph", llm=NoteRelations()),
        ],
    )
    for number in range(12):
        memory.put(note(number))
        memory.build_context()
        memory.put(assistant(f"Noted: {number}. Ana lives in Lisbon."))
    return memory


def bundle_of(memory):
    return read_bundle(write_bundle(memory.session.database, memory.session_id), "s.zip")


def rows_in(database):
    """How many rows each table has."""
    with database.read() as connection:
        return {table.name: connection.execute(select(func.count()).select_from(table)).scalar() for table in TABLES}


class Stopped(Exception):
    pass


def stopping_after(number):
    """A step that stops at the piece of that number."""
    seen = []

    def step(rows):
        seen.append(rows)
        if len(seen) == number:
            raise Stopped

    return step


def in_between(does, then):
    """A step that does something in another thread, and waits for it."""

    def step(rows):
        if not rows:  # nothing is written yet
            return
        thread = threading.Thread(target=does)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "somebody else waits for the whole of it"
        then.append(rows)

    return step


@pytest.mark.slow
def test_others_write_between_the_pieces_of_an_import(tmp_path):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory, other = a_session(uri), open_memory("other", database_uri=uri)
    bundle, done = bundle_of(memory), []
    copy = import_bundle(memory.session.database, bundle, step=in_between(lambda: other.put(user("hello")), done))
    assert other.session.status().turns == len(done) > 10
    assert sum(done) > bundle.events
    again = Memory.open(copy, memory.session.database, services=services())
    assert plain(rows_of(again), events=IMPORTED) == plain(rows_of(memory))


@pytest.mark.slow
def test_nobody_sees_a_session_before_it_is_whole(tmp_path):
    database = Database.open(f"sqlite:///{tmp_path}/m.db")
    bundle, seen = bundle_of(a_session()), []
    own = {number for number, fact in enumerate(bundle.rows.facts)}
    assert own

    def look():
        seen.append(list_sessions(database))
        with database.read() as connection:
            (hidden,) = connection.exec_driver_sql("SELECT id FROM mi_session").scalars()
        with pytest.raises(NotFoundError):
            Memory.open(hidden, database, services=services())

    done = []
    copy = import_bundle(database, bundle, step=in_between(look, done))
    assert len(seen) == len(done) > 10
    assert not any(seen)
    assert [status.session_id for status in list_sessions(database)] == [copy]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(piece=st.integers(1, 25), scope=st.sampled_from(["session", "user"]))
def test_an_import_that_is_stopped_anywhere_leaves_nothing(piece, scope):
    bundle, database = _bundle(scope), Database.open()
    before = rows_in(database)
    with pytest.raises(Stopped):
        import_bundle(database, bundle, step=stopping_after(piece))
    assert {**rows_in(database), "mi_collection": 0} == {**before, "mi_collection": 0}


_BUNDLES = {}


def _bundle(scope):
    if scope not in _BUNDLES:
        _BUNDLES[scope] = bundle_of(a_session(scope=scope))
    return _BUNDLES[scope]


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["session", "user"])
def test_the_users_facts_come_with_the_whole_and_once(scope):
    bundle, database = _bundle(scope), Database.open()
    first = Memory.open(import_bundle(database, bundle), database, services=services())
    second = Memory.open(import_bundle(database, bundle), database, services=services())
    told = {fact.text for fact in first.facts.read("facts")}
    assert told == {fact.text for fact in second.facts.read("facts")}
    assert len(told) == bundle.facts + bundle.user_facts > 3
    same = {fact.id for fact in first.facts.read("facts")} == {fact.id for fact in second.facts.read("facts")}
    assert same == (scope == "user")


@pytest.mark.slow
def test_what_a_dead_process_left_of_an_import_goes_with_a_later_one():
    bundle, database = bundle_of(a_session()), Database.open()
    dying = writing.PieceWriter(database, stopping_after(20))
    with pytest.raises(Stopped):
        copying.insert_rows(dying, bundle.rows, "dead", title="", user_id=None, now=1_000.0)
    left = rows_in(database)
    assert left["mi_message"] > 20
    import_bundle(database, bundle, now=1_000.0 + LEFT_AFTER_SECONDS - 1)
    both = rows_in(database)["mi_message"]
    assert both == left["mi_message"] + bundle.messages, "it may be at work still"
    import_bundle(database, bundle, now=1_001.0 + LEFT_AFTER_SECONDS)
    assert rows_in(database)["mi_message"] == 2 * bundle.messages


@pytest.mark.slow
def test_others_write_while_a_session_is_deleted(tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory, other = a_session(uri), open_memory("other", database_uri=uri)
    kept, done = rows_in(other.session.database), []
    monkeypatch.setattr(writing.PieceWriter, "count", lambda self, rows: step(rows))
    step = in_between(lambda: other.put(user("hello")), done)
    delete_session(memory.session.database, "s")
    assert len(done) > 10
    assert other.session.status().turns == len(done)
    after = rows_in(other.session.database)
    assert after["mi_message"] == len(done) < kept["mi_message"] + len(done)
    assert after["mi_vector"] == after["mi_fact"] == after["mi_entity"] == after["mi_block"] == 0


def test_a_deletion_that_was_broken_off_hides_at_once_and_ends_later(monkeypatch):
    memory = a_session()
    step = stopping_after(5)
    with monkeypatch.context() as dies:
        dies.setattr(writing.PieceWriter, "count", lambda self, rows: step(rows))
        with pytest.raises(Stopped):
            delete_session(memory.session.database, "s", clock=lambda: 1_000.0)
    assert list_sessions(memory.session.database) == []
    with pytest.raises(NotFoundError):
        Memory.open("s", memory.session.database, services=services())
    assert rows_in(memory.session.database)["mi_message"]
    erasing.erase_what_was_left(writing.PieceWriter(memory.session.database), before=2_000.0)
    left = {name for name, number in rows_in(memory.session.database).items() if number}
    assert left == {"mi_schema", "mi_session", "mi_collection"}


@pytest.mark.slow
def test_others_write_between_the_pieces_of_a_branch(tmp_path, monkeypatch):
    uri = f"sqlite:///{tmp_path}/m.db"
    memory, other = a_session(uri), open_memory("other", database_uri=uri)
    done = []
    monkeypatch.setattr(writing.PieceWriter, "count", lambda self, rows: step(rows))
    step = in_between(lambda: other.put(user("hello")), done)
    branch = memory.branch(6)
    assert other.session.status().turns == len(done) > 5
    assert branch.log.history().latest_turn == 6
