"""Find the agent process that works in a session, and whether a person took the session over from it."""

import time

from memory_core.events import SessionBranched, SessionHandedBack, SessionTakenOver
from memory_core.store import leases
from memory_core.store.database import Database
from memory_core.store.leases import RunningAgent
from memory_core.store.log_rows import read_events
from memory_core.store.writing import Clock

_HANDS = tuple(event.kind for event in (SessionTakenOver, SessionHandedBack, SessionBranched))
"""Kinds of events that decide whether a session is taken over; a new branch (`SessionBranched`) is not."""


def running_agent(database: Database, session_id: str, *, clock: Clock = time.time) -> RunningAgent | None:
    """Return the process, other than this one, that works in a session; None if there is none.

    It is the last process, other than an app's, that wrote to the session within `leases.AGENT_SECONDS`. If it ran on
    this machine and has ended, it does not count.
    """
    with database.read() as connection:
        return leases.running_agent(connection, session_id, clock())


def running_agents(database: Database, *, clock: Clock = time.time) -> dict[str, RunningAgent]:
    """Return the processes, other than this one, that work in sessions, by session."""
    with database.read() as connection:
        return leases.running_agents(connection, clock())


def taken_over(database: Database, session_id: str) -> bool:
    """Return whether a person has taken the session over from its agent, and not handed it back."""
    with database.read() as connection:
        # The newest of these events decides; none of them means that nobody took over.
        last = read_events(connection, session_id, kinds=_HANDS, limit=1, newest_first=True)
    return any(record.kind == SessionTakenOver.kind for record in last)
