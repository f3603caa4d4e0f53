"""Former values: messages that state a value which was replaced since, and the marks beside them in prompts. Pure.

A fact or relation is learned from messages. After its value has changed, messages that state the former value are
still recalled word for word; the mark beside them names the present value.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_core.events import Ref
from memory_core.planning.slots import Slot
from memory_core.planning.statement_relation import contradicts
from memory_core.text import stem_set

MarkKind = Literal["changed", "ended", "later"]
"""`changed`: another value holds now; `ended`: it holds no longer; `later`: another value was said later, and nobody
decided between the two."""

StoredMark = tuple[str, MarkKind, str | None, int]
"""A mark in an event: ref of the message, fact or sentence it stands beside, kind, ref of the present value, turn."""

Source = tuple[str, int]
"""Session and sequence number of a message."""

ENDED = "what was said since ends it"
"""Reason recorded for a superseded fact without a successor."""

FALSE_REASONS = ("Wrong", "Outdated")
"""Reasons for which a person retires a fact that does not hold."""


def says_false(reason: str | None) -> bool:
    """Return whether a reason for retiring a fact says that it does not hold; upper and lower case are equal."""
    return reason is not None and reason.capitalize() in FALSE_REASONS


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact or relation with all its wordings and the messages it was learned from."""

    ref: Ref
    wordings: tuple[str, ...]
    """All wordings, oldest first; the last is the present one."""
    turn: int
    """Turn in which words or state of the statement last changed."""
    sources: tuple[Source, ...] = ()
    ended: bool = False
    confirmed_at: float = 0.0
    """Time when the statement was last said, or confirmed by a person; seconds since 1970."""
    reviewed: bool = False
    """True if a person wrote, changed or reviewed the statement without undoing that: no other one counts as later."""
    decided: bool = False
    """True if a person decided against this statement and for one that it contradicts."""
    version: int = 0
    block: str = ""
    """Name of its block if all statements of the block are listed, as in the preview of a change; else empty."""
    slot: Slot | None = None
    """Slot of one value in which this is stated, in its normal form; None if the statement has no such slot."""
    contradicts: tuple[Ref, ...] = ()
    """Statements that this one contradicted when it was added."""
    replaced_by: Ref | None = None

    @property
    def text(self) -> str:
        """Present wording."""
        return self.wordings[-1]


@dataclass(frozen=True, slots=True)
class FormerValue:
    """A value that was replaced or ended; the messages that its statement was learned from may state it."""

    kind: MarkKind
    of: Statement
    former: frozenset[str]
    """Stems that only the former wording has."""
    present: frozenset[str]
    """Stems that only the present wording has; a message with one of them says the present value too."""
    now: Statement | None
    """Statement with the present value; None if there is none."""
    turn: int
    whole: frozenset[str] = frozenset()
    """Stems of the whole former wording."""
    stated_still: bool = False
    """True if another statement of the slot was replaced or ended, and `of` still states the former value."""

    def repeated_in(self, sentence: Collection[str]) -> bool:
        """Return whether a sentence with these stems says the whole former wording and not the present value."""
        return bool(self.former) and self.whole.issubset(sentence) and self.present.isdisjoint(sentence)

    def replaced_in(self, message: Collection[str] | None) -> bool:
        """Return whether a message with these stems says the present value; None for one that was deleted."""
        # A present value may only lack a word of the former one, such as a negation.
        return message is not None and not (
            self.present.isdisjoint(message) if self.present else self.former & frozenset(message)
        )

    def said_in(self, message: Collection[str]) -> bool:
        """Return whether a message with these stems says the former value and not the present one."""
        return not self.former.isdisjoint(message) and self.present.isdisjoint(message)


@dataclass(frozen=True, slots=True)
class FormerMark:
    """Mark beside a message or a fact in a prompt."""

    kind: MarkKind
    now: Ref | None
    """Fact or relation with the present value; None if there is none, or beside a fact: its list shows both."""
    turn: int
    """Turn in which the present value was said, or in which the former one was found to have ended."""
    words: str = ""
    """Text of `now`; empty in events, which hold only its ref."""

    def as_stored(self, beside: Ref) -> StoredMark:
        """Return the form in which events store this mark; `beside`: the message or fact that has the mark."""
        return beside, self.kind, self.now, self.turn

    def text(self) -> str:
        """Return the mark in words.

        >>> FormerMark("changed", Ref("f3"), 41, "The user lives in Lisbon").text()
        'until turn 41; now: The user lives in Lisbon'
        """
        if self.kind == "later":
            return f"later, in turn {self.turn}: {self.words}" if self.words else f"said otherwise in turn {self.turn}"
        if self.kind == "ended":
            return "no longer true"
        return f"until turn {self.turn}; now: {self.words}" if self.words else f"until turn {self.turn}"


def stored_marks(part: Mapping[str, Any]) -> dict[Ref, FormerMark]:
    """Return the marks of a part of a recorded prompt, by the message or fact that they stand beside; without words."""
    marks: Iterable[StoredMark] = part.get("marks", ())
    return {Ref(beside): FormerMark(kind, None if now is None else Ref(now), turn) for beside, kind, now, turn in marks}


def former_values(statements: Iterable[Statement]) -> list[FormerValue]:
    """Return the former values of statements, in the order in which they were replaced."""
    by_ref = {statement.ref: statement for statement in statements}
    values = [value for statement in by_ref.values() for value in _former_of(statement, by_ref)]
    values += _contradicted(by_ref)
    values += _stated_still(values, by_ref)
    return sorted(values, key=lambda value: value.turn)


def with_preview(stored: Iterable[Statement], imagined: Iterable[Statement]) -> list[Statement]:
    """Return the statements after a previewed change: an imagined one continues the stored one with the same ref."""
    by_ref = {statement.ref: statement for statement in stored}
    # A fact that a listed block lacks was put away: in favour of one it contradicts, if that was changed as well.
    listed = {new.ref: new for new in imagined if new.block}
    changed = {ref for ref, new in listed.items() if ref in by_ref and new.version > by_ref[ref].version}
    blocks = {new.block for new in listed.values()}
    for ref, gone in [*by_ref.items()]:
        if gone.block in blocks and ref not in listed and not gone.ended and not gone.decided:
            partners = {*gone.contradicts, *(one.ref for one in by_ref.values() if ref in one.contradicts)}
            if partners & changed:
                by_ref[ref] = replace(gone, decided=True)
            else:
                del by_ref[ref]
    for new in imagined:
        old = by_ref.get(new.ref)
        if old is not None:
            same = (new.text, new.ended, new.decided) == (old.text, old.ended, old.decided)
            new = replace(
                new,
                turn=old.turn if same else new.turn,
                wordings=(*old.wordings, *new.wordings),
                sources=tuple(dict.fromkeys((*old.sources, *new.sources))),
                reviewed=old.reviewed or new.ref in changed,
                contradicts=(*old.contradicts, *new.contradicts),
                slot=new.slot or old.slot,
            )
        by_ref[new.ref] = new
    return list(by_ref.values())


def mark_for(values: Sequence[FormerValue], message: Collection[str]) -> FormerValue | None:
    """Return the latest former value that a message with these stems states; None if it states none."""
    return next((value for value in reversed(values) if value.said_in(message)), None)


def _former_of(statement: Statement, by_ref: Mapping[Ref, Statement]) -> list[FormerValue]:
    """Return the former values of a single statement: its earlier wordings, or its present one if it has ended."""
    successor = _successor(statement, by_ref)
    if successor is None and statement.ended:
        former = stem_set(statement.text)
        return [FormerValue("ended", statement, former, frozenset(), None, statement.turn, former)]
    now, earlier = (statement, statement.wordings[:-1]) if successor is None else (successor, statement.wordings)
    turn = statement.turn
    differences = [(old, *_differences(old, now.text)) for old in dict.fromkeys(earlier)]
    # A wording that only says less is no former value: what it says still holds.
    return [
        FormerValue("changed", statement, former, present, now, turn, stem_set(old))
        for old, former, present in differences
        if former and old != now.text
    ]


def _successor(statement: Statement, by_ref: Mapping[Ref, Statement]) -> Statement | None:
    """Return the last statement in the chain of those that replaced this one; None if there is none."""
    passed = {statement.ref}
    current: Statement | None = statement
    while current is not None and current.replaced_by is not None and current.replaced_by not in passed:
        passed.add(current.replaced_by)
        current = by_ref.get(current.replaced_by)
    return None if current is statement else current


def _contradicted(by_ref: Mapping[Ref, Statement]) -> list[FormerValue]:
    """Return the values of contradicted statements: of those that a person put away and, where nobody decided between
    two statements, of the one confirmed earlier."""
    values = []
    for statement in by_ref.values():
        for other in filter(None, map(by_ref.get, statement.contradicts)):
            old, new = sorted((other, statement), key=lambda one: (one.confirmed_at, one.ref.number))
            if old.decided != new.decided:  # the one that was not put away holds now
                old, new = (new, old) if new.decided else (old, new)
            elif old.reviewed:
                continue
            if old.ended or new.ended:
                continue
            former, present = _differences(old.text, new.text)
            # Either may have been reworded since.
            if contradicts(new.text, old.text, same_slot=True):
                kind: MarkKind = "changed" if old.decided else "later"
                whole = stem_set(old.text)
                values.append(FormerValue(kind, old, former, present, new, new.turn, whole))
    return values


def _stated_still(values: Sequence[FormerValue], by_ref: Mapping[Ref, Statement]) -> list[FormerValue]:
    """Return the values of statements that say what another one of their slot, as a relation of a fact, no longer does.

    A statement that a person reviewed, or that was said after the present value, holds.
    """
    of_slot: defaultdict[Slot, list[Statement]] = defaultdict(list)
    for statement in by_ref.values():
        if statement.slot is not None and not (statement.ended or statement.reviewed or statement.replaced_by):
            of_slot[statement.slot].append(statement)
    result = []
    for value in values:
        by = value.now or value.of
        for other in of_slot[value.of.slot] if value.of.slot is not None and value.kind != "later" else ():
            whole = stem_set(other.text)
            states = value.said_in(whole) if value.kind == "changed" else value.former <= whole
            if states and other.ref not in (value.of.ref, by.ref) and not _said_after(other, by):
                result.append(replace(value, of=other, whole=whole, stated_still=True))
    return result


def _said_after(one: Statement, other: Statement) -> bool:
    """Return whether a statement was said after another one; by their messages, or else by their times."""
    last, before = (dict(sorted(statement.sources)) for statement in (one, other))
    if shared := last.keys() & before.keys():
        return any(last[session] > before[session] for session in shared)
    return one.confirmed_at > other.confirmed_at


def _differences(old: str, new: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems that only the old wording has, and those that only the new one has."""
    before, after = stem_set(old), stem_set(new)
    return before - after, after - before
