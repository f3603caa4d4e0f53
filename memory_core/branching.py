"""A session as it stood at a position of its log, as rows that another session can be made of.

Rows that are still there are taken as they are; what changed since is told by the log. What was
erased since stays erased: it is left out, and counted.
"""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from memory_core.analysis.history import PastBlock, history_of
from memory_core.config import MemoryConfig
from memory_core.errors import NotFoundError
from memory_core.events import (
    BlockAdded,
    BlockEdited,
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
    FactErased,
    FactsCondensed,
    FactsCurated,
    FlushPlanned,
    MessageAdded,
    QueueRecounted,
    QueueReplaced,
    SessionBranched,
    SessionImported,
    SessionReset,
    VectorsRemoved,
    VectorsStored,
    expand,
)
from memory_core.messages import ChatMessage, MessageRole, content_hash
from memory_core.session import Session
from memory_core.store.copying import (
    BlockCopy,
    DeliveryCopy,
    FactCopy,
    MessageCopy,
    Rows,
    SessionCopy,
    TextCopy,
    event_copy,
    hashes_of,
    insert_rows,
    read_rows,
    with_words,
)
from memory_core.store.log import read_events
from memory_core.store.references import hashes_in
from memory_core.store.writing import read_session

INITIAL = "initial"
"""Stands for a custom block's fields as its constructor gave them; the log does not tell them."""


@dataclass(frozen=True, slots=True)
class AsOf:
    """A session at one position of its log."""

    rows: Rows
    missing: int
    """Messages, facts, stored turns and texts that were there and were erased since."""


def branch_session(session: Session, turn: int, *, title: str | None = None) -> Session:
    """Make a session that stands as this one stood at the end of a turn. See `Memory.branch`."""
    database = session.database
    with database.read() as connection:
        rows, records = read_session_rows(connection, session.id), read_events(connection, session.id)
    then = rows_at(rows, records, _end_of(records, turn))
    now = session.clock()
    branched = event_copy(SessionBranched(source=session.id, turn=turn, missing=then.missing), turn, now, "curator")
    made = replace(
        then.rows,
        session=then.rows.session.model_copy(update={"created_at": now}),
        events=(*then.rows.events, branched),
    )
    branch = str(uuid.uuid4())
    with database.write() as connection:
        insert_rows(
            database,
            connection,
            made,
            branch,
            title=title or f"{rows.session.title or 'Session'}, from turn {turn}",
            user_id=rows.session.user_id,
            now=now,
            shared={fact.id for fact in made.facts if fact.owner == "user"},
        )
    return session.sibling(branch)


def read_session_rows(connection: Connection, session_id: str) -> Rows:
    """All rows of a session.

    Raises:
        NotFoundError: there is no such session.
    """
    state = read_session(connection, session_id)
    if state is None or state.deleted_at is not None:
        raise NotFoundError("This session does not exist any more.")
    return read_rows(connection, state)


def rows_at(rows: Rows, records: Sequence[EventRecord], position: int) -> AsOf:
    """A session's rows as they were after the event at a position; `rows` and `records` are all there is now.

    Facts of the user are everybody's and stand as they stand now.
    """
    if not records or position >= records[-1].position:
        return AsOf(rows, 0)
    count = sum(record.position <= position for record in records)
    log = records[:count]
    past = _Past()
    for record in log:
        past.take(record)
    texts = {word.hash: word.data for word in rows.words if word.owner == "session"}
    messages = past.message_rows(rows.messages, texts)
    later = {record.event.fact for record in records[count:] if isinstance(record.event, FactAdded)}
    facts = past.fact_rows(fact for fact in rows.facts if fact.id not in later)
    vectors = tuple(vector for vector in rows.vectors if vector.id in past.nodes)
    blocks, lost = _blocks_at(rows, log, past, texts)
    here = {fact.id for fact in facts}
    erased = sorted(number for number in past.facts if number not in here)
    session = past.session_row(rows.session, log)
    events = (
        *rows.events[:count],
        *(event_copy(FactErased(n, past.facts[n].block), session.turns, log[-1].at, "engine") for n in erased),
    )
    kept = replace(
        rows,
        session=session,
        blocks=blocks,
        messages=messages,
        facts=facts,
        vectors=vectors,
        deliveries=past.delivery_rows({message.seq for message in messages}),
        events=events,
    )
    missing = len(past.messages) - len(messages) + len(erased) + len(past.nodes) - len(vectors) + lost
    return AsOf(with_words(kept, texts.keys() & _needed(kept)), missing)


def _end_of(records: Sequence[EventRecord], turn: int) -> int:
    """Position of the last event of a turn since turns were last counted anew; 0 is before anything was said."""
    history = history_of(records)
    if turn in history.turns:
        return history.position_at(turn)
    if turn != 0:
        raise NotFoundError(f"This session has no turn {turn}. Its latest is {history.latest_turn}.")
    if not history.turns:
        return history.position
    return history.upto(history.turns[min(history.turns)].first_position - 1)[-1].position


def _needed(rows: Rows) -> set[str]:
    """Hashes of the session's words that these rows refer to."""
    found = {message.content for message in rows.messages}
    found |= {key for block in rows.blocks for key in (block.state, block.text) if key}
    found |= {text.content for block in rows.blocks for text in block.texts}
    found |= {key for fact in rows.facts if fact.owner == "session" for key in hashes_of(fact)}
    if rows.session.recording:
        found.add(rows.session.recording)
    for event in rows.events:
        found |= hashes_in(json.dumps(event.data))
    return found


# -- going through the log -----------------------------------------------------------------------


@dataclass(slots=True)
class _Message:
    record: EventRecord
    added: MessageAdded
    counter: str
    archived: bool = False
    flush: int | None = None


@dataclass(slots=True)
class _Fact:
    block: str
    tokens: int
    confirmed_at: float
    version: int = 1
    sources: set[int] = field(default_factory=set)


class _Past:
    """What the log said up to a position, where the rows of today do not say it."""

    def __init__(self) -> None:
        self.messages: dict[int, _Message] = {}
        """Those that are in the queue or the archive."""
        self.facts: dict[int, _Fact] = {}
        self.nodes: dict[int, tuple[str, frozenset[int]]] = {}
        """Block and messages of each stored turn."""
        self.states: dict[str, str] = {}
        """Hash of each custom block's fields, or `INITIAL` before it learned anything."""
        self._deliveries: dict[int, DeliveryCopy] = {}
        self._due: dict[int, frozenset[int]] = {}
        self._next_seq = 1
        self._flushes = 0
        self._turn_delivered = 0
        self._recording = False
        self._counter: str | None = None
        self._config: dict[str, Any] = {}
        self._constructor: dict[str, Any] = {}

    def take(self, record: EventRecord) -> None:
        self._take_message(record)
        self._take_delivery(record)
        self._take_fact(record)
        self._take_vectors(record)
        self._take_session(record)

    def _take_message(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, MessageAdded):
            self.messages[event.seq] = _Message(record, event, event.counter)
            self._next_seq = max(self._next_seq, event.seq + 1)
            self._counter = event.counter
        elif isinstance(event, FlushPlanned):
            self._flushes = event.flush
            for seq in expand(event.seqs):
                if seq in self.messages:
                    self.messages[seq].archived, self.messages[seq].flush = True, event.flush
        elif isinstance(event, QueueReplaced):
            for seq in expand(event.removed):
                self.messages.pop(seq, None)
        elif isinstance(event, QueueRecounted):
            self._counter = event.after
            for message in self.messages.values():
                if not message.archived:
                    message.counter = event.after
        elif isinstance(event, SessionReset):
            self._reset(event.status)

    def _reset(self, status: str | None) -> None:
        gone = {
            seq
            for seq, message in self.messages.items()
            if status is None or message.archived == (status == "archived")
        }
        for seq in gone:
            del self.messages[seq]
        for fact in self.facts.values():
            fact.sources -= gone
        self.nodes = {number: node for number, node in self.nodes.items() if not gone & node[1]}
        self._deliveries = {n: row for n, row in self._deliveries.items() if self._due[n] & self.messages.keys()}
        if status is None:
            self.states.clear()

    def _take_delivery(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, DeliveryQueued):
            seqs = expand(event.seqs)
            self._due[event.delivery] = frozenset(seqs)
            self._deliveries[event.delivery] = DeliveryCopy(
                id=event.delivery,
                block=event.block,
                trigger=event.trigger,
                flush=self._flushes if event.trigger == "flush" else None,
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
            self.facts[event.fact] = _Fact(event.block, event.tokens, record.at, sources=sources)
        elif isinstance(event, FactsCondensed):
            for several, one in event.merged:
                if one in self.facts:
                    self.facts[one].sources.update(*(self.facts[n].sources for n in several if n in self.facts))
        elif isinstance(event, FactsCurated):
            for number, session, seqs in event.support:
                if number in self.facts and not session:
                    change = set.update if event.undoes is None else set.difference_update
                    change(self.facts[number].sources, expand(seqs))
        elif (fact := self.facts.get(getattr(event, "fact", 0))) is None:
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

    # -- as rows ---------------------------------------------------------------------------------

    def session_row(self, now: SessionCopy, log: Sequence[EventRecord]) -> SessionCopy:
        # What a constructor gave beside settings is not in the log: it is taken as it is now.
        beside = {name: value for name, value in now.constructor.items() if name not in MemoryConfig.model_fields}
        counter = self._counter or now.counter
        if any(not message.archived and message.counter != counter for message in self.messages.values()):
            counter = ""  # counted again when the session is next written
        return now.model_copy(
            update={
                "next_seq": self._next_seq,
                "turns": log[-1].turn if log else 0,
                "flushes": self._flushes,
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
            status = "archived" if past.archived else "active"
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


def _message_row(past: _Message, text: str) -> MessageCopy:
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
            "sources": tuple(sorted(past.sources)),
        }
    )


def _blocks_at(
    rows: Rows, log: Sequence[EventRecord], past: _Past, words: Mapping[str, str]
) -> tuple[tuple[BlockCopy, ...], int]:
    """The blocks there were, and how many of their texts and states were erased since."""
    today = {block.name: block for block in rows.blocks}
    texts: dict[str, dict[int, TextCopy]] = {}
    given: dict[str, dict[str, Any]] = {}
    for record in log:
        event = record.event
        if isinstance(event, BlockAdded | BlockRemoved):
            texts.pop(event.block, None)
            given.pop(event.block, None)
        if isinstance(event, BlockAdded) and record.actor == "engine":
            given[event.block] = {"settings": dict(event.settings), "state": ""}
        elif isinstance(event, BlockEdited):
            _take_text(texts.setdefault(event.block, {}), record, event)
            if record.actor == "engine" and event.block in given:
                given[event.block]["settings"] |= event.settings
                if event.after and event.after != event.before:
                    given[event.block]["state"] = event.after
    found = []
    lost = 0
    for position, block in enumerate(history_of(log).blocks_at(log[-1].position) if log else ()):
        had = sorted(texts.get(block.name, {}).items())
        kept = tuple(text for _, text in had if text.content in words)
        constructor = _constructor_at(block, given.get(block.name), today.get(block.name), words)
        state = _state_at(block, past.states.get(block.name), constructor)
        gone = {key for key in (block.text, state) if key is not None and key not in words}
        lost += len(had) - len(kept) + len(gone & {state})
        found.append(
            BlockCopy(
                name=block.name,
                position=position,
                type=block.type,
                settings=dict(block.settings),
                constructor=constructor,
                state=None if state in gone else state,
                revision=block.revision,
                text=None if block.text in gone else block.text,
                texts=kept,
            )
        )
    return tuple(found), lost


def _take_text(had: dict[int, TextCopy], record: EventRecord, event: BlockEdited) -> None:
    if event.after is not None and event.after != event.before:
        had[event.revision] = TextCopy(
            revision=event.revision, content=event.after, actor=record.actor, turn=record.turn, at=record.at
        )


def _constructor_at(
    block: PastBlock, given: Mapping[str, Any] | None, today: BlockCopy | None, words: Mapping[str, str]
) -> str:
    """The constructor's values then; a custom block's fields are only known from its row of today."""
    if given is None:
        return ""
    if block.kind == "custom":
        return today.constructor if today is not None and today.type == block.type else ""
    state = words.get(given["state"], "") if block.kind == "static" else ""
    return json.dumps({"settings": given["settings"], "state": state}, sort_keys=True)


def _state_at(block: PastBlock, state: str | None, constructor: str) -> str | None:
    """Hash of a custom block's fields; None where they are not known: then the block begins again."""
    if block.kind != "custom" or state != INITIAL:
        return state if block.kind == "custom" else None
    return content_hash(json.loads(constructor)["state"]) if constructor else None
