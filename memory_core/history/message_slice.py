"""Messages: the location of each, since when, the contents of the queue, and the progress of their deliveries."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeGuard

from memory_core.events import (
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    Event,
    EventRecord,
    FlushPlanned,
    MessageAdded,
    QueueRecounted,
    QueueReplaced,
    SessionReset,
    expand,
)

MessagePlace = Literal["queued", "archived", "replaced", "forgotten"]
"""`replaced` by `Memory.set`, `forgotten` by a reset."""

MESSAGE_EVENTS = frozenset({MessageAdded, FlushPlanned, QueueReplaced, QueueRecounted, SessionReset})

NOTHING: Collection[int] = ()


def adds_message(event: Event) -> TypeGuard[MessageAdded]:
    return isinstance(event, MessageAdded)


def is_flush(event: Event) -> TypeGuard[FlushPlanned]:
    return isinstance(event, FlushPlanned)


@dataclass(slots=True)
class MessageState:
    """Message that was put, forgotten ones included."""

    record: EventRecord
    """`MessageAdded` record of the message: turn, time and position."""
    added: MessageAdded
    counter: str
    """Name of the counter that counted the message's tokens."""
    place: MessagePlace = "queued"
    flush: int | None = None
    """Number of the flush in which the message left the queue; None: no flush moved it."""
    left_at: int | None = None
    """Log position at which the message left the queue; None: it has not."""

    @property
    def here(self) -> bool:
        """True if the message is in the queue or the archive."""
        return self.place in ("queued", "archived")


class Messages:
    """All messages of a session, up to the last record applied, with running totals of its queue.

    Pinned messages are in the queue but in none of the totals.
    """

    def __init__(self) -> None:
        self.by_seq: dict[int, MessageState] = {}
        """Messages in the order in which they were added."""
        self.next_seq = 1
        self.flushes = 0
        """Number of the last flush."""
        self.summaries: dict[int, FlushPlanned] = {}
        """Messages that an agent's compaction put in place of others, with the flush of these."""
        self.counters: list[tuple[int, str]] = []
        """Names of token counters, by the position from which each was in use."""
        self.queue_messages = self.queue_content = self.queue_reference = 0
        self.archived_messages = 0
        self.stated_tokens: int | None = None
        """Queue size in tokens that the last event stated, in the accounting of that event; None if it stated none."""
        self._queued: set[int] = set()

    def apply(self, record: EventRecord) -> Collection[int]:
        """Apply an event and return the sequence numbers of messages it forgot, which are no longer sources."""
        event = record.event
        self.stated_tokens = None
        if isinstance(event, MessageAdded):
            self.by_seq[event.seq] = MessageState(record, event, event.counter)
            self.next_seq = max(self.next_seq, event.seq + 1)
            self._queued.add(event.seq)
            self._count(event, 1)
            self._counted_with(event.counter, record.position)
        elif isinstance(event, FlushPlanned):
            self.flushes, self.stated_tokens = event.flush, event.queue_after
            self.summaries.update(dict.fromkeys(expand(event.summary), event))
            for state in self._leave(expand(event.seqs), "archived", record.position):
                state.flush = event.flush
                self.archived_messages += 1
        elif isinstance(event, QueueReplaced):
            self._leave(expand(event.removed), "replaced", record.position)
        elif isinstance(event, QueueRecounted):
            self.stated_tokens = event.tokens_after
            self._counted_with(event.after, record.position)
            for seq in self._queued:
                self.by_seq[seq].counter = event.after
        elif isinstance(event, SessionReset):
            return self._forget(event, record.position)
        return NOTHING

    def in_queue(self, position: int, *, first: int, before: int) -> list[int]:
        """Return messages from `first` to `before` (exclusive) in the queue at a position, without pinned ones."""
        return [
            seq
            for seq in range(first, before)
            if (state := self.by_seq.get(seq)) is not None
            and not state.added.pinned
            # A message that has not left counts as leaving just after the position.
            and state.record.position <= position < (position + 1 if state.left_at is None else state.left_at)
        ]

    def _leave(self, seqs: Iterable[int], place: MessagePlace, position: int) -> list[MessageState]:
        """Take messages out of the queue and return those that exist in the session."""
        gone = [self.by_seq[seq] for seq in seqs if seq in self.by_seq]
        for state in gone:
            # An archived message has left the queue before: a reset changes only its place.
            if state.added.seq in self._queued:
                self._queued.discard(state.added.seq)
                self._count(state.added, -1)
                state.left_at = position
            state.place = place
        return gone

    def _forget(self, event: SessionReset, position: int) -> set[int]:
        # A reset of one status forgets messages of that place only; without a status it forgets both.
        places = {"active": ("queued",), "archived": ("archived",)}.get(event.status or "", ("queued", "archived"))
        among = self.by_seq if event.seqs is None else [seq for seq in expand(event.seqs) if seq in self.by_seq]
        gone = {seq for seq in among if self.by_seq[seq].place in places}
        self.archived_messages -= sum(self.by_seq[seq].place == "archived" for seq in gone)
        self._leave(gone, "forgotten", position)
        return gone

    def _count(self, added: MessageAdded, by: int) -> None:
        if not added.pinned:
            self.queue_messages += by
            self.queue_content += by * added.tokens
            self.queue_reference += by * added.reference_tokens

    def _counted_with(self, counter: str, position: int) -> None:
        if not self.counters or self.counters[-1][1] != counter:
            self.counters.append((position, counter))


# -- deliveries -----------------------------------------------------------------------------------


DELIVERY_EVENTS = frozenset(
    {DeliveryQueued, DeliveryDone, DeliveryFailed, DeliveryParked, DeliveryRetried, DeliverySkipped}
)


def queues_delivery(event: Event) -> TypeGuard[DeliveryQueued]:
    return isinstance(event, DeliveryQueued)


State = Literal["pending", "done", "parked", "skipped"]


@dataclass(slots=True)
class DeliveryState:
    """Delivery that is or was due."""

    record: EventRecord
    """`DeliveryQueued` record of the delivery: turn and time."""
    queued: DeliveryQueued
    flush: int | None
    """Number of the flush whose messages are delivered; None for delivery turn by turn."""
    state: State = "pending"
    attempts: int = 0
    error: str | None = None
    seconds: float | None = None
    """Seconds of the successful attempt, including anything else delivered with it."""
    done_at: float | None = None
    """Time, in seconds since 1970."""
    given_up: bool = False
    """True if a person skipped the delivery, whose row then has no error."""
    dropped: bool = False
    """True if a person removed the block, or a reset forgot all messages of the delivery."""

    @property
    def seqs(self) -> frozenset[int]:
        """Messages of the delivery."""
        return frozenset(expand(self.queued.seqs))


class Deliveries:
    """All deliveries of a session, up to the last record applied."""

    def __init__(self, messages: Messages) -> None:
        self.by_number: dict[int, DeliveryState] = {}
        """Deliveries in the order in which they became due."""
        self.due: dict[int, DeliveryState] = {}
        """Unfinished deliveries, parked ones included."""
        self.errors: dict[str, str] = {}
        """Error of the last attempt per block, unless a later delivery succeeded."""
        self._messages = messages

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, DeliveryQueued):
            # The flush precedes its deliveries in the log, so it is the latest one.
            flush = self._messages.flushes if event.trigger == "flush" else None
            state = DeliveryState(record, event, flush)
            self.by_number[event.delivery] = self.due[event.delivery] = state
        elif isinstance(event, DeliveryDone):
            for state in self._of(event.deliveries):
                # One attempt may have delivered several batches: each has its number and its time.
                state.state, state.attempts, state.error = "done", event.attempt, None
                state.seconds, state.done_at = event.seconds, record.at
            self._end(event.deliveries, event.block)
        elif isinstance(event, DeliveryFailed):
            for state in self._of(event.deliveries):
                state.attempts, state.error = event.attempt, event.error
            self.errors[event.block] = event.error
        elif isinstance(event, DeliveryParked):
            for state in self._of(event.deliveries):
                state.state = "parked"
            self.errors[event.block] = event.error
        elif isinstance(event, DeliveryRetried):
            for state in self._of(event.deliveries):
                # A person's retry starts the count of attempts anew.
                state.state, state.attempts, state.error = "pending", 0, None
        elif isinstance(event, DeliverySkipped):
            for state in self._of(event.deliveries):
                state.state, state.done_at = "skipped", record.at
                # The engine skips deliveries of a removed block; those rows keep their error.
                state.given_up = record.actor != "engine"
            self._end(event.deliveries, event.block)

    def drop(self, block: str) -> None:
        """Drop all deliveries to a block that a person removed."""
        for state in self.by_number.values():
            state.dropped |= state.queued.block == block
        self._leave_dropped()

    def forget(self) -> None:
        """After a reset, drop deliveries without remaining messages, and errors, which may quote forgotten text."""
        # A delivery is still due while one of its messages remains, and then contains only those that do.
        present = {seq for seq, message in self._messages.by_seq.items() if message.here}
        for state in self.by_number.values():
            state.dropped |= present.isdisjoint(state.seqs)
        self._leave_dropped()
        self.errors.clear()

    def _end(self, numbers: tuple[int, ...], block: str) -> None:
        for number in numbers:
            self.due.pop(number, None)
        self.errors.pop(block, None)

    def _leave_dropped(self) -> None:
        self.due = {number: state for number, state in self.due.items() if not state.dropped}

    def _of(self, numbers: tuple[int, ...]) -> list[DeliveryState]:
        return [self.by_number[number] for number in numbers if number in self.by_number]
