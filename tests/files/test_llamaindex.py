import asyncio
import json
import sqlite3
import struct
import time

import pytest
from engine_fakes import assistant, note, open_memory, user
from llama_index.core.base.llms.types import (
    AudioBlock,
    CachePoint,
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.memory import Memory as TheirMemory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from memory_core import ChatMessage, FilePart, FormatError, ImagePart, TextPart, ThinkingPart, ToolCallPart
from memory_core.limits import MAX_VALUES
from memory_core.planning.speakers import parse_message
from memory_inspector.files.files import export_chat_store, read_file
from memory_inspector.files.stores import sqlite_file
from memory_inspector.files.stores.llamaindex_stores import read_table, write_chat_store
from memory_inspector.files.stores.memory_stores import NAMES

TALK = [
    TheirMessage(role="system", content="You book flights."),
    TheirMessage(role="user", content="To Rome, please. “Ciao” 🎈"),
    TheirMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="Look it up."),
            TextBlock(text="I will look."),
            ToolCallBlock(tool_call_id="c1", tool_name="search", tool_kwargs={"to": "Rome"}),
        ],
    ),
    TheirMessage(role="tool", content="1 flight", additional_kwargs={"tool_call_id": "c1"}),
    TheirMessage(role="assistant", content="There is one."),
]
OURS = (
    ChatMessage(role="system", content="You book flights."),
    user("To Rome, please. “Ciao” 🎈"),
    ChatMessage(
        role="assistant",
        parts=[
            ThinkingPart(text="Look it up."),
            TextPart(text="I will look."),
            ToolCallPart(tool_call_id="c1", tool_name="search", tool_kwargs={"to": "Rome"}),
        ],
    ),
    ChatMessage(role="tool", content="1 flight", additional_kwargs={"tool_call_id": "c1"}),
    assistant("There is one."),
)


def store(**conversations):
    """What their `SimpleChatStore.persist` writes.

    Assembled of their messages: its own serializer fails with the pydantic of this environment.
    """
    kept = {key: [message.model_dump(mode="json") for message in said] for key, said in conversations.items()}
    return json.dumps({"store": kept, "class_name": "SimpleChatStore"})


def imported(data, name="store.json", pick=0):
    return read_file(name, data if isinstance(data, bytes) else data.encode()).conversation(pick)


def refused(data, name="store.json", pick=0):
    with pytest.raises(FormatError) as error:
        imported(data, name, pick)
    return str(error.value)


def table(path, rows, *, name="llama_index_memory"):
    """A database as their chat store writes it; rows are key, status and message."""
    kept = SQLAlchemyChatStore(table_name=name, async_database_uri=f"sqlite+aiosqlite:///{path}")

    async def write():
        for key, status, message in rows:
            from llama_index.core.storage.chat_store.base_db import MessageStatus

            await kept.add_message(key, message, status=MessageStatus(status))
        await kept._async_engine.dispose()

    asyncio.run(write())
    return path.read_bytes()


def untimed(conversation):
    """Its messages without the times that their table told."""
    return tuple(
        message.model_copy(
            update={"additional_kwargs": {k: v for k, v in message.additional_kwargs.items() if k != "time"}}
        )
        for message in conversation.messages
    )


# -- chat stores as JSON -------------------------------------------------------------------------


def test_a_chat_store_that_they_saved_is_read(tmp_path):
    path = tmp_path / "chat_store.json"
    path.write_text(store(trip=TALK), encoding="utf-8")
    assert SimpleChatStore.from_persist_path(str(path)).get_messages("trip") == TALK
    found = read_file("chat_store.json", path.read_bytes())
    assert (found.kind, found.label) == ("chat_store", "LlamaIndex chat store")
    assert [(listed.title, listed.messages) for listed in found.conversations] == [("trip", 5)]
    conversation = found.conversation()
    assert conversation.messages == OURS
    assert (conversation.skipped, conversation.notes, conversation.title) == ((), (), "trip")
    assert (conversation.turns, conversation.tool_calls) == (1, 1)


def test_every_way_they_write_one_is_read():
    kept = store(trip=TALK)
    assert imported(json.dumps(kept)).messages == OURS
    buffer = {"token_limit": 9999, "chat_store": json.loads(kept), "chat_store_key": "trip"}
    assert imported(json.dumps(buffer)).messages == OURS
    rows = [{"key": "trip", "status": "active", "data": message.model_dump(mode="json")} for message in TALK]
    dumped = {"sql_store": {"table_name": "llama_index_memory", "db_data": rows}, "session_id": "trip"}
    assert imported(json.dumps(dumped)).messages == OURS


def test_a_key_is_chosen():
    kept = store(first=TALK, second=[TheirMessage(role="user", content="Hello")], empty=[])
    found = read_file("store.json", kept.encode())
    assert [(listed.title, listed.messages) for listed in found.conversations] == [("first", 5), ("second", 1)]
    assert found.conversation(1).messages == (user("Hello"),)
    assert "has no conversation 3: it holds 2." in refused(kept, pick=2)


def test_content_of_older_versions_is_read():
    old = {
        "store": {
            "k": [{"role": "user", "content": "Hello", "additional_kwargs": {}}, {"role": "model", "content": "Hi"}]
        }
    }
    assert imported(json.dumps(old)).messages == (user("Hello"), assistant("Hi"))


def test_files_inside_messages_come_along_and_paths_of_other_machines_do_not(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"\x89PNG secret")
    blocks = [
        TextBlock(text="Look"),
        ImageBlock(url="https://example.com/a.png", detail="low"),
        ImageBlock(image=b"\x89PNG\r\n\x1a\n12345678", image_mimetype="image/png"),
        AudioBlock(audio=b"RIFF1234WAVEfmt ", format="wav"),
        DocumentBlock(url="https://example.com/a.pdf", title="Bill"),
        ImageBlock(path=secret),
        CitableBlock(title="t", source="s", content=[TextBlock(text="cited")]),
        CachePoint(cache_control={"type": "ephemeral"}),
    ]
    found = imported(store(k=[TheirMessage(role="user", blocks=blocks)]))
    (message,) = found.messages
    kinds = [(type(part), getattr(part, "url", "")[:22]) for part in message.parts]
    assert kinds == [
        (TextPart, ""),
        (ImagePart, "https://example.com/a."),
        (ImagePart, "data:image/png;base64,"),
        (FilePart, "data:audio/wav;base64,"),
        (FilePart, "https://example.com/a."),
        (TextPart, ""),
    ]
    assert message.parts[1].detail == "low"
    assert message.parts[4].title == "Bill"
    assert [(note.index, note.text) for note in found.notes] == [
        (0, "part 6 (image) is named only by a path of another machine"),
        (0, "part 8 is a mark for prompt caching"),
    ]


def test_messages_that_cannot_be_read_are_left_out_with_the_reason():
    bad = [
        {"role": "user", "blocks": [{"block_type": "text", "text": "good"}]},
        {"role": "wizard", "blocks": "text"},
        {"role": "user", "blocks": "text"},
        {"role": "user", "blocks": [{"text": "no type"}]},
        {"role": "user", "blocks": []},
        "just text",
        {"role": "user", "content": 3},
        {"role": 5, "content": "x"},
        {"role": "user", "content": "x", "additional_kwargs": [1]},
        {"role": "user", "blocks": [{"block_type": "hologram"}, {"block_type": "text", "text": "kept"}]},
    ]
    found = imported(json.dumps({"store": {"k": bad}}))
    assert [message.content for message in found.messages] == ["good", "no type", "kept"]
    assert [(skipped.index, skipped.line) for skipped in found.skipped] == [(n, None) for n in (1, 2, 4, 5, 6, 7, 8)]
    assert [skipped.reason for skipped in found.skipped] == [
        '"blocks" is not a list',
        '"blocks" is not a list',
        "no text",
        "it is not an object",
        '"content" is not text',
        '"role" is not text',
        '"additional_kwargs" is not an object',
    ]
    assert [note.text for note in found.notes] == ["block_type cannot be shown and is kept with the message"]


@pytest.mark.parametrize(
    ("role", "became"), [("wizard", "assistant"), ("CRITIC", "assistant"), ("human", "user"), ("Tool", "tool")]
)
def test_a_message_of_any_role_is_kept_with_its_words_and_an_unknown_role_is_named(role, became):
    for message in ({"role": role, "blocks": [{"block_type": "text", "text": "x"}]}, {"role": role, "content": "x"}):
        found = imported(json.dumps({"store": {"k": [message]}}))
        assert [(str(message.role), message.content) for message in found.messages] == [(became, "x")]
        unknown = became == "assistant"
        assert found.messages[0].additional_kwargs == ({"role": role} if unknown else {})
        note = f'the role "{role}" is not known, and became assistant'
        assert [(note.index, note.text) for note in found.notes] == ([(0, note)] if unknown else [])


def test_a_store_without_anything_is_refused_in_one_sentence():
    assert refused('{"store": {}}') == "store.json is a chat store without messages. Nothing was imported."
    assert refused('{"store": {"k": "text"}}') == (
        "store.json cannot be imported: “k” is not a list of messages. Nothing was imported."
    )
    assert refused('{"store": {"k": [{"role": 5, "content": "x"}]}}') == (
        'store.json holds no messages that can be imported: "role" is not text. Nothing was imported.'
    )


# -- the SQL table -------------------------------------------------------------------------------


def test_a_table_that_they_wrote_is_read(tmp_path):
    rows = [("trip", "archived" if n < 2 else "active", message) for n, message in enumerate(TALK)]
    data = table(tmp_path / "memory.db", [*rows, ("other", "active", TheirMessage(role="user", content="Hello"))])
    found = read_file("memory.db", data)
    assert (found.kind, found.label) == ("chat_table", "LlamaIndex message table")
    assert [(listed.title, listed.messages) for listed in found.conversations] == [("trip", 5), ("other", 1)]
    conversation = found.conversation()
    assert untimed(conversation) == OURS
    assert conversation.archived == {0, 1}
    assert [note.text for note in conversation.notes] == [
        "2 messages are archived there, and here too. What blocks had learned is not in this table"
    ]


def test_their_memory_writes_what_ours_reads(tmp_path):
    path = tmp_path / "memory.db"
    theirs = TheirMemory.from_defaults(
        session_id="trip", token_limit=10_000, async_database_uri=f"sqlite+aiosqlite:///{path}"
    )

    begun = time.time()

    async def talk():
        for message in TALK:
            await theirs.aput(message)
        await theirs.sql_store._async_engine.dispose()

    asyncio.run(talk())
    conversation = imported(path.read_bytes(), "memory.db")
    assert untimed(conversation) == OURS
    said = [parse_message(message).time for message in conversation.messages]
    assert all(begun - 1 <= each <= time.time() for each in said)


def test_a_time_that_a_message_has_of_its_own_stays(tmp_path):
    dated = TheirMessage(role="user", content="Hi", additional_kwargs={"time": "8 May 2023"})
    conversation = imported(table(tmp_path / "a.db", [("k", "active", dated)]), "a.db")
    assert conversation.messages[0].additional_kwargs == {"time": "8 May 2023"}


def test_a_table_is_read_from_a_path_and_not_changed(tmp_path):
    path = tmp_path / "memory.db"
    before = table(path, [("k", "active", TALK[1])])
    (found,) = read_table(path, filename="memory.db")
    assert (found.key, len(found.messages)) == ("k", 1)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["memory.db"]


def test_a_table_of_another_name_is_found_by_its_columns(tmp_path):
    data = table(tmp_path / "a.db", [("k", "active", TALK[1])], name='odd "name"; DROP TABLE x')
    assert untimed(imported(data, "a.db")) == OURS[1:2]


def database(tmp_path, *statements):
    path = tmp_path / "made.db"
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path.read_bytes()


COLUMNS = "(id INTEGER PRIMARY KEY, key, timestamp, role, status, data)"


def test_a_database_without_their_table_is_said_to_be_none(tmp_path):
    assert refused(database(tmp_path, "CREATE TABLE notes (a)"), "x.db") == (
        "x.db is not a conversation: it is a SQLite database without a table of messages that is known "
        "(LlamaIndex, OpenAI Agents, LangChain, LangGraph, Agno, Google ADK). "
        f"For facts of {NAMES}: `memory-inspector open`. Nothing was imported."
    )
    our = open_memory(database_uri=f"sqlite:///{tmp_path}/ours.db")
    our.put(note(1))
    our.session.database.forget_log()
    assert "is a database of Memory Inspector" in refused((tmp_path / "ours.db").read_bytes(), "ours.db")


def test_a_table_without_messages_or_with_broken_ones(tmp_path):
    assert "has no messages in its table" in refused(
        database(tmp_path, f"CREATE TABLE llama_index_memory {COLUMNS}"), "x.db"
    )
    broken = database(
        tmp_path,
        f"CREATE TABLE t {COLUMNS}",
        """INSERT INTO t VALUES (1, 'k', 1, 'user', 'active', '{"role": "user", "content": "good"}')""",
        "INSERT INTO t VALUES (2, 'k', 2, 'user', 'active', 'not json')",
        "INSERT INTO t VALUES (3, 'k', 3, 'user', 'active', x'ff00')",
        "INSERT INTO t VALUES (4, 'k', 4, 'user', 'active', NULL)",
    )
    found = imported(broken, "x.db")
    assert [message.content for message in found.messages] == ["good"]
    assert [skipped.reason for skipped in found.skipped] == ["it is not an object"] * 3


def test_a_damaged_database_is_one_sentence(tmp_path):
    data = table(tmp_path / "memory.db", [("k", "active", message) for message in TALK])
    for damaged in (data[:5000], data[:100], data[:4096] + b"\xff" * (len(data) - 4096), data[:16] + b"\x00" * 500):
        said = refused(damaged, "memory.db")
        assert said.startswith("memory.db ")
        assert said.endswith("Nothing was imported.")
        assert str(tmp_path) not in said


def test_views_and_virtual_tables_are_not_read(tmp_path):
    endless = database(
        tmp_path,
        "CREATE VIEW llama_index_memory AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT i AS key, i AS timestamp, i AS role, i AS status, i AS data FROM n",
    )
    assert "without a table of messages" in refused(endless, "x.db")


def test_a_column_that_runs_for_ever_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "MAX_SECONDS", 0)
    rows = ", ".join(f"({n}, 'k', {n}, 'user', 'active', '{{}}')" for n in range(3000))
    data = database(tmp_path, f"CREATE TABLE t {COLUMNS}", f"INSERT INTO t VALUES {rows}")
    assert refused(data, "x.db") == ("x.db takes more than 0 seconds to read, which is the most. Nothing was imported.")


@pytest.mark.parametrize("statement", ["DELETE FROM t", "CREATE TABLE u (a)", "ATTACH 'other.db' AS o", "VACUUM"])
def test_a_database_can_only_be_read(tmp_path, statement):
    data = database(tmp_path, f"CREATE TABLE t {COLUMNS}")
    with sqlite_file.opened(data, filename="x.db") as connection, pytest.raises(sqlite3.Error):
        connection.execute(statement)


# -- out -----------------------------------------------------------------------------------------


def test_what_we_export_they_read(tmp_path):
    memory = open_memory("trip", token_limit=10_000)
    picture = ImagePart(url="data:image/png;base64,iVBORw0KGgo=", detail="low")
    files = [picture, FilePart(type="document", url="https://example.com/a.pdf", title="Bill")]
    files += [FilePart(type="audio", url="data:audio/wav;base64,UklGRg==")]
    said = [*OURS, ChatMessage(role="user", parts=[TextPart(text="See"), *files])]
    memory.put_messages(said)
    path = tmp_path / "store.json"
    path.write_text(export_chat_store(memory), encoding="utf-8")
    theirs = SimpleChatStore.from_persist_path(str(path))
    assert theirs.get_keys() == ["trip"]
    assert [m.content for m in theirs.get_messages("trip")] == [m.content for m in said]
    assert theirs.get_messages("trip")[2].blocks[2].tool_kwargs == {"to": "Rome"}
    assert imported(path.read_bytes()).messages == tuple(said)
    again = store(trip=theirs.get_messages("trip"))
    assert imported(again).messages[:5] == OURS


def test_a_store_of_several_keys_is_written():
    written = write_chat_store({"a": OURS, "b": [user("Hello")]})
    assert [listed.title for listed in read_file("x", written.encode()).conversations] == ["a", "b"]


def test_a_database_of_more_values_than_are_read_is_refused(tmp_path):
    many = "[" + "{}," * MAX_VALUES + "{}]"
    data = database(tmp_path, f"CREATE TABLE t {COLUMNS}", f"INSERT INTO t VALUES (1, 'k', 1, '', '', '{many}')")
    assert refused(data, "x.db") == "x.db holds more than 1,048,576 items, which is the most. Nothing was imported."


def test_rows_with_a_long_default_are_not_read_for_each_of_them(tmp_path):
    short = COLUMNS.replace(", data", "")
    long = f"ALTER TABLE t ADD COLUMN data DEFAULT '{'x' * 900_000}'"
    data = database(tmp_path, f"CREATE TABLE t {short}", "INSERT INTO t VALUES (1, 'k', 1, '', '')", long)
    assert "without a table of messages" in refused(data, "x.db")


def test_a_database_whose_pages_are_used_twice_is_refused(tmp_path):
    data = bytearray(database(tmp_path, f"CREATE TABLE t {COLUMNS}", "INSERT INTO t VALUES (1, 'k', 1, '', '', '{}')"))
    leaf, page = bytes(data[4096:8192]), bytearray(4096)
    page[:12] = struct.pack(">BHHHBI", 5, 0, 400, 4096 - 5 * 400, 0, 3)
    for number in range(400):
        at = 4096 - 5 * (number + 1)
        page[12 + 2 * number : 14 + 2 * number] = struct.pack(">H", at)
        page[at : at + 5] = struct.pack(">IB", 3, 1)
    data[4096:] = bytes(page) + leaf
    data[28:32] = struct.pack(">I", 3)
    assert "its pages do not fit together" in refused(bytes(data), "x.db")
