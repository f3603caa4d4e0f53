"""Protobuf wire format, as needed before parsing an export request: count its items, split its spans.

Field numbers are those of `opentelemetry/proto/collector/trace/v1/trace_service.proto` and what it imports; the wire
format is described at protobuf.dev/programming-guides/encoding.
"""

import time
from collections.abc import Iterator, Mapping

from memory_core.limits import Budget

SHORT_BYTES = 100_000
"""Maximum bytes of a request whose items are not counted: when parsed, it takes a few megabytes at most."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5

# Nested messages of each message, by field number.
_VALUE: dict[int, Mapping[int, object]] = {}
_ATTRIBUTE = {2: _VALUE}
# A value may hold lists of values and of attributes, so the table refers to itself.
_VALUE |= {5: {1: _VALUE}, 6: {1: _ATTRIBUTE}}
_SPAN = {9: _ATTRIBUTE, 11: {3: _ATTRIBUTE}, 13: {4: _ATTRIBUTE}}
_LOG_RECORD = {5: _VALUE, 6: _ATTRIBUTE}
_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS = 1, 2, 2


def _request(record: Mapping[int, object]) -> Mapping[int, object]:
    """Return the field table of an export request whose records have this table; spans and logs are nested alike."""
    return {_RESOURCE_SPANS: {1: {1: _ATTRIBUTE, 3: {}}, _SCOPE_SPANS: {1: {3: _ATTRIBUTE}, _SPANS: record}}}


TRACES, LOGS = _request(_SPAN), _request(_LOG_RECORD)


FIELDS_AT_ONCE, PAUSE_SECONDS = 10_000, 0.01
"""Count this many fields (about 10 ms), then release the interpreter to other threads for this many seconds."""

FIELDS_PER_ITEM = 8
"""Maximum average of fields per message: attributes have two, a request's few spans a dozen."""


def check_items(body: bytes, most: int, request: Mapping[int, object] = TRACES) -> None:
    """Limit the messages in a trace or log request, and the fields visited to count them.

    Raises:
        LimitError: The body has more than `most` items.
        ValueError: The body is not in the wire format.
    """
    if len(body) <= SHORT_BYTES:
        return
    gone_through = 0
    messages, fields = Budget("request", items=most), Budget("request", items=FIELDS_PER_ITEM * most)
    waiting: list[tuple[memoryview, Mapping[int, object]]] = [(memoryview(body), request)]
    while waiting:
        message, inside = waiting.pop()
        for number, _, payload in _fields(message):
            fields.take(items=1)
            gone_through += 1
            if gone_through % FIELDS_AT_ONCE == 0:
                time.sleep(PAUSE_SECONDS)
            within = inside.get(number)
            if payload is not None and isinstance(within, Mapping):
                messages.take(items=1)
                waiting.append((payload, within))


def one_by_one(body: bytes) -> Iterator[bytes]:
    """Yield each span as a request of its own, with its resource and scope.

    Raises:
        ValueError: The body is not in the wire format.
    """
    for of_resource in _split(memoryview(body), _RESOURCE_SPANS)[1]:
        resource, scopes = _split(of_resource, _SCOPE_SPANS)
        for of_scope in scopes:
            scope, spans = _split(of_scope, _SPANS)
            for span in spans:
                within = resource + _encoded(_SCOPE_SPANS, scope + _encoded(_SPANS, bytes(span)))
                yield _encoded(_RESOURCE_SPANS, within)


def _split(message: memoryview, number: int) -> tuple[bytes, list[memoryview]]:
    """Split a message into the part without one field, and the payloads of that field."""
    rest, payloads = [], []
    for field, whole, payload in _fields(message):
        if field == number and payload is not None:
            payloads.append(payload)
        else:
            rest.append(bytes(whole))
    return b"".join(rest), payloads


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview | None]]:
    """Yield number, bytes with the tag, and payload (None unless it has a length) of each field."""
    at, end = 0, len(message)
    while at < end:
        start = at
        tag, at = _varint(message, at)
        kind, payload = tag & 7, None
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _LENGTH:
            size, at = _varint(message, at)
            payload, at = message[at : at + size], at + size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError("not in protobuf's wire format")
        if at > end:
            raise ValueError("cut off")
        yield tag >> 3, message[start:at], payload


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("cut off")
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _encoded(number: int, payload: bytes) -> bytes:
    """Encode a field with a length."""
    size, head = len(payload), bytearray([number << 3 | _LENGTH])
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes(head) + bytes([size]) + payload
