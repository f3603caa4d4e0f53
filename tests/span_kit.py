"""Spans as an agent's exporter writes them: requests in protobuf and in JSON, made with the protocol's own package."""

import json
from itertools import count

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memory_core import Database, Memory, Services
from memory_core.engine.session import Session
from memory_core.history.contexts import is_context
from memory_core.history.stores import stores_of
from memory_inspector.recorder.otlp import JSON, PROTOBUF, read_export
from memory_inspector.recorder.receiving import Receiver

_ids = count(1)

MINUTE = 60 * 10**9
START = 1_700_000_000 * 10**9
"""Nanoseconds since the epoch."""


def sent(name, attributes=None, *, trace=1, id=None, parent=0, began=0.0, seconds=0.1, events=(), failed=False):
    """Return a span in the form of a request's JSON; `began` in seconds after `START`, `parent` an id, 0: none."""
    first = START + int(began * 1e9)
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{next(_ids) if id is None else id:016x}",
        "parentSpanId": f"{parent:016x}" if parent else "",
        "name": name,
        "startTimeUnixNano": str(first),
        "endTimeUnixNano": str(first + int(seconds * 1e9)),
        "attributes": _attributes(attributes or {}),
        "events": [{"name": event, "attributes": _attributes(own)} for event, own in events],
        "status": {"code": 2} if failed else {},
    }


def chat(prompt, answer=None, *, conversation="c1", model="gpt-test", tokens=(11, 7), **times):
    """A call of a model; `prompt` and `answer` as (role, words) and words, None: without content."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
    }
    if conversation is not None:
        attributes["gen_ai.conversation.id"] = conversation
    if prompt is not None:
        attributes["gen_ai.input.messages"] = json.dumps([message(*each) for each in prompt])
    if answer is not None:
        attributes["gen_ai.output.messages"] = json.dumps([message("assistant", answer)])
    return sent(f"chat {model}", attributes, **times)


def message(role, words):
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def memory(operation, *, store="notes", conversation="c1", records=None, record=None, query=None, count=None, **times):
    """A memory operation of the conventions; `records` as (id, words) or (id, words, score)."""
    given = {
        "gen_ai.operation.name": operation,
        "gen_ai.memory.store.id": store,
        "gen_ai.conversation.id": conversation,
        "gen_ai.memory.record.id": record,
        "gen_ai.memory.record.count": count,
        "gen_ai.memory.query.text": query,
    }
    if records is not None:
        names = ("id", "content", "score")
        given["gen_ai.memory.records"] = json.dumps([dict(zip(names, each, strict=False)) for each in records])
    return sent(operation, {name: value for name, value in given.items() if value is not None}, **times)


def as_json(*spans, service="shop", resource=None):
    """A request with these spans, as the bytes of its JSON."""
    own = _attributes({"service.name": service, **(resource or {})})
    request = {"resourceSpans": [{"resource": {"attributes": own}, "scopeSpans": [{"spans": list(spans)}]}]}
    return json.dumps(request).encode()


def as_protobuf(*spans, service="shop", resource=None):
    """The same in protobuf."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    _fill(of_resource.resource.attributes, _attributes({"service.name": service, **(resource or {})}))
    scope = of_resource.scope_spans.add()
    for each in spans:
        span = scope.spans.add(
            trace_id=bytes.fromhex(each["traceId"]),
            span_id=bytes.fromhex(each["spanId"]),
            parent_span_id=bytes.fromhex(each["parentSpanId"]),
            name=each["name"],
            start_time_unix_nano=int(each["startTimeUnixNano"]),
            end_time_unix_nano=int(each["endTimeUnixNano"]),
        )
        span.status.code = each["status"].get("code", 0)
        _fill(span.attributes, each["attributes"])
        for event in each["events"]:
            _fill(span.events.add(name=event["name"]).attributes, event["attributes"])
    return request.SerializeToString()


def _attributes(values):
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value):
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def _fill(attributes, values):
    from google.protobuf.json_format import ParseDict

    for each in values:
        ParseDict(each, attributes.add())


class Attached:
    """A database into which spans are received."""

    def __init__(self, database=None):
        self.database = database or Database.open()
        self.services = Services()
        self.receiver = self.restarted()

    def restarted(self):
        """Another process that receives."""
        return Receiver(lambda: self.database, lambda id: Session(self.database, id, services=self.services))

    def take(self, *spans, receiver=None, **resource):
        """Receive these spans as one request; the reasons for what was refused."""
        (refused,) = (receiver or self.receiver).store([read_export(as_protobuf(*spans, **resource), PROTOBUF)])
        return list(refused.reasons)

    def receive(self, *requests):
        """Receive requests in JSON, together; what of each was refused."""
        return self.receiver.store([read_export(request, JSON) for request in requests])

    def memory(self, session_id="c1"):
        return Memory.open(session_id, self.database, services=self.services)

    def log(self, session_id="c1"):
        return self.memory(session_id).log.history()

    def kinds(self, session_id="c1"):
        return [record.kind for record in self.log(session_id).records][3:]

    def prompts(self, session_id="c1"):
        memory = self.memory(session_id)
        records = [record for record in memory.log.history().records if is_context(record.event)]
        return [[(str(m.role), m.content) for m in memory.log.prompt(record).messages] for record in records]

    def stores(self, session_id="c1", upto=None):
        history = self.log(session_id)
        return stores_of(history.records if upto is None else history.upto(upto))

    def words(self, key, session_id="c1"):
        return self.memory(session_id).log.texts([key]).get(key)
