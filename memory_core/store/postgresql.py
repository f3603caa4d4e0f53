"""PostgreSQL: connections with few round trips and bounded waits, and notifications between processes.

A connection works in pipeline mode: `executemany` only queues its statements, and the next `execute` or commit sends
them and waits for all results. A transaction that reads once and then only writes thus takes two round trips. Waits end
for locks, for statements, and for a server that was frozen or cut off and never answers.
"""

import hashlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DisconnectionError

from memory_core.errors import StoreError

CONNECT_TIMEOUT_SECONDS = 10
"""Seconds to wait for a connection."""

LOCK_TIMEOUT_SECONDS = 30
"""Maximum seconds that a statement waits for another transaction's lock; the same as on SQLite."""

STATEMENT_TIMEOUT_SECONDS = 60
"""Maximum seconds of one statement; the slowest of this package take some seconds with 100,000 messages."""

IDLE_IN_TRANSACTION_SECONDS = 300
"""Seconds between two statements of a transaction after which the server ends it, as a client that was cut off holds
its locks otherwise."""

ANSWER_SECONDS = 70
"""Maximum seconds of silence of a server: longer than its statement timeout."""

IDLE_SECONDS = 30
"""Seconds without use after which a connection is tested before its next use, as firewalls drop idle ones."""

MAX_QUEUED = 500
"""Statements of one transaction that are queued before they are sent, to bound the memory for their values."""

POOLER = "pgbouncer"
"""Parameter of a URL: `?pgbouncer=true` says that a pooler lends a server's connection for one transaction only."""

_ONE_VIEW = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"

TOO_LONG: dict[str, Callable[[], str]] = {
    "55P03": lambda: "waited too long for another program's transaction.",
    "57014": lambda: f"did not finish one statement within {STATEMENT_TIMEOUT_SECONDS} s.",
}
"""Reason by PostgreSQL error code (lock not available, query canceled)."""


def open_postgresql(url: URL) -> Engine:
    """Return an engine with up to 24 connections for all threads of this process."""
    engine = create_engine(url, use_native_hstore=False, pool_size=16, max_overflow=8)
    engine.dialect.execution_ctx_cls = _queueing(engine.dialect.execution_ctx_cls)
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "checkout", _test_if_doubtful)
    return engine


def is_pooled(url: URL) -> bool:
    """Return whether a URL names a pooler, behind which settings last for one transaction and nobody can LISTEN."""
    return url.query.get(POOLER) == "true"


def listening(engine: Engine) -> Callable[[], Any] | None:
    """Return a function that opens a connection to listen with; None behind a pooler and for a caller's engine."""
    if is_pooled(engine.url) or not hasattr(engine.dialect.execution_ctx_cls, "only_queues"):
        return None

    def connect() -> Any:
        import psycopg

        positional, named = engine.dialect.create_connect_args(engine.url)
        named = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, **named}
        return psycopg.connect(*positional, autocommit=True, **named)

    return connect


def time_limits() -> dict[str, str]:
    """Return the settings that limit waits for locks and statements, and of the server for the next statement."""
    return {
        "lock_timeout": f"{LOCK_TIMEOUT_SECONDS}s",
        "statement_timeout": f"{STATEMENT_TIMEOUT_SECONDS}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_SECONDS}s",
    }


def begin(connection: Connection, settings: Mapping[str, str], *, reads: bool = False) -> None:
    """Begin a transaction with settings that end with it. Costs no round trip on a connection of this module.

    `reads`: the transaction only reads, and sees one state of the database.
    """
    driver = connection.connection.driver_connection
    if isinstance(driver, _pipelined()):
        driver.begin(settings, reads=reads)
        return
    # The caller's own connection begins transactions by itself.
    if reads:
        connection.exec_driver_sql(f"SET TRANSACTION {_ONE_VIEW}")
    for name, value in settings.items():
        connection.execute(text("SELECT set_config(:name, :value, true)"), {"name": name, "value": value})


def _connect(_dialect: Any, _record: Any, positional: Any, named: Any) -> Any:
    pooled = named.pop(POOLER, "") == "true"
    # Behind a pooler the next transaction may get another server connection, which knows none of the prepared ones.
    named = {"connect_timeout": CONNECT_TIMEOUT_SECONDS, "prepare_threshold": None if pooled else 5, **named}
    connection = _pipelined().connect(*positional, autocommit=True, **named)
    connection.start(settings={} if pooled else time_limits())
    return connection


def _test_if_doubtful(connection: Any, _record: Any, _proxy: Any) -> None:
    """Test a connection that was idle for long, or on which the server said something, such as that it stops."""
    import psycopg

    try:
        if connection.doubtful():
            connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise DisconnectionError from error


def _queueing(context: Any) -> Any:
    """Return a class of SQLAlchemy's execution contexts that only queues changes, as they return no rows."""

    class Queueing(context):  # type: ignore[misc]
        only_queues = False

        def create_default_cursor(self) -> Any:
            cursor = super().create_default_cursor()
            changes = self.isinsert or self.isupdate or self.isdelete
            self.only_queues = cursor.queues = changes and not self.compiled.effective_returning
            return cursor

        def create_server_side_cursor(self) -> Any:
            self.root_connection.connection.driver_connection.leave_pipeline()
            return super().create_server_side_cursor()

        @property
        def rowcount(self) -> int:
            if self.only_queues:
                self.root_connection.connection.driver_connection.sync()
                return int(self.cursor.rowcount)
            return int(super().rowcount)

    return Queueing


@cache
def _pipelined() -> Any:
    """Return the driver's connection class in pipeline mode with bounded waits. Loaded at the first connection."""
    import psycopg
    from psycopg.adapt import PyFormat, Transformer
    from psycopg.pq import TransactionStatus
    from psycopg.waiting import Ready, Wait, wait

    class Cursor(psycopg.Cursor):  # type: ignore[type-arg,misc,unused-ignore]
        queues = False
        """True if the statement returns no rows, so that nobody waits for its result."""

        def execute(self, *arguments: Any, **options: Any) -> Any:
            super().execute(*arguments, **options)
            if not self.queues:
                self.connection.sync()  # type: ignore[attr-defined]
            return self

        @property
        def description(self) -> Any:
            """Return names and types of the columns. The driver's own values have more, and take long to create."""
            result: Any = self.pgresult
            if result is None or not result.nfields:
                return None
            fields = range(result.nfields)
            return [(result.fname(i).decode(), result.ftype(i), None, None, None, None, None) for i in fields]

    class Query:
        """A statement as the driver sends it, with its values as text, whose types the server knows."""

        types = formats = None

        def __init__(self, sql: str, params: Any) -> None:
            self.query, self.params = sql.encode(), params

    class Direct(psycopg.Cursor):  # type: ignore[type-arg,misc,unused-ignore]
        """Cursor for statements with numbered parameters. They are only queued, as long as nobody asks for rows."""

        def __init__(self, connection: Any) -> None:
            super().__init__(connection)
            self._tx = Transformer(self)

        def execute(self, sql: str, values: Sequence[object] = ()) -> None:  # type: ignore[override,unused-ignore]
            params = self._tx.dump_sequence(values, [PyFormat.TEXT] * len(values)) if values else None
            self._results.clear()
            queueing = self._queueing(Query(sql, params))
            if self.connection._pipeline is None:
                self.connection.wait(queueing)
            else:
                deque(queueing, maxlen=0)  # nothing to wait for

        def executemany(self, sql: str, rows: Iterable[Sequence[object]]) -> None:  # type: ignore[override,unused-ignore]
            for values in rows:
                self.execute(sql, values)
                self.connection.send_if_many()  # type: ignore[attr-defined]

        def _queueing(self, query: Any) -> Generator[Any, Any, None]:
            # The driver's own way, without making a query and a cursor anew.
            yield from self._maybe_prepare_gen(query)
            yield from self.connection._prepared.maintain_gen(self.connection)

        def _set_results(self, results: Any) -> None:
            self._results[:] = results  # described only where its rows are read

        def fetchall(self) -> Any:
            self.connection.sync()  # type: ignore[attr-defined]
            self._select_current_result(0)
            return super().fetchall()

    class Pipeline(psycopg.Pipeline):
        _complete = False

        def _enqueue_sync(self) -> None:
            super()._enqueue_sync()
            self._complete = True

        def _communicate_gen(self) -> Generator[Any, Any, None]:
            """Send all statements at once before a wait. The driver would send each by itself, and poll in between."""
            if not self._complete and len(self.command_queue) < MAX_QUEUED:
                return
            self._complete = False
            while self.command_queue:
                self.command_queue.popleft()()
            while self.pgconn.flush():
                if (yield Wait.RW) & Ready.R:
                    self.pgconn.consume_input()

    class Pipelined(psycopg.Connection):  # type: ignore[type-arg,misc,unused-ignore]
        def start(self, settings: Mapping[str, str]) -> None:
            """Enter pipeline mode, and apply settings until the connection is closed."""
            self.cursor_factory = Cursor
            self._reads = False
            self._enter_pipeline()
            self.direct = Direct(self)
            self._set(settings, local=False)
            self.sync()
            self._used = time.monotonic()

        def begin(self, settings: Mapping[str, str], *, reads: bool) -> None:
            """Queue the beginning of a transaction."""
            self._enter_pipeline()
            self._reads = reads
            self.direct.execute(f"BEGIN {_ONE_VIEW}" if reads else "BEGIN")
            self._set(settings, local=True)

        def _set(self, settings: Mapping[str, str], *, local: bool) -> None:
            if settings:
                calls = (f"set_config(${place}, ${place + 1}, {local})" for place in range(1, 2 * len(settings), 2))
                self.direct.execute(f"SELECT {', '.join(calls)}", [part for item in settings.items() for part in item])

        def _enter_pipeline(self) -> None:
            # Not by the driver's context manager, as leaving it waits for the server once more.
            if self._pipeline is None:
                self._pipeline = Pipeline(self)
                self._pipeline.__enter__()

        def leave_pipeline(self) -> None:
            """Leave pipeline mode until the next transaction, as it allows no cursors on the server's side."""
            self.sync()
            self.pgconn.exit_pipeline_mode()
            self._pipeline = None

        def sync(self) -> None:
            """Send all queued statements and wait for their results; the first error is raised."""
            if self._pipeline is not None:
                self._pipeline.sync()

        def send_if_many(self) -> None:
            """Send the queued statements if they are many, to bound the memory for their values."""
            if self._pipeline is not None and len(self._pipeline.command_queue) >= MAX_QUEUED:
                self.wait(self._pipeline._communicate_gen())

        def _in_transaction(self) -> bool:
            # The driver does not count what is queued, as it was not sent.
            queued = self._pipeline is not None and self._pipeline.command_queue
            return bool(queued) or self.pgconn.transaction_status != TransactionStatus.IDLE

        def commit(self) -> None:
            if self._in_transaction():
                self.direct.execute("COMMIT")
                self.sync()
            self._used = time.monotonic()

        def rollback(self) -> None:
            # At a rollback the driver forgets its prepared statements, which is a waste after reading.
            if self._reads and self.pgconn.transaction_status == TransactionStatus.INTRANS:
                self.commit()
            while self._in_transaction():
                try:
                    super().rollback()
                # After an error the statements queued behind it still have to report that they were not executed.
                except psycopg.Error:
                    if self.broken:  # the server has rolled back; the pool finds out before the next use
                        break
            self._used = time.monotonic()

        def doubtful(self) -> bool:
            """Return whether the server may have gone away while the connection was idle."""
            return time.monotonic() - self._used > IDLE_SECONDS or bool(wait(_readable(), self.fileno(), 0))

        def close(self) -> None:
            super().close()
            self._pipeline = None  # it refers to this connection

        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            return super().wait(self._ending(gen), *more, **named)

        def _ending(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """Wrap the driver's wait loop, which steps whenever data arrives, and ten times a second without."""
            # Set for each wait anew: many statements in a row are no silence.
            until = time.monotonic() + ANSWER_SECONDS
            try:
                wanted = next(waiting)
                while True:
                    came = yield wanted
                    if not came and time.monotonic() > until:
                        self.pgconn.finish()  # its state is unknown: the pool opens another
                        raise psycopg.OperationalError(f"it has not said anything for {ANSWER_SECONDS} s")
                    wanted = waiting.send(came)
            # The wrapped generator hands over its result this way.
            except StopIteration as done:
                return done.value

    def _readable() -> Generator[Any, Any, bool]:
        return bool((yield Wait.R))

    return Pipelined


# -- notifications between processes --------------------------------------------------------------
# Nothing depends on them: they may be lost with a connection or a process, and SQLite and poolers pass none on. Whoever
# waits for a change therefore also looks at an interval.


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
