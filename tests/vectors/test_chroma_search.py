"""Search a Chroma server for forgotten words: everything that is stored as text, and nothing of it on the receipt."""

import sys
from contextlib import closing
from uuid import uuid4

import pytest
from chroma_server import chroma_server, free_port
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import ChatMessage, Database, Memory
from memory_inspector.__main__ import main as command
from memory_inspector.server.forget_receipt import receipt_for
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import receipt_of, search_chroma

SECRET = "Doctor Vantongeren"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with chroma_server(tmp_path_factory.mktemp("chroma")) as address:
        yield address


@pytest.fixture(scope="module")
def client(server):
    import chromadb

    client = chromadb.HttpClient(host="127.0.0.1", port=int(server.rpartition(":")[2]))
    with closing(client._server._session), closing(client._admin_client._server._session):
        yield client


@pytest.fixture
def collection(client):
    """An empty collection in a database of its own."""
    database = f"db-{uuid4().hex[:8]}"
    client._admin_client.create_database(database)
    client.set_database(database)
    yield client.create_collection("people", embedding_function=None)
    client._admin_client.delete_database(database)


def put(collection, id="a", document="Nothing.", metadata=None):
    collection.upsert(ids=[id], documents=[document], metadatas=[metadata or {"k": "v"}], embeddings=[[1.0, 2.0]])


def hits(server, text=SECRET):
    """The searched parts with the text, without the name of their database."""
    return {
        part.part.rpartition("/")[2]: part.hits for part in receipt_of(server, wanted([text])).searched if part.hits
    }


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["ids", "documents", "metadatas"]),
    st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=4, max_size=30),
)
def test_any_words_are_found_where_they_are_and_gone_when_they_are_deleted(server, collection, field, text):
    text = " ".join(text.split())
    if len(text) < 4:
        return
    values = {"ids": {"id": text}, "documents": {"document": text}, "metadatas": {"metadata": {"said": text}}}
    put(collection, **values[field])
    assert f"people.{field}" in hits(server, text)
    collection.delete(ids=collection.get()["ids"])
    assert hits(server, text) == {}


@pytest.mark.slow
def test_every_database_and_page_is_searched_and_keys_and_names_too(server, client, collection, monkeypatch):
    monkeypatch.setattr("memory_inspector.verification.receipts._AT_ONCE", 2)
    for number in range(5):
        put(collection, id=f"n{number}")
    put(collection, id="last", metadata={SECRET: 1, "age": 3})
    about = client.create_collection("other", metadata={"about": f"{SECRET} of Ghent"}, embedding_function=None)
    assert hits(server) == {"people.metadatas": 1, "other.metadata": 1}
    client.delete_collection(about.name)
    named = client.create_collection("vantongeren", embedding_function=None)
    receipt = receipt_of(server, wanted(["Vantongeren"]))
    assert receipt.hits == 2
    assert "vantongeren" not in (receipt.to_json() + receipt.page()).lower()
    client.delete_collection(named.name)


@pytest.mark.slow
def test_the_command_searches_a_server_and_names_no_password(server, collection, tmp_path, capsys):
    (tmp_path / "words.txt").write_text(SECRET)
    put(collection, document=f"My dentist is {SECRET}.")
    place = server.replace("://", "://ana:secret-word@")
    written = ["verify", "--words", str(tmp_path / "words.txt"), "--place", place, "--out", str(tmp_path / "r.json")]
    assert command(written) == 1
    collection.delete(ids=["a"])
    assert command(written) == 0
    assert command(["verify", str(tmp_path / "r.json"), "--place", place]) == 0
    shown = capsys.readouterr().out + (tmp_path / "r.json").read_text()
    assert "secret-word" not in shown
    assert "Vantongeren" not in shown
    assert server.removeprefix("http://") in shown


@pytest.mark.slow
def test_a_collection_that_cannot_be_read_is_named_and_the_others_are_searched(server, client, collection, monkeypatch):
    put(collection, document=SECRET)
    broken = client.create_collection("broken", embedding_function=None)
    put(broken, document=SECRET)
    read = type(collection).get

    def fails(self, **values):
        if self.name == "broken":
            raise RuntimeError(f"A disk with {SECRET} is gone.")
        return read(self, **values)

    monkeypatch.setattr(type(collection), "get", fails)
    receipt = receipt_of(server, wanted([SECRET]))
    assert {part.part.rpartition("/")[2] for part in receipt.problems} == {
        f"broken.{field}" for field in ("ids", "documents", "metadatas", "uris")
    }
    assert receipt.hits == 1
    assert SECRET not in receipt.page()


@pytest.mark.slow
def test_the_app_searches_the_server_that_its_vectors_are_in(server, collection, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", server)
    put(collection, document=SECRET)
    memory = Memory.from_defaults("s", database=Database.open(f"sqlite:///{tmp_path / 'memory.db'}"))
    memory.put(ChatMessage(role="user", content="Good morning."))
    receipt = receipt_for(memory.session.database, [SECRET])
    assert [part.part.rpartition("/")[2] for part in receipt.searched if part.hits] == ["people.documents"]
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", f"http://127.0.0.1:{free_port()}")
    [problem] = receipt_for(memory.session.database, [SECRET]).problems
    assert problem.file.startswith("Chroma at 127.0.0.1:")


@pytest.fixture
def tenant(client, collection):
    """A tenant with a word in one of its two databases."""
    name = f"tenant-{uuid4().hex[:8]}"
    client._admin_client.create_tenant(name)
    for database in ("empty", "full"):
        client._admin_client.create_database(database, tenant=name)
    client.set_tenant(name, "full")
    put(client.create_collection("patients", embedding_function=None), document=f"My dentist is {SECRET}.")
    yield name
    client.delete_collection("patients")
    client.set_tenant("default_tenant", "default_database")


@pytest.mark.slow
def test_tenants_that_the_address_names_are_searched_and_the_receipt_says_that_others_may_exist(server, tenant):
    without = receipt_of(server, wanted([SECRET]))
    assert without.clean
    assert f"{server.removeprefix('http://')} other than default_tenant: only these were searched" in without.page()
    receipt = receipt_of(f"{server}?tenant={tenant}&tenant=default_tenant", wanted([SECRET]))
    assert hits(f"{server}?tenant={tenant}") == {"patients.documents": 1}
    assert f"other than default_tenant, {tenant}: only these were searched" in receipt.page()
    assert f"other than default_tenant, {tenant}: only these were searched" in receipt.to_json()


@pytest.mark.slow
def test_a_tenant_that_does_not_exist_is_a_problem_and_no_empty_one(server, collection):
    put(collection, document=SECRET)
    receipt = receipt_of(f"{server}?tenant=no-such-one", wanted([SECRET]))
    assert ([part.part for part in receipt.problems], receipt.hits) == (["list of collections, tenant no-such-one"], 1)
    assert "other than default_tenant: only these" in receipt.page()
    named = receipt_of(f"{server}?tenant=Vantongeren", wanted(["Vantongeren"]))
    assert "Vantongeren" not in named.to_json() + named.page()


@pytest.mark.slow
def test_the_app_searches_the_tenants_of_its_settings(server, tenant, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path))
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", server)
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_TENANTS", f"default_tenant, {tenant}")
    memory = Memory.from_defaults("s", database=Database.open(f"sqlite:///{tmp_path / 'memory.db'}"))
    receipt = receipt_for(memory.session.database, [SECRET])
    assert [part.part for part in receipt.searched if part.hits] == [f"{tenant}/full/patients.documents"]


@pytest.mark.parametrize("url", ["http://ana:secret-word@127.0.0.1:{port}", "https://ana:secret-word@[", "http://"])
def test_a_server_that_cannot_be_reached_stands_on_the_receipt_without_its_password(url):
    receipt = receipt_of(url.format(port=free_port()), wanted([SECRET]))
    assert not receipt.clean
    assert [part.problem.split(":")[0] for part in receipt.problems] == ["cannot be read"]
    assert "secret-word" not in receipt.to_json() + receipt.page()


def test_a_missing_client_stands_on_the_receipt(monkeypatch):
    monkeypatch.setitem(sys.modules, "chromadb", None)
    [part] = search_chroma("http://127.0.0.1:8000", wanted([SECRET]))
    assert part.problem == "needs memory-inspector[chroma]"
