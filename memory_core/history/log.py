"""A session's log, kept in this process and caught up before every reading."""

from collections.abc import Callable, Collection
from threading import Lock

from memory_core.engine.session import Session
from memory_core.history.by_turn import Folding, History, StaleLogError
from memory_core.process import collector_paused
from memory_core.store import log as stored
from memory_core.store import past
from memory_core.store.database import Database


class Log:
    """One session's `History`; each catching up reads only what is new. Thread-safe."""

    def __init__(self) -> None:
        self._folding = Folding()
        self._lock = Lock()

    def catch_up(self, database: Database, session_id: str, progress: Callable[[int], None] | None = None) -> History:
        """The history as the log stands now; `progress` is given the number of events read so far."""
        with self._lock:
            try:
                return self._read(database, session_id, progress)
            except StaleLogError:
                self._folding = Folding()
                return self._read(database, session_id, progress)

    def unread(self, database: Database, session_id: str) -> int:
        """How many events were stored since it was caught up last."""
        with database.read() as connection:
            return stored.count_events(connection, session_id, after=self._folding.position)

    def _read(self, database: Database, session_id: str, progress: Callable[[int], None] | None) -> History:
        with collector_paused(), database.read() as connection:
            after = self._folding.position
            new = stored.read_events(connection, session_id, after=after, progress=progress)
            return self._folding.take(new)


def session_log(session: Session) -> Log:
    """The log of a session as this process keeps it."""
    return session.services.cached(("history", session.database.id, session.id), Log)


def last_position(database: Database, session_id: str) -> int:
    """Position of the newest event of a session, 0 when it has none: changes whenever anything does.

    One look at an index, for whoever follows a session that others write to.
    """
    with database.read() as connection:
        return stored.last_position(connection, session_id)


def fact_words_at(database: Database, ids: Collection[int], at: float) -> dict[int, str]:
    """Hash of each fact's words at a time, in seconds since the epoch; unknown facts are missing."""
    with database.read() as connection:
        return past.fact_words_at(connection, ids, at)
