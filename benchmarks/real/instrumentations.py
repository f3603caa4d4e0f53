"""Run real instrumentations of OpenTelemetry on one visit, and compare what its session shows with what was sent.

    make real [ARGS="--write"]
    .venv/bin/python benchmarks/real/instrumentations.py [--write] [--keep] [--raw FOLDER] [NAME ...]

Each gets an environment of its own with the newest release, or with `--keep` what is installed there. The visit is
three calls of a scripted model: a tool is called, its result is answered, a last answer comes in pieces. The spans are
received as they came, and again each in a request of its own; a cell says so if that shows something else. `--raw`
writes them down as they were read. `--write` puts the table into docs/reference/instrumentations.md.
"""

import argparse
import datetime
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from comparison import rewritten
from run import ROOT, environment, versions
from visit_model import Call, Entry, called, listening, plain, visited

from memory_core import Database, Memory, Services
from memory_core.engine.session import Session
from memory_core.messages import ChatMessage
from memory_core.sessions.overview import list_sessions
from memory_inspector.recorder.content_coding import decompressed
from memory_inspector.recorder.otlp import PROTOBUF, LogRecord, SpanExport, read_export, read_logs
from memory_inspector.recorder.receiving import Receiver

PAGE = ROOT / "docs" / "reference" / "instrumentations.md"
VISIT = Path(__file__).resolve().parent / "instrumented_visits.py"
SECONDS, MOST = 180, 50_000_000
"""Maximum time of a visit, and bytes of a request."""
OI, OT, SDK = (
    "openinference-instrumentation-",
    "opentelemetry-instrumentation-",
    "opentelemetry-exporter-otlp-proto-http",
)
UNNAMED = "the conversation's name"
INSTRUMENTATIONS = {
    "openinference-openai": ("", OI + "openai", "openai", SDK),
    "openinference-anthropic": ("", OI + "anthropic", "anthropic", SDK),
    "openinference-google-genai": ("ids of calls: Gemini has none", OI + "google-genai", "google-genai", SDK),
    "openinference-litellm": ("in a result, the id of its call", OI + "litellm", "litellm", SDK),
    "openinference-langchain": ("", OI + "langchain", "langchain", "langchain-openai", SDK),
    "openinference-llama-index": ("", OI + "llama-index", "llama-index-core", "llama-index-llms-openai-like", SDK),
    "openinference-openai-agents": ("`group_id` of a run", OI + "openai-agents", "openai-agents", SDK),
    "openinference-agno": ("the name on calls; the run around them has it", OI + "agno", "agno", "openai", SDK),
    "openinference-smolagents": (
        "cached tokens; results are sent as said by the user, and written as `tool-response`",
        OI + "smolagents", "smolagents[openai]", SDK,
    ),
    "openllmetry-openai": (UNNAMED, OT + "openai", "openai", "httpx", SDK),
    "openllmetry-anthropic": (
        UNNAMED + "; of a stream it adds the first event's output tokens to the last one's",
        OT + "anthropic", "anthropic", SDK,
    ),
    "openai-v2": (
        UNNAMED + ", cached tokens; cannot be imported beside util-genai 1.2 or newer",
        OT + "openai-v2", "opentelemetry-util-genai==1.1b0", "openai", "httpx", SDK,
    ),
    "langfuse": ("", "langfuse", "openai", SDK),
    "langsmith": ("", "langsmith[otel]", "langchain", "langchain-openai", SDK),
    "logfire-openai": ("`session.id`, which it scrubs; `gen_ai.conversation.id` stays", "logfire", "openai"),
    "logfire-pydantic-ai": ("`session.id`, as above", "logfire", "pydantic-ai-slim[openai]"),
    "pydantic-ai": ("", "pydantic-ai-slim[openai]", "opentelemetry-sdk", SDK),
    "google-adk": ("", "google-adk", SDK),
    "strands": ("", "strands-agents[openai,otel]"),
    "agent-framework": ("the session's id", "agent-framework-core", "agent-framework-openai", SDK),
    "mlflow": (UNNAMED + " on calls, cached tokens", "mlflow-skinny", "numpy", "pandas", "openai", SDK),
}  # fmt: skip
"""Name of a row: what the library leaves out, as its spans show, and what pip installs; the first has the version."""
ENVIRONMENT = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    "AGNO_TELEMETRY": "false",
    "MLFLOW_ENABLE_OTEL_GENAI_SEMCONV": "true",
    "MLFLOW_TRACKING_URI": "file:mlflow",  # the default one needs more packages
}
Request = SpanExport | list[LogRecord]


# -- the visit -------------------------------------------------------------------------------------


class _Collector(BaseHTTPRequestHandler):
    requests: list[Request]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        body = decompressed(body, self.headers.get("content-encoding", ""), MOST)
        if self.path.endswith("traces"):
            self.requests.append(read_export(body, PROTOBUF))
        elif self.path.endswith("logs"):
            self.requests.append(read_logs(body, PROTOBUF))
        self.send_response(200)
        self.send_header("content-type", PROTOBUF)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def visit(name: str, python: Path) -> tuple[list[Call], list[Request]]:
    """Run a visit; the calls that the model answered, and the requests that told of them.

    Raises:
        subprocess.SubprocessError: It failed, or took too long.
    """
    requests: list[Request] = []
    with (
        tempfile.TemporaryDirectory() as home,
        listening(_Collector, requests=requests) as url,
        visited() as (model, calls),
    ):
        env = os.environ | ENVIRONMENT | {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "HOME": home}
        command = [str(python), "-W", "ignore", str(VISIT), name, model, url]
        done = subprocess.run(command, text=True, capture_output=True, timeout=SECONDS, env=env, cwd=home)
    print(done.stderr[-2000:], file=sys.stderr, end="")
    done.check_returncode()
    return calls, requests


# -- what a session shows --------------------------------------------------------------------------


def received(requests: Iterable[Request]) -> tuple[list[Call], bool, list[str]]:
    """Receive these requests into an empty database.

    Returns the calls, whether each result of a tool has its call, and the sessions.
    """
    database, services = Database.open(None), Services()
    receiver = Receiver(lambda: database, lambda id: Session(database, id, services=services))
    for request in requests:
        if isinstance(request, SpanExport):
            (refused,) = receiver.store([request])
        else:
            receiver.logged.add(request)
            refused = receiver.store_late(request)
        for reason in refused.reasons:
            print(f"refused: {reason}", file=sys.stderr)
    calls: dict[int, Call] = {}
    paired = True
    sessions = [status.session_id for status in list_sessions(database)]
    for session in sessions:
        log = Memory.open(session, database, services=services).log
        records: Any = log.history().records
        built = {record.event.span: place for place, record in enumerate(records) if record.kind == "context_built"}
        for place, record in enumerate(records):
            event = record.event
            if record.kind != "model_called" or event.purpose != "reply":
                continue
            messages = log.prompt(records[built[event.span]]).messages if event.span in built else ()
            ids = {call.tool_call_id for message in messages for call in message.tool_calls} - {None}
            paired &= all(message.tool_call_id in ids for message in messages if message.role == "tool")
            # The answer follows its call, or the prompt if that came later.
            following = next(iter(records[max(place, built.get(event.span, 0)) + 1 :]), None)
            answer = None
            if following is not None and following.kind == "message_added" and following.event.role == "assistant":
                text = log.texts([following.event.content])[following.event.content]
                answer = next(iter(entries(ChatMessage.from_json(text))), None)
            prompt = tuple(entry for message in messages for entry in entries(message))
            tokens = (event.input_tokens, event.output_tokens, event.cached_tokens or 0)
            calls[record.position] = Call(prompt, answer, tokens)
    return [calls[position] for position in sorted(calls)], paired, sessions


def entries(message: ChatMessage) -> list[Entry]:
    """Return a message as it is compared."""
    return plain(str(message.role), message.content) + [called(call.tool_kwargs) for call in message.tool_calls]


def one_by_one(requests: Iterable[Request]) -> Iterable[Request]:
    """Yield the same with each span in a request of its own, in the order of their ends."""
    exports = []
    for request in requests:
        if isinstance(request, SpanExport):
            exports.append(request)
        else:
            yield request
    spans = [span for export in exports for span in export.spans]
    yield from (SpanExport((span,)) for span in sorted(spans, key=lambda span: span.ended))


def compared(sent: Sequence[Call], requests: Iterable[Request]) -> list[str]:
    """Return the cells of a row: calls, words, tokens and session."""
    shown, paired, sessions = received(requests)
    words: dict[str, list[str]] = {}
    tokens: dict[str, list[str]] = {}
    for number, (truth, found) in enumerate(zip(sent, shown, strict=False), 1):
        for what in _different(truth, found):
            words.setdefault(what, []).append(str(number))
        for what, true, count in zip(("in", "out", "cached"), truth.tokens, found.tokens, strict=True):
            if true != count:
                tokens.setdefault(what, []).append(f"{count} for {true} in call {number}")
    different = [f"{what} of call {', '.join(numbers)} differs" for what, numbers in words.items()]
    different += [] if paired else ["result without its call"]
    return [
        "yes" if len(shown) == len(sent) == 3 else f"{len(shown)} for {len(sent)}",
        ("; ".join(different) or "right") if shown else "none",
        ("; ".join(f"{what} {', '.join(counts)}" for what, counts in tokens.items()) or "right") if shown else "none",
        "right" if sessions == ["ada"] else ", ".join(sessions) or "none",
    ]


def _different(truth: Call, found: Call) -> Iterable[str]:
    for what, roles in {
        "system": ("system",),
        "result": ("tool",),
        "call": ("call",),
        "prompt": ("user", "assistant"),
    }.items():
        said, shown = ([one for one in call.prompt if one[0] in roles] for call in (truth, found))
        if said != shown:
            yield what
    if truth.answer != found.answer:
        yield "answer"


# -- the table -------------------------------------------------------------------------------------


def row(name: str, python: Path, raw: Path | None) -> list[str]:
    """Run a visit and return its row."""
    leaves_out, package, *_ = INSTRUMENTATIONS[name]
    package = package.partition("[")[0]
    (version,) = versions(python, package)
    sent, requests = visit(name, python)
    if raw is not None:
        raw.mkdir(parents=True, exist_ok=True)
        told = [
            asdict(request) if isinstance(request, SpanExport) else list(map(asdict, request)) for request in requests
        ]
        (raw / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False), encoding="utf-8")
    pairs = zip(compared(sent, requests), compared(sent, one_by_one(requests)), strict=True)
    cells = [one if one == two else f"{one}; one by one: {two}" for one, two in pairs]
    shown = f"{package} {version} ({name})" if package == "logfire" else f"{package} {version}"
    return [shown, *cells, leaves_out or "nothing of this"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(INSTRUMENTATIONS)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--keep", action="store_true", help="install nothing anew")
    parser.add_argument("--raw", type=Path, metavar="FOLDER", help="write the spans into this folder")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv" / "instrumentations", metavar="FOLDER")
    options = parser.parse_args()
    lines = ["instrumentation | calls shown once | words | tokens | session | what the library itself leaves out"]
    lines.append(" | ".join(["---"] * 6))
    failed = False
    for name in options.names or INSTRUMENTATIONS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        place = options.environments.resolve() / name
        try:
            python = place / "bin" / "python"
            python = python if options.keep else environment(place, INSTRUMENTATIONS[name][1:], {})
            lines.append(" | ".join(row(name, python, options.raw)))
        except subprocess.SubprocessError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
    section = "\n".join(
        [f"{datetime.date.today().isoformat()}, each with its newest release:", "", *(f"| {line} |" for line in lines)]
    )
    print(section)
    if options.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    for package in ("memory_core", "memory_inspector"):
        logging.getLogger(package).setLevel(logging.ERROR)
    sys.exit(main())
