"""Sentences' lines, and the texts that events refer to by id or hash, as they were when each event happened.

These are read from log and content store, not from present blocks: texts of removed blocks are found as well, and only
erased ones are missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from sys import maxsize
from typing import Any, Literal, TypeVar

from memory_core import ChatMessage, Memory
from memory_core.events import (
    ContextBuilt,
    Event,
    EventRecord,
    FactsExtracted,
    MessageAdded,
    RelationsExtracted,
    Retrieved,
    expand,
    numbers,
)
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Pieces
from memory_core.history.log import fact_words_at
from memory_core.messages import MEMORY_TOOLS, message_text
from memory_core.planning.fact_merging import Fact
from memory_core.planning.graph_rules import Graph
from memory_core.retrieval.retrieval import StoredTurn
from memory_inspector.wording.block_kinds import unit_of, units
from memory_inspector.wording.formatting import count, short, tokens

Tone = Literal["plain", "loss", "waiting"]

QUOTED = 60
"""Maximum characters quoted of a fact or a question in a sentence."""

SAID = 40
"""Maximum characters quoted of a message, whose speaker and size are in the same sentence."""

NOT_CAPTURED = "content not captured"
"""Placeholder where an attached agent's spans have ids and counts, but no words."""

ERASED = "an erased fact"

ERASED_RELATION = "an erased relation"

ERASED_NAME = "an erased name"


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence about an event."""

    icon: str
    """A Material icon's name."""
    text: str
    """Plain text, unescaped; the caller that draws it must escape it."""
    tone: Tone = "plain"
    details: tuple[str, ...] = ()
    """Texts of the items that the sentence counts, such as the facts learned."""
    more: tuple[str, ...] = ()
    """Further details on request, such as the turns recalled."""
    rewrites: str = ""
    """Block for which the Rewrites view of the Facts page lists the items that this sentence counts; empty: none."""


@dataclass(frozen=True, slots=True)
class Words:
    """Texts that events refer to by id or hash."""

    facts: Mapping[int, str]
    """Texts of facts, by id."""
    turns: Mapping[int, int]
    """Number of the turn in the conversation, by id of the stored turn."""
    previews: Mapping[int, str]
    """Beginning of each stored turn's text, by id."""
    due: frozenset[int] = frozenset()
    """Ids of deliveries that are not done yet; a delivery may be done in a later turn than it was queued in."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Texts by hash in the content store: a message's text, a fact's former words, a question."""
    relations: Mapping[int, str] = field(default_factory=dict)
    """Relations by id: `Ana → lives in → Lisbon`."""
    entities: Mapping[int, str] = field(default_factory=dict)
    """Names of entities by id."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Noun for the stored units of each vector block, by the block's name; see `block_kinds`."""


def context_of(event: FactsExtracted | RelationsExtracted) -> str:
    """Return the context that a learner was shown, in words that follow the number of messages; empty without one."""
    facts = event.shown if isinstance(event, FactsExtracted) else 0
    shown = [count(event.context, "message")] if event.context else []
    shown += [count(facts, "known fact")] if facts and event.context_tokens else []
    return f", with {' and '.join(shown)} as context ({tokens(event.context_tokens)} tokens)," if shown else ""


@singledispatch
def describe(event: Event, words: Words) -> Line:
    """Describe an event in a sentence; an event of a newer version gets a general one."""
    return Line("help", "An event of a newer version, shown without details")


def seconds(duration: float) -> str:
    """Format a duration with the significant digits: `0.04 s`, `1.3 s`, `21 s`."""
    places = 0 if duration >= 10 else 1 if duration >= 0.1 else 2
    return f"{duration:,.{places}f} s"


def fact_words(fact: int, words: Words) -> str:
    return short(words.facts.get(fact, ERASED), QUOTED)


def relation_words(relation: int, words: Words) -> str:
    return short(words.relations.get(relation, ERASED_RELATION), QUOTED)


def entity_words(entity: int, words: Words) -> str:
    return short(words.entities.get(entity, ERASED_NAME), QUOTED)


def turn_words(stored: int, words: Words) -> str:
    """Return the number of a stored turn in the conversation; `?` if unknown."""
    return tokens(words.turns[stored]) if stored in words.turns else "?"


def in_quotes(title: str) -> str:
    return f" “{short(title)}”" if title else ""


def because(reason: str) -> str:
    return f": {clause(reason)}" if reason else ""


def clause(sentence: str) -> str:
    """Return a sentence without its full stop, for the end of another sentence."""
    # Its full stop goes, because the sentence around it may continue.
    return sentence.strip().removesuffix(".")


Key = TypeVar("Key")

PREVIEW_CHARACTERS = 90


def words_in_log(memory: Memory, records: Sequence[EventRecord]) -> Words:
    """Return the texts that these events refer to, as of the last event, and the deliveries that are due now."""
    if not records:
        return Words({}, {}, {})
    named = _Named()
    for record in records:
        named.apply(record.event, previews=True)
    return replace(_read([(named, records[-1])], memory)[0], due=_due(memory))


def lines_in_log(memory: Memory, records: Sequence[EventRecord]) -> list[Line]:
    """Return a sentence per event, with texts as they were at that event; recalled turns are not quoted."""
    asked = []
    for record in records:
        named = _Named()
        named.apply(record.event, previews=False)
        asked.append((named, record))
    return [describe(record.event, words) for record, words in zip(records, _read(asked, memory), strict=True)]


def named_in_log(
    memory: Memory, record: EventRecord, *, facts: Iterable[int] = (), relations: Iterable[int] = ()
) -> Words:
    """Return the texts of these facts and relations, as they were at an event (`record`)."""
    return _read([(_Named(facts=dict.fromkeys(facts), relations=dict.fromkeys(relations)), record)], memory)[0]


def _read(asked: "Sequence[tuple[_Named, EventRecord]]", memory: Memory) -> list[Words]:
    """Return the texts for each group, read from the content store in one query."""
    history, pieces = memory.log.history(), memory.log.pieces()
    places = [_Places.of(pieces, named, record.position) for named, record in asked]
    # The facts of a user may have been learned in another session, whose log is not read here.
    _from_other_sessions(places, memory, at=max((record.at for _, record in asked), default=0))
    # One query for the texts of all events, because a page may have hundreds.
    texts = memory.log.texts({key for event_words in places for key in event_words.hashes()})
    return [
        event_words.words(texts, _units(history, record.position))
        for event_words, (_, record) in zip(places, asked, strict=True)
    ]


def present_words(memory: Memory, records: Sequence[EventRecord]) -> Words:
    """Return the words of events as they read now; for the latest turn, without reading the whole log."""
    named, facts, graphs, turns = _Named(), list[Fact](), list[Graph](), list[StoredTurn]()
    for record in records:
        named.apply(record.event, previews=True)
    for attached in memory.blocks:
        if attached.kind == "facts" and named.facts:
            facts += memory.facts.read(attached.name, states=None)
        elif attached.kind == "graph" and (named.relations or named.entities):
            graphs.append(memory.blocks.graph(attached.name).graph())
        elif attached.kind == "vector" and (wanted := {*named.units, *named.quoted_units}):
            turns += memory.retrieval.stored_turns(attached.name, numbers=wanted)
    texts = memory.log.texts({*named.texts, *named.messages})
    return Words(
        facts={fact.id: fact.text for fact in facts},
        turns={unit.number: unit.turn for unit in turns},
        previews={unit.number: _beginning(unit.messages[0].message) for unit in turns},
        due=_due(memory),
        texts={key: said_text(text) if key in named.messages else text for key, text in texts.items()},
        relations={id: graph.describe(relation) for graph in graphs for id, relation in graph.relations.items()},
        entities={id: graph.name(id) for graph in graphs for id in graph.entities},
        units=units(memory),
    )


def _due(memory: Memory) -> frozenset[int]:
    return frozenset(delivery.id for delivery in memory.session.deliveries(states=("pending", "parked")))


@dataclass(slots=True)
class _Named:
    """Ids and hashes of texts that events name, in the order of their sentences."""

    facts: dict[int, None] = field(default_factory=dict)
    entities: dict[int, None] = field(default_factory=dict)
    relations: dict[int, None] = field(default_factory=dict)
    units: dict[int, None] = field(default_factory=dict)
    quoted_units: dict[int, None] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    messages: dict[str, None] = field(default_factory=dict)

    def apply(self, event: Event, *, previews: bool) -> None:
        """Add what the sentence of an event refers to; with `previews`, also the beginnings of recalled turns, and all
        cut items.
        """
        # The sentence is made once with empty words, only to note what it asks for.
        describe(
            event,
            Words(
                facts=_Noted(self.facts),
                turns=_Noted(self.units),
                previews=_Noted(self.quoted_units if previews else {}),
                texts=_Noted(self.messages if isinstance(event, MessageAdded) else self.texts),
                relations=_Noted(self.relations),
                entities=_Noted(self.entities),
            ),
        )
        if isinstance(event, Retrieved):
            self.texts[event.query] = None
        elif isinstance(event, ContextBuilt) and previews:
            refs = [ref for cut in event.cuts for ref in cut["refs"]]
            self.facts.update(dict.fromkeys(numbers(refs, "fact")))
            self.relations.update(dict.fromkeys(numbers(refs, "relation")))
            self.units.update(dict.fromkeys(numbers(refs, "unit")))


class _Noted(Mapping[Key, Any]):
    """Empty mapping that records the requested keys, to find out what a sentence refers to."""

    def __init__(self, into: dict[Key, None]) -> None:
        self._into = into

    def __getitem__(self, key: Key) -> Any:
        # The sentence then uses its text for erased items, and is thrown away.
        self._into[key] = None
        raise KeyError(key)

    def __iter__(self) -> Iterator[Key]:
        return iter(())

    def __len__(self) -> int:
        return 0


@dataclass(slots=True)
class _Places:
    """Hashes and turns of the named items, as of one position of the log."""

    facts: dict[int, str]
    unknown_facts: set[int]
    """Ids of facts that were learned in another session of the user."""
    entities: dict[int, str]
    relations: dict[int, tuple[str, str, str]]
    turns: dict[int, int]
    quoted: dict[int, str]
    """Hash of the first message of each quoted stored turn, by the stored turn's id."""
    texts: set[str]
    messages: set[str]

    @classmethod
    def of(cls, pieces: Pieces, named: _Named, position: int) -> "_Places":
        # A replacement may be stored after the event that names it.
        facts = {id: pieces.fact(id, position) or pieces.fact(id, maxsize) for id in named.facts}
        entities = {id: pieces.entity(id, position) or pieces.entity(id, maxsize) for id in named.entities}
        relations = {id: pieces.relation(id, position) or pieces.relation(id, maxsize) for id in named.relations}
        units = {id: expand(unit.seqs) for id in named.units if (unit := pieces.unit(id)) is not None}
        turns = {id: pieces.turn_of(seqs[0]) for id, seqs in units.items() if seqs}
        begun = {id: pieces.added(units[id][0]) for id in named.quoted_units if units.get(id)}
        return cls(
            facts={id: words.content for id, words in facts.items() if words is not None},
            unknown_facts={id for id, words in facts.items() if words is None},
            entities={id: name for id, name in entities.items() if name is not None},
            relations={id: (r.subject, r.predicate, r.object) for id, r in relations.items() if r is not None},
            turns={id: turn for id, turn in turns.items() if turn is not None},
            quoted={id: added.content for id, added in begun.items() if added is not None},
            texts=set(named.texts),
            messages=set(named.messages),
        )

    def hashes(self) -> set[str]:
        keys = {*self.facts.values(), *self.entities.values(), *self.quoted.values(), *self.texts, *self.messages}
        # A relation is three texts: subject, predicate and object.
        return keys.union(*self.relations.values())

    def words(self, texts: dict[str, str], units: dict[str, str]) -> Words:
        quoted = {key: texts[key] for key in self.texts if key in texts}
        quoted |= {key: said_text(texts[key]) for key in self.messages if key in texts}
        return Words(
            facts={id: texts[key] for id, key in self.facts.items() if key in texts},
            turns=self.turns,
            previews={id: _preview(texts[key]) for id, key in self.quoted.items() if key in texts},
            texts=quoted,
            relations={
                id: " → ".join(texts[key] for key in keys)
                # With one of its three texts erased, a relation has no words.
                for id, keys in self.relations.items()
                if all(key in texts for key in keys)
            },
            entities={id: texts[key] for id, key in self.entities.items() if key in texts},
            units=units,
        )


def _from_other_sessions(places: Iterable[_Places], memory: Memory, *, at: float) -> None:
    """Fill in the user's facts that this session's log lacks, as they were `at` a time in seconds since 1970."""
    lacking = [incomplete for incomplete in places if incomplete.unknown_facts]
    if lacking:
        wordings = fact_words_at(
            memory.session.database, set[int]().union(*(incomplete.unknown_facts for incomplete in lacking)), at
        )
        for incomplete in lacking:
            incomplete.facts |= {fact: wordings[fact] for fact in incomplete.unknown_facts if fact in wordings}


def _units(history: History, position: int) -> dict[str, str]:
    """Return the noun for what each vector block stores, such as `turn`, by block name; removed blocks included."""
    blocks = history.blocks_ever(position).values()
    return {block.name: unit_of(block.settings) for block in blocks if block.kind == "vector"}


def said_text(stored: str) -> str:
    """Return a stored message's text on one line, with its tool calls; calls of memory tools are only noted."""
    message = ChatMessage.from_json(stored)
    if any(call.tool_name in MEMORY_TOOLS for call in message.tool_calls):
        return " ".join([*(message.content or "").split(), "(with calls of its memory tools)"])
    return " ".join(message_text(message).split())


def _preview(stored: str) -> str:
    return _beginning(ChatMessage.from_json(stored))


def _beginning(message: ChatMessage) -> str:
    return short(" ".join(message_text(message).split()), PREVIEW_CHARACTERS)
