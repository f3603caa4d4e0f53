"""Sessions at a glance, and the end of one."""

import json
import time
from dataclasses import dataclass

from memory_core.config import MemoryConfig
from memory_core.store.database import Database
from memory_core.store.erasing import erase_session
from memory_core.store.writing import Clock, SessionState, list_sessions, writing


@dataclass(frozen=True, slots=True)
class Status:
    """A session at a glance, from its running totals: no message is read."""

    session_id: str
    title: str
    user_id: str | None
    created_at: float
    updated_at: float
    turns: int
    queue_messages: int
    queue_tokens: int
    pinned_tokens: int
    archived_messages: int
    flushes: int
    history_budget: float
    token_limit: int
    flush_size: int
    in_transit_messages: int
    in_transit_tokens: int
    position: int
    """Of the newest event: it changes whenever anything does."""

    @property
    def to_next_flush(self) -> int:
        """Tokens that still fit into the queue before it is flushed."""
        return max(0, int(self.history_budget) - self.queue_tokens)


def status_of(
    state: SessionState, config: MemoryConfig, *, in_transit: tuple[int, int] = (0, 0), position: int = 0
) -> Status:
    """A session's totals as its configuration counts them; `in_transit` is messages and tokens."""
    return Status(
        session_id=state.id,
        title=state.title,
        user_id=state.user_id,
        created_at=state.created_at,
        updated_at=state.updated_at,
        turns=state.turns,
        queue_messages=state.queue_messages,
        queue_tokens=state.queue(config.accounting).tokens,
        pinned_tokens=state.pinned_tokens(config.accounting),
        archived_messages=state.archived_messages,
        flushes=state.flushes,
        history_budget=config.history_budget,
        token_limit=config.limit,
        flush_size=config.flush_size,
        in_transit_messages=in_transit[0],
        in_transit_tokens=in_transit[1],
        position=position,
    )


def sessions(database: Database, *, user_id: str | None = None) -> list[Status]:
    """All sessions of a database, the last used first, from their running totals."""
    found = []
    with database.read() as connection:
        for state in list_sessions(connection, user_id=user_id):
            config = MemoryConfig(**json.loads(state.config))
            found.append(status_of(state, config))
    return found


def delete_session(database: Database, session_id: str, *, clock: Clock = time.time) -> None:
    """Erase a session and its words; a tombstone with its id stays. Facts of its user stay.

    Raises:
        NotFoundError: there is no such session.
    """
    with writing(database, session_id, clock=clock) as w:
        erase_session(w)
    database.forget_log()
