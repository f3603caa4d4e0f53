"""The conversations through an agent of Agno that updates its memory on each run. Run where agno is installed."""

import os

os.environ |= {"OPENAI_API_KEY": "x", "AGNO_TELEMETRY": "false"}

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.memory import MemoryManager
from agno.models.openai import OpenAIChat
from conversations import FORECAST, Conversation
from results import Known, main


def forecast(place: str) -> str:
    """The weather of a place."""
    return FORECAST


def run(conversation: Conversation, url: str) -> Known:
    database, model = InMemoryDb(), OpenAIChat(id="m", base_url=url)
    manager = MemoryManager(model=model, db=database)
    agent = Agent(
        model=model,
        tools=[forecast],
        db=database,
        memory_manager=manager,
        update_memory_on_run=True,
        add_history_to_context=True,
        telemetry=False,
    )
    for turn in conversation.turns:
        agent.run(turn[0]["content"], user_id="ada", session_id="s")
    return {"memories": sorted(memory.memory for memory in manager.get_user_memories("ada") or ())}


if __name__ == "__main__":
    main(run, "agno")
