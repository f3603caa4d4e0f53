"""What the two ways of attaching an agent share: who may, and the session that is recorded."""

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from streamlit.config import get_option
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from memory_core.engine.session import Session


def forbidden(scope: "Scope") -> str | None:
    """Return the reason to reject a caller: an agent is a program of this machine, and no page in a browser.

    Behind a reverse proxy every visitor comes from this machine, and by DNS rebinding a page may, too: only names of
    this machine and those that the operator allows are served. No header a caller sends makes it a caller of this
    machine.
    """
    headers, client = Headers(scope=scope), scope.get("client")
    forwarded = [each.strip() for each in headers.get("x-forwarded-for", "").split(",") if each.strip()]
    if not all(_loopback(each) for each in ([client[0]] if client is not None else []) + forwarded):
        return "Agents are recorded on this machine only. Start the app where the agent runs."
    if not _served(headers.get("host", "")):
        return "This host name is not served here. Use 127.0.0.1, or add the name to server.allowedHosts."
    if "origin" in headers or "sec-fetch-site" in headers:  # browsers send one of them with every request
        return "Pages in a browser are not recorded."
    return None


def _served(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or _loopback(name) or (bool(get_option("server.allowedHosts")) and is_host_allowed(host))


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


async def whole_body(receive: "Receive", *, most: int | None = None) -> bytes | None:
    """The whole request, or the more than `most` bytes of it that came until it was given up; None: hung up."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if not message.get("more_body", False) or (most is not None and size > most):
            return b"".join(pieces)


def session_of(session_id: str) -> "Session":
    """A session of the app's database, opened or not."""
    from memory_core.engine.session import Session
    from ui.services import engine

    return Session(engine().database, session_id, services=engine().services)
