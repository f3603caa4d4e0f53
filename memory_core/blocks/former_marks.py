"""Marks beside messages, facts, relations and sentences of a prompt that state a former value.

Marks are computed from the facts and relations of the session and its user, and cached until any of these changes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from threading import Lock

from sqlalchemy import Connection

from memory_core.blocks.base import ReadContext
from memory_core.events import Ref
from memory_core.messages import message_text
from memory_core.planning.former_values import (
    FormerMark,
    FormerValue,
    Source,
    Statement,
    former_values,
    mark_for,
    with_preview,
)
from memory_core.process import collector_paused
from memory_core.store.former_rows import read_statements, statements_revision
from memory_core.store.message_rows import DatedMessage, read_dated
from memory_core.store.writing import session_scope, user_scope
from memory_core.text import stem_set

MessageReader = Callable[[Iterable[Source]], Mapping[Source, DatedMessage]]
"""Function that returns messages by session id and sequence number; deleted ones are missing."""

MarksOf = Callable[[Iterable[Source]], Mapping[Source, FormerMark]]
"""Function that returns the marks of those of these messages that have one."""


class IndexedValues:
    """Former values in the order in which they were replaced, by what can state them; the last one that fits counts."""

    def __init__(self, values: Sequence[FormerValue] = ()) -> None:
        self.values = values
        self.of_message: defaultdict[Source, list[FormerValue]] = defaultdict(list)
        for value in values:
            for source in value.of.sources:
                self.of_message[source].append(value)
        later = {value.of.ref: value for value in values if value.kind == "later"}
        self.stated = later | {value.of.ref: value for value in values if value.stated_still}
        """Values that active facts and relations state; superseded ones are in no prompt."""
        self.later = {
            ref.number: value.now.ref.number
            for ref, value in later.items()
            if value.now is not None and value.now.ref.kind == "fact"
        }
        self.marks: dict[Source, FormerMark | None] = {}
        """Marks of messages that were asked for; None: the words of the message state no former value."""

    @cached_property
    def by_stem(self) -> Mapping[str, Sequence[int]]:
        """Places of the values by a stem of the whole former wording, which a sentence that repeats it has."""
        by_stem: defaultdict[str, list[int]] = defaultdict(list)
        for place, value in enumerate(self.values):
            if value.whole:
                by_stem[max(value.whole, key=len)].append(place)  # long words are rare ones
        return by_stem


class Marks:
    """Marks of former values. Few of thousands are ever asked for, so each is made when it is."""

    def __init__(self, indexed: IndexedValues, read: MessageReader) -> None:
        self._indexed, self._read = indexed, read
        self.later: Mapping[int, int] = indexed.later
        """Id of the contradicting fact, by the id of the marked fact."""

    def __bool__(self) -> bool:
        return bool(self._indexed.values)

    def of_messages(self, sources: Iterable[Source]) -> dict[Source, FormerMark]:
        """Return the marks of those of these messages whose words state a former value."""
        of_message, marks = self._indexed.of_message, self._indexed.marks
        asked = [source for source in sources if source in of_message]
        new = [source for source in asked if source not in marks]
        if new:
            now = (value.now for source in new for value in of_message[source])
            dated = _Dated(self._read({*new, *(source for one in now if one is not None for source in one.sources)}))
            for source in new:
                # A fact's sources include all that confirmed it, so the words of each decide.
                words = dated.words.get(source)
                last = None if words is None else mark_for(of_message[source], words)
                marks[source] = None if last is None else dated.mark(last, source)
        return {source: mark for source in asked if (mark := marks[source]) is not None}

    def of_statements(self, refs: Iterable[Ref]) -> dict[Ref, FormerMark]:
        """Return the marks of those of these active facts and relations that a later statement contradicts, or that
        say what another one of their slot no longer does."""
        values = {ref: value for ref in refs if (value := self._indexed.stated.get(ref)) is not None}
        dated = self._dated(values.values())
        marks = {ref: dated.mark(value) for ref, value in values.items()}
        # Beside a fact that a later one contradicts: its list shows both.
        return {
            ref: mark if values[ref].stated_still else replace(mark, now=None, words="") for ref, mark in marks.items()
        }

    def of_sentence(self, sentence: str) -> FormerMark | None:
        """Return the mark for a summary's sentence that repeats a former value; None for any other sentence."""
        has, values = stem_set(sentence), self._indexed.values
        places = (place for stem in has for place in self._indexed.by_stem.get(stem, ()))
        last = max((place for place in places if values[place].repeated_in(has)), default=None)
        return None if last is None else self._dated([values[last]]).mark(values[last])

    def _dated(self, values: Iterable[FormerValue]) -> "_Dated":
        """Return the messages that values, and what holds now in place of each, were learned from."""
        both = (one for value in values for one in (value.of, value.now) if one is not None)
        return _Dated(self._read({source for one in both for source in one.sources}))


class _Dated:
    """Messages that former and present values were learned from."""

    def __init__(self, messages: Mapping[Source, DatedMessage]) -> None:
        self._messages = messages
        self.words = {source: stem_set(message_text(dated.message)) for source, dated in messages.items()}
        """Stems of each message; deleted ones are missing."""

    def mark(self, value: FormerValue, beside: Source | None = None) -> FormerMark:
        """Return the mark of a value, `beside` one of its messages or else beside a fact, a relation or a sentence."""
        now = value.now
        present = [source for source in (now.sources if now else ()) if value.replaced_in(self.words.get(source))]
        former = [source for source in value.of.sources if value.said_in(self.words.get(source, ()))]
        # A value may come back: what counts is when it was first said after the former one, or else last.
        former = [beside] if beside is not None else former
        since = [source for source in present if all(self._after(source, other) for other in former)]
        ordered = sorted(since, key=lambda source: (self._messages[source].at, source[1]))
        turn = self._messages[ordered[0 if former else -1]].turn if ordered else value.turn
        return FormerMark(value.kind, None if now is None else now.ref, turn, "" if now is None else now.text)

    def _after(self, one: Source, other: Source) -> bool:
        # Sequence numbers order the messages of one session; only times order those of several.
        return one[1] > other[1] if one[0] == other[0] else self._messages[one].at > self._messages[other].at


NO_MARKS = Marks(IndexedValues(), lambda sources: {})


class FormerMarks:
    """Cache of the marks of one session and its user. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._revision: tuple[object, ...] | None = None
        self._indexed = IndexedValues()

    @classmethod
    def read(cls, reading: ReadContext) -> Marks:
        """Return the present marks; in a preview, the marks after its changes."""
        scopes = [session_scope(reading.session_id), *([user_scope(reading.user_id)] if reading.user_id else [])]
        with reading.database.read() as connection:
            if reading.imagined:
                withheld = _withheld(reading)
                imagined = [one for one in reading.imagined if one.ref not in withheld]
                statements = with_preview(_shown(connection, reading, scopes, imagined), imagined)
                return Marks(IndexedValues(former_values(statements)), partial(_messages, reading))
            key = ("former values", reading.database.id, reading.session_id, reading.user_id)
            indexed = reading.services.cached(key, cls)._catch_up(connection, reading, scopes)
            return Marks(indexed, partial(_messages, reading))

    def _catch_up(self, connection: Connection, reading: ReadContext, scopes: Sequence[str]) -> IndexedValues:
        revision = (*statements_revision(connection, scopes), reading.quarantine)
        with self._lock, collector_paused():
            if self._revision != revision:
                values = former_values(_shown(connection, reading, scopes))
                self._indexed, self._revision = IndexedValues(values), revision
            return self._indexed


def _shown(
    connection: Connection, reading: ReadContext, scopes: Sequence[str], imagined: Collection[Statement] = ()
) -> list[Statement]:
    """Return the statements without those in quarantine, whose words must not appear in a mark."""
    withheld = _withheld(reading)
    return [statement for statement in read_statements(connection, scopes, imagined) if statement.ref not in withheld]


def _withheld(reading: ReadContext) -> set[Ref]:
    """Return the facts and relations that are in quarantine."""
    facts = {Ref.of("fact", id) for id in reading.quarantine.facts}
    return facts | {Ref.of("relation", id) for id in reading.quarantine.relations}


def _messages(reading: ReadContext, sources: Iterable[Source]) -> dict[Source, DatedMessage]:
    of_session: defaultdict[str, list[int]] = defaultdict(list)
    for session, seq in sources:
        of_session[session].append(seq)
    if not of_session:
        return {}
    with reading.database.read() as connection:
        return {
            (session, message.seq): message
            for session, seqs in of_session.items()
            for message in read_dated(connection, session, reading.services.messages, seqs)
        }
