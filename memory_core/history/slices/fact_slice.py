"""Facts: words, state, version and sources of each."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from memory_core.events import (
    KINDS,
    Event,
    EventRecord,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactLabelled,
    FactPinned,
    FactsCondensed,
    FactsCurated,
    expand,
)
from memory_core.history.slices.states import state_at

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


@dataclass(slots=True)
class FactState:
    """Fact that was not erased."""

    record: EventRecord
    """`FactAdded` record of the fact: session, turn, time and position."""
    added: FactAdded
    content: str
    """Content hash of the fact's current words."""
    metadata: str | None
    """Content hash of the fact's current metadata; None without any."""
    slot: str | None
    tokens: int
    pinned: bool
    category: str
    topics: tuple[str, ...]
    state: str
    confirmed_at: float
    """Time, in seconds since 1970."""
    version: int = 1
    sources: set[Source] = field(default_factory=set)


class FactSlice:
    """Facts recorded in the logs applied so far: those of a session, or of a user across any number of sessions."""

    def __init__(self) -> None:
        self.by_id: dict[int, FactState] = {}
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
        for fact in self.by_id.values() if sources else ():
            fact.sources.difference_update(sources)

    def _add(self, record: EventRecord, event: FactAdded) -> None:
        self.by_id[event.fact] = FactState(
            record=record,
            added=event,
            content=event.content,
            metadata=event.metadata,
            slot=event.slot,
            tokens=event.tokens,
            pinned=event.pinned,
            category=event.category,
            topics=event.topics,
            state=event.state,
            confirmed_at=record.at if event.said_at is None else event.said_at,
            sources={(record.session_id, seq) for seq in expand(event.sources)},
        )
        self._words.setdefault(event.fact, []).append((record.position, FactWords(event.content, event.tokens)))

    def _change(self, fact: FactState, record: EventRecord) -> None:
        event = record.event
        if isinstance(event, FactErased):
            del self.by_id[event.fact]
            return
        if isinstance(event, FactConfirmed):
            times = (event.restores, event.said_at, record.at)
            fact.confirmed_at = next(at for at in times if at is not None)
            fact.sources |= {(record.session_id, seq) for seq in expand(event.sources)}
            return
        fact.version += 1  # every other event about one fact is a version of it
        if event.becomes is not None:
            fact.state = event.becomes
        elif isinstance(event, FactChanged):
            fact.content, fact.tokens, fact.metadata = event.after, event.tokens, event.metadata
            fact.slot = event.slot or fact.slot
        elif isinstance(event, FactPinned):
            fact.pinned = event.pinned
        elif isinstance(event, FactLabelled):
            fact.category, fact.topics = event.category, event.topics

    def _hand_on(self, event: FactsCondensed) -> None:
        """Give condensed facts the sources of the facts they replace, or of the whole list if they replace none."""
        longer = {*event.kept, *event.vanished, *(id for sources, _ in event.merged for id in sources)}
        for ids, into in [*event.merged, *((longer, id) for id in event.new)]:
            # A fact of a user may have been added in another session, whose log was not applied.
            if into in self.by_id:
                self.by_id[into].sources |= self._sources_of(ids)

    def _sources_of(self, ids: Iterable[int]) -> set[Source]:
        return {source for id in ids if id in self.by_id for source in self.by_id[id].sources}

    def _support(self, session_id: str, event: FactsCurated) -> None:
        for id, session, seqs in event.support:
            if id in self.by_id:
                # An undo takes back the sources that its set added; a redo (`again`) adds them once more.
                places = {(session or session_id, seq) for seq in expand(seqs)}
                sources = self.by_id[id].sources
                self.by_id[id].sources = (
                    sources - places if event.undoes is not None and not event.again else sources | places
                )
