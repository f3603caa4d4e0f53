"""Figures of a database in use, for monitoring: what was done, and what waits."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from memory_core.store.database import Database
from memory_core.store.totals import count_new_events, count_sessions, newest_position, read_backlog

RECENT_SECONDS = 900.0
"""Seconds before a measurement whose deliveries count for the time that learning takes."""


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of one tenant at one time."""

    sessions: int
    waiting: int
    """Deliveries that wait for their next attempt."""
    parked: int
    """Deliveries that are tried again only when a person asks for it."""
    oldest_seconds: float
    """Seconds that the oldest waiting delivery has waited; 0 without any."""
    learned_after: tuple[float, ...]
    """Seconds from due to learned of each delivery done in the last `RECENT_SECONDS`, ascending."""
    events: Mapping[str, int]
    """Number of events since the first measurement, by kind: `message_added`, `context_built`, ..."""


class LoadMeter:
    """Measures one tenant's database again and again. Events stored before the first measurement do not count."""

    def __init__(self) -> None:
        self._position: int | None = None
        self._events: Counter[str] = Counter()

    def measure(self, database: Database) -> Load:
        """Return the present figures.

        Raises:
            StoreError: the database cannot be read.
        """
        now = time.time()
        with database.read() as connection:
            newest = newest_position(connection)
            if self._position is not None:
                self._events.update(count_new_events(connection, self._position, newest))
            backlog = read_backlog(connection, done_since=now - RECENT_SECONDS)
            sessions = count_sessions(connection)
        self._position = newest
        oldest = max(0.0, now - backlog.oldest) if backlog.oldest is not None else 0.0
        return Load(sessions, backlog.waiting, backlog.parked, oldest, backlog.learned_after, dict(self._events))
