"""Change sets of facts and graphs, read from the log: which can be undone, and why others cannot.

Pure: event records and versions in, values out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.access import person_name
from memory_core.errors import ConflictError, NotFoundError
from memory_core.events import Actor, Curated, EventRecord, Thing

Version = tuple[Thing, int]
"""A fact, entity or relation, and the number of one of its versions."""
Key = int | tuple[int, int]
"""Key by which an undo names a change set; see `FactsCurated.key` and `GraphCurated.key`."""

MADE_BY: Mapping[str, str] = {"engine": "the engine", "user": "a person", "agent": "the agent"}
"""Noun phrase for each actor, for use in a sentence."""


def maker(actor: str, person: str | None) -> str:
    """Return the noun phrase for the author of a change: the person's name if it is on record."""
    return person_name(person) if person and actor == "user" else MADE_BY.get(actor, actor)


ERASED = "Part of this change has been erased."
TAKEN_AWAY = "What this change had added has been erased."


@dataclass(frozen=True, slots=True)
class AppliedChangeSet:
    """Change set: changes that were stored together and are undone together."""

    record: EventRecord
    event: Curated
    sentence: str = ""
    """Description: `Merged Bob into Robert Smith.`"""
    undone_by: int | None = None
    """Number of the undo that reverted the change set; None: the change set is in force."""
    obstacle: str = ""
    """Reason, as a sentence, why the change set cannot be undone (or redone); empty if it can."""

    @property
    def number(self) -> int:
        """Number of the change set within its block: the log position of its event; for a graph, a count from 1."""
        return self.record.position if self.event.number is None else self.event.number

    @property
    def action(self) -> str:
        return self.event.action

    @property
    def actor(self) -> Actor:
        """Author; `engine` where entities were merged because the conversation says that they are the same."""
        return self.record.actor

    @property
    def undone(self) -> bool:
        return self.undone_by is not None

    @property
    def final(self) -> bool:
        """True if the change set can never be undone, as some of its items were erased."""
        return not self.undone and self.obstacle == ERASED

    @property
    def words(self) -> str:
        """Description to follow "Undo:", in lower case and without full stop."""
        return _words(self.sentence)

    def __str__(self) -> str:
        return self.sentence

    def ids(self, kind: str) -> tuple[int, ...]:
        """Return the ids of the changed items of a kind: `fact`, `entity` or `relation`."""
        return tuple(id for (of, id), _, _ in self.event.rows if of == kind)


class ChangeLog:
    """All change sets of a block, with their undos.

    The rule of undo: a change set can be undone while its items are as it left them. An undo gives an item a new
    version equal to the one before the change set, so earlier change sets can be undone next. An undo can be undone
    by the same rule, which redoes the change set.
    """

    def __init__(
        self,
        records: Iterable[EventRecord],
        *,
        versions: Mapping[Thing, int],
        authors: Mapping[Version, tuple[Actor, int]],
        name: Callable[[Thing], str],
        tell: Callable[[Curated], str],
    ) -> None:
        """Read the `records` of change sets, in any order.

        `versions`: current version of each existing item; `authors`: author and turn of each version; `name`: returns
        an item's name to begin a sentence with; `tell`: describes a change set.
        """
        self._versions, self._authors, self._name, self._tell = versions, authors, name, tell
        self._sets: dict[Key, AppliedChangeSet] = {}
        """Change sets by key, oldest first, without undos."""
        self._undos: dict[Key, list[AppliedChangeSet]] = {}
        """Undos and redos by the key of their change set, oldest first."""
        self._same: dict[Version, Version] = {}
        self._numbers: dict[int, AppliedChangeSet] = {}
        self._makers: dict[Version, Curated] = {}
        for record in sorted(records, key=lambda record: record.position):
            if isinstance(record.event, Curated):  # or it was written by a newer version
                self._apply(AppliedChangeSet(record, record.event))

    def _apply(self, logged: AppliedChangeSet) -> None:
        event = logged.event
        if event.undoes is None:
            self._sets[event.key] = logged
        elif event.undoes in self._sets:
            self._undos.setdefault(event.undoes, []).append(logged)
            # After an undo each item is again as it was before the set; after a redo, as the set left it.
            stood = {thing: (before, after) for thing, before, after in self._sets[event.undoes].event.rows}
            for thing, _, new in event.rows:
                if new and thing in stood:
                    self._same[thing, new] = self._first((thing, stood[thing][event.again]))
        else:
            return  # the log of its change set went with a deleted session
        self._numbers[logged.number] = logged
        for thing, _, new in event.rows:
            self._makers.setdefault((thing, new), event)

    def _first(self, version: Version) -> Version:
        """Return the earliest version with the same values as this one."""
        return self._same.get(version, version)

    # -- reading

    def changes(self) -> list[AppliedChangeSet]:
        """Return all change sets, newest first."""
        return [self._as_it_stands(logged) for logged in reversed(self._sets.values())]

    def _as_it_stands(self, logged: AppliedChangeSet) -> AppliedChangeSet:
        undo = self.undo_of(logged)
        undone_by = undo.number if undo else None
        return replace(logged, sentence=self._tell(logged.event), undone_by=undone_by, obstacle=self._obstacle(logged))

    def undo_of(self, logged: AppliedChangeSet) -> AppliedChangeSet | None:
        """Return the undo of a change set; None if the change set is in force."""
        # A redo is recorded as an undo with `again`: only the last of them counts.
        last = next(reversed(self._undos.get(logged.event.key, ())), None)
        return last if last and not last.event.again else None

    def looked_at(self) -> set[int]:
        """Return ids of items that a person changed or reviewed, without undone changes."""
        passed: set[Version] = set()
        for key, logged in self._sets.items():
            undos = self._undos.get(key, [])
            # Versions made by an undone set, or by its undo, are nobody's review.
            done = [logged, *(undo for undo in undos if undo.event.again)] if self.undo_of(logged) else []
            for version in (*done, *(undo for undo in undos if not undo.event.again)):
                passed |= {(thing, v) for thing, old, new in version.event.rows for v in range(old + 1, new + 1)}
            if logged.action == "import":  # nobody reviews every row of an import
                passed |= {(thing, new) for thing, old, new in logged.event.rows if not old}
        return {
            version[0][1] for version, (actor, _) in self._authors.items() if actor == "user" and version not in passed
        }

    # -- undoing

    def undoable(self, number: int | None) -> AppliedChangeSet | None:
        """Return the change set to undo or, if `number` is that of an undo, to redo.

        `number` None: the newest in force, not by the engine and with nothing deleted; returns None if there is none.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: one of its items was changed or deleted since, or it was undone already.
        """
        if number is None:
            # Sets of which something was erased can never be undone, and would block all earlier ones.
            newest = next_undo(self.changes())
            if newest is None:
                return None
            number = newest.number
        named = self._numbers.get(number)
        if named is None:
            raise NotFoundError(f"There is no change set {number} here.")
        chosen = self._as_it_stands(named if named.event.undoes is None else self._sets[named.event.undoes])
        if chosen.undone_by != (None if named.event.undoes is None or named.event.again else number):
            raise ConflictError("This was undone already.")
        if chosen.obstacle:
            raise ConflictError(f"{chosen.obstacle} Nothing was undone.")
        return chosen

    def _obstacle(self, logged: AppliedChangeSet) -> str:
        undone = self.undo_of(logged) is not None
        # An item without a version was erased, or was added by the set and removed by its undo.
        gone = [before for thing, before, _ in logged.event.rows if thing not in self._versions]
        if gone:
            return TAKEN_AWAY if undone and not any(gone) else ERASED
        for thing, before, after in logged.event.rows:
            now = thing, self._versions[thing]
            if self._first(now) != self._first((thing, before if undone else after)):
                actor, turn = self._authors.get(now, ("engine", 0))
                return f"{self._name(thing)} {changed_since(actor, turn)}{self._by(self._makers.get(now))}."
        return ""

    def _by(self, event: Curated | None) -> str:
        """Return the end of a sentence, as `: pinned a fact`; empty if no change set made the version."""
        if event is None:
            return ""
        done = event if event.undoes is None else self._sets[event.undoes].event
        undid = "" if done is event else "did again: " if event.again else "undid: "
        return f": {undid}{_words(self._tell(done))}"


def _words(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def changed_since(actor: str, turn: int) -> str:
    """Return the end of a sentence about an item: `was changed since by the agent in turn 3`."""
    return f"was changed since by {MADE_BY.get(actor, actor)}" + (f" in turn {turn}" if turn else "")


def next_undo(changes: Sequence[AppliedChangeSet]) -> AppliedChangeSet | None:
    """Return the change set that the next undo reverts; None if there is none. `changes` are newest first."""
    return next((c for c in changes if not (c.undone or c.final) and c.actor != "engine"), None)
