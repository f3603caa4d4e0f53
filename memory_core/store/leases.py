"""Leases in the database: on blocks, for the process that serves them, and on sessions, for the program that writes.

A lease expires unless renewed, so a process that dies blocks others only briefly; a dead owner on the same
machine is detected at once.
"""

import json
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from memory_core.errors import StoreError
from memory_core.process import is_running
from memory_core.store.database import Database
from memory_core.store.tables import lease_table

LEASE_SECONDS = 15.0
"""Duration of a block's lease in seconds; its holder renews it after a third of that."""

AGENT_SECONDS = 600.0
"""Seconds after a program's last write until a session counts as abandoned by it: the program may have crashed on
another machine. A person's pause in a chat is rarely longer."""

NOTED_SECONDS = 15.0
"""Seconds after a renewal in which a program's writes do not renew its lease on a session again, to keep puts fast."""

MAX_TRACKED_SESSIONS = 10_000
"""Maximum sessions whose last renewal a process remembers; beyond that all are forgotten, and each renews once more."""


def new_owner() -> str:
    """Return a unique name for a lease holder: machine, process, random id."""
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex}"


def lease_key(scope: str, block: str) -> str:
    """Return the key of the lease for one block of one scope: JSON, so that any character may occur in the names."""
    return json.dumps([scope, block], ensure_ascii=False)


def claim(database: Database, connection: Connection, key: str, owner: str, now: float) -> bool:
    """Take the lease if it is free, expired, or its owner is dead; return whether it was taken."""
    query = select(lease_table).where(lease_table.c.key == key).with_for_update()
    while True:
        # A row without an owner gives FOR UPDATE something to lock.
        database.insert_if_new(connection, lease_table, [{"key": key, "owner": "", "until": 0.0}])
        row = connection.execute(query).one_or_none()
        if row is not None:  # else its holder released it between these two statements
            break
    held = now < row.until < now + 2 * LEASE_SECONDS  # later only if the clock was set back since
    # The owner may take its lease again, which extends it.
    if held and row.owner != owner and not _dead(row.owner):
        return False
    values = {"owner": owner, "until": now + LEASE_SECONDS}
    connection.execute(update(lease_table).where(lease_table.c.key == key).values(values))
    return True


def renew(database: Database, key: str, owner: str, *, now: float) -> bool:
    """Extend the lease; return False if another owner or nobody has it."""
    with database.write() as connection:
        where = (lease_table.c.key == key) & (lease_table.c.owner == owner)
        changed = connection.execute(update(lease_table).where(where).values(until=now + LEASE_SECONDS))
        return changed.rowcount == 1


@contextmanager
def renewed(database: Database, key: str, owner: str, clock: Callable[[], float]) -> Iterator[None]:
    """Renew the lease until the work inside is finished."""
    stop = threading.Event()

    def keep() -> None:
        # Two renewals in a row may fail before the lease expires.
        while not stop.wait(LEASE_SECONDS / 3):
            try:
                if not renew(database, key, owner, now=clock()):
                    return
            except StoreError:  # tried again at the next beat; what stores something checks the lease anyway
                continue

    beat = threading.Thread(target=keep, name="memory-lease", daemon=True)
    beat.start()
    try:
        yield
    finally:
        # Not joined: a renewal under way can change only this owner's row.
        stop.set()


def holds(connection: Connection, key: str, owner: str) -> bool:
    """Return whether `owner` still holds the lease. Locks its row until the transaction ends."""
    query = select(lease_table.c.owner).where(lease_table.c.key == key).with_for_update()
    return connection.execute(query).scalar_one_or_none() == owner


def release(connection: Connection, key: str, owner: str) -> None:
    where = (lease_table.c.key == key) & (lease_table.c.owner == owner)
    connection.execute(delete(lease_table).where(where))


def _dead(owner: str) -> bool:
    """Return whether the owner is a process of this machine that no longer runs."""
    host, pid = _process(owner)
    # A process of another machine cannot be looked for: its lease has to expire.
    if host != socket.gethostname() or not pid.isdigit():
        return False
    return not is_running(int(pid))


# -- agents --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunningAgent:
    """A process that works in a session."""

    machine: str
    process: int
    """Process id on `machine`."""

    @property
    def here(self) -> bool:
        """True if the process runs on this machine."""
        return self.machine == socket.gethostname()


def note_agent(database: Database, connection: Connection, session_id: str, now: float) -> None:
    """Renew this process's lease on a session that it has just written to, under the session's lock.

    Does nothing for a database in memory, and in an app (see `Database.for_agents`).
    """
    # A difference below 0 means that the clock was set back: the lease is written anew.
    if not database.for_agents or 0 <= now - database.noted.get(session_id, float("-inf")) < NOTED_SECONDS:
        return
    key, owner = _agent_key(session_id), new_owner()
    database.insert_if_new(connection, lease_table, [{"key": key, "owner": owner, "until": now + AGENT_SECONDS}])
    where = lease_table.c.key == key
    connection.execute(update(lease_table).where(where).values(owner=owner, until=now + AGENT_SECONDS))
    # Cleared rather than trimmed: at worst each session renews its lease once more.
    if len(database.noted) >= MAX_TRACKED_SESSIONS:
        database.noted.clear()
    database.noted[session_id] = now


def running_agent(connection: Connection, session_id: str, now: float) -> RunningAgent | None:
    """Return the other process that works in a session; None if there is none, or it has ended."""
    row = connection.execute(select(lease_table).where(lease_table.c.key == _agent_key(session_id))).one_or_none()
    return None if row is None else _agent(row.owner, row.until, now)


def running_agents(connection: Connection, now: float) -> dict[str, RunningAgent]:
    """Return the other processes that work in sessions, by session."""
    agents: dict[str, RunningAgent] = {}
    for row in connection.execute(select(lease_table).where(lease_table.c.until > now)):
        # Leases of blocks are in the same table; their keys have a scope where those of sessions have a null.
        scope, session_id = json.loads(row.key)
        if scope is None and (agent := _agent(row.owner, row.until, now)) is not None:
            agents[session_id] = agent
    return agents


def _agent(owner: str, until: float, now: float) -> RunningAgent | None:
    """Return the process of a lease on a session; None if it has ended, or is this one."""
    # Later than any lease ends: it was written before the clock was set back.
    if not now < until < now + 2 * AGENT_SECONDS or _dead(owner):
        return None
    machine, process = _process(owner)
    agent = RunningAgent(machine, int(process))
    return None if agent.here and agent.process == os.getpid() else agent


def forget_agent(connection: Connection, session_id: str) -> None:
    """Remove the lease on a session that is deleted."""
    connection.execute(delete(lease_table).where(lease_table.c.key == _agent_key(session_id)))


def _agent_key(session_id: str) -> str:
    """Return the key of the lease on a session; it contains a null, unlike the keys of blocks."""
    return json.dumps([None, session_id], ensure_ascii=False)


def _process(owner: str) -> tuple[str, str]:
    """Return machine and process id from an owner's name (see `new_owner`)."""
    machine, _, rest = owner.partition("/")
    return machine, rest.partition("/")[0]
