"""Parse OpenTelemetry export requests (OTLP/HTTP) from bytes to spans.

Pure. Only the fields that `dialects` reads are kept; links, flags and scopes are dropped.
"""

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from memory_core.errors import LimitError, MessageError
from memory_core.limits import Budget

PROTOBUF, JSON = "application/x-protobuf", "application/json"
"""Content types of the two encodings."""

MAX_SPAN_BYTES = 4_000_000
"""Maximum span size in bytes; about one million tokens of prompt."""

MAX_ITEMS = 250_000
"""Maximum items per request: protobuf messages, or JSON objects and lists, attributes and their values included.
500 spans with 128 attributes each, OpenTelemetry's limit, need about half. A limit on bytes alone would not bound
memory, as empty items need some too."""

_UNREADABLE = (ValueError, TypeError, AttributeError, RecursionError, SystemError)
"""Exceptions that protobuf raises on malformed requests besides its own; `SystemError` on a lone surrogate in a key."""

NO_TRACE, NO_SPAN = bytes(16), bytes(8)


@dataclass(frozen=True)
class Span:
    trace: str
    """Trace id, 32 hex digits."""
    id: str
    """Span id, 16 hex digits."""
    name: str = ""
    began: int = 0
    """Start of the span; like `ended`, in nanoseconds since the epoch."""
    ended: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the emitting program."""
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Name and attributes of each event."""
    failed: bool = False
    parent: str = ""
    """Id of the span around it; empty for the outermost of its trace."""

    @property
    def key(self) -> str:
        """Deduplication key."""
        return f"{self.trace}:{self.id}"

    @property
    def around(self) -> str:
        """Key of the span around it; empty for the outermost of its trace."""
        return f"{self.trace}:{self.parent}" if self.parent else ""

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Attributes of the span, and of its events named `event:attribute`; only `gen_ai.*` have no prefix."""
        merged: dict[str, Any] = {}
        for event, attributes in self.events:
            merged |= {name if name.startswith("gen_ai.") else f"{event}:{name}": v for name, v in attributes.items()}
        return {**merged, **self.attributes}


@dataclass(frozen=True, slots=True)
class SpanExport:
    """Contents of a request."""

    spans: tuple[Span, ...]
    refused: tuple[str, ...] = ()
    """Reason for each refused span."""


def read_export(body: bytes, content_type: str) -> SpanExport:
    """Parse the spans of a request; malformed spans are refused individually.

    Raises:
        MessageError: The body is not an OTLP request, or holds more than `MAX_ITEMS`.
        ImportError: The package `opentelemetry-proto` is missing.
    """
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    refused: list[str] = []
    try:
        if content_type == JSON:
            Budget("request", items=MAX_ITEMS).take(items=body.count(b"{") + body.count(b"["))
            Budget("request").take_json(body)
            # Bytes that are not UTF-8 become surrogates, which fail only in their own span.
            written = _with_bytes(json.loads(body.decode("utf-8", "surrogateescape")))
            refused += _take_out_large(written)
            try:
                json_format.ParseDict(written, request, ignore_unknown_fields=True)
            except (json_format.ParseError, ValueError, SystemError):  # perhaps caused by a single span
                request.Clear()
                for one in _one_by_one(written):
                    try:
                        alone = json_format.ParseDict(one, ExportTraceServiceRequest(), ignore_unknown_fields=True)
                        request.MergeFrom(alone)
                    except (json_format.ParseError, ValueError, SystemError) as error:
                        refused.append(f"a span cannot be read ({type(error).__name__})")
                if not request.resource_spans:
                    raise
        else:
            check_items(body, MAX_ITEMS)
            try:
                request.ParseFromString(body)
            except DecodeError:  # perhaps caused by a single span: text that is not UTF-8, or a value nested too deep
                request.Clear()
                for alone_bytes in one_by_one(body):
                    try:
                        request.MergeFrom(ExportTraceServiceRequest.FromString(alone_bytes))
                    except DecodeError as error:
                        refused.append(f"a span cannot be read ({type(error).__name__})")
                # Each span alone is valid, so the damage lies between them.
                if not refused:
                    raise
        if not request.resource_spans and request.ByteSize():  # it holds only fields that OTLP does not define
            raise ValueError
    except LimitError:
        raise MessageError(f"it holds more than {MAX_ITEMS:,} items: send fewer spans at once") from None
    except (DecodeError, json_format.ParseError, *_UNREADABLE) as error:
        form = "JSON" if content_type == JSON else "protobuf"
        raise MessageError(f"this is no OTLP request for traces in {form} ({type(error).__name__})") from None
    spans = []
    for of_resource in request.resource_spans:
        resource = _values(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for raw in of_scope.spans:
                if (problem := _problem(raw)) is None:
                    spans.append(_span(raw, resource))
                else:
                    refused.append(problem)
    return SpanExport(tuple(spans), tuple(refused))


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record of a span; some emitters log the conventions' events, which carry messages."""

    span: str
    """Deduplication key of the span, see `Span.key`."""
    event: str
    attributes: Mapping[str, Any]
    """Attributes of the record, and the fields of its body if the body is an object."""
    time: int = 0
    """Nanoseconds since the epoch."""


def read_logs(body: bytes, content_type: str) -> list[LogRecord]:
    """Parse log records that belong to a span and name an event.

    Raises:
        MessageError: The body is not an OTLP log request, or holds more than `MAX_ITEMS`.
        ImportError: The package `opentelemetry-proto` is missing.
    """
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    request = ExportLogsServiceRequest()
    try:
        if content_type == JSON:
            Budget("request", items=MAX_ITEMS).take(items=body.count(b"{") + body.count(b"["))
            Budget("request").take_json(body)
            written = _with_bytes(json.loads(body), "resourceLogs", "scopeLogs", "logRecords")
            json_format.ParseDict(written, request, ignore_unknown_fields=True)
        else:
            check_items(body, MAX_ITEMS, LOGS)
            request.ParseFromString(body)
    except LimitError:
        raise MessageError(f"it holds more than {MAX_ITEMS:,} items: send fewer log records at once") from None
    except (DecodeError, json_format.ParseError, *_UNREADABLE) as error:
        raise MessageError(f"this is no OTLP request for logs ({type(error).__name__})") from None
    records = []
    for of_resource in request.resource_logs:
        for of_scope in of_resource.scope_logs:
            for raw in of_scope.log_records:
                attributes = _values(raw.attributes)
                logged = _value(raw.body)
                event = raw.event_name or str(attributes.get("event.name") or "")
                if event and len(raw.span_id) == len(NO_SPAN) and raw.ByteSize() <= MAX_SPAN_BYTES:
                    inside = logged if isinstance(logged, dict) else {} if logged is None else {"content": logged}
                    key = f"{raw.trace_id.hex()}:{raw.span_id.hex()}"
                    time = raw.time_unix_nano or raw.observed_time_unix_nano
                    records.append(LogRecord(key, event, {**inside, **attributes}, time))
    return records


def _take_out_large(request: Any) -> list[str]:
    """Remove oversized spans from a JSON request before conversion; return the reason for each."""
    problems = []
    for of_resource in request.get("resourceSpans", ()):
        for of_scope in of_resource.get("scopeSpans", ()):
            sizes = [(span, _characters(span)) for span in of_scope.get("spans", ())]
            of_scope["spans"] = [span for span, size in sizes if size <= MAX_SPAN_BYTES]
            problems += [_too_large(size) for _, size in sizes if size > MAX_SPAN_BYTES]
    return problems


def _characters(value: Any) -> int:
    """Count the characters of all texts in a JSON value. Not recursive."""
    count, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            count += len(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return count


def _too_large(size: int) -> str:
    return f"a span has {size / 1e6:.1f} MB, and at most {MAX_SPAN_BYTES / 1e6:.0f} MB are kept"


def _problem(span: Any) -> str | None:
    if len(span.trace_id) != len(NO_TRACE) or len(span.span_id) != len(NO_SPAN):
        return "a span has no trace id of 16 bytes and span id of 8"
    if span.trace_id == NO_TRACE or not _is_span_id(span.span_id):
        return "the ids of a span are zero"
    if (size := span.ByteSize()) > MAX_SPAN_BYTES:
        return _too_large(size)
    return None


def _is_span_id(id: bytes) -> bool:
    return len(id) == len(NO_SPAN) and id != NO_SPAN


def _span(span: Any, resource: Mapping[str, Any]) -> Span:
    return Span(
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        # A parent that is no id is none: it must not cost the span.
        parent=span.parent_span_id.hex() if _is_span_id(span.parent_span_id) else "",
        name=span.name,
        began=span.start_time_unix_nano,
        ended=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        resource=resource,
        events=tuple((event.name, _values(event.attributes)) for event in span.events),
        failed=span.status.code == span.status.STATUS_CODE_ERROR,
    )


def _values(attributes: Iterable[Any]) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: Any) -> Any:
    """Convert a value to JSON; bytes, which no convention uses, to None."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return _values(value.kvlist_value.values)
    return None if kind in (None, "bytes_value") else getattr(value, kind)


def _with_bytes(request: Any, resources: str = "resourceSpans", scopes: str = "scopeSpans", item: str = "spans") -> Any:
    """Return a JSON request with ids as protobuf's JSON encodes bytes; OTLP encodes them as hex."""
    ids = ("traceId", "spanId", "parentSpanId") if item == "spans" else ("traceId", "spanId")
    for of_resource in request.get(resources, ()):
        for of_scope in of_resource.get(scopes, ()):
            for span in of_scope.get(item, ()):
                # Ids there are hex too, which the conversion would take for base64; links are not read.
                span.pop("links", None)
                for name in ids:
                    span[name] = base64.b64encode(_decode_hex(span.get(name))).decode()
    return request


def _one_by_one(request: Any) -> Iterator[Any]:
    """Split a JSON request into requests of one span each."""
    for of_resource in request.get("resourceSpans", ()):
        for of_scope in of_resource.get("scopeSpans", ()):
            for span in of_scope.get("spans", ()):
                yield {"resourceSpans": [{**of_resource, "scopeSpans": [{**of_scope, "spans": [span]}]}]}


def _decode_hex(id: Any) -> bytes:
    """Decode a hex id; invalid ones become empty, and their span is refused."""
    try:
        return bytes.fromhex(id)
    except (ValueError, TypeError):
        return b""


# -- protobuf wire format, as needed before parsing an export request -----------------------------


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
    for name, whole, payload in _fields(message):
        if name == number and payload is not None:
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
