"""Calls of memory tools in words: a line in the chat, a sentence in the log, one bubble with the reply."""

import json

import pytest
from engine_fakes import assistant, open_memory, user
from fakes import FakeChat

from memory_core import MessageRole, StaticMemoryBlock, ToolCallPart
from memory_core.agent import loop
from memory_core.agent.tools import MemoryTools
from memory_core.events import ToolCalled
from memory_core.messages import MEMORY_TOOLS
from memory_inspector.wording.event_sentences import Line, Words, describe
from memory_inspector.wording.event_sentences.event_words import said_text
from memory_inspector.wording.story import TurnLine, story, summaries
from memory_inspector.wording.tool_call_text import arguments_of, chat_line, log_line, pretty_json
from ui.chat.conversation import is_step, spoken_together


def human(**settings):
    return StaticMemoryBlock(name="Human", static_content="", read_only=False, **settings)


@pytest.fixture
def memory():
    return open_memory(memory_blocks=[human(limit=40)], token_limit=4000)


def append(content):
    return ToolCallPart(tool_name="core_memory_append", tool_kwargs={"label": "Human", "content": content})


@pytest.mark.parametrize(
    ("tool", "arguments", "result", "text"),
    [
        (
            "core_memory_append",
            {"content": "Sam\nlives in Porto"},
            "Appended to Human. It has 18 characters.",
            "Appended to Human: Sam lives in Porto",
        ),
        (
            "core_memory_replace",
            {"old_content": "Lisbon", "new_content": "Porto"},
            "Replaced in Human. It has 18 characters.",
            "Replaced in Human: “Lisbon” → “Porto”",
        ),
        (
            "core_memory_replace",
            {"old_content": "Lisbon", "new_content": ""},
            "Replaced in Human. It has 8 characters.",
            "Replaced in Human: “Lisbon” deleted",
        ),
        (
            "memory_insert",
            {"new_string": "Sam is 40"},
            "Inserted into Human. It has 9 of 40 characters.",
            "Inserted into Human: Sam is 40",
        ),
        ("memory_rethink", {"new_memory": "Sam"}, "Rewrote Human. It has 3 characters.", "Rewrote Human: Sam"),
        ("archival_memory_insert", {"content": "Soup first"}, "Archived in Archival.", "Archived: Soup first"),
        (
            "archival_memory_search",
            {"query": "soup"},
            "Found 1 entry:\n- Soup first",
            "Searched the archive for “soup”. Found 1 entry",
        ),
        (
            "conversation_search",
            {"query": "soup"},
            "Found no message.",
            "Searched the conversation for “soup”. Found no message",
        ),
    ],
)
def test_a_call_is_shown_as_what_became_of_it(tool, arguments, result, text):
    assert chat_line(tool, arguments, result, refused=False).text == text
    assert "{" not in text


def test_a_refusal_says_why_and_a_missing_result_is_said():
    told = chat_line("core_memory_append", {}, "Human is read only. Nothing was changed.", refused=True)
    assert (told.text, told.refused) == ("Refused: Human is read only. Nothing was changed.", True)
    assert chat_line("x", {}, None, refused=False).text == "Called a memory tool; no result was stored"


@pytest.mark.parametrize("tool", sorted(MEMORY_TOOLS))
def test_every_tool_has_words_even_where_its_words_were_erased(tool):
    for refused in (True, False):
        line = log_line(tool, "Human", {}, None, refused=refused)
        assert line.text
        assert tool not in line.text
        assert "called a tool" not in line.text
    assert chat_line(tool, {}, "", refused=False).text


@pytest.mark.parametrize("stored", [None, "", "{broken", "[1]", "(nested too deeply)"])
def test_arguments_that_are_none_are_none(stored):
    assert arguments_of(stored) == {}


def test_the_log_tells_how_much_went_where(memory):
    tools = MemoryTools(memory)
    tools.call(append("Sam lives in Porto and more"))
    tools.call(append("and on" * 9))
    done, refused = (record.event for record in memory.events(kinds=("tool_called",)))
    said = memory.log.texts(key for event in (done, refused) for key in (event.arguments, event.result))
    words = Words({}, {}, {}, texts=said)
    assert describe(done, words) == Line("edit_note", "The agent appended 27 characters to Human")
    assert describe(refused, words) == Line(
        "block",
        "Refused a change by the agent to Human: Human would have 82 characters; its limit is 40. "
        "Nothing was changed. Shorten it first",
        "waiting",
    )
    erased = Words({}, {}, {})
    assert describe(done, erased).text == "The agent appended text to Human"


def test_a_turn_tells_its_edits_and_counts_what_was_written(memory):
    memory.put(user("I live in Porto"))
    tools = MemoryTools(memory)
    tools.call(append("Sam lives in Porto"))
    tools.call("conversation_search", query="Porto")
    tools.call("memory_wipe")
    records = memory.events(turn=1)
    summary = summaries(records)[1]
    assert summary.edited == 1
    assert summary.in_short(1) == "Turn 1 · edited 1 time"
    assert TurnLine(edited=2, flushed=4).in_short(3) == "Turn 3 · edited 2 times · flushed 4 messages"
    events = [record.event for record in records if isinstance(record.event, ToolCalled)]
    said = memory.log.texts(key for event in events for key in (event.arguments, event.result))
    lines = [line.text for line in story(records, Words({}, {}, {}, texts=said))]
    assert lines[:2] == ["The agent appended 18 characters to Human", "The agent searched the conversation for “Porto”"]
    assert lines[2].startswith("Refused a change by the agent to its memory: There is no tool “memory_wipe”")


def test_what_the_agent_did_and_what_it_then_said_are_one_bubble(memory):
    memory.put(user("I live in Porto"), message_id="t-user")
    loop.reply(memory, FakeChat(["Wait. ", append("Sam lives in Porto")], [append("x")], "Noted."), "t")
    memory.put(user("And?"))
    memory.put(assistant("Nothing."))
    groups = spoken_together(memory.session.messages())
    assert [[str(m.message.role) for m in group] for group in groups] == [
        ["user"],
        ["assistant", "tool", "assistant", "tool", "assistant"],
        ["user"],
        ["assistant"],
    ]
    assert [is_step(m) for m in groups[1]] == [True, True, True, True, False]
    assert [len(group) for group in spoken_together(memory.session.messages()[2:])] == [3, 1, 1]


def test_in_the_log_a_message_of_calls_is_quoted_without_its_arguments(memory):
    memory.put(user("I live in Porto"), message_id="t-user")
    loop.reply(memory, FakeChat(["Wait. ", append("Sam lives in Porto")], "Noted."), "t")
    stored = [said_text(m.message.to_json()) for m in memory.session.messages()]
    assert stored[1] == "Wait. (with calls of its memory tools)"
    assert stored[2] == "Appended to Human. It has 18 of 40 characters."


def test_tool_calls_of_another_agent_stay_messages_of_their_own(memory):
    call = ToolCallPart(tool_call_id="a", tool_name="weather", tool_kwargs=json.loads('{"city": "Porto"}'))
    calls = assistant("x").with_parts([call])
    result = user("rain").model_copy(update={"role": MessageRole.TOOL, "additional_kwargs": {"tool_call_id": "a"}})
    memory.put_messages([user("Weather?"), calls, result, assistant("Rain.")])
    assert [len(group) for group in spoken_together(memory.session.messages())] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "text", ["", "plain", "17", '"a"', "{", "[" * 100_000, "null", "{'a': 1}"], ids=lambda text: text[:8] or "empty"
)
def test_what_is_no_json_object_or_array_is_not_taken_for_one(text):
    assert pretty_json(text) is None


@pytest.mark.parametrize("text", ['{"a": 1.10}', '{"a": "\\u00e9"}', '{"a": 1, "a": 2}', "[1e3]"])
def test_json_that_would_not_stay_the_same_is_shown_as_it_came(text):
    assert pretty_json(text) == text


def test_json_gets_line_breaks_and_nothing_else():
    assert pretty_json('{"a":{"b":[]},"ü":"x y"}') == '{\n  "a": {\n    "b": []\n  },\n  "ü": "x y"\n}'
