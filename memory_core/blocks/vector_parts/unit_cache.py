"""Cache of a vector block's stored units within one process: their sizes, words, speakers and times.

The database is the truth: the cache compares counts at each use, and reads only new units.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from threading import Lock

from sqlalchemy import Connection

from memory_core.blocks.base import Item
from memory_core.blocks.vector_parts.units import UnitMetadata, kept_heard
from memory_core.messages import content_hash
from memory_core.models.protocols import Embedder, embedded
from memory_core.planning.boosts import Traits, episodes
from memory_core.process import collector_paused
from memory_core.store.message_rows import StoredMessage
from memory_core.store.vector_rows import Node, collections_of, count_removed, read_heard, turns_revision
from memory_core.text import stems
from memory_core.vectors.keyword import KeywordIndex
from memory_core.vectors.vector_index import EMPTY, Vector

Listen = Callable[[Connection, Sequence[Node]], list[UnitMetadata | None]]
"""Function that reads the metadata of units; None for one without messages."""

MAX_RENDERED = 4_096
"""Maximum number of rendered units kept: a few megabytes."""

NOTHING_HEARD = UnitMetadata("", 0.0, frozenset(), frozenset(), False, None, None, 0.0, "")


def text_number(text: str) -> int:
    """Return the number of a text (see `StoredUnits.said`), by a hash that differs between processes."""
    return hash(" ".join(stems(text)))


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


@dataclass(frozen=True, slots=True)
class StoredUnits:
    """All stored units of a block. Immutable once returned, except for the keyword index and the rendered items."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    """Units by id."""
    order: tuple[int, ...] = ()
    """Ids in conversation order."""
    places: Mapping[int, int] = field(default_factory=dict)
    """Index of each id in `order`."""
    traits: Mapping[int, Traits] = field(default_factory=dict)
    days: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    """Source unit and date line of each unit; one without a time has those of the unit before it in its episode."""
    names: frozenset[str] = frozenset()
    """Folded names of all speakers with a name."""
    last: UnitMetadata | None = None
    """Metadata of the last unit of `order`; None if there is none."""
    said: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Text number of each unit, by session: a hash of its stems, equal for equal texts."""
    keywords: KeywordIndex = field(default_factory=KeywordIndex)
    rendered: Rendered = field(default_factory=Rendered)

    def around(self, numbers: Collection[int], steps: int) -> list[int]:
        """Return the ids of these units and of those at most `steps` before or after them in conversation order."""
        places = [place for number in set(numbers) if (place := self.places.get(number)) is not None]
        near = {other for place in places for other in range(place - steps, place + steps + 1)}
        return [self.order[place] for place in sorted(near) if 0 <= place < len(self.order)]

    def following(self, number: int, steps: int) -> tuple[int, ...]:
        """Return the ids of the units after this one in its session, at most `steps`."""
        place, session = self.places[number] + 1, self.nodes[number].session_id
        return tuple(n for n in self.order[place : place + steps] if self.nodes[n].session_id == session)

    def text_number(self, number: int) -> int:
        """Return a unit's number in `said`."""
        return self.said[self.nodes[number].session_id][number]

    def with_units(self, new: Sequence[tuple[Node, UnitMetadata]]) -> "StoredUnits":
        """Return a copy with new units appended in conversation order; the caller adds them to the keyword index."""
        first = self.traits[self.order[-1]].episode if self.order else 0
        described = {
            node.number: Traits(
                node.number, first + episode, one.speakers, one.person, one.time, one.informativeness, node.tokens
            )
            for (node, one), episode in zip(new, self._episodes(new), strict=True)
        }
        traits = {**self.traits, **described}
        days, text_numbers = dict(self.days), dict(self.said)
        before = self.order[-1] if self.order else 0
        for node, one in new:
            if one.day:
                days[node.number] = node.number, one.day
            # A unit without a time is under the date line before it, up to the end of the episode.
            elif before in days and traits[before].episode == traits[node.number].episode:
                days[node.number] = days[before]
            before = node.number
        for session, several in groupby(new, key=lambda pair: pair[0].session_id):
            # Python's own hash differs between processes; it is compared within this one only.
            hashes = {node.number: hash(one.stems) for node, one in several}
            text_numbers[session] = {**text_numbers.get(session, {}), **hashes}
        return StoredUnits(
            nodes={**self.nodes, **{node.number: node for node, _ in new}},
            order=(*self.order, *described),
            places={**self.places, **{number: place for place, number in enumerate(described, len(self.order))}},
            traits=traits,
            days=days,
            names=self.names.union(*(one.names for _, one in new)),
            last=new[-1][1] if new else self.last,
            said=text_numbers,
            keywords=self.keywords,
            rendered=self.rendered,
        )

    def _episodes(self, new: Sequence[tuple[Node, UnitMetadata]]) -> list[int]:
        """Return the episode of each new unit, 0 for that of the last stored unit; no episode spans two sessions."""
        result: list[int] = []
        before = self.nodes[self.order[-1]].session_id if self.order else None
        last = self.last
        for session, several in groupby(new, key=lambda pair: pair[0].session_id):
            heard = [one for _, one in several]
            # Put the last cached unit in front, so that the pause after it counts; its own episode number is dropped.
            previous = [last] if last is not None and session == before else []
            counted = episodes([(one.when, one.time, one.stored) for one in (*previous, *heard)])[len(previous) :]
            begun = (result[-1] if result else 0) + (0 if previous or before is None else 1)
            result += [begun + episode for episode in counted]
            before, last = session, heard[-1]
        return result

    def imagining(self, new: Sequence[tuple[Node, UnitMetadata]]) -> "StoredUnits":
        """Return a copy with unsaved units appended. For previews."""
        # Ids of a preview are used again for other units, so its rendered units must not be shared.
        return replace(self.with_units(new), rendered=Rendered())


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
        self._stored = StoredUnits()
        self._revision = EMPTY
        """State of the database that `_stored` shows."""
        self._collections: set[str] = set()
        """Collections that have the vectors of the units."""

    def catch_up(self, connection: Connection, sessions: tuple[str, ...], block: str, listen: Listen) -> StoredUnits:
        """Return all stored units of these sessions, oldest session first, brought up to date with the database."""
        with self._lock, collector_paused():
            # With other sessions, the order of all units changes: begin again.
            if sessions != self._sessions:
                self._clear()
                self._sessions = sessions
            before = self._revision
            revision = turns_revision(connection, sessions, block, self._collections, before)
            if revision != before:
                rank = {session: place for place, session in enumerate(sessions)}

                def place(node: Node) -> tuple[int, int]:
                    return rank[node.session_id], node.seqs[0][0]

                # One more than were added, to notice that others were removed.
                limit = max(0, revision.count - before.count) + 1
                new, collections = read_heard(connection, sessions, block, after=before.last_number, limit=limit)
                end = place(self._stored.nodes[self._stored.order[-1]]) if self._stored.order else (0, 0)
                grew = before.count + len(new) == revision.count and all(place(node) >= end for node, _ in new)
                if not grew:  # some were removed, or belong between cached ones: begin again
                    self._clear()
                    new, collections = read_heard(connection, sessions, block)
                elif revision.deleted != before.deleted:  # vectors were moved to other collections
                    collections = {name for session in sessions for _, name in collections_of(connection, session)}
                new.sort(key=lambda pair: (*place(pair[0]), pair[0].number))
                heard = _heard(connection, new, listen)
                self._stored.keywords.add_stemmed({node.number: one.stems for node, one in heard})
                self._stored = self._stored.with_units(heard)
                self._collections |= collections
                self._revision = replace(revision, deleted=count_removed(connection, self._collections))
            return self._stored


def _heard(
    connection: Connection, new: Sequence[tuple[Node, str | None]], listen: Listen
) -> list[tuple[Node, UnitMetadata]]:
    """Return the units with their metadata: as stored, else parsed from their messages."""
    texts = kept_heard([text for _, text in new])
    missing = [node for (node, _), one in zip(new, texts, strict=True) if one is None]
    listened = dict(zip((node.number for node in missing), listen(connection, missing) if missing else (), strict=True))
    return [
        (node, one or listened.get(node.number) or NOTHING_HEARD) for (node, _), one in zip(new, texts, strict=True)
    ]


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
