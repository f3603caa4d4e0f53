"""An AutoGen assistant with `Memory` as its memory, which makes the model context of every turn.

pip install 'memory-inspector[autogen]' autogen-agentchat 'autogen-ext[openai]'
OPENAI_API_KEY=... python autogen_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo
from autogen_ext.models.openai import OpenAIChatCompletionClient

from memory_core import FactExtractionMemoryBlock, Memory
from memory_core.adapters.autogen import InspectedMemory

SYSTEM = "You help to plan a dinner. Answer in one sentence."
QUESTIONS = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "What could I cook on Friday? Look at the market first.",
    "How long does it take if I start at seven?",
    "And which wine goes with it?",
    "Can I try the pesto that Rui brings?",
)


async def market(day: str) -> str:
    """Return what the market sells on a day of the week."""
    return f"On {day}: sea bass, squid, spinach, rice and oranges."


async def main() -> None:
    # AutoGen asks for the abilities of models that it does not know.
    able = ModelInfo(vision=False, function_calling=True, json_output=True, structured_output=True, family="unknown")
    client = OpenAIChatCompletionClient(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"), model_info=able)
    facts = FactExtractionMemoryBlock(name="facts", priority=1)
    memory = Memory.from_defaults(  # with a small limit, which a short conversation already fills
        "autogen", database_uri="sqlite:///agent.db", token_limit=150, token_flush_size=40, memory_blocks=[facts]
    )
    agent = AssistantAgent(
        "cook",
        client,
        tools=[market],
        memory=[InspectedMemory(memory)],
        system_message=SYSTEM,
        reflect_on_tool_use=True,
    )
    for question in QUESTIONS:
        result = await agent.run(task=question)
        print(f"> {question}\n{result.messages[-1].content}\n")
    await client.close()

    print("Facts:", [fact.text for fact in memory.facts.read("facts")])
    print("The allergy:", memory.trace("allergic to nuts").sentence)
    memory.close()
    print("Open it in the app: memory-inspector --database agent.db")


asyncio.run(main())
