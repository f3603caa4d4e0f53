"""Files of what was derived from a session's units: mapped by the next process, and gone with what is forgotten."""

import errno
import json
import os
import re
import shutil
import stat
from contextlib import closing, contextmanager

import pytest
from engine_fakes import HashEmbedder, assistant, together, user
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import Database, Memory, Services
from memory_core.blocks import unit_cache
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.sessions.forgetting import forget_user
from memory_core.sessions.overview import delete_session
from memory_core.store import derived_files
from memory_core.vectors import vector_index
from memory_core.vectors.exact import ExactIndex
from memory_inspector.server.forget_receipt import receipt_for

COUNT = 40
QUESTION = "What did I say of number 7 and number 11?"


@pytest.fixture(autouse=True)
def kept_early(monkeypatch):
    monkeypatch.setattr(vector_index, "LEAST_KEPT", 10)


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:///{tmp_path / 'memory.db'}"


def put(memory, *texts):
    for text in texts:
        memory.put(user(text))
    memory.flush(all=True)


@contextmanager
def process(uri, **settings):
    """The session as a process has it that has just begun."""
    turns = VectorMemoryBlock(name="turns", **{"similarity_top_k": 5, **settings})
    with (
        closing(Services(embedder=HashEmbedder(), index=ExactIndex())) as services,
        Memory.from_defaults("s", "ana", database_uri=uri, memory_blocks=[turns], services=services) as memory,
    ):
        yield memory


def filled(uri, count=COUNT):
    """Store units in one process, and keep what is derived from them in another."""
    with process(uri) as memory:
        put(memory, *(f"Number {number} is a secret of peanuts" for number in range(count)))
    with process(uri) as memory:
        return answers(memory)


def answers(memory, question=QUESTION):
    """All that a prompt and a search say, to the digit."""
    context, search = memory.build_context(question, record=False), memory.retrieval.search(question)
    turns = [
        (one.number, one.words, one.vector, one.keyword, one.score, one.boosts, one.outcome) for one in search.found
    ]
    return context.messages, context.plan, turns, search.counts


def files(folder):
    return sorted(path for path in folder.glob("memory.db-derived/*/*"))


@pytest.fixture
def read_units(monkeypatch):
    """Number of units read from the database, by call."""
    numbers, parse = [], unit_cache.kept_heard

    def counted(texts):
        numbers.append(len(texts))
        return parse(texts)

    monkeypatch.setattr(unit_cache, "kept_heard", counted)
    return numbers


def test_a_process_that_begins_reads_only_what_was_added_since(uri, tmp_path, read_units):
    before = filled(uri)
    assert len(files(tmp_path)) == 2  # of units and of their vectors
    read_units.clear()
    with process(uri) as memory:
        assert answers(memory) == before
        assert read_units == []
        put(memory, "Number 7 again", "Something else")
        together_with_file = answers(memory)
        assert sum(read_units) == 2
    shutil.rmtree(tmp_path / "memory.db-derived")
    with process(uri) as memory:
        assert answers(memory) == together_with_file


def test_only_its_owner_reads_a_file_and_its_folders(uri, tmp_path):
    filled(uri)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in files(tmp_path)}
    assert modes == {0o600}
    folders = (tmp_path / "memory.db-derived", files(tmp_path)[0].parent)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_few_units_make_no_file(uri, tmp_path):
    filled(uri, count=9)
    assert not (tmp_path / "memory.db-derived").exists()


words = st.lists(
    st.sampled_from(["tea", "boats", "Porto", "the sea", "茶が好き", "Grüße", "7 cups"]), min_size=1, max_size=4
)
said = st.tuples(
    st.booleans(), words, st.sampled_from(["", "Ana: ", "Bob: ", "[2023-05-08 13:56] Ana: ", "[2024-01-02] "])
)


@settings(max_examples=25, deadline=None)
@given(st.lists(said, min_size=12, max_size=40), words, st.sampled_from(["message", "turn"]), st.integers(0, 9))
def test_prompts_and_scores_are_the_same_with_and_without_files(tmp_path_factory, talk, asked, unit, gone):
    folder = tmp_path_factory.mktemp("derived")
    uri, question = f"sqlite:///{folder / 'memory.db'}", " ".join(asked)
    with process(uri, unit=unit) as memory:
        for mine, text, before in talk:
            memory.put((user if mine else assistant)(before + " ".join(text)))
        memory.flush(all=True)
        first = memory.retrieval.stored_turns("turns")
        if gone < len(first):
            memory.retrieval.forget("turns", first[gone].number)
        expected = answers(memory, question)
    for _ in range(2):  # the first keeps the files that the second maps
        with process(uri, unit=unit) as memory:
            assert answers(memory, question) == expected
    assert bool(files(folder)) == (len(first) - (gone < len(first)) >= 10)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "forget",
    [
        lambda memory: memory.retrieval.forget("turns", memory.retrieval.stored_turns("turns")[3].number),
        lambda memory: memory.session.forget("peanuts"),
        lambda memory: memory.reset(),
        lambda memory: memory.blocks.remove("turns"),
        lambda memory: memory.set([user("x")], archive=True),
        lambda memory: delete_session(memory.session.database, "s"),
        lambda memory: forget_user(memory.session.database, "ana"),
    ],
    ids=["a unit", "a phrase", "all messages", "the block", "the archive", "the session", "the user"],
)
def test_what_is_forgotten_leaves_the_files_in_the_same_call(uri, tmp_path, forget):
    filled(uri)
    with process(uri) as memory:
        memory.build_context(QUESTION)
        assert any(b"peanut" in path.read_bytes() for path in files(tmp_path))
        forget(memory)
        assert files(tmp_path) == []


def test_a_forgotten_phrase_is_in_no_file_that_is_made_later(uri, tmp_path):
    filled(uri)
    with process(uri) as memory:
        put(memory, "I hide the emeralds in Porto")
        memory.session.forget("emeralds")
    with process(uri) as memory:
        memory.build_context(QUESTION)
    assert files(tmp_path)
    assert not any(b"emerald" in path.read_bytes() for path in files(tmp_path))


def test_a_unit_that_is_forgotten_while_a_file_is_made_is_not_in_it(uri, tmp_path, monkeypatch):
    filled(uri)
    shutil.rmtree(tmp_path / "memory.db-derived")
    write = derived_files._write
    with process(uri) as other, process(uri) as memory:

        def forgets_meanwhile(*file):
            write(*file)
            if turns := other.retrieval.stored_turns("turns"):
                other.retrieval.forget("turns", turns[-1].number)

        monkeypatch.setattr(derived_files, "_write", forgets_meanwhile)
        memory.build_context(QUESTION)
    assert files(tmp_path) == []


def damaged(path, how):
    data = path.read_bytes()
    match how:
        case "cut":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "of another kind":
            path.write_bytes(b"SQLite format 3\0" + data)
        case "longer":
            path.write_bytes(data + b"x")
        case "of another version":
            path.write_bytes(re.sub(rb'"fits": \[1,', b'"fits": [0,', data))
        case "of another byte order":
            path.write_bytes(data.replace(b'"little"', b'"bigger"'))
        case "of another database":
            number = json.loads(re.search(rb'"fits": (\[.*?\])', data)[1] + b"]")[2].encode()
            path.write_bytes(data.replace(number, b"0" * len(number)))
        case "readable by others":
            os.chmod(path, 0o644)
        case "a link":
            path.rename(path.with_name("elsewhere"))
            path.symlink_to(path.with_name("elsewhere"))
        case "a folder":
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize(
    "how",
    ["cut", "empty", "of another kind", "longer", "of another version", "of another byte order", "of another database",
     "readable by others", "a link", "a folder"],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_not_used(uri, tmp_path, how, read_units):
    before = filled(uri)
    for path in files(tmp_path):
        damaged(path, how)
    read_units.clear()
    with process(uri) as memory:
        assert answers(memory) == before
    assert sum(read_units) == COUNT
    if how != "a folder":  # all else is replaced
        read_units.clear()
        with process(uri) as memory:
            assert answers(memory) == before
        assert read_units == []


def test_a_link_in_the_place_of_the_folder_is_not_followed(uri, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "memory.db-derived").symlink_to(tmp_path / "elsewhere")
    before = filled(uri)
    with process(uri) as memory:
        assert answers(memory) == before
    assert list((tmp_path / "elsewhere").iterdir()) == []


class ReadOnly:
    """The module `os` of a disk on which no file can be made, and no folder if it `has_folders` already."""

    def __init__(self, has_folders):
        self._has_folders = has_folders

    def __getattr__(self, name):
        return getattr(os, name)

    def mkdir(self, path, mode):
        if not self._has_folders:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        os.mkdir(path, mode)

    def open(self, path, flags, mode=0o777):
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return os.open(path, flags, mode)


def full(*file):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("name", "refusing"), [("_write", full), ("os", ReadOnly(has_folders=True)), ("os", ReadOnly(has_folders=False))]
)
def test_on_a_full_or_read_only_disk_nothing_is_kept_and_nothing_left(uri, tmp_path, monkeypatch, name, refusing):
    with monkeypatch.context() as patched:
        patched.setattr(derived_files, name, refusing)
        before = filled(uri)
    assert files(tmp_path) == []
    with process(uri) as memory:
        assert answers(memory) == before
    assert len(files(tmp_path)) == 2


def test_a_draft_of_a_killed_process_goes_with_the_next_file(uri, tmp_path):
    filled(uri)
    drafts = [files(tmp_path)[0].with_name(f"units.draft-{process}") for process in ("999999999", "by hand")]
    for draft in drafts:
        draft.write_bytes(b"words")
    with process(uri) as memory:
        put(memory, *(f"More of number {number}" for number in range(COUNT)))
        memory.build_context(QUESTION)
    assert not any(draft.exists() for draft in drafts)
    assert len(files(tmp_path)) == 2


def test_two_processes_that_begin_at_once_both_answer(uri, tmp_path):
    before = filled(uri)
    shutil.rmtree(tmp_path / "memory.db-derived")
    with process(uri) as one, process(uri) as other:
        found = []
        together(*(lambda memory=memory: found.append(answers(memory)) for memory in (one, other)))
    assert found == [before, before]
    with process(uri) as memory:
        assert answers(memory) == before
    assert len(files(tmp_path)) == 2


def test_a_database_restored_under_a_newer_file_shows_its_own_units(uri, tmp_path):
    filled(uri, count=20)
    shutil.copyfile(tmp_path / "memory.db", tmp_path / "copy.db")
    with process(uri) as memory:
        put(memory, *(f"Lost number {number}" for number in range(20)))
        answers(memory)
    with process(uri) as memory:
        answers(memory)
    shutil.copyfile(tmp_path / "copy.db", tmp_path / "memory.db")
    with process(uri) as memory:
        put(memory, *(f"Number {number} of other things" for number in range(30)))
    with process(uri) as memory:
        found = answers(memory, "Lost number 7")
    assert "Lost" not in repr(found[:3]).replace("Lost number 7", "")
    shutil.rmtree(tmp_path / "memory.db-derived")
    with process(uri) as memory:
        assert answers(memory, "Lost number 7") == found


def test_a_database_in_memory_has_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with process("sqlite://") as memory:
        put(memory, *(f"Number {number}" for number in range(COUNT)))
        memory.build_context(QUESTION)
    assert list(tmp_path.iterdir()) == []


def test_what_only_a_preview_said_is_in_no_file(uri, tmp_path):
    filled(uri)
    with process(uri) as memory:
        memory.put(user("[2031-05-08 13:56] Zoe: I hide the emeralds"))
        assert "Zoe" in repr(memory.retrieval.recall("Where are the emeralds, Zoe?"))
        with process(uri) as other:
            other.session.forget("emeralds")
        put(memory, *(f"More of number {number}" for number in range(COUNT)))
        before = files(tmp_path)[0].stat().st_ino
        memory.build_context(QUESTION)
        assert files(tmp_path)[0].stat().st_ino != before
    assert not any(re.search(rb"zoe|2031", path.read_bytes(), re.IGNORECASE) for path in files(tmp_path))


def test_a_receipt_searches_the_files_too(uri, tmp_path):
    filled(uri)
    with Database.open(uri) as database:
        before = receipt_for(database, ["peanut"])
        assert {part.file for part in before.searched if part.hits and "-derived" in part.file}
        delete_session(database, "s")
        after = receipt_for(database, ["peanut"])
    assert not [part for part in after.searched if part.hits]
