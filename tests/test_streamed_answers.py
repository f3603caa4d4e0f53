"""What is read of an endpoint's answer, however it cuts it into pieces, and what of its failures and counts."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_kit import VALUES

from memory_inspector.recorder.streamed_answer import is_complete, stream_events
from memory_inspector.recorder.wire import Answered, read_exchange

CHAT = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}).encode()
RESPONSES = json.dumps({"model": "m", "stream": True, "input": "Hi"}).encode()


def sse(*events):
    return b"".join(b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n" for e in events)


def chat(*deltas):
    """The call whose answer came in these pieces."""
    body = sse(*({"choices": [{"index": 0, "delta": delta}]} for delta in deltas), b"[DONE]")
    return read_exchange("chat/completions", CHAT, Answered(200, body))


def responses(*events):
    return read_exchange("responses", RESPONSES, Answered(200, sse(*events)))


def calls_of(*pieces):
    """Name and arguments of the calls that these pieces make, one event a piece; a list is one event."""
    listed = ({"tool_calls": piece if isinstance(piece, list) else [piece]} for piece in pieces)
    answer = chat(*listed).answer
    return [(call.tool_name, call.tool_kwargs) for call in answer.tool_calls] if answer else []


def piece(name=None, arguments=None, **fields):
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {key: value for key, value in function.items() if value is not None}}


LOOK, BOOK = ("look", {"at": "sea"}), ("book", {"guests": 4})


@pytest.mark.parametrize(
    ("pieces", "made"),
    [
        ([piece("book", "", id="a"), piece(None, '{"guests": '), piece(None, "4}")], [BOOK]),
        ([piece("book", '{"guests": ', id="a"), piece(None, "4}", id="a")], [BOOK]),
        (
            [
                piece("look", '{"at": "sea"', id="a"),
                piece(None, "}"),
                piece("book", '{"guests"', id="b"),
                piece(None, ": 4}"),
            ],
            [LOOK, BOOK],
        ),
        ([piece("look", '{"at": "sea"}'), piece("book", '{"guests": 4}')], [LOOK, BOOK]),
        ([[piece("look", '{"at": "sea"}'), piece("book", '{"guests": 4}')]], [LOOK, BOOK]),
        ([[piece("look", {"at": "sea"}), piece("look", {"at": "sea"})]], [LOOK, LOOK]),
        ([[piece("now", ""), piece("today", "")]], [("now", {}), ("today", {})]),
        ([piece("book", '{"guests": ', index=None, id=""), piece(None, "4}", index=None, id="")], [BOOK]),
    ],
    ids=["later pieces", "ids", "two by ids", "two whole", "two at once", "as objects", "no arguments", "empty ids"],
)
def test_calls_whose_pieces_have_no_index_are_put_together(pieces, made):
    assert calls_of(*pieces) == made


@pytest.mark.parametrize(
    "pieces",
    [
        [piece("look", '{"at": "sea"}', index=0, id="a"), piece("book", '{"guests": 4}', index=0, id="b")],
        [piece("look", '{"at": "sea"}', index=0, id=""), piece("book", '{"guests": 4}', index=0, id="")],
        [
            piece("look", "", index=0, id="a"),
            piece(None, '{"at": "sea"}', index=0),
            piece("book", '{"guests"', index=0, id="b"),
            piece(None, ": 4}", index=0),
        ],
        [[piece("look", '{"at": "sea"}', index=0), piece("book", '{"guests": 4}', index=0)]],
        [piece("look", '{"at": "sea"}', index=0, id="x"), piece("book", '{"guests": 4}', index=1, id="x")],
        [
            piece("look", '{"at"', index=0, id="x"),
            piece("book", '{"guests"', index=1, id="x"),
            piece(None, ': "sea"}', index=0, id="x"),
            piece(None, ": 4}", index=1, id="x"),
        ],
        [piece("book", '{"guests": 4}', index=1, id="b"), piece("look", '{"at": "sea"}', index=0, id="a")],
    ],
    ids=["ids", "no ids", "in pieces", "at once", "one id", "one id in pieces", "backwards"],
)
def test_two_calls_stay_two_whatever_index_and_id_they_share(pieces):
    assert calls_of(*pieces) == [LOOK, BOOK]


@pytest.mark.parametrize("ids", [{}, {"id": "a"}], ids=["id once", "id each time"])
@pytest.mark.parametrize("index", [{}, {"index": 0}], ids=["without index", "with index"])
@pytest.mark.parametrize(
    "names",
    [
        ("read_file", "read_file", "read_file", "read_file"),
        ("read", "_file", None, ""),
        ("read", "read_file", None, ""),
    ],
    ids=["repeated", "in pieces", "as far as it came"],
)
def test_a_name_is_read_once_however_often_it_is_sent(names, index, ids):
    texts = ('{"path"', ': "a', '.txt"}', "")
    sent = [piece(name, text, **index, **ids) for name, text in zip(names, texts, strict=True)]
    sent[0]["id"] = "a"
    assert calls_of(*sent) == [("read_file", {"path": "a.txt"})]


def test_a_call_whose_pieces_each_have_another_id_is_one():
    sent = [
        piece("book", "", index=0, id="r1"),
        piece(None, '{"guests"', index=0, id="r2"),
        piece(None, ": 4}", id="r3"),
    ]
    assert calls_of(*sent) == [BOOK]


def test_calls_of_custom_tools_keep_their_input_as_text():
    begun = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    more = {"index": 0, "custom": {"input": " Patch\n"}}
    second = {"index": 0, "id": "b", "type": "custom", "custom": {"name": "patch", "input": "*** End"}}
    assert calls_of(begun, more, second) == [("patch", "*** Begin Patch\n"), ("patch", "*** End")]


def test_a_call_in_the_older_form_is_read():
    answer = chat(
        {"function_call": {"name": "book", "arguments": ""}},
        {"function_call": {"arguments": '{"guests": '}},
        {"function_call": {"name": "book", "arguments": "4}"}},
    ).answer
    assert [(call.tool_name, call.tool_kwargs) for call in answer.tool_calls] == [BOOK]


def test_arguments_without_a_name_are_kept_as_they_came():
    assert "Oslo" in chat({"tool_calls": [piece(None, '{"city": "Oslo"}', index=0)]}).answer.content


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        b"data: {}\n\n" * 400_000,
        b"{}\n" * 600_000,
        b"\r" * 1_200_000,
        b"data: [" + b"{}," * 1_100_000 + b"{}]\n\n",
        (b'data: {"choices": [{"delta": {"content": [' + b"1," * 50_000 + b"1]}}]}\n\n") * 5,
        b'data: {"response": {"output": [' + b"{}," * 210_000 + b"{}]}}\n\n",
        b'{"output": [' + b"{}," * 210_000 + b"{}]}",
        b'{"choices": [{"message": {"content": [' + b"1," * 210_000 + b"1]}}]}",
    ],
    ids=["events", "lines", "line ends", "list", "content", "response", "whole output", "whole content"],
)
@pytest.mark.parametrize("endpoint", ["chat/completions", "responses"])
def test_an_answer_in_too_many_pieces_is_recorded_in_a_sentence_and_without_words(body, endpoint):
    exchange = read_exchange(endpoint, CHAT if endpoint == "chat/completions" else RESPONSES, Answered(200, body))
    assert exchange.error == "its answer is in too many pieces to be read"
    assert exchange.answer is None


@pytest.mark.slow
def test_many_calls_that_come_at_once_are_read():
    calls = calls_of([piece("look", "{}", index=number) for number in range(40_000)])
    assert calls == [("look", {})] * 40_000


@pytest.mark.slow
def test_a_long_answer_whose_every_token_is_an_event_is_read_whole():
    one = {"id": "chatcmpl-1", "model": "m", "choices": [{"index": 0, "delta": {"content": "a "}, "logprobs": None}]}
    body = sse(one) * 128_000
    exchange = read_exchange("chat/completions", CHAT, Answered(200, body))
    assert exchange.error is None
    assert exchange.answer.content == "a " * 128_000


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "Rome is hot."}]}


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        ([[THOUGHT], [{"type": "text", "text": "Go in "}], "May."], "Go in May."),
        (
            [[{"type": "text", "text": "Go "}, {"type": "text", "text": "in "}], [{"type": "text", "text": "May."}]],
            "Go in May.",
        ),
        ([{"type": "text", "text": "Go in "}, None, "", "May."], "Go in May."),
        (["Go in ", 7, [None], "May."], "Go in \n7\nMay."),
        (["\ud83d", "\ude00 in ", "May\ud83d"], "😀 in May\ufffd"),
        (["See", [{"type": "reference", "reference_ids": [1]}]], 'See\n{"type": "reference", "reference_ids": [1]}'),
    ],
    ids=["thinking", "lists", "objects", "odd", "halves of a character", "unknown"],
)
def test_content_is_read_in_whatever_pieces_it_comes(contents, said):
    assert chat(*({"content": content} for content in contents)).answer.content == said


@pytest.mark.parametrize("form", ["list", "text"])
def test_an_answer_that_came_whole_reads_as_one_in_pieces(form):
    content = [THOUGHT, {"type": "text", "text": "In May."}] if form == "list" else "In May."
    message = {"role": "assistant", "content": content}
    whole = json.dumps({"choices": [{"message": message}]}).encode()
    read = [read_exchange("chat/completions", CHAT, Answered(200, body)) for body in (whole, sse(json.loads(whole)))]
    assert [each.answer for each in read] == [chat({"content": content}).answer] * 2
    assert read[0].answer.content == "In May."


def test_a_refusal_is_read_in_pieces():
    assert chat({"refusal": "I can"}, {"refusal": "not."}).answer.content == "I cannot."


def test_the_first_choice_is_the_answer():
    events = [{"choices": [{"index": n, "delta": {"content": f"{n}"}}]} for n in (1, 0, 1)]
    assert read_exchange("chat/completions", CHAT, Answered(200, sse(*events))).answer.content == "0"


@pytest.mark.parametrize("gap", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b"\n: keep-alive\n\n"])
@pytest.mark.parametrize("head", [b"data: ", b"data:", b"id: 1\ndata: ", b"event: message\ndata: ", b""])
def test_events_are_read_however_their_lines_are_written(head, gap):
    body = b"".join(head + json.dumps({"n": n}).encode() + gap for n in range(3))
    assert list(stream_events(body)) == list(stream_events(b"\xef\xbb\xbf" + body)) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_an_event_that_cannot_be_read_costs_itself_alone():
    body = sse(
        {"choices": [{"delta": {"content": "Good "}}]}, b"{broken", {"choices": "none"}, {"choices": [{"delta": 5}, 7]}
    )
    body += sse(b'{"choices": [{"delta": {"content": "d\xe4y"}}]}', {"choices": [{"delta": {"content": "!"}}]})
    assert read_exchange("chat/completions", CHAT, Answered(200, body)).answer.content == "Good d\ufffdy!"


# -- the Responses API -----------------------------------------------------------------------------

MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Gate 12"}]}
CALL = {"type": "function_call", "call_id": "c", "name": "book", "arguments": '{"guests": 4}'}
PATCH = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"}


def event(kind, **fields):
    return {"type": f"response.{kind}", **fields}


def completed(output):
    response = {"status": "completed", "output": output, "usage": {"input_tokens": 9, "output_tokens": 3}}
    return event("completed", response=response)


@pytest.mark.parametrize(
    "output", [[], None, [{**MESSAGE, "content": []}], "gone"], ids=["empty", "null", "no words", "text"]
)
@pytest.mark.parametrize(
    "events",
    [
        [event("output_text.delta", delta="Gate 12"), event("output_item.done", output_index=0, item=MESSAGE)],
        [event("output_item.done", item=MESSAGE)],
        [event("output_text.delta", delta="Gate "), event("output_text.delta", delta="12")],
        [
            event("output_item.added", output_index=0, item={**MESSAGE, "id": "m", "content": []}),
            event("output_text.delta", item_id="m", delta="Gate "),
            event("output_text.delta", output_index=0, delta="1"),
            event("output_text.done", item_id="m", text="Gate 12"),
        ],
        [
            event("output_text.delta", item_id="one", output_index=0, delta="Gate 12"),
            event("output_item.done", output_index=0, item={**MESSAGE, "id": "another"}),
        ],
        [event("refusal.delta", item_id="m", delta="Gate "), event("refusal.done", item_id="m", refusal="Gate 12")],
    ],
    ids=["both", "item", "pieces", "done", "other ids", "refusal"],
)
def test_what_was_streamed_is_the_answer_where_the_end_lists_less(events, output):
    found = responses(*events, completed(output))
    assert (found.answer.content, found.input_tokens, found.output_tokens, found.error) == ("Gate 12", 9, 3, None)


def test_the_end_is_the_answer_where_it_lists_all():
    found = responses(event("output_text.delta", delta="Gate"), completed([MESSAGE, CALL]))
    assert found.answer.content == "Gate 12"
    assert [(call.tool_name, call.tool_kwargs) for call in found.answer.tool_calls] == [BOOK]


@pytest.mark.parametrize("ended", [True, False], ids=["with the item", "cut off"])
@pytest.mark.parametrize(
    ("item", "field", "kind"),
    [(CALL, "arguments", "function_call_arguments"), (PATCH, "input", "custom_tool_call_input")],
)
def test_calls_are_read_of_their_pieces(item, field, kind, ended):
    events = [event("output_item.added", output_index=0, item={**item, "id": "i", field: ""})]
    events += [event(f"{kind}.delta", item_id="i", output_index=0, delta=letter) for letter in item[field]]
    events += [event("output_item.done", output_index=0, item=item), completed([])] if ended else []
    [call] = responses(*events).answer.tool_calls
    assert (call.tool_call_id, call.tool_name, call.arguments) == ("c", item["name"], item[field])


def test_an_item_is_the_same_streamed_and_whole():
    item = {"type": "mcp_call", "id": "m", "name": "dice", "arguments": "{}", "output": "six"}
    streamed = responses(event("output_item.done", output_index=0, item=item), completed([]))
    assert streamed.answer == responses(completed([item])).answer


def test_items_stand_in_the_order_of_their_indices():
    first, second = ({**MESSAGE, "content": [{"type": "output_text", "text": text}]} for text in ("One", "Two"))
    done = [event("output_item.done", output_index=n, item=item) for n, item in ((1, second), (0, first))]
    assert responses(*done).answer.content == "One\nTwo"


# -- usage and failures ----------------------------------------------------------------------------

USAGE = {"prompt_tokens": 31, "completion_tokens": 2}
STOP = {"index": 0, "delta": {}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "last",
    [
        {"choices": [], "usage": USAGE},
        {"choices": [STOP], "x_groq": {"id": "r", "usage": USAGE}},
        {"choices": [{**STOP, "usage": USAGE}]},
        {"choices": [{**STOP, "delta": {"usage": USAGE}}]},
        {"choices": [STOP], "usage": {"input_tokens": "31", "output_tokens": 2.0}},
        {"choices": [STOP], "usage": None, "x_vendor": {"usage": {**USAGE, "queue_time": 0.1}}},
    ],
    ids=["OpenAI", "Groq", "Moonshot", "in the delta", "other names", "another extension"],
)
@pytest.mark.parametrize(
    "after", [[], [{"choices": [], "usage": {"prompt_tokens": 0}}]], ids=["last", "counted before"]
)
def test_tokens_are_known_wherever_the_endpoint_counts_them(last, after):
    begun = {
        "choices": [{"index": 0, "delta": {"content": "Hi"}}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0},
    }
    found = read_exchange("chat/completions", CHAT, Answered(200, sse(begun, last, *after)))
    assert (found.input_tokens, found.output_tokens) == (31, 2)


BEGUN = {"choices": [{"index": 0, "delta": {"content": "Once upon"}}]}
GONE = {"error": {"message": "sk-secret went away", "code": 502}}


@pytest.mark.parametrize(
    "failed",
    [
        sse(GONE),
        sse({**GONE, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}),
        sse({"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "sk-secret"}}]}),
        b'event: error\ndata: {"message": "sk-secret", "code": 502}\n\n',
        b'error: {"code": 502, "message": "sk-secret"}\n\n',
        b'{"error": {"code": 502, "message": "sk-secret"}}\n',
        sse({"object": "error", "message": "sk-secret", "code": 502}),
        sse({"choices": None, "base_resp": {"status_code": 502, "status_msg": "sk-secret"}}),
    ],
    ids=["event", "chunk", "choice", "named event", "field", "raw", "object", "MiniMax"],
)
def test_a_failure_in_the_middle_of_a_stream_is_one_and_what_came_is_kept(failed):
    found = read_exchange("chat/completions", CHAT, Answered(200, sse(BEGUN) + failed + b"data: [DONE]\n\n"))
    assert (found.error, found.answer.content) == ("the endpoint reported a failure: 502", "Once upon")


@pytest.mark.parametrize(
    "failed", [b"event: error\ndata: it broke\n\n", sse({"error": "it broke"}), sse({"error": True})]
)
def test_a_failure_without_a_code_is_one(failed):
    found = read_exchange("chat/completions", CHAT, Answered(200, sse(BEGUN) + failed))
    assert (found.error, found.answer.content) == ("the endpoint reported a failure", "Once upon")


@pytest.mark.parametrize(
    "failed",
    [
        event("failed", response={"status": "failed", "output": [], "error": {"code": "server_error", "message": "m"}}),
        {"type": "error", "code": "server_error", "message": "m"},
        {"type": "error", "error": {"type": "server_error", "message": "m"}},
        event("completed", response={"status": "failed", "error": {"code": "server_error"}}),
    ],
    ids=["failed", "error", "nested", "status"],
)
def test_a_failed_response_is_one_and_what_came_is_kept(failed):
    found = responses(event("output_text.delta", delta="Once upon"), failed)
    assert (found.error, found.answer.content) == ("the endpoint reported a failure: server_error", "Once upon")


@pytest.mark.parametrize(
    ("endpoint", "body", "error"),
    [
        (
            "chat/completions",
            {"error": {"message": "m", "type": "overloaded"}},
            "the endpoint reported a failure: overloaded",
        ),
        ("responses", {"status": "failed", "output": [], "error": {"code": "x"}}, "the endpoint reported a failure: x"),
        ("embeddings", {"error": "no such model"}, "the endpoint reported a failure"),
        ("chat/completions", {"base_resp": {"status_code": 1004}}, "the endpoint reported a failure: 1004"),
        ("chat/completions", [{"error": {"code": 400, "status": "X"}}], "the endpoint reported a failure: 400"),
        ("chat/completions", {"detail": "Not found"}, "its answer is none of a model's"),
        ("responses", {"type": "about:blank", "title": "Gone"}, "its answer is none of a model's"),
        ("chat/completions", "<html>Log in</html>", "its answer is neither JSON nor a stream of events"),
        ("chat/completions", "", "its answer is neither JSON nor a stream of events"),
    ],
)
def test_a_success_whose_body_is_none_is_a_failure(endpoint, body, error):
    asked = {"chat/completions": CHAT}.get(endpoint, RESPONSES)
    sent = body if isinstance(body, str) else json.dumps(body)
    found = read_exchange(endpoint, asked, Answered(200, sent.encode()))
    assert (found.error, found.answer) == (error, None)


@pytest.mark.parametrize(
    "body", [{"choices": [], "error": None}, {"choices": [], "error": {}}, {"choices": [], "error": False}]
)
def test_an_error_that_is_none_is_no_failure(body):
    assert read_exchange("chat/completions", CHAT, Answered(200, json.dumps(body).encode())).error is None


# -- anything --------------------------------------------------------------------------------------

STREAMS = [
    (
        "chat/completions",
        CHAT,
        [
            BEGUN,
            {
                "choices": [{**STOP, "delta": {"tool_calls": [piece("look", "{}", index=0, id="a")]}}],
                "x_groq": {"usage": USAGE},
            },
            GONE,
        ],
    ),
    (
        "responses",
        RESPONSES,
        [
            event("output_item.added", output_index=0, item=CALL),
            event("function_call_arguments.delta", item_id="i", delta="{"),
            event("output_text.delta", content_index=0, delta="Hi"),
            completed([MESSAGE]),
        ],
    ),
]


def places(value, path=()):
    """Every place within a JSON value, as the steps to it."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@settings(max_examples=300, deadline=None)
@given(st.data())
@pytest.mark.slow
def test_any_answer_is_read_without_an_error_and_can_be_stored(data):
    """Events of which anything is something else, cut off anywhere."""
    endpoint, asked, events = copy.deepcopy(data.draw(st.sampled_from(STREAMS)))
    for _ in range(data.draw(st.integers(0, 4))):
        *steps, last = data.draw(st.sampled_from(list(places(events))[1:]))
        at = events
        for step in steps:
            at = at[step]
        at[last] = data.draw(VALUES)
    body = sse(*events) if data.draw(st.booleans()) else json.dumps(events[-1]).encode()
    body = body[: data.draw(st.integers(0, len(body)))] if data.draw(st.booleans()) else body
    found = read_exchange(endpoint, asked, Answered(200, body))
    if found.answer is not None:
        found.answer.to_json().encode()
    f"{found.model}{found.error}".encode()


@pytest.mark.parametrize(
    ("body", "complete"),
    [
        (b'data: {"choices": []}\n\ndata: [DONE]\n\n', True),
        (b"data: {}\r\n\r\ndata: [DONE]", True),
        (b'event: response.completed\ndata: {"type": "response.completed", "response": {}}\n\n', True),
        (b'data: {"choices": []}\n\n', False),
        (b'data: {"choices": [{"delta": {"content": "[DONE] or response.completed"}}]}\n\n', False),
        (b"", False),
    ],
)
def test_a_client_that_hangs_up_behind_the_end_of_a_stream_had_it_whole(body, complete):
    assert is_complete(body) is complete
