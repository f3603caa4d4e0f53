"""Stores of an attached agent at one position of the log, as its spans report them. Pure.

Spans may arrive late: operations are applied in the order of their end, so that of two writes of a record the one
that ended last counts. A failed operation changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from memory_core.events import Event, EventRecord, MemoryDeleted, MemorySearched, MemoryStoreChanged, MemoryWritten

UNATTRIBUTED = "(unattributed)"
"""Name shown for the store of operations whose spans name none."""


@dataclass(frozen=True, slots=True)
class RecordVersion:
    record: EventRecord
    words: str | None
    """Hash of the text; None if the span left the text out."""
    tokens: int

    @property
    def how(self) -> str:
        """Kind of the write: `create`, `update` or `upsert`."""
        return str(getattr(self.record.event, "how", ""))


@dataclass(slots=True)
class StoreRecord:
    store: str
    id: str | None
    """Id of the record in the spans; None if they give none."""
    versions: list[RecordVersion] = field(default_factory=list)
    """Writes of the record in the order in which they ended; empty if only searches returned it."""
    found: list[EventRecord] = field(default_factory=list)
    """Searches that returned the record."""
    found_words: str | None = None
    """Hash of the record's words in the search that first returned it, if no write was recorded before."""
    deleted: EventRecord | None = None

    @property
    def words(self) -> str | None:
        """Hash of the record's words; None if no span contained them."""
        return self.versions[-1].words if self.versions else self.found_words

    @property
    def last_write(self) -> EventRecord | None:
        return self.versions[-1].record if self.versions else None


@dataclass(slots=True)
class Store:
    name: str
    records: list[StoreRecord] = field(default_factory=list)
    """Records in the order of first appearance, deleted ones included."""
    searches: list[EventRecord] = field(default_factory=list)
    deleted: EventRecord | None = None
    """Event that deleted the whole store; None if the store exists."""

    @property
    def held(self) -> list[StoreRecord]:
        """Records that were not deleted."""
        return [record for record in self.records if record.deleted is None]

    @property
    def never_found(self) -> list[StoreRecord]:
        """Existing records that no search returned."""
        return [record for record in self.held if not record.found]

    @property
    def unanswered(self) -> list[EventRecord]:
        """Searches that found nothing."""
        return [search for search in self.searches if found_nothing(search.event)]


def is_store_search(event: Event) -> TypeGuard[MemorySearched]:
    return isinstance(event, MemorySearched)


def found_nothing(event: Any) -> bool:
    """Return whether a search is known to have found nothing; False if its span reports no count."""
    return is_store_search(event) and event.error is None and event.count == 0


def store_name(event: Any) -> str:
    """Return the name to show for the store of a memory operation."""
    name: str | None = event.store
    return name or UNATTRIBUTED


def stores_of(records: Iterable[EventRecord]) -> Mapping[str, Store]:
    """Return the stores after these records of a session's log, by name."""
    done = [record for record in records if record.event.family == "stores"]
    folding = _Folding()
    for record in sorted(done, key=lambda record: (record.event.finished, record.position)):  # type: ignore[attr-defined]
        folding.apply(record)
    return folding.stores


class _Folding:
    def __init__(self) -> None:
        self.stores: dict[str, Store] = {}
        self._by_id: dict[tuple[str, str], StoreRecord] = {}
        self._by_words: dict[tuple[str, str], StoreRecord] = {}

    def apply(self, record: EventRecord) -> None:
        event: Any = record.event
        store = self.stores.setdefault(name := store_name(event), Store(name))
        if is_store_search(record.event):
            # Listed even if it failed; only its results are not applied then.
            store.searches.append(record)
        if event.error is None:
            _APPLY[type(event)](self, store, record, event)

    def written(self, store: Store, record: EventRecord, event: MemoryWritten) -> None:
        # A write shows that a deleted store exists again.
        store.deleted = None
        for id, words, tokens in event.records:
            self._write(store, id, RecordVersion(record, words, tokens))

    def searched(self, store: Store, record: EventRecord, event: MemorySearched) -> None:
        for id, words, _, _ in event.results:
            self._find(store, id, words, record)

    def removed(self, store: Store, record: EventRecord, event: MemoryDeleted) -> None:
        # A deletion without ids emptied the store.
        wanted = set(event.records)
        for stored in store.held:
            if not wanted or stored.id in wanted:
                stored.deleted = record

    def changed(self, store: Store, record: EventRecord, event: MemoryStoreChanged) -> None:
        # A store that is created again under its name is no longer deleted.
        store.deleted = record if event.change == "deleted" else None
        for stored in store.held if event.change == "deleted" else ():
            stored.deleted = record

    def _write(self, store: Store, id: str | None, version: RecordVersion) -> None:
        # Without an id no later write can be recognised as one of the same record.
        written = self._by_id.get((store.name, id)) if id is not None else None
        if written is None:
            written = self._new(store, id)
        written.versions.append(version)
        written.deleted = None
        if version.words is not None:
            # A found record without an id is matched with the latest record of these words.
            self._by_words[store.name, version.words] = written

    def _find(self, store: Store, id: str | None, words: str | None, search: EventRecord) -> None:
        """Add a search to the record with this id or, without an id, to the one with identical words."""
        record = self._by_id.get((store.name, id)) if id is not None else self._by_words.get((store.name, words or ""))
        if record is None:
            if id is None:  # without an id it cannot be matched with an earlier search
                return
            record = self._new(store, id)
            record.found_words = words
        record.found.append(search)

    def _new(self, store: Store, id: str | None) -> StoreRecord:
        made = StoreRecord(store.name, id)
        store.records.append(made)
        if id is not None:
            self._by_id[store.name, id] = made
        return made


_APPLY: dict[type[Event], Callable[[_Folding, Store, EventRecord, Any], None]] = {
    MemoryWritten: _Folding.written,
    MemorySearched: _Folding.searched,
    MemoryDeleted: _Folding.removed,
    MemoryStoreChanged: _Folding.changed,
}
