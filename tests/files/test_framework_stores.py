"""Stores and messages of agent frameworks are read: forms as their packages of 2026 write them, words of our own."""

import json
import sqlite3

import pytest

from memory_core import Database, FormatError, MessageRole, Services, list_sessions
from memory_inspector.files.files import read_file, read_path
from memory_inspector.files.in_place import StoreFollower, open_store
from memory_inspector.files.stores.memory_stores import memories_of

SAID = [("user", "Is it cold?"), ("assistant", "I look."), ("tool", "4 degrees"), ("assistant", "Rather.")]
"""What each of these stores holds; the second message calls a tool."""


def said(conversation):
    return [(str(message.role), message.content) for message in conversation.messages]


def read(value, name="state.json"):
    return read_file(name, json.dumps(value).encode())


CALL = {"id": "c1", "name": "look", "arguments": '{"at": "Oslo"}'}
PYDANTIC_AI = [
    {
        "kind": "request",
        "instructions": "Be brief.",
        "timestamp": "2026-11-28T22:00:00Z",
        "parts": [{"part_kind": "user-prompt", "content": "Is it cold?", "timestamp": "2026-11-28T22:00:00Z"}],
    },
    {
        "kind": "response",
        "model_name": "small",
        "parts": [
            {"part_kind": "thinking", "content": "Hm."},
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_name": "look", "args": {"at": "Oslo"}, "tool_call_id": "c1"},
        ],
    },
    {
        "kind": "request",
        "instructions": "Be brief.",
        "parts": [
            {"part_kind": "tool-return", "tool_name": "look", "content": "4 degrees", "tool_call_id": "c1"},
        ],
    },
    {"kind": "response", "parts": [{"part_kind": "text", "content": "Rather."}]},
]
AGENT_FRAMEWORK = [
    {"type": "message", "role": "user", "contents": [{"type": "text", "text": "Is it cold?"}]},
    {
        "type": "message",
        "role": "assistant",
        "author_name": "guide",
        "contents": [
            {"type": "text_reasoning", "text": "Hm."},
            {"type": "text", "text": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "Oslo"}'},
        ],
    },
    {
        "type": "message",
        "role": "tool",
        "contents": [
            {
                "type": "function_result",
                "call_id": "c1",
                "result": "4 degrees",
                "items": [{"type": "text", "text": "4"}],
            },
        ],
    },
    {
        "type": "message",
        "role": "assistant",
        "contents": [{"type": "text", "text": "Rather."}, {"type": "usage", "usage_details": {"total_token_count": 3}}],
    },
]
AUTOGEN = [
    {"type": "UserMessage", "content": "Is it cold?", "source": "user"},
    {"type": "AssistantMessage", "content": [CALL], "thought": "I look.", "source": "guide"},
    {
        "type": "FunctionExecutionResultMessage",
        "content": [{"content": "4 degrees", "name": "look", "call_id": "c1", "is_error": False}],
    },
    {"type": "AssistantMessage", "content": "Rather.", "thought": None, "source": "guide"},
]
HAYSTACK = [
    {"role": "user", "meta": {}, "name": None, "content": [{"text": "Is it cold?"}]},
    {
        "role": "assistant",
        "content": [
            {"reasoning": {"reasoning_text": "Hm.", "extra": {}}},
            {"text": "I look."},
            {"tool_call": {"tool_name": "look", "arguments": {"at": "Oslo"}, "id": "c1", "extra": None}},
        ],
    },
    {
        "role": "tool",
        "content": [
            {"tool_call_result": {"result": "4 degrees", "error": False, "origin": {"tool_name": "look", "id": "c1"}}},
        ],
    },
    {"role": "assistant", "content": [{"text": "Rather."}]},
]
ADK = [
    {"author": "user", "content": {"role": "user", "parts": [{"text": "Is it cold?"}]}},
    {
        "author": "guide",
        "content": {
            "role": "model",
            "parts": [
                {"text": "Hm.", "thought": True},
                {"text": "I look."},
                {"function_call": {"id": "c1", "name": "look", "args": {"at": "Oslo"}}},
            ],
        },
    },
    {
        "author": "guide",
        "content": {
            "role": "user",
            "parts": [{"function_response": {"id": "c1", "name": "look", "response": {"result": "4 degrees"}}}],
        },
    },
    {"author": "guide", "content": {"role": "model", "parts": [{"text": "Ra"}]}, "partial": True},
    {"author": "guide", "content": {"role": "model", "parts": [{"text": "Rather."}]}},
]


def adk(events=ADK):
    return [
        {"id": f"e{n}", "invocation_id": f"i{n // 4}", "actions": {"state_delta": {}}, "timestamp": 1.79e9 + n, **event}
        for n, event in enumerate(events)
    ]


STATES = {
    "pydantic ai": PYDANTIC_AI,
    "agent-framework": {
        "type": "session",
        "session_id": "s1",
        "service_session_id": None,
        "state": {"in_memory": {"messages": AGENT_FRAMEWORK}},
    },
    "agent-framework's messages": AGENT_FRAMEWORK,
    "autogen": {"type": "AssistantAgentState", "version": "1.0.0", "llm_context": {"messages": AUTOGEN}},
    "haystack": HAYSTACK,
    "adk": {"id": "s1", "appName": "shop", "userId": "ada", "state": {}, "events": adk()},
}


@pytest.mark.parametrize("form", STATES)
def test_a_conversation_of_each_framework_is_read_with_its_calls_results_and_thoughts(form):
    conversation = read(STATES[form]).conversation()
    spoken = [(role, text) for role, text in said(conversation) if role != "system"]
    assert spoken == SAID
    asked, result = (message for message in conversation.messages if message.tool_calls or message.role == "tool")
    assert [(call.tool_call_id, call.tool_name, call.tool_kwargs) for call in asked.tool_calls] == [
        ("c1", "look", {"at": "Oslo"})
    ]
    assert result.tool_call_id == "c1"
    thinks = form not in ("autogen",)  # there, a thought beside a call is the answer's text
    assert [part.type for part in asked.parts] == [*(["thinking"] if thinks else []), "text", "tool_call"]
    assert conversation.notes == ()


def test_instructions_that_each_request_repeats_stand_once():
    again = [*PYDANTIC_AI, *PYDANTIC_AI, {**PYDANTIC_AI[0], "instructions": "Be loud."}]
    texts = [text for role, text in said(read(again).conversation()) if role == "system"]
    assert texts == ["Be brief.", "Be loud."]


def test_what_a_program_asks_for_again_and_a_summary_are_not_the_user_s_words():
    parts = [
        {"part_kind": "retry-feedback", "content": "No such place."},
        {"part_kind": "compaction", "content": "They spoke of Oslo."},
        {"part_kind": "user-prompt", "content": ["And now?", {"kind": "image-url", "url": "https://a.test/a.png"}]},
    ]
    found = said(read([{"kind": "request", "parts": parts}]).conversation())
    assert found == [("system", "No such place."), ("system", "They spoke of Oslo."), ("user", "And now?")]


def test_a_field_that_is_not_read_is_a_note():
    messages = [{**PYDANTIC_AI[0], "translation": "Ist es kalt?"}]
    assert [note.text for note in read(messages).conversation().notes] == ['"translation" was not imported (1 message)']


def test_in_a_team_what_other_members_say_is_not_the_user_s():
    thread = [
        {"type": "TextMessage", "source": "ada", "content": "Is it cold?", "created_at": "2026-11-28T22:00:00Z"},
        {"type": "ThoughtEvent", "source": "guide", "content": "Hm."},
        {"type": "ToolCallRequestEvent", "source": "guide", "content": [CALL]},
        {"type": "ToolCallExecutionEvent", "source": "guide", "content": AUTOGEN[2]["content"]},
        {"type": "TextMessage", "source": "guide", "content": "Rather."},
    ]
    of_cook = [AUTOGEN[0], {"type": "UserMessage", "source": "guide", "content": "Rather."}]
    team = {
        "type": "TeamState",
        "agent_states": {
            "guide": {"agent_state": {"llm_context": {"messages": AUTOGEN}}, "message_buffer": []},
            "cook": {"agent_state": {"llm_context": {"messages": of_cook}}},
            "Manager": {"type": "RoundRobinManagerState", "message_thread": thread, "current_turn": 1},
            "idle": {"agent_state": {"llm_context": {"messages": []}}},
        },
    }
    preview = read(team)
    assert [listed.title for listed in preview.conversations] == ["Manager", "guide", "cook"]
    assert [role for role, _ in said(preview.conversation(0))] == [
        "user",
        "assistant",
        "assistant",
        "tool",
        "assistant",
    ]
    assert said(preview.conversation(2)) == [("user", "Is it cold?"), ("assistant", "Rather.")]


# -- Google's ADK -------------------------------------------------------------------------------------------


def adk_database(path, rows):
    with sqlite3.connect(path) as store:
        store.execute(
            "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, "
            "timestamp DATETIME, event_data TEXT)"
        )
        for user, event in rows:
            row = (event["id"], user, "s1", event["invocation_id"], event["timestamp"], json.dumps(event))
            store.execute("INSERT INTO events VALUES (?, 'shop', ?, ?, ?, ?, ?)", row)
    store.close()
    return path


def test_sessions_of_equal_names_are_told_apart_by_their_users(tmp_path):
    path = adk_database(tmp_path / "adk.db", [(user, event) for event in adk() for user in ("ada", "bob")])
    preview = read_path(path)
    assert [listed.title for listed in preview.conversations] == ["shop / ada / s1", "shop / bob / s1"]
    assert said(preview.conversation(0)) == said(preview.conversation(1)) == SAID


def test_what_a_compaction_replaced_has_left_the_queue_and_what_a_rewind_took_back_is_noted(tmp_path):
    summary = {"role": "model", "parts": [{"text": "They spoke of Oslo."}]}
    span = {"start_timestamp": 1.79e9, "end_timestamp": 1.79e9 + 1, "compacted_content": summary}
    events = adk(
        [
            *ADK[:1],
            {"author": "guide", "content": {"role": "model", "parts": [{"text": "Yes."}]}},
            {"author": "user", "actions": {"compaction": span}},
            {"author": "user", "content": {"role": "user", "parts": [{"text": "And Rome?"}]}, "invocation_id": "later"},
            {"author": "user", "actions": {"rewind_before_invocation_id": "later"}},
            {"author": "user", "content": {"role": "user", "parts": [{"text": "Thanks."}]}},
        ]
    )
    conversation = read_path(adk_database(tmp_path / "adk.db", [("ada", event) for event in events])).conversation()
    assert said(conversation) == [
        ("user", "Is it cold?"), ("assistant", "Yes."), ("system", "They spoke of Oslo."), ("user", "Thanks."),
    ]  # fmt: skip
    assert conversation.archived == {0, 1}
    assert [note.text for note in conversation.notes] == ["1 event that a rewind took back is left out"]


def test_the_first_schema_is_read_but_for_its_pickled_actions(tmp_path):
    path = tmp_path / "adk.db"
    with sqlite3.connect(path) as store:
        store.execute(
            "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, "
            "author TEXT, actions BLOB, timestamp DATETIME, content TEXT, partial BOOLEAN)"
        )
        for number, event in enumerate(ADK):
            row = (str(number), event["author"], b"\x80", f"2026-11-28 22:00:0{number}", json.dumps(event["content"]))
            store.execute(
                "INSERT INTO events VALUES (?, 'shop', 'ada', 's1', 'i', ?, ?, ?, ?, ?)", (*row, event.get("partial"))
            )
        store.execute(
            "INSERT INTO events VALUES ('x', 'shop', 'ada', 's1', 'i', 'guide', NULL, '2027', 'broken', NULL)"
        )
    store.close()
    conversation = read_path(path).conversation()
    assert said(conversation) == SAID
    assert conversation.messages[0].additional_kwargs["time"] == "2026-11-28T22:00:00+00:00"


# -- Strands ------------------------------------------------------------------------------------------------

STRANDS = [
    ("user", [{"text": "Is it cold?"}]),
    ("assistant", [{"text": "I look."}, {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "Oslo"}}}]),
    ("user", [{"toolResult": {"toolUseId": "c1", "status": "success", "content": [{"json": {"degrees": 4}}]}}]),
    ("assistant", [{"text": "Rather."}]),
]


def strands(folder, name="s1", agent="default", messages=STRANDS, **state):
    place = folder / f"session_{name}" / "agents" / f"agent_{agent}"
    (place / "messages").mkdir(parents=True)
    (folder / f"session_{name}" / "session.json").write_text(json.dumps({"session_id": name}))
    (place / "agent.json").write_text(json.dumps({"agent_id": agent, "conversation_manager_state": state}))
    for number, (role, content) in enumerate(messages):
        stored = {"message": {"role": role, "content": content}, "message_id": number, "redact_message": None}
        (place / "messages" / f"message_{number}.json").write_text(
            json.dumps(stored | {"created_at": "2026-11-28T22:00:00+00:00"})
        )
    return folder / f"session_{name}"


def test_a_folder_of_strands_is_read_by_its_agents_in_the_order_of_the_numbers(tmp_path):
    many = [("user", [{"text": f"Number {number}"}]) for number in range(12)]
    strands(tmp_path, "b", messages=many)
    session = strands(tmp_path, "a")
    strands(tmp_path, "c", "one"), strands(tmp_path / "x", "c", "two")
    (tmp_path / "x" / "session_c" / "agents" / "agent_two").rename(tmp_path / "session_c" / "agents" / "agent_two")
    titles = [listed.title for listed in read_path(tmp_path).conversations]
    assert titles == ["a", "b", "c (one)", "c (two)"]
    assert [text for _, text in said(read_path(tmp_path).conversation(1))] == [f"Number {n}" for n in range(12)]
    found = said(read_path(session).conversation())
    assert found == [*SAID[:2], ("tool", '{"degrees": 4}'), SAID[3]]


def test_what_left_the_window_of_strands_has_left_the_queue_and_its_summary_is_a_block(tmp_path):
    summary = {"role": "user", "content": [{"text": "They spoke of Oslo."}]}
    session = strands(tmp_path, removed_message_count=3, summary_message=summary)
    conversation = read_path(session).conversation()
    assert conversation.archived == {0, 1, 2}
    assert [(block.name, block.versions[-1].text) for block in conversation.blocks] == [
        ("Summary", "They spoke of Oslo.")
    ]


def test_a_damaged_file_of_strands_costs_itself_and_a_link_is_not_followed(tmp_path):
    session = strands(tmp_path)
    messages = session / "agents" / "agent_default" / "messages"
    (messages / "message_1.json").write_text("{")
    (messages / "message_3.json").unlink()
    (messages / "message_3.json").symlink_to(messages / "message_0.json")
    redacted = {"message": {"role": "user", "content": [{"text": "4421"}]}, "message_id": 4}
    redacted["redact_message"] = {"role": "user", "content": [{"text": "[taken out]"}]}
    (messages / "message_4.json").write_text(json.dumps(redacted))
    conversation = read_path(session).conversation()
    assert [text for _, text in said(conversation)] == ["Is it cold?", '{"degrees": 4}', "[taken out]"]
    assert [skipped.reason for skipped in conversation.skipped] == [
        "message_1.json is damaged, or no message", "message_3.json is damaged, or no message",
    ]  # fmt: skip


def test_a_session_of_strands_is_followed_as_it_grows(tmp_path):
    database, services = Database.open(f"sqlite:///{tmp_path}/app.db"), Services()
    session = strands(tmp_path / "sessions", messages=STRANDS[:2])
    [opened] = open_store(session, database, services=services)
    follower = StoreFollower(database, services)
    follower.look()
    messages = session / "agents" / "agent_default" / "messages"
    later = {"message": {"role": "user", "content": [{"text": "And Rome?"}]}, "message_id": 2}
    (messages / "message_2.json").write_text(json.dumps(later))
    assert follower.look() == 1
    [listed] = list_sessions(database)
    assert (listed.session_id, listed.turns) == (opened, 2)


# -- others -------------------------------------------------------------------------------------------------


def test_items_of_an_encrypted_session_are_called_encrypted(tmp_path):
    path = tmp_path / "agents.db"
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id TEXT, message_data TEXT)")
        sealed = json.dumps({"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAA"})
        store.execute("INSERT INTO agent_messages VALUES (1, 's1', ?)", (sealed,))
    store.close()
    with pytest.raises(FormatError, match="it is encrypted by the program that stored it"):
        read_path(path).conversation()


def test_items_of_langgraph_s_store_are_facts_by_their_namespace(tmp_path):
    path = tmp_path / "store.db"
    items = [
        ("memories.ada", "m1", {"text": "Ada likes tea", "tags": ["drink"]}),
        ("memories.ada", "m2", {"kind": "Memory", "content": {"content": "Ada lives in Oslo"}}),
        ("memories.bob", "m1", {"name": "Bob", "age": 42}),
        ("memories.bob", "m2", "plain"),
    ]
    with sqlite3.connect(path) as store:
        store.execute(
            "CREATE TABLE store (prefix TEXT, key TEXT, value TEXT, created_at TIMESTAMP, updated_at TIMESTAMP)"
        )
        for prefix, key, value in items:
            store.execute(
                "INSERT INTO store VALUES (?, ?, ?, 0, '2026-11-28 22:00:00')", (prefix, key, json.dumps(value))
            )
        store.execute("INSERT INTO store VALUES ('memories.bob', 'm3', 'broken', 0, 0)")
    store.close()
    found = memories_of(path)
    texts = {name: [fact.texts[-1] for fact in memories.facts] for name, memories in found.items()}
    assert texts == {
        "memories.ada": ["Ada likes tea", "Ada lives in Oslo"],
        "memories.bob": ['{"name": "Bob", "age": 42}', "plain"],
    }
    assert found["memories.ada"].facts[0].metadata == {"key": "m1", "time": "2026-11-28 22:00:00", "tags": ["drink"]}
    assert found["memories.bob"].unread == [5]


def test_a_role_of_each_form_is_one_of_ours():
    for state in STATES.values():
        assert {message.role for message in read(state).conversation().messages} <= set(MessageRole)


# -- odd ones -----------------------------------------------------------------------------------------------


def test_what_a_user_spoke_is_the_user_s_and_what_stands_before_a_result_comes_before_it():
    spoken = {"part_kind": "speech", "speaker": "user", "transcript": "Is it cold?"}
    hosted = [
        {"part_kind": "text", "content": "I look."},
        {"part_kind": "builtin-tool-call", "tool_name": "look", "args": {}, "tool_call_id": "c1"},
        {"part_kind": "builtin-tool-return", "tool_name": "look", "content": "4 degrees", "tool_call_id": "c1"},
        {"part_kind": "text", "content": "Rather."},
    ]
    assert (
        said(read([{"kind": "request", "parts": [spoken]}, {"kind": "response", "parts": hosted}]).conversation())
        == SAID
    )


def test_repeated_instructions_stand_once_in_jsonl_too():
    text = "\n".join(map(json.dumps, PYDANTIC_AI))
    texts = [words for role, words in said(read_file("a.jsonl", text.encode()).conversation()) if role == "system"]
    assert texts == ["Be brief."]


REAL = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": "Hello", "contents": []}],
        {"type": "session", "messages": REAL, "state": {"m": {"messages": []}}},
        {"appName": "x", "events": [], "messages": REAL},
        {"messages": REAL, "message_thread": [{"type": "TextMessage", "source": "user", "content": "Other"}]},
    ],
)
def test_what_the_general_reader_reads_is_left_to_it(value):
    assert said(read(value).conversation()) == [("user", "Hello")]


def test_a_message_with_an_author_of_no_framework_is_refused_with_its_place():
    with pytest.raises(FormatError, match='has no "role"'):
        read([{"author": "Ada", "content": "Hello Bob"}] * 2).conversation()


def test_members_of_a_team_are_known_by_the_name_before_their_id():
    thread = [{"type": "TextMessage", "source": "guide", "content": "A poem."}, {"type": "TextMessage", "source": []}]
    states = {"manager/2ab": {"message_thread": thread}, "guide/2ab": {"llm_context": {"messages": []}}}
    assert said(read({"agent_states": states}).conversation()) == [("assistant", "A poem.")]


def test_a_time_that_no_clock_shows_costs_itself():
    events = [{**ADK[0], "timestamp": 10**400}, {**ADK[4], "timestamp": float("1e300")}]
    assert said(read({"appName": "x", "id": "s", "events": events}).conversation()) == [SAID[0], SAID[3]]


def turn(text, invocation, **actions):
    return {
        "author": "user", "invocation_id": invocation, "actions": actions,
        **({"content": {"role": "user", "parts": [{"text": text}]}} if text else {}),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("events", "stay"),
    [
        ([("A", "1"), ("B", "2"), ("", "r1", "2"), ("D", "4"), ("", "r2", "2"), ("F", "5")], "AF"),
        ([("A", "1"), ("B", "2"), ("", "r1", "2"), ("", "r2", "r1")], "AB"),
        ([("A", "1"), ("", "r1", "unknown"), ("B", "2")], "AB"),
    ],
)
def test_rewinds_of_adk_are_resolved_from_the_end(events, stay):
    """As ADK's own walk does: a rewind that was taken back takes nothing."""
    written = [turn(e[0], e[1], **({"rewind_before_invocation_id": e[2]} if e[2:] else {})) for e in events]
    conversation = read({"appName": "x", "id": "s", "events": written}).conversation()
    assert "".join(text for _, text in said(conversation)) == stay


def test_a_damaged_event_is_skipped_with_its_reason(tmp_path):
    path = adk_database(tmp_path / "adk.db", [("ada", event) for event in adk()])
    with sqlite3.connect(path) as store:
        store.execute("INSERT INTO events VALUES ('x', 'shop', 'ada', 's1', 'i', 1.79e9, '{\"author\":')")
    store.close()
    conversation = read_path(path).conversation()
    assert said(conversation) == SAID
    assert [skipped.reason for skipped in conversation.skipped] == ["it is damaged, or no event"]


def test_a_removed_file_with_two_results_is_two_messages_that_left_the_queue(tmp_path):
    results = [{"toolResult": {"toolUseId": str(n), "content": [{"text": f"Result {n}"}]}} for n in (1, 2)]
    messages = [STRANDS[0], STRANDS[1], ("user", results), STRANDS[3]]
    conversation = read_path(strands(tmp_path, messages=messages, removed_message_count=3)).conversation()
    assert conversation.archived == {0, 1, 2, 3}
    assert said(conversation)[4:] == [("assistant", "Rather.")]
