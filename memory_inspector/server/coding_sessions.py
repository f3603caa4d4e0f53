"""Sessions of coding agents that this server has open, shared by all visitors; read from their files, never written.

A visitor names a session by its id in the listing, so no address can lead to another file.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from memory_core.tokens import default_counter
from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.context_parts import PartSizes
from memory_inspector.coding.listing import Listing, SessionOverview, is_there
from memory_inspector.coding.project import LostInstruction, lost_instructions
from memory_inspector.reading.coding_homes import first_session, listing_of_environment
from memory_inspector.reading.lru_cache import LruCache

T = TypeVar("T")

Losses = tuple[list[LostInstruction], list[str]]
"""Statements of many sessions, those lost most often first, and sentences on sessions that are left out."""

MAX_OPEN = 4
"""Sessions that are held in memory at once."""

LIST_SECONDS = 0.5
"""Seconds in which a look at the list reads what is new; what is left is read at the next looks."""


class OpenSession:
    """A session that is followed. What was worked out from it is dropped when its files grow."""

    def __init__(self, overview: SessionOverview) -> None:
        self.overview = overview
        self.session = CodingSession(overview.path, overview.reader)
        self.revision = 0
        """Number of times at which something new was read."""
        self._lock = threading.RLock()
        self._results: dict[object, object] = {}

    def follow(self) -> int:
        """Read what is new; return the revision.

        Raises:
            FormatError: the session's file is gone, or may not be read.
        """
        with self._lock:
            # Results are of what was read before.
            if self.session.follow():
                self.revision += 1
                self._results.clear()
            return self.revision

    @contextmanager
    def held(self) -> Iterator[CodingSession]:
        """Keep other visitors from reading on while a page is drawn from the session."""
        with self._lock:
            yield self.session

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return a result that is worked out once for each revision."""
        with self._lock:
            if key not in self._results:
                self._results[key] = make()
            return self._results[key]  # type: ignore[return-value]

    def sizes(self, branch: Branch) -> PartSizes:
        """Return the sizes of a branch's items."""
        return self.once(("sizes", branch.number), lambda: PartSizes(branch, default_counter().text))


class CodingSessions:
    """The listing, and the sessions of it that are open."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._lock = threading.Lock()
        self._open: LruCache[OpenSession] = LruCache(MAX_OPEN)
        self._losses: LruCache[Losses] = LruCache(MAX_OPEN)

    def look(self) -> tuple[list[SessionOverview], list[str]]:
        """Return the sessions, newest first, and sentences on folders that cannot be read."""
        with self._lock:
            return self._listing.look(LIST_SECONDS), list(self._listing.problems)

    def first(self) -> str | None:
        """Return the id of the session that the command named; None if it named none."""
        with self._lock:
            overview = first_session(self._listing)
            return overview.id if overview is not None else None

    def open(self, id: str) -> OpenSession | None:
        """Return the session with an id of the listing, followed to its present end; None if there is none.

        Raises:
            FormatError: its file may not be read.
        """
        with self._lock:
            opened = self._open.get(id)
            # A program may have compressed or archived the file: then the list has it in its new place.
            if opened is None or not is_there(opened.overview.path):
                overview = self._listing.of(id)
                # A link to a session that is newer than the last look at the list.
                if overview is None or not is_there(overview.path):
                    self._listing.look(0)
                    overview = self._listing.of(id)
                if overview is None:
                    return None
                self._listing.follow(overview)  # its title, where the list was not looked at
                opened = OpenSession(overview)
                self._open.put(id, opened)
        opened.follow()  # outside of the lock, as a large file takes seconds
        return opened

    def losses(self, overviews: Sequence[SessionOverview]) -> Losses:
        """Return what compactions lost in some sessions, worked out again when one of them grows."""
        key = repr([(one.id, one.size) for one in overviews if one.compactions])
        losses = self._losses.get(key)
        if losses is None:
            # Without a compaction nothing can be lost, and reading such a session takes as long.
            losses = lost_instructions(CodingSession(one.path, one.reader) for one in overviews if one.compactions)
            self._losses.put(key, losses)
        return losses


@cache
def coding_sessions() -> CodingSessions:
    """Return the sessions of this server's environment."""
    return CodingSessions(listing_of_environment())
