"""Maintenance, backup and restore on a real PostgreSQL, and between it and SQLite."""

from contextlib import closing

import pytest
from engine_fakes import HashEmbedder, on_file, user
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from session_script import ALL_STEPS, Script
from sqlalchemy import text
from test_backup import check_drill, dump, prompts, restored, years
from test_maintain import MENDED, check_mended, ids, learning, left_after, planned

from memory_core import Database, FormatError, Memory, Services
from memory_core.bundles.backup import restore_backup, write_backup
from memory_core.errors import ConflictError
from memory_core.vectors.exact import ExactIndex
from memory_inspector.__main__ import main
from memory_inspector.upkeep.damage import find_damage

pytestmark = pytest.mark.postgres


@pytest.fixture
def other_url(shared_server):
    """A second new, empty database."""
    other = shared_server.new_database()
    yield other
    Database.open(other).close()


def test_a_backup_is_restored_into_either_kind_of_database_and_back(url, other_url, tmp_path):
    database = years(url)
    before, contexts = dump(database), prompts(database)
    write_backup(database, tmp_path / "a.zip")
    with closing(restored(tmp_path / "a.zip", on_file(tmp_path))) as sqlite:
        assert (dump(sqlite), prompts(sqlite)) == (before, contexts)
        write_backup(sqlite, tmp_path / "b.zip")
        write_backup(sqlite, tmp_path / "b.db")
    with closing(restored(tmp_path / "b.zip", other_url)) as again:
        assert (dump(again), prompts(again)) == (before, contexts)
        # New rows get new numbers: the sequences were set.
        memory = Memory.open("one", again, services=Services(embedder=HashEmbedder()))
        memory.put(user("I moved to Porto."))
        memory.blocks.edit("core", "Be brief.")
    with pytest.raises(FormatError, match=r"name it c\.zip"):
        write_backup(database, tmp_path / "c.db")


def test_a_tenant_is_restored_beside_others(url, other_url, tmp_path):
    """And under another name: what others have keeps its rows, its numbers and the database's id."""
    acme = learning(url, "one", scope="user", tenant="acme").session.database
    before = dump(acme)
    write_backup(acme, tmp_path / "acme.zip")
    memory = learning(other_url, "one", scope="user", tenant="globex")
    with closing(memory.session.database) as globex:
        kept, own_id = dump(globex), globex.id
        restore_backup(tmp_path / "acme.zip", other_url, tenant="acme2")
        with closing(Database.open(other_url, tenant="acme2")) as restored_tenant:
            without_id = {name: rows for name, rows in before.items() if name != "mi_schema"}
            assert {name: rows for name, rows in dump(restored_tenant).items() if name != "mi_schema"} == without_id
        assert (dump(globex), globex.id) == (kept, own_id)
        memory.put(user("I moved to Porto."))
    with pytest.raises(ConflictError):
        restore_backup(tmp_path / "acme.zip", other_url, tenant="acme2")


def test_a_copy_of_an_sqlite_file_is_restored_into_postgresql(url, tmp_path):
    database = years(on_file(tmp_path))
    write_backup(database, tmp_path / "copy.db")
    with closing(restored(tmp_path / "copy.db", url)) as other:
        assert dump(other) == dump(database)


def test_a_backup_that_is_made_while_an_agent_writes_is_whole(url, other_url, tmp_path):
    second = check_drill(url, other_url, tmp_path / "a.zip")
    with closing(Database.open(other_url)) as other, closing(restored(second, on_file(tmp_path))) as sqlite:
        assert dump(sqlite) == dump(other)
        assert prompts(sqlite) == prompts(other)


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(ALL_STEPS)
def test_any_life_of_a_session_is_restored_as_it_was(shared_server, tmp_path_factory, steps):
    folder, script = tmp_path_factory.mktemp("life"), Script()
    for step in steps:
        script.do(step)
    database = script.memory.session.database
    write_backup(database, folder / "a.zip")
    with closing(restored(folder / "a.zip", shared_server.new_database())) as other:
        assert dump(other) == dump(database)
        write_backup(other, folder / "b.zip")
    with closing(restored(folder / "b.zip", on_file(folder))) as again:
        assert dump(again) == dump(database)


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.sets(st.sampled_from(sorted(MENDED)), min_size=4))
def test_planted_damage_is_named_and_mended(shared_server, damage):
    shared_server.execute("GRANT SET ON PARAMETER session_replication_role TO ana")  # planting needs it
    check_mended(shared_server.new_database(), damage)


def test_old_sessions_leave_and_their_space_is_returned(url, capsys):
    learning(url, "old", age=200)
    database = learning(url, "new", age=1).session.database
    total = planned(database).total_bytes
    assert [session.session_id for session in planned(database, max_bytes=total - 1).leaving] == ["old"]
    assert left_after(database, older_than=180) == {"new"} == ids(database)
    assert find_damage(database, ExactIndex()) == []
    assert main(["maintain", "--database", url, "--verify", "--vacuum"]) == 0
    output = capsys.readouterr().out
    assert "No damage." in output
    assert "Vacuum:" in output
    with database.read() as connection:
        vacuumed = "SELECT count(*) FROM pg_stat_user_tables WHERE relname LIKE 'mi_%' AND last_vacuum IS NOT NULL"
        assert connection.execute(text(vacuumed)).scalar() > 15
