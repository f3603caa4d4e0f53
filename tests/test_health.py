"""Health: every part is really asked, within its time, and what fails is said without raising."""

import json
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, note

from memory_core import Database, EmbedderError, Memory, Services, StoreError, VectorIndexError, VectorMemoryBlock
from memory_core.models.embedding import OpenAIEmbedder
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.openai_client import OpenAIChat
from memory_core.store.totals import read_collections
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_inspector.upkeep.health import can_be_rebuilt, check_health, rebuild_index, size_of

KEY = "sk-very-secret"


class Asked:
    """What a fake was asked, and how it answers: `fails` is raised, `wait` is waited for."""

    def __init__(self, *, fails=None, wait=None):
        self.fails = fails
        self.wait = wait
        self.calls = []

    def answer(self, what):
        self.calls.append(what)
        if self.wait is not None:
            assert self.wait.wait(20)
        if self.fails is not None:
            raise self.fails


class AskedEmbedder(Asked, HashEmbedder):
    def embed(self, texts):
        self.answer(list(texts))
        return HashEmbedder.embed(self, texts)


class AskedIndex(Asked, ExactIndex):
    name = "Chroma at localhost:8000"

    def __init__(self, **how):
        Asked.__init__(self, **how)
        ExactIndex.__init__(self)
        self.loses = set()

    def check(self):
        self.answer("check")

    def search(self, source, query, *, limit):
        self.calls.append("search")
        hits = ExactIndex.search(self, source, query, limit=limit)
        return [] if source.collection in self.loses else hits

    def forget(self, collection):
        self.calls.append("forget")
        self.loses.discard(collection)


@contextmanager
def model_list(status=200, *, body=None, hold=None):
    """A server that answers `GET /v1/models`; what it was asked."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["authorization"]))
            if hold is not None:
                hold.wait(20)
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            with suppress(BrokenPipeError):  # who asked did not wait
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *args):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def models(*names):
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 1, "owned_by": "x"} for name in names],
    }


def services(**parts):
    return Services(**{"embedder": AskedEmbedder(), "extractor": NoteExtractor(), "index": AskedIndex(), **parts})


def checked(database, services, model=None, **options):
    """Each part's state, name and text; whether it took measurable time."""
    health = check_health(database, services, model, **options)
    return {each.part: (each.state, each.name, each.text) for each in health.checks}


@pytest.fixture
def database(tmp_path):
    return Database.open(f"sqlite:///{tmp_path / 'memory.db'}")


def with_stored_turns(database, parts, *, sessions=("one",), turns=6):
    for session in sessions:
        memory = Memory.from_defaults(
            session,
            engine=database.engine,
            services=parts,
            token_limit=60,
            memory_blocks=[VectorMemoryBlock(name="turns")],
        )
        for number in range(turns):
            memory.put(note(number))


def collections_of(database):
    with database.read() as connection:
        return read_collections(connection)


def test_every_part_is_asked_and_its_answer_timed(database):
    parts = services()
    health = check_health(database, parts, OfflineResponder(), clock=lambda: 12.0)
    assert [(each.part, each.state, each.name) for each in health.checks] == [
        ("database", "ok", database.url),
        ("vectors", "ok", "Chroma at localhost:8000"),
        ("embeddings", "ok", "hash-8"),
        ("chat", "offline", "offline"),
    ]
    assert [each.seconds is None for each in health.checks] == [False, False, False, True]
    assert (health.at, health.problems) == (12.0, ())
    assert health.checks[3].text == "rules, not a language model"
    (loaded, timed) = parts.embedder.calls
    assert loaded == ["memory"]
    assert timed[0] != "memory"  # what was embedded before may be remembered
    assert parts.index.calls == ["check", "check"]


def test_an_index_with_stored_turns_is_searched_for_one_of_them(database):
    parts = services()
    with_stored_turns(database, parts)
    parts.index.calls.clear()
    assert checked(database, parts)["vectors"][0] == "ok"
    assert parts.index.calls == ["check", "search", "search"]


def test_an_index_that_lost_its_content_says_so_and_is_mended_by_rebuilding(database):
    parts = services()
    with_stored_turns(database, parts, sessions=("one", "two"))
    collections = collections_of(database)
    assert [(each.session_id, each.block) for each in collections] == [("two", "turns"), ("one", "turns")]
    parts.index.loses = {each.name for each in collections}
    assert checked(database, parts)["vectors"] == (
        "failed",
        "Chroma at localhost:8000",
        "a stored turn is not found again. Messages are kept. Rebuild the index.",
    )
    told = []
    vectors = sum(each.vectors for each in collections)
    assert rebuild_index(database, parts, progress=lambda done, of: told.append((done, of))) == vectors
    assert told == [(0, vectors), (collections[0].vectors, vectors)]
    assert checked(database, parts)["vectors"][0] == "ok"


def test_rebuilding_stops_between_two_collections_when_asked(database):
    parts = services()
    with_stored_turns(database, parts, sessions=("one", "two"))
    asked = iter([False, True])
    done = rebuild_index(database, parts, stop=lambda: next(asked))
    assert 0 < done < rebuild_index(database, parts)


@pytest.mark.slow
def test_an_embedded_chroma_is_built_anew_with_the_same_answers(database, tmp_path):
    index = ChromaIndex(path=tmp_path / "chroma")
    parts = services(index=index)
    with_stored_turns(database, parts, turns=30)
    (collection,) = collections_of(database)
    assert collection.vectors > 5
    assert can_be_rebuilt(index)
    assert rebuild_index(database, parts) == collection.vectors
    client = index._place.client()
    assert [each.count() for each in client.list_collections()] == [collection.vectors]
    assert checked(database, parts)["vectors"][0] == "ok"
    index.close()


def test_an_exact_scan_is_no_copy_that_could_be_rebuilt():
    assert not can_be_rebuilt(ExactIndex())


def test_a_chroma_server_that_is_down_is_named_with_what_to_do(database):
    state, name, text = checked(database, services(index="http://127.0.0.1:9"))["vectors"]
    assert (state, name) == ("failed", "Chroma at 127.0.0.1:9")
    assert text == (
        "no answer at 127.0.0.1:9. Start the server or unset the address. Messages are kept and will be indexed later."
    )
    with pytest.raises(VectorIndexError):
        rebuild_index(database, services(index="http://127.0.0.1:9"))


def test_an_impossible_index_address_is_a_failed_check(database):
    state, _, text = checked(database, services(index="ftp://chroma"))["vectors"]
    assert state == "failed"
    assert "must be a folder or an address" in text


def test_a_part_that_hangs_is_given_up_and_does_not_hold_the_others(database):
    go_on = threading.Event()
    parts = services(embedder=AskedEmbedder(wait=go_on))
    found = checked(database, parts, timeout=0.3)
    go_on.set()
    assert found["embeddings"] == (
        "failed",
        "",
        "no answer within 0.3 s. Until it answers, earlier turns are found by their words alone.",
    )
    assert (found["database"][0], found["vectors"][0]) == ("ok", "ok")


def test_an_unexpected_exception_is_a_failed_check_and_its_text_is_not_shown(database):
    found = checked(database, services(embedder=AskedEmbedder(fails=ValueError(f"header {KEY}"))))
    assert found["embeddings"][0] == "failed"
    assert found["embeddings"][2].startswith("the check ended with ValueError.")


def test_an_error_of_ours_is_told_as_it_is(database):
    found = checked(database, services(embedder=AskedEmbedder(fails=EmbedderError("The model is missing."))))
    assert found["embeddings"] == ("failed", "", "The model is missing.")


def test_a_database_whose_file_is_gone_fails(database):
    Path(database.engine.url.database).unlink()
    state, name, text = checked(database, services())["database"]
    assert (state, name) == ("failed", database.url)
    assert text.startswith(f"the file {database.engine.url.database} is gone.")


def test_a_database_that_cannot_be_read_fails_and_its_url_has_no_password(monkeypatch):
    database = Database.open()
    monkeypatch.setattr(Database, "url", "postgresql://ana:***@db/memory")

    def refuse():
        raise StoreError("The database at postgresql://ana:***@db/memory did not do what was asked: gone away.")

    monkeypatch.setattr(database, "read", refuse)
    found = checked(database, services())
    assert found["database"] == (
        "failed",
        "postgresql://ana:***@db/memory",
        "The database at postgresql://ana:***@db/memory did not do what was asked: gone away. "
        "Messages you already sent are safe. Check that it runs, then check again.",
    )
    assert found["vectors"][0] == "ok"  # only the database is to blame


def test_a_chat_model_is_asked_for_its_list_of_models_and_nothing_else(database):
    with model_list(body=models("m", "other")) as (url, asked):
        found = checked(database, services(), OpenAIChat("m", base_url=url, api_key=KEY))
    assert found["chat"] == ("ok", "m", "")
    assert asked == [("/v1/models", f"Bearer {KEY}")]


def test_a_model_that_the_address_does_not_list_is_unsure(database):
    with model_list(body=models("other")) as (url, _):
        state, name, text = checked(database, services(), OpenAIChat("m", base_url=url))["chat"]
    assert (state, name) == ("unsure", "m")
    assert text.endswith('does not list "m". The next message will show.')


@pytest.mark.parametrize(
    "answer", [{"status": 404, "body": {}}, {"body": models()}, {"body": {"object": "list", "data": None}}]
)
def test_an_address_without_a_list_of_models_is_unsure(database, answer):
    with model_list(**answer) as (url, _):
        state, _, text = checked(database, services(), OpenAIChat("m", base_url=url))["chat"]
    assert state == "unsure"
    assert text.endswith("answers but lists no models. The next message will show.")


@pytest.mark.parametrize("page", ["<html>hello</html>", "[1]"])
def test_an_address_that_is_no_api_fails(database, page):
    with model_list(body=page) as (url, _):
        state, _, text = checked(database, services(), OpenAIChat("m", base_url=url))["chat"]
    assert state == "failed"
    assert text.startswith(f"{url} answered with something else than the API would.")


def test_a_refused_key_is_said_and_not_shown(database):
    refused = {"error": {"message": f"Incorrect key {KEY}", "type": "x", "code": "invalid_api_key"}}
    with model_list(401, body=refused) as (url, _):
        state, _, text = checked(database, services(), OpenAIChat("m", base_url=url, api_key=KEY))["chat"]
    assert state == "failed"
    assert text.startswith("The key was refused by 127.0.0.1:")
    assert KEY not in text


def test_an_address_where_nothing_answers_fails(database):
    state, name, text = checked(database, services(), OpenAIChat("m", base_url="http://127.0.0.1:9/v1"))["chat"]
    assert (state, name) == ("failed", "127.0.0.1:9")
    assert text == "Nothing answers at http://127.0.0.1:9/v1. Start the server or change the address."


def test_an_address_that_does_not_answer_in_time_fails(database, monkeypatch):
    monkeypatch.setattr("memory_inspector.upkeep.health.REQUEST_SECONDS", 0.2)
    go_on = threading.Event()
    with model_list(body=models("m"), hold=go_on) as (url, _):
        state, name, text = checked(database, services(), OpenAIChat("m", base_url=url))["chat"]
        go_on.set()
    assert (state, text) == (
        "failed",
        f"no answer at {name} within 0.2 s. Start the server or change the address.",
    )


def test_a_model_without_an_address_is_not_asked(database):
    class Own:
        name = "my own"
        offline = False

    assert checked(database, services(), Own())["chat"][:2] == ("unsure", "my own")


def test_free_checks_ask_an_embedding_address_for_its_list_instead_of_a_vector(database):
    with model_list(body=models("e")) as (url, asked):
        embedder = OpenAIEmbedder("e", base_url=url, api_key=KEY)
        state, name, _ = checked(database, services(embedder=embedder), free=True)["embeddings"]
    assert (state, name) == ("ok", embedder.endpoint.host)
    assert [path for path, _ in asked] == ["/v1/models"]


def test_the_size_of_a_database_is_that_of_its_file(database):
    database.forget_log()
    assert size_of(database) == (Path(database.engine.url.database).stat().st_size, 0)
