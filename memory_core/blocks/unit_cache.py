"""Cache of a vector block's stored units within one process: their sizes, words, speakers and times.

The database is the truth: the cache compares counts at each use, and reads only new units.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from memory_core.blocks.base import Item
from memory_core.blocks.units import UnitMetadata, kept_heard
from memory_core.events import expand
from memory_core.messages import MessageRole, content_hash
from memory_core.models.protocols import Embedder, embedded
from memory_core.planning.retrieval_plan import UNWRITTEN, Traits, begins_anew
from memory_core.process import collector_paused
from memory_core.store.derived_files import DerivedFile
from memory_core.store.message_rows import StoredMessage
from memory_core.store.vector_rows import Node, collections_of, count_removed, read_heard, turns_revision
from memory_core.text import stems
from memory_core.vectors.keyword import KeywordIndex
from memory_core.vectors.vector_index import EMPTY, Revision, Vector, worth_keeping

Listen = Callable[[Connection, Sequence[Node]], list[UnitMetadata | None]]
"""Function that reads the metadata of units; None for one without messages."""

Made = TypeVar("Made")

MAX_MADE = 20_000
"""Maximum number of units kept as objects of each kind, some 10 MB; one dropped is made again from its row."""

MAX_RENDERED = 4_096
"""Maximum number of rendered units kept: a few megabytes."""

_USERS = frozenset({str(MessageRole.USER)}), frozenset[str](), True
"""Label of units whose speakers are users without a name."""

NOTHING_HEARD = UnitMetadata("", 0.0, frozenset(), frozenset(), False, None, None, 0.0, "")


def text_number(text: str) -> int:
    """Return the number of a text (see `Columns.texts`)."""
    return _hash(" ".join(stems(text)))


def _hash(text: str) -> int:
    # Python's own hash differs between processes, and these numbers are kept. Seven bytes: never negative as int64.
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest())


class Rendered:
    """Cache of rendered units, least recently used dropped first; units of other sessions are with their stored text.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: OrderedDict[tuple[Hashable, ...], tuple[Item, str]] = OrderedDict()

    def get(self, key: tuple[Hashable, ...]) -> tuple[Item, str] | None:
        with self._lock:
            result = self._items.get(key)
            if result is not None:
                self._items.move_to_end(key)
            return result

    def keep(self, key: tuple[Hashable, ...], item: Item, text: str = "") -> None:
        with self._lock:
            self._items[key] = item, text
            if len(self._items) > MAX_RENDERED:
                self._items.popitem(last=False)


class Labels:
    """Values that many units share, each by its number in a list, which only grows."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._codes: dict[Hashable, int] = {}

    def codes(self, values: Sequence[Hashable]) -> NDArray[np.int32]:
        """Return the number of each value; a new one gets the next number."""
        for value in dict.fromkeys(values):
            if value not in self._codes:
                self._codes[value] = len(self.values)
                self.values.append(value)
        return np.fromiter(map(self._codes.__getitem__, values), np.int32, len(values))


class UnitLabels:
    """Labels of the units of one cache, for each column that has some."""

    def __init__(self) -> None:
        self.sessions = Labels()
        self.shapes = Labels()
        """Sequence ranges, counted from the first number."""
        self.speakers = Labels()
        """Speakers, the names among them, and whether any is a person."""
        self.days = Labels()
        """Date lines; empty for a unit without a time."""

    def used(self, columns: "Columns") -> tuple["Columns", "UnitLabels"]:
        """Return the columns with labels of their own, without those of previews and of units that are gone."""
        labels, coded = UnitLabels(), {}
        for name, mine in vars(labels).items():
            values = vars(self)[name].values
            coded[name] = mine.codes([values[code] for code in getattr(columns, name).tolist()])
        return columns._replace(**coded), labels

    def to_json(self) -> dict[str, list[Any]]:
        """Return the labels as JSON values."""
        speakers = [[sorted(every), sorted(names), person] for every, names, person in self.speakers.values]
        lists = {"sessions": self.sessions, "shapes": self.shapes, "days": self.days}
        return {name: list(labels.values) for name, labels in lists.items()} | {"speakers": speakers}

    @classmethod
    def from_json(cls, values: Mapping[str, list[Any]]) -> "UnitLabels":
        labels = cls()
        labels.sessions.codes(values["sessions"])
        labels.shapes.codes([tuple(map(tuple, shape)) for shape in values["shapes"]])
        labels.days.codes(values["days"])
        labels.speakers.codes(
            [(frozenset(every), frozenset(names), person) for every, names, person in values["speakers"]]
        )
        return labels


class Columns(NamedTuple):
    """Units as arrays, a row each: objects for a hundred thousand would take ten times the memory."""

    numbers: NDArray[np.int64]
    sessions: NDArray[np.int32]
    first: NDArray[np.int64]
    """First sequence number."""
    shapes: NDArray[np.int32]
    tokens: NDArray[np.int64]
    turns: NDArray[np.int64]
    texts: NDArray[np.int64]
    """Text number: a hash of the stems, equal for equal texts."""
    informativeness: NDArray[np.float64]
    speakers: NDArray[np.int32]
    written: NDArray[np.int64]
    """Hash of the time as written; `UNWRITTEN` without one."""
    times: NDArray[np.float64]
    """NaN if unknown."""
    stored: NDArray[np.float64]
    days: NDArray[np.int32]

    @classmethod
    def of(cls, nodes: Sequence[Node], heard: Sequence[UnitMetadata], labels: UnitLabels) -> "Columns":
        """Return the columns of units with their metadata."""
        numbers, seqs, tokens, turns, sessions = zip(*nodes, strict=True) if nodes else ((),) * 5
        stems, informativeness, speakers, names, persons, written, times, stored, days = (
            zip(*heard, strict=True) if heard else ((),) * 9
        )
        first = [spans[0][0] for spans in seqs]
        shapes = [
            tuple((start - begin, end - begin) for start, end in spans)
            for spans, begin in zip(seqs, first, strict=True)
        ]
        return cls(
            numbers=np.array(numbers, np.int64),
            sessions=labels.sessions.codes(sessions),
            first=np.array(first, np.int64),
            shapes=labels.shapes.codes(shapes),
            tokens=np.array(tokens, np.int64),
            turns=np.array(turns, np.int64),
            texts=np.array([*map(_hash, stems)], np.int64),
            informativeness=np.array(informativeness, np.float64),
            speakers=labels.speakers.codes([*zip(speakers, names, persons, strict=True)]),
            written=np.array([UNWRITTEN if text is None else _hash(text) for text in written], np.int64),
            times=np.array(times, np.float64),  # None becomes NaN
            stored=np.array(stored, np.float64),
            days=labels.days.codes(days),
        )

    @classmethod
    def joined(cls, parts: Iterable["Columns"]) -> "Columns":
        """Return the rows of all parts, one part after another."""
        return cls._make(map(np.concatenate, zip(*parts, strict=True)))

    def sorted_by(self, order: NDArray[np.intp]) -> "Columns":
        """Return the rows in another order."""
        return Columns._make(column[order] for column in self)


class ByNumber(Mapping[int, Made]):
    """Units as objects by id, each made from its row when it is first asked for."""

    def __init__(
        self, places: Mapping[int, int], make: Callable[[int], Made], before: "ByNumber[Made] | None" = None
    ) -> None:
        self._places, self._make = places, make
        self._made: dict[int, Made] = before._made if before is not None else {}

    def __getitem__(self, number: int) -> Made:
        place = self._places[number]
        result = self._made.get(number)
        if result is None:
            result = self._make(place)
            if len(self._made) >= MAX_MADE:
                self._made.clear()
            self._made[number] = result
        return result

    def __contains__(self, number: object) -> bool:
        return number in self._places

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class StoredUnits:
    """All stored units of a block. Immutable once made, except for the keyword index and the rendered items."""

    def __init__(
        self,
        columns: Columns,
        labels: UnitLabels,
        keywords: KeywordIndex,
        before: "StoredUnits | None" = None,
    ) -> None:
        """With `before`, the units are those of it and more behind them.

        `keywords` is the index of their stems; whoever adds units adds theirs.
        """
        self.columns, self._labels = columns, labels
        self.order = columns.numbers
        """Ids in conversation order."""
        start = len(before.order) if before is not None else 0
        new = dict(zip(self.order[start:].tolist(), range(start, len(self.order)), strict=True))
        self.places: Mapping[int, int] = {**before.places, **new} if before is not None else new
        """Index of each id in `order`."""
        anew = begins_anew(columns.written, columns.times, columns.stored)
        anew[1:] |= columns.sessions[1:] != columns.sessions[:-1]  # no episode spans two sessions
        self._episodes = np.cumsum(anew)
        new_names = (labels.speakers.values[code][1] for code in np.unique(columns.speakers[start:]))
        self.names: frozenset[str] = (before.names if before is not None else frozenset()).union(*new_names)
        """Folded names of all speakers with a name."""
        self.keywords = keywords
        self.rendered: Rendered = before.rendered if before is not None else Rendered()
        self.nodes: ByNumber[Node] = ByNumber(self.places, self._node, before.nodes if before is not None else None)
        """Units by id."""
        self.traits: ByNumber[Traits] = ByNumber(
            self.places, self._traits, before.traits if before is not None else None
        )

    def _node(self, place: int) -> Node:
        columns = self.columns
        first = int(columns.first[place])
        return Node(
            int(columns.numbers[place]),
            tuple((first + start, first + end) for start, end in self._labels.shapes.values[columns.shapes[place]]),
            int(columns.tokens[place]),
            int(columns.turns[place]),
            self._labels.sessions.values[columns.sessions[place]],
        )

    def _traits(self, place: int) -> Traits:
        columns = self.columns
        speakers, _, person = self._labels.speakers.values[columns.speakers[place]]
        time = float(columns.times[place])
        return Traits(
            int(columns.numbers[place]),
            int(self._episodes[place]),
            speakers,
            person,
            None if math.isnan(time) else time,
            float(columns.informativeness[place]),
            int(columns.tokens[place]),
        )

    def around(self, numbers: Collection[int], steps: int) -> list[int]:
        """Return the ids of these units and of those at most `steps` before or after them in conversation order."""
        places = [place for number in set(numbers) if (place := self.places.get(number)) is not None]
        near = {other for place in places for other in range(place - steps, place + steps + 1)}
        return [int(self.order[place]) for place in sorted(near) if 0 <= place < len(self.order)]

    def following(self, number: int, steps: int) -> tuple[int, ...]:
        """Return the ids of the units after this one in its session, at most `steps`."""
        place, sessions = self.places[number], self.columns.sessions
        after = slice(place + 1, place + 1 + steps)
        return tuple(self.order[after][sessions[after] == sessions[place]].tolist())

    def answered_by(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the unit after each in its session that is not of users alone; units without one are missing."""
        columns, places = self.columns, self._places_of(numbers)
        by_users = np.array([speakers == _USERS for speakers in self._labels.speakers.values], dtype=bool)
        places = places[places + 1 < len(self.order)]
        after = places + 1
        may = (columns.sessions[after] == columns.sessions[places]) & ~by_users[columns.speakers[after]]
        return dict(zip(self.order[places[may]].tolist(), self.order[after[may]].tolist(), strict=True))

    def text_numbers(self, numbers: Sequence[int]) -> list[int]:
        """Return the number of each unit's text; see `text_number`."""
        result: list[int] = self.columns.texts[self._places_of(numbers)].tolist()
        return result

    def _places_of(self, numbers: Sequence[int]) -> NDArray[np.intp]:
        return np.fromiter(map(self.places.__getitem__, numbers), np.intp, len(numbers))

    def day(self, number: int) -> tuple[int, str] | None:
        """Return the date line above a unit, after the id of the unit that it is of; None if there is none.

        A unit without a time has the date line of the unit before it in its episode.
        """
        source = self._dated[self.places[number]]
        return None if source < 0 else (int(self.order[source]), self._labels.days.values[self.columns.days[source]])

    def has_days(self, session_id: str) -> bool:
        """Return whether any unit of a session has a date line."""
        return bool((self._dated[self.of(session_id)] >= 0).any())

    @cached_property
    def _dated(self) -> NDArray[np.intp]:
        """Place of the unit whose date line each unit has; negative if there is none."""
        has_day = np.array([bool(day) for day in self._labels.days.values], dtype=bool)[self.columns.days]
        sources = np.maximum.accumulate(np.where(has_day, np.arange(len(has_day)), -1))
        return np.where(self._episodes[sources] == self._episodes, sources, -1)

    def of(self, session_id: str) -> NDArray[np.intp]:
        """Return the places of the units that a session stored."""
        its = np.array([session in ("", session_id) for session in self._labels.sessions.values], dtype=bool)
        return np.flatnonzero(its[self.columns.sessions])

    def holding(self, session_id: str, seqs: Collection[int]) -> list[Node]:
        """Return the units of a session that have any of these messages."""
        places, wanted = self.of(session_id), np.array(sorted(seqs), np.int64)
        lasts = np.array([shape[-1][1] for shape in self._labels.shapes.values], np.int64)
        first = self.columns.first[places]
        # A unit may have some if the next wanted message from its first on is not behind its last.
        after = np.searchsorted(wanted, first + lasts[self.columns.shapes[places]], side="right")
        near = self.order[places[np.searchsorted(wanted, first) < after]].tolist()
        return [self.nodes[number] for number in near if not set(seqs).isdisjoint(expand(self.nodes[number].seqs))]

    def with_units(self, new: Columns) -> "StoredUnits":
        """Return a copy with new units appended; the caller adds them to the keyword index."""
        return StoredUnits(Columns.joined([self.columns, new]), self._labels, self.keywords, self)

    def imagining(self, new: Sequence[tuple[Node, UnitMetadata]]) -> "StoredUnits":
        """Return a copy with unsaved units appended. For previews."""
        result = self.with_units(Columns.of([node for node, _ in new], [one for _, one in new], self._labels))
        # Ids of a preview are used again for other units, so what is made of these must not be shared.
        result.rendered = Rendered()
        result.nodes, result.traits = ByNumber(result.places, result._node), ByNumber(result.places, result._traits)
        return result


class UnitCache:
    """Cache of a block's stored units, of one session or of all of a user's sessions that share it. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sessions: tuple[str, ...] = ()
        self._clear()

    def clear(self) -> None:
        """Empty the cache; the next use reads the database again."""
        with self._lock:
            self._clear()

    def _clear(self) -> None:
        self._labels = UnitLabels()
        self._stored = StoredUnits(Columns.of((), (), self._labels), self._labels, KeywordIndex())
        self._revision = EMPTY
        """State of the database that `_stored` shows."""
        self._kept = 0
        """Number of units in the file."""
        self._fresh = True
        """True until it is decided whether this process makes a file of what it found."""
        self._collections: set[str] = set()
        """Collections that have the vectors of the units."""

    def catch_up(
        self,
        connection: Connection,
        sessions: tuple[str, ...],
        block: str,
        listen: Listen,
        file: DerivedFile | None = None,
    ) -> StoredUnits:
        """Return all stored units of these sessions, oldest session first, brought up to date with the database.

        `file` is what another process may have kept of them.
        """
        with self._lock, collector_paused():
            # With other sessions, the order of all units changes: begin again.
            if sessions != self._sessions:
                self._clear()
                self._sessions = sessions
            if file is not None and self._revision == EMPTY:
                self._load(file)
            before = self._revision
            revision = turns_revision(connection, sessions, block, self._collections, before)
            if revision != before:
                # One more than were added, to notice that others were removed.
                limit = max(0, revision.count - before.count) + 1
                collections = self._append(connection, block, listen, limit) if before.count else None
                # Some were removed, or belong between cached ones, or nothing is cached: begin again.
                if collections is None or len(self._stored.order) != revision.count:
                    self._clear()
                    collections = self._append(connection, block, listen) or set()
                elif revision.deleted != before.deleted:  # vectors were moved to other collections
                    collections = {name for session in sessions for _, name in collections_of(connection, session)}
                self._collections |= collections
                self._revision = replace(revision, deleted=count_removed(connection, self._collections))
            return self._stored

    def _load(self, file: DerivedFile) -> None:
        loaded = file.load()
        if loaded is None:
            return
        self._revision, notes, arrays = loaded
        self._kept = self._revision.count
        self._collections = set(notes["collections"])
        self._labels = UnitLabels.from_json(notes["labels"])
        columns = Columns(*(arrays[name] for name in Columns._fields))
        self._stored = StoredUnits(columns, self._labels, KeywordIndex.loaded(arrays))

    def keep(self, file: DerivedFile, block: str) -> None:
        """Keep the units in a file for the next process, if many are in none."""
        with self._lock:
            stored, revision, collections = self._stored, self._revision, sorted(self._collections)
            if not worth_keeping(revision.count, self._kept, begun=self._fresh):
                self._fresh = False
                return
            self._kept, self._fresh = revision.count, False
            columns, labels = self._labels.used(stored.columns)
            notes = {"labels": labels.to_json(), "collections": collections}
            arrays = {**columns._asdict(), **stored.keywords.arrays()}

        def now(connection: Connection) -> Revision:
            return turns_revision(connection, (file.session_id,), block, collections)

        file.keep(revision, notes, arrays, now)

    def _append(self, connection: Connection, block: str, listen: Listen, limit: int | None = None) -> set[str] | None:
        """Add the units with higher ids than the cached ones; return their collections.

        Return None, with only the keyword index changed, if any belongs before a cached one.
        """
        labels, collections = self._labels, set[str]()
        parts = [Columns.of((), (), labels)]
        for nodes, texts, names in read_heard(
            connection, self._sessions, block, after=self._revision.last_number, limit=limit
        ):
            heard = _heard(connection, nodes, texts, listen)
            self._stored.keywords.add_stemmed({node.number: one.stems for node, one in zip(nodes, heard, strict=True)})
            parts.append(Columns.of(nodes, heard, labels))
            collections |= names
        codes = labels.sessions.codes(self._sessions)
        ranks = np.empty(len(labels.sessions.values), np.int64)
        ranks[codes] = np.arange(len(codes))
        new = Columns.joined(parts)
        new = new.sorted_by(np.lexsort((new.numbers, new.first, ranks[new.sessions])))
        last = self._stored.columns
        if len(last.numbers) and len(new.numbers):
            end, begin = ((ranks[columns.sessions[at]], columns.first[at]) for columns, at in ((last, -1), (new, 0)))
            if begin < end:
                return None
        self._stored = self._stored.with_units(new)
        return collections


def _heard(
    connection: Connection, nodes: Sequence[Node], texts: Sequence[str | None], listen: Listen
) -> list[UnitMetadata]:
    """Return the metadata of units: as stored, else parsed from their messages."""
    heard = kept_heard(texts)
    missing = [node for node, one in zip(nodes, heard, strict=True) if one is None]
    listened = dict(zip((node.number for node in missing), listen(connection, missing) if missing else (), strict=True))
    return [one or listened.get(node.number) or NOTHING_HEARD for node, one in zip(nodes, heard, strict=True)]


# -- vectors of units that are not stored yet, such as those of the queue, for searching them like stored ones


PendingUnits = Mapping[int, Sequence[StoredMessage]]
"""Units by id, in conversation order, after all stored ones. Their ids are negative, or above any stored id."""


class PendingVectors:
    """Cache of the vectors of unsaved units, each embedded when first searched.

    Thread-safe. Only the vectors of the last search are kept.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vectors: dict[tuple[str, str], Vector] = {}

    def of(self, words: Sequence[str], embedder: Embedder) -> list[Vector]:
        keys = [(embedder.id, content_hash(text)) for text in words]
        with self._lock:
            missing = {key: text for key, text in zip(keys, words, strict=True) if key not in self._vectors}
            vectors = dict(self._vectors)
            if missing:
                vectors.update(zip(missing, embedded(embedder, list(missing.values())), strict=True))
            self._vectors = {key: vectors[key] for key in keys}
        return [vectors[key] for key in keys]

    def clear(self) -> None:
        with self._lock:
            self._vectors = {}
