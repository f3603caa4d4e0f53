"""`/record/<session>/v1/...`: passes calls of an agent on to its endpoint, and records them as that session.

An agent is attached by one variable: `OPENAI_BASE_URL=http://127.0.0.1:8501/record/my-agent/v1`. What the endpoint
answers goes back as it came, byte for byte and piece by piece, refusals and broken connections too. Recording happens
afterwards and beside it; where it fails the agent notices nothing. The key passes through and is kept nowhere.
"""

import json
import logging
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

import anyio

from ui.attaching import forbidden, session_of, whole_body

if TYPE_CHECKING:
    from collections.abc import Callable

    import httpx
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_core.attach.wire import Answered
    from memory_core.engine.session import Session

UPSTREAM = "MEMORY_INSPECTOR_UPSTREAM"
"""The environment variable that names the endpoint behind the proxy, `/v1` included."""
OPENAI = "https://api.openai.com/v1"

CONNECT_SECONDS = 10.0
"""How long the endpoint may take to accept a connection. How long it may take to answer is the agent's to decide."""

MAX_KEPT_BYTES = 32_000_000
"""A request or an answer above this is passed on and not recorded."""

_PATH = re.compile(r"/record/([^/]+)/v1(/.*)")
_SESSION = re.compile(r"[\w.@ -]{1,80}")
_OF_A_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that are about one connection and not about what is sent over it."""

_log = logging.getLogger(__name__)


class RecordingProxy:
    """ASGI middleware that answers below `/record/` and leaves everything else alone."""

    def __init__(self, app: "ASGIApp", session: "Callable[[str], Session] | None" = None) -> None:
        self.app = app
        self._session = session or session_of
        self._client: httpx.AsyncClient | None = None
        self._free: set[str] = set()
        # One thread: calls are recorded in the order in which they ended.
        self._recorder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record-calls")

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        found = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if found is None:
            await self.app(scope, receive, send)
            if scope["type"] == "lifespan" and self._client is not None:  # the server ends
                await self._client.aclose()
            return
        session_id, path = unquote(found[1]), found[2]
        if problem := forbidden(scope):
            await _refuse(send, 403, problem)
        elif not _SESSION.fullmatch(session_id):
            await _refuse(send, 400, "Name the session with at most 80 letters, digits, dots, dashes and underscores.")
        elif problem := await anyio.to_thread.run_sync(self._taken, session_id):
            await _refuse(send, 409, problem)
        elif (body := await whole_body(receive)) is not None:
            await self._pass_on(session_id, path, body, scope, receive, send)

    async def _pass_on(
        self, session_id: str, path: str, body: bytes, scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        call = _Call()
        begun = time.monotonic()
        try:
            async with anyio.create_task_group() as both:

                async def end_with_the_agent() -> None:
                    await _hung_up(receive)
                    if not call.ended:
                        call.problem = "the agent hung up before it had the whole answer"
                        both.cancel_scope.cancel()

                both.start_soon(end_with_the_agent)
                await self._answer(call, path, body, scope, send)
                both.cancel_scope.cancel()
        finally:
            call.seconds = time.monotonic() - begun
            self._recorder.submit(_record, self._session, session_id, path.strip("/"), body, call.answered())

    async def _answer(self, call: "_Call", path: str, body: bytes, scope: "Scope", send: "Send") -> None:
        """Send the endpoint's answer on. Of one that breaks off the end is never sent, so that it breaks off here."""
        import httpx

        if self._client is None:
            timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
            self._client = httpx.AsyncClient(timeout=timeout, limits=httpx.Limits(max_connections=None))
        upstream = os.environ.get(UPSTREAM) or OPENAI
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        # Compressed, an answer could not be read here; what comes is passed on as it comes.
        dropped = _OF_A_CONNECTION | {b"host", b"content-length", b"accept-encoding"}
        headers = [pair for pair in scope["headers"] if pair[0].lower() not in dropped]
        headers.append((b"accept-encoding", b"identity"))
        response: httpx.Response | None = None
        try:
            url = httpx.URL(upstream.rstrip("/") + path + query.decode("latin-1"))
            request = httpx.Request(scope["method"], url, headers=headers, content=body)
            response = await self._client.send(request, stream=True)
            call.status = response.status_code
            passed = [pair for pair in response.headers.raw if pair[0].lower() not in _OF_A_CONNECTION]
            await send({"type": "http.response.start", "status": response.status_code, "headers": passed})
            async for piece in response.aiter_raw():
                call.keep(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            call.ended = True
            await send({"type": "http.response.body", "body": b""})
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            call.ended = True
            if response is not None:
                call.problem = "the connection to the endpoint broke off"
                return
            call.problem = f"the endpoint could not be reached ({type(error).__name__})"
            where = re.sub(r"//[^/@]*@", "//", upstream)
            await _refuse(send, 502, f"{where} could not be reached ({type(error).__name__}). Is {UPSTREAM} right?")
        finally:
            if response is not None:
                with anyio.CancelScope(shield=True):
                    await response.aclose()

    def _taken(self, session_id: str) -> str | None:
        """Why this name cannot be used. An agent goes on where the database does not answer."""
        from memory_core import MemoryInspectorError, StoreError
        from memory_core.attach.recording import check_free

        if session_id in self._free:
            return None
        try:
            check_free(self._session(session_id))
        except StoreError:
            return None
        except MemoryInspectorError as error:
            return str(error)
        self._free.add(session_id)
        return None


class _Call:
    """What came of a call so far."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.problem: str | None = None
        self.seconds = 0.0
        self.ended = False
        """Whether nothing more will be sent."""
        self._body: list[bytes] = []
        self._size = 0

    def keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_KEPT_BYTES:
            self._body.append(piece)

    def answered(self) -> "Answered":
        from memory_core.attach.wire import Answered

        problem = "its answer was too long to be kept" if self._size > MAX_KEPT_BYTES else self.problem
        return Answered(self.status, b"".join(self._body), self.seconds, problem)


def _record(
    opened: "Callable[[str], Session]", session_id: str, path: str, request: bytes, answered: "Answered"
) -> None:
    """Store the call. Warnings hold no words of it."""
    from memory_core import MemoryInspectorError
    from memory_core.attach.recording import attach, record_exchange
    from memory_core.attach.wire import ENDPOINTS, read_exchange

    endpoint = next((each for each in ENDPOINTS if each == path), None)
    if endpoint is None:
        return
    try:
        exchange = read_exchange(endpoint, request, answered)
        session = opened(session_id)
        attach(session)
        record_exchange(session, exchange)
    except MemoryInspectorError as error:
        _log.warning("A call of the session %r was passed on and not recorded: %s", session_id, error)
    except Exception as error:  # the one thread goes on; the words of an unforeseen error may be the conversation's
        _log.warning("A call of the session %r was passed on and not recorded: %s", session_id, type(error).__name__)


async def _hung_up(receive: "Receive") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(send: "Send", status: int, message: str) -> None:
    """An error in the form that OpenAI's clients read."""
    body = json.dumps({"error": {"message": message, "type": "memory_inspector", "param": None, "code": None}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
