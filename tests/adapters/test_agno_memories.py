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
from content_forms import PARTS
from models.scripted_server import ScriptedServer, completion, refusal, streamed

from adapters.frameworks import QUESTIONS, RESULT, script, words
from memory_core import Database, Memory, NotFoundError, Services
from memory_core.adapters.agno import InspectedMemoryManager
from memory_core.formats.chat_completions import to_openai
from memory_core.formats.openai_message import message_from_openai

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
    warned = [record.getMessage() for record in caplog.records if record.name == "memory_core.adapters.prompts"]
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
    with pytest.raises(NotFoundError):
        manager.delete_user_memory("x", "ada")


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
