"""Run real instrumentations of OpenTelemetry on one visit, and compare what a session shows of it with what was sent.

    make real [ARGS="--write"]
    .venv/bin/python benchmarks/real/instrumentations.py [--write] [--keep] [--raw FOLDER] [--environments FOLDER] [NAME ...]

Each gets an environment of its own with the newest release; `--keep` leaves the one that is there as it is. The visit
is three calls of a scripted model: a call of a tool, the answer to its result, an answer in pieces. What is exported is
received twice, as it came and each span in a request of its own. `--raw` writes the spans down, as text.
`--write` puts the table into docs/reference/instrumentations.md.
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
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from comparison import rewritten
from run import ROOT, environment
from visit_model import Call, Entry, called, listening, plain, visited

from memory_core import Database, Memory, Services
from memory_core.attach.content_coding import decompressed
from memory_core.attach.otlp import PROTOBUF, Export, LogRecord, read_export, read_logs
from memory_core.attach.receiving import Receiver
from memory_core.engine.session import Session
from memory_core.messages import ChatMessage
from memory_core.sessions.overview import list_sessions

PAGE = ROOT / "docs" / "reference" / "instrumentations.md"
VISIT = Path(__file__).resolve().parent / "instrumented_visits.py"
SECONDS, MOST = 180, 50_000_000
"""Maximum time of a visit, and bytes of a request."""
SDK = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
CALL = ("context_built", "model_called")
"""Kinds of the events of a call."""
PREFIX = "openinference-instrumentation-"


@dataclass(frozen=True)
class Instrumentation:
    packages: tuple[str, ...]
    """What pip installs; the first has its version in the table."""
    leaves_out: str = ""
    """What the library itself does not send, as seen in its spans."""


INSTRUMENTATIONS = {
    "openinference-openai": Instrumentation((PREFIX + "openai", "openai", *SDK)),
    "openinference-anthropic": Instrumentation((PREFIX + "anthropic", "anthropic", *SDK)),
    "openinference-google-genai": Instrumentation((PREFIX + "google-genai", "google-genai", *SDK)),
    "openinference-litellm": Instrumentation((PREFIX + "litellm", "litellm", *SDK)),
    "openinference-langchain": Instrumentation((PREFIX + "langchain", "langchain", "langchain-openai", *SDK)),
    "openinference-llama-index": Instrumentation(
        (PREFIX + "llama-index", "llama-index-core", "llama-index-llms-openai-like", *SDK)
    ),
    "openinference-openai-agents": Instrumentation((PREFIX + "openai-agents", "openai-agents", *SDK)),
    "openinference-agno": Instrumentation((PREFIX + "agno", "agno", "openai", *SDK)),
    "openinference-smolagents": Instrumentation((PREFIX + "smolagents", "smolagents[openai]", *SDK)),
    "openllmetry-openai": Instrumentation(("opentelemetry-instrumentation-openai", "openai", "httpx", *SDK)),
    "openllmetry-anthropic": Instrumentation(("opentelemetry-instrumentation-anthropic", "anthropic", *SDK)),
    "openai-v2": Instrumentation(("opentelemetry-instrumentation-openai-v2", "opentelemetry-util-genai==1.1b0", "openai", "httpx", *SDK)),
    "langfuse": Instrumentation(("langfuse", "openai")),
    "langsmith": Instrumentation(("langsmith[otel]", "langchain", "langchain-openai")),
    "logfire-openai": Instrumentation(("logfire", "openai")),
    "logfire-pydantic-ai": Instrumentation(("logfire", "pydantic-ai-slim[openai]")),
    "pydantic-ai": Instrumentation(("pydantic-ai-slim[openai]", *SDK)),
    "google-adk": Instrumentation(("google-adk", SDK[1])),
    "strands": Instrumentation(("strands-agents[openai,otel]",)),
    "agent-framework": Instrumentation(("agent-framework-core", "agent-framework-openai", *SDK)),
    "openlit": Instrumentation(("openlit", "openai")),
    "mlflow": Instrumentation(("mlflow-tracing", "openai", *SDK)),
}
ENVIRONMENT = {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_only",
    "LITELLM_LOCAL_MODEL_COST_MAP": "true",
    "AGNO_TELEMETRY": "false",
    "MLFLOW_ENABLE_OTEL_GENAI_SEMCONV": "true",
    "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",  # the store in a file needs more packages; none is asked
    "MLFLOW_EXPERIMENT_ID": "0",
    "NO_PROXY": "127.0.0.1",
}
"""What the libraries are told; no other library looks at a variable of one."""


# -- the run ---------------------------------------------------------------------------------------


class _Collector(BaseHTTPRequestHandler):
    bodies: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.bodies.append((self.path, decompressed(body, self.headers.get("content-encoding", ""), MOST)))
        self.send_response(200)
        self.send_header("content-type", PROTOBUF)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def visit(name: str, python: Path) -> tuple[list[Call], list[Export | list[LogRecord]]]:
    """Run the visit of a kind; the calls that the model answered, and what came of them, request by request."""
    bodies: list[tuple[str, bytes]] = []
    with tempfile.TemporaryDirectory() as home, listening(_Collector, bodies=bodies) as url, visited() as (model, calls):
        collector = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "HOME": home}
        command = [str(python), "-W", "ignore", str(VISIT), name, model, url]
        done = subprocess.run(
            command, text=True, capture_output=True, timeout=SECONDS, env=os.environ | ENVIRONMENT | collector, cwd=home
        )
    if done.returncode:
        raise ChildProcessError(f"{name} failed:\n{done.stderr[-2000:]}")
    if done.stderr:
        print(done.stderr[-1500:], file=sys.stderr)
    readers = {"traces": read_export, "logs": read_logs}
    kinds = [(path.rsplit("/", 1)[-1], body) for path, body in bodies]
    return calls, [readers[kind](body, PROTOBUF) for kind, body in kinds if kind in readers]


def version_of(package: str, python: Path) -> str:
    asked = f"from importlib.metadata import version; print(version({package.partition('[')[0]!r}))"
    return subprocess.run([python, "-c", asked], check=True, text=True, capture_output=True).stdout.strip()


# -- what a session shows --------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    calls: Sequence[Call]
    unpaired: Sequence[str]
    """Results of tools whose call is not before them in a prompt."""
    sessions: Sequence[str]
    refused: Sequence[str]


def received(requests: Iterable[Export | list[LogRecord]]) -> Shown:
    """Receive these requests into an empty database; what its sessions show."""
    database, services = Database.open(None), Services()
    receiver = Receiver(lambda: database, lambda id: Session(database, id, services=services))
    refused: list[str] = []
    for request in requests:
        if isinstance(request, Export):
            refused += [reason for one in receiver.store([request]) for reason in one.reasons]
        else:
            receiver.logged.add(request)
            refused += receiver.store_late(request).reasons
    calls: list[tuple[int, Call]] = []
    unpaired: list[str] = []
    sessions = [row.session_id for row in list_sessions(database)]
    for session in sessions:
        memory = Memory.open(session, database, services=services)
        records = memory.log.history().records
        # A prompt that came late stands behind its call; the answer follows whichever of the two came last.
        last = {record.event.span: place for place, record in enumerate(records) if record.kind in CALL}
        built = {record.event.span: record for record in records if record.kind == CALL[0]}
        for record in records:
            event = record.event
            if record.kind != CALL[1] or event.purpose != "reply":
                continue
            messages = memory.log.prompt(built[event.span]).messages if event.span in built else ()
            unpaired += _unpaired(messages)
            answer, following = None, records[last[event.span] + 1 :][:1]
            if following and following[0].kind == "message_added" and following[0].event.role == "assistant":
                text = memory.log.texts([following[0].event.content])[following[0].event.content]
                answer = next(iter(entries(ChatMessage.from_json(text))), None)
            prompt = tuple(entry for message in messages for entry in entries(message))
            tokens = (event.input_tokens, event.output_tokens, event.cached_tokens or 0)
            calls.append((record.position, Call(prompt, answer, tokens)))
    return Shown([call for _, call in sorted(calls, key=lambda pair: pair[0])], unpaired, sessions, refused)


def entries(message: ChatMessage) -> list[Entry]:
    """Return a message as it is compared."""
    return plain(str(message.role), message.content) + [called(call.tool_kwargs) for call in message.tool_calls]


def _unpaired(messages: Sequence[ChatMessage]) -> Iterable[str]:
    ids: set[str | None] = set()
    for message in messages:
        ids |= {call.tool_call_id for call in message.tool_calls}
        if message.role == "tool" and (message.tool_call_id is None or message.tool_call_id not in ids):
            yield message.content or ""


# -- the comparison --------------------------------------------------------------------------------


def compared(sent: Sequence[Call], shown: Shown) -> list[str]:
    """Return the cells of a row: calls, words, tokens and session."""
    words: dict[str, list[int]] = {}
    tokens: list[str] = []
    for number, (truth, found) in enumerate(zip(sent, shown.calls, strict=False), 1):
        for what in _different(truth, found):
            words.setdefault(what, []).append(number)
        if truth.tokens[:2] != found.tokens[:2]:
            tokens.append("/".join("–" if count is None else str(count) for count in found.tokens[:2]) + f" of {number}")
        if truth.tokens[2] != found.tokens[2]:
            tokens.append(f"cached of {number} missing")
    different = [f"{what} of {', '.join(map(str, numbers))} differs" for what, numbers in words.items()]
    different += ["result without its call"] if shown.unpaired else []
    count = "yes" if len(shown.calls) == len(sent) == 3 else f"{len(shown.calls)} for {len(sent)}"
    session = ", ".join(f"`{name}`" for name in shown.sessions[:1]) if len(shown.sessions) < 2 else ""
    session = "by name" if session == "`ada`" else f"{len(shown.sessions)} by trace"
    right = "right" if shown.calls else "–"
    return [count, "; ".join(different) or right, "; ".join(tokens) or right, session]


def _different(truth: Call, found: Call) -> Iterable[str]:
    for role, what in (("system", "system"), ("tool", "result"), ("call", "call")):
        if [one for one in truth.prompt if one[0] == role] != [one for one in found.prompt if one[0] == role]:
            yield what
    said = [[one for one in prompt if one[0] in ("user", "assistant")] for prompt in (truth.prompt, found.prompt)]
    if said[0] != said[1]:
        yield "prompt"
    if truth.answer != found.answer:
        yield "answer"


def one_by_one(requests: Iterable[Export | list[LogRecord]]) -> Iterable[Export | list[LogRecord]]:
    """Return the same with each span in a request of its own, in the order of their ends."""
    came = list(requests)
    yield from (request for request in came if not isinstance(request, Export))
    spans = [span for request in came if isinstance(request, Export) for span in request.spans]
    yield from (Export((span,)) for span in sorted(spans, key=lambda span: span.ended))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the result as markdown."""
    header = ["instrumentation", "calls shown once", "words", "tokens", "session", "what the library itself leaves out"]
    lines = [header, ["---"] * len(header), *rows]
    date = datetime.date.today().isoformat()
    return "\n".join([f"{date}, newest releases:", "", *("| " + " | ".join(line) + " |" for line in lines)])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(INSTRUMENTATIONS)}; all by default")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--keep", action="store_true", help="install nothing anew")
    parser.add_argument("--raw", type=Path, metavar="FOLDER", help="write the spans of each into a file here")
    folder = ROOT / ".venv" / "instrumentations"
    parser.add_argument("--environments", type=Path, default=folder, metavar="FOLDER")
    options = parser.parse_args()
    rows, failed = [], False
    for name in options.names or INSTRUMENTATIONS:
        print(f"{name} ...", file=sys.stderr, flush=True)
        one, place = INSTRUMENTATIONS[name], options.environments.resolve() / name
        python = place / "bin" / "python" if options.keep else environment(place, one.packages, {})
        try:
            sent, requests = visit(name, python)
        except (ChildProcessError, subprocess.TimeoutExpired) as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        if options.raw:
            options.raw.mkdir(parents=True, exist_ok=True)
            told = json.dumps([_raw(request) for request in requests], indent=1, ensure_ascii=False)
            (options.raw / f"{name}.json").write_text(told, encoding="utf-8")
        whole, single = received(requests), received(one_by_one(requests))
        cells, other = compared(sent, whole), compared(sent, single)
        for reason in whole.refused:
            print(f"refused: {reason}", file=sys.stderr)
        if cells != other:
            print(f"one span at a time: {other}", file=sys.stderr)
        cells = [one if one == two else f"{one} ({two} if each span comes alone)" for one, two in zip(cells, other, strict=True)]
        rows.append([f"{one.packages[0].partition('[')[0]} {version_of(one.packages[0], python)}", *cells, one.leaves_out])
        print(rows[-1], file=sys.stderr)
        if options.raw:
            print(*(f"  sent  {call}" for call in sent if call not in whole.calls), *(f"  shown {call}" for call in whole.calls if call not in sent), whole.sessions, sep="\n", file=sys.stderr)
    section = table(rows)
    print(section)
    if options.write:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), section), encoding="utf-8")
    return 1 if failed else 0


def _raw(request: Export | list[LogRecord]) -> Any:
    if not isinstance(request, Export):
        return [{"log": record.event, "span": record.span, **record.attributes} for record in request]
    return [
        {"name": span.name, "id": span.id, "parent": span.parent, "trace": span.trace, "took": (span.began, span.ended), "resource": dict(span.resource),
         "attributes": dict(span.attributes), "events": span.events}
        for span in request.spans
    ]  # fmt: skip


if __name__ == "__main__":
    logging.getLogger("memory_core").setLevel(logging.ERROR)
    sys.exit(main())
