"""The OpenAI Agents SDK on this engine's memory: its real runner against a scripted endpoint."""

import asyncio
import json
from functools import partial

import agents
import pytest
from agents.extensions.memory import EncryptedSession
from content_forms import PARTS, UNREAD
from cryptography.fernet import Fernet
from hypothesis import given, settings
from hypothesis import strategies as st
from models.scripted_server import ScriptedServer, Step, chunk, streamed
from openai import AsyncOpenAI

from adapters.frameworks import QUESTIONS, RESULT, assert_prompts_are_on_record, memory, restarted, script
from memory_core import ConfigError, Memory
from memory_inspector.adapters.openai_agents import InspectedSession

CALLS = [
    {"type": "function_call", "call_id": "a", "name": "forecast", "arguments": '{"place":"Faro"}', "id": "fc_1"},
    {"type": "function_call", "call_id": "b", "name": "forecast", "arguments": '{"z": 1, "place": "Porto"}'},
    {"type": "function_call_output", "call_id": "a", "output": "sunny"},
    {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "rain"}]},
]
ITEMS = [
    {"role": "user", "content": "Faro and Porto?"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Two."}],
        "encrypted_content": "x",
    },
    *CALLS,
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_1",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Sun and rain.", "annotations": [], "logprobs": []}],
    },
]


@agents.function_tool
def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


async def answered(agent, question, given):
    """The runner's answer to a question."""
    return (await agents.Runner.run(agent, question, **given)).final_output


async def streamed_answer(agent, question, given):
    """The same while its words come."""
    result = agents.Runner.run_streamed(agent, question, **given)
    kinds = [event.type async for event in result.stream_events()]
    assert "raw_response_event" in kinds
    return result.final_output


def streamed_script():
    """Answers of the same model as they come when they are streamed."""
    for step in script():
        message = step.body["choices"][0]["message"]
        if calls := message.get("tool_calls"):
            calls = [{"index": 0, **call} for call in calls]
            events = [chunk(role="assistant", tool_calls=calls), chunk(finish="tool_calls"), "[DONE]"]
            yield Step(stream=events)
        else:
            yield streamed(*message["content"].partition(" "))


ASKED = {"at once": (answered, script), "streamed": (streamed_answer, streamed_script)}


async def run(uri, url, *questions, ask=answered, **given):
    session = InspectedSession(memory(uri, **given))
    assert isinstance(session, agents.memory.Session)
    async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
        model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
        agent = agents.Agent(name="weather", model=model, tools=[forecast])
        silent = agents.RunConfig(tracing_disabled=True)
        for question in questions:
            said = await ask(agent, question, session.for_run(silent))
        assert silent.session_input_callback is None
    return said


@pytest.mark.parametrize("how", ASKED)
def test_the_recorded_prompts_are_what_the_model_saw_over_tools_a_flush_and_a_restart(how, tmp_path):
    uri, (ask, answers) = f"sqlite:///{tmp_path}/agent.db", ASKED[how]
    with ScriptedServer(*answers()) as server:
        asyncio.run(run(uri, server.url, *QUESTIONS[:2], ask=ask))
        assert asyncio.run(run(uri, server.url, QUESTIONS[2], ask=ask)) == "It is sunny, answer 2."
    assert_prompts_are_on_record(restarted(uri), server)


def test_items_come_back_as_they_were_and_go_one_by_one_as_with_the_sdk_s_own_session(tmp_path):
    async def both():
        ours = InspectedSession(memory(f"sqlite:///{tmp_path}/a.db", token_limit=4000))
        theirs = agents.SQLiteSession("s", str(tmp_path / "theirs.db"))
        for session in (ours, theirs):
            await session.add_items(ITEMS[:1])
            await session.add_items(ITEMS[1:4])
            await session.add_items(ITEMS[4:])
        assert await ours.get_items() == await theirs.get_items() == ITEMS
        assert await ours.get_items(limit=3) == ITEMS[-3:]
        for _ in ITEMS:
            assert await ours.pop_item() == await theirs.pop_item()
            assert await ours.get_items() == await theirs.get_items()
        assert await ours.pop_item() is None
        await ours.add_items(ITEMS)
        await ours.clear_session()
        assert await ours.get_items() == []

    asyncio.run(both())


ANSWERS = st.sampled_from([ITEMS[1:], ITEMS[2:], ITEMS[-1:], []])
"""Answers to a question: reasoning, calls, results and words; calls without reasoning; words; nothing yet."""


@settings(max_examples=40)
@given(answers=st.lists(ANSWERS, max_size=4), whole=st.booleans(), beyond=st.integers(-40, 40))
def test_a_limit_gives_the_same_newest_items_as_the_sdk_s_own_session(answers, whole, beyond):
    items = [item for answer in answers for item in (ITEMS[0], *answer)]

    async def both():
        ours, theirs = InspectedSession(Memory.from_defaults()), agents.SQLiteSession("s")
        for session in (ours, theirs):
            for batch in [items] if whole else [[item] for item in items]:
                await session.add_items(batch)
        for limit in (None, 0, 1, 2, 3, 7, -1, len(items), len(items) + 1, 2 * len(items), beyond):
            assert await ours.get_items(limit) == await theirs.get_items(limit), limit
            ours.session_settings = theirs.session_settings = agents.memory.SessionSettings(limit=limit)
            assert await ours.get_items() == await theirs.get_items(), limit
            ours.session_settings = theirs.session_settings = None
        theirs.close()

    asyncio.run(both())


@pytest.mark.parametrize("limit", [3, 7, 40])
def test_a_runner_with_a_limit_sends_the_model_the_history_that_fits(limit, tmp_path):
    async def sent(url):
        session = InspectedSession(memory(f"sqlite:///{tmp_path}/a.db", token_limit=4000))
        await session.add_items(ITEMS[:1] + ITEMS[-1:])
        await session.add_items([{"role": "user", "content": "And Lisbon?"}, *ITEMS[-1:]])
        async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
            chosen = agents.memory.SessionSettings(limit=limit)
            config = agents.RunConfig(tracing_disabled=True, session_settings=chosen)
            await agents.Runner.run(
                agents.Agent(name="a", model=model), "And Porto?", session=session, run_config=config
            )

    with ScriptedServer(*[*script()][-1:]) as server:
        asyncio.run(sent(server.url))
    assert len(server.bodies[0]["messages"]) == min(limit, 4) + 1


def test_without_the_callback_nothing_is_lost(tmp_path):
    uri = f"sqlite:///{tmp_path}/agent.db"

    async def plain(url):
        async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
            agent = agents.Agent(name="weather", model=model, tools=[forecast])
            config = agents.RunConfig(tracing_disabled=True)
            for question in QUESTIONS:
                await agents.Runner.run(agent, question, session=InspectedSession(memory(uri)), run_config=config)

    with ScriptedServer(*script()) as server:
        asyncio.run(plain(server.url))
    assert [m.content for m in restarted(uri).get_all() if m.role == "user"] == list(QUESTIONS)


@pytest.mark.parametrize("wrong", [{"content": "x"}, "x", None])
def test_what_is_no_item_costs_itself_alone(wrong, tmp_path, caplog):
    session = InspectedSession(memory(f"sqlite:///{tmp_path}/a.db"))
    asyncio.run(session.add_items([ITEMS[0], wrong]))
    assert [message.content for message in session.memory.get_all()] == [ITEMS[0]["content"]]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("given", [{"limit": 3}, agents.memory.SessionSettings(limit=3)])
def test_a_session_s_own_limit_may_be_given_as_settings_or_as_a_dict_and_set_later(given):
    items = [{"role": "user", "content": f"m{number}"} for number in range(5)]
    session, later = InspectedSession(Memory.from_defaults(), given), InspectedSession(Memory.from_defaults())
    assert session.session_settings == agents.memory.SessionSettings(limit=3)
    assert later.session_settings == agents.memory.SessionSettings()
    later.session_settings = given
    for each in (session, later):
        asyncio.run(each.add_items(items))
        assert asyncio.run(each.get_items()) == items[-3:]
        assert asyncio.run(each.get_items(4)) == items[-4:]


def test_an_unknown_setting_of_a_session_is_an_error_as_in_the_sdk_s_own():
    for made in (partial(agents.SQLiteSession, "s"), partial(InspectedSession, Memory.from_defaults())):
        with pytest.raises(TypeError, match="limitt"):
            made(session_settings={"limitt": 3})


def test_what_is_encrypted_is_refused_before_anything_is_lost():
    own = InspectedSession(Memory.from_defaults())
    session = EncryptedSession("s", own, encryption_key=Fernet.generate_key().decode())
    with pytest.raises(ConfigError, match="EncryptedSession hides what is said"):
        asyncio.run(session.add_items(ITEMS[:1]))
    assert own.memory.get_all() == []


def test_a_callback_of_the_programs_own_is_refused_and_not_replaced_in_silence(tmp_path):
    session = InspectedSession(memory(f"sqlite:///{tmp_path}/a.db"))
    own = agents.RunConfig(session_input_callback=lambda history, new: new)
    with pytest.raises(ConfigError, match="session_input_callback"):
        session.for_run(own)


@pytest.mark.parametrize(
    "item", [*UNREAD[:5], {"type": "later", "x": 1}, {"type": "mcp_call", "name": "look", "output": "six"}]
)
def test_an_item_of_any_type_is_kept_beside_the_answer_and_comes_back_as_it_was(item):
    session = InspectedSession(Memory.from_defaults())
    said = {"role": "assistant", "content": "By the ferry"}
    asyncio.run(session.add_items([{"role": "user", "content": "How?"}, item, said]))
    assert any(message.content and "By the ferry" in message.content for message in session.memory.get_all())
    assert item in asyncio.run(session.get_items())


@pytest.mark.parametrize("part", PARTS)
def test_an_answer_with_any_part_is_kept_with_its_words(part):
    session = InspectedSession(Memory.from_defaults())
    given = [part] if isinstance(part.get("type"), str) else []
    said = {"role": "assistant", "content": [part, {"type": "output_text", "text": "By the ferry"}]}
    asyncio.run(session.add_items([{"role": "user", "content": "How?"}, *given, said]))
    assert any("By the ferry" in (message.content or "") for message in session.memory.get_all())
    assert session.memory.get_all()[0].content == "How?"
    items = asyncio.run(session.input_callback([], [{"role": "user", "content": [part]}]))
    assert "By the ferry" in str(items)


def test_a_memory_that_fails_does_not_end_the_agent_s_run(caplog):
    session = InspectedSession(Memory.from_defaults())
    session.memory.close()
    asyncio.run(session.add_items([{"role": "assistant", "content": "By the ferry"}]))
    assert len(caplog.records) == 1
    assert "ferry" not in caplog.text


def test_instructions_and_tools_of_a_call_are_taken_off_the_next_prompt():
    seen = []

    def own_filter(data):
        seen.append(data.model_data.instructions)
        return data.model_data

    async def turns(memory, url, *questions):
        session = InspectedSession(memory)
        async with AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:
            model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
            agent = agents.Agent(name="weather", instructions="Speak of weather. " * 20, model=model, tools=[forecast])
            given = agents.RunConfig(tracing_disabled=True, call_model_input_filter=own_filter)
            for question in questions:
                await agents.Runner.run(agent, question, **session.for_run(given))

    memory = Memory.from_defaults(token_limit=1000, reserved_tokens=11)
    with ScriptedServer(*script()) as server:
        asyncio.run(turns(memory, server.url, *QUESTIONS[:2]))
    first, second = (record.event for record in memory.events(kinds=["context_built"]))
    assert (first.reserved_tokens, first.measured) == (11, False)
    parameters = server.bodies[0]["tools"][0]["function"]["parameters"]
    counted = ["Speak of weather. " * 20, json.dumps(parameters), forecast.description]
    assert sum(map(memory.session.count_tokens, counted)) < second.reserved_tokens < 200
    assert second.measured
    assert second.total == second.reserved_tokens + second.queue_tokens
    assert seen == ["Speak of weather. " * 20] * 4
