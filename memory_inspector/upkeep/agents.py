"""Agents of a database: their tokens, and which process of one works in a session.

Whoever sends a token to the span receiver or the recording proxy writes into its tenant. A database holds only the
hashes of tokens. A token is 256 random bits, so that a plain hash cannot be reversed.
"""

import hashlib
import re
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import insert, select, update

from memory_core.access import acting_as, acting_person, needs, require
from memory_core.errors import AccessError, ConfigError, NotFoundError
from memory_core.events import SessionBranched, SessionHandedBack, SessionTakenOver
from memory_core.store import leases
from memory_core.store.database import Database
from memory_core.store.leases import RunningAgent
from memory_core.store.log_rows import read_events
from memory_core.store.tables import token_table
from memory_core.store.tenants import check_tenant
from memory_core.store.writing import Clock

PREFIX = "mi_"
"""Beginning of every token, by which programs that search for leaked secrets recognise it."""

_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9]\d{0,4})([mhd])")
_t = token_table.c
_SELECT = select(_t.name, _t.tenant, _t.created_at, _t.expires_at, _t.revoked_at)

_HANDS = tuple(event.kind for event in (SessionTakenOver, SessionHandedBack, SessionBranched))
"""Kinds of events that decide whether a session is taken over; a new branch (`SessionBranched`) is not."""

# -- tokens ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentToken:
    """A token, without its text."""

    name: str
    tenant: str
    created_at: float
    """Time, in seconds since 1970, as the two below."""
    expires_at: float | None
    """None: it does not expire."""
    revoked_at: float | None

    def problem(self, now: float) -> str | None:
        """Return why the token is refused now; None if it is accepted."""
        if self.revoked_at is not None:
            return f"The token {self.name} was revoked."
        if self.expires_at is not None and self.expires_at <= now:
            return f"The token {self.name} has expired."
        return None


@needs("owner")
def new_token(
    database: Database, name: str, *, tenant: str = "", seconds: float | None = None, now: float | None = None
) -> str:
    """Make a token and return its text, which is stored nowhere. `seconds`: until it expires; None: never.

    Raises:
        ConfigError: the name is empty or has over 80 characters, a valid token has it already, or `tenant` is no name.
        AccessError: the acting person is no owner of the tenant.
    """
    check_tenant(tenant)
    require("owner", tenant)
    if not 0 < len(name.strip()) <= 80 or not name.isprintable():
        raise ConfigError("Name the token with 1 to 80 characters: the agent that gets it, say.")
    at, token = time.time() if now is None else now, PREFIX + secrets.token_urlsafe(32)
    with acting_as(None), database.write() as connection:  # checked above: the table is the default tenant's
        rows = connection.execute(_SELECT.where(_t.name == name)).all()
        if any(AgentToken(*row).problem(at) is None for row in rows):
            raise ConfigError(f"There is a token {name}: choose another name, or revoke that one first.")
        values = {"hash": _hash(token), "name": name, "tenant": tenant, "created_at": at}
        connection.execute(insert(token_table).values(**values, expires_at=None if seconds is None else at + seconds))
    return token


def tokens_of(database: Database) -> list[AgentToken]:
    """Return the tokens of a database, of every tenant, oldest first; for a person, those of their tenant."""
    person = acting_person()
    with database.read() as connection:
        tokens = [AgentToken(*row) for row in connection.execute(_SELECT.order_by(_t.created_at, _t.name))]
    return [token for token in tokens if person is None or person.tenant == token.tenant]


@needs("owner")
def revoke(database: Database, name: str, *, now: float | None = None) -> None:
    """Revoke the token of this name: its next request is refused.

    Raises:
        NotFoundError: no valid or expired token has the name.
        AccessError: the acting person is no owner.
    """
    at, person = time.time() if now is None else now, acting_person()
    with acting_as(None), database.write() as connection:
        where = (_t.name == name) & _t.revoked_at.is_(None)
        if person is not None:
            where &= _t.tenant == person.tenant
        if not connection.execute(update(token_table).where(where).values(revoked_at=at)).rowcount:
            raise NotFoundError(f"There is no token {name} to revoke: `memory-inspector token list` shows all.")


def tenant_of(database: Database, token: str, *, now: float | None = None) -> str:
    """Return the tenant that a token writes into.

    Raises:
        AccessError: the token is unknown, revoked or expired.
    """
    with database.read() as connection:
        row = connection.execute(_SELECT.where(_t.hash == _hash(token))).one_or_none()
    stored = None if row is None else AgentToken(*row)
    problem = "This token is unknown." if stored is None else stored.problem(time.time() if now is None else now)
    if stored is None or problem is not None:
        raise AccessError(f"{problem} Ask the owner of the app for a new one: `memory-inspector token new`.")
    return stored.tenant


def seconds_of(duration: str) -> float | None:
    """Return the seconds of a duration: `90d`, `12h`, `30m`; None for `never`.

    Raises:
        ConfigError: it is none of these.
    """
    if duration == "never":
        return None
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ConfigError(f"{duration} is no duration: write 90d, 12h, 30m or never.")
    return float(int(match[1]) * _SECONDS[match[2]])


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


# -- the process that works in a session ----------------------------------------------------------


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
