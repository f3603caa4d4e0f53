"""Closing a database, services and a memory: at once where asked, and by itself where a program just ends."""

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, blocks, note, on_file, open_memory
from sqlalchemy import create_engine, text
from sqlalchemy.pool import StaticPool

from memory_core import Database, Memory, Services, StoreError

CLOSED_DATABASE = "This database was closed"
CLOSED_MEMORY = "This memory was closed"


def connection_of(database):
    with database.read() as connection:
        return connection.connection.driver_connection


def is_closed(connection):
    try:
        connection.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


@pytest.fixture(params=["in memory", "on file"])
def url(request, tmp_path):
    return None if request.param == "in memory" else on_file(tmp_path)


def test_a_closed_database_says_so_whatever_is_asked_of_it(url):
    with Database.open(url) as database:
        connection = connection_of(database)
    assert is_closed(connection)
    for use in (database.check, database.compact, database.forget_log, lambda: database.write().__enter__()):
        with pytest.raises(StoreError, match=CLOSED_DATABASE):
            use()
    database.close()


def test_connections_of_other_threads_are_closed_too(tmp_path):
    database, opened = Database.open(on_file(tmp_path)), []
    together = threading.Barrier(3)

    def read():
        with database.read() as connection:
            together.wait()
            opened.append(connection.connection.driver_connection)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(opened)) == 3
    database.close()
    assert [is_closed(connection) for connection in opened] == [True] * 3


def test_a_database_that_two_opened_closes_with_the_second(tmp_path):
    first, second = Database.open(on_file(tmp_path)), Database.open(on_file(tmp_path))
    first.close()
    second.check()
    second.close()
    with pytest.raises(StoreError, match=CLOSED_DATABASE):
        first.check()
    with Database.open(on_file(tmp_path)) as again:
        assert again is not first
        again.check()


def test_a_relative_url_names_another_database_in_another_folder(tmp_path, monkeypatch):
    opened = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        monkeypatch.chdir(folder)
        memory = Memory.from_defaults(session_id="s", database_uri="sqlite:///memory.db")
        memory.put(note("Hi."))
        opened.append(memory)
    opened[0].put(note("Once more, from the other folder."))
    assert [len(memory.get_all()) for memory in opened] == [2, 1]
    assert all((tmp_path / name / "memory.db").exists() for name in ("first", "second"))
    for memory in opened:
        memory.close()


def test_a_database_being_read_is_closed_when_the_reading_ends(tmp_path):
    database = Database.open(on_file(tmp_path))
    with database.read() as connection:
        raw = connection.connection.driver_connection
        database.close()
        assert connection.execute(text("SELECT 1")).scalar() == 1
    assert is_closed(raw)


def test_a_memory_closes_the_database_that_it_opened(url):
    with Memory.from_defaults("s", database_uri=url) as memory:
        memory.put(note(0))
        database = memory.session.database
    with pytest.raises(StoreError, match=CLOSED_DATABASE):
        database.check()
    for use in (memory.get, memory.get_all, memory.flush, memory.events, memory.session.status):
        with pytest.raises(StoreError, match=CLOSED_MEMORY):
            use()
    with pytest.raises(StoreError, match=CLOSED_MEMORY):
        memory.put(note(1))
    memory.close()


def test_a_memory_leaves_open_what_it_was_given(tmp_path):
    with Database.open(on_file(tmp_path)) as database:
        with Memory.from_defaults("s", database=database) as memory:
            memory.put(note(0))
        with pytest.raises(StoreError, match=CLOSED_MEMORY):
            memory.get()
        with Memory.open("s", database, services=Services()) as again:
            assert len(again.get_all()) == 1
        database.check()


def test_two_memories_of_one_url_do_not_close_each_other(tmp_path):
    first = Memory.from_defaults("s", database_uri=on_file(tmp_path))
    with Memory.from_defaults("s", database_uri=on_file(tmp_path)) as second:
        second.put(note(0))
    assert len(first.get_all()) == 1
    first.close()


def test_an_engine_of_the_callers_stays_open():
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with Memory.from_defaults("s", engine=engine) as memory:
        memory.put(note(0))
    with Memory.from_defaults("s", engine=engine) as again:
        assert len(again.get_all()) == 1
    engine.dispose()


def test_a_memory_that_cannot_be_made_leaves_nothing_open(tmp_path):
    with Database.open(on_file(tmp_path)) as database, pytest.raises(ValueError):
        Memory.from_defaults("s", database_uri=on_file(tmp_path), memory_blocks=[*blocks(), *blocks()])
    with pytest.raises(StoreError, match=CLOSED_DATABASE):
        database.check()


class Index:
    closed = 0

    def close(self):
        self.closed += 1


def test_services_close_their_index_at_the_end_of_a_with_block(tmp_path):
    embedder, extractor = HashEmbedder(), NoteExtractor()
    with Services(index=tmp_path / "vectors", embedder=embedder, extractor=extractor) as services:
        services._index = index = Index()
    assert index.closed == 1


def test_a_memory_closes_services_that_it_made(monkeypatch):
    closed = []
    monkeypatch.setattr(Services, "close", lambda self: closed.append(self))
    with Memory.from_defaults("s") as memory:
        own = memory.session.services
    assert closed == [own]
    with open_memory() as memory:  # with services of ours
        pass
    assert closed == [own]


PROGRAMS = {
    "in memory": "memory = opened(None)",
    "on file": "memory = opened(sys.argv[1])",
    "threads": """
memory = opened(sys.argv[1])
threads = [threading.Thread(target=memory.get_all) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    "let go": "memory = opened(None); del memory; gc.collect()",
    "staged": """
from memory_core.store.copying.staging import Staging
staged = Staging()
""",
    "forked": """
memory = opened(sys.argv[1])
child = os.fork()
assert len(memory.get_all()) == 1
del memory
gc.collect()
if child:
    assert os.waitpid(child, 0)[1] == 0
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_process_that_just_ends_warns_of_nothing(program, tmp_path):
    """From Python 3.13 on an open connection is a warning."""
    if program == "forked" and not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    code = f"""
import gc, os, sys, threading
from memory_core import Memory
def opened(url):
    memory = Memory.from_defaults("s", database_uri=url)
    memory.put({{"role": "user", "content": "hello"}})
    return memory
{PROGRAMS[program]}
"""
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", code, on_file(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).resolve().parent.parent,
    )
    assert (done.returncode, done.stderr) == (0, "")
