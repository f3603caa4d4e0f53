"""Spans of attached agents, 1,000 a second, into the real server: is one lost or doubled, and how far is a page behind?

    python benchmarks/attach.py [--rate 1000] [--seconds 60] [--conversations 20]

Starts `streamlit run serve.py` on an empty folder and sends it requests of 100 spans in protobuf, one in 20 of them
twice, as exporters do that had no answer in time. Of ten spans two are calls of a model whose prompts grow, two are
searches and two writes of memory, one is an embedding, and three report nothing (the agent, HTTP). Told are the
seconds until a request is answered, which is when its spans are stored; how old the newest event of a conversation is
when another process, as a page does, has read and folded its log; and every span that is missing or there twice.
"""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PER_REQUEST = 100
SENDERS = 32
TWICE = 20
"""One request in so many is sent twice."""
TURN = ("invoke_agent", "http", "search_memory", "search_memory", "chat", "http", "embeddings", "chat")
TURN += ("upsert_memory", "upsert_memory")
PROMPT = 12
"""Messages after which a conversation is compacted to its newest two."""
LOOK_SECONDS = 0.25

WORDS = ("the", "user", "lives", "in", "Porto", "likes", "tea", "and", "window", "seats", "with", "a", "cat", "called")


class Agent:
    """One conversation that goes on."""

    def __init__(self, number: int) -> None:
        self.name, self.random = f"conversation-{number}", random.Random(number)
        self.messages: list[tuple[str, str]] = []
        self.step = self.turn = 0

    def words(self, size: int) -> str:
        return " ".join(self.random.choices(WORDS, k=size))

    def span(self, kind: str) -> dict[str, Any]:
        """Attributes of its next span."""
        own: dict[str, Any] = {"gen_ai.conversation.id": self.name, "gen_ai.operation.name": kind}
        if kind == "http":
            return {"http.request.method": "POST", "url.full": "https://models.example/v1"}
        if kind == "embeddings":
            return own | {"gen_ai.request.model": "embedder", "gen_ai.usage.input_tokens": 12}
        if kind == "chat":
            if len(self.messages) > PROMPT:
                del self.messages[:-2]
            self.messages.append(("user", self.words(12)))
            prompt = [_message("system", "Be brief."), *(_message(*each) for each in self.messages)]
            self.messages.append(("assistant", self.words(16)))
            return own | {
                "gen_ai.request.model": "model",
                "gen_ai.input.messages": json.dumps(prompt),
                "gen_ai.output.messages": json.dumps([_message(*self.messages[-1])]),
                "gen_ai.usage.input_tokens": 200,
            }
        own["gen_ai.memory.store.id"] = "notes"
        records = [
            {"id": f"r{self.random.randrange(200)}", "content": self.words(14), "score": self.random.random()}
            for _ in range(3 if kind == "search_memory" else 1)
        ]
        query = {"gen_ai.memory.query.text": self.words(6)} if kind == "search_memory" else {}
        return own | query | {"gen_ai.memory.records": json.dumps(records)}


def _message(role: str, words: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": words}]}


def request(agents: list[Agent], number: int, expected: dict[str, set[str]]) -> bytes:
    """The next request, whose spans end now; what it should leave in each conversation is added."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    made = ExportTraceServiceRequest()
    of_resource = made.resource_spans.add()
    of_resource.resource.attributes.add(key="service.name").value.string_value = "benchmark"
    scope = of_resource.scope_spans.add()
    now = time.time_ns()
    for place in range(PER_REQUEST):
        agent = agents[(number * PER_REQUEST + place) // len(TURN) % len(agents)]
        kind = TURN[place % len(TURN)]
        if place % len(TURN) == 0:
            agent.turn += 1
        trace = agent.turn.to_bytes(8, "big") + agent.name.encode()[-8:].rjust(8, b"-")
        agent.step += 1
        span = scope.spans.add(trace_id=trace, span_id=agent.step.to_bytes(8, "big"), name=kind)
        span.start_time_unix_nano, span.end_time_unix_nano = now + place * 1_000, now + place * 1_000 + 500
        for key, value in agent.span(kind).items():
            kept = span.attributes.add(key=key).value
            if isinstance(value, int):
                kept.int_value = value
            else:
                kept.string_value = value
        if kind not in ("http", "invoke_agent"):
            expected.setdefault(agent.name, set()).add(f"{trace.hex()}:{span.span_id.hex()}")
    return made.SerializeToString()


def send(url: str, body: bytes) -> tuple[float, int]:
    """Seconds until the request was taken, and how often it had to come again."""
    begun, again = time.monotonic(), 0
    while True:
        asked = urllib.request.Request(url, data=body, headers={"content-type": "application/x-protobuf"})
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                if answer.read():
                    raise SystemExit("spans were refused")
                return time.monotonic() - begun, again
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            again += 1
            time.sleep(float(error.headers["retry-after"]))


def watch(memory: Any, stop: threading.Event, lags: list[float], reads: list[float]) -> None:
    """Read one conversation on as a page does, and note how old what is new is once it is read."""
    seen = memory.log.history().position
    while not stop.wait(LOOK_SECONDS):
        begun = time.monotonic()
        history = memory.log.history()
        reads.append(time.monotonic() - begun)
        now = time.time()
        finished = [getattr(record.event, "finished", 0) / 1e6 for record in history.after(seen)]
        lags += [now - each for each in finished if each]
        seen = history.position


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--conversations", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(port)]
        command += ["--server.headless", "true", "--server.fileWatcherType", "none"]
        environment = {**os.environ, "MEMORY_INSPECTOR_HOME": home}
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        try:
            _measure(given, f"http://127.0.0.1:{port}", f"sqlite:///{home}/memory.db", server.pid)
        finally:
            server.terminate()
            server.wait(30)


def _measure(given: argparse.Namespace, base: str, database: str, pid: int) -> None:
    from memory_core import Database, Memory, Services

    url = f"{base}/v1/traces"
    _until_healthy(f"{base}/_stcore/health")
    agents = [Agent(number) for number in range(given.conversations)]
    expected: dict[str, set[str]] = {}
    send(url, request(agents, 0, expected))  # the engine is loaded
    stop, lags, reads, late = threading.Event(), [], [], []
    memory = Memory.open(agents[0].name, Database.open(database), services=Services())
    watching = threading.Thread(target=watch, args=(memory, stop, lags, reads))
    watching.start()
    requests, spans = given.rate * given.seconds // PER_REQUEST, 0
    begun, worked = time.monotonic(), _cpu_seconds(pid)
    with ThreadPoolExecutor(SENDERS) as senders:
        asked = []
        for number in range(1, requests + 1):
            due = begun + number * PER_REQUEST / given.rate
            time.sleep(max(0.0, due - time.monotonic()))
            late.append(max(0.0, time.monotonic() - due))
            body = request(agents, number, expected)
            asked += [senders.submit(send, url, body) for _ in range(1 + (number % TWICE == 0))]
            spans += PER_REQUEST
        sent = time.monotonic() - begun
        answers = [each.result() for each in asked]
    took, worked = time.monotonic() - begun, _cpu_seconds(pid) - worked
    time.sleep(1)
    stop.set()
    watching.join()
    taken = sorted(seconds for seconds, _ in answers)
    print(f"{spans:,} spans in {sent:.1f} s, all answered after {took:.1f} s; the sender was late by {max(late):.2f} s")
    print(f"answered in {_parts(taken)} s; {sum(again for _, again in answers)} times told to come again")
    print(f"the server worked {worked:.1f} s of a processor, {worked / took:.0%}")
    print(f"a page's reading is behind by {_parts(sorted(lags))} s; reading on takes {_parts(sorted(reads))} s")
    lost, doubled, stored = _compare(database, expected)
    print(f"{stored:,} spans recorded, {lost:,} lost, {doubled:,} doubled")


def _compare(database: str, expected: dict[str, set[str]]) -> tuple[int, int, int]:
    """Spans lost, doubled and recorded."""
    from memory_core import Database, Memory, Services

    lost = doubled = stored = 0
    for session_id, spans in expected.items():
        records = Memory.open(session_id, Database.open(database), services=Services()).log.history().records
        found = [r.event.span for r in records if r.event.family in ("stores", "calls")]  # type: ignore[attr-defined]
        lost += len(spans - set(found))
        doubled += len(found) - len(set(found))
        stored += len(found)
    return lost, doubled, stored


def _parts(seconds: list[float]) -> str:
    """Median, 95 of 100, and the most."""
    if not seconds:
        return "nothing"
    return f"{statistics.median(seconds):.2f}, {seconds[int(len(seconds) * 0.95)]:.2f}, at most {seconds[-1]:.2f}"


def _cpu_seconds(pid: int) -> float:
    """Processor seconds of a process, on Linux; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _until_healthy(url: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                if answer.read() == b"ok":
                    return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main()
