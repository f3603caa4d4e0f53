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
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactHeldBack,
    FactsCondensed,
    MessageAdded,
    Retrieved,
)
from memory_core.messages import message_text
from ui.telling import Line, Words, tell
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
            self._position = max(self._position, history.position)

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
        facts: set[int] = set()
        messages: set[str] = set()
        texts: set[str] = set()
        for event in events:
            facts.update(facts_of(event))
            if isinstance(event, MessageAdded):
                messages.add(event.content)
            elif isinstance(event, FactChanged):
                texts.update((event.before, event.after))
            elif isinstance(event, FactHeldBack):
                texts.add(event.content)
            elif isinstance(event, Retrieved):
                texts.add(event.query)
        found = memory.words(messages | texts) if messages or texts else {}
        said = {key: text for key, text in found.items() if key in texts}
        said |= {key: said_text(found[key]) for key in messages if key in found}
        return Words(facts=self.fact_words(facts, memory), turns={}, previews={}, said=said)

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


def said_text(stored: str) -> str:
    """A stored message's words on one line, calls of tools among them."""
    return " ".join(message_text(ChatMessage.from_json(stored)).split())


def _users_facts(memory: Memory) -> dict[int, str]:
    """Words of the facts that are the user's, in whichever session they were learned."""
    blocks = [a.name for a in memory.blocks if a.kind == "facts" and a.record.settings.get("scope") == "user"]
    return {fact.id: fact.text for block in blocks for fact in memory.facts(block, states=None)}
