"""LangGraph's checkpoints are read as data: the newest state of each thread, and what had left it."""

import sqlite3
import sys
from contextlib import closing

import msgpack
import pytest
from shared_data import shared

from memory_core import Database, FormatError
from memory_core.limits import MAX_VALUES
from memory_core.planning.speakers import parse_message
from memory_core.services import Services
from memory_inspector.files.files import read_file
from memory_inspector.files.stored import import_with_state

NAME = "lg_checkpoints.db"


def said(conversation):
    return [(str(message.role), message.content, len(message.tool_calls)) for message in conversation.messages]


@pytest.mark.data
def test_a_thread_that_the_real_library_wrote_comes_with_its_calls_paired_and_its_times():
    path = shared(f"stores/{NAME}")
    before = path.read_bytes()
    found = read_file(NAME, before)
    assert (found.kind, [listed.title for listed in found.conversations]) == ("agent_store", ["t1"])
    conversation = found.conversation()
    assert said(conversation) == [
        ("user", "I am allergic to nuts. Weather?", 0),
        ("assistant", None, 1),
        ("tool", "Sunny in Porto", 0),
        ("assistant", "Sunny.", 0),
        ("user", "And now?", 0),
        ("assistant", "Still.", 0),
    ]
    assert conversation.messages[1].tool_calls[0].tool_call_id == conversation.messages[2].tool_call_id
    times = [parse_message(message).time for message in conversation.messages]
    assert times == sorted(times)
    assert times[0] == pytest.approx(1795356086, abs=3_600)
    assert not conversation.has_memory_state
    assert path.read_bytes() == before


# -- made ones -----------------------------------------------------------------------------------


def human(id, text, **fields):
    return ("human", "HumanMessage", {"type": "human", "id": id, "content": text, **fields})


def packed(state, *, ts="2026-11-22T14:01:26+00:00"):
    def model(value):
        kind, name, fields = value
        inner = msgpack.packb([f"langchain_core.messages.{kind}", name, fields, "model_validate_json"])
        return msgpack.ExtType(5, inner)

    state = {**state, "messages": [model(each) for each in state.get("messages", ())]}
    return msgpack.packb({"v": 4, "ts": ts, "id": "x", "channel_values": state})


def database(tmp_path, *rows):
    """Rows are thread, namespace, id, parent, type and bytes."""
    path = tmp_path / "made.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT, "
            "parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB)"
        )
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, NULL)", rows)
        connection.commit()
    return path.read_bytes()


def test_what_had_left_the_state_is_archived_and_other_branches_are_left_out(tmp_path):
    summary = human("s", "Summary: a and b.")
    rows = [
        ("t", "", "1", None, "msgpack", packed({"messages": [human("a", "a"), human("b", "b")]})),
        ("t", "", "2", "1", "msgpack", packed({"messages": [human("x", "another branch")]})),
        ("t", "", "3", "1", "msgpack", packed({"messages": [summary, human("c", "c")], "todo": [1], "__x": 1})),
        ("t", "sub", "4", None, "msgpack", packed({"messages": [human("y", "a subgraph")]})),
    ]
    conversation = read_file("made.db", database(tmp_path, *rows)).conversation()
    assert [message.content for message in conversation.messages] == ["a", "b", "Summary: a and b.", "c"]
    assert conversation.archived == {0, 1}
    notes = [note.text for note in conversation.notes]
    assert notes[0].startswith("2 messages of earlier checkpoints had left")
    assert notes[1:] == ["of the state only messages are imported, not todo"]
    memory = import_with_state(conversation, Database.open(None), services=Services(), source="a file", learn=False)
    assert (memory.session.status().archived_messages, memory.session.status().queue_messages) == (2, 2)


def test_messages_in_plain_forms_are_read_and_calls_inside_the_content_count_once(tmp_path):
    calls = [{"id": "c1", "name": "f", "args": {}}]
    content = [{"type": "text", "text": "Look"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {}}]
    state = {"messages": [("ai", "AIMessage", {"type": "ai", "id": "1", "content": content, "tool_calls": calls})]}
    rows = [("t", "", "1", None, "msgpack", packed(state))]
    begun = {"channel_values": {"__start__": {"messages": [["user", "hi"], {"role": "user", "content": "there"}, 3]}}}
    rows.append(("u", "", "1", None, "msgpack", msgpack.packb(begun)))
    json_form = (
        '{"channel_values": {"messages": [{"lc": 1, "id": ["a", "HumanMessage"], "kwargs": {"content": "old"}}]}}'
    )
    rows.append(("v", "", "1", None, "json", json_form))
    found = read_file("made.db", database(tmp_path, *rows))
    assert said(found.conversation(0)) == [("assistant", "Look", 1)]
    assert said(found.conversation(1)) == [("user", "hi", 0), ("user", "there", 0)]
    assert len(found.conversation(1).skipped) == 1
    assert said(found.conversation(2)) == [("user", "old", 0)]


def refused(tmp_path, kind, data):
    with pytest.raises(FormatError) as error:
        read_file("made.db", database(tmp_path, ("t", "", "1", None, kind, data))).conversation()
    return str(error.value)


def test_no_object_is_made_and_no_module_imported_whatever_a_checkpoint_names(tmp_path):
    for code in range(7):
        evil = msgpack.ExtType(code, msgpack.packb(["antigravity", "Popen", {"content": "x"}, "y"]))
        rows = [("t", "", "1", None, "msgpack", msgpack.packb({"channel_values": {"messages": [evil]}}))]
        with pytest.raises(FormatError):
            read_file("made.db", database(tmp_path, *rows)).conversation()
    assert "antigravity" not in sys.modules
    assert "of the type “pickle”, which are not read" in refused(tmp_path, "pickle", b"\x80\x04cos\nsystem\n")


def test_a_damaged_checkpoint_is_one_sentence(tmp_path):
    whole = packed({"messages": [human("a", "a")]})
    bomb = b"\xdd\xff\xff\xff\xff"
    deep = b"\x91" * 5_000 + b"\xc0"
    for data in (whole[: len(whole) // 2], b"", b"\xc1", bomb, deep, None, b"\xa1\xff"):
        assert refused(tmp_path, "msgpack", data) == (
            "made.db cannot be read: one of its checkpoints is damaged. Nothing was imported."
        )
    assert "a version of LangGraph that is not known" in refused(tmp_path, "msgpack", msgpack.packb([1]))


def test_without_what_unpacks_them_the_extra_is_named(monkeypatch, data_file):
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(FormatError) as error:
        read_file(NAME, data_file(f"stores/{NAME}").read_bytes())
    assert "needs msgpack: pip install 'memory-inspector[stores]'. Nothing was imported." in str(error.value)


def test_objects_packed_inside_each_other_without_end_are_a_damaged_checkpoint(tmp_path):
    data = b"\xc0"
    for _ in range(3_000):
        data = msgpack.packb(msgpack.ExtType(5, data))
    assert "one of its checkpoints is damaged" in refused(tmp_path, "msgpack", data)


@pytest.mark.slow
def test_a_checkpoint_of_more_values_than_are_read_is_refused(tmp_path):
    many = msgpack.packb({"channel_values": {"messages": [{}] * MAX_VALUES}})
    assert "holds more than 1,048,576 items" in refused(tmp_path, "msgpack", many)
