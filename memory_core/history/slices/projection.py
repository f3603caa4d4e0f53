"""All slices of one session: each event is applied to every slice, and a reset removes what it forgot from all."""

from collections.abc import Collection, Iterable

from memory_core.events import EventRecord
from memory_core.history.slices import (
    block_slice,
    delivery_slice,
    fact_slice,
    graph_slice,
    message_slice,
    vector_slice,
)
from memory_core.history.slices.block_slice import Blocks
from memory_core.history.slices.contexts import PromptCounts
from memory_core.history.slices.delivery_slice import Deliveries
from memory_core.history.slices.fact_slice import FactSlice
from memory_core.history.slices.graph_slice import GraphWords, PastGraph
from memory_core.history.slices.message_slice import NOTHING, Messages
from memory_core.history.slices.vector_slice import Vectors


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
        if kind in fact_slice.HANDLED:
            self.facts.apply(record)
        if record.session_id != self.session_id:
            return gone
        # Messages before deliveries: a delivery needs the number of its flush and, after a reset, the messages left.
        if kind in message_slice.HANDLED:
            gone = self.messages.apply(record)
        if message_slice.adds_message(record.event):
            return gone  # no other slice has anything of it, and most events are messages
        if gone:
            self.facts.forget({(record.session_id, seq) for seq in gone})
            self.graph.forget(gone)
            self.vectors.forget(gone)
            self.deliveries.forget()
        if kind in block_slice.HANDLED:
            removed = self.blocks.apply(record)
            if removed is not None and record.actor != "engine":  # a person's removal also removes its contents
                self.deliveries.drop(removed)
                self.vectors.drop(removed)
        if kind in delivery_slice.HANDLED:
            self.deliveries.apply(record)
        if kind in graph_slice.HANDLED:
            self.graph.apply(record)
            self.graph_words.apply(record)
        if kind in vector_slice.HANDLED:
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
