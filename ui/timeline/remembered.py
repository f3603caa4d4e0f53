"""What this process remembers of one session's log for the timeline, so that drawing it again costs only what is new.

Sentences are made when they are first asked for. The words that events only name are fetched for many at once.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import TypeVar, cast

from memory_core import ChatMessage, Memory
from memory_core.analysis.fates import Fates
from memory_core.analysis.history import History
from memory_core.events import (
    EntityAdded,
    EntityChanged,
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactDecided,
    FactHeldBack,
    FactsCondensed,
    MessageAdded,
    RelationAdded,
    RelationChanged,
    Retrieved,
    ToolCalled,
)
from memory_core.messages import MEMORY_TOOLS, message_text
from ui.stored import units
from ui.telling import Line, Words, relations_of, tell
from ui.timeline.listing import Index

Made = TypeVar("Made")


class Timeline:
    """One session's index, fates and sentences. Any number of tabs may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._begin(None)

    def _begin(self, first: EventRecord | None) -> None:
        self._first = first
        self._position = 0
        self._lines: dict[int, Line] = {}
        self._folded: dict[int, str] = {}
        """The sentences as they are searched."""
        self._contents: dict[int, str] = {}
        """Hash of each fact's words."""
        self._names: dict[int, str] = {}
        """Hash of each entity's name."""
        self._relations: dict[int, tuple[int, str, int]] = {}
        """Subject, hash of the predicate and object of each relation."""
        self._users: frozenset[int] = frozenset()
        """The user's facts, which other sessions may erase."""
        self._past = Fates()
        self._figure: tuple[object, object] = (None, None)
        self.index = Index()
        self.fates = Fates()

    def catch_up(self, memory: Memory, history: History) -> None:
        """Take in what is new. Where words were erased meanwhile, here or elsewhere, everything is made anew."""
        users = frozenset(_users_facts(memory))
        with self._lock:
            first = history.records[0] if history.records else None
            if first is not self._first or not self._users <= users:
                self._begin(first)
            self._users = users
            new = history.after(self._position)
            self.index.take(new)
            self.fates.take(new)
            for record in new:
                event = record.event
                if isinstance(event, FactAdded):
                    self._contents[event.fact] = event.content
                elif isinstance(event, FactChanged):
                    self._contents[event.fact] = event.after
                else:
                    self._take_graph(event)
            self._position = max(self._position, history.position)

    def _take_graph(self, event: Event) -> None:
        """What entities and relations are called now."""
        if isinstance(event, EntityAdded):
            self._names[event.entity] = event.name
        elif isinstance(event, EntityChanged) and "name" in event.after:
            self._names[event.entity] = str(event.after["name"])
        elif isinstance(event, RelationAdded):
            self._relations[event.relation] = event.subject, event.predicate, event.object
        elif isinstance(event, RelationChanged) and event.relation in self._relations:
            subject, predicate, object = self._relations[event.relation]
            self._relations[event.relation] = (
                int(event.after.get("subject", subject)),
                str(event.after.get("predicate", predicate)),
                int(event.after.get("object", object)),
            )

    def fates_at(self, history: History, position: int) -> Fates:
        """The fates as they were at a position of the log."""
        if position >= self._position:
            return self.fates
        with self._lock:
            if self._past.position > position:
                self._past = Fates()
            between = (record for record in history.after(self._past.position) if record.position <= position)
            return self._past.take(between)

    def figure(self, key: object, make: Callable[[], Made]) -> Made:
        """A figure as it was made last under this key, made anew for another."""
        known, figure = self._figure
        if known != key:
            figure = make()
            self._figure = key, figure
        return cast(Made, figure)

    def lines(self, records: Sequence[EventRecord], memory: Memory) -> list[Line]:
        """One sentence an event."""
        known = self._lines
        untold = [record for record in records if record.position not in known]
        if untold:
            words = self.words([record.event for record in untold], memory)
            known.update((record.position, tell(record.event, words)) for record in untold)
        return [known[record.position] for record in records]

    def matching(self, records: Sequence[EventRecord], text: str, memory: Memory) -> list[EventRecord]:
        """The events whose sentences hold every word of `text`, whatever its case."""
        wanted, folded = text.casefold().split(), self._folded
        missing = [record for record in records if record.position not in folded]
        for record, line in zip(missing, self.lines(missing, memory), strict=True):
            folded[record.position] = line.text.casefold()
        return [record for record in records if all(word in folded[record.position] for word in wanted)]

    def words(self, events: Iterable[Event], memory: Memory) -> Words:
        """The words that these events name; of facts as they read now."""
        events = list(events)
        facts: set[int] = set()
        messages: set[str] = set()
        texts: set[str] = set()
        for event in events:
            facts.update(facts_of(event))
            if isinstance(event, MessageAdded):
                messages.add(event.content)
            elif isinstance(event, FactChanged):
                texts.update((event.before, event.after))
            elif isinstance(event, FactHeldBack | FactDecided):
                texts.add(event.content)
            elif isinstance(event, Retrieved):
                texts.add(event.query)
            elif isinstance(event, ToolCalled):
                texts.update((event.arguments, event.result))
            elif isinstance(event, EntityChanged | RelationChanged):
                texts.update(_hashes(event))
        found = memory.words(messages | texts) if messages or texts else {}
        said = {key: text for key, text in found.items() if key in texts}
        said |= {key: said_text(found[key]) for key in messages if key in found}
        relations, entities = self.graph_words(events, memory)
        told = self.fact_words(facts, memory)
        return Words(
            facts=told,
            turns={},
            previews={},
            said=said,
            relations=relations,
            entities=entities,
            units=units(memory),
        )

    def graph_words(self, events: Iterable[Event], memory: Memory) -> tuple[dict[int, str], dict[int, str]]:
        """The relations and the entities that these events name, in words; those erased since are missing."""
        entities: set[int] = set()
        relations: set[int] = set()
        for event in events:
            relations.update(relations_of(event))
            entities.update(entities_of(event))
        return self.relation_words(relations, memory), self.entity_words(entities, memory)

    def relation_words(self, relations: Iterable[int], memory: Memory) -> dict[int, str]:
        """`Ana → lives in → Lisbon` by id, as it reads now; those erased since are missing."""
        known = {each: self._relations[each] for each in relations if each in self._relations}
        if not known:
            return {}
        names = self.entity_words({end for subject, _, object in known.values() for end in (subject, object)}, memory)
        said = memory.words(predicate for _, predicate, _ in known.values())
        return {
            each: f"{names[subject]} → {said[predicate]} → {names[object]}"
            for each, (subject, predicate, object) in known.items()
            if subject in names and predicate in said and object in names
        }

    def entity_words(self, entities: Iterable[int], memory: Memory) -> dict[int, str]:
        """Names by id, as they read now; those erased since are missing."""
        hashes = {each: self._names[each] for each in entities if each in self._names}
        found = memory.words(hashes.values()) if hashes else {}
        return {each: found[hash] for each, hash in hashes.items() if hash in found}

    def fact_words(self, facts: Iterable[int], memory: Memory) -> dict[int, str]:
        """The words of facts as they read now; those erased since are missing."""
        contents = {fact: self._contents.get(fact) for fact in facts}
        if not contents:
            return {}
        found = memory.words(key for key in contents.values() if key is not None)
        elsewhere = _users_facts(memory) if None in contents.values() else {}
        told = {fact: elsewhere.get(fact) if key is None else found.get(key) for fact, key in contents.items()}
        return {fact: text for fact, text in told.items() if text is not None}


def remembered(memory: Memory) -> Timeline:
    """That of a session, in this process."""
    return memory.services.remembered(f"timeline/{memory.database.id}/{memory.session_id}", Timeline)


def facts_of(event: Event) -> tuple[int, ...]:
    """The facts whose words its sentence needs."""
    if isinstance(event, FactsCondensed):
        return event.vanished
    named = (getattr(event, name, None) for name in ("fact", "by", "near"))
    return (*(fact for fact in named if isinstance(fact, int)), *getattr(event, "conflicts_with", ())[:1])


def entities_of(event: Event) -> tuple[int, ...]:
    """The entities whose names its sentence needs."""
    if isinstance(event, RelationChanged):
        return tuple(int(event.before[name]) for name in ("subject", "object") if name in event.before)
    own = getattr(event, "entity", None)
    found = [own] if isinstance(own, int) else []
    into = event.after.get("merged_into") if isinstance(event, EntityChanged) else None
    return (*found, int(into)) if into is not None else tuple(found)


def _hashes(event: EntityChanged | RelationChanged) -> set[str]:
    """The words that it names by hash: what something was called, and is now."""
    found: set[str] = set()
    for values in (event.before, event.after):
        found.update(str(values[name]) for name in ("name", "predicate") if name in values)
        found.update(str(alias) for alias in values.get("aliases", ()))
    return found


def said_text(stored: str) -> str:
    """A stored message's words on one line, calls of tools among them; those of memory have events of their own."""
    message = ChatMessage.from_json(stored)
    if any(call.tool_name in MEMORY_TOOLS for call in message.tool_calls):
        return " ".join([*(message.content or "").split(), "(with calls of its memory tools)"])
    return " ".join(message_text(message).split())


def _users_facts(memory: Memory) -> dict[int, str]:
    """Words of the facts that are the user's, in whichever session they were learned."""
    blocks = [a.name for a in memory.blocks if a.kind == "facts" and a.record.settings.get("scope") == "user"]
    return {fact.id: fact.text for block in blocks for fact in memory.facts(block, states=None)}
