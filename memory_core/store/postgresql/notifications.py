"""Notifications between the processes of one PostgreSQL database, in place of frequent polling.

Nothing depends on them: they may be lost with a connection or a process, and SQLite and poolers pass none on. Whoever
waits for a change therefore also looks at an interval.
"""

import hashlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, text

from memory_core.errors import StoreError

DELIVERIES = "deliveries"
"""Topic: deliveries became due, in any session."""

PAUSE_SECONDS = 0.25
"""Seconds between two notifications of a process. Each takes a lock of the whole server at its commit, so puts do not
notify in their own transactions: those of many puts are sent together."""

LISTEN_SECONDS = 5.0
"""Seconds after which a listener checks whether it is still needed, and after a failure tries again."""

_NOTIFY = text("SELECT pg_notify('memory_news', topic) FROM unnest(CAST(:topics AS text[])) AS topic")

_log = logging.getLogger(__name__)


class Notifications:
    """Sender and receiver of notifications of changes. Thread-safe.

    A topic is a session's id, the key of a lease, or `DELIVERIES`.
    """

    def __init__(
        self,
        tenant: str = "",
        transaction: Callable[[], Callable[[], AbstractContextManager[Connection]] | None] | None = None,
        connect: Callable[[], Any] | None = None,
    ) -> None:
        """`transaction` returns the database's `write` while the database exists; None: nothing is sent.

        `connect` opens a connection to listen with; None: nothing is received.
        """
        self._tenant = tenant
        self._transaction = transaction
        self._connect = connect
        self._condition = threading.Condition()
        self._pending: set[str] = set()
        self._sending = False
        self._counts: Counter[str] = Counter()
        self._listener: threading.Thread | None = None
        self._listening = False
        self._closed = False

    def send(self, *topics: str) -> None:
        """Notify all processes of a change, soon and in the background; call it after the commit."""
        if self._transaction is None or self._closed:
            return
        names = [self._name(topic) for topic in topics]
        with self._condition:
            # In this process at once: a page that wrote must not take its own change for another's.
            self._count(names)
            self._pending.update(names)
            if self._sending:
                return
            self._sending = True
        threading.Thread(target=self._send, name="memory-notification-sender").start()

    def count(self, topic: str) -> int | None:
        """Return how many notifications of a topic were received so far; None while this process receives none."""
        with self._condition:
            self._listen()
            return self._counts[self._name(topic)] if self._listening else None

    def wait(
        self,
        topic: str,
        seconds: float,
        *,
        since: int | None,
        polling: float,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Wait for a notification of a topic since `count`, at most so many seconds; `polling` while none are received.

        `stopped` ends the wait; it is asked again after each `wake`.
        """
        name = self._name(topic)
        with self._condition:
            receives = since is not None and self._listening
            self._condition.wait_for(
                lambda: self._closed or stopped() or (receives and self._counts[name] != since),
                seconds if receives else polling,
            )

    def wake(self) -> None:
        """Make everyone who waits ask whether to stop."""
        with self._condition:
            self._condition.notify_all()

    def close(self) -> None:
        """Stop listening, and wake everyone who waits."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _count(self, names: list[str]) -> None:
        if self._listening:
            self._counts.update(names)
            self._condition.notify_all()

    def _name(self, topic: str) -> str:
        # A hash, as processes of all tenants receive all notifications.
        return hashlib.sha256(f"{self._tenant}\n{topic}".encode()).hexdigest()[:32]

    def _send(self) -> None:
        assert self._transaction is not None
        while True:
            with self._condition:
                topics, self._pending = sorted(self._pending), set()
                if not topics:
                    self._sending = False
                    return
            try:
                if (write := self._transaction()) is not None:
                    with write() as connection:
                        connection.execute(_NOTIFY, {"topics": topics})
                    del write  # it would keep the database open
            except StoreError as error:  # others see the change when they look the next time
                _log.info("notifications could not be sent: %s", error)
            time.sleep(PAUSE_SECONDS)

    def _listen(self) -> None:
        if self._listener is None and self._connect is not None and not self._closed:
            self._listener = threading.Thread(target=self._receive, name="memory-notification-listener", daemon=True)
            self._listener.start()

    def _receive(self) -> None:
        assert self._connect is not None
        while not self._closed:
            try:
                with self._connect() as connection:
                    connection.execute("LISTEN memory_news")
                    self._set_listening(True)
                    while not self._closed:
                        for message in connection.notifies(timeout=LISTEN_SECONDS, stop_after=1):
                            with self._condition:
                                self._count([message.payload])
            # Any error of the driver, which may not be installed: whoever waits looks at an interval meanwhile.
            except Exception as error:
                _log.info("notifications cannot be received: %s", type(error).__name__)
            self._set_listening(False)
            with self._condition:
                self._condition.wait_for(lambda: self._closed, LISTEN_SECONDS)

    def _set_listening(self, listening: bool) -> None:
        with self._condition:
            self._listening = listening
            self._condition.notify_all()
