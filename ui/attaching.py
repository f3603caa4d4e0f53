"""What the two ways of attaching an agent share: who may, and the session that is recorded."""

from ipaddress import ip_address
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from memory_core.engine.session import Session


def forbidden(scope: "Scope") -> str | None:
    """Why this caller may not: an agent is a program of this machine, and no page in a browser."""
    client = scope.get("client")
    if client is not None and not _loopback(client[0]):
        return "Agents are recorded on this machine only. Start the app where the agent runs."
    if "origin" in Headers(scope=scope):
        return "Pages in a browser are not recorded."
    return None


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
