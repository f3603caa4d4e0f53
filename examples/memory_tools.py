"""An agent that edits its own memory: the model calls tools that change text blocks, and every edit is a version.

pip install 'memory-inspector[openai]'
OPENAI_API_KEY=... python memory_tools.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

from memory_core.systems import SelfEditingMemory

MESSAGES = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "I moved to Porto.",
    "Where do I live now?",
)

# The model is the one that the OPENAI_... variables name. Without them, fixed rules call the tools.
agent = SelfEditingMemory(
    "memory-tools",
    persona="I help to plan dinners. I answer in one sentence, and I keep the block Human current.",
    database_uri="sqlite:///agent.db",
)
for message in MESSAGES:
    print(f"> {message}\n{agent.reply(message)}\n")

print("Tools that were called:")
for record in agent.memory.events(kinds=["tool_called"]):
    print(f"  turn {record.turn}: {record.event.tool} of {record.event.block}, {record.event.outcome}")

print("Versions of the block Human:")
for revision in agent.memory.blocks.revisions("Human"):
    print(f"  by {revision.actor}: {revision.text!r}")

print("Porto:", agent.memory.trace("Porto").sentence)
agent.memory.close()
print("Open it in the app: memory-inspector --database agent.db")
