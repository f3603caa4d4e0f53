"""A disk that is full during an upgrade: the database stays as it was, and the next try with space upgrades it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from engine_fakes import HashEmbedder, on_file
from sqlalchemy import Engine, event
from sqlalchemy.exc import OperationalError
from sweep_kit import Fault
from test_schema_upgrade import back_to_version_1, back_to_version_7, played

from memory_core.errors import StoreError
from memory_core.memory import Memory
from memory_core.services import Services
from memory_core.store import database as store
from memory_core.store.database import Database
from memory_core.store.tables import SCHEMA_VERSION

EVERY = bool(os.environ.get("MEMORY_INSPECTOR_EVERY_STATEMENT"))
TRIES = 25
"""Statements of an upgrade that fail on PostgreSQL by default: it has hundreds, and a try takes a second."""

COPY = f"memory.db.before-version-{SCHEMA_VERSION}"


class Full(Fault):
    """Lets the nth statement or commit fail as on a full disk."""

    def _fail(self, connection, statement):
        self.struck = True
        if connection.dialect.name == "sqlite":
            raise OperationalError(statement, {}, sqlite3.OperationalError("database or disk is full"))
        raise OperationalError(statement, {}, psycopg.errors.DiskFull("could not extend file: No space left on device"))


def old(uri, back=back_to_version_7):
    """Make a database of an earlier version, on SQLite without a free page; return the messages in it."""
    memory = played(uri)
    messages = memory.get_all()
    memory.session.database.close()
    back(uri)
    if uri.startswith("sqlite"):
        with closing(sqlite3.connect(uri.removeprefix("sqlite:///"))) as connection:
            connection.execute("VACUUM")
    return messages


def dump(file):
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


def dump_of_postgresql(url):
    """Every row, column, key, index and policy, and the version, past this package."""
    listed = (
        "SELECT table_name, column_name, column_default FROM information_schema.columns WHERE table_schema = 'public'",
        "SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = "
        "'public'::regnamespace",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        "SELECT tablename, policyname, qual FROM pg_policies",
    )
    with psycopg.connect(url) as connection:
        tables = "SELECT relname FROM pg_class WHERE relname LIKE 'mi_%' AND relkind = 'r' ORDER BY relname"
        rows = [f"SELECT '{name}', t FROM {name} t" for (name,) in connection.execute(tables).fetchall()]
        return [sorted(map(str, connection.execute(query))) for query in (*listed, *rows)]


def fill_up(uri, monkeypatch, how, nth):
    """Open a database whose nth statement or commit fails; return the fault, and the sentence, None without one."""
    create = store._create
    with ExitStack() as stack, monkeypatch.context() as patch:
        faults = []

        def faulty(url):
            engine = create(url)
            faults.append(Full(SimpleNamespace(engine=engine)))
            stack.enter_context(faults[-1].planned(how, nth))
            return engine

        patch.setattr(store, "_create", faulty)
        try:
            Database.open(uri).close()
        except StoreError as error:
            return faults[-1], str(error)
        return faults[-1], None


def check_upgraded(uri, messages):
    with closing(Database.open(uri)) as database:
        services = Services(embedder=HashEmbedder())
        assert Memory.open("s", database, services=services, tokenizer_fn=str.split).get_all() == messages
        with database.read() as connection:
            assert connection.exec_driver_sql("SELECT version FROM mi_schema").scalar() == SCHEMA_VERSION


@pytest.mark.slow
@pytest.mark.parametrize("back", [back_to_version_1, back_to_version_7])
@pytest.mark.parametrize("how", ["statement", "commit"])
def test_whatever_fails_on_a_full_disk_an_old_file_stays_as_it_was(tmp_path, monkeypatch, how, back):
    uri, file = on_file(tmp_path), tmp_path / "memory.db"
    messages = old(uri, back)
    before, nth = dump(file), 0
    while True:
        nth += 1
        fault, sentence = fill_up(uri, monkeypatch, how, nth)
        if not fault.struck:
            break
        assert "database or disk is full" in sentence, nth
        assert "\n" not in sentence
        assert dump(file) == before, nth
        [*copies] = (path for path in tmp_path.iterdir() if path != file)
        assert [path.name for path in copies] in ([], [COPY]), nth
        assert all(dump(path) == before for path in copies), nth
    assert sentence is None
    assert nth > (50 if how == "statement" else 1)
    assert dump(tmp_path / COPY) == before
    check_upgraded(uri, messages)


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("how", ["statement", "commit"])
def test_whatever_fails_on_a_full_disk_old_tables_of_postgresql_stay_as_they_were(url, shared_server, monkeypatch, how):
    other = shared_server.new_database()
    old(other)
    counted, _ = fill_up(other, monkeypatch, how, -1)
    count = counted.statements if how == "statement" else counted.commits
    assert count > (200 if how == "statement" else 0)
    messages = old(url)
    before = dump_of_postgresql(url)
    for nth in range(1, count + 1, 1 if EVERY else max(1, count // TRIES)):
        fault, sentence = fill_up(url, monkeypatch, how, nth)
        assert fault.struck
        assert "No space left on device" in sentence, nth
        assert "\n" not in sentence
        assert dump_of_postgresql(url) == before, nth
    check_upgraded(url, messages)


@pytest.mark.slow
def test_a_file_that_has_no_page_left_is_upgraded_once_it_has(tmp_path):
    uri, file = on_file(tmp_path), tmp_path / "memory.db"
    messages = old(uri, back_to_version_1)
    with closing(sqlite3.connect(file)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()

    before, sentences = dump(file), []

    def limit(connection, _record):
        connection.execute(f"PRAGMA max_page_count = {pages + len(sentences)}")

    event.listen(Engine, "connect", limit)
    try:
        while True:
            try:
                Database.open(uri).close()
                break
            except StoreError as error:
                sentences.append(str(error))
                assert dump(file) == before
    finally:
        event.remove(Engine, "connect", limit)
    assert len(sentences) > 3
    assert set(sentences) == {f"The database at {uri} did not do what was asked: database or disk is full."}
    check_upgraded(uri, messages)


UPGRADING = """
import resource, sys
from memory_inspector.__main__ import main

limits = resource.getrlimit(resource.RLIMIT_FSIZE)
# Of any file, the copy included: the system answers as a full disk does.
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), limits[1]))
sys.exit(main(["upgrade", "--database", sys.argv[1]]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
def test_nothing_is_left_of_a_copy_that_does_not_fit(tmp_path):
    uri, file = on_file(tmp_path), tmp_path / "memory.db"
    messages = old(uri)
    before = dump(file)
    for size in (0, 8_192, file.stat().st_size // 2, file.stat().st_size - 4_096):
        command = [sys.executable, "-c", UPGRADING, str(file), str(size)]
        ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
        assert ended.returncode == 2, ended.stderr
        assert ended.stderr.startswith(f"memory-inspector: The database at {uri} did not do what was asked: ")
        assert ended.stderr.count("\n") == 1
        # Without room for its index of the log SQLite cannot even read.
        assert ended.stderr.endswith(" It was not upgraded, as it could not be copied before.\n") or size < 32_768
        assert list(tmp_path.glob(f"{COPY}*")) == []
        assert dump(file) == before
    check_upgraded(uri, messages)
    assert dump(tmp_path / COPY) == before


def test_a_copy_has_its_name_once_it_is_whole(tmp_path):
    """So a copy that a killed process left half written is not taken for one."""
    uri, seen = on_file(tmp_path), []
    old(uri)

    def look(_connection, _cursor, statement, *_):
        if statement.startswith("VACUUM INTO"):
            seen.append((tmp_path / COPY).exists())

    for moment in ("before_cursor_execute", "after_cursor_execute"):
        event.listen(Engine, moment, look)
    try:
        Database.open(uri).close()
    finally:
        for moment in ("before_cursor_execute", "after_cursor_execute"):
            event.remove(Engine, moment, look)
    assert seen == [False, False]
    assert (tmp_path / COPY).exists()
