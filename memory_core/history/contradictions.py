"""Which contradictions between facts still stand: what was found, less what a person settled or reworded.

Pure: event records and facts in, values out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_core.events import EventRecord, FactAdded, FactChanged
from memory_core.history.fact_change_log import Change
from memory_core.models.offline.slots import slot_in
from memory_core.planning.facts import Fact
from memory_core.planning.statements import CONTRADICTING, bearing

KINDS = (FactAdded.kind, FactChanged.kind)
"""Events that say which contradictions were found, and what was reworded since."""

SETTLES = "keep_both"
"""The only change set that settles a contradiction and leaves both facts as they are."""


def standing(
    records: Sequence[EventRecord],
    facts: Iterable[Fact],
    changes: Iterable[Change],
    words: Callable[[str], str | None],
) -> dict[int, tuple[int, ...]]:
    """By fact, the older ones that it contradicts. `records` are of `KINDS`, oldest first.

    `changes` are all change sets, `words` finds a text by its hash.
    """
    by_id = {fact.id: fact for fact in facts}
    kept = [set(change.facts) for change in changes if change.action == SETTLES and not change.undone]
    then: dict[int, dict[int, str]] = {}
    for record in records:
        if isinstance(changed := record.event, FactChanged):
            then.setdefault(changed.fact, {})[record.position] = changed.before
    found: dict[int, tuple[int, ...]] = {}
    for record in records:
        event = record.event
        if not isinstance(event, FactAdded) or event.fact not in by_id:
            continue
        others = tuple(
            other
            for other in event.conflicts_with
            if other in by_id
            and other != event.fact
            and not any({event.fact, other} <= pair for pair in kept)
            and _stands(by_id[event.fact], by_id[other], _then(then, (event.fact, other), record.position), words)
        )
        if others:
            found[event.fact] = others
    return found


def _then(changes: Mapping[int, Mapping[int, str]], facts: Iterable[int], position: int) -> dict[int, str]:
    """The hashes of what facts said at a position of the log, of those that were reworded since."""
    texts: dict[int, str] = {}
    for fact in facts:
        later = [at for at in changes.get(fact, ()) if at > position]
        if later:
            texts[fact] = changes[fact][min(later)]
    return texts


def _stands(a: Fact, b: Fact, then: Mapping[int, str], words: Callable[[str], str | None]) -> bool:
    """Do two facts that contradicted each other do so in today's words?"""
    reworded = False
    for fact in (a, b):
        was = words(then[fact.id]) if fact.id in then else fact.text
        if was == fact.text:
            continue
        reworded = True
        slot = slot_in(was) if was is not None else None
        if slot is not None and slot_in(fact.text) != slot:
            return False
    return not reworded or bearing(a.text, b.text, same_slot=True) in CONTRADICTING
