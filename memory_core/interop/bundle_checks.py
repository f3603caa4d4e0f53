"""Does what a bundle holds fit together? Everything that the engine later relies on is looked at once.

A bundle comes from anywhere. Types are checked where rows are read (see `memory_core.store.copies`);
here it is what they say of each other: words and their hashes, numbers and what they name, the log
and the rows.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter, ValidationError

from memory_core.blocks import BUILT_IN
from memory_core.blocks.base import BaseMemoryBlock, stored_item
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, MessageError
from memory_core.events import (
    KINDS,
    BlockAdded,
    BlockEdited,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EntityAdded,
    EntityChanged,
    Event,
    EventRecord,
    FactAdded,
    MessageAdded,
    Ranges,
    Ref,
    RelationAdded,
    RelationChanged,
    UnknownEvent,
    VectorsStored,
    current_settings,
    decode,
    is_ref,
    runs,
)
from memory_core.history.by_turn import history_of
from memory_core.history.rebuild import rebuild
from memory_core.messages import MAX_DEPTH, ChatMessage, MessageRole
from memory_core.planning.facts import STATES
from memory_core.planning.graph import TYPES
from memory_core.store.copies import (
    BlockCopy,
    Count,
    EntityCopy,
    EventCopy,
    FactCopy,
    Hash,
    Number,
    Rows,
    Span,
    VectorCopy,
    right_hash,
)
from memory_core.store.references import Thing, referred, subjects

MAX_NUMBERED = 1_000_000
"""Facts that one log may name, and things that one context may hold."""
MAX_NAMED = 20_000_000
MAX_NAMED_EACH = 2_000
"""Messages, facts and stored turns that the events of one log may name together, and so many more for each event: what
going through it costs."""
_LARGEST_INTEGER = 2**53
"""Beyond this, numbers are not the same in every program that reads JSON."""
_LARGEST_DIMENSIONS = 16_384
_OF_GRAPHS: Mapping[Thing, str] = {"entities": "an entity", "relations": "a relation"}


class WrongRowsError(Exception):
    """The rows do not fit together; the message is the rest of a sentence about them."""


def check(rows: Rows) -> list[EventRecord]:
    """The log of a session whose rows fit together.

    Raises:
        WrongRowsError: they do not.
    """
    session = rows.session
    given = {name: value for name, value in session.constructor.items() if name in MemoryConfig.model_fields}
    _settings_possible("its settings", lambda: (MemoryConfig(**session.config), MemoryConfig(**given)))
    words = _words(rows)
    for block in rows.blocks:
        _check_block(block, rows, words)
    _require(_unique(block.name for block in rows.blocks), "two blocks have one name")
    _check_messages(rows, words)
    for fact in rows.facts:
        _check_fact(fact, rows, words)
    _require(_unique(fact.id for fact in rows.facts), "two facts have one number")
    _check_entities(rows, words)
    _check_relations(rows, words)
    _check_vectors(rows)
    _check_deliveries(rows)
    if session.recording is not None:
        _check_recording(words.get(("session", session.recording)))
    records = _check_log(rows, words)
    _check_past(records, rows, words)
    return records


_Hashed = Mapping[tuple[str, str], str]


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise WrongRowsError(what)


def _unique(values: Iterable[object]) -> bool:
    listed = list(values)
    return len(set(listed)) == len(listed)


def _settings_possible(what: str, make: Any) -> None:
    try:
        make()
    except (ConfigError, TypeError) as error:
        raise WrongRowsError(f"{what} are impossible ({error})") from error


def _words(rows: Rows) -> _Hashed:
    for word in rows.words:
        _require(right_hash(word), "words do not belong to the mark they are kept under")
    _require(_unique((word.owner, word.hash) for word in rows.words), "the same words are there twice")
    return {(word.owner, word.hash): word.data for word in rows.words}


# -- rows ----------------------------------------------------------------------------------------


class _Constructor(BaseModel):
    model_config = ConfigDict(strict=True)

    settings: dict[str, Any]
    state: str | None


def _check_block(block: BlockCopy, rows: Rows, words: _Hashed) -> None:
    _check_settings(block.name, block.type, block.settings)
    if block.settings.get("scope") == "user":
        _require(rows.session.user_id is not None, f'the block "{block.name}" is a user\'s, and there is no user')
    for key in (block.state, block.text):
        _require(key is None or ("session", key) in words, f'the words of the block "{block.name}" are missing')
    _require(_unique(text.revision for text in block.texts), f'the block "{block.name}" has one revision twice')
    try:
        if block.constructor:
            _Constructor.model_validate_json(block.constructor)
        if block.state is not None and block.type not in BUILT_IN:
            _require(isinstance(json.loads(words["session", block.state]), dict), f'"{block.name}" cannot be read')
    except (ValueError, RecursionError) as error:
        raise WrongRowsError(f'the block "{block.name}" cannot be read') from error


def _check_settings(name: str, kind: str, settings: Mapping[str, Any]) -> None:
    known = BUILT_IN.get(kind)
    given = {**current_settings(dict(settings)), "name": name}
    if known is None:
        given = {key: value for key, value in given.items() if key in BaseMemoryBlock.model_fields}
        _settings_possible(f'the settings of "{name}"', lambda: BaseMemoryBlock[Any](**given))
    else:
        extra = {"static_content": ""} if kind == "static" else {}
        _settings_possible(f'the settings of "{name}"', lambda: known(**{**given, **extra}))


_CALLS = TypeAdapter(list[str])


def _check_messages(rows: Rows, words: _Hashed) -> None:
    last = 0
    for message in rows.messages:
        _require(last < message.seq < rows.session.next_seq, "its messages are not in order")
        last = message.seq
        _require(message.role in set(MessageRole), f"message {message.seq} has an unknown role")
        _require((message.flush or 0) <= rows.session.flushes, f"message {message.seq} left in a flush there never was")
        _require((message.flush is None) == (message.status == "active"), f"message {message.seq} is nowhere")
        _require(("session", message.content) in words, f"the words of message {message.seq} are missing")
        _check_message(words["session", message.content], f"message {message.seq}")
        if message.calls is not None:
            try:
                _CALLS.validate_json(message.calls)
            except ValidationError as error:
                raise WrongRowsError(f"the calls of message {message.seq} cannot be read") from error
    _require(_unique(message.id for message in rows.messages), "two messages have one id")


def _check_message(text: str, what: str) -> None:
    try:
        ChatMessage.from_json(text)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WrongRowsError(f"{what} cannot be read") from error


def _check_fact(fact: FactCopy, rows: Rows, words: _Hashed) -> None:
    what = f"fact {fact.id}"
    _require(fact.state in STATES, f"{what} is in an unknown state")
    _require(fact.owner == "session" or rows.session.user_id is not None, f"{what} is a user's, and there is no user")
    _require((fact.owner, fact.content) in words, f"the words of {what} are missing")
    versions = [revision.version for revision in fact.revisions]
    _require(versions == list(range(1, fact.version + 1)) and bool(versions), f"the history of {what} has gaps")
    _require(all(revision.state in STATES for revision in fact.revisions), f"{what} was in an unknown state")
    _require(_unique(fact.sources), f"{what} names a source twice")
    _require(all(seq < rows.session.next_seq for seq in fact.sources), f"{what} is from a message there never was")


def _check_entities(rows: Rows, words: _Hashed) -> None:
    entities = {entity.id: entity for entity in rows.entities}
    _require(len(entities) == len(rows.entities), "two entities have one number")
    settled: set[int] = set()
    for entity in rows.entities:
        what = f"entity {entity.id}"
        _require(entity.type in TYPES, f"{what} is of an unknown type")
        _require(entity.version >= 1, f"{what} has no version")
        named = all(("session", key) in words for key in (entity.name, *entity.aliases))
        _require(named, f"the words of {what} are missing")
        _require((entity.merged_into is None) == (entity.state != "merged"), f"{what} is merged into nothing")
        walked: set[int] = set()
        at: EntityCopy | None = entity
        while at is not None and at.id not in settled:
            _require(at.id not in walked, f"{what} is merged into itself")
            walked.add(at.id)
            into = at.merged_into
            _require(into is None or into in entities, f"{what} is merged into an entity there never was")
            at = entities[into] if into is not None else None
        settled |= walked


def _check_relations(rows: Rows, words: _Hashed) -> None:
    entities = {entity.id: entity for entity in rows.entities}
    relations = {relation.id for relation in rows.relations}
    _require(len(relations) == len(rows.relations), "two relations have one number")
    for relation in rows.relations:
        what = f"relation {relation.id}"
        _require(relation.version >= 1, f"{what} has no version")
        _require(("session", relation.predicate) in words, f"the words of {what} are missing")
        joined = [entities.get(number) for number in (relation.subject, relation.object)]
        known = all(entity is not None and entity.block == relation.block for entity in joined)
        _require(known, f"{what} is of an entity there never was")
        # One that never held may stand between names that turned out to be one.
        itself = relation.subject == relation.object and relation.state != "retired"
        _require(not itself, f"{what} is of an entity to itself")
        right = relation.ended_by is None or (relation.ended_by in relations and relation.ended_by != relation.id)
        _require(right, f"{what} was ended by a relation there never was")
        _require(_unique(relation.sources), f"{what} names a source twice")
        last = max(relation.sources, default=0)
        _require(last < rows.session.next_seq, f"{what} is from a message there never was")


def _check_vectors(rows: Rows) -> None:
    _require(_unique(vector.id for vector in rows.vectors), "two stored turns have one number")
    sizes: dict[tuple[str, str], int] = {}
    for vector in rows.vectors:
        what = f"stored turn {vector.id}"
        _require(
            bool(vector.seqs) and all(span[1] < rows.session.next_seq for span in vector.seqs),
            f"{what} holds a message there never was",
        )
        _require(vector.first_seq == min(span[0] for span in vector.seqs), f"{what} does not begin where it says")
        size = sizes.setdefault((vector.block, vector.embedder), len(vector.embedding))
        _require(_is_unit(vector) and len(vector.embedding) == size, f"the vector of {what} is not one")


def _is_unit(vector: VectorCopy) -> bool:
    if not vector.embedding or len(vector.embedding) % 4 or len(vector.embedding) > 4 * _LARGEST_DIMENSIONS:
        return False
    values = np.frombuffer(vector.embedding, dtype="<f4").astype(np.float64)
    return bool(np.isfinite(values).all()) and math.isclose(float(np.linalg.norm(values)), 1, abs_tol=0.01)


def _check_deliveries(rows: Rows) -> None:
    _require(_unique(delivery.id for delivery in rows.deliveries), "two deliveries have one number")
    for delivery in rows.deliveries:
        right = delivery.first_seq <= delivery.last_seq < rows.session.next_seq
        _require(right, f"delivery {delivery.id} is of messages there never were")
        _require((delivery.flush or 0) <= rows.session.flushes, f"delivery {delivery.id} is of a flush there never was")


_RECORDING = TypeAdapter(list[str])


def _check_recording(text: str | None) -> None:
    _require(text is not None, "the recorded conversation is missing")
    try:
        for number, message in enumerate(_RECORDING.validate_json(text or ""), 1):
            _check_message(message, f"message {number} of the recorded conversation")
    except ValidationError as error:
        raise WrongRowsError("the recorded conversation cannot be read") from error


# -- the log -------------------------------------------------------------------------------------


def _ref(text: str) -> str:
    if not is_ref(text):
        raise ValueError("is not a reference")
    return text


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)

    name: str
    priority: int
    asked: int
    granted: int
    refs: tuple[Annotated[str, AfterValidator(_ref)], ...]


class _Cut(BaseModel):
    model_config = ConfigDict(strict=True)

    part: str
    rule: str
    refs: tuple[Annotated[str, AfterValidator(_ref)], ...]
    tokens: int
    over_before: int


class _EntityValues(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    name: Hash = ""
    type: Literal["person", "place", "organisation", "project", "thing", "date", "other"] = "other"
    aliases: tuple[Hash, ...] = ()
    state: Literal["active", "merged", "retired"] = "active"
    merged_into: Number | None = None


class _RelationValues(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    subject: Number = 1
    predicate: Hash = ""
    object: Number = 1
    state: Literal["active", "ended", "retired"] = "active"
    ended_turn: Count | None = None
    ended_by: Number | None = None
    sources: tuple[Span, ...] = ()


class _Parts(BaseModel):
    parts: tuple[_Part, ...]
    cuts: tuple[_Cut, ...]


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    return TypeAdapter(KINDS[kind])


@cache
def _range_fields(kind: str) -> tuple[str, ...]:
    return tuple(each.name for each in fields(KINDS[kind]) if each.type == Ranges)


def _check_log(rows: Rows, words: _Hashed) -> list[EventRecord]:
    records: list[EventRecord] = []
    added, deliveries, stored, size = 0, set[int](), {vector.id for vector in rows.vectors}, 0
    facts = {fact.id for fact in rows.facts}
    strangers: set[int] = set()
    graphs: dict[Thing, set[int]] = {"entities": set(), "relations": set()}
    for position, copy in enumerate(rows.events, 1):
        event = _checked_event(copy, position)
        records.append(EventRecord(position, "", copy.turn, copy.at, copy.actor, event))
        what = f"event {position}"
        if isinstance(event, UnknownEvent):
            continue
        if isinstance(event, MessageAdded):
            added += 1
            _require(event.seq == added, f"{what} adds message {event.seq} out of order")
            if ("session", event.content) in words:
                _check_message(words["session", event.content], f"the message of {what}")
        spans = [span for name in _range_fields(copy.kind) for span in getattr(event, name)]
        if isinstance(event, VectorsStored):
            stored |= {number for number, _, _ in event.nodes}
            spans += [span for _, seqs, _ in event.nodes for span in seqs]
        elif isinstance(event, DeliveryQueued):
            _require(bool(event.seqs), f"{what} queues no message")
            deliveries.add(event.delivery)
        elif isinstance(event, DeliveryDone | DeliveryFailed | DeliveryParked | DeliveryRetried | DeliverySkipped):
            _require(deliveries.issuperset(event.deliveries), f"{what} is about a delivery there never was")
        elif isinstance(event, FactAdded):
            facts.add(event.fact)
        elif isinstance(event, EntityAdded):
            graphs["entities"].add(event.entity)
        elif isinstance(event, RelationAdded):
            graphs["relations"].add(event.relation)
        elif isinstance(event, EntityChanged | RelationChanged):
            spans += _check_changed(event, what)
        _require(all(1 <= a <= b <= added for a, b in spans), f"{what} is about messages there never were")
        size += sum(last - first + 1 for first, last in spans)
        if isinstance(event, ContextBuilt):
            size += _check_context(event, copy, words, what)
        _require(size <= MAX_NAMED + MAX_NAMED_EACH * position, "its log is too long")
        named = referred(copy.kind, copy.data)
        _require(all(0 < number <= 2**62 for _, number in named), f"{what} holds an impossible number")
        _require(
            all(number in stored for thing, number in named if thing == "vectors"),
            f"{what} is about a stored turn there never was",
        )
        for thing, there in graphs.items():
            known = all(number in there for of, number in named if of == thing)
            _require(known, f"{what} is about {_OF_GRAPHS[thing]} there never was")
        # Facts that other sessions of a user told, and that are not here, are only known by their numbers.
        told = subjects(copy.kind, copy.data) <= facts or rows.session.user_id is not None
        _require(told, f"{what} is about a fact there never was")
        strangers |= {number for thing, number in named if thing == "facts" and number not in facts}
        _require(len(strangers) <= MAX_NUMBERED, f"{what} names too many facts")
    _require(added == rows.session.next_seq - 1, "messages and events do not tell the same")
    return records


def _check_changed(event: EntityChanged | RelationChanged, what: str) -> list[tuple[int, int]]:
    """The messages that a change names, which holds only what it may, in the form that it has."""
    spans: list[tuple[int, int]] = []
    for values in (event.before, event.after):
        try:
            if isinstance(event, RelationChanged):
                spans += _RelationValues.model_validate_json(json.dumps(values)).sources
            else:
                _EntityValues.model_validate_json(json.dumps(values))
        except ValidationError as error:
            raise WrongRowsError(f"{what} is not one ({first_problem(error)})") from error
    return spans


def _checked_event(copy: EventCopy, position: int) -> Event:
    what = f"event {position} ({copy.kind[:40]})"
    try:
        _check_values(copy.data, MAX_DEPTH)
        text = json.dumps(copy.data, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise WrongRowsError(f"{what} holds a value that cannot be stored") from error
    known = KINDS.get(copy.kind)
    if known is None or not {each.name for each in fields(known)} >= set(copy.data):
        return UnknownEvent(name=copy.kind, data=copy.data)
    try:
        text = json.dumps(known.as_read(copy.data), ensure_ascii=False)
        _adapter(copy.kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise WrongRowsError(f"{what} is not one ({first_problem(error)})") from error
    return decode(copy.kind, text)


def first_problem(error: ValidationError) -> str:
    """Where the first problem is, and what."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def _check_values(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("too deep")
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("NUL")
    elif isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > _LARGEST_INTEGER:
            raise ValueError("not a number that can be kept")
    elif isinstance(value, list | tuple):
        for item in value:
            _check_values(item, depth - 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_values(key, depth - 1)
            _check_values(item, depth - 1)


def _check_context(event: ContextBuilt, copy: EventCopy, words: _Hashed, what: str) -> int:
    """How many things it held or cut."""
    try:
        _Parts.model_validate_json(json.dumps({"parts": copy.data["parts"], "cuts": copy.data["cuts"]}))
    except ValidationError as error:
        raise WrongRowsError(f"{what} is not one ({first_problem(error)})") from error
    refs = [ref for group in (*event.parts, *event.cuts) for ref in group["refs"]]
    held = sum(last - first + 1 for _, first, last in runs(refs))
    _require(held <= MAX_NUMBERED, f"{what} names too many things")
    for ref in map(Ref, refs):
        if ref.kind == "content" and ("session", ref.hash) in words:
            try:
                stored_item(ref, words["session", ref.hash], str)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise WrongRowsError(f"the words of {what} cannot be read") from error
    return held


def _check_past(records: Sequence[EventRecord], rows: Rows, words: _Hashed) -> None:
    """Fold the log as the time machine does: what it says must be possible at every moment."""
    try:
        history = history_of(records)
    except (ConfigError, TypeError) as error:
        raise WrongRowsError(f"its log names impossible settings ({error})") from error
    for record in records:
        if isinstance(record.event, BlockAdded | BlockEdited):
            for block in history.blocks_at(record.position):
                if block.name == record.event.block:
                    _check_settings(block.name, block.type, block.settings)
    readable = {key: text for (_, key), text in words.items()}
    try:
        rebuild(records, readable.get, session_id="")
    except (MessageError, ValueError, KeyError, TypeError, IndexError) as error:
        raise WrongRowsError("its log does not fit together") from error
