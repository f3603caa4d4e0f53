"""Streamlit's page is sent with the sidebar's room in its head, its files without a detour; nothing else is touched."""

import asyncio
import re
from importlib.resources import files

import pytest

from ui.server.security import SHELL
from ui.server.shell import FOLDER, PARTS, STYLE, Assets, Shell, head, needed_files
from ui.tab.nav import SIDEBAR_PIXELS, STATIC

HTML = (b"content-type", b"text/html; charset=utf-8")


def answering(*bodies, status=200, kind=HTML, also=(b"vary", b"x")):
    """An app that answers in so many pieces."""

    async def app(scope, receive, send):
        length = str(sum(len(body) for body in bodies)).encode()
        headers = [kind, (b"content-length", length), (b"etag", b'"1"'), (b"last-modified", b"then"), also]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for place, body in enumerate(bodies, 1):
            await send({"type": "http.response.body", "body": body, "more_body": place < len(bodies)})

    return app


def call(app, path="/", method="GET", headers=(), kind="http"):
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(app({"type": kind, "method": method, "path": path, "headers": list(headers)}, None, send))
    return sent


def test_a_page_gets_the_style_at_the_end_of_its_head_and_is_as_long_as_it_says():
    start, body = call(Shell(answering(b"<html><head></he", b"ad><body></body></html>")))
    assert body["body"] == f"<html><head>{head()}</head><body></body></html>".encode()
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    assert b"etag" not in headers
    assert b"last-modified" not in headers
    assert f"padding-left: {SIDEBAR_PIXELS}px" in STYLE
    assert STYLE in head()
    assert (STATIC / "app.css").read_text(encoding="utf-8") in head()


def test_the_page_is_asked_for_uncompressed_and_nothing_else_is():
    seen = []

    async def app(scope, receive, send):
        seen.append(dict(scope["headers"]))

    compressed = (b"accept-encoding", b"gzip")
    call(Shell(app), headers=[(b"accept", b"text/html,*/*;q=0.8"), compressed])
    call(Shell(app), headers=[(b"accept", b"*/*"), compressed])
    assert [b"accept-encoding" in headers for headers in seen] == [False, True]


@pytest.mark.parametrize(
    "asked",
    [
        (answering(b"</head>", also=(b"content-encoding", b"gzip")), {}),
        (answering(b"</head>", kind=(b"content-type", b"application/json")), {}),
        (answering(b"</head>", status=404), {}),
        (answering(b""), {"method": "HEAD"}),
    ],
)
def test_what_is_no_page_is_left_alone(asked):
    app, request = asked
    assert call(Shell(app), **request) == call(app, **request)


def test_the_socket_is_left_alone():
    async def socket(scope, receive, send):
        await send({"type": "websocket.accept"})

    for layer in (Shell, Assets):
        assert call(layer(socket), kind="websocket") == [{"type": "websocket.accept"}]


def test_the_first_pages_parts_are_files_of_the_installed_streamlit():
    js = FOLDER / "js"
    for part in PARTS:
        (own,) = [path.name for path in js.glob(f"{part}.*.js")]
        needed = needed_files([part], SHELL)
        assert own in needed
        assert all((js / name).is_file() for name in needed)
        assert not set(needed) & set(re.findall(r"js/([\w.-]+\.js)", SHELL))  # the page asks for these itself
    assert needed_files(["NoSuchPart"], SHELL) == ()


def test_a_part_brings_what_it_imports(tmp_path):
    (tmp_path / "Lanes.1.js").write_text(
        'import{a}from"./deep.2.js";import"./known.3.js";const b=()=>import("./later.4.js")'
    )
    (tmp_path / "deep.2.js").write_text('import{c}from"./Lanes.1.js";')
    for name in ("known.3.js", "later.4.js"):
        (tmp_path / name).write_text("")
    page = '<link rel="modulepreload" href="./static/js/known.3.js">'
    assert set(needed_files(["Lanes"], page, tmp_path)) == {"Lanes.1.js", "deep.2.js"}


def test_streamlits_files_are_sent_as_they_are_and_kept_for_good():
    refused = answering(b"", status=404)
    index = re.search(r"js/(index\.[\w-]+\.js)", SHELL).group(1)
    start, body = call(Assets(refused), f"/static/js/{index}")
    wanted = files("streamlit").joinpath(f"static/static/js/{index}").read_bytes()
    assert body["body"] == wanted
    headers = dict(start["headers"])
    assert headers[b"content-length"] == str(len(wanted)).encode()
    assert headers[b"content-type"].startswith(b"text/javascript")
    assert b"immutable" in headers[b"cache-control"]


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        ("/static/js/../../index.html", {}),
        ("/static/js/nothing.js", {}),
        ("/app/static/inter.woff2", {}),
        ("/static/js/{index}", {"method": "POST"}),
        ("/static/js/{index}", {"headers": [(b"range", b"bytes=0-1")]}),
    ],
)
def test_everything_else_is_streamlits_own_business(path, request_):
    index = re.search(r"js/(index\.[\w-]+\.js)", SHELL).group(1)
    start, _ = call(Assets(answering(b"theirs", status=418)), path.format(index=index), **request_)
    assert start["status"] == 418
