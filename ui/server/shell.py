"""Streamlit's own page and its files, as this server sends them: with a longer head, and without a thread."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit
from starlette.datastructures import Headers, MutableHeaders

from ui.server.security import SHELL
from ui.tab.nav import SIDEBAR_PIXELS, STATIC

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


# -- the head of the page: space for the sidebar, the styles, preloads of its scripts -------------


STYLE = (
    # Streamlit's own screen width from which the sidebar is beside the page and not above it; the sign-in has none
    "@media (min-width: 768px) {"
    '[data-testid="stAppViewContainer"]:not(:has(> [data-testid="stSidebar"], .st-key-sign_in_card)) '
    f"{{ padding-left: {SIDEBAR_PIXELS}px; }} }}"
    # every page is wide; Streamlit's starts centred
    '[data-testid="stMainBlockContainer"] { max-width: none !important; }'
)

PARTS = ("Html", "Selectbox", "PageLink", "Button", "MenuButton", "ChatInput", "BidiComponent")
"""Streamlit's scripts that draw the first page; without a preload, each is requested only when the first element of its
kind arrives."""

_FILES = Path(streamlit.__file__).parent / "static" / "static" / "js"
_IMPORTED = re.compile(r"""(?:from|import)\s*["'`]\./([\w.-]+\.js)["'`]""")


def needed_files(parts: Iterable[str], page: str, folder: Path = _FILES) -> tuple[str, ...]:
    """Names of the files of these parts and of all their imports, except those that the page loads itself.

    Parts that do not exist are left out.
    """
    asked = set(re.findall(r"/js/([\w.-]+\.js)", page))
    # File names are `Part.hash.js`, and the hash changes with each release of Streamlit: only the first part is stable.
    named = {path.name.split(".", 1)[0]: path.name for path in sorted(folder.glob("*.js"))}
    hashes: dict[str, None] = {}
    due = [named[part] for part in parts if part in named]
    while due:
        name = due.pop()
        if name not in hashes and name not in asked and (folder / name).is_file():
            hashes[name] = None
            due += _IMPORTED.findall((folder / name).read_text(encoding="utf-8"))
    return tuple(hashes)


def head() -> str:
    """Content to insert at the end of the page's head.

    Includes the app's own style sheet: app.py draws it too, but only after the elements it hides.
    """
    links = (f'<link rel="modulepreload" crossorigin href="/static/js/{name}">' for name in needed_files(PARTS, SHELL))
    sheet = (STATIC / "app.css").read_text(encoding="utf-8")
    return f"<style>{sheet}{STYLE}</style>{''.join(links)}"


class Shell:
    """ASGI middleware that ends the head of every HTML page with `head()` and leaves everything else alone.

    Streamlit's own page starts without a sidebar and gets it with the first message of the first run; everything beside
    it then moves. Nothing that a script draws can come earlier.
    """

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app
        self._head = head().encode()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        held: Message | None = None
        page = b""

        async def send_with_head(message: "Message") -> None:
            nonlocal held, page
            if message["type"] == "http.response.start" and _is_page(message):
                # The length is known only when the whole page is here, so its start waits until then.
                held = message
            elif held is None or message["type"] != "http.response.body":
                await send(message)
            else:
                page += message.get("body", b"")
                if not message.get("more_body", False):
                    page = page.replace(b"</head>", self._head + b"</head>", 1)
                    headers = MutableHeaders(scope=held)
                    headers["content-length"] = str(len(page))
                    for name in ("etag", "last-modified"):  # they describe the unmodified page
                        del headers[name]
                    await send(held)
                    await send({"type": "http.response.body", "body": page})

        await self.app(_uncompressed(scope), receive, send_with_head)


def _uncompressed(scope: "Scope") -> "Scope":
    """The request, if it is for a page, without support for compressed answers."""
    if "text/html" not in Headers(scope=scope).get("accept", ""):
        return scope
    # A compressed page could not be searched for the end of its head.
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]}


def _is_page(start: "Message") -> bool:
    headers = Headers(raw=start["headers"])
    html = headers.get("content-type", "").startswith("text/html") and "content-encoding" not in headers
    return start["status"] == 200 and html


# -- its scripts, styles and fonts, served without a thread: a first visit loads a hundred --------


FOLDER = Path(streamlit.__file__).parent / "static" / "static"

_TYPES = {".js": b"text/javascript; charset=utf-8", ".css": b"text/css; charset=utf-8", ".woff2": b"font/woff2"}
_FOR_GOOD = b"public, immutable, max-age=31536000"
"""Cache-Control value, as Streamlit sets it for these files; their names contain a hash of the content."""


class Assets:
    """ASGI middleware that serves only the files present in Streamlit's folder when the server starts; all other
    requests are passed on to Streamlit.

    Streamlit takes several turns of a thread pool per file, 1.3 ms of processor time for a small file and 11 ms for the
    largest. While another thread imports the engine, every turn also waits for the interpreter lock.
    """

    def __init__(self, app: "ASGIApp", folder: Path = FOLDER) -> None:
        self.app = app
        # The list is made once: a name from the network is only looked up in it, and can never lead out of the folder.
        files = (path for path in folder.glob("*/*") if path.suffix in _TYPES and path.is_file())
        self._files = {f"/static/{path.parent.name}/{path.name}": path for path in files}

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        # Parts of a file (a Range header) are left to Streamlit, which knows how to answer them.
        path = self._files.get(scope["path"]) if _asks_for_all(scope) else None
        try:
            body = path.read_bytes() if path else None
        except OSError:  # removed by an update: let Streamlit answer
            body = None
        if path is None or body is None:
            await self.app(scope, receive, send)
            return
        length = str(len(body)).encode()
        headers = [(b"content-type", _TYPES[path.suffix]), (b"content-length", length), (b"cache-control", _FOR_GOOD)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _asks_for_all(scope: "Scope") -> bool:
    """Tell whether the request is a GET for a complete file."""
    return scope["type"] == "http" and scope["method"] == "GET" and all(n != b"range" for n, _ in scope["headers"])
