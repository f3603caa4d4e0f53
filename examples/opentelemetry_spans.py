"""OpenTelemetry spans of a memory, turn by turn: what a turn made it learn, store and search.

pip install 'memory-inspector[openai,otel]' opentelemetry-sdk opentelemetry-exporter-otlp-proto-http
OPENAI_API_KEY=... python opentelemetry_spans.py    # OPENAI_BASE_URL and OPENAI_MODEL name another endpoint and model
With OTEL_EXPORTER_OTLP_ENDPOINT the spans are sent to a collector, or to the app; without it they are printed.
"""

import os

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from memory_core import FactExtractionMemoryBlock, Memory, VectorMemoryBlock
from memory_inspector.adapters.otel import SpanEmitter

QUESTIONS = (
    "Hello! I am Ana, I live in Faro and I am allergic to nuts.",
    "What could I cook for four people on Friday?",
    "How long does it take if I start at seven?",
    "Can I try the pesto that Rui brings?",
)


def line(span: ReadableSpan) -> str:
    """Return a span as one line: its name, and the block and the record it is about."""
    values = [span.attributes.get(f"gen_ai.memory.{name}.id", "") for name in ("store", "record")]
    return " ".join([span.name, *values]).rstrip() + "\n"


sent = "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ
provider = TracerProvider(resource=Resource.create({"service.name": "dinner"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter() if sent else ConsoleSpanExporter(formatter=line)))
tracer = provider.get_tracer("dinner")

client, model = OpenAI(), os.environ.get("OPENAI_MODEL", "gpt-4o-mini")
memory = Memory.from_defaults(
    session_id="opentelemetry",
    token_limit=120,  # small, so that a short conversation already fills it
    token_flush_size=40,
    database_uri="sqlite:///agent.db",
    memory_blocks=[FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)],
)
emitter = SpanEmitter(memory, provider)
for number, question in enumerate(QUESTIONS, 1):
    with tracer.start_as_current_span(f"turn {number}"):
        memory.put({"role": "user", "content": question})
        messages = memory.build_context().openai()
        memory.put(client.chat.completions.create(model=model, messages=messages))
        emitter.emit()  # below the span of the turn, which ends after them

provider.shutdown()  # sends what is left
print("The allergy:", memory.trace("allergic to nuts").sentence)
memory.close()
print("Open it in the app: memory-inspector --database agent.db")
