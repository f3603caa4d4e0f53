"""Facts: words, state, version and sources of each."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeGuard

from memory_core.events import (
    KINDS,
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactsCondensed,
    FactsCurated,
    expand,
)
from memory_core.history.slices.states import state_at
from memory_core.planning.fact_merging import Fact

HANDLED = frozenset(
    {FactsCondensed, FactsCurated, *(event for event in KINDS.values() if "fact" in event.__dataclass_fields__)}
)

Source = tuple[str, int]
"""Session id and sequence number of a message."""

WORDING = (FactAdded.kind, FactChanged.kind)
"""Events that record the words of facts."""

CONDENSING = (FactsCondensed.kind,)
"""Events that record how a list of facts was condensed."""


def adds_fact(event: Event) -> TypeGuard[FactAdded]:
    return isinstance(event, FactAdded)


def rewords_fact(event: Event) -> TypeGuard[FactChanged]:
    return isinstance(event, FactChanged)


def decides_on_fact(event: Event) -> TypeGuard[FactDecided]:
    return isinstance(event, FactDecided)


def condenses(event: Event) -> TypeGuard[FactsCondensed]:
    return isinstance(event, FactsCondensed)


def wordings(records: Iterable[EventRecord]) -> set[str]:
    """Return content hashes of all wordings in records of `WORDING`."""
    events = [record.event for record in records]
    added = {event.content for event in events if isinstance(event, FactAdded)}
    return added | {event.after for event in events if isinstance(event, FactChanged)}


@dataclass(frozen=True, slots=True)
class FactWords:
    """A fact's words at one position of the log."""

    content: str
    """Content hash."""
    tokens: int | None
    """Size in tokens; None if unknown without counting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFact(Fact):
    """Fact at a position of the log, with content hashes as `text` and `key`; no event names its scope."""

    record: EventRecord
    """`FactAdded` record of the fact."""
    metadata_hash: str | None
    """Content hash of the metadata; `metadata` itself is empty."""

    @property
    def added(self) -> FactAdded:
        assert isinstance(self.record.event, FactAdded)
        return self.record.event

    @property
    def content(self) -> str:
        """Content hash of the fact's current words."""
        return self.text

    def worded(self, words: Callable[[str], str | None]) -> Fact:
        """Return the fact with its words, read by hash; erased ones are empty."""
        values = {value.name: getattr(self, value.name) for value in fields(Fact)}
        values["text"] = words(self.text) or ""
        values["key"] = words(self.key) if self.key is not None else None
        values["metadata"] = json.loads(words(self.metadata_hash) or "{}") if self.metadata_hash is not None else {}
        return Fact(**values)


_RECORDED = {value.name for value in fields(Fact)} & FactAdded.__dataclass_fields__.keys() - {"sources", "metadata"}
"""Values of a fact that the event of its addition has under the same names."""


class FactSlice:
    """Facts recorded in the logs applied so far: those of a session, or of a user across any number of sessions."""

    def __init__(self) -> None:
        self.by_id: dict[int, PastFact] = {}
        """Facts in the order in which they were added."""
        self._words: dict[int, list[tuple[int, FactWords]]] = {}
        """Words of each fact by the position from which they applied, erased facts included."""

    def apply(self, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactChanged):  # also of a fact that another session's log records
            self._words.setdefault(event.fact, []).append((record.position, FactWords(event.after, event.tokens)))
        if isinstance(event, FactAdded):
            self._add(record, event)
        elif isinstance(event, FactsCondensed):
            self._hand_on(event)
        elif isinstance(event, FactsCurated):
            self._support(record.session_id, event)
        elif not isinstance(event, FactDecided) and (known_state := self.by_id.get(getattr(event, "fact", None) or 0)):
            self._change(known_state, record)

    @property
    def ever_worded(self) -> Mapping[int, Sequence[tuple[int, FactWords]]]:
        """Words of each fact by the position from which they applied, by id; erased facts included."""
        return self._words

    def words(self, id: int, position: int) -> FactWords | None:
        """Return the words of a fact at a log position."""
        return state_at(self._words.get(id, []), position)

    def reworded_after(self, id: int, position: int) -> bool:
        """Return whether the fact was reworded after a position."""
        states = self._words.get(id, [])
        return bool(states) and states[-1][0] > position

    def forget(self, sources: Collection[Source]) -> None:
        """Remove these messages from the sources of all facts."""
        for id in self.by_id if sources else ():
            self._lose(id, sources)

    def _add(self, record: EventRecord, event: FactAdded) -> None:
        self.by_id[event.fact] = PastFact(
            **{name: getattr(event, name) for name in _RECORDED},
            id=event.fact,
            scope="",
            text=event.content,
            turn=record.turn,
            created_at=record.at,
            confirmed_at=record.at if event.said_at is None else event.said_at,
            updated_at=record.at,
            version=1,
            sources=tuple((record.session_id, seq) for seq in expand(event.sources)),
            record=record,
            metadata_hash=event.metadata,
        )
        self._words.setdefault(event.fact, []).append((record.position, FactWords(event.content, event.tokens)))

    def _change(self, fact: PastFact, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactErased):
            del self.by_id[event.fact]
            return
        if isinstance(event, FactConfirmed):
            confirmed_at = next(at for at in (event.restores, event.said_at, record.at) if at is not None)
            sources = ((record.session_id, seq) for seq in expand(event.sources))
            self._gain(fact.id, sources, confirmed_at=confirmed_at)
            return
        # Every other event about one fact is a version of it.
        values = {name: getattr(event, name) for name in event.sets}
        if event.becomes is not None:
            values["state"] = event.becomes
        if isinstance(event, FactChanged):
            values |= {"text": event.after, "tokens": event.tokens, "metadata_hash": event.metadata}
            values["slot"] = event.slot or fact.slot
        self.by_id[fact.id] = replace(fact, **values, version=fact.version + 1, updated_at=record.at)

    def _gain(self, id: int, sources: Iterable[Source], **values: Any) -> None:
        """Add sources to a fact, if the log that was applied has the fact; `values` are set as well."""
        if (fact := self.by_id.get(id)) is not None:
            self.by_id[id] = replace(fact, sources=tuple(sorted({*fact.sources, *sources})), **values)

    def _lose(self, id: int, sources: Collection[Source]) -> None:
        """Remove sources from a fact, if the log that was applied has the fact."""
        if (fact := self.by_id.get(id)) is not None and any(source in sources for source in fact.sources):
            rest = tuple(source for source in fact.sources if source not in sources)
            self.by_id[id] = replace(fact, sources=rest)

    def _hand_on(self, event: FactsCondensed) -> None:
        """Give condensed facts the sources of the facts they replace, or of the whole list if they replace none."""
        longer = {*event.kept, *event.vanished, *(id for sources, _ in event.merged for id in sources)}
        for ids, into in [*event.merged, *((longer, id) for id in event.new)]:
            # A fact of a user may have been added in another session, whose log was not applied.
            self._gain(into, [source for id in ids if id in self.by_id for source in self.by_id[id].sources])

    def _support(self, session_id: str, event: FactsCurated) -> None:
        # An undo takes back the sources that its set added; a redo (`again`) adds them once more.
        taken_back = event.undoes is not None and not event.again
        for id, session, seqs in event.support:
            places = {(session or session_id, seq) for seq in expand(seqs)}
            if taken_back:
                self._lose(id, places)
            else:
                self._gain(id, places)
