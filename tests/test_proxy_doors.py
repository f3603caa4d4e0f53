"""Who may call the recording proxy and the span receiver, and what passes: no page, no foreign name, no other path."""

import asyncio
import http.client
import http.server
import socket
import threading
import time

import anyio
import httpx
import pytest
from proxy_kit import Attached
from starlette.applications import Starlette
from streamlit import config

from memory_core import Database, list_sessions
from memory_inspector.recorder import recording_proxy
from memory_inspector.recorder.recording_proxy import MAX_KEPT_BYTES, UPSTREAM, RecordingProxy
from memory_inspector.recorder.span_receiver import SpanReceiver


class Upstream:
    """An endpoint that answers with a page, and keeps the path, the headers and the size of each request."""

    def __init__(self):
        self.requests = requests = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                size, left = 0, int(self.headers.get("content-length", 0))
                while left and (piece := self.rfile.read(min(left, 65536))):
                    size, left = size + len(piece), left - len(piece)
                if "chunked" in self.headers.get("transfer-encoding", ""):
                    while length := int(self.rfile.readline(), 16):
                        size += len(self.rfile.read(length))
                        self.rfile.readline()
                    self.rfile.readline()
                requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, size))
                body = b"<html><script>window.ran = 1</script></html>"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-security-policy", "script-src 'unsafe-inline'")
                self.send_header("set-cookie", "theirs=1")
                self.send_header("x-hop", "theirs")
                self.send_header("connection", "x-hop")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_DELETE = do_POST

            def log_message(self, *args):
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def upstream(monkeypatch):
    made = Upstream()
    monkeypatch.setenv(UPSTREAM, f"http://127.0.0.1:{made.server.server_port}/v1")
    yield made
    made.close()


@pytest.fixture
def attached(tmp_path):
    with Attached(Database.open(f"sqlite:///{tmp_path}/memory.db")) as running:
        yield running


def get(attached, path, method="GET", **headers):
    """One request whose path is sent as it is written; status and headers of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", attached.socket.getsockname()[1], timeout=20)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}


def test_a_websocket_is_answered_with_a_request_for_http(attached, upstream):
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13"}
    key = {"sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    status, headers = get(attached, "/record/agent/v1/responses", **upgrade, **key)
    assert (status, headers["upgrade"], upstream.requests) == (426, "HTTP/1.1", [])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "none"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"host": "evil.example:8501"},
        {"host": "memory.example.org"},
        {"host": "localhost.evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "[::1"},
        {"host": "127.0.0.1@evil.example"},
        {"host": "10.1.2.3"},
        {"x_forwarded_for": "203.0.113.7"},
        {"x_forwarded_for": "127.0.0.1, 203.0.113.7"},
        {"host": "evil.example", "x_forwarded_for": "127.0.0.1"},
    ],
    ids=str,
)
def test_pages_foreign_names_and_forwarded_callers_are_refused_by_every_method(attached, upstream, method, headers):
    status, told = get(attached, "/record/agent/v1/models", method, **headers)
    assert (status, upstream.requests) == (403, [])
    assert told["content-security-policy"].startswith("sandbox")


@pytest.mark.parametrize("host", ["127.0.0.1:8501", "localhost:8501", "LOCALHOST", "[::1]:8501", "127.9.9.9"])
def test_names_of_this_machine_are_served(attached, upstream, host):
    assert get(attached, "/record/agent/v1/models", host=host)[0] == 200


def test_a_name_that_the_operator_allows_is_served(attached, upstream, monkeypatch):
    option = config.get_option
    allowed = ["memory.example.org"]
    monkeypatch.setattr(config, "get_option", lambda name: allowed if name == "server.allowedHosts" else option(name))
    assert get(attached, "/record/agent/v1/models", host="memory.example.org")[0] == 200
    assert get(attached, "/record/agent/v1/models", host="evil.example")[0] == 403


def test_what_an_endpoint_answers_cannot_run_as_a_page_of_the_app(attached, upstream):
    status, told = get(attached, "/record/agent/v1/page")
    assert (status, told["content-type"]) == (200, "text/html")
    assert told["content-security-policy"] == "sandbox; default-src 'none'"
    assert told["x-content-type-options"] == "nosniff"
    assert not {"set-cookie", "x-hop"} & told.keys()


def test_headers_of_the_connection_and_cookies_stay_here(attached, upstream):
    get(
        attached,
        "/record/agent/v1/models",
        connection="close, X-Secret",
        x_secret="s",
        cookie="_streamlit=1",
        x_kept="k",
    )
    (_, headers, _) = upstream.requests[0]
    assert headers["x-kept"] == "k"
    assert not {"x-secret", "cookie"} & headers.keys()


@pytest.mark.parametrize(
    "path", ["/models/org%2Fmodel", "/files/a%3Fb", "/files/a%23b", "/m/100%2525", "/files/caf%C3%A9", "/m/a%20b?x=%2F"]
)
def test_a_path_arrives_as_it_was_sent(attached, upstream, path):
    assert get(attached, f"/record/agent/v1{path}")[0] == 200
    assert upstream.requests[0][0] == f"/v1{path}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["/../admin", "/..%2fadmin", "/%2e%2e/admin", "/a/%2E%2e%2Fb", "/..%5cadmin", "/.", "/a/./b", "/%2e"]
)
def test_segments_of_dots_are_refused(attached, upstream, path):
    assert get(attached, f"/record/agent/v1{path}")[0] == 400
    assert upstream.requests == []


def chat(size):
    yield b'{"model": "m", "messages": [{"role": "user", "content": "'
    for _ in range(size // 65536):
        yield b"x" * 65536
    yield b'"}]}'


def test_a_request_too_long_to_be_kept_is_passed_on_and_not_recorded(attached, upstream):
    size = sum(map(len, chat(MAX_KEPT_BYTES + 5_000_000)))
    address = f"{attached.url()}/chat/completions"
    answer = httpx.post(address, content=chat(MAX_KEPT_BYTES + 5_000_000), timeout=60)
    assert (answer.status_code, upstream.requests[0][2]) == (200, size)
    attached.settle()
    assert attached.proxy._room._left == recording_proxy.MAX_KEPT_AT_ONCE
    assert "agent" not in {each.session_id for each in sessions(attached)}


def test_more_at_once_than_may_be_kept_is_passed_on_and_the_room_is_given_back(attached, upstream, monkeypatch):
    monkeypatch.setattr(attached.proxy._room, "_left", 100_000)
    assert httpx.post(f"{attached.url()}/chat/completions", content=b"".join(chat(200_000))).status_code == 200
    attached.settle()
    assert attached.proxy._room._left == 100_000
    assert not sessions(attached)


def sessions(attached):
    return list_sessions(attached.database)


def test_an_agent_that_hangs_up_in_its_request_takes_no_room(attached, upstream):
    with socket.create_connection(attached.socket.getsockname()) as caller:
        head = b"POST /record/agent/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99999\r\n\r\n"
        caller.sendall(head + b"x" * 5000)
    attached.settle()
    assert attached.proxy._room._left == recording_proxy.MAX_KEPT_AT_ONCE
    assert upstream.requests == []


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}])
def test_spans_of_pages_and_under_foreign_names_are_refused(headers):
    transport = httpx.ASGITransport(SpanReceiver(Starlette(), lambda tenant: []), client=("127.0.0.1", 1))

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/v1/traces", json={}, headers=headers)

    assert asyncio.run(ask()).status_code == 403


def test_the_app_is_told_of_its_end_once_every_answered_call_is_recorded():
    done = []

    async def app(scope, receive, send):
        for part in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{part}"
            done.append(part)

    proxy = RecordingProxy(app, lambda id, tenant: None)
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive():
        message = next(messages)
        for number in range(3) if message["type"] == "lifespan.shutdown" else ():
            proxy._recorder.submit(lambda number=number: (time.sleep(0.02), done.append(number)))
        return message

    anyio.run(proxy, {"type": "lifespan"}, receive, None)
    assert done == ["startup", 0, 1, 2, "shutdown"]
