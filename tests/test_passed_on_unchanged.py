"""Calls through the recording proxy on real servers: the bytes stay the same, whatever can be read of them."""

import gzip
import http.client
import json
import logging
import sys
import zlib

import httpx
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import AzureOpenAI
from proxy_kit import KEY, Attached, Endpoint
from test_streamed_answers import BEGUN, GONE, STREAMS, sse

from memory_core import Database
from memory_core.errors import MessageError
from memory_inspector.recorder import recording_proxy
from memory_inspector.recorder.content_coding import decompressed
from memory_inspector.recorder.recording_proxy import MAX_KEPT_AT_ONCE, UPSTREAM
from memory_inspector.recorder.wire import Answered, endpoint_of, read_exchange

zstd_packed = zstandard.ZstdCompressor().compress
ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Which gate?"}]}).encode()
GATE = json.dumps(
    {"model": "of-the-answer", "choices": [{"message": {"role": "assistant", "content": "Gate 12"}}]}
).encode()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One endpoint and one proxy for all tests here."""
    endpoint = Endpoint()
    folder = tmp_path_factory.mktemp("passed-on")
    with pytest.MonkeyPatch.context() as patched, Attached(Database.open(f"sqlite:///{folder}/memory.db")) as attached:
        patched.setenv(UPSTREAM, f"{endpoint.url}/v1")
        yield attached, endpoint
    endpoint.close()


@pytest.fixture(autouse=True)
def answers_again(running):
    """What a test lets the endpoint answer is not answered to the next."""
    running[1].answer(GATE)


@pytest.fixture
def call(running, request):
    """Ask through the proxy in a session of this test; return the answer's bytes and what was recorded of the call."""
    attached, _ = running
    session = f"s{abs(hash(request.node.name))}"

    def ask(body=ASKED, path="/v1/chat/completions", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", attached.socket.getsockname()[1], timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", f"/record/{session}{path}", body, named)
        answer = connection.getresponse()
        received = answer.read()
        connection.close()
        memory = attached.memory(session)
        assert attached.proxy._room._left == MAX_KEPT_AT_ONCE
        return received, memory.events(kinds=["model_called"])[-1].event, [m.content for m in memory.get_all()]

    return ask


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


PACKED = [
    ("gzip", gzip.compress(ASKED)),
    ("GZIP", gzip.compress(ASKED[:20]) + gzip.compress(ASKED[20:])),
    ("x-gzip", gzip.compress(ASKED)),
    ("deflate", zlib.compress(ASKED)),
    ("deflate", raw_deflate(ASKED)),
    ("zstd", zstd_packed(ASKED)),
    ("zstd", zstd_packed(ASKED[:20]) + zstd_packed(ASKED[20:])),
    ("gzip, zstd", zstd_packed(gzip.compress(ASKED))),
    ("identity", ASKED),
]


@pytest.mark.parametrize(("coding", "packed"), PACKED)
def test_a_compressed_request_arrives_as_it_was_sent_and_is_recorded(running, call, coding, packed):
    received, called, said = call(packed, content_encoding=coding)
    _, headers, arrived = running[1].requests[-1]
    assert (received, arrived, headers["content-encoding"]) == (GATE, packed, coding)
    assert (called.model, called.error, called.captured, said) == ("m", None, True, ["Which gate?", "Gate 12"])


@pytest.mark.parametrize(
    ("coding", "packed", "told"),
    [
        ("br", b"\x0b\x02\x80", 'compressed as "br"'),
        ("gzip", gzip.compress(b" " * 3_000_000 + ASKED), "more than 1,000,000 bytes"),
        ("zstd", zstd_packed(b" " * 3_000_000 + ASKED), "more than 1,000,000 bytes"),
    ],
    ids=["unknown", "gzip too long", "zstd too long"],
)
def test_a_request_that_cannot_be_decompressed_is_passed_on_and_recorded_without_its_words(
    running, call, monkeypatch, caplog, coding, packed, told
):
    monkeypatch.setattr(recording_proxy, "MAX_KEPT_BYTES", 1_000_000)
    received, called, said = call(packed, content_encoding=coding)
    assert (received, running[1].requests[-1][2]) == (GATE, packed)
    assert (called.model, called.error, called.captured, said) == ("of-the-answer", None, False, ["Gate 12"])
    assert told in caplog.text


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd_packed)]
)
def test_an_answer_that_comes_compressed_unasked_is_passed_on_so_and_recorded(running, call, coding, pack):
    packed = pack(GATE)
    running[1].pieces, running[1].headers = [packed[:9], packed[9:]], {"content-encoding": coding}
    received, called, said = call()
    assert (received, called.error, said) == (packed, None, ["Which gate?", "Gate 12"])


@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
@pytest.mark.parametrize("end", [0, 1, 9, 30, -1])
def test_of_a_body_that_was_cut_off_the_beginning_is_read(coding, end):
    packed = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd_packed}[coding](ASKED)[:end]
    assert ASKED.startswith(decompressed(packed, coding, 1000))


def test_a_hundred_thousand_streams_in_one_body_are_read_one_after_the_other():
    """What is left of the body is not copied after each: for a body of 30 MB, that takes minutes."""
    assert decompressed(gzip.compress(b"ab") * 100_000, "gzip", 1_000_000) == b"ab" * 100_000


@pytest.mark.parametrize(
    ("endpoint", "asked"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "a"}] * 100_000}),
        ("chat/completions", {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 100_000}]}),
        ("responses", {"input": [{"role": "user", "content": "a"}] * 100_000}),
    ],
    ids=["messages", "parts", "items"],
)
def test_a_prompt_of_more_values_than_are_recorded_is_refused_before_it_is_parsed(endpoint, asked):
    with pytest.raises(MessageError, match="more than 250,000 values"):
        read_exchange(endpoint, json.dumps(asked).encode(), Answered(200, GATE))


def test_long_texts_and_lists_of_tokens_are_no_prompts_of_too_many_values():
    """However many commas and brackets a text has, it is one value."""
    words = "a list, [of] {words}, " * 300_000
    asked = {"messages": [{"role": "user", "content": words}]}
    assert (
        read_exchange("chat/completions", json.dumps(asked).encode(), Answered(200, GATE)).messages[0].content == words
    )
    assert (
        read_exchange("embeddings", json.dumps({"input": [[1] * 300_000]}).encode(), Answered(200)).purpose == "embed"
    )


def test_without_the_package_for_zstd_a_sentence_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MessageError, match="package zstandard"):
        decompressed(zstd_packed(ASKED), "zstd", 1000)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (sse(BEGUN, GONE), ["Which gate?", "Once upon"]),
        (json.dumps(GONE).encode(), ["Which gate?"]),
        (b"<html>Log in</html>", ["Which gate?"]),
    ],
    ids=["in a stream", "whole", "a page"],
)
def test_a_failure_behind_a_success_is_passed_on_and_recorded_as_one(running, call, body, said):
    running[1].pieces = [body]
    received, called, told = call()
    assert (received, bool(called.error), told) == (body, True, said)
    assert "sk-secret" not in called.error


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_client_of_azure_is_recorded_under_its_deployment(running, call, streamed):
    attached, endpoint = running
    endpoint.pieces = [sse(BEGUN, b"[DONE]")] if streamed else [GATE]
    endpoint.headers = {"content-type": "text/event-stream" if streamed else "application/json"}
    session = f"azure-{streamed}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(UPSTREAM, endpoint.url)
        address = f"http://127.0.0.1:{attached.socket.getsockname()[1]}/record/{session}"
        client = AzureOpenAI(azure_endpoint=address, api_version="2026-01-01", api_key=KEY, max_retries=0)
        messages = [{"role": "user", "content": "Which gate?"}]
        answer = client.chat.completions.create(model="my-gpt", messages=messages, stream=streamed)
        heard = "".join(c.choices[0].delta.content for c in answer) if streamed else answer.choices[0].message.content
    path, headers, _ = endpoint.requests[-1]
    assert path == "/openai/deployments/my-gpt/chat/completions?api-version=2026-01-01"
    assert headers["api-key"] == KEY
    assert [(c.model, c.error) for c in attached.calls(session)] == [("my-gpt", None)]
    assert attached.prompts(session) == [[("user", "Which gate?")]]
    assert attached.memory(session).get_all()[-1].content == heard


@pytest.mark.parametrize(
    "path",
    [
        "/v1/openai/deployments/d/chat/completions",
        "/openai/deployments/d/chat/completions",
        "/v1/deployments/d/chat/completions?api-version=1",
    ],
)
def test_a_deployment_is_the_model_of_a_request_that_names_none(running, call, path):
    received, called, said = call(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode(), path)
    assert (received, called.model, said) == (GATE, "d", ["Hi", "Gate 12"])
    assert running[1].requests[-1][0] == "/v1" + path.removeprefix("/v1")


@pytest.mark.parametrize(
    "base", ["", "openai/", "openai/v1/", "openai/deployments/my%20model/", "deployments/my%20model/"]
)
@pytest.mark.parametrize("endpoint", ["chat/completions", "responses", "embeddings"])
def test_an_endpoint_is_found_in_paths_of_azure(base, endpoint):
    assert endpoint_of(f"/{base}{endpoint}") == (endpoint, "my model" if "deployments" in base else None)


@pytest.mark.parametrize(
    "path", ["/responses/r1", "/responses/r1/cancel", "/deployments/chat/completions", "/models", "/a/b/embeddings"]
)
def test_other_paths_are_not_recorded(path):
    assert endpoint_of(path) is None


@pytest.mark.parametrize(
    ("asked", "answered", "model"),
    [({"model": "m"}, {"model": "n"}, "m"), ({}, {"model": "n"}, "d"), ({"model": ""}, {}, "d")],
)
def test_a_deployment_names_the_model_where_the_request_does_not(asked, answered, model):
    body = Answered(200, json.dumps({"choices": [], **answered}).encode())
    asked = json.dumps({"messages": [{"role": "user", "content": "Hi"}], **asked}).encode()
    assert read_exchange("chat/completions", asked, body, deployment="d").model == model


def test_a_list_of_stored_answers_is_passed_on_and_is_no_call(running, caplog):
    attached, _ = running
    assert httpx.get(f"{attached.url('lists')}/chat/completions").content == GATE
    attached.settle()
    assert not [record for record in caplog.records if record.name.startswith("memory_inspector")]


def test_what_keeps_one_call_out_of_the_record_is_one_warning_without_words(running, caplog):
    attached, _ = running
    asked = {"model": "m", "messages": {"secret words": 1}}
    assert httpx.post(f"{attached.url('odd')}/chat/completions", json=asked).content == GATE
    attached.settle()
    [warning] = [record.getMessage() for record in caplog.records if record.name.startswith("memory_inspector")]
    assert 'no list of "messages"' in warning
    assert "secret words" not in warning


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_stream_arrives_byte_for_byte_and_recording_it_never_fails(running, data):
    """Streams with pieces that are broken, left out and said twice, cut anywhere."""
    attached, endpoint = running
    path, asked, events = data.draw(st.sampled_from(STREAMS))
    pieces = [sse(each) for each in events] + [sse(b"[DONE]")]
    broken = st.sampled_from(pieces) | st.binary(max_size=40) | st.just(b"data: {\n\n") | st.just(b"\xff\xfe")
    whole = b"".join(data.draw(st.lists(st.sampled_from(pieces) | broken, max_size=8)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    endpoint.pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    endpoint.headers = {"content-type": "text/event-stream"}
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger("memory_inspector.recorder.recording_proxy")
    logger.addHandler(handler)
    try:
        calls = len(attached.calls("property")) if attached.known("property") else 0
        answer = httpx.post(f"{attached.url('property')}/{path}", content=asked, timeout=20)
        assert (answer.content, endpoint.requests[-1][2]) == (whole, asked)
        assert len(attached.calls("property")) == calls + 1
    finally:
        logger.removeHandler(handler)
    assert heard == []
