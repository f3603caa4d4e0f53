"""Sums of what each session took and lost, for a list of many: read by index, and kept until the session changes.

Losses are those that stored rows tell at once. What blocks made of the messages that they took is told by the session's
own pages.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from memory_core.events import expand
from memory_core.store.database import Database
from memory_core.store.totals import Present, read_present, read_work
from memory_core.store.writing import SessionState
from memory_core.tokens import reported


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses in a session's present state; all 0 if nothing was lost."""

    cut: int = 0
    """Tokens that the latest prompt left out to fit the limit."""
    left_out: int = 0
    """Earlier messages that an attached agent left out of its latest prompt."""
    parked: int = 0
    """Deliveries that were given up."""
    untaken: int = 0
    """Messages that left the queue, in a session without a block that takes them."""


@dataclass(slots=True)
class RunningTotals:
    """Sums over a session's log."""

    position: int = 0
    """Position up to which the log was read."""
    errors: int = 0
    """Failed calls, replies and deliveries, each try by itself, and blocks that could not be read for a prompt."""
    dollars: float | None = None
    """US dollars of the calls whose cost is recorded; None if there is none."""
    unpriced: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Tokens of an attached agent's calls, whose cost is not recorded, by model: input, input from a cache, output."""
    losses: Losses = Losses()

    def take(self, position: int, data: Mapping[str, Any]) -> None:
        """Add one more event of `store.totals.WORK`, of which calls of models alone have a cost or tokens."""
        self.position = max(self.position, position)
        self.errors += bool(data.get("error"))
        if (cost := data.get("cost")) is not None:
            self.dollars = (self.dollars or 0) + float(cost)
        elif (asked := reported(data.get("input_tokens"))) is not None and data.get("block") is None:
            cached = min(reported(data.get("cached_tokens")) or 0, asked)
            new, read, written = self.unpriced.get(model := str(data.get("model")), (0, 0, 0))
            written += reported(data.get("output_tokens")) or 0
            self.unpriced[model] = (new + asked - cached, read + cached, written)


_Version = tuple[float, float, int]
_Value = TypeVar("_Value")


class SessionCache(Generic[_Value]):
    """Values by session, held in this process by database: one that is slow keeps no reader of another waiting."""

    def __init__(self) -> None:
        # Weak keys: when a database is no longer used, its values are freed.
        self._databases: WeakKeyDictionary[Database, tuple[Lock, dict[str, _Value]]] = WeakKeyDictionary()

    @contextmanager
    def of(self, database: Database, every: Collection[str] | None) -> Iterator[dict[str, _Value]]:
        """Hold a database's values for one reader; `every`: ids of all sessions, so that others were deleted."""
        lock, values = self._databases.setdefault(database, (Lock(), {}))
        with lock:
            for id in values.keys() - (values.keys() if every is None else every):
                del values[id]
            yield values


_read = SessionCache[tuple[_Version, RunningTotals]]()
"""Values that change with a session's log, and its totals at that time, by session."""


def running_totals(
    database: Database, connection: Connection, states: Sequence[SessionState], every: Collection[str] | None
) -> dict[str, RunningTotals]:
    """Return the totals of each session: kept in this process, and only events that are new are read."""
    with _read.of(database, every) as cache:
        fresh = {}
        versions = {state.id: (state.created_at, state.updated_at, state.revision) for state in states}
        for state in states:
            version = versions[state.id]
            before, totals = cache.get(state.id, (version, RunningTotals()))
            if state.id not in cache or before != version:
                # The id may have been that of another session before. Readers keep what they have: this is a copy.
                same = before[0] == version[0]
                fresh[state.id] = replace(totals, unpriced={**totals.unpriced}) if same else RunningTotals()
        for id, position, data in read_work(connection, {id: one.position for id, one in fresh.items()}):
            fresh[id].take(position, data)
        present = read_present(connection, fresh)
        for state in states:
            if state.id in fresh:
                fresh[state.id].losses = _losses(state, present[state.id])
        # Last: a read that fails must not count as done.
        cache.update((id, (versions[id], totals)) for id, totals in fresh.items())
        return {state.id: cache[state.id][1] for state in states}


def _losses(state: SessionState, now: Present) -> Losses:
    cut = sum(int(one["tokens"]) for one in now.prompt.get("cuts", ()))
    if now.prompt.get("known", "built") == "built":
        return Losses(cut, 0, now.parked, state.archived_messages if state.flushes and not now.served else 0)
    sent = {*expand(now.prompt["pinned"]), *expand(now.prompt["queue"])}
    # The newest messages came after the prompt.
    later = state.next_seq - 1 - max(sent, default=0)
    return Losses(cut, max(0, state.messages - later - len(sent)), now.parked)
