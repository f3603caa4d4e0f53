"""Agno's agent on this engine's user memories, against a scripted endpoint."""

import agno.agent as agno
import agno.db.schemas.memory as schemas
import agno.models.openai as openai
import pytest
from models.scripted_server import ScriptedServer, completion

from memory_core import NotFoundError
from memory_core.adapters.agno import InspectedMemoryManager

pytestmark = pytest.mark.filterwarnings("ignore")  # Agno's own


def agent(manager, url):
    model = openai.OpenAIChat(id="m", base_url=url, api_key="x", max_retries=0)
    return agno.Agent(
        model=model, memory_manager=manager, update_memory_on_run=True, add_memories_to_context=True, telemetry=False
    )


def test_what_is_said_on_monday_is_known_on_tuesday_after_a_restart(tmp_path):
    uri = f"sqlite:///{tmp_path}/agno.db"
    with ScriptedServer(*[completion("Noted.")] * 3) as server:
        monday = InspectedMemoryManager(database_uri=uri)
        agent(monday, server.url).run("My name is Chandra and I live in Faro.", user_id="chandra", session_id="mon")
        known = [memory.memory for memory in monday.get_user_memories("chandra")]
        assert known == ["The user's name is Chandra", "The user lives in Faro"]
        tuesday = InspectedMemoryManager(database_uri=uri)
        agent(tuesday, server.url).run("Hello", user_id="chandra", session_id="tue")
        agent(tuesday, server.url).run("Hello", user_id="ben", session_id="tue2")
    system = [body["messages"][0]["content"] for body in server.bodies]
    assert [all(fact in text for fact in known) for text in system] == [False, True, False]
    fact = tuesday.of("chandra").get_user_memories()[0]
    assert fact.sources == (("agno:chandra", 1),)


def test_memories_are_added_searched_changed_and_put_away(tmp_path):
    manager = InspectedMemoryManager(database_uri=f"sqlite:///{tmp_path}/agno.db")
    id = manager.add_user_memory(schemas.UserMemory(memory="The user likes tea"), "ada")
    manager.add_user_memory(schemas.UserMemory(memory="The user works in Porto"), "ada")
    found = manager.search_user_memories("tea", retrieval_method="agentic", user_id="ada")
    assert found[0].memory_id == id
    manager.replace_user_memory(id, schemas.UserMemory(memory="The user likes green tea"), "ada")
    assert manager.get_user_memory(id, "ada").memory == "The user likes green tea"
    manager.delete_user_memory(id, "ada")
    manager.clear_user_memories("ada")
    assert manager.get_user_memories("ada") == []
    with pytest.raises(NotFoundError):
        manager.delete_user_memory("x", "ada")
