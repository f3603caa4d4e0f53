"""`SelfEditingMemory`: the characteristic example, in Python."""

import asyncio

import pytest
from engine_fakes import NoteExtractor
from fakes import FakeChat, FakeEmbedder

from memory_core import NotFoundError, Services, ToolCallPart
from memory_core.systems.self_editing import SelfEditingMemory


@pytest.fixture
def services(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "MEMORY_INSPECTOR_HOME", "MEMORY_INSPECTOR_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return Services(embedder=FakeEmbedder(), extractor=NoteExtractor())


def test_an_agent_edits_its_own_block_without_any_model(services):
    agent = SelfEditingMemory("monday", human="The user lives in Lisbon", services=services)
    assert agent.reply("I moved to Porto.") == "Noted: “The user moved to Porto”."
    assert agent.block("Human") == "The user moved to Porto"
    assert [revision.actor for revision in agent.memory.blocks.revisions("Human")] == ["engine", "agent"]
    agent.memory.blocks.restore("Human", 1)
    assert agent.block("Human") == "The user lives in Lisbon"


def test_a_model_edits_and_its_words_come_as_it_speaks(services):
    call = ToolCallPart(tool_name="memory_rethink", tool_kwargs={"label": "Persona", "new_memory": "I am terse."})
    agent = SelfEditingMemory(chat=FakeChat([call], "Done."), services=services, limit=100)
    heard = []
    assert agent.reply("Be terse.", on_text=heard.append) == "Done."
    assert "".join(heard) == "Done."
    assert agent.blocks == {"Persona": "I am terse.", "Human": ""}


def test_what_is_archived_is_found_again_and_is_in_no_prompt(services):
    agent = SelfEditingMemory(services=services)
    asyncio.run(agent.areply("Archive this: the band wants soup first"))
    assert "soup" not in "".join(message.content or "" for message in agent.memory.get("hello")[:1])
    assert agent.tools.call("archival_memory_search", query="soup first").text.startswith("Found 1 entry:")


def test_a_label_that_is_none_is_said_so(services):
    agent = SelfEditingMemory(services=services)
    with pytest.raises(NotFoundError, match='no core block "Dog": there are Persona, Human'):
        agent.block("Dog")
