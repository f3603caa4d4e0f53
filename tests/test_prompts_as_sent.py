"""What is read of a prompt, in whatever form an agent sends it: nothing of it keeps the call out of the record."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_kit import VALUES

from memory_core.messages import ImagePart, ThinkingPart
from memory_inspector.recorder.wire import Answered, read_exchange

WHOLE = Answered(200, b'{"choices": [], "output": [], "data": []}')


def chat(*messages):
    """The messages of a prompt as they are recorded."""
    return read_exchange("chat/completions", json.dumps({"messages": messages}).encode(), WHOLE).messages


def responses(*items, **fields):
    return read_exchange("responses", json.dumps({"input": items, **fields}).encode(), WHOLE).messages


def words(messages):
    return [(str(message.role), message.content) for message in messages]


NEXT = {"role": "user", "content": "And now?"}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"role": "user", "content": [{"type": "hologram", "at": "here"}]}, '{"type": "hologram", "at": "here"}'),
        ({"role": "user", "content": [{"type": "pinned", "text": "Here", "at": 1}]}, "Here"),
        ({"role": "user", "content": {"celsius": 21}}, '{"celsius": 21}'),
        ({"role": "tool", "tool_call_id": "c", "content": {"celsius": 21}}, '{"celsius": 21}'),
        ({"role": "tool", "tool_call_id": "c", "content": [{"celsius": 21}]}, '{"celsius": 21}'),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}, "Yes"]}, "Yes"),
        ({"role": "narrator", "content": "It rains"}, "It rains"),
        ({"role": "ipython", "content": "21"}, "21"),
        ({"content": "No role"}, "No role"),
        ({"role": 5, "content": "Odd"}, '{"role": 5, "content": "Odd"}'),
        ("Only text", "Only text"),
        ({"role": "user", "content": "cut \ud83d"}, "cut \ufffd"),
        ({"role": "user", "content": "nul \x00"}, "nul \ufffd"),
        ({"role": "user", "content": [{"type": "odd", "n": float("inf")}]}, '{"type": "odd", "n": "Infinity"}'),
        ({"role": "assistant", "tool_calls": [{"id": "c", "nothing": 1}]}, '{"id": "c", "nothing": 1}'),
    ],
)
def test_a_part_of_an_unknown_kind_stands_in_the_prompt_and_costs_nothing_else(entry, told):
    first, *_, last = chat(entry, NEXT)
    assert (told in first.content, last.content) == (True, "And now?")


@pytest.mark.parametrize(("depth", "end"), [(95, "end"), (300, "end"), (800, "")])
def test_what_is_nested_too_deep_costs_itself_alone(depth, end):
    deep = "end"
    for _ in range(depth):
        deep = [deep]
    [message] = chat({"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "odd", "deep": deep}]})
    assert message.content.startswith("Look:")
    assert end in message.to_json()


ITEMS = [
    ({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "GIVEN"}, "assistant"),
    ({"type": "custom_tool_call_output", "call_id": "c", "output": "GIVEN"}, "tool"),
    ({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "GIVEN"}]}, "tool"),
    (
        {"type": "mcp_call", "id": "m", "name": "dice", "server_label": "s", "arguments": "{}", "output": "GIVEN"},
        "assistant",
    ),
    ({"type": "mcp_list_tools", "id": "m", "tools": [{"name": "GIVEN"}]}, "assistant"),
    ({"type": "mcp_approval_response", "approval_request_id": "m", "approve": True, "reason": "GIVEN"}, "user"),
    ({"type": "shell_call", "call_id": "c", "action": {"commands": ["GIVEN"]}}, "assistant"),
    ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "GIVEN", "stderr": ""}]}, "tool"),
    ({"type": "local_shell_call_output", "id": "c", "output": "GIVEN"}, "tool"),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "GIVEN"}, "tool"),
    (
        {"type": "code_interpreter_call", "id": "i", "code": "x", "outputs": [{"type": "logs", "logs": "GIVEN"}]},
        "assistant",
    ),
    ({"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "GIVEN"}}, "assistant"),
    ({"type": "file_search_call", "id": "f", "queries": ["q"], "results": [{"text": "GIVEN"}]}, "assistant"),
    ({"type": "something_new", "text": "GIVEN"}, "assistant"),
    ({"type": "something_new_output", "call_id": "c", "result": {"of": "GIVEN"}}, "tool"),
    ({"type": "input_text", "text": "GIVEN"}, "user"),
    ({"type": "message", "role": "user", "content": [{"type": "input_odd", "odd": "GIVEN"}]}, "user"),
    ({"type": 7, "odd": "GIVEN"}, "user"),
    ("GIVEN", "user"),
]


@pytest.mark.parametrize(("item", "role"), ITEMS, ids=lambda each: each["type"] if isinstance(each, dict) else None)
def test_what_an_item_of_any_tool_says_is_in_the_prompt(item, role):
    *_, found, last = responses({"role": "user", "content": "Go"}, item, NEXT)
    assert (str(found.role), "GIVEN" in found.to_json(), last.content) == (role, True, "And now?")
    assert found.content or found.tool_calls


def test_calls_and_their_results_belong_together():
    call, result = responses(ITEMS[0][0], ITEMS[1][0])
    assert (call.tool_calls[0].tool_name, call.tool_calls[0].tool_kwargs) == ("apply_patch", "GIVEN")
    assert call.tool_calls[0].tool_call_id == result.tool_call_id == "c"


def test_pictures_of_tools_are_pictures():
    made = {"type": "image_generation_call", "id": "i", "status": "completed", "result": "iVBORw0KGgo="}
    seen = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="},
    }
    first, second = responses(made, seen)
    assert [part.url for part in first.parts if isinstance(part, ImagePart)] == ["data:image/png;base64,iVBORw0KGgo="]
    assert [part.url for part in second.parts] == ["data:image/png;base64,AA=="]
    assert "iVBOR" not in first.tool_calls[0].arguments


def test_reasoning_is_read_where_it_has_words():
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}
    [closed] = responses({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"}, said)
    [open_] = responses({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}, said)
    assert (closed.content, len(closed.parts)) == ("Yes", 1)
    assert open_.parts[0] == ThinkingPart(text="Hm")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"instructions": "Be kind.", "input": "Hi"}, [("system", "Be kind."), ("user", "Hi")]),
        ({"instructions": [{"role": "developer", "content": "Be kind."}]}, [("system", "Be kind.")]),
        (
            {"instructions": {"odd": 1}, "input": {"role": "user", "content": "Hi"}},
            [("system", '{"odd": 1}'), ("user", "Hi")],
        ),
        ({"instructions": None, "input": None}, []),
    ],
    ids=["text", "items", "odd", "nothing"],
)
def test_instructions_stand_in_front_in_any_form(fields, told):
    asked = json.dumps(fields).encode()
    assert words(read_exchange("responses", asked, WHOLE).messages) == told


def test_an_answer_sent_back_is_the_message_that_it_was():
    """So that it stands once in the session."""
    output = [
        ITEMS[3][0],
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Six."}]},
    ]
    answered = Answered(200, json.dumps({"output": output}).encode())
    assert read_exchange("responses", b"{}", answered).answer == responses(*output)[0]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.lists(VALUES | st.fixed_dictionaries({"role": VALUES, "content": VALUES, "tool_calls": VALUES}), max_size=3),
    st.sampled_from(["chat/completions", "responses"]),
)
def test_any_prompt_is_read_without_an_error_and_can_be_stored(entries, endpoint):
    asked = {"model": "m", "messages": entries, "input": entries}
    found = read_exchange(endpoint, json.dumps(asked).encode(), WHOLE)
    assert len(found.messages) >= (len(entries) if endpoint == "chat/completions" else 0)
    for message in found.messages:
        message.to_json().encode()
