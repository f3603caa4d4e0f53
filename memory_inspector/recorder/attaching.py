"""Shared by recording proxy and span receiver: which callers are allowed, and the session that is recorded.

Refused spans are noted for the log and the page Sessions, as exporters do not read the answer.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

import anyio
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import Receive, Scope


_NO_PAGES = "Pages in a browser are not recorded."


def no_other_host(host: str) -> bool:
    """Return False: no host names are allowed besides those of this machine."""
    return False


def forbidden(scope: "Scope", host_allowed: Callable[[str], bool] = no_other_host) -> str | None:
    """Return the reason to refuse a caller, or None: only programs on this machine are served, no pages in a browser.

    Behind a reverse proxy every visitor seems to be on this machine, and with DNS rebinding a page may, too. So only
    host names of this machine, and those that `host_allowed` accepts, are served. Headers of a caller can only add
    reasons to refuse it.
    """
    headers, client = Headers(scope=scope), scope.get("client")
    forwarded = [address.strip() for address in headers.get("x-forwarded-for", "").split(",") if address.strip()]
    # Every address on the way counts: a header may only add reasons to refuse.
    if not all(is_loopback(address) for address in ([client[0]] if client is not None else []) + forwarded):
        return "Agents are recorded on this machine only. Start the app where the agent runs."
    if not _served(headers.get("host", ""), host_allowed):
        return "This host name is not served here. Use 127.0.0.1, or add the name to server.allowedHosts."
    if _from_browser(headers):
        return _NO_PAGES
    return None


TOKEN = b"x-memory-inspector-token"
"""Header of the recording proxy for a token, as `Authorization` there holds the endpoint's key. Never passed on."""


CHALLENGE = (b"www-authenticate", b"Bearer")
"""Header of an answer with status 401, which says that a token is missing or refused."""


class Tokens(Protocol):
    """The tokens of agents (`memory_inspector.upkeep.agents`), and whether they need one."""

    def required(self) -> bool:
        """Return whether even programs on this machine need a token, as people sign in."""

    def tenant_of(self, token: str) -> str:
        """Return the tenant of a token.

        Raises:
            AccessError: the token is unknown, revoked or expired.
            StoreError: the database cannot be reached.
        """


@dataclass(frozen=True, slots=True)
class Admission:
    """Tenant that a caller may write into, or why it is refused."""

    tenant: str = ""
    status: int = 200
    problem: str | None = None


async def admit(
    scope: "Scope", token: str | None, tokens: Tokens | None, host_allowed: Callable[[str], bool]
) -> Admission:
    """Admit a caller by its token, or one on this machine without a token where nobody signs in."""
    from memory_core.errors import AccessError, StoreError

    if token is None or tokens is None:
        if tokens is not None and tokens.required():
            return Admission(status=401, problem="Send a token: `memory-inspector token new` makes one.")
        problem = forbidden(scope, host_allowed)
        return Admission(status=200 if problem is None else 403, problem=problem)
    # A token proves who calls, from whatever machine; but no page may use one.
    if _from_browser(Headers(scope=scope)):
        return Admission(status=403, problem=_NO_PAGES)
    try:
        return Admission(await anyio.to_thread.run_sync(tokens.tenant_of, token))
    except AccessError as error:
        return Admission(status=401, problem=str(error))
    except StoreError:
        return Admission(status=503, problem="The database cannot be reached.")


def _from_browser(headers: Headers) -> bool:
    return "origin" in headers or "sec-fetch-site" in headers  # browsers send one of them with every request


def _served(host: str, host_allowed: Callable[[str], bool]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or is_loopback(name) or host_allowed(host)


def is_loopback(host: str) -> bool:
    """Return whether an address is one of this machine's loopback addresses."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class NoRoomError(Exception):
    """More is being read than may be held in memory at once."""


class Room:
    """Limit on the bytes held in memory, for all requests together."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Reserve this many bytes; return False if too few are free."""
        with self._lock:
            fits = size <= self._left
            self._left -= size if fits else 0
            return fits

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


async def whole_body(receive: "Receive", room: Room, *, most: int) -> bytes | None:
    """Read a request's body; a longer one is read until it exceeds `most` bytes. None if the caller hung up.

    The returned bytes are taken from `room`, and the caller must give them back.

    Raises:
        NoRoomError: `room` has no more bytes.
    """
    pieces, size, returned = [], 0, False
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            if not room.take(len(piece)):
                raise NoRoomError
            pieces.append(piece)
            size += len(piece)
            if not message.get("more_body", False) or size > most:
                returned = True
                return b"".join(pieces)
    finally:
        if not returned:
            room.give_back(size)


MAX_REASONS = 50
"""Maximum different reasons that are remembered, of all senders; the oldest is forgotten."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Refused:
    """Spans of one sender that were refused for one reason."""

    sender: str
    reason: str
    requests: int = 0
    """Number of requests that held such spans."""


class RefusedSpans:
    """Reasons of refusals since the server started, for each tenant. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: dict[tuple[str, str, str], Refused] = {}

    def add(self, tenant: str, sender: str, reasons: Iterable[str]) -> None:
        """Count a refusal for each of these reasons; each is logged once for a sender."""
        for reason in reasons:
            key = tenant, sender, reason
            with self._lock:
                new = key not in self._refused
                self._refused.setdefault(key, Refused(sender, reason)).requests += 1
                if len(self._refused) > MAX_REASONS:
                    del self._refused[next(iter(self._refused))]
            # Each once: an exporter sends the same again every five seconds.
            if new:
                _log.warning("Spans of %r are not recorded: %s", sender, reason)

    def of(self, tenant: str) -> list[Refused]:
        """Return what was refused of a tenant's agents, the latest reason first."""
        with self._lock:
            return [refused for (whose, _, _), refused in self._refused.items() if whose == tenant][::-1]

    def forget(self, tenant: str) -> None:
        """Forget what was refused of a tenant's agents, once somebody has read it."""
        with self._lock:
            self._refused = {key: refused for key, refused in self._refused.items() if key[0] != tenant}


refused_spans = RefusedSpans()
"""Refusals of this server."""
