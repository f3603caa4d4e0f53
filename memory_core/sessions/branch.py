"""Rows of a session at a position of its log, from which another session can be created.

Existing rows are reused; later changes to them are undone from the log. Erased rows are left out and counted.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from memory_core.config import MemoryConfig
from memory_core.engine.session import Session
from memory_core.errors import NotFoundError
from memory_core.events import (
    BlockEdited,
    ConfigurationChanged,
    EntityErased,
    Event,
    EventRecord,
    FactErased,
    RelationErased,
    SessionBranched,
    SessionImported,
)
from memory_core.history.block_slice import INITIAL, PastBlock, edits_text, is_rewriting
from memory_core.history.by_turn import history_of
from memory_core.history.learned_slices import PastFact, PastGraph, adds_fact
from memory_core.history.message_slice import DeliveryState, MessageState
from memory_core.history.projection import project
from memory_core.messages import ChatMessage, MessageRole, content_hash
from memory_core.planning.graph_rules import Entity, Relation
from memory_core.process import collector_paused
from memory_core.store.copying.copies import (
    BlockCopy,
    DeliveryCopy,
    EntityCopy,
    FactCopy,
    FactRevisionCopy,
    MessageCopy,
    RelationCopy,
    Rows,
    SessionCopy,
    TextCopy,
    event_copy,
    hashes_in,
    hashes_of,
    streamed,
    with_words,
)
from memory_core.store.copying.session_copying import read_rows, store_session
from memory_core.store.log_rows import read_events
from memory_core.store.vector_rows import read_all_heard
from memory_core.store.writing import PieceWriter, Step, read_existing


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


Past = TypeVar("Past")


@dataclass(frozen=True, slots=True)
class AsOf:
    """A session at one position of its log."""

    rows: Rows
    missing: int
    """Number of messages, facts, entities, relations, stored turns and texts erased since."""


def branch_session(session: Session, turn: int, *, title: str | None = None, step: Step | None = None) -> Session:
    """Create a session in the state that another one had at the end of a turn. See `Memory.branch`."""
    pieces = PieceWriter(session.database, step)
    with collector_paused():
        then, heard = _held_at(session, pieces, turn)
    now = session.clock()
    branched = event_copy(SessionBranched(source=session.id, turn=turn, missing=then.missing), turn, now, "user")
    # The event is the last of the branch's own log, so that the past above it is the copied one.
    made = replace(
        then.rows,
        session=then.rows.session.model_copy(update={"created_at": now}),
        events=streamed(then.rows.events).followed_by([branched]),
    )
    branch = str(uuid.uuid4())
    store_session(
        pieces,
        made,
        branch,
        title=title or f"{then.rows.session.title or 'Session'}, from turn {turn}",
        user_id=then.rows.session.user_id,
        now=now,
        # The user is the same: their facts are shared and not copied.
        shared={fact.id for fact in made.facts if fact.owner == "user"},
        heard=lambda _: heard,
    )
    return session.sibling(branch)


def _held_at(session: Session, pieces: PieceWriter, turn: int) -> tuple[AsOf, Mapping[int, str]]:
    """Return a session's rows at the end of a turn, and the metadata of its stored turns."""
    # Held in memory, so that the transaction ends before the slow part; of the other turns nothing is held.
    with session.database.read() as connection:
        rows = read_rows(connection, read_existing(connection, session.id))
        records = read_events(connection, session.id)
        pieces.count(0)
        then = rows_at(rows, records, _end_of(records, turn))
        return replace(then, rows=then.rows.held()), read_all_heard(connection, session.id)


def rows_at(rows: Rows, records: Sequence[EventRecord], position: int) -> AsOf:
    """Return a session's rows after the event at a position; `rows` and `records` are the complete current ones.

    User-scoped facts are shared and keep their present state.
    """
    # Nothing was recorded since: the rows are unchanged.
    if not records or position >= records[-1].position:
        return AsOf(rows, 0)
    # Rows of events are in the order of the log, so the first `count` rows are those up to the position.
    count = sum(record.position <= position for record in records)
    log = records[:count]
    past = RowsAt(log)
    # Erased texts are in no row: a past row is kept only if its texts are still stored.
    texts = {word.hash: word.data for word in streamed(rows.words).rows if word.owner == "session"}
    messages = past.message_rows(rows.messages, texts)
    # Facts added later do not belong to that moment, although their rows exist.
    later = {record.event.fact for record in records[count:] if adds_fact(record.event)}
    facts = past.fact_rows(fact for fact in rows.facts if fact.id not in later)
    entities, relations = past.graph_rows((e.id for e in rows.entities), (r.id for r in rows.relations), texts)
    nodes = frozenset(past.nodes)
    vectors = streamed(rows.vectors).only(lambda vectors: (vector for vector in vectors if vector.id in nodes))
    blocks, lost = _blocks_at(rows, log, past, texts)
    # The copied log still adds items whose rows are gone. Tombstones after it record that, as for any erased item.
    erased: list[Event] = [
        *(FactErased(n, fact.added.block) for n, fact in _gone(past.facts, facts)),
        *(RelationErased(n, relation.block) for n, relation in _gone(past.graph.relations, relations)),
        *(EntityErased(n, entity.block) for n, entity in _gone(past.graph.entities, entities)),
    ]
    session = past.session_row(rows.session)
    # Read to their end: a cursor of the server that is left before it stays open.
    until = streamed(rows.events).only(lambda events: (row for place, row in enumerate(events) if place < count))
    events = until.followed_by(event_copy(event, session.turns, log[-1].at, "engine") for event in erased)
    copied = replace(
        rows,
        session=session,
        blocks=blocks,
        messages=messages,
        facts=facts,
        entities=entities,
        relations=relations,
        vectors=vectors,
        deliveries=past.delivery_rows({message.seq for message in messages}),
        events=events,
    )
    missing = len(past.messages) - len(messages) + len(erased) + len(nodes) - sum(1 for _ in vectors.rows) + lost
    # Of the tombstones, none names a text.
    named = _needed(copied).union(chain.from_iterable(hashes_in(row.data) for row in until.rows))
    return AsOf(with_words(copied, texts.keys() & named), missing)


def _end_of(records: Sequence[EventRecord], turn: int) -> int:
    """Return the position of a turn's last event since the last renumbering; turn 0 is before the first message."""
    history = history_of(records)
    if turn in history.turns:
        return history.position_at(turn)
    if turn != 0:
        raise NotFoundError(f"This session has no turn {turn}. Its latest is {history.latest_turn}.")
    if not history.turns:
        return history.position
    # Turn 0: everything before the first message, such as the creation and its blocks.
    return history.upto(history.turns[min(history.turns)].first_position - 1)[-1].position


def _gone(then: Mapping[int, Past], rows: Iterable[FactCopy | EntityCopy | RelationCopy]) -> list[tuple[int, Past]]:
    """Return the items that existed then and have no row in `rows`, with their numbers, in order."""
    here = {row.id for row in rows}
    return sorted((pair for pair in then.items() if pair[0] not in here), key=lambda pair: pair[0])


def _needed(rows: Rows) -> set[str]:
    """Return the hashes of the session's texts that these rows refer to, but for its events."""
    result = {message.content for message in rows.messages}
    result |= {key for block in rows.blocks for key in (block.state, block.text) if key}
    result |= {text.content for block in rows.blocks for text in block.texts}
    result |= {key for fact in rows.facts if fact.owner == "session" for key in hashes_of(fact)}
    result |= {key for entity in rows.entities for key in (entity.name, *entity.aliases)}
    result |= {relation.predicate for relation in rows.relations}
    if rows.session.recording:
        result.add(rows.session.recording)
    return result


# -- blocks -----------------------------------------------------------------------------------------


def _blocks_at(
    rows: Rows, log: Sequence[EventRecord], past: RowsAt, words: Mapping[str, str]
) -> tuple[tuple[BlockCopy, ...], int]:
    """Return the blocks at that position, and the number of their texts and states that were erased since."""
    today = {block.name: block for block in rows.blocks}
    texts: dict[str, dict[int, TextCopy]] = {}
    constructors: dict[str, dict[str, Any]] = {}
    for record in log:
        event = record.event
        # A block of the same name may have been there before; its texts are not this one's.
        if event.operation in ("create_store", "delete_store") and event.about is not None:
            texts.pop(event.about, None)
            constructors.pop(event.about, None)
        # Added by a constructor: only such a block has constructor's values (see `engine.reconcile`).
        if event.operation == "create_store" and event.about is not None and record.actor == "engine":
            constructors[event.about] = {"settings": dict(event.changed_settings), "state": ""}
        elif event.about is not None and event.about in constructors and record.actor == "engine":
            constructors[event.about]["settings"] |= event.changed_settings
        if edits_text(event):
            _apply_text(texts.setdefault(event.block, {}), record, event)
            if record.actor == "engine" and event.block in constructors:
                constructors[event.block]["state"] = event.after
        elif is_rewriting(event) and not event.covers:  # emptied: its former texts are deleted with it
            had_texts = texts.get(event.block, {})
            texts[event.block] = {n: text for n, text in had_texts.items() if n == event.revision}
    copies = []
    lost = 0
    for position, block in enumerate(past.blocks):
        had = sorted(texts.get(block.name, {}).items())
        kept_copies = tuple(text for _, text in had if text.content in words)
        constructor = _constructor_at(block, constructors.get(block.name), today.get(block.name), words)
        state = _state_at(block, past.states.get(block.name), constructor)
        gone = {key for key in (block.text, state) if key is not None and key not in words}
        lost += len(had) - len(kept_copies) + len(gone & {state})
        copies.append(
            BlockCopy(
                name=block.name,
                position=position,
                type=block.type,
                settings=dict(block.settings),
                constructor=constructor,
                state=None if state in gone else state,
                revision=block.revision,
                text=None if block.text in gone else block.text,
                texts=kept_copies,
            )
        )
    return tuple(copies), lost


def _apply_text(had: dict[int, TextCopy], record: EventRecord, event: BlockEdited) -> None:
    at = record.at if event.written_at is None else event.written_at
    had[event.revision] = TextCopy(
        revision=event.revision, content=str(event.after), actor=record.actor, turn=record.turn, at=at
    )


def _constructor_at(
    block: PastBlock, constructor: Mapping[str, Any] | None, today: BlockCopy | None, words: Mapping[str, str]
) -> str:
    """Return the constructor's values at that position; a custom block's fields are only known from its current row."""
    if constructor is None:
        return ""
    if block.kind == "custom":
        return today.constructor if today is not None and today.type == block.type else ""
    state = words.get(constructor["state"], "") if block.kind == "static" else ""
    return json.dumps({"settings": constructor["settings"], "state": state}, sort_keys=True)


def _state_at(block: PastBlock, state: str | None, constructor: str) -> str | None:
    """Return the hash of a custom block's fields; None if unknown, in which case the block starts empty."""
    if block.kind != "custom" or state != INITIAL:
        return state if block.kind == "custom" else None
    return content_hash(json.loads(constructor)["state"]) if constructor else None
