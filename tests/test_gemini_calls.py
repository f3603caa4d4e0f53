"""Calls of Gemini's clients through the recording proxy: the bytes stay the same, and what is read of them."""

import json

import httpx
import pytest
from proxy_kit import KEY, Attached, Endpoint

from memory_core import Database
from memory_core.errors import MessageError
from memory_inspector.recorder.recording_proxy import UPSTREAM, UPSTREAM_GEMINI, _upstream
from memory_inspector.recorder.wire import Answered, endpoint_of, read_exchange

WHOLE, STREAMED = "/v1beta/models/gemini-2.5-pro:generateContent", "/v1/models/gemini-2.5-pro:streamGenerateContent"
CALL = {"functionCall": {"name": "look", "args": {"at": "sea"}}, "thoughtSignature": "c2ln"}
ASKED = {
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "contents": [
        {"role": "user", "parts": [{"text": "What is at sea?"}]},
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"result": "a boat"}}}]},
    ],
}
PARTS = [{"text": "Hm.", "thought": True}, {"text": "A "}, {"text": "boat."}, CALL]
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}


def candidate(*parts, **counts):
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}], "usageMetadata": counts}


CHUNKS = [*(candidate(part, promptTokenCount=9) for part in PARTS), candidate(**COUNTS)]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (WHOLE, json.dumps(candidate(*PARTS, **COUNTS)).encode()),
        (f"{STREAMED}?alt=sse", b"".join(b"data: %s\r\n\r\n" % json.dumps(chunk).encode() for chunk in CHUNKS)),
        (STREAMED, json.dumps(CHUNKS).encode()),
    ],
    ids=["whole", "streamed", "streamed as a list"],
)
def test_a_call_passes_unchanged_and_is_recorded(tmp_path, monkeypatch, path, body):
    endpoint, request = Endpoint(), json.dumps(ASKED, indent=1).encode()
    endpoint.answer(body)
    monkeypatch.delenv(UPSTREAM, raising=False)
    monkeypatch.setenv(UPSTREAM_GEMINI, endpoint.url)
    with Attached(Database.open(f"sqlite:///{tmp_path}/memory.db")) as attached:
        address = attached.url().removesuffix("/v1")
        answer = httpx.post(address + path, content=request, headers={"x-goog-api-key": KEY}, timeout=20)
        arrived, headers, sent = endpoint.requests[-1]
        endpoint.close()
        assert answer.content == body
        assert (arrived, headers["x-goog-api-key"], sent) == (path, KEY, request)
        [called] = attached.calls()
        assert (called.model, called.error) == ("gemini-2.5-pro", None)
        assert (called.input_tokens, called.output_tokens) == (9, 6)
        prompt = [("system", "Be brief."), ("user", "What is at sea?"), ("assistant", None), ("tool", "a boat")]
        assert attached.prompts() == [prompt]
        last = attached.memory().get_all()[-1]
        assert (last.content, [call.tool_kwargs for call in last.tool_calls]) == ("A boat.", [{"at": "sea"}])


@pytest.mark.parametrize(
    ("upstream", "path", "headers", "expected"),
    [
        ("", WHOLE, (), (UPSTREAM_GEMINI, "https://generativelanguage.googleapis.com")),
        (
            "",
            "/models",
            ((b"X-Goog-Api-Key", b"k"),),
            (UPSTREAM_GEMINI, "https://generativelanguage.googleapis.com/v1"),
        ),
        ("http://h/v1", WHOLE, (), (UPSTREAM, "http://h")),
    ],
)
def test_calls_go_to_google_unless_an_endpoint_is_named(monkeypatch, upstream, path, headers, expected):
    monkeypatch.setenv(UPSTREAM, upstream)
    monkeypatch.delenv(UPSTREAM_GEMINI, raising=False)
    assert _upstream(path, headers) == expected


def test_only_the_first_of_several_candidates_is_the_answer():
    second = {"index": 1, "content": {"role": "model", "parts": [{"text": "other"}]}}
    body = candidate({"text": "one"})
    exchange = read_exchange(
        "generateContent",
        json.dumps(ASKED).encode(),
        Answered(200, json.dumps({"candidates": [*body["candidates"], second]}).encode()),
    )
    assert (exchange.answer.content, exchange.input_tokens, exchange.output_tokens) == ("one", None, None)


def test_a_request_without_contents_is_refused():
    with pytest.raises(MessageError, match="contents"):
        read_exchange("generateContent", b"{}", Answered(200))


@pytest.mark.parametrize("path", ["/v1beta/models/g:countTokens", "/v1beta/models", "/v1beta/messages"])
def test_other_paths_are_no_calls(path):
    assert endpoint_of(path) is None
