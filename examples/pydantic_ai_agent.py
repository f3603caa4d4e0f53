"""A Pydantic AI agent with `Memory` as a capability, which makes the prompt of every turn.

pip install 'memory-inspector[pydantic-ai]' 'pydantic-ai-slim[openai]'
OPENAI_API_KEY=... python pydantic_ai_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import os

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from memory_core import FactExtractionMemoryBlock, Memory
from memory_inspector.adapters.pydantic_ai import InspectedMemory

QUESTIONS = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "What could I cook on Friday? Look at the market first.",
    "How long does it take if I start at seven?",
    "And which wine goes with it?",
    "Can I try the pesto that Rui brings?",
)


def market(day: str) -> str:
    """Return what the market sells on a day of the week."""
    return f"On {day}: sea bass, squid, spinach, rice and oranges."


facts = FactExtractionMemoryBlock(name="facts", priority=1)
memory = Memory.from_defaults(
    "pydantic-ai",
    database_uri="sqlite:///agent.db",
    token_limit=220,  # with a small limit, which a short conversation already fills
    chat_history_token_ratio=0.5,
    token_flush_size=40,
    memory_blocks=[facts],
)
agent = Agent(
    OpenAIChatModel(os.environ.get("OPENAI_MODEL", "gpt-4o-mini")),
    instructions="You help to plan a dinner. Answer in one sentence.",
    tools=[market],
    capabilities=[InspectedMemory(memory)],
)
for question in QUESTIONS:
    print(f"> {question}\n{agent.run_sync(question).output}\n")

print("Facts:", [fact.text for fact in memory.facts.read("facts")])
print("The allergy:", memory.trace("allergic to nuts").sentence)
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
