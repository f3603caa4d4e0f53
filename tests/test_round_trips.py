"""A put on PostgreSQL in two round trips, and what must hold although statements are only queued."""

import os
import shutil
import socket
import subprocess
import threading
import time
from functools import partial

import pytest
from engine_fakes import assistant, blocks, check_whole, note, open_memory, user
from postgres_kit import free_port, unprivileged
from postgres_proxy import Proxy
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import DataError

from memory_core.errors import MessageError, StoreError
from memory_core.memory import Memory
from memory_core.store.database import Database, parse_url
from memory_core.store.database import _open as opened
from memory_core.store.direct_statements import DirectStatement
from memory_core.store.tables import content_table, event_table, lease_table

pytestmark = pytest.mark.postgres


@pytest.fixture
def proxy(url):
    proxy = Proxy(url)
    yield proxy
    Database.open(proxy.url).close()
    proxy.close()


def alone():
    """Let nothing happen in the background from now on."""
    for database in list(opened.values()):
        database.notifications.close()  # they are sent in the background, in transactions of their own
        database.for_agents = False  # whose lease is renewed now and then, which a slow machine comes to see
    for thread in threading.enumerate():
        if thread.name == "memory-notification-sender":
            thread.join()


def requests(proxy, act):
    alone()
    before = proxy.requests
    act()
    return proxy.requests - before


def test_a_put_takes_two_round_trips(proxy):
    memory = open_memory(database_uri=proxy.url, token_limit=10_000)
    memory.put(note(0))
    for number in range(1, 9):  # before and after statements are prepared
        assert requests(proxy, partial(memory.put, note(number))) == 2
    messages = [user("one"), assistant("two"), user("three")]
    assert requests(proxy, lambda: memory.put_messages(messages)) == 2
    assert len(memory.get_all()) == 12


def test_a_put_is_one_statement_that_leaves_the_sessions_settings_alone(url):
    memory = open_memory(database_uri=url, token_limit=10_000)
    memory.put(note(0))  # notes that this process works in the session, too
    alone()
    statements = []
    event.listen(memory.session.database.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    memory.put(note(1))
    reading, storing = statements
    assert reading.startswith("SELECT")
    assert [f"INSERT INTO {table}" in storing for table in ("mi_content", "mi_message", "mi_event")] == [True] * 3
    saved = storing.partition("UPDATE mi_session SET ")[2]
    assert "queue_messages" in saved
    assert "config" not in saved
    assert [message.content for message in memory.get_all()] == [note(number).content for number in range(2)]
    assert memory.session.status().turns == 2


def test_a_put_with_a_setting_for_each_transaction_takes_two_round_trips(proxy):
    memory = open_memory(database_uri=proxy.url, token_limit=10_000)
    database = memory.session.database
    database.settings["memory.test"] = "acme"
    memory.put(note(0))
    assert requests(proxy, lambda: memory.put(note(1))) == 2
    show = text("SELECT current_setting('memory.test', true)")
    with database.write() as connection:
        assert connection.execute(show).scalar() == "acme"
    with database.read() as connection:
        assert connection.execute(show).scalar() == "acme"
    database.settings.clear()
    with database.read() as connection:
        assert not connection.execute(show).scalar()


def test_reading_takes_one_round_trip_for_each_statement_and_one_for_the_end(proxy):
    database = Database.open(proxy.url)

    def read():
        with database.read() as connection:
            connection.execute(text("SELECT 1")).all()
            connection.execute(text("SELECT 2")).all()

    read()
    assert requests(proxy, read) == 3


def test_a_transaction_that_only_writes_is_stored(proxy):
    database = Database.open(proxy.url)
    rows = [{"scope": "s", "hash": str(number), "data": "words"} for number in range(1_500)]

    def write():
        with database.write() as connection:
            connection.execute(insert(content_table), rows)

    assert requests(proxy, write) == 1
    with database.read() as connection:
        assert len(connection.execute(content_table.select()).all()) == 1_500


def test_what_only_writes_and_fails_stores_nothing(url):
    database = Database.open(url)

    def fail():
        with database.write() as connection:
            connection.execute(insert(content_table), [{"scope": "s", "hash": "h", "data": "words"}])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.read() as connection:
        assert connection.execute(content_table.select()).all() == []


THINGS = Table(
    "things",
    MetaData(),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String),
    Column("size", Float),
    Column("whole", Boolean),
)


@pytest.mark.parametrize("streams_first", [False, True])  # which leaves the pipeline, for the rest of a transaction
def test_a_direct_statement_stores_and_reads_what_sqlalchemy_does(url, streams_first):
    rows = [
        (-1, "Größe 100% :name %s $1 'x' \\", 0.1 + 0.2, True),
        (2**40, None, -1e300, False),
        (3, "", None, None),
    ]
    things = [dict(zip(THINGS.c.keys(), row, strict=True)) for row in rows]
    add, query = DirectStatement(insert(THINGS)), DirectStatement(select(THINGS).where(THINGS.c.id != bindparam("id")))
    with Database.open(url).write() as connection:
        THINGS.create(connection)
        if streams_first:
            assert len(list(connection.execution_options(yield_per=1).execute(text("SELECT 1 UNION SELECT 2")))) == 2
        add.run(connection, things[0])
        add.run(connection, *things[1:])
    with Database.open(url).read() as connection:
        for _ in range(8):  # before and after it is prepared
            direct = query.rows(connection, {"id": 0})
            assert [tuple(row) for row in direct] == connection.execute(select(THINGS)).all() == rows
            assert [type(row[3]) for row in direct] == [bool, bool, type(None)]


@pytest.mark.parametrize(("value", "kind"), [("a\x00b", DataError), ("\ud800", UnicodeEncodeError), (2**70, DataError)])
def test_a_value_that_postgresql_does_not_take_is_the_same_error_from_a_direct_statement(url, value, kind):
    thing = {"id": 1, "name": value} if isinstance(value, str) else {"id": value}

    def store(run):
        with Database.open(url).engine.connect() as connection:
            THINGS.create(connection, checkfirst=True)
            run(connection, thing)
            connection.commit()

    for run in (DirectStatement(insert(THINGS)).run, lambda connection, row: connection.execute(insert(THINGS), [row])):
        with pytest.raises(kind):
            store(run)


def test_the_number_of_changed_rows_is_right_though_changes_are_queued(url):
    with Database.open(url).write() as connection:
        rows = [{"key": str(number), "owner": "", "until": 0.0} for number in range(3)]
        connection.execute(insert(lease_table), rows)
        changed = connection.execute(update(lease_table).where(lease_table.c.key != "0").values(owner="me"))
        gone = connection.execute(delete(lease_table).where(lease_table.c.owner == "me"))
        assert (gone.rowcount, changed.rowcount) == (2, 2)
        assert connection.execute(update(lease_table).values(owner="you")).rowcount == 1


@pytest.mark.parametrize("fails", ["at the end", "before reading"])
def test_an_error_in_a_queued_statement_stores_nothing_and_the_connection_works_afterwards(proxy, fails):
    database = Database.open(proxy.url)
    good, bad = ({"scope": "s", "hash": key, "data": data} for key, data in (("1", "words"), ("2", None)))

    def fail():
        with database.write() as connection:
            for row in (good, bad, good | {"hash": "3"}):
                connection.execute(insert(content_table), [row])
            if fails == "before reading":
                connection.execute(text("SELECT 1"))

    for _ in range(8):  # before and after statements are prepared
        with pytest.raises(StoreError, match="did not do what was asked"):
            fail()
        with database.write() as connection:
            assert connection.execute(content_table.select()).all() == []
    assert database.engine.pool.checkedin() == 1  # the connection was not given up


def test_a_value_that_cannot_be_stored_is_named_though_it_is_queued(url):
    values = {"session_id": "s", "turn": 2**40, "at": 0.0, "actor": "", "kind": "", "block": None, "data": ""}
    with pytest.raises(MessageError, match="cannot be stored"), Database.open(url).write() as connection:
        connection.execute(insert(event_table).inline(), [values])


def test_a_server_that_was_restarted_between_puts_is_not_noticed(proxy):
    memory = open_memory(database_uri=proxy.url, memory_blocks=blocks())
    memory.put(note(0))
    proxy.cut()
    time.sleep(0.5)  # until the end of the connection has arrived, as it has after a restart
    memory.put(note(1))
    with memory.session.database.read() as connection:  # as a server says that it stops
        pids = connection.execute(text("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")).scalars()
        pids = [str(pid) for pid in pids]
    other = create_engine(parse_url(proxy.url))
    with other.connect() as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM unnest(ARRAY[{','.join(pids)}]) pid"))
    other.dispose()
    time.sleep(0.2)
    memory.put(note(2))
    assert [message.content for message in memory.get_all()] == [note(number).content for number in range(3)]


def test_a_connection_that_was_idle_for_long_is_tested_first(proxy, monkeypatch):
    memory = open_memory(database_uri=proxy.url, token_limit=10_000)
    memory.put(note(0))
    monkeypatch.setattr("memory_core.store.postgresql.IDLE_SECONDS", -1)
    assert requests(proxy, lambda: memory.put(note(1))) == 3


def test_an_engine_of_the_caller_works_with_and_without_settings(url):
    engine = create_engine(parse_url(url))
    memory = Memory.from_defaults("s", engine=engine, token_limit=10_000)
    memory.session.database.settings["memory.test"] = "acme"
    memory.put(user("hello"))
    with memory.session.database.read() as connection:
        assert connection.execute(text("SELECT current_setting('memory.test')")).scalar() == "acme"
        assert connection.execute(text("SHOW transaction_isolation")).scalar() == "repeatable read"
    assert len(memory.get_all()) == 1
    engine.dispose()


@pytest.fixture
def pooler(url, tmp_path_factory):
    """The URL of the database behind a PgBouncer with two connections, lent for one transaction each."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        assert "CI" not in os.environ, "PgBouncer must be installed where CI runs"
        pytest.skip("PgBouncer is not installed")
    target, port = parse_url(url), free_port()
    config = tmp_path_factory.mktemp("pooler") / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host={target.host} port={target.port} user=ana\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
    )
    # It refuses to run as root, and reads its configuration from the standard input here, as its folder is root's.
    command = [program, "-q", "/dev/stdin"]
    with open(config) as read, open(config.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(command, stdin=read, stdout=log, stderr=log, cwd="/", **unprivileged())
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, config.with_suffix(".log").read_text()
                time.sleep(0.05)
        yield target.set(port=port).update_query_dict({"pgbouncer": "true"}).render_as_string(hide_password=False)
    finally:
        process.terminate()
        process.wait(20)


def test_a_pooler_that_lends_connections_for_one_transaction_is_enough(pooler):
    memories = [open_memory(f"s{number}", database_uri=pooler, memory_blocks=blocks()) for number in range(4)]
    database = memories[0].session.database
    database.settings["memory.test"] = "acme"

    def use(memory):
        for number in range(12):
            memory.put(note(number))
            memory.get(f"What was note {number}?")

    threads = [threading.Thread(target=use, args=(memory,)) for memory in memories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for memory in memories:
        check_whole(memory, range(12))
    with database.read() as connection:
        limits = connection.execute(
            text("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
        )
        assert limits.one() == ("30s", "1min")
    database.settings.clear()
    with database.engine.connect() as connection:  # a transaction of another program
        shown = connection.exec_driver_sql(
            "SELECT current_setting('lock_timeout'), current_setting('memory.test', true)"
        )
        assert shown.one() in [("0", ""), ("0", None)]
    database.close()
