"""The change sets of a facts block as the log tells them: which can be undone, and what a person looked at.

Pure: event records in, values out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_core.events import Actor, EventRecord, FactsCurated
from memory_core.planning.curation import changed_elsewhere, words_for
from memory_core.planning.facts import Fact

Version = tuple[int, int]
"""A fact and one of its versions."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change set that was applied."""

    position: int
    """Of its event in the log."""
    turn: int
    at: float
    """Seconds since the epoch."""
    actor: Actor
    action: str
    reason: str
    facts: tuple[int, ...]
    """Ids of those it changed or added."""
    words: str
    """What it did, to follow "Undo:"."""
    undone: bool
    final: bool
    """It cannot be undone any more: one of its facts was erased for good."""


@dataclass(frozen=True, slots=True)
class Undoable:
    """The change set that the next undo takes back."""

    change: Change
    event: FactsCurated
    session_id: str
    """Where it was applied."""


class ChangeLog:
    """All change sets of a block's facts, folded.

    An undo gives a fact a new version that stands for the one before the change set. `same` follows
    that, so that the change sets below an undone one can be undone in their turn.
    """

    def __init__(self, records: Iterable[EventRecord], facts: Collection[int]) -> None:
        """`records` of `facts_curated` in any order; `facts` are the ids that still exist."""
        self._done: dict[Version, tuple[EventRecord, FactsCurated]] = {}
        self._undone: set[Version] = set()
        self._same: dict[Version, Version] = {}
        self._passed: set[Version] = set()
        self._facts = frozenset(facts)
        for record in sorted(records, key=lambda record: record.position):
            event = record.event
            if not isinstance(event, FactsCurated):
                continue  # written by a newer version
            if event.undoes is None:
                self._done[key_of(event)] = record, event
            else:
                self._take_undo(event, event.undoes)

    def _take_undo(self, event: FactsCurated, undoes: Version) -> None:
        self._undone.add(undoes)
        if undoes not in self._done:
            return  # told of in a session that is gone
        _, undone = self._done[undoes]
        before = {fact: old for fact, old, _ in undone.facts}
        passed = (*undone.facts, *event.facts)
        self._passed |= {(fact, version) for fact, old, new in passed for version in range(old + 1, new + 1)}
        for fact, _, new in event.facts:
            if new:
                self._same[fact, new] = self.same((fact, before[fact]))

    def same(self, version: Version) -> Version:
        """The first version that the fact stood in like this."""
        return self._same.get(version, version)

    def changes(self) -> list[Change]:
        """All change sets, newest first."""
        return [self._change(key) for key in reversed(self._done)]

    def undoable(self) -> Undoable | None:
        """What the next undo takes back: the newest change set that can be and was not yet."""
        for key in reversed(self._done):
            change = self._change(key)
            if not change.undone and not change.final:
                record, event = self._done[key]
                return Undoable(change, event, record.session_id)
        return None

    def check(self, event: FactsCurated, facts: Mapping[int, Fact]) -> None:
        """Do all facts stand as the change set left them?

        Raises:
            ConflictError: one of them was changed since.
        """
        for fact, _, after in event.facts:
            if self.same((fact, facts[fact].version)) != self.same((fact, after)):
                raise changed_elsewhere(facts[fact])

    def looked_at(self, revisions: Iterable[Version]) -> set[int]:
        """Facts that a person dealt with, from the versions that are a curator's; what was undone does not count."""
        return {fact for fact, version in revisions if (fact, version) not in self._passed}

    def _change(self, key: Version) -> Change:
        record, event = self._done[key]
        added = sum(before == 0 for _, before, _ in event.facts)
        facts = tuple(fact for fact, _, _ in event.facts)
        return Change(
            position=record.position,
            turn=record.turn,
            at=record.at,
            actor=record.actor,
            action=event.action,
            reason=event.reason,
            facts=facts,
            words=words_for(event.action, changed=len(facts) - added, added=added),
            undone=key in self._undone,
            final=key not in self._undone and not self._facts.issuperset(facts),
        )


def key_of(event: FactsCurated) -> Version:
    """What a change set is known by: no two leave one fact in the same version."""
    fact, _, after = event.facts[0]
    return fact, after


def next_undo(changes: Sequence[Change]) -> Change | None:
    """The change set that the next undo takes back, of changes that are newest first."""
    return next((change for change in changes if not change.undone and not change.final), None)
