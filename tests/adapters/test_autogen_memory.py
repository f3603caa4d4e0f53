"""AutoGen's assistant on this engine's memory, against a scripted endpoint."""

import asyncio

import autogen_agentchat.agents as agentchat
import autogen_core.memory as core
import autogen_core.model_context as contexts
import autogen_core.models as models
import autogen_ext.models.openai as clients
import pytest
from autogen_core import FunctionCall
from content_forms import CONTENT, PARTS
from models.scripted_server import ScriptedServer

from adapters.frameworks import QUESTIONS, RESULT, memory, restarted, script, words
from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, MessageError, VectorMemoryBlock
from memory_core.adapters.autogen import InspectedMemory
from memory_core.formats.chat_completions import to_openai

pytestmark = pytest.mark.filterwarnings("ignore")  # AutoGen's own
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "x", "structured_output": False}


async def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


async def run(uri, url, *questions, model_context=None, **given):
    client = clients.OpenAIChatCompletionClient(model="m", base_url=url, api_key="x", max_retries=0, model_info=INFO)
    kept = InspectedMemory(memory(uri, **given))
    agent = agentchat.AssistantAgent(
        "weather",
        client,
        tools=[forecast],
        memory=[kept],
        system_message=None,
        reflect_on_tool_use=True,
        model_context=model_context,
    )
    for number, question in enumerate(questions, 1):
        await agent.run(task=question)
        said = kept.memory.get_all()[-4:]
        assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"], (
            f"turn {number}, at once"
        )
    await client.close()


def test_the_recorded_prompts_are_what_the_model_saw_over_tools_a_flush_and_a_restart(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script()) as server:
        asyncio.run(run(uri, server.url, *QUESTIONS[:2]))
        asyncio.run(run(uri, server.url, QUESTIONS[2]))
    kept = restarted(uri)
    said = kept.get_all()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"] * 3
    assert kept.events(kinds=["flush_planned"])
    built = kept.events(kinds=["context_built"])
    assert [record.turn for record in built] == [1, 2, 3]
    for number, record in enumerate(built):
        prompt = list(kept.log.prompt(record).messages)
        first, second = (words(body["messages"]) for body in server.bodies[2 * number : 2 * number + 2])
        assert first == words(to_openai(prompt))
        assert second == words(to_openai([*prompt, *said[4 * number + 1 : 4 * number + 3]]))
    assert "lives in Faro" in str(server.bodies[4]["messages"][0]), "the fact of what was flushed is in the prompt"


def test_a_context_that_keeps_only_the_newest_messages_is_put_once(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script()) as server:
        newest = contexts.BufferedChatCompletionContext(buffer_size=5)
        asyncio.run(run(uri, server.url, *QUESTIONS, model_context=newest))
    said = restarted(uri).get_all()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"] * 3
    assert [message.content for message in said[::4]] == list(QUESTIONS)


def test_facts_are_added_and_asked_for_as_with_autogen_s_own_memory(tmp_path):
    async def added():
        kept = InspectedMemory(memory(f"sqlite:///{tmp_path}/a.db"))
        text = core.MemoryMimeType.TEXT
        await kept.add(core.MemoryContent(content="The user likes metric units", mime_type=text))
        found = await kept.query("Which units?")
        assert [each.content for each in found.results] == ["The user likes metric units"]
        await kept.clear()
        assert kept.memory.get_all() == []

    asyncio.run(added())


SECRET = core.MemoryContent(content="secret plan", mime_type=core.MemoryMimeType.TEXT, metadata={"from": "ada"})


def contents(kept, question):
    return [each.content for each in asyncio.run(kept.query(question)).results]


@pytest.mark.parametrize("scope", ["session", "user"])
def test_clear_leaves_nothing_of_what_was_added_said_or_learned(scope):
    blocks = [FactExtractionMemoryBlock(name="facts", priority=1, scope=scope), VectorMemoryBlock(name="turns")]
    kept = InspectedMemory(Memory.from_defaults("s", "ada", memory_blocks=blocks))
    asyncio.run(kept.add(SECRET))
    kept.memory.put_messages([ChatMessage("I live in Faro.", role="user"), ChatMessage("Noted.", role="assistant")])
    kept.memory.flush(all=True)
    assert kept.memory.facts.read("facts")[0].metadata == {"from": "ada"}
    assert "secret plan" in contents(kept, "Which plan?")
    asyncio.run(kept.clear())
    assert contents(kept, "Which plan? Who lives in Faro?") == []
    assert kept.memory.facts.read("facts", states=None) == []
    asyncio.run(kept.add(SECRET))
    assert contents(kept, "Which plan?") == ["secret plan"], "and it goes on"


@pytest.mark.parametrize(
    ("content", "mime", "text"),
    [
        (
            {"key": "value", "caf\u00e9": [1, None]},
            core.MemoryMimeType.JSON,
            '{"key": "value", "caf\u00e9": [1, null]}',
        ),
        ("# Plan", core.MemoryMimeType.MARKDOWN, "# Plan"),
        ("caf\u00e9".encode(), core.MemoryMimeType.BINARY, "caf\u00e9"),
    ],
)
def test_what_can_be_read_is_added_once_in_its_words(content, mime, text):
    kept = InspectedMemory(Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")]))
    for _ in range(2):
        asyncio.run(kept.add(core.MemoryContent(content=content, mime_type=mime)))
    assert contents(kept, "What is known?") == [text]
    assert asyncio.run(kept.query(core.MemoryContent(content=content, mime_type=mime))).results


def test_what_cannot_be_read_is_refused_in_a_sentence():
    kept = InspectedMemory(Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")]))
    with pytest.raises(MessageError, match="this bytes is neither"):
        asyncio.run(kept.add(core.MemoryContent(content=b"\xff\xd8", mime_type=core.MemoryMimeType.BINARY)))


def following(memory, *messages):
    """What memory and context hold after an agent's context was given these messages, as AutoGen has them."""

    async def given():
        kept, context = InspectedMemory(memory), contexts.UnboundedChatCompletionContext()
        await kept.update_context(context)
        for message in messages:
            await context.add_message(message)
        said = kept.memory.get_all()
        await kept.update_context(context)
        return said, await context.get_messages()

    return asyncio.run(given())


@pytest.mark.parametrize("part", PARTS)
def test_messages_with_any_part_leave_the_agent_going_and_their_words_are_kept(part):
    answer = models.AssistantMessage.model_construct(content=[part, "By the ferry"], source="a", thought=None)
    result = models.FunctionExecutionResult.model_construct(content=[part, "six"], name="look", call_id="c")
    results = models.FunctionExecutionResultMessage.model_construct(content=[result])
    system = models.SystemMessage.model_construct(content=[part, "Be brief."])
    with Memory.from_defaults() as memory:
        said, prompt = following(memory, models.UserMessage(content="How?", source="u"), answer, results, system)
    words = "\n".join(message.content or "" for message in said)
    assert all(each in words for each in ("How?", "By the ferry", "six", "Be brief."))
    assert "By the ferry" in str(prompt)


def test_what_a_model_thought_is_kept_as_its_thought_and_beside_calls_as_its_words():
    call = FunctionCall(id="c", name="look", arguments="{")
    with Memory.from_defaults() as memory:
        said, prompt = following(
            memory,
            models.AssistantMessage(content="Six.", thought="Two threes.", source="a"),
            models.AssistantMessage(content=[call], thought="I look.", source="a"),
        )
    assert [[part.type for part in message.parts] for message in said] == [["thinking", "text"], ["text", "tool_call"]]
    assert [message.thought for message in prompt] == ["Two threes.", "I look."]


@pytest.mark.parametrize("part", [part for _, part in CONTENT.values()])
def test_a_prompt_with_any_part_goes_to_the_agent_which_is_told_of_what_it_cannot_be_shown(part):
    with Memory.from_defaults() as memory:
        memory.put(ChatMessage(parts=[part]))
        _, [message] = following(memory)
    if part.type in ("image", "document", "audio", "video"):
        assert "not shown to the model" in str(message.content)
