"""What a session's log said up to a position, as rows, where the rows of today do not say it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_core.config import MemoryConfig
from memory_core.events import (
    BlockAdded,
    BlockRemoved,
    BlockStateSaved,
    ConfigurationChanged,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EventRecord,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactLabelled,
    FactsCondensed,
    FactsCurated,
    SessionImported,
    SessionReset,
    VectorsRemoved,
    VectorsStored,
    expand,
)
from memory_core.history.past_graph import PastEntity, PastGraph, PastRelation
from memory_core.history.slices.messages import Messages, MessageState
from memory_core.messages import ChatMessage, MessageRole
from memory_core.store.copies import DeliveryCopy, EntityCopy, FactCopy, MessageCopy, RelationCopy, SessionCopy

INITIAL = "initial"
"""Stands for a custom block's fields as its constructor gave them; the log does not tell them."""


@dataclass(slots=True)
class _Fact:
    block: str
    tokens: int
    confirmed_at: float
    category: str
    topics: tuple[str, ...]
    version: int = 1
    sources: set[int] = field(default_factory=set)


class PastRows:
    """What the log said up to a position, where the rows of today do not say it."""

    def __init__(self) -> None:
        self._messages = Messages()
        self.facts: dict[int, _Fact] = {}
        self.graph = PastGraph()
        self.nodes: dict[int, tuple[str, frozenset[int]]] = {}
        """Block and messages of each stored turn."""
        self.states: dict[str, str] = {}
        """Hash of each custom block's fields, or `INITIAL` before it learned anything."""
        self._deliveries: dict[int, DeliveryCopy] = {}
        self._due: dict[int, frozenset[int]] = {}
        self._turn_delivered = 0
        self._recording = False
        self._config: dict[str, Any] = {}
        self._constructor: dict[str, Any] = {}

    def take(self, record: EventRecord) -> None:
        self.graph.take(record)
        if gone := self._messages.apply(record):
            self._forget(gone)
        self._take_delivery(record)
        self._take_fact(record)
        self._take_vectors(record)
        self._take_session(record)

    @property
    def messages(self) -> dict[int, MessageState]:
        """Those that are in the queue or the archive."""
        return {seq: state for seq, state in self._messages.by_seq.items() if state.here}

    def _forget(self, gone: Collection[int]) -> None:
        """What a reset forgot supports nothing any more."""
        self.graph.forget(gone)
        for fact in self.facts.values():
            fact.sources.difference_update(gone)
        self.nodes = {number: node for number, node in self.nodes.items() if node[1].isdisjoint(gone)}

    def _take_delivery(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, DeliveryQueued):
            seqs = expand(event.seqs)
            self._due[event.delivery] = frozenset(seqs)
            self._deliveries[event.delivery] = DeliveryCopy(
                id=event.delivery,
                block=event.block,
                trigger=event.trigger,
                flush=self._messages.flushes if event.trigger == "flush" else None,
                first_seq=seqs[0],
                last_seq=seqs[-1],
                messages=len(seqs),
                tokens=event.tokens,
                turn=record.turn,
                state="pending",
                attempts=0,
                error=None,
                created_at=record.at,
                done_at=None,
            )
            if event.trigger == "turn":
                self._turn_delivered = max(self._turn_delivered, seqs[-1])
        elif isinstance(event, DeliveryDone):
            self._hand(event.deliveries, state="done", attempts=event.attempt, error=None, done_at=record.at)
        elif isinstance(event, DeliveryFailed):
            self._hand(event.deliveries, attempts=event.attempt, error=event.error)
        elif isinstance(event, DeliveryParked):
            self._hand(event.deliveries, state="parked")
        elif isinstance(event, DeliveryRetried):
            self._hand(event.deliveries, state="pending", attempts=0, error=None)
        elif isinstance(event, DeliverySkipped):
            given_up = {"error": None} if record.actor != "engine" else {}
            self._hand(event.deliveries, state="skipped", done_at=record.at, **given_up)
        elif isinstance(event, BlockRemoved) and record.actor != "engine":  # a person's removal takes them along
            self._deliveries = {n: row for n, row in self._deliveries.items() if row.block != event.block}

    def _hand(self, deliveries: Iterable[int], **changes: Any) -> None:
        for number in deliveries:
            if number in self._deliveries:
                self._deliveries[number] = self._deliveries[number].model_copy(update=changes)

    def _take_fact(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactAdded):
            sources = set(expand(event.sources))
            shown = (event.category, event.topics)
            self.facts[event.fact] = _Fact(event.block, event.tokens, record.at, *shown, sources=sources)
        elif isinstance(event, FactsCondensed):
            for several, one in event.merged:
                if one in self.facts:
                    self.facts[one].sources.update(*(self.facts[n].sources for n in several if n in self.facts))
        elif isinstance(event, FactsCurated):
            for number, session, seqs in event.support:
                if number in self.facts and not session:
                    change = set.update if event.undoes is None else set.difference_update
                    change(self.facts[number].sources, expand(seqs))
        elif isinstance(event, FactDecided) or (fact := self.facts.get(getattr(event, "fact", 0))) is None:
            return
        elif isinstance(event, FactErased):
            del self.facts[event.fact]
        elif isinstance(event, FactConfirmed):
            fact.confirmed_at = record.at
            fact.sources.update(expand(event.sources))
        else:  # every other event about one fact is a version of it
            fact.version += 1
            if isinstance(event, FactChanged):
                fact.tokens = event.tokens
            elif isinstance(event, FactLabelled):
                fact.category, fact.topics = event.category, event.topics

    def _take_vectors(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, VectorsStored):
            for number, seqs, _ in event.nodes:
                self.nodes[number] = (event.block, frozenset(expand(seqs)))
        elif isinstance(event, VectorsRemoved):
            for number in event.numbers:
                self.nodes.pop(number, None)
        elif isinstance(event, BlockRemoved) and record.actor != "engine":
            self.nodes = {number: node for number, node in self.nodes.items() if node[0] != event.block}

    def _take_session(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, ConfigurationChanged):
            self._config |= event.after
            if event.source == "constructor":
                self._constructor |= event.after
        elif isinstance(event, SessionImported):
            self._recording = True
        elif isinstance(event, BlockAdded):
            self.states[event.block] = INITIAL
        elif isinstance(event, BlockRemoved):
            self.states.pop(event.block, None)
        elif isinstance(event, BlockStateSaved):
            self.states[event.block] = event.content
        elif isinstance(event, SessionReset) and event.status is None:
            self.states.clear()

    # -- as rows ---------------------------------------------------------------------------------

    def session_row(self, now: SessionCopy, log: Sequence[EventRecord]) -> SessionCopy:
        # What a constructor gave beside settings is not in the log: it is taken as it is now.
        beside = {name: value for name, value in now.constructor.items() if name not in MemoryConfig.model_fields}
        counter = self._messages.counters[-1][1] if self._messages.counters else now.counter
        if any(state.place == "queued" and state.counter != counter for state in self.messages.values()):
            counter = ""  # counted again when the session is next written
        return now.model_copy(
            update={
                "next_seq": self._messages.next_seq,
                "turns": log[-1].turn if log else 0,
                "flushes": self._messages.flushes,
                "turn_delivered": self._turn_delivered,
                "counter": counter,
                "config": self._config,
                "constructor": {**self._constructor, **beside},
                "recording": now.recording if self._recording else None,
            }
        )

    def message_rows(self, now: Iterable[MessageCopy], texts: Mapping[str, str]) -> tuple[MessageCopy, ...]:
        """Those whose words are still there, as large as they were counted then, where that is known."""
        today = {message.seq: message for message in now}
        found = []
        for seq, past in self.messages.items():
            if past.added.content not in texts:
                continue
            row = today.get(seq)
            known = row is not None and row.counter == past.counter and row.content == past.added.content
            if row is None or not known:
                row = _message_row(past, texts[past.added.content])
                past.counter = row.counter
            status = "archived" if past.place == "archived" else "active"
            found.append(row.model_copy(update={"status": status, "flush": past.flush}))
        return tuple(found)

    def delivery_rows(self, seqs: set[int]) -> tuple[DeliveryCopy, ...]:
        return tuple(row for number, row in sorted(self._deliveries.items()) if self._due[number] & seqs)

    def fact_rows(self, now: Iterable[FactCopy]) -> tuple[FactCopy, ...]:
        """Facts with the words, state and history they had; those of the user as they are."""
        found = []
        for fact in now:
            past = self.facts.get(fact.id)
            if fact.owner == "user":
                found.append(fact)
            elif past is not None:
                found.append(_fact_row(fact, past))
        return tuple(found)

    def graph_rows(
        self, entities: Iterable[int], relations: Iterable[int], texts: Mapping[str, str]
    ) -> tuple[tuple[EntityCopy, ...], tuple[RelationCopy, ...]]:
        """Entities and relations as they were, of these numbers that are there still, with their words.

        What an erased entity was part of is gone with it.
        """
        here, still = set(entities), set(relations)
        kept = {n: e for n, e in self.graph.entities.items() if n in here and e.hashes <= texts.keys()}
        while lost := {n for n, e in kept.items() if e.merged_into is not None and e.merged_into not in kept}:
            kept = {n: e for n, e in kept.items() if n not in lost}
        joined = {
            n: r
            for n, r in self.graph.relations.items()
            if n in still and r.predicate in texts and {r.subject, r.object} <= kept.keys()
        }
        return (
            tuple(_entity_row(entity) for _, entity in sorted(kept.items())),
            tuple(_relation_row(relation, joined) for _, relation in sorted(joined.items())),
        )


def _message_row(past: MessageState, text: str) -> MessageCopy:
    """A row that is no more, from the event that told of it."""
    message, added = ChatMessage.from_json(text), past.added
    calls = [call.tool_call_id for call in message.tool_calls if call.tool_call_id]
    return MessageCopy(
        seq=added.seq,
        id=added.message_id,
        role=added.role,
        status="active",
        pinned=added.pinned,
        turn=past.record.turn,
        tokens=added.tokens,
        reference_tokens=added.reference_tokens,
        counter=added.counter,
        calls=json.dumps(calls) if calls else None,
        answers=message.tool_call_id if message.role is MessageRole.TOOL else None,
        flush=None,
        content=added.content,
        at=past.record.at,
    )


def _fact_row(fact: FactCopy, past: _Fact) -> FactCopy:
    revisions = tuple(revision for revision in fact.revisions if revision.version <= past.version)
    last = revisions[-1]
    return fact.model_copy(
        update={
            "content": last.content,
            "tokens": past.tokens,
            "state": last.state,
            "pinned": last.pinned,
            "confirmed_at": past.confirmed_at,
            "updated_at": last.at,
            "version": last.version,
            "revisions": revisions,
            "topics": past.topics,
            "category": past.category,
            "sources": tuple(sorted(past.sources)),
        }
    )


def _entity_row(entity: PastEntity) -> EntityCopy:
    return EntityCopy(**{name: getattr(entity, name) for name in EntityCopy.model_fields})


def _relation_row(relation: PastRelation, there: Collection[int]) -> RelationCopy:
    values = {name: getattr(relation, name) for name in RelationCopy.model_fields}
    values["sources"] = tuple(sorted(relation.sources))
    values["ended_by"] = relation.ended_by if relation.ended_by in there else None
    return RelationCopy(**values)
