#!/usr/bin/env bash
# Expect a streamed call's span to have the output tokens that the API reports at its end: the count
# in message_delta is that of the whole answer.
# Get one more: the instrumentation adds the count of message_start, which the other one includes.
# The client's own span of the same call, and the one of a call that is not streamed, are right.
# Hits whoever adds up tokens or cost by spans: every streamed call is a little too dear, and twice
# as dear where a gateway reports its count in both events.
# Seen with opentelemetry-instrumentation-anthropic 0.62.4 and anthropic 2.14.0 on 2026-11-30.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check \
    anthropic==2.14.0 opentelemetry-instrumentation-anthropic==0.62.4 opentelemetry-sdk==1.45.2

"$work/venv/bin/python" -W ignore - <<'PY'
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

START, END = 1, 12


class Model(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "stop_sequence": None}
        text = "It is four degrees and rather windy."
        if not body.get("stream"):
            usage = {"input_tokens": 30, "output_tokens": END}
            content = [{"type": "text", "text": text}]
            return self.answer("application/json", json.dumps(message | {"content": content, "usage": usage, "stop_reason": "end_turn"}))
        begun = message | {"content": [], "stop_reason": None, "usage": {"input_tokens": 30, "output_tokens": START}}
        events = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": END}},
            {"type": "message_stop"},
        ]
        self.answer("text/event-stream", "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events))

    def answer(self, kind, text):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()

import anthropic
from opentelemetry import trace
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
AnthropicInstrumentor().instrument()
client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.server_port}", api_key="x")
asked = {"model": "claude-x", "max_tokens": 99, "messages": [{"role": "user", "content": "Is it cold?"}]}


def counted(streamed):
    spans.clear()
    if streamed:
        for _ in client.messages.create(**asked, stream=True):
            pass
    else:
        client.messages.create(**asked)
    return {
        span.instrumentation_scope.name: span.attributes["gen_ai.usage.output_tokens"]
        for span in spans.get_finished_spans()
        if "gen_ai.usage.output_tokens" in span.attributes
    }


print("opentelemetry-instrumentation-anthropic", version("opentelemetry-instrumentation-anthropic"), "anthropic", version("anthropic"))
whole, streamed = counted(False), counted(True)
print("output tokens by span, not streamed:", whole)
print("output tokens by span, streamed:    ", streamed)
name = "opentelemetry.instrumentation.anthropic"
assert whole[name] == END, whole
assert streamed[name] == START + END, streamed
assert all(count == END for scope, count in streamed.items() if scope != name), streamed
print(f"seen: the API says {END} at the end of the stream, the span {streamed[name]}")
PY
