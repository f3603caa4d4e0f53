"""A chat loop on the openai client: the memory builds each prompt, and tells where a detail of the conversation is.

pip install 'memory-inspector[openai]'
OPENAI_API_KEY=... python plain_loop.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import os

from openai import OpenAI

from memory_core import FactExtractionMemoryBlock, Memory, StaticMemoryBlock, VectorMemoryBlock

QUESTIONS = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "What could I cook for four people on Friday?",
    "How long does it take if I start at seven?",
    "And which wine goes with it?",
    "Can I try the pesto that Rui brings?",
)

client = OpenAI()
model = os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
memory = Memory.from_defaults(
    session_id="plain-loop",
    token_limit=150,  # small, so that a short conversation already fills it
    token_flush_size=40,
    database_uri="sqlite:///agent.db",
    memory_blocks=[
        StaticMemoryBlock(name="instructions", static_content="You help to plan a dinner. Answer in one sentence."),
        FactExtractionMemoryBlock(name="facts", priority=1),
        VectorMemoryBlock(name="earlier_turns", priority=2),
    ],
)

for question in QUESTIONS:
    memory.put({"role": "user", "content": question})
    context = memory.build_context()
    answer = client.chat.completions.create(model=model, messages=context.openai())
    memory.put(answer)
    print(f"> {question}\n{answer.choices[0].message.content}\n")

print("The last prompt, by its parts:")
print(context.explain())
print("Facts:", [fact.text for fact in memory.facts.read("facts")])
print("The allergy:", memory.trace("allergic to nuts").sentence)
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
