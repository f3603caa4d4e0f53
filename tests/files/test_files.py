import io
import json
import zipfile

import pytest
from engine_fakes import assistant, blocks, note, open_memory, user

from memory_core import ChatMessage, FormatError, ImagePart, Memory, TextPart, ThinkingPart, ToolCallPart
from memory_core.bundles.bundle import write_bundle
from memory_inspector.files.files import export_configuration, export_messages, read_file

TALK = b'{"role": "user", "content": "Hello"}\n{"role": "assistant", "content": "Hi"}\n'


def refused(name, data):
    with pytest.raises(FormatError) as error:
        read_file(name, data)
    return str(error.value)


@pytest.fixture
def memory():
    made = open_memory(memory_blocks=blocks())
    for number in range(6):
        made.put(note(number))
    return made


def test_messages_are_read_as_before():
    found = read_file("a/b/talk.jsonl", TALK)
    assert (found.name, found.kind, found.label) == ("talk.jsonl", "openai", "Conversation")
    assert found.conversation().messages == (user("Hello"), assistant("Hi"))
    several = read_file("two.json", b'[{"messages": [{"role": "user", "content": "A"}]}, {"messages": []}]')
    assert [listed.messages for listed in several.conversations] == [1, 0]
    assert several.conversation(0).messages == (user("A"),)


def test_what_a_file_is_shows_in_its_content_not_its_name(memory):
    bundle = write_bundle(memory.session.database, memory.session_id)
    assert read_file("talk.zip", TALK).kind == "openai"
    assert read_file("talk.jsonl", bundle).kind == "bundle"
    assert read_file("talk.jsonl", bundle).bundle.messages == 6
    assert read_file("bundle.zip", export_configuration(memory).encode()).kind == "configuration"
    assert read_file("x.db", b'{"store": {"k": [{"role": "user", "content": "A"}]}}').kind == "chat_store"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("notes.pdf", b"%PDF-1.7 ...", "notes.pdf is not a conversation: it is a PDF document. Choose a JSON or JSONL"),
        ("cat.png", b"\x89PNG\r\n...", "cat.png is not a conversation: it is a PNG image."),
        ("x.bin", b"\x00\x01\x02", "x.bin is not a conversation: it is binary data."),
        ("empty.json", b"", "empty.json is empty."),
        ("note.txt", b"Dear diary", "note.txt is not a conversation: it starts with neither [ nor {."),
        ("x.json", b'{"a": 1}', 'x.json is not a conversation: it has no list named "messages".'),
        ("x.json", b'"a text"', "x.json is not a conversation: it starts with neither [ nor {."),
        ("x.zip", b"PK\x05\x06" + b"\x00" * 18, "x.zip is not a conversation: it is a zip archive, but not a bundle"),
        ("C:\\evil\\..\\x.json", b'{"store": 3}', "x.json is not a conversation"),
    ],
)
def test_what_is_nothing_of_this_is_said_in_one_sentence(name, data, said):
    sentence = refused(name, data)
    assert sentence.startswith(said)
    assert sentence.endswith("Nothing was imported.")


def test_a_file_that_is_too_large_is_refused_before_it_is_read():
    size = 20 * 1024 * 1024 + 1
    for start in (b"SQLite format 3\x00", b"\x00", b'{"role": "user", "content": "'):
        data = start + b" " * (size - len(start))
        assert refused("x", data) == "File is 20.1 MB. The most is 20 MB. Nothing was imported."


def test_a_conversation_that_is_not_there_is_named():
    with pytest.raises(FormatError, match=r"has no conversation 3: it holds 1\."):
        read_file("talk.jsonl", TALK).conversation(2)


# -- out -----------------------------------------------------------------------------------------


def test_exported_messages_are_read_again_as_they_were():
    memory = open_memory(token_limit=100_000)
    said = [
        ChatMessage(role="system", content="Be kind."),
        user("Hello “you” 🎈\nand more"),
        ChatMessage(
            role="assistant",
            parts=[
                ThinkingPart(text="Hm."),
                TextPart(text="One"),
                TextPart(text="two"),
                ToolCallPart(tool_call_id="c1", tool_name="search", tool_kwargs={"a": [1, {"b": None}]}),
                ToolCallPart(tool_call_id="c2", tool_name="search", tool_kwargs="not json"),
            ],
        ),
        ChatMessage(role="tool", content="", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(role="tool", content="done", additional_kwargs={"tool_call_id": "c2", "name": "search"}),
        ChatMessage(
            role="user", parts=[TextPart(text="See"), ImagePart(url="data:image/png;base64,AA==", detail="low")]
        ),
    ]
    memory.put_messages(said)
    written = export_messages(memory)
    assert written.count("\n") == len(said)
    assert list(read_file("x.jsonl", written.encode()).conversation().messages) == said


@pytest.mark.parametrize("name", ["one_conversation.json", "airline_100.json"])
def test_real_conversations_with_tools_survive_being_exported(name, data_file):
    conversation = read_file(name, data_file(f"tau-bench/{name}").read_bytes()).conversation(0)
    assert conversation.tool_calls > 0
    memory = Memory.from_defaults(token_limit=10_000_000)
    memory.put_messages(conversation.messages)
    again = read_file("again.jsonl", export_messages(memory).encode()).conversation()
    assert again.messages == conversation.messages


def test_exported_messages_have_archived_ones_too(memory):
    lines = [json.loads(line) for line in export_messages(memory).splitlines()]
    assert len(lines) == 6
    assert memory.session.status().archived_messages > 0
    assert lines[0] == {"role": "user", "content": "note 0 of the day is here"}


def archive_of(**members):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return written.getvalue()


def test_the_archive_that_a_service_exports_is_read_by_its_conversations():
    talk = json.dumps([{"name": "Bread", "chat_messages": [{"sender": "human", "text": "Hello"}]}])
    found = read_file("export.zip", archive_of(users__json="[]", conversations__json=talk, notes__md="# A"))
    assert [each.title for each in found.conversations] == ["Bread"]
    assert found.conversation().messages == (user("Hello"),)
    assert "conversations.json is not a conversation" in refused(
        "export.zip", archive_of(conversations__json='{"a": 1}')
    )
    assert "MB" in refused("export.zip", archive_of(conversations__json=" " * 30_000_000))
