"""State of a session at a position of its log, as database rows."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from memory_core.config import MemoryConfig
from memory_core.events import ConfigurationChanged, EventRecord, SessionImported
from memory_core.history.block_slice import PastBlock
from memory_core.history.learned_slices import PastFact, PastGraph
from memory_core.history.message_slice import DeliveryState, MessageState
from memory_core.history.projection import project
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.graph_rules import Entity, Relation
from memory_core.store.copying.copies import (
    DeliveryCopy,
    EntityCopy,
    FactCopy,
    FactRevisionCopy,
    MessageCopy,
    RelationCopy,
    SessionCopy,
    streamed,
)


class RowsAt:
    """Exports a session's state after a log up to some position as rows."""

    def __init__(self, log: Sequence[EventRecord]) -> None:
        self._log, self._past = log, project(log)

    @cached_property
    def messages(self) -> dict[int, MessageState]:
        """Messages that are in the queue or the archive."""
        return {seq: state for seq, state in self._past.messages.by_seq.items() if state.here}

    @property
    def facts(self) -> dict[int, PastFact]:
        return self._past.facts.by_id

    @property
    def blocks(self) -> tuple[PastBlock, ...]:
        """Blocks that are present, in their order."""
        return self._past.blocks.now

    @property
    def states(self) -> dict[str, str]:
        """Hash of each custom block's fields, or `INITIAL` if the block has not saved any yet."""
        return self._past.blocks.fields

    @property
    def graph(self) -> PastGraph:
        return self._past.graph

    @property
    def nodes(self) -> Collection[int]:
        """Numbers of the stored turns."""
        return self._past.vectors.there

    # -- as rows ---------------------------------------------------------------------------------

    def session_row(self, now: SessionCopy) -> SessionCopy:
        """Return the session's own row. Called after `message_rows`, which determines the token counter."""
        # 1. Constructor arguments other than settings are not in the log: take their present values.
        beside = {name: value for name, value in now.constructor.items() if name not in MemoryConfig.model_fields}
        # 2. One counter for the whole queue, or none: sizes of two tokenizers do not add up. Without one, the queue is
        #    counted again when the session is next written.
        counter = self._past.messages.counters[-1][1] if self._past.messages.counters else now.counter
        if any(state.place == "queued" and state.counter != counter for state in self.messages.values()):
            counter = ""
        # 3. The rest comes from the log, never from the present row: turns, flushes and settings as they were.
        config: dict[str, Any] = {}
        constructor: dict[str, Any] = {}
        for record in self._log:
            if isinstance(record.event, ConfigurationChanged):
                config |= record.event.after
                constructor |= record.event.after if record.event.source == "constructor" else {}
        return now.model_copy(
            update={
                "next_seq": self._past.messages.next_seq,
                "turns": self._log[-1].turn if self._log else 0,
                "flushes": self._past.messages.flushes,
                "turn_delivered": self._turn_delivered(),
                "counter": counter,
                "config": config,
                "constructor": {**constructor, **beside},
                "recording": now.recording if any(r.kind == SessionImported.kind for r in self._log) else None,
            }
        )

    def message_rows(self, now: Iterable[MessageCopy], texts: Mapping[str, str]) -> tuple[MessageCopy, ...]:
        """Return the messages whose words are still stored, with the size counted at the time where it is known."""
        of_then = streamed(now).only(lambda rows: (row for row in rows if row.seq in self.messages))
        today = {message.seq: message for message in of_then}
        copies = []
        for seq, past in self.messages.items():
            # 1. Words that were erased since stay erased in the past too.
            if past.added.content not in texts:
                continue
            # 2. The present row has the sizes of that time if words and counter are unchanged. Otherwise only the event
            #    has sizes, counted when the message was added; the counter used then is stored with them.
            row = today.pop(seq, None)
            unchanged = row is not None and row.counter == past.counter and row.content == past.added.content
            if row is None or not unchanged:
                row = _message_row(past, texts[past.added.content])
                past.counter = row.counter
            # 3. The log always records the message's place.
            status = "archived" if past.place == "archived" else "active"
            copies.append(row.model_copy(update={"status": status, "flush": past.flush}))
        return tuple(copies)

    def delivery_rows(self, seqs: set[int]) -> tuple[DeliveryCopy, ...]:
        # Deliveries of messages that are not copied would point at nothing.
        due = sorted(self._past.deliveries.by_number.items())
        return tuple(_delivery_row(n, state) for n, state in due if not state.dropped and state.seqs & seqs)

    def _turn_delivered(self) -> int:
        """Sequence number of the last message that was due at the end of its turn."""
        states = self._past.deliveries.by_number.values()
        return max((max(state.seqs) for state in states if state.queued.trigger == "turn"), default=0)

    def fact_rows(self, now: Iterable[FactCopy]) -> tuple[FactCopy, ...]:
        """Return the facts with the words, state and history they had; user-scoped facts in their present state."""
        copies = []
        for fact in now:
            past = self.facts.get(fact.id)
            # A user's facts are shared: other sessions may have changed them, in logs that are not read here.
            if fact.owner == "user":
                copies.append(fact)
            elif past is not None:
                copies.append(_fact_row(fact, past))
        return tuple(copies)

    def graph_rows(
        self, entities: Iterable[int], relations: Iterable[int], texts: Mapping[str, str]
    ) -> tuple[tuple[EntityCopy, ...], tuple[RelationCopy, ...]]:
        """Return entities and relations in their past state, of the given ids and with words that are still stored.

        Anything that refers to an erased entity is omitted too.
        """
        here, still = set(entities), set(relations)
        # 1. Entities first, as relations need both their ends.
        entities = {n: e for n, e in self.graph.entities.items() if n in here and {e.name, *e.aliases} <= texts.keys()}
        # 2. An entity merged into a lost one is lost too: repeat until no reference dangles.
        while lost := {n for n, e in entities.items() if e.merged_into is not None and e.merged_into not in entities}:
            entities = {n: e for n, e in entities.items() if n not in lost}
        # 3. Then relations; their `ended_by` last, as it must name one of the relations that remain.
        joined = {
            n: r
            for n, r in self.graph.relations.items()
            if n in still and r.predicate in texts and {r.subject, r.object} <= entities.keys()
        }
        return (
            tuple(_entity_row(entity) for _, entity in sorted(entities.items())),
            tuple(_relation_row(relation, joined) for _, relation in sorted(joined.items())),
        )


def _message_row(past: MessageState, text: str) -> MessageCopy:
    """Reconstruct a row from the event that recorded the message."""
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


def _delivery_row(number: int, past: DeliveryState) -> DeliveryCopy:
    queued = past.queued
    return DeliveryCopy(
        id=number,
        block=queued.block,
        trigger=queued.trigger,
        flush=past.flush,
        first_seq=min(past.seqs),
        last_seq=max(past.seqs),
        messages=len(past.seqs),
        tokens=queued.tokens,
        turn=past.record.turn,
        state=past.state,
        attempts=past.attempts,
        # A delivery that a person skipped no longer shows its error.
        error=None if past.given_up else past.error,
        created_at=past.record.at,
        done_at=past.done_at,
    )


_OF_A_VERSION = FactCopy.model_fields.keys() & FactRevisionCopy.model_fields.keys() - {"turn"}
"""Values that a fact and each of its versions have; the turn is that of the fact or of the version."""


def _fact_row(fact: FactCopy, past: PastFact) -> FactCopy:
    # The values that versions have come from the last one at that time; the rest comes from the log.
    revisions = tuple(revision for revision in fact.revisions if revision.version <= past.version)
    last = revisions[-1]
    return fact.model_copy(
        update={
            **{name: getattr(last, name) for name in _OF_A_VERSION},
            "tokens": past.tokens,
            "confirmed_at": past.confirmed_at,
            "updated_at": last.at,
            "revisions": revisions,
            "topics": past.topics,
            "category": past.category,
            "slot": past.slot or fact.slot,  # older logs lack it
            "sources": tuple(sorted(seq for session, seq in past.sources if session == past.record.session_id)),
        }
    )


def _entity_row(entity: Entity) -> EntityCopy:
    return EntityCopy(**{name: getattr(entity, name) for name in EntityCopy.model_fields})


def _relation_row(relation: Relation, relations: Collection[int]) -> RelationCopy:
    values = {name: getattr(relation, name) for name in RelationCopy.model_fields}
    values["sources"] = tuple(seq for _, seq in relation.sources)
    values["ended_by"] = relation.ended_by if relation.ended_by in relations else None
    return RelationCopy(**values)
