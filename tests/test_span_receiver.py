"""The receiver of spans on a real loopback server, and what an exporter is told."""

import base64
import gzip
import json
import logging
import socket
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import span_kit
import uvicorn
from google.protobuf.json_format import ParseDict
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from span_kit import as_json, as_protobuf, chat, memory, sent
from starlette.applications import Starlette

from memory_core import Database, Memory, Services, StoreError
from memory_core.engine.session import Session
from memory_core.history.contexts import is_context
from memory_core.history.stores import stores_of
from memory_inspector.recorder import span_receiver
from memory_inspector.recorder.attaching import RefusedSpans, Room
from memory_inspector.recorder.otlp import LogRecord
from memory_inspector.recorder.receiving import LoggedEvents, Receiver
from memory_inspector.recorder.span_receiver import JSON, PROTOBUF, SpanReceiver

HELLO = [("user", "I like tea.")]


class Receiving:
    """The receiver on a port of its own, with a database."""

    def __init__(self, database):
        self.database, self.services = database, Services()
        self.receiver = Receiver(lambda: database, lambda id: Session(database, id, services=self.services))
        self.middleware = SpanReceiver(Starlette(), lambda tenant: self.receiver)
        config = uvicorn.Config(self.middleware, interface="asgi3", port=0, log_config=None, loop="asyncio")
        self.server = uvicorn.Server(config)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def post(self, body, form=PROTOBUF, path="/v1/traces", **headers):
        given = {"content-type": form, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return httpx.post(f"{self.endpoint}{path}", content=body, headers=given, timeout=30)

    def history(self, session_id="c1"):
        return Memory.open(session_id, self.database, services=self.services).log.history()

    def recorded(self, session_id="c1"):
        return [r.kind for r in self.history(session_id).records if r.event.family in ("stores", "calls")]

    def stop(self):
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()


@pytest.fixture
def receiving(tmp_path):
    running = Receiving(Database.open(f"sqlite:///{tmp_path}/memory.db"))
    until = time.monotonic() + 10
    while not running.server.started and time.monotonic() < until:
        time.sleep(0.01)
    yield running
    running.stop()


def told(answer):
    """Spans refused and why, of a success."""
    partly = ExportTraceServiceResponse.FromString(answer.content).partial_success
    return answer.status_code, partly.rejected_spans, partly.error_message


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_real_exporter_sends_a_conversation(receiving, monkeypatch, compression):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiving.endpoint)
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(compression=compression)))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}):
        own = {"gen_ai.conversation.id": "c1", "gen_ai.memory.store.id": "notes"}
        records = json.dumps([{"id": "r1", "content": "Likes tea.", "score": 0.8}])
        found = {"gen_ai.memory.query.text": "drinks", "gen_ai.memory.records": records}
        with tracer.start_as_current_span(
            "search_memory", attributes={"gen_ai.operation.name": "search_memory", **own, **found}
        ):
            pass
        said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "What do I drink?"}]}])
        call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages": said}
        with tracer.start_as_current_span("chat m", attributes={**call, "gen_ai.conversation.id": "c1"}):
            pass
    provider.shutdown()
    assert receiving.recorded() == ["memory_searched", "model_called"]
    records = receiving.history().records
    (search,) = stores_of(records)["notes"].searches
    memory = Memory.open("c1", receiving.database, services=receiving.services)
    (unsent,) = memory.trace.omitted_results([search]).values()
    assert (unsent.missing, is_context(unsent.prompt.event)) == ((0,), True)


def test_an_answer_has_the_form_of_the_request_and_names_what_was_refused(receiving):
    good, bad = memory("search_memory", query="tea"), chat(None)
    bad["spanId"] = "0" * 16
    assert told(receiving.post(as_protobuf(good))) == (200, 0, "")
    assert receiving.post(as_json(good), JSON).json() == {}
    status, refused, why = told(receiving.post(as_protobuf(good, bad)))
    assert (status, refused, "zero" in why) == (200, 1, True)
    partly = receiving.post(gzip.compress(as_json(bad, bad)), f"{JSON}; charset=utf-8", content_encoding="gzip").json()
    assert (partly["partialSuccess"]["rejectedSpans"], "zero" in partly["partialSuccess"]["errorMessage"]) == (
        "2",
        True,
    )
    assert receiving.recorded() == ["memory_searched"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "headers"),
    [
        (b"hello, I am no request", 400, {}),
        (as_protobuf(chat(HELLO))[:-9], 400, {}),
        (b"{", 400, {"form": JSON}),
        (b"not gzip", 400, {"content_encoding": "gzip"}),
        (gzip.compress(as_protobuf(chat(HELLO)))[:-30], 400, {"content_encoding": "gzip"}),
        (gzip.compress(as_protobuf(chat(HELLO))) + b"more", 400, {"content_encoding": "gzip"}),
        (
            gzip.compress(as_protobuf(chat(HELLO))) * 2 + gzip.compress(b"x" * 99)[:-9],
            400,
            {"content_encoding": "gzip"},
        ),
        (zlib.compress(as_protobuf(chat(HELLO))) + b"more", 400, {"content_encoding": "deflate"}),
        (b"", 400, {"content_encoding": "deflate"}),
        (as_protobuf(chat(HELLO)), 400, {"content_encoding": "br"}),
        (as_protobuf(chat(HELLO)), 415, {"form": "text/plain"}),
        (as_protobuf(chat(HELLO)), 403, {"origin": "http://evil.test"}),
    ],
)
def test_what_is_no_request_is_refused_and_nothing_is_stored(receiving, body, status, headers):
    answer = receiving.post(body, **headers)
    assert answer.status_code == status
    assert len(answer.content) > 10
    with receiving.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_session").scalar() == 0


def test_a_request_too_large_is_refused_also_where_it_is_packed(receiving, monkeypatch):
    monkeypatch.setattr(span_receiver, "MAX_BODY_BYTES", 10_000)
    assert receiving.post(as_protobuf(chat([("user", "x" * 20_000)]))).status_code == 413
    bomb = gzip.compress(b"\0" * 5_000_000)
    assert len(bomb) < 10_000
    assert receiving.post(bomb, content_encoding="gzip").status_code == 413
    assert httpx.get(f"{receiving.endpoint}/v1/traces", headers={"content-type": JSON}).status_code == 405


def test_every_member_of_a_gzip_body_is_read(receiving):
    first, second = as_protobuf(memory("search_memory", count=0)), as_protobuf(memory("create_memory_store"))
    body = gzip.compress(first) + gzip.compress(b"") + gzip.compress(second)
    assert receiving.post(body, content_encoding="gzip").status_code == 200
    assert receiving.recorded() == ["memory_searched", "memory_store_changed"]


def test_the_bound_holds_for_all_members_together(receiving, monkeypatch):
    monkeypatch.setattr(span_receiver, "MAX_BODY_BYTES", 10_000)
    bombs = gzip.compress(b"\0" * 9_000) * 2
    assert receiving.post(bombs, content_encoding="gzip").status_code == 413
    assert receiving.post(zlib.compress(b"\0" * 5_000_000), content_encoding="deflate").status_code == 413


@pytest.mark.slow
def test_spans_of_ten_megabytes_are_refused_and_the_others_of_their_request_stored(receiving):
    large = [chat([("user", "word " * 2_000_000)]) for _ in range(2)]
    status, refused, why = told(receiving.post(as_protobuf(*large, memory("search_memory", count=0))))
    assert (status, refused) == (200, 2)
    assert "at most 4 MB" in why
    assert receiving.recorded() == ["memory_searched"]


def test_metrics_of_the_same_exporter_are_taken_and_dropped(receiving):
    status, _, why = told(receiving.post(b"anything", path="/v1/metrics"))
    assert status == 200
    assert why


def logged(form, span, *events):
    """A request with log records that belong to a span; `events` as name, attributes and body."""
    ids = {"traceId": span["traceId"], "spanId": span["spanId"]}
    records = [
        {**ids, "eventName": name, "attributes": span_kit._attributes(attributes), "body": span_kit._value(body)}
        for name, attributes, body in events
    ]
    request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    if form == JSON:
        return json.dumps(request).encode()
    for record in records:
        for name, id in ids.items():
            record[name] = base64.b64encode(bytes.fromhex(id)).decode()
    return ParseDict(request, ExportLogsServiceRequest()).SerializeToString()


LOGGED = {
    "events of a message each": [
        ("gen_ai.user.message", {}, {"content": "Open?"}),
        ("gen_ai.choice", {}, {"index": 0, "message": {"role": "assistant", "content": "Until six."}}),
    ],
    "one event with all": [
        (
            "gen_ai.client.inference.operation.details",
            {
                "gen_ai.input.messages": json.dumps([span_kit.message("user", "Open?")]),
                "gen_ai.output.messages": json.dumps([span_kit.message("assistant", "Until six.")]),
            },
            "",
        )
    ],
}


@pytest.mark.parametrize("form", [JSON, PROTOBUF])
@pytest.mark.parametrize("events", LOGGED.values(), ids=LOGGED)
def test_what_was_logged_for_a_span_is_its_content(receiving, form, events):
    span = chat(None)
    assert receiving.post(logged(form, span, *events), form, path="/v1/logs").status_code == 200
    receiving.post(as_protobuf(span))
    [context] = [record for record in receiving.history().records if is_context(record.event)]
    log = Memory.open("c1", receiving.database, services=receiving.services).log
    assert [message.content for message in log.prompt(context).messages] == ["Open?"]
    assert receiving.receiver.logged._events == {}


@pytest.mark.parametrize("events", LOGGED.values(), ids=LOGGED)
def test_what_is_logged_for_a_span_that_came_before_it_is_its_content_too(receiving, events):
    """Exporters of spans and of logs send in no order; a process that ends sends its logs last."""
    span = chat(None)
    receiving.post(as_protobuf(span))
    for _ in range(2):  # an exporter may send again
        assert receiving.post(logged(JSON, span, *events), JSON, path="/v1/logs").status_code == 200
    [context] = [record for record in receiving.history().records if is_context(record.event)]
    assert context.event.span == f"{span['traceId']}:{span['spanId']}"
    receiving.post(as_protobuf(chat([("user", "Open?"), ("assistant", "Until six."), ("user", "And?")], "Yes.")))
    memory = Memory.open("c1", receiving.database, services=receiving.services)
    assert [message.content for message in memory.get_all()] == ["Open?", "Until six.", "And?", "Yes."]
    assert len(memory.events(kinds=["model_called"])) == 2


def test_what_is_logged_for_a_span_with_content_is_not_recorded_again(receiving):
    span = chat([("user", "Open?")], "Until six.")
    receiving.post(as_protobuf(span))
    receiving.post(logged(JSON, span, *LOGGED["one event with all"]), JSON, path="/v1/logs")
    memory = Memory.open("c1", receiving.database, services=receiving.services)
    assert [message.content for message in memory.get_all()] == ["Open?", "Until six."]
    assert receiving.receiver.logged._events == {}


def test_late_log_records_that_cannot_be_read_are_refused_in_a_sentence(receiving):
    span = chat(None)
    receiving.post(as_protobuf(span))
    broken = ("gen_ai.client.inference.operation.details", {"gen_ai.input.messages": '[{"role": "us'}, "")
    status, rejected, why = told(receiving.post(logged(PROTOBUF, span, broken), path="/v1/logs"))
    assert (status, rejected) == (200, 1)
    assert "cut off" in why


@pytest.mark.parametrize("form", [JSON, PROTOBUF])
def test_what_is_no_request_for_logs_is_refused_in_a_sentence(receiving, form):
    assert receiving.post(b"anything", form, path="/v1/logs").status_code == 400


def test_logs_of_spans_that_never_come_are_forgotten(monkeypatch):
    monkeypatch.setattr("memory_inspector.recorder.receiving.MAX_LOGGED", 3)
    monkeypatch.setattr("memory_inspector.recorder.receiving.MAX_LOGGED_CHARACTERS", 200)
    kept = LoggedEvents()
    kept.add(LogRecord(f"t:{number}", "gen_ai.user.message", {"content": "x"}) for number in range(10))
    assert list(kept._events) == ["t:7", "t:8", "t:9"]
    kept.add([LogRecord("t:10", "gen_ai.user.message", {"content": "x" * 190})])
    assert kept._events == {}
    assert kept._characters == 0


@pytest.mark.slow
def test_what_cannot_be_stored_now_comes_again_and_is_stored_once(receiving, caplog):
    class Down:
        """A database that stores and then does not answer, once."""

        def __init__(self, receiver):
            self.receiver, self.asked = receiver, 0

        def store(self, exports):
            self.asked += 1
            found = self.receiver.store(exports)
            if self.asked == 1:
                raise StoreError("it is down")
            return found

    receiving.middleware._receivers[""] = Down(receiving.receiver)
    caplog.set_level(logging.ERROR, logger="opentelemetry")
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiving.endpoint}/v1/traces")))
    with provider.get_tracer("agent").start_as_current_span("search_memory") as span:
        span.set_attribute("gen_ai.operation.name", "search_memory")
        span.set_attribute("gen_ai.conversation.id", "c1")
    provider.shutdown()
    assert receiving.middleware._receivers[""].asked == 2
    assert receiving.recorded() == ["memory_searched"]


def test_where_too_much_waits_the_exporter_is_told_to_come_again(receiving, monkeypatch):
    holding, release = threading.Event(), threading.Event()
    store = receiving.receiver.store

    def slow(exports):
        holding.set()
        assert release.wait(20)
        return store(exports)

    receiving.receiver.store = slow
    body = as_protobuf(memory("search_memory", query="one"))
    monkeypatch.setattr(receiving.middleware, "_room", Room(2 * len(body) + 10))
    with ThreadPoolExecutor(3) as senders:
        first = senders.submit(receiving.post, body)
        assert holding.wait(20)
        second = senders.submit(receiving.post, as_protobuf(memory("search_memory", query="two")))
        until = time.monotonic() + 20
        while not receiving.middleware._waiting and time.monotonic() < until:
            time.sleep(0.005)
        third = receiving.post(as_protobuf(memory("search_memory", query="six")))
        release.set()
        assert [each.result().status_code for each in (first, second)] == [200, 200]
    assert (third.status_code, third.headers["retry-after"]) == (503, "1")
    assert len(receiving.recorded()) == 2


@pytest.mark.slow
def test_thousands_of_spans_from_several_senders_are_stored_once_each(receiving):
    requests = [
        as_protobuf(
            *(
                memory(
                    "upsert_memory", conversation=f"c{n % 3}", records=[(f"r{n}", f"Note {n}.")], began=n, trace=n + 1
                )
                for n in range(first, first + 250)
            )
        )
        for first in range(0, 4_000, 250)
    ]
    with ThreadPoolExecutor(6) as senders:
        answers = list(senders.map(receiving.post, [*requests, *requests[::3]]))
    assert {told(answer) for answer in answers} == {(200, 0, "")}
    held = [record.id for n in range(3) for record in stores_of(receiving.history(f"c{n}").records)["notes"].held]
    assert sorted(held) == sorted(f"r{n}" for n in range(4_000))
    assert sum(len(receiving.recorded(f"c{n}")) for n in range(3)) == 4_000


def test_what_is_refused_is_logged_once_for_each_reason_and_sender(receiving, caplog, monkeypatch):
    refused = RefusedSpans()
    monkeypatch.setattr(span_receiver, "refused_spans", refused)
    broken = sent("chat", {"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role'})
    for service in ("shop", "shop", "bakery"):
        assert receiving.post(as_protobuf(broken, chat(HELLO), service=service)).status_code == 200
    lines = [record.getMessage() for record in caplog.records if "not recorded" in record.getMessage()]
    assert [("shop" in line, "cut off" in line) for line in lines] == [(True, True), (False, True)]
    assert [(each.sender, each.requests) for each in refused.of("")] == [("bakery", 1), ("shop", 2)]
    refused.forget("")
    assert refused.of("") == []
