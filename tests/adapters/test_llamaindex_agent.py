"""LlamaIndex's own agents and chat engines on this engine's memory, with a scripted model."""

import asyncio
import json

import pytest
from content_forms import PARTS
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.storage.chat_store.sql import MessageStatus
from llama_index.core.workflow import Context
from pydantic import BaseModel

from memory_core import ConfigError, Database, FactExtractionMemoryBlock, Memory, NotFoundError, Services, StoreError
from memory_core.formats.llamaindex_message import message_to_llamaindex
from memory_inspector.adapters.llamaindex import InspectedMemory

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # LlamaIndex's own, of pydantic


class Scripted:
    """Calls the tool for every question, then says what it returned; keeps what it was sent."""

    def __init__(self):
        self.sent = []

    def __call__(self, messages, **given):
        self.sent.append([json.loads(m.model_dump_json()) for m in messages])
        if messages[-1].role == "tool":
            return ChatMessage(f"It is {messages[-1].content}.", role="assistant")
        call = ToolCallBlock(tool_call_id=f"c{len(self.sent)}", tool_name="forecast", tool_kwargs={"place": "Faro"})
        return ChatMessage(role="assistant", blocks=[call])

    @property
    def llm(self):
        return MockFunctionCallingLLM(response_generator=self, is_chat_model=True)


def forecast(place: str) -> str:
    """The weather of a place."""
    return f"sunny in {place}, twenty degrees, and hardly any wind from the west at all"


def words(messages):
    """Messages as what counts of them: who says what, or calls which tool."""
    return [(m["role"], [b.get("text", b.get("tool_name")) for b in m["blocks"]]) for m in messages]


def stored(messages):
    return [message_to_llamaindex(message) for message in messages]


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:///{tmp_path}/agent.db"


def remembering(uri, **given):
    given = {"memory_blocks": [FactExtractionMemoryBlock(name="facts", priority=1)], **given}
    return InspectedMemory.from_defaults(
        session_id="agent", token_limit=110, token_flush_size=40, database_uri=uri, **given
    )


@pytest.mark.parametrize("workflow", [False, True], ids=["FunctionAgent", "AgentWorkflow"])
def test_the_recorded_prompts_are_what_the_model_saw_over_tools_a_flush_and_a_restart(workflow, uri):
    model = Scripted()
    agent = FunctionAgent(tools=[forecast], llm=model.llm)
    run = AgentWorkflow(agents=[agent]).run if workflow else agent.run
    asyncio.run(_turns(run, remembering(uri), "I live in Faro. How is the weather?", "And tomorrow?"))
    asyncio.run(_turns(run, remembering(uri), "Where do I live?"))

    memory = Memory.open("agent", Database.open(uri), services=Services())
    assert memory.events(kinds=["flush_planned"]), "nothing was flushed"
    history = memory.log.history()
    turns = [history.turns[number] for number in (1, 2, 3)]
    assert len(memory.events(kinds=["context_built"])) == 3
    said = stored(memory.get_all())
    for number, turn in enumerate(turns):
        first, second = model.sent[2 * number : 2 * number + 2]
        prompt = stored(memory.log.prompt(turn.built).messages)
        assert words(first) == words(prompt)
        assert words(second) == words([*prompt, *said[4 * number + 1 : 4 * number + 3]])
    assert "Faro" in json.dumps(model.sent[4][0]), "the fact of what was flushed is in the prompt"


async def _turns(run, memory, *questions):
    for question in questions:
        await run(user_msg=question, memory=memory)


def test_a_chat_engine_talks_and_a_stored_context_joins_the_session_again(uri):
    model = Scripted()
    memory = remembering(uri)
    SimpleChatEngine.from_defaults(llm=model.llm, memory=memory).chat("Hello")
    assert [message.role.value for message in memory.get_all()] == ["user", "assistant"]
    agent = FunctionAgent(tools=[], llm=model.llm)
    context = Context(agent)

    async def kept():
        await context.store.set("memory", memory)
        restored = Context.from_dict(agent, json.loads(json.dumps(context.to_dict())))
        return await restored.store.get("memory")

    assert asyncio.run(kept()).get_all() == memory.get_all()
    with pytest.raises(NotFoundError):
        InspectedMemory.from_dict(memory.to_dict() | {"session_id": "nobody"})
    with pytest.raises(ConfigError, match="database_uri"):
        InspectedMemory(session_id="agent", database="sqlite://")


def test_a_chat_engine_s_system_prompt_is_taken_off_the_limit(uri):
    memory, rules = remembering(uri), "Answer as a ferryman would. " * 10
    SimpleChatEngine.from_defaults(llm=Scripted().llm, memory=memory, system_prompt=rules).chat("Hello")
    (record,) = memory.memory.events(kinds=["context_built"])
    assert record.event.measured
    assert record.event.reserved_tokens == memory.memory.session.count_tokens(rules)


@pytest.mark.filterwarnings("ignore::UserWarning")  # pydantic's, of a class that it does not know
def test_an_answer_with_a_part_of_a_later_version_is_kept_with_its_words():
    class Later(BaseModel):
        block_type: str = "later"
        text: str = "By the ferry"
        more: int = 1

    memory = InspectedMemory.from_defaults(session_id="later")
    message = ChatMessage(role="assistant", blocks=[])
    message.blocks.append(Later())
    memory.put(message)
    [kept] = memory.memory.get_all()
    assert kept.content == "By the ferry"
    assert kept.additional_kwargs["other_content"][0]["more"] == 1


def test_a_memory_that_fails_does_not_end_the_agent_s_run(caplog):
    memory = InspectedMemory.from_defaults(session_id="closed")
    memory.memory.close()
    memory.put(ChatMessage("By the ferry", role="assistant"))
    assert len(caplog.records) == 1
    assert "ferry" not in caplog.text
    with pytest.raises(StoreError):
        memory.put(ChatMessage("Open?", role="user"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # pydantic's, of a block that is none of LlamaIndex's
@pytest.mark.parametrize("part", PARTS)
def test_an_answer_with_any_part_is_kept_with_its_words(part):
    said = ChatMessage("By the ferry", role="assistant", additional_kwargs={"raw": part})
    said.blocks += [part, ToolCallBlock.model_construct(block_type="tool_call", tool_name="look", tool_kwargs=part)]
    kept = InspectedMemory.from_defaults()
    kept.put(ChatMessage("How?", role="user"))
    kept.put(said)
    assert [message.content.partition("\n")[0] for message in kept.memory.get_all()] == ["How?", "By the ferry"]
    assert "By the ferry" in str(kept.get())


def test_queue_and_archive_are_read_and_reset_apart_as_with_llamaindex_s_memory():
    memory = InspectedMemory(Memory.from_defaults())
    memory.put(ChatMessage(role="user", content="gone"))
    memory.memory.flush(all=True)
    memory.put(ChatMessage(role="user", content="here"))

    def contents(status):
        read = memory.get_all(status=status), asyncio.run(memory.aget_all(status=status))
        assert [m.content for m in read[0]] == [m.content for m in read[1]]
        return [message.content for message in read[0]]

    assert [contents(status) for status in (None, "archived", MessageStatus.ACTIVE)] == [
        ["gone", "here"],
        ["gone"],
        ["here"],
    ]
    asyncio.run(memory.areset(status=MessageStatus.ARCHIVED))
    assert contents(None) == ["here"]
    memory.reset(status="active")
    assert contents(None) == []
    with pytest.raises(ConfigError, match="active, archived"):
        memory.get_all(status="lost")
