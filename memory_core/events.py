"""Every decision of the engine, as a typed value in the past tense.

Events are the audit log beside the tables, written in the same transaction. They refer to words by id, by sequence
range (`Ranges`) and by content hash, and never contain copies. All sizes are in tokens; `turn`, `actor`, time and
position belong to the record around an event.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from sys import intern
from typing import Annotated, Any, ClassVar, Literal, dataclass_transform

from memory_core.access import RIGHTS, Role
from memory_core.tokens import reported

Actor = Literal["engine", "user", "agent"]
"""Author of a change. Earlier versions stored the user as `curator`."""
Ranges = tuple[tuple[int, int], ...]
"""Sequence numbers as inclusive ranges: ((1, 4), (9, 9)) is 1, 2, 3, 4 and 9."""
Thing = tuple[str, int]
"""Item of a change set, by kind and id: ("fact", 3), ("entity", 1), ("relation", 5)."""
Row = tuple[Thing, int, int]
"""An item with its version before and after a change: before is 0 if it was added, after is 0 if it was removed."""

Family = Literal[
    "messages", "flushes", "deliveries", "facts", "summaries", "relations", "vectors", "prompts", "blocks", "settings",
    "session", "calls", "stores", "unknown",
]  # fmt: skip
"""Subject of an event."""

NothingReason = Literal[
    "question", "assistant", "not_read", "repeats_memory", "known", "repeated", "no_rule", "model_found_none",
    "suppressed", "refused", "language", "quarantined", "undated",
]  # fmt: skip
"""Reason why nothing was learned from a message.

- `question`: it only asks; `assistant`: the assistant's messages are not read
- `not_read`: tool, system and pinned messages are not read; `repeats_memory`: it only repeats memory
- `known`: a known fact says the same; `repeated`: another message of the delivery says the same
- `no_rule`: no rule matched; `model_found_none`: the model found nothing in it
- `suppressed`: it resembles a rejected fact; `refused`: what was found is invalid
- `language`: the rules do not read its language; `quarantined`: it was in quarantine
- `undated`: it depends on a date such as "soon", or on "tomorrow" in a message without a time
"""

# Types of fields with ids, which each database assigns itself: `store.copying.copies` reads them.
FactId = Annotated[int, "facts"]
UnitId = Annotated[int, "vectors"]
DeliveryId = Annotated[int, "deliveries"]
EntityId = Annotated[int, "entities"]
RelationId = Annotated[int, "relations"]
EntityFields = Annotated[dict[str, Any], {"merged_into": "entities"}]
RelationFields = Annotated[dict[str, Any], {"subject": "entities", "object": "entities", "ended_by": "relations"}]
WithRefs = Annotated[dict[str, Any], "refs"]
"""Mapping whose list `refs` names pieces of a prompt, as `compact` writes them."""

Knowledge = Literal["built", "observed", "reported"]
"""Origin of a prompt: built by this engine, seen on its way to the model, or reported by the agent's span."""

Operation = Literal["create", "update", "delete", "search", "upsert", "create_store", "delete_store"]
"""Operation on memory. `delete`: the item is no longer in any prompt; `upsert`: a delivery to a block."""

DeliveryStatus = Literal["pending", "done", "failed", "parked", "skipped"]
"""Status of a delivery after an event about it; `failed`: it will be tried again."""

_LEAST_ROLES: dict[Family, Role] = dict.fromkeys(
    (
        "messages", "flushes", "deliveries", "facts", "summaries", "relations", "vectors", "prompts", "calls",
        "stores", "unknown",
    ),
    "curator",
)  # fmt: skip
"""Least role of a person whose change records an event; an event of another family names its own."""

KINDS: dict[str, type["Event"]] = {}
"""Event classes by stored name."""

# Without spaces, as `log_rows.section_went_out` searches this text. Made once, as it takes longer than its work.
as_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

_NO_SETTINGS: Mapping[str, Any] = {}

_ITEMS: dict[Literal["fact", "entity", "relation"], str] = {"fact": "f", "entity": "e", "relation": "r"}
"""First letter of an item's name, by kind."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item of memory that an event's operation concerns."""

    id: str
    """Name: `f12` for a fact, `v7` a stored unit, `r4` a relation, `e3` an entity; the block's name for its text."""
    text: str | None = None
    """Hash of the item's words; None if the event names none."""
    sources: Ranges = ()
    """Messages that a stored unit consists of."""
    score: float | None = None
    """Relevance to the question of a search, 0 to 1."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
@dataclass(frozen=True)
class Event:
    """Base of all events, each a frozen dataclass. The kind is the class name in snake case: `message_added`."""

    kind: ClassVar[str] = "event"
    family: ClassVar[Family]
    becomes: ClassVar[str | None]
    sets: ClassVar[tuple[str, ...]]
    """Fields with values that the item has after the event, each under its name there."""
    adds: ClassVar[Literal["facts", "relations"] | None]
    gives: ClassVar[str | None]
    item: ClassVar[Literal["fact", "entity", "relation"] | None]
    """Kind of the single item that the event names; the field with its number has the same name."""
    _operation: ClassVar[Operation | None]
    _text: ClassVar[str | None]
    _supports: ClassVar[bool]
    confirms: ClassVar[bool]
    """True if the event states an existing item again."""
    _writes: ClassVar[bool]
    _bookkeeping: ClassVar[bool]
    forgets: ClassVar[bool]
    """True if the event removes messages from the session, and what was learned from these messages alone."""
    rewrites_log: ClassVar[bool]
    """True if earlier events of the log may have changed: words were erased, or another session has the id."""
    delivery_status: ClassVar[DeliveryStatus | None]
    """Status of the named deliveries after the event; None if it names none."""
    free_text: ClassVar[tuple[str, ...]]
    """Fields with words that a person or a model wrote, or with settings; the others hold codes, numbers, hashes."""

    def __init_subclass__(
        cls,
        *,
        family: Family,
        becomes: str | None = None,
        sets: tuple[str, ...] = (),
        adds: Literal["facts", "relations"] | None = None,
        writes: bool = False,
        gives: str | None = None,
        operation: Operation | None = None,
        text: str | None = None,
        supports: bool = False,
        bookkeeping: bool = False,
        delivery_status: DeliveryStatus | None = None,
        forgets: bool = False,
        rewrites_log: bool = False,
        free_text: tuple[str, ...] = (),
        least_role: Role | None = None,
    ) -> None:
        """Register a kind of event with the properties by which readers of the log select it.

        Args:
            family: subject of the event.
            becomes: state of a fact or relation after the event, if it changes the state.
            sets: see the attribute.
            adds: kind of the item that the event adds, if any.
            writes: see the property.
            gives: field with the ids of the items that the event creates.
            operation: see the property.
            text: field with the hash of the item's words.
            supports: True if `sources` are messages that state the item.
            bookkeeping: see the property.
            delivery_status: see the attribute.
            forgets: see the attribute.
            rewrites_log: see the attribute.
            free_text: see the attribute.
            least_role: see the property; required for families that have none.
        """
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.family, cls.becomes, cls.adds, cls._writes, cls._bookkeeping = family, becomes, adds, writes, bookkeeping
        cls.sets = sets
        cls.free_text, cls.delivery_status = free_text, delivery_status
        cls.forgets, cls.rewrites_log = forgets, rewrites_log
        cls.gives, cls._operation, cls._text, cls._supports = gives, operation, text, supports
        cls.confirms = supports and adds is None
        RIGHTS[cls] = least_role or _LEAST_ROLES[family]
        # A field named like a kind, such as `fact`, holds the number of the event's item.
        cls.item = next((kind for kind in _ITEMS if kind in cls.__annotations__), None)
        # Made a dataclass here, so that no kind can forget it. Without slots, which would make another class
        # and register it too.
        KINDS[cls.kind] = dataclass(frozen=True)(cls)

    @property
    def bookkeeping(self) -> bool:
        """True for operational events, which decide nothing; their effects have their own events."""
        return self._bookkeeping

    @property
    def writes(self) -> bool:
        """True if the event changes the contents of its block."""
        return self._writes

    @property
    def least_role(self) -> Role:
        """Least role of a person whose change records the event."""
        return RIGHTS[type(self)]

    @property
    def operation(self) -> Operation | None:
        """Operation on memory that the event reports; None for events that leave memory as it is."""
        return self._operation

    @property
    def items(self) -> tuple["Item", ...]:
        """Items that the event's operation concerns."""
        if self.item is None:
            return ()
        number = getattr(self, self.item)
        return (Item(f"{_ITEMS[self.item]}{number}", getattr(self, self._text) if self._text else None),)

    @property
    def stated_in(self) -> Ranges:
        """Messages that state the item, as far as this event names them."""
        return getattr(self, "sources", ()) if self._supports else ()

    @property
    def about(self) -> str | None:
        """The block that the event concerns, if any."""
        block: str | None = getattr(self, "block", None)
        return block

    @property
    def support(self) -> tuple[tuple[int, str, Ranges], ...]:
        """Messages added as sources of facts: (fact, session, messages); see `FactsCurated.support`."""
        return ()

    @property
    def called_tool(self) -> str | None:
        """Name of the memory tool whose call the event reports; None for other events."""
        return None

    @property
    def changed_settings(self) -> Mapping[str, Any]:
        """New values of changed settings: of the block `about` or, if that is None, of the session."""
        return _NO_SETTINGS

    @property
    def empties_session(self) -> bool:
        """True if no message is left after the event; turns are then counted from 1 again."""
        return False

    @property
    def messages_named(self) -> Ranges:
        """Messages of this session that the event names, by sequence number."""
        # Optional ranges are not among them: the messages that a reset removed are no longer the session's.
        return tuple(span for field in fields(self) if field.type == Ranges for span in getattr(self, field.name))

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a stored event under present names, with values of earlier versions corrected."""
        return values

    def to_json(self) -> str:
        return as_json(vars(self))  # its fields, in order


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as stored: position in the log, time and actor."""

    position: int
    """Number that increases along the log of a session; all sessions share one counter."""
    session_id: str
    turn: int
    at: float
    """Time, in seconds since the epoch. For display only: order is by position."""
    actor: Actor
    event: Event
    person: str | None = None
    """Person whose change recorded the event (`access.Person.label`); None without a sign-in or for a server's own."""

    @property
    def kind(self) -> str:
        return self.event.kind


_SHARED_BELOW = 24
"""Length below which a text is kept once for all events, as roles and names of blocks are; hashes are longer."""


def decode(kind: str, data: str) -> Event:
    """Decode an event written by `to_json`; an `UnknownEvent` for a kind of a newer version."""
    return decode_all([(kind, data)])[0]


def decode_all(stored: Sequence[tuple[str, str]]) -> list[Event]:
    """Decode events written by `to_json`, each given as kind and text."""
    texts = json.loads(f"[{','.join(data for _, data in stored)}]")  # parsing one joined text is faster
    return [event_of(kind, values) for (kind, _), values in zip(stored, texts, strict=True)]


def event_of(kind: str, values: dict[str, Any]) -> Event:
    """Decode an event from its parsed values, whose lists it turns into tuples."""
    for name, value in values.items():
        of = type(value)
        if of is str:
            if len(value) < _SHARED_BELOW:
                values[name] = intern(value)
        elif of is list:
            values[name] = _tuples(value)
    cls = KINDS.get(kind)
    if cls is None:  # of a newer version
        return UnknownEvent(name=kind, data=values)
    read = cls.as_read(values)
    try:
        return cls(**read)
    except TypeError:
        if fields_of(kind) >= read.keys():
            raise
        # A field of a newer version: without it the event might mean something else.
        return UnknownEvent(name=kind, data=values)


FORMER_SETTINGS = {"sitting_weight": "episode_weight", "substance_weight": "informativeness_weight"}
"""Present names of block settings by the names under which earlier versions stored them."""


def current_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a block's settings, stored by whichever version, under their present names."""
    return _renamed(settings, FORMER_SETTINGS)


def _renamed(values: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()} if names.keys() & values.keys() else values


@cache
def fields_of(kind: str) -> frozenset[str]:
    """Return the names of an event's fields, by its kind."""
    return frozenset(name.name for name in fields(KINDS[kind]))


def ranges(numbers: Iterable[int]) -> Ranges:
    """Return sequence numbers as ranges.

    >>> ranges([3, 1, 2, 9])
    ((1, 3), (9, 9))
    """
    spans: list[tuple[int, int]] = []
    ordered = sorted(set(numbers))
    if ordered and ordered[-1] - ordered[0] + 1 == len(ordered):  # one range, as of nearly all events
        return ((ordered[0], ordered[-1]),)
    for number in ordered:
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return tuple(spans)


def expand(spans: Ranges) -> list[int]:
    """Return the numbers of ranges, in order."""
    return [number for first, last in spans for number in range(first, last + 1)]


RefKind = Literal["fact", "unit", "message", "relation", "day", "text", "content", "cut"]

_KINDS: dict[str, RefKind] = {
    "f": "fact",
    "v": "unit",
    "m": "message",
    "r": "relation",
    "d": "day",
    "s": "text",
    "c": "content",
    "x": "cut",
}
_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
# 18 digits fit into the integer keys of every database.
_REF = re.compile(r"([fvmrd])([0-9]{1,18})(?:-\1([0-9]{1,18}))?|[sc][0-9a-f]{32}")
_CUT = re.compile(r"x[0-9]{1,18}\.[0-9]{1,6}")


class Ref(str):
    """Name of a piece of a prompt in events: the letter of its kind and a number, or the hash of its words.

    `f12` fact 12, `v7` stored unit 7, `m3` message 3, `r4` relation 4, `d7` the date line above unit 7; `s<hash>` a
    text or a sentence of a summary, `c<hash>` content of a custom block. The name of a cut is in no event:
    `x812.1` is the first cut of the prompt at position 812.

    >>> Ref.of("fact", 12), Ref("f12").kind, Ref("f12").number
    ('f12', 'fact', 12)
    """

    __slots__ = ()

    @classmethod
    def of(cls, kind: RefKind, key: int | str) -> "Ref":
        return cls(f"{_LETTERS[kind]}{key}")

    @classmethod
    def of_cut(cls, position: int, number: int) -> "Ref":
        """Return the name of a cut: the position of its prompt in the log, and the number of the cut in it, from 1."""
        return cls.of("cut", f"{position}.{number}")

    @property
    def kind(self) -> RefKind:
        return _KINDS[self[0]]

    @property
    def number(self) -> int:
        return int(self[1:])

    @property
    def cut(self) -> tuple[int, int]:
        """Position of a cut's prompt in the log, and the number of the cut in it.

        >>> Ref.of_cut(812, 1).cut
        (812, 1)
        """
        position, _, number = self[1:].partition(".")
        return int(position), int(number)

    @property
    def hash(self) -> str:
        """Key of a text or content in the content store."""
        return self[1:]


def is_ref(text: str) -> bool:
    """Return whether a text is a ref, or a run of them, as `compact` writes them."""
    match = _REF.fullmatch(text)
    # `compact` writes only runs that ascend and have more than one number.
    return match is not None and (not match[3] or int(match[2]) < int(match[3]))


def is_target(text: str) -> bool:
    """Return whether a text names one thing that can be followed: a piece of a prompt, or a cut.

    >>> is_target("f3"), is_target("f3-f5"), is_target("x812.1")
    (True, False, True)
    """
    return _CUT.fullmatch(text) is not None or ("-" not in text and is_ref(text))


def runs(refs: Iterable[str]) -> Iterator[tuple[RefKind, int, int]]:
    """Yield kind, first and last number of each numbered ref or run of refs, in order, without expanding runs."""
    for ref in refs:
        if (match := _REF.fullmatch(ref)) and match[1]:
            yield _KINDS[match[1]], int(match[2]), int(match[3] or match[2])


def numbers(refs: Iterable[str], kind: RefKind) -> list[int]:
    """Return the numbers of the refs of one kind, in order; runs are expanded.

    >>> numbers(["f1-f3", "v9"], "fact")
    [1, 2, 3]
    """
    return [
        number for kind_of_run, first, last in runs(refs) if kind_of_run == kind for number in range(first, last + 1)
    ]


def compact(refs: Iterable[str]) -> tuple[str, ...]:
    """Join runs of consecutive refs: `f1-f9`. Reversed by `spread`."""
    joined: list[tuple[str, int, int] | str] = []
    for ref in refs:
        match = _REF.fullmatch(ref)
        if match is None or not match[1]:
            joined.append(ref)
            continue
        letter, first, last = match[1], int(match[2]), int(match[3] or match[2])
        before = joined[-1] if joined else None
        # Only neighbours in the given order are joined, as the order is part of what is recorded.
        if isinstance(before, tuple) and before[0] == letter and before[2] + 1 == first:
            joined[-1] = (letter, before[1], last)
        else:
            joined.append((letter, first, last))
    return tuple(
        part if isinstance(part, str) else f"{part[0]}{part[1]}" + (f"-{part[0]}{part[2]}" if part[2] > part[1] else "")
        for part in joined
    )


def spread(refs: Iterable[str]) -> tuple[Ref, ...]:
    """Return the single refs that `compact` joined.

    >>> spread(compact(["f1", "f2", "f3", "v9"]))
    ('f1', 'f2', 'f3', 'v9')
    """
    result: list[Ref] = []
    for ref in refs:
        # Hashes are hex digits, so a hyphen is always that of a run.
        if "-" in ref:
            result += [Ref.of(kind, n) for kind, first, last in runs((ref,)) for n in range(first, last + 1)]
        else:
            result.append(Ref(ref))
    return tuple(result)


def _tuples(values: list[Any]) -> tuple[Any, ...]:
    for place, value in enumerate(values):
        if type(value) is list:
            values[place] = _tuples(value)
    return tuple(values)


# -- the session ---------------------------------------------------------------------------------


class SessionCreated(Event, family="session", least_role="curator", rewrites_log=True, free_text=("title",)):
    title: str
    user_id: str | None


class SessionRenamed(Event, family="session", least_role="curator", free_text=("before", "after")):
    before: str
    after: str


class SessionClosed(Event, family="session", least_role="curator"):
    """The session was closed by `flush(all=True)`: everything left the queue, and all deliveries became due."""


class SessionReset(Event, family="session", least_role="owner", forgets=True, rewrites_log=True):
    """Messages, and what was learned from these messages alone, were removed."""

    status: str | None
    """Status of the removed messages: `active` or `archived`; None: of either status."""
    messages: int
    facts: int
    vectors: int
    seqs: Ranges | None = None
    """The removed messages; None: all messages with this `status`."""

    @property
    def empties_session(self) -> bool:
        return self.status is None and self.seqs is None


class QuarantineChanged(Event, family="session", least_role="curator", free_text=("phrase",)):
    """Items were taken out of all prompts, or released again; nothing stored was changed."""

    number: int
    """Number of the set of items in the session, from 1; a release has the number of the set it releases."""
    messages: Ranges = ()
    facts: tuple[FactId, ...] = ()
    relations: tuple[RelationId, ...] = ()
    sentences: tuple[str, ...] = ()
    """Hashes of sentences of static texts and summaries."""
    released: bool = False
    joined: bool = False
    """True if the items were stored after the set was made, and joined it because they say the same."""
    phrase: str = ""
    """Phrase that was chosen, or the names of the chosen entity, one per line; empty for a message or a fact."""
    whole_words: bool = False
    """True if the phrase counts only as whole words, as names do."""
    spared: tuple[str, ...] = ()
    """Custom blocks that may say it nevertheless; `queue`: what is stored later may, such as messages."""


class SessionImported(Event, family="session", least_role="owner", free_text=("source",)):
    source: str
    messages: int
    skipped: int


class SessionBranched(Event, family="session", least_role="curator"):
    """The session was created from another one in its state at the end of a turn."""

    source: str
    """Id of the session that this one was branched from."""
    turn: int
    missing: int = 0
    """Number of messages, facts and stored turns that were erased after the branched turn, and so were not copied."""


class AgentAttached(Event, family="session", least_role="owner", free_text=("name",)):
    """The session mirrors an external agent: its log records what was seen of that agent, and it is read-only here."""

    source: Literal["proxy", "adapter", "spans", "file"]
    """Source: the recording proxy, an adapter inside the agent's framework, the agent's own spans; or `file` for a
    store that is followed."""
    name: str = ""
    """Name of the file, without its folder."""
    conversation: str = ""
    """Id that the agent's own headers gave the conversation."""
    begins: str = ""
    """Mark of the beginning of its system prompt, see `memory_inspector.recorder.callers`."""


class SessionTakenOver(Event, family="session", least_role="curator"):
    """A person changes the session in the app from now on, although an agent works in it."""


class SessionHandedBack(Event, family="session", least_role="curator"):
    """The session is left to its agent again: the app only shows it while the agent works."""


class ConfigurationChanged(Event, family="settings", least_role="owner", free_text=("before", "after", "ignored")):
    before: dict[str, Any]
    after: dict[str, Any]
    """New values of the settings that changed."""
    source: Literal["constructor", "app"]
    ignored: dict[str, Any] = field(default_factory=dict)
    """Overridden values: stored values replaced by `after`, or a constructor's, which the stored values overrule."""

    @property
    def changed_settings(self) -> Mapping[str, Any]:
        return self.after

    @property
    def least_role(self) -> Role:
        return (
            "owner" if self.after else "curator"
        )  # without new values it notes those that a program asked for in vain


# -- the queue -----------------------------------------------------------------------------------


class MessageAdded(Event, family="messages"):
    seq: int
    message_id: str
    role: str
    tokens: int
    reference_tokens: int
    counter: str
    content: str
    """Hash of the message in the content store."""
    pinned: bool = False


class MemoryStripped(Event, family="messages"):
    """A memory section that the engine had inserted into a prompt was removed from a message that was put with it."""

    seq: int


class FlushPlanned(Event, family="flushes"):
    flush: int
    trigger: str
    rules: tuple[str, ...]
    seqs: Ranges
    messages: int
    tokens: int
    queue_before: int
    queue_after: int
    history_budget: float
    flush_size: int
    over_by: int
    queue_turns: int | None = None
    """Maximum number of turns in the queue; None: no limit."""
    summary: Ranges = ()
    """Messages that an agent's compaction put in place of these."""


class QueueReplaced(Event, family="messages"):
    """The queue was replaced by `set`; the archive and what was learned remained."""

    removed: Ranges
    tokens: int


class QueueRecounted(Event, family="messages"):
    """Another tokenizer or accounting is in use from here on."""

    before: str
    after: str
    tokens_before: int
    tokens_after: int


# -- deliveries ----------------------------------------------------------------------------------


class DeliveryQueued(Event, family="deliveries", gives="delivery", bookkeeping=True, delivery_status="pending"):
    delivery: DeliveryId
    block: str
    trigger: str
    seqs: Ranges
    tokens: int


class DeliveryDone(Event, family="deliveries", bookkeeping=True, delivery_status="done"):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempt: int
    seconds: float
    behind: tuple[DeliveryId, ...] = ()
    """Earlier deliveries to the block that were not done: what was decided here may need them."""


class DeliveryFailed(Event, family="deliveries", operation="upsert", delivery_status="failed", free_text=("error",)):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempt: int
    error: str
    retry_in_seconds: float


class DeliveryParked(Event, family="deliveries", delivery_status="parked", free_text=("error",)):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempts: int
    error: str


class DeliveryRetried(Event, family="deliveries", delivery_status="pending"):
    deliveries: tuple[DeliveryId, ...]
    block: str


class DeliverySkipped(Event, family="deliveries", delivery_status="skipped"):
    deliveries: tuple[DeliveryId, ...]
    block: str


class NothingLearned(Event, family="deliveries", bookkeeping=True):
    """Messages of a delivery from which a block learned nothing, each with the reason; it learned from all others."""

    block: str
    learner: str
    """Name of the model, or of the rules."""
    reasons: tuple[tuple[NothingReason, Ranges, FactId | None, str], ...]
    """Reason, messages, the similar fact (for `known` and `suppressed`), and the hash of the model's remark, empty
    without one. Every message occurs once."""

    @property
    def messages_named(self) -> Ranges:
        return tuple(span for _, seqs, _, _ in self.reasons for span in seqs)

    def reason_for(self, seq: int) -> tuple[NothingReason, int | None, str] | None:
        """Return reason, fact and hash of the model's remark for a message; None if the message is not listed."""
        for code, seqs, fact, model_words in self.reasons:
            if any(first <= seq <= last for first, last in seqs):
                return code, fact, model_words
        return None


# -- facts ---------------------------------------------------------------------------------------


class FactsExtracted(Event, family="facts", bookkeeping=True):
    block: str
    extractor: str
    seqs: Ranges
    found: int
    added: int
    confirmed: int
    """Number of existing facts that were found again, in the same or in other words."""
    held_back: int = 0
    """Number of found facts left out as near duplicates of a fact that a person rejected."""
    recalled: int = 0
    """Number of statements that the assistant only repeated from memory, and that were not learned again."""
    long: int = 0
    """Number of found facts that are one sentence above the usual length, and were kept whole."""
    context: int = 0
    """Number of other messages that the extractor was shown, to understand these by."""
    context_tokens: int = 0
    """Tokens of these messages and of the known facts that it was shown."""
    shown: int = 0
    """Number of known facts that the extractor was shown."""


class FactDecided(Event, family="facts"):
    """An extracted fact was compared with the nearest existing facts. The resulting change follows in the log."""

    block: str
    content: str
    """Hash of the extracted fact's words."""
    decision: Literal["add", "update", "delete", "none"]
    fact: FactId | None
    """The existing fact that is updated, deleted or confirmed; None if one is added."""
    candidates: tuple[tuple[FactId, float], ...]
    """The nearest existing facts with their similarity, 0 to 1; nearest first."""
    decider: str
    """Name of the model, or of the rules."""
    rule: str
    """Name of the rule that decided; `model` if a model did."""
    sources: Ranges


class FactAdded(
    Event, family="facts", adds="facts", gives="fact", writes=True, operation="create", text="content", supports=True
):
    fact: FactId
    block: str
    content: str
    tokens: int
    category: str
    sources: Ranges
    conflicts_with: tuple[FactId, ...] = ()
    pinned: bool = False
    origin: str = "extracted"
    """`extracted`, `condensed` or `written` (by a person)."""
    state: str = "active"
    """`proposed` if a person must approve the fact: the block requires approval, or the statement is doubtful."""
    topics: tuple[str, ...] = ()
    key: str | None = None
    """Hash of the key that a program gave the fact; None without one."""
    metadata: str | None = None
    """Hash of the metadata that a program gave the fact, as JSON; None without any."""
    slot: str | None = None
    """Attribute that the fact gives a value to (`planning.slots`); None without one, or in an older log."""
    said_at: float | None = None
    """Time of the message, in seconds since 1970, if what is known was said after it; None: the time of the event."""


class FactLabelled(Event, family="facts", sets=("category", "topics"), writes=True, operation="update"):
    """The category or topics of a fact were changed."""

    fact: FactId
    block: str
    category: str
    topics: tuple[str, ...]


class ProposalRefused(Event, family="facts"):
    """An invalid proposal of a model for a block was left out; valid proposals beside it were kept."""

    block: str
    what: str
    """Kind of the proposal: `fact`, `relation`, `summary` or `decision`."""
    reason: str
    """Reason in plain words, without quotations."""
    number: int = 1
    """Number of proposals refused for this reason at once."""


class FactHeldBack(Event, family="facts"):
    """A statement similar to a fact that a person rejected was not stored."""

    block: str
    content: str
    near: FactId
    """Id of the rejected fact."""
    similarity: float
    sources: Ranges
    category: str = "other"
    slot: str | None = None


class FactAccepted(Event, family="facts", becomes="active", writes=True, operation="update"):
    """A person approved a proposed fact, or reviewed an active one and kept it."""

    fact: FactId
    block: str


class FactProposed(Event, family="facts", becomes="proposed", writes=True, operation="update"):
    """A fact needs approval again: its acceptance was undone, or an opened store has it again under `approval`."""

    fact: FactId
    block: str


class FactConfirmed(Event, family="facts", supports=True):
    """The same fact was found again, or a person said that it still holds.

    `similarity` compares the two wordings, 0 to 1.
    """

    fact: FactId
    block: str
    similarity: float
    sources: Ranges
    former: float | None = None
    """Time of the previous confirmation, in seconds since 1970, in case a person's confirmation is undone."""
    restores: float | None = None
    """Earlier time of confirmation, in seconds since 1970, that undoing a person's confirmation restored."""
    said_at: float | None = None
    """Time of the message, in seconds since 1970, if what is known was said after it; None: the time of the event."""


class FactChanged(Event, family="facts", writes=True, operation="update", text="after"):
    fact: FactId
    block: str
    before: str
    after: str
    """Hash of the words after the change; equal to `before` if only the metadata changed."""
    tokens: int
    metadata: str | None = None
    """Hash of the metadata after the change, as JSON; None without any."""
    slot: str | None = None
    """Slot after the change; None: as before."""


class FactSuperseded(Event, family="facts", becomes="superseded", writes=True, operation="delete"):
    fact: FactId
    block: str
    by: FactId | None


class FactRetired(Event, family="facts", becomes="retired", writes=True, operation="delete", free_text=("reason",)):
    fact: FactId
    block: str
    reason: str


class FactRestored(Event, family="facts", becomes="active", writes=True, operation="update"):
    fact: FactId
    block: str


class FactPinned(Event, family="facts", sets=("pinned",), operation="update"):
    fact: FactId
    block: str
    pinned: bool


class FactRejected(Event, family="facts", becomes="rejected", writes=True, operation="delete", free_text=("reason",)):
    fact: FactId
    block: str
    reason: str


class FactErased(Event, family="facts", writes=True, operation="delete", rewrites_log=True):
    """A fact was deleted with its words."""

    fact: FactId
    block: str
    undone: bool = False
    """True if the fact was erased because the change set that added it was undone."""


class FactsRead(Event, family="facts"):
    """A program asked a block for facts, outside of any prompt: by a key, by a prefix of keys, or by a question."""

    block: str
    key: str | None
    """Hash of the key, or of the prefix of keys; None if neither was given."""
    query: str | None
    """Hash of the question; None without one."""
    facts: tuple[FactId, ...]
    """Facts returned, in this order; at most 25 are named."""
    found: int
    """Number of facts returned."""


class FactsCurated(Event, family="facts", free_text=("reason",)):
    """A change set: changes to facts in one step, by a person or agent. The single changes precede it in the log."""

    block: str
    action: str
    """Kind of change; see `memory_core.planning.curation.Action`."""
    reason: str
    facts: tuple[tuple[FactId, int, int], ...]
    """Facts with their version before and after; before is 0 for an added fact, after for a removed one."""
    scope: str = "session"
    """Owner of the facts: `session` or `user`."""
    support: tuple[tuple[FactId, str, Ranges], ...] = ()
    """Messages added as sources of a fact, by session (empty: this one); removed again by an undo."""
    undoes: tuple[FactId, int] | None = None
    """The change set that this one undoes: id of its first fact, and the version in which it left that fact."""
    again: bool = False
    """True for a redo: `undoes` is applied again, and its sources restored."""

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple((("fact", id), before, after) for id, before, after in self.facts)

    @property
    def number(self) -> None:
        """Return None: a change set of facts is numbered by its position in the log."""

    @property
    def key(self) -> tuple[int, int]:
        """Key by which `undoes` names this change set: no two change sets leave one fact in the same version."""
        fact, _, after = self.facts[0]
        return fact, after


class FactsCondensed(Event, family="facts"):
    block: str
    extractor: str
    before: int
    after: int
    kept: tuple[FactId, ...]
    merged: tuple[tuple[tuple[FactId, ...], FactId], ...]
    """Pairs of the facts that were merged and the fact they became."""
    vanished: tuple[FactId, ...]
    new: tuple[FactId, ...]
    """Facts of the condensed list that replace no former fact."""


class CondensingRefused(Event, family="facts"):
    block: str
    extractor: str
    facts: int
    max_facts: int
    reason: str


# -- summaries -----------------------------------------------------------------------------------


class SummaryRewritten(Event, family="summaries"):
    """A running summary took in messages or was rewritten. The change of its text precedes it in the log."""

    block: str
    revision: int
    """Revision of the block's text; unchanged if the text did not have to change."""
    summariser: str
    covers: int
    """Sequence number of the last message that the summary covers; 0: it was emptied, as its messages were deleted."""
    turn_covered: int
    """Turn of the last message that the summary covers."""
    seqs: Ranges
    """Messages read to write the summary; empty if it was rewritten from its former text."""
    tokens_before: int
    tokens: int
    max_tokens: int
    lost: int
    """Number of names, numbers and dates of the former text that are missing from the new one."""
    shortened: int = 0
    """Tokens left out, as repetition or because they exceeded `max_tokens`."""
    broken: int = 0
    """Number of sentences longer than `max_tokens` that were cut off."""


# -- graph ---------------------------------------------------------------------------------------


class RelationsExtracted(Event, family="relations", bookkeeping=True):
    block: str
    extractor: str
    seqs: Ranges
    found: int
    added: int
    confirmed: int
    ended: int
    refused: int = 0
    """Number of invalid relations: see the accompanying `ProposalRefused`."""
    context: int = 0
    """Number of other messages that the extractor was shown, to understand these by."""
    context_tokens: int = 0
    """Tokens of these messages."""


class EntityAdded(Event, family="relations", gives="entity", writes=True, operation="create", text="name"):
    entity: EntityId
    block: str
    name: str
    """Hash of the entity's name."""
    type: str
    """`person`, `place`, `organisation`, `project`, `thing`, `date` or `other`."""
    aliases: tuple[str, ...] = ()
    """Hashes of the entity's other names."""
    origin: str = "extracted"
    """`extracted`, or `written` by a person or an import."""


class EntityChanged(Event, family="relations", writes=True, operation="update"):
    """An entity was renamed, merged into another or removed, or its aliases changed."""

    entity: EntityId
    block: str
    before: EntityFields
    after: EntityFields
    """Changed fields among `name`, `type`, `aliases`, `state` (`active`, `merged`, `retired`) and `merged_into`."""


class RelationAdded(
    Event,
    family="relations",
    adds="relations",
    gives="relation",
    writes=True,
    operation="create",
    text="predicate",
    supports=True,
):
    relation: RelationId
    block: str
    subject: EntityId
    predicate: str
    """Hash of the predicate's words."""
    object: EntityId
    sources: Ranges
    origin: str = "extracted"


class RelationConfirmed(Event, family="relations", writes=True, operation="update", supports=True):
    """The same relation was stated again."""

    relation: RelationId
    block: str
    sources: Ranges


class RelationEnded(Event, family="relations", becomes="ended", writes=True, operation="delete"):
    """A relation no longer holds: it is kept and marked as ended."""

    relation: RelationId
    block: str
    by: RelationId | None
    """Id of the relation that contradicts the ended one; None without one."""


class RelationChanged(Event, family="relations", writes=True, operation="update"):
    """A relation was edited, pointed to a merged entity, reactivated, or removed."""

    relation: RelationId
    block: str
    before: RelationFields
    after: RelationFields
    """Changed fields among `subject`, `predicate`, `object`, `state` (`active`, `ended`, `retired`), `ended_turn`,
    `ended_by` and `sources` (`Ranges`, combined when two relations are merged)."""

    @property
    def stated_in(self) -> Ranges:
        sources: Ranges = self.after.get("sources", ())
        return sources


class EntityErased(Event, family="relations", writes=True, operation="delete"):
    """An entity was deleted with its words."""

    entity: EntityId
    block: str


class RelationErased(Event, family="relations", writes=True, operation="delete"):
    """A relation was deleted with its words."""

    relation: RelationId
    block: str


class GraphCurated(Event, family="relations"):
    """A change set: changes to a graph in one step, by a person or agent, or by the engine when it merges entities.

    The single changes precede it in the log.
    """

    block: str
    action: str
    """Kind of change; see `memory_core.planning.graph_rules.Action`."""
    entities: tuple[tuple[EntityId, int, int], ...]
    """Entities with their version before and after; before is 0 for an added one, after for a removed one."""
    relations: tuple[tuple[RelationId, int, int], ...]
    undoes: int | None = None
    """Number of the change set that this one undoes; None if it undoes none."""
    number: int = 0
    """Number of this change set among the block's, from 1."""
    again: bool = False
    """True for a redo: `undoes` is applied again."""

    @property
    def rows(self) -> tuple[Row, ...]:
        entities = ((("entity", id), before, after) for id, before, after in self.entities)
        return (*entities, *((("relation", id), before, after) for id, before, after in self.relations))

    @property
    def key(self) -> int:
        """Key by which `undoes` names this change set."""
        return self.number


Curated = FactsCurated | GraphCurated
"""A change set in the log."""


# -- retrieval -----------------------------------------------------------------------------------


class VectorsStored(Event, family="vectors", gives="nodes", writes=True, operation="create", free_text=("error",)):
    block: str
    embedder: str
    nodes: tuple[tuple[UnitId, Ranges, int], ...]
    """Number, messages and tokens of each stored turn."""
    error: str | None = None
    """Reason for storing turns without vectors: the model failed or returned no valid vector."""
    follow: bool = False
    """True for long units: their vectors are computed in the background, and recorded by `VectorsReplaced`."""

    @property
    def messages_named(self) -> Ranges:
        return tuple(span for _, seqs, _ in self.nodes for span in seqs)

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(Item(Ref.of("unit", number), sources=seqs) for number, seqs, _ in self.nodes)


class VectorsRemoved(Event, family="vectors", writes=True, operation="delete"):
    """Stored turns were deleted; their messages remain."""

    block: str
    numbers: tuple[UnitId, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(Item(Ref.of("unit", number)) for number in self.numbers)


class VectorsReplaced(Event, family="vectors", operation="update"):
    """Stored turns were embedded again with another model; they keep their numbers."""

    block: str
    embedder: str
    """Id of the embedder that computed the new vectors."""
    numbers: tuple[UnitId, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return tuple(Item(Ref.of("unit", number)) for number in self.numbers)


class Retrieved(Event, family="vectors", operation="search", free_text=("degraded",)):
    block: str
    query: str
    """Hash of the query's words in the content store."""
    embedder: str | None
    index: str
    top_k: int | None
    """Maximum number of results; None: as many as fit."""
    threshold: float | None
    candidates: tuple[tuple[UnitId, float | None, float | None, float, str], ...]
    """Number, vector score, keyword score, score, outcome; best first, at most 25 (50 in older events)."""
    gates: dict[str, int]
    """Number of candidates by outcome, including those not listed."""
    degraded: str | None = None
    """Sentence on what could not be searched or postprocessed; None: nothing failed."""
    weights: tuple[float, float] | None = None
    """Weights of the vector and the keyword score as used; None in events of older versions."""
    boosts: tuple[tuple[float, ...], ...] = ()
    """Boost from each of `planning.boosts.BOOSTS` per candidate; empty if none was enabled."""
    boost_weights: dict[str, float] = field(default_factory=dict)
    """Weight by boost; empty if none was enabled."""
    token_budget: int | None = None
    """Token budget to fill; None if a number of results was requested instead."""
    postprocessors: tuple[str, ...] = ()
    """Names of LlamaIndex's postprocessors that sorted and filtered, after the gates before `postprocessed`."""
    elsewhere: tuple[tuple[str, float], ...] = ()
    """Units requested from the user's other sessions, best first: hash of the unit's text, score. `candidates` and
    `gates` are about this session's own units only."""

    @property
    def items(self) -> tuple[Item, ...]:
        """The units that went into the prompt, or were returned; best first."""
        granted = ((number, score) for number, _, _, score, outcome in self.candidates if outcome == "granted")
        return tuple(Item(Ref.of("unit", number), score=score) for number, score in granted)

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        values = _renamed(values, {"terms": "boosts", "term_weights": "boost_weights", "room": "token_budget"})
        weights = values.get("boost_weights", {})
        return values | {"boost_weights": _renamed(weights, {"sitting": "episode", "substance": "informativeness"})}


# -- contexts ------------------------------------------------------------------------------------


class ContextBuilt(Event, family="prompts"):
    """A context was built. The event is small enough to store for every turn: words are in the content store."""

    pinned: Ranges
    queue: Ranges
    queue_asked: int
    queue_tokens: int
    pinned_tokens: int
    parts: tuple[WithRefs, ...]
    """Per block: name, priority, asked, granted, and the `refs` included, in order. If the block has them, also
    `layout`, `marks` of former values (see `planning.former_values.stored_marks`), and `notes`: each text after the
    words of some items, with their refs."""
    cuts: tuple[WithRefs, ...]
    """Cuts in the order they were made: part, rule, refs, tokens, over_before."""
    asked: int
    total: int
    token_limit: int
    over_by: int
    over_because: str | None
    markup_tokens: int
    overhead_tokens: int
    billed: int
    insert_method: str
    truncation_order: str
    accounting: str
    section: str | None
    """Hash by which the memory section is recognised in a message that is put with it."""
    input: str | None
    """Hash of the input that the context was built for; None without one."""
    neutralised: int = 0
    """Number of texts in which forged markup was made harmless."""
    known: Knowledge = "built"
    """Origin of the prompt. If not built here, `pinned` and `queue` keep the prompt's own order."""
    sent: int | None = None
    """Start of the call that a span reported, in microseconds since the epoch."""
    span: str | None = None
    """Trace and span id of the call that a span reported."""
    reserved_tokens: int = 0
    """Tokens that memory does not write, in `asked`, `total` and `billed`: the agent's system prompt and tools."""
    measured: bool = False
    """True if `reserved_tokens` was measured in this call, rather than taken from the settings."""


class ModelCalled(Event, family="calls", free_text=("error",)):
    purpose: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None
    block: str | None = None
    error: str | None = None
    span: str | None = None
    """Trace and span id, if a span of an attached agent reported the call."""
    captured: bool = True
    """True if the prompt's words are known; spans may leave them out."""
    cached_tokens: int | None = None
    """Tokens of the input that the endpoint read from its cache."""

    @property
    def bookkeeping(self) -> bool:
        # A failed call, or one whose prompt is unknown, is worth showing; the effects of others have events.
        return self.error is None and self.captured

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Normalise token counts that were once stored as the endpoint reported them: 12.0, or "12"."""
        return values | {
            name: reported(values.get(name)) for name in ("input_tokens", "output_tokens", "cached_tokens")
        }


# -- blocks --------------------------------------------------------------------------------------


class BlockAdded(Event, family="blocks", least_role="owner", operation="create_store", free_text=("settings",)):
    block: str
    type: str
    settings: dict[str, Any]

    @property
    def changed_settings(self) -> Mapping[str, Any]:
        return self.settings

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        return values | {"settings": current_settings(values["settings"])}


class BlockRemoved(Event, family="blocks", least_role="owner", operation="delete_store"):
    block: str


class BlocksOrdered(Event, family="blocks", least_role="owner"):
    """The blocks were reordered: at equal priority, the earlier is cut first."""

    names: tuple[str, ...]


class BlockEdited(Event, family="blocks", least_role="owner", free_text=("settings", "ignored_settings")):
    """A static block's text, or a block's settings, changed."""

    block: str
    revision: int
    before: str | None
    after: str | None
    """Hash of the text after the edit, in the content store; like `before`, None if only settings changed."""
    settings: dict[str, Any] = field(default_factory=dict)
    ignored: str | None = None
    """Hash of the text that lost to `after`: the stored one or the constructor's; None if there was no conflict."""
    ignored_settings: dict[str, Any] = field(default_factory=dict)
    """Overridden settings: stored ones replaced by `settings`, or a constructor's, which the stored ones overrule."""
    restored: int | None = None
    """Number of the earlier revision that was restored, if any."""
    written_at: float | None = None
    """Time the text was written in another store, in seconds since 1970; None: unknown, or it was written here."""
    note: str | None = None
    """Hash of a note on who wrote the text elsewhere, and why."""

    @property
    def changed_settings(self) -> Mapping[str, Any]:
        return self.settings

    @property
    def least_role(self) -> Role:
        return "owner" if self.settings else "curator"  # a text alone is curated, as facts are

    @property
    def operation(self) -> Operation | None:
        if self.after is None or self.after == self.before:
            return None  # settings alone are not memory
        return "create" if self.before is None else "update"

    @property
    def writes(self) -> bool:
        return self.operation is not None

    @property
    def items(self) -> tuple[Item, ...]:
        return (Item(self.block, self.after),)

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        names = values.keys() & {"settings", "ignored_settings"}
        return values | {name: current_settings(values[name]) for name in names}


class BlockStateSaved(Event, family="blocks", least_role="curator", writes=True, operation="update", bookkeeping=True):
    """A custom block's fields were saved after a delivery."""

    block: str
    content: str
    unsaved_fields: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[Item, ...]:
        return (Item(self.block, self.content),)


class BlockFailed(Event, family="prompts", operation="search", free_text=("error",)):
    """A block could not be read; the context was built without it."""

    block: str
    error: str


class RecipeChosen(Event, family="settings", least_role="owner"):
    """The session was switched to a recipe. The single changes precede it in the log."""

    recipe: str
    before: str | None
    kept: tuple[str, ...]
    """Names of the blocks that were kept."""
    added: tuple[str, ...]
    removed: tuple[str, ...]


# -- an agent's tools ------------------------------------------------------------------------------


class ToolCalled(Event, family="blocks", least_role="curator"):
    """A model called one of the memory tools; the changes it made to memory precede it in the log."""

    tool: str
    """Name of the tool as the model wrote it; possibly no tool has this name."""
    block: str | None
    outcome: Literal["done", "refused"]
    arguments: str
    """Hash of the call's arguments, as JSON."""
    result: str
    """Hash of the result returned to the model."""

    @property
    def called_tool(self) -> str:
        return self.tool


# -- the memory of an attached agent, as its spans report it ----------------------------------------


class MemoryWritten(Event, family="stores", free_text=("error",)):
    """Records were written into a store. Of several writes of one record, the write that ended last applies."""

    span: str
    """Trace and span id of the span that reported the operation."""
    finished: int
    """End of the operation, in microseconds since the epoch, as JSON holds nanoseconds inexactly."""
    store: str | None
    """Name of the store; None if the span names none."""
    how: Literal["create", "update", "upsert"]
    records: tuple[tuple[str | None, str | None, int], ...]
    """Id, hash of the words, and tokens of each record; None and 0 for words that the span left out."""
    count: int | None
    """Number of records that the span reports; None if it reports none."""
    error: str | None = None


class MemorySearched(Event, family="stores", free_text=("error",)):
    """An attached agent searched a store of its memory."""

    span: str
    finished: int
    store: str | None
    query: str | None
    """Hash of the question's words; None if the span left them out."""
    results: tuple[tuple[str | None, str | None, int, float | None], ...]
    """Id, hash of the words, tokens and score of each record found, in the order given."""
    count: int | None
    best: float | None
    """The highest score of the results; None if the span reports none."""
    error: str | None = None


class MemoryDeleted(Event, family="stores", free_text=("error",)):
    """Records were deleted from a store."""

    span: str
    finished: int
    store: str | None
    records: tuple[str, ...]
    """Ids of the deleted records; empty: all records were deleted."""
    count: int | None
    error: str | None = None


class MemoryStoreChanged(Event, family="stores", free_text=("error",)):
    """A store was made, or deleted with everything in it."""

    span: str
    finished: int
    store: str | None
    change: Literal["created", "deleted"]
    error: str | None = None


# -- replies (the app's chat turns) ----------------------------------------------------------------


class ReplyStarted(Event, family="messages", bookkeeping=True):
    reply: str
    seq: int
    model: str


class ReplyEnded(Event, family="messages", free_text=("error",)):
    reply: str
    outcome: Literal["done", "failed", "stopped", "interrupted"]
    error: str | None = None

    @property
    def bookkeeping(self) -> bool:
        return self.outcome == "done"


class UnknownEvent(Event, family="unknown"):
    """An event written by a newer version: shown without details."""

    name: str
    data: dict[str, Any]
