"""An agent that keeps a knowledge graph by the tools of an MCP server; another server searches what was kept.

pip install 'memory-inspector[mcp,openai]'
OPENAI_API_KEY=... python mcp_client.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from openai import AsyncOpenAI

SYSTEM = "You help to plan a dinner. Search your memory first, and keep what you learn. Answer in one sentence."
QUESTIONS = ("I am Ana. I am allergic to nuts.", "I am Ana. Can I try the pesto that Rui brings?")


def server(command: str) -> Client:
    """Return a client of one of the two servers; in a terminal: memory-inspector mcp-memory --database agent.db."""
    arguments = ["-m", "memory_inspector", command, "--database", "agent.db"]
    return Client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ)))


async def answer(memory: Client, question: str) -> str:
    """Answer one question; of those before it, only what is in the memory is left."""
    described = (await memory.list_tools()).tools
    functions = [{"name": t.name, "description": t.description, "parameters": t.input_schema} for t in described]
    tools = [{"type": "function", "function": function} for function in functions]
    model, client = os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), AsyncOpenAI()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    while True:
        completion = await client.chat.completions.create(model=model, messages=messages, tools=tools)
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            result = await memory.call_tool(call.function.name, json.loads(call.function.arguments))
            print(f"  {call.function.name} {call.function.arguments}")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})


async def main() -> None:
    async with server("mcp-memory") as memory:
        for question in QUESTIONS:
            print(f"> {question}\n{await answer(memory, question)}\n")
    async with server("mcp") as inspector:
        result = await inspector.call_tool("search_facts", {"query": "allergic"})
        print(f"Facts, with their scores:\n{result.content[0].text}")
    print("Open it in the app: memory-inspector --database agent.db")


asyncio.run(main())
