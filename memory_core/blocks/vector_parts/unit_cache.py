"""A vector block's stored units as one process remembers them: which there are, their words, who speaks in them, when.

The database is the truth. A shelf catches up with it before it is used, and reads only what is new.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from sqlalchemy import Connection

from memory_core.blocks.base import Item
from memory_core.blocks.vector_parts.units import UnitMetadata, kept_heard
from memory_core.planning.boosts import Traits, episodes
from memory_core.process import collector_paused
from memory_core.store.vectors import Node, count_nodes, read_heard
from memory_core.vectors.keyword import KeywordIndex

Listen = Callable[[Connection, Sequence[Node]], list[UnitMetadata | None]]
"""What each unit says of itself; None where its messages are gone."""

MAX_RENDERED = 4_096
"""Units kept as they stand in a prompt: a few megabytes."""

NOTHING_HEARD = UnitMetadata((), 0.0, frozenset(), frozenset(), False, None, None, 0.0, "")


class Rendered:
    """Units as they stand in a prompt, the ones used last. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: OrderedDict[tuple[Hashable, ...], Item] = OrderedDict()

    def get(self, key: tuple[Hashable, ...]) -> Item | None:
        with self._lock:
            item = self._items.get(key)
            if item is not None:
                self._items.move_to_end(key)
            return item

    def keep(self, key: tuple[Hashable, ...], item: Item) -> None:
        with self._lock:
            self._items[key] = item
            if len(self._items) > MAX_RENDERED:
                self._items.popitem(last=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """All stored units of a block. Not changed once it is handed out, but for the index and what was rendered."""

    nodes: Mapping[int, Node] = field(default_factory=dict)
    """By number."""
    order: tuple[int, ...] = ()
    """Numbers in the order in which they were said."""
    places: Mapping[int, int] = field(default_factory=dict)
    """Where each stands in that order."""
    traits: Mapping[int, Traits] = field(default_factory=dict)
    days: Mapping[int, tuple[int, str]] = field(default_factory=dict)
    """The date line of each unit of an episode that came with a time, and the unit that came with it: it holds for what
    was said after it in the same episode."""
    names: frozenset[str] = frozenset()
    """Of everybody who speaks under a name, folded."""
    last: UnitMetadata | None = None
    """The last unit of `order`."""
    keywords: KeywordIndex = field(default_factory=KeywordIndex)
    rendered: Rendered = field(default_factory=Rendered)

    def around(self, numbers: Collection[int], steps: int) -> list[int]:
        """The units within so many places before or after these in the order in which they were said, these too."""
        places = [place for number in set(numbers) if (place := self.places.get(number)) is not None]
        near = {other for place in places for other in range(place - steps, place + steps + 1)}
        return [self.order[place] for place in sorted(near) if 0 <= place < len(self.order)]

    def with_units(self, new: Sequence[tuple[Node, UnitMetadata]]) -> "Stored":
        """These and new ones, which were said after them; the keyword index is its owner's to fill."""
        known = [self.last] if self.last is not None else []
        heard = [*known, *(one for _, one in new)]
        found = episodes([(one.when, one.time, one.stored) for one in heard])[len(known) :]
        first = self.traits[self.order[-1]].episode if self.order else 0
        described = {
            node.number: Traits(
                number=node.number,
                episode=first + episode,
                speakers=one.speakers,
                person=one.person,
                time=one.time,
                informativeness=one.informativeness,
                tokens=node.tokens,
            )
            for (node, one), episode in zip(new, found, strict=True)
        }
        traits = {**self.traits, **described}
        days = dict(self.days)
        before = self.order[-1] if self.order else 0
        for node, one in new:
            if one.day:
                days[node.number] = node.number, one.day
            elif before in days and traits[before].episode == traits[node.number].episode:
                days[node.number] = days[before]
            before = node.number
        return Stored(
            nodes={**self.nodes, **{node.number: node for node, _ in new}},
            order=(*self.order, *(node.number for node, _ in new)),
            places={**self.places, **{node.number: place for place, (node, _) in enumerate(new, len(self.order))}},
            traits=traits,
            days=days,
            names=self.names.union(*(one.names for _, one in new)),
            last=new[-1][1] if new else self.last,
            keywords=self.keywords,
            rendered=self.rendered,
        )

    def imagining(self, new: Sequence[tuple[Node, UnitMetadata]]) -> "Stored":
        """These and units that are not stored yet, said after them: for looking only."""
        return replace(self.with_units(new), rendered=Rendered())


class UnitCache:
    """The stored units of one block of one session. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._stored = Stored()

    def clear(self) -> None:
        """Remember nothing; the next look reads the database again."""
        with self._lock:
            self._stored = Stored()

    def catch_up(self, connection: Connection, session_id: str, block: str, listen: Listen) -> Stored:
        """All stored units as the database has them now."""
        with self._lock, collector_paused():
            count, last = count_nodes(connection, session_id, block)
            known = max(self._stored.nodes, default=0)
            if (count, last) != (len(self._stored.nodes), known):
                new = read_heard(connection, session_id, block, after=known)
                end = self._stored.nodes[self._stored.order[-1]].seqs[0][0] if self._stored.order else 0
                grew = len(self._stored.nodes) + len(new) == count and all(node.seqs[0][0] >= end for node, _ in new)
                if not grew:  # some were removed, or belong between those that are known: begin again
                    self._stored, new = Stored(), read_heard(connection, session_id, block)
                new.sort(key=lambda pair: (pair[0].seqs[0][0], pair[0].number))
                found = _heard(connection, new, listen)
                self._stored.keywords.add_all({node.number: one.stems for node, one in found})
                self._stored = self._stored.with_units(found)
            return self._stored


def _heard(
    connection: Connection, new: Sequence[tuple[Node, str | None]], listen: Listen
) -> list[tuple[Node, UnitMetadata]]:
    """What units say of themselves: as it was kept, else out of their messages."""
    kept = kept_heard([text for _, text in new])
    missing = [node for (node, _), one in zip(new, kept, strict=True) if one is None]
    listened = dict(zip((node.number for node in missing), listen(connection, missing) if missing else (), strict=True))
    return [(node, one or listened.get(node.number) or NOTHING_HEARD) for (node, _), one in zip(new, kept, strict=True)]
