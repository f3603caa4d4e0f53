"""LangChain's agent on this engine's memory, against a scripted endpoint."""

import asyncio
import json
from types import SimpleNamespace

import langchain.agents as agents
import langchain_core.tools as tools
import langchain_openai as openai
import pytest
from content_forms import PARTS
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from models.scripted_server import ScriptedServer, completion

from adapters.frameworks import QUESTIONS, RESULT, memory, restarted, script, words
from memory_core import Memory, StaticMemoryBlock
from memory_core.formats.any_message import read_messages
from memory_core.formats.openai_message import to_openai
from memory_inspector.adapters.langchain import InspectedHistory, InspectedMiddleware

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's own


@tools.tool
def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


def agent(uri, url, **given):
    model = openai.ChatOpenAI(model="m", base_url=url, api_key="x", max_retries=0)
    return agents.create_agent(model, [forecast], middleware=[InspectedMiddleware(memory(uri, **given))])


def asked(question):
    return {"messages": [{"role": "user", "content": question}]}


def test_every_recorded_prompt_is_what_the_model_saw_over_tools_a_flush_and_a_restart(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"
    with ScriptedServer(*script()) as server:
        first = agent(uri, server.url)
        state = first.invoke(asked(QUESTIONS[0]))
        first.invoke({"messages": [*state["messages"], *asked(QUESTIONS[1])["messages"]]})  # the whole thread again
        asyncio.run(agent(uri, server.url).ainvoke(asked(QUESTIONS[2])))
    kept = restarted(uri)
    assert [message.role for message in kept.get_all()] == ["user", "assistant", "tool", "assistant"] * 3
    assert kept.events(kinds=["flush_planned"])
    built = kept.events(kinds=["context_built"])
    assert [record.turn for record in built] == [1, 1, 2, 2, 3, 3]
    for record, body in zip(built, server.bodies, strict=True):
        assert words(to_openai(kept.log.prompt(record).messages)) == words(body["messages"])
    assert "lives in Faro" in str(server.bodies[4]["messages"][0]), "the fact of what was flushed is in the prompt"


def test_a_history_keeps_and_gives_back_what_was_said(tmp_path):
    history = InspectedHistory(memory(f"sqlite:///{tmp_path}/a.db"))
    history.add_user_message("Hello")
    history.add_ai_message("Hi")
    assert [(message.type, message.content) for message in history.messages] == [("human", "Hello"), ("ai", "Hi")]
    history.clear()
    assert history.messages == []


class Asked:
    """A model call's request, as the middleware uses it."""

    def __init__(self, messages):
        self.messages = messages

    def override(self, messages):
        return Asked(messages)


def answered(memory, content, **fields):
    """The middleware around a model that answers with some content; the answer, and the prompt it was given."""
    answer = SimpleNamespace(result=[AIMessage(content=content, **fields)])
    given = []

    def model(request):
        given.extend(request.messages)
        return answer

    assert InspectedMiddleware(memory).wrap_model_call(Asked([HumanMessage("Open?", id="h1")]), model) is answer
    return given


@pytest.mark.parametrize("entry", PARTS)
def test_an_answer_with_any_part_reaches_the_agent_and_its_words_are_kept(entry):
    with Memory.from_defaults() as memory:
        answered(memory, [entry, {"type": "text", "text": "By the ferry"}], id="a1")
        assert "By the ferry" in memory.get_all()[1].content
        answered(memory, [entry, {"type": "text", "text": "By the ferry"}], id="a1")
        assert len(memory.get_all()) == 2, "what has the same id is kept once"


def test_a_front_end_that_sends_its_history_without_ids_has_it_stored_once():
    with Memory.from_defaults() as memory:
        model = GenericFakeChatModel(messages=iter([AIMessage("Leek."), AIMessage("Two."), AIMessage("Yes.")]))
        cook = agents.create_agent(model, [], middleware=[InspectedMiddleware(memory)])
        history = []
        for question in ("Which soup?", "How many leeks?", "Is that enough?"):
            history.append({"role": "user", "content": question})
            answer = cook.invoke({"messages": history})["messages"][-1].content
            history.append({"role": "assistant", "content": answer})
            if len(history) == 4:
                history[1] = {"role": "assistant", "content": "Leek, edited."}
        said = [message.content for message in memory.get_all()]
        assert said == ["Which soup?", "Leek.", "How many leeks?", "Two.", "Is that enough?", "Yes."]


def test_langchain_s_own_summary_is_nobody_s_message():
    with Memory.from_defaults() as memory:
        replies = ["Leek.", "Two.", "They spoke of soup.", "Yes.", "They cooked.", "Now."]
        model = GenericFakeChatModel(messages=iter([AIMessage(text) for text in replies]))
        summing = SummarizationMiddleware(model, trigger=("messages", 4), keep=("messages", 1))
        cook = agents.create_agent(
            model, [], middleware=[summing, InspectedMiddleware(memory)], checkpointer=InMemorySaver()
        )
        thread = {"configurable": {"thread_id": "t"}}
        for question in ("Which soup?", "How many leeks?", "Is that enough?"):
            state = cook.invoke(asked(question), thread)
        (summary,) = [m for m in state["messages"] if m.additional_kwargs.get("lc_source") == "summarization"]
        assert not any("summary" in message.content for message in memory.get_all())
        assert [message.role for message in memory.get_all()] == ["user", "assistant"] * 3
    (read,) = read_messages({"type": "human", "data": summary.model_dump()})
    assert read.role == "system"


def test_a_memory_that_fails_does_not_end_the_agent_s_run(caplog):
    memory = Memory.from_defaults()
    memory.close()
    given = answered(memory, "By the ferry")
    assert [message.content for message in given] == ["Open?"]
    assert len(caplog.records) == 3
    assert "ferry" not in caplog.text


def measured(memory, instructions, tools=(), limit=None):
    """The context recorded for one call of an agent with these instructions and tools, and what its model was sent."""
    if limit:
        memory.configure(token_limit=limit)
    with ScriptedServer(completion("By the ferry.")) as server:
        model = openai.ChatOpenAI(model="m", base_url=server.url, api_key="x", max_retries=0)
        made = agents.create_agent(
            model, list(tools), system_prompt=instructions, middleware=[InspectedMiddleware(memory)]
        )
        assert made.invoke(asked("How do I get to Culatra?"))["messages"][-1].content == "By the ferry."
    (record,) = memory.events(kinds=["context_built"])
    return record.event, server.bodies[0]


def test_system_prompt_and_tools_are_a_part_of_the_budget():
    memory = Memory.from_defaults(token_limit=1000)
    event, body = measured(memory, "Answer as a ferryman would. " * 10, [forecast])
    sent = [body["messages"][0]["content"], *(json.dumps(tool, ensure_ascii=False) for tool in body["tools"])]
    assert event.measured
    assert event.reserved_tokens == pytest.approx(sum(map(memory.session.count_tokens, sent)), abs=5)
    assert event.total == event.reserved_tokens + event.queue_tokens
    assert event.billed > event.total
    assert memory.build_context(record=False).plan.reserved_tokens == event.reserved_tokens


def test_a_system_prompt_longer_than_the_limit_still_sends_the_newest_turn():
    memory = Memory.from_defaults(token_limit=60, memory_blocks=[StaticMemoryBlock(static_content="Sea", priority=1)])
    event, body = measured(memory, "Answer as a ferryman would. " * 40)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert event.over_by == event.total - 60 == event.reserved_tokens + event.queue_tokens - 60
    assert "system prompt and tools" in event.over_because


def test_a_tool_that_cannot_be_described_costs_the_count_and_nothing_else(caplog):
    request = Asked([HumanMessage("Open?", id="h1")])
    request.system_prompt, request.tools = "Be brief.", [object()]
    with Memory.from_defaults(reserved_tokens=7) as memory:
        InspectedMiddleware(memory).wrap_model_call(request, lambda _: SimpleNamespace(result=[AIMessage("Yes")]))
        assert [r.event.reserved_tokens for r in memory.events(kinds=["context_built"])] == [7]
    assert "were not counted" in caplog.text
