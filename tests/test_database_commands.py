"""`memory-inspector upgrade` and `tenants`, as typed in a terminal."""

import sqlite3
from contextlib import closing

import pytest
from engine_fakes import on_file, open_memory, user
from test_schema_upgrade import back_to_version_7, played

from memory_core import Settings
from memory_core.errors import ConfigError
from memory_core.memory import Memory
from memory_core.store.database import Database, schema_version
from memory_core.store.tables import SCHEMA_VERSION
from memory_inspector.__main__ import main as command


@pytest.mark.slow
def test_an_upgrade_is_announced_before_it_is_done(tmp_path, capsys):
    uri, file = on_file(tmp_path), str(tmp_path / "memory.db")
    played(uri).session.database.close()
    back_to_version_7(uri)
    assert command(["upgrade", "--database", file, "--dry-run"]) == 0
    assert schema_version(uri) == 7
    announced = [line for line in capsys.readouterr().out.splitlines() if line[0].isdigit()]
    assert [line.split(":")[0] for line in announced] == [str(n) for n in range(8, SCHEMA_VERSION + 1)]
    assert not list(tmp_path.glob("*.before-*"))
    assert command(["upgrade", "--database", file]) == 0
    assert schema_version(uri) == SCHEMA_VERSION
    assert len(list(tmp_path.glob("*.before-*"))) == 1
    assert command(["upgrade", "--database", file, "--dry-run"]) == 0


def test_what_is_no_database_of_ours_is_not_made_one(tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE other (id)")
    assert command(["upgrade", "--database", str(tmp_path / "other.db")]) != 0
    assert command(["upgrade", "--database", str(tmp_path / "nowhere.db")]) != 0
    assert schema_version(f"sqlite:///{tmp_path}/other.db") is None


def test_roles_are_postgresqls(tmp_path):
    database = open_memory(database_uri=on_file(tmp_path)).session.database
    with pytest.raises(ConfigError):
        database.grant("app")


@pytest.mark.postgres
def test_tenants_are_listed_and_deleted(url, capsys):
    for tenant in ("", "acme", "globex"):
        Memory.from_defaults("s", database_uri=url, tenant=tenant).put(user("hello"))
    assert command(["tenants", "--database", url]) == 0
    assert capsys.readouterr().out.split() == ["(default)", "acme", "globex"]
    assert command(["tenants", "--database", url, "--delete", "acme"]) == 0
    assert command(["tenants", "--database", url, "--delete", "acme"]) != 0
    assert Database.open(url).tenants() == ["", "globex"]


@pytest.mark.postgres
def test_a_database_of_version_7_on_postgresql_gets_its_tenants(url, shared_server):
    memory = played(url)
    before = memory.get_all()
    memory.session.database.close()
    back_to_version_7(url)
    role = f"reader_of_{url.rsplit('/', 1)[1]}"  # roles are the server's, shared by its databases
    shared_server.execute(f"CREATE ROLE {role} LOGIN")
    shared_server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}", url.rsplit("/", 1)[1])
    # Whoever does not own the tables is told who has to upgrade them.
    assert command(["tenants", "--database", url.replace("ana:secret-word", role)]) != 0
    assert schema_version(url) == 7
    assert command(["upgrade", "--database", url, "--grant", role]) == 0
    again = open_memory(database_uri=url.replace("ana:secret-word", role))
    assert again.get_all() == before
    again.session.database.close()


def test_the_app_is_started_on_the_database_that_is_named(tmp_path, monkeypatch):
    open_memory(database_uri=on_file(tmp_path)).session.database.close()
    monkeypatch.setattr("streamlit.web.cli.main", lambda: None)
    monkeypatch.setattr("sys.argv", ["memory-inspector"])
    monkeypatch.setenv("MEMORY_INSPECTOR_DATABASE_URL", "")
    assert command(["--database", str(tmp_path / "memory.db"), "--no-browser"]) == 0
    assert Settings.from_environment().database == on_file(tmp_path)
