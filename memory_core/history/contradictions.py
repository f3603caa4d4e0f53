"""Open contradictions between facts: those found, except the ones a person resolved or that were reworded away.

Pure: event records and facts in, values out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_core.events import EventRecord
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.slices.fact_slice import WORDING, FactSlice
from memory_core.models.offline.fact_extraction import slot_in
from memory_core.planning.fact_merging import Fact
from memory_core.planning.statement_relation import contradicts

KINDS = WORDING
"""Events that record contradictions and later rewordings."""

SETTLES = "keep_both"
"""The only change set that resolves a contradiction and leaves both facts as they are."""


def open_contradictions(
    records: Sequence[EventRecord],
    facts: Iterable[Fact],
    changes: Iterable[AppliedChangeSet],
    words: Callable[[str], str | None],
) -> dict[int, tuple[int, ...]]:
    """Return the older facts that each active fact contradicts, by fact id. `records` are of `KINDS`, in any order.

    `changes` are all change sets; `words` returns a text by its hash.
    """
    by_id = {fact.id: fact for fact in facts}
    # A pair that a person decided to keep is no open question, unless that decision was undone.
    settled = [set(change.ids("fact")) for change in changes if change.action == SETTLES and not change.undone]
    past = FactSlice()
    for record in sorted(records, key=lambda record: record.position):
        past.apply(record)
    result: dict[int, tuple[int, ...]] = {}
    for id, fact in past.by_id.items():
        if id not in by_id:
            continue
        # What an agent proposes instead of a fact waits until a person chooses, even if it is reworded or accepted
        # meanwhile: nothing else would take the old fact's place. Parts of a split have the origin of the whole.
        by_agent = fact.added.origin == "written" or fact.record.actor == "agent"
        waits = fact.added.state == "proposed" and by_agent
        others = tuple(
            other
            for other in fact.added.conflicts_with
            if other in by_id
            and other != id
            and not any({id, other} <= pair for pair in settled)
            and (waits or _stands(by_id[id], by_id[other], _then(past, (id, other), fact.record.position), words))
        )
        if others:
            result[id] = others
    return result


def _then(past: FactSlice, facts: Iterable[int], position: int) -> dict[int, str]:
    """Return the content hashes at a log position of facts that were reworded later."""
    reworded = [id for id in facts if past.reworded_after(id, position)]
    return {id: then.content for id in reworded if (then := past.words(id, position)) is not None}


def _stands(a: Fact, b: Fact, then: Mapping[int, str], words: Callable[[str], str | None]) -> bool:
    """Return whether two facts that contradicted each other still do in their current wording."""
    reworded = False
    for fact in (a, b):
        was = words(then[fact.id]) if fact.id in then else fact.text
        if was == fact.text:
            continue
        reworded = True
        slot = slot_in(was) if was is not None else None
        # A fact that now speaks about another subject contradicts nothing any more.
        if slot is not None and slot_in(fact.text) != slot:
            return False
    # Facts in their first wording still contradict each other; reworded ones are compared again, by rules.
    return not reworded or contradicts(a.text, b.text, same_slot=True)
