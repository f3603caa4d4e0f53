"""Session lists with totals, and deletion of sessions."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import Lock
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Connection

from memory_core.access import needs
from memory_core.config import MemoryConfig
from memory_core.errors import ConflictError, NotFoundError
from memory_core.events import expand
from memory_core.store.block_rows import uses_graph
from memory_core.store.database import Database
from memory_core.store.erasing import ERASING, bury, erase_remains, has_remains, move_tombstone
from memory_core.store.log_rows import last_position
from memory_core.store.totals import (
    MessageSums,
    Present,
    count_facts,
    emptied_collections,
    read_collections,
    read_origins,
    read_present,
    read_work,
    reading_user_facts,
    sum_messages,
)
from memory_core.store.vector_rows import joined_collections
from memory_core.store.writing import (
    Clock,
    OnePiece,
    PieceWriter,
    SessionState,
    read_sessions,
    session_scope,
    user_scope,
    writing,
)
from memory_core.tokens import reported, total_tokens
from memory_core.vectors import forget_copies
from memory_core.vectors.vector_index import VectorIndex

# -- sums of what each session took and lost -------------------------------------------------------


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


# -- lists -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Status:
    """Totals of a session, taken from its running sums without reading messages."""

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
    """Position of the newest event; changes with every change to the session."""

    @property
    def to_next_flush(self) -> int:
        """Tokens that still fit into the queue before it is flushed."""
        return max(0, int(self.history_budget) - self.queue_tokens)


def status_of(
    state: SessionState, config: MemoryConfig, *, in_transit: tuple[int, int] = (0, 0), position: int = 0
) -> Status:
    """Return a session's totals in its configured accounting; `in_transit` is messages and tokens."""
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


def list_sessions(database: Database, *, user_id: str | None = None) -> list[Status]:
    """Return all sessions of a database, most recently used first, from their running totals."""
    with database.read() as connection:
        return [status_of(state, _config(state.config)) for state in read_sessions(connection, user_id=user_id)]


@dataclass(frozen=True, slots=True)
class Origin:
    kind: Literal["new", "import", "branch", "attached", "opened"]
    source: str = ""
    """Name of the import, id of the original session of a branch, or the file that was opened."""
    turn: int | None = None
    """For a branch, the turn at which it was made."""


@dataclass(frozen=True, slots=True)
class Overview:
    """`Status` of a session in a list, plus totals that the running sums do not include."""

    status: Status
    messages: int
    """Number of all messages, including those that left the queue."""
    tokens: int
    """Total tokens of all messages, in the session's accounting."""
    facts: int
    """Number of active facts of the session itself; these are deleted with the session."""
    user_facts: int
    """Number of active facts of the user, shared by all of that user's sessions and deleted with none of them."""
    reads_user_facts: bool
    """True if one of the session's blocks stores user-scoped facts."""
    origin: Origin
    totals: RunningTotals = field(default_factory=RunningTotals)
    """Its cost, errors and losses."""


def overview(database: Database, *, user_id: str | None = None) -> list[Overview]:
    """Return all sessions, or those of one user, most recently used first.

    Takes a constant number of queries. The messages of a session are summed again only after some were added or
    removed, and of its log only what is new is read.
    """
    with database.read() as connection:
        states = read_sessions(connection, user_id=user_id)
        every = {state.id for state in states} if user_id is None else None
        sums = _sums(database, connection, states, every)
        facts = count_facts(connection)
        reading = reading_user_facts(connection)
        origins = {id: _origin(*origin) for id, origin in read_origins(connection).items()}
        totals = running_totals(database, connection, states, every)
    return [
        _overview(state, sums[state.id], facts, state.id in reading, origins.get(state.id, Origin("new")), totals)
        for state in states
    ]


def _overview(
    state: SessionState,
    sums: MessageSums,
    facts: Mapping[str, int],
    reads_user_facts: bool,
    origin: Origin,
    totals: Mapping[str, RunningTotals],
) -> Overview:
    config = _config(state.config)
    return Overview(
        totals=totals[state.id],
        status=status_of(state, config),
        messages=sums.messages,
        tokens=total_tokens(sums.content, sums.reference, sums.messages, config.accounting),
        facts=facts.get(session_scope(state.id), 0),
        user_facts=facts.get(user_scope(state.user_id), 0) if state.user_id else 0,
        reads_user_facts=reads_user_facts,
        origin=origin,
    )


def origin_of(connection: Connection, session_id: str) -> Origin:
    """Return where a session is from; that of a branch is the branching."""
    origin = read_origins(connection).get(session_id)
    return _origin(*origin) if origin is not None else Origin("new")


def _origin(kind: str, data: Mapping[str, Any]) -> Origin:
    if kind == "session_branched":
        return Origin("branch", str(data["source"]), int(data["turn"]))
    if kind == "agent_attached":
        return Origin("opened" if data["source"] == "file" else "attached", str(data.get("name", "")))
    return Origin("import", str(data["source"]))


_Content = tuple[int, int, int, int, str]
"""Key of cached sums: it changes whenever a session's messages, or the counter they were counted with, change."""
_known_sums = SessionCache[tuple[_Content, MessageSums]]()


def _sums(
    database: Database, connection: Connection, states: list[SessionState], every: Collection[str] | None
) -> dict[str, MessageSums]:
    """Return the message sums of each session: cached in this process, and read again if its messages have changed."""
    with _known_sums.of(database, every) as sums:
        contents = {
            state.id: (state.next_seq, state.messages, state.archived_messages, state.revision, state.counter)
            for state in states
        }
        changed = [id for id, content in contents.items() if id not in sums or sums[id][0] != content]
        if changed:
            # One pass over all messages is faster than a list of most sessions.
            most = len(changed) > len(states) // 2
            read = sum_messages(connection, None if most else changed)
            sums.update((id, (contents[id], read.get(id, MessageSums()))) for id in changed)
        return {id: sums[id][1] for id in contents}


@lru_cache(maxsize=256)
def _config(stored: str) -> MemoryConfig:
    """Return the configuration in a session's row; cached, since most sessions share one of a few."""
    return MemoryConfig(**json.loads(stored))


@needs("owner")
def delete_session(
    database: Database,
    session_id: str,
    *,
    reusable: bool = False,
    clock: Clock = time.time,
    unused_since: float | None = None,
    index: VectorIndex | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Erase a session with its texts; a tombstone with its id remains. User-scoped facts are kept.

    `reusable`: the tombstone gets another id, so that a new session may use this one. `unused_since`: refuse if the
    session was written to after this time, in seconds since the epoch. `index`: drop its copies of the session's
    vectors, too, as pgvector's always are; those in an index that cannot be reached stay, which is logged. `check` is
    called under the session's lock; what it raises prevents the deletion.

    Raises:
        NotFoundError: there is no such session.
        ConflictError: it was written to after `unused_since`; nothing is deleted.
        AccessError: the acting person is no owner.
    """
    joined: list[str] = []
    try:
        with writing(database, session_id, clock=clock) as w:
            if unused_since is not None and w.session.updated_at > unused_since:
                raise ConflictError("This session was used in the meantime. Nothing of it was deleted.")
            check()
            # Before its events are erased: readers that follow the log continue behind this position.
            end = last_position(w.connection, session_id)
            joined = bury(w)
            if reusable:
                w.save()  # save pending rows first, so that they are erased with the rest
                # In one transaction, as a new session may use the id at once. Otherwise in pieces, which keep nobody
                # waiting.
                copies = erase_remains(OnePiece(database, w.connection), session_id, joined=joined)
                move_tombstone(w, end)
            else:
                w.session.title = ERASING
    except NotFoundError:
        # A deletion that failed on its way is finished below: until then the words are still stored.
        if reusable or not has_remains(database, session_id):
            raise
    if not reusable:
        copies = erase_remains(PieceWriter(database), session_id, joined=joined)
    database.forget_log()
    forget_copies(index, copies)


def delete_tenant(database: Database, index: VectorIndex) -> int:
    """Delete a database's tenant, and an index's copies of its vectors; return the number of its sessions. No undo.

    Copies in an index that cannot be reached stay, which is logged; `repair_damage` in the default tenant drops them.

    Raises:
        ConfigError: this is the default tenant.
    """
    with database.read() as connection:
        names = joined_collections(database, connection).union(emptied_collections(connection))
        names.update(stored.name for stored in read_collections(connection))
    sessions = database.delete_tenant(names)
    forget_copies(index, names)
    return sessions


def has_graph(database: Database, session_id: str) -> bool:
    """Return whether the session has a graph block, or relations from a former one."""
    with database.read() as connection:
        return uses_graph(connection, session_id)
