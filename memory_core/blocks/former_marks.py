"""Marks beside messages, facts, relations and sentences of a prompt that state a former value.

Marks are computed from the facts and relations of the session and its user, and cached until any of these changes.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from memory_core.store.former_rows import read_statements, statements_revision
from memory_core.store.message_rows import DatedMessage, read_dated
from memory_core.store.writing import session_scope, user_scope
from memory_core.text import stem_set


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks of former values: by message, by fact, and by value for the sentences of summaries."""

    messages: Mapping[Source, FormerMark] = field(default_factory=dict)
    facts: Mapping[int, FormerMark] = field(default_factory=dict)
    """Marks of active facts that a later one contradicts, or that say what a relation or a fact of another block no
    longer does; by fact id. Superseded facts are in no prompt."""
    relations: Mapping[int, FormerMark] = field(default_factory=dict)
    """Marks of active relations that say what a fact no longer does, by relation id."""
    later: Mapping[int, int] = field(default_factory=dict)
    """Id of the contradicting fact, by the id of the marked fact."""
    values: Sequence[FormerValue] = ()
    """All former values in the order in which they were replaced, for sentences of summaries."""
    mark: Callable[[FormerValue], FormerMark] | None = None
    """Function that returns the mark of one of these values: few of thousands are ever asked for."""
    by_stem: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Places in `values` by a stem of the whole former wording, which a sentence that repeats it has."""

    def of_sentence(self, sentence: str) -> FormerMark | None:
        """Return the mark for a summary's sentence that repeats a former value; None for any other sentence."""
        has = stem_set(sentence)
        places = (place for stem in has for place in self.by_stem.get(stem, ()))
        # The latest of them counts.
        last = max((place for place in places if self.values[place].repeated_in(has)), default=None)
        return None if last is None or self.mark is None else self.mark(self.values[last])


class FormerMarks:
    """Cache of the marks of one session and its user. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._revision: tuple[object, ...] | None = None
        self._marks = Marks()

    @classmethod
    def read(cls, reading: ReadContext) -> Marks:
        """Return the present marks; in a preview, the marks after its changes."""
        scopes = [session_scope(reading.session_id), *([user_scope(reading.user_id)] if reading.user_id else [])]
        with reading.database.read() as connection:
            if reading.imagined:
                withheld = _withheld(reading)
                imagined = [one for one in reading.imagined if one.ref not in withheld]
                statements = with_preview(_shown(connection, reading, scopes, imagined), imagined)
                return _marks(connection, reading, statements)
            key = ("former values", reading.database.id, reading.session_id, reading.user_id)
            return reading.services.cached(key, cls)._catch_up(connection, reading, scopes)

    def _catch_up(self, connection: Connection, reading: ReadContext, scopes: Sequence[str]) -> Marks:
        revision = (*statements_revision(connection, scopes), reading.quarantine)
        with self._lock:
            if self._revision != revision:
                marks = _marks(connection, reading, _shown(connection, reading, scopes))
                self._marks, self._revision = marks, revision
            return self._marks


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


def _marks(connection: Connection, reading: ReadContext, statements: Iterable[Statement]) -> Marks:
    """Return the marks of the messages and facts that state a former value."""
    values = former_values(statements)
    if not values:
        return Marks()
    # 1. Source messages of the former values; and those of the present values, whose turn a mark names.
    of_message: defaultdict[Source, list[FormerValue]] = defaultdict(list)
    for value in values:
        for source in value.of.sources:
            of_message[source].append(value)
    later = {source for value in values if value.now is not None for source in value.now.sources}
    messages = _messages(connection, reading, {*of_message, *later})
    words_of = {source: stem_set(message_text(dated.message)) for source, dated in messages.items()}

    def said_after(one: Source, other: Source) -> bool:
        # Sequence numbers order the messages of one session; only times order those of several.
        return one[1] > other[1] if one[0] == other[0] else messages[one].at > messages[other].at

    def mark(value: FormerValue, beside: Source | None = None) -> FormerMark:
        now = value.now
        present = [source for source in (now.sources if now else ()) if value.replaced_in(words_of.get(source))]
        former = [source for source in value.of.sources if value.said_in(words_of.get(source, ()))]
        # A value may come back: what counts is when it was first said after the former one, or else last.
        former = [beside] if beside is not None else former
        since = [source for source in present if all(said_after(source, other) for other in former)]
        ordered = sorted(since, key=lambda source: (messages[source].at, source[1]))
        turn = messages[ordered[0 if former else -1]].turn if ordered else value.turn
        return FormerMark(value.kind, None if now is None else now.ref, turn, "" if now is None else now.text)

    by_stem: defaultdict[str, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        if value.whole:
            by_stem[max(value.whole, key=len)].append(place)  # long words are rare ones
    # 2. Only messages whose words state the former value are marked: a fact's sources include all that confirmed it.
    return Marks(
        messages={
            source: mark(last, source)
            for source, several in of_message.items()
            if source in words_of and (last := mark_for(several, words_of[source])) is not None
        },
        facts={
            value.of.ref.number: replace(mark(value), now=None, words="") for value in values if value.kind == "later"
        }
        | {v.of.ref.number: mark(v) for v in values if v.stated_still and v.of.ref.kind == "fact"},
        relations={v.of.ref.number: mark(v) for v in values if v.stated_still and v.of.ref.kind == "relation"},
        later={
            value.of.ref.number: value.now.ref.number
            for value in values
            if value.kind == "later" and value.now is not None and value.now.ref.kind == "fact"
        },
        values=values,
        mark=mark,
        by_stem=by_stem,
    )


def _messages(connection: Connection, reading: ReadContext, sources: set[Source]) -> dict[Source, DatedMessage]:
    """Return messages by session id and sequence number; deleted ones are missing."""
    of_session: defaultdict[str, list[int]] = defaultdict(list)
    for session, seq in sources:
        of_session[session].append(seq)
    return {
        (session, message.seq): message
        for session, seqs in of_session.items()
        for message in read_dated(connection, session, reading.services.messages, seqs)
    }
