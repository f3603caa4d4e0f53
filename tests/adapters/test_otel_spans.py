"""The engine's own spans, through the real OpenTelemetry SDK, held to the published convention.

`CONVENTION` is what open-telemetry/semantic-conventions-genai says at 9430220 in docs/gen-ai/gen-ai-spans.md (memory
and inference spans), `valid_records` what its gen-ai-memory-records.json does.
"""

import json
import logging
import time

import pytest
from engine_fakes import Clock, Counter, HashEmbedder, ShakyExtractor, note, on_file, open_memory, user
from fakes import FakeChat
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from memory_core import (
    Database,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    StoreError,
    VectorMemoryBlock,
)
from memory_core.engine.session import Session
from memory_core.history.stores import stores_of
from memory_core.planning import curation
from memory_inspector.adapters.otel import SpanEmitter, emit_spans
from memory_inspector.recorder.otlp import PROTOBUF, read_export
from memory_inspector.recorder.receiving import Receiver

MEMORY = {
    "create_memory_store", "search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory",
    "delete_memory_store",
}  # fmt: skip
CONVENTION = {
    "gen_ai.operation.name": str,
    "gen_ai.provider.name": str,
    "gen_ai.request.model": str,
    "gen_ai.conversation.id": str,
    "gen_ai.usage.input_tokens": int,
    "gen_ai.usage.output_tokens": int,
    "gen_ai.memory.record.id": str,
    "gen_ai.memory.store.id": str,
    "gen_ai.memory.record.count": int,
    "gen_ai.memory.query.text": str,
    "gen_ai.memory.records": str,
    "error.type": str,
}
OPT_IN = {"gen_ai.memory.query.text", "gen_ai.memory.records"}


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def valid_records(text):
    records = json.loads(text)
    for record in records:
        assert "content" in record
        assert isinstance(record["id"], str)
        assert isinstance(record.get("score", 0.0), float)
    return records


def check(span):
    """One span as the convention has it."""
    given = dict(span.attributes)
    for name, value in given.items():
        assert name.startswith("memory_inspector.") or type(value) is CONVENTION[name], name
    operation = given["gen_ai.operation.name"]
    if operation == "chat":
        assert (span.name, span.kind) == (f"chat {given['gen_ai.request.model']}", SpanKind.CLIENT)
        assert given["gen_ai.provider.name"]
    else:
        assert operation in MEMORY
        assert (span.name, span.kind) == (operation, SpanKind.INTERNAL)
        assert given["gen_ai.memory.store.id"]
    assert ("error.type" in given) == (span.status.status_code is StatusCode.ERROR)
    if "gen_ai.memory.records" in given:
        assert len(valid_records(given["gen_ai.memory.records"])) == given["gen_ai.memory.record.count"]


def lived(**given):
    """A session in which all kinds of blocks learn, are edited and searched, and one is removed."""
    memory = open_memory(
        token_limit=60,
        clock=Clock(),
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content="You keep notes.", priority=0),
            FactExtractionMemoryBlock(name="facts", priority=1),
            VectorMemoryBlock(name="turns", priority=2, similarity_top_k=2),
            Counter(name="heard", priority=3),
        ],
        **given,
    )
    for number in range(8):
        memory.put(note(number))
    memory.get("note 1 of the day")
    memory.blocks.edit("core", "You keep many notes.")
    desk = memory.facts.desk("facts")
    first, second, *_ = desk.facts()
    desk.apply(curation.edit(first, "note 0 was torn up"))
    desk.erase([second])
    memory.blocks.remove("heard")
    return memory


def spans_of(exporter):
    spans = exporter.get_finished_spans()
    for span in spans:
        check(span)
    return [dict(span.attributes) for span in spans]


def test_all_that_a_memory_does_is_valid_by_the_convention_and_says_no_word(exporter, provider):
    memory = lived()
    number = emit_spans(memory, provider)
    spans = spans_of(exporter)
    assert len(spans) == number
    assert {span["gen_ai.operation.name"] for span in spans} >= MEMORY - {"upsert_memory"} | {"chat"}
    assert "note" not in json.dumps(spans).replace('"notes"', "")  # the extractor's own name
    assert {span["gen_ai.conversation.id"] for span in spans} == {"s"}


def test_with_words_each_record_says_what_it_holds_and_a_search_its_question(exporter, provider, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    emit_spans(lived(), provider)
    spans = spans_of(exporter)

    def said(operation, store):
        return [
            record["content"]
            for span in spans
            if (span["gen_ai.operation.name"], span.get("gen_ai.memory.store.id")) == (operation, f"session:s/{store}")
            for record in valid_records(span["gen_ai.memory.records"])
        ]

    [search] = [span for span in spans if span["gen_ai.operation.name"] == "search_memory"]
    assert search["gen_ai.memory.query.text"] == "note 1 of the day"
    assert search["gen_ai.memory.record.count"] == 2
    assert set(said("search_memory", "turns")) <= set(said("create_memory", "turns"))
    assert "note 1 of the day is here" in said("create_memory", "turns")
    assert said("create_memory", "facts") == ["note 0 was taken", ""]  # the second is erased
    assert said("update_memory", "core") == ["You keep many notes."]
    assert said("delete_memory", "facts") == [""]


def test_each_event_makes_one_span_in_the_order_of_the_log_however_often_it_is_asked_for(exporter, provider):
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts")], clock=Clock())
    memory.put(note(0))
    emitter = SpanEmitter(memory, provider)
    assert emitter.emit() == 0  # what was before is not its business
    for number in range(1, 7):
        memory.put(note(number))
        emitter.emit()
    emitter.emit()
    positions = [span["memory_inspector.position"] for span in spans_of(exporter)]
    assert positions == sorted(set(positions))
    assert len(positions) > 5
    ends = [span.end_time for span in exporter.get_finished_spans()]
    assert ends == sorted(set(ends))


def test_spans_are_made_under_the_agents_own_span(exporter, provider):
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    emitter = SpanEmitter(memory, provider)
    with provider.get_tracer("agent").start_as_current_span("invoke_agent") as agent:
        for number in range(6):
            memory.put(note(number))
        emitter.emit()
    made = [span for span in exporter.get_finished_spans() if span.name != "invoke_agent"]
    assert {span.parent.span_id for span in made} == {agent.get_span_context().span_id}


def test_a_failed_delivery_is_an_error_and_its_words_are_content(exporter, provider):
    memory = open_memory(
        services=Services(extractor=ShakyExtractor(lambda call: True), embedder=HashEmbedder()),
        memory_blocks=[FactExtractionMemoryBlock(name="facts")],
    )
    for number in range(6):
        memory.put(note(number))
    emit_spans(memory, provider)
    failed = [span for span in exporter.get_finished_spans() if span.name == "upsert_memory"]
    assert failed
    assert {(span.attributes["error.type"], span.status.description) for span in failed} == {("_OTHER", None)}
    spans_of(exporter)


def test_a_users_facts_are_one_store_in_all_sessions(exporter, provider):
    block = FactExtractionMemoryBlock(name="facts", scope="user")
    memory = open_memory(user_id="ada", memory_blocks=[block])
    for number in range(6):
        memory.put(note(number))
    emit_spans(memory, provider)
    created = [span for span in spans_of(exporter) if span["gen_ai.operation.name"] == "create_memory"]
    assert {span["gen_ai.memory.store.id"] for span in created} == {"user:ada/facts"}


def test_an_inference_lasts_as_long_as_its_call_did(exporter, provider):
    chat = FakeChat({"facts": [{"text": "The user sings."}]})
    memory = Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=chat)])
    memory.put(user("I sing."))
    memory.flush(all=True)
    emit_spans(memory, provider)
    [call] = [span for span in exporter.get_finished_spans() if span.name == "chat fake chat"]
    check(call)
    assert (call.attributes["gen_ai.usage.input_tokens"], call.attributes["gen_ai.usage.output_tokens"]) == (10, 2)
    assert call.attributes["memory_inspector.purpose"] == "extract"


def test_beside_the_agent_a_thread_makes_them_and_the_rest_at_the_end(
    exporter, provider, tmp_path, caplog, monkeypatch
):
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    emitter = SpanEmitter(memory, provider, every=0.01)
    events, failed = memory.events, []

    def shaky(*given, **named):
        if not failed:
            failed.append(True)
            raise StoreError("The database is away.")
        return events(*given, **named)

    monkeypatch.setattr(memory, "events", shaky)
    with caplog.at_level(logging.WARNING), emitter:
        for number in range(6):
            memory.put(note(number))
        until = time.monotonic() + 20
        while "are made later" not in caplog.text:  # by the thread: what fails at the end is raised
            assert time.monotonic() < until
            time.sleep(0.01)
    assert "are made later: The database is away." in caplog.text
    assert len(spans_of(exporter)) == emit_spans(memory, None, after=0) - 1  # the block itself was there before


# -- there and back ----------------------------------------------------------------------------------


def test_what_a_memory_emits_the_app_receives_as_its_stores_with_the_same_words(exporter, provider):
    memory = lived()
    SpanEmitter(memory, provider, content=True, after=0).emit()
    request = encode_spans(exporter.get_finished_spans()).SerializeToString()
    database, services = Database.open(), Services()
    receiver = Receiver(lambda: database, lambda id: Session(database, id, services=services))
    (refused,) = receiver.store([read_export(request, PROTOBUF)])
    assert refused.spans == 0
    received = Memory.open("s", database, services=services)
    stores = stores_of(received.log.history().records)

    def held(name):
        records = stores[f"session:s/{name}"].held
        words = received.log.texts([record.words for record in records])
        return {record.id: words[record.words] for record in records}

    facts = memory.facts.desk("facts").facts()
    assert held("facts") == {f"f{fact.id}": fact.text for fact in facts if fact.state == "active"}
    assert held("core") == {"core": "You keep many notes."}
    assert stores["session:s/heard"].deleted is not None
    asked = [record.event.query for record in stores["session:s/turns"].searches]
    assert list(received.log.texts(asked).values()) == ["note 1 of the day"]
    before = len(received.events())
    receiver.store([read_export(request, PROTOBUF)])
    assert len(received.events()) == before
