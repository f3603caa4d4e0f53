"""A session's log, cached in this process and updated before every read."""

from collections.abc import Callable, Collection
from threading import Lock

from memory_core.engine.session import Session
from memory_core.history.by_turn import Folding, History, StaleLogError
from memory_core.process import collector_paused
from memory_core.store import log_rows
from memory_core.store.database import Database


class Log:
    """Cached `History` of one session; an update reads only new events. Thread-safe."""

    def __init__(self) -> None:
        self._folding = Folding()
        self._lock = Lock()

    def catch_up(self, database: Database, session_id: str, progress: Callable[[int], None] | None = None) -> History:
        """Return the history up to the newest event; `progress` receives the number of events read so far."""
        with self._lock:
            try:
                return self._read(database, session_id, progress)
            # Events already read have changed: read all again into a new folding, which cannot be stale.
            except StaleLogError:
                self._folding = Folding()
                return self._read(database, session_id, progress)

    def unread(self, database: Database, session_id: str) -> int:
        """Return the number of events stored since the last update."""
        with database.read() as connection:
            return log_rows.count_events(connection, session_id, after=self._folding.position)

    def _read(self, database: Database, session_id: str, progress: Callable[[int], None] | None) -> History:
        with collector_paused(), database.read() as connection:
            after = self._folding.position
            new = log_rows.read_events(connection, session_id, after=after, progress=progress)
            return self._folding.apply(new)


def session_log(session: Session) -> Log:
    """Return this process's cached log of a session."""
    return session.services.cached(("history", session.database.id, session.id), Log)


def history_of_session(session: Session) -> History:
    """Return the whole log of a session by turn; each call reads only new events."""
    return session_log(session).catch_up(session.database, session.id)


def last_position(database: Database, session_id: str) -> int:
    """Return the position of the newest event of a session, 0 if it has none; changes with every change to the session.

    A single index lookup, for following a session that others write to.
    """
    with database.read() as connection:
        return log_rows.last_position(connection, session_id)


def fact_words_at(database: Database, ids: Collection[int], at: float) -> dict[int, str]:
    """Return the content hash of each fact at a time in seconds since the epoch; unknown facts are omitted."""
    with database.read() as connection:
        return log_rows.fact_words_at(connection, ids, at)
