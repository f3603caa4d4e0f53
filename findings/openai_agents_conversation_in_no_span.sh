#!/usr/bin/env bash
# Expect runs with one group_id to be joined by their spans: RunConfig documents it as the link.
# Get spans without it: the instrumentations of OpenInference (2.6.0) and of OpenLLMetry (0.62.4)
# drop group_id, trace_metadata and the session's id; each run stands alone.
# Hits whoever rebuilds what an agent knew from its spans: turn 2 has no tie to turn 1. With
# OpenInference, using_session around the run brings an id in.
# Seen with openai-agents 0.24.0 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check \
    openai-agents==0.24.0 openinference-instrumentation-openai-agents==2.6.0 \
    opentelemetry-instrumentation-openai-agents==0.62.4 opentelemetry-sdk==1.45.2

cat >"$work/run.py" <<'PY'
import asyncio
import sys
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import version

from agents import Agent, ModelResponse, RunConfig, Runner, SQLiteSession, Usage
from agents.models.interface import Model
from agents.tracing import TracingProcessor, add_trace_processor
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from openinference.instrumentation import using_session
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

maker = sys.argv[1]
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
module = import_module(f"{maker}.instrumentation.openai_agents")
module.OpenAIAgentsInstrumentor().instrument(tracer_provider=provider)


class Offline(Model):
    async def get_response(self, *args, **kwargs):
        text = ResponseOutputText(type="output_text", text="Hello.", annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


class Groups(TracingProcessor):
    """Keeps what the SDK itself hands to a processor of traces."""

    seen = []

    def on_trace_start(self, trace):
        self.seen.append(trace.export()["group_id"])

    def on_trace_end(self, trace): ...
    def on_span_start(self, span): ...
    def on_span_end(self, span): ...
    def shutdown(self): ...
    def force_flush(self): ...


add_trace_processor(Groups())


def holding(words):
    return sum(words in str(dict(span.attributes)) for span in exporter.get_finished_spans())


async def talk(around):
    session = SQLiteSession("session-77")
    config = RunConfig(group_id="thread-42", trace_metadata={"user": "user-9"})
    for text in ("I am Ada.", "Who am I?"):
        with around:
            await Runner.run(Agent("a", model=Offline()), text, session=session, run_config=config)


asyncio.run(talk(nullcontext()))
spans = exporter.get_finished_spans()
traces = {span.context.trace_id for span in spans}
package = f"{maker}-instrumentation-openai-agents"
print(f"  {package} {version(package)}: {len(spans)} spans in {len(traces)} traces")
print(f"    the SDK gave its processors the group ids {Groups.seen}")
assert Groups.seen == ["thread-42", "thread-42"] and len(traces) == 2 and len(spans) >= 4
for words in ("thread-42", "user-9", "session-77"):
    print(f"    spans with {words}: {holding(words)}")
    assert holding(words) == 0
if maker == "openinference":
    exporter.clear()
    asyncio.run(talk(using_session("thread-42")))
    print(f"    spans with thread-42 inside using_session: {holding('thread-42')}")
    assert holding("thread-42") == len(exporter.get_finished_spans()) > 0
PY
"$work/venv/bin/python" - <<'PY'
from importlib.metadata import version

print("openai-agents", version("openai-agents"), "- two runs of one session, with one group_id")
print("documented: the docstrings of RunConfig call group_id the link between traces of the same")
print("            conversation, and trace_metadata a part of the trace")
PY
for maker in openinference opentelemetry; do
    env -u OPENAI_API_KEY "$work/venv/bin/python" -W ignore "$work/run.py" "$maker"
done
echo "seen: the conversation is known to the SDK and to no span"
