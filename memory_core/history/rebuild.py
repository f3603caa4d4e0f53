"""A session as it stood at a position of its log, from events and the content store alone.

What the tables said then can be said again without them: queue, archive, facts, graphs, the latest
context word for word, and what became of every message. Words that were erased since are missing, and said
to be missing.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockRemoved,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    Event,
    EventRecord,
    FactAccepted,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactErased,
    FactLabelled,
    FactPinned,
    FactProposed,
    FactRejected,
    FactRestored,
    FactRetired,
    FactsCondensed,
    FactsCurated,
    FactSuperseded,
    MessageAdded,
    Ranges,
    VectorsRemoved,
    VectorsStored,
    expand,
)
from memory_core.history.past_graph import PastGraph
from memory_core.history.pieces import PieceReader, Pieces, Words, lay_out
from memory_core.history.slices.messages import Messages, Place
from memory_core.messages import ChatMessage
from memory_core.planning.graph import Graph
from memory_core.planning.rendering import InsertMethod


@dataclass(frozen=True, slots=True)
class RebuiltMessage:
    """A message with its place; `message` is None where its words were erased since."""

    seq: int
    role: str
    pinned: bool
    message: ChatMessage | None


@dataclass(frozen=True, slots=True)
class RebuiltFact:
    """A fact as it stood; `text` is None where its words were erased since."""

    id: int
    block: str
    text: str | None
    category: str
    state: str
    pinned: bool
    origin: str
    sources: tuple[tuple[str, int], ...]
    """Session and sequence number of each message it was learned from."""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handed:
    """One delivery that a message was part of."""

    delivery: int
    block: str
    trigger: str
    state: Literal["pending", "done", "parked", "skipped"] = "pending"
    attempts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one message."""

    seq: int
    place: Place
    flush: int | None
    """Number of the flush in which it left the queue."""
    handed: tuple[Handed, ...]
    facts: tuple[int, ...]
    """Facts learned from it, whatever became of them; erased ones are missing."""
    vectors: tuple[int, ...]
    """Stored turns that hold it."""
    relations: tuple[int, ...]
    """Relations learned from it, in the same way as facts."""
    in_context: bool
    """Was it one of the messages of the latest context?"""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A session at one position of its log."""

    position: int
    queue: tuple[RebuiltMessage, ...]
    """Oldest first, pinned messages included."""
    archived: tuple[RebuiltMessage, ...]
    facts: tuple[RebuiltFact, ...]
    """In every state but erased, oldest first."""
    graphs: dict[str, Graph]
    """The graph of each block that has one, by the block's name."""
    context: tuple[ChatMessage, ...] | None
    """The messages of the latest context; None when none was built yet."""
    fates: dict[int, Fate]
    """By sequence number, of every message there ever was."""
    missing: tuple[str, ...]
    """Hashes of words that would be needed and were erased."""


def rebuild(
    events: Iterable[EventRecord], words: Words, upto: int | None = None, *, session_id: str | None = None
) -> Rebuilt:
    """The session at position `upto` of its log, that event included (None: at the end).

    `session_id` is by default that of the first event. For facts that are the user's, give the
    events of the user's other sessions as well.
    """
    log = sorted((record for record in events if upto is None or record.position <= upto), key=lambda r: r.position)
    own = session_id if session_id is not None else log[0].session_id if log else ""
    built = [r.position for r in log if r.session_id == own and isinstance(r.event, ContextBuilt)]
    past = _Past(own, latest_context=built[-1] if built else None)
    for record in log:
        past.take(record)
    return past.rebuilt(words, log[-1].position if log else 0)


# -- going through the log -----------------------------------------------------------------------


@dataclass(slots=True)
class _Fact:
    session_id: str
    added: FactAdded
    content: str
    pinned: bool
    category: str
    topics: tuple[str, ...]
    state: str = "active"
    sources: set[tuple[str, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The latest context, with the names of the blocks there were when it was built."""

    position: int
    event: ContextBuilt
    names: tuple[str, ...]


class _Past:
    """What the events said so far, words aside."""

    def __init__(self, session_id: str, *, latest_context: int | None) -> None:
        self._session_id = session_id
        self._latest_context = latest_context
        self._pieces = Pieces(session_id)
        self._messages = Messages()
        self._facts: dict[int, _Fact] = {}
        self._graph = PastGraph()
        self._nodes: dict[int, Ranges] = {}
        self._stored_in: dict[int, str] = {}
        """Block of each stored turn that is still there."""
        self._handed: dict[int, tuple[Handed, frozenset[int]]] = {}
        self._scopes: dict[str, str] = {}
        """Scope of each block the session has."""
        self._users: set[str] = set()
        """Blocks that were the user's at any time."""
        self._shown: _Shown | None = None

    def take(self, record: EventRecord) -> None:
        event = record.event
        self._pieces.take(record)
        self._take_fact(record.session_id, event)
        if record.session_id != self._session_id:
            return
        self._graph.take(record)
        if gone := self._messages.apply(record):
            self._forget(gone)
        self._take_vectors(event)
        self._take_delivery(event)
        self._take_block(record, event)
        if isinstance(event, ContextBuilt) and record.position == self._latest_context:
            self._shown = _Shown(record.position, event, tuple(self._scopes))

    def _forget(self, gone: Collection[int]) -> None:
        """What a reset forgot supports nothing any more."""
        self._graph.forget(gone)
        for fact in self._facts.values():
            fact.sources -= {(self._session_id, seq) for seq in gone}
        for number in [n for n in self._stored_in if not set(expand(self._nodes[n])).isdisjoint(gone)]:
            del self._stored_in[number]

    def _take_vectors(self, event: Event) -> None:
        if isinstance(event, VectorsStored):
            for number, seqs, _ in event.nodes:
                self._nodes[number], self._stored_in[number] = seqs, event.block
        elif isinstance(event, VectorsRemoved):
            for number in event.numbers:
                self._stored_in.pop(number, None)

    def _take_delivery(self, event: Event) -> None:
        if isinstance(event, DeliveryQueued):
            handed = Handed(event.delivery, event.block, event.trigger)
            self._handed[event.delivery] = (handed, frozenset(expand(event.seqs)))
        elif isinstance(event, DeliveryDone):
            self._hand(event.deliveries, state="done", attempts=event.attempt, error=None)
        elif isinstance(event, DeliveryFailed):
            self._hand(event.deliveries, attempts=event.attempt, error=event.error)
        elif isinstance(event, DeliveryParked):
            self._hand(event.deliveries, state="parked")
        elif isinstance(event, DeliveryRetried):
            self._hand(event.deliveries, state="pending", attempts=0, error=None)
        elif isinstance(event, DeliverySkipped):
            self._hand(event.deliveries, state="skipped")

    def _hand(self, deliveries: Sequence[int], **changes: object) -> None:
        for delivery in deliveries:
            handed, seqs = self._handed[delivery]
            self._handed[delivery] = (replace(handed, **changes), seqs)  # type: ignore[arg-type]

    def _take_block(self, record: EventRecord, event: Event) -> None:
        if isinstance(event, BlockAdded):
            self._scopes[event.block] = str(event.settings.get("scope", "session"))
        elif isinstance(event, BlockEdited) and "scope" in event.settings:
            self._scopes[event.block] = str(event.settings["scope"])
        elif isinstance(event, BlockRemoved):
            self._scopes.pop(event.block, None)
            if record.actor != "engine":  # a person's removal takes the stored turns along
                self._stored_in = {n: block for n, block in self._stored_in.items() if block != event.block}
        self._users |= {block for block, scope in self._scopes.items() if scope == "user"}

    def _take_fact(self, session_id: str, event: Event) -> None:
        if isinstance(event, FactAdded):
            shown = (event.content, event.pinned, event.category, event.topics)
            fact = _Fact(session_id, event, *shown, event.state)
            fact.sources = {(session_id, seq) for seq in expand(event.sources)}
            self._facts[event.fact] = fact
            return
        if isinstance(event, FactsCondensed):
            self._hand_on(event)
        elif isinstance(event, FactsCurated):
            self._take_support(session_id, event)
        known = self._facts.get(getattr(event, "fact", -1))
        if known is None:
            return
        if isinstance(event, FactErased):
            del self._facts[event.fact]
        elif isinstance(event, FactConfirmed):
            known.sources |= {(session_id, seq) for seq in expand(event.sources)}
        elif isinstance(event, FactChanged):
            known.content = event.after
        elif isinstance(event, FactPinned):
            known.pinned = event.pinned
        elif isinstance(event, FactLabelled):
            known.category, known.topics = event.category, event.topics
        elif isinstance(event, FactSuperseded):
            known.state = "superseded"
        elif isinstance(event, FactRetired):
            known.state = "retired"
        elif isinstance(event, FactRejected):
            known.state = "rejected"
        elif isinstance(event, FactRestored | FactAccepted):
            known.state = "active"
        elif isinstance(event, FactProposed):
            known.state = "proposed"

    def _hand_on(self, event: FactsCondensed) -> None:
        """A fact that stands for others has their support; one that stands for none has that of the whole list."""
        longer = {*event.kept, *event.vanished, *(id for sources, _ in event.merged for id in sources)}
        for sources, into in [*event.merged, *((longer, id) for id in event.new)]:
            if into in self._facts:
                facts = [self._facts[id] for id in sources if id in self._facts]
                self._facts[into].sources |= {source for fact in facts for source in fact.sources}

    def _take_support(self, session_id: str, event: FactsCurated) -> None:
        for id, session, seqs in event.support:
            if id in self._facts:
                places = {(session or session_id, seq) for seq in expand(seqs)}
                sources = self._facts[id].sources
                self._facts[id].sources = sources | places if event.undoes is None else sources - places

    # -- putting it together ---------------------------------------------------------------------

    def rebuilt(self, words: Words, position: int) -> Rebuilt:
        shown = self._shown
        reader = PieceReader(self._pieces, shown.position if shown else position, shown.names if shown else (), words)
        messages = self._messages.by_seq.values()
        queue = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "queued")
        archived = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "archived")
        own = {
            id: fact
            for id, fact in self._facts.items()
            if fact.session_id == self._session_id or fact.added.block in self._users
        }
        facts = tuple(self._fact(id, fact, reader) for id, fact in sorted(own.items()))
        context = None
        if shown is not None:
            context = lay_out(shown.event, reader).messages(InsertMethod(shown.event.insert_method))
        graphs = self._graph.graphs(self._session_id, reader.text)
        fates = self._fates(own)
        return Rebuilt(position, queue, archived, facts, graphs, context, fates, tuple(reader.missing))

    @staticmethod
    def _fact(id: int, fact: _Fact, reader: PieceReader) -> RebuiltFact:
        return RebuiltFact(
            id=id,
            block=fact.added.block,
            text=reader.text(fact.content),
            category=fact.category,
            state=fact.state,
            pinned=fact.pinned,
            origin=fact.added.origin,
            sources=tuple(sorted(fact.sources)),
            topics=fact.topics,
        )

    def _fates(self, facts: dict[int, _Fact]) -> dict[int, Fate]:
        handed: dict[int, list[Handed]] = {}
        for delivery, seqs in self._handed.values():
            for seq in seqs:
                handed.setdefault(seq, []).append(delivery)
        learned: dict[int, list[int]] = {}
        for id, fact in facts.items():
            for session_id, seq in fact.sources:
                if session_id == self._session_id:
                    learned.setdefault(seq, []).append(id)
        related: dict[int, list[int]] = {}
        for relation in self._graph.relations.values():
            for seq in relation.sources:
                related.setdefault(seq, []).append(relation.id)
        stored: dict[int, list[int]] = {}
        for number in self._stored_in:
            for seq in expand(self._nodes[number]):
                stored.setdefault(seq, []).append(number)
        shown = {*expand(self._shown.event.queue), *expand(self._shown.event.pinned)} if self._shown else set()
        return {
            seq: Fate(
                seq=seq,
                place=message.place,
                flush=message.flush,
                handed=tuple(handed.get(seq, ())),
                facts=tuple(sorted(learned.get(seq, ()))),
                vectors=tuple(sorted(stored.get(seq, ()))),
                relations=tuple(sorted(related.get(seq, ()))),
                in_context=seq in shown,
            )
            for seq, message in self._messages.by_seq.items()
        }


def _rebuilt(added: MessageAdded, reader: PieceReader) -> RebuiltMessage:
    return RebuiltMessage(added.seq, added.role, added.pinned, reader.message(added.seq))
