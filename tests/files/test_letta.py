"""Letta's agent files come with their blocks, their messages, and what of these was in context."""

import json

import pytest
from shared_data import shared

from memory_core import Database, FormatError
from memory_core.agent.tools import MemoryTools
from memory_core.services import Services
from memory_inspector.files.files import read_file
from memory_inspector.files.stored import import_with_state

FILES = {
    "customer_service.af": ("customer_service", 1, ["human", "persona"], 32_000),
    "loop.af": ("Loop", 3, ["about_user", "active_hypotheses", "conversation_patterns"], 90_000),
    "memgpt_agent.af": ("memgpt_agent", 1, ["human", "persona"], 32_000),
    "memgpt_agent_with_convo.af": ("memgpt_agent", 1, ["human", "persona"], 32_000),
    "outreach_workflow_agent.af": ("outreach_workflow_agent", 1, [], 32_000),
}


def read(name, data_file=shared):
    found = read_file(name, data_file(f"stores/{name}").read_bytes())
    assert (found.kind, found.label) == ("agent_file", "Letta agent file")
    return found.conversation()


def standing(conversation):
    return import_with_state(conversation, Database.open(None), services=Services(), source="a file")


def agent_file(**agent):
    blocks = [{"id": "b", "label": "human", "value": "Ann", "limit": 50, "read_only": True, "description": "Who"}]
    given = {"name": "a", "system": "Be kind.", "messages": [], "block_ids": ["b"], "in_context_message_ids": []}
    return json.dumps({"agents": [{**given, **agent}], "blocks": blocks, "tools": []}).encode()


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_a_published_agent_file_is_a_session_with_its_blocks_and_its_limit(name):
    conversation = read(name)
    title, messages, blocks, limit = FILES[name]
    assert (conversation.title, len(conversation.messages), conversation.token_limit) == (title, messages, limit)
    assert [block.name for block in conversation.blocks][: len(blocks)] == blocks
    memory = standing(conversation)
    assert memory.session.config.token_limit == limit
    static = {block.name: block for block in memory.blocks if block.kind == "static"}
    assert list(static) == [block.name for block in conversation.blocks]
    assert all(static[block.name].state == block.versions[0].text for block in conversation.blocks)
    assert [message.pinned for message in memory.session.messages()] == [True, *[False] * (messages - 1)]
    assert memory.build_context("Hello").plan.total < limit


@pytest.mark.data
def test_the_instructions_stand_without_the_copy_of_the_blocks_that_letta_compiles_into_them():
    file = json.loads(json.loads(shared("stores/customer_service.af").read_text()))
    conversation = read("customer_service.af")
    assert conversation.messages[0].content == file["agents"][0]["system"]
    assert "ANNA" in file["agents"][0]["messages"][0]["content"][0]["text"]
    assert "ANNA" not in conversation.messages[0].content
    memory = standing(conversation)
    assert memory.get("Where is my order?")[0].content.count("Act as ANNA") == 1


def test_calls_and_their_results_come_paired(data_file):
    _, call, result = read("loop.af", data_file).messages
    assert call.tool_calls[0].tool_call_id == result.tool_call_id


@pytest.mark.data
def test_what_stays_behind_is_said():
    conversation = read("loop.af")
    result = conversation.messages[-1]
    assert result.additional_kwargs["time"].startswith("2026-01-22T02:06:3")
    notes = " | ".join(note.text for note in conversation.notes)
    assert "9 tools are not carried over (archival_memory_insert, archival_memory_search" in notes
    assert "claude-sonnet" in notes
    assert "archival memory is not in an agent file" in notes


def test_the_agent_of_a_session_may_edit_the_blocks_that_are_not_read_only(data_file):
    memory = standing(read("loop.af", data_file))
    assert {block.name for block in MemoryTools(memory).core_blocks} >= {"about_user", "scratchpad"}
    kept = standing(read_file("a.af", agent_file()).conversation())
    assert not MemoryTools(kept).core_blocks
    assert kept.blocks[0].settings["limit"] == 50
    assert kept.blocks[0].settings["description"] == "Who"


def test_what_is_not_in_context_is_archived():
    messages = [
        {"id": "m0", "role": "system", "content": [{"type": "text", "text": "compiled"}]},
        {"id": "m1", "role": "user", "content": [{"type": "text", "text": "old"}]},
        {"id": "m2", "role": "assistant", "content": [{"type": "reasoning", "reasoning": "Hm."}, "new"]},
        {"id": "m3", "role": "approval", "content": None},
    ]
    conversation = read_file(
        "a.af", agent_file(messages=messages, in_context_message_ids=["m0", "m2", "gone"])
    ).conversation()
    assert [message.content for message in conversation.messages] == ["Be kind.", "old", "new"]
    assert (conversation.archived, [each.index for each in conversation.skipped]) == ({1}, [3])
    assert standing(conversation).session.status().archived_messages == 1


def test_names_that_no_block_can_have_are_changed():
    block = {"label": "memory", "value": "x"}
    found = read_file("a.af", agent_file(memory_blocks=[block, block, {"label": "<b>\n1"}, {}])).conversation()
    assert [each.name for each in found.blocks] == ["human", "memory block", "memory block 2", "‹b› 1", "Block"]
    assert len(standing(found).blocks) == 7


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"agents": []}', "x.af is an agent file without agents. Nothing was imported."),
        (b'{"agents": [1]}', 'x.af cannot be imported: "agents" is not a list of objects. Nothing was imported.'),
        (b'{"agents": [{}], "blocks": {}}', "x.af holds no messages that can be imported. Nothing was imported."),
        (
            b'{"core_memory": [], "messages": [], "version": "0.6"}',
            "x.af is an agent file of an earlier version of Letta. Import it into Letta 0.11 or later and export it "
            "there. Nothing was imported.",
        ),
    ],
)
def test_what_is_no_agent_file_is_one_sentence(data, says):
    with pytest.raises(FormatError) as error:
        read_file("x.af", data).conversation()
    assert str(error.value) == says


@pytest.mark.parametrize("name", ["loop.af", "customer_service.af"])
def test_an_agent_file_cut_in_half_is_one_sentence(name, data_file):
    data = data_file(f"stores/{name}").read_bytes()
    with pytest.raises(FormatError) as error:
        read_file(name, data[: len(data) // 2])
    assert "ends too early" in str(error.value)
    assert str(error.value).endswith("Nothing was imported.")


def test_a_call_that_waits_for_a_person_and_a_summary_are_messages():
    call = {"id": "c", "type": "function", "function": {"name": "book", "arguments": '{"at": "noon"}'}}
    messages = [
        {"id": "1", "role": "user", "content": [{"type": "text", "text": "Book it"}]},
        {"id": "2", "role": "approval", "content": [{"type": "reasoning", "reasoning": "Ask."}], "tool_calls": [call]},
        {"id": "3", "role": "summary", "content": [{"type": "text", "text": "They booked."}]},
        {"id": "4", "role": "assistant", "content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "Done"}]},
    ]
    found = read_file("a.af", agent_file(messages=messages)).conversation()
    said = [(str(message.role), message.content, len(message.tool_calls)) for message in found.messages]
    assert said == [
        ("user", "Book it", 0),
        ("assistant", None, 1),
        ("system", "They booked.", 0),
        ("assistant", "Done", 0),
    ]
    assert found.skipped == ()
    assert any("hologram" in note.text for note in found.notes)
