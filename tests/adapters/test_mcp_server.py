"""The commands `memory-inspector mcp` and `mcp-memory`, asked by MCP's own client over standard input and output."""

import asyncio
import json
import sys
from pathlib import Path

import mcp
import pytest

from memory_core import ChatMessage, Memory
from memory_core.systems import KnowledgeGraph
from memory_inspector.adapters.graph_tools import GraphTools
from memory_inspector.adapters.mcp_server import SPECS, graph_server
from memory_inspector.coding.mcp_tools import CodingTools

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_client_lists_the_tools_asks_and_is_refused_in_a_sentence(tmp_path):
    memory = Memory.from_defaults("agent", database_uri=f"sqlite:///{tmp_path}/agent.db")
    memory.put(ChatMessage("I live in Faro."))
    memory.build_context()
    command = ["-m", "memory_inspector", "mcp", "--database", str(tmp_path / "agent.db")]

    async def asked():
        server = mcp.StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            answer = await client.call_tool("why", {"phrase": "Faro"})
            wrong = await client.call_tool("why", {"phrase": "x", "session": "nobody"})
        return tools, answer, wrong

    tools, answer, wrong = asyncio.run(asked())
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert [tool.name for tool in tools] == [spec.name for spec in (*SPECS, *CodingTools.specs)]
    assert not answer.is_error
    assert "turn 1" in answer.content[0].text
    assert wrong.is_error
    assert "nobody" in wrong.content[0].text


@pytest.mark.slow
def test_a_client_keeps_a_graph_and_finds_it_again_in_another_process(tmp_path):
    command = ["-m", "memory_inspector", "mcp-memory", "--database", str(tmp_path / "new.db"), "--session", "kg"]
    server = mcp.StdioServerParameters(command=sys.executable, args=command, cwd=ROOT)
    alice = {"name": "Alice", "entityType": "person", "observations": ["likes tea"]}

    async def kept():
        async with mcp.Client(server) as client:
            tools = (await client.list_tools()).tools
            made = await client.call_tool("create_entities", {"entities": [alice]})
            added = await client.call_tool(
                "add_observations", {"observations": [{"entityName": "Bob", "contents": ["x"]}]}
            )
        return tools, made, added

    async def found(graph):
        async with mcp.Client(graph_server(GraphTools(graph))) as client:
            asked = await client.call_tool("search_nodes", {"query": "TEA"})
            [listed] = (await client.list_resources()).resources
            [whole] = (await client.read_resource(str(listed.uri))).contents
        return asked, whole

    tools, made, added = asyncio.run(kept())
    assert len(tools) == 9
    assert {tool.name for tool in tools if tool.annotations.read_only_hint} == {
        "read_graph", "search_nodes", "open_nodes",
    }  # fmt: skip
    assert made.structured_content == {"entities": [alice]}
    assert (added.is_error, added.content[0].text) == (True, "Entity with name Bob not found")
    graph = KnowledgeGraph("kg", database_uri=f"sqlite:///{tmp_path}/new.db")
    asked, whole = asyncio.run(found(graph))
    assert asked.structured_content == {"entities": [alice], "relations": []}
    assert json.loads(whole.text) == {"entities": [alice], "relations": []}
    assert [record.kind for record in graph.memory.events()][-2:] == ["facts_read", "facts_read"]
