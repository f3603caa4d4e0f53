"""A database of an earlier version is brought up to date when it is opened; what is in it stays."""

import sqlite3
from contextlib import closing

import pytest
from engine_fakes import assistant, blocks, fact_numbers, note, on_file, open_memory, together
from session_script import NoteRelations
from sqlalchemy import create_engine, inspect

from memory_core import StaticMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.interop.bundle import import_bundle, read_bundle, write_bundle
from memory_core.memory import Memory
from memory_core.planning import curation
from memory_core.store.database import Database, parse_url
from memory_core.store.tables import SCHEMA_VERSION, TABLES

NEW_TABLES = (
    "mi_model_output", "mi_baseline", "mi_span", "mi_relation_source", "mi_relation", "mi_entity", "mi_word_vector",
)  # fmt: skip
NEW_COLUMNS = (
    ("mi_fact", "topics"), ("mi_fact_revision", "topics"), ("mi_fact_revision", "category"), ("mi_vector", "heard"),
    ("mi_session", "watched"), ("mi_session", "probes"), ("mi_fact", "key"), ("mi_fact", "metadata"),
    ("mi_fact_revision", "metadata"), ("mi_session", "opened_from"),
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


def back_to_version_1(uri):
    """The tables as version 1 made them; its events knew nothing of topics, keys and metadata either."""
    engine = create_engine(parse_url(uri))
    with engine.begin() as connection:
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


def test_a_database_of_version_1_opens_and_works(tmp_path):
    uri = on_file(tmp_path)
    memory = played(uri)
    before, services = as_it_was(memory), memory.session.services
    memory.session.database.close()
    del memory
    back_to_version_1(uri)
    check_upgraded(uri, before, services)


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
