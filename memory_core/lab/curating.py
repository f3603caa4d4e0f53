"""What people changed among facts, as steps of a script: made again with the facts that say the same, by whatever id.

A change set of the log says which fact had which version before and after it; the values of both are in the log too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from memory_core.errors import MemoryInspectorError
from memory_core.events import EventRecord, FactAdded
from memory_core.history.slices.fact_slice import Facts, FactState
from memory_core.memory import Memory
from memory_core.planning.curation import ChangeSet, FactStep, New, Step
from memory_core.planning.fact_merging import Fact


@dataclass(frozen=True, slots=True)
class FactValues:
    """A fact at one version."""

    text: str
    """In a log as it is read its hash, in a change its words."""
    state: str
    pinned: bool
    category: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactChange:
    """One fact of a change set; which of the set takes its place is named by its index there."""

    before: FactValues | None
    """None: it was added."""
    after: FactValues | None
    """None: it was taken away, by the undo of what had added it."""
    touched: bool
    """Whether it got a new version: the undo of a change set names facts that it leaves as they are."""
    by: int | None = None
    origin: str = "written"
    """Of an added one."""


@dataclass(frozen=True, slots=True)
class CuratedFacts:
    """A change set of a person on one block's facts."""

    block: str
    action: str
    reason: str
    changes: tuple[FactChange, ...]
    hands_on: bool
    """Whether what takes another's place is supported by its messages too. An undo takes no support away here."""


_Version = tuple[int, int]
"""A fact's id and one of its versions."""


@dataclass(frozen=True, slots=True)
class _Versions:
    """What a log tells of its facts at each of their versions."""

    values: Mapping[_Version, FactValues]
    takers: Mapping[_Version, int]
    """By version of a superseded fact, the one that took its place."""
    added: Mapping[int, FactAdded]


def curated_facts(memory: Memory, records: Sequence[EventRecord]) -> Mapping[int, CuratedFacts]:
    """The change sets of people in a log that can be made again, by position.

    Left out is what names facts that the log does not tell of, another session's say, or whose words were erased.
    """
    wanted = [record for record in records if record.kind == "facts_curated" and record.actor == "user"]
    if not wanted:
        return {}
    known = _versions(records)
    texts = memory.log.texts({each.text for each in known.values.values()})
    found = {}
    for record in wanted:
        made = _change_set(record, known, texts)
        if made is not None:
            found[record.position] = made
    return found


def _versions(records: Iterable[EventRecord]) -> _Versions:
    values: dict[_Version, FactValues] = {}
    takers: dict[_Version, int] = {}
    added: dict[int, FactAdded] = {}
    facts = Facts()
    for record in records:
        if record.event.family != "facts":
            continue
        facts.apply(record)
        fact = facts.by_id.get(getattr(record.event, "fact", None) or 0)
        if fact is None:
            continue
        at = fact.added.fact, fact.version
        values[at], added[fact.added.fact] = _values(fact), fact.added
        if record.kind == "fact_superseded" and (by := getattr(record.event, "by", None)) is not None:
            takers[at] = by
    return _Versions(values, takers, added)


def _values(fact: FactState) -> FactValues:
    return FactValues(fact.content, fact.state, fact.pinned, fact.category, fact.topics)


def _change_set(record: EventRecord, known: _Versions, texts: Mapping[str, str]) -> CuratedFacts | None:
    event, takers = record.event, known.takers
    rows: Sequence[tuple[int, int, int]] = getattr(event, "facts", ())
    places = {id: place for place, (id, _, _) in enumerate(rows)}
    changes = []
    for id, before, after in rows:
        then, now = (_worded(known.values.get((id, version)), texts) for version in (before, after))
        by = next((takers[id, version] for version in range(before + 1, after + 1) if (id, version) in takers), None)
        if (after and now is None) or (before and then is None) or (by is not None and by not in places):
            return None
        place = places[by] if by is not None else None
        changes.append(FactChange(then, now, before != after, place, known.added[id].origin))
    block, action, reason = (str(getattr(event, name)) for name in ("block", "action", "reason"))
    done = getattr(event, "undoes", None) is None or getattr(event, "again", False)
    return CuratedFacts(block, action, reason, tuple(changes), done and action in ("merge", "split"))


def _worded(values: FactValues | None, texts: Mapping[str, str]) -> FactValues | None:
    text = texts.get(values.text) if values is not None else None
    if values is None or text is None:
        return None
    return FactValues(text, values.state, values.pinned, values.category, values.topics)


def curate(memory: Memory, curated: CuratedFacts) -> bool:
    """Make a change set again; False where a fact of it is not there as it was, so that nothing was changed."""
    try:
        desk = memory.facts.desk(curated.block)
        there = _found(curated, desk.facts())
        if there is None:
            return False
        if gone := [there[place] for place, change in enumerate(curated.changes) if change.after is None]:
            desk.erase(gone)
        if steps := _steps(curated, there):
            desk.apply(ChangeSet(curated.action, tuple(steps), curated.reason))  # type: ignore[arg-type]  # of the log
        return True
    except MemoryInspectorError:  # no such block here, or another fact says the same by now
        return False


def _found(curated: CuratedFacts, facts: Sequence[Fact]) -> dict[int, Fact] | None:
    """The facts that say what those of a change set said, by their places in it; None if one is not there."""
    there: dict[int, Fact] = {}
    for place, change in enumerate(curated.changes):
        if (before := change.before) is None:
            continue
        same = [fact for fact in facts if (fact.text, fact.state) == (before.text, before.state)]
        if not (left := [fact for fact in same if fact not in there.values()]):
            return None
        there[place] = left[-1]
    return there


def _steps(curated: CuratedFacts, there: Mapping[int, Fact]) -> list[Step]:
    """What is done to facts that stay, and to those that come."""
    added = [place for place, change in enumerate(curated.changes) if change.before is None]

    def handed(place: int) -> tuple[tuple[str, int], ...]:
        """Messages that say what it takes the place of; each part of a split fact takes its place."""
        if not curated.hands_on:
            return ()
        left = [n for n, each in enumerate(curated.changes) if n in there and each.by is not None]
        mine = [n for n in left if curated.changes[n].by == place or (curated.action == "split" and place in added)]
        known = there[place].sources if place in there else ()
        return tuple(sorted({source for n in mine for source in there[n].sources}.difference(known)))

    steps: list[Step] = []
    for place, change in enumerate(curated.changes):
        now, by, fact = change.after, change.by, there.get(place)
        if now is None or not change.touched:
            continue
        if fact is None:
            new = New(now.text, now.state, now.pinned, now.category, origin=change.origin, topics=now.topics)
            steps.append(replace(new, sources=handed(place)))
            continue
        taker = None if by is None else there[by].id if by in there else -1 - added.index(by)
        steps.append(FactStep(fact, now.text, now.state, taker, now.pinned, handed(place), now.category, now.topics))
    return steps
