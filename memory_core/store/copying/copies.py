"""The rows of one session as values independent of a database: the content of branches and bundles.

They are copied, and not replayed from the log, which lacks some of them: the user's facts that other sessions learned,
vectors, what a program passed to a custom block, sizes that were counted again, probes. A replay would also hold the
whole log, where copying holds some hundred rows at a time.

Each database assigns its own ids, so a session that is copied to another gets new ones there, also in its events: the
types of an event's fields (`events.FactId` and similar types) tell which of them refer to a row by its id.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Annotated, Any, Generic, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from memory_core.access import acting_person
from memory_core.events import KINDS, Actor, Event, Ref, RefKind, compact, runs, spread
from memory_core.messages import MessageRole, content_hash
from memory_core.planning.fact_merging import STATES
from memory_core.planning.graph_rules import TYPES
from memory_core.store.tables import FORMER_USER

LARGEST = 2**31 - 1
"""Largest count or size: the limit of the integer columns of every database."""


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("holds a NUL character")
    return text


Count = Annotated[int, Field(ge=0, le=LARGEST)]
Number = Annotated[int, Field(ge=1, le=2**62)]
"""Id of a fact, stored turn, delivery, entity or relation."""
Seq = Annotated[int, Field(ge=1, le=LARGEST)]
Seconds = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Words = Annotated[str, AfterValidator(_storable)]
Hash = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
# A lambda, as the function comes later in this file.
Span = Annotated[tuple[Seq, Seq], AfterValidator(lambda span: _ordered(span))]
Owner = Literal["session", "user"]
Version = Annotated[int, Field(ge=1, le=LARGEST)]
FactState = Annotated[str, AfterValidator(lambda state: _one_of(STATES, state))]
EntityType = Annotated[str, AfterValidator(lambda kind: _one_of(TYPES, kind))]
By = Annotated[Actor, BeforeValidator(lambda actor: "user" if actor == FORMER_USER else actor)]
Role = Annotated[str, AfterValidator(lambda role: _one_of(tuple(MessageRole), role))]


def _one_of(names: Collection[str], value: str) -> str:
    if value not in names:
        raise ValueError(f"is none of {', '.join(names)}")
    return value


def _ordered(span: tuple[int, int]) -> tuple[int, int]:
    if span[0] > span[1]:
        raise ValueError("ends before it begins")
    return span


class _Copy(BaseModel):
    model_config = ConfigDict(
        # A bundle may come from anyone: a text is not taken for a number, and unknown fields are refused.
        strict=True,
        extra="forbid",
        frozen=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        defer_build=True,  # until the first bundle, so that the app starts sooner
    )


class SessionCopy(_Copy):
    """A session's row, without totals derived from its messages. See `SessionRow`."""

    user_id: Words | None
    title: Words
    created_at: Seconds
    updated_at: Seconds
    next_seq: Seq
    turns: Count
    flushes: Count
    turn_delivered: Count
    counter: Words
    config: dict[str, Any]
    constructor: dict[str, Any]
    recording: Hash | None
    probes: Words | None = None


class MessageCopy(_Copy):
    """See `MessageRow`."""

    seq: Seq
    id: Words
    role: Role
    status: Literal["active", "archived"]
    pinned: bool
    turn: Count
    tokens: Count
    reference_tokens: Count
    counter: Words
    calls: Words | None
    answers: Words | None
    flush: Count | None
    content: Hash
    at: Seconds


class TextCopy(_Copy):
    """See `BlockRevisionRow`."""

    revision: Count
    content: Hash
    actor: By
    turn: Count
    at: Seconds


class BlockCopy(_Copy):
    """See `BlockRow`."""

    name: Words
    position: Count
    type: Words
    settings: dict[str, Any]
    constructor: Words
    state: Hash | None
    revision: Count
    text: Hash | None
    texts: tuple[TextCopy, ...] = ()


class FactRevisionCopy(_Copy):
    """See `FactRevisionRow`."""

    version: Version
    content: Hash
    state: FactState
    pinned: bool
    actor: By
    reason: Words | None
    turn: Count
    at: Seconds
    topics: tuple[Words, ...] = ()
    category: Words | None = None
    metadata: Hash | None = None


class FactCopy(_Copy):
    """See `FactRow`; `sources` are sequence numbers of this session's messages."""

    id: Number
    owner: Owner
    block: Words
    content: Hash
    tokens: Count
    category: Words
    slot: Words | None
    state: FactState
    pinned: bool
    origin: Words
    turn: Count
    created_at: Seconds
    confirmed_at: Seconds
    updated_at: Seconds
    version: Version
    revisions: tuple[FactRevisionCopy, ...]
    sources: tuple[Seq, ...]
    topics: tuple[Words, ...] = ()
    key: Hash | None = None
    metadata: Hash | None = None


class EntityCopy(_Copy):
    """See `EntityRow`. Graphs belong to a session."""

    id: Number
    block: Words
    name: Hash
    aliases: tuple[Hash, ...]
    type: EntityType
    state: Literal["active", "merged", "retired"]
    merged_into: Number | None
    origin: Words
    turn: Count
    created_at: Seconds
    updated_at: Seconds
    version: Version


class RelationCopy(_Copy):
    """See `RelationRow`; `sources` are sequence numbers of this session's messages."""

    id: Number
    block: Words
    subject: Number
    predicate: Hash
    object: Number
    state: Literal["active", "ended", "retired"]
    origin: Words
    turn: Count
    ended_turn: Count | None
    ended_by: Number | None
    created_at: Seconds
    confirmed_at: Seconds
    updated_at: Seconds
    version: Version
    sources: tuple[Seq, ...]


class VectorCopy(_Copy):
    """See `VectorRow`."""

    id: Number
    block: Words
    embedder: Words
    seqs: tuple[Span, ...]
    first_seq: Seq
    tokens: Count
    embedding: bytes
    turn: Count
    created_at: Seconds


class DeliveryCopy(_Copy):
    """See `DeliveryRow`. A delivery under way in the source database is due at once in the target."""

    id: Number
    block: Words
    trigger: Words
    flush: Count | None
    first_seq: Seq
    last_seq: Seq
    messages: Count
    tokens: Count
    turn: Count
    state: Literal["pending", "done", "parked", "skipped"]
    attempts: Count
    error: Words | None
    created_at: Seconds
    done_at: Seconds | None


class EventCopy(_Copy):
    """See `EventRow`; the order is that of the log."""

    turn: Count
    at: Seconds
    actor: By
    kind: Words
    block: Words | None
    data: dict[str, Any]


class NewEventCopy(EventCopy):
    """An event that a copy of a session adds to its log."""

    person: str | None = Field(exclude=True)
    """Person behind it. No bundle contains one, and none can claim it."""


def event_copy(event: Event, turn: int, at: float, actor: Actor) -> EventCopy:
    """Return a new event, made by the acting person."""
    data, person = json.loads(event.to_json()), acting_person()
    label = person.label if person is not None else None
    return NewEventCopy(turn=turn, at=at, actor=actor, kind=event.kind, block=event.about, data=data, person=label)


class WordsCopy(_Copy):
    """See `ContentRow`."""

    owner: Owner
    hash: Hash
    data: Words


T = TypeVar("T")
Copy = TypeVar("Copy", bound=_Copy)


class Stream(Generic[T]):
    """Values read again for each iteration, a few at a time, so that they are never all in memory."""

    def __init__(
        self, read: Callable[[], Iterable[Any]], copy: Callable[[Any], T] | None = None, more: Sequence[T] = ()
    ) -> None:
        """`copy`: function that makes a value of a row that was read; None: values are read. `more`: values after."""
        self._read, self._copy, self._more = read, copy, more

    def __iter__(self) -> Iterator[T]:
        rows = self._read()
        return chain(rows if self._copy is None else map(self._copy, rows), self._more)

    @property
    def rows(self) -> Iterable[Any]:
        """The rows before copies are made of them, in which most fields are the same, and the values after them."""
        return chain(self._read(), self._more)

    def only(self, some: Callable[[Iterable[Any]], Iterable[Any]]) -> "Stream[T]":
        """Return the values of some of the rows."""
        return Stream(lambda: some(self._read()), self._copy, self._more)

    def followed_by(self, more: Iterable[T]) -> "Stream[T]":
        """Return these values and then some more."""
        return Stream(self._read, self._copy, (*self._more, *more))

    def held(self) -> "Stream[T]":
        """Return the same values, read once: the rows stay in memory, which take a third of what the copies would."""
        rows = list(self._read())
        return Stream(lambda: rows, self._copy, self._more)


def streamed(rows: Iterable[T]) -> Stream[T]:
    """Return rows as a stream, which they may be already."""
    return rows if isinstance(rows, Stream) else Stream(lambda: rows)


@dataclass(frozen=True)
class Rows:
    """Session as rows independent of a database. `facts` include those of the session's user, marked by `owner`.

    Rows with ids are in order of their ids. Each part can be iterated more than once; a `Stream` reads from a database,
    and only within the transaction that created it.
    """

    session: SessionCopy
    blocks: tuple[BlockCopy, ...] = ()
    messages: Iterable[MessageCopy] = ()
    facts: Iterable[FactCopy] = ()
    entities: Iterable[EntityCopy] = ()
    relations: Iterable[RelationCopy] = ()
    vectors: Iterable[VectorCopy] = ()
    deliveries: Iterable[DeliveryCopy] = ()
    words: Iterable[WordsCopy] = ()
    events: Iterable[EventCopy] = ()

    def held(self) -> "Rows":
        """Return the same rows, loaded into memory."""
        return Rows(self.session, self.blocks, **{name: streamed(rows).held() for name, rows in self._many()})

    def _many(self) -> Iterator[tuple[str, Iterable[Any]]]:
        # Session and blocks, the first two, are never streamed.
        return ((field.name, getattr(self, field.name)) for field in fields(self)[2:])


def hashes_of(fact: FactCopy) -> set[str]:
    """Return the hashes of every wording of a fact, of its key and of its metadata."""
    hashes = {fact.content, fact.key, fact.metadata}
    for revision in fact.revisions:
        hashes |= {revision.content, revision.metadata}
    return {key for key in hashes if key is not None}


def with_words(rows: Rows, needed: Collection[str]) -> Rows:
    """Return the rows without texts of the session whose hashes are not in `needed`; the user's texts stay."""

    def some(words: Iterable[Any]) -> Iterable[Any]:
        return (word for word in words if word.owner == "user" or word.hash in needed)

    return replace(rows, words=streamed(rows.words).only(some))


def moved(rows: Rows, seconds: float) -> Rows:
    """Return the rows with all times shifted by `seconds`."""

    def later(some: Iterable[Copy]) -> Iterable[Copy]:
        return Stream(lambda: (_moved(row, seconds) for row in some))

    many = {name: later(some) for name, some in rows._many()}
    return Rows(_moved(rows.session, seconds), tuple(later(rows.blocks)), **many)


def _moved(copy: Copy, seconds: float) -> Copy:
    later: dict[str, Any] = {}
    for name, old in copy:
        # All columns with times have such names.
        if name == "at" or name.endswith("_at"):
            later[name] = old if old is None else old + seconds
        elif isinstance(old, tuple) and old and isinstance(old[0], _Copy):
            later[name] = tuple(_moved(item, seconds) for item in old)
    return copy.model_copy(update=later)


def right_hash(word: WordsCopy) -> bool:
    """Return whether the text matches the hash. A NUL was stored as U+FFFD, under the hash of the original text."""
    return word.hash == content_hash(word.data) or word.hash == content_hash(word.data.replace("\ufffd", "\x00"))


Thing = Literal["facts", "vectors", "deliveries", "entities", "relations"]
"""Kinds of things with ids; messages are numbered within their session and keep their numbers."""

Renumber = Callable[[Thing, int], int]
"""Function from a thing and its old id to its new id."""

Walk = Callable[[Any, Renumber], Any]
"""Function that changes the ids within a stored value."""

_NUMBERED: dict[RefKind, Thing] = {"fact": "facts", "unit": "vectors", "day": "vectors", "relation": "relations"}
# A lookahead finds overlapping matches: the letter before the hash in a ref may be a hex digit itself.
_HASH = re.compile(r"(?=([0-9a-f]{32}))")


def hashes_in(data: str) -> set[str]:
    """Return everything in an event's JSON that may be the hash of a text, also within refs."""
    return set(_HASH.findall(data))


def _refs(refs: Sequence[str], to: Renumber) -> tuple[str, ...]:
    # Nothing to change in most lists, which are then not spread.
    if not any(kind in _NUMBERED for kind, _, _ in runs(refs)):
        return tuple(refs)
    return compact(
        Ref.of(ref.kind, to(_NUMBERED[ref.kind], ref.number)) if ref.kind in _NUMBERED else ref for ref in spread(refs)
    )


def _beside(part: Mapping[str, Any], to: Renumber) -> dict[str, Any]:
    """Return the marks of former values and the notes in a part of a prompt with new ids."""
    renamed: dict[str, Any] = {}
    if "marks" in part:
        renamed["marks"] = [
            [*_refs([beside], to), kind, None if now is None else _refs([now], to)[0], turn]
            for beside, kind, now, turn in part["marks"]
        ]
    if "notes" in part:
        renamed["notes"] = [[note, list(_refs(refs, to))] for note, refs in part["notes"]]
    return renamed


def _walk(hint: Any) -> Walk | None:
    """Return a walk for stored values of a type; None for a type without references."""
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return _named(inner[1])
    walks = [_walk(part) for part in inner]
    walk = next(filter(None, walks), None)
    if walk is None:
        return None
    if get_origin(hint) is not tuple:  # `... | None`
        return lambda value, to: None if value is None else walk(value, to)
    # A list of any length, each item of one type; below, a row with a type for each place.
    if inner[1:] == (Ellipsis,):
        return lambda value, to: [walk(item, to) for item in value]
    return lambda value, to: [
        # Rows of earlier versions may be shorter than the type, and those of later ones longer.
        *(walk_item(item, to) if walk_item else item for walk_item, item in zip(walks, value, strict=False)),
        *value[len(walks) :],
    ]


def _named(means: Any) -> Walk:
    """Return a walk for a reference type of `memory_core.events`, by its annotation."""
    if means == "refs":
        return lambda value, to: {**value, "refs": list(_refs(value["refs"], to)), **_beside(value, to)}
    if isinstance(means, str):
        return lambda value, to: to(cast(Thing, means), value)
    return lambda value, to: {
        name: to(means[name], number) if name in means and number is not None else number
        for name, number in value.items()
    }


def _walks(event: type[Event]) -> dict[str, Walk]:
    hints = get_type_hints(event, include_extras=True)
    return {field.name: walk for field in fields(event) if (walk := _walk(hints[field.name])) is not None}


REFERENCES: dict[str, dict[str, Walk]] = {kind: walks for kind, event in KINDS.items() if (walks := _walks(event))}
"""References by kind of event and field, derived from the fields' types; fields of newer versions are missing."""


def refers(kind: str) -> bool:
    """Return whether events of a kind may refer to anything by id, or be about a fact."""
    return kind in REFERENCES or kind.startswith("fact")


def renumbered(kind: str, data: Mapping[str, Any], to: Renumber) -> dict[str, Any]:
    """Return an event's stored values with new ids."""
    walks = REFERENCES.get(kind, {})
    return {name: walks[name](value, to) if name in walks else value for name, value in data.items()}


def referred(kind: str, data: Mapping[str, Any]) -> set[tuple[Thing, int]]:
    """Return everything that an event refers to by id."""
    things: set[tuple[Thing, int]] = set()

    def note(thing: Thing, number: int) -> int:
        things.add((thing, number))
        return number

    for name, walk in REFERENCES.get(kind, {}).items():
        if name in data:
            walk(data[name], note)
    return things


def numbered(kind: str, data: Mapping[str, Any]) -> set[tuple[Thing, int]]:
    """Return the things whose ids an event assigns."""
    name = KINDS[kind].gives
    return referred(kind, {name: data[name]}) if name is not None else set()


def subjects(kind: str, data: Mapping[str, Any]) -> set[int]:
    """Return the facts that an event is about, as opposed to those it only mentions."""
    # A change set names facts in its rows, and `fact_decided` in its candidates as well.
    if kind == "facts_curated":
        return {row[0] for row in data["facts"]}
    if kind == "fact_decided":
        return {row[0] for row in data["candidates"]} | ({data["fact"]} - {None})
    if not kind.startswith("fact_"):
        return set()
    return {data[name] for name in ("fact", "near") if name in data}
