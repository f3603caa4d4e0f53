"""Connections to a PostgreSQL server with a bound on every wait: for locks, for statements, and for a server that was
frozen or cut off and never answers."""

import time
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from sqlalchemy import Engine, event

CONNECT_TIMEOUT_SECONDS = 10
"""Seconds to wait for a connection."""

LOCK_TIMEOUT_SECONDS = 30
"""Maximum seconds that a statement waits for another transaction's lock; the same as on SQLite."""

STATEMENT_TIMEOUT_SECONDS = 60
"""Maximum seconds of one statement; the slowest of this package take some seconds with 100,000 messages."""

ANSWER_SECONDS = 70
"""Maximum seconds of silence of a server: longer than its statement timeout."""

TOO_LONG: dict[str, Callable[[], str]] = {
    "55P03": lambda: "waited too long for another program's transaction.",
    "57014": lambda: f"did not finish one statement within {STATEMENT_TIMEOUT_SECONDS} s.",
}
"""Reason by PostgreSQL error code (lock not available, query canceled)."""


def limit_waiting(engine: Engine) -> None:
    """Set the time limits of this module on all connections of an engine."""
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "connect", _set_limits)


def _connect(_dialect: Any, _record: Any, positional: Any, named: Any) -> Any:
    return _limited().connect(*positional, **named)


def _set_limits(connection: Any, _record: Any) -> None:
    connection.autocommit = True  # otherwise a rollback would undo the settings
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        cursor.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
    connection.autocommit = False


@cache
def _limited() -> Any:
    """Return the driver's connection class with bounded waits. Loaded at the first connection."""
    import psycopg

    class Limited(psycopg.Connection):  # type: ignore[type-arg,misc,unused-ignore]
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

    return Limited
