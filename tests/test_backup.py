"""A backup holds everything, is made while others write, and is restored only into an empty database, and whole."""

import json
import sqlite3
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from engine_fakes import HashEmbedder, note, on_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_script import ALL_STEPS, Script
from sqlalchemy import select
from test_maintain import learning

from memory_core import ConflictError, Database, FormatError, Memory, Services, delete_session, list_sessions
from memory_core.bundles import backup
from memory_core.bundles.backup import restore_backup, write_backup
from memory_core.planning import curation
from memory_core.store.tables import SCHEMA_VERSION, TABLES, lease_table, schema_table, tenant_table
from memory_core.vectors.exact import ExactIndex
from memory_inspector.__main__ import main
from memory_inspector.upkeep.damage import find_damage


def dump(database):
    """Every row of every table but the leases of running programs, in a form that no database decides."""
    with database.read() as connection:
        return {
            table.name: sorted(repr(tuple(row)) for row in connection.execute(select(table)))
            for table in TABLES
            if table not in (lease_table, tenant_table)
        }


def restored(path, url):
    restore_backup(path, url)
    return Database.open(url)


def prompts(database):
    """The next prompt of each session."""
    services = Services(embedder=HashEmbedder())
    ids = sorted(status.session_id for status in list_sessions(database))
    return {id: Memory.open(id, database, services=services).preview.context(input="note 3?").messages for id in ids}


def years(uri):
    """Two sessions that share facts, and one that was deleted."""
    for name in ("one", "two", "gone"):
        memory = learning(uri, name, scope="user")
    delete_session(memory.session.database, "gone")
    return memory.session.database


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory.zip", "copy.db"])
def test_a_restored_backup_is_the_same_database(tmp_path, name):
    database = years(on_file(tmp_path))
    before, contexts = dump(database), prompts(database)
    rows = write_backup(database, tmp_path / name)
    assert (tmp_path / name).stat().st_mode & 0o077 == 0
    with closing(restored(tmp_path / name, on_file(tmp_path / "elsewhere"))) as other:
        assert dump(other) == before == dump(database)
        assert {table: len(found) for table, found in before.items()} == {n: rows[n] for n in before}
        assert prompts(other) == contexts
        assert find_damage(other, ExactIndex()) == find_damage(database, ExactIndex())
        assert other.id == database.id
    assert sorted(file.name for file in tmp_path.iterdir() if "part" in file.name) == []


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(ALL_STEPS, st.sampled_from(["memory.zip", "copy.db"]))
def test_any_life_of_a_session_is_restored_as_it_was(tmp_path_factory, steps, name):
    folder, script = tmp_path_factory.mktemp("life"), Script()
    for step in steps:
        script.do(step)
    database = script.memory.session.database
    write_backup(database, folder / name)
    with closing(restored(folder / name, on_file(folder))) as other:
        assert dump(other) == dump(database)


def test_a_number_that_was_given_once_is_not_given_again_after_a_restore(tmp_path):
    memory = learning(on_file(tmp_path))
    desk = memory.facts.desk("facts")
    newest = max(desk.facts(), key=lambda fact: fact.id)
    desk.erase([newest])
    write_backup(memory.session.database, tmp_path / "a.zip")
    with closing(restored(tmp_path / "a.zip", on_file(tmp_path / "b"))) as other:
        again = Memory.open("s", other, services=Services(embedder=HashEmbedder()))
        before = {fact.id for fact in again.facts.read("facts")}
        again.facts.desk("facts").apply(curation.add("Ana has a boat."))
        [added] = {fact.id for fact in again.facts.read("facts")} - before
        assert added > newest.id


@pytest.mark.slow
@pytest.mark.parametrize("name", ["memory.zip", "copy.db"])
def test_a_backup_that_is_made_while_others_write_is_whole(tmp_path, name):
    check_drill(on_file(tmp_path), on_file(tmp_path / "elsewhere"), tmp_path / name)


def check_drill(uri, elsewhere, path):
    """Fill a database, back it up while an agent writes, restore it elsewhere, and compare."""
    memory = learning(uri)
    database, stop, problems = memory.session.database, threading.Event(), []

    def write():
        number = 100
        try:
            while not stop.is_set():
                memory.put(note(number))
                memory.build_context()
                number += 1
        except BaseException as problem:
            problems.append(problem)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        write_backup(database, path)
    finally:
        stop.set()
        writer.join(60)
    assert problems == []
    with closing(restored(path, elsewhere)) as other:
        assert [finding for finding in find_damage(other, ExactIndex()) if not finding.harmless] == []
        again = Memory.open("s", other, services=Services(embedder=HashEmbedder()))
        messages = again.get_all()
        assert messages == memory.get_all()[: len(messages)]  # the log ends at one moment
        # What was written afterwards is not in the restored one; a second drill without a writer is equal in all.
        second = path.with_name(f"second-{path.name}")
        write_backup(other, second)
    return second


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage", ["a row", "a count", "cut short", "no zip", "another zip", "newer", "no member", "odd ids", "a long row"]
)
def test_a_damaged_backup_is_refused_in_one_sentence_and_nothing_is_stored(tmp_path, damage, monkeypatch):
    if damage == "a long row":
        monkeypatch.setattr(backup, "MAX_LINE_BYTES", 100)
    write_backup(years(on_file(tmp_path)), tmp_path / "good.zip")
    bad, manifest = tmp_path / "bad.zip", "manifest.json"
    with zipfile.ZipFile(tmp_path / "good.zip") as good, zipfile.ZipFile(bad, "w") as written:
        for name in good.namelist():
            data = good.read(name)
            if name == "mi_content.jsonl" and damage == "a row":
                data = data.replace(b"note 1", b"note 7", 1)
            if name == "mi_message.jsonl" and damage == "a count":
                data = data.partition(b"\n")[2]
            if name == manifest and damage in ("newer", "another zip"):
                values = json.loads(data)
                values |= {"schema_version": SCHEMA_VERSION + 1} if damage == "newer" else {"format": "other"}
                data = json.dumps(values).encode()
            if name == manifest and damage == "odd ids":
                data = json.dumps({**json.loads(data), "last_ids": {"mi_message": 2**63 - 1}}).encode()
            if not (name == "mi_fact.jsonl" and damage == "no member"):
                written.writestr(name, data)
    if damage == "cut short":
        bad.write_bytes((tmp_path / "good.zip").read_bytes()[:-400])
    if damage == "no zip":
        bad.write_text("hello")
    with pytest.raises(FormatError, match=r"bad\.zip") as raised:
        restore_backup(bad, on_file(tmp_path / "new"))
    assert "\n" not in str(raised.value)
    with closing(Database.open(on_file(tmp_path / "new"))) as database:
        assert {name for name, rows in dump(database).items() if rows} <= {schema_table.name}


@pytest.mark.slow
def test_a_database_that_is_not_empty_is_left_alone(tmp_path):
    database = years(on_file(tmp_path))
    write_backup(database, tmp_path / "a.zip")
    before = dump(database)
    with pytest.raises(ConflictError, match="not empty"):
        restore_backup(tmp_path / "a.zip", on_file(tmp_path))
    assert dump(database) == before


@pytest.mark.slow
def test_rows_that_a_database_stores_differently_are_noticed(tmp_path, monkeypatch):
    write_backup(years(on_file(tmp_path)), tmp_path / "a.zip")
    lines = backup._lines
    monkeypatch.setattr(backup, "_lines", lambda *of: (line.replace(b"session", b"Session") for line in lines(*of)))
    with pytest.raises(Exception, match="did not store"):
        restore_backup(tmp_path / "a.zip", on_file(tmp_path / "new"))


@pytest.mark.slow
def test_a_backup_of_an_earlier_version_is_restored_into_the_present_tables(tmp_path):
    database = years(on_file(tmp_path))
    write_backup(database, tmp_path / "now.zip")
    columns = {"mi_session": "opened_from", "mi_fact": "topics"}
    with zipfile.ZipFile(tmp_path / "now.zip") as now, zipfile.ZipFile(tmp_path / "then.zip", "w") as then:
        manifest = json.loads(now.read("manifest.json")) | {"schema_version": 1}
        for name, copy in manifest["tables"].items():
            data, column = now.read(f"{name}.jsonl"), columns.get(name)
            if column:
                place = copy["columns"].index(column)
                rows = [json.loads(line) for line in data.splitlines()]
                lines = [
                    json.dumps(row[:place] + row[place + 1 :], ensure_ascii=False, separators=(",", ":"))
                    for row in rows
                ]
                sums = backup._Sums()
                data = b"".join(sums.through(f"{line}\n".encode() for line in lines))
                copy["columns"].remove(column)
                copy["digest"] = sums.digest
            then.writestr(f"{name}.jsonl", data)
        then.writestr("manifest.json", json.dumps(manifest))
    with closing(restored(tmp_path / "then.zip", on_file(tmp_path / "new"))) as other:
        assert dump(other) == dump(database)


@pytest.mark.slow
def test_no_file_is_overwritten_and_a_failed_backup_leaves_none(tmp_path, monkeypatch):
    database = years(on_file(tmp_path))
    (tmp_path / "a.zip").write_text("mine")
    with pytest.raises(FormatError, match=r"a\.zip exists already"):
        write_backup(database, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_text() == "mine"
    before = set(tmp_path.iterdir())

    def full(*_):
        raise OSError(28, "No space left on device")

    def full_in_the_middle(database, part):
        Path(f"{part}-journal").write_bytes(b"half")
        full()

    monkeypatch.setattr(backup, "_write_zip", full)
    monkeypatch.setattr(backup, "_copy_sqlite", full_in_the_middle)
    with pytest.raises(FormatError, match=r"b\.db cannot be written: No space left on device"):
        write_backup(database, tmp_path / "b.db")
    assert set(tmp_path.iterdir()) == before
    with pytest.raises(FormatError, match=r"b\.zip cannot be written: No space left on device"):
        write_backup(database, tmp_path / "b.zip")
    assert set(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_backup_and_restore_as_commands(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "home"))
    before = dump(years(on_file(tmp_path)))
    file = str(tmp_path / "memory.db")
    assert main(["backup", str(tmp_path / "a.zip"), "--database", file]) == 0
    assert main(["restore", str(tmp_path / "a.zip"), "--to", str(tmp_path / "new.db")]) == 0
    assert "Restored and compared" in capsys.readouterr().out
    with closing(Database.open(f"sqlite:///{tmp_path / 'new.db'}")) as other:
        assert dump(other) == before
    assert main(["restore", str(tmp_path / "a.zip"), "--to", str(tmp_path / "new.db")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["backup", str(tmp_path / "none" / "a.zip"), "--database", file]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
    with closing(sqlite3.connect(file)) as connection:  # the source was only read
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
