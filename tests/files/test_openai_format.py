"""Files in OpenAI's chat format: what is read, what is skipped, and what is said about a bad file."""

import codecs
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shared_data import shared

from memory_core.errors import FormatError
from memory_core.limits import MAX_FILE_BYTES
from memory_core.messages import ChatMessage, ImagePart, MessageRole, TextPart, ToolCallPart
from memory_inspector.files.openai_format import (
    Conversation,
    Listed,
    Note,
    Skipped,
    list_conversations,
    read_conversation,
)

HELLO = {"role": "user", "content": "Hello"}
HI = {"role": "assistant", "content": "Hi"}
READ = (ChatMessage("Hello"), ChatMessage("Hi", role="assistant"))


def lines(*values):
    return "\n".join(json.dumps(value) for value in values)


def error_of(data, filename="conversation.json", **options):
    with pytest.raises(FormatError) as caught:
        read_conversation(data, filename=filename, **options)
    return str(caught.value)


def outcome(data):
    """`n messages`, or the sentence that refuses the file; any other error passes through."""
    try:
        return f"{len(read_conversation(data, filename='a.json').messages)} messages"
    except FormatError as error:
        return str(error)


# What is read


@pytest.mark.parametrize("filename", ["talk.json", "talk.jsonl", "talk.txt"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps([HELLO, HI]),
        json.dumps([HELLO, HI], indent=2),
        json.dumps({"messages": [HELLO, HI]}),
        json.dumps([{"messages": [HELLO, HI]}]),
        json.dumps({"id": 5, "traj": [HELLO, HI], "created_at": float("nan")}),
        lines(HELLO, HI),
        "\n\n" + lines(HELLO, HI).replace("\n", "\r\n\r\n") + "\r\n",
        lines({"messages": [HELLO, HI]}),
        json.dumps(HELLO, indent=2) + "\n" + json.dumps(HI, indent=2),
    ],
    ids=[
        "list",
        "pretty list",
        "object",
        "list of one",
        "trajectory",
        "lines",
        "spaced lines",
        "line of one",
        "pretty values",
    ],
)
def test_every_shape_is_recognised_by_its_content_whatever_the_name(text, filename):
    assert read_conversation(text, filename=filename) == Conversation(READ, (), (), "talk")


def test_a_single_message_is_a_conversation():
    assert read_conversation(json.dumps(HELLO), filename="one.json").messages == READ[:1]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_a_byte_order_mark_names_the_encoding(mark, encoding):
    data = mark + json.dumps([{"role": "user", "content": "Olá, João"}], ensure_ascii=False).encode(encoding)
    assert read_conversation(data, filename="a.json").messages == (ChatMessage("Olá, João"),)


def test_a_mark_in_front_of_decoded_text_is_ignored():
    assert read_conversation("\ufeff" + lines(HELLO, HI), filename="a.jsonl").messages == READ


def test_the_title_is_the_one_in_the_file_or_the_name_of_the_file():
    named = json.dumps({"title": "  A long\n evening ", "messages": [HELLO]})
    assert read_conversation(named, filename="a.json").title == "A long evening"
    assert read_conversation(lines(HELLO), filename="C:\\talks\\two words.v2.jsonl").title == "two words.v2"
    assert read_conversation(lines(HELLO), filename="").title == "Conversation"
    assert len(read_conversation(json.dumps({"title": "x" * 500, "messages": [HELLO]}), filename="a").title) == 100


def test_turns_and_calls_are_counted():
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "1"}
    found = read_conversation(lines(HELLO, call, result, HI, HELLO, HI), filename="a.jsonl")
    assert (len(found.messages), found.turns, found.tool_calls) == (6, 2, 1)


# Several conversations in one file


@pytest.mark.parametrize("as_text", [json.dumps, lambda several: lines(*several)], ids=["json", "jsonl"])
def test_of_several_conversations_one_must_be_picked(as_text):
    data = as_text([{"messages": [HELLO]}, {"messages": [HI], "title": "Second"}, {"messages": [HELLO, HI]}])
    assert error_of(data, "all.json") == (
        "all.json holds 3 conversations, and one can be imported at a time. Pick one of them. Nothing was imported."
    )
    assert list_conversations(data, filename="all.json") == (
        Listed("all 1", 1),
        Listed("Second", 1),
        Listed("all 3", 2),
    )
    assert read_conversation(data, filename="all.json", pick=1) == Conversation(READ[1:], (), (), "Second")
    assert read_conversation(data, filename="all.json", pick=2) == Conversation(READ, (), (), "all 3")


@pytest.mark.parametrize("pick", [-1, 2])
def test_a_pick_outside_the_file_is_refused(pick):
    data = json.dumps([[HELLO], [HI]])
    assert error_of(data, pick=pick) == (
        f"conversation.json has no conversation {pick + 1}: it holds 2. Nothing was imported."
    )


def test_a_message_among_conversations_costs_itself_alone():
    data = lines({"messages": [HELLO]}, HI)
    conversation = read_conversation(data, filename="a.jsonl")
    assert [message.content for message in conversation.messages] == [HELLO["content"]]
    (note,) = conversation.notes
    assert "a.jsonl, line 2: this is not a conversation" in note.text
    assert [bool(listed.problem) for listed in list_conversations(data, filename="a.jsonl")] == [False, True]


# What is skipped or noted


def test_messages_with_nothing_in_them_are_skipped_and_listed():
    empty = {"role": "assistant", "content": None}
    blank = {"role": "user", "content": " \n"}
    found = read_conversation(lines(HELLO, empty, HI, blank), filename="a.jsonl")
    assert found == Conversation(READ, (Skipped(2, 1, "no text"), Skipped(4, 3, "no text")), (), "a")


def test_skipped_messages_of_one_json_value_are_listed_by_their_number():
    data = json.dumps({"id": 1, "messages": [HELLO, {"role": "user"}, HI]}, indent=1)
    (skipped,) = read_conversation(data, filename="a.json").skipped
    assert skipped == Skipped(None, 1, "no text")


def test_an_empty_tool_result_is_kept():
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    found = read_conversation(lines(call, {"role": "tool", "tool_call_id": "c", "content": ""}), filename="a")
    assert (len(found.messages), found.skipped, found.notes) == (2, (), ())


def test_a_tool_result_without_its_call_is_kept_and_noted():
    orphan = {"role": "tool", "tool_call_id": "gone", "content": "1"}
    nameless = {"role": "tool", "content": "2"}
    found = read_conversation(lines(HELLO, orphan, nameless), filename="a.jsonl")
    assert [message.content for message in found.messages] == ["Hello", "1", "2"]
    assert found.notes == (
        Note(2, 1, "this tool result has no call before it"),
        Note(3, 2, "this tool result has no call before it"),
    )


def test_a_result_may_come_long_after_its_call():
    calls = [
        {"role": "assistant", "tool_calls": [{"id": name, "function": {"name": "f", "arguments": "{}"}}]}
        for name in ("c1", "c2")
    ]
    results = [{"role": "tool", "tool_call_id": name, "content": "1"} for name in ("c1", "c2")]
    assert read_conversation(lines(*calls, HELLO, *results), filename="a.jsonl").notes == ()


def test_older_function_results_are_matched_by_name():
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    found = read_conversation(
        lines(
            call, {"role": "function", "name": "f", "content": "1"}, {"role": "function", "name": "g", "content": "2"}
        ),
        filename="a.jsonl",
    )
    assert [message.role for message in found.messages[1:]] == [MessageRole.TOOL, MessageRole.TOOL]
    assert found.notes == (Note(3, 2, "this tool result has no call before it"),)


def test_characters_that_cannot_be_stored_are_replaced_and_noted():
    data = '[{"role": "user",\n "content": "a\\u0000b\\ud800c"},\n {"role": "user", "content": "\\ud83d\\ude00"}]'
    found = read_conversation(data, filename="a.json")
    assert [message.content for message in found.messages] == ["a\ufffdb\ufffdc", "😀"]
    assert found.notes == (Note(None, 0, "2 characters cannot be stored and became \ufffd"),)


def test_fields_that_are_not_read_are_noted_once_each():
    data = lines({**HELLO, "weight": 1, "annotations": []}, {**HI, "weight": 1, "id": "m"}, {"role": "user", "id": "n"})
    assert read_conversation(data, filename="a.jsonl").notes == (
        Note(None, None, '"weight" was not imported (2 messages)'),
        Note(None, None, '"id" was not imported (1 message)'),
    )


# What is wrong with a file


def test_a_message_that_cannot_be_read_costs_itself_alone():
    found = read_conversation(lines(HELLO, {"marker": 1}, HI, [1]), filename="a.jsonl")
    assert found.messages == READ
    assert [(each.line, each.index) for each in found.skipped] == [(2, 1), (4, 3)]


def test_an_unknown_role_becomes_the_assistant_s_and_is_noted():
    found = read_conversation(lines(HELLO, {"role": "critic", "content": "x"}), filename="a.jsonl")
    assert found.messages[1] == ChatMessage("x", role="assistant", additional_kwargs={"role": "critic"})
    assert [(each.line, each.index) for each in found.notes] == [(2, 1)]


def test_what_no_message_holds_is_kept_and_noted():
    found = read_conversation(
        json.dumps([HELLO, {"role": "assistant", "content": [{"type": "web_search_call", "id": "w"}, "Open."]}]),
        filename="a.json",
    )
    assert found.messages[1].content == "Open."
    assert "web_search_call" in found.notes[0].text


def test_of_a_file_in_which_nothing_can_be_read_the_first_place_is_named():
    data = json.dumps([{"messages": [HELLO]}, {"note": [1, 2], "messages": [{"role": []}, {"role": "user"}]}])
    assert error_of(data, pick=1).startswith("conversation.json, [1].messages[0]: role a list is not known.")
    data = lines({"messages": [HELLO]}, {"messages": [{"role": 1}]})
    assert error_of(data, pick=1).startswith("conversation.json, line 2, messages[0]: role a number is not known.")


# Exports of other services


def tree(current, **nodes):
    """ChatGPT's form: parent and text of each node, users and assistants in turn by its depth."""

    def depth(id):
        return 0 if nodes[id][0] is None else 1 + depth(nodes[id][0])

    mapping = {
        id: {
            "id": id,
            "parent": parent,
            "children": [other for other in nodes if nodes[other][0] == id],
            "message": text
            and {
                "author": {"role": "user" if depth(id) % 2 else "assistant"},
                "content": {"content_type": "text", "parts": [text]},
                "recipient": "all",
            },
        }
        for id, (parent, text) in nodes.items()
    }
    return {"title": "Bread", "current_node": current, "mapping": mapping}


def test_a_conversation_of_chatgpt_is_its_open_path_and_each_fork_is_a_branch():
    export = tree("d", a=(None, None), b=("a", "How long?"), c=("b", "An hour"), d=("b", "Two"), e=("c", "Why?"))
    data = json.dumps([export, tree("b", a=(None, None), b=("a", "Hello"))])
    assert list_conversations(data, filename="conversations.json") == (
        Listed("Bread", 2),
        Listed("Bread (branch 1)", 3),
        Listed("Bread", 1),
    )
    picked = [read_conversation(data, filename="conversations.json", pick=pick).messages for pick in range(3)]
    assert [[message.content for message in messages] for messages in picked] == [
        ["How long?", "Two"],
        ["How long?", "An hour", "Why?"],
        ["Hello"],
    ]


@pytest.mark.parametrize("current", ["gone", None, "a"])
def test_a_tree_without_its_open_end_or_in_a_circle_is_still_read(current):
    export = tree("b", a=(None, None), b=("a", "Hello"))
    export["current_node"] = current
    export["mapping"]["b"]["message"]["metadata"] = None
    assert read_conversation(json.dumps([export]), filename="a").messages == READ[:1]
    export["mapping"]["a"]["parent"] = "b"
    assert read_conversation(json.dumps([export]), filename="a").messages in (READ[:1], ())


def test_what_chatgpt_hid_from_the_conversation_is_left_out():
    export = tree("b", a=(None, "You are ChatGPT."), b=("a", "Hello"))
    export["mapping"]["a"]["message"]["metadata"] = {"is_visually_hidden_from_conversation": True}
    assert read_conversation(json.dumps(export), filename="a").messages == READ[:1]


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ([{"uuid": "u", "name": "Talk", "chat_messages": [{"sender": "human", "text": "Hello"},
                                                          {"sender": "assistant", "text": "Hi"}]}], "Talk"),
        ([{"id": "1", "conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi"}]}], "a"),
        ({"conversation": [{"role": "user", "content": "Hello"}, {"role": "model", "parts": [{"text": "Hi"}]}]}, "a"),
        ({"messages": [{"type": "human", "content": "Hello"}, {"type": "ai", "content": "Hi"}]}, "a"),
        ({"values": {"messages": [{"type": "human", "content": "Hello"}, {"type": "ai", "content": "Hi"}]}}, "a"),
    ],
)  # fmt: skip
def test_conversations_of_other_services_and_libraries_are_read(value, title):
    assert read_conversation(json.dumps(value), filename="a.json") == Conversation(READ, (), (), title)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({"resourceSpans": []}, "spans"),
        ({"nodes": [], "edges": []}, "graph"),
        ([{"type": "entity", "name": "Ana", "entityType": "person"}], "MCP"),
        ([{"memory": "Ana has a boat", "id": "1"}], "Facts"),
        ({"cells": [], "nbformat": 4}, "notebook"),
    ],
)
def test_a_file_of_another_kind_is_named_by_it(value, named):
    assert named in error_of(json.dumps(value))


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ('[\n {"role": "user"\n  "content": "x"}\n]', "line 3, column 3: this is not valid JSON ("),
        ('{"messages": [\n {"role" "user"}\n]}', "line 2, column 10: this is not valid JSON ("),
        (json.dumps([HELLO, HI], indent=1)[:-3], "line 9, column 2: the JSON ends too early here."),
        ('[{"role": "user", "content": "Hel', "line 1, column 30: the JSON ends too early here."),
        ("[]]", "line 1, column 3: this is not valid JSON ("),
        ("[\x01]", "line 1, column 2: this is not valid JSON ("),
    ],
)
def test_broken_json_is_named_by_line_and_column(data, place):
    message = error_of(data)
    assert message.startswith(f"conversation.json, {place}")
    assert message.endswith(" Nothing was imported.")


@pytest.mark.parametrize(
    ("data", "filename", "broken", "read"),
    [
        (lines(HELLO)[:-1] + "\n" + lines(HI, HELLO), "a.jsonl", [1], 2),
        (lines(HELLO)[:-1] + "\n" + lines(HI, HELLO), "a.txt", [1], 2),
        (lines(HELLO, HI)[:-6], "a.txt", [2], 1),
        (lines(HELLO) + "\n\n{'role': 'user'}\n" + lines(HI), "a.txt", [3], 2),
        (lines(HELLO) + "\n" + lines(HI, HI)[:-1], "a.txt", [3], 2),
        (lines(HELLO) + "\n{\n" + lines(HI) + "\n{\n{\n{\n" + lines(HI), "a.txt", [2, 4, 5, 6], 3),
    ],
)
def test_a_broken_line_of_jsonl_costs_itself_and_is_named(data, filename, broken, read):
    conversation = read_conversation(data, filename=filename)
    assert [(skipped.line, skipped.reason) for skipped in conversation.skipped] == [
        (line, "not valid JSON") for line in broken
    ]
    assert len(conversation.messages) == read


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (lines(HELLO) + " x\n" + lines(HI), "line 1, column 38: this is not valid JSON ("),
        (lines(HELLO) + '\n{\n"role": "user"\n', "line 2, column 2: the JSON ends too early here."),
    ],
)
def test_what_is_no_line_of_jsonl_is_a_fault_of_the_file(data, place):
    assert error_of(data, "a.txt").startswith(f"a.txt, {place}")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty."),
        (b" \r\n\t", "is empty."),
        (codecs.BOM_UTF8, "is empty."),
        (b"[]", "holds no messages."),
        (b'{"messages": []}', "holds no messages."),
        (b'[{"role": "user", "content": ""}]', "holds no messages with text."),
        (b"42", "is not a conversation: it starts with neither [ nor {."),
        (b'"Hello"', "is not a conversation: it starts with neither [ nor {."),
        (b"API_KEY=secret", "is not a conversation: it starts with neither [ nor {."),
        (b'{"mapping": {}}', 'is not a conversation: it has no list named "messages".'),
        (b"PK\x03\x04rest", "is not a conversation: it is a zip archive. Choose a JSON or JSONL file."),
        (b"\x89PNG\r\n\x1a\n", "is not a conversation: it is a PNG image. Choose a JSON or JSONL file."),
        (b"[\x00]", "is not a conversation: it is binary data. Choose a JSON or JSONL file."),
        (b"[" * 100_000, "is nested too deeply to be read."),
        (codecs.BOM_UTF16_LE + b"[\x00]", "is not valid UTF-16 text. Save it as UTF-8."),
    ],
)
def test_what_is_no_conversation_at_all_is_said_without_a_line(data, sentence):
    assert error_of(data) == f"conversation.json {sentence} Nothing was imported."


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("[1]", "[0]: this is a number, not a message."),
        ('[\n\n"Hello"]', "[0]: this is text, not a message."),
        ('{"messages": "none"}', 'line 1: "messages" must be a list of messages.'),
        ('{"messages": [], "messages": null}', 'line 1: "messages" must be a list of messages.'),
        (
            '[{"role": "user", "content": "x", "weight": NaN}]',
            "[0]: a number is NaN, infinite or too long to store.",
        ),
        ('[{"role": "user", "weight": 1e999}]', "[0]: a number is NaN, infinite or too long to store."),
        (f'[{{"role": "user", "id": {"9" * 5000}}}]', "[0]: a number is NaN, infinite or too long to store."),
        (
            f'[\n{{"role": "user", "content": {"[" * 150}{"]" * 150}}}]',
            "[0]: lists and objects are nested more than 100 deep.",
        ),
    ],
)
def test_a_wrong_value_is_named_by_its_place(data, sentence):
    assert error_of(data) == f"conversation.json, {sentence} Nothing was imported."


def test_values_may_be_nested_a_hundred_deep():
    def with_value_nested(depth):
        return json.dumps([{**HELLO, "extra": json.loads("[" * depth + "]" * depth)}])

    assert read_conversation(with_value_nested(99), filename="a.json").turns == 1
    assert "nested more than 100 deep" in error_of(with_value_nested(100))


def test_a_byte_that_is_not_text_is_named_by_line_and_place():
    data = b'[{"role": "user",\n "content": "caf\xe9"}]'
    assert error_of(data) == (
        "conversation.json, line 2: byte 17 of this line is not UTF-8 text. Save the file as UTF-8. "
        "Nothing was imported."
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [bytes, bytes.decode], ids=["bytes", "text"])
def test_a_file_may_be_as_large_as_the_limit_and_no_larger(kind):
    head, tail = b'[{"role": "user", "content": "', b'"}]'
    full = head + b"x" * (MAX_FILE_BYTES - len(head + tail)) + tail
    assert read_conversation(kind(full), filename="a.json").turns == 1
    assert error_of(kind(full + b" ")) == "File is 20.1 MB. The most is 20 MB. Nothing was imported."


def test_a_far_too_large_file_is_refused_before_it_is_read():
    assert error_of(b"\xff" * 62 * 1024 * 1024) == "File is 62 MB. The most is 20 MB. Nothing was imported."


@given(st.binary(max_size=60) | st.text(alphabet='[]{},:"\\ \nroleus1', max_size=60))
def test_any_bytes_are_read_or_refused_with_a_sentence(data):
    assert outcome(data).endswith(("messages", " Nothing was imported."))


@given(st.integers(900, 1100))
def test_nesting_near_the_limit_of_the_stack_is_refused_in_our_own_words(depth):
    data = '[{"role": "user", "content": ' + "[" * depth + "]" * depth + "}]"
    assert "nested" in error_of(data)


# Round trip

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(str.strip)
NAMES = st.text("abcdefg_", min_size=1, max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
ARGUMENTS = st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, max_size=3), max_size=3)
CALLS = st.builds(ToolCallPart, tool_call_id=NAMES, tool_name=NAMES, tool_kwargs=ARGUMENTS)
WORDS = st.builds(TextPart, text=TEXTS)
IMAGES = st.builds(ImagePart, url=TEXTS, detail=st.sampled_from([None, "low", "high"]))
SPOKEN = st.lists(WORDS | IMAGES, min_size=1, max_size=3)
KWARGS = st.fixed_dictionaries({}, optional={"name": NAMES})
MESSAGES = (
    st.builds(
        ChatMessage, parts=SPOKEN, role=st.sampled_from(["system", "user", "assistant"]), additional_kwargs=KWARGS
    )
    | st.builds(
        lambda said, calls: ChatMessage(parts=said + calls, role="assistant"),
        SPOKEN | st.just([]),
        st.lists(CALLS, min_size=1, max_size=3),
    )
    | st.builds(
        ChatMessage,
        parts=st.lists(WORDS, min_size=1, max_size=2),
        role=st.just("tool"),
        additional_kwargs=st.fixed_dictionaries({"tool_call_id": NAMES}),
    )
)


def encoded(message):
    """What OpenAI's API would take for a message: a small writer for these tests only."""
    content = [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": {"url": part.url, "detail": part.detail}}
        for part in message.parts
        if not isinstance(part, ToolCallPart)
    ]
    calls = [
        {
            "id": call.tool_call_id,
            "type": "function",
            "function": {"name": call.tool_name, "arguments": json.dumps(call.tool_kwargs)},
        }
        for call in message.tool_calls
    ]
    plain = len(content) == 1 and content[0]["type"] == "text"
    data = {"role": str(message.role), "content": content[0]["text"] if plain else content or None}
    return {**data, **({"tool_calls": calls} if calls else {}), **message.additional_kwargs}


@pytest.mark.slow
@given(st.lists(MESSAGES, min_size=1, max_size=6), st.booleans())
def test_what_is_written_is_read_back_equal(messages, ascii_only):
    values = [encoded(message) for message in messages]
    texts = [
        json.dumps(values, ensure_ascii=ascii_only),
        json.dumps({"messages": values}, ensure_ascii=ascii_only, indent=2),
        "\n".join(json.dumps(value, ensure_ascii=ascii_only) for value in values),
    ]
    for text in texts:
        found = read_conversation(text.encode(), filename="a.json")
        assert (found.messages, found.skipped) == (tuple(messages), ())


# Real conversations


def test_a_real_conversation_reads_the_same_from_both_formats(data_file):
    raw = json.loads(data_file("tau-bench/one_conversation.json").read_text())
    found = [
        read_conversation(data_file(f"tau-bench/{name}").read_bytes(), filename=name)
        for name in ("one_conversation.json", "one_conversation.jsonl")
    ]
    assert found[0] == found[1]
    assert (found[0].title, found[0].skipped, found[0].notes) == ("one_conversation", (), ())
    assert [str(message.role) for message in found[0].messages] == [message["role"] for message in raw]
    assert [message.content for message in found[0].messages] == [message["content"] for message in raw]
    assert found[0].tool_calls == sum(len(message.get("tool_calls", [])) for message in raw)


def test_a_file_of_real_trajectories_is_listed_and_each_can_be_picked(data_file):
    data = data_file("tau-bench/airline_100.json").read_bytes()
    raw = json.loads(data)
    listed = list_conversations(data, filename="airline_100.json")
    assert listed == tuple(Listed(f"airline_100 {number}", len(entry["traj"])) for number, entry in enumerate(raw, 1))
    picked = read_conversation(data, filename="airline_100.json", pick=len(raw) - 1)
    assert [message.content for message in picked.messages] == [message["content"] for message in raw[-1]["traj"]]


def test_what_a_conversation_has_beside_its_texts_is_noted():
    said = {"role": "assistant", "text": "Hi", "apis": [{"request": {}}]}
    found = read_conversation(
        json.dumps({"conversation": [{"role": "user", "text": "Hello"}, said]}), filename="a.json"
    )
    assert found == Conversation(READ, (), (Note(None, None, '"apis" was not imported (1 message)'),), "a")


@pytest.mark.data
def test_a_real_conversation_with_calls_of_its_own_form_comes_with_its_texts_and_a_note():
    found = read_conversation(shared("tooltalk/data/easy/AddAlarm-easy.json").read_bytes(), filename="AddAlarm.json")
    assert [str(message.role) for message in found.messages] == ["user", "assistant", "user"]
    assert any("apis" in note.text for note in found.notes)


# Conversations of an export, each by itself

ASKED, TOLD = {"sender": "human", "text": "Soup?"}, {"sender": "assistant", "text": "Leek."}


def texts(value, pick=None):
    conversation = read_conversation(json.dumps(value), filename="export.json", pick=pick)
    return [message.content for message in conversation.messages]


@pytest.mark.parametrize("broken", [None, {"uuid": "b"}, {"chat_messages": None}, {"title": "b", "mapping": {}}, 5])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_conversation_that_cannot_be_read_costs_itself_alone(broken, place):
    entries = [{"name": name, "chat_messages": [ASKED, TOLD]} for name in ("A", "C")]
    entries.insert(place, broken)
    listed = list_conversations(json.dumps(entries), filename="export.json")
    assert [(each.messages, bool(each.problem)) for each in listed if each.problem] == [(0, True)]
    assert [each.title for each in listed if not each.problem] == ["A", "C"]
    with pytest.raises(FormatError):
        texts(entries, place)
    good = read_conversation(json.dumps(entries), filename="export.json", pick=(place + 1) % 3)
    assert f"conversation {place + 1} is left out" in good.notes[-1].text


def claude(*links):
    return {"chat_messages": [{**ASKED, "text": id, "uuid": id, "parent_message_uuid": before} for id, before in links]}


def test_of_edited_questions_the_last_is_the_conversation_and_the_others_are_branches():
    export = [claude(("a", "root"), ("b", "a"), ("c", "a"), ("d", "c"))]
    assert [each.title for each in list_conversations(json.dumps(export), filename="export.json")] == [
        "export",
        "export (branch 1)",
    ]
    assert texts(export, 0) == ["a", "c", "d"]
    assert texts(export, 1) == ["a", "b"]


def test_messages_whose_links_form_a_circle_or_lead_nowhere_are_read_in_a_row():
    assert texts([claude(("a", "b"), ("b", "a"))]) == ["a", "b"]
    assert texts([claude(("a", "x"), ("b", "y"), ("c", "z"))]) == ["a", "b", "c"]


def replied(id, *children):
    return {"messageId": id, "text": id, "sender": "Cook", "isCreatedByUser": len(id) == 1, "children": list(children)}


def test_replies_inside_of_messages_are_read_and_each_last_one_first():
    value = {"title": "Bread", "messages": [replied("a", replied("aa", replied("b")), replied("bb", replied("c")))]}
    assert texts(value, 0) == ["a", "bb", "c"]
    assert texts(value, 1) == ["a", "aa", "b"]
    roles = read_conversation(json.dumps(value), filename="bread.json", pick=0).messages
    assert [str(message.role) for message in roles] == ["user", "assistant", "user"]


@pytest.mark.parametrize("key", ["system", "instructions"])
@pytest.mark.parametrize("prompt", ["Be calm.", [{"type": "text", "text": "Be calm."}], [{"text": "Be calm."}]])
def test_a_system_prompt_beside_the_messages_is_the_first_of_them(key, prompt):
    conversation = read_conversation(json.dumps({key: prompt, "messages": [HELLO]}), filename="a.json")
    first = conversation.messages[0]
    assert (str(first.role), first.content) == ("system", "Be calm.")
    assert [note.text for note in conversation.notes] == [f'"{key}" became the first message']


FIELDS = st.sampled_from(["comment", "replies", "translation"])
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "Nd")), min_size=1)
MESSAGES_OF = {
    "Claude": (ASKED, "chat_messages"),
    "ShareGPT": ({"from": "human", "value": "Soup?"}, "conversations"),
    "LangChain": ({"type": "human", "data": {"content": "Soup?"}}, "messages"),
    "OpenAI": (HELLO, "messages"),
}


@pytest.mark.parametrize("form", MESSAGES_OF)
@given(FIELDS, WORDS | st.lists(st.integers(), min_size=1))
def test_a_field_that_no_reader_reads_is_a_note_in_every_form(form, field, content):
    message, key = MESSAGES_OF[form]
    inner = (
        {**message, "data": {**message["data"], field: content}} if "data" in message else {**message, field: content}
    )
    conversation = read_conversation(json.dumps({key: [inner], field: content}), filename="a.json")
    assert [note.text for note in conversation.notes] == [
        f'"{field}" was not imported (1 message)',
        f'"{field}" beside the messages was not imported',
    ]


@pytest.mark.parametrize("field", ["memory", "fact", "results"])
def test_a_conversation_is_not_called_another_kind_by_a_field_of_its_messages(field):
    conversation = read_conversation(json.dumps([{**HELLO, field: "words"}]), filename="a.json")
    assert [note.text for note in conversation.notes] == [f'"{field}" was not imported (1 message)']
