"""Base class of memory blocks, built-in and custom.

A custom block declares its state as fields and overrides LlamaIndex's hooks, async or not:

    class MentionCounter(BaseMemoryBlock[str]):
        mention_name: str = "Logan"
        mention_count: int = 0

        async def _aget(self, messages=None, **kwargs) -> str: ...
        async def _aput(self, messages) -> None: ...
        async def atruncate(self, content, tokens_to_truncate) -> str | None: ...

(`_get`, `_put` and `truncate` are the hooks without `async`.) The engine loads the fields before each call and saves
them in the transaction that acknowledges a delivery, so a failed or repeated call does not change them. The object
passed to a memory stays live: its fields show what was learned and what was changed in the app. It belongs to one
session; another session needs another object. A block with effects outside the database takes `delivery_id` as a
second argument of its put hook, and uses it to make these effects idempotent.
"""

import asyncio
import inspect
import json
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from sqlalchemy import Connection

from memory_core.argument_checks import checked_value, coerce_to_protocol, nearest, out_of_bounds, shown
from memory_core.errors import ConfigError, MemoryInspectorError, MessageError
from memory_core.events import BlockStateSaved, Event, Ref
from memory_core.messages import (
    ChatMessage,
    MessageRole,
    Part,
    TextPart,
    content_hash,
    independent,
    message_text,
    recites_memory,
    timed,
    unstorable,
)
from memory_core.models.protocols import Contextual, LearningContext, ModelCall
from memory_core.planning.context_plan import QUEUE, Truncation
from memory_core.planning.former_values import Statement, StoredMark
from memory_core.planning.quarantine import NOTHING_IN_QUARANTINE, Quarantine, removing, shown_content
from memory_core.planning.rendering import neutralise, unit_parts, unit_words
from memory_core.process import per_process
from memory_core.services import Services
from memory_core.store.block_rows import update_block
from memory_core.store.database import Database
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.quarantine_rows import read_targets
from memory_core.store.writing import Writing, read_existing, recorded_ids, session_scope, user_scope
from memory_core.text import whole_characters
from memory_core.tokens import Accounting, TokenCounter

T = TypeVar("T")
L = TypeVar("L")

DeliverOn = Literal["flush", "turn", "session_end"]

RESERVED_NAMES = (QUEUE, "memory")
"""Names that no block may have: a prompt uses them for the queue and the memory section."""

CALL_TOKENS = 8_000
"""Maximum tokens of messages that one call of a learner reads; a longer delivery is read in pieces."""


CONTEXT_MESSAGES = 30
"""Maximum messages before a delivery among which its context is looked for, tool calls and their results included."""

KNOWN_NEAR = 10
"""Maximum known facts that a learner is shown beside the messages."""

Place = tuple[str, int, int]
"""Place of a message: its session (empty for the one the prompt is for), its turn and its sequence number."""

Span = tuple[Place, Place]


@dataclass(frozen=True, slots=True)
class Item:
    """A piece of a block's content that is cut as a whole or not at all."""

    ref: Ref
    words: str
    """Text counted as content: without markup."""
    parts: tuple[Part, ...] = ()
    """Message parts as placed in the memory section."""
    messages: tuple[ChatMessage, ...] = ()
    """Messages placed in front of the queue, not in the memory section; for a custom block that returns messages."""
    tokens: int | None = None
    """Tokens of `words`, if already counted."""
    heading: bool = False
    """True for a line above other items, cut with the last of them (see `planning.context_plan.Piece`)."""
    billed: int | None = None
    """Tokens of `parts` with the break after them, if already counted."""
    span: Span | None = None
    """First and last message of recalled conversation, before and after which a turn may end in the prompt."""


_BLANK_LINE = TextPart(text="")


def spaced_parts(items: Iterable[Item]) -> tuple[Part, ...]:
    """Return the parts of items in order, with a blank line where recalled conversation goes on in another turn.

    Without it, a question would seem to be answered by the next line, which may answer another one.
    """
    parts: list[Part] = []
    before: Span | None = None
    for item in items:
        if before is not None and item.span is not None:
            (*turn, last), (*other, first) = before[1], item.span[0]
            # Best first, messages of one turn may stand in reverse: then they are no exchange either.
            if turn != other or first < last:
                parts.append(_BLANK_LINE)
        parts += item.parts
        before = item.span
    return tuple(parts)


def item_tokens(item: Item, counter: TokenCounter, accounting: Accounting) -> int:
    """Return the size of an item in tokens.

    The accounting decides what counts: words and non-text parts (`content`), parts (`reference`), or parts with the
    line break after each (`billed`), and with a blank line where a turn may end.
    """
    if item.messages:
        return sum(counter.message(message).by(accounting) for message in item.messages)
    if accounting == "billed":
        if item.billed is not None:
            return item.billed
        end = "\n" if item.span is None else "\n\n"
        return sum(counter.text(p.text + end) if isinstance(p, TextPart) else counter.part(p) for p in item.parts)
    if accounting == "reference":
        return sum(counter.part(part) for part in item.parts)
    words = counter.text(item.words) if item.tokens is None else item.tokens
    # Nearly all items are one text, and sizes are needed several times.
    others = [part for part in item.parts if type(part) is not TextPart and not isinstance(part, TextPart)]
    return words + sum(map(counter.part, others)) if others else words


def frame_tokens(name: str, counter: TokenCounter, accounting: Accounting) -> int:
    """Return the tokens of the tags around a block, or around all (name `memory`); 0 if accounting is not `billed`."""
    return counter.text(f"<{name}>\n</{name}>\n") if accounting == "billed" else 0


@dataclass(frozen=True, slots=True)
class Content:
    """A block's content for one context."""

    items: tuple[Item, ...] = ()
    cut_order: tuple[int, ...] = ()
    """Indexes of items in the order of cutting; empty: all or nothing."""
    events: tuple[Event, ...] = ()
    """Events about reading the block, recorded with the context."""
    keep: tuple[str, ...] = ()
    """Texts that the events refer to, for the content store."""
    layout: str | None = None
    """Layout of the items, if the block has several layouts; recorded, so that a past context can be laid out again."""
    marks: tuple[StoredMark, ...] = ()
    """Marks of former values beside messages and facts, recorded with the context."""
    notes: Mapping[Ref, str] = field(default_factory=dict)
    """Text after an item's stored words, such as the day of a fact; recorded, as it may be another one later."""


@dataclass(frozen=True)
class ReadContext:
    """Inputs and dependencies for reading a block. Reading changes nothing."""

    session_id: str
    user_id: str | None
    database: Database
    counter: TokenCounter
    services: Services
    queue: tuple[ChatMessage, ...]
    """Messages in the queue, oldest first, without pinned ones."""
    queue_seqs: frozenset[int]
    input: str | None
    """Text the context is built for; None: the latest user message of the queue."""
    messages: tuple[ChatMessage, ...]
    """Messages for a custom block's get hook: the queue, and the input as a user message."""
    names: tuple[str, ...] = ()
    """Names of all blocks, whose elements are escaped in untrusted text."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Further keyword arguments of `get`."""
    accounting: Accounting = "content"
    token_budget: int | None = None
    """Tokens available to a block that fills its budget; None: unlimited."""
    for_prompt: bool = True
    """False for a search outside of any prompt."""
    patience: float = 0.0
    """Seconds a block may wait for work in the background, such as vectors."""
    imagined: tuple[Statement, ...] = ()
    """Facts and relations that blocks learn or change in a preview (see `BaseMemoryBlock.imagined`)."""
    quarantine: Quarantine = NOTHING_IN_QUARANTINE
    """Items that no prompt may hold. `queue` and `messages` contain no messages in quarantine."""

    @property
    def question(self) -> str:
        """The input, or the latest user message; empty if there is neither."""
        if self.input is not None:
            return self.input
        texts = (message_text(message) for message in reversed(self.queue) if message.role == "user")
        return next(texts, "")

    def safe(self, text: str) -> str:
        """Return the text with markup of blocks escaped, for use inside the memory section."""
        return neutralise(text, self.names)


@dataclass(frozen=True)
class Batch:
    """Messages due to a block: one delivery, or several consecutive ones."""

    deliveries: tuple[int, ...]
    messages: tuple[StoredMessage, ...]
    session_id: str
    user_id: str | None
    database: Database
    counter: TokenCounter
    services: Services
    state: str | None
    """A custom block's stored fields, as JSON."""
    quarantine: Quarantine = NOTHING_IN_QUARANTINE
    context_tokens: int = 0
    """See `MemoryConfig.learning_context`."""

    @property
    def readable(self) -> tuple[StoredMessage, ...]:
        """The messages that may be learned from: those not in quarantine."""
        withheld = self.quarantine.seqs(self.session_id)
        return tuple(message for message in self.messages if message.seq not in withheld)

    def context_of(self, piece: Sequence[StoredMessage]) -> list[tuple[int, StoredMessage]]:
        """Return messages to understand those of a piece by, in order, each with the number of the piece's before it.

        They are what users and assistants said from some messages before the piece to its end: as much of the nearest
        as `context_tokens` hold. Of a long one the end is kept, where a question stands.
        """
        if not self.context_tokens or not piece:
            return []
        first, last, seqs = piece[0].seq, piece[-1].seq, {message.seq for message in piece}
        with self.database.read() as connection:
            cache = self.services.messages
            before = read_messages(connection, self.session_id, cache, upto=first - 1, last=CONTEXT_MESSAGES)
            others = [*before, *(message for message in self.messages if first < message.seq)]
        withheld, room = self.quarantine.seqs(self.session_id), self.context_tokens
        shown: list[tuple[int, StoredMessage]] = []
        # From the end of the piece backwards, and last the reply to it.
        spoken = [m for m in others if m.seq not in seqs | withheld and _is_said(m)]
        replies = [m for m in spoken if m.seq > last and m.turn == piece[-1].turn]
        for message in [*(m for m in reversed(spoken) if m.seq < last), *replies]:
            text = self._end_of(message_text(message.message), min(room, self.context_tokens // 2 or 1))
            tokens = self.counter.text(text)
            if not text or tokens > room:
                break
            room -= tokens
            line = replace(message, message=ChatMessage(role=message.message.role, content=text))
            shown.append((sum(other.seq < message.seq for other in piece), line))
        return sorted(shown, key=lambda line: line[1].seq)

    def _end_of(self, text: str, tokens: int) -> str:
        """Return the end of a text that fits into so many tokens, beginning at a word."""
        size = self.counter.text(text)
        while text and size > tokens:
            # A little less than in proportion, so that few steps are needed.
            text = text[len(text) - int(len(text) * tokens / size * 0.95) :].partition(" ")[2]
            size = self.counter.text(text)
        return text

    @property
    def delivery_id(self) -> str:
        """Id that stays the same for every attempt at these deliveries."""
        return f"{self.session_id}/{'+'.join(str(id) for id in self.deliveries)}"


def in_context(
    learner: L, batch: Batch, piece: Sequence[StoredMessage], facts: Sequence[str] = ()
) -> tuple[L, list[StoredMessage]]:
    """Return a learner that is shown the context of a piece and these known facts, and the messages of that context.

    One that can be shown none is returned as it is.
    """
    if not isinstance(learner, Contextual):
        return learner, []
    context = batch.context_of(piece)
    lines = tuple((before, shown.message) for before, shown in context)
    return cast(L, learner.with_context(LearningContext(lines, tuple(facts)))), [shown for _, shown in context]


def _is_said(stored: StoredMessage) -> bool:
    """Return whether a message is what a user or an assistant said, in words that recite no memory."""
    message = stored.message
    by_whom = message.role in (MessageRole.USER, MessageRole.ASSISTANT) and not stored.pinned
    return by_whom and bool(message_text(message).strip()) and not recites_memory(message)


def with_times(connection: Connection, session_id: str, messages: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the messages, each with its time as metadata: its own, else that of being stored.

    Messages from a file without times stay without one, as they were said before they were stored.
    """
    imported = read_events(connection, session_id, kinds=("session_imported",), limit=1, newest_first=True)
    count = getattr(imported[0].event, "messages", 0) if imported else 0
    recording = (read_existing(connection, session_id).recording if imported else None) or ""
    result = []
    for stored in messages:
        from_file = stored.id.startswith(recorded_ids(recording)) if recording else stored.seq <= count
        message = stored.message if from_file else timed(stored.message, stored.at)
        result.append(replace(stored, message=message))
    return result


def call_pieces(messages: Sequence[StoredMessage]) -> Iterator[list[StoredMessage]]:
    """Yield lists of messages of at most `CALL_TOKENS`, or of one longer message; without messages, one empty list."""
    piece: list[StoredMessage] = []
    tokens = 0
    for message in messages:
        if piece and tokens + message.tokens.content > CALL_TOKENS:
            yield piece
            piece, tokens = [], 0
        piece.append(message)
        tokens += message.tokens.content
    yield piece


class PendingWrite:
    """Result of learning from a batch, not yet stored. This base class stores nothing."""

    calls: tuple[ModelCall, ...] = ()
    context: frozenset[int] = frozenset()
    """Sequence numbers of the messages that were shown as context."""

    def save(self, w: Writing) -> None:
        """Store the result, within the transaction that acknowledges the deliveries."""

    def committed(self) -> None:
        """Run after the transaction of `save` is committed."""


@dataclass(frozen=True, slots=True)
class Imagined:
    """A block after learning something in a preview. Not stored."""

    block: "BaseMemoryBlock[Any]"
    state: str | None
    """State to read the block with."""


class BaseMemoryBlock(BaseModel, Generic[T]):
    """A named piece of long-term memory.

    Raises:
        ConfigError: a setting is impossible; the message shows it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, validate_assignment=True, extra="forbid")

    kind: ClassVar[str] = "custom"
    """Kind shown in charts and on screen: `static`, `facts`, `vector`, `custom`, ..."""

    kind_learns: ClassVar[bool] = True
    """True if the kind can receive messages."""

    kind_has_text: ClassVar[bool] = False
    """True if a block of this kind holds one versioned text that people may edit."""

    kind_in_pieces: ClassVar[bool] = False
    """True if a block of this kind can be cut piece by piece; other kinds are cut as a whole."""

    kind_model_calls: ClassVar[int] = 0
    """Number of model calls per delivery when a model learns for the block."""

    kind_when_removed: ClassVar[str] = "Its contents are deleted."
    """Sentence on what happens to a block's contents when the block is removed."""

    kind_is_built_in: ClassVar[bool] = False
    """True if a block is stored under its kind; other blocks are stored under the import path of their class."""

    outside: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Fields that hold a model or an index, with the types allowed for each."""

    instead: ClassVar[Mapping[str, str]] = {}
    """For each LlamaIndex argument without a counterpart here: a hint what to use instead, ending the error message."""

    name: str
    description: str | None = None
    priority: int = Field(default=0, ge=0)
    """0: never cut. For other numbers, `truncation_order` says which is cut first."""
    accept_short_term_memory: bool = True
    """True if the block receives flushed messages."""
    deliver_on: DeliverOn = "flush"
    truncation: Truncation = "trim"
    enabled: bool = True
    """True if the block is in use; a disabled block receives no messages and is in no context."""

    _owner: tuple[str, str] | None = PrivateAttr(default=None)
    """Database id and session id of the session that the block belongs to; None: it belongs to none yet."""
    _made: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """Values the program gave the fields, as JSON."""
    _shown: Mapping[str, str | None] = PrivateAttr(default_factory=dict)
    """Values the engine last set fields to, as JSON."""

    # Hidden from type checkers: they derive a constructor from the fields, and so find a misspelt argument.
    if not TYPE_CHECKING:

        def __init__(self, **values):
            for name in self.outside.keys() & values.keys():
                values[name] = coerce_to_protocol(f"{type(self).__name__}: {name}", values[name], *self.outside[name])
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _impossible(type(self), error, values.get("name")) from error
            _check_name(self.name)
            self._check_together()

    @field_validator("*", mode="before")
    @classmethod
    def _checked_value(cls, value: Any, info: ValidationInfo) -> Any:
        return checked_value(cls, info.field_name or "", value)

    def _check_together(self) -> None:
        """Check settings against each other.

        Raises:
            ConfigError: settings are impossible together.
        """

    def check_services(self, services: Services) -> None:
        """Check settings that depend on the models of the program that makes a memory.

        Raises:
            ConfigError: no model can follow a setting of the block, such as a prompt.
        """

    @classmethod
    def make_empty(cls, **values: Any) -> "BaseMemoryBlock[T]":
        """Create an empty block with these settings."""
        return cls(**values)

    # -- hooks of custom blocks, in the reference's names ------------------------------------------

    async def _aget(self, messages: list[ChatMessage] | None = None, **kwargs: Any) -> T:
        """Return the content: a text, a list of parts, or a list of messages; empty for nothing."""
        return self._get(messages, **kwargs)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Learn from messages that left the queue."""
        self._put(messages)

    async def aget(self, messages: list[ChatMessage] | None = None, **kwargs: Any) -> Any:
        """Return the content by the block's hook, as LlamaIndex names it.

        Raises:
            ConfigError: a built-in block of this kind is read by a memory alone.
        """
        return await asyncio.to_thread(self._call, "_aget", "_get", messages, **kwargs)

    async def aput(
        self, messages: list[ChatMessage], from_short_term_memory: bool = False, session_id: str | None = None
    ) -> None:
        """Learn from messages by the block's hook, as LlamaIndex names it; `session_id` goes with each message.

        Raises:
            ConfigError: the block is a session's, whose memory hands it messages, or needs a memory to learn.
        """
        if self._owner is not None:
            raise ConfigError(f'the block "{self.name}" is of a memory, which hands it messages: put them there')
        if self.accept_short_term_memory or not from_short_term_memory:
            more = {} if session_id is None else {"session_id": session_id}
            copies = [m.model_copy(update={"additional_kwargs": {**m.additional_kwargs, **more}}) for m in messages]
            await asyncio.to_thread(self._call, "_aput", "_put", copies)

    async def atruncate(self, content: T, tokens_to_truncate: int) -> T | None:
        """Return the content, shorter by at least `tokens_to_truncate` tokens; None to drop it."""
        return self.truncate(content, tokens_to_truncate)

    def _get(self, messages: list[ChatMessage] | None = None, **kwargs: Any) -> T:
        raise self._undefined("_aget or _get")

    def _put(self, messages: list[ChatMessage]) -> None:
        raise self._undefined("_aput or _put")

    def _undefined(self, hooks: str) -> Exception:
        if self.kind_is_built_in:
            return ConfigError(f"{type(self).__name__} needs a memory: Memory.from_defaults(memory_blocks=[...])")
        return NotImplementedError(f"{type(self).__name__} must define {hooks}")

    def truncate(self, content: T, tokens_to_truncate: int) -> T | None:
        return None

    # -- called by the engine; built-in blocks override these --------------------------------------

    @property
    def type(self) -> str:
        """Name under which the block is stored: its kind if it is built in, otherwise the import path of its class."""
        return type(self).stored_type()

    @classmethod
    def stored_type(cls) -> str:
        """Return the name that blocks of this class are stored under; see `type`."""
        return cls.kind if cls.kind_is_built_in else f"{cls.__module__}.{cls.__qualname__}"

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON values; the app may change them."""
        return self.model_dump(mode="json", include=set(BaseMemoryBlock.model_fields))

    def apply(self, settings: dict[str, Any]) -> None:
        """Set stored settings; ignore those unknown to this class.

        Raises:
            ConfigError: a value is impossible.
        """
        present = {
            name: value for name, value in settings.items() if name != "name" and name in type(self).model_fields
        }
        try:
            self.mirror(present)
        except ValidationError as error:
            raise _impossible(type(self), error, self.name) from error

    def legacy_defaults(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the former defaults of settings that an older version did not store.

        Former defaults that equal the present ones are left out.
        """
        return {}

    def read(self, reading: ReadContext, state: str | None) -> Content:
        """Read the block's content for this context."""
        # On a copy: what a get hook changes in its fields is not kept.
        block = self._with_state(state)
        content = block._call(
            "_aget",
            "_get",
            [independent(message) for message in reading.messages],
            session_id=reading.session_id,
            **reading.arguments,
        )
        return as_content(content, reading, self.name)

    def prepare_write(self, batch: Batch) -> PendingWrite:
        """Learn from a batch without storing anything. Slow; may raise any error."""
        block = self._with_state(batch.state)
        if not batch.readable:
            return PendingWrite()
        # Copies, as a hook may change them. Blocks written for LlamaIndex read the session from this keyword.
        messages = [
            message.model_copy(
                update={"additional_kwargs": {**message.additional_kwargs, "session_id": batch.session_id}}
            )
            for message in (independent(stored.message) for stored in batch.readable)
        ]
        # Passed only to a hook that declares it: LlamaIndex's own takes the messages alone.
        takes_id = "delivery_id" in inspect.signature(block._hook("_aput", "_put")).parameters
        block._call("_aput", "_put", messages, **({"delivery_id": batch.delivery_id} if takes_id else {}))
        return _LearnedState(self, block)

    def imagined(self, batch: Batch, numbers: Iterator[int]) -> Imagined | None:
        """Return the block after learning from the batch; None if learning needs a model, or custom code.

        Stores nothing. `numbers` yields unused ids for new facts, relations or units, larger than all stored ones.
        """
        return None

    @property
    def imagined_statements(self) -> tuple[Statement, ...]:
        """Facts or relations after a preview's changes, from which marks of former values are computed."""
        return ()

    def learner(self, services: Services) -> str | None:
        """Return the name of the model that learns for the block in this process; None: offline rules or no model."""
        return None

    def foresee(self, messages: Sequence[ChatMessage], services: Services) -> None:
        """Prepare in the background for messages about to be put.

        Stores nothing; a failure changes nothing.
        """

    @property
    def fills_budget(self) -> bool:
        """True if the block asks for as much as fits.

        Such a block is read last, with the tokens the others leave as its budget.
        """
        return False

    @property
    def read_elsewhere(self) -> bool:
        """True if reading the block needs code of the program that made it, which other processes lack."""
        return False

    @property
    def shortens(self) -> bool:
        """True if the block has its own truncation."""
        cls = type(self)
        return cls.atruncate is not BaseMemoryBlock.atruncate or cls.truncate is not BaseMemoryBlock.truncate

    def shorten(self, content: Content, tokens: int, reading: ReadContext, state: str | None) -> Content:
        """Shorten content by at least `tokens` with the block's own truncation; empty if the block drops it."""
        original = from_content(content)
        shorter = self._with_state(state)._call("atruncate", "truncate", original, tokens)
        return Content() if shorter is None else as_content(shorter, reading, self.name)

    def _hook(self, asynchronous: str, plain: str) -> Callable[..., Any]:
        """Return the hook that the block's class defines; the async one if it defines both."""
        base = getattr(BaseMemoryBlock, asynchronous)
        name = plain if getattr(type(self), asynchronous) is base else asynchronous
        hook: Callable[..., Any] = getattr(self, name)
        return hook

    def _call(self, asynchronous: str, plain: str, *arguments: Any, **named: Any) -> Any:
        """Run a hook. A plain one runs in the calling thread, as it would block the engine's event loop."""
        result = self._hook(asynchronous, plain)(*arguments, **named)
        return _run(result) if inspect.iscoroutine(result) else result

    # -- ownership --------------------------------------------------------------------------------

    def as_made(self, owner: tuple[str, str]) -> "BaseMemoryBlock[T]":
        """Return a copy with the values that the program gave, in place of those that the engine set for a session.

        Raises:
            ConfigError: the block belongs to another session.
        """
        if self._owner not in (None, owner):
            _, session = self._owner or ("", "")
            raise ConfigError(
                f'the block "{self.name}" is that of the session "{session}" already: make another object for this one'
            )
        copy = self.model_copy()
        for name, text in self._made_now().items():
            if text != _as_json(getattr(copy, name)):
                setattr(copy, name, json.loads(text))
        return copy

    def hand_over(self, owner: tuple[str, str]) -> None:
        """Make this the live block of a session, with its fields set to the stored state."""
        self._made, self._owner = self._made_now(), owner

    def on_its_own(self) -> "BaseMemoryBlock[T]":
        """Return a copy that belongs to no session."""
        copy = self.model_copy()
        copy._owner = None
        return copy

    def mirror(self, values: Mapping[str, Any]) -> None:
        """Set fields to stored values, and note them, so that later changes by the program are recognised."""
        for name, value in values.items():
            setattr(self, name, value)
        # As read back: validation may have converted a value.
        self._shown = {**self._shown, **{name: _as_json(getattr(self, name)) for name in values}}

    def _made_now(self) -> dict[str, str]:
        """Return the values that the program gave the fields, as JSON, even if the engine has set others since."""
        now = {name: _as_json(getattr(self, name)) for name in type(self).model_fields if name != "name"}
        stored = {name: text for name, text in now.items() if text is not None}
        # Fields that still have the value the engine set. Any other value was set by the program since.
        by_engine = {
            name: self._made[name] for name in stored if name in self._made and self._shown.get(name) == now[name]
        }
        return {**stored, **by_engine}

    # -- state ------------------------------------------------------------------------------------

    def state_json(self) -> str:
        """Declared fields as JSON, without fields that JSON cannot hold (see `unsaved_fields`)."""
        values = {}
        for name in self._declared():
            dumped = _as_json(getattr(self, name))
            if dumped is not None:
                values[name] = json.loads(dumped)
        return json.dumps(values, ensure_ascii=False, sort_keys=True)

    def unsaved_fields(self) -> tuple[str, ...]:
        """Declared fields that JSON cannot hold: dependencies, not state."""
        return tuple(name for name in self._declared() if _as_json(getattr(self, name)) is None)

    def take_state(self, state: str | None) -> None:
        """Set the declared fields from stored values."""
        if state is not None:
            # The state may be that of another version of the class, with fields that are gone.
            self.mirror({name: value for name, value in json.loads(state).items() if name in type(self).model_fields})

    def _declared(self) -> list[str]:
        fields_of_kind = set(type(self).model_fields) - set(BaseMemoryBlock.model_fields)
        return sorted(name for name in fields_of_kind if not type(self).model_fields[name].exclude)

    def _with_state(self, state: str | None) -> "BaseMemoryBlock[T]":
        copy = self.model_copy()
        # Set anew even from its own state: a shallow copy would share its lists with the live block.
        copy.take_state(state if state is not None else self.state_json())
        return copy


class _LearnedState(PendingWrite):
    """Pending write of a custom block: its fields after its put hook."""

    def __init__(self, original: BaseMemoryBlock[Any], after: BaseMemoryBlock[Any]) -> None:
        self._original = original
        self._state = after.state_json()
        self._unsaved = after.unsaved_fields()

    def save(self, w: Writing) -> None:
        content = w.store_text(self._state)
        update_block(w, self._original.name, state=content)
        w.record(BlockStateSaved(block=self._original.name, content=content, unsaved_fields=self._unsaved))

    def committed(self) -> None:
        # Only now: after a failed commit the live block must be as it was.
        self._original.take_state(self._state)


def as_content(value: Any, reading: ReadContext, block: str) -> Content:
    """Convert what a custom block returned into content: one item, cut as a whole, without what is in quarantine.

    Raises:
        ConfigError: the value is neither text nor a list of parts nor a list of messages.
        MessageError: a text holds characters that cannot be stored.
    """
    if not value:
        return Content()
    if isinstance(value, str):
        value = [TextPart(text=value)]
    items = list(value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(item, ChatMessage) for item in items):
        stored = json.dumps({"messages": [message.to_json() for message in items]}, ensure_ascii=False)
    elif all(isinstance(item, BaseModel) and hasattr(item, "type") for item in items):
        stored = json.dumps({"parts": [part.model_dump(exclude_none=True) for part in items]}, ensure_ascii=False)
    else:
        kinds = ", ".join(sorted({type(item).__name__ for item in items}))
        raise ConfigError(f"a block must return text, a list of parts or a list of messages, not {kinds}")
    if problem := unstorable(stored):
        raise MessageError(f"what the block returned {problem}")
    return content_out_of_quarantine(stored, reading, block)


def content_out_of_quarantine(stored: str, reading: ReadContext, block: str) -> Content:
    """Return a custom block's content, in its stored form, without the sentences that say what is in quarantine."""
    if sets := reading.quarantine.sets_without(block, reading.session_id):
        with reading.database.read() as connection:
            cache = reading.services.messages
            targets = read_targets(connection, reading.session_id, cache, sets, parts=True)
        stored = shown_content(stored, removing(targets))
        if not stored:
            return Content()
    # Named by its hash and kept, so that a past prompt can be laid out again after the block's content has changed.
    return Content(items=(stored_item(Ref.of("content", content_hash(stored)), stored, reading.safe),), keep=(stored,))


def stored_item(ref: Ref, stored: str, safe: Callable[[str], str]) -> Item:
    """Rebuild a custom block's item, or a unit of another session, from its stored text."""
    data = json.loads(stored)
    if "unit" in data:
        heard, marks = [ChatMessage.from_json(text) for text in data["unit"]], data.get("marks", ())
        # Texts of earlier versions do not say which messages they hold, and were laid out without blank lines.
        span: Any = tuple((data["session"], *place) for place in data["span"]) if "span" in data else None
        parts = unit_parts(heard, safe, data["layout"], marks)
        return Item(ref=ref, words=unit_words(heard, marks), parts=parts, span=span)
    if "messages" in data:
        messages = tuple(ChatMessage.from_json(text) for text in data["messages"])
        return Item(ref=ref, words="\n".join(message_text(message) for message in messages), messages=messages)
    parts = ChatMessage(parts=data["parts"]).parts
    words = "\n".join(part.text for part in parts if isinstance(part, TextPart))
    shown = tuple(TextPart(text=safe(part.text)) if isinstance(part, TextPart) else part for part in parts)
    return Item(ref=ref, words=words, parts=shown)


def origin_of(stored: str) -> tuple[str, int] | None:
    """Return session and turn of a unit from another session; None for any other text."""
    data = json.loads(stored)
    return (str(data["session"]), int(data["turn"])) if "unit" in data else None


def from_content(content: Content) -> Any:
    """Convert content back into the form in which a custom block returned it."""
    if any(item.messages for item in content.items):
        return [message for item in content.items for message in item.messages]
    parts = [part for item in content.items for part in item.parts]
    if all(isinstance(part, TextPart) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))
    return parts


def scope_of(scope: str, session_id: str, user_id: str | None, block: str) -> str:
    """Return the database scope of a block's contents, for its setting `scope`.

    Raises:
        ConfigError: the scope is the user's, and the memory has no user.
    """
    if scope == "session":
        return session_scope(session_id)
    if not user_id:
        raise ConfigError(f'the block "{block}" belongs to the user: give the memory a user_id')
    return user_scope(user_id)


def _impossible(cls: type[BaseMemoryBlock[Any]], error: ValidationError, name: str | None) -> ConfigError:
    """Return the error for an impossible value of a block, as one sentence."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        # LlamaIndex's arguments have hints of their own; any other name is taken for a misspelt one.
        hint = cls.instead.get(where) or nearest(where, cls.model_fields)
        return ConfigError(f'{cls.__name__} has no argument "{where}"{hint}')
    if first["type"] == "missing":
        return ConfigError(f"{cls.__name__} needs {where}")
    if isinstance(cause := first.get("ctx", {}).get("error"), ConfigError):  # a sentence already
        return ConfigError(f"{cls.__name__}: {cause}")
    if bound := out_of_bounds(cls, error):
        return ConfigError(f"{bound} (block {name or cls.model_fields['name'].default!r})")
    return ConfigError(f"{cls.__name__}: {where} cannot be {shown(first.get('input'))}: {first['msg']}")


def _check_name(name: str) -> None:
    if not name.strip():
        raise ConfigError(f"a block needs a name, not {name!r}")
    if problem := unstorable(name):
        raise ConfigError(f"a block cannot be called {name!r}: it {problem}")
    if name in RESERVED_NAMES or any(mark in name for mark in "<>\n"):
        raise ConfigError(f"a block cannot be called {name!r}: choose a name without < > and line breaks")


_ANYTHING = TypeAdapter[Any](Any)
"""Adapter for values of any type. Made once: it takes a millisecond, and a new block would need one per field."""


def _as_json(value: Any) -> str | None:
    try:
        # Pydantic first: it also writes models and dates. It refuses lone surrogates, which `json` below accepts.
        return _ANYTHING.dump_json(value).decode()
    except (ValueError, TypeError, MemoryInspectorError) as error:
        if "surrogates not allowed" not in str(error):
            return None
    try:  # a lone surrogate is replaced, as otherwise the whole field would not be saved
        return whole_characters(json.dumps(value, ensure_ascii=False))
    except (ValueError, TypeError):
        return None


# -- the engine's event loop, for blocks with async methods ---------------------------------------


Result = TypeVar("Result")


def _run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine and return its result; its exceptions are raised here."""
    result = asyncio.run_coroutine_threadsafe(_caught(coroutine), _loop()).result()
    if isinstance(result, SystemExit | KeyboardInterrupt):
        raise result
    return result


async def _caught(coroutine: Coroutine[Any, Any, Result]) -> Result | SystemExit | KeyboardInterrupt:
    # Raised within the loop, these would end its thread, and all blocks would wait for it forever.
    try:
        return await coroutine
    except (SystemExit, KeyboardInterrupt) as error:
        return error


@per_process
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # A daemon: a hook that never ends must not keep the program from ending.
    threading.Thread(target=loop.run_forever, name="memory-blocks", daemon=True).start()
    return loop
