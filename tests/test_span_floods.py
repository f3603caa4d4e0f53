"""Requests of spans that are small on the wire and large in memory, and single spans that cannot be read."""

import asyncio
import gzip
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette

from memory_core import MessageError
from memory_core.errors import LimitError
from memory_core.limits import MAX_VALUES
from memory_inspector.recorder import otlp
from memory_inspector.recorder.attaching import Room
from memory_inspector.recorder.otlp import FIELDS_PER_ITEM, JSON, PROTOBUF, check_items, one_by_one, read_export
from memory_inspector.recorder.receiving import Refusals
from memory_inspector.recorder.span_receiver import MAX_WAITING_BYTES, SpanReceiver

NAMES = st.text(max_size=8)


@st.composite
def requests(draw):
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 3))):
        of_resource = request.resource_spans.add()
        of_resource.resource.attributes.add(key="service.name").value.string_value = draw(NAMES)
        for _ in range(draw(st.integers(0, 3))):
            of_scope = of_resource.scope_spans.add()
            of_scope.scope.name = draw(NAMES)
            for _ in range(draw(st.integers(0, 4))):
                span = of_scope.spans.add(trace_id=b"t" * 16, span_id=draw(st.binary(min_size=8, max_size=8)))
                span.name = draw(NAMES)
                for _ in range(draw(st.integers(0, 3))):
                    span.attributes.add(key=draw(NAMES)).value.array_value.values.add(int_value=3)
    return request


def spans(request):
    return [
        (each.resource.SerializeToString(), scope.scope.SerializeToString(), span.SerializeToString())
        for each in request.resource_spans
        for scope in each.scope_spans
        for span in scope.spans
    ]


@settings(deadline=None)
@given(requests())
def test_the_spans_of_a_request_one_by_one_are_the_spans_of_the_request(request):
    alone = [ExportTraceServiceRequest.FromString(each) for each in one_by_one(request.SerializeToString())]
    assert [found for each in alone for found in spans(each)] == spans(request)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_a_refusal(body):
    for form in (PROTOBUF, JSON):
        with suppress(MessageError):
            read_export(body, form)


def field(number, payload):
    size, head = len(payload), bytes([number << 3 | 2])
    while size > 127:
        head, size = head + bytes([size & 127 | 128]), size >> 7
    return head + bytes([size]) + payload


FLOODS = {
    "resources": [1],
    "entities": [3, 1, 1],
    "scopes": [2, 1],
    "spans": [2, 2, 1],
    "attributes": [9, 2, 2, 1],
    "nested values": [1, 5, 2, 9, 2, 2, 1],
}
"""Field numbers of what is repeated and of the messages around it, from the inside out."""


def flood(what, number):
    repeated, *around = FLOODS[what]
    body = bytes([repeated << 3 | 2, 0]) * number
    for outer in around:
        body = field(outer, body)
    return body


@pytest.mark.slow
@pytest.mark.parametrize("what", FLOODS)
def test_more_items_than_a_request_is_read_with_are_refused_before_they_are_parsed(what):
    with pytest.raises(LimitError):
        check_items(flood(what, otlp.MAX_ITEMS + 1), otlp.MAX_ITEMS)
    check_items(flood(what, 60_000), otlp.MAX_ITEMS)
    with pytest.raises(MessageError, match="250,000 items"):
        read_export(flood(what, otlp.MAX_ITEMS + 1), PROTOBUF)


@pytest.mark.slow
def test_fields_that_otlp_does_not_know_are_counted_as_well():
    with pytest.raises(MessageError, match="250,000 items"):
        read_export(b"\xa0\x06\x01" * (FIELDS_PER_ITEM * otlp.MAX_ITEMS + 1), PROTOBUF)


@pytest.mark.slow
def test_keys_in_json_are_counted_as_well():
    with pytest.raises(MessageError, match="250,000 items"):
        read_export(b"{" + b'"a":0,' * (MAX_VALUES + 1) + b'"b":0}', JSON)


@pytest.mark.parametrize("item", ["{},", "[],", '{"a":[]},'])
def test_the_same_holds_for_json(item):
    body = '{"resourceSpans":[{"scopeSpans":[{"spans":[' + item * otlp.MAX_ITEMS + "{}]}]}]}"
    with pytest.raises(MessageError, match="250,000 items"):
        read_export(body.encode(), JSON)


def named(name, number):
    return {"traceId": "1" * 32, "spanId": f"{number:016x}", "name": name}


def nested(depth):
    value = {"stringValue": "deep"}
    for _ in range(depth):
        value = {"arrayValue": {"values": [value]}}
    return value


def protobuf_of(*spans):
    request = ExportTraceServiceRequest()
    for each in spans:
        request.resource_spans.add().scope_spans.add().spans.add(
            trace_id=b"1" * 16, span_id=each["spanId"][:8].encode(), name=each["name"]
        )
    return request.SerializeToString()


def test_a_name_that_is_no_utf_8_costs_its_span():
    body = protobuf_of(named("first", 1), named("XXXX", 2), named("last", 3)).replace(b"XXXX", b"\xff\xfe\xfd\xfc")
    read = read_export(body, PROTOBUF)
    assert ([span.name for span in read.spans], len(read.refused)) == (["first", "last"], 1)
    spans = [named("first", 1), named("XXXX", 2), named("last", 3)]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode().replace(b"XXXX", b"\xff\xfe")
    read = read_export(body, JSON)
    assert ([span.name for span in read.spans], len(read.refused)) == (["first", "last"], 1)


def test_a_value_that_is_nested_too_deep_costs_its_span():
    deep = named("deep", 2) | {"attributes": [{"key": "k", "value": nested(60)}]}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [named("first", 1), deep, named("last", 3)]}]}]})
    read = read_export(body.encode(), JSON)
    assert [span.name for span in read.spans if span.name != "deep"] == ["first", "last"]
    value = b"\x08\x01"
    for _ in range(60):
        value = field(5, field(1, value))
    span = field(1, b"2" * 16) + field(2, b"2" * 8) + field(5, b"deep") + field(9, field(1, b"k") + field(2, value))
    whole = protobuf_of(named("first", 1), named("last", 3)) + field(1, field(2, field(2, span)))
    read = read_export(whole, PROTOBUF)
    assert ([span.name for span in read.spans], len(read.refused)) == (["first", "last"], 1)


class Stored:
    def __init__(self):
        self.exports = 0

    def store(self, exports):
        self.exports += len(exports)
        return [Refusals() for _ in exports]


async def together(app, body, number, **headers):
    """Answers to this many requests at once."""
    scope = {
        "type": "http", "path": "/v1/traces", "method": "POST", "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1"), *((k.replace("_", "-").encode(), v.encode()) for k, v in headers.items())],
    }  # fmt: skip
    statuses = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await asyncio.gather(*(app(scope, receive, send) for _ in range(number)))
    return statuses


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
def test_no_more_is_held_at_once_than_there_is_room_for_and_all_of_it_is_given_back(packed):
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"' + b"z" * 1_000_000 + b'"}]}]}]}'
    app, stored = SpanReceiver(Starlette(), lambda tenant: stored), Stored()
    app._receivers[""], app._room = stored, Room(4_500_000)
    how = {"content_encoding": "gzip"} if packed else {}
    sent = gzip.compress(body) if packed else body
    statuses = asyncio.run(together(app, sent, 16, content_type="application/json", **how))
    assert set(statuses) <= {200, 503}
    assert 1 <= statuses.count(200) == stored.exports
    assert app._room._left == 4_500_000


def test_the_room_of_a_server_is_bounded():
    assert SpanReceiver(Starlette(), Stored)._room._left == MAX_WAITING_BYTES
