"""Google ADK's runner on this engine's memory service, with a scripted model."""

import asyncio
import threading
from types import SimpleNamespace

import google.adk.agents as agents
import google.adk.apps as apps
import google.adk.events as adk_events
import google.adk.models as models
import google.adk.runners as runners
import google.adk.sessions as sessions
import google.adk.tools.preload_memory_tool as preload
import google.genai.types as types
import pydantic
import pytest
from content_forms import PARTS as ANYBODY_S
from engine_fakes import HashEmbedder, HeldExtractor
from hypothesis import given
from hypothesis import strategies as st

from adapters.frameworks import RESULT
from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    VectorMemoryBlock,
    delete_session,
)
from memory_core.errors import StoreError
from memory_core.models.embedding import LocalEmbedder
from memory_core.planning import curation
from memory_inspector.adapters.google_adk import InspectedMemoryService
from memory_inspector.adapters.prompts import record_prompt, session_name
from memory_inspector.recorder.wire import Exchange

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


async def talk(uri, model, session_id, *questions, **settings):
    service = InspectedMemoryService(database_uri=uri, **settings)
    agent = agents.LlmAgent(
        name="weather", model=model, instruction="Be brief.", tools=[forecast, preload.PreloadMemoryTool()]
    )
    app = apps.App(name="app", root_agent=agent, plugins=[service.prompts()])
    store = sessions.InMemorySessionService()
    runner = runners.Runner(app=app, session_service=store, memory_service=service)
    await store.create_session(app_name="app", user_id="ada", session_id=session_id)
    try:
        for question in questions:
            content = types.Content(role="user", parts=[types.Part(text=question)])
            async for _ in runner.run_async(user_id="ada", session_id=session_id, new_message=content):
                pass
            session = await store.get_session(app_name="app", user_id="ada", session_id=session_id)
            await service.add_session_to_memory(session)
    finally:
        await runner.close()
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


def test_the_agent_does_not_wait_for_a_slow_model_and_a_search_does(tmp_path):
    slow = HeldExtractor()

    async def handed_over_and_found():
        service = InspectedMemoryService(
            database_uri=f"sqlite:///{tmp_path}/adk.db",
            services=Services(extractor=slow, embedder=HashEmbedder()),
            memory_blocks=[FactExtractionMemoryBlock(name="facts")],
        )
        said = types.Content(role="user", parts=[types.Part(text="Take note 17.")])
        event = adk_events.Event(id="e1", author="user", content=said)
        who = {"app_name": "app", "user_id": "ada"}
        await service.add_events_to_memory(**who, events=[event], session_id="s")
        memory = service.of("app", "ada")
        assert [message.content for message in memory.get_all()] == ["Take note 17."], "stored at once"
        assert not memory.facts.search("Which note was taken?"), "and not learned yet"
        search = asyncio.create_task(service.search_memory(**who, query="Which note was taken?"))
        await asyncio.sleep(0.2)
        assert not search.done()
        slow.evict.set()
        return [entry.content.parts[0].text for entry in (await search).memories]

    assert asyncio.run(handed_over_and_found()) == ["note 17 was taken"]


class Counting(LocalEmbedder):
    """Embeds by hash, and keeps which thread embedded each text."""

    id, dimensions = "counting", HashEmbedder.dimensions

    def __init__(self):
        super().__init__()
        self.threads = {}

    def _embedded(self, texts):
        for text in texts:
            self.threads.setdefault(text, []).append(threading.current_thread().name.rpartition("_")[0])
        return HashEmbedder().embed(texts)


def test_what_a_user_says_is_embedded_once_and_beside_the_agent_as_soon_as_its_searches_have_asked_it(tmp_path):
    questions = ("I live in Faro. How is the weather?", "And tomorrow?", "Where do I live?")
    counting = Counting()
    model, uri = Scripted(model="scripted"), f"sqlite:///{tmp_path}/adk.db"
    service = asyncio.run(talk(uri, model, "monday", *questions, services=Services(embedder=counting)))
    first, *others = (counting.threads[question] for question in questions)
    assert len(first) == 1
    assert first != ["adk-learning"]
    assert others == [["adk-learning"]] * 2
    service.user_said("app", "ben", "Nobody asked for him.")
    service.user_said("app", "ada", "This is asked.")
    service._learners.shutdown()
    assert "Nobody asked for him." not in counting.threads
    assert counting.threads["This is asked."] == ["adk-learning"]


def test_a_session_that_has_grown_is_handed_over_from_where_it_was_and_brings_back_nothing_that_was_forgotten(tmp_path):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/adk.db")
    words = [types.Content(role="user", parts=[types.Part(text=f"Take note {number}.")]) for number in (1, 2, 3)]
    session = sessions.Session(id="s", app_name="app", user_id="ada")

    def handed_over():
        session.events.append(adk_events.Event(id=f"e{len(session.events)}", author="user", content=words.pop(0)))
        asyncio.run(service.add_session_to_memory(session))
        service.wait()
        return [message.content for message in service.of("app", "ada").get_all()]

    assert handed_over() == ["Take note 1."]
    assert handed_over() == ["Take note 1.", "Take note 2."]
    service.of("app", "ada").reset()
    assert handed_over() == ["Take note 3."]


def test_what_could_not_be_flushed_is_a_warning_and_goes_with_what_comes_next(tmp_path, caplog):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/adk.db")
    memory = service.of("app", "ada")

    def handed_over(id, text):
        said = types.Content(role="user", parts=[types.Part(text=text)])
        event = adk_events.Event(id=id, author="user", content=said)
        asyncio.run(service.add_events_to_memory(app_name="app", user_id="ada", events=[event]))
        service.wait()

    def failing(**_):
        raise StoreError("The disk is full.")

    memory.flush = failing
    handed_over("e1", "I live in Faro.")
    assert [message.content for message in memory.get_all("active")] == ["I live in Faro."]
    assert "'adk:app:ada': What was handed over was not flushed: The disk is full." in caplog.text
    del memory.flush
    handed_over("e2", "Hello.")
    assert memory.facts.search("Where do I live?")[0].fact.text == "The user lives in Faro"


def test_blocks_of_any_name_are_searched_unless_they_are_switched_off(tmp_path):
    uri, model = f"sqlite:///{tmp_path}/adk.db", Scripted(model="scripted")
    blocks = [FactExtractionMemoryBlock(name="known"), VectorMemoryBlock(name="earlier")]
    service = asyncio.run(talk(uri, model, "monday", "I live in Faro.", memory_blocks=blocks))

    def found():
        entries = asyncio.run(service.search_memory(app_name="app", user_id="ada", query="Where do I live?")).memories
        return [entry.content.parts[0].text for entry in entries]

    assert found()[:2] == ["The user lives in Faro", "I live in Faro."]
    service.of("app", "ada").blocks.configure("known", enabled=False)
    assert found()[0] == "I live in Faro."


def told(service, *texts, app="app", user="ada"):
    """Tell the memory what a user said, each text in an event of its own."""
    said = [types.Content(role="user", parts=[types.Part(text=text)]) for text in texts]
    events = [adk_events.Event(id=f"e{number}", author="user", content=one) for number, one in enumerate(said)]
    asyncio.run(service.add_events_to_memory(app_name=app, user_id=user, events=events, session_id="s"))


def answers(service, query, *, app="app", user="ada"):
    found = asyncio.run(service.search_memory(app_name=app, user_id=user, query=query))
    return [entry.content.parts[0].text for entry in found.memories]


IDS = st.text(alphabet=":%3Aa", min_size=1, max_size=5)


@given(one=st.tuples(IDS, IDS), other=st.tuples(IDS, IDS), conversation=IDS)
def test_no_two_users_and_no_recorded_conversation_share_a_session_whatever_is_in_their_ids(one, other, conversation):
    names = session_name("adk", *one), session_name("adk", *other)
    assert (names[0] == names[1]) == (one == other)
    assert f"{names[0]}:{conversation}" != names[1], "the prompts of a conversation are not somebody's memory"


def test_a_colon_in_the_ids_shows_nobody_what_another_said(tmp_path):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/adk.db")
    told(service, "This is a secret.", app="app:other", user="user")
    assert answers(service, "secret", app="app:other", user="user")
    assert not answers(service, "secret", app="app", user="other:user")
    assert service.of("plain", "ada").session_id == "adk:plain:ada"


def test_what_a_caller_does_with_its_results_changes_no_later_answer():
    service = InspectedMemoryService()
    told(service, "I prefer jasmine tea.")
    first = asyncio.run(service.search_memory(app_name="app", user_id="ada", query="jasmine"))
    said = [entry.content.parts[0].text for entry in first.memories]
    for entry in first.memories:
        entry.content.parts.clear()
        entry.author = "nobody"
    again = asyncio.run(service.search_memory(app_name="app", user_id="ada", query="jasmine"))
    assert [entry.content.parts[0].text for entry in again.memories] == said
    assert {entry.author for entry in again.memories} == {"memory", "user"}


@pytest.mark.parametrize(
    ("said", "asked", "found"),
    [
        ("I like to code in Python.", "nonexistent", False),
        ("I like to code in Python.", "Java", False),
        ("I like to code in Python.", "thon", False),
        ("I like to code in Python.", "Ruby", False),
        ("I like to code in Python.", "python", True),
        ("I like to code in Python.", "Which programming language?", True),
        ("I prefer jasmine tea.", "What should I drink?", True),
        ("\u4eca\u5929\u5929\u6c14\u5f88\u597d", "\u5929\u6c17", False),
        ("\u4eca\u5929\u5929\u6c14\u5f88\u597d", "\u5929\u6c14\u9884\u62a5", False),
        ("\u4eca\u5929\u5929\u6c14\u5f88\u597d", "\u5929\u6c14", True),
        ("\u79c1\u306fPython\u3092\u4f7f\u3046", "Python", True),
    ],
)
def test_a_question_finds_what_shares_a_word_with_it_or_its_meaning_and_else_nothing(said, asked, found):
    service = InspectedMemoryService()
    told(service, said)
    assert (said in answers(service, asked)) == found
    assert found or not answers(service, asked)


def sent(request):
    """A request as the model got it: the instruction, then what each said, called or answered."""
    contents = [("system", request.config.system_instruction)] if request.config.system_instruction else []
    for content in request.contents:
        for part in content.parts:
            result = part.function_response
            role = "tool" if result else {"model": "assistant"}.get(content.role, content.role)
            contents.append((role, part.text or (result.response["result"] if result else part.function_call.name)))
    return contents


def shown(memory, record):
    """A recorded prompt, in the same form."""
    return [
        (str(message.role), message.content or message.tool_calls[0].tool_name)
        for message in memory.log.prompt(record).messages
    ]


def test_what_the_model_is_sent_is_what_the_app_shows(tmp_path):
    uri = f"sqlite:///{tmp_path}/adk.db"
    model = Scripted(model="scripted")
    asyncio.run(talk(uri, model, "monday", "I live in Faro. How is the weather?", "And tomorrow?"))
    asyncio.run(talk(uri, model, "tuesday", "Where do I live?"))
    found = []
    for session_id in ("adk:app:ada:monday", "adk:app:ada:tuesday"):
        memory = Memory.open(session_id, Database.open(uri), services=Services())
        found += [shown(memory, record) for record in memory.events(kinds=["context_built"])]
        called = memory.events(kinds=["model_called"])
        assert {call.event.model for call in called} == {"scripted"}
        assert len(called) == len(memory.events(kinds=["context_built"]))
    assert found == [sent(request) for request in model.asked]
    assert found[3][0][0] == "system"
    assert ("tool", RESULT) in found[3]
    assert "The user lives in Faro" in str(found[4])
    monday = Memory.open("adk:app:ada:monday", Database.open(uri), services=Services())
    assert [str(message.role) for message in monday.get_all()].count("assistant") == 4, "each answer stands once"


class Failing(models.BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        raise ConnectionError("secret words")
        yield


def test_a_call_that_fails_is_recorded_without_words(tmp_path):
    uri = f"sqlite:///{tmp_path}/adk.db"
    with pytest.raises(ConnectionError):
        asyncio.run(talk(uri, Failing(model="failing"), "monday", "Hello"))
    memory = Memory.open("adk:app:ada:monday", Database.open(uri), services=Services())
    assert [call.event.error for call in memory.events(kinds=["model_called"])] == ["ConnectionError"]


def test_what_a_person_changes_between_two_equal_questions_is_in_the_second_answer(tmp_path):
    uri, model = f"sqlite:///{tmp_path}/adk.db", Scripted(model="scripted")
    service = asyncio.run(talk(uri, model, "monday", "I live in Faro."))

    def found():
        entries = asyncio.run(service.search_memory(app_name="app", user_id="ada", query="Where do I live?")).memories
        return [entry.content.parts[0].text for entry in entries]

    assert found() == found()
    elsewhere = Memory.open("adk:app:ada", Database.open(uri), services=Services())
    [fact] = elsewhere.facts.search("Where do I live?")
    elsewhere.facts.desk("facts").apply(curation.edit(fact.fact, "The user lives in Lagos"))
    assert found()[0] == "The user lives in Lagos"


def test_a_conversation_whose_session_is_deleted_is_recorded_again_from_then_on(tmp_path):
    uri, model = f"sqlite:///{tmp_path}/adk.db", Scripted(model="scripted")

    def exchange():
        said = ChatMessage("Hello", role="user")
        return Exchange(purpose="reply", model="m", messages=(said,), answer=None, seconds=0.1)

    service = asyncio.run(talk(uri, model, "monday", "I live in Faro."))
    memory = service.of("app", "ada")
    delete_session(memory.session.database, "adk:app:ada:monday", reusable=True)
    record_prompt(lambda: memory, "monday", exchange)
    again = Memory.open("adk:app:ada:monday", memory.session.database, services=Services())
    assert [message.content for message in again.get_all()] == ["Hello"]


PARTS = {
    "image": types.Part(inline_data=types.Blob(mime_type="image/png", data=b"x")),
    "file": types.Part(file_data=types.FileData(file_uri="gs://a/b.pdf", mime_type="application/pdf")),
    "thought": types.Part(text="Hm.", thought=True),
    "code": types.Part(executable_code=types.ExecutableCode(code="1 + 1", language="PYTHON")),
    "result of code": types.Part(code_execution_result=types.CodeExecutionResult(outcome="OUTCOME_OK", output="2")),
    "call": types.Part(function_call=types.FunctionCall(id="c", name="look", args={"at": "sky"})),
    "result": types.Part(function_response=types.FunctionResponse(id="c", name="look", response={"result": "blue"})),
    "empty": types.Part(),
    "signature": types.Part(thought_signature=b"x"),
    "half a character": types.Part(text="Half \ud83d"),
}
ANSWERS = [
    *PARTS.values(),
    *(types.Part(function_call=types.FunctionCall(name="look", args=part)) for part in ANYBODY_S),
    *(types.Part(function_response=types.FunctionResponse(name="look", response=part)) for part in ANYBODY_S),
    *(types.Part.model_construct(text=part) for part in ANYBODY_S),
]


def handed_over(service, *parts):
    event = adk_events.Event(author="weather", content=types.Content(role="model", parts=list(parts)))
    asyncio.run(service.add_events_to_memory(app_name="app", user_id="ada", events=[event], session_id="s"))
    service.wait()
    return service.of("app", "ada")


@pytest.mark.parametrize("part", ANSWERS)
def test_an_answer_with_any_part_is_kept_with_its_words_and_its_call_recorded(part, tmp_path):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/a.db")
    memory = handed_over(service, part, types.Part(text="By the ferry"))
    assert any(message.content and "By the ferry" in message.content for message in memory.get_all())
    session = sessions.Session(id="s", app_name="app", user_id="ada")
    context = SimpleNamespace(invocation_id="i", agent_name="a", session=session)
    content, plugin = types.Content(role="model", parts=[part, types.Part(text="By the ferry")]), service.prompts()

    async def call():
        request = models.LlmRequest(contents=[content])
        await plugin.before_model_callback(callback_context=context, llm_request=request)
        await plugin.after_model_callback(callback_context=context, llm_response=models.LlmResponse(content=content))
        await plugin.close()

    asyncio.run(call())
    recorded = Memory.open("adk:app:ada:s", memory.session.database, services=Services()).get_all()
    assert any(message.content and "By the ferry" in message.content for message in recorded)


def test_an_answer_of_one_part_that_no_message_holds_is_kept_as_it_came(tmp_path):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/a.db")
    [message] = handed_over(service, PARTS["code"]).get_all()
    assert "1 + 1" in str(message.additional_kwargs["other_content"])


def test_a_memory_that_fails_does_not_end_the_agent_s_run(tmp_path, caplog):
    service = InspectedMemoryService(database_uri=f"sqlite:///{tmp_path}/a.db")
    service.of("app", "ada").close()
    handed_over(service, types.Part(text="By the ferry"))
    assert caplog.records
    assert "ferry" not in caplog.text
