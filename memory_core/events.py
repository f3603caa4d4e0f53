"""Every decision of the engine, as a typed value in the past tense.

Events are the audit beside the tables, written in the same transaction. They refer to words by
id, by sequence range (`Ranges`) and by the hash of the words in the content store, never by copy.
All sizes are in tokens; `turn`, `actor`, time and position belong to the record around an event.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

from memory_core.tokens import reported

Actor = Literal["engine", "curator", "agent"]
Ranges = tuple[tuple[int, int], ...]
"""Sequence numbers as inclusive ranges: ((1, 4), (9, 9)) is 1, 2, 3, 4 and 9."""

Family = Literal[
    "messages", "flushes", "deliveries", "facts", "summaries", "relations", "vectors", "prompts", "blocks", "settings",
    "session", "calls", "unknown",
]  # fmt: skip
"""What an event is about."""

# Types of fields that name what every database numbers for itself: `store.references` reads them.
FactId = Annotated[int, "facts"]
UnitId = Annotated[int, "vectors"]
DeliveryId = Annotated[int, "deliveries"]
EntityId = Annotated[int, "entities"]
RelationId = Annotated[int, "relations"]
EntityFields = Annotated[dict[str, Any], {"merged_into": "entities"}]
RelationFields = Annotated[dict[str, Any], {"subject": "entities", "object": "entities", "ended_by": "relations"}]
WithRefs = Annotated[dict[str, Any], "refs"]
"""Names things in its list `refs`, as `compact` writes them."""

KINDS: dict[str, type["Event"]] = {}
"""Every kind of event by its name on disk."""


@dataclass(frozen=True)
class Event:
    """Base of all events. The kind is the class name in snake case: `message_added`."""

    kind: ClassVar[str] = "event"
    family: ClassVar[Family]
    becomes: ClassVar[str | None]
    adds: ClassVar[Literal["facts", "relations"] | None]
    writes: ClassVar[bool]
    _bookkeeping: ClassVar[bool]

    def __init_subclass__(
        cls,
        *,
        family: Family,
        becomes: str | None = None,
        adds: Literal["facts", "relations"] | None = None,
        writes: bool = False,
        bookkeeping: bool = False,
    ) -> None:
        """Register a kind of event, with what readers of the log go by: none of them lists the classes.

        Args:
            family: what the event is about.
            becomes: the state in which a fact is after it, where it changes that.
            adds: what there is one more of after it.
            writes: it changes what its block holds.
            bookkeeping: see the property.
        """
        cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        cls.family, cls.becomes, cls.adds, cls.writes, cls._bookkeeping = family, becomes, adds, writes, bookkeeping
        KINDS[cls.kind] = cls

    @property
    def bookkeeping(self) -> bool:
        """Does it only say how the work was done? It decides nothing; what it led to has events of its own."""
        return self._bookkeeping

    @property
    def about(self) -> str | None:
        """The block it is about, if it is about one."""
        block: str | None = getattr(self, "block", None)
        return block

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The values of a stored event of this kind, put right where an earlier version stored what it should not."""
        return values

    def to_json(self) -> str:
        data = {name.name: getattr(self, name.name) for name in fields(self)}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An event as stored: where in the log, when, by whom."""

    position: int
    """Grows along the log of one session; the log of all sessions shares one count."""
    session_id: str
    turn: int
    at: float
    """Seconds since the epoch. For people: order is by position."""
    actor: Actor
    event: Event

    @property
    def kind(self) -> str:
        return self.event.kind


def decode(kind: str, data: str) -> Event:
    """The event that `to_json` wrote; an `UnknownEvent` for a kind of a newer version."""
    return decode_all([(kind, data)])[0]


def decode_all(stored: Sequence[tuple[str, str]]) -> list[Event]:
    """The events that `to_json` wrote, each given as kind and text."""
    texts = json.loads(f"[{','.join(data for _, data in stored)}]")  # one text for all is faster
    return [_event(kind, values) for (kind, _), values in zip(stored, texts, strict=True)]


def _event(kind: str, values: dict[str, Any]) -> Event:
    values = {name: _tuples(value) if type(value) is list else value for name, value in values.items()}
    cls = KINDS.get(kind)
    if cls is None or not _fields(kind) >= values.keys():
        return UnknownEvent(name=kind, data=values)
    return cls(**cls.as_read(values))


@cache
def _fields(kind: str) -> frozenset[str]:
    return frozenset(name.name for name in fields(KINDS[kind]))


def ranges(numbers: Iterable[int]) -> Ranges:
    """Sequence numbers as ranges.

    >>> ranges([3, 1, 2, 9])
    ((1, 3), (9, 9))
    """
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def expand(spans: Ranges) -> list[int]:
    """The numbers of ranges, in order."""
    return [number for first, last in spans for number in range(first, last + 1)]


def compact(refs: Iterable[str]) -> tuple[str, ...]:
    """Refs in order, runs of consecutive numbers as one: `f1-f9`. Undone by `spread`."""
    found: list[tuple[str, int, int] | str] = []
    for ref in refs:
        mark, number = ref[0], ref[1:]
        if mark not in "fvmrd" or not number.isdigit():
            found.append(ref)
            continue
        last = found[-1] if found else None
        if isinstance(last, tuple) and last[0] == mark and last[2] + 1 == int(number):
            found[-1] = (mark, last[1], int(number))
        else:
            found.append((mark, int(number), int(number)))
    return tuple(
        ref if isinstance(ref, str) else f"{ref[0]}{ref[1]}" + (f"-{ref[0]}{ref[2]}" if ref[2] > ref[1] else "")
        for ref in found
    )


def spread(refs: Iterable[str]) -> tuple[str, ...]:
    """The single refs that `compact` joined.

    >>> spread(compact(["f1", "f2", "f3", "v9"]))
    ('f1', 'f2', 'f3', 'v9')
    """
    found: list[str] = []
    for ref in refs:
        first, dash, last = ref.partition("-")
        if dash:
            found += [f"{first[0]}{number}" for number in range(int(first[1:]), int(last[1:]) + 1)]
        else:
            found.append(ref)
    return tuple(found)


def _tuples(values: list[Any]) -> tuple[Any, ...]:
    return tuple([_tuples(value) if type(value) is list else value for value in values])


# -- the session ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionCreated(Event, family="session"):
    title: str
    user_id: str | None


@dataclass(frozen=True)
class SessionRenamed(Event, family="session"):
    before: str
    after: str


@dataclass(frozen=True)
class SessionClosed(Event, family="session"):
    """`flush(all=True)`: everything left the queue, and what is due at the end is due."""


@dataclass(frozen=True)
class SessionReset(Event, family="session"):
    """Messages and what was learned from them alone were removed."""

    status: str | None
    """Which messages: `active`, `archived`, or None for all."""
    messages: int
    facts: int
    vectors: int


@dataclass(frozen=True)
class SessionImported(Event, family="session"):
    source: str
    messages: int
    skipped: int


@dataclass(frozen=True)
class SessionBranched(Event, family="session"):
    """The session was made from another, as that stood at the end of a turn."""

    source: str
    """Id of the other session."""
    turn: int
    missing: int = 0
    """Messages, facts and stored turns of then that were erased since."""


@dataclass(frozen=True)
class ConfigurationChanged(Event, family="settings"):
    before: dict[str, Any]
    after: dict[str, Any]
    """Only the settings that differ."""
    source: Literal["constructor", "app"]
    ignored: dict[str, Any] = field(default_factory=dict)
    """Values that lost against these."""


# -- the queue -----------------------------------------------------------------------------------


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class MemoryStripped(Event, family="messages"):
    """A message came back with the memory section the engine had put into it; it was taken out."""

    seq: int


@dataclass(frozen=True)
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
    """Most turns that the queue was to hold; None: any number."""


@dataclass(frozen=True)
class QueueReplaced(Event, family="messages"):
    """`set`: the queue was replaced; the archive and what was learned stayed."""

    removed: Ranges
    tokens: int


@dataclass(frozen=True)
class QueueRecounted(Event, family="messages"):
    """Another tokenizer or accounting decides from here on."""

    before: str
    after: str
    tokens_before: int
    tokens_after: int


# -- deliveries ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeliveryQueued(Event, family="deliveries", bookkeeping=True):
    delivery: DeliveryId
    block: str
    trigger: str
    seqs: Ranges
    tokens: int


@dataclass(frozen=True)
class DeliveryDone(Event, family="deliveries", bookkeeping=True):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempt: int
    seconds: float


@dataclass(frozen=True)
class DeliveryFailed(Event, family="deliveries"):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempt: int
    error: str
    retry_in_seconds: float


@dataclass(frozen=True)
class DeliveryParked(Event, family="deliveries"):
    deliveries: tuple[DeliveryId, ...]
    block: str
    attempts: int
    error: str


@dataclass(frozen=True)
class DeliveryRetried(Event, family="deliveries"):
    deliveries: tuple[DeliveryId, ...]
    block: str


@dataclass(frozen=True)
class DeliverySkipped(Event, family="deliveries"):
    deliveries: tuple[DeliveryId, ...]
    block: str


# -- facts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FactsExtracted(Event, family="facts", bookkeeping=True):
    block: str
    extractor: str
    seqs: Ranges
    found: int
    added: int
    confirmed: int
    """Found again in other words, or word for word."""
    held_back: int = 0
    """Near copies of a fact that a person rejected."""
    recalled: int = 0
    """What the assistant had only repeated from memory: not learned again."""


@dataclass(frozen=True)
class FactDecided(Event, family="facts"):
    """A found fact was compared with its nearest known ones. The change that follows stands after it in the log."""

    block: str
    content: str
    """Hash of the found fact's words."""
    decision: Literal["add", "update", "delete", "none"]
    fact: FactId | None
    """The known fact that is updated, deleted or confirmed; None where one is added."""
    candidates: tuple[tuple[FactId, float], ...]
    """The nearest known facts, each with its similarity, 0 to 1; nearest first."""
    decider: str
    """The model, or the rules."""
    rule: str
    """Which rule decided; `model` where a model did."""
    sources: Ranges


@dataclass(frozen=True)
class FactAdded(Event, family="facts", adds="facts", writes=True):
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
    """`proposed` where a person's approval is waited for: the block asks for it, or the find is doubtful."""
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class FactLabelled(Event, family="facts", writes=True):
    """A fact was put under another category or other topics."""

    fact: FactId
    block: str
    category: str
    topics: tuple[str, ...]


@dataclass(frozen=True)
class ProposalRefused(Event, family="facts"):
    """Something that a model proposed for a block and that cannot be: it was left out, and nothing else with it."""

    block: str
    what: str
    """`fact`, `relation`, `summary` or `decision`."""
    reason: str
    """Whole words without quotations: what was wrong with it."""
    number: int = 1
    """How many were refused for this reason at once."""


@dataclass(frozen=True)
class FactHeldBack(Event, family="facts"):
    """Something found that is like a fact a person rejected: it was not stored."""

    block: str
    content: str
    near: FactId
    """The rejected fact."""
    similarity: float
    sources: Ranges
    category: str = "other"
    slot: str | None = None


@dataclass(frozen=True)
class FactAccepted(Event, family="facts", becomes="active", writes=True):
    """A person lets a proposed fact become active, or has looked at an active one and lets it stand."""

    fact: FactId
    block: str


@dataclass(frozen=True)
class FactProposed(Event, family="facts", becomes="proposed", writes=True):
    """An active fact waits for approval again: its acceptance was undone."""

    fact: FactId
    block: str


@dataclass(frozen=True)
class FactConfirmed(Event, family="facts"):
    """The same was found again; `similarity` is that of the two wordings, 0 to 1."""

    fact: FactId
    block: str
    similarity: float
    sources: Ranges


@dataclass(frozen=True)
class FactChanged(Event, family="facts", writes=True):
    fact: FactId
    block: str
    before: str
    after: str
    tokens: int


@dataclass(frozen=True)
class FactSuperseded(Event, family="facts", becomes="superseded", writes=True):
    fact: FactId
    block: str
    by: FactId | None


@dataclass(frozen=True)
class FactRetired(Event, family="facts", becomes="retired", writes=True):
    fact: FactId
    block: str
    reason: str


@dataclass(frozen=True)
class FactRestored(Event, family="facts", becomes="active", writes=True):
    fact: FactId
    block: str


@dataclass(frozen=True)
class FactPinned(Event, family="facts"):
    fact: FactId
    block: str
    pinned: bool


@dataclass(frozen=True)
class FactRejected(Event, family="facts", becomes="rejected", writes=True):
    fact: FactId
    block: str
    reason: str


@dataclass(frozen=True)
class FactErased(Event, family="facts", writes=True):
    """A tombstone: the words are gone."""

    fact: FactId
    block: str
    undone: bool = False
    """It went because the change set that added it was undone."""


@dataclass(frozen=True)
class FactsCurated(Event, family="facts"):
    """A change set: what a person did to facts at once. The single changes stand before it in the log."""

    block: str
    action: str
    """See `memory_core.planning.curation.Action`."""
    reason: str
    facts: tuple[tuple[FactId, int, int], ...]
    """Each fact with its version before and after; before is 0 for one that was added, after for one taken away."""
    scope: str = "session"
    """Whose facts they are: the session's or the user's."""
    support: tuple[tuple[FactId, str, Ranges], ...] = ()
    """Messages that a fact gained as sources, by session (empty: this one); taken away again where it undoes."""
    undoes: tuple[FactId, int] | None = None
    """The change set that this one undoes, by its first fact and the version it left it in."""


@dataclass(frozen=True)
class FactsCondensed(Event, family="facts"):
    block: str
    extractor: str
    before: int
    after: int
    kept: tuple[FactId, ...]
    merged: tuple[tuple[tuple[FactId, ...], FactId], ...]
    """The facts that became one, and that one."""
    vanished: tuple[FactId, ...]
    new: tuple[FactId, ...]
    """Facts of the shorter list that stand for none of the longer."""


@dataclass(frozen=True)
class CondensingRefused(Event, family="facts"):
    block: str
    extractor: str
    facts: int
    max_facts: int
    reason: str


# -- summaries -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SummaryRewritten(Event, family="summaries"):
    """A running summary took messages in, or was written anew. The text's change stands before it in the log."""

    block: str
    revision: int
    """Of the block's text; the same as before where nothing had to be changed."""
    summariser: str
    covers: int
    """Sequence number of the last message that it takes in; 0: it was emptied with the messages it was made of."""
    turn_covered: int
    """The turn of that message."""
    seqs: Ranges
    """The messages that were read for it; empty where it was written anew out of its own text."""
    tokens_before: int
    tokens: int
    max_tokens: int
    lost: int
    """Names, numbers and dates of the former text that are not in this one."""
    shortened: int = 0
    """Tokens left out: said twice, or too much for `max_tokens`."""
    broken: int = 0
    """Sentences that alone were longer than `max_tokens` and were broken off."""


# -- graph ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelationsExtracted(Event, family="relations", bookkeeping=True):
    block: str
    extractor: str
    seqs: Ranges
    found: int
    added: int
    confirmed: int
    ended: int
    refused: int = 0
    """What could not be a relation: see the `ProposalRefused` beside it."""


@dataclass(frozen=True)
class EntityAdded(Event, family="relations", writes=True):
    entity: EntityId
    block: str
    name: str
    """Hash of its name."""
    type: str
    """`person`, `place`, `organisation`, `project`, `thing`, `date` or `other`."""
    aliases: tuple[str, ...] = ()
    """Hashes of its other names."""
    origin: str = "extracted"
    """`extracted`, or `written` by a person or an import."""


@dataclass(frozen=True)
class EntityChanged(Event, family="relations", writes=True):
    """Renamed, given other aliases, merged into another, or removed."""

    entity: EntityId
    block: str
    before: EntityFields
    after: EntityFields
    """Of `name`, `type`, `aliases`, `state` (`active`, `merged`, `retired`) and `merged_into`, those that differ."""


@dataclass(frozen=True)
class RelationAdded(Event, family="relations", adds="relations", writes=True):
    relation: RelationId
    block: str
    subject: EntityId
    predicate: str
    """Hash of its words."""
    object: EntityId
    sources: Ranges
    origin: str = "extracted"


@dataclass(frozen=True)
class RelationConfirmed(Event, family="relations", writes=True):
    """The same was said again."""

    relation: RelationId
    block: str
    sources: Ranges


@dataclass(frozen=True)
class RelationEnded(Event, family="relations", writes=True):
    """It held until now: it stays, marked ended."""

    relation: RelationId
    block: str
    by: RelationId | None
    """The relation that contradicts it."""


@dataclass(frozen=True)
class RelationChanged(Event, family="relations", writes=True):
    """Edited, pointed to a merged entity, held again, or removed."""

    relation: RelationId
    block: str
    before: RelationFields
    after: RelationFields
    """Of `subject`, `predicate`, `object`, `state` (`active`, `ended`, `retired`), `ended_turn`, `ended_by` and
    `sources` (`Ranges`, handed on where two relations became one), those that differ."""


@dataclass(frozen=True)
class EntityErased(Event, family="relations", writes=True):
    """A tombstone: the words are gone."""

    entity: EntityId
    block: str


@dataclass(frozen=True)
class RelationErased(Event, family="relations", writes=True):
    """A tombstone: the words are gone."""

    relation: RelationId
    block: str


@dataclass(frozen=True)
class GraphCurated(Event, family="relations"):
    """A change set: what a person did to a graph at once. The single changes stand before it in the log."""

    block: str
    action: str
    """See `memory_core.planning.graph.Action`."""
    entities: tuple[tuple[EntityId, int, int], ...]
    """Each with its version before and after; before is 0 for one that was added, after for one taken away."""
    relations: tuple[tuple[RelationId, int, int], ...]
    undoes: int | None = None
    """The change set that this one undoes, by its own number."""
    number: int = 0
    """Counts the change sets of the block, from 1."""


# -- retrieval -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class VectorsStored(Event, family="vectors", writes=True):
    block: str
    embedder: str
    nodes: tuple[tuple[UnitId, Ranges, int], ...]
    """Number, messages and tokens of each stored turn."""
    error: str | None = None
    """Why they are stored without vectors: the model failed, or gave what is no vector."""
    follow: bool = False
    """They are long: their vectors follow in the background, told by `VectorsReplaced`."""


@dataclass(frozen=True)
class VectorsRemoved(Event, family="vectors", writes=True):
    """Stored turns were deleted; their messages stay where they are."""

    block: str
    numbers: tuple[UnitId, ...]


@dataclass(frozen=True)
class VectorsReplaced(Event, family="vectors"):
    """Stored turns were embedded again with another model; they keep their numbers."""

    block: str
    embedder: str
    """The model that the vectors are of now."""
    numbers: tuple[UnitId, ...]


@dataclass(frozen=True)
class Retrieved(Event, family="vectors"):
    block: str
    query: str
    """Hash of the query's words in the content store."""
    embedder: str | None
    index: str
    top_k: int | None
    """None: as many as fitted."""
    threshold: float | None
    candidates: tuple[tuple[UnitId, float | None, float | None, float, str], ...]
    """Number, vector score, keyword score, score, fate; best first, at most 25, in older events 50."""
    gates: dict[str, int]
    """How many candidates met each fate, the ones not listed included."""
    degraded: str | None = None
    """Why a search signal was missing, in words."""
    weights: tuple[float, float] | None = None
    """Of the vector and the keyword score, as they were used; None in events of older versions."""
    terms: tuple[tuple[float, ...], ...] = ()
    """What each of `planning.terms.TERMS` added to the match of each candidate; empty where none was switched on."""
    term_weights: dict[str, float] = field(default_factory=dict)
    """Weight by term; empty where none was switched on."""
    room: int | None = None
    """Tokens there were to fill; None where a number of results was asked for."""


# -- contexts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContextBuilt(Event, family="prompts"):
    """One context, small enough to keep for every turn: words are in the content store."""

    pinned: Ranges
    queue: Ranges
    queue_asked: int
    queue_tokens: int
    pinned_tokens: int
    parts: tuple[WithRefs, ...]
    """Per block: name, priority, asked, granted, and `refs` of what went in, in order."""
    cuts: tuple[WithRefs, ...]
    """In the order they were made: part, rule, refs, tokens, over_before."""
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
    """Hash by which the memory section is recognised when it comes back."""
    input: str | None
    """Hash of the input it was built for."""
    neutralised: int = 0
    """Texts in which forged markup was made harmless."""


@dataclass(frozen=True)
class ModelCalled(Event, family="calls"):
    purpose: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None
    block: str | None = None
    error: str | None = None

    @property
    def bookkeeping(self) -> bool:
        return self.error is None

    @classmethod
    def as_read(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Tokens were once stored as the endpoint said them: 12.0, say, or "12"."""
        return values | {name: reported(values.get(name)) for name in ("input_tokens", "output_tokens")}


# -- blocks --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockAdded(Event, family="blocks"):
    block: str
    type: str
    settings: dict[str, Any]


@dataclass(frozen=True)
class BlockRemoved(Event, family="blocks"):
    block: str


@dataclass(frozen=True)
class BlocksOrdered(Event, family="blocks"):
    """The blocks stand in another order: of equal priority, the earlier is cut first."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class BlockEdited(Event, family="blocks"):
    """A static block's text, or a block's settings."""

    block: str
    revision: int
    before: str | None
    after: str | None
    """Hashes of the text in the content store; None where only settings changed."""
    settings: dict[str, Any] = field(default_factory=dict)
    ignored: str | None = None
    """Hash of a text that lost against this one."""
    ignored_settings: dict[str, Any] = field(default_factory=dict)
    """Settings that lost: stored ones against `settings`, or a constructor's against what is stored."""
    restored: int | None = None
    """The earlier revision whose text this is again, where a person asked for it."""


@dataclass(frozen=True)
class BlockStateSaved(Event, family="blocks", writes=True, bookkeeping=True):
    """A custom block's fields after a delivery."""

    block: str
    content: str
    unsaved_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockFailed(Event, family="prompts"):
    """A block could not be read; the context went out without it."""

    block: str
    error: str


@dataclass(frozen=True)
class RecipeChosen(Event, family="settings"):
    """The session was switched to a recipe. The single changes stand before it in the log."""

    recipe: str
    before: str | None
    kept: tuple[str, ...]
    """Names of blocks."""
    added: tuple[str, ...]
    removed: tuple[str, ...]


# -- an agent's tools ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToolCalled(Event, family="blocks"):
    """A model called one of the memory tools; what it did to memory stands before it in the log."""

    tool: str
    """As the model wrote it: it may be no tool at all."""
    block: str | None
    outcome: Literal["done", "refused"]
    arguments: str
    """Hash of its arguments, as JSON."""
    result: str
    """Hash of what the model was told."""


# -- replies (the app's chat turns) ----------------------------------------------------------------


@dataclass(frozen=True)
class ReplyStarted(Event, family="messages", bookkeeping=True):
    reply: str
    seq: int
    model: str


@dataclass(frozen=True)
class ReplyEnded(Event, family="messages"):
    reply: str
    outcome: Literal["done", "failed", "stopped", "interrupted"]
    error: str | None = None

    @property
    def bookkeeping(self) -> bool:
        return self.outcome == "done"


@dataclass(frozen=True)
class UnknownEvent(Event, family="unknown"):
    """An event that a newer version wrote: shown without details."""

    name: str
    data: dict[str, Any]
