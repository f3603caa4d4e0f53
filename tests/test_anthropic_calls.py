"""Calls of Anthropic's clients through the recording proxy: the bytes stay the same, and what is read of them."""

import json
import logging

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_kit import KEY, VALUES, Attached, Endpoint

from memory_core import Database
from memory_inspector.recorder import recording_proxy
from memory_inspector.recorder.recording_proxy import MAX_KEPT_AT_ONCE, UPSTREAM, UPSTREAM_ANTHROPIC
from memory_inspector.recorder.streamed_answer import is_complete
from memory_inspector.recorder.wire import Answered, read_exchange

HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "one-1, two-2"}
MARK = {"cache_control": {"type": "ephemeral"}}
USAGE = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10, "output_tokens": 1}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def said(role, *content):
    return {"role": role, "content": content[0] if isinstance(content[0], str) else list(content)}


def asked(*messages, **more):
    return {"model": "claude", "max_tokens": 9, "messages": list(messages), **more}


def events(*content, usage=USAGE, output=50):
    """The events of a streamed message; a block is given with its deltas."""
    start = {"id": "m1", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, (block, *deltas) in enumerate(content):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": output}}
    yield {"type": "message_stop"}


def sse(*sent):
    return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in sent)


def deltas(kind, field, *pieces):
    return [{"type": kind, field: piece} for piece in pieces]


def texts(*pieces):
    return [text(""), *deltas("text_delta", "text", *pieces)]


def tool(name, *pieces):
    return [
        {"type": "tool_use", "id": "t1", "name": name, "input": {}},
        *deltas("input_json_delta", "partial_json", *pieces),
    ]


THOUGHT = [
    {"type": "thinking", "thinking": "", "signature": ""},
    *deltas("thinking_delta", "thinking", "It is ", "blue."),
    *deltas("signature_delta", "signature", "c2lnbmVk"),
]
SEALED = [{"type": "redacted_thinking", "data": "ZW5j"}]
STREAM = sse(*events(THOUGHT, SEALED, texts("Let me", " look."), tool("look", "", '{"at": ', '"sea"}')))
WHOLE = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "thinking", "thinking": "So.", "signature": "c2ln"}, text("Until six.")],
    "usage": USAGE,
}


def read(body, request=None):
    request = json.dumps(request or asked(said("user", "Hi"))).encode()
    return read_exchange("messages", request, Answered(200, body))


def parts(message):
    """The parts of a message as their types and what they say."""
    return [(part.type, getattr(part, "text", None) or getattr(part, "tool_kwargs", None)) for part in message.parts]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One endpoint and one proxy for all tests here."""
    endpoint, folder = Endpoint(), tmp_path_factory.mktemp("anthropic")
    with pytest.MonkeyPatch.context() as patched, Attached(Database.open(f"sqlite:///{folder}/memory.db")) as attached:
        patched.delenv(UPSTREAM, raising=False)
        patched.setenv(UPSTREAM_ANTHROPIC, endpoint.url)
        attached.folder = folder
        yield attached, endpoint
    endpoint.close()


@pytest.fixture
def session(running, request):
    """The name of a session of this test; the endpoint answers with a whole message."""
    running[1].answer(json.dumps(WHOLE).encode(), content_type="application/json")
    return f"s{abs(hash(request.node.name))}"


@pytest.fixture
def ask(running, session):
    """Ask through the proxy as Anthropic's clients do."""

    def send(body, path="/v1/messages", method="POST", **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        address = running[0].url(session).removesuffix("/v1")
        answer = httpx.request(method, address + path, content=content, headers={**HEADERS, **headers}, timeout=20)
        running[0].settle()
        assert running[0].proxy._room._left == MAX_KEPT_AT_ONCE
        return answer

    return send


# -- what passes -----------------------------------------------------------------------------------

ODD = (
    b'{"model":"claude",  "max_tokens": 9, "stream":true, "thinking": {"type": "enabled", "budget_tokens": 1024},\n'
    b'"system": [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral","ttl":"1h"}}],'
    b'"tools": [{"name":"look","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}, '
    b'{"type":"web_search_20250305","name":"web_search"}],'
    b'"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png",'
    b'"data":"aGk="}},{"type":"text","text":"\\u00fc \xc3\xbc"}]}, {"role":"assistant","content":[{"type":"thinking",'
    b'"thinking":"Hm.","signature":"c2ln"},{"type":"redacted_thinking","data":"ZW5j"},{"type":"tool_use","id":"t1",'
    b'"name":"look","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}]}'
)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true"])
@pytest.mark.parametrize("credential", [{}, {"x-api-key": "", "authorization": f"Bearer {KEY}"}], ids=["key", "token"])
def test_a_call_arrives_and_its_answer_returns_byte_for_byte(running, ask, path, credential):
    endpoint = running[1]
    endpoint.answer(STREAM, content_type="text/event-stream", request_id="r1")
    answer = ask(ODD, path, **credential)
    arrived, headers, body = endpoint.requests[-1]
    assert (arrived, body) == (path, ODD)
    expected = {**HEADERS, **credential}
    assert {name: headers.get(name) for name in expected} == expected
    assert (answer.content, answer.headers["content-type"], answer.headers["request-id"]) == (
        STREAM,
        "text/event-stream",
        "r1",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("POST", "/v1/messages/batches"),
        ("GET", "/v1/messages/batches/b1/results"),
        ("GET", "/v1/models?limit=5"),
    ],
)
def test_requests_that_are_no_calls_pass_to_the_same_endpoint_and_are_not_recorded(running, ask, session, method, path):
    running[1].answer(b'{"input_tokens":  7}')
    assert ask(asked(said("user", "Hi")), path, method).content == b'{"input_tokens":  7}'
    assert running[1].requests[-1][0] == path
    assert not running[0].known(session)


@pytest.mark.parametrize(
    ("settings_of", "path", "expected"),
    [
        ({}, "/messages", (UPSTREAM_ANTHROPIC, "https://api.anthropic.com/v1")),
        ({}, "/chat/completions", (UPSTREAM, "https://api.openai.com/v1")),
        ({}, "/models", (UPSTREAM, "https://api.openai.com/v1")),
        ({UPSTREAM: "http://h/v1/"}, "/messages/count_tokens", (UPSTREAM, "http://h/v1")),
        ({UPSTREAM: "http://h", UPSTREAM_ANTHROPIC: "http://a"}, "/messages", (UPSTREAM_ANTHROPIC, "http://a/v1")),
        ({UPSTREAM: "http://h", UPSTREAM_ANTHROPIC: "http://a/v1/"}, "/messages", (UPSTREAM_ANTHROPIC, "http://a/v1")),
        ({UPSTREAM: "http://h/v1", UPSTREAM_ANTHROPIC: "http://a"}, "/responses", (UPSTREAM, "http://h/v1")),
    ],
)
def test_each_client_s_calls_go_to_its_company_unless_an_endpoint_is_named(monkeypatch, settings_of, path, expected):
    for name in (UPSTREAM, UPSTREAM_ANTHROPIC):
        monkeypatch.setenv(name, settings_of.get(name, ""))
    assert recording_proxy._upstream(path, ()) == expected


def test_a_refusal_of_the_proxy_has_the_form_of_an_error_of_anthropic(running, session):
    page = httpx.post(f"{running[0].url(session)}/messages", json={}, headers={"origin": "http://evil.test"})
    assert (page.status_code, page.json()["type"], bool(page.json()["error"]["message"])) == (403, "error", True)


def test_an_endpoint_that_is_down_is_named_with_its_own_setting(running, ask, session, monkeypatch):
    monkeypatch.setenv(UPSTREAM_ANTHROPIC, "http://user:secret@127.0.0.1:9")
    answer = ask(asked(said("user", "Hi")))
    assert answer.status_code == 502
    assert UPSTREAM_ANTHROPIC in answer.json()["error"]["message"]
    assert "secret" not in answer.text
    assert running[0].prompts(session) == [[("user", "Hi")]]


# -- what is recorded ------------------------------------------------------------------------------


def test_a_streamed_answer_is_recorded_with_its_calls_and_all_tokens(running, ask, session):
    running[1].answer(STREAM, content_type="text/event-stream")
    ask(asked(said("user", "What is at sea?"), stream=True))
    [called] = running[0].calls(session)
    assert (called.purpose, called.model, called.error) == ("reply", "claude", None)
    assert (called.input_tokens, called.output_tokens) == (113, 50)
    assert parts(running[0].memory(session).get_all()[-1]) == [("text", "Let me look."), ("tool_call", {"at": "sea"})]


def test_an_agent_s_turns_stand_once_although_its_cache_markers_move(running, ask, session):
    """The turns of a coding agent: system prompt in blocks, one of which changes each time; reasoning is sent back."""
    attached, endpoint = running
    endpoint.answer(STREAM)
    called = [
        {"type": "thinking", "thinking": "It is blue.", "signature": "c2lnbmVk"},
        {"type": "redacted_thinking", "data": "ZW5j"},
        text("Let me look."),
        {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sea"}},
    ]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text("a boat")]}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}

    def system(number):
        return [text(f"call {number}"), text("You are an agent.", **MARK)]

    first = said("user", image, text("What is at sea?", **MARK))
    ask(asked(first, system=system(1)))
    endpoint.answer(json.dumps(WHOLE).encode())
    first = said("user", image, text("What is at sea?"))
    second = said("user", {**result, **MARK}, text("Go on."))
    ask(asked(first, said("assistant", *called), second, system=system(2)))
    endpoint.answer(json.dumps({**WHOLE, "content": [text("Bye")]}).encode())
    second = said("user", result, text("Go on."))
    last = said("user", text("Thanks", **MARK))
    ask(asked(first, said("assistant", *called), second, said("assistant", *WHOLE["content"]), last, system=system(3)))
    memory = attached.memory(session)
    seen = [(str(m.role), m.content) for m in memory.get_all()]
    assert [words for role, words in seen if role == "system"] == ["call 1", "You are an agent.", "call 2", "call 3"]
    assert [each for each in seen if each[0] != "system"] == [
        ("user", "What is at sea?"),
        ("assistant", None),
        ("assistant", "Let me look."),
        ("tool", "a boat"),
        ("user", "Go on."),
        ("assistant", None),
        ("assistant", "Until six."),
        ("user", "Thanks"),
        ("assistant", "Bye"),
    ]
    thoughts = [part.text for m in memory.get_all() for part in m.parts if part.type == "thinking"]
    assert thoughts == ["It is blue.", "So."]
    assert [words for _, words in attached.prompts(session)[-1]] == [
        "call 3",
        "You are an agent.",
        "What is at sea?",
        None,
        "Let me look.",
        "a boat",
        "Go on.",
        None,
        "Until six.",
        "Thanks",
    ]


def test_a_system_prompt_as_text_is_one_message(running, ask, session):
    ask(asked(said("user", "Hi"), system="Be brief."))
    assert running[0].prompts(session) == [[("system", "Be brief."), ("user", "Hi")]]


def test_a_tool_that_the_endpoint_runs_is_a_call_with_its_result():
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [text("Six o'clock")]}
    hosted = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "gate"}}
    exchange = read(
        json.dumps({**WHOLE, "content": [hosted, found, text("Six.")]}).encode(),
        asked(said("assistant", hosted, found, text("Six."))),
    )
    call, result = exchange.messages
    assert parts(call) == parts(exchange.answer) == [("tool_call", {"query": "gate"}), ("text", "Six.")]
    assert (result.role, result.tool_call_id, result.content) == ("tool", "s1", "Six o'clock")


@pytest.mark.parametrize("block", [{"type": "hologram", "beam": 3}, {"type": "container_upload", "file_id": "f1"}])
def test_a_block_of_an_unknown_type_is_its_json_text(block):
    exchange = read(sse(*events([block], texts("Hi"))), asked(said("user", {**block, **MARK}, text("Hi"))))
    assert exchange.messages[0].content == exchange.answer.content == f"{json.dumps(block)}\nHi"


def test_the_counts_of_an_endpoint_that_reports_them_at_the_end_are_those_at_the_end():
    late = {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 12, "output_tokens": 5}}
    exchange = read(sse(*list(events(texts("Hi"), usage={"input_tokens": 0, "output_tokens": 0}))[:-2], late))
    assert (exchange.input_tokens, exchange.output_tokens) == (12, 5)


# -- streams in any pieces -------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_stream_cut_anywhere_arrives_unchanged_and_is_recorded_alike(running, data):
    attached, endpoint = running
    cuts = sorted(data.draw(st.lists(st.integers(0, len(STREAM)), max_size=8)))
    endpoint.answer(*(STREAM[a:b] for a, b in zip([0, *cuts], [*cuts, len(STREAM)], strict=True)))
    request = json.dumps(asked(said("user", "Hi"))).encode()
    answer = httpx.post(f"{attached.url('cut')}/messages", content=request, headers=HEADERS, timeout=20)
    assert (answer.content, endpoint.requests[-1][2]) == (STREAM, request)
    called, last = attached.calls("cut")[-1], attached.memory("cut").get_all()[-1]
    assert parts(last) == [("text", "Let me look."), ("tool_call", {"at": "sea"})]
    assert (called.error, called.input_tokens, called.output_tokens) == (None, 113, 50)


def cut(whole):
    """Any way to split a text into pieces."""
    return st.lists(st.integers(0, len(whole)), max_size=5).map(
        lambda at: [whole[a:b] for a, b in zip([0, *sorted(at)], [*sorted(at), len(whole)], strict=True)]
    )


@given(cut("Until six, or “seven”."), cut('{"at": "the \\u00fc sea", "deep": {"m": [4, "}"]}}'))
def test_the_pieces_of_texts_and_arguments_are_joined_however_they_are_split(words, arguments):
    exchange = read(sse(*events(THOUGHT, texts(*words), tool("look", *arguments))))
    made = {"at": "the ü sea", "deep": {"m": [4, "}"]}}
    words = [("thinking", "It is blue."), ("text", "Until six, or “seven”.")]
    assert parts(exchange.answer) == [*words, ("tool_call", made)]


@given(st.integers(0, len(STREAM)))
def test_of_a_stream_that_was_cut_off_what_came_is_read(end):
    answer = read(STREAM[:end]).answer
    came = parts(answer) if answer else []
    assert [kind for kind, _ in came] == ["thinking", "text", "tool_call"][: len(came)]
    assert all(
        whole.startswith(words) for (_, words), whole in zip(came, ("It is blue.", "Let me look."), strict=False)
    )


KINDS = ["message", "message_start", "content_block_start", "content_block_delta", "error"]
DELTA = {"type": st.sampled_from(["text_delta", "input_json_delta"]), "text": VALUES, "partial_json": VALUES}
EVENT = {
    "type": st.sampled_from(KINDS),
    "index": VALUES,
    "message": VALUES | st.fixed_dictionaries({"content": VALUES, "usage": VALUES}),
    "content_block": VALUES,
    "delta": VALUES | st.fixed_dictionaries(DELTA),
}


@settings(max_examples=200, deadline=None)
@given(st.lists(VALUES | st.fixed_dictionaries(EVENT), max_size=5), VALUES)
@pytest.mark.slow
def test_whatever_an_endpoint_streams_and_an_agent_sends_is_read(sent, value):
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in sent)
    read(body, asked(said("user", [value] if value else ""), value, system=value))


def test_a_stream_that_breaks_off_is_recorded_as_far_as_it_came(running, ask, session):
    running[1].answer(STREAM[: STREAM.index(b'\\"sea')], breaks_off=True)
    with pytest.raises(httpx.RemoteProtocolError):
        ask(asked(said("user", "Hi")))
    running[0].settle()
    assert [called.error for called in running[0].calls(session)] == ["the connection to the endpoint broke off"]
    assert parts(running[0].memory(session).get_all()[-1]) == [("text", "Let me look."), ("tool_call", '{"at": ')]


def test_a_client_that_hangs_up_after_the_last_event_has_the_whole_answer():
    assert is_complete(STREAM)
    assert not is_complete(STREAM[: STREAM.index(b"event: message_stop")])


# -- failures --------------------------------------------------------------------------------------


def test_an_error_in_a_stream_is_recorded_by_its_code(running, ask, session):
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": f"Overloaded for {KEY}"}}
    running[1].answer(sse(*list(events(texts("Once upon")))[:5], failure))
    ask(asked(said("user", "Hi")))
    assert [c.error for c in running[0].calls(session)] == ["the endpoint reported a failure: overloaded_error"]
    assert running[0].memory(session).get_all()[-1].content == "Once upon"


def test_a_refused_call_is_recorded_by_its_code_and_keys_are_kept_nowhere(running, ask, session, caplog):
    caplog.set_level(logging.DEBUG, logger="memory_inspector")
    refused = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid x-api-key {KEY}"}}
    running[1].answer(json.dumps(refused).encode(), status=401)
    assert ask(asked(said("user", "Hi"))).json() == refused
    assert [c.error for c in running[0].calls(session)] == ["the endpoint refused it: 401 authentication_error"]
    assert not any(KEY.encode() in file.read_bytes() for file in running[0].folder.iterdir())
    assert KEY not in caplog.text


@pytest.mark.parametrize("body", [b'{"model": "claude", "messages": [{"ro', b"", b"[]", b'{"messages": 3}'])
def test_a_request_that_cannot_be_read_passes_and_is_noted_without_its_words(running, ask, session, caplog, body):
    assert ask(body).json() == WHOLE
    assert running[1].requests[-1][2] == body
    assert not running[0].known(session)
    [noted] = [r.getMessage() for r in caplog.records if r.name.startswith("memory_inspector")]
    assert "passed on and not recorded" in noted
