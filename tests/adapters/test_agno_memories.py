"""Agno's agent on this engine's user memories, against a scripted endpoint."""

import asyncio
import copy
from types import SimpleNamespace

import agno.agent as agno
import agno.db.schemas.memory as schemas
import agno.db.sqlite as agno_db
import agno.media as media
import agno.models.message as agno_messages
import agno.models.openai as openai
import agno.models.response as responses
import httpx
import pytest
from agno.db.in_memory import InMemoryDb
from agno.memory import MemoryManager
from content_forms import PARTS
from models.scripted_server import ScriptedServer, completion, refusal, streamed

from adapters.frameworks import QUESTIONS, RESULT, script, words
from memory_core import ConfigError, Database, Memory, Services
from memory_core.formats.openai_message import message_from_openai, to_openai
from memory_inspector.adapters.agno import InspectedMemoryManager

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


def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


def told(manager, url, question, *, stream=False, session_id="mon", **given):
    async def run():
        async with httpx.AsyncClient() as client:
            model = openai.OpenAIChat(id="m", base_url=url, api_key="x", max_retries=0, http_client=client)
            return await talker(model).arun(question, user_id="chandra", session_id=session_id)

    def talker(model):
        return agno.Agent(
            model=manager.recorded(model),
            memory_manager=manager,
            tools=[forecast],
            add_memories_to_context=True,
            telemetry=False,
            **given,
        )

    if not stream:
        return asyncio.run(run())
    model = openai.OpenAIChat(id="m", base_url=url, api_key="x", max_retries=0)
    return list(talker(model).run(question, user_id="chandra", session_id=session_id, stream=True))


def recorded(uri, session_id):
    kept = Memory.open(session_id, Database.open(uri), services=Services())
    return kept, kept.events(kinds=["context_built"])


def as_ours(body):
    return words(to_openai([message_from_openai(message) for message in body["messages"]]))


def test_what_a_recorded_model_is_sent_is_what_the_app_shows(tmp_path):
    uri = f"sqlite:///{tmp_path}/agno.db"
    history = {"db": agno_db.SqliteDb(db_file=f"{tmp_path}/own.db"), "add_history_to_context": True}
    with ScriptedServer(*script(1), streamed("It is ", "sunny.")) as server:
        told(InspectedMemoryManager(database_uri=uri), server.url, QUESTIONS[0], **history)
        told(InspectedMemoryManager(database_uri=uri), server.url, QUESTIONS[1], stream=True, **history)
    kept, built = recorded(uri, "agno:chandra:mon")
    assert len(built) == len(server.bodies) == 3
    for record, body in zip(built, server.bodies, strict=True):
        assert words(to_openai(kept.log.prompt(record).messages)) == as_ours(body)
        assert record.event.known == "observed"
    said = [(message.role, message.content) for message in kept.get_all()]
    assert said[-2:] == [("user", QUESTIONS[1]), ("assistant", "It is sunny.")]
    assert [role for role, _ in said[-6:]] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert kept.events(kinds=["agent_attached"])[0].event.source == "adapter"


def test_a_call_that_fails_is_recorded_without_words_and_a_recorder_that_fails_is_a_warning(tmp_path, caplog):
    uri = f"sqlite:///{tmp_path}/agno.db"
    with ScriptedServer(refusal(400, "secret words"), completion("Hi."), completion("Hi again.")) as server:
        manager = InspectedMemoryManager(database_uri=uri)
        told(manager, server.url, "Hello")
        kept, _ = recorded(uri, "agno:chandra:mon")
        assert [call.event.error for call in kept.events(kinds=["model_called"])] == ["ModelProviderError"]
        Memory.from_defaults("agno:chandra:taken", database_uri=uri)
        told(manager, server.url, "Hello", session_id="taken")
        agno_model = manager.recorded(openai.OpenAIChat(id="m", base_url=server.url, api_key="x", max_retries=0))
        assert manager.recorded(agno_model) is agno_model, "two agents may share one model"
        talker = agno.Agent(model=copy.deepcopy(agno_model), telemetry=False)
        manager.of = lambda user: 1 / 0
        assert talker.run("Hello", user_id="chandra", session_id="mon").content == "Hi again."
    warned = [record.getMessage() for record in caplog.records if record.name == "memory_inspector.adapters.prompts"]
    assert len(warned) == 2
    assert "agno:chandra:taken" in warned[0]
    assert "ZeroDivisionError" in warned[1]
    assert len(server.bodies) == 3


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
    manager.delete_user_memory("x", "ada")  # silent, as with Agno's own


def both_managers():
    """The real manager on its in-memory database, and ours."""
    return MemoryManager(db=InMemoryDb()), InspectedMemoryManager()


def held(manager, user=None):
    return sorted((each.memory_id, each.memory, each.user_id) for each in manager.get_user_memories(user))


def test_a_memory_keeps_the_id_it_came_with_as_with_agno_s_own_manager():
    theirs, ours = both_managers()
    for manager in (theirs, ours):
        given = schemas.UserMemory(memory="I like cats", memory_id="mine", topics=["pets"])
        assert manager.add_user_memory(given, user_id="u") == given.memory_id == "mine"
        assert given.user_id == "u"
        assert manager.add_user_memory(schemas.UserMemory(memory="I like dogs", memory_id="mine"), "u") == "mine"
        new = schemas.UserMemory(memory="I like fish")
        assert manager.replace_user_memory("new", new, user_id="u") == new.memory_id == "new"
        assert manager.get_user_memory("mine", "u").memory == "I like dogs"
        assert manager.get_user_memory("none", "u") is None
        manager.delete_user_memory("none", "u")
    assert held(theirs, "u") == held(ours, "u") == [("mine", "I like dogs", "u"), ("new", "I like fish", "u")]
    for manager in (theirs, ours):
        manager.delete_user_memory("mine", "u")
        assert manager.replace_user_memory("new", schemas.UserMemory(memory="I like birds"), "u") == "new"
    assert held(theirs, "u") == held(ours, "u") == [("new", "I like birds", "u")]


def test_without_an_id_a_memory_gets_one_and_the_same_words_again_are_the_same_memory():
    _, manager = both_managers()
    first, again = schemas.UserMemory(memory="I like cats"), schemas.UserMemory(memory="I like cats ")
    id = manager.add_user_memory(first)
    assert first.memory_id == id
    assert first.user_id == "default"
    assert manager.add_user_memory(again) == id
    assert manager.add_user_memory(schemas.UserMemory(memory="I like dogs", memory_id=id)) == id
    assert held(manager) == [(id, "I like dogs", "default")]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_clear_puts_the_memories_of_all_users_away_and_all_users_can_be_read(elsewhere, tmp_path):
    uri = f"sqlite:///{tmp_path}/agno.db"
    manager = InspectedMemoryManager(database_uri=uri) if elsewhere else InspectedMemoryManager()
    users = ("ada", "ben:mon", "50%")
    for user in users:
        manager.add_user_memory(schemas.UserMemory(memory=f"I am {user}"), user)
    manager = InspectedMemoryManager(database_uri=uri) if elsewhere else manager  # as after a restart
    assert {user: [each.memory for each in known] for user, known in manager.read_from_db().items()} == {
        user: [f"I am {user}"] for user in users
    }
    assert list(asyncio.run(manager.aread_from_db("ada"))) == ["ada"]
    manager.clear()
    assert manager.read_from_db() == {}
    assert manager.of("ada").memory.facts.read("User memories", states=["retired"])


def test_what_the_manager_does_not_do_is_said_and_not_pretended():
    _, manager = both_managers()
    manager.add_user_memory(schemas.UserMemory(memory="I like cats"))
    with pytest.raises(ConfigError, match="max_facts"):
        manager.optimize_memories()
    with pytest.raises(ConfigError, match="max_facts"):
        asyncio.run(manager.aoptimize_memories())
    with pytest.raises(ConfigError, match="last_n, first_n, semantic, agentic"):
        manager.search_user_memories(retrieval_method="newest")


RUN = SimpleNamespace(session_id="mon", user_id="chandra")


def called(manager, messages, *pieces):
    """A call of a recorded model of another maker's, which answers in these pieces; what its session holds then."""

    class Scripted(openai.OpenAIChat):
        def invoke_stream(self, messages, **kwargs):
            yield from pieces

    model = manager.recorded(Scripted(id="m", api_key="x"))
    assert list(model.invoke_stream(messages=messages, run_response=RUN)) == [*pieces]
    database = manager.of("chandra").memory.session.database
    return Memory.open("agno:chandra:mon", database, services=Services()).get_all()


@pytest.mark.parametrize("part", PARTS)
def test_a_call_with_any_part_is_recorded_and_its_words_are_kept(tmp_path, part):
    manager = InspectedMemoryManager(database_uri=f"sqlite:///{tmp_path}/agno.db")
    asked = agno_messages.Message(role="user", content=[part, {"type": "text", "text": "I live in Faro."}])
    pieces = [responses.ModelResponse(content=each) for each in ([part], "By the ", "ferry")]
    said = called(manager, [asked], *pieces)
    assert "I live in Faro." in [message for message in said if message.role == "user"][-1].content
    assert "By the ferry" in said[-1].content
    manager.create_user_memories(messages=[asked], user_id="chandra")
    assert "The user lives in Faro" in [each.memory for each in manager.get_user_memories("chandra")]


def test_files_of_a_message_and_of_an_answer_are_kept_or_named(tmp_path):
    files = {
        "audio": [media.Audio(content=b"A", format="wav")],
        "videos": [media.Video(url="https://a.test/a.mp4")],
        "files": [media.File(content=b"A", mime_type="application/pdf"), media.File(filepath="a.pdf")],
    }
    asked = agno_messages.Message(role="user", content="See:", **files)
    answer = responses.ModelResponse(images=[media.Image(content=b"A", mime_type="image/png")])
    spoken = responses.ModelResponse(audio=media.Audio(content=b"A", transcript="Hear:"))
    [user, assistant] = called(
        InspectedMemoryManager(database_uri=f"sqlite:///{tmp_path}/a.db"), [asked], spoken, answer
    )
    assert [part.type for part in user.parts] == ["text", "audio", "video", "document"]
    assert [each["filepath"] for each in user.additional_kwargs["other_content"]] == ["a.pdf"]
    assert [part.type for part in assistant.parts] == ["text", "image"]
