"""Record an agent's spans and their log records, received with OTLP/HTTP at `/v1/traces` and `/v1/logs`.

An agent is attached by one variable: `OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:8501`. Spans are acknowledged once
they are stored; requests that arrive during a transaction are stored together by the next one. If too much waits, or
the database does not answer, the exporter is told to retry; spans that it sends twice are recorded once.
"""

import gzip
import io
import json
import logging
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
from starlette.datastructures import Headers

from memory_inspector.recorder.attaching import (
    CHALLENGE,
    NoRoomError,
    Room,
    Tokens,
    admit,
    no_other_host,
    refused_spans,
    whole_body,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_inspector.recorder.otlp import LogRecord, SpanExport
    from memory_inspector.recorder.receiving import Receiver, Refusals

TRACES, LOGS, METRICS = "/v1/traces", "/v1/logs", "/v1/metrics"
"""Paths that are answered. Metrics, which exporters send to the same address, are accepted and dropped."""

PROTOBUF, JSON = "application/x-protobuf", "application/json"
"""Content types, as in `memory_inspector.recorder.otlp`, which is loaded only with the first request."""

MAX_BODY_BYTES = 32 * 2**20
"""Maximum bytes of a request, packed or unpacked: parsing that many takes half a second, in which no page is drawn."""

MAX_WAITING_BYTES = 2 * MAX_BODY_BYTES
"""Maximum bytes that wait to be stored; above it, requests are answered with status 503."""

BATCH_BYTES = 8 * 2**20
"""Maximum bytes of requests stored in one transaction, which then blocks other writers for about a second."""

MAX_THREADS = 32
"""Maximum threads on which requests wait, apart from the app's threads for pages."""

AGAIN_SECONDS = 1
"""Seconds after which a rejected exporter may retry."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Waiting:
    """A request that waits to be stored; afterwards it holds its refused spans, or the error."""

    body: bytes
    content_type: str
    tenant: str
    refused: "Refusals | None" = None
    error: Exception | None = None

    @property
    def done(self) -> bool:
        return self.refused is not None or self.error is not None


class SpanReceiver:
    """ASGI middleware that answers OTLP's paths and leaves everything else alone."""

    def __init__(
        self,
        app: "ASGIApp",
        open_receiver: "Callable[[str], Receiver]",
        *,
        host_allowed: "Callable[[str], bool]" = no_other_host,
        tokens: Tokens | None = None,
    ) -> None:
        """Store spans with the receiver that `open_receiver` returns at the first request of a tenant.

        `tokens`: those of agents, sent as `Authorization: Bearer`; None: only programs on this machine are served.
        """
        self.app = app
        self._open_receiver, self._host_allowed, self._tokens = open_receiver, host_allowed, tokens
        self._receivers: dict[str, Receiver] = {}
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._room = Room(MAX_WAITING_BYTES)
        self._unpacking: anyio.CapacityLimiter | None = None
        # One at a time: a transaction has the database to itself anyway, and requests that wait share the next one.
        self._storing = threading.Lock()
        self._threads: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or scope["path"] not in (TRACES, LOGS, METRICS):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        form = headers.get("content-type", "").partition(";")[0].strip().lower()
        answer = _Answering(send, JSON if form == JSON else PROTOBUF)
        admitted = await admit(scope, bearer(headers), self._tokens, self._host_allowed)
        if admitted.problem is not None:
            again = AGAIN_SECONDS if admitted.status == 503 else None
            await answer.refuse(admitted.status, admitted.problem, again=again)
        elif scope["method"] != "POST":
            await answer.refuse(405, "Spans are sent with POST.")
        elif form not in (PROTOBUF, JSON):
            await answer.refuse(415, f"Send spans as {PROTOBUF} or {JSON}.")
        else:
            from memory_core.errors import LimitError

            encoding = headers.get("content-encoding", "identity").strip().lower()
            try:
                body = await self._body(receive, encoding)
            except NoRoomError:
                await answer.refuse(503, "More spans wait than can be stored at the moment.", again=AGAIN_SECONDS)
            # Before `ValueError`, its base class.
            except LimitError:
                await answer.refuse(413, f"A request has at most {MAX_BODY_BYTES >> 20} MB: send fewer spans at once.")
            except ValueError as error:
                await answer.refuse(400, str(error))
            else:
                if body is not None and scope["path"] == TRACES:
                    await self._take(_Waiting(body, form, admitted.tenant), answer)
                elif body is not None and scope["path"] == LOGS:
                    await self._keep_logs(_Waiting(body, form, admitted.tenant), answer)
                elif body is not None:
                    self._room.give_back(len(body))
                    await answer.dropped()

    async def _body(self, receive: "Receive", encoding: str) -> bytes | None:
        """Read and unpack a request, one at a time in a thread; None if the caller hung up. Its bytes count in `_room`.

        Raises:
            NoRoomError, LimitError, ValueError: see `whole_body` and `_unpacked`.
        """
        # Made here, as a limiter belongs to the event loop that runs the requests.
        if self._unpacking is None:
            self._unpacking, self._threads = anyio.CapacityLimiter(1), anyio.CapacityLimiter(MAX_THREADS)
        packed = await whole_body(receive, self._room, most=MAX_BODY_BYTES)
        if packed is None:
            return None
        try:
            body = await anyio.to_thread.run_sync(_unpacked, packed, encoding, limiter=self._unpacking)
        finally:
            # The packed bytes are gone now; the unpacked ones, which may be many more, are reserved anew.
            self._room.give_back(len(packed))
        if not self._room.take(len(body)):
            raise NoRoomError
        return body

    async def _take(self, waiting: _Waiting, answer: "_Answering") -> None:
        from memory_core import MessageError, StoreError

        with self._lock:
            self._waiting.append(waiting)
        try:
            await answer.stored(await anyio.to_thread.run_sync(self._stored, waiting, limiter=self._threads))
        except MessageError as error:
            await answer.refuse(400, f"Nothing was stored: {error}")
        except StoreError as error:
            _log.warning("Spans could not be stored, and the exporter is told to retry: %s", error)
            await answer.refuse(503, "The database cannot be reached.", again=AGAIN_SECONDS)
        except ImportError:
            await answer.refuse(501, "Reading spans needs one more package: pip install 'memory-inspector[app]'")
        except Exception as error:  # the text of an unforeseen error may quote the conversation
            _log.warning("Spans could not be stored: %s", type(error).__name__)
            await answer.refuse(500, f"Spans could not be stored: {type(error).__name__}.")

    async def _keep_logs(self, sent: _Waiting, answer: "_Answering") -> None:
        """Keep the contents of log records until their spans arrive, or store them with those that arrived before."""
        from memory_core import MessageError, StoreError

        def keep() -> "Sequence[LogRecord]":
            from memory_inspector.recorder.otlp import read_logs

            records = read_logs(sent.body, sent.content_type)
            self._opened(sent.tenant).logged.add(records)
            return records

        def store(records: "Sequence[LogRecord]") -> "Refusals":
            with self._storing:
                return self._opened(sent.tenant).store_late(records)

        try:
            records = await anyio.to_thread.run_sync(keep, limiter=self._unpacking)
            await answer.stored(await anyio.to_thread.run_sync(store, records, limiter=self._threads))
        except MessageError as error:
            await answer.refuse(400, f"Nothing was kept: {error}")
        except StoreError as error:
            _log.warning("Log records could not be stored, and the exporter is told to retry: %s", error)
            await answer.refuse(503, "The database cannot be reached.", again=AGAIN_SECONDS)
        except ImportError:
            await answer.refuse(501, "Reading logs needs one more package: pip install 'memory-inspector[app]'")
        finally:
            self._room.give_back(len(sent.body))

    def _stored(self, waiting: _Waiting) -> "Refusals":
        """Return the refused spans of a request once the others are stored, by this thread or by an earlier one."""
        # Another thread may have stored this one while it waited for its turn, and a batch may end before it.
        while not waiting.done:
            with self._storing:
                if not waiting.done:
                    self._store()
        if waiting.error is not None:
            raise waiting.error
        assert waiting.refused is not None
        return waiting.refused

    def _store(self) -> None:
        """Store the next waiting requests, and set the outcome of each."""
        from memory_core.process import measured

        batch = self._next()
        read: list[tuple[_Waiting, SpanExport]] = []
        for waiting in batch:
            try:
                read.append((waiting, _read(waiting)))
            except Exception as error:  # raised to the thread of its request
                waiting.error = error
        for tenant in dict.fromkeys(waiting.tenant for waiting, _ in read):
            together = [(waiting, export) for waiting, export in read if waiting.tenant == tenant]
            try:
                with measured("record", tenant):
                    stored = self._opened(tenant).store([export for _, export in together])
                for (waiting, export), refused in zip(together, stored, strict=True):
                    waiting.refused = refused
                    refused_spans.add(tenant, _sender(export), refused.reasons)
            except Exception as error:  # likewise, for all of the tenant
                for waiting, _ in together:
                    waiting.error = error
        # Only now: bodies are held in memory until their batch is stored.
        self._room.give_back(sum(len(waiting.body) for waiting in batch))

    def _next(self) -> list[_Waiting]:
        """Take the oldest waiting requests, up to `BATCH_BYTES` but at least one if any waits."""
        with self._lock:
            size = number = 0
            for waiting in self._waiting:
                size += len(waiting.body)
                # The first is taken at any size, or one above the limit would wait for ever.
                if number and size > BATCH_BYTES:
                    break
                number += 1
            batch, self._waiting = self._waiting[:number], self._waiting[number:]
        return batch

    def _opened(self, tenant: str) -> "Receiver":
        if tenant not in self._receivers:
            self._receivers[tenant] = self._open_receiver(tenant)
        return self._receivers[tenant]


class _Answering:
    """OTLP answers to one request, in its content type."""

    def __init__(self, send: "Send", content_type: str) -> None:
        self._send, self._content_type = send, content_type

    async def stored(self, refused: "Refusals") -> None:
        await self._succeed(refused.spans, "; ".join(refused.reasons))

    async def dropped(self) -> None:
        await self._succeed(0, "Only traces and logs are read here.")

    async def _succeed(self, spans: int, reason: str) -> None:
        """Answer with success, partial if spans were refused; answers for metrics and logs have the same fields."""
        if self._content_type == JSON:
            # Protobuf's JSON writes 64-bit numbers as text.
            partial = {"partialSuccess": {"rejectedSpans": str(spans), "errorMessage": reason}} if reason else {}
            await self._answer(200, json.dumps(partial).encode())
            return
        body = b""
        if reason:
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service

            partly = service.ExportTracePartialSuccess(rejected_spans=spans, error_message=reason)
            body = service.ExportTraceServiceResponse(partial_success=partly).SerializeToString()
        await self._answer(200, body)

    async def refuse(self, status: int, message: str, *, again: int | None = None) -> None:
        """Answer with an error as `google.rpc.Status`; `again`: seconds after which the exporter may retry."""
        body = json.dumps({"message": message}).encode() if self._content_type == JSON else _status(message)
        more = [(b"retry-after", str(again).encode())] if again is not None else []
        await self._answer(status, body, *more, *([CHALLENGE] if status == 401 else []))

    async def _answer(self, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
        size = str(len(body)).encode()
        headers = [(b"content-type", self._content_type.encode()), (b"content-length", size), *more]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


def bearer(headers: Headers) -> str | None:
    """Return the token of an agent. Other values of the header are for other receivers of the same exporter."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip().startswith("mi_") else None


def _status(message: str) -> bytes:
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess
    except ImportError:  # the message says so, as plain text
        return message.encode()
    # Field 2 is the message of both, so that no second package is needed for `Status`.
    encoded: Any = ExportTracePartialSuccess(error_message=message).SerializeToString()
    return bytes(encoded)


def _sender(export: "SpanExport") -> str:
    """Return the name of the program that sent a request."""
    return str(next((span.resource.get("service.name") for span in export.spans), None) or "an agent")[:80]


def _read(waiting: _Waiting) -> "SpanExport":
    from memory_inspector.recorder.otlp import read_export

    return read_export(waiting.body, waiting.content_type)


def _unpacked(body: bytes, encoding: str) -> bytes:
    """Return the decompressed body.

    Raises:
        LimitError: it is larger than `MAX_BODY_BYTES`.
        ValueError: the encoding is not supported, or the body is invalid in it.
    """
    from memory_core.limits import Budget

    budget = Budget("request", bytes=MAX_BODY_BYTES)
    if encoding == "identity":
        budget.take(bytes=len(body))
        unpacked = body
    elif encoding == "gzip":
        try:  # all members, as some clients compress in pieces; never more than the limit
            unpacked = b"".join(budget.pieces(gzip.GzipFile(fileobj=io.BytesIO(body))))
        except EOFError:
            raise ValueError("The request was cut off.") from None
        except (OSError, zlib.error):  # in the first member, or in what follows it
            raise ValueError("The request is not valid gzip data, or more data follows it.") from None
    elif encoding == "deflate":
        unpacking = zlib.decompressobj()
        try:
            # One byte above the limit, so that the budget distinguishes a larger body from one of just that size.
            unpacked = unpacking.decompress(body, MAX_BODY_BYTES + 1)
        except zlib.error:
            raise ValueError("The request is not valid deflate data.") from None
        budget.take(bytes=len(unpacked))
        if not unpacking.eof or unpacking.unused_data:
            raise ValueError("The request was cut off, or more data follows it.")
    else:
        raise ValueError("Compress requests with gzip, or not at all.")
    return unpacked
