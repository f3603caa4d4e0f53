"""A session's log aggregated per turn: the source of every page of the past and of every figure over time.

Pure: event records in, values out. `Folding` grows with the log; `History` is an immutable snapshot of it, so any
number of readers may share one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, cast

from memory_core.config import MemoryConfig
from memory_core.events import AgentAttached, EventRecord, FlushPlanned, Retrieved
from memory_core.history.block_slice import BLOCK_EVENTS, Blocks, PastBlock, States
from memory_core.history.contexts import context_of, failure_of, is_context
from memory_core.history.learned_slices import state_at
from memory_core.history.message_slice import MESSAGE_EVENTS, Messages, adds_message, is_flush
from memory_core.history.projection import Projection
from memory_core.planning.quarantine import QuarantinedSet, changes_quarantine, sets_in_force
from memory_core.tokens import total_tokens


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """Turn as recorded in the log. Sizes are in tokens, in the accounting used at the time."""

    turn: int
    first_position: int
    last_position: int
    at: float
    """Time of the turn's first event, in seconds since the epoch."""
    queue_tokens: int = 0
    """Tokens in the queue at the end of the turn."""
    queue_messages: int = 0
    archived_messages: int = 0
    history_budget: float = 0
    token_limit: int = 0
    prompt_budget: float = 0
    """History budget in effect when the last context of the turn was built; 0 without one."""
    flushes: tuple[EventRecord, ...] = ()
    contexts: tuple[EventRecord, ...] = ()
    """Contexts built during the turn."""
    searches: tuple[EventRecord, ...] = ()
    """Searches of stored turns recorded during the turn."""
    facts_added: int = 0
    relations_added: int = 0
    recalled: int = 0
    """Number of stored turns selected by the last search of each block in this turn."""
    edited: tuple[EventRecord, ...] = ()
    """Changes made by a person during the turn."""

    @property
    def built(self) -> EventRecord | None:
        """The last context of the turn."""
        return self.contexts[-1] if self.contexts else None

    @property
    def cut_tokens(self) -> int:
        """Tokens cut from the last context of the turn."""
        return sum(int(cut["tokens"]) for cut in context_of(self.built).cuts) if self.built else 0


_EMPTY = {field.name: field.default for field in fields(TurnRecord) if field.default is not MISSING}


@dataclass(frozen=True, slots=True)
class History:
    """Snapshot of a session's log, aggregated per turn."""

    records: tuple[EventRecord, ...] = ()
    """The whole log, oldest first."""
    turns: Mapping[int, TurnRecord] = field(default_factory=dict)
    """Turns by number, from 1. Numbering restarts when no message is left; only the turns since then are included."""
    _configs: tuple[tuple[int, Mapping[str, Any]], ...] = ()
    _blocks: States = ()
    _quarantine: tuple[EventRecord, ...] = ()

    @property
    def position(self) -> int:
        """Position of the newest event; 0 for an empty log."""
        return self.records[-1].position if self.records else 0

    @property
    def latest_turn(self) -> int:
        return max(self.turns, default=0)

    @property
    def attached(self) -> bool:
        """True if the session mirrors an attached agent or a file of one; False for a branch of such a session."""
        return self.attachment is not None

    @property
    def attachment(self) -> AgentAttached | None:
        """Event that names the source of an attached session; None for an ordinary session or a branch."""
        # The first event creates the session; the source, if any, is always the second.
        begun = self.records[1:2]
        if not begun or begun[0].kind != AgentAttached.kind:
            return None
        # A branch copies the log, source included, but nobody writes into it from outside any more.
        branched = any(record.kind == "session_branched" for record in self.records)
        return None if branched else cast(AgentAttached, begun[0].event)

    def position_at(self, turn: int) -> int:
        """Return the position of the last event of a turn, or of the nearest turn before it."""
        # Turns without a single event have no record.
        turns = [number for number in self.turns if number <= turn]
        return self.turns[max(turns)].last_position if turns else 0

    def upto(self, position: int) -> tuple[EventRecord, ...]:
        """Records up to and including a position."""
        return self.records[: bisect_right(self.records, position, key=lambda record: record.position)]

    def after(self, position: int) -> tuple[EventRecord, ...]:
        """Records after a position."""
        return self.records[bisect_right(self.records, position, key=lambda record: record.position) :]

    def recorded_with(self, context: EventRecord) -> tuple[dict[str, EventRecord], dict[str, EventRecord]]:
        """Return searches and read failures of a context by block; they directly precede it in the log."""
        searches: dict[str, EventRecord] = {}
        failures: dict[str, EventRecord] = {}
        # They were written in one transaction with the context, so the first other event ends them.
        for earlier in reversed(self.upto(context.position - 1)):
            if (search := search_of(earlier)) is not None:
                searches.setdefault(search.block, earlier)
            elif (failure := failure_of(earlier)) is not None:
                failures.setdefault(failure.block, earlier)
            else:
                break
        return searches, failures

    def config_at(self, position: int) -> MemoryConfig:
        """Return the configuration in effect at a position."""
        return MemoryConfig(**(state_at(self._configs, position) or {}))

    def quarantine_at(self, position: int) -> list[QuarantinedSet]:
        """Return the sets of items that were in quarantine at a position."""
        return sets_in_force(record for record in self._quarantine if record.position <= position)

    def blocks_at(self, position: int) -> tuple[PastBlock, ...]:
        """Return the blocks present at a position, in their order."""
        return state_at(self._blocks, position) or ()

    def blocks_ever(self, position: int) -> dict[str, PastBlock]:
        """Return every block that existed up to a position, by name; removed blocks in their last state."""
        states = self._blocks[: bisect_right(self._blocks, position, key=lambda state: state[0])]
        return {block.name: block for _, blocks in states for block in blocks}

    def kinds(self, position: int) -> dict[str, str]:
        """Return the kind of every block that existed up to a position, by name."""
        return {name: block.kind for name, block in self.blocks_ever(position).items()}


class Folding:
    """The incremental aggregation behind `History`. Not thread-safe: the owner must lock it."""

    def __init__(self, past: Projection | None = None) -> None:
        """`past`: projection of the same log, which grows with this one; None: only what a history needs is kept."""
        self._past = past
        self._records: list[EventRecord] = []
        self._turns: dict[int, TurnRecord] = {}
        self._configs: list[tuple[int, dict[str, Any]]] = []
        self._blocks = Blocks() if past is None else past.blocks
        self._quarantine: list[EventRecord] = []
        self._config = MemoryConfig()
        self._messages = Messages() if past is None else past.messages
        self._correction = 0
        """Tokens of the queue as the log states them, minus the sum of its messages' sizes when they were added."""
        self._recalled: dict[str, int] = {}
        self._open: dict[str, Any] | None = None
        """Fields of the current turn's record; mutable, because most turns span many events."""
        self._view: History | None = History()

    @property
    def position(self) -> int:
        return self._records[-1].position if self._records else 0

    def apply(self, records: Iterable[EventRecord]) -> "History":
        """Apply new records and return the resulting history."""
        new = list(records)
        if self._records and any(record.event.rewrites_log for record in new):
            # Words were erased from older events too, or the id was reused by another session: discard everything read.
            raise StaleLogError
        for record in new:
            self._take(record)
        self._note_turn()
        if new or self._view is None:
            self._view = History(
                tuple(self._records),
                dict(self._turns),
                tuple(self._configs),
                tuple(self._blocks.states),
                tuple(self._quarantine),
            )
        return self._view

    def _take(self, record: EventRecord) -> None:
        self._records.append(record)
        event, kind = record.event, type(record.event)
        # Turn 0 is that of a new or emptied session: turns are numbered from 1 again.
        if record.turn == 0:
            self._turns.clear()
            self._open = None
        elif self._open is None or self._open["turn"] != record.turn:
            self._note_turn()
            self._open = self._opened(record)
        if self._past is not None:
            self._past.apply(record)
        else:
            if kind in MESSAGE_EVENTS:
                self._messages.apply(record)
            if kind in BLOCK_EVENTS:
                self._blocks.apply(record)
        turn_fields = self._open
        if turn_fields is not None:
            turn_fields["last_position"] = record.position
            if record.actor == "user":
                turn_fields["edited"] += (record,)
        if kind in MESSAGE_EVENTS:
            # An empty queue has no size that could have been stated differently.
            if not self._messages.queue_messages:
                self._correction = 0
            # A recount or a replaced queue states a total other than the sizes its messages were added with.
            if self._messages.stated_tokens is not None:
                self._correction += self._messages.stated_tokens - self._queue_tokens()
        if adds_message(event):
            return  # nothing below concerns it, and most events are messages
        self._apply_settings(record)
        if changes_quarantine(event):
            self._quarantine.append(record)
        if turn_fields is None:
            return
        if is_flush(event):
            turn_fields["flushes"] += (record,)
        elif is_context(event):
            turn_fields["contexts"] += (record,)
            turn_fields["prompt_budget"] = self._config.history_budget
        elif event.adds is not None:
            turn_fields[f"{event.adds}_added"] += 1
        elif (search := search_of(record)) is not None:
            turn_fields["searches"] += (record,)
            self._recalled[search.block] = int(search.gates.get("granted", 0)) + len(search.elsewhere)
            turn_fields["recalled"] = sum(self._recalled.values())

    def _opened(self, record: EventRecord) -> dict[str, Any]:
        """Field values recorded so far for a record's turn."""
        # A turn may be reopened: a person may edit memory after the reply.
        if (reopened := self._turns.get(record.turn)) is not None:
            return {name.name: getattr(reopened, name.name) for name in fields(reopened)}
        self._recalled.clear()
        return {**_EMPTY, "turn": record.turn, "first_position": record.position, "at": record.at}

    def _note_turn(self) -> None:
        """Store the current turn's record, with the queue in its present state."""
        if self._open is not None:
            self._open |= {
                "queue_tokens": self._queue_tokens(),
                "queue_messages": self._messages.queue_messages,
                "archived_messages": self._messages.archived_messages,
                "history_budget": self._config.history_budget,
                "token_limit": self._config.limit,
            }
            self._turns[self._open["turn"]] = TurnRecord(**self._open)

    def _queue_tokens(self) -> int:
        messages = self._messages
        sums = (messages.queue_content, messages.queue_reference, messages.queue_messages)
        return total_tokens(*sums, self._config.accounting) + self._correction

    def _apply_settings(self, record: EventRecord) -> None:
        changed = record.event.changed_settings
        if changed and record.event.about is None:
            values = {**(self._configs[-1][1] if self._configs else {}), **changed}
            self._configs.append((record.position, values))
            self._config = MemoryConfig(**values)


class StaleLogError(Exception):
    """Raised when events that were already read have changed; the log must be read again from the beginning."""


def flush_of(record: EventRecord) -> FlushPlanned:
    """Return the flush that a record contains.

    Raises:
        TypeError: the record is of another event.
    """
    if is_flush(record.event):
        return record.event
    raise TypeError(f"position {record.position} of the log is no flush but {record.kind}")


def search_of(record: EventRecord) -> Retrieved | None:
    """Return the search of stored turns that a record contains; None if it is of another event."""
    return record.event if isinstance(record.event, Retrieved) else None


def history_of(records: Iterable[EventRecord]) -> History:
    """Return the history of one session's complete log."""
    return Folding().apply(sorted(records, key=lambda record: record.position))
