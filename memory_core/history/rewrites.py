"""Loss diff of each condensing of a list of facts: facts kept, merged, lost, and added without support.

Pure: event records in, values out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.events import EventRecord, FactsCondensed
from memory_core.history.fact_evidence import is_supported
from memory_core.history.slices.fact_slice import CONDENSING, WORDING, FactSlice, condenses
from memory_core.planning.fact_merging import Fact

KINDS = (*WORDING, *CONDENSING)
"""Event kinds that `find_rewrites` reads from the log."""


@dataclass(frozen=True, slots=True)
class RewrittenLine:
    """Fact in a loss diff."""

    id: int
    text: str
    """Text at the time of the condensing; empty if it was erased since."""
    fact: Fact | None
    """The fact in its present state; None if it was erased."""
    unsupported: bool = False
    """True if the condensed fact says something that its source facts did not."""

    @property
    def restored(self) -> bool:
        """True if the fact is active now, such as a superseded one that was restored."""
        return self.fact is not None and self.fact.state == "active"

    @property
    def replaced(self) -> bool:
        """True if the fact is still superseded, and was neither retired nor restored by a person."""
        return self.fact is not None and self.fact.state == "superseded"


@dataclass(frozen=True, slots=True)
class Merged:
    """Several facts merged into one."""

    sources: tuple[RewrittenLine, ...]
    into: RewrittenLine


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The condensing of a list of facts, as a loss diff."""

    position: int
    """Log position of the event of the condensing."""
    turn: int
    at: float
    """Time of the condensing, in seconds since the epoch."""
    extractor: str
    before: int
    """Number of active facts before the condensing; `after` is the number afterwards."""
    after: int
    kept: tuple[RewrittenLine, ...]
    merged: tuple[Merged, ...]
    vanished: tuple[RewrittenLine, ...]
    new: tuple[RewrittenLine, ...]
    """Facts of the condensed list that replace no former fact."""

    @property
    def put_away(self) -> tuple[RewrittenLine, ...]:
        """Facts that the condensing removed from the list: merged into others, or lost."""
        # A fact that was merged into a kept one is put away; the kept one itself stays in the list.
        gone = [line for merged in self.merged for line in merged.sources if line.id != merged.into.id]
        return (*gone, *self.vanished)

    @property
    def made(self) -> tuple[RewrittenLine, ...]:
        """Facts that the condensing added to the list."""
        unchanged = {line.id for line in self.kept}
        return (*(merged.into for merged in self.merged if merged.into.id not in unchanged), *self.new)

    @property
    def refused(self) -> bool:
        """True if a person has reverted the whole condensing."""
        return not any(line.restored for line in self.made) and not any(line.replaced for line in self.put_away)


def find_rewrites(
    records: Iterable[EventRecord], facts: Mapping[int, Fact], words: Callable[[str], str | None]
) -> list[Rewrite]:
    """Return every condensing with at least one fact still stored, newest first.

    `records` are those of `KINDS`, in any order; `words` returns a text by its hash, None if it was erased.
    """
    past = FactSlice()
    rewrites: list[Rewrite] = []
    for record in sorted(records, key=lambda record: record.position):
        event = record.event
        past.apply(record)
        if condenses(event):
            # Facts that it made precede it in the log, so their words are known here, too.
            then = {id: words(fact.content) or "" for id, fact in past.by_id.items()}
            rewrite = _rewrite(record, event, then, facts)
            # A rewrite of which every fact was erased has nothing left to show.
            if any(line.fact for line in (*rewrite.kept, *rewrite.put_away, *rewrite.made)):
                rewrites.append(rewrite)
    return rewrites[::-1]


def _rewrite(record: EventRecord, event: FactsCondensed, then: Mapping[int, str], facts: Mapping[int, Fact]) -> Rewrite:
    def line(id: int) -> RewrittenLine:
        return RewrittenLine(id, then.get(id, ""), facts.get(id))

    def made(id: int, stands_for: Sequence[int]) -> RewrittenLine:
        texts = [then.get(source, "") for source in stands_for]
        plain = line(id)
        # Where a source was erased, nothing can be said about support.
        return replace(plain, unsupported=bool(plain.text) and all(texts) and not is_supported(plain.text, texts))

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
