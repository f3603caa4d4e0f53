"""A Google ADK agent with a recorded memory service: each session is learned from, and the next one searches it.

pip install 'memory-inspector[google-adk,openai]'
OPENAI_API_KEY=... python google_adk_agent.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
"""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.integrations.openai import OpenAILlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import preload_memory
from google.genai import types

from memory_core import Memory
from memory_inspector.adapters.google_adk import InspectedMemoryService

DATABASE = "sqlite:///agent.db"
SESSIONS = {
    "monday": ("Hello! I am Ana, I live in Faro and I am allergic to nuts.", "What could I cook on Friday?"),
    "tuesday": ("Rui cooks for us. What am I allergic to?",),
}


async def main() -> None:
    agent = LlmAgent(
        name="cook",
        model=OpenAILlm(model=os.environ.get("OPENAI_MODEL", "gpt-4o-mini")),
        instruction="You help to plan a dinner. Answer in one sentence.",
        tools=[preload_memory],  # searches the memory for every question
    )
    service, sessions = InspectedMemoryService(database_uri=DATABASE), InMemorySessionService()
    app = App(name="dinner", root_agent=agent, plugins=[service.prompts()])
    runner = Runner(app=app, session_service=sessions, memory_service=service)
    for name, questions in SESSIONS.items():
        who = {"app_name": "dinner", "user_id": "ana", "session_id": name}
        await sessions.create_session(**who)
        for question in questions:
            content = types.Content(role="user", parts=[types.Part(text=question)])
            async for event in runner.run_async(user_id="ana", session_id=name, new_message=content):
                if event.is_final_response():
                    print(f"> {name}: {question}\n{event.content.parts[0].text}\n")
        await service.add_session_to_memory(await sessions.get_session(**who))
    await runner.close()  # waits until everything is learned and recorded

    print("Facts:", [fact.text for fact in service.of("dinner", "ana").facts.read("facts")])
    prompts = Memory.from_defaults("adk:dinner:ana:tuesday", database_uri=DATABASE)  # the prompts of one ADK session
    print("The allergy:", prompts.trace("allergic to nuts").sentence)
    prompts.close()
    print("Open it in the app: memory-inspector --database agent.db")


asyncio.run(main())
