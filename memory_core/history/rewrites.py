"""What each condensing of a list of facts did to it: kept, merged, vanished, and what nobody had said.

Pure: event records in, values out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.events import EventRecord, FactsCondensed
from memory_core.history.facts import is_supported
from memory_core.history.slices.facts import WORDING, Facts
from memory_core.planning.facts import Fact

KINDS = (*WORDING, FactsCondensed.kind)
"""What `find_rewrites` needs of the log."""


@dataclass(frozen=True, slots=True)
class Line:
    """One fact in a loss diff."""

    id: int
    text: str
    """As it was then; empty where its words were erased since."""
    fact: Fact | None
    """As it is now; None if it was erased."""
    unsupported: bool = False
    """The rewrite says of it what the facts it stands for did not say."""

    @property
    def restored(self) -> bool:
        """Of what the rewrite put away: is it active again?"""
        return self.fact is not None and self.fact.state == "active"

    @property
    def replaced(self) -> bool:
        """Is it put away still, and not by a person?"""
        return self.fact is not None and self.fact.state == "superseded"


@dataclass(frozen=True, slots=True)
class Merged:
    """Several facts that became one."""

    sources: tuple[Line, ...]
    into: Line


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One condensing as a loss diff."""

    position: int
    """Of its event in the log."""
    turn: int
    at: float
    """Seconds since the epoch."""
    extractor: str
    before: int
    """Active facts before it, and after it."""
    after: int
    kept: tuple[Line, ...]
    merged: tuple[Merged, ...]
    vanished: tuple[Line, ...]
    new: tuple[Line, ...]
    """Facts of the shorter list that stand for none of the longer."""

    @property
    def put_away(self) -> tuple[Line, ...]:
        """What it took out of the list: merged into others, or vanished."""
        gone = [line for merged in self.merged for line in merged.sources if line.id != merged.into.id]
        return (*gone, *self.vanished)

    @property
    def made(self) -> tuple[Line, ...]:
        """What it put into the list."""
        kept = {line.id for line in self.kept}
        return (*(merged.into for merged in self.merged if merged.into.id not in kept), *self.new)

    @property
    def refused(self) -> bool:
        """Is nothing of it in force any more?"""
        return not any(line.restored for line in self.made) and not any(line.replaced for line in self.put_away)


def find_rewrites(
    records: Iterable[EventRecord], facts: Mapping[int, Fact], words: Callable[[str], str | None]
) -> list[Rewrite]:
    """Every condensing that still has a fact to show, newest first.

    `records` are those of `KINDS`, in any order; `words` is the content store, None where words were erased.
    """
    past = Facts()
    found: list[Rewrite] = []
    for record in sorted(records, key=lambda record: record.position):
        event = record.event
        past.apply(record)
        if isinstance(event, FactsCondensed):
            then = {id: words(fact.content) or "" for id, fact in past.by_id.items()}
            rewrite = _rewrite(record, event, then, facts)
            if any(line.fact for line in (*rewrite.kept, *rewrite.put_away, *rewrite.made)):
                found.append(rewrite)
    return found[::-1]


def _rewrite(record: EventRecord, event: FactsCondensed, then: Mapping[int, str], facts: Mapping[int, Fact]) -> Rewrite:
    def line(id: int) -> Line:
        return Line(id, then.get(id, ""), facts.get(id))

    def made(id: int, stands_for: Sequence[int]) -> Line:
        said = [then.get(source, "") for source in stands_for]
        plain = line(id)
        return replace(plain, unsupported=bool(plain.text) and all(said) and not is_supported(plain.text, said))

    longer = [*event.kept, *(id for sources, _ in event.merged for id in sources), *event.vanished]
    return Rewrite(
        position=record.position,
        turn=record.turn,
        at=record.at,
        extractor=event.extractor,
        before=event.before,
        after=event.after,
        kept=tuple(line(id) for id in event.kept),
        merged=tuple(Merged(tuple(line(id) for id in sources), made(into, sources)) for sources, into in event.merged),
        vanished=tuple(line(id) for id in event.vanished),
        new=tuple(made(id, longer) for id in event.new),
    )
