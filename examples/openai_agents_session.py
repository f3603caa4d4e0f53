"""An agent of the OpenAI Agents SDK with `Memory` as its session: facts and earlier turns that fit are recalled.

pip install 'memory-inspector[openai-agents]'
OPENAI_API_KEY=... python openai_agents_session.py    # OPENAI_BASE_URL, OPENAI_MODEL: another endpoint, model
"""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from memory_core import FactExtractionMemoryBlock, Memory, VectorMemoryBlock
from memory_inspector.adapters.openai_agents import InspectedSession

QUESTIONS = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "What could I cook on Friday? Look at the market first.",
    "How long does it take if I start at seven?",
    "And which wine goes with it?",
    "Can I try the pesto that Rui brings?",
)


@function_tool
def market(day: str) -> str:
    """Return what the market sells on a day of the week."""
    return f"On {day}: sea bass, squid, spinach, rice and oranges."


async def main() -> None:
    set_tracing_disabled(True)  # the SDK would send its traces to OpenAI, whatever the endpoint is
    model = OpenAIChatCompletionsModel(os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), openai_client=AsyncOpenAI())
    agent = Agent(
        name="cook", instructions="You help to plan a dinner. Answer in one sentence.", model=model, tools=[market]
    )
    memory = Memory.from_defaults(
        session_id="openai-agents",
        token_limit=225,  # small, so that a short conversation already fills it
        reserved_tokens=75,  # of them for what the agent sends besides: its system prompt and tools
        token_flush_size=40,
        database_uri="sqlite:///agent.db",
        memory_blocks=[
            FactExtractionMemoryBlock(name="facts", priority=1),
            VectorMemoryBlock(name="earlier_turns", priority=2),
        ],
    )
    session = InspectedSession(memory)
    for question in QUESTIONS:
        result = await Runner.run(agent, question, **session.for_run())
        print(f"> {question}\n{result.final_output}\n")

    print("The next prompt, by its parts:")
    print(memory.build_context(record=False).explain())
    print("The allergy:", memory.trace("allergic to nuts").sentence)
    memory.close()
    print("Open it in the app: memory-inspector --database agent.db")


asyncio.run(main())
