"""A fact is said to an agent of a real framework and then lost: the trace names the stage, the rule and the turn."""

import asyncio
import sys

import agno.db.sqlite as agno_db
import langchain.agents as langchain_agents
import langchain.tools as langchain_tools
import langchain_openai
import mcp
import pytest
from models.scripted_server import ScriptedServer, completion, refusal

from adapters import (
    test_agno_memories,
    test_google_adk_memory,
    test_langchain_agent,
    test_langgraph_agent,
    test_llamaindex_agent,
    test_mcp_server,
    test_mem0,
    test_openai_agents_session,
    test_pydantic_ai_memory,
)
from adapters.frameworks import QUESTIONS, restarted, script
from memory_core import Database, FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.models.openai_client import OpenAIChat
from memory_inspector.adapters.langgraph import InspectedStore
from memory_inspector.files.in_place import open_store

pytestmark = pytest.mark.filterwarnings("ignore")  # the frameworks' own
HOME, LOCKER, NUTS = "live in Faro", "my locker is the green one by the stairs", "allergic to nuts"


def opened(uri, session_id):
    return Memory.open(session_id, Database.open(uri), services=Services())


def llamaindex(uri):
    """A text that is never cut takes the room of the facts."""
    core = StaticMemoryBlock(name="core", static_content="Be brief and kind. " * 15, priority=0)
    facts = FactExtractionMemoryBlock(name="facts", priority=1)
    memory = test_llamaindex_agent.remembering(uri, memory_blocks=[core, facts])
    agent = test_llamaindex_agent.FunctionAgent(
        tools=[test_llamaindex_agent.forecast], llm=test_llamaindex_agent.Scripted().llm
    )
    asyncio.run(test_llamaindex_agent._turns(agent.run, memory, *QUESTIONS))
    return restarted(uri), HOME


def openai_agents(uri):
    """The extractor takes no fact from a question."""
    with ScriptedServer(*script()) as server:
        asyncio.run(test_openai_agents_session.run(uri, server.url, f"Is {LOCKER}?", *QUESTIONS[1:]))
    return restarted(uri), LOCKER


def langchain(uri):
    """The search brings one turn back, and another one is nearer."""
    turns = VectorMemoryBlock(name="turns", priority=1, similarity_top_k=1)
    with ScriptedServer(*script(4)) as server:
        agent = test_langchain_agent.agent(uri, server.url, memory_blocks=[turns])
        for question in (f"Oh, {LOCKER}.", *QUESTIONS[:2], "Is it windy in Faro, where I live?"):
            agent.invoke(test_langchain_agent.asked(question))
    return restarted(uri), LOCKER


def langgraph(uri):
    """The agent deletes what it had kept."""

    @langchain_tools.tool
    def forget(runtime: langchain_tools.ToolRuntime) -> str:
        """Forget what the user likes."""
        runtime.store.delete(("users", "ada"), "likes")
        return "Gone."

    called, store = test_langgraph_agent.called, InspectedStore(database_uri=uri)
    steps = called("remember", what=f"is {NUTS}"), completion("Noted."), called("forget"), completion("Forgotten.")
    with ScriptedServer(*steps) as server:
        model = langchain_openai.ChatOpenAI(model="m", base_url=server.url, api_key="x", max_retries=0)
        agent = langchain_agents.create_agent(model, [test_langgraph_agent.remember, forget], store=store)
        for said in (f"I am {NUTS}.", "Forget that."):
            agent.invoke({"messages": [("user", said)]})
    return opened(uri, "langgraph"), NUTS


def agno(uri):
    """Agno sends one run of its history along."""
    own = {"db": agno_db.SqliteDb(db_file=uri.removeprefix("sqlite:///") + ".agno"), "add_history_to_context": True}
    manager = test_agno_memories.InspectedMemoryManager(database_uri=uri)
    with ScriptedServer(*script()) as server:
        for question in (f"Is {LOCKER}?", *QUESTIONS[1:]):
            test_agno_memories.told(manager, server.url, question, num_history_runs=1, **own)
    return opened(uri, "agno:chandra:mon"), LOCKER


def pydantic_ai(uri):
    """A person switches the block off in between."""
    with ScriptedServer(*script()) as server:
        test_pydantic_ai_memory.talk(uri, server.url, *QUESTIONS[:2])
        restarted(uri).blocks.configure("facts", enabled=False)
        test_pydantic_ai_memory.talk(uri, server.url, QUESTIONS[2])
    return restarted(uri), HOME


def google_adk(uri):
    """The model that learns is down."""
    with ScriptedServer(lambda _: refusal(503, "down")) as server:
        learns = OpenAIChat("m", base_url=server.url, api_key="x", max_retries=0)
        settings = {"memory_blocks": [FactExtractionMemoryBlock(name="known", llm=learns)]}
        model = test_google_adk_memory.Scripted(model="scripted")
        asyncio.run(test_google_adk_memory.talk(uri, model, "monday", *QUESTIONS[:2], **settings))
        asyncio.run(test_google_adk_memory.talk(uri, model, "tuesday", QUESTIONS[2], **settings))
    return opened(uri, "adk:app:ada"), HOME


def mem0(uri):
    """Mem0 is asked for one memory, and another one is nearer."""
    with test_mem0.attachment(uri) as attached:
        memory = test_mem0.remembering(attached)
        test_mem0.turn(memory, test_mem0.SAID)
        test_mem0.turn(memory, "Where does Ada live?", top_k=1)
        memory.close()
        return attached.memory("ada"), NUTS


def mem0_opened(uri):
    """Mem0 deletes a memory; its history is opened where it lies."""
    with test_mem0.attachment(uri) as attached:
        memory = test_mem0.remembering(attached)
        test_mem0.turn(memory, test_mem0.SAID)
        [allergy] = memory.search(f"Ada is {NUTS}", filters={"user_id": "ada"}, top_k=1)["results"]
        memory.delete(allergy["id"])
        memory.close()
        [session_id] = open_store(attached.folder / "history.db", attached.database, services=Services())
    return opened(uri, session_id), NUTS


def mcp_memory(uri):
    """A client deletes an observation, and another one asks why."""
    path = uri.removeprefix("sqlite:///")

    def server(*command):
        given = ["-m", "memory_inspector", *command, "--database", path]
        return mcp.StdioServerParameters(command=sys.executable, args=given, cwd=test_mcp_server.ROOT)

    async def talk():
        ada = {"name": "Ada", "entityType": "person", "observations": [f"is {NUTS}"]}
        async with mcp.Client(server("mcp-memory", "--session", "kg")) as client:
            await client.call_tool("create_entities", {"entities": [ada]})
            gone = [{"entityName": "Ada", "observations": ada["observations"]}]
            await client.call_tool("delete_observations", {"deletions": gone})
        async with mcp.Client(server("mcp")) as client:
            return (await client.call_tool("why", {"phrase": NUTS})).content[0].text

    why, memory = asyncio.run(talk()), opened(uri, "kg")
    assert why.endswith(memory.trace(NUTS).sentence)
    return memory, NUTS


@pytest.mark.parametrize(
    ("planted", "stage", "rule", "said", "lost"),
    [
        (llamaindex, "prompt", "trimmed", [1], 3),
        (openai_agents, "learned", "question", [1], 2),
        (langchain, "found", "beyond_top_k", [1], 4),
        (langgraph, "kept", "retired", [], 0),
        (agno, "prompt", "not_sent", [1], 3),
        (pydantic_ai, "prompt", "block_off", [1], 3),
        (google_adk, "delivery", "delivery_failed", [1], 3),
        (mem0, "prompt", "not_sent", [1], 2),
        (mem0_opened, "kept", "retired", [], 0),
        (mcp_memory, "kept", "retired", [], 0),
    ],
)
def test_the_trace_names_where_it_was_lost(planted, stage, rule, said, lost, tmp_path):
    """`said` are the turns in which it was said, `lost` the turn of the decision; a store has none."""
    memory, phrase = planted(f"sqlite:///{tmp_path}/agent.db")
    trace = memory.trace(phrase)
    found = trace.decisive
    assert (found.name, found.verdict, found.rule, found.turn) == (stage, "lost", rule, lost), trace.sentence
    assert [each.turn for each in trace.said] == said
    assert not trace.reached
