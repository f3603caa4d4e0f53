"""Measure one server under load, from agents that stream, exporters of spans and open tabs: what is lost, who waits.

    python benchmarks/load.py [--seconds 600] [--tabs 6] [--against CHECKOUT]

16 agents call a model through the recording proxy, which answers each call with 22 events in a second; 4 exporters send
500 spans a second of 25 conversations; each tab opens another page every 8 seconds. The endpoint, the agents, the
exporters and Chromium share the machine with the server. At the end every call that was answered and every span that
was acknowledged must be stored. `--against` runs the same with the server of another checkout, in turn.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Event, Process, Queue
from pathlib import Path
from typing import Any

import first_page
import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from span_kit import as_protobuf, chat

from memory_core import Database, Memory, Services, list_sessions
from memory_inspector.recorder.otlp import PROTOBUF

AGENTS, EXPORTERS, CONVERSATIONS = 16, 4, 25
SPANS_A_SECOND = 500
EVENTS, ANSWER_SECONDS = 22, 1.0
TAB_SECONDS, PATIENCE_SECONDS = 8.0, 90.0
PAGES = ("", "context", "timeline", "blocks", "facts", "graph", "trace", "retrieval", "sessions")


class Endpoint(BaseHTTPRequestHandler):
    """A model that streams its answer."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(EVENTS):
            time.sleep(ANSWER_SECONDS / EVENTS)
            event = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": f"word{number} "}}]}
            self._send(f"data: {json.dumps(event)}\n\n")
        self._send("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, text: str) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode()))
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def endpoint(ports: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    ports.put(server.server_address[1])
    server.serve_forever()


def in_threads(number: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=[index]) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def agents(url: str, over: Any, notes: Any) -> None:
    """Call the model again and again; note each text that was answered, and when the first byte came."""

    def work(index: int) -> None:
        messages: list[dict[str, str]] = []
        number = 0
        with httpx.Client(timeout=120) as client:
            while not over.is_set():
                number += 1
                asked = f"agent {index} asks question {number}"
                request = {"model": "m", "stream": True, "messages": [*messages, {"role": "user", "content": asked}]}
                began, first = time.monotonic(), 0.0
                try:
                    address = f"{url}/record/agent-{index}/v1/chat/completions"
                    with client.stream("POST", address, json=request) as response:
                        for _ in response.iter_raw():
                            first = first or time.monotonic() - began
                except httpx.HTTPError as error:
                    notes.put(("failed calls", type(error).__name__))
                    continue
                if response.status_code != 200:
                    notes.put(("failed calls", str(response.status_code)))
                    continue
                notes.put(("texts of calls", asked))
                notes.put(("first byte", first))
                answer = {"role": "assistant", "content": "".join(f"word{n} " for n in range(EVENTS))}
                messages = [*messages, {"role": "user", "content": asked}, answer][-8:]

    in_threads(AGENTS, work)


def exporters(url: str, over: Any, notes: Any) -> None:
    """Send the spans of each second in one request of each exporter, and note what was acknowledged."""
    batch = SPANS_A_SECOND // EXPORTERS

    def work(index: int) -> None:
        number, due = 0, time.monotonic()
        with httpx.Client(timeout=120) as client:
            while not over.is_set():
                texts = [f"exporter {index} tells span {number + n}" for n in range(batch)]
                spans = [
                    chat(
                        [("user", text)],
                        "noted",
                        conversation=f"c{(number + n) % CONVERSATIONS}-{index}",
                        trace=index * 10**9 + number + n + 1,
                        id=index * 10**9 + number + n + 1,
                        began=time.time() - 1_700_000_000 + n / 1_000,
                    )
                    for n, text in enumerate(texts)
                ]
                began = time.monotonic()
                try:
                    answer = client.post(
                        f"{url}/v1/traces", content=as_protobuf(*spans), headers={"content-type": PROTOBUF}
                    )
                except httpx.HTTPError as error:
                    notes.put(("failed batches", type(error).__name__))
                    continue
                number += batch
                if answer.status_code != 200:
                    notes.put(("failed batches", str(answer.status_code)))
                    continue
                for text in texts:
                    notes.put(("texts of spans", text))
                notes.put(("batch", time.monotonic() - began))
                due += 1
                time.sleep(max(0.0, due - time.monotonic()))

    in_threads(EXPORTERS, work)


def tabs(url: str, number: int, over: Any, notes: Any) -> None:
    """Open pages of the agents' sessions in some tabs, and note how long each takes until it is still."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        pages = [browser.new_page(viewport={"width": 1280, "height": 800}) for _ in range(number)]
        opened: dict[int, float] = {}
        due = [time.monotonic() + index * TAB_SECONDS / number for index in range(number)]
        step = 0
        while not over.is_set():
            for index, page in enumerate(pages):
                now = time.monotonic()
                with suppress(Error):
                    if index in opened and page.locator(first_page.IDLE).count():
                        notes.put(("page", now - opened.pop(index)))
                    elif index in opened and now - opened[index] > PATIENCE_SECONDS:
                        notes.put(("pages never still", page.url))
                        del opened[index]
                    if index not in opened and now > due[index]:
                        step += 1
                        due[index], opened[index] = now + TAB_SECONDS, now
                        page.goto(
                            f"{url}/{PAGES[step % len(PAGES)]}?session=agent-{step % AGENTS}", wait_until="commit"
                        )
            time.sleep(0.05)


def health(url: str, over: Any, notes: Any) -> None:
    while not over.is_set():
        began = time.monotonic()
        with suppress(OSError), urllib.request.urlopen(f"{url}/_stcore/health", timeout=60):
            notes.put(("health", time.monotonic() - began))
        time.sleep(1)


def size_of(pid: int) -> tuple[float, int]:
    """Memory in MB and open handles of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def stored_texts(home: str) -> set[str]:
    database = Database.open(f"sqlite:///{home}/memory.db")
    memories = (Memory.open(session.session_id, database, services=Services()) for session in list_sessions(database))
    return {message.content or "" for memory in memories for message in memory.get_all()}


@contextmanager
def running(target: Callable[..., None], *arguments: Any) -> Iterator[Process]:
    process = Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.join(60)
        if process.is_alive():
            process.kill()


def measure(checkout: Path, seconds: float, open_tabs: int) -> dict[str, str]:
    """Run the server of a checkout under load; return what is told about it, by title."""
    notes: Any = Queue()
    over, ports = Event(), Queue()  # type: ignore[var-annotated]
    noted: dict[str, list[Any]] = defaultdict(list)

    def gather() -> None:
        with suppress(EOFError):
            while (note := notes.get()) is not None:
                noted[note[0]].append(note[1])

    model = Process(target=endpoint, args=[ports], daemon=True)
    model.start()
    environment = {"MEMORY_INSPECTOR_UPSTREAM": f"http://127.0.0.1:{ports.get()}/v1", "PYTHONPATH": str(checkout)}
    gathering = threading.Thread(target=gather)
    gathering.start()
    sizes: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as home:
        port = first_page.free_port()
        with first_page.server(Path(home), port, checkout, environment) as (url, process, _):
            first_page.answering(url, process)
            with (
                running(agents, url, over, notes),
                running(exporters, url, over, notes),
                running(health, url, over, notes),
                running(tabs, url, open_tabs, over, notes),
            ):
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    sizes.append(size_of(process.pid))
                    time.sleep(min(1.0, seconds))
                over.set()
            time.sleep(5)  # what was answered last is recorded beside the answer
        notes.put(None)
        gathering.join()
        stored = stored_texts(home)
    model.kill()
    lost = [text for kind in ("calls", "spans") for text in noted[f"texts of {kind}"] if text not in stored]
    spans = len(noted["texts of spans"])
    failures = Counter(noted["failed calls"]) + Counter(noted["failed batches"])
    return {
        "streamed calls answered": f"{len(noted['texts of calls']):,}",
        "spans acknowledged": f"{spans:,} ({spans / seconds:.0f} a second)",
        "lost of both": f"{len(lost):,}",
        "failures": ", ".join(f"{number} x {what}" for what, number in failures.items()) or "none",
        "first byte p50, p95, most": spread(noted["first byte"]),
        "answer to a batch p50, p95, most": spread(noted["batch"]),
        "page until it is still p50, p95, most": spread(noted["page"]),
        f"pages not still within {PATIENCE_SECONDS:.0f} s": f"{len(noted['pages never still']):,}",
        "health check p50, p95, most": spread(noted["health"]),
        "memory first, most, last": f"{sizes[0][0]:.0f}, {max(size for size, _ in sizes):.0f}, {sizes[-1][0]:.0f} MB",
        "handles first, most, last": f"{sizes[0][1]}, {max(handles for _, handles in sizes)}, {sizes[-1][1]}",
    }


def spread(seconds: list[float]) -> str:
    if len(seconds) < 2:
        return "-"
    cuts = statistics.quantiles(seconds, n=20)
    return f"{statistics.median(seconds):.2f}, {cuts[-1]:.2f}, {max(seconds):.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--tabs", type=int, default=6)
    parser.add_argument("--against", type=Path, help="folder of another checkout")
    options = parser.parse_args()
    checkouts = [options.against.resolve(), first_page.ROOT] if options.against else [first_page.ROOT]
    columns = [measure(checkout, options.seconds, options.tabs) for checkout in checkouts]
    print(f"{options.seconds:.0f} s, {options.tabs} tabs" + (", the former build first" if options.against else ""))
    for title in columns[0]:
        print(f"| {title} | " + " | ".join(column[title] for column in columns) + " |")


if __name__ == "__main__":
    main()
