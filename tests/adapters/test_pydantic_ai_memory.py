"""Pydantic AI's agents on this engine's memory, against a scripted endpoint."""

import asyncio
import json
from contextlib import asynccontextmanager

import openai
import pydantic_ai
import pytest
from content_forms import CONTENT
from models.scripted_server import ScriptedServer, Step, chunk, completion, streamed
from pydantic import BaseModel
from pydantic_ai import messages as theirs
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from adapters.frameworks import QUESTIONS, RESULT, assert_prompts_are_on_record, memory, restarted, script
from memory_core import ChatMessage, Memory
from memory_inspector.adapters.pydantic_ai import InspectedMemory, _ours

pytestmark = pytest.mark.filterwarnings("ignore")  # its client leaves connections to the garbage collector
RULES = "Answer in one sentence."


def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


def agent(model, kept, **given):
    return pydantic_ai.Agent(model, tools=[forecast], capabilities=[InspectedMemory(kept)], **given)


@asynccontextmanager
async def endpoint(url):
    """The model of an endpoint, whose connections are closed again."""
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        yield OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))


def ask(asked, question, **given):
    return asyncio.run(asked.run(question, **given))


def talk(uri, url, *questions, streamed=False, whole=False, **given):
    """Ask questions in runs of one agent; with `whole`, each run is given the history of those before."""

    async def run():
        async with endpoint(url) as model:
            return await talked(agent(model, kept := memory(uri), **given), kept)

    async def talked(asked, kept):
        history = None
        for question in questions:
            if streamed:
                async with asked.run_stream(question) as result:
                    await result.get_output()
                history = result.all_messages()
            else:
                result = await asked.run(question, message_history=history if whole else None)
                history = result.all_messages()
            roles = [message.role for message in kept.get_all()[-4:]]
            assert roles == ["user", "assistant", "tool", "assistant"], "at once"
        return history

    return asyncio.run(run())


@pytest.mark.parametrize("whole", [False, True])
def test_the_recorded_prompts_are_what_the_model_saw_over_tools_a_flush_and_a_restart(tmp_path, whole):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script()) as server:
        talk(uri, server.url, *QUESTIONS[:2], whole=whole)
        talk(uri, server.url, QUESTIONS[2], whole=whole)
    assert_prompts_are_on_record(restarted(uri), server)


def test_rules_of_the_agent_are_sent_as_before_and_counted_beside_the_memory(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script(2)) as server:
        talk(uri, server.url, *QUESTIONS[:2], whole=True, instructions=RULES, system_prompt="Be kind.")
    kept = restarted(uri)
    assert "Be kind." not in str(kept.get_all())
    assert RULES not in str(kept.get_all())
    for body in server.bodies:
        text = json.dumps(body["messages"])
        assert text.count("Be kind.") == 1
        assert text.count(RULES) == 1
    taken = [record.event.reserved_tokens for record in kept.events(kinds=["context_built"])]
    assert min(taken) > kept.session.count_tokens(RULES), "instructions, system prompt and the tool"


def test_a_streamed_run_is_stored_as_any_other(tmp_path):
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "forecast", "arguments": '{"place": "F"}'}}
    tool = Step(stream=[chunk(tool_calls=[call]), chunk(finish="tool_calls"), "[DONE]"])
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(tool, streamed("Sunny all day."), tool, streamed("Rain.")) as server:
        talk(uri, server.url, *QUESTIONS[:2], streamed=True)
    said = restarted(uri).get_all()
    assert [message.content for message in said][3::4] == ["Sunny all day.", "Rain."]
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"] * 2


def test_the_history_of_the_agent_itself_stays_as_it_was(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script(2)) as server:
        history = talk(uri, server.url, *QUESTIONS[:2], whole=True)
    asked = [part.content for message in history for part in message.parts if part.part_kind == "user-prompt"]
    assert asked == list(QUESTIONS[:2])
    assert "memory" not in str(history)


def answers(*responses):
    """A model that gives these responses, and keeps what it was sent."""
    waiting, sent = list(responses), []

    def answer(messages, info):
        sent.append(messages)
        return theirs.ModelResponse(parts=waiting.pop(0))

    return FunctionModel(answer), sent


def test_an_answer_by_an_output_tool_and_what_had_to_be_asked_again_are_kept(tmp_path):
    class Place(BaseModel):
        name: str

    model, _ = answers(
        [theirs.ToolCallPart("final_result", {"nom": "Faro"})], [theirs.ToolCallPart("final_result", {"name": "Faro"})]
    )
    kept = memory(f"sqlite:///{tmp_path}/a.db")
    result = ask(agent(model, kept, output_type=Place), "Where am I?")
    assert result.output.name == "Faro"
    said = kept.get_all()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant", "tool"]
    assert [call.arguments for message in said for call in message.tool_calls] == [
        '{"nom": "Faro"}',
        '{"name": "Faro"}',
    ]


def test_what_came_before_an_error_is_kept_and_the_error_is_the_agent_s(tmp_path):
    def fails(place: str) -> str:
        raise RuntimeError("no weather")

    model, _ = answers([theirs.ToolCallPart("fails", {"place": "Faro"}, tool_call_id="c")])
    kept = memory(f"sqlite:///{tmp_path}/a.db")
    asked = pydantic_ai.Agent(model, tools=[fails], capabilities=[InspectedMemory(kept)])
    with pytest.raises(RuntimeError, match="no weather"):
        ask(asked, "How is it?")
    assert [message.role for message in kept.get_all()] == ["user", "assistant"]


def test_two_runs_at_once_are_given_memories_of_their_own(tmp_path):
    async def both():
        def answer(messages, info):
            [asked] = [part.content for part in messages[-1].parts if isinstance(part, theirs.UserPromptPart)]
            return theirs.ModelResponse(parts=[theirs.TextPart(f"You said: {asked}")])

        asked = pydantic_ai.Agent(FunctionModel(answer))
        kept = [Memory.from_defaults(name, database_uri=f"sqlite:///{tmp_path}/a.db") for name in ("ada", "bob")]
        runs = (asked.run(f"I am {m.session_id}", capabilities=[InspectedMemory(m)]) for m in kept)
        await asyncio.gather(*runs)
        return [[message.content for message in memory.get_all()] for memory in kept]

    assert asyncio.run(both()) == [[f"I am {name}", f"You said: I am {name}"] for name in ("ada", "bob")]


def test_a_memory_that_cannot_store_an_answer_does_not_stop_the_agent(tmp_path, caplog):
    model, _ = answers([theirs.TextPart("Sunny.")])
    kept = memory(f"sqlite:///{tmp_path}/a.db")
    put = kept.put_messages

    def refuses(messages, **options):
        if any(message.role == "assistant" for message in messages):
            raise RuntimeError("disk is full")
        return put(messages, **options)

    kept.put_messages = refuses
    assert ask(agent(model, kept), "How is it?").output == "Sunny."
    assert "Messages were not kept" in caplog.text


USER = [
    "How?",
    theirs.ImageUrl(url="https://a.test/a.png"),
    theirs.BinaryContent(data=b"\0\1", media_type="image/png"),
    theirs.DocumentUrl(url="https://a.test/a.pdf"),
    theirs.TextContent(content="By the way"),
    theirs.CachePoint(),
]
RESPONSE = [
    theirs.ThinkingPart(content="Two threes."),
    theirs.TextPart(content="Six."),
    theirs.ToolCallPart("look", "{", tool_call_id="c"),
    theirs.NativeToolCallPart("web_search", {"q": "six"}, tool_call_id="d"),
    theirs.FilePart(content=theirs.BinaryContent(data=b"\0", media_type="image/png")),
]
REQUEST = [
    theirs.SystemPromptPart(content="Be brief."),
    theirs.UserPromptPart(content=USER),
    theirs.ToolReturnPart("look", {"seen": [1, None]}, tool_call_id="c"),
    theirs.RetryFeedbackPart(content="That is no place.", retry=theirs.RetryInfo(cause="validation_error")),
]


def test_parts_of_every_kind_are_kept_in_order():
    said = [*_ours(theirs.ModelResponse(parts=RESPONSE)), *_ours(theirs.ModelRequest(parts=REQUEST, instructions="x"))]
    assert [message.role for message in said] == ["assistant", "user", "tool", "system"]
    assert [part.type for part in said[0].parts] == ["thinking", "text", "tool_call", "tool_call", "image"]
    assert [part.type for part in said[1].parts] == ["text", "image", "image", "document", "text"]
    assert said[2].content == '{"seen": [1, null]}'
    assert said[2].tool_call_id == "c"
    assert said[3].content.startswith("That is no place.")


@pytest.mark.parametrize("part", [part for _, part in CONTENT.values()])
def test_a_prompt_with_any_part_goes_to_the_model_which_is_told_of_what_it_cannot_be_shown(part):
    model, sent = answers([theirs.TextPart("Yes.")])
    with Memory.from_defaults() as kept:
        kept.put(ChatMessage(parts=[part]))
        ask(agent(model, kept), "Do you see it?")
    [prompt] = sent
    asked = [part.content for message in prompt for part in message.parts if part.part_kind == "user-prompt"]
    shown = [item for content in asked for item in ([content] if isinstance(content, str) else content)]
    if part.type in ("image", "document", "audio", "video"):
        assert any(not isinstance(item, str) or "not shown to the model" in item for item in shown)


def test_a_completion_that_is_empty_is_no_message(tmp_path):
    async def run(url):
        async with endpoint(url) as model:
            await pydantic_ai.Agent(model, capabilities=[InspectedMemory(kept)], retries=0).run("How is it?")

    kept = memory(f"sqlite:///{tmp_path}/a.db")
    with ScriptedServer(completion("")) as server, pytest.raises(Exception, match=r"(?i)retries|empty|output"):
        asyncio.run(run(server.url))
    assert next(message.role for message in kept.get_all()) == "user"


@pytest.mark.parametrize("first", [True, False])
def test_a_history_that_another_capability_trims_is_followed_and_stored(first):
    """The tool's result reaches the model, and nothing is stored twice, whichever of the two comes first."""
    model, sent = answers(
        [theirs.ToolCallPart("forecast", {"place": "Faro"}, tool_call_id="c")], [theirs.TextPart("Sunny.")]
    )
    told = [theirs.ModelRequest(parts=[theirs.UserPromptPart(f"Question {n}")]) for n in range(3)]
    history = [message for one in told for message in (one, theirs.ModelResponse(parts=[theirs.TextPart("Yes.")]))]
    with Memory.from_defaults() as kept:
        capabilities = [ProcessHistory(lambda messages: messages[-4:]), InspectedMemory(kept)]
        asked = pydantic_ai.Agent(model, tools=[forecast], capabilities=capabilities if first else capabilities[::-1])
        assert ask(asked, "And in Faro?", message_history=history).output == "Sunny."
        said = [(str(message.role), message.content) for message in kept.get_all()]
    assert len(sent) == 2
    assert RESULT in str(sent[1])
    assert said[-4:] == [("user", "And in Faro?"), ("assistant", None), ("tool", RESULT), ("assistant", "Sunny.")]
    assert said.count(("user", "Question 2")) == 1
