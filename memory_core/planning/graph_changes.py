"""Changes to a graph: relations found in messages, and edits that a person asks for.

Pure: each gives a `GraphPlan`, which is stored whole or not at all.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core.errors import MessageError
from memory_core.events import NothingReason
from memory_core.planning.graph_draft import GraphDraft, GraphPlan, Source, other_names, said_after
from memory_core.planning.graph_rules import (
    LONGEST,
    SAME_AS,
    TYPES,
    Entity,
    Graph,
    Names,
    Relation,
    RelationState,
    clean_name,
    clean_predicate,
    names_nobody,
    normal_name,
    normal_predicate,
)
from memory_core.planning.learning_outcomes import Outcome, Reason

WITHOUT_NAMES = "a relation without both names and what joins them"
TOO_LONG = f"a name or predicate of more than {LONGEST} characters"
TO_ITSELF = "a relation of something to itself"
PRONOUN = "a pronoun in place of a name"
BY_OTHERS = "a relation that only the output of a tool or a pasted text says"
REMOVED = "a relation or an entity that a person had removed"

TWO_DIFFERENT = "A relation needs two different entities."


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation between two names, as an extractor proposes it or a person enters it.

    Entities that do not exist yet are added with it.
    """

    subject: str
    predicate: str
    object: str
    subject_type: str = "other"
    object_type: str = "other"
    ended: bool = False
    """True if the relation held only in the past."""
    sources: tuple[Source, ...] = ()
    """The messages that state the relation."""
    by_others: bool = False
    """True if only a tool's output or pasted text states the relation; it is not learned, as nobody could review it."""


# -- found relations -----------------------------------------------------------------------------


def plan_same(graph: Graph, found: Sequence[NamedRelation]) -> GraphPlan:
    """Plan to merge known entities that are one by a found relation (`SAME_AS`); the merged entity has both names.

    An empty plan if there are only new aliases, which `plan_relations` adds.
    """
    draft = GraphDraft(graph)
    merged = False
    for relation in found:
        names = clean_name(relation.subject), clean_name(relation.object)
        if clean_predicate(relation.predicate) != SAME_AS or _problem(draft, names[0], SAME_AS, names[1]):
            continue
        if relation.by_others:
            continue
        one, other = draft.find(names[0]), draft.find(names[1])
        if one is not None and other is not None and one != other:
            _unite(draft, one, other)
            merged = True
        # A later relation of the batch may use the other name, so it has to be known by then.
        elif (one is None) != (other is None):
            entity, name = (one, names[1]) if one is not None else (other, names[0])
            draft.add_aliases(entity or 0, [name])
    return draft.plan() if merged else GraphPlan()


def plan_relations(graph: Graph, found: Sequence[NamedRelation]) -> GraphPlan:
    """Plan how found relations are merged with known ones.

    A known relation is confirmed. Another object of an attribute with one value ends the former
    relation, and so does a relation said to have ended. What cannot be a relation is refused, with
    the reason and without effect on the others.
    """
    draft = GraphDraft(graph)
    refused: Counter[str] = Counter()
    fruitless: list[tuple[int, NothingReason]] = []
    repeated = 0
    for index, relation in enumerate(found):
        subject, predicate, object = (
            clean_name(relation.subject),
            clean_predicate(relation.predicate),
            clean_name(relation.object),
        )
        problem = BY_OTHERS if relation.by_others else _problem(draft, subject, predicate, object)
        if problem:
            refused[problem] += 1
            # What a person removed is held back on purpose; anything else is the extractor's mistake.
            fruitless.append((index, "suppressed" if problem == REMOVED else "refused"))
        elif predicate == SAME_AS:
            _same(draft, subject, object, relation)
        else:
            ends = (
                draft.entity(subject, type=relation.subject_type, origin="extracted"),
                draft.entity(object, type=relation.object_type, origin="extracted"),
            )
            repeated += not _take(draft, ends[0], predicate, ends[1], relation.sources, ended=relation.ended)
    return replace(draft.plan(), refused=tuple(refused.items()), repeated=repeated, fruitless=tuple(fruitless))


def relation_outcomes(graph: Graph, found: Sequence[NamedRelation], plan: GraphPlan) -> list[Outcome]:
    """Return the outcome of each found relation under `plan`; outcomes name messages by sequence number."""
    reasons = {index: Reason(code) for index, code in plan.fruitless}
    names = Names(graph)
    joined: set[frozenset[str]] = set()
    for index, relation in enumerate(found):
        # Every other relation that was not refused has an effect: it is stored, or confirms one.
        if index in reasons or clean_predicate(relation.predicate) != SAME_AS:
            continue
        pair = frozenset(normal_name(clean_name(name)) for name in (relation.subject, relation.object))
        one, other = names.find(relation.subject), names.find(relation.object)
        if pair in joined:
            reasons[index] = Reason("repeated")
        elif one is not None and one is other:
            reasons[index] = Reason("known")
        joined.add(pair)
    return [Outcome(tuple(seq for _, seq in named.sources), reasons.get(index)) for index, named in enumerate(found)]


def find_problem(subject: str, predicate: str, object: str) -> str | None:
    """Return the reason why no graph can hold a relation of these words; None if one can."""
    if not (normal_name(subject) and normal_predicate(predicate) and normal_name(object)):
        return WITHOUT_NAMES
    if max(len(subject), len(predicate), len(object)) > LONGEST:
        return TOO_LONG
    return PRONOUN if names_nobody(subject) or names_nobody(object) else None


def _problem(draft: GraphDraft, subject: str, predicate: str, object: str) -> str | None:
    """Return why this relation cannot be learned; None if it can."""
    if problem := find_problem(subject, predicate, object):
        return problem
    ends = draft.find(subject), draft.find(object)
    # One name, or two names of one entity: saying so is fine, relating it to itself is not.
    if normal_name(subject) == normal_name(object) or (ends[0] is not None and ends[0] == ends[1]):
        return None if predicate == SAME_AS else TO_ITSELF
    # A removal counts only as long as no active entity has the name: a person may have added it again.
    if (ends[0] is None and draft.was_removed(subject)) or (ends[1] is None and draft.was_removed(object)):
        return REMOVED
    if ends[0] is not None and ends[1] is not None and draft.is_rejected(ends[0], predicate, ends[1]):
        return REMOVED
    return None


def _take(
    draft: GraphDraft, subject: int, predicate: str, object: int, sources: tuple[Source, ...], *, ended: bool
) -> bool:
    """Apply one found relation; return False if it only confirms a known one."""
    holding = draft.same(subject, predicate, object, "active")
    if not ended:
        if holding is not None:
            draft.confirm(holding, sources)
            return False
        draft.add_relation(subject, predicate, object, sources=sources)
        return True
    # It held until now, so it ends without a successor.
    if holding is not None:
        if said_after(draft.relations[holding].sources, sources):
            return False
        draft.change_relation(holding, state="ended", ended_turn=None, ended_by=None)
        return True
    past = draft.same(subject, predicate, object, "ended")
    if past is not None:
        draft.confirm(past, sources)
        return False
    # Known as past from the start, so it contradicts nothing that holds now.
    draft.add_relation(subject, predicate, object, sources=sources, state="ended")
    return True


def _same(draft: GraphDraft, one: str, other: str, found: NamedRelation) -> None:
    """Record two names of one entity: merge the entities of both, or add the new name as an alias."""
    first, second = draft.find(one), draft.find(other)
    if first is not None and second is not None:
        if first != second:
            _unite(draft, first, second)
    elif second is not None:
        draft.add_aliases(second, [one])
    else:
        # At most the first name is known: its entity, which is added if need be, gets the second one as an alias.
        type = found.subject_type if found.subject_type != "other" else found.object_type
        draft.add_aliases(draft.entity(one, type=type, origin="extracted"), [other])


def _unite(draft: GraphDraft, one: int, other: int) -> None:
    """Merge two entities; the name with more words stays, in a tie the older one's."""

    def rank(id: int) -> tuple[int, bool, int]:
        return -len(draft.entities[id].name.split()), id < 0, abs(id)

    into, gone = sorted((one, other), key=rank)
    draft.merge([gone], into)


# -- requested changes -------------------------------------------------------------------------


def add(graph: Graph, new: NamedRelation) -> GraphPlan:
    """Plan to add a relation in a person's own words.

    Raises:
        MessageError: the words form no relation, or the graph has it already.
    """
    draft = GraphDraft(graph)
    _check(draft, new.subject, new.predicate, new.object)
    if not _write(draft, new):
        raise MessageError("This relation is there already.")
    return draft.plan()


def add_many(graph: Graph, relations: Sequence[NamedRelation], aliases: Mapping[str, Sequence[str]]) -> GraphPlan:
    """Plan to import relations. Existing and impossible ones are skipped.

    Single-valued predicates end no relation here, as an imported graph is consistent already.
    """
    draft = GraphDraft(graph)
    refused: Counter[str] = Counter()
    repeated = 0
    for new in relations:
        ends = clean_name(new.subject), clean_predicate(new.predicate), clean_name(new.object)
        # Other names come as `aliases` here, so `same as` is no relation to import.
        problem = _problem(draft, *ends) if ends[1] != SAME_AS else WITHOUT_NAMES
        # A person imports, and may bring back what a person removed.
        if problem not in (None, REMOVED):
            refused[problem or ""] += 1
        else:
            repeated += not _write(draft, new, contradicts=False)
    for name, others in aliases.items():
        existing = draft.find(name)
        if existing is not None:
            # A name that any entity has already stays with that one.
            free = [alias for alias in map(clean_name, others) if normal_name(alias) and draft.find(alias) is None]
            draft.add_aliases(existing, [alias for alias in free if len(alias) <= LONGEST])
    return replace(draft.plan(), refused=tuple(refused.items()), repeated=repeated)


def edit(graph: Graph, relation: Relation, subject: str | None, predicate: str | None, object: str | None) -> GraphPlan:
    """Plan other ends or another predicate for a relation; None leaves any of them unchanged.

    Raises:
        ConflictError: it was changed since it was read.
        MessageError: it would be no relation, equal to another one, or the same as before.
    """
    draft = GraphDraft(graph)
    now = draft.current_relation(relation)
    names = (
        graph.name(now.subject) if subject is None else subject,
        now.predicate if predicate is None else predicate,
        graph.name(now.object) if object is None else object,
    )
    _check(draft, *names)
    to = now.subject if subject is None else draft.entity(clean_name(subject))
    words = now.predicate if predicate is None else clean_predicate(predicate)
    at = now.object if object is None else draft.entity(clean_name(object))
    if (to, words, at) == (now.subject, now.predicate, now.object):
        raise MessageError("This is what the relation says already.")
    if now.state == "active" and draft.same(to, words, at, "active") not in (None, now.id):
        raise MessageError("Another relation says this already. Retire one of the two instead?")
    draft.change_relation(now.id, subject=to, predicate=words, object=at)
    # With other words or ends it may contradict others than before.
    if now.state == "active":
        draft.end_contradicted(now.id)
    return draft.plan()


def end(graph: Graph, relations: Sequence[Relation]) -> GraphPlan:
    """Plan to end relations that held until now. (For relations that never held, see `retire`.)

    Raises:
        ConflictError: one was changed since it was read.
        MessageError: none of them holds.
    """
    return _to_state(graph, relations, ("active",), "ended", "holds")


def retire(graph: Graph, relations: Sequence[Relation]) -> GraphPlan:
    """Plan to retire relations that are wrong: they never held. (For one that held until now, see `end`.)

    Raises:
        ConflictError: one was changed since it was read.
        MessageError: all of them are retired already.
    """
    return _to_state(graph, relations, ("active", "ended"), "retired", "is in force or ended")


def reactivate(graph: Graph, relations: Sequence[Relation]) -> GraphPlan:
    """Plan to reactivate ended or retired relations; relations that contradict them end.

    Raises:
        ConflictError: one was changed since it was read.
        MessageError: all of them hold, another one says the same already, or one would join an entity to itself.
    """
    draft = GraphDraft(graph)
    some = [now for now in _current_relations(draft, relations) if now.state != "active"]
    if not some:
        raise MessageError("None of these relations is ended or retired.")
    for now in some:
        if now.subject == now.object:
            raise MessageError(TWO_DIFFERENT)
        if draft.same(now.subject, now.predicate, now.object, "active") is not None:
            raise MessageError(f'Another relation says "{graph.sentence(now)}" already.')
        # Removing an entity retires its relations, so taking one of these up again restores both ends.
        for end in (now.subject, now.object):
            entity = draft.entities[end]
            if entity.state == "retired" and draft.find(entity.name) is not None:
                raise MessageError(f'Another entity is called "{entity.name}" by now. Add the relation anew instead.')
            if entity.state == "retired":
                draft.change_entity(end, state="active")
        draft.change_relation(now.id, state="active", ended_turn=None, ended_by=None)
        draft.end_contradicted(now.id)
    return draft.plan()


def remove(graph: Graph, entities: Sequence[Entity]) -> GraphPlan:
    """Plan to retire entities, with all their relations.

    Raises:
        ConflictError: one was changed since it was read.
        MessageError: none of them is active.
    """
    draft = GraphDraft(graph)
    some = [now for now in (draft.current_entity(entity) for entity in entities) if now.state == "active"]
    if not some:
        raise MessageError("None of these entities is there any more.")
    gone = {now.id for now in some}
    for id in sorted(gone):
        draft.change_entity(id, state="retired")
    for relation in list(draft.relations.values()):
        if relation.state != "retired" and gone & {relation.subject, relation.object}:
            draft.change_relation(relation.id, state="retired", ended_turn=None, ended_by=None)
    return draft.plan()


def rename(
    graph: Graph, entity: Entity, name: str | None, type: str | None, aliases: Sequence[str] | None
) -> GraphPlan:
    """Plan another name, type or aliases for an entity; the former name becomes an alias unless `aliases` are passed.

    Raises:
        ConflictError: it was changed since it was read.
        MessageError: a name is empty or too long, another entity has it, or nothing would change.
    """
    draft = GraphDraft(graph)
    now = draft.current_entity(entity)
    if type is not None and type not in TYPES:
        raise MessageError(f'There is no kind "{type}" of entity. Choose one of {", ".join(TYPES)}.')
    chosen = now.name if name is None else _named(name)
    others = [now.name, *now.aliases] if aliases is None else [_named(alias) for alias in aliases]
    names_kept = other_names(chosen, others)
    for merged in (chosen, *names_kept):
        holder = draft.find(merged)
        if holder not in (None, now.id):
            raise MessageError(f'Another entity is called "{merged}" already. Merge the two instead?')
    values: dict[str, Any] = {"name": chosen, "aliases": names_kept, "type": type or now.type}
    if all(getattr(now, field) == value for field, value in values.items()):
        raise MessageError("The entity is called so already.")
    draft.change_entity(now.id, **values)
    return draft.plan()


def merge(graph: Graph, entities: Sequence[Entity], into: Entity) -> GraphPlan:
    """Plan to merge several entities into one.

    Raises:
        ConflictError: one was changed since it was read.
        MessageError: there is only one entity, or one of them was merged or removed before.
    """
    draft = GraphDraft(graph)
    target = draft.current_entity(into)
    others = [now for now in (draft.current_entity(entity) for entity in entities) if now.id != target.id]
    if not others:
        raise MessageError("Choose at least two entities to merge.")
    for now in (*others, target):
        if now.state != "active":
            raise MessageError(f'"{now.name}" was merged or removed before. Nothing was merged.')
    draft.merge(list(dict.fromkeys(now.id for now in others)), target.id)
    return draft.plan()


def _check(draft: GraphDraft, subject: str, predicate: str, object: str) -> None:
    names = _named(subject), _named(object)
    if not normal_predicate(clean_predicate(predicate)):
        raise MessageError("Say what joins the two: lives in, manages, deadline.")
    if len(clean_predicate(predicate)) > LONGEST:
        raise MessageError(f"What joins two entities may have {LONGEST} characters, not {len(predicate)}.")
    if clean_predicate(predicate) == SAME_AS:
        raise MessageError("Two names of one entity are no relation. Merge the two instead.")
    ends = draft.find(names[0]), draft.find(names[1])
    if normal_name(names[0]) == normal_name(names[1]) or (ends[0] is not None and ends[0] == ends[1]):
        raise MessageError(TWO_DIFFERENT)


def _named(name: str) -> str:
    """Return a name that a person entered, cleaned; raise `MessageError` if it is empty or too long."""
    cleaned = clean_name(name)
    if not normal_name(cleaned):
        raise MessageError("An entity needs a name.")
    if len(cleaned) > LONGEST:
        raise MessageError(f"A name may have {LONGEST} characters, not {len(cleaned)}.")
    return cleaned


def _write(draft: GraphDraft, new: NamedRelation, *, contradicts: bool = True) -> bool:
    """Add a written relation; return False if it exists already."""
    # Brings back a removed entity: whoever writes about it wants it there.
    subject = draft.entity(clean_name(new.subject), type=new.subject_type)
    object = draft.entity(clean_name(new.object), type=new.object_type)
    predicate = clean_predicate(new.predicate)
    state: RelationState = "ended" if new.ended else "active"
    if draft.same(subject, predicate, object, state) is not None:
        return False
    draft.add_relation(subject, predicate, object, state=state, origin="written", contradicts=contradicts)
    return True


def _to_state(
    graph: Graph, relations: Sequence[Relation], states: Collection[str], to: RelationState, what: str
) -> GraphPlan:
    draft = GraphDraft(graph)
    some = [now for now in _current_relations(draft, relations) if now.state in states]
    if not some:
        raise MessageError(f"None of these relations {what}.")
    for now in some:
        draft.change_relation(now.id, state=to, ended_turn=None, ended_by=None)
    return draft.plan()


def _current_relations(draft: GraphDraft, relations: Iterable[Relation]) -> list[Relation]:
    return list({now.id: now for now in (draft.current_relation(relation) for relation in relations)}.values())


# -- descriptions ---------------------------------------------------------------------------------


def describe_change_set(
    action: str,
    graph: Graph,
    entities: Sequence[tuple[int, int, int]],
    relations: Sequence[tuple[int, int, int]],
    former: Callable[[int], str | None],
) -> str:
    """Describe a change set in a sentence; `entities` and `relations` as in `GraphCurated`, names as they are now.

    `former` returns the name that an entity had before the change; None if it is not known.
    """
    own_relations = [graph.relations[id] for id, _, _ in relations if id in graph.relations]
    if action in ("add", "import"):
        # Relations that the new one ended belong to the change set too, but the sentence is about what was added.
        new = {id for id, before, _ in relations if before == 0}
        own_relations = [relation for relation in own_relations if relation.id in new]
        if action == "import" or len(own_relations) != 1:
            joined = [_count(len(new), "relation")]
            joined += [_count(number, "entity") for number in [sum(not before for _, before, _ in entities)] if number]
            return f"{'Imported' if action == 'import' else 'Added'} {' and '.join(joined)}."
    if action == "merge" and entities:
        # The event lists the merged entities first, and the one that stays last.
        *gone, into = (graph.name(id) for id, _, _ in entities)
        what = gone[0] if len(gone) == 1 else _count(len(gone), "entity")
        return f"Merged {what} into {into}." if gone else f"Merged others into {into}."
    if action == "rename" and entities:
        now, before = graph.name(entities[0][0]), former(entities[0][0])
        return f"Changed {now}." if before in (None, now) else f"Renamed {before} to {now}."
    if action == "retire" and entities:
        what = graph.name(entities[0][0]) if len(entities) == 1 else _count(len(entities), "entity")
        return f"Removed {what} with {_count(len(relations), 'relation')}."
    if action in ("hold", "edit"):
        # Without relations that ended only because of this change.
        own_relations = [relation for relation in own_relations if relation.state == "active"] or own_relations
    verbs = {"add": "Added", "edit": "Changed", "end": "Ended", "hold": "Took up again", "retire": "Retired"}
    several = _count(len(relations), "relation")
    one = len(own_relations) == 1 or (action == "edit" and own_relations)
    return f"{verbs.get(action, 'Changed')} {graph.describe(own_relations[0]) if one else several}."


def _count(number: int, what: str) -> str:
    plural = "entities" if what == "entity" else f"{what}s"
    return f"1 {what}" if number == 1 else f"{number:,} {plural}"
