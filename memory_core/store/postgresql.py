"""Connections to a PostgreSQL server on which nobody waits without end: not for what somebody else holds, not for a
statement, and not for a server that was frozen or cut off and does not even say that it is gone.
"""

import time
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from sqlalchemy import Engine, event

CONNECT_TIMEOUT_SECONDS = 10
"""How long a server may take to let somebody in."""

LOCK_TIMEOUT_SECONDS = 30
"""How long a statement waits for what another transaction holds, as long as on SQLite."""

STATEMENT_TIMEOUT_SECONDS = 60
"""How long one statement may take; the longest here, of a session of 100,000 messages, take some seconds."""

ANSWER_SECONDS = 70
"""How long a server may say nothing: longer than it takes to end a statement by itself."""

TOO_LONG: dict[str, Callable[[], str]] = {
    "55P03": lambda: "waited too long for another program's transaction.",
    "57014": lambda: f"did not finish one statement within {STATEMENT_TIMEOUT_SECONDS} s.",
}
"""By PostgreSQL's code of the error (lock not available, query canceled): what took too long."""


def limit_waiting(engine: Engine) -> None:
    """Have all connections of an engine wait no longer than this."""
    event.listen(engine, "do_connect", _connect)
    event.listen(engine, "connect", _set_limits)


def _connect(_dialect: Any, _record: Any, positional: Any, named: Any) -> Any:
    return _limited().connect(*positional, **named)


def _set_limits(connection: Any, _record: Any) -> None:
    connection.autocommit = True  # or a rollback takes the settings back
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        cursor.execute(f"SET statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
    connection.autocommit = False


@cache
def _limited() -> Any:
    """The driver's connection class, with an end to all waiting. Loaded when a server is first asked."""
    import psycopg

    class Limited(psycopg.Connection):  # type: ignore[type-arg,misc,unused-ignore]
        def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
            return super().wait(self._ending(gen), *more, **named)

        def _ending(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """The driver's own steps: one whenever something came, ten a second where nothing does."""
            until = time.monotonic() + ANSWER_SECONDS
            try:
                wanted = next(waiting)
                while True:
                    came = yield wanted
                    if not came and time.monotonic() > until:
                        self.pgconn.finish()  # nobody knows what it still does: the pool makes another
                        raise psycopg.OperationalError(f"it has not said anything for {ANSWER_SECONDS} s")
                    wanted = waiting.send(came)
            except StopIteration as done:
                return done.value

    return Limited
