"""`/record/<session>/v1/...`: passes calls of an agent on to its endpoint, and records them as that session.

An agent is attached by one variable: `OPENAI_BASE_URL=http://127.0.0.1:8501/record/my-agent/v1`. Other
companies' clients add the version: `ANTHROPIC_BASE_URL=http://127.0.0.1:8501/record/my-agent`, and likewise
`AZURE_OPENAI_ENDPOINT` and `GOOGLE_GEMINI_BASE_URL`. The endpoint's answer is returned unchanged, byte for byte and
piece by piece, also if it is an error or breaks off. The call is recorded afterwards; if recording fails, the agent
does not notice. The API key is passed on and never stored.

An agent with a token sends it in a header of its own (`attaching.TOKEN`), or, where only an address can be set, as a
part of that: `/record/<token>/<session>/v1`. The token is neither passed on nor stored.
"""

import json
import logging
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import anyio

from memory_inspector.recorder.attaching import CHALLENGE, TOKEN, Room, Tokens, admit, no_other_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    import httpx
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from memory_core.engine.session import Session
    from memory_inspector.recorder.callers import Caller, Conversations
    from memory_inspector.recorder.wire import Answered

UPSTREAM = "MEMORY_INSPECTOR_UPSTREAM"
"""The environment variable that names the endpoint behind the proxy, `/v1` included."""
UPSTREAM_ANTHROPIC, UPSTREAM_GEMINI = f"{UPSTREAM}_ANTHROPIC", f"{UPSTREAM}_GEMINI"
"""Variables for endpoints of their own behind clients of these companies; without them `UPSTREAM` is theirs too."""
OPENAI = "https://api.openai.com/v1"
ANTHROPIC, GEMINI = "https://api.anthropic.com", "https://generativelanguage.googleapis.com"

CONNECT_SECONDS = 10.0
"""Seconds to connect to the endpoint; the agent decides how long an answer may take."""

MAX_KEPT_BYTES = 32_000_000
"""Maximum bytes of a request or an answer to be recorded; larger ones are only passed on."""

MAX_KEPT_AT_ONCE = 2 * MAX_KEPT_BYTES
"""Maximum bytes of all requests and answers waiting to be recorded; calls beyond it are only passed on."""

HUNG_UP = "the agent hung up before it had the whole answer"

_PATH = re.compile(r"/record/(?:(mi_[^/]+)/)?([^/]+)(?:/v1(/.*)|(/(?:openai|v1alpha|v1beta)/.*))")
_BELOW = "/record/"
_SESSION = re.compile(r"[\w.@ -]{1,80}")
_OF_A_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Hop-by-hop headers: they concern one connection, not the message that is sent over it."""
_STAYING = _OF_A_CONNECTION | {b"cookie", b"set-cookie", TOKEN}
"""Headers that are not passed on: hop-by-hop ones, our token, and cookies, which belong to pages of either side."""
_SANDBOXED = (
    (b"content-security-policy", b"sandbox; default-src 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""An endpoint's answer is served on the app's own origin: these headers keep a browser from running it as a page."""

_log = logging.getLogger(__name__)


class RecordingProxy:
    """ASGI middleware that answers below `/record/` and leaves everything else alone."""

    def __init__(
        self,
        app: "ASGIApp",
        session: "Callable[..., Session]",
        *,
        host_allowed: "Callable[[str], bool]" = no_other_host,
        tokens: Tokens | None = None,
    ) -> None:
        """Record calls in the sessions that `session` opens by `id` and `tenant=`; `host_allowed`: see `forbidden`.

        `tokens`: those of agents; None: only programs on this machine are served.
        """
        self.app = app
        self._session, self._host_allowed, self._tokens = session, host_allowed, tokens
        # The second one keeps no connection.
        self._clients: tuple[httpx.AsyncClient, ...] = ()
        self._room = Room(MAX_KEPT_AT_ONCE)
        self._free: set[tuple[str, str]] = set()
        self._conversations: Conversations | None = None
        # One thread: calls are recorded in the order in which they ended.
        self._recorder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="record-calls")

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] == "websocket" and scope["path"].startswith(_BELOW):
            await _refuse_upgrade(scope, send)
            return
        # The raw path, so that escapes reach the endpoint unchanged.
        sent = scope.get("raw_path") or quote(scope["path"]).encode() if scope["type"] == "http" else b""
        match = _PATH.fullmatch(sent.partition(b"?")[0].decode("latin-1"))
        if match is None:
            await self.app(scope, self._after_recording(receive) if scope["type"] == "lifespan" else receive, send)
            if scope["type"] == "lifespan":  # the server ends
                for client in self._clients:
                    await client.aclose()
            return
        session_id, path, send = unquote(match[2]), match[3] or match[4], _sandboxed(send)
        token = next((value for name, value in scope["headers"] if name.lower() == TOKEN), None)
        named = token.decode("latin-1") if token is not None else match[1]
        admitted = await admit(scope, named, self._tokens, self._host_allowed)
        opened = partial(self._session, tenant=admitted.tenant)
        if admitted.problem is not None:
            await _refuse(send, admitted.status, admitted.problem)
        elif not {".", ".."}.isdisjoint(re.split(r"[/\\]", unquote(path))):
            await _refuse(send, 400, "The path has a segment of dots.")
        elif not _SESSION.fullmatch(session_id):
            await _refuse(send, 400, "Name the session with at most 80 letters, digits, dots, dashes and underscores.")
        elif problem := await anyio.to_thread.run_sync(self._taken, session_id, admitted.tenant):
            await _refuse(send, 409, problem)
        else:
            await self._pass_on(opened, session_id, path, scope, receive, send)

    def _after_recording(self, receive: "Receive") -> "Receive":
        """Return a lifespan's messages, of which the end is told once every call that was answered is recorded."""

        async def receive_after() -> "Message":
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                # On a busy machine thousands of calls may wait, and the app closes the database at its end.
                await anyio.to_thread.run_sync(self._recorder.submit(_nothing).result)
            return message

        return receive_after

    async def _pass_on(
        self,
        opened: "Callable[[str], Session]",
        session_id: str,
        path: str,
        scope: "Scope",
        receive: "Receive",
        send: "Send",
    ) -> None:
        # 1. Read the request as far as it may be kept.
        call = _ProxiedCall(self._room)
        call.coding, call.headers = _coding(scope["headers"]), _headers(scope["headers"])
        body = _Body(receive, call)
        if not await body.begin():
            call.forget()
            return
        begun = time.monotonic()
        try:
            # 2. Answer, and watch for the agent hanging up: whichever ends first ends the other.
            async with anyio.create_task_group() as both:

                async def end_with_the_agent() -> None:
                    await body.hung_up()
                    if not call.ended:
                        call.problem = HUNG_UP
                        both.cancel_scope.cancel()

                both.start_soon(end_with_the_agent)
                await self._answer(call, path, body, scope, send)
                both.cancel_scope.cancel()
        finally:
            # 3. Record beside the agent, whatever the outcome. Only what is posted is a call: lists of stored answers
            # come by GET.
            call.seconds = time.monotonic() - begun
            if scope["method"] == "POST":
                self._recorder.submit(self._record_kept, opened, session_id, path, call)
            else:
                call.forget()

    async def _answer(self, call: "_ProxiedCall", path: str, body: "_Body", scope: "Scope", send: "Send") -> None:
        """Pass on the endpoint's answer. If it breaks off, the response stays unfinished, so the agent notices."""
        import httpx

        if not self._clients:
            # Once connected, neither the time nor the number of calls is limited: the agent decides on both.
            timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
            limits = httpx.Limits(max_connections=None), httpx.Limits(max_keepalive_connections=0)
            self._clients = tuple(httpx.AsyncClient(timeout=timeout, limits=limit) for limit in limits)
        setting, upstream = _upstream(path, scope["headers"])
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        # An uncompressed answer is asked for, as it is read here; one that comes compressed is passed on as it is.
        dropped = {b"host", b"accept-encoding"} | ({b"content-length"} if body.whole is not None else set())
        headers = [pair for pair in _passed_on(scope["headers"]) if pair[0].lower() not in dropped]
        headers.append((b"accept-encoding", b"identity"))
        response: httpx.Response | None = None
        try:
            base = httpx.URL(upstream)
            url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + path.encode("latin-1") + query)
            content = body.pieces() if body.whole is None else body.whole
            request = httpx.Request(scope["method"], url, headers=headers, content=content)
            response = await self._send(request, repeatable=body.whole is not None)
            call.status, call.answer_coding = response.status_code, _coding(response.headers.raw)
            passed = _passed_on(response.headers.raw)
            await send({"type": "http.response.start", "status": response.status_code, "headers": passed})
            async for piece in response.aiter_raw():
                call.keep(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            # Before the last piece: an agent that hangs up now has the whole answer.
            call.ended = True
            await send({"type": "http.response.body", "body": b""})
        except _HungUpError:
            call.ended = True
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            call.ended = True
            if response is not None:
                call.problem = "the connection to the endpoint broke off"
                return
            call.problem = f"the endpoint could not be reached ({type(error).__name__})"
            # The address may hold a name and a password.
            where = re.sub(r"//[^/@]*@", "//", upstream)
            await _refuse(send, 502, f"{where} could not be reached ({type(error).__name__}). Is {setting} right?")
        finally:
            if response is not None:
                # An agent that hung up has cancelled this task, and the connection must be closed all the same.
                with anyio.CancelScope(shield=True):
                    await response.aclose()

    async def _send(self, request: "httpx.Request", *, repeatable: bool) -> "httpx.Response":
        """Send a request, and return the beginning of the endpoint's answer.

        An endpoint may close a kept connection just as a request arrives. Then one that is `repeatable`, as its body is
        held, is sent once more on a new connection.
        """
        import httpx

        client, without_kept = self._clients
        connected = False

        async def notice(event: str, _: object) -> None:
            nonlocal connected
            connected = connected or event.startswith("connection.connect")

        request.extensions["trace"] = notice
        try:
            return await client.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            # On a connection of its own, the endpoint broke off while it had this request.
            if connected or not repeatable:
                raise
            return await without_kept.send(request, stream=True)

    def _taken(self, session_id: str, tenant: str) -> str | None:
        """Return why this session name cannot be used; None if it can, or if the database does not answer."""
        from memory_core import MemoryInspectorError, StoreError
        from memory_inspector.recorder.recording import check_free

        # Asked once per name, as it costs a query; recording checks again.
        if (tenant, session_id) in self._free:
            return None
        try:
            check_free(self._session(session_id, tenant=tenant))
        except StoreError:
            return None
        except MemoryInspectorError as error:
            return str(error)
        self._free.add((tenant, session_id))
        return None

    def _record_kept(
        self, opened: "Callable[[str], Session]", session_id: str, path: str, call: "_ProxiedCall"
    ) -> None:
        from memory_inspector.recorder.callers import Conversations, caller_of

        try:
            if (request := call.request) is None:
                _log.warning("A call in session %r was passed on and not recorded: it is too long.", session_id)
                return
            if self._conversations is None:
                self._conversations = Conversations()
            caller = caller_of(call.headers)
            _record(self._conversations, opened, session_id, path, request, call.answered(), call.coding, caller)
        finally:
            call.forget()


def _nothing() -> None:
    """Do nothing: the recorder gets to it once it has recorded everything before."""


class _HungUpError(Exception):
    """The agent hung up in the middle of its request."""


class _Body:
    """A request: read whole if it is short enough to be kept, otherwise passed on piece by piece."""

    def __init__(self, receive: "Receive", call: "_ProxiedCall") -> None:
        self._receive, self._call = receive, call
        self._first: list[bytes] = []
        self._more = True
        self._ended = anyio.Event()

    @property
    def whole(self) -> bytes | None:
        """The request's body if it was read to its end and kept; otherwise None."""
        return None if self._more else b"".join(self._first)

    async def begin(self) -> bool:
        """Read as much as may be kept; return False if the agent hung up."""
        stored = True
        while self._more and stored:
            piece = await self._next()
            if piece is None:
                return False
            self._first.append(piece)
            stored = self._call.keep_request(piece)
        return True

    async def pieces(self) -> "AsyncIterator[bytes]":
        while self._first:
            yield self._first.pop(0)
        while self._more:
            if (piece := await self._next()) is None:
                raise _HungUpError
            yield piece

    async def hung_up(self) -> None:
        """Wait until the agent hangs up after its whole request."""
        # Two tasks must not receive at once: until its end the request is read by the other one.
        await self._ended.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _next(self) -> bytes | None:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            return None
        self._more = message.get("more_body", False)
        if not self._more:
            self._ended.set()
        return bytes(message.get("body", b""))


class _ProxiedCall:
    """Request, answer and outcome of a call, as far as they are kept for recording."""

    def __init__(self, room: Room) -> None:
        self.status: int | None = None
        self.problem: str | None = None
        self.seconds = 0.0
        self.coding = self.answer_coding = ""
        """Content codings of the request and the answer."""
        self.headers: dict[str, str] = {}
        """Headers of the request that may say whose call it is."""
        self.ended = False
        """True once the answer is complete or has broken off, or the agent hung up in its request."""
        self._room = room
        self._request: list[bytes] | None = []
        """Pieces of the body; None if it is too long to be kept."""
        self._answer: list[bytes] | None = []
        self._sizes = {"request": 0, "answer": 0}

    def keep_request(self, piece: bytes) -> bool:
        """Keep a piece for recording; return False if there is no room for the request."""
        self._request = self._stored(self._request, "request", piece)
        return self._request is not None

    def keep(self, piece: bytes) -> None:
        """Keep a piece of the answer, if there is room."""
        self._answer = self._stored(self._answer, "answer", piece)

    def _stored(self, pieces: list[bytes] | None, what: str, piece: bytes) -> list[bytes] | None:
        if pieces is None:
            return None
        # A call that cannot be kept whole gives back its room at once, for calls that can.
        if self._sizes[what] + len(piece) > MAX_KEPT_BYTES or not self._room.take(len(piece)):
            self._room.give_back(self._sizes[what])
            self._sizes[what] = 0
            return None
        self._sizes[what] += len(piece)
        pieces.append(piece)
        return pieces

    @property
    def request(self) -> bytes | None:
        return None if self._request is None else b"".join(self._request)

    def forget(self) -> None:
        """Discard the kept pieces, and return their bytes to the shared memory limit."""
        self._room.give_back(sum(self._sizes.values()))
        self._sizes, self._request, self._answer = dict.fromkeys(self._sizes, 0), None, None

    def answered(self) -> "Answered":
        from memory_core import MessageError
        from memory_inspector.recorder.content_coding import decompressed
        from memory_inspector.recorder.streamed_answer import is_complete
        from memory_inspector.recorder.wire import Answered

        problem = "its answer was too long to be kept" if self._answer is None else self.problem
        try:
            body = decompressed(b"".join(self._answer or ()), self.answer_coding, MAX_KEPT_BYTES)
        except MessageError as error:
            body, problem = b"", f"its answer could not be read: {error}"
        if problem == HUNG_UP and is_complete(body):  # clients hang up once a stream has said that it ends
            problem = None
        return Answered(self.status, body, self.seconds, problem)


def _record(
    conversations: "Conversations",
    opened: "Callable[[str], Session]",
    session_id: str,
    path: str,
    request: bytes,
    answered: "Answered",
    coding: str,
    caller: "Caller",
) -> None:
    """Store the call; logged warnings contain none of its text."""
    from memory_core import MemoryInspectorError
    from memory_core.process import measured
    from memory_inspector.recorder.content_coding import decompressed
    from memory_inspector.recorder.wire import endpoint_of, read_exchange

    api = endpoint_of(path)
    if api is None or len(request) > MAX_KEPT_BYTES:
        return
    (endpoint, deployment), readable = api, None
    try:
        try:
            readable = decompressed(request, coding, MAX_KEPT_BYTES)
        except MemoryInspectorError as error:
            _log.warning("A call in session %r was recorded without its text: %s", session_id, error)
        exchange = read_exchange(endpoint, readable, answered, deployment=deployment)
        with measured("record", opened(session_id).database.tenant):
            conversations.record(opened, session_id, exchange, caller)
    except MemoryInspectorError as error:
        _log.warning("A call in session %r was passed on and not recorded: %s", session_id, error)
    except Exception as error:  # keeps the thread alive; the text of an unforeseen error may quote the call
        _log.warning("A call in session %r was passed on and not recorded: %s", session_id, type(error).__name__)


def _upstream(path: str, headers: "Iterable[tuple[bytes, bytes]]") -> tuple[str, str]:
    """Return the variable that names the endpoint for a request, and the endpoint."""
    names = {name.lower() for name, _ in headers}
    version = "" if path.startswith(("/v1alpha/", "/v1beta/")) else "/v1"
    # Both companies' clients name themselves in a header, also for paths that OpenAI has too, such as `/models`.
    if path.startswith("/messages") or b"anthropic-version" in names:
        company, default = UPSTREAM_ANTHROPIC, ANTHROPIC
    elif not version or b"x-goog-api-key" in names:
        company, default = UPSTREAM_GEMINI, GEMINI
    else:
        return UPSTREAM, (os.environ.get(UPSTREAM) or OPENAI).rstrip("/")
    # An endpoint that was named takes all calls: they must not go to another company because a setting is missing.
    setting = UPSTREAM if os.environ.get(UPSTREAM) and not os.environ.get(company) else company
    # Both companies' addresses are written without a version, the named endpoint's with one.
    return setting, (os.environ.get(setting) or default).rstrip("/").removesuffix("/v1") + version


def _headers(headers: "Iterable[tuple[bytes, bytes]]") -> dict[str, str]:
    """Return the headers that may name a conversation, by their lower-case names."""
    from memory_inspector.recorder.callers import NAMES

    pairs = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)
    return {name: value for name, value in pairs if name in NAMES}


def _coding(headers: "Iterable[tuple[bytes, bytes]]") -> str:
    """Return the content coding that the headers name."""
    return b",".join(value for name, value in headers if name.lower() == b"content-encoding").decode("latin-1")


def _passed_on(headers: "Iterable[tuple[bytes, bytes]]") -> list[tuple[bytes, bytes]]:
    """Return the headers without cookies, hop-by-hop headers and those that a Connection header names."""
    pairs = list(headers)
    named = b",".join(value for name, value in pairs if name.lower() == b"connection").lower()
    staying = _STAYING | {header.strip() for header in named.split(b",")}
    return [pair for pair in pairs if pair[0].lower() not in staying]


def _sandboxed(send: "Send") -> "Send":
    """Add headers to every answer that keep a browser from running it as a page."""
    ours = {name for name, _ in _SANDBOXED}

    async def send_sandboxed(message: "Message") -> None:
        if message["type"] == "http.response.start":
            theirs = [pair for pair in message.get("headers", ()) if pair[0].lower() not in ours]
            message = {**message, "headers": [*theirs, *_SANDBOXED]}
        await send(message)

    return send_sandboxed


async def _refuse_upgrade(scope: "Scope", send: "Send") -> None:
    """Ask for HTTP: with 426, Codex 0.171.0 goes on at once; with 403 it asks six times more."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.http.response.start", "status": 426, "headers": [(b"upgrade", b"HTTP/1.1")]})
    await send({"type": "websocket.http.response.body", "body": b"Calls are recorded over HTTP."})


async def _refuse(send: "Send", status: int, message: str) -> None:
    """Send an error in the form that OpenAI's and Anthropic's clients read."""
    error = {"message": message, "type": "memory_inspector", "param": None, "code": None}
    body = json.dumps({"type": "error", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [CHALLENGE] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
