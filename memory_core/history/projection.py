"""A session as recorded in its log: each event is applied to every slice, and a reset removes what it forgot."""

from collections.abc import Collection, Iterable

from memory_core.events import EventRecord
from memory_core.history.block_slice import BLOCK_EVENTS, Blocks
from memory_core.history.contexts import PromptCounts
from memory_core.history.learned_slices import (
    FACT_EVENTS,
    GRAPH_EVENTS,
    UNIT_EVENTS,
    FactSlice,
    GraphWords,
    PastGraph,
    Vectors,
)
from memory_core.history.message_slice import (
    DELIVERY_EVENTS,
    MESSAGE_EVENTS,
    NOTHING,
    Deliveries,
    Messages,
    adds_message,
)


class Projection:
    """A session as recorded in its log. Events of other sessions count only for facts, which may be user-scoped."""

    def __init__(self, session_id: str | None = None) -> None:
        """`session_id` None: that of the first event."""
        self.session_id = session_id
        self.position = 0
        """Position of the last record applied."""
        self.blocks = Blocks()
        self.messages = Messages()
        self.deliveries = Deliveries(self.messages)
        self.facts = FactSlice()
        self.graph = PastGraph()
        self.graph_words = GraphWords()
        self.vectors = Vectors()
        self.prompts = PromptCounts(self.blocks, self.vectors)

    def apply(self, record: EventRecord) -> Collection[int]:
        """Apply an event and return the sequence numbers of the messages it forgot."""
        self.session_id, self.position = self.session_id or record.session_id, record.position
        kind, gone = type(record.event), NOTHING
        # Before the session is compared: a user's facts may be recorded in another session's log.
        if kind in FACT_EVENTS:
            self.facts.apply(record)
        if record.session_id != self.session_id:
            return gone
        # Messages before deliveries: a delivery needs the number of its flush and, after a reset, the messages left.
        if kind in MESSAGE_EVENTS:
            gone = self.messages.apply(record)
        if adds_message(record.event):
            return gone  # no other slice has anything of it, and most events are messages
        if gone:
            self.facts.forget({(record.session_id, seq) for seq in gone})
            self.graph.forget(gone)
            self.vectors.forget(gone)
            self.deliveries.forget()
        if kind in BLOCK_EVENTS:
            removed = self.blocks.apply(record)
            if removed is not None and record.actor != "engine":  # a person's removal also removes its contents
                self.deliveries.drop(removed)
                self.vectors.drop(removed)
        if kind in DELIVERY_EVENTS:
            self.deliveries.apply(record)
        if kind in GRAPH_EVENTS:
            self.graph.apply(record)
            self.graph_words.apply(record)
        if kind in UNIT_EVENTS:
            self.vectors.apply(record)
        # Prompts last: they hold what blocks and units were before them.
        self.prompts.apply(record, gone)
        return gone


def project(records: Iterable[EventRecord], session_id: str | None = None) -> Projection:
    """Return the projection of these records, oldest first; `session_id` as in `Projection`."""
    past = Projection(session_id)
    for record in records:
        past.apply(record)
    return past
