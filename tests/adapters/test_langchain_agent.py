"""LangChain's agent on this engine's memory, against a scripted endpoint."""

import asyncio

import langchain.agents as agents
import langchain_core.tools as tools
import langchain_openai as openai
import pytest
from adapters.frameworks import QUESTIONS, RESULT, memory, restarted, script, words
from models.scripted_server import ScriptedServer

from memory_core.adapters.langchain import InspectedHistory, InspectedMiddleware
from memory_core.formats.chat_completions import to_openai

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
