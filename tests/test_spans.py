"""Spans of an agent, from the bytes of a request to what they report."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_kit import START, as_json, as_protobuf, chat, memory, message, sent

from memory_core.errors import MessageError
from memory_inspector.recorder.dialects import DIALECTS as DIALECTS_READ
from memory_inspector.recorder.otlp import JSON, MAX_SPAN_BYTES, PROTOBUF, Span, read_export
from memory_inspector.recorder.spans import MemoryOperation, MemoryRecord, read_span
from memory_inspector.recorder.wire import Exchange


def reports(*spans, **resource):
    """What spans report that came in either form."""
    by_form = [
        [read_span(span) for span in read_export(write(*spans, **resource), form).spans]
        for write, form in ((as_protobuf, PROTOBUF), (as_json, JSON))
    ]
    assert by_form[0] == by_form[1]
    return by_form[0]


def reported(*spans, **resource):
    (report,) = reports(*spans, **resource)
    return report.what


def said(messages):
    return [(str(message.role), message.content) for message in messages]


# -- calls of a model ------------------------------------------------------------------------------

LOOK = {"name": "look", "arguments": {"in": "Oslo"}}


def test_a_call_has_its_prompt_its_answer_and_its_numbers():
    parts = [
        message("user", "Weather in Oslo?"),
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "t1", **LOOK}]},
        {
            "role": "tool",
            "parts": [
                {"type": "tool_call_response", "id": "t1", "response": {"sky": "grey"}},
                {"type": "tool_call_response", "id": "t2", "result": "windy"},
            ],
        },
    ]
    answer = {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Grey."}],
        "finish_reason": "stop",
    }
    span = sent(
        "chat gpt",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt",
            "gen_ai.conversation.id": "c9",
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
            "gen_ai.input.messages": json.dumps(parts),
            "gen_ai.output.messages": json.dumps([answer]),
            "gen_ai.usage.input_tokens": 40,
            "gen_ai.usage.output_tokens": 3,
        },
        began=2,
        seconds=0.5,
    )
    (report,) = reports(span, service="shop")
    call = report.what
    assert said(call.messages) == [
        ("system", "Be brief."),
        ("user", "Weather in Oslo?"),
        ("assistant", None),
        ("tool", '{"sky": "grey"}'),
        ("tool", "windy"),
    ]
    assert call.messages[2].tool_calls[0].tool_kwargs == {"in": "Oslo"}
    assert [each.tool_call_id for each in call.messages[3:]] == ["t1", "t2"]
    assert said([call.answer]) == [("assistant", "Grey.")]
    assert (call.purpose, call.model, call.input_tokens, call.output_tokens) == ("reply", "gpt", 40, 3)
    assert (call.seconds, call.error, call.known, call.captured) == (0.5, None, "reported", True)
    assert call.sent * 1_000 == START + 2 * 10**9 == report.began
    assert (report.session, report.service, report.key) == ("c9", "shop", f"{1:032x}:{span['spanId']}")


def test_structured_values_say_the_same_as_their_json():
    prompt = [message("user", "Hi")]
    by_form = [
        reported(sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": form}))
        for form in (prompt, json.dumps(prompt))
    ]
    assert [said(call.messages) for call in by_form] == [[("user", "Hi")]] * 2


def test_openinference_writes_its_lists_out():
    call = reported(
        sent(
            "ChatCompletion",
            {
                "openinference.span.kind": "LLM",
                "session.id": "s1",
                "llm.model_name": "gpt",
                "llm.token_count.prompt": 9,
                "llm.token_count.completion": 2,
                "llm.input_messages.0.message.role": "system",
                "llm.input_messages.0.message.content": "Be kind.",
                "llm.input_messages.1.message.role": "user",
                "llm.input_messages.1.message.contents.0.message_content.type": "text",
                "llm.input_messages.1.message.contents.0.message_content.text": "What is it?",
                "llm.input_messages.1.message.contents.1.message_content.type": "image",
                "llm.input_messages.1.message.contents.1.message_content.image.image.url": "https://a/b.png",
                "llm.input_messages.2.message.role": "assistant",
                "llm.input_messages.2.message.tool_calls.0.tool_call.id": "t1",
                "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "look",
                "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"in": "Oslo"}',
                "llm.input_messages.10.message.role": "tool",
                "llm.input_messages.10.message.content": "grey",
                "llm.input_messages.10.message.tool_call_id": "t1",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": "A cat.",
            },
        )
    )
    assert said(call.messages) == [
        ("system", "Be kind."),
        ("user", "What is it?"),
        ("assistant", None),
        ("tool", "grey"),
    ]
    assert call.messages[1].parts[1].url == "https://a/b.png"
    assert call.messages[2].tool_calls[0].tool_kwargs == {"in": "Oslo"}
    assert (call.messages[3].tool_call_id, call.answer.content, call.input_tokens) == ("t1", "A cat.", 9)


OLDER = {
    "events of a message each": sent(
        "chat",
        {"gen_ai.operation.name": "chat"},
        events=[
            ("gen_ai.system.message", {"content": "Be brief."}),
            ("gen_ai.user.message", {"content": "[Hi]"}),
            ("gen_ai.choice", {"index": 0, "message": json.dumps({"role": "assistant", "content": "Yes."})}),
        ],
    ),
    "an event with all": sent(
        "chat",
        {"gen_ai.operation.name": "chat"},
        events=[
            (
                "gen_ai.client.inference.operation.details",
                {
                    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
                    "gen_ai.input.messages": json.dumps([message("user", "[Hi]")]),
                    "gen_ai.output.messages": json.dumps([message("assistant", "Yes.")]),
                },
            )
        ],
    ),
    "attributes written out": sent(
        "openai.chat",
        {
            "llm.request.type": "chat",
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": "Be brief.",
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": "[Hi]",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "Yes.",
        },
    ),
    "Strands, with its blocks": sent(
        "chat",
        {"gen_ai.operation.name": "chat"},
        events=[
            ("gen_ai.system.message", {"content": json.dumps([{"text": "Be brief."}])}),
            ("gen_ai.user.message", {"content": json.dumps([{"text": "[Hi]"}])}),
            ("gen_ai.choice", {"message": json.dumps([{"text": "Yes."}]), "finish_reason": "end_turn"}),
        ],
    ),
}


@pytest.mark.parametrize("form", OLDER)
def test_older_forms_are_read_too(form):
    call = reported(OLDER[form])
    assert said([*call.messages, call.answer]) == [("system", "Be brief."), ("user", "[Hi]"), ("assistant", "Yes.")]


def test_a_call_without_content_has_its_numbers_and_says_so():
    call = reported(chat(None))
    assert (call.messages, call.answer, call.captured, call.input_tokens) == ((), None, False, 11)


def test_a_failed_call_names_its_error_and_none_of_its_words():
    attributes = {"gen_ai.operation.name": "chat", "error.type": "RateLimitError"}
    assert reported(sent("chat", attributes, failed=True)).error == "it failed with RateLimitError"
    attributes["error.type"] = "the key sk-123 is wrong"
    assert reported(sent("chat", attributes)).error == "it failed"


def test_embeddings_are_calls_without_a_prompt():
    call = reported(sent("embeddings e", {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"}))
    assert (call.purpose, call.model, call.messages, call.captured) == ("embed", "e", (), True)


# -- memory ----------------------------------------------------------------------------------------


def test_memory_operations_of_the_conventions():
    wrote, found, deleted, made = reports(
        memory("upsert_memory", records=[("r1", "Likes tea."), (None, {"city": "Oslo"})]),
        memory("search_memory", query="what to drink", records=[("r1", "Likes tea.", 0.8)]),
        memory("delete_memory", record="r1"),
        memory("create_memory_store", store="new"),
    )
    assert wrote.what == MemoryOperation(
        "upsert", "notes", (MemoryRecord("r1", "Likes tea."), MemoryRecord(None, '{"city": "Oslo"}')), count=2
    )
    assert found.what == MemoryOperation(
        "search", "notes", (MemoryRecord("r1", "Likes tea.", 0.8),), "what to drink", 1, 0.8
    )
    assert deleted.what == MemoryOperation("delete", "notes", (MemoryRecord("r1", None),), count=1)
    assert made.what == MemoryOperation("create_store", "new")
    assert {each.session for each in (wrote, found, deleted, made)} == {"c1"}


DIALECTS = {
    "drafts of the conventions": (
        sent(
            "search_memory",
            {
                "gen_ai.operation.name": "search_memory",
                "gen_ai.memory.store.name": "notes",
                "gen_ai.memory.query": "tea",
                "gen_ai.memory.search.result.count": 3,
            },
        ),
        MemoryOperation("search", "notes", query="tea", count=3),
    ),
    "memory-semconv": (
        sent(
            "memory.search",
            {
                "memory.operation": "search",
                "memory.query.text": "tea",
                "memory.result.count": 2,
                "memory.top_similarity": 0.7,
                "memory.scope.user_id": "ana",
                "memory.store_backend": "qdrant",
            },
        ),
        MemoryOperation("search", "ana", query="tea", count=2, best=0.7),
    ),
    "memory-semconv, a write": (
        sent("memory.add", {"memory.operation": "add", "memory.item.count": 2, "memory.store_backend": "qdrant"}),
        MemoryOperation("upsert", "qdrant", count=2),
    ),
    "n8n": (
        sent(
            "query_memory",
            {
                "gen_ai.operation.name": "query_memory",
                "gen_ai.memory.ids": ["a", "b"],
                "gen_ai.memory.descriptions": ["Likes tea.", "Lives in Oslo."],
                "gen_ai.memory.store.names": ["history"],
            },
        ),
        MemoryOperation(
            "search", "history", (MemoryRecord("a", "Likes tea."), MemoryRecord("b", "Lives in Oslo.")), count=2
        ),
    ),
    "Strands": (
        sent(
            "memory.search",
            {
                "gen_ai.operation.name": "memory.search",
                "memory.store.names": json.dumps(["notes"]),
                "memory.result.count": 1,
            },
            events=[
                ("memory.query", {"content": "tea"}),
                ("memory.results", {"content": json.dumps([{"content": "Likes tea.", "store_name": "notes"}])}),
            ],
        ),
        MemoryOperation("search", "notes", (MemoryRecord(None, "Likes tea."),), "tea", 1),
    ),
    "Strands, a write": (
        sent(
            "memory.add",
            {"gen_ai.operation.name": "memory.add", "memory.store.names": json.dumps(["notes"])},
            events=[("memory.content", {"content": "Likes tea."})],
        ),
        MemoryOperation("create", "notes", (MemoryRecord(None, "Likes tea."),), count=1),
    ),
    "OpenInference": (
        sent(
            "retrieve",
            {
                "openinference.span.kind": "RETRIEVER",
                "input.value": "tea",
                "retrieval.documents.0.document.id": "d1",
                "retrieval.documents.0.document.content": "Likes tea.",
                "retrieval.documents.0.document.score": 0.9,
            },
        ),
        MemoryOperation("search", None, (MemoryRecord("d1", "Likes tea.", 0.9),), "tea", 1, 0.9),
    ),
    "retrievals of the conventions": (
        sent(
            "retrieval docs",
            {
                "gen_ai.operation.name": "retrieval",
                "gen_ai.data_source.id": "docs",
                "gen_ai.retrieval.documents": json.dumps([{"id": "d1", "score": 0.4}]),
            },
        ),
        MemoryOperation("search", "docs", (MemoryRecord("d1", None, 0.4),), count=1, best=0.4),
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_say_the_same(dialect):
    span, expected = DIALECTS[dialect]
    assert reported(span) == expected


def test_the_program_names_the_session_where_the_span_does_not():
    (report,) = reports(memory("search_memory", conversation=None), resource={"session.id": "of the program"})
    assert (report.session, report.process) == (None, "of the program")
    assert reports(chat(None, conversation=None))[0].session is None


def test_spans_of_anything_else_report_nothing():
    others = [
        sent("GET /", {"http.request.method": "GET"}),
        sent("invoke_agent", {"gen_ai.operation.name": "invoke_agent"}),
    ]
    assert reports(*others) == [None, None]


# -- what is no span, or none that can be read -------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b"hello, I am no request", PROTOBUF),
        (as_protobuf(chat([("user", "Hi")]))[:-20], PROTOBUF),
        (b"\xff" * 64, PROTOBUF),
        (b"{", JSON),
        (b"[1, 2]", JSON),
        (b'{"resourceSpans": 3}', JSON),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": 1}]}]}]}]}', JSON),
    ],
)
def test_what_is_no_request_is_refused_as_a_whole(body, form):
    with pytest.raises(MessageError, match="no OTLP request"):
        read_export(body, form)


def test_a_span_without_ids_or_too_large_is_refused_and_the_others_are_read():
    good, zero, large = chat([("user", "Hi")]), chat(None), chat([("user", "x" * MAX_SPAN_BYTES)])
    zero["spanId"] = "0" * 16
    for write, form in ((as_protobuf, PROTOBUF), (as_json, JSON)):
        export = read_export(write(good, zero, large), form)
        assert [span.id for span in export.spans] == [good["spanId"]]
        assert sorted("4.0 MB" in reason or "zero" in reason for reason in export.refused) == [True, True]
    no_hex = {**good, "traceId": "not hex"}
    assert len(read_export(as_json(no_hex, good), JSON).spans) == 1


@pytest.mark.parametrize(
    ("attributes", "names"),
    [
        (
            {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "te'},
            "gen_ai.input.messages is JSON that was cut",
        ),
        ({"gen_ai.input.messages": 7}, "gen_ai.input.messages holds no messages"),
        ({"gen_ai.output.messages": "[[1]]"}, "gen_ai.output.messages holds no messages"),
    ],
)
def test_what_cannot_be_read_names_its_attribute(attributes, names):
    (span,) = read_export(as_json(sent("chat", {"gen_ai.operation.name": "chat", **attributes})), JSON).spans
    with pytest.raises(MessageError) as error:
        read_span(span)
    assert names in str(error.value)


def test_a_part_that_is_not_known_stands_as_its_json():
    parts = [{"type": "hologram", "beam": 3}, {"type": "text", "content": "Hi"}]
    call = reported(
        sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": [{"role": "user", "parts": parts}]})
    )
    assert isinstance(call, Exchange)
    assert call.messages[0].content == '{"type": "hologram", "beam": 3}\nHi'


texts = st.sampled_from(["user", "tool", "text", "tool_call", "blob", "", "[", '{"a": 1}', "Hi \ud83d", "7", "0"])
FIELDS = (
    "role parts content contents type text message tool_calls function arguments id name document score "
    "toolUse toolResult image image_url url uri message_content"
)
keys = st.sampled_from(FIELDS.split())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
names = sorted({name for each in DIALECTS_READ for fields in each.fields.values() for name in fields})


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([(each.named_by, value) for each in DIALECTS_READ for value in each.operations]),
    st.dictionaries(st.sampled_from(names), values | values.map(json.dumps), max_size=5),
)
def test_whatever_attributes_hold_a_span_is_read_or_refused(kind, attributes):
    named, value = kind
    given_as = {name.replace(".*", ".0.message").partition("/")[0]: each for name, each in attributes.items()}
    events = (("gen_ai.choice", attributes),)
    span = Span("1" * 32, "2" * 16, value, attributes={**given_as, named: value}, events=events)
    try:
        report = read_span(span)
    except MessageError:  # any other error fails the test
        return
    assert report is not None
    if isinstance(report.what, Exchange):
        for message_read in report.what.messages:
            message_read.to_json()


def test_a_tool_result_that_is_none_is_read_as_an_empty_one():
    parts = json.dumps([{"role": "tool", "parts": [{"toolResult": None}]}])
    report = read_span(
        Span("1" * 32, "2" * 16, attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": parts})
    )
    assert report is not None


def call_of(**attributes):
    """What a span with these attributes reports; `__` stands for a dot."""
    return reported(sent("chat", {name.replace("__", "."): value for name, value in attributes.items()}))


@pytest.mark.parametrize(
    "text",
    [
        "[INST] Name a river [/INST]",
        "{{name}} asks for a river",
        "[laughs] The Douro",
        "{",
        "[",
        "[1, 2",
        "{'a': 1}",
        "[]",
    ],
)
def test_a_text_that_begins_with_a_bracket_is_a_text(text):
    asked = call_of(gen_ai__operation__name="text_completion", gen_ai__prompt=text, gen_ai__completion="Yes.")
    told = call_of(gen_ai__operation__name="text_completion", gen_ai__prompt="A river?", gen_ai__completion=text)
    wanted = [] if text == "[]" else [("user", text)]
    assert said(asked.messages) == wanted
    assert (told.answer.content if told.answer else "[]") == text


@pytest.mark.parametrize("attribute", ["gen_ai__input__messages", "gen_ai__prompt"])
def test_json_that_was_cut_off_is_said_to_be(attribute):
    with pytest.raises(MessageError, match="cut off"):
        call_of(gen_ai__operation__name="chat", **{attribute: '[{"role": "user", "content": "Name a ri'})


def test_a_role_of_any_name_is_the_assistant_s_and_its_name_is_kept():
    call = call_of(gen_ai__operation__name="chat", gen_ai__input__messages=json.dumps([message("oracle", "Hi")]))
    assert said(call.messages) == [("assistant", "Hi")]
    assert call.messages[0].additional_kwargs["role"] == "oracle"


def test_parts_that_were_written_as_json_text_are_parts():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    content = json.dumps([{"type": "text", "text": "Who is it?"}, picture])
    call = call_of(gen_ai__operation__name="chat", gen_ai__prompt__0__role="user", gen_ai__prompt__0__content=content)
    assert said(call.messages) == [("user", "Who is it?")]
    assert [part.type for part in call.messages[0].parts] == ["text", "image"]


@pytest.mark.parametrize(
    "operation",
    [
        "ai.generateText.doGenerate",
        "ai.streamText.doStream",
        "ai.generateObject.doGenerate",
        "ai.streamObject.doStream",
    ],
)
def test_a_call_of_the_vercel_ai_sdk_has_its_prompt_its_answer_and_its_calls(operation):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Name a bridge"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "look", "input": {}}]},
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "t",
                    "toolName": "look",
                    "output": {"type": "text", "value": "old"},
                }
            ],
        },
    ]
    attributes = {
        "ai.operationId": operation,
        "ai.model.id": "small",
        "ai.prompt.messages": json.dumps(messages),
        "ai.response.text": "The old one",
        "ai.response.toolCalls": json.dumps([{"toolCallId": "u", "toolName": "cross", "input": {"at": "noon"}}]),
        "ai.usage.promptTokens": 11,
        "ai.usage.completionTokens": 3,
        "ai.telemetry.metadata.sessionId": "visit-9",
    }
    (report,) = reports(sent(operation, attributes))
    call = report.what
    assert said(call.messages) == [
        ("system", "Be brief."), ("user", "Name a bridge"), ("assistant", None), ("tool", "old")
    ]  # fmt: skip
    assert (call.model, call.input_tokens, call.output_tokens, report.session) == ("small", 11, 3, "visit-9")
    assert call.answer.content == "The old one"
    assert [(each.tool_name, each.tool_kwargs) for each in call.answer.tool_calls] == [("cross", {"at": "noon"})]


def test_an_object_that_a_model_answered_with_is_its_json():
    call = call_of(
        ai__operationId="ai.generateObject.doGenerate", ai__prompt="A bridge?", ai__response__object='{"name": "old"}'
    )
    assert (said(call.messages), call.answer.content) == ([("user", "A bridge?")], '{"name": "old"}')


def test_the_outer_span_of_the_vercel_ai_sdk_reports_nothing_as_its_call_does():
    (span,) = read_export(as_json(sent("ai.generateText", {"ai.operationId": "ai.generateText"})), JSON).spans
    assert read_span(span) is None


def test_the_events_that_logfire_lists_in_one_attribute_are_messages():
    events = [
        {"event.name": "gen_ai.system.message", "role": "system", "content": "Be brief."},
        {"event.name": "gen_ai.user.message", "role": "user", "content": "Open?"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "content": "Until six."}},
    ]
    call = call_of(gen_ai__operation__name="chat", gen_ai__request__model="m", events=json.dumps(events))
    assert said(call.messages) == [("system", "Be brief."), ("user", "Open?")]
    assert call.answer.content == "Until six."


def test_a_call_as_logfire_s_own_instrumentation_writes_it():
    call = call_of(
        **{"logfire.msg_template": "Chat Completion with {request_data[model]!r}"},
        gen_ai__request__model="m",
        request_data=json.dumps({"model": "m", "messages": [{"role": "user", "content": "Open?"}]}),
        response_data=json.dumps({"message": {"role": "assistant", "content": "Until six."}}),
    )
    assert said(call.messages) == [("user", "Open?")]
    assert call.answer.content == "Until six."


def test_cached_tokens_are_read_of_langsmith_s_metadata():
    usage = {"input_tokens": 140, "input_token_details": {"cache_read": 64}}
    call = call_of(gen_ai__operation__name="chat", langsmith__metadata__usage_metadata=json.dumps(usage))
    assert call.cached_tokens == 64


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id",
        "traceloop.association.properties.thread_id", "langfuse.session.id", "langsmith.metadata.session_id",
        "ai.telemetry.metadata.sessionId",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["visit-9", '"visit-9"'])
def test_the_attributes_that_name_a_conversation_in_each_dialect_are_read(name, value):
    (report,) = reports(sent("chat", {"gen_ai.operation.name": "chat", name: value}))
    assert report.session == "visit-9"
