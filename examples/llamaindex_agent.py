"""A LlamaIndex agent with a tool and `Memory` as its memory: facts of what left the queue are in later prompts.

pip install 'memory-inspector[llamaindex]' llama-index-llms-openai-like
OPENAI_API_KEY=... python llamaindex_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike

from memory_core import FactExtractionMemoryBlock
from memory_inspector.adapters.llamaindex import InspectedMemory

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


async def main() -> None:
    llm = OpenAILike(
        model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"),
        api_base=os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
    )
    agent = FunctionAgent(tools=[market], llm=llm, system_prompt="You help to plan a dinner. Answer in one sentence.")
    memory = InspectedMemory.from_defaults(
        session_id="llamaindex",
        token_limit=150,  # small, so that a short conversation already fills it
        token_flush_size=40,
        database_uri="sqlite:///agent.db",
        memory_blocks=[FactExtractionMemoryBlock(name="facts", priority=1)],
    )
    for question in QUESTIONS:
        print(f"> {question}\n{await agent.run(question, memory=memory)}\n")

    inspected = memory.memory  # the engine's own object, with everything that the app shows
    print("Facts:", [fact.text for fact in inspected.facts.read("facts")])
    print("The allergy:", inspected.trace("allergic to nuts").sentence)
    inspected.close()
    print("Open it in the app: memory-inspector --database agent.db")


asyncio.run(main())
