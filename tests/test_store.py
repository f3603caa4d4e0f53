import json
import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import replace

import pytest
from engine_fakes import (
    HashEmbedder,
    NoteExtractor,
    blocks,
    fact_numbers,
    note,
    number_of,
    on_file,
    open_memory,
    user,
)
from sqlalchemy import create_engine, delete, insert, select, update
from sqlalchemy.pool import StaticPool

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import ConfigError, NotFoundError, StoreError
from memory_core.memory import Memory
from memory_core.models.protocols import ExtractedFact, Extraction
from memory_core.planning.curation import FactDraft
from memory_core.services import Services
from memory_core.sessions.overview import delete_session, list_sessions
from memory_core.store.database import Database, parse_url
from memory_core.store.fact_rows import add_fact, revise
from memory_core.store.tables import SCHEMA_VERSION, TABLES, fact_source_table, fact_table, schema_table

# -- opening -------------------------------------------------------------------------------------


def test_a_database_of_a_newer_version_is_refused_in_one_sentence(tmp_path):
    memory = open_memory(database_uri=on_file(tmp_path))
    with memory.session.database.write() as connection:
        connection.execute(update(schema_table).values(version=SCHEMA_VERSION + 1, compatible_from=SCHEMA_VERSION + 1))
    engine = create_engine(on_file(tmp_path))
    with pytest.raises(StoreError, match=rf"schema version {SCHEMA_VERSION + 1}.*up to {SCHEMA_VERSION}\. Update"):
        Database(engine)
    engine.dispose()


def test_a_new_folder_is_its_owners_alone_and_an_old_one_stays_as_it_is(tmp_path):
    open_memory(database_uri=on_file(tmp_path / "new" / "deeper"))
    assert stat.S_IMODE(os.stat(tmp_path / "new" / "deeper").st_mode) == 0o700
    files = [path for path in (tmp_path / "new" / "deeper").iterdir() if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    os.mkdir(tmp_path / "old", 0o755)
    os.chmod(tmp_path / "old", 0o755)
    open_memory(database_uri=on_file(tmp_path / "old"))
    assert stat.S_IMODE(os.stat(tmp_path / "old").st_mode) == 0o755


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("sqlite+aiosqlite:///a.db", "sqlite:///a.db"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql+asyncpg://u:p@h:1/d", "postgresql+psycopg://u:p@h:1/d"),
        ("postgres://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql://u@h/d", "postgresql+psycopg://u@h/d"),
        ("postgresql+psycopg2://u@h/d", "postgresql+psycopg://u@h/d"),
    ],
)
def test_urls_for_other_drivers_are_understood(given, used):
    assert parse_url(given).render_as_string(hide_password=False) == used


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("what is this", "this is not a database URL"),
        ("", "this is not a database URL"),
        ("mysql://u@h/d", "must be SQLite or PostgreSQL, not 'mysql'"),
    ],
)
def test_what_is_no_database_url_is_said_to_be_none(url, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_url(url)


def test_a_file_that_is_no_database_is_an_error_of_ours(tmp_path):
    (tmp_path / "memory.db").write_text("this is a letter, not a database. " * 100)
    with pytest.raises(StoreError, match="file is not a database"):
        Database.open(on_file(tmp_path))


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_deleted_while_it_is_open_takes_nothing_more(tmp_path, how):
    memory = open_memory(database_uri=on_file(tmp_path))
    memory.put(note(0))
    (file,) = tmp_path.glob("*.db")
    file.rename(tmp_path / "aside")
    if how == "replaced":
        file.write_bytes((tmp_path / "aside").read_bytes())
    with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
        memory.put(note(1))
    (tmp_path / "aside").replace(file)
    memory.put(note(1))
    assert len(memory.get_all()) == 2


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        Database.open(on_file(tmp_path / "file" / "inside"))


def test_one_url_is_one_database_within_a_process(tmp_path):
    assert Database.open(on_file(tmp_path)) is Database.open(f"sqlite+aiosqlite:///{tmp_path}/memory.db")


def test_an_engine_of_the_callers_is_used(tmp_path):
    engine = create_engine(on_file(tmp_path))
    with engine.connect() as connection:  # it may have been in use before
        connection.exec_driver_sql("SELECT 1")
    memory = Memory.from_defaults("s", engine=engine)
    memory.put(user("hello"))
    other = Memory.from_defaults("s", database_uri=on_file(tmp_path))
    assert [message.content for message in other.get_all()] == ["hello"]
    engine.dispose()


def test_two_memories_behind_one_in_memory_engine_share_it():
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    first, second = (Memory.from_defaults("s", engine=engine) for _ in range(2))
    first.put(user("hello"))
    assert [message.content for message in second.get_all()] == ["hello"]
    engine.dispose()


# -- whole or not at all -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared():
    """Makes a memory of six notes, two of them flushed, again and again from one copy of its database."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})

    def opened():
        core = StaticMemoryBlock(name="core", static_content="Be brief.", priority=1)
        return open_memory(engine=engine, memory_blocks=[core, *blocks()])

    memory = opened()
    for number in range(6):
        memory.put(note(number))
    raw = engine.raw_connection().driver_connection
    with closing(sqlite3.connect(":memory:")) as copy:
        raw.backup(copy)

        def again():
            copy.backup(raw)
            return opened()

        yield again
    engine.dispose()


@pytest.mark.slow
def test_on_a_full_disk_the_prompt_is_built_and_says_that_it_is_not_in_the_log(prepared, caplog):
    expected = prepared().build_context("What was note 1?").messages
    memory = prepared()
    with memory.session.database.engine.connect() as connection:
        connection.exec_driver_sql(
            f"PRAGMA max_page_count = {connection.exec_driver_sql('PRAGMA page_count').scalar()}"
        )
        built = [memory.build_context("What was note 1?") for _ in range(40)]
    assert [context.messages for context in built] == [expected] * 40
    assert "full" in built[-1].unrecorded
    assert "not in the log: " in built[-1].explain()
    assert "full" in caplog.text


def test_a_prompt_is_not_held_up_by_somebody_who_writes_for_long(tmp_path, monkeypatch):
    monkeypatch.setattr("memory_core.engine.context.RECORDING_SECONDS", 0.2)
    memory = open_memory(database_uri=on_file(tmp_path))
    memory.put(user("hello"))
    busy = sqlite3.connect(tmp_path / "memory.db", isolation_level=None)
    busy.execute("BEGIN IMMEDIATE")
    context = memory.build_context()
    assert "locked" in context.unrecorded
    busy.execute("ROLLBACK")
    busy.close()
    again = memory.build_context()
    assert (again.messages, again.unrecorded) == (context.messages, None)
    assert len(memory.events(kinds=["context_built"])) == 1


# -- forgetting ----------------------------------------------------------------------------------


class TellingExtractor(NoteExtractor):
    """A fact that repeats a message's words."""

    def extract(self, messages, *, known):
        return Extraction(tuple(ExtractedFact(f"said: {m.content}", source=i) for i, m in enumerate(messages)))


class Scribe(BaseMemoryBlock[str]):
    """Keeps words in its state, and complains with them once."""

    name: str = "scribe"
    words: tuple[str, ...] = ()

    async def _aget(self, messages=None, **kwargs):
        return "\n".join(self.words)

    async def _aput(self, messages):
        if not self.words and not complained:
            complained.append(1)
            raise ValueError(f"I cannot write {messages[0].content!r}")
        self.words = (*self.words, *(message.content for message in messages))


complained: list[int] = []


def secretive(folder, *, scope="session"):
    """A session in which the word "marzipan" has gone everywhere it can go."""
    complained.clear()
    memory = open_memory(
        database_uri=on_file(folder),
        user_id="ana",
        token_limit=80,
        title="Sweets",
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="Be brief."),
            FactExtractionMemoryBlock(name="facts", llm=TellingExtractor(), scope=scope),
            VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
            Scribe(),
        ],
    )
    for number in range(12):
        memory.put(user(f"number {number} of my pieces of marzipan"))
    memory.deliver()
    (first, *_) = memory.facts.read("facts")
    with memory._session.writing() as w:
        revise(w, first, replace(first, state="retired"), reason="no more marzipan", actor="user")
    memory.build_context("Where is the marzipan?")
    memory.set([*memory.get_all("active"), user("one last marzipan")])
    assert b"marzipan" in everything(memory, folder)
    return memory


def everything(memory, folder):
    """The bytes of the database file, free pages included, with nothing left in the log beside it."""
    memory.session.database.engine.dispose()
    with sqlite3.connect(folder / "memory.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def rows_of(memory):
    """How many rows each table has."""
    with memory.session.database.read() as connection:
        return {table.name: len(connection.execute(table.select()).all()) for table in TABLES}


def test_after_a_reset_the_words_are_nowhere_in_the_file(tmp_path):
    memory = secretive(tmp_path)
    memory.reset()
    assert b"marzipan" not in everything(memory, tmp_path)
    kinds = [record.kind for record in memory.events()]
    assert kinds[-1] == "session_reset"  # the tombstone, with how much it was
    assert "fact_erased" in kinds
    assert memory.session.status().archived_messages == 0
    assert memory.get()[0].content == "<memory>\n<core>\nBe brief.\n</core>\n</memory>"
    memory.put(user("good morning"))
    assert [message.content for message in memory.get_all()] == ["good morning"]


def test_after_forgetting_the_archive_only_the_queue_knows_the_words(tmp_path):
    memory = secretive(tmp_path)
    memory.blocks.remove("scribe")
    memory.reset("archived")
    assert memory.facts.read("facts", states=None) == []
    assert memory.retrieval.stored_turns("turns") == []
    queue = [message.content for message in memory.get_all()]
    assert queue
    with memory.session.database.read() as connection:
        words = connection.exec_driver_sql("SELECT data FROM mi_content WHERE data LIKE '%marzipan%'").scalars().all()
        told = connection.exec_driver_sql("SELECT count(*) FROM mi_event WHERE data LIKE '%marzipan%'").scalar()
    assert sorted(json.loads(text)["parts"][0]["text"] for text in words) == sorted(queue)
    assert told == 0


def test_a_deleted_session_leaves_its_id_and_nothing_else(tmp_path):
    memory = secretive(tmp_path)
    memory.blocks.remove("facts")  # its facts stay, until the session goes
    delete_session(memory.session.database, "s")
    left = everything(memory, tmp_path)
    assert b"marzipan" not in left
    assert b"Sweets" not in left
    assert b"ana" not in left.replace(b"mi_session", b"").replace(b"BIGINT", b"")
    assert {name: count for name, count in rows_of(memory).items() if count} == {
        "mi_schema": 1,
        "mi_session": 1,
        "mi_collection": 2,  # names of its collections as hashes, by which copies elsewhere are found
    }
    with pytest.raises(NotFoundError):
        memory.put(user("hello"))
    with pytest.raises(NotFoundError):
        open_memory(database_uri=on_file(tmp_path))
    assert list_sessions(memory.session.database) == []


def test_the_id_of_a_session_that_was_deleted_for_that_can_be_used_again(tmp_path):
    memory = secretive(tmp_path)
    old = memory.log.history()
    delete_session(memory.session.database, "s", reusable=True)
    again = open_memory(database_uri=on_file(tmp_path))
    assert again.session.messages() == []
    assert again.events()[0].kind == "session_created"
    assert not {record.position for record in memory.log.history().records} & {
        record.position for record in old.records
    }
    again.put(user("hello"))
    assert again.session.status().turns == 1
    assert [status.session_id for status in list_sessions(memory.session.database)] == ["s"]


def test_who_held_the_deleted_session_meets_the_new_one_under_its_id_not_what_it_knew_of_the_old(tmp_path):
    def opened(instruction):
        block = StaticMemoryBlock(name="core", static_content=instruction)
        return open_memory(database_uri=on_file(tmp_path), memory_blocks=[block])

    held = opened("Be brief.")
    held.put_messages([user("one"), user("two")])
    assert "Be brief." in str(held.get())
    delete_session(held.session.database, "s", reusable=True)
    again = opened("Take your time.")
    again.put_messages([user("three"), user("four"), user("five")])
    assert [message.content for message in held.get_all()] == ["three", "four", "five"]
    assert held.get() == again.get()


def test_what_is_the_users_outlives_the_session_unless_asked_for(tmp_path):
    memory = secretive(tmp_path, scope="user")
    flushed = memory.session.status().archived_messages
    memory.reset()
    assert len(memory.facts.read("facts", states=None)) == flushed
    assert memory.facts.read("facts")[0].text == "said: number 1 of my pieces of marzipan"
    assert memory.facts.read("facts")[0].sources == ()


def test_what_is_the_users_goes_where_that_is_asked_for(tmp_path):
    memory = secretive(tmp_path, scope="user")
    memory.reset(user_memory=True)
    assert memory.facts.read("facts", states=None) == []
    assert b"marzipan" not in everything(memory, tmp_path)


def test_a_fact_with_other_support_outlives_what_is_forgotten(tmp_path):
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor())], token_limit=80)
    for number in (1, 2, 1, 3, 4, 5, 6, 7, 8, 9):
        memory.put(note(number))
    memory.flush(all=True)
    (one,) = (fact for fact in memory.facts.read("facts") if number_of(fact.text) == 1)
    assert one.sources == (("s", 1), ("s", 3))
    memory.put(note(2))
    memory.reset("archived")
    memory.flush(all=True)
    assert fact_numbers(memory) == [2]


@pytest.mark.slow
def test_forgetting_a_long_session_stays_below_every_parameter_limit():
    """SQLite takes 32,766 parameters in a statement and PostgreSQL 65,535; here it is 550."""
    turns = VectorMemoryBlock(name="turns", embed_model=HashEmbedder())
    memory = open_memory(token_limit=10_000, token_flush_size=10, memory_blocks=[turns])
    connection = memory.session.database.engine.raw_connection().driver_connection
    connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 550)
    memory.put_messages([user(f"n{number}") for number in range(700)])
    with memory._session.writing() as w:
        for number in range(700):
            new = FactDraft(f"n{number}", origin="extracted", sources=((w.session.id, number + 1),))
            add_fact(w, w.session.scope, "facts", new, 1)
    memory.flush(all=True)
    assert len(memory.retrieval.stored_turns("turns")) == 700
    memory.reset()
    assert memory.get_all() == []
    assert {name: count for name, count in rows_of(memory).items() if name in ("mi_fact", "mi_vector")} == {
        "mi_fact": 0,
        "mi_vector": 0,
    }


def test_facts_that_condensing_made_up_go_with_the_conversation():
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", facts=["note 99 was taken"])])
    with memory._session.writing() as w:
        add_fact(w, w.session.scope, "facts", FactDraft("note 5 was taken", origin="condensed"), 4)
    memory.reset()
    assert fact_numbers(memory) == [99]  # what a person wrote stays
    with memory.session.database.read() as connection:
        assert len(connection.execute(fact_table.select()).all()) == 1


# -- whose values apply --------------------------------------------------------------------------


def test_services_are_made_when_first_needed():
    made = []

    class Late(HashEmbedder):
        def embed(self, texts):
            made.append(len(texts))
            return super().embed(texts)

    memory = open_memory(memory_blocks=[VectorMemoryBlock(name="turns")], services=Services(embedder=Late()))
    memory.put(note(1))
    assert made == []


def test_erased_words_are_in_neither_the_file_nor_its_log(tmp_path):
    memory = open_memory(database_uri=on_file(tmp_path))
    memory.put(user("a zebrafinch nobody else mentions"))
    memory.reset()
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    assert not any(b"zebrafinch" in path.read_bytes() for path in files)


# -- references ------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_row_that_names_what_is_not_there_is_refused_when_the_transaction_ends(tmp_path, in_memory):
    database = Database.open(None if in_memory else on_file(tmp_path))
    source = insert(fact_source_table).values(fact_id=1, session_id="s", seq=1)
    with pytest.raises(StoreError, match="FOREIGN KEY"), database.write() as connection:
        connection.execute(source)
    with database.write() as connection:
        assert connection.execute(select(fact_source_table)).all() == []
        connection.execute(source)
        connection.execute(delete(fact_source_table))  # within a transaction the order is free
