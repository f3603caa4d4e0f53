"""Consistency checks of a bundle, for everything that the engine relies on.

Bundles are untrusted. Row models check types (see `memory_core.store.copying.copies`), a temporary database checks
keys and references (`memory_core.store.copying.staging`). This module checks the rest: values within a row, and the
log, event by event. Only message numbers are kept, so memory use hardly grows with the session.
"""

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory_core.blocks import BUILT_IN
from memory_core.blocks.base import BaseMemoryBlock, origin_of, stored_item
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, MessageError
from memory_core.events import (
    KINDS,
    ContextBuilt,
    EntityChanged,
    Event,
    EventRecord,
    Knowledge,
    Ref,
    RelationChanged,
    UnknownEvent,
    as_json,
    current_settings,
    event_of,
    fields_of,
    is_ref,
    runs,
)
from memory_core.history.block_slice import BLOCK_EVENTS, Blocks
from memory_core.history.contexts import is_context
from memory_core.history.message_slice import adds_message, queues_delivery
from memory_core.messages import MAX_DEPTH, ChatMessage
from memory_core.planning.former_values import MarkKind
from memory_core.planning.rendering import InsertMethod
from memory_core.store.copying.copies import (
    BlockCopy,
    Count,
    DeliveryCopy,
    EntityCopy,
    EntityType,
    EventCopy,
    FactCopy,
    Hash,
    MessageCopy,
    Number,
    RelationCopy,
    SessionCopy,
    Span,
    Thing,
    VectorCopy,
    WordsCopy,
    numbered,
    referred,
    renumbered,
    right_hash,
    subjects,
)
from memory_core.store.copying.staging import Staging

MAX_NUMBERED = 1_000_000
"""Maximum number of facts that the log names but the bundle lacks, and of items in one context."""
MAX_NAMED = 20_000_000
MAX_NAMED_EACH = 2_000
"""References to messages, facts and stored turns that a log may have for each event, beyond `MAX_NAMED`. The limit
bounds the time of the check."""
_LARGEST_INTEGER = 2**53
"""Largest integer that every JSON reader represents exactly."""
_LARGEST_DIMENSIONS = 16_384


class WrongRowError(Exception):
    """A row is invalid; the message is the reason, field name first."""


class WrongRowsError(Exception):
    """Rows are inconsistent; the message is a clause without a full stop."""


class RowChecks:
    """Checks rows in member order: session first, log last, all others staged before it.

    Keeps numbers and the current blocks, but no events or texts.
    """

    def __init__(self, staged: Staging) -> None:
        self.unknown_events = 0
        """Number of events of unknown, newer kinds."""
        self.user_facts = 0
        self._staged = staged
        self._session: SessionCopy
        self._dimensions: dict[tuple[str, str], int] = {}
        """Vector size in bytes, by block and embedder."""
        self._numbers: dict[Thing, set[int]] = {thing: set() for thing in get_args(Thing)}
        """Ids, by kind, of rows and of what the log has named so far; those of deliveries come from the log only."""
        self._strangers: set[int] = set()
        """Ids of facts that the log names but the bundle does not hold."""
        self._position = self._added = self._named = 0
        self._config: dict[str, Any] = {}
        self._custom: list[BlockCopy] = []
        """Custom blocks with stored fields, which are checked once all texts are staged."""
        self._blocks = Blocks()
        self._checks: dict[type, Callable[[Any], None]] = {
            SessionCopy: self._check_session,
            BlockCopy: self._check_block,
            MessageCopy: self._check_message,
            FactCopy: self._check_fact,
            EntityCopy: self._check_entity,
            RelationCopy: self._check_relation,
            VectorCopy: self._check_vector,
            DeliveryCopy: self._check_delivery,
            WordsCopy: self._check_words,
            EventCopy: self._check_event,
        }

    def check(self, copy: Any) -> None:
        """Check one row.

        Raises:
            WrongRowError: The row is invalid.
            WrongRowsError: The log is too long.
        """
        self._checks[type(copy)](copy)

    def finish(self) -> None:
        """Check all rows together, after each was checked alone.

        Raises:
            WrongRowsError: Rows are inconsistent.
        """
        # 1. References between rows, which need all rows to be staged.
        if wrong := self._staged.wrong():
            raise WrongRowsError(wrong)
        # Each message has its event, or the past could not be rebuilt.
        if self._added != self._session.next_seq - 1:
            raise WrongRowsError("messages and events do not tell the same")
        # 2. Texts, which would otherwise fail when a page or a prompt parses them.
        for seq, text in self._staged.message_texts():
            _check_text(text, f"message {seq}")
        if self._session.recording is not None:
            try:
                recorded = _STRINGS.validate_json(self._staged.word(self._session.recording) or "")
            except ValidationError as error:
                raise WrongRowsError("the recorded conversation cannot be read") from error
            for number, text in enumerate(recorded, 1):
                _check_text(text, f"message {number} of the recorded conversation")
        # 3. Fields of custom blocks: the class may be unknown here, so only a JSON object is required.
        for block in self._custom:
            try:
                whole = isinstance(json.loads(self._staged.word(str(block.state)) or ""), dict)
            except (ValueError, RecursionError):
                whole = False
            if not whole:
                raise WrongRowsError(f'the block "{block.name}" cannot be read')

    # -- rows ------------------------------------------------------------------------------------

    def _check_session(self, session: SessionCopy) -> None:
        # The constructor's values also hold the names of its blocks, which is no setting.
        settings = {name: value for name, value in session.constructor.items() if name in MemoryConfig.model_fields}
        _possible("config", lambda: MemoryConfig(**session.config))
        _possible("constructor", lambda: MemoryConfig(**settings))
        self._session = session

    def _check_block(self, block: BlockCopy) -> None:
        _check_settings(block.name, block.type, block.settings)
        whose = block.settings.get("scope") != "user" or self._session.user_id is not None
        _require(whose, "settings.scope: it is a user's, and there is no user")
        # Their fields are read only once all texts are staged.
        if block.state is not None and block.type not in BUILT_IN:
            self._custom.append(block)
        try:
            if block.constructor:
                _Constructor.model_validate_json(block.constructor)
        except ValidationError as error:
            raise WrongRowError(f"constructor: {first_problem(error)}") from error

    def _check_message(self, message: MessageCopy) -> None:
        self._require_seq("seq", message.seq)
        self._require_flush(message.flush)
        # The status and the flush number say the same thing twice, and readers rely on either.
        where = (message.flush is None) == (message.status == "active")
        _require(where, "flush: what left the queue has the number of its flush, and nothing else has one")
        try:
            if message.calls is not None:
                _STRINGS.validate_json(message.calls)
        except ValidationError as error:
            raise WrongRowError(f"calls: {first_problem(error)}") from error

    def _check_fact(self, fact: FactCopy) -> None:
        whose = fact.owner == "session" or self._session.user_id is not None
        _require(whose, "owner: it is a user's, and there is no user")
        versions = [revision.version for revision in fact.revisions]
        _require(versions == list(range(1, fact.version + 1)), "revisions: its history has gaps")
        self._require_seq("sources", *fact.sources)
        self._numbers["facts"].add(fact.id)
        self.user_facts += fact.owner == "user"

    def _check_entity(self, entity: EntityCopy) -> None:
        merged = (entity.merged_into is None) == (entity.state != "merged")
        _require(merged, "merged_into: what is merged names an entity, and nothing else does")

    def _check_relation(self, relation: RelationCopy) -> None:
        # A retired relation may link an entity to itself, after its two ends were merged.
        itself = relation.subject == relation.object and relation.state != "retired"
        _require(not itself, "object: it is of an entity to itself")
        _require(relation.ended_by != relation.id, "ended_by: no relation ends itself")
        self._require_seq("sources", *relation.sources)

    def _check_vector(self, vector: VectorCopy) -> None:
        _require(bool(vector.seqs), "seqs: it holds no message")
        self._require_seq("seqs", *(last for _, last in vector.seqs))
        # `first_seq` is a separate column for queries, so it must agree with `seqs`.
        first = min(first for first, _ in vector.seqs)
        _require(vector.first_seq == first, f"first_seq: its messages begin with {first}")
        # Vectors of one embedder are compared with each other.
        size = self._dimensions.setdefault((vector.block, vector.embedder), len(vector.embedding))
        _require(_is_unit(vector) and len(vector.embedding) == size, "embedding: it is no vector as the others are")
        self._numbers["vectors"].add(vector.id)

    def _check_delivery(self, delivery: DeliveryCopy) -> None:
        _require(delivery.first_seq <= delivery.last_seq, "last_seq: it ends before it begins")
        self._require_seq("last_seq", delivery.last_seq)
        self._require_flush(delivery.flush)

    def _check_words(self, words: WordsCopy) -> None:
        _require(right_hash(words), "hash: it is not the one of these words")

    def _require_seq(self, field: str, *seqs: int) -> None:
        exist = all(seq < self._session.next_seq for seq in seqs)
        _require(exist, f"{field}: there never was a message of this number")

    def _require_flush(self, flush: int | None) -> None:
        _require((flush or 0) <= self._session.flushes, "flush: there never was one of this number")

    # -- the log ---------------------------------------------------------------------------------

    def _check_event(self, copy: EventCopy) -> None:
        event = _checked_event(copy)
        # Positions count from 1 in the order of the file, as they will after import.
        self._position += 1
        if event.family != "unknown":
            self._check_named(event, copy)
        else:
            _check_unknown(copy)
            self.unknown_events += 1
        try:
            # Applies the event as the history does: what raises here would raise on every page that shows the past.
            if type(event) in BLOCK_EVENTS:
                self._blocks.apply(EventRecord(self._position, "", copy.turn, copy.at, copy.actor, event))
                del self._blocks.states[:-1]  # only the latest state is needed here
            if event.about is None and event.changed_settings:
                self._config |= event.changed_settings
                _possible("data.after", lambda: MemoryConfig(**self._config))
            # A block that is added without settings is checked too, as its class may insist on some.
            elif event.changed_settings or event.operation == "create_store":
                for block in self._blocks.now:
                    if block.name == event.about:
                        _check_settings(block.name, block.type, block.settings)
        except _UNFIT as error:
            raise WrongRowError("data: it does not fit to what the log says before it") from error

    def _check_named(self, event: Event, copy: EventCopy) -> None:
        """Check that an event refers only to existing things."""
        # Things that the event creates are added first, as the event may refer to them.
        numbers = self._numbers
        spans = list(event.messages_named)
        for thing, number in numbered(copy.kind, copy.data):
            numbers[thing].add(number)
        # Messages are numbered without gaps, as everything else names them by number.
        if adds_message(event):
            self._added += 1
            _require(event.seq == self._added, f"data.seq: the next message is {self._added}")
        elif queues_delivery(event):
            _require(bool(spans), "data.seqs: it queues no message")
        elif event.support:  # may name other sessions' messages: only count them
            self._named += sum(max(0, last - first + 1) for _, _, seqs in event.support for first, last in seqs)
        elif isinstance(event, EntityChanged | RelationChanged):
            spans += _check_changed(event)
        _require(all(1 <= a <= b <= self._added for a, b in spans), "data: it is about messages there never were")
        self._named += sum(last - first + 1 for first, last in spans)
        if is_context(event):
            self._named += self._check_context(event, copy)
        # A span of a few bytes can name millions of messages, each of which the app would look up.
        if self._named > MAX_NAMED + MAX_NAMED_EACH * self._position:
            raise WrongRowsError("its log is too long")
        for thing, number in referred(copy.kind, copy.data):
            # The same range as for ids of rows, well within a 64-bit integer.
            _require(0 < number <= 2**62, "data: it holds an impossible number")
            if thing != "facts":
                _require(number in numbers[thing], f"data: it is about {_ONE[thing]} there never was ({number})")
            elif number not in numbers["facts"]:
                self._strangers.add(number)
        # Facts from the user's other sessions may be missing here and are known only by id.
        acceptable = subjects(copy.kind, copy.data) <= numbers["facts"] or self._session.user_id is not None
        _require(acceptable, "data: it is about a fact there never was")
        _require(len(self._strangers) <= MAX_NUMBERED, "data: the log names too many facts")

    def _check_context(self, event: ContextBuilt, copy: EventCopy) -> int:
        """Check a context; return the number of items it held or cut."""
        try:
            _StoredLayout.model_validate_json(
                json.dumps({name: copy.data[name] for name in _StoredLayout.model_fields})
            )
        except ValidationError as error:
            raise WrongRowError(f"data.{first_problem(error)}") from error
        _require(event.known in get_args(Knowledge), "data.known is no way in which a prompt is known")
        refs = [ref for group in (*event.parts, *event.cuts) for ref in group["refs"]]
        refs += [ref for part in event.parts for _, noted in part.get("notes", ()) for ref in noted]
        # Counted before runs are expanded: a short text may stand for millions of items.
        held = sum(last - first + 1 for _, first, last in runs(refs))
        _require(held <= MAX_NUMBERED, "data: it names too many things")
        for ref in map(Ref, refs):
            if ref.kind == "content" and (words := self._staged.word(ref.hash)) is not None:
                try:
                    stored_item(ref, words, str)
                    origin_of(words)
                except (ValueError, TypeError, KeyError, RecursionError) as error:
                    raise WrongRowError(f"data: the words of {ref} cannot be read") from error
        return held + sum(len(part.get("marks", ())) for part in event.parts)


_ONE: Mapping[Thing, str] = {
    "vectors": "a stored turn",
    "deliveries": "a delivery",
    "entities": "an entity",
    "relations": "a relation",
}
_UNFIT = (MessageError, ValueError, KeyError, TypeError, IndexError)
_STRINGS = TypeAdapter(list[str])


def _check_unknown(copy: EventCopy) -> None:
    """Check that what an event of a newer version refers to by id can be numbered anew."""
    try:
        renumbered(copy.kind, copy.data, lambda _, number: number)
        ids = [number for _, number in referred(copy.kind, copy.data)] + [*(subjects(copy.kind, copy.data) - {None})]
    except (*_UNFIT, AttributeError) as error:
        raise WrongRowError(f"data: what it refers to cannot be read, in a {copy.kind}") from error
    _require(all(type(number) is int for number in ids), f"data: what it refers to is no number, in a {copy.kind}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise WrongRowError(what)


def _possible(field: str, make: Callable[[], object]) -> None:
    try:
        make()
    except (ConfigError, TypeError) as error:
        raise WrongRowError(f"{field}: these settings are impossible ({error})") from error


def _check_text(text: str, what: str) -> None:
    try:
        ChatMessage.from_json(text)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise WrongRowsError(f"{what} cannot be read") from error


def _check_settings(name: str, kind: str, settings: Mapping[str, Any]) -> None:
    block_class = BUILT_IN.get(kind)
    values = {**current_settings(dict(settings)), "name": name}
    if block_class is None:
        # The class of a custom block may be missing here, so only the settings that all blocks share are checked.
        values = {key: value for key, value in values.items() if key in BaseMemoryBlock.model_fields}
        _possible("settings", lambda: BaseMemoryBlock[Any](**values))
    else:
        # A static block's text is stored apart from its settings, and its class insists on one.
        extra = {"static_content": ""} if kind == "static" else {}
        _possible("settings", lambda: block_class(**{**values, **extra}))


def _is_unit(vector: VectorCopy) -> bool:
    if not vector.embedding or len(vector.embedding) % 4 or len(vector.embedding) > 4 * _LARGEST_DIMENSIONS:
        return False
    # Searches compare by the product alone, which is the cosine of unit vectors only.
    values = np.frombuffer(vector.embedding, dtype="<f4").astype(np.float64)
    return math.isclose(math.sqrt(values @ values), 1, abs_tol=0.01)  # false too if some value is not finite


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Constructor(_Strict):
    settings: dict[str, Any]
    state: str | None


def _ref(text: str) -> str:
    if not is_ref(text):
        raise ValueError("is not a reference")
    return text


_Marked = Annotated[str, Field(pattern="^(?:[mfr][0-9]{1,18}|s[0-9a-f]{32})$")]
"""Ref of a message, a fact, a relation or a sentence that has a mark of a former value."""

_Present = Annotated[str, Field(pattern="^[fr][0-9]{1,18}$")]
"""Ref of the fact or relation with the present value."""


class _LayoutPart(_Strict):
    name: str
    priority: int
    asked: int
    granted: int
    refs: tuple[Annotated[str, AfterValidator(_ref)], ...]
    marks: tuple[tuple[_Marked, MarkKind, _Present | None, Count], ...] = ()
    notes: tuple[
        tuple[Annotated[str, Field(max_length=80)], tuple[Annotated[str, AfterValidator(_ref)], ...]], ...
    ] = ()


class _Cut(_Strict):
    part: str
    rule: str
    refs: tuple[Annotated[str, AfterValidator(_ref)], ...]
    tokens: int
    over_before: int


class _EntityValues(_Strict, extra="forbid"):
    name: Hash = ""
    type: EntityType = "other"
    aliases: tuple[Hash, ...] = ()
    state: Literal["active", "merged", "retired"] = "active"
    merged_into: Number | None = None


class _RelationValues(_Strict, extra="forbid"):
    subject: Number = 1
    predicate: Hash = ""
    object: Number = 1
    state: Literal["active", "ended", "retired"] = "active"
    ended_turn: Count | None = None
    ended_by: Number | None = None
    sources: tuple[Span, ...] = ()


class _StoredLayout(BaseModel):
    parts: tuple[_LayoutPart, ...]
    cuts: tuple[_Cut, ...]
    insert_method: InsertMethod


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    return TypeAdapter(KINDS[kind])


def _check_changed(event: EntityChanged | RelationChanged) -> list[tuple[int, int]]:
    """Validate a change's fields; return the messages it names, as ranges of sequence numbers."""
    spans: list[tuple[int, int]] = []
    for values in (event.before, event.after):
        try:
            if isinstance(event, RelationChanged):
                # Through JSON, as strict models accept a list for a tuple only from JSON.
                spans += _RelationValues.model_validate_json(json.dumps(values)).sources
            else:
                _EntityValues.model_validate_json(json.dumps(values))
        except ValidationError as error:
            raise WrongRowError(f"data: {first_problem(error)}") from error
    return spans


def _checked_event(copy: EventCopy) -> Event:
    try:
        # Before anything walks the value: nesting and numbers are still arbitrary.
        _check_values(copy.data, MAX_DEPTH)
        text = as_json(copy.data)
    except (ValueError, RecursionError) as error:
        raise WrongRowError("data: it holds a value that cannot be stored") from error
    event_class = KINDS.get(copy.kind)
    try:
        # Former field names become present ones first, or a log of an earlier version would count as newer.
        read = copy.data if event_class is None else event_class.as_read(copy.data)
    except (AttributeError, KeyError) as error:
        raise WrongRowError(f"data: it is not that of a {copy.kind}") from error
    # An event of a newer version is kept unchanged, and shown under its name.
    if event_class is None or not fields_of(copy.kind) >= read.keys():
        return UnknownEvent(name=copy.kind, data=copy.data)
    try:
        text = text if read is copy.data else as_json(read)
        _adapter(copy.kind).validate_json(text, strict=True)
    except ValidationError as error:
        raise WrongRowError(f"data.{first_problem(error)}, in a {copy.kind}") from error
    return event_of(copy.kind, dict(read))


def first_problem(error: ValidationError) -> str:
    """Return place and reason of the first validation error."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def _check_values(value: Any, depth: int) -> None:
    if depth == 0:
        raise ValueError("too deep")
    kind = type(value)  # parsed from JSON, so exactly one of these
    if kind is str:
        # PostgreSQL stores no NUL in text.
        if "\x00" in value:
            raise ValueError("NUL")
    elif kind is int or kind is float:
        if not math.isfinite(value) or abs(value) > _LARGEST_INTEGER:
            raise ValueError("not a number that can be kept")
    elif kind is list or kind is dict:
        for item in value if kind is list else (*value, *value.values()):
            _check_values(item, depth - 1)
