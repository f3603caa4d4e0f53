"""Chromium, and pages that keep everything a user should never see."""

import os
import shutil

import pytest
from app_server import PATIENCE, AppServer, behind, running
from models.scripted_server import ScriptedServer

from memory_core import Memory, Services
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import DEMO_SESSION, ensure_demo

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first of these that is installed: what draws no window takes less of the processor."""
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items):
    """A browser test that fails is tried twice more, which the report counts as reruns.

    Two browsers and two servers share two cores here. A traceback in a server's log fails its module in any case.
    """
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=2))


@pytest.fixture(scope="module")
def chromium():
    """One browser for a module: Playwright keeps an event loop open, which tests of other modules must not meet.

    Without Chromium the tests are skipped, except where CI must not skip them.
    """
    if CHROMIUM is None:
        assert not os.environ.get("CI"), "CI must have Chromium: install it before the tests"
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`streamlit run serve.py` on an empty folder, which is what `make run` starts, with no model."""
    yield from running(AppServer("serve.py", tmp_path_factory.mktemp("served")))


@pytest.fixture(scope="module")
def demo(served):
    """The server's demo at turn 12, in which two facts contradict each other, with the app's own embedding model."""
    shared_with = behind(served)
    ensure_demo(shared_with)
    memory = Memory.open(DEMO_SESSION, shared_with.database, services=Services())
    if memory.session.status().turns < 12:
        play(Job("on"), memory, turns=1, pace=0)
    return memory


@pytest.fixture
def branch(demo):
    """The demo as it stood after turn 12, in a session of the test's own."""
    return demo.branch(12, title="Mine")


@pytest.fixture(scope="module")
def model():
    """An OpenAI-compatible endpoint that says what a test tells it to."""
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="module")
def talking(tmp_path_factory, model):
    """The app with that endpoint as its model."""
    secret = "sk-secret-123"
    server = AppServer("serve.py", tmp_path_factory.mktemp("talking"), OPENAI_BASE_URL=model.url, OPENAI_API_KEY=secret)
    yield from running(server)
    assert secret not in server.log


class Visitor:
    """A browser profile, and what its pages said and asked for."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | options))
        self.context.set_default_timeout(PATIENCE)
        self.faults, self.requests = [], []

    def open(self, address):
        """A new tab at this address."""
        tab = self.context.new_page()
        tab.on("pageerror", lambda error: self.faults.append(f"page error: {error}"))
        tab.on("console", self._heard)
        tab.on("request", lambda request: self.requests.append(request.url))
        tab.goto(address)
        return tab

    def outside(self):
        """Requests that left this machine."""
        return [
            url
            for url in self.requests
            if not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
        ]

    def _heard(self, message):
        if message.type == "error" and "_stcore/" not in message.location.get("url", ""):
            self.faults.append(f"console: {message.text}")


@pytest.fixture
def visitor(chromium):
    """A fresh profile; the test fails at its end if a page complained or left the machine."""
    made = Visitor(chromium)
    yield made
    made.context.close()
    assert made.faults == []
    assert made.outside() == []


@pytest.fixture
def visitor_with(chromium):
    """Makes profiles of other sizes and appearances."""
    made = []

    def make(**options):
        made.append(Visitor(chromium, **options))
        return made[-1]

    yield make
    for each in made:
        each.context.close()
        assert each.faults == []
        assert each.outside() == []
