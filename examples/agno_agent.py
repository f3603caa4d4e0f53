"""An Agno agent with recorded user memories: what is said in one session is known in the next.

pip install 'memory-inspector[agno,openai]'
OPENAI_API_KEY=... python agno_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import os

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat

from memory_core import Memory
from memory_inspector.adapters.agno import InspectedMemoryManager

SESSIONS = {
    "monday": ("Hello! My name is Ana, I live in Faro.", "I am allergic to nuts."),
    "tuesday": ("Can I try the pesto that Rui brings?",),
}

DATABASE = "sqlite:///agent.db"

manager = InspectedMemoryManager(database_uri=DATABASE)
model = OpenAIChat(id=os.environ.get("OPENAI_MODEL", "gpt-4o-mini"))
agent = Agent(
    model=manager.recorded(model),  # every prompt of it is recorded, too
    memory_manager=manager,
    update_memory_on_run=True,
    add_memories_to_context=True,
    instructions="You help to plan a dinner. Answer in one sentence.",
    db=SqliteDb(db_file="agno.db"),  # Agno's own conversations
    telemetry=False,
)
for session, questions in SESSIONS.items():
    for question in questions:
        answer = agent.run(question, user_id="ana", session_id=session)
        print(f"> {session}: {question}\n{answer.content}\n")

print("Facts:", [fact.text for fact in manager.of("ana").get_user_memories()])
prompts = Memory.from_defaults("agno:ana:tuesday", database_uri=DATABASE)  # the prompts of one Agno session
print("The allergy:", prompts.trace("allergic to nuts").sentence)
prompts.close()
print("Open it in the app: memory-inspector --database agent.db")
