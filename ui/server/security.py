"""Security headers and origin checks: no page loads, is framed by, or is contacted by anything outside this server."""

import base64
import hashlib
import json
import os
import re
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from streamlit.auth_util import get_secrets_auth_section
from streamlit.config import get_option
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME
from streamlit.web.server.starlette.starlette_websocket import _get_signed_cookie_with_chunks

from memory_inspector.recorder.attaching import is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY_VIOLATION = 1008
"""WebSocket close code for a refused connection (RFC 6455, section 7.4.1)."""

_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def inline_script_sources(page: str) -> str:
    """The policy sources that allow exactly the inline scripts of this HTML page, by their SHA-256."""
    # A browser hashes the text between the tags as it stands, so whitespace belongs to it.
    digests = (hashlib.sha256(script.encode()).digest() for script in _INLINE_SCRIPT.findall(page))
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


SHELL = files("streamlit").joinpath("static/index.html").read_text(encoding="utf-8")
"""Streamlit's own page, which is served at every URL."""

CONTENT_SECURITY_POLICY = "; ".join(
    (
        # 1. Whatever is not named below is loaded from this server only.
        "default-src 'self'",
        # 2. Code: Streamlit's own inline scripts by their hashes, and no other inline code, which could come from a
        # conversation. Streamlit loads the code of the app's own components (the scrubber, the keys) from
        # blob: addresses; only code that runs already can make one.
        f"script-src 'self' blob: 'wasm-unsafe-eval' {inline_script_sources(SHELL)}".rstrip(),
        # 3. Styles, images, fonts and connections: a request to another server could leak what is shown here.
        "style-src 'self' 'unsafe-inline'",  # Streamlit's styles, and those of the budget lanes, are inline
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        # 4. Nothing framed here, and this page framed nowhere; no form, plug-in or base address leads elsewhere.
        "frame-src 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "object-src 'none'",
        "base-uri 'self'",
    )
)

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",  # what is served as text is never run
    "X-Frame-Options": "DENY",  # `frame-ancestors` for browsers that do not know it
    "Referrer-Policy": "no-referrer",  # the address names session and turn
    "Cross-Origin-Opener-Policy": "same-origin",  # a page that opened this one cannot reach its window
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """ASGI middleware that adds `HEADERS` to every HTTP response and leaves WebSockets alone."""

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                # Replaces a header that Streamlit has set, instead of adding a second one.
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)


ALLOW_NO_SIGN_IN = "MEMORY_INSPECTOR_ALLOW_NO_SIGN_IN"
"""Environment variable that serves other machines without a sign-in: set in a container, whose host's ports decide."""

NO_SIGN_IN = (
    "Memory Inspector serves this machine only, as no sign-in is configured. To serve others, configure one in "
    f".streamlit/secrets.toml, or set {ALLOW_NO_SIGN_IN}=1 where a proxy with a sign-in is in front."
)


def only_this_machine() -> bool:
    """Return whether other machines are refused: nobody signs in, and the operator does not allow that."""
    return not (os.environ.get(ALLOW_NO_SIGN_IN) or get_secrets_auth_section())


class ThisMachineOnly:
    """ASGI middleware that refuses other machines while nobody signs in, wherever the server listens."""

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        client = scope.get("client")
        if scope["type"] == "lifespan" or client is None or is_loopback(client[0]) or not only_this_machine():
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await PlainTextResponse(NO_SIGN_IN, 403)(scope, receive, send)


class SignedInFiles:
    """ASGI middleware that sends the files of pages (downloads, pictures) to people who are signed in only.

    Streamlit sends them to everybody who knows their address, which stands in histories and in logs of proxies.
    """

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        base = str(get_option("server.baseUrlPath") or "").strip("/")
        is_file = scope["type"] == "http" and f"{scope['path']}/".startswith(f"/{base}/media/".replace("//", "/"))
        if is_file and get_secrets_auth_section() and not _signed_in(dict(HTTPConnection(scope).cookies)):
            await PlainTextResponse("Sign in first.", 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def _signed_in(cookies: dict[str, str]) -> bool:
    from memory_core.errors import MemoryInspectorError  # here, as all engine modules: the app starts without them
    from memory_inspector.server.people import person_of, read_sign_in

    claims = json.loads(_get_signed_cookie_with_chunks(cookies, USER_COOKIE_NAME) or "{}")
    try:
        person_of(claims, read_sign_in(get_option("secrets.files")), time.time())
    except MemoryInspectorError:
        return False
    return True


class OwnPagesOnly:
    """ASGI middleware that lets only the server's own pages open a WebSocket.

    Streamlit itself accepts any port of localhost as its own: the page of another program there could read and change
    every session. Clients other than browsers send no origin and are accepted.
    """

    def __init__(self, app: "ASGIApp") -> None:
        self.app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        # Before the app gets the WebSocket: closed now, the handshake is refused, and no session of Streamlit begins.
        if scope["type"] == "websocket" and not _own_page(Headers(scope=scope)):
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        await self.app(scope, receive, send)


def _own_page(headers: Headers) -> bool:
    # A browser always names the origin of a page, so its absence is no page. Host and port are compared, not the name
    # alone: another program of this machine has the same name. Origins that the operator allows are accepted, too.
    origin = headers.get("origin")
    allowed: list[str] = get_option("server.corsAllowedOrigins") or []
    return origin is None or urlsplit(origin).netloc == headers.get("host") or origin in allowed
