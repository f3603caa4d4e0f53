"""A memory that is used for years: old sessions leave, damage is found and mended, and what a person wrote stays."""

import errno
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, on_file, open_memory, user
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from session_script import ALL_STEPS, NoteRelations, Script
from sqlalchemy import text

from memory_core import (
    ConflictError,
    Database,
    FactExtractionMemoryBlock,
    FormatError,
    GraphMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
    delete_session,
    list_sessions,
)
from memory_core.bundles.bundle import import_bundle, read_bundle
from memory_core.planning import curation
from memory_core.store.erasing import ERASING
from memory_core.vectors.exact import ExactIndex
from memory_inspector.__main__ import main
from memory_inspector.upkeep import maintenance, retention
from memory_inspector.upkeep.damage import find_damage, repair_damage
from memory_inspector.upkeep.retention import archive_session, delete_old_sessions, plan_retention

DAY = 86_400.0
NOW = 1_000 * DAY


def learning(
    uri=None, session_id="s", *, age=0, notes=6, scope="session", user_id="ana", now=NOW, extractor=None, tenant=""
):
    """A session with a block of each kind, last used `age` days ago."""
    memory = open_memory(
        session_id,
        user_id=user_id,
        database_uri=uri,
        tenant=tenant,
        token_limit=60,
        clock=lambda: now - age * DAY,
        services=Services(embedder=HashEmbedder()),
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="Be kind."),
            FactExtractionMemoryBlock(name="facts", llm=extractor or NoteExtractor(), scope=scope),
            VectorMemoryBlock(name="turns"),
            GraphMemoryBlock(name="graph", llm=NoteRelations()),
            SummaryMemoryBlock(name="summary", max_tokens=30),
        ],
    )
    for number in range(notes):
        memory.put(note(number))
        memory.build_context()
        memory.put(assistant(f"Noted: {number}."))
    memory.deliver()
    return memory


def ids(database):
    return {status.session_id for status in list_sessions(database)}


def planned(database, *, older_than=None, max_bytes=None):
    before = None if older_than is None else NOW - older_than * DAY
    return plan_retention(database, now=NOW, used_before=before, max_bytes=max_bytes)


def left_after(database, **limits):
    assert not delete_old_sessions(database, ExactIndex(), planned(database, **limits))
    return ids(database)


# -- retention -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_sessions_that_were_not_used_for_long_leave_and_nothing_of_them_stays(tmp_path):
    uri = on_file(tmp_path)
    old, new = learning(uri, "old", age=200), learning(uri, "new", age=10)
    database, prompt = new.session.database, new.get()
    plan = planned(database, older_than=180)
    [leaving] = plan.leaving
    assert (leaving.session_id, leaving.messages, leaving.summaries) == ("old", len(old.get_all()), 1)
    assert leaving.vectors == len(old.retrieval.stored_turns("turns"))
    assert 0 < leaving.bytes < plan.total_bytes
    assert ids(database) == {"old", "new"}  # a plan changes nothing
    assert left_after(database, older_than=180) == {"new"}
    assert new.get() == prompt
    with database.read() as connection:
        rest = connection.execute(text("SELECT count(*) FROM mi_content WHERE scope = 'session:old'")).scalar()
    assert rest == 0
    assert find_damage(database, ExactIndex()) == []


@pytest.mark.slow
def test_the_oldest_leave_until_the_rest_has_the_size_that_was_asked_for(tmp_path):
    uri = on_file(tmp_path)
    for name, age in (("b", 3), ("c", 2), ("a", 4)):
        memory = learning(uri, name, age=age)
    database = memory.session.database
    total = planned(database).total_bytes
    assert planned(database, max_bytes=total).leaving == ()
    plan = planned(database, max_bytes=total - 1)
    assert [session.session_id for session in plan.leaving] == ["a"]
    assert left_after(database, max_bytes=total - 1) == {"b", "c"}
    after = planned(database, max_bytes=total - 1)
    assert after.total_bytes == total - plan.freed_bytes
    assert after.leaving == ()  # a second run finds nothing to do
    assert left_after(database, max_bytes=0) == set()


@pytest.mark.slow
def test_facts_of_a_user_stay_and_are_counted_by_what_they_lose(tmp_path):
    uri = on_file(tmp_path)
    old = learning(uri, "old", age=200, scope="user")
    old.put(note(50))
    new = learning(uri, "new", age=1, scope="user", notes=5)
    facts = new.facts.read("facts")
    sources = [{session for session, _ in fact.sources} for fact in facts]
    plan = planned(new.session.database, older_than=180)
    assert plan.shared_facts == sum("old" in sessions for sessions in sources) > plan.unsourced_facts
    assert plan.unsourced_facts == sources.count({"old"}) > 0
    assert left_after(new.session.database, older_than=180) == {"new"}
    assert {fact.text for fact in facts} <= {fact.text for fact in new.facts.read("facts")}


def pinned(memory):
    desk = memory.facts.desk("facts")
    desk.apply(curation.pin(desk.facts()[:1], True))


def written_fact(memory):
    memory.facts.desk("facts").apply(curation.add("Ana is allergic to nuts."))


def edited_fact(memory):
    desk = memory.facts.desk("facts")
    desk.apply(curation.edit(desk.facts()[0], "note 0 was lost"))


def edited_text(memory):
    memory.blocks.edit("core", "Be brief.")


def related(memory):
    memory.blocks.graph("graph").add("Ana", "sister of", "Bo", ("person", "person"))


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", [pinned, written_fact, edited_fact, edited_text, related])
def test_a_session_in_which_a_person_wrote_or_pinned_something_stays(tmp_path, by_hand):
    memory = learning(on_file(tmp_path), "old", age=200)
    other = learning(on_file(tmp_path), "other", age=200)
    by_hand(memory)
    database = other.session.database
    plan = planned(database, older_than=180, max_bytes=0)
    assert [session.session_id for session in plan.leaving] == ["other"]
    assert [session.session_id for session in plan.staying] == ["old"]
    assert plan.staying[0].reasons
    assert left_after(database, older_than=180, max_bytes=0) == {"old"}


def test_a_session_that_was_used_since_the_plan_stays(tmp_path):
    memory = learning(on_file(tmp_path), "old", age=200)
    database = memory.session.database
    plan = planned(database, older_than=180)
    later = open_memory("old", database_uri=on_file(tmp_path), clock=lambda: NOW)
    later.put(user("I am back."))
    folder = tmp_path / "archive"
    refused = delete_old_sessions(
        database, ExactIndex(), plan, archive=lambda session: archive_session(database, session, folder)
    )
    assert list(refused) == ["old"]
    assert ids(database) == {"old"}
    assert list(folder.iterdir()) == []  # the file would miss what was said since
    with pytest.raises(ConflictError):
        delete_session(database, "old", unused_since=NOW - 1)


LIVES = st.lists(st.sampled_from(("note", "pin", "write", "edit", "text", "relate", "reset")), max_size=12)


@pytest.mark.slow
@settings(max_examples=15, phases=[Phase.explicit, Phase.generate], suppress_health_check=[HealthCheck.too_slow])
@given(lives=st.lists(LIVES, min_size=1, max_size=3), age=st.integers(0, 20), size=st.integers(0, 30_000))
def test_retention_never_removes_a_pinned_fact_or_a_text_that_a_person_wrote(lives, age, size):
    database = Database.open()
    memories = []
    for number, life in enumerate(lives):
        memory = Memory.from_defaults(
            f"s{number}",
            database=database,
            user_id="ana",
            tokenizer_fn=str.split,
            token_limit=60,
            token_flush_size=14,
            clock=lambda age=number * 10: NOW - age * DAY,
            services=Services(embedder=HashEmbedder()),
            memory_blocks=[
                StaticMemoryBlock(name="core", static_content="Be kind."),
                FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), scope=("session", "user")[number % 2]),
                GraphMemoryBlock(name="graph", llm=NoteRelations()),
            ],
        )
        memories.append(memory)
        for step, kind in enumerate(("note", "note", "note", "note", "note", *life)):
            desk = memory.facts.desk("facts")
            if kind == "note":
                memory.put(note(step))
            elif kind == "pin" and (loose := [fact for fact in desk.facts() if not fact.pinned]):
                desk.apply(curation.pin(loose[-1:], True))
            elif kind == "write":
                desk.apply(curation.add(f"Written {number} {step}"))
            elif kind == "edit" and desk.facts():
                desk.apply(curation.edit(desk.facts()[0], f"Edited {number} {step}"))
            elif kind == "text":
                memory.blocks.edit("core", f"Text {number} {step}.")
            elif kind == "relate":
                memory.blocks.graph("graph").add(f"Ana {step}", "knows", "Bo", ("person", "person"))
            elif kind == "reset":
                memory.reset("archived")

    def by_hand():
        with database.read() as connection:
            facts = "SELECT id, content, pinned FROM mi_fact WHERE pinned OR origin = 'written' OR id IN"
            changed = "(SELECT fact_id FROM mi_fact_revision WHERE actor = 'user')"
            texts = "SELECT session_id, block, revision, content FROM mi_block_revision WHERE actor = 'user'"
            relations = "SELECT id, predicate FROM mi_relation WHERE origin = 'written'"
            queries = (f"{facts} {changed} ORDER BY id", f"{texts} ORDER BY 1, 2, 3", f"{relations} ORDER BY id")
            rows = [connection.execute(text(query)).all() for query in queries]
            hashes = {row[1] for row in rows[0]} | {row[3] for row in rows[1]} | {row[1] for row in rows[2]}
            words = set(connection.execute(text("SELECT hash FROM mi_content")).scalars())
            assert hashes <= words
            return rows

    before = by_hand()
    left_after(database, older_than=age, max_bytes=size)
    assert by_hand() == before
    assert [finding for finding in find_damage(database, ExactIndex()) if not finding.harmless] == []


# -- archives ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_archived_session_can_be_imported_again_with_the_same_prompts(tmp_path):
    uri, folder = on_file(tmp_path), tmp_path / "archive"
    memory = learning(uri, "a/b ü", age=200)
    database = memory.session.database
    prompt, messages, facts = memory.get(), memory.get_all(), [fact.text for fact in memory.facts.read("facts")]
    plan = planned(database, older_than=180)
    delete_old_sessions(database, ExactIndex(), plan, archive=lambda id: archive_session(database, id, folder))
    assert ids(database) == set()
    [file] = folder.iterdir()
    assert file.stat().st_mode & 0o077 == 0
    again = import_bundle(database, read_bundle(file.read_bytes(), file.name), now=NOW)
    restored = Memory.open(again, database, services=Services(embedder=HashEmbedder()))
    assert (restored.get(), restored.get_all()) == (prompt, messages)
    assert [fact.text for fact in restored.facts.read("facts")] == facts


def test_a_session_whose_archive_cannot_be_read_back_stays(tmp_path, monkeypatch):
    database = learning(on_file(tmp_path), "old", age=200).session.database

    def broken(data, name):
        raise FormatError(f"{name} is damaged.")

    monkeypatch.setattr(retention, "read_bundle", broken)
    plan = planned(database, older_than=180)
    refused = delete_old_sessions(
        database, ExactIndex(), plan, archive=lambda id: archive_session(database, id, tmp_path / "archive")
    )
    assert "is damaged" in refused["old"]
    assert ids(database) == {"old"}


def test_an_archive_replaces_no_file(tmp_path):
    database = learning(on_file(tmp_path), "old", age=200).session.database
    first = archive_session(database, "old", tmp_path)
    assert archive_session(database, "old", tmp_path) == first
    first.write_bytes(b"something else")
    assert archive_session(database, "old", tmp_path).name.endswith("-2.zip")
    assert first.read_bytes() == b"something else"


def said_in(file):
    """The words of each session's messages in an archive, by its id."""
    database = Database.open()
    session = import_bundle(database, read_bundle(file.read_bytes(), file.name), now=NOW)
    return [message.content for message in Memory.open(session, database, services=Services()).get_all()]


BETWEEN = st.lists(st.sampled_from(["maintain", "use", "archive"]), max_size=3)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=BETWEEN, after=BETWEEN, inner_after=BETWEEN, earlier=st.booleans())
@example(before=[], after=["maintain"], inner_after=[], earlier=False)
@example(before=["archive"], after=["use"], inner_after=[], earlier=False)
@example(before=["use"], after=["maintain"], inner_after=["use"], earlier=True)
def test_what_two_runs_at_once_delete_is_in_the_archive(tmp_path_factory, before, after, inner_after, earlier):
    """Act as another run, an agent or a person between two steps of a run; archives from before it stay."""
    folder, database = tmp_path_factory.mktemp("archive"), Database.open()
    memory = Memory.from_defaults("s", database=database, clock=lambda: NOW - 200 * DAY, services=Services())
    memory.put(user("words"))
    kept = archive_session(database, "s", folder) if earlier else None
    expected, old = ["words"], planned(database, older_than=180)

    def another(steps, last):
        for step in steps:
            if "s" not in ids(database):
                return
            if step == "use":
                later = Memory.open("s", database, clock=lambda: NOW - (190 - len(expected)) * DAY, services=Services())
                expected.append(f"more {len(expected)}")
                later.put(user(expected[-1]))
            elif step == "archive":
                archive_session(database, "s", folder)
            elif last:
                for plan in (old, planned(database, older_than=180)):
                    delete_old_sessions(database, ExactIndex(), plan, archive=run(last=False))

    def run(*, last):
        def archive(session):
            another(before if last else (), last)
            file = archive_session(database, session, folder)
            another(after if last else inner_after, last)
            return file

        return archive

    delete_old_sessions(database, ExactIndex(), old, archive=run(last=True))
    assert kept is None or kept.exists()
    assert ids(database) == {"s"} or expected in [said_in(file) for file in folder.iterdir()]


def test_an_archive_of_before_stays_where_its_session_goes_on(tmp_path):
    memory = learning(on_file(tmp_path), "old", age=200)
    database, folder = memory.session.database, tmp_path / "archive"
    first = archive_session(database, "old", folder)
    plan = planned(database, older_than=180)

    def used_after(session):
        file = archive_session(database, session, folder)
        open_memory("old", database_uri=on_file(tmp_path), clock=lambda: NOW).put(user("I am back."))
        return file

    assert list(delete_old_sessions(database, ExactIndex(), plan, archive=used_after)) == ["old"]
    assert list(folder.iterdir()) == [first]


def test_a_full_disk_leaves_nothing_in_the_archive(tmp_path, monkeypatch):
    database, folder = learning(on_file(tmp_path), "old", age=200).session.database, tmp_path / "archive"

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    plan = planned(database, older_than=180)
    refused = delete_old_sessions(
        database, ExactIndex(), plan, archive=lambda id: archive_session(database, id, folder)
    )
    assert "No space left" in refused["old"]
    assert (ids(database), list(folder.iterdir())) == ({"old"}, [])


KILLED_BEFORE_IT_DELETES = """
import os, sys
from memory_inspector.upkeep import retention
from memory_inspector.__main__ import main
retention.delete_session = lambda *_, **__: os._exit(9)
main(["maintain", "--database", sys.argv[1], "--older-than", "180d", "--archive", sys.argv[2], "--yes"])
"""


@pytest.mark.slow
def test_maintenance_that_is_killed_between_archive_and_deletion_is_done_by_the_next(tmp_path):
    database, folder = learning(on_file(tmp_path), "old", age=200, now=time.time()).session.database, tmp_path / "a"
    arguments = [str(tmp_path / "memory.db"), str(folder)]
    assert subprocess.run([sys.executable, "-c", KILLED_BEFORE_IT_DELETES, *arguments]).returncode == 9
    assert ids(database) == {"old"}
    again = ["maintain", "--database", arguments[0], "--older-than", "180d", "--archive", arguments[1], "--yes"]
    assert main(again) == 0
    [file] = folder.iterdir()
    assert (ids(database), said_in(file)[:1]) == (set(), ["note 0 of the day is here"])


def test_a_clock_that_is_set_back_while_an_archive_is_written_loses_nothing(tmp_path, monkeypatch):
    database, folder = learning(on_file(tmp_path), "old", age=200).session.database, tmp_path / "archive"
    plan, clock = planned(database, older_than=180), time.time

    def set_back(session):
        monkeypatch.setattr(time, "time", lambda: clock() - 365 * 86_400)
        return archive_session(database, session, folder)

    assert delete_old_sessions(database, ExactIndex(), plan, archive=set_back) == {}
    assert (ids(database), len(list(folder.iterdir()))) == (set(), 1)


def test_one_program_at_a_time_maintains_a_database(tmp_path, capsys):
    database = learning(on_file(tmp_path), "old", age=200, now=time.time()).session.database
    delete = ["maintain", "--database", str(tmp_path / "memory.db"), "--older-than", "180d"]
    with maintenance.maintaining(database):
        assert main([*delete, "--yes"]) == 2
        assert "Another program maintains this database" in capsys.readouterr().err
        assert main(delete) == 0  # a list of what would leave disturbs nobody
    assert ids(database) == {"old"}
    assert main([*delete, "--yes"]) == 0
    assert ids(database) == set()


# -- damage --------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(ALL_STEPS)
def test_whatever_happens_to_a_session_is_no_damage(steps):
    script = Script()
    for step in steps:
        script.do(step)
    found = find_damage(script.memory.session.database, ExactIndex())
    assert [finding for finding in found if not finding.harmless] == []


HASH = "0" * 32
MENDED = {
    "mi_fact_source: fact_id": "INSERT INTO mi_fact_source VALUES (999, 's', 1)",
    "mi_fact_revision: fact_id": "INSERT INTO mi_fact_revision (fact_id, version, content, state, pinned, actor, turn, "
    f"at, topics) VALUES (999, 1, '{HASH}', 'active', false, 'engine', 1, 1.0, '[]')",
    "mi_relation_source: relation_id": "INSERT INTO mi_relation_source VALUES (999, 's', 1)",
    "mi_block_revision: block": "INSERT INTO mi_block_revision VALUES ('s', 'gone', 1, 'x', 'engine', 1, 1.0)",
    "mi_delivery: session_id": "INSERT INTO mi_delivery (session_id, block, trigger, first_seq, last_seq, messages, "
    "tokens, turn, state, attempts, next_attempt_at, created_at) "
    "VALUES ('gone', 'facts', 'flush', 1, 2, 2, 9, 1, 'done', 1, 0, 1.0)",
    "mi_vector: session_id": "UPDATE mi_vector SET session_id = 'gone' WHERE id = (SELECT min(id) FROM mi_vector)",
    "mi_span: session_id": "INSERT INTO mi_span VALUES ('aa', 'bb', 'gone')",
    "mi_model_output: session_id": "INSERT INTO mi_model_output VALUES ('gone', 'k', 1.0, '{}')",
    "mi_word_vector: hash": f"INSERT INTO mi_word_vector SELECT 'session:s', '{HASH[1:]}1', 'e', embedding "
    "FROM mi_vector WHERE id = (SELECT min(id) FROM mi_vector)",
    "texts that nothing names": f"INSERT INTO mi_content VALUES ('session:s', '{HASH}', 'nobody')",
    "totals differ": "UPDATE mi_session SET queue_messages = 99, archived_messages = 0, next_seq = 2 WHERE id = 's'",
    "messages are gone": "UPDATE mi_vector SET first_seq = 999 WHERE id = (SELECT max(id) FROM mi_vector)",
    "vectors that cannot be used": "UPDATE mi_vector SET embedding = substr(embedding, 1, 5) "
    "WHERE id = (SELECT max(id) FROM mi_vector)",
    "still have rows": "INSERT INTO mi_session SELECT * FROM mi_session WHERE false",  # see `plant`
}
NAMED = {
    "mi_message: session_id": "UPDATE mi_message SET session_id = 'gone' WHERE seq = 2",
    "mi_event: session_id": "UPDATE mi_event SET session_id = 'gone' WHERE id = 3",
    "mi_message: content": f"UPDATE mi_message SET content = '{HASH}' WHERE seq = 1",
    "mi_fact: content": f"UPDATE mi_fact SET content = '{HASH}' WHERE id = (SELECT min(id) FROM mi_fact)",
    "mi_fact: scope": "UPDATE mi_fact SET scope = 'session:gone' WHERE id = (SELECT min(id) FROM mi_fact)",
    "mi_block_revision: block without a row in mi_block, written": "INSERT INTO mi_block_revision VALUES "
    "('s', 'gone', 1, 'x', 'user', 1, 1.0)",
    "mi_block: text": f"UPDATE mi_block SET text = '{HASH}' WHERE name = 'core'",
    "mi_relation: subject": "UPDATE mi_relation SET subject = 999 WHERE id = (SELECT min(id) FROM mi_relation)",
}


def plant(database, what):
    """Damage a database as a program would that writes to its tables without foreign keys."""
    off, on = ("OFF", "ON") if database.is_sqlite else ("replica", "origin")
    switch = "PRAGMA foreign_keys = {}" if database.is_sqlite else "SET session_replication_role = {}"
    with database.engine.connect() as connection:
        # Outside of a transaction, in which SQLite leaves the setting as it is.
        connection.exec_driver_sql(switch.format(off))
        if what == "still have rows":
            delete_session(database, "second")
            row = "'second', 1, 'x', 'user', 'active', false, 1, 1, 1, 'c', null, null, null, 'x', 1.0"
            connection.exec_driver_sql(f"INSERT INTO mi_message VALUES ({row})")
            connection.exec_driver_sql(
                f"UPDATE mi_session SET deleted_at = 1.0, title = '{ERASING}' WHERE id = 'second'"
            )
        else:
            connection.exec_driver_sql({**MENDED, **NAMED}[what])
        connection.commit()
        connection.exec_driver_sql(switch.format(on))
        connection.commit()


def kinds(database):
    return [finding.what for finding in find_damage(database, ExactIndex())]


@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(st.sets(st.sampled_from(sorted(MENDED)), min_size=1))
@pytest.mark.slow
def test_each_kind_of_planted_damage_is_named_and_mended_and_then_nothing_is_left(tmp_path_factory, damage):
    check_mended(on_file(tmp_path_factory.mktemp("damaged")), damage)


def check_mended(uri, damage):
    memory = learning(uri, age=5)
    learning(uri, "second", age=5)
    database, messages = memory.session.database, memory.get_all()
    assert kinds(database) == []
    # The deletion first, as it would take other damage with it.
    for what in sorted(damage, key=lambda what: (what != "still have rows", what)):
        plant(database, what)
    named = kinds(database)
    assert all(any(what in line for line in named) for what in damage)
    assert all(finding.advice == "" for finding in find_damage(database, ExactIndex()))
    repair_damage(database, ExactIndex())
    assert kinds(database) == []
    assert planned(database, older_than=4).leaving  # a repair is no use: the sessions are as old as before
    again = open_memory(database_uri=uri, services=Services(embedder=HashEmbedder()))
    assert again.get_all() == messages
    assert ids(database) == {"s", "second"} - ({"second"} if "still have rows" in damage else set())
    database.close()


@pytest.mark.slow
@pytest.mark.parametrize("what", sorted(NAMED))
def test_damage_of_what_somebody_wrote_is_named_and_nothing_of_it_is_deleted(tmp_path, what):
    database = learning(on_file(tmp_path)).session.database
    plant(database, what)
    dump = rows_of_tables(database)
    findings = find_damage(database, ExactIndex())
    assert any(what in finding.what and finding.advice == "restore a backup" for finding in findings)
    repair_damage(database, ExactIndex())
    assert any(what in line for line in kinds(database))
    for table in ("mi_message", "mi_event", "mi_fact", "mi_block", "mi_block_revision", "mi_relation", "mi_content"):
        assert rows_of_tables(database)[table] == dump[table]


def rows_of_tables(database):
    with database.read() as connection:
        names = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars()
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in names}


def test_a_turn_whose_vector_was_damaged_waits_for_a_new_one(tmp_path):
    memory = learning(on_file(tmp_path))
    turns = len(memory.retrieval.stored_turns("turns"))
    plant(memory.session.database, "vectors that cannot be used")
    repair_damage(memory.session.database, ExactIndex())
    assert len(memory.retrieval.stored_turns("turns")) == turns
    assert maintenance.sessions_with_vectors_to_follow(memory.session.database) == ["s"]
    assert kinds(memory.session.database) == []


def test_a_damaged_index_of_the_file_is_rebuilt_and_damaged_pages_are_named(tmp_path):
    uri = on_file(tmp_path)
    learning(uri).session.database.close()
    file = tmp_path / "memory.db"
    with closing(sqlite3.connect(file)) as connection:
        # As after a crash of the disk: the index has no entry for some rows.
        connection.executescript(
            "PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET sql = sql || ' WHERE seq > 3' WHERE name = 'mi_message_status';"
        )
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("REINDEX mi_message_status")
        connection.commit()
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "PRAGMA writable_schema = ON;"
            "UPDATE sqlite_master SET sql = replace(sql, ' WHERE seq > 3', '') WHERE name = 'mi_message_status';"
        )
    with closing(Database.open(uri)) as database:
        [finding] = find_damage(database, ExactIndex())
        assert (finding.advice, "faults of the file" in finding.what) == ("", True)
        repair_damage(database, ExactIndex())
        assert find_damage(database, ExactIndex()) == []
    with closing(sqlite3.connect(file)) as connection:
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'mi_event'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    data = bytearray(file.read_bytes())
    data[(page - 1) * size : page * size] = bytes(size)
    file.write_bytes(data)
    with closing(Database.open(uri)) as database:
        repair_damage(database, ExactIndex())
        [finding] = find_damage(database, ExactIndex())
        assert finding.advice == "restore a backup"


class ListedIndex(ExactIndex):
    """An index whose copies can be damaged."""

    name = "Chroma at localhost:8000"

    def __init__(self):
        super().__init__()
        self.copies = {}

    def search(self, source, query, *, limit):
        self.copies.setdefault(source.collection, {stored.number for stored in source.vectors()})
        return super().search(source, query, limit=limit)

    def forget(self, collection):
        self.copies.pop(collection, None)
        super().forget(collection)

    def copied_numbers(self, collection):
        return self.copies.get(collection)

    def copied_collections(self):
        return set(self.copies)


@pytest.mark.slow
def test_copies_in_the_index_that_differ_are_named_and_rebuilt(tmp_path):
    memory, index = learning(on_file(tmp_path)), ListedIndex()
    database = memory.session.database
    assert find_damage(database, index) == []
    [collection] = index.copies
    index.copies[collection] ^= {min(index.copies[collection]), 777}
    [finding] = find_damage(database, index)
    assert "differ from the stored vectors" in finding.what
    repair_damage(database, index)
    assert find_damage(database, index) == []
    delete_session(database, "s")
    [finding] = find_damage(database, index)
    assert (finding.harmless, "all deleted" in finding.what) == (True, True)
    repair_damage(database, index)
    assert index.copies == {}


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def database_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "home"))
    for name in ("MEMORY_INSPECTOR_DATABASE_URL", "MEMORY_INSPECTOR_CHROMA_URL"):
        monkeypatch.delenv(name, raising=False)
    uri, now = on_file(tmp_path), time.time()
    learning(uri, "old", age=400, now=now)
    learning(uri, "new", now=now).session.database.close()
    return str(tmp_path / "memory.db")


def remaining(file):
    with closing(Database.open(f"sqlite:///{file}")) as database:
        return ids(database)


def run(capsys, *arguments):
    status = main(list(arguments))
    output = capsys.readouterr()
    return status, output.out + output.err


@pytest.mark.slow
def test_nothing_leaves_without_yes_and_the_preview_says_what_would(database_file, capsys):
    for more in ((), ("--dry-run",), ("--dry-run", "--yes")):
        status, output = run(capsys, "maintain", "--database", database_file, "--older-than", "180d", *more)
        assert status == 0
        assert "Leaves: 1 session with 12 messages" in output
        assert "old, not used for 400 days" in output
        assert remaining(database_file) == {"old", "new"}


@pytest.mark.slow
def test_with_yes_old_sessions_leave_and_are_in_the_archive(database_file, capsys, tmp_path):
    folder = tmp_path / "archive"
    arguments = ("--older-than", "180d", "--archive", str(folder), "--yes", "--verify", "--vacuum")
    status, output = run(capsys, "maintain", "--database", database_file, *arguments)
    assert status == 0
    assert "Deleted: 1 session." in output
    assert "No damage." in output
    assert "Vacuum:" in output
    assert remaining(database_file) == {"new"}
    assert [file.suffix for file in folder.iterdir()] == [".zip"]


@pytest.mark.slow
def test_verify_ends_with_1_while_damage_remains(database_file, capsys):
    with closing(Database.open(f"sqlite:///{database_file}")) as database, database.write() as connection:
        connection.execute(text("UPDATE mi_session SET queue_messages = 77 WHERE id = 'new'"))
    verify = ("maintain", "--database", database_file, "--verify")
    assert run(capsys, *verify) == (
        1,
        "        1  sessions whose totals differ from their messages: mended by --repair\n1 kind of damage.\n",
    )
    status, output = run(capsys, *verify, "--repair")
    assert status == 0
    assert "totals differ from their messages: mended\n" in output
    assert run(capsys, *verify) == (0, "No damage.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Say what to do: --older-than"),
        (("--older-than", "soon"), "--older-than is a number of days such as 180d, not soon."),
        (("--max-size", "5"), "--max-size is a size such as 500MB or 5GB, not 5."),
        (("--verify", "--yes"), "belong to --older-than or --max-size"),
    ],
)
def test_a_wrong_argument_is_one_sentence_and_nothing_happens(database_file, capsys, arguments, sentence):
    status, output = run(capsys, "maintain", "--database", database_file, *arguments)
    assert status == 2
    assert sentence in output
    assert remaining(database_file) == {"old", "new"}
