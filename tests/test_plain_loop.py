"""An agent of twenty lines on the openai client: what it puts, and what it is given for the model."""

import json
from types import SimpleNamespace

import pytest
from models.scripted_server import ScriptedServer, completion
from openai import OpenAI
from openai.types.chat import ChatCompletion

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, MessageError, StaticMemoryBlock, ToolCallPart
from memory_core.formats.any_message import as_messages
from memory_core.formats.openai_message import to_openai


def called(id, name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return completion(None, finish="tool_calls", tool_calls=[{"id": id, "type": "function", "function": function}])


def turn(memory, client, words):
    """One turn of the agent: the model is asked until it calls no tool any more."""
    flushed = [memory.put({"role": "user", "content": words}).flushed]
    while True:
        sent = memory.build_context().openai()
        answer = client.chat.completions.create(model="m", messages=sent)
        message = answer.choices[0].message
        flushed.append(memory.put(message).flushed)
        if not message.tool_calls:
            return any(flushed)
        for call in message.tool_calls:
            result = f"{call.function.name}: sunny, twenty degrees, and hardly any wind from the west at all"
            flushed.append(memory.put({"role": "tool", "tool_call_id": call.id, "content": result}).flushed)


def complaint(messages):
    """What an endpoint would refuse in a request; None for nothing."""
    open_calls = []
    for message in messages:
        if message.keys() - {"role", "content", "tool_calls", "tool_call_id"} or "content" not in message:
            return f"fields {sorted(message)}"
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "a result without its call"
            open_calls.remove(message["tool_call_id"])
        elif open_calls:
            return "a call without its result"
        open_calls += [call["id"] for call in message.get("tool_calls") or ()]
    return "a call without its result" if open_calls else None


def test_a_loop_with_tools_runs_over_a_flush_and_the_log_shows_what_the_model_saw():
    blocks = [
        StaticMemoryBlock(name="core", static_content="You help with the weather."),
        FactExtractionMemoryBlock(name="facts", priority=1),
    ]
    memory = Memory.from_defaults(token_limit=150, token_flush_size=40, memory_blocks=blocks)
    script = []
    for number, place in enumerate(("Lisbon", "Porto", "Faro")):
        script += [called(f"c{number}", "forecast", place=place), completion(f"It is sunny in {place}.")]
    with ScriptedServer(*script) as server, OpenAI(base_url=server.url, api_key="x", max_retries=0) as client:
        flushed = [
            turn(memory, client, words)
            for words in (
                "I live in Lisbon. How is the weather?",
                "And how is it in Porto?",
                "Where do I live, and Faro?",
            )
        ]
    assert any(flushed)
    assert [complaint(body["messages"]) for body in server.bodies] == [None] * 6
    assert "Lisbon" in json.dumps(server.bodies[-1]["messages"]), "what left the queue comes back as a fact"
    recorded = memory.events(kinds=["context_built"])
    assert [to_openai(memory.log.prompt(record).messages) for record in recorded] == [
        body["messages"] for body in server.bodies
    ]
    assert [message.role for message in memory.get_all()] == ["user", "assistant", "tool", "assistant"] * 3


def test_a_message_is_taken_in_every_form_a_program_has_it():
    call = ToolCallPart(tool_call_id="c1", tool_name="forecast", tool_kwargs={"place": "Faro"})
    wanted = ChatMessage(role="assistant", parts=[call])
    answer = ChatCompletion.model_validate(called("c1", "forecast", place="Faro").body)
    for given in (wanted, answer, answer.choices[0], answer.choices[0].message, answer.choices[0].message.model_dump()):
        assert as_messages(given) == [wanted]
    memory = Memory.from_defaults(chat_history=[{"role": "user", "content": "Faro?"}])
    memory.put_messages([answer, {"role": "tool", "tool_call_id": "c1", "content": "sunny"}])
    memory.set([*memory.get(), {"role": "assistant", "content": [{"type": "text", "text": "Sunny."}]}])
    assert to_openai(memory.get_all()) == [
        {"role": "user", "content": "Faro?"},
        {"role": "assistant", "content": None, "tool_calls": answer.choices[0].message.model_dump()["tool_calls"]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "assistant", "content": "Sunny."},
    ]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"role": "user", "words": "Hello"}, '"words"'),
        ({"content": "Hello"}, '"role"'),
        ({"role": "assistant"}, "no"),
        ({"choices": []}, "0 choices"),
        ("Hello", "str"),
        (ChatCompletion, "ModelMetaclass"),
        (SimpleNamespace(role="user", content="Hello"), "SimpleNamespace"),
    ],
)
def test_what_is_no_message_is_refused_by_name_and_nothing_of_the_batch_is_stored(given, named):
    memory = Memory.from_defaults()
    with pytest.raises(MessageError, match=named):
        memory.put_messages([{"role": "user", "content": "Hello"}, given])
    assert memory.get_all() == []
