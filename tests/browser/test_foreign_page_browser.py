"""A page of somebody else tries every door of the app in a browser, by every method and under every name."""

import http.server
import json
import threading
import urllib.request

import pytest
from app_server import AppServer, behind, eventually, running
from conftest import CHROMIUM, FLAGS
from span_kit import as_json, chat

from memory_core import list_sessions

pytestmark = pytest.mark.browser

FOREIGN = "evil.example"
"""A name that a browser resolves to this machine, as by DNS rebinding."""

FORGED = {
    "model": "m",
    "messages": [{"role": "user", "content": "forged"}],
    **json.loads(as_json(chat([("user", "forged")], "forged", conversation="forged"))),
}
"""A call and a request of spans in one: each door reads its own part of it."""

PAGE = """<!doctype html><title>foreign</title><body><script>
async function attack(base) {
  const got = [];
  const windows = [];
  const keep = (how, value) => value && got.push(`${how}: ${String(value).slice(0, 80)}`);
  const record = "/record/agent/v1/";
  const doors = [record + "models", record + "chat/completions", "/v1/traces", "/v1/logs", "/v1/metrics"];
  const files = ["/_stcore/upload_file/session/file", "/media/file.html"];
  const paths = [...doors, ...files, "/_stcore/stream"];
  const body = JSON.stringify(SPAN);
  for (const path of paths) {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]) {
      for (const mode of ["cors", "no-cors", "same-origin"]) {
        for (const type of ["application/json", "text/plain"]) {
          try {
            const sent = ["GET", "HEAD"].includes(method) ? undefined : body;
            const answer = await fetch(base + path, {method, mode, body: sent, headers: {"content-type": type}});
            if (answer.status < 400 && answer.type !== "opaque") keep(`${method} ${mode} ${path}`, answer.status);
          } catch {}
        }
      }
    }
    navigator.sendBeacon(base + path, new Blob([body], {type: "text/plain"}));
    const form = Object.assign(document.createElement("form"), {method: "post", action: base + path});
    form.enctype = "text/plain";
    const frame = Object.assign(document.createElement("iframe"), {name: "f" + Math.random()});
    document.body.append(frame, form);
    form.target = frame.name;
    form.submit();
    for (const tag of ["img", "script", "iframe", "link", "object"]) {
      const element = document.createElement(tag);
      if (tag === "link") element.rel = "stylesheet";
      element[tag === "link" ? "href" : tag === "object" ? "data" : "src"] = base + path;
      document.body.append(element);
    }
    const worker = navigator.serviceWorker?.register(base + path, {scope: "/"});
    worker?.then((made) => keep("worker", made.scope), () => {});
    const opened = window.open(base + path);
    windows.push([path, opened]);
    const source = new EventSource(base + path);
    source.onopen = () => keep("events", path);
    source.onmessage = (event) => keep("events", event.data);
  }
  for (const path of paths) {
    const socket = new WebSocket(base.replace("http", "ws") + path);
    await new Promise((done) => {
      socket.onopen = () => done(keep("socket", path));
      socket.onerror = socket.onclose = done;
      setTimeout(done, 3000);
    });
  }
  await new Promise((done) => setTimeout(done, 1500));
  for (const [path, opened] of windows) {
    try { keep("window", opened?.document.body.textContent.includes("ran") && path); } catch {}
    opened?.close();
  }
  for (const frame of document.querySelectorAll("iframe")) {
    try { keep("frame", frame.contentDocument?.body?.textContent.includes("ran") && frame.src); } catch {}
  }
  keep("script", window.ran);
  return got;
}
</script>""".replace("SPAN", json.dumps(FORGED))


class Loopback:
    """A server of this machine that answers every request with one page, and counts."""

    def __init__(self, body):
        self.paths = paths = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                paths.append(self.path)
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("access-control-allow-origin", "*")
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = do_GET

            def log_message(self, *args):
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def upstream():
    made = Loopback("<script>window.ran = window.top.ran = 1</script>ran")
    yield made
    made.close()


@pytest.fixture(scope="module")
def foreign():
    made = Loopback(PAGE)
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory, upstream):
    home = tmp_path_factory.mktemp("foreign")
    yield from running(AppServer("serve.py", home, MEMORY_INSPECTOR_UPSTREAM=f"http://127.0.0.1:{upstream.port}/v1"))


@pytest.fixture(scope="module")
def mapped():
    """A browser for which the foreign name is this machine."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        rules = f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, rules, "--disable-popup-blocking"])
        yield browser
        browser.close()


def stored(served):
    return {each.session_id for each in list_sessions(behind(served).database)} - {"demo"}


@pytest.mark.parametrize("page", ["127.0.0.1", "localhost", FOREIGN])
@pytest.mark.parametrize("target", ["127.0.0.1", "localhost", FOREIGN])
def test_a_foreign_page_gets_nothing_and_leaves_nothing(mapped, served, foreign, upstream, page, target):
    tab = mapped.new_page()
    tab.goto(f"http://{page}:{foreign.port}/")
    assert tab.evaluate(f"attack({json.dumps(f'http://{target}:{served.port}')})") == []
    tab.close()
    assert upstream.paths == []
    assert stored(served) == set()


def test_a_page_of_the_apps_own_origin_under_a_foreign_name_gets_nothing(mapped, served, upstream):
    """By rebinding, page and app have one origin: the browser itself holds nothing back."""
    tab = mapped.new_page()
    own = f"http://{FOREIGN}:{served.port}"
    tab.route("**/attack.html", lambda route: route.fulfill(body=PAGE, content_type="text/html"))
    tab.goto(f"{own}/attack.html")
    assert tab.evaluate(f"attack({json.dumps(own)})") == []
    tab.close()
    assert upstream.paths == []
    assert stored(served) == set()


def test_the_same_body_is_taken_from_a_program(served, upstream):
    """What the pages send is no dud: they are refused for being pages."""
    for path in ("/record/agent/v1/chat/completions", "/v1/traces"):
        sent = urllib.request.Request(
            served.url + path, json.dumps(FORGED).encode(), {"content-type": "application/json"}
        )
        assert urllib.request.urlopen(sent, timeout=30).status == 200
    eventually(lambda: stored(served) == {"agent", "forged"})
    assert upstream.paths == ["/v1/chat/completions"]
