"""Stores of other frameworks, made by their own libraries, are imported, and never changed by a byte."""

import json
import sqlite3
from contextlib import closing

import pytest
from shared_data import shared

from memory_core import FormatError, Memory
from memory_inspector.files.files import read_file
from memory_inspector.files.openai_items import items_from_messages


def imported(data_file, name, pick=0):
    path = data_file(f"stores/{name}")
    before = path.read_bytes()
    found = read_file(name, before)
    assert (found.kind, found.label) == ("agent_store", "Conversations of an agent framework")
    conversation = found.conversation(pick)
    assert path.read_bytes() == before
    return found, conversation


def said(conversation):
    return [(str(message.role), message.content, len(message.tool_calls)) for message in conversation.messages]


@pytest.mark.parametrize("name", ["oa_session.db", "oa_items.json"])
def test_an_openai_agents_session_comes_with_its_calls_paired_and_every_item_as_it_was(name, data_file):
    _, conversation = imported(data_file, name)
    real = ("I am allergic to nuts. Weather?", "Sunny in Porto", "Sunny in Faro")
    own = ("I am allergic to almonds. Which tide?", "High in Antwerp", "Low in Ostend")
    asked, first, second = real if data_file is shared else own
    assert said(conversation)[:4] == [
        ("user", asked, 0),
        ("assistant", None, 2),
        ("tool", first, 0),
        ("tool", second, 0),
    ]
    memory = Memory.from_defaults()
    memory.put_messages(conversation.messages)
    calls = {call.tool_call_id for message in memory.get_all() for call in message.tool_calls}
    assert calls == {message.tool_call_id for message in memory.get_all() if message.role == "tool"}
    if name.endswith("json"):
        assert items_from_messages(memory.get_all()) == json.loads(data_file(f"stores/{name}").read_bytes())


def test_every_session_of_a_database_is_offered(data_file):
    found, _ = imported(data_file, "oa_session.db")
    assert [listed.title for listed in found.conversations] == ["conv1", "conv2"]


@pytest.mark.parametrize("name", ["lc_history.db", "lc_messages.json"])
def test_a_langchain_history_is_read(name, data_file):
    assert said(imported(data_file, name)[1]) == [("user", "hello", 0), ("assistant", "hi", 0)]


def test_agno_s_runs_are_read_without_its_own_instructions(data_file):
    found, conversation = imported(data_file, "agno.db")
    assert [listed.title for listed in found.conversations] == ["monday", "tuesday"]
    real = ("My name is Chandra and I live in Porto. Weather?", "Sunny in Porto", "Sunny, Chandra.")
    own = ("My name is Imke and I live in Ghent. Tide?", "Low in Ostend", "Low, Imke.")
    asked, result, answer = real if data_file is shared else own
    assert said(conversation) == [
        ("user", asked, 0),
        ("assistant", None, 1),
        ("tool", result, 0),
        ("assistant", answer, 0),
    ]


def test_what_cannot_be_read_is_left_out_with_its_reason(tmp_path):
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE chats (id INTEGER PRIMARY KEY, session_id TEXT, message TEXT)")
        ai = {"content": "", "tool_calls": [{"id": "c", "name": "forecast", "args": {"place": "Faro"}}]}
        rows = [
            {"type": "human", "data": {"content": "Hello"}},
            {"type": "ai", "data": ai},
            {"type": "tool", "data": {"content": "sunny", "tool_call_id": "c"}},
            {"type": "remove", "data": {"content": ""}},
        ]
        for text in [*map(json.dumps, rows), "{half", "[]"]:
            connection.execute("INSERT INTO chats (session_id, message) VALUES ('s', ?)", (text,))
    conversation = read_file("history.db", path.read_bytes()).conversation()
    assert said(conversation) == [("user", "Hello", 0), ("assistant", None, 1), ("tool", "sunny", 0)]
    assert len(conversation.skipped) == 3
    data = path.read_bytes()
    with pytest.raises(FormatError, match="damaged"):
        read_file("half.db", data[: len(data) // 2]).conversation()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM chats")
    with pytest.raises(FormatError, match="SQLite database without"):
        read_file("empty.db", path.read_bytes())


RUN = {
    "run_id": "r1",
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "I row on Sundays", "created_at": 1_740_000_000},
        {"role": "assistant", "content": [{"type": "hologram"}, {"type": "text", "text": "Noted"}]},
        {"role": "user", "content": "I row on Sundays", "from_history": True},
        5,
    ],
}


@pytest.mark.parametrize("runs", [json.dumps([RUN]), json.dumps(json.dumps([RUN])), json.dumps([RUN, None, {"x": 1}])])
def test_agno_2_keeps_the_runs_of_a_session_in_one_column(runs, tmp_path):
    path = tmp_path / "agno.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE mine (session_id, session_type, user_id, runs, created_at)")
        connection.execute("INSERT INTO mine VALUES ('s1', 'agent', 'u', ?, 1), ('s2', 'team', 'u', NULL, 2)", (runs,))
    found = read_file("agno.db", path.read_bytes())
    assert [listed.title for listed in found.conversations] == ["s1", "s2"]
    conversation = found.conversation(0)
    assert said(conversation) == [("user", "I row on Sundays", 0), ("assistant", "Noted", 0)]
    assert conversation.messages[0].additional_kwargs["time"].startswith("2025-02-19")
    assert len(conversation.skipped) == 1


def agno_run(words, answer, parent=None):
    messages = [{"role": "user", "content": words}, {"role": "assistant", "content": answer}]
    return {"run_id": words, "parent_run_id": parent, "agent_id": "rower" if parent else None, "messages": messages}


def test_what_a_team_of_agno_asks_a_member_is_a_conversation_of_its_own(tmp_path):
    path = tmp_path / "agno.db"
    runs = [
        agno_run("Is the lock open?", "Yes."),
        agno_run("Look at the lock", "It is open", parent="Is the lock open?"),
        agno_run("Thanks", "Gladly."),
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE agno_runs (run_id, session_id, run_data, created_at)")
        rows = [(number, json.dumps(run)) for number, run in enumerate(runs)]
        connection.executemany("INSERT INTO agno_runs VALUES (?1, 's1', ?2, ?1)", rows)
    found = read_file("agno.db", path.read_bytes())
    assert [listed.title for listed in found.conversations] == ["s1", "s1 (rower)"]
    assert [words for _, words, _ in said(found.conversation(0))] == ["Is the lock open?", "Yes.", "Thanks", "Gladly."]
    assert [words for _, words, _ in said(found.conversation(1))] == ["Look at the lock", "It is open"]


@pytest.mark.parametrize("summary", ['{"summary": "The user owns a red boat."}', "null", "{}", "broken"])
def test_the_summary_of_a_session_of_agno_is_a_block(summary, tmp_path):
    path = tmp_path / "agno.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE agno_sessions (session_id, session_type, summary)")
        connection.execute("INSERT INTO agno_sessions VALUES ('s1', 'agent', ?), ('s2', 'agent', '{}')", (summary,))
        connection.execute("CREATE TABLE agno_runs (run_id, session_id, run_data, created_at)")
        connection.execute("INSERT INTO agno_runs VALUES (1, 's1', ?, 1)", (json.dumps(agno_run("Hello", "Hi")),))
    blocks = read_file("agno.db", path.read_bytes()).conversation(0).blocks
    expected = [("Session summary", "The user owns a red boat.")] if "boat" in summary else []
    assert [(block.name, block.versions[-1].text) for block in blocks] == expected


def branched(path, branches):
    """A database of the Agents SDK with branches, each with the numbers of its messages."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)")
        connection.execute("CREATE TABLE message_structure (session_id, message_id, branch_id, sequence_number)")
        for number in range(1, 7):
            item = {"role": "user" if number % 2 else "assistant", "content": str(number)}
            connection.execute("INSERT INTO agent_messages VALUES (?, 'walk', ?)", (number, json.dumps(item)))
        rows = [(branch, id) for branch, ids in branches.items() for id in ids]
        for place, (branch, id) in enumerate(rows):
            connection.execute("INSERT INTO message_structure VALUES ('walk', ?, ?, ?)", (id, branch, place))
    found = read_file("walk.db", path.read_bytes())
    return {
        listed.title: [message.content for message in found.conversation(n).messages]
        for n, listed in enumerate(found.conversations)
    }


def test_each_branch_of_an_agents_session_is_a_conversation_of_its_own(tmp_path):
    assert branched(tmp_path / "a.db", {"main": [1, 2, 3, 4], "hills": [1, 2, 5, 6]}) == {
        "walk": ["1", "2", "3", "4"],
        "walk (branch hills)": ["1", "2", "5", "6"],
    }
    assert branched(tmp_path / "b.db", {"main": [1, 2, 3, 4, 5, 6]}) == {"walk": ["1", "2", "3", "4", "5", "6"]}
    assert branched(tmp_path / "c.db", {"main": [1, 2], "other": [3, 4]}) == {
        "walk": ["1", "2", "5", "6"],
        "walk (branch other)": ["3", "4"],
    }
