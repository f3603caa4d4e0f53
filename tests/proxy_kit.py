"""The recording proxy on a port of loopback, and what it recorded."""

import http.server
import socket
import threading
import time

import uvicorn
from hypothesis import strategies as st
from openai import OpenAI
from starlette.applications import Starlette

from memory_core import Memory, Services, list_sessions
from memory_core.engine.session import Session
from memory_core.history.contexts import is_context
from memory_inspector.recorder.recording_proxy import RecordingProxy
from ui.server.start import host_allowed

KEY = "sk-never-kept-anywhere"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["id", "type", "text", "index", "name", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
"""Any JSON, under names that calls have."""


class Endpoint:
    """A server that answers with given pieces of bytes, and keeps path, headers and body of each request."""

    def __init__(self):
        self.requests = []
        self.answer(b"{}")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                outer.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(outer.status)
                for name, value in {"transfer-encoding": "chunked", **outer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in filter(None, outer.pieces):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if outer.breaks_off:
                    self.close_connection = True
                else:
                    self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST

            def log_message(self, *args):
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, *pieces, status=200, breaks_off=False, **headers):
        """Answer so from now on; `breaks_off`: the connection ends before the body does."""
        self.pieces, self.status, self.breaks_off = list(pieces), status, breaks_off
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Attached:
    """The proxy on a port of its own, in front of a scripted endpoint, with a database."""

    def __init__(self, database, tokens=None, tenants=None, app=None):
        self.database = database
        self.services = Services()
        self.clients = []

        def opened(id, tenant):
            return Session((tenants or {}).get(tenant, database), id, services=self.services)

        self.proxy = RecordingProxy(app or Starlette(), opened, host_allowed=host_allowed, tokens=tokens)
        self.open = 0
        config = uvicorn.Config(
            self._counted, interface="asgi3", port=0, log_config=None, lifespan="on", loop="asyncio"
        )
        self.server = uvicorn.Server(config)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)
        self.thread.start()

    async def _counted(self, scope, receive, send):
        self.open += scope["type"] == "http"
        try:
            await self.proxy(scope, receive, send)
        finally:
            self.open -= scope["type"] == "http"

    def settle(self):
        """Wait until everything that was asked is recorded: a client may have its answer a little earlier."""
        until = time.monotonic() + 10
        while self.open and time.monotonic() < until:
            time.sleep(0.005)
        self.proxy._recorder.submit(int).result(10)

    def url(self, session_id="agent"):
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}/record/{session_id}/v1"

    def client(self, session_id="agent"):
        self.clients.append(OpenAI(base_url=self.url(session_id), api_key=KEY, max_retries=0))
        return self.clients[-1]

    def memory(self, session_id="agent"):
        """The session, once everything that ended was recorded."""
        self.settle()
        return Memory.open(session_id, self.database, services=self.services)

    def known(self, session_id):
        """Whether a call was recorded in a session of this name."""
        self.settle()
        return session_id in {each.session_id for each in list_sessions(self.database)}

    def prompts(self, session_id="agent"):
        """The messages of every recorded prompt, as (role, words)."""
        memory = self.memory(session_id)
        records = [record for record in memory.log.history().records if is_context(record.event)]
        return [[(str(m.role), m.content) for m in memory.log.prompt(record).messages] for record in records]

    def calls(self, session_id="agent"):
        return [record.event for record in self.memory(session_id).events(kinds=["model_called"])]

    def __enter__(self):
        until = time.monotonic() + 10
        while not self.server.started and time.monotonic() < until:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        for client in self.clients:
            client.close()
        self.server.should_exit = True
        self.thread.join(10)
        self.socket.close()
