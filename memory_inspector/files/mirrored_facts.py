"""Mirror another store's facts and relations into a session; each change there is recorded here.

The store's ids are unrelated to the session's: a fact is matched by the newest of its texts that exists here, or else
by the store's id in its metadata.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock, GraphMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.curation.fact_desk import Curation
from memory_core.curation.graph_desk import GraphDesk
from memory_core.curation.settings import add_block
from memory_core.engine.session import Session
from memory_core.messages import storable
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet, FactChange, FactDraft, FactValues, Step
from memory_core.planning.fact_merging import Fact, metadata_text, same_words
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import normal_name, normal_predicate

FACTS, GRAPH = "Memories", "Graph"
"""Names of the mirrored blocks."""
ID = "memory_id"
"""Field of a fact's metadata with the id that its store has for it."""
GONE = "no longer in the store"
_log = logging.getLogger(__name__)
_MAX_FACTS = 10_000
"""Maximum active facts: so high that a mirrored session never condenses them."""


@dataclass(frozen=True, slots=True)
class MirroredFact:
    """A fact of a store, with every text it has had."""

    texts: tuple[str, ...]
    """All texts that the fact has had, oldest first; never empty."""
    active: bool = True
    topics: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    id: str = ""
    """Id in the store; empty where the store has none that lasts."""


def mirror_facts(session: Session, facts: Sequence[MirroredFact]) -> bool:
    """Update a session's facts to match a store; return whether anything changed.

    Changed texts become edits of one fact. Facts that the store deleted or lost are retired, and restored when they
    are back. Under `approval`, new and changed texts and facts that are back wait for a person, and the former texts
    stay until then. What a person rejected stays rejected.

    Raises:
        StoreError: The database cannot be reached.
    """
    _with_block(session, FactExtractionMemoryBlock(name=FACTS, accept_short_term_memory=False, max_facts=_MAX_FACTS))
    desk = Curation(session, FACTS)
    approval = bool(session.block(FACTS).settings.get("approval"))
    changed, wanted = False, distinct(facts)
    # One text per round: a fact has an id only once its first text is stored. At most two more change the state.
    for _ in range(max((len(fact.texts) for fact in wanted), default=0) + 2):
        if not (steps := plan_facts(desk.facts(), wanted, approval=approval)):
            return changed
        # The reason is recorded with every step of its change set, and holds for what is retired alone.
        for retired, reason in ((False, ""), (True, GONE)):
            if part := tuple(step for step in steps if _retires(step) == retired):
                desk.apply(ChangeSet("import", part, reason), actor="agent")
        changed = True
    if plan_facts(desk.facts(), wanted, approval=approval):
        _log.warning("%r: some facts are stored otherwise than their store has them", session.id)
    return changed


def distinct(facts: Iterable[MirroredFact]) -> list[MirroredFact]:
    """Normalise texts for storage, and make each text belong to one fact only.

    Comparison ignores case, as for every fact. A fact that shares a text with another keeps only its last text.
    """
    listed = [replace(fact, texts=texts) for fact in facts if (texts := _as_stored(fact.texts))]
    uses = Counter(key for fact in listed for key in {same_words(text) for text in fact.texts})
    by_text: dict[str, MirroredFact] = {}
    for fact in listed:
        # Facts are matched by their texts, so a shared text could match either fact when it is mirrored next.
        if any(uses[same_words(text)] > 1 for text in fact.texts):
            fact = replace(fact, texts=fact.texts[-1:])
        key = same_words(fact.texts[-1])
        same = by_text.get(key)
        by_text[key] = fact if same is None or not same.active else same
    return list(by_text.values())


def _as_stored(texts: Sequence[str]) -> tuple[str, ...]:
    """Normalise texts to single lines of storable characters; drop consecutive duplicates."""
    written = (" ".join(str(storable(text)[0]).split()) for text in texts)
    return tuple(text for text, _ in groupby(filter(None, written)))


def plan_facts(existing: Sequence[Fact], wanted: Sequence[MirroredFact], *, approval: bool = False) -> list[Step]:
    """Return the next step of each fact towards `wanted` (see `distinct`); up-to-date facts need none."""
    # Of several with the same words the last one is matched: the active one, or what a person has to decide or decided.
    rank = ("superseded", "retired", "rejected", "proposed", "active").index
    free = {same_words(fact.text): fact for fact in sorted(existing, key=lambda fact: rank(fact.state))}
    numbers = [next((n for n in range(len(m.texts) - 1, -1, -1) if same_words(m.texts[n]) in free), -1) for m in wanted]
    matched = {same_words(mirrored.texts[n]) for mirrored, n in zip(wanted, numbers, strict=True) if n >= 0}
    by_id = {
        id: words
        for words, fact in free.items()
        if words not in matched and (id := fact.metadata.get(ID)) and isinstance(id, str)
    }
    steps: list[Step] = []
    undecided: list[MirroredFact] = []
    for mirrored, number in zip(wanted, numbers, strict=True):
        metadata = {**mirrored.metadata, ID: mirrored.id} if mirrored.id else mirrored.metadata
        words = same_words(mirrored.texts[number]) if number >= 0 else by_id.pop(mirrored.id, None)
        if words is None:
            # A deleted fact goes through its texts first and is retired with the last one.
            state = "active" if mirrored.active or len(mirrored.texts) > 1 else "retired"
            steps.append(FactDraft(mirrored.texts[0], state=state, topics=mirrored.topics, metadata=metadata))
            continue
        fact = free.pop(words)
        # If only upper and lower case differ, the matched text itself is written again; all, if the id was matched.
        same = number >= 0 and fact.text == mirrored.texts[number]
        following = mirrored.texts[number + 1 :] if same else mirrored.texts[max(number, 0) :]
        state = "active" if mirrored.active or following else "retired"
        # Only a person makes a proposed or rejected fact active, and under `approval` any that is back.
        if state == "active" and (fact.state in ("proposed", "rejected") or (approval and fact.state != "active")):
            state = "proposed"
            undecided.append(mirrored)
        if fact.state == "rejected":
            continue
        values: FactValues = {}
        if state != (fact.state if fact.state in ("active", "proposed") else "retired"):
            values["state"] = state
        # A proposal may be reworded, but not what is put away: first it is proposed.
        following = () if values.get("state") == "proposed" else following
        # Stores without these fields leave those of the fact as they are.
        if mirrored.topics not in ((), fact.topics):
            values["topics"] = mirrored.topics
        if metadata and metadata_text(metadata) != metadata_text(fact.metadata):
            values["metadata"] = metadata
        if following:
            values["text"] = following[0]
        if values:
            steps.append(FactChange(fact, values))
    # What an undecided fact is instead of stays until a person has decided.
    texts, ids = {same_words(text) for m in undecided for text in m.texts}, {m.id for m in undecided if m.id}
    stays = {words for words, fact in free.items() if words in texts or str(fact.metadata.get(ID)) in ids}
    gone = [fact for words, fact in free.items() if fact.state in ("active", "proposed") and words not in stays]
    return [*steps, *(plans.retire(gone, GONE).steps if gone else ())]


def _retires(step: Step) -> bool:
    return (step.values.get("state") if isinstance(step, FactChange) else step.state) == "retired"


def mirror_relations(session: Session, relations: Sequence[NamedRelation]) -> bool:
    """Update a session's graph to match a store; return whether anything changed. Missing relations are ended.

    Raises:
        StoreError: The database cannot be reached.
    """
    _with_block(session, GraphMemoryBlock(name=GRAPH, accept_short_term_memory=False))
    desk = GraphDesk(session, GRAPH)
    changed = desk.add_many(relations, actor="agent") is not None
    wanted = {_key(relation.subject, relation.predicate, relation.object) for relation in relations}
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
            # Again within the transaction: another process may have added it in between.
            if all(attached.name != block.name for attached in session.blocks):
                add_block(session, w, block, "user")
