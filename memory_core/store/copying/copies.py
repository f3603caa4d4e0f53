"""The rows of one session as values independent of a database: the content of branches and bundles.

They are copied, and not replayed from the log, which lacks some of them: the user's facts that other sessions learned,
vectors, what a program passed to a custom block, sizes that were counted again, probes. A replay would also hold the
whole log, where copying holds some hundred rows at a time.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from memory_core.access import acting_person
from memory_core.events import Actor, Event
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
