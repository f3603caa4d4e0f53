"""The command `memory-inspector mcp`, asked by MCP's own client over standard input and output."""

import asyncio
import sys
from pathlib import Path

import mcp

from memory_core import ChatMessage, Memory

ROOT = Path(__file__).resolve().parents[2]


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
    assert {tool.name for tool in tools} == {"list_sessions", "why", "trace", "prompt_at", "search_facts"}
    assert not answer.is_error
    assert "turn 1" in answer.content[0].text
    assert wrong.is_error
    assert "nobody" in wrong.content[0].text
