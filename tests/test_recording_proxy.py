"""The recording proxy on a real loopback server: what passes through it, and what is recorded of it."""

import json
import logging
import socket
import threading

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models.scripted_server import ScriptedServer, Step, chunk, completion, embeddings, refusal, usage_chunk
from openai import APIConnectionError, AuthenticationError
from proxy_kit import KEY, Attached

from memory_core import ChatMessage, Database, Memory, Services
from memory_core.engine.session import Session
from memory_core.history.contexts import is_context
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.recording_proxy import UPSTREAM
from memory_inspector.recorder.wire import Exchange


@pytest.fixture
def attached(tmp_path):
    with Attached(Database.open(f"sqlite:///{tmp_path}/memory.db")) as running:
        yield running


@pytest.fixture
def endpoint(monkeypatch):
    def scripted(*steps):
        server = ScriptedServer(*steps)
        monkeypatch.setenv(UPSTREAM, server.url)
        return server

    return scripted


def said(role, content):
    return {"role": role, "content": content}


def test_the_prompt_of_each_call_is_recorded_as_it_was_sent(attached, endpoint):
    call = {"id": "t1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    with endpoint(completion(None, tool_calls=[call]), completion("Rain."), completion("Yes, again.")):
        client = attached.client()
        sent = [said("system", "Be brief. <memory>Alice</memory>"), said("user", "Weather in Oslo?")]
        answer = client.chat.completions.create(model="m", messages=sent).choices[0].message
        sent += [answer.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "t1", "content": "rain"}]
        answer = client.chat.completions.create(model="m", messages=sent).choices[0].message
        # The agent forgets its first turn, and has another system message by now.
        sent = [said("system", "Be kind."), said("assistant", answer.content), said("user", "Weather in Oslo?")]
        client.chat.completions.create(model="m", messages=sent)
    first, second, third = attached.prompts()
    assert first == [("system", "Be brief. <memory>Alice</memory>"), ("user", "Weather in Oslo?")]
    assert second == [*first, ("assistant", None), ("tool", "rain")]
    assert third == [("system", "Be kind."), ("assistant", "Rain."), ("user", "Weather in Oslo?")]
    memory = attached.memory()
    # Every message stands once, in the order in which it came.
    words = ["Weather in Oslo?", None, "rain", "Rain.", "Be kind.", "Weather in Oslo?", "Yes, again."]
    assert [message.content for message in memory.get_all()][1:] == words
    assert memory.get_all()[2].tool_calls[0].tool_kwargs == {"city": "Oslo"}
    assert memory.session.status().turns == 2
    assert [(c.input_tokens, c.output_tokens, c.error) for c in attached.calls()] == [(11, 7, None)] * 3


def test_what_comes_back_is_what_the_endpoint_sent(attached, endpoint):
    pieces = [chunk(role="assistant"), chunk("Good "), chunk("day"), chunk(finish="stop"), usage_chunk(5, 2), "[DONE]"]
    body = '{"choices": [ ],\n "odd":  "ü"}'
    steps = [Step(stream=pieces), Step(body=body, headers={"x-request-id": "r1"}), refusal(429, "later", retry_after=3)]
    with endpoint(*steps) as server:
        url, headers = f"{attached.url()}/chat/completions?api-version=2", {"authorization": f"Bearer {KEY}"}
        request = b'{"model": "m",  "messages": [{"role": "user", "content": "Hi"}]}'
        streamed_back, whole, refused = (httpx.post(url, content=request, headers=headers) for _ in range(3))
        asked = server.requests
    expected = "".join(f"data: {p if isinstance(p, str) else json.dumps(p)}\n\n" for p in pieces)
    assert (streamed_back.text, streamed_back.headers["content-type"]) == (expected, "text/event-stream")
    assert (whole.text, whole.headers["x-request-id"]) == (body, "r1")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "3")
    path, given, sent = asked[0]
    assert (path, given["authorization"], sent) == (
        "/v1/chat/completions?api-version=2",
        f"Bearer {KEY}",
        json.loads(request),
    )
    assert [c.error for c in attached.calls()] == [None, None, "the endpoint refused it: 429 x"]
    assert [m.content for m in attached.memory().get_all()] == ["Hi", "Good day"]


def test_what_breaks_off_breaks_off_for_the_agent_and_is_recorded_as_far_as_it_came(attached, endpoint):
    with endpoint(Step(stream=[chunk("Half "), chunk("an ans")], break_off=True)):
        stream = attached.client().chat.completions.create(model="m", messages=[said("user", "Hi")], stream=True)
        heard = []
        with pytest.raises((APIConnectionError, httpx.HTTPError)):
            heard.extend(event.choices[0].delta.content for event in stream)
    assert heard == ["Half ", "an ans"]
    assert [c.error for c in attached.calls()] == ["the connection to the endpoint broke off"]
    assert [m.content for m in attached.memory().get_all()] == ["Hi", "Half an ans"]


def test_an_agent_that_hangs_up_ends_the_call_at_the_endpoint(attached, endpoint):
    with endpoint(Step(stream=[chunk("Slow"), *[0.02, chunk(".")] * 200])) as server:
        request = {"model": "m", "messages": [said("user", "Hi")], "stream": True}
        with httpx.stream("POST", f"{attached.url()}/chat/completions", json=request) as answer:
            next(answer.iter_raw())
        assert server.dropped.wait(10)
    assert [c.error for c in attached.calls()] == ["the agent hung up before it had the whole answer"]


@pytest.fixture
def closing_endpoint(monkeypatch):
    """A server that answers some requests of each connection, and closes it as the next one arrives."""
    asked, listener = [], socket.create_server(("127.0.0.1", 0))

    def serve(answered):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            with connection, connection.makefile("rb") as requests:
                for number in range(answered + 1):
                    length = 0
                    while (line := requests.readline().strip().lower()) != b"":
                        length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
                    asked.append(requests.read(length))
                    if number < answered:
                        body = json.dumps(completion("Good day").body).encode()
                        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))

    def started(answered):
        monkeypatch.setenv(UPSTREAM, f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        threading.Thread(target=serve, args=[answered], daemon=True).start()
        return asked

    yield started
    listener.close()


def test_a_kept_connection_that_the_endpoint_closes_is_replaced_once(attached, closing_endpoint):
    asked = closing_endpoint(1)
    request = {"model": "m", "messages": [said("user", "Hi")]}
    answers = [httpx.post(f"{attached.url()}/chat/completions", json=request) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert len(asked) == 5, "the second and the third are sent twice"
    assert [c.error for c in attached.calls()] == [None, None, None]


def test_a_request_that_broke_off_on_a_connection_of_its_own_is_not_sent_twice(attached, closing_endpoint):
    asked = closing_endpoint(0)
    request = {"model": "m", "messages": [said("user", "Hi")]}
    answer = httpx.post(f"{attached.url()}/chat/completions", json=request)
    assert (answer.status_code, len(asked)) == (502, 1)


def test_an_endpoint_that_is_down_is_one_clear_error(attached, monkeypatch):
    monkeypatch.setenv(UPSTREAM, "http://user:secret@127.0.0.1:9/v1")
    answer = httpx.post(f"{attached.url()}/chat/completions", json={"model": "m", "messages": [said("user", "Hi")]})
    assert answer.status_code == 502
    assert "127.0.0.1:9" in answer.json()["error"]["message"]
    assert "secret" not in answer.text
    assert [c.error for c in attached.calls()] == ["the endpoint could not be reached (ConnectError)"]
    assert attached.prompts() == [[("user", "Hi")]]


def test_responses_and_embeddings_are_recorded_too(attached, endpoint):
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}
    whole = {"id": "r", "output": [{"type": "reasoning", "summary": []}, message], "usage": {"input_tokens": 9}}
    events = [{"type": "response.output_text.delta", "delta": "Hel"}, {"type": "response.completed", "response": whole}]
    with endpoint(Step(body=whole), Step(stream=events), embeddings([0.5])):
        url = attached.url()
        httpx.post(f"{url}/responses", json={"model": "m", "instructions": "Be kind.", "input": "Hi"})
        items = [said("user", "Hi"), message, said("user", "And now?")]
        httpx.post(f"{url}/responses", json={"model": "m", "instructions": "Be kind.", "input": items, "stream": True})
        httpx.post(f"{url}/embeddings", json={"model": "e", "input": "what was it"})
    first = [("system", "Be kind."), ("user", "Hi")]
    assert attached.prompts() == [first, [*first, ("assistant", "Hello."), ("user", "And now?")]]
    assert [(c.purpose, c.model, c.input_tokens) for c in attached.calls()] == [
        ("reply", "m", 9),
        ("reply", "m", 9),
        ("embed", "e", 1),
    ]


def test_keys_are_kept_nowhere(attached, endpoint, tmp_path, caplog):
    caplog.set_level(logging.DEBUG, logger="memory_inspector")
    with endpoint(refusal(401, f"Incorrect API key provided: {KEY}", code="invalid_api_key"), completion("Hi.")):
        with pytest.raises(AuthenticationError):
            attached.client().chat.completions.create(model="m", messages=[said("user", "Hi")])
        attached.client().chat.completions.create(model="m", messages=[said("user", "Hi")])
    assert [c.error for c in attached.calls()] == ["the endpoint refused it: 401 invalid_api_key", None]
    assert not any(KEY.encode() in file.read_bytes() for file in tmp_path.iterdir())
    assert KEY not in caplog.text


@pytest.mark.slow
def test_agents_that_take_turns_on_one_session_keep_their_prompts(attached, endpoint):
    writer, reader = [said("system", "Write."), said("user", "One")], [said("system", "Read."), said("user", "Two")]
    with endpoint(*[completion(f"answer {n}") for n in range(6)]):
        for turn in range(3):
            for prompt in (writer, reader):
                answer = attached.client().chat.completions.create(model="m", messages=prompt)
                prompt += [said("assistant", answer.choices[0].message.content), said("user", f"more {turn}")]
    assert attached.prompts()[-1] == [(m["role"], m["content"]) for m in reader[:-2]]
    assert len(attached.memory().get_all()) == len(writer) + len(reader) - 2


def test_what_may_not_be_recorded_is_refused_before_it_is_sent(attached, endpoint):
    own = Memory.from_defaults("own", database=attached.database, services=attached.services)
    with endpoint() as server:
        ask = {"model": "m", "messages": [said("user", "Hi")]}
        page = httpx.post(f"{attached.url()}/chat/completions", json=ask, headers={"origin": "http://evil.test"})
        taken = httpx.post(f"{attached.url('own')}/chat/completions", json=ask)
        odd = httpx.post(f"{attached.url('a%2Fb')}/chat/completions", json=ask)
        assert (page.status_code, taken.status_code, odd.status_code, server.requests) == (403, 409, 400, [])
    assert own.get_all() == []


def test_a_stream_in_too_many_pieces_is_passed_on_unchanged_and_recorded_in_a_sentence(attached, endpoint):
    body = "data: {}\n\n" * 400_000
    with endpoint(Step(body=body)):
        ask = {"model": "m", "messages": [said("user", "Hi")]}
        assert httpx.post(f"{attached.url()}/chat/completions", json=ask).text == body
    assert attached.prompts() == [[("user", "Hi")]]
    assert [c.error for c in attached.calls()] == ["its answer is in too many pieces to be read"]


def test_a_part_of_an_unknown_kind_does_not_keep_its_call_out_of_the_record(attached, endpoint):
    part = {"type": "hologram", "of": "a gate"}
    with endpoint(completion("Hi."), Step(body={"data": []})):
        ask = {"model": "m", "messages": [said("user", [part]), said("user", "What is it?")]}
        assert httpx.post(f"{attached.url()}/chat/completions", json=ask).json()["choices"]
        assert httpx.post(f"{attached.url()}/batches", json={}).status_code == 200
    assert attached.prompts() == [[("user", json.dumps(part)), ("user", "What is it?")]]


def thoughts_and_words(message):
    return [(part.type, getattr(part, "text", None)) for part in message.parts]


LOOK = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
THOUGHT, SIX = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}, "Six."
OUTPUT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SIX}]}
CALLED = {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"}
LOOKED = [
    {**said("assistant", None), "reasoning_content": "Hm.", "tool_calls": [LOOK]},
    {"role": "tool", "tool_call_id": "t1", "content": "blue"},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "key", "answers", "turns"),
    [
        (
            "chat/completions",
            "messages",
            [completion(None, tool_calls=[LOOK]), completion(SIX)],
            [LOOKED, [{**said("assistant", SIX), "reasoning_content": "So."}, said("user", "And?")]],
        ),
        (
            "responses",
            "input",
            [Step(body={"output": [THOUGHT, CALLED]}), Step(body={"output": [OUTPUT]})],
            [
                [THOUGHT, CALLED, {"type": "function_call_output", "call_id": "t1", "output": "blue"}],
                [{**THOUGHT, "summary": [{"type": "summary_text", "text": "So."}]}, OUTPUT, said("user", "And?")],
            ],
        ),
    ],
)
@pytest.mark.parametrize("goes_on", ["with it", "without it"])
def test_reasoning_that_is_sent_back_and_the_answer_behind_it_stand_once(
    attached, endpoint, path, key, answers, turns, goes_on
):
    sent = [said("user", "Look.")]
    with endpoint(*answers, *[completion("End.") if key == "messages" else Step(body={"output": []})] * 2):
        for more in ([], *turns):
            sent += more
            httpx.post(f"{attached.url()}/{path}", json={"model": "m", key: sent}).raise_for_status()
        if goes_on == "without it":
            kept = [entry for entry in sent if entry.get("type") != "reasoning"]
            sent = [{name: value for name, value in entry.items() if name != "reasoning_content"} for entry in kept]
        sent = [*sent, said("assistant", "End."), said("user", "Bye")]
        httpx.post(f"{attached.url()}/{path}", json={"model": "m", key: sent}).raise_for_status()
    memory = attached.memory()
    stands = [each for message in memory.get_all() for each in thoughts_and_words(message)]
    once = [("thinking", "Hm."), ("tool_call", None), ("text", "blue"), ("thinking", "So."), ("text", SIX)]
    assert [stands.count(each) for each in once] == [1] * 5
    last = [record for record in memory.log.history().records if is_context(record.event)][-1]
    prompt = [each for message in memory.log.prompt(last).messages for each in thoughts_and_words(message)]
    assert prompt[1:-3] == [each for each in once if goes_on == "with it" or each[0] != "thinking"]


words = st.sampled_from(["yes", "no", "more", "why"])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_every_prompt_is_kept_as_it_was_whatever_the_agent_sends(data):
    """Any prompts one after the other: grown, shortened, shuffled, said again."""
    memory = attached_memory()
    sent = []
    for _ in range(data.draw(st.integers(1, 4))):
        kept = data.draw(st.permutations(sent) if data.draw(st.booleans()) else st.just(sent))
        kept = kept[data.draw(st.integers(0, len(kept))) :]
        new = data.draw(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), words), min_size=1))
        sent = [*kept, *new]
        messages = tuple(ChatMessage(role=role, content=content) for role, content in sent)
        record_exchange(memory._session, Exchange("reply", "m", messages))
        contexts = [r for r in memory.log.history().records if is_context(r.event)]
        assert memory.log.prompt(contexts[-1]).messages == messages


def attached_memory():
    session = Session(Database.open(), "s", services=Services())
    attach(session)
    return Memory(session)
