"""Quarantine: items that a person keeps out of all prompts until they are released. Pure.

Nothing is changed or erased: readers of memory leave these items out, so that a release gives back exactly what was
there.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory_core.events import Event, EventRecord, QuarantineChanged, expand
from memory_core.messages import PARTS_MARK, content_hash
from memory_core.planning.impact import json_in, without_sentences
from memory_core.planning.running_summary import sentences

PROMPT_KINDS = ("message", "fact", "relation", "summary", "text")
"""Kinds of rows of an impact that a prompt may hold."""

Source = tuple[str, int]
"""Session and sequence number of a message."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Items that no prompt may hold."""

    messages: frozenset[Source] = frozenset()
    facts: frozenset[int] = frozenset()
    relations: frozenset[int] = frozenset()
    sentences: frozenset[str] = frozenset()
    """Hashes of sentences of static texts and summaries."""

    def __bool__(self) -> bool:
        return bool(self.messages or self.facts or self.relations or self.sentences)

    def seqs(self, session_id: str) -> frozenset[int]:
        """Return the messages of a session, by sequence number."""
        return frozenset(seq for session, seq in self.messages if session == session_id)

    def shown(self, text: str) -> str:
        """Return a text without its sentences in quarantine; content stored as parts loses them in each text part."""
        if not self.sentences:
            return text
        parts = json_in(text.removeprefix(PARTS_MARK)) if text.startswith(PARTS_MARK) else None
        if parts is None:
            return without_sentences(text, self._holds)
        rest = [part | {"text": self.shown(part["text"])} if part["type"] == "text" else part for part in parts]
        stored = json.dumps([part for part in rest if part.get("text") != ""], ensure_ascii=False)
        return PARTS_MARK + stored if stored != "[]" else ""

    def held_back(self, text: str) -> list[str]:
        """Return the sentences of a text that are in quarantine, in order."""
        return [sentence for sentence in sentences(text) if self._holds(sentence)]

    def _holds(self, sentence: str) -> bool:
        return content_hash(sentence) in self.sentences


NOTHING_IN_QUARANTINE = Quarantine()


@dataclass(frozen=True, slots=True)
class QuarantinedSet:
    """Items that were put into quarantine in one action, and are released in one."""

    session_id: str
    number: int
    """Number of the set among those of its session, from 1."""
    turn: int
    at: float
    """Time, in seconds since 1970."""
    seqs: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    sentences: tuple[str, ...] = ()
    """Hashes of sentences."""

    @property
    def key(self) -> tuple[str, int]:
        return self.session_id, self.number


def sets_in_force(records: Iterable[EventRecord]) -> list[QuarantinedSet]:
    """Return the sets that were not released, oldest first; `records` are in the order of the log."""
    sets: dict[tuple[str, int], QuarantinedSet] = {}
    for record in records:
        event = record.event
        if not isinstance(event, QuarantineChanged):
            continue
        key = record.session_id, event.number
        if event.released:
            sets.pop(key, None)
        else:
            items = tuple(expand(event.messages)), event.facts, event.relations, event.sentences
            sets[key] = QuarantinedSet(record.session_id, event.number, record.turn, record.at, *items)
    return list(sets.values())


def changes_quarantine(event: Event) -> bool:
    """Return whether an event puts something into quarantine or releases it."""
    return isinstance(event, QuarantineChanged)


def quarantine_of(sets: Sequence[QuarantinedSet]) -> Quarantine:
    """Return all items that are in any of the sets."""
    return Quarantine(
        messages=frozenset((one.session_id, seq) for one in sets for seq in one.seqs),
        facts=frozenset(fact for one in sets for fact in one.facts),
        relations=frozenset(relation for one in sets for relation in one.relations),
        sentences=frozenset(sentence for one in sets for sentence in one.sentences),
    )
