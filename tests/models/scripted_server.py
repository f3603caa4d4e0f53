"""An OpenAI-compatible server on 127.0.0.1 that answers each request with the next step of a script."""

import json
import sys
import threading
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Step:
    """One answer: a JSON or raw body, or pieces of a stream."""

    status: int = 200
    body: object = None
    headers: dict = field(default_factory=dict)
    stream: list | None = None
    """Server-sent events: strings are sent as they are, dicts as JSON; numbers wait that many seconds, and events of
    `threading` until they are set, at most a minute."""
    delay: float = 0
    break_off: bool = False
    """Close the connection after the last piece, without the end of the body."""
    content_type: str = "application/json"


def completion(text, *, finish="stop", usage=(11, 7), **message):
    """A finished chat completion."""
    body = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
        ],
    }
    if usage:
        body["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return Step(body=body)


def chunk(text=None, *, finish=None, **delta):
    """One event of a streamed completion."""
    delta = {**delta, **({"content": text} if text is not None else {})}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def usage_chunk(prompt, output):
    """The last event when usage was asked for: no choices."""
    event = chunk()
    event["choices"] = []
    event["usage"] = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return event


def streamed(*pieces, finish="stop", usage=None):
    """A whole streamed reply."""
    events = [chunk(role="assistant"), *(chunk(piece) for piece in pieces), chunk(finish=finish)]
    if usage:
        events.append(usage_chunk(*usage))
    return Step(stream=[*events, "[DONE]"])


def refusal(status, message, *, code=None, **headers):
    """An error as OpenAI words them."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Step(status, {"error": {"message": message, "type": "x", "param": None, "code": code}}, names)


def embeddings(*vectors, start=0):
    """An answer of `/embeddings`, last entry first: clients must go by `index`."""
    data = [{"object": "embedding", "index": start + i, "embedding": vector} for i, vector in enumerate(vectors)]
    body = {"object": "list", "model": "m", "data": data[::-1], "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    return Step(body=body)


def learned(body):
    """What a model learns from anything: one fact, relation or sentence, made of what it was asked."""
    told = f"Noted {zlib.crc32(json.dumps(body['messages']).encode()):08x}"
    relation = {"subject": "The user", "predicate": "knows", "object": told, "ended": False, "message": 1}
    types = {"subject_type": "person", "object_type": "thing"}
    fact = {"text": told, "category": "other", "topics": [], "message": 1, "stands_for": [1, 2]}
    answers = {"facts": [fact], "relations": [relation | types], "summary": f"{told}.", "decisions": [], "skipped": []}
    return completion(json.dumps(answers))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that hangs up is part of some scripts; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ScriptedServer:
    """Answers with `script`'s steps in order and keeps what was asked.

    One function in place of steps makes the step of each body: for those that ask in no order."""

    def __init__(self, *script):
        self.script = script[0] if script and callable(script[0]) else deque(script)
        self.requests = []
        """`(path, headers, body)` of every request."""
        self.dropped = threading.Event()
        """Set when the client closed the connection while it was being written to."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(raw)
                outer.requests.append((self.path, dict(self.headers), body))
                step = outer.script(body) if callable(outer.script) else outer.script.popleft()
                try:
                    outer.play(self, step)
                except (BrokenPipeError, ConnectionResetError):
                    outer.dropped.set()
                    self.close_connection = True

            def log_message(self, *args):
                """Say nothing."""

        self.http = _Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def play(self, handler, step):
        time.sleep(step.delay)
        if step.stream is None:
            body = step.body if isinstance(step.body, str) else json.dumps(step.body)
            data = body.encode()
            handler.send_response(step.status)
            handler.send_header("content-type", step.content_type)
            handler.send_header("content-length", str(len(data) + (100 if step.break_off else 0)))
            for name, value in step.headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(data)
            handler.close_connection = handler.close_connection or step.break_off
            return
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for event in step.stream:
            if isinstance(event, int | float):
                time.sleep(event)
                continue
            if isinstance(event, threading.Event):
                event.wait(60)
                continue
            text = event if isinstance(event, str) else json.dumps(event)
            data = f"data: {text}\n\n".encode()
            handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            handler.wfile.flush()
        if step.break_off:
            handler.close_connection = True
        else:
            handler.wfile.write(b"0\r\n\r\n")

    @property
    def bodies(self):
        return [body for _, _, body in self.requests]

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()
