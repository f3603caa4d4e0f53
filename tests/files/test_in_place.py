"""A store that is opened where it lies is followed, and never changed by a byte, locked, or written beside."""

import asyncio
import hashlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.memory import Memory as TheirMemory
from shared_data import shared

from memory_core import Database, FormatError, Memory, delete_session
from memory_core.bundles.bundle import write_bundle
from memory_core.services import Services
from memory_inspector.__main__ import main as command
from memory_inspector.files.files import read_path
from memory_inspector.files.in_place import StoreFollower, open_store
from memory_inspector.files.mirroring import FACTS

WRITER = Path(__file__).with_name("writing_process.py")


@pytest.fixture
def database():
    return Database.open(None)


@pytest.fixture
def services():
    return Services()


def fingerprint(folder):
    return {
        path.relative_to(folder).as_posix(): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def copied(tmp_path, name, data_file):
    folder = tmp_path / "store"
    folder.mkdir(exist_ok=True)
    path = folder / name
    shutil.copyfile(data_file(f"stores/{name}"), path)
    return path


@contextmanager
def writer(path, mode):
    program = subprocess.Popen(
        [sys.executable, str(WRITER), str(path), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout.readline() == "ready\n"
        yield program
    finally:
        program.communicate("end\n", timeout=30)
    assert program.returncode == 0


def said(memory):
    return [stored.message.content for stored in memory.session.messages()]


def opened(database, services, session_id):
    return Memory.open(session_id, database, services=services)


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("oa_session.db", ["conv1 (oa_session.db)", "conv2 (oa_session.db)"]),
        ("oa_items.json", ["Conversation (oa_items.json)"]),
        ("lg_checkpoints.db", ["t1 (lg_checkpoints.db)"]),
        ("lc_history.db", ["s1 (lc_history.db)"]),
        ("agno.db", ["memories of {user} (agno.db)", "monday (agno.db)", "tuesday (agno.db)"]),
        ("mem0_history.db", ["memories (mem0_history.db)"]),
        ("loop.af", ["Loop (loop.af)"]),
    ],
)
def test_a_store_of_a_real_library_is_sessions_that_only_show_it(tmp_path, database, services, name, titles, data_file):
    path = copied(tmp_path, name, data_file)
    before = fingerprint(path.parent)
    ids = open_store(path, database, services=services)
    memories = [opened(database, services, id) for id in ids]
    user = "chandra" if data_file is shared else "imke"
    assert [memory.session.status().title for memory in memories] == [title.format(user=user) for title in titles]
    assert all(memory.session.messages() or memory.blocks for memory in memories)
    attachment = memories[0].log.history().attachment
    assert (attachment.source, attachment.name) == ("file", name)
    assert fingerprint(path.parent) == before
    assert open_store(path, database, services=services) == ids
    assert StoreFollower(database, services).look() == 0
    assert fingerprint(path.parent) == before


def test_what_comes_into_a_store_comes_into_its_session(tmp_path, database, services, data_file):
    path = copied(tmp_path, "oa_session.db", data_file)
    (session_id,) = open_store(path, database, services=services, only="conv2")
    follower = StoreFollower(database, services)
    follower.look()
    memory = opened(database, services, session_id)
    before = said(memory)
    with closing(sqlite3.connect(path)) as connection:
        data = json.dumps({"role": "user", "content": "Something new"})
        connection.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('conv2', ?)", (data,))
        connection.commit()
    assert follower.look() == 1
    assert said(memory) == [*before, "Something new"]
    assert follower.look() == 0


def test_a_store_in_use_is_read_with_its_log_and_nothing_of_it_changes(tmp_path, database, services):
    path = tmp_path / "live.db"
    with writer(path, "open"):
        before = fingerprint(tmp_path)
        assert sorted(before) == ["live.db", "live.db-shm", "live.db-wal"]
        (session_id,) = open_store(path, database, services=services)
        assert said(opened(database, services, session_id)) == ["item 0", "item 1"]
        assert fingerprint(tmp_path) == before


def test_a_store_that_its_agent_has_locked_is_read_as_it_was_before(tmp_path, database, services):
    path = tmp_path / "live.db"
    with writer(path, "locked"):
        (session_id,) = open_store(path, database, services=services)
        assert said(opened(database, services, session_id)) == ["item 0", "item 1"]
    follower = StoreFollower(database, services)
    follower.look()
    assert said(opened(database, services, session_id)) == ["item 0", "item 1", "item 2"]


def test_a_store_that_is_written_all_the_time_is_read_whole_and_its_writer_never_waits(tmp_path, database, services):
    path = tmp_path / "live.db"
    with writer(path, "busy"):
        (session_id,) = open_store(path, database, services=services)
        follower = StoreFollower(database, services)
        seen, until = set(), time.monotonic() + 60
        while len(seen) < 10:  # looking at what nobody wrote to takes a millisecond, and a busy machine's writer longer
            assert time.monotonic() < until, seen
            follower.look()
            now = said(opened(database, services, session_id))
            assert now == [f"item {number}" for number in range(len(now))]
            seen.add(len(now))
        assert not follower.problems


@pytest.mark.slow
def test_a_store_that_was_left_in_the_middle_of_a_write_is_one_sentence(tmp_path, database, services, data_file):
    path = copied(tmp_path, "oa_session.db", data_file)
    Path(f"{path}-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\x00" * 504)
    before = fingerprint(path.parent)
    with pytest.raises(FormatError) as error:
        open_store(path, database, services=services)
    assert str(error.value).startswith("oa_session.db is in the middle of a write, or was left so.")
    assert fingerprint(path.parent) == before
    Path(f"{path}-journal").unlink()
    assert len(open_store(path, database, services=services)) == 2


def test_a_store_that_is_gone_or_broken_leaves_what_was_seen_and_says_so_until_it_is_back(
    tmp_path, database, services, data_file
):
    path = copied(tmp_path, "lc_messages.json", data_file)
    (session_id,) = open_store(path, database, services=services)
    follower = StoreFollower(database, services)
    follower.look()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert follower.look() == 0
    assert "ends too early" in follower.problems[session_id]
    path.unlink()
    follower.look()
    assert follower.problems[session_id] == "lc_messages.json cannot be read: No such file or directory."
    assert said(opened(database, services, session_id)) == ["hello", "hi"]
    path.write_bytes(whole)
    follower.look()
    assert not follower.problems


def test_what_llamaindex_archives_while_it_is_followed_is_archived_here(tmp_path, database, services):
    path = tmp_path / "memory.db"
    theirs = TheirMemory.from_defaults(
        session_id="trip",
        token_limit=100,
        token_flush_size=20,
        chat_history_token_ratio=0.5,
        async_database_uri=f"sqlite+aiosqlite:///{path}",
    )

    async def talk(numbers):
        for number in numbers:
            await theirs.aput(TheirMessage(role="user", content=f"Question {number}: what is the tallest tower?"))
            await theirs.aput(TheirMessage(role="assistant", content=f"Answer {number}: another one, as before."))
        active = [message.content for message in await theirs.sql_store.get_messages("trip")]
        await theirs.sql_store._async_engine.dispose()
        return active

    active = asyncio.run(talk(range(2)))
    (session_id,) = open_store(path, database, services=services)
    memory = opened(database, services, session_id)
    assert said(memory) == active
    active = asyncio.run(talk(range(2, 7)))
    assert StoreFollower(database, services).look() == 1
    assert [stored.message.content for stored in memory.session.messages("active")] == active
    assert len(said(memory)) == 14
    assert memory.log.history().latest_turn == 7


def test_a_folder_of_notes_is_followed_version_by_version(tmp_path, database, services):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("One.")
    (session_id,) = open_store(folder, database, services=services)
    follower = StoreFollower(database, services)
    follower.look()
    (folder / "a.md").write_text("Another one.")
    (folder / "b.md").write_text("New.")
    assert follower.look() == 1
    memory = opened(database, services, session_id)
    assert [each.text for each in memory.blocks.revisions("a.md")] == ["One.", "Another one."]
    (folder / "b.md").unlink()
    assert follower.look() == 1
    memory.session.refresh()
    assert [block.name for block in memory.blocks] == ["a.md"]


def facts(memory):
    return {fact.text: fact.state for fact in memory.facts.read(FACTS, states=None)}


def test_what_mem0_knows_is_facts_each_with_the_texts_it_had_and_what_it_changes_is_followed(
    tmp_path, database, services, data_file
):
    path = copied(tmp_path, "mem0_history.db", data_file)
    (session_id,) = open_store(path, database, services=services)
    memory = opened(database, services, session_id)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT memory_id, old_memory, new_memory, event FROM history ORDER BY rowid")
        events = rows.fetchall()
    texts = {id: new for id, _, new, event in events if event != "DELETE"}
    deleted = {id for id, *_, event in events if event == "DELETE"}
    assert facts(memory) == {text: "retired" if id in deleted else "active" for id, text in texts.items()}
    alive, text = next((id, text) for id, text in texts.items() if id not in deleted)
    added = [alive, text, "Prefers light mode now.", "UPDATE"], ["new", None, "Lives in Porto.", "ADD"]
    with closing(sqlite3.connect(path)) as connection:
        for number, (memory_id, old, new, event) in enumerate(added):
            connection.execute(
                "INSERT INTO history (id, memory_id, old_memory, new_memory, event) VALUES (?, ?, ?, ?, ?)",
                (str(number), memory_id, old, new, event),
            )
        connection.commit()
    follower = StoreFollower(database, services)
    assert follower.look() == 1
    now = {fact.text: fact for fact in memory.facts.read(FACTS)}
    assert "Lives in Porto." in now
    assert [version.text for version in memory.facts.history(now["Prefers light mode now."])] == [
        *[each[2] for each in events if each[0] == alive],
        "Prefers light mode now.",
    ]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO history (id, memory_id, old_memory, event) VALUES ('d', 'new', 'Lives in Porto.', 'DELETE')"
        )
        connection.commit()
    assert follower.look() == 1
    assert facts(memory)["Lives in Porto."] == "retired"
    gone = "was retired by the agent before the first turn: no longer in the store."
    assert memory.trace("Lives in Porto").sentence == f"Fact {now['Lives in Porto.'].id} {gone}"
    assert follower.look() == 0


def test_the_reference_memory_of_mcp_is_a_graph_and_facts(tmp_path, database, services):
    path = tmp_path / "memory.jsonl"

    def write(*relations):
        lines = [
            {"type": "entity", "name": name, "entityType": "person", "observations": said}
            for name, said in (("Ann", ["likes tea"]), ("Ben", []))
        ]
        lines += [{"type": "relation", "from": a, "relationType": how, "to": b} for a, how, b in relations]
        path.write_text("\n".join(json.dumps(line) for line in lines))

    write(("Ann", "knows", "Ben"))
    (session_id,) = open_store(path, database, services=services)
    memory = opened(database, services, session_id)
    assert facts(memory) == {"Ann: likes tea": "active"}
    desk = memory.blocks.graph()
    assert [(each.predicate, each.state) for each in desk.relations()] == [("knows", "active")]
    write(("Ben", "works with", "Ann"))
    follower = StoreFollower(database, services)
    assert follower.look() == 1
    assert {each.predicate: each.state for each in desk.relations()} == {"knows": "ended", "works with": "active"}
    write(("Ann", "knows", "Ben"), ("Ben", "works with", "Ann"))
    path.touch()
    follower.look()
    assert {each.predicate: each.state for each in desk.relations()} == {"knows": "active", "works with": "active"}


def test_where_a_store_lies_is_in_no_bundle_and_no_branch_and_both_are_sessions_of_their_own(
    tmp_path, database, services, data_file
):
    path = copied(tmp_path, "loop.af", data_file)
    (session_id,) = open_store(path, database, services=services)
    assert str(tmp_path).encode() not in b"".join(_members(write_bundle(database, session_id)))
    branch = opened(database, services, session_id).branch(0)
    assert branch.log.history().attachment is None
    path.unlink()
    follower = StoreFollower(database, services)
    follower.look()
    assert list(follower.problems) == [session_id]


def _members(bundle):
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return [archive.read(name) for name in archive.namelist()]


def test_what_cannot_be_opened_is_one_sentence(tmp_path, database, services, data_file):
    own = Database.open(f"sqlite:///{tmp_path}/own.db")
    Memory.from_defaults("demo", database=own, services=services)
    (tmp_path / "a.zip").write_bytes(write_bundle(own, "demo"))
    (tmp_path / "text.db").write_text("This is not what its name says.")
    (tmp_path / "loop.db").symlink_to("loop.db")
    for path, into, says in (
        (tmp_path / "own.db", own, "own.db is the database that it would be shown in."),
        (tmp_path / "own.db", database, "own.db is a database of Memory Inspector"),
        (tmp_path / "a.zip", database, "a.zip is not opened where it lies: it is a Memory Inspector bundle."),
        (tmp_path / "none.db", database, "none.db cannot be read: No such file or directory."),
        (tmp_path / "text.db", database, "text.db is not a conversation: it starts with neither [ nor {."),
        (tmp_path / "loop.db", database, "loop.db cannot be read: Too many levels of symbolic links."),
    ):
        with pytest.raises(FormatError) as error:
            open_store(path, into, services=services)
        assert says in str(error.value)
    with pytest.raises(FormatError, match="has no conversation called 'x'"):
        open_store(data_file("stores/agno.db"), database, services=services, only="x")


def test_a_path_is_read_as_an_upload_is(data_file):
    assert (
        read_path(data_file("stores/agno.db")).conversation() == read_path(data_file("stores/agno.db")).conversation()
    )
    assert read_path(data_file("stores/loop.af")).kind == "agent_file"


def test_a_store_whose_session_was_deleted_can_be_opened_again(tmp_path, database, services, data_file):
    path = copied(tmp_path, "loop.af", data_file)
    (first,) = open_store(path, database, services=services)
    delete_session(database, first)
    (second,) = open_store(path, database, services=services)
    assert second != first
    assert StoreFollower(database, services).look() == 0


def test_the_command_opens_a_store_in_the_apps_database_and_says_where_it_is_shown(
    tmp_path, monkeypatch, capsys, data_file
):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "app"))
    monkeypatch.delenv("MEMORY_INSPECTOR_DATABASE_URL", raising=False)
    path = copied(tmp_path, "oa_session.db", data_file)
    with socket.create_server(("127.0.0.1", 0)) as running:  # as if the app ran there
        port = running.getsockname()[1]
        assert command(["--port", str(port), "open", str(path), "--only", "conv2"]) == 0
    said_there = capsys.readouterr().out
    assert "Opened read only: 1 session." in said_there
    session_id = re.search(r"\?session=(opened-\w+)", said_there)[1]
    database = Database.open(f"sqlite:///{tmp_path / 'app' / 'memory.db'}")
    assert opened(database, Services(), session_id).session.status().title == "conv2 (oa_session.db)"
    assert command(["open", str(tmp_path / "none.db")]) == 2
    assert "none.db cannot be read: No such file or directory." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["store.db", "store.db-wal", "store.db-journal", "talk.jsonl"])
def test_a_pipe_in_the_place_of_a_store_or_its_log_is_a_sentence(tmp_path, name):
    (tmp_path / "store.db").write_bytes(b"SQLite format 3\x00")
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    opened = tmp_path / (name if name.endswith(".jsonl") else "store.db")
    with pytest.raises(FormatError, match="a pipe or a device"):
        open_store(opened, Database.open(None), services=Services())
