"""Deliveries: messages due to each block, and the progress of each delivery."""

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
    expand,
)
from memory_core.history.slices.message_slice import Messages

HANDLED = frozenset({DeliveryQueued, DeliveryDone, DeliveryFailed, DeliveryParked, DeliveryRetried, DeliverySkipped})


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
