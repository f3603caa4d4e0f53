"""A proxy in front of a PostgreSQL server that counts round trips; for tests and benchmarks."""

import socket
import socketserver
import threading
from contextlib import suppress

from memory_core.store.database import parse_url


class Proxy:
    """A server on loopback that passes bytes on, counts the requests that the client waits for, and can cut all off."""

    def __init__(self, url):
        self.requests = 0
        self._sockets = []
        target = parse_url(url)
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                with socket.create_connection((target.host, target.port)) as upstream:
                    proxy._sockets.append(upstream)
                    back = threading.Thread(target=copy, args=(upstream, self.request))
                    back.start()
                    copy(self.request, upstream, proxy._count())
                    back.join()

        def copy(source, sink, counting=None):
            try:
                while data := source.recv(65536):
                    if counting:
                        counting(data)
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # cut off

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = target.set(port=self._server.server_address[1]).render_as_string(hide_password=False)

    def _count(self):
        """Return a function that reads a client's bytes: messages of a type byte and a length, after the start."""
        waiting, started = bytearray(), False

        def read(data):
            nonlocal started
            waiting.extend(data)
            while len(waiting) >= 5:
                head = 1 if started else 0
                size = head + int.from_bytes(waiting[head : head + 4], "big")
                if len(waiting) < size:
                    return
                # Sync, Flush and a simple query: each makes the server answer.
                self.requests += started and waiting[:1] in (b"S", b"H", b"Q")
                started = started or size != 8  # 8 bytes ask for encryption, before the start
                del waiting[:size]

        return read

    def cut(self):
        while self._sockets:
            with suppress(OSError):  # it is closed already
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def close(self):
        self.cut()
        self._server.shutdown()
        self._server.server_close()
