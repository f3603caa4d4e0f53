"""A database of an earlier version is brought up to date when it is opened; what is in it stays."""

import sqlite3
from contextlib import closing

import pytest
from engine_fakes import assistant, blocks, fact_numbers, note, on_file, open_memory, together
from session_script import NoteRelations
from sqlalchemy import create_engine, inspect

from memory_core import StaticMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.errors import StoreError
from memory_core.memory import Memory
from memory_core.planning import curation
from memory_core.store import migrations
from memory_core.store.database import Database, parse_url
from memory_core.store.tables import COMPATIBLE_FROM, SCHEMA_VERSION, TABLES
from memory_core.store.tenants import PROTECTED

NEW_TABLES = (
    "mi_model_output", "mi_baseline", "mi_span", "mi_relation_source", "mi_relation", "mi_entity", "mi_word_vector",
    "mi_tenant", "mi_revision",
)  # fmt: skip
NEW_COLUMNS = (
    ("mi_fact", "topics"), ("mi_fact_revision", "topics"), ("mi_fact_revision", "category"), ("mi_vector", "heard"),
    ("mi_session", "watched"), ("mi_session", "probes"), ("mi_fact", "key"), ("mi_fact", "metadata"),
    ("mi_fact_revision", "metadata"), ("mi_session", "opened_from"), ("mi_event", "person"),
    ("mi_session", "quarantined"),
    ("mi_schema", "compatible_from"),
)  # fmt: skip
FACT_COLUMNS_OF_1 = {
    "id", "scope", "block", "content", "tokens", "category", "slot", "state", "pinned", "origin", "turn", "created_at",
    "confirmed_at", "updated_at", "version",
}  # fmt: skip
REVISION_COLUMNS_OF_1 = {"fact_id", "version", "content", "state", "pinned", "actor", "reason", "turn", "at"}


def played(uri):
    memory = open_memory(
        database_uri=uri,
        memory_blocks=[StaticMemoryBlock(name="core", static_content="Be kind."), *blocks()[:2]],
        token_limit=60,
    )
    for number in range(10):
        memory.put(note(number))
        memory.build_context(f"note {number}")
        memory.put(assistant(f"noted {number}"))
    desk = memory.facts.desk("facts")
    desk.apply(curation.edit(desk.facts()[0], "note 0 was lost"))
    return memory


def without_tenants(connection):
    """Take the tenant from PostgreSQL's tables, with the keys, indexes and policies that hold it."""
    for table in PROTECTED:
        connection.exec_driver_sql(f"ALTER TABLE {table.name} DROP COLUMN tenant CASCADE, DISABLE ROW LEVEL SECURITY")
        connection.exec_driver_sql(f"ALTER TABLE {table.name} NO FORCE ROW LEVEL SECURITY")
    for table in PROTECTED:
        key = ", ".join(column.name for column in table.primary_key)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD PRIMARY KEY ({key})")
        for index in table.indexes:
            index.create(connection, checkfirst=True)
    for table in PROTECTED:
        for reference in table.foreign_key_constraints:
            keys = ", ".join(element.column.name for element in reference.elements)
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} ADD FOREIGN KEY ({', '.join(reference.column_keys)}) "
                f"REFERENCES {reference.referred_table.name} ({keys}) DEFERRABLE INITIALLY DEFERRED"
            )


def back_to_version_7(uri):
    """The tables as version 7 made them."""
    engine = create_engine(parse_url(uri))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            without_tenants(connection)
        for table in ("mi_tenant", "mi_revision"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
        connection.exec_driver_sql("ALTER TABLE mi_event DROP COLUMN person")
        connection.exec_driver_sql("ALTER TABLE mi_session DROP COLUMN quarantined")
        connection.exec_driver_sql("ALTER TABLE mi_schema DROP COLUMN compatible_from")
        connection.exec_driver_sql("UPDATE mi_schema SET version = 7")
    engine.dispose()


def back_to_version_1(uri):
    """The tables as version 1 made them; its events knew nothing of topics, keys and metadata either."""
    engine = create_engine(parse_url(uri))
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            without_tenants(connection)
        for table in NEW_TABLES:
            connection.exec_driver_sql(f"DROP TABLE {table}")
        for table, column in NEW_COLUMNS:
            connection.exec_driver_sql(f"ALTER TABLE {table} DROP COLUMN {column}")
        for name in (',"topics":[]', ',"key":null', ',"metadata":null'):
            connection.exec_driver_sql(f"UPDATE mi_event SET data = replace(data, '{name}', '')")
        connection.exec_driver_sql("DROP INDEX mi_vector_block")
        connection.exec_driver_sql("UPDATE mi_schema SET version = 1")
        found = inspect(connection)
        assert {each["name"] for each in found.get_columns("mi_fact")} == FACT_COLUMNS_OF_1
        assert {each["name"] for each in found.get_columns("mi_fact_revision")} == REVISION_COLUMNS_OF_1
        assert set(found.get_table_names()) == {table.name for table in TABLES} - set(NEW_TABLES)
    engine.dispose()


def check_upgraded(uri, before, services):
    """A session of version 1 is there again, and everything that came since can be done with it."""
    memory = Memory.open("s", Database.open(uri), services=services, tokenizer_fn=str.split)
    context, facts, history, branched = before
    assert memory.get("note 3") == context
    assert memory.facts.read("facts", states=None) == facts
    assert [fact.topics for fact in facts] == [()] * len(facts)
    assert told(memory.facts.history(facts[0])) == told(history)
    assert memory.branch(6).get_all() == branched
    memory.put(note(20))
    desk = memory.facts.desk("facts")
    desk.apply(curation.retire(desk.facts()[:1], "no"))
    desk.undo()
    memory.blocks.add(GraphMemoryBlock(name="graph", llm=NoteRelations()))
    for number in range(30, 36):
        memory.put(note(number))
    assert memory.blocks.graph().relations("Today")
    assert 20 in fact_numbers(memory)
    bundle = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    again = Memory.open(import_bundle(memory.session.database, bundle), memory.session.database, services=services)
    assert again.get_all() == memory.get_all()
    assert len(again.blocks.graph("graph").relations()) == len(memory.blocks.graph().relations())
    memory.session.database.close()
    with Database.open(uri).read() as connection:
        assert connection.exec_driver_sql("SELECT version FROM mi_schema").scalar() == SCHEMA_VERSION


def told(history):
    return [(each.version, each.text, each.state, each.actor, each.turn, each.topics) for each in history]


def as_it_was(memory):
    """What there is before the database is made an old one."""
    facts = memory.facts.read("facts", states=None)
    return memory.get("note 3"), facts, memory.facts.history(facts[0]), memory.branch(6).get_all()


@pytest.mark.slow
def test_a_database_of_version_1_opens_and_works(tmp_path):
    uri = on_file(tmp_path)
    memory = played(uri)
    before, services = as_it_was(memory), memory.session.services
    memory.session.database.close()
    del memory
    back_to_version_1(uri)
    check_upgraded(uri, before, services)


@pytest.mark.slow
def test_an_upgraded_database_has_the_columns_of_a_new_one(tmp_path):
    uri, fresh = on_file(tmp_path), tmp_path / "fresh"
    fresh.mkdir()
    played(uri).session.database.close()
    back_to_version_1(uri)
    columns = []
    for each in (uri, on_file(fresh)):
        database = Database(create_engine(each))
        found = inspect(database.engine)
        columns.append(
            {
                table.name: (
                    {c["name"]: (str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(table.name)},
                    sorted(str(index["name"]) for index in found.get_indexes(table.name)),
                )
                for table in TABLES
            }
        )
        database.close()
    assert columns[0] == columns[1]


@pytest.mark.slow
def test_many_may_be_the_first_to_open_an_old_database(tmp_path):
    uri = on_file(tmp_path)
    played(uri).session.database.close()
    back_to_version_1(uri)

    def open_apart():
        Database(create_engine(uri)).close()  # as another process would: nothing is shared

    together(*[open_apart] * 4)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("SELECT version FROM mi_schema").fetchall() == [(SCHEMA_VERSION,)]


def test_an_upgrade_that_fails_changes_nothing(tmp_path, monkeypatch):
    uri = on_file(tmp_path)
    played(uri).session.database.close()
    back_to_version_1(uri)
    from memory_core.store import database as store

    monkeypatch.setattr(store.SQLModel.metadata, "create_all", lambda *_, **__: 1 / 0)
    engine = create_engine(uri)
    with pytest.raises(ZeroDivisionError):
        Database(engine)
    assert {each["name"] for each in inspect(engine).get_columns("mi_fact")} == FACT_COLUMNS_OF_1
    engine.dispose()


def test_every_schema_version_has_its_revision():
    numbers = [number for number, _ in migrations.pending(0)]
    assert numbers == list(range(7, SCHEMA_VERSION + 1))
    assert [number for number, _ in migrations.pending(SCHEMA_VERSION)] == []


def test_an_old_file_is_copied_before_its_upgrade(tmp_path):
    uri = on_file(tmp_path)
    played(uri).session.database.close()
    back_to_version_7(uri)
    Database.open(uri).close()
    (copy,) = tmp_path.glob("memory.db.before-*")
    assert copy.stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT version FROM mi_schema").fetchall() == [(7,)]
        assert connection.execute("SELECT count(*) FROM mi_message").fetchone()[0] == 20
    # An upgraded file is not copied again.
    Database.open(uri).close()
    assert list(tmp_path.glob("memory.db.before-*")) == [copy]


@pytest.mark.slow
def test_a_process_of_the_version_before_goes_on_writing_beside_a_new_one(tmp_path):
    uri = on_file(tmp_path)
    played(uri).session.database.close()
    back_to_version_7(uri)
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as old:
        event = "INSERT INTO mi_event (session_id, turn, at, actor, kind, data) SELECT 's', 1, 1.0, actor, kind, data"
        old.execute(f"{event} FROM mi_event WHERE kind = 'message_added' LIMIT 1")
        new = Database.open(uri)
        # The same statement as before, which knows no column of the new version.
        old.execute(f"{event} FROM mi_event WHERE kind = 'message_added' LIMIT 1")
        with new.read() as connection:
            (count,) = connection.exec_driver_sql("SELECT count(*) FROM mi_event WHERE at = 1.0").one()
        assert count == 2
        new.close()


@pytest.mark.slow
@pytest.mark.parametrize("compatible_from", [COMPATIBLE_FROM, SCHEMA_VERSION, SCHEMA_VERSION + 1])
def test_a_newer_database_opens_only_if_its_version_allows_it(tmp_path, compatible_from):
    uri = on_file(tmp_path)
    played(uri).session.database.close()
    with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as connection:
        connection.execute(f"UPDATE mi_schema SET version = 99, compatible_from = {compatible_from}")
    if compatible_from <= SCHEMA_VERSION:
        Database.open(uri).close()
    else:
        with pytest.raises(StoreError, match="99"):
            Database.open(uri)
    with closing(sqlite3.connect(tmp_path / "memory.db")) as connection:
        assert connection.execute("SELECT version FROM mi_schema").fetchall() == [(99,)]
