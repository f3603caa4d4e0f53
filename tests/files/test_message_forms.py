"""Messages in the forms of other libraries, services and exports: what each becomes."""

import json

import pytest
from content_forms import CALL, CONTENT, THOUGHT, UNREAD
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import Memory, MessageError
from memory_core.formats.any_message import read_messages
from memory_core.formats.content import ToolResultContent, Unread, read_content
from memory_core.messages import ChatMessage, ImagePart, MessageRole, TextPart
from memory_inspector.files.openai_items import items_from_messages, messages_from_items


@pytest.mark.parametrize("name", CONTENT)
def test_each_form_of_a_part_is_read(name):
    entry, part = CONTENT[name]
    assert read_content([entry]) == [part]
    assert read_content(["a", entry, {"type": "text", "text": "b"}]) == [TextPart(text="a"), part, TextPart(text="b")]


@pytest.mark.parametrize("entry", UNREAD)
def test_a_part_of_no_known_form_is_kept_beside_the_others(entry):
    assert read_content(["a", entry]) == [TextPart(text="a"), Unread(entry)]
    [message] = read_messages({"role": "assistant", "content": ["a", entry]})
    assert message == ChatMessage("a", role="assistant", additional_kwargs={"other_content": [entry]})


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "tool_result", "tool_use_id": "c", "content": "blue"},
        {"functionResponse": {"id": "c", "response": {"result": "blue"}}},
        {"toolResult": {"toolUseId": "c", "content": [{"text": "blue"}]}},
        {"type": "tool-result", "toolCallId": "c", "output": {"type": "text", "value": "blue"}},
        {"type": "function_call_output", "call_id": "c", "output": "blue"},
        {"type": "tool_call_response", "id": "c", "response": "blue"},
    ],
)
def test_each_form_of_a_tool_s_result_is_a_message_of_the_tool(entry):
    assert read_content([entry]) == [ToolResultContent("c", None, (TextPart(text="blue"),))]
    assert read_messages({"role": "user", "content": [entry]}) == [
        ChatMessage("blue", role="tool", additional_kwargs={"tool_call_id": "c"})
    ]


MESSAGES = {
    "langchain data": {"type": "human", "data": {"content": "Hi", "type": "human"}},
    "langchain dump": {"content": "Hi", "type": "human", "id": "1"},
    "langchain constructor": {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "Hi", "type": "human"},
    },
    "langchain chunk": {"type": "HumanMessageChunk", "content": "Hi"},
    "gemini": {"role": "user", "parts": [{"text": "Hi"}]},
    "anthropic": {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
    "sharegpt": {"from": "human", "value": "Hi"},
    "claude": {"sender": "human", "text": "Hi", "content": [{"type": "text", "text": "Hi"}]},
    "claude before content": {"sender": "human", "text": "Hi"},
    "chatgpt": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Hi"]}, "recipient": "all"},
    "llamaindex": {"role": "user", "blocks": [{"block_type": "text", "text": "Hi"}]},
    "capitals": {"role": "User", "content": "Hi"},
    "wrapped": {"message": {"role": "user", "content": "Hi"}},
}


@pytest.mark.parametrize("name", MESSAGES)
def test_each_form_of_a_message_is_read(name):
    assert read_messages(MESSAGES[name]) == [ChatMessage("Hi")]


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": [{"id": "c", "name": "look", "args": {"at": "sky"}}]},
        {
            "additional_kwargs": {
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": '{"at": "sky"}'}}]
            }
        },
        {"additional_kwargs": {"function_call": {"id": "c", "name": "look", "arguments": '{"at": "sky"}'}}},
        {"invalid_tool_calls": [{"id": "c", "name": "look", "args": '{"at": "sky"}', "error": "none"}]},
    ],
)
def test_calls_are_read_from_every_place_where_langchain_kept_them(fields):
    [message] = read_messages({"type": "ai", "data": {"content": "", **fields}})
    assert message.tool_calls == (CALL,)


def test_what_chatgpt_sent_to_a_tool_is_a_call_and_what_it_thought_is_thinking():
    asked = {"author": {"role": "assistant"}, "recipient": "python", "id": "m1"}
    [call] = read_messages({**asked, "content": {"content_type": "code", "text": "1 + 1"}})
    assert (call.tool_calls[0].tool_name, call.tool_calls[0].tool_kwargs) == ("python", "1 + 1")
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "S", "content": "Hm."}]}
    [thought] = read_messages({"author": {"role": "assistant"}, "recipient": "all", "content": thoughts})
    assert thought.parts == (THOUGHT,)


def test_a_picture_of_chatgpt_s_export_stands_beside_its_words_and_its_time_is_kept():
    pointer = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1", "size_bytes": 9}
    [message] = read_messages(
        {
            "author": {"role": "user"},
            "create_time": 1_700_000_000.5,
            "content": {"content_type": "multimodal_text", "parts": [pointer, "Who?"]},
        }
    )
    assert message.parts == (ImagePart(url="file-service://f1"), TextPart(text="Who?"))
    assert message.additional_kwargs["time"] == "2023-11-14T22:13:20+00:00"


def test_what_was_pasted_into_claude_is_part_of_what_was_said():
    pasted = [{"file_name": "a.txt", "extracted_content": "Once upon a time."}]
    [message] = read_messages({"sender": "human", "text": "Read this", "attachments": pasted})
    assert message.content == "Read this\nOnce upon a time."


def test_a_call_of_sharegpt_is_the_assistant_s_and_what_is_observed_is_the_tool_s():
    [call] = read_messages({"from": "function_call", "value": '{"name": "look", "arguments": {"at": "sky"}}'})
    [result] = read_messages({"from": "observation", "value": "blue"})
    assert (str(call.role), call.tool_calls[0].tool_kwargs) == ("assistant", {"at": "sky"})
    assert result == ChatMessage("blue", role="tool")


def test_an_unknown_role_is_the_assistant_s_and_its_name_is_kept():
    assert read_messages({"role": "critic", "content": "Too long."}) == [
        ChatMessage("Too long.", role="assistant", additional_kwargs={"role": "critic"})
    ]


def test_the_forms_of_other_services_can_be_put():
    with Memory.from_defaults() as memory:
        memory.put_messages(
            [
                {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": i, "name": "look", "input": {}} for i in "ab"],
                },
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": i} for i in "ab"]},
                {"role": "model", "parts": [{"text": "Sunny."}]},
            ],
            message_ids=["1", "2", "3", "4"],
        )
        said = memory.get_all()
        memory.put(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "a"}]}, message_id="3"
        )
        assert [str(message.role) for message in said] == ["user", "assistant", "tool", "tool", "assistant"]
        assert [message.tool_call_id for message in said[2:4]] == ["a", "b"]
        assert memory.get_all() == said, "what has the same ids is not put again"
        with pytest.raises(MessageError):
            memory.put({"role": "usr", "content": "Hi"})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [
        "type",
        "text",
        "content",
        "source",
        "name",
        "input",
        "id",
        "image_url",
        "summary",
        "thinking",
        "parts",
        "data",
        "functionCall",
        "toolResult",
        "output",
        "tool_calls",
        "function_call",
        "role",
        "from",
        "value",
        "kwargs",
        "lc",
    ]
)
TYPES = st.sampled_from(sorted({str(entry.get("type")) for entry, _ in CONTENT.values()} | {"ai", "unknown"}))


@pytest.mark.slow
@given(st.dictionaries(FIELDS, TYPES | VALUES, max_size=6) | VALUES, VALUES)
@settings(max_examples=300)
def test_any_json_is_read_and_nothing_beside_it_is_lost(entry, other):
    found = read_content(["before", entry, other, "after"])
    assert (found[0], found[-1]) == (TextPart(text="before"), TextPart(text="after"))
    [*_, message] = read_messages({"role": "assistant", "content": ["before", entry, "after"]})[:1]
    assert message.content is not None
    assert message.content.startswith("before")
    assert message.content.endswith("after")
    assert ChatMessage.from_json(message.to_json()) == message


@pytest.mark.slow
@given(st.dictionaries(FIELDS, TYPES | VALUES, max_size=6) | VALUES)
@settings(max_examples=300)
def test_any_json_is_a_message_or_refused_in_one_sentence(entry):
    try:
        found = read_messages(entry)
    except MessageError as error:
        refused = str(error)
        assert refused.count("\n") == 0
    else:
        assert all(json.loads(message.to_json()) for message in found)


@given(st.lists(st.text(max_size=8), max_size=3), st.sampled_from(MessageRole))
def test_a_message_of_texts_is_stored_as_canonical_json_and_comes_back(texts, role):
    message = ChatMessage(role=role, parts=[TextPart(text=text) for text in texts])
    data = {"role": role, "parts": [{"type": "text", "text": text} for text in texts]}
    stored = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    assert message.to_json() == stored
    again = ChatMessage.from_json(stored)
    assert (again, again.role, again.model_fields_set) == (message, role, message.model_fields_set)


@pytest.mark.slow
@given(st.lists(st.dictionaries(FIELDS, TYPES | VALUES, max_size=6), max_size=4))
@settings(max_examples=200)
def test_any_list_of_items_becomes_messages_and_comes_back(items):
    items = [item for item in items if "type" in item or "role" in item]
    try:
        messages = messages_from_items(items)
    except MessageError:
        return
    assert len(items_from_messages(messages)) >= len(messages)
