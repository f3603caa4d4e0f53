"""The app as people run it, in a process of its own on a free port of 127.0.0.1."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

from engine_fakes import HashEmbedder
from models.scripted_server import Step, chunk
from playwright.sync_api import expect

from memory_core import Database, Memory, Services

ROOT = Path(__file__).resolve().parents[2]
HEALTHY_SECONDS = 60
STOP_SECONDS = 20
PATIENCE = 60_000
"""Milliseconds that a test waits for something to appear; a busy machine needs many of them."""

expect.set_options(timeout=PATIENCE)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class AppServer:
    """`streamlit run entry` on a data folder; it can be killed and started again at the same address."""

    def __init__(self, entry, home, **environment):
        self.entry, self.home = entry, Path(home)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "MEMORY_INSP"))}
        self.environment = {**kept, "MEMORY_INSPECTOR_HOME": str(home), **environment}
        self.process = None

    @property
    def log(self):
        return (self.home / "server.log").read_text(encoding="utf-8")

    @property
    def database_url(self):
        return f"sqlite:///{self.home}/memory.db"

    def start(self):
        """Start it and wait until it answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "streamlit", "run", self.entry, "--server.port", str(self.port)]
        with open(self.home / "server.log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + HEALTHY_SECONDS
        while time.monotonic() < until:
            assert self.process.poll() is None, f"the server ended:\n{self.log}"
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1) as answer:
                    if answer.read() == b"ok":
                        return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"not healthy in {HEALTHY_SECONDS} s:\n{self.log}")

    def kill(self):
        """End it as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def stop(self):
        """Ask it to end, as Ctrl+C does."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(STOP_SECONDS)


def running(server):
    server.start()
    try:
        yield server
    finally:
        server.stop()
    assert "Traceback" not in server.log
    assert "Exception" not in server.log


def behind(server):
    """What the session makers need, from this process: the server's database, as another app opens it."""
    database = Database.open(server.database_url)
    database.for_agents = False
    return SimpleNamespace(database=database, services=Services(embedder=HashEmbedder()))


def opened(server, session_id):
    shared = behind(server)
    return Memory.open(session_id, shared.database, services=shared.services)


def said(server, session_id):
    return [(str(message.role), message.content) for message in opened(server, session_id).get_all()]


def idle(tab):
    """Wait until the page has been drawn to its end."""
    expect(tab.locator('[data-testid="stApp"][data-test-script-state="notRunning"]')).to_be_visible()


def healthy(tab):
    assert tab.locator('[data-testid="stException"]').count() == 0


def chat(server, session_id):
    """The address of the session's chat."""
    return f"{server.url}/chat?session={session_id}"


def slow_reply(*words, pause=0.4):
    """A model's reply that comes word by word, with so many seconds between them."""
    events = [chunk(role="assistant")]
    for word in words:
        events += [chunk(word), pause]
    return Step(stream=[*events, chunk(finish="stop"), "[DONE]"])


def eventually(condition, seconds=60):
    """Wait until something is so that the browser does not tell."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)
