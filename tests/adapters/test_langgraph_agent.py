"""LangChain's agent and LangGraph's graph on facts as their store, with a scripted model."""

import asyncio
import json

import langchain.agents as agents
import langchain.tools as tools
import langchain_openai
import langgraph.graph as graphs
import langgraph.store.base as base
import pytest
from models.scripted_server import ScriptedServer, completion

from memory_inspector.adapters.langgraph import InspectedStore

pytestmark = pytest.mark.filterwarnings("ignore")  # LangChain's own


@pytest.fixture
def uri(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@tools.tool
def remember(what: str, runtime: tools.ToolRuntime) -> str:
    """Keep something about the user."""
    runtime.store.put(("users", "ada"), "likes", {"text": what})
    return "Kept."


@tools.tool
def recall(about: str, runtime: tools.ToolRuntime) -> str:
    """What is known about something."""
    return "\n".join(item.value["text"] for item in runtime.store.search(("users", "ada"), query=about))


def called(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return completion(None, finish="tool_calls", tool_calls=[{"id": "c1", "type": "function", "function": function}])


def agent(server, uri):
    store = InspectedStore(database_uri=uri)
    model = langchain_openai.ChatOpenAI(model="m", base_url=server.url, api_key="x", max_retries=0)
    return agents.create_agent(model, [remember, recall], store=store), store


def test_what_an_agent_keeps_in_one_run_it_finds_in_another_after_a_restart(uri):
    replies = [called("remember", what="likes green tea"), completion("Noted."), called("recall", about="drinks"),
               completion("Green tea.")]  # fmt: skip
    with ScriptedServer(*replies) as server:
        first, _ = agent(server, uri)
        first.invoke({"messages": [("user", "I like green tea")]})
        second, store = agent(server, uri)
        asyncio.run(second.ainvoke({"messages": [("user", "What do I like to drink?")]}))
    assert server.bodies[3]["messages"][-1]["content"] == "likes green tea"
    assert [record.kind for record in store.memory.events()][-2:] == ["facts_curated", "facts_read"]


def test_a_graph_is_given_the_store(uri):
    def count(state, *, store: base.BaseStore):
        item = store.get(("runs",), "number")
        number = item.value["n"] + 1 if item else 1
        store.put(("runs",), "number", {"n": number})
        return {"n": number}

    for expected in (1, 2):
        builder = graphs.StateGraph(dict)
        builder.add_node("count", count)
        builder.add_edge(graphs.START, "count")
        graph = builder.compile(store=InspectedStore(database_uri=uri))
        assert graph.invoke({})["n"] == expected
