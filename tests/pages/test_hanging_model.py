"""A model that does not answer in the middle of a played conversation."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pages_driver import SECONDS, button, joined, opened, press, story

from memory_core import Memory
from memory_core.events import ContextBuilt
from memory_inspector.demo.conversations import MESSAGES
from ui.tab import services

pytestmark = pytest.mark.slow


class Silent(BaseHTTPRequestHandler):
    """Takes a request and does not answer until it may; then it refuses."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.release()
        self.server.go_on.wait(SECONDS)
        self.send_error(503)

    def log_message(self, *said):
        pass


@pytest.fixture
def silent(demo_home, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.asked, server.go_on = threading.Semaphore(0), threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_MODEL", "silent")
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join(SECONDS)


def demo() -> Memory:
    return services.engine().open("demo")


def test_a_model_that_hangs_holds_up_neither_the_playing_nor_the_page_and_the_page_says_what_it_waits_for(silent):
    learned = len(demo().facts.read("Facts", states=None))
    app = press(opened(session="demo"), "To the end")  # ends, though the model was asked and says nothing
    assert silent.asked.acquire(timeout=SECONDS)
    assert not app.exception, app.exception
    assert not silent.go_on.is_set()
    assert demo().session.recording().played == len(MESSAGES)
    assert "End of demo" in joined(app)
    turns = [record.turn for record in demo().events() if isinstance(record.event, ContextBuilt)]
    assert turns == sorted(turns)
    assert turns[-1] == demo().session.status().turns == 18
    waiting = [each for each in demo().session.deliveries(states=("pending",)) if each.block == "Facts"]
    assert waiting
    assert len(demo().facts.read("Facts", states=None)) == learned
    then = opened(session="demo", turn=str(waiting[0].turn))
    assert [line for line in story(then) if "Facts is learning from" in line]
    assert not [line for line in story(then) if "Learned" in line]


def test_pause_is_heard_while_the_model_hangs(silent):
    app = opened(session="demo")
    button(app, "Next message").click().run()
    assert services.engine().job("demo").wait(SECONDS)
    app.run()
    button(app, "Play").click().run()
    job = services.engine().running("demo")
    assert job.id.startswith("play-")
    app.run()
    button(app, "Pause").click().run()
    assert job.wait(SECONDS)
    app.run()
    assert not app.exception, app.exception
    assert job.error is None
    assert not silent.go_on.is_set()
    assert demo().session.recording().played < len(MESSAGES)
    assert not button(app, "Play").disabled
