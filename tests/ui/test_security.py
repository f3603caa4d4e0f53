"""Every HTTP response forbids loading from, and showing in, anything outside this server."""

import asyncio

import pytest

from ui.server import security
from ui.server.security import HEADERS, OwnPagesOnly, SecurityHeaders, inline_script_sources


async def _page(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"referrer-policy", b"unsafe-url")]})
    await send({"type": "http.response.body", "body": b"hello"})


def call(app, scope):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, None, send))
    return sent


def test_every_response_carries_the_headers_once():
    start, body = call(SecurityHeaders(_page), {"type": "http"})
    headers = {name.decode(): value.decode() for name, value in start["headers"]}
    assert headers == {name.lower(): value for name, value in HEADERS.items()}
    assert len(start["headers"]) == len(HEADERS)
    assert body == {"type": "http.response.body", "body": b"hello"}


def test_the_socket_is_left_alone():
    async def socket(scope, receive, send):
        await send({"type": "websocket.accept"})

    assert call(SecurityHeaders(socket), {"type": "websocket"}) == [{"type": "websocket.accept"}]


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [
        pytest.param(None, True, id="no browser"),
        pytest.param("http://127.0.0.1:8501", True, id="its own page"),
        pytest.param("http://127.0.0.1:3000", False, id="another program's page"),
        pytest.param("http://localhost:8501", False, id="another name for this machine"),
        pytest.param("http://127.0.0.1:8501.evil.test", False, id="a name that only begins like it"),
        pytest.param("null", False, id="a page without an origin"),
        pytest.param("https://team.example", True, id="one that the settings allow"),
    ],
)
def test_only_the_servers_own_pages_open_a_socket(monkeypatch, origin, let_in):
    async def socket(scope, receive, send):
        await send({"type": "websocket.accept"})

    monkeypatch.setattr(security, "get_option", lambda name: ["https://team.example"])
    headers = [(b"host", b"127.0.0.1:8501"), *([(b"origin", origin.encode())] if origin else [])]
    (answer,) = call(OwnPagesOnly(socket), {"type": "websocket", "headers": headers})
    assert answer["type"] == ("websocket.accept" if let_in else "websocket.close")


def test_nothing_may_be_loaded_from_elsewhere():
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'self'"
    assert policy["img-src"] == "'self' data: blob:"
    assert policy["connect-src"] == "'self'"
    assert [policy[name] for name in ("frame-src", "frame-ancestors", "form-action", "object-src")] == ["'none'"] * 4
    assert "unsafe-inline" not in policy["script-src"]
    assert "http" not in HEADERS["Content-Security-Policy"]


def test_only_the_shells_own_inline_scripts_are_allowed():
    page = "<script>alert(1)</script><script src='x.js'></script>"
    assert inline_script_sources(page) == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
    assert inline_script_sources("<p>none</p>") == ""
