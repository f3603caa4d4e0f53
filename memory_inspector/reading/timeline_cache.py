"""Cached timeline data of one session's log, so that redrawing costs only what is new.

Sentences are generated when they are first needed.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from memory_core import Memory
from memory_core.events import EventRecord
from memory_inspector.reading.event_rows import Index
from memory_inspector.wording.event_sentences import Line
from memory_inspector.wording.event_sentences.event_words import lines_in_log

Made = TypeVar("Made")


class Timeline:
    """Index and sentences of a session, shared by all tabs; begun anew when words of its log were erased."""

    def __init__(self) -> None:
        self.index = Index()
        self._lines: dict[int, Line] = {}
        self._folded: dict[int, str] = {}
        """Casefolded sentences, for searching."""
        self._users: frozenset[int] = frozenset()
        """Ids of user-scoped facts, which other sessions may erase."""
        self._figure: tuple[object, object] = (None, None)

    def apply(self, record: EventRecord) -> None:
        """Add an event, oldest first."""
        self.index.apply(record)

    def check(self, users: frozenset[int]) -> None:
        """Forget all sentences if a user-scoped fact is gone: another session erased its words."""
        if not self._users <= users:
            self._lines, self._folded = {}, {}
        self._users = users

    def figure(self, key: object, make: Callable[[], Made]) -> Made:
        """The last figure if it was made under this key, otherwise a new one from `make`."""
        # Key and figure are replaced together, so that another thread never sees the new key with the old figure.
        position, figure = self._figure
        if position != key:
            figure = make()
            self._figure = key, figure
        return cast(Made, figure)

    def lines(self, records: Sequence[EventRecord], memory: Memory) -> list[Line]:
        """Return a sentence per event."""
        lines = self._lines
        # Two threads may make the same sentences at once: the results are equal, so no lock is needed.
        untold = [record for record in records if record.position not in lines]
        if untold:
            new_lines = lines_in_log(memory, untold)
            lines.update((record.position, line) for record, line in zip(untold, new_lines, strict=True))
        return [lines[record.position] for record in records]

    def matching(self, records: Sequence[EventRecord], text: str, memory: Memory) -> list[EventRecord]:
        """The events whose sentences contain every word of `text`, ignoring case."""
        wanted, folded = text.casefold().split(), self._folded
        missing = [record for record in records if record.position not in folded]
        for record, line in zip(missing, self.lines(missing, memory), strict=True):
            folded[record.position] = line.text.casefold()
        return [record for record in records if all(word in folded[record.position] for word in wanted)]


def remembered(memory: Memory) -> Timeline:
    """The timeline of a session in this process, up to its newest event."""
    users, timeline = _users_facts(memory), memory.log.follow(Timeline)
    timeline.check(users)
    return timeline


def _users_facts(memory: Memory) -> frozenset[int]:
    """Ids of user-scoped facts, whichever session learned them."""
    blocks = [a.name for a in memory.blocks if a.kind == "facts" and a.record.settings.get("scope") == "user"]
    return frozenset(fact.id for block in blocks for fact in memory.facts.read(block, states=None))
