"""A session at a position of its log, rebuilt from events and the content store alone.

Reproduces what the tables held then without reading them: queue, archive, facts, graphs, the latest context word for
word, and the outcome of every message. Words erased since are left out and reported as missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from memory_core.events import EventRecord, MessageAdded, expand
from memory_core.history.context_pieces import PieceReader, Pieces, Words, lay_out
from memory_core.history.contexts import context_of, places_of
from memory_core.history.learned_slices import PastFact
from memory_core.history.message_slice import MessagePlace, State
from memory_core.history.projection import Projection, project
from memory_core.messages import ChatMessage
from memory_core.planning.fact_merging import Fact
from memory_core.planning.graph_rules import Graph
from memory_core.planning.rendering import InsertMethod


@dataclass(frozen=True, slots=True)
class RebuiltMessage:
    """A message with its metadata; `message` is None if its words were erased since."""

    seq: int
    role: str
    pinned: bool
    message: ChatMessage | None


@dataclass(frozen=True, slots=True)
class MessageDelivery:
    """Delivery that included a message."""

    delivery: int
    block: str
    trigger: str
    state: State = "pending"
    attempts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RebuiltOutcome:
    seq: int
    place: MessagePlace
    flush: int | None
    """Number of the flush in which the message left the queue; None: it has not."""
    handed: tuple[MessageDelivery, ...]
    facts: tuple[int, ...]
    """Ids of facts learned from the message, in any state; erased ones are omitted."""
    vectors: tuple[int, ...]
    """Numbers of stored turns that contain the message."""
    relations: tuple[int, ...]
    """Ids of relations learned from the message, in any state; erased ones are omitted."""
    in_context: bool
    """True if the message was in the latest context."""


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at one position of its log."""

    position: int
    queue: tuple[RebuiltMessage, ...]
    """Oldest first, pinned messages included."""
    archived: tuple[RebuiltMessage, ...]
    facts: tuple[Fact, ...]
    """Facts in every state but erased, oldest first; texts erased since are empty, and scopes unknown."""
    graphs: dict[str, Graph]
    """The graph of each block that has one, by the block's name."""
    context: tuple[ChatMessage, ...] | None
    """The messages of the latest context; None if none was built yet."""
    outcomes: dict[int, RebuiltOutcome]
    """Every message that was added, by sequence number."""
    missing: tuple[str, ...]
    """Hashes of needed words that were erased."""


def rebuild(
    events: Iterable[EventRecord], words: Words, upto: int | None = None, *, session_id: str | None = None
) -> SessionSnapshot:
    """Rebuild the session at position `upto` of its log, inclusive (None: at the end).

    `session_id` defaults to that of the first event. To include user-scoped facts, pass the events of the user's other
    sessions as well.
    """
    log = sorted((record for record in events if upto is None or record.position <= upto), key=lambda r: r.position)
    session = session_id if session_id is not None else log[0].session_id if log else ""
    return Past(project(log, session)).rebuilt(words)


class Past:
    """Reads a session's state from its projection."""

    def __init__(self, past: Projection) -> None:
        self._past, self._session_id = past, past.session_id or ""

    def rebuilt(self, words: Words) -> SessionSnapshot:
        # The latest context is read as of its own position: words may have changed since.
        latest, names = self._past.prompts.latest, [block.name for block in self._past.prompts.blocks]
        reader = PieceReader(Pieces(self._past), latest.position if latest else self._past.position, names, words)
        messages = self._past.messages.by_seq.values()
        queue = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "queued")
        archived = tuple(_rebuilt(state.added, reader) for state in messages if state.place == "archived")
        facts_of_session = {
            id: fact
            for id, fact in self._past.facts.by_id.items()
            # Facts of the user belong here too, if the session ever had a block that shows them.
            if fact.record.session_id == self._session_id or fact.added.block in self._past.blocks.users
        }
        facts = tuple(fact.worded(reader.text) for _, fact in sorted(facts_of_session.items()))
        context = None
        if latest is not None:
            event = context_of(latest)
            context = lay_out(event, reader).messages(InsertMethod(event.insert_method))
        graphs, outcomes = self._past.graph.graphs(self._session_id, reader.text), self._outcomes(facts_of_session)
        position, missing = self._past.position, tuple(reader.missing)
        return SessionSnapshot(position, queue, archived, facts, graphs, context, outcomes, missing)

    def _outcomes(self, facts: dict[int, PastFact]) -> dict[int, RebuiltOutcome]:
        handed: dict[int, list[MessageDelivery]] = {}
        for number, due in self._past.deliveries.by_number.items():
            delivery = MessageDelivery(number, due.queued.block, due.queued.trigger, due.state, due.attempts, due.error)
            for seq in due.seqs:
                handed.setdefault(seq, []).append(delivery)
        learned: dict[int, list[int]] = {}
        for id, fact in facts.items():
            for session_id, seq in fact.sources:
                # A message supports a fact by session and number, as a user's facts come from several sessions.
                if session_id == self._session_id:
                    learned.setdefault(seq, []).append(id)
        related: dict[int, list[int]] = {}
        for relation in self._past.graph.relations.values():
            for _, seq in relation.sources:
                related.setdefault(seq, []).append(relation.id)
        stored: dict[int, list[int]] = {}
        for number, unit in self._past.vectors.units():
            for seq in expand(unit.seqs):
                stored.setdefault(seq, []).append(number)
        # Messages recalled by a block are not counted, only those of the queue and the pinned ones.
        latest = self._past.prompts.latest
        shown = set(places_of(context_of(latest))) if latest is not None else set()
        return {
            seq: RebuiltOutcome(
                seq=seq,
                place=message.place,
                flush=message.flush,
                handed=tuple(handed.get(seq, ())),
                facts=tuple(sorted(learned.get(seq, ()))),
                vectors=tuple(sorted(stored.get(seq, ()))),
                relations=tuple(sorted(related.get(seq, ()))),
                in_context=seq in shown,
            )
            for seq, message in self._past.messages.by_seq.items()
        }


def _rebuilt(added: MessageAdded, reader: PieceReader) -> RebuiltMessage:
    return RebuiltMessage(added.seq, added.role, added.pinned, reader.message(added.seq))
