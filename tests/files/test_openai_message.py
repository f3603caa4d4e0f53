"""One message of OpenAI's chat format becomes one `ChatMessage`."""

import pytest

from memory_core.errors import MessageError
from memory_core.formats.openai_message import (
    OTHER,
    message_from_openai,
    message_to_openai,
    messages_from_openai,
    other_kinds,
)
from memory_core.messages import (
    ChatMessage,
    FilePart,
    ImagePart,
    MessageRole,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)


def parts_of(**fields):
    return message_from_openai({"role": "assistant", **fields}).parts


def parts_from(*content):
    return message_from_openai({"role": "user", "content": list(content)}).parts


@pytest.mark.parametrize(
    ("given", "role"),
    [
        ("system", MessageRole.SYSTEM),
        ("developer", MessageRole.SYSTEM),
        ("user", MessageRole.USER),
        ("assistant", MessageRole.ASSISTANT),
        ("tool", MessageRole.TOOL),
        ("function", MessageRole.TOOL),
    ],
)
def test_every_role_of_the_format_is_known(given, role):
    assert message_from_openai({"role": given, "content": "x"}) == ChatMessage("x", role=role)


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}, {"content": []}])
def test_a_message_without_content_has_no_parts(content):
    assert message_from_openai({"role": "user", **content}).parts == ()


def test_text_parts_of_both_interfaces_are_text():
    assert parts_from(
        {"type": "text", "text": "a"},
        {"type": "input_text", "text": "b"},
        {"type": "output_text", "text": "c", "annotations": []},
        {"type": "refusal", "refusal": "d"},
        {"type": "thinking", "thinking": "e"},
        "f",
        {"type": "text", "text": ""},
    ) == (*(TextPart(text=text) for text in "abcd"), ThinkingPart(text="e"), TextPart(text="f"))


def test_images_keep_their_address_and_detail():
    assert parts_from(
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
        {"type": "image_url", "image_url": "https://example.com/b.png"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "high"},
        {"type": "input_image", "file_id": "file-1"},
    ) == (
        ImagePart(url="https://example.com/a.png", detail="low"),
        ImagePart(url="https://example.com/b.png"),
        ImagePart(url="data:image/png;base64,AA==", detail="high"),
        ImagePart(url="openai-file:file-1"),
    )


def test_audio_and_files_become_file_parts():
    assert parts_from(
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}},
        {"type": "file", "file": {"file_data": "AA=="}},
        {"type": "input_file", "file_id": "file-2"},
        {"type": "input_file", "file_url": "https://example.com/b.pdf"},
    ) == (
        FilePart(type="audio", url="data:audio/wav;base64,AA=="),
        FilePart(type="document", url="data:application/pdf;base64,AA==", title="a.pdf"),
        FilePart(type="document", url="data:;base64,AA=="),
        FilePart(type="document", url="openai-file:file-2"),
        FilePart(type="document", url="https://example.com/b.pdf"),
    )


def test_thinking_comes_before_the_text_and_calls_after_it():
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    assert parts_of(content="Let me see.", reasoning_content="Hm.", tool_calls=[call]) == (
        ThinkingPart(text="Hm."),
        TextPart(text="Let me see."),
        ToolCallPart(tool_call_id="c1", tool_name="look", tool_kwargs={"at": "sky"}),
    )


def test_a_refusal_beside_empty_content_is_what_was_said():
    assert parts_of(content=None, refusal="I cannot do that.") == (TextPart(text="I cannot do that."),)


def test_older_function_calls_and_custom_tools_are_calls():
    assert parts_of(function_call={"name": "look", "arguments": "{}"}) == (ToolCallPart(tool_name="look"),)
    assert parts_of(tool_calls=[{"id": "c2", "type": "custom", "custom": {"name": "run", "input": "ls"}}]) == (
        ToolCallPart(tool_call_id="c2", tool_name="run", tool_kwargs="ls"),
    )


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('{"a": 1}', {"a": 1}),
        ({"a": 1}, {"a": 1}),
        ("", {}),
        (None, {}),
        ("[1]", "[1]"),
        ('{"a": ', '{"a": '),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": "\\u0000"}', '{"a": "\\u0000"}'),
        ("[" * 100_000, "[" * 100_000),
        ('{"a":' * 150 + "1" + "}" * 150, '{"a":' * 150 + "1" + "}" * 150),
    ],
    ids=["object", "decoded", "empty", "null", "list", "broken", "nan", "nul", "bottomless", "deep"],
)
def test_arguments_are_decoded_where_that_loses_nothing(written, kept):
    assert parts_of(tool_calls=[{"id": "c", "function": {"name": "f", "arguments": written}}]) == (
        ToolCallPart(tool_call_id="c", tool_name="f", tool_kwargs=kept),
    )


def test_a_tool_result_keeps_what_it_answers():
    result = {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "blue"}
    assert message_from_openai(result) == ChatMessage(
        "blue", role="tool", additional_kwargs={"tool_call_id": "c1", "name": "look"}
    )


def test_an_empty_tool_result_stays_the_answer_to_its_call():
    assert message_from_openai({"role": "tool", "tool_call_id": "c1", "content": ""}) == ChatMessage(
        "", role="tool", additional_kwargs={"tool_call_id": "c1"}
    )


def test_the_name_of_a_speaker_is_kept():
    assert message_from_openai({"role": "user", "name": "sam", "content": "x"}).additional_kwargs == {"name": "sam"}


def test_ids_written_as_numbers_are_read_as_text():
    assert message_from_openai({"role": "tool", "tool_call_id": 7, "content": "x"}).tool_call_id == "7"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (5, "this is a number, not a message."),
        (None, "this is null, not a message."),
        (True, "this is true or false, not a message."),
        ([], "this is a list, not a message."),
        ({"content": "x"}, 'this message has no "role".'),
        ({"role": "usr"}, 'role "usr" is not known. Use system, user, assistant or tool.'),
        ({"role": ["user"]}, "role a list is not known. Use system, user, assistant or tool."),
    ],
)
def test_what_is_no_message_is_said_in_one_sentence_that_names_the_field(message, sentence):
    with pytest.raises(MessageError) as caught:
        message_from_openai(message)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("fields", "texts", "other"),
    [
        ({"content": 5}, ["5"], []),
        ({"content": {"celsius": 21}}, ['{"celsius": 21}'], []),
        ({"content": [None, "a"]}, ["a"], []),
        ({"content": [{"type": 1}, "a"]}, ["a"], [{"type": 1}]),
        ({"content": ["a", {"type": "tool_use"}]}, ["a"], [{"type": "tool_use"}]),
        ({"content": [{"type": "text", "text": 5}, "a"]}, ["a"], [{"type": "text", "text": 5}]),
        ({"content": [{"type": "file", "file": {}}, "a"]}, ["a"], [{"type": "file", "file": {}}]),
        ({"content": "a", "name": ["sam"]}, ["a"], []),
        ({"content": "a", "tool_calls": {"a": 1}}, ["a"], [{"a": 1}]),
        ({"content": "a", "tool_calls": [{"id": "c"}]}, ["a"], [{"id": "c"}]),
        ({"content": "a", "tool_calls": [{"function": {"name": ""}}]}, ["a"], [{"function": {"name": ""}}]),
        ({"content": "a", "function_call": "auto"}, ["a"], [{"function_call": "auto"}]),
    ],
)
def test_what_cannot_be_read_costs_itself_alone_and_is_kept(fields, texts, other):
    message = message_from_openai({"role": "assistant", **fields})
    assert [part.text for part in message.parts] == texts
    assert message.additional_kwargs.get(OTHER, []) == other
    assert len(other_kinds(message)) == len(other)
    assert message_from_openai(message_to_openai(message)).additional_kwargs == message.additional_kwargs


def test_what_a_model_read_and_no_message_holds_stands_in_a_prompt_as_its_json():
    searched = {"type": "web_search_call", "id": "w"}
    [message] = messages_from_openai({"role": "assistant", "content": [searched, "Open."]}, other_as_text=True)
    assert message.content == '{"type": "web_search_call", "id": "w"}\nOpen.'


def test_arguments_that_are_no_object_are_their_json():
    call = {"function": {"name": "f", "arguments": 5}}
    assert parts_of(tool_calls=[call]) == (ToolCallPart(tool_name="f", tool_kwargs="5"),)


def test_results_of_several_tools_in_one_message_are_a_message_each():
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "windy"}]},
    ]
    found = messages_from_openai({"role": "user", "content": [*results, {"type": "text", "text": "And now?"}]})
    assert found == [
        ChatMessage("sunny", role="tool", additional_kwargs={"tool_call_id": "a"}),
        ChatMessage("windy", role="tool", additional_kwargs={"tool_call_id": "b"}),
        ChatMessage("And now?"),
    ]
    with pytest.raises(MessageError):
        message_from_openai({"role": "user", "content": results})


def test_a_call_named_in_content_and_in_the_list_of_calls_is_one_call():
    said = [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "c", "name": "look", "input": {}}]
    calls = [{"name": "look", "args": {}, "id": "c", "type": "tool_call"}]
    assert len(message_from_openai({"role": "assistant", "content": said, "tool_calls": calls}).tool_calls) == 1
