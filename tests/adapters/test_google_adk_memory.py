"""Google ADK's runner on this engine's memory service, with a scripted model."""

import asyncio

import google.adk.agents as agents
import google.adk.models as models
import google.adk.runners as runners
import google.adk.sessions as sessions
import google.adk.tools.preload_memory_tool as preload
import google.genai.types as types
import pydantic
import pytest
from adapters.frameworks import RESULT

from memory_core.adapters.google_adk import InspectedMemoryService

pytestmark = pytest.mark.filterwarnings("ignore")  # ADK's own


class Scripted(models.BaseLlm):
    """Calls the tool for a question, then answers; keeps what it was asked."""

    asked: list = pydantic.Field(default_factory=list)

    async def generate_content_async(self, llm_request, stream=False):
        self.asked.append(llm_request)
        if len(self.asked) % 2 == 0:
            part = types.Part(text="It is sunny.")
        else:
            part = types.Part(function_call=types.FunctionCall(id="c1", name="forecast", args={"place": "Faro"}))
        yield models.LlmResponse(content=types.Content(role="model", parts=[part]))


def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


async def talk(uri, model, session_id, *questions):
    service = InspectedMemoryService(database_uri=uri)
    agent = agents.LlmAgent(name="weather", model=model, tools=[forecast, preload.PreloadMemoryTool()])
    store = sessions.InMemorySessionService()
    runner = runners.Runner(app_name="app", agent=agent, session_service=store, memory_service=service)
    await store.create_session(app_name="app", user_id="ada", session_id=session_id)
    for question in questions:
        content = types.Content(role="user", parts=[types.Part(text=question)])
        async for _ in runner.run_async(user_id="ada", session_id=session_id, new_message=content):
            pass
        session = await store.get_session(app_name="app", user_id="ada", session_id=session_id)
        await service.add_session_to_memory(session)
    return service


def test_what_was_said_in_one_session_is_found_from_another_after_a_restart(tmp_path):
    uri = f"sqlite:///{tmp_path}/adk.db"
    model = Scripted(model="scripted")
    service = asyncio.run(talk(uri, model, "monday", "I live in Faro. How is the weather?", "And tomorrow?"))
    said = service.of("app", "ada").get_all()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"] * 2
    assert service.of("app", "ada").events(kinds=["flush_planned"])
    asyncio.run(talk(uri, model, "tuesday", "Where do I live?"))
    assert "The user lives in Faro" in str(model.asked[4])
    found = asyncio.run(service.search_memory(app_name="app", user_id="ada", query="Where do I live?"))
    assert found.memories[0].content.parts[0].text == "The user lives in Faro"
    assert not asyncio.run(service.search_memory(app_name="app", user_id="ben", query="Where do I live?")).memories
