"""Requests that would take a server down, at once: its memory, and how long its pages take meanwhile.

    python benchmarks/hostile_requests.py [--requests 32] [--upload-mb 300] [--no-browser]

Sends, mixed: proxied calls with a body of 300 MB, of 300,000 messages and of a million empty streams of gzip, and a few
KB of gzip each that unpack to 31 MB, just below the bound: one long name, millions of empty spans in both forms, JSON
31 million deep, log records. Prints the server's peak of resident memory, and the slowest answer of its health check
and of a page, until some time after the last answer.
"""

import argparse
import gzip
import http.client
import http.server
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JSON = {"content-type": "application/json"}
PIECE = b"x" * (1 << 20)
AFTER_SECONDS = 20
"""Calls are recorded once they are answered: how long the server is watched after the last answer."""


class Upstream(http.server.BaseHTTPRequestHandler):
    """An endpoint that reads what it is sent, and answers."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read the body in pieces, whatever its size."""
        if "content-length" in self.headers:
            self.rfile.read(int(self.headers["content-length"]))
        else:
            while (size := int(self.rfile.readline() or b"0", 16)) > 0:
                self.rfile.read(size + 2)
            self.rfile.readline()
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def varint(number: int) -> bytes:
    """Encode a number of protobuf."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes(encoded) + bytes([number])


def field(number: int, payload: bytes) -> bytes:
    """Encode a field with a length."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def uploaded(megabytes: int) -> Iterator[bytes]:
    """The body of a call of this size, in pieces."""
    yield b'{"model": "m", "messages": [{"role": "user", "content": "'
    for _ in range(megabytes):
        yield PIECE
    yield b'"}]}'


def attacks(megabytes: int) -> list[tuple[str, str, dict[str, str], Callable[[], bytes | Iterator[bytes]]]]:
    """Name, path, headers and body of each kind of request."""
    packed = {**JSON, "content-encoding": "gzip"}
    protobuf = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    spans = b'{"resourceSpans":[{"scopeSpans":[{"spans":['
    long = gzip.compress(spans + b'{"name":"' + b"z" * 31_000_000 + b'"}]}]}]}')
    empty = gzip.compress(field(1, field(2, b"\x12\x00" * (15 << 20))))
    objects = gzip.compress(spans + b"{}," * 10_000_000 + b"{}]}]}]}")
    deep = gzip.compress(b'{"resourceSpans":' + b"[" * 31_000_000)
    calls = "/record/agent/v1/chat/completions"
    messages = b'{"model":"m","messages":[' + b'{"role":"user","content":"a"},' * 300_000 + b"{}]}"
    streams = gzip.compress(b"") * 1_000_000
    return [
        ("a call of many MB", calls, JSON, lambda: uploaded(megabytes)),
        ("a call of many messages", calls, JSON, lambda: iter([messages])),
        ("a call of many streams", calls, packed, lambda: iter([streams])),
        ("one long name", "/v1/traces", packed, lambda: long),
        ("empty spans, protobuf", "/v1/traces", protobuf, lambda: empty),
        ("empty spans, JSON", "/v1/traces", packed, lambda: objects),
        ("deep JSON", "/v1/traces", packed, lambda: deep),
        ("logs", "/v1/logs", packed, lambda: objects),
    ]


def sent(port: int, path: str, headers: dict[str, str], body: bytes | Iterator[bytes]) -> str:
    """Send one request; its status, or what became of the connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request("POST", path, body=body, headers=headers, encode_chunked=not isinstance(body, bytes))
        return str(connection.getresponse().status)
    except OSError as error:
        return type(error).__name__
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident(pid: int, line: str) -> float:
    """Memory of a process in MB: `VmRSS` now, `VmHWM` at most."""
    for each in Path(f"/proc/{pid}/status").read_text().splitlines():
        if each.startswith(line):
            return int(each.split()[1]) / 1024
    return 0.0


def health(port: int) -> float:
    """Seconds until the server says that it is well."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/_stcore/health")
    connection.getresponse().read()
    connection.close()
    return time.perf_counter() - began


def page_seconds(url: str, ready: threading.Event, ended: threading.Event) -> list[float]:
    """Seconds from a click to the page behind it, over and over, once the first stands; empty without a browser."""
    browser_path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser_path is None:
        ready.set()
        return []
    from playwright.sync_api import sync_playwright

    took = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.goto(url)
        quiet = '[data-testid="stApp"][data-test-script-state="notRunning"]'
        tab.wait_for_selector(quiet, timeout=60_000)
        ready.set()
        for name in ["Timeline", "Context"] * 200:
            began = time.perf_counter()
            tab.get_by_role("link", name=name, exact=True).first.click()
            tab.locator("[data-testid=stMain] h1").filter(has_text=name).first.wait_for(timeout=60_000)
            took.append(time.perf_counter() - began)
            if ended.wait(0.5):
                break
        browser.close()
    return took


def measured(requests: int, megabytes: int, *, with_browser: bool) -> dict[str, float]:
    """Start a server, attack it, and measure it meanwhile."""
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    port, home = free_port(), Path(tempfile.mkdtemp())
    address = f"http://127.0.0.1:{upstream.server_port}/v1"
    environment = {**os.environ, "MEMORY_INSPECTOR_HOME": str(home), "MEMORY_INSPECTOR_UPSTREAM": address}
    command = [sys.executable, "-m", "streamlit", "run", "serve.py", "--server.port", str(port)]
    command += ["--server.headless", "true"]
    with open(home / "server.log", "wb") as log:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        while True:
            try:
                health(port)
                break
            except OSError:
                time.sleep(0.1)
        ended, pages, waits = threading.Event(), list[float](), list[float]()
        watching = []
        if with_browser:
            url = f"http://127.0.0.1:{port}"
            ready = threading.Event()
            watching.append(threading.Thread(target=lambda: pages.extend(page_seconds(url, ready, ended))))
            watching[0].start()
            ready.wait(60)
            time.sleep(5)  # the first of each page loads what all later ones use

        def watch() -> None:
            while not ended.wait(0.1):
                waits.append(health(port))

        watching.append(threading.Thread(target=watch))
        watching[-1].start()
        before, kinds = resident(server.pid, "VmRSS"), attacks(megabytes)
        outcomes: Counter[str] = Counter()

        def attack(number: int) -> None:
            name, path, headers, body = kinds[number % len(kinds)]
            outcomes[f"{name}: {sent(port, path, headers, body())}"] += 1

        os.nice(10)  # whoever attacks has a machine of their own, and this one has few cores
        threads = [threading.Thread(target=attack, args=(number,)) for number in range(requests)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
        time.sleep(AFTER_SECONDS)
        ended.set()
        for thread in watching:
            thread.join()
        for outcome, count in sorted(outcomes.items()):
            print(f"{count:4} × {outcome}")
        return {
            "requests, s": took,
            "memory before, MB": before,
            "memory at most, MB": resident(server.pid, "VmHWM"),
            "health check at most, s": max(waits),
            **({"page at most, s": max(pages)} if pages else {}),
            "still running": float(server.poll() is None),
        }
    finally:
        server.terminate()
        server.wait(20)
        upstream.shutdown()
        upstream.server_close()
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--upload-mb", type=int, default=300)
    parser.add_argument("--no-browser", action="store_true")
    given = parser.parse_args()
    for name, value in measured(given.requests, given.upload_mb, with_browser=not given.no_browser).items():
        print(f"{name:26} {value:10,.2f}")


if __name__ == "__main__":
    main()
