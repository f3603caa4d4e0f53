"""Tenants on one PostgreSQL database see nothing of each other; on SQLite each has a file of its own."""

import os
import subprocess
import sys
import threading
from random import Random

import pytest
from engine_fakes import on_file, until, user
from span_kit import PROTOBUF, as_protobuf, chat
from sqlalchemy import event, inspect
from tenant_kit import SERVICES, SILENT, STEPS, WORDS, Doors, Tenant, counts, filled

from memory_core.access import Person, acting_as
from memory_core.errors import AccessError, ConfigError, NotFoundError, StoreError
from memory_core.memory import Memory
from memory_core.sessions.overview import delete_session, list_sessions
from memory_core.store.database import Database
from memory_core.store.tables import TABLES
from memory_core.store.tenants import PROTECTED
from memory_inspector.recorder.otlp import read_export

OPERATIONS = int(os.environ.get("MEMORY_INSPECTOR_TENANT_OPERATIONS", "200"))
"""Random operations on tenants; a long run has 100,000."""


@pytest.mark.parametrize("name", ["Acme", "a b", "../up", "a" * 64, "a'b", "-a", "ü"])
def test_a_tenants_name_is_checked(name):
    with pytest.raises(ConfigError):
        Database.open(None, tenant=name)


def test_on_sqlite_a_tenant_has_a_file_of_its_own(tmp_path):
    uri = on_file(tmp_path)
    for tenant in ("", "acme", "globex"):
        memory = Memory.from_defaults("s", database_uri=uri, tenant=tenant, services=SERVICES)
        memory.put(user(f"This is {tenant or 'nobody'}."))
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.db"))
    assert files == ["memory.db", "tenants/acme/memory.db", "tenants/globex/memory.db"]
    assert Database.open(uri).tenants() == ["", "acme", "globex"]
    again = Memory.from_defaults("s", database_uri=uri, tenant="acme", services=SERVICES)
    assert [message.content for message in again.get_all()] == ["This is acme."]
    assert Database.open(uri, tenant="acme").delete_tenant() == 1
    with pytest.raises(StoreError):
        again.put(user("Is anybody there?"))
    assert Database.open(uri).tenants() == ["", "globex"]


def deleted_and_made_again(url, word):
    """Delete globex, and make it again with a session `new`, as another process does."""
    run = "import sys; from memory_core import *; Database.open(sys.argv[1], tenant='globex').delete_tenant()"
    subprocess.run([sys.executable, "-c", run, url], check=True)
    if word is not None:
        run = (
            "import sys; from memory_core import *\n"
            "memory = Memory.from_defaults('new', database_uri=sys.argv[1], tenant='globex')\n"
            "memory.put(ChatMessage(role='user', content=sys.argv[2]))"
        )
        subprocess.run([sys.executable, "-c", run, url, word], check=True)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The app's database in a server that shows its tenant globex."""
    from ui.tab.services import engine_of

    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    monkeypatch.setattr("memory_inspector.server.engine.Services", lambda index=None: SERVICES)
    url = engine_of("").settings.database
    Memory.from_defaults("old", database=engine_of("globex").database, services=SERVICES).put(user("The otter."))
    yield url, engine_of
    engine_of.clear()


@pytest.mark.slow
def test_a_tenant_made_again_shows_its_new_words_and_no_deleted_ones(served):
    url, engine_of = served
    deleted_and_made_again(url, "The badger.")
    assert [status.session_id for status in list_sessions(engine_of("globex").database)] == ["new"]
    memory = Memory.open("new", engine_of("globex").database, services=SERVICES)
    memory.put(user("Hello."))
    assert [message.content for message in memory.get_all()] == ["The badger.", "Hello."]
    with pytest.raises(NotFoundError):
        engine_of("globex").open("old")
    assert engine_of("globex") is engine_of("globex")


@pytest.mark.slow
def test_a_deleted_tenant_shows_nothing_until_an_agent_begins_it_again(served):
    from ui.server.start import open_receiver, session_of

    url, engine_of = served
    receiver = open_receiver("globex")
    receiver.store([read_export(as_protobuf(chat([("user", "The otter.")])), PROTOBUF)])
    deleted_and_made_again(url, None)
    assert "globex" not in engine_of("").database.tenants()
    with pytest.raises(StoreError, match="was deleted or replaced"):
        list_sessions(engine_of("globex").database)
    receiver.store([read_export(as_protobuf(chat([("user", "The badger.")])), PROTOBUF)])
    recorded = Memory.open("c1", engine_of("globex").database, services=SERVICES)
    assert [message.content for message in recorded.get_all()] == ["The badger."]
    assert session_of("c1", "globex").database is engine_of("globex").database


def test_an_owner_changes_and_deletes_their_own_tenant_only(tmp_path):
    databases = {name: Database.open(on_file(tmp_path), tenant=name) for name in ("acme", "globex")}
    for database in databases.values():
        filled(database, "heron")
    with acting_as(Person("ana@acme.test", "Ana", "owner", "acme")):
        for attempt in (
            lambda database: delete_session(database, "s"),
            lambda database: database.compact(),
            lambda database: database.delete_tenant(),
        ):
            with pytest.raises(AccessError, match="Your tenant is acme, and this is another's"):
                attempt(databases["globex"])
        delete_session(databases["acme"], "s")
        databases["acme"].compact()
        databases["acme"].delete_tenant()
    assert Database.open(on_file(tmp_path)).tenants() == ["", "globex"]
    assert len(list_sessions(databases["globex"])) == 1


def opened_again_after_a_deletion(url):
    """In one process, with another handle open."""
    with Memory.from_defaults("s", database_uri=url, tenant="acme", services=SERVICES) as beside:
        beside.put(user("The heron."))
        database = Database.open(url, tenant="acme")
        database.delete_tenant()
        with pytest.raises(StoreError, match="was deleted") as refused:
            beside.put(user("Is anybody there?"))
        assert "unable to open" not in str(refused.value)
        again = Memory.from_defaults("s", database_uri=url, tenant="acme", services=SERVICES)
        again.put(user("The badger."))
        assert [message.content for message in again.get_all()] == ["The badger."]


def test_a_deleted_tenant_can_be_opened_again_in_one_process(tmp_path):
    opened_again_after_a_deletion(on_file(tmp_path))


@pytest.mark.postgres
class TestOnPostgreSQL:
    def test_a_deleted_tenant_can_be_opened_again_in_one_process(self, url):
        opened_again_after_a_deletion(url)

    def test_a_tenant_that_another_process_deleted_is_named_in_a_sentence(self, url):
        beside = Database.open(url, tenant="globex")
        deleted_and_made_again(url, None)
        with pytest.raises(StoreError, match=r"^This tenant was deleted\. Nothing was stored"):
            Memory.from_defaults("s", database=beside, services=SERVICES).put(user("Is anybody there?"))

    def test_tenants_with_the_same_ids_share_nothing(self, url):
        one, two = (
            Memory.from_defaults("s", database_uri=url, tenant=name, services=SERVICES) for name in ("acme", "globex")
        )
        one.put_messages([user("The code word is heron.")])
        assert two.get_all() == []
        two.put_messages([user("The code word is otter.")])
        assert [message.content for message in one.get_all()] == ["The code word is heron."]
        assert [message.content for message in two.get_all()] == ["The code word is otter."]
        assert list_sessions(Database.open(url)) == []
        delete_session(one.session.database, "s")
        assert len(two.get_all()) == 1

    def test_every_table_hides_other_tenants_from_its_owner_too(self, url):
        database = Database.open(url)
        with database.read() as connection:
            security = dict(
                connection.exec_driver_sql(
                    "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class "
                    "WHERE relname LIKE 'mi_%%' AND relkind = 'r'"
                ).all()
            )
            keys = {t.name: inspect(connection).get_pk_constraint(t.name)["constrained_columns"] for t in PROTECTED}
        open_to_all = {"mi_schema", "mi_tenant", "mi_token", "mi_revision"}
        assert security == {
            name: name not in open_to_all for name in {table.name for table in TABLES} | {"mi_revision"}
        }
        assert all("tenant" in columns for columns in keys.values())

    def test_no_statement_of_this_package_names_the_tenant(self, url):
        """So none can forget to: what keeps tenants apart is in the database alone."""
        database = Database.open(url, tenant="acme")
        statements = []
        event.listen(database.engine, "before_cursor_execute", lambda _c, _cursor, sql, *_: statements.append(sql))
        memory = filled(database, "heron")
        memory.get("What was note 3?")
        delete_session(database, "s")
        assert len(statements) > 100
        assert {sql for sql in statements if "tenant" in sql.lower() and "set_config" not in sql} == set()

    def test_a_superuser_is_refused_where_there_are_tenants(self, shared_server):
        url = shared_server.new_database()
        name = url.rsplit("/", 1)[1]
        Database.open(f"{shared_server.administrator_url}/{name}").close()
        Database.open(f"{shared_server.administrator_url}/{name}").close()  # one tenant: nothing to protect
        shared_server.execute(
            "GRANT ALL ON SCHEMA public TO ana; GRANT ALL ON ALL TABLES IN SCHEMA public TO ana", name
        )
        Database.open(url, tenant="acme").close()
        for tenant in ("", "acme"):
            with pytest.raises(ConfigError, match="superuser"):
                Database.open(f"{shared_server.administrator_url}/{name}", tenant=tenant)

    def test_a_role_that_owns_no_table_can_do_everything_a_session_needs(self, url, shared_server):
        database = Database.open(url)
        role = f"app_of_{url.rsplit('/', 1)[1]}"  # roles are the server's, shared by its databases
        shared_server.execute(f"CREATE ROLE {role} LOGIN")
        database.grant(role)
        database.close()
        other = Database.open(url.replace("ana:secret-word", role), tenant="acme")
        memory = filled(other, "heron")
        assert "heron" in str(memory.get_all())
        delete_session(other, "s")
        with pytest.raises(StoreError), other.write() as connection:
            connection.exec_driver_sql("ALTER TABLE mi_message DISABLE ROW LEVEL SECURITY")
        other.close()

    def test_a_tenant_is_deleted_while_it_is_written_to(self, url):
        database, other = Database.open(url, tenant="acme"), Database.open(url, tenant="globex")
        filled(other, "otter")
        before = counts(url, "globex")
        stop, refused = threading.Event(), []

        def write(number):
            session = 0
            while not stop.is_set():
                session += 1
                try:
                    memory = Memory.from_defaults(f"s{number}-{session}", database=database, services=SERVICES)
                    for turn in range(3):
                        memory.put(user(f"heron {turn}"))
                except (StoreError, NotFoundError) as error:
                    refused.append(error)
                    return

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: len(list_sessions(database)) >= 8)
        database.delete_tenant()
        for thread in threads:
            thread.join(20)
        stop.set()
        assert len(refused) == 4
        assert sum(counts(url, "acme").values()) == 0
        assert counts(url, "globex") == before
        assert Database.open(url).tenants() == ["", "globex"]
        # Opened again, the name is a new tenant, which is empty.
        assert list_sessions(Database.open(url, tenant="acme")) == []

    def test_the_default_tenant_cannot_be_deleted(self, url):
        with pytest.raises(ConfigError):
            Database.open(url).delete_tenant()

    @pytest.mark.slow
    def test_random_operations_of_three_tenants_show_nothing_of_another(self, url, tmp_path):
        random = Random(33)
        with Doors(url, tmp_path) as doors:
            tenants = [Tenant(doors, name) for name in WORDS]

            def check(tenant, step=None):
                text = tenant.step(random, step)
                for name, word in WORDS.items():
                    assert name == tenant.name or word not in text, f"{tenant.name} saw {name}'s {word}"

            for _ in range(OPERATIONS):
                check(random.choice(tenants))
            # Each at least once, and each until it has shown the own word.
            for tenant in tenants:
                for step in STEPS:
                    check(tenant, step)
                    for _ in range(40):
                        if step not in SILENT and not tenant.seen[step]:
                            check(tenant, "put")
                            check(tenant, step)
                    assert step in SILENT or tenant.seen[step], f"{step} shows no words"


def test_a_file_that_is_named_by_a_uri_has_no_tenants(tmp_path):
    uri = f"sqlite:///file:{tmp_path}/memory.db?uri=true"
    with pytest.raises(ConfigError):
        Database.open(uri, tenant="acme")
    Database.open(uri).close()
