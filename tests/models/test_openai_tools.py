"""Tools through chat completions: what is sent, how streamed calls are put together, what an endpoint may refuse."""

import pytest
from scripted_server import ScriptedServer, Step, chunk, refusal, streamed

from memory_core import ChatMessage, ModelAnswerError, ModelRequestError, ToolCallPart
from memory_core.formats.openai_message import to_openai
from memory_core.models.openai_client import OpenAIChat
from memory_core.models.protocols import ToolSpec

HELLO = [ChatMessage(role="user", content="I live in Porto")]
APPEND = ToolSpec("core_memory_append", "Add a line.", {"type": "object", "properties": {}, "required": []})


@pytest.fixture
def serve():
    opened = []

    def start(*script):
        server = ScriptedServer(*script).__enter__()
        chat = OpenAIChat("m", base_url=server.url, api_key="k", timeout_seconds=5, max_retries=0)
        opened.append((server, chat))
        return server, chat

    yield start
    for server, chat in opened:
        chat.close()
        server.__exit__()


def piece(index=None, *, id=None, name=None, arguments=None):
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    given = {"index": index, "id": id, "function": function}
    return {key: value for key, value in given.items() if value is not None}


def calls_of(chat):
    stream = chat.stream(HELLO, [APPEND])
    text = "".join(stream)
    return text, [(call.tool_call_id, call.tool_name, call.tool_kwargs) for call in stream.tool_calls]


def spoken(*events, finish="tool_calls"):
    return Step(stream=[*(chunk(tool_calls=[event]) for event in events), chunk(finish=finish), "[DONE]"])


def test_tools_are_sent_as_functions_and_only_when_there_are_any(serve):
    server, chat = serve(streamed("Hi"), streamed("Hi"))
    list(chat.stream(HELLO, [APPEND]))
    list(chat.stream(HELLO))
    with_tools, without = server.bodies
    function = {"name": "core_memory_append", "description": "Add a line.", "parameters": dict(APPEND.parameters)}
    assert with_tools["tools"] == [{"type": "function", "function": function}]
    assert "tools" not in without


def test_streamed_calls_are_put_together_beside_the_text(serve):
    step = Step(
        stream=[
            chunk("Let me "),
            chunk(tool_calls=[piece(0, id="a", name="core_memory_append", arguments="")]),
            chunk(tool_calls=[piece(0, arguments='{"label": "Hu')]),
            chunk("note that."),
            chunk(tool_calls=[piece(1, id="b", name="memory_rethink", arguments="{}")]),
            chunk(tool_calls=[piece(0, arguments='man"}')]),
            chunk(finish="tool_calls"),
            "[DONE]",
        ]
    )
    _, chat = serve(step)
    assert calls_of(chat) == (
        "Let me note that.",
        [("a", "core_memory_append", {"label": "Human"}), ("b", "memory_rethink", {})],
    )


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        pytest.param(
            [piece(0, id="a", name="x", arguments="{}"), piece(0, id="b", name="y", arguments="{}")],
            [("a", "x", {}), ("b", "y", {})],
            id="one index for all",
        ),
        pytest.param(
            [piece(id="a", name="x", arguments='{"n": 1}'), piece(name="y", arguments="{}")],
            [("a", "x", {"n": 1}), (None, "y", {})],
            id="no index",
        ),
        pytest.param([piece(0, name="x", arguments="{}")], [(None, "x", {})], id="no id"),
        pytest.param([piece(0, id="a", name="x")], [("a", "x", {})], id="no arguments"),
        pytest.param([piece(0, id="a", name="x", arguments=" ")], [("a", "x", {})], id="blank arguments"),
        pytest.param([piece(0, id="a", name="x", arguments='{"n": ')], [("a", "x", '{"n":')], id="cut off"),
        pytest.param([piece(0, id="a", name="x", arguments="[1]")], [("a", "x", "[1]")], id="no object"),
        pytest.param([piece(0, id="a", name="x", arguments={"n": 1})], [("a", "x", {"n": 1})], id="decoded already"),
        pytest.param([piece(0, id="a", arguments="{}")], [("a", "", {})], id="no name"),
        pytest.param([piece(0, id="a", name="x", arguments="[" * 5000)], [("a", "x", "[" * 5000)], id="too deep"),
    ],
)
def test_however_an_endpoint_streams_calls_they_are_understood(serve, events, calls):
    for finish in ("tool_calls", "stop"):
        _, chat = serve(spoken(*events, finish=finish))
        assert calls_of(chat) == ("", calls)


def test_a_whole_reply_is_one_message_for_the_memory(serve):
    said = [chunk("One moment."), chunk(tool_calls=[piece(0, id="c1", name="core_memory_append", arguments="{}")])]
    _, chat = serve(Step(stream=[*said, chunk(finish="tool_calls"), "[DONE]"]), streamed("Hi"))
    message = chat.reply(HELLO, [APPEND])
    assert (message.role, message.content) == ("assistant", "One moment.")
    assert [(call.tool_call_id, call.tool_name) for call in message.tool_calls] == [("c1", "core_memory_append")]
    assert str(chat.reply(HELLO)) == "assistant: Hi"


def test_a_reply_without_text_and_calls_is_still_an_empty_answer(serve):
    _, chat = serve(streamed())
    with pytest.raises(ModelAnswerError, match="empty answer"):
        calls_of(chat)


def test_calls_that_were_cut_off_are_not_made(serve):
    _, chat = serve(spoken(piece(0, id="a", name="x", arguments='{"n'), finish="length"))
    stream = chat.stream(HELLO, [APPEND])
    with pytest.raises(ModelAnswerError, match="cut off"):
        list(stream)
    assert stream.tool_calls == ()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "registry/library/tiny does not support tools"),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (404, "No endpoints found that support tool use"),
        (400, "Unrecognized request argument supplied: tools"),
        (422, "body.tools: extra fields not permitted"),
    ],
)
def test_an_endpoint_that_takes_no_tools_is_said_so(serve, status, words):
    _, chat = serve(refusal(status, words))
    with pytest.raises(ModelRequestError, match=r'"m" at 127\.0\.0\.1.* takes no tools') as caught:
        chat.stream(HELLO, [APPEND])
    assert "read only for the agent" in str(caught.value)


def test_another_refusal_stays_what_it_is(serve):
    _, chat = serve(refusal(400, "messages[2]: role tool must follow a call"))
    with pytest.raises(ModelRequestError, match="role tool must follow"):
        chat.stream(HELLO, [APPEND])


def test_an_endpoint_that_knows_neither_usage_nor_ids_still_calls(serve):
    server, chat = serve(refusal(400, "Unknown parameter: stream_options"), spoken(piece(0, name="x", arguments="{}")))
    assert calls_of(chat) == ("", [(None, "x", {})])
    assert "stream_options" not in server.bodies[1]
    assert server.bodies[1]["tools"] == server.bodies[0]["tools"]


def test_what_a_model_wrote_wrongly_is_sent_back_in_a_form_that_endpoints_take():
    call = ToolCallPart(tool_call_id="a", tool_name="wipe it all!", tool_kwargs="{broken")
    sent = to_openai([ChatMessage(role="assistant", parts=[call])])
    assert sent[0]["tool_calls"][0]["function"] == {"name": "wipe_it_all_", "arguments": '{"arguments": "{broken"}'}
