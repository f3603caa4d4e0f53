"""A LangChain agent with `Memory` as middleware: it makes the prompt of every model call, in tool loops too.

pip install 'memory-inspector[langchain]' langchain-openai
OPENAI_API_KEY=... python langchain_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import os

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from memory_core import FactExtractionMemoryBlock, Memory
from memory_inspector.adapters.langchain import InspectedMiddleware

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


memory = Memory.from_defaults(
    session_id="langchain",
    token_limit=225,  # small, so that a short conversation already fills it
    reserved_tokens=75,  # of them for what the agent sends besides: its system prompt and tools
    token_flush_size=40,
    database_uri="sqlite:///agent.db",
    memory_blocks=[FactExtractionMemoryBlock(name="facts", priority=1)],
)
agent = create_agent(
    ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini")),
    [market],
    system_prompt="You help to plan a dinner. Answer in one sentence.",
    middleware=[InspectedMiddleware(memory)],
)
for question in QUESTIONS:  # no thread is passed on: the memory has the conversation
    result = agent.invoke({"messages": [("user", question)]})
    print(f"> {question}\n{result['messages'][-1].text}\n")

print("The tokens of each prompt:", [record.event.total for record in memory.events(kinds=["context_built"])])
print("Facts:", [fact.text for fact in memory.facts.read("facts")])
print("The allergy:", memory.trace("allergic to nuts").sentence)
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
