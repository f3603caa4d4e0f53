"""A session's log, cached in this process and updated before every read."""

from collections.abc import Callable, Collection
from threading import Lock
from typing import Any, Protocol, TypeVar, cast

from memory_core.engine.session import Session
from memory_core.events import EventRecord
from memory_core.history.by_turn import Folding, History, StaleLogError
from memory_core.history.context_pieces import Pieces
from memory_core.history.projection import Projection
from memory_core.process import collector_paused
from memory_core.store import log_rows
from memory_core.store.database import Database

Result = TypeVar("Result")
Folded = TypeVar("Folded", bound="LogFold")
Query = Callable[[Projection], Result]
"""Pure function of a session's state; its result must not change when further events are applied."""


class LogFold(Protocol):
    """A fold of a log that grows with it."""

    def apply(self, record: EventRecord) -> object: ...


MAX_RESULTS = 16
"""Maximum number of query results kept for one session: those of several pages, at several moments."""


class Log:
    """Log of one session, read and folded once in this process; an update reads only new events. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begin()

    def _begin(self) -> None:
        self._past = Projection()
        self._folding = Folding(self._past)
        self._folds: dict[Callable[[], LogFold], tuple[LogFold, int]] = {}
        self._then = Projection()
        self._results: dict[tuple[Query[Any], int], Any] = {}

    def catch_up(self, database: Database, session_id: str, progress: Callable[[int], None] | None = None) -> History:
        """Return the history up to the newest event; `progress` receives the number of events read so far."""
        with self._lock:
            return self._caught_up(database, session_id, progress)

    def unread(self, database: Database, session_id: str) -> int:
        """Return the number of events stored since the last update."""
        with database.read() as connection:
            return log_rows.count_events(connection, session_id, after=self._folding.position)

    def query(self, database: Database, session_id: str, query: Query[Result], upto: int | None = None) -> Result:
        """Return the result of a query of the session, now or as it was after the event at a log position (`upto`)."""
        with self._lock, collector_paused():
            history = self._caught_up(database, session_id)
            position = history.position if upto is None else min(upto, history.position)
            key = query, position
            if key not in self._results:
                result = query(self._projection(history, position))
                while len(self._results) >= MAX_RESULTS:
                    self._results.pop(next(iter(self._results)))  # the oldest one
                self._results[key] = result
            return cast(Result, self._results[key])

    def follow(self, database: Database, session_id: str, make: Callable[[], Folded]) -> Folded:
        """Return the object that `make` began and that follows the log: each event is applied to it once.

        All callers share it; later events are added to the same object until words of the log are erased.
        """
        with self._lock, collector_paused():
            return self._follow(self._caught_up(database, session_id), make)

    def _follow(self, history: History, make: Callable[[], Folded]) -> Folded:
        if make is Projection:
            return cast(Folded, self._past)  # the history moves it forwards
        fold, position = self._folds.get(make) or (make(), 0)
        for record in history.after(position):
            fold.apply(record)
        self._folds[make] = fold, history.position
        return cast(Folded, fold)

    def _projection(self, history: History, position: int) -> Projection:
        if position >= history.position:
            return self._past
        # A projection only moves forwards, so an earlier moment begins anew.
        if position < self._then.position:
            self._then = Projection()
        for record in history.after(self._then.position):
            if record.position > position:
                break
            self._then.apply(record)
        return self._then

    def _caught_up(self, database: Database, session_id: str, progress: Callable[[int], None] | None = None) -> History:
        try:
            return self._read(database, session_id, progress)
        # Events already read have changed: read all again into a new folding, which cannot be stale.
        except StaleLogError:
            self._begin()
            return self._read(database, session_id, progress)

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


def pieces_of_session(session: Session) -> Pieces:
    """Return the hashes of all words of a session's log; later events are added to the same object."""
    return Pieces(session_log(session).follow(session.database, session.id, Projection))


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
