"""A chat loop with a block from a plug-in package: what the user asks to be reminded of is in every prompt.

pip install 'memory-inspector[openai]' ./reminders_plugin
OPENAI_API_KEY=... python reminders_plugin/agent.py    # with OPENAI_BASE_URL and OPENAI_MODEL as in plain_loop.py
"""

import os

from openai import OpenAI
from reminders_block import RemindersBlock

from memory_core import Memory

QUESTIONS = (
    "Remind me to buy two lemons.",
    "What goes well with sea bass?",
    "Remind me to call Rui about the wine.",
    "What do I still have to do?",
)

client, model = OpenAI(), os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
memory = Memory.from_defaults(
    session_id="reminders",
    token_limit=100,
    database_uri="sqlite:///agent.db",
    # By default a block learns from messages when they leave the queue; this one when their turn has ended.
    memory_blocks=[RemindersBlock(name="reminders", priority=1, deliver_on="turn")],
)
for question in QUESTIONS:
    memory.put({"role": "user", "content": question})
    context = memory.build_context()
    answer = client.chat.completions.create(model=model, messages=context.openai())
    memory.put(answer)
    print(f"> {question}\n{answer.choices[0].message.content}\n")

print("The last prompt, by its parts:")
print(context.explain())
print("The lemons:", memory.trace("buy two lemons").sentence)
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
