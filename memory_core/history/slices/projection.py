"""All slices of one session: each event is applied to every slice, and a reset removes what it forgot from all."""

from collections.abc import Collection

from memory_core.events import EventRecord, SessionReset
from memory_core.history.slices import block_slice as blocks
from memory_core.history.slices import delivery_slice as deliveries
from memory_core.history.slices import fact_slice as facts
from memory_core.history.slices import graph_slice as graph
from memory_core.history.slices import message_slice as messages
from memory_core.history.slices import vector_slice as vectors
from memory_core.history.slices.block_slice import Blocks
from memory_core.history.slices.delivery_slice import Deliveries
from memory_core.history.slices.fact_slice import Facts
from memory_core.history.slices.graph_slice import PastGraph
from memory_core.history.slices.message_slice import NOTHING, Messages
from memory_core.history.slices.vector_slice import Vectors


class Projection:
    """A session as recorded in its log. Events of other sessions count only for facts, which may be user-scoped."""

    def __init__(self, session_id: str | None = None) -> None:
        """`session_id` None: that of the first event."""
        self.session_id = session_id
        self.blocks = Blocks()
        self.messages = Messages()
        self.deliveries = Deliveries(self.messages)
        self.facts = Facts()
        self.graph = PastGraph()
        self.vectors = Vectors()

    def apply(self, record: EventRecord) -> Collection[int]:
        """Apply an event and return the sequence numbers of the messages it forgot."""
        self.session_id = self.session_id or record.session_id
        kind, gone = type(record.event), NOTHING
        if kind in facts.HANDLED:
            self.facts.apply(record)
        if record.session_id != self.session_id:
            return gone
        if kind in messages.HANDLED:
            gone = self.messages.apply(record)
        if kind is SessionReset:
            self.facts.forget({(record.session_id, seq) for seq in gone})
            self.graph.forget(gone)
            self.vectors.forget(gone)
            self.deliveries.forget()
        if kind in blocks.HANDLED:
            removed = self.blocks.apply(record)
            if removed is not None and record.actor != "engine":  # a person's removal also removes its contents
                self.deliveries.drop(removed)
                self.vectors.drop(removed)
        if kind in deliveries.HANDLED:
            self.deliveries.apply(record)
        if kind in graph.HANDLED:
            self.graph.apply(record)
        if kind in vectors.HANDLED:
            self.vectors.apply(record)
        return gone
