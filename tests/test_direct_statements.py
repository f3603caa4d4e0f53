"""Statements run by SQLite's driver itself: the same rows, the same errors, and nothing kept of what failed."""

import sqlite3
from contextlib import contextmanager

import pytest
from engine_fakes import assistant, open_memory, user
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    Boolean,
    Column,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    event,
    insert,
    select,
)
from sqlalchemy.exc import IntegrityError, ProgrammingError, StatementError

from memory_core.errors import MessageError, StoreError
from memory_core.store.database import Database, SQLiteConnection, open_sqlite
from memory_core.store.direct_statements import DirectStatement, insert_numbered

THINGS = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("name", String),
    Column("size", Float),
    Column("whole", Boolean),
)

TABLES = ("mi_session", "mi_message", "mi_event", "mi_content")

ROWS = st.lists(
    st.tuples(
        st.text(st.characters(exclude_categories=["Cs"])) | st.none(),
        st.floats(allow_nan=False) | st.none(),
        st.booleans() | st.none(),
    ),
    max_size=4,
)


@pytest.fixture(autouse=True, scope="module")
def nobody_listens_to_all_engines():
    """A package that another test of this process loaded may listen to every engine, which leaves all to SQLAlchemy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "_has_events", False)
        yield


@contextmanager
def database_of_things():
    engine = create_engine("sqlite://")
    try:
        THINGS.metadata.create_all(engine)
        yield engine
    finally:
        engine.dispose()


@pytest.fixture
def engine():
    with database_of_things() as engine:
        yield engine


@given(ROWS)
def test_rows_are_those_that_sqlalchemy_stores_and_reads(rows):
    things = [dict(zip(("id", "name", "size", "whole"), (n, *row), strict=True)) for n, row in enumerate(rows)]
    query = select(THINGS).order_by(THINGS.c.id)
    with database_of_things() as engine, engine.connect() as connection:
        if things:
            DirectStatement(insert(THINGS)).run(connection, *things)
        direct = [tuple(row) for row in DirectStatement(query).rows(connection, {})]
        assert direct == [tuple(row) for row in connection.execute(query)] == [tuple(one.values()) for one in things]
        # `0 == False`: a truth value must be read as one.
        assert [type(row[3]) for row in direct] == [type(one["whole"]) for one in things]


def test_a_statement_runs_on_databases_of_two_dialect_objects_in_turn():
    direct = DirectStatement(select(THINGS.c.name))
    with database_of_things() as first, database_of_things() as second:
        for engine in (first, second, first, second):
            with engine.connect() as connection:
                assert list(direct.rows(connection, {})) == []


def test_who_listens_to_statements_hears_each_and_may_stop_it(engine):
    heard = []
    event.listen(engine, "before_cursor_execute", lambda _c, _cursor, sql, *_: heard.append(sql.split()[0]))
    with engine.connect() as connection:
        DirectStatement(insert(THINGS)).run(connection, {"id": 1, "name": "a"})
        assert len(DirectStatement(select(THINGS)).rows(connection, {})) == 1
    assert heard == ["INSERT", "SELECT"]


def test_what_the_driver_refuses_is_sqlalchemys_error(engine):
    add = DirectStatement(insert(THINGS))
    with engine.connect() as connection:
        add.run(connection, {"id": 1})
        with pytest.raises(IntegrityError):
            add.run(connection, {"id": 1})
        with pytest.raises(IntegrityError):
            add.run(connection, {"id": 2}, {"id": 2})
        connection.connection.dbapi_connection.close()
        with pytest.raises(ProgrammingError, match="closed database"):
            add.run(connection, {"id": 3})


@pytest.mark.parametrize("heard", [False, True], ids=["by the driver", "by SQLAlchemy"])
def test_new_rows_have_their_ids_in_their_order(engine, heard):
    if heard:
        event.listen(engine, "before_cursor_execute", lambda *_: None)
    with engine.connect() as connection:
        DirectStatement(insert(THINGS)).run(connection, {"id": 40, "name": "before"})
        for names in (["a", "c", "b"], ["z"]):
            ids = insert_numbered(connection, THINGS, [{"name": name} for name in names])
            by_id = dict(connection.execute(select(THINGS.c.id, THINGS.c.name)).all())
            assert [by_id[id] for id in ids] == names
    assert ids == [44]


def test_what_is_not_given_by_name_is_left_to_sqlalchemy(engine):
    with engine.connect() as connection:
        DirectStatement(insert(THINGS)).run(connection, {"id": 1, "name": "a"})
        DirectStatement(insert(THINGS).values(whole=True)).run(connection, {"id": 2, "name": "b"})
        assert list(DirectStatement(select(THINGS.c.whole).where(THINGS.c.id == 2)).rows(connection, {})) == [(True,)]
        query = DirectStatement(select(THINGS).where(THINGS.c.name == bindparam("wanted")))
        with pytest.raises(StatementError, match="A value is required for bind parameter 'wanted'"):
            query.rows(connection, {})


STATEMENTS = 6
"""Statements of a put: the transaction's beginning, the session's row, the message, its text, its event, the row."""


class Dying(SQLiteConnection):
    """Connection whose nth statement from now is the last that it runs; None: it lives."""

    left = None
    refusal = sqlite3.OperationalError("disk I/O error")

    def cursor(self, *arguments):
        return super().cursor(DyingCursor)


class DyingCursor(sqlite3.Cursor):
    def execute(self, *arguments):
        if Dying.left is not None:
            Dying.left -= 1
            if Dying.left < 0:
                raise Dying.refusal
        return super().execute(*arguments)


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(Dying, "left", None)
    engine = open_sqlite(f"sqlite:///{tmp_path}/memory.db", connect_args={"factory": Dying})
    database = Database.open(engine=engine)
    database.for_agents = False  # now and then an agent's put renews its lease
    memory = open_memory(database=database)
    memory.put(user("note 1 of the day is here"))
    yield memory
    memory.close()
    engine.dispose()


def test_a_put_that_ends_between_two_of_its_statements_leaves_nothing_behind(memory):
    def stored():
        with memory.session.database.read() as connection:
            return [connection.exec_driver_sql(f"SELECT * FROM {table} ORDER BY rowid").all() for table in TABLES]

    for ran in range(STATEMENTS):
        before, Dying.left = stored(), ran
        with pytest.raises(StoreError, match="disk I/O error"):
            memory.put(assistant("note 2 I see it too"))
        Dying.left = None
        assert stored() == before
    memory.put(assistant("note 2 I see it too"))
    Dying.left = STATEMENTS
    memory.put(user("note 3 of the day is here"))
    Dying.left = None
    assert [message.content for message in memory.get_all()] == [
        "note 1 of the day is here",
        "note 2 I see it too",
        "note 3 of the day is here",
    ]


def test_a_value_that_the_driver_does_not_take_is_an_error_of_the_message(memory, monkeypatch):
    monkeypatch.setattr(Dying, "refusal", sqlite3.ProgrammingError("Error binding parameter 3: type is not supported"))
    Dying.left = 2
    with pytest.raises(MessageError, match="a value cannot be stored: Error binding parameter 3"):
        memory.put(user("note 2 of the day is here"))


def test_one_connection_is_kept_for_writing_until_something_fails_or_the_database_closes(tmp_path):
    memory = open_memory(database_uri=f"sqlite:///{tmp_path}/memory.db")
    database = memory.session.database
    pool = database.engine.pool
    memory.put(user("note 1 of the day is here"))
    kept = pool.checkedout()
    with pytest.raises(ZeroDivisionError), database.write():
        raise ZeroDivisionError
    assert (kept, pool.checkedout()) == (1, 0)
    memory.put(assistant("note 2 I see it too"))
    assert pool.checkedout() == 1
    memory.close()
    assert pool.checkedout() == 0


def test_whoever_listens_to_the_pool_hears_of_the_loan_for_each_put(tmp_path):
    memory = open_memory(database_uri=f"sqlite:///{tmp_path}/memory.db")
    loans = []
    memory.put(user("note 1 of the day is here"))
    event.listen(memory.session.database.engine, "checkout", lambda *_: loans.append(1))
    memory.put(assistant("note 2 I see it too"))
    memory.put(user("note 3 of the day is here"))
    assert len(loans) == 2
    memory.close()
