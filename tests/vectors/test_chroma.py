"""The Chroma index, embedded and as a server, against the exact scan."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from chroma_server import chroma_server, free_port
from other_process import answers
from vector_fakes import ListSource, queries, random_vectors

from memory_core.errors import ConfigError, VectorIndexError
from memory_core.vectors import open_index
from memory_core.vectors.chroma import PREFIX, ChromaIndex
from memory_core.vectors.chroma_client import _registries, _sessions, _settings_class
from memory_core.vectors.exact import ExactIndex

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "chroma"


@pytest.fixture
def index(folder):
    with closing(ChromaIndex(path=folder)) as opened:
        yield opened


def clustered(count=600, **kwargs):
    return ListSource(**kwargs).add(*random_vectors(count))


def assert_same(index, source, *, count=25, limit=8):
    """Same numbers in the same order, same scores to float32 precision."""
    exact = ExactIndex()
    for query in queries(count):
        expected = exact.search(source, query, limit=limit)
        found = index.search(source, query, limit=limit)
        assert [hit.number for hit in found] == [hit.number for hit in expected]
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected], abs=1.1e-6)


def chroma_count(index, source):
    return index._place.client().get_collection(PREFIX + source.collection, embedding_function=None).count()


def segment_folders(folder):
    return [entry for entry in folder.iterdir() if entry.is_dir()]


# Embedded


def test_the_files_of_a_new_index_hold_nothing_of_what_the_process_had_in_memory(index, folder):
    sources = [clustered(20, collection=f"collection-{number}") for number in range(12)]
    for source in sources:
        index.search(source, queries(1)[0], limit=3)
    files = [file for file in folder.glob("*/*.bin") if file.name != "header.bin"]
    assert {file.name for file in files} == {"length.bin", "data_level0.bin", "link_lists.bin"}
    assert len({file.parent for file in files}) == len(sources)
    assert [file.name for file in files if any(file.read_bytes())] == []
    sources[0].add(*random_vectors(1_500, seed=2))
    assert_same(index, sources[0], count=20)
    written = {file.parent for file in files if any(file.read_bytes())}
    assert len(written) == 1, "what Chroma does write is left as it is"


def test_answers_are_those_of_the_exact_scan(index):
    source = clustered()
    assert_same(index, source, count=150)
    assert_same(index, source, count=10, limit=1)
    assert_same(index, source, count=3, limit=1_000)
    assert chroma_count(index, source) == 600


def test_answers_are_those_of_the_exact_scan_on_vectors_that_hnsw_finds_hard(index):
    source = ListSource().add(*random_vectors(3_000, dim=256))
    for query in queries(30, dim=256):
        found, expected = (i.search(source, query, limit=10) for i in (index, ExactIndex()))
        assert [hit.number for hit in found] == [hit.number for hit in expected]


def test_vectors_added_later_are_found(index):
    source = clustered(100)
    assert_same(index, source, count=3)
    source.add(*random_vectors(50, seed=5))
    assert_same(index, source)
    assert chroma_count(index, source) == 150


def test_adding_reads_only_what_is_new(index):
    source = clustered(100)
    index.search(source, queries(1)[0], limit=5)
    source.add(*random_vectors(1, seed=5))
    source.read_after.clear()
    index.search(source, queries(1)[0], limit=5)
    index.search(source, queries(1)[0], limit=5)
    assert source.read_after == [100]


def test_more_vectors_than_one_batch_are_all_there(index):
    source = ListSource().add(*random_vectors(2_300, dim=8))
    for query in queries(5, dim=8):
        assert index.search(source, query, limit=5) == ExactIndex().search(source, query, limit=5)
    assert chroma_count(index, source) == 2_300


def test_deleted_vectors_are_found_no_more_and_leave_no_files(index, folder):
    source = clustered(1_200)
    best = [hit.number for hit in index.search(source, queries(1)[0], limit=5)]
    before = {entry.name for entry in segment_folders(folder)}
    source.delete(*best)
    assert_same(index, source, count=5)
    assert chroma_count(index, source) == 1_195
    assert before
    assert before.isdisjoint(entry.name for entry in segment_folders(folder))


def test_deleting_the_newest_and_adding_another_is_seen(index):
    source = clustered(50)
    assert_same(index, source, count=2)
    source.delete(50)
    source.add(queries(1)[0])
    assert index.search(source, queries(1)[0], limit=1)[0].number == 51
    assert_same(index, source, count=5)


def test_a_collection_emptied_answers_with_nothing(index):
    source = clustered(10)
    assert_same(index, source, count=1)
    source.delete(*list(source.stored))
    assert index.search(source, queries(1)[0], limit=3) == []
    source.add(*random_vectors(5, seed=3))
    assert_same(index, source, count=2)


def test_an_empty_collection_makes_none_in_chroma(index):
    assert index.search(ListSource(), queries(1)[0], limit=3) == []
    assert index._place.client().count_collections() == 0


def test_collections_are_apart(index):
    one, two = clustered(60, collection="session-1"), ListSource(collection="session-2").add(*queries(60))
    assert_same(index, one, count=3)
    assert_same(index, two, count=3)


def test_equal_vectors_come_in_the_order_of_their_numbers_even_by_the_hundred(index):
    source = clustered(300)
    source.add(*[source.stored[7]] * 200)
    hits = index.search(source, source.stored[7], limit=5)
    assert [(hit.number, hit.score) for hit in hits] == [(7, 1.0), (301, 1.0), (302, 1.0), (303, 1.0), (304, 1.0)]


def test_zero_vectors_are_answered_as_by_the_exact_scan(index):
    source = clustered(100).add(np.zeros(32))
    assert_same(index, source, count=3)
    zero = np.zeros(32, dtype=np.float32)
    assert index.search(source, zero, limit=4) == ExactIndex().search(source, zero, limit=4)


def test_what_was_indexed_is_there_after_reopening(folder):
    source = clustered(100)
    with closing(ChromaIndex(path=folder)) as index:
        index.search(source, queries(1)[0], limit=5)
    source.read_after.clear()
    with closing(ChromaIndex(path=folder)) as index:
        index.search(source, queries(1)[0], limit=5)
        assert source.read_after == [99]  # only the newest vector was compared
        assert_same(index, source, count=5)


def test_a_folder_deleted_while_closed_is_rebuilt(folder):
    source = clustered(200)
    with closing(ChromaIndex(path=folder)) as index:
        assert_same(index, source, count=5)
    shutil.rmtree(folder)
    with closing(ChromaIndex(path=folder)) as index:
        assert_same(index, source)
        assert chroma_count(index, source) == 200


def test_a_folder_deleted_while_open_is_rebuilt(index, folder):
    source = clustered(200)
    assert_same(index, source, count=5)
    shutil.rmtree(folder)
    source.add(*random_vectors(10, seed=9))
    assert_same(index, source)
    assert (folder / "chroma.sqlite3").exists()


def test_a_database_made_anew_under_the_same_name_is_indexed_anew(folder):
    with closing(ChromaIndex(path=folder)) as index:
        index.search(clustered(50), queries(1)[0], limit=1)
    other = ListSource().add(*random_vectors(50, seed=77))
    with closing(ChromaIndex(path=folder)) as index:
        assert_same(index, other, count=5)


def test_vectors_missing_in_chroma_are_noticed_at_the_next_change(index):
    source = clustered(100)
    index.search(source, queries(1)[0], limit=1)
    index._place.client().get_collection(PREFIX + source.collection, embedding_function=None).delete(ids=["5", "6"])
    source.add(*random_vectors(1, seed=4))
    assert_same(index, source)
    assert chroma_count(index, source) == 101


def test_a_collection_dropped_behind_our_back_is_rebuilt(index):
    source = clustered(100)
    index.search(source, queries(1)[0], limit=1)
    index._place.client().delete_collection(PREFIX + source.collection)
    assert_same(index, source, count=5)


def test_a_build_broken_off_goes_on_where_it_stopped(folder):
    class BreaksOff(ListSource):
        def vectors(self, *, after=0):
            for stored in super().vectors(after=after):
                if stored.number > 1_500 and self.breaks:
                    raise OSError("the database is gone")
                yield stored

    source = BreaksOff().add(*random_vectors(1_800, dim=8))
    source.breaks = True
    query = queries(1, dim=8)[0]
    with closing(ChromaIndex(path=folder)) as index:
        with pytest.raises(OSError, match="gone"):
            index.search(source, query, limit=3)
        assert chroma_count(index, source) == 1_000
    source.breaks = False
    source.read_after.clear()
    with closing(ChromaIndex(path=folder)) as index:
        assert index.search(source, query, limit=3) == ExactIndex().search(source, query, limit=3)
    assert source.read_after[:2] == [999, 1_000]


def test_forgetting_removes_the_collection_and_its_files(index, folder):
    source = clustered(1_200)
    index.search(source, queries(1)[0], limit=1)
    assert segment_folders(folder)
    index.forget(source.collection)
    index.forget("never-seen")
    assert index._place.client().count_collections() == 0
    assert segment_folders(folder) == []
    assert_same(index, source, count=3)


def test_two_indexes_of_one_process_share_a_folder(folder):
    source = clustered(100)
    with closing(ChromaIndex(path=folder)) as one, closing(ChromaIndex(path=str(folder))) as two:
        assert_same(one, source, count=2)
        source.delete(3)
        assert_same(two, source, count=2)
        source.add(*random_vectors(1, seed=8))
        assert_same(one, source, count=2)
        assert one.name == two.name == f"Chroma in {folder}"
        one.close()
        assert_same(two, source, count=2)


def test_threads_that_share_an_index_get_the_answers_of_the_exact_scan(index):
    sources = [clustered(150, collection=f"session-{i}") for i in range(3)]
    asked = queries(8)
    with ThreadPoolExecutor(6) as pool:
        found = [[pool.submit(index.search, source, query, limit=5) for query in asked] for source in sources]
        numbers = [[[hit.number for hit in future.result()] for future in row] for row in found]
    exact = [[ExactIndex().search(source, query, limit=5) for query in asked] for source in sources]
    assert numbers == [[[hit.number for hit in hits] for hits in row] for row in exact]


def test_a_query_from_another_embedding_model_is_refused_and_nothing_rebuilt(index):
    source = clustered(50)
    index.search(source, queries(1)[0], limit=1)
    source.read_after.clear()
    with pytest.raises(VectorIndexError, match="4 dimensions and the stored vectors have 32"):
        index.search(source, np.ones(4, dtype=np.float32), limit=1)
    assert source.read_after == []


def test_a_closed_index_says_so(folder):
    index = ChromaIndex(path=folder)
    index.check()
    index.close()
    index.close()
    for ask in (index.check, lambda: index.search(clustered(1), queries(1)[0], limit=1)):
        with pytest.raises(VectorIndexError, match="closed"):
            ask()


def test_a_damaged_folder_says_what_to_do_and_opens_once_it_is_gone(index, folder):
    folder.mkdir()
    (folder / "chroma.sqlite3").write_bytes(b"no database" * 100)
    for _ in range(2):
        with pytest.raises(VectorIndexError, match=r"cannot use the folder .* delete the folder: it is built anew"):
            index.check()
    shutil.rmtree(folder)
    assert_same(index, clustered(20), count=1)


def test_a_file_in_place_of_the_folder_is_named(folder):
    folder.write_text("here first")
    with closing(ChromaIndex(path=folder)) as index, pytest.raises(VectorIndexError, match="cannot be written"):
        index.check()


def test_the_folder_is_for_its_owner_only(index, folder):
    index.check()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_database_in_a_folder_of_others_is_for_its_owner_only(folder):
    folder.mkdir(mode=0o755)
    with closing(ChromaIndex(path=folder)) as index:
        index.check()
        assert {file.stat().st_mode & 0o777 for file in folder.glob("chroma.sqlite3*")} == {0o600}


# Two processes, one folder


def start(folder):
    command = [sys.executable, HERE / "other_process.py", folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_second_process_scans_to_the_same_answers_and_takes_over_when_the_folder_is_free(folder):
    index = ChromaIndex(path=folder)
    mine = answers(index)
    assert mine["name"] == f"Chroma in {folder}"

    other = start(folder)
    theirs = json.loads(other.stdout.readline())
    assert theirs == {"name": "exact scan (Chroma is open in another process)", "found": mine["found"]}

    index.close()
    freed, _ = other.communicate(timeout=30)
    assert json.loads(freed) == mine
    assert other.returncode == 0


def test_the_folder_of_a_killed_process_is_free(folder):
    other = start(folder)
    theirs = json.loads(other.stdout.readline())
    with closing(ChromaIndex(path=folder)) as index:
        assert answers(index) == {**theirs, "name": "exact scan (Chroma is open in another process)"}
        index.check()
        index.forget("gone-for-good")
        other.kill()
        other.communicate(timeout=30)
        assert answers(index) == theirs


def test_a_collection_forgotten_while_another_process_has_the_folder_goes_when_it_is_free(folder):
    other = start(folder)
    other.stdout.readline()
    with closing(ChromaIndex(path=folder)) as index:
        index.forget(ListSource().collection)
        other.communicate(timeout=30)
        index.check()
        assert index._place.client().count_collections() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_leaves_the_folder_to_its_parent(folder):
    script = (
        "import os, sys, warnings; sys.path.insert(0, sys.argv[1])\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"  # Python 3.12 warns of forking with threads
        "from other_process import ChromaIndex, answers\n"
        "index = ChromaIndex(path=sys.argv[2]); mine = answers(index)\n"
        "if os.fork() == 0:\n"
        "    theirs = answers(index)\n"
        "    os._exit(0 if theirs['found'] == mine['found'] and theirs['name'].startswith('exact scan (') else 1)\n"
        "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
        "assert answers(index) == mine\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(HERE), str(folder)], timeout=30, check=False)
    assert done.returncode == 0


# Settings that Chroma would read by itself


@pytest.mark.parametrize("place", ["environment", ".env"])
def test_chromas_own_settings_are_not_read_from_outside(folder, tmp_path, place):
    outside = {"IS_PERSISTENT": "false", "PERSIST_DIRECTORY": "elsewhere", "CHROMA_SERVER_HOST": "example.org"}
    (tmp_path / "cwd").mkdir()
    if place == ".env":
        (tmp_path / "cwd" / ".env").write_text("".join(f"{name}={value}\n" for name, value in outside.items()))
    environment = outside if place == "environment" else {}
    script = (
        "import os, sys; os.chdir(sys.argv[1]); from other_process import *\n"
        "print(answers(ChromaIndex(path=sys.argv[2]))['name'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "cwd"), str(folder)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]), **environment},
        check=False,
    )
    assert done.stdout == f"Chroma in {folder}\n", done.stderr
    assert (folder / "chroma.sqlite3").exists()
    assert not (tmp_path / "cwd" / "elsewhere").exists()


def test_a_setting_that_stops_chroma_is_named_without_its_value(folder):
    script = (
        "import sys; from memory_core.vectors.chroma import ChromaIndex\n"
        "from memory_core.errors import VectorIndexError\n"
        "try: ChromaIndex(path=sys.argv[1]).check()\n"
        "except VectorIndexError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "CHROMA_SERVER_HTTP_PORT": "hunter2"},
        check=False,
    )
    assert done.stdout == (
        "Chroma does not start with this setting in the environment or in .env: chroma_server_http_port. "
        "Correct or remove it.\n"
    )


# A server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of a Chroma server on loopback."""
    with chroma_server(tmp_path_factory.mktemp("server")) as address:
        yield address


def test_a_server_gives_the_answers_of_the_exact_scan(server):
    source = clustered(400, collection="on-a-server")
    with closing(ChromaIndex(url=server)) as index:
        index.check()
        assert index.name == f"Chroma at {server.removeprefix('http://')}"
        assert_same(index, source)
        source.add(*random_vectors(10, seed=6))
        assert_same(index, source, count=5)
        assert chroma_count(index, source) == 410
        index.forget(source.collection)
        assert index._place.client().count_collections() == 0


def test_two_clients_of_a_server_follow_the_same_database(server):
    source = clustered(100, collection="two-clients")
    with closing(ChromaIndex(url=server)) as one, closing(ChromaIndex(url=server)) as two:
        for index in (one, two, one, two):
            assert_same(index, source, count=2)
            source.add(*random_vectors(3, seed=source.last_number))
        for index in (one, two, one, two):
            source.delete(min(source.stored))
            assert_same(index, source, count=2)
        source.read_after.clear()
        assert_same(one, source, count=1)
        assert_same(two, source, count=1)
        assert_same(one, source, count=1)
        rebuilt = [after for after in source.read_after if after == 0]
        assert len(rebuilt) == 3  # the three scans that the answers are compared with: nobody rebuilds


def test_nothing_at_the_address_is_said_in_plain_words():
    port = free_port()
    with closing(ChromaIndex(url=f"http://localhost:{port}")) as index:
        for ask in (index.check, lambda: index.search(clustered(3), queries(1)[0], limit=1)):
            with pytest.raises(VectorIndexError) as caught:
                ask()
            assert str(caught.value) == (
                f"Nothing answers at localhost:{port}. Start the Chroma server or unset the address. "
                "Messages are kept and will be indexed later."
            )


def test_a_server_that_starts_later_is_found(server):
    with closing(ChromaIndex(url=server)) as index:
        index._place._port, port = free_port(), index._place._port
        with pytest.raises(VectorIndexError, match="Nothing answers"):
            index.check()
        index._place._port = port
        assert_same(index, clustered(10, collection="later"), count=1)


class AnswersAnything(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>another service</html>")

    def log_message(self, *arguments):
        """Quiet."""


def test_another_service_at_the_address_is_no_chroma_server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), AnswersAnything) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        with (
            closing(ChromaIndex(url=f"http://127.0.0.1:{other.server_port}")) as index,
            pytest.raises(VectorIndexError, match="is no Chroma server"),
        ):
            index.search(clustered(3), queries(1)[0], limit=1)
        other.shutdown()


def test_a_server_that_falls_silent_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("memory_core.vectors.chroma_client.CONNECT_TIMEOUT_SECONDS", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with (
            closing(ChromaIndex(url=f"http://127.0.0.1:{silent.getsockname()[1]}")) as index,
            pytest.raises(VectorIndexError, match="does not answer in time"),
        ):
            index.check()


def test_chromadb_still_has_the_private_attributes_that_are_used(server, tmp_path):
    import chromadb
    from chromadb.api.shared_system_client import SharedSystemClient

    def has(owner, *names):
        for name in names:
            assert hasattr(owner, name), (
                f"chromadb {chromadb.__version__} has no {type(owner).__name__}.{name} any more: mend the section on "
                "private attributes in memory_core/vectors/chroma_client.py"
            )
            owner = getattr(owner, name)

    has(SharedSystemClient, "_identifier_to_system")
    has(SharedSystemClient, "_identifier_to_refcount")
    port = int(server.rpartition(":")[2])
    client = chromadb.HttpClient(host="127.0.0.1", port=port, settings=_settings_class()())
    try:
        has(client, "_server", "_session", "timeout")
        has(client, "_admin_client", "_server", "_session", "timeout")
    finally:
        client.close()
        for session in _sessions(client):
            session.close()
    with closing(ChromaIndex(path=tmp_path / "chroma")) as index:
        index.check()
        for registry in _registries():
            assert str(tmp_path / "chroma") in registry, "chromadb keeps its clients under another name than their path"


def test_requests_to_a_server_have_a_timeout(server):
    with closing(ChromaIndex(url=server)) as index:
        assert [session.timeout.read for session in _sessions(index._place.client())] == [30, 30]


# What is asked for


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@host:8000",
        "http://user:hunter2",
        "http://host:8000/chroma",
        "http://host:8000?token=hunter2",
        "http://",
        "x://h:1",
    ],
)
def test_an_address_with_more_than_host_and_port_is_refused_without_showing_it(url):
    with pytest.raises(ConfigError, match="http://host:port") as caught:
        ChromaIndex(url=url)
    assert "hunter2" not in str(caught.value)


def test_a_port_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="cannot be read"):
        ChromaIndex(url="http://host:99999")


@pytest.mark.parametrize("arguments", [{}, {"path": "x", "url": "http://host:1"}])
def test_exactly_one_place_is_needed(arguments):
    with pytest.raises(ConfigError, match="either a folder or an address"):
        ChromaIndex(**arguments)


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("http://localhost:8000", "Chroma at localhost:8000"),
        ("https://chroma.example.org", "Chroma at chroma.example.org:443"),
        (" HTTP://[::1]:9 ", "Chroma at [::1]:9"),
    ],
)
def test_a_web_address_opens_a_server(setting, name):
    assert open_index(setting).name == name


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_opens_embedded_chroma(tmp_path, kind):
    with closing(open_index(kind(tmp_path / "a"))) as index:
        assert index.name == f"Chroma in {tmp_path / 'a'}"
    assert list(tmp_path.iterdir()) == []


def test_the_numbers_in_a_copy_are_listed_and_a_forgotten_copy_has_none(index):
    source = clustered(40)
    assert index.copied_numbers(source.collection) is None
    index.search(source, queries(1)[0], limit=8)
    assert index.copied_numbers(source.collection) == {stored.number for stored in source.vectors()}
    index.forget(source.collection)
    assert index.copied_numbers(source.collection) is None
