"""What another memory knows, as facts and relations of a session that shows it: each change of it is a change here.

A store has no numbers in common with the session: a fact is found by the newest of its texts that is known here.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from memory_core.blocks import FactExtractionMemoryBlock, GraphMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.curation.fact_desk import Curation
from memory_core.curation.graph_desk import GraphDesk
from memory_core.curation.settings import add_block
from memory_core.engine.session import Session
from memory_core.messages import storable
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet, FactStep, New, Step
from memory_core.planning.fact_merging import Fact, same_words
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import normal_name, normal_predicate

FACTS, GRAPH = "Memories", "Graph"
"""Names of the blocks that hold them."""
GONE = "no longer in the store"
_log = logging.getLogger(__name__)
_MAX_FACTS = 10_000
"""Never reached: nothing is condensed in a session that only shows a store."""


@dataclass(frozen=True, slots=True)
class MirroredFact:
    """A fact of a store, with all the texts it had."""

    texts: tuple[str, ...]
    """The oldest first; never empty."""
    active: bool = True
    topics: tuple[str, ...] = ()


def mirror_facts(session: Session, facts: Sequence[MirroredFact]) -> bool:
    """Bring the facts of a session to what a store has; whether anything had changed.

    Texts that the store changed are edits of one fact. What is deleted there, or no longer there, is retired.

    Raises:
        StoreError: the database cannot be reached.
    """
    _with_block(session, FactExtractionMemoryBlock(name=FACTS, accept_short_term_memory=False, max_facts=_MAX_FACTS))
    desk = Curation(session, FACTS)
    changed, wanted = False, distinct(facts)
    # One text further in each round: a fact has a number only once its first text is stored.
    for _ in range(max((len(fact.texts) for fact in wanted), default=0) + 1):
        if not (steps := plan_facts(desk.facts(), wanted)):
            return changed
        desk.apply(ChangeSet("import", tuple(steps), GONE), actor="agent")
        changed = True
    if plan_facts(desk.facts(), wanted):
        _log.warning("%r: some facts are stored otherwise than their store has them", session.id)
    return changed


def distinct(facts: Iterable[MirroredFact]) -> list[MirroredFact]:
    """The facts with their texts as they are stored, so that no text belongs to two of them.

    Texts that differ in letters' case alone are the same, as for every fact. A fact that shares any with another comes
    with its last alone.
    """
    listed = [replace(fact, texts=texts) for fact in facts if (texts := _as_stored(fact.texts))]
    uses = Counter(key for fact in listed for key in {same_words(text) for text in fact.texts})
    found: dict[str, MirroredFact] = {}
    for fact in listed:
        if any(uses[same_words(text)] > 1 for text in fact.texts):
            fact = replace(fact, texts=fact.texts[-1:])
        key = same_words(fact.texts[-1])
        same = found.get(key)
        found[key] = fact if same is None or not same.active else same
    return list(found.values())


def _as_stored(texts: Sequence[str]) -> tuple[str, ...]:
    """Texts on one line and of characters that can be stored; what comes out as the one before it is that one."""
    written = (" ".join(str(storable(text)[0]).split()) for text in texts)
    return tuple(text for text, _ in groupby(filter(None, written)))


def plan_facts(known: Sequence[Fact], wanted: Sequence[MirroredFact]) -> list[Step]:
    """The next step of every fact towards what is wanted, which is `distinct`; none where it is as wanted."""
    free = {same_words(fact.text): fact for fact in sorted(known, key=lambda fact: fact.state == "active")}
    steps: list[Step] = []
    for each in wanted:
        number = next((n for n in range(len(each.texts) - 1, -1, -1) if same_words(each.texts[n]) in free), -1)
        if number < 0:
            state = "active" if each.active or len(each.texts) > 1 else "retired"
            steps.append(New(each.texts[0], state=state, topics=each.topics))
            continue
        fact = free.pop(same_words(each.texts[number]))
        following = each.texts[number + 1 :] if fact.text == each.texts[number] else each.texts[number:]
        state = "active" if each.active or following else "retired"
        change = None if (fact.state == "active") == (state == "active") else state
        if following or change is not None:
            steps.append(FactStep(fact, text=following[0] if following else None, state=change))
    gone = [fact for fact in free.values() if fact.state == "active"]
    return [*steps, *(plans.retire(gone, GONE).steps if gone else ())]


def mirror_relations(session: Session, relations: Sequence[NamedRelation]) -> bool:
    """Bring the graph of a session to what a store has; whether anything had changed. What is gone there has ended.

    Raises:
        StoreError: the database cannot be reached.
    """
    _with_block(session, GraphMemoryBlock(name=GRAPH, accept_short_term_memory=False))
    desk = GraphDesk(session, GRAPH)
    changed = desk.add_many(relations, actor="agent") is not None
    wanted = {_key(each.subject, each.predicate, each.object) for each in relations}
    graph = desk.graph()
    now = {_key(graph.name(r.subject), r.predicate, graph.name(r.object)): r for r in desk.relations()}
    gone = [relation for key, relation in now.items() if relation.state == "active" and key not in wanted]
    back = [relation for key, relation in now.items() if relation.state == "ended" and key in wanted]
    if gone:
        desk.end(gone, actor="agent")
    if back:
        desk.reactivate(back, actor="agent")
    return bool(changed or gone or back)


def _key(subject: str, predicate: str, object: str) -> tuple[str, str, str]:
    return normal_name(subject), normal_predicate(predicate), normal_name(object)


def _with_block(session: Session, block: BaseMemoryBlock[str]) -> None:
    if all(attached.name != block.name for attached in session.blocks):
        with session.changing() as w:
            if all(attached.name != block.name for attached in session.blocks):
                add_block(session, w, block, "user")
