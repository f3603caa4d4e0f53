"""`OpenAIChat` against a scripted server: what is sent, what comes back, and every way it can fail."""

import copy
import pickle
import socket
import subprocess
import sys
import traceback

import pytest
from pydantic import BaseModel
from scripted_server import ScriptedServer, Step, chunk, completion, refusal, streamed, usage_chunk

from memory_core.errors import (
    ConfigError,
    ModelAnswerError,
    ModelError,
    ModelKeyError,
    ModelRateLimitError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnreachableError,
)
from memory_core.formats.openai_message import to_openai
from memory_core.messages import ChatMessage, FilePart, ImagePart, TextPart, ThinkingPart, ToolCallPart
from memory_core.models.endpoint import Endpoint
from memory_core.models.openai_client import OpenAIChat
from memory_core.models.protocols import ChatModel

KEY = "sk-test-0123456789abcdef"
HELLO = [ChatMessage(role="user", content="Hello")]


class Colour(BaseModel):
    name: str
    red: int


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "OPENAI_LOG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve():
    """`serve(*steps, **settings)` gives a chat model and the server that answers it."""
    opened = []

    def start(*steps, **settings):
        server = ScriptedServer(*steps)
        opened.append(server)
        server.__enter__()
        chat = OpenAIChat(**{"model": "m", "base_url": server.url, "api_key": KEY, "max_retries": 0, **settings})
        opened.append(chat)
        return chat, server

    yield start
    for thing in reversed(opened):
        if isinstance(thing, OpenAIChat):
            thing.close()
        else:
            thing.__exit__()


def whole_chain(error):
    """Everything a log could show of an exception."""
    texts = ["".join(traceback.format_exception(error))]
    while error is not None:
        texts += [str(error), repr(error), repr(error.args), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return "\n".join(texts)


# --- what is sent


def test_plain_messages_become_role_and_content():
    messages = [
        ChatMessage(role="system", content="Be brief."),
        ChatMessage(role="user", content=[TextPart(text="a"), TextPart(text="b")]),
        ChatMessage(role="assistant", content="c", additional_kwargs={"session_id": "s1", "name": "x"}),
    ]
    assert to_openai(messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "a\nb"},
        {"role": "assistant", "content": "c"},
    ]


def test_images_are_sent_as_image_urls_and_files_are_named():
    parts = [
        TextPart(text="What is this?"),
        ImagePart(url="data:image/png;base64,AAAA", detail="low"),
        ImagePart(url="https://example.org/a.png"),
        FilePart(type="document", url="data:application/pdf;base64,AAAA", title="menu.pdf"),
    ]
    assert to_openai([ChatMessage(role="user", parts=parts)]) == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "text", "text": "[document: menu.pdf, not shown to the model]"},
            ],
        }
    ]


def test_tool_calls_and_results_keep_their_ids():
    messages = [
        ChatMessage(
            role="assistant",
            parts=[ThinkingPart(text="hm"), ToolCallPart(tool_call_id="t1", tool_name="find", tool_kwargs={"q": "é"})],
        ),
        ChatMessage(role="tool", content="found", additional_kwargs={"tool_call_id": "t1", "name": "find"}),
    ]
    assert to_openai(messages) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "find", "arguments": '{"q": "é"}'}}],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "found"},
    ]


def test_calls_and_results_that_lost_each_other_are_still_acceptable():
    call = ToolCallPart(tool_name="find", tool_kwargs={})
    messages = [
        ChatMessage(role="tool", content="left over"),
        ChatMessage(role="assistant", parts=[call, call]),
        ChatMessage(role="tool", content="first"),
        ChatMessage(role="user", content="And?"),
    ]
    sent = to_openai(messages)
    assert [(entry["role"], entry["content"]) for entry in sent] == [
        ("user", "Result of a tool:\nleft over"),
        ("assistant", None),
        ("tool", "first"),
        ("tool", "No result was recorded."),
        ("user", "And?"),
    ]
    assert [entry["tool_call_id"] for entry in sent[2:4]] == [entry["id"] for entry in sent[1]["tool_calls"]]


def test_the_key_goes_to_the_server_in_the_header_only(serve):
    chat, server = serve(streamed("Hi"))
    list(chat.stream(HELLO))
    [(path, headers, body)] = server.requests
    assert (path, headers["authorization"] if "authorization" in headers else headers["Authorization"]) == (
        "/v1/chat/completions",
        f"Bearer {KEY}",
    )
    assert body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


# --- streaming


def test_a_stream_gives_the_pieces_and_then_the_call(serve):
    chat, _ = serve(streamed("Good ", "morning", usage=(20, 3)), prices=(1.0, 2.0))
    stream = chat.stream(HELLO)
    assert stream.call is None
    assert list(stream) == ["Good ", "morning"]
    call = stream.call
    assert (call.purpose, call.model, call.input_tokens, call.output_tokens) == ("reply", "m", 20, 3)
    assert call.cost == pytest.approx((20 * 1 + 3 * 2) / 1_000_000)
    assert call.seconds >= 0


def test_usage_that_is_not_reported_is_none(serve):
    chat, _ = serve(streamed("Hi"), prices=(1.0, 2.0))
    stream = chat.stream(HELLO)
    list(stream)
    assert (stream.call.input_tokens, stream.call.output_tokens, stream.call.cost) == (None, None, None)


@pytest.mark.parametrize(
    ("usage", "read"),
    [((12.0, "7"), (12, 7)), (("12", 7.0), (12, 7)), ((12.5, -7), (None, None)), (("x", {}), (None, None))],
)
def test_usage_is_read_however_the_endpoint_writes_numbers(serve, usage, read):
    event = chunk()
    event["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    chat, _ = serve(Step(stream=[chunk("Hi"), chunk(finish="stop"), event, "[DONE]"]), prices=(1.0, 1.0))
    stream = chat.stream(HELLO)
    list(stream)
    assert (stream.call.input_tokens, stream.call.output_tokens) == read
    assert (stream.call.cost is None) == (None in read)


def test_an_emoji_that_is_cut_between_two_pieces_is_whole_and_half_of_one_loses_nothing_else(serve):
    chat, _ = serve(streamed("a\ud83d", "\ude00b\ud83d", "c \ud83d"))
    assert "".join(chat.stream(HELLO)) == "a\U0001f600b\ufffdc \ufffd"


def test_a_reply_without_an_end_is_broken_off(serve, monkeypatch):
    monkeypatch.setattr("memory_core.models.openai_client.LONGEST_REPLY", 1_000)
    calls = [{"index": 0, "id": "c", "function": {"name": "note", "arguments": "x" * 600}}]
    chat, _ = serve(streamed(*["x" * 100] * 11), Step(stream=[chunk(tool_calls=calls), chunk(tool_calls=calls)]))
    for _ in range(2):
        with pytest.raises(ModelAnswerError, match="did not end within 1,000 characters"):
            list(chat.stream(HELLO))


def test_arguments_nested_too_deep_stay_the_text_they_are(serve):
    deep = '{"a":' * 700 + "1" + "}" * 700
    calls = [{"index": 0, "id": "c", "function": {"name": "note", "arguments": deep}}]
    chat, _ = serve(Step(stream=[chunk(tool_calls=calls), chunk(finish="tool_calls"), "[DONE]"]))
    stream = chat.stream(HELLO)
    list(stream)
    assert stream.tool_calls[0].tool_kwargs == deep
    assert ChatMessage(role="assistant", parts=stream.tool_calls).to_json()


def test_a_server_that_refuses_stream_options_is_asked_without_from_then_on(serve):
    chat, server = serve(refusal(400, "Unknown field: stream_options"), streamed("a"), streamed("b"))
    assert [*chat.stream(HELLO), *chat.stream(HELLO)] == ["a", "b"]
    assert ["stream_options" in body for body in server.bodies] == [True, False, False]


def test_closing_a_stream_stops_the_http_call(serve):
    slow = [chunk("word " * 2000), *[part for _ in range(400) for part in (0.01, chunk("word " * 2000))]]
    chat, server = serve(Step(stream=slow))
    stream = chat.stream(HELLO)
    for _ in stream:
        break
    stream.close()
    assert server.dropped.wait(10)
    assert stream.call is None


def test_a_stream_closed_before_it_is_read_gives_nothing(serve):
    chat, _ = serve(streamed("a", "b"))
    stream = chat.stream(HELLO)
    stream.close()
    assert (list(stream), stream.call) == ([], None)


def test_a_connection_closed_in_mid_stream_is_said(serve):
    chat, _ = serve(Step(stream=[chunk("Half")], break_off=True))
    pieces = []
    with pytest.raises(ModelUnreachableError, match="closed the connection before the answer was complete"):
        pieces.extend(chat.stream(HELLO))
    assert pieces == ["Half"]


def test_a_stream_that_ends_without_a_finish_reason_is_no_answer(serve):
    chat, _ = serve(Step(stream=[chunk("Half")]))
    with pytest.raises(ModelUnreachableError, match="before the answer was complete"):
        list(chat.stream(HELLO))


def test_a_stream_that_falls_silent_times_out(serve):
    chat, _ = serve(Step(stream=[chunk("Half"), 1.0, chunk("more")]), timeout_seconds=0.3)
    with pytest.raises(ModelTimeoutError, match=r"^The model did not answer within 0\.3 s\.$"):
        list(chat.stream(HELLO))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (streamed(), "empty answer"),
        (streamed("  "), "empty answer"),
        (streamed("A long", finish="length"), "cut off"),
        (streamed("A", finish="content_filter"), "content filter"),
        (Step(stream=[chunk(refusal="I cannot"), chunk(finish="stop"), "[DONE]"]), "refused: I cannot"),
        (Step(stream=["{not json", "[DONE]"]), "something else than the API would"),
        (Step(body="<html>hello</html>", content_type="text/html"), "did not answer with a stream"),
    ],
)
def test_a_reply_that_is_no_answer_is_an_answer_error(serve, step, words):
    chat, _ = serve(step)
    with pytest.raises(ModelAnswerError, match=words):
        list(chat.stream(HELLO))


def test_an_error_event_in_a_stream_is_said(serve):
    chat, _ = serve(Step(stream=[chunk("Ha"), {"error": {"message": "out of memory"}}]))
    with pytest.raises(ModelUnreachableError, match="broke off the answer: out of memory"):
        list(chat.stream(HELLO))


# --- structured answers


def test_a_structured_answer_is_asked_for_with_a_strict_schema(serve):
    chat, server = serve(completion('{"name": "teal", "red": 0}'), prices=(1.0, 1.0))
    answer, call = chat.ask(HELLO, Colour, purpose="extract")
    assert answer == Colour(name="teal", red=0)
    assert (call.purpose, call.input_tokens, call.output_tokens, call.cost) == ("extract", 11, 7, 18 / 1_000_000)
    form = server.bodies[0]["response_format"]
    assert (form["type"], form["json_schema"]["strict"]) == ("json_schema", True)
    assert form["json_schema"]["schema"]["additionalProperties"] is False


def test_the_way_of_asking_is_lowered_rung_by_rung_and_remembered(serve):
    chat, server = serve(
        refusal(400, "response_format of type json_schema is not supported"),
        refusal(400, "'response_format.type' must be 'text'"),
        completion('Sure:\n```json\n{"name": "red", "red": 255}\n```'),
        completion('{"name": "blue", "red": 0}'),
    )
    assert chat.ask(HELLO, Colour, purpose="extract")[0].name == "red"
    assert chat.ask(HELLO, Colour, purpose="extract")[0].name == "blue"
    assert [body.get("response_format", {}).get("type") for body in server.bodies] == [
        "json_schema",
        "json_object",
        None,
        None,
    ]
    assert "JSON schema" in server.bodies[1]["messages"][-1]["content"]


def test_a_refusal_about_something_else_does_not_lower_the_way_of_asking(serve):
    chat, server = serve(refusal(400, "temperature is out of range"), completion('{"name": "red", "red": 1}'))
    with pytest.raises(ModelRequestError, match="temperature is out of range"):
        chat.ask(HELLO, Colour, purpose="extract")
    chat.ask(HELLO, Colour, purpose="extract")
    assert server.bodies[1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (completion(""), "empty answer"),
        (completion(None), "empty answer"),
        (completion("I like turtles"), "no JSON object"),
        (completion('{"name": "red"}'), "red: Field required"),
        (completion('{"name": "re', finish="length"), "cut off"),
        (completion(None, refusal="I cannot help with that"), "refused: I cannot help"),
        (Step(body={"id": "c", "object": "chat.completion", "choices": []}), "without any text"),
        (Step(body="{broken"), "something else than the API would"),
        (Step(body="<html>", content_type="text/html"), "without any text"),
        (completion("{" * 100_000), "no JSON object"),
    ],
)
def test_an_answer_not_in_the_asked_form_is_an_answer_error(serve, step, words):
    chat, _ = serve(step)
    with pytest.raises(ModelAnswerError, match=words):
        chat.ask(HELLO, Colour, purpose="extract")


def test_the_model_s_thinking_is_not_taken_for_its_answer(serve):
    chat, _ = serve(completion('<think>{"name": "no", "red": 1}</think>{"name": "yes", "red": 2}'))
    assert chat.ask(HELLO, Colour, purpose="extract")[0].name == "yes"


# --- errors


@pytest.mark.parametrize(
    ("step", "kind", "sentence"),
    [
        (
            refusal(401, f"Incorrect API key provided: {KEY}"),
            ModelKeyError,
            "The key was refused by {host}. Check the key.",
        ),
        (refusal(403, "no"), ModelKeyError, '{host} does not allow this key to use "m". Check the key and its rights.'),
        (
            refusal(404, "The model `m` does not exist", code="model_not_found"),
            ModelRequestError,
            '{host} does not know the model "m". Choose another model.',
        ),
        (
            Step(404, "page not found", content_type="text/plain"),
            ModelRequestError,
            "http://{host}/v1 is not the address of an API. Check it; most end in /v1.",
        ),
        (
            refusal(429, "slow down", retry_after="0"),
            ModelRateLimitError,
            "{host} takes no more requests for now. Wait a minute and try again.",
        ),
        (
            refusal(429, "You exceeded your current quota", code="insufficient_quota"),
            ModelRateLimitError,
            "No quota is left at {host}. Check the plan and its limits.",
        ),
        (
            refusal(400, "maximum is 10 tokens", code="context_length_exceeded"),
            ModelRequestError,
            'The request is too long for "m". Lower the token limit or choose another model.',
        ),
        (refusal(422, f"bad {KEY}"), ModelRequestError, "{host} refused the request (status 422): bad [key]"),
        (refusal(500, "boom"), ModelUnreachableError, "{host} failed (status 500). Try again later."),
    ],
)
@pytest.mark.parametrize("way", ["stream", "ask"])
def test_every_refusal_has_its_class_and_sentence_and_never_the_key(serve, step, kind, sentence, way):
    chat, server = serve(step)
    with pytest.raises(ModelError) as caught:
        list(chat.stream(HELLO)) if way == "stream" else chat.ask(HELLO, Colour, purpose="extract")
    assert type(caught.value) is kind
    assert str(caught.value) == sentence.format(host=server.url.removeprefix("http://").removesuffix("/v1"))
    assert KEY not in whole_chain(caught.value)


@pytest.mark.slow
def test_too_many_requests_and_server_errors_are_tried_again(serve):
    steps = (
        refusal(429, "slow", retry_after="0"),
        refusal(500, "boom", retry_after="0"),
        completion('{"name":"a","red":1}'),
    )
    chat, server = serve(*steps, max_retries=2)
    assert chat.ask(HELLO, Colour, purpose="extract")[0].name == "a"
    assert len(server.requests) == 3


def test_a_refused_key_is_not_tried_again(serve):
    chat, server = serve(refusal(401, "no"), max_retries=3)
    with pytest.raises(ModelKeyError):
        chat.stream(HELLO)
    assert len(server.requests) == 1


def test_a_server_that_asks_for_a_key_when_there_is_none(serve):
    chat, server = serve(refusal(401, "no"), api_key=None)
    with pytest.raises(ModelKeyError, match=r"asks for a key\. Give one with its address\.$"):
        chat.stream(HELLO)
    assert {name.lower(): value for name, value in server.requests[0][1].items()}["authorization"] == "Bearer none"


def test_no_answer_in_time_says_the_limit(serve):
    chat, _ = serve(Step(delay=1.0, body={}), timeout_seconds=0.2)
    with pytest.raises(ModelTimeoutError, match=r"^The model did not answer within 0\.2 s\.$"):
        chat.ask(HELLO, Colour, purpose="extract")


def test_an_address_where_nothing_listens_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    chat = OpenAIChat("m", url, KEY, max_retries=0)
    with pytest.raises(ModelUnreachableError) as caught:
        chat.stream(HELLO)
    assert str(caught.value) == f"Nothing answers at {url}. Start the server or change the address."
    chat.close()


def test_a_connection_broken_in_the_body_is_said(serve):
    chat, _ = serve(Step(body={"a": 1}, break_off=True))
    with pytest.raises(ModelUnreachableError, match="closed the connection before the answer was complete"):
        chat.ask(HELLO, Colour, purpose="extract")


# --- settings and the key


def test_without_key_and_address_the_environment_names_no_model(monkeypatch):
    assert OpenAIChat.from_environment() is None
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert OpenAIChat.from_environment() is None


def test_the_environment_names_key_address_and_model(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1234/v1")
    assert repr(OpenAIChat.from_environment()) == "OpenAIChat('gpt-4o-mini', 'http://localhost:1234/v1')"
    monkeypatch.setenv("OPENAI_BASE_URL", "")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_MODEL", "big")
    chat = OpenAIChat.from_environment()
    assert repr(chat) == "OpenAIChat('big', 'https://api.openai.com/v1')"
    assert (chat.name, chat.offline, isinstance(chat, ChatModel)) == ("big", False, True)


def test_the_key_is_in_no_repr_copy_or_pickle(monkeypatch):
    chat = OpenAIChat("m", "http://user:secret@localhost:1/v1?k=v", KEY)
    shown = f"{chat!r} {chat} {chat.endpoint!r} {chat.endpoint.address}"
    assert KEY not in shown
    assert "secret" not in shown
    assert KEY.encode() not in pickle.dumps(chat)
    assert copy.deepcopy(chat).endpoint.has_key
    assert not pickle.loads(pickle.dumps(chat)).endpoint.has_key  # noqa: S301 - our own bytes
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert not pickle.loads(pickle.dumps(chat)).endpoint.has_key  # noqa: S301 - our own bytes
    monkeypatch.setenv("OPENAI_BASE_URL", chat.endpoint.base_url)
    assert pickle.loads(pickle.dumps(chat)).endpoint.has_key  # noqa: S301 - our own bytes


SECRET = "sk-of-the-operator-0001"
NAMES = ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")


def secrets_of_the_environment(monkeypatch):
    for name in NAMES:
        monkeypatch.setenv(name, f"X-Gateway: {SECRET}" if name == "OPENAI_CUSTOM_HEADERS" else f"{SECRET}-{name[-2:]}")


def sent(server):
    return "\n".join(f"{name}: {value}" for request in server.requests for name, value in request[1].items())


@pytest.mark.parametrize("key", [None, "", KEY])
@pytest.mark.parametrize("environments_own", [None, "http://127.0.0.1:9/v1", "no address"])
def test_nothing_of_the_environment_goes_to_an_address_that_is_given(serve, monkeypatch, key, environments_own):
    secrets_of_the_environment(monkeypatch)
    if environments_own is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", environments_own)
    chat, server = serve(*[refusal(401, "no")] * 3, api_key=key)
    for endpoint in (chat, copy.copy(chat), pickle.loads(pickle.dumps(chat))):  # noqa: S301 - our own bytes
        with pytest.raises(ModelKeyError):
            endpoint.stream(HELLO)
    assert server.requests
    assert SECRET not in sent(server)
    assert (KEY in sent(server)) == bool(key)


@pytest.mark.parametrize("written", ["{}", "{}/"])
def test_the_environments_key_goes_to_the_environments_address(serve, monkeypatch, written):
    secrets_of_the_environment(monkeypatch)
    _, server = serve(refusal(401, "no"))
    monkeypatch.setenv("OPENAI_BASE_URL", written.format(server.url))
    chat = OpenAIChat("m", server.url, max_retries=0)
    with pytest.raises(ModelKeyError):
        chat.stream(HELLO)
    chat.close()
    assert f"Bearer {SECRET}" in sent(server)


@pytest.mark.parametrize("key", ["sk-secret\nx", "sk-sécret", "sk secret"])
def test_a_key_no_header_can_carry_is_refused_without_showing_it(key):
    with pytest.raises(ConfigError, match="copy it again") as caught:
        OpenAIChat("m", api_key=key)
    assert "cret" not in whole_chain(caught.value)


@pytest.mark.parametrize("url", ["localhost:1234", "ftp://x/v1", "http://", "http://x:abc/v1"])
def test_an_address_that_is_no_http_address_is_refused(url):
    with pytest.raises(ConfigError, match="http:// or https://"):
        Endpoint(url)


@pytest.mark.parametrize(
    "settings", [{"model": ""}, {"timeout_seconds": 0}, {"max_retries": -1}], ids=lambda settings: next(iter(settings))
)
def test_impossible_settings_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        OpenAIChat(**settings)


def test_usage_in_a_chunk_with_choices_is_read_too(serve):
    last = chunk(finish="stop")
    last["usage"] = usage_chunk(5, 6)["usage"]
    chat, _ = serve(Step(stream=[chunk("a"), last, "[DONE]"]))
    stream = chat.stream(HELLO)
    list(stream)
    assert (stream.call.input_tokens, stream.call.output_tokens) == (5, 6)


WHILE_HTTPX_LOADS = """
import sys, threading, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "httpx._models":
            time.sleep(0.5)

import openai
from memory_core.models.endpoint import Endpoint
sys.meta_path.insert(0, Slow())
threading.Thread(target=__import__, args=("httpx",)).start()
while "httpx" not in sys.modules:
    time.sleep(0.001)
assert not hasattr(sys.modules["httpx"], "URL"), "it is loading"
print(Endpoint("http://127.0.0.1:9/v1", "key").client().base_url)
"""


@pytest.mark.slow
def test_a_client_can_be_made_while_another_thread_is_loading_httpx():
    made = subprocess.run([sys.executable, "-c", WHILE_HTTPX_LOADS], capture_output=True, text=True, timeout=60)
    assert (made.stdout, made.stderr) == ("http://127.0.0.1:9/v1/\n", "")
