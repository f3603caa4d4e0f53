"""A block of entities and relations; recalls the neighbourhood of the entities a question mentions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, ClassVar

from pydantic import Field, PrivateAttr
from sqlalchemy import Connection

from memory_core.blocks.base import (
    BaseMemoryBlock,
    Batch,
    Content,
    Imagined,
    Item,
    PendingWrite,
    ReadContext,
    call_pieces,
    in_context,
    scope_of,
    with_times,
)
from memory_core.blocks.former_marks import FormerMarks
from memory_core.blocks.nothing_learned import NothingRead, reasons_given, record_reasons, unread_among, without_reason
from memory_core.errors import ConflictError
from memory_core.events import GraphCurated, ProposalRefused, Ref, RelationsExtracted, ranges
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.models.protocols import ChatModel, FoundRelation, RelationExtractor, model_name
from memory_core.planning.former_values import FormerMark, Statement
from memory_core.planning.graph_changes import NamedRelation, plan_relations, plan_same, relation_outcomes
from memory_core.planning.graph_draft import GraphPlan
from memory_core.planning.graph_rules import Graph, Names, Relation, neighbourhood, slot_of
from memory_core.planning.learning_outcomes import Reason, plan_reasons
from memory_core.planning.rendering import marked_text, relation_parts
from memory_core.planning.speakers import said_by_others
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.graph_rows import Revision, graph_revision, last_number, read_graph, store_plan
from memory_core.store.message_rows import StoredMessage
from memory_core.store.writing import Writing

MAX_KNOWN = 200
"""Maximum number of entity names given to an extractor: the names mentioned last."""

LATELY = 4
"""Number of latest messages in the queue that supply the entities if the question names none."""


class GraphMemoryBlock(BaseMemoryBlock[str]):
    """Entities and typed, directed relations, found by a model or by the offline rules.

    `llm` is a chat model, or any `RelationExtractor`; without one the services' default is used.
    """

    kind: ClassVar[str] = "graph"
    kind_is_built_in: ClassVar[bool] = True
    kind_in_pieces: ClassVar[bool] = True
    kind_model_calls: ClassVar[int] = 1
    kind_when_removed: ClassVar[str] = "Its relations stay stored, and return with a block of that name."
    outside: ClassVar[Mapping[str, tuple[Any, ...]]] = {"llm": (ChatModel, RelationExtractor)}

    name: str = "Relations"
    llm: Any = Field(default=None, exclude=True)
    hops: int = Field(default=2, ge=1, le=4)
    """Maximum distance, in steps, of a recalled relation from the entities the question mentions."""
    most_relations: int = Field(default=20, ge=1)
    """Maximum number of relations in one context, the nearest first."""

    _imagined: Graph | None = PrivateAttr(default=None)
    """Graph read in place of the stored one, in a preview."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"hops": self.hops, "most_relations": self.most_relations}

    def learner(self, services: Services) -> str | None:
        return model_name(self.extractor(services))

    def extractor(self, services: Services) -> RelationExtractor:
        """Extractor in use: the block's own, its chat model wrapped as one, or the services' default."""
        if self.llm is None:
            return services.relations
        if isinstance(self.llm, RelationExtractor):
            return self.llm
        from memory_core.models.relating import ModelRelations

        return ModelRelations(self.llm)

    def read(self, reading: ReadContext, state: str | None) -> Content:
        graph, names = self._graph(reading)
        graph = graph.without_relations(reading.quarantine.relations)
        chosen = recalled(graph, mentioned(names, reading.question, reading.queue), self.hops, self.most_relations)
        refs = [Ref.of("relation", relation.id) for relation in chosen]
        marks = FormerMarks.read(reading).of_statements(refs) if chosen else {}
        items = tuple(_item(graph, one, reading, marks.get(ref)) for one, ref in zip(chosen, refs, strict=True))
        stored = tuple(mark.as_stored(ref) for ref, mark in marks.items())
        # The nearest come first, so the last is cut first.
        return Content(items=items, cut_order=tuple(reversed(range(len(items)))), marks=stored)

    def _graph(self, reading: ReadContext) -> tuple[Graph, Names]:
        if self._imagined is not None:
            return self._imagined, Names(self._imagined)
        scope = scope_of("session", reading.session_id, reading.user_id, self.name)
        cache = GraphCache.of(reading.services, reading.database, scope, self.name)
        with reading.database.read() as connection:
            _, graph, names = cache.catch_up(connection, scope, self.name)
        return graph, names

    def imagining(self, graph: Graph) -> "GraphMemoryBlock":
        """Return a copy that shows this graph in place of the stored one. For previews."""
        other = self.model_copy()
        other._imagined = graph
        return other

    @property
    def imagined_statements(self) -> tuple[Statement, ...]:
        graph = self._imagined
        if graph is None:
            return ()
        ended = {id for id, relation in graph.relations.items() if relation.state == "ended"}
        later = {relation.ended_by for relation in map(graph.relations.__getitem__, ended)}
        slots = {r.id: slot_of(graph.name(r.subject), r.predicate) for r in graph.relations.values()}
        return tuple(
            Statement(
                ref=Ref.of("relation", id),
                wordings=(graph.sentence(relation),),
                turn=relation.turn if relation.ended_turn is None else relation.ended_turn,
                sources=relation.sources,
                ended=id in ended,
                confirmed_at=relation.confirmed_at,
                reviewed=relation.origin == "written",
                block=self.name,
                slot=slots[id],
                replaced_by=None if relation.ended_by is None else Ref.of("relation", relation.ended_by),
            )
            for id, relation in graph.relations.items()
            if id in ended or id in later or (relation.state == "active" and slots[id] is not None)
        )

    def imagined(self, batch: Batch, numbers: Iterator[int]) -> Imagined | None:
        if not self.extractor(batch.services).offline:
            return None
        learned = self.prepare_write(batch)
        if not isinstance(learned, _LearnedRelations):
            return Imagined(self, batch.state)
        return Imagined(self.imagining(learned.after(numbers)), batch.state)

    def prepare_write(self, batch: Batch) -> PendingWrite:
        scope = scope_of("session", batch.session_id, batch.user_id, self.name)
        # Pinned messages are instructions: the names in them say nothing about the user.
        heard = [message for message in batch.readable if not message.pinned]
        extractor = self.extractor(batch.services)
        if not heard:
            return NothingRead(self.name, extractor.name, batch)
        cache = GraphCache.of(batch.services, batch.database, scope, self.name)
        with batch.database.read() as connection:
            before, stored, _ = cache.catch_up(connection, scope, self.name)
            heard = with_times(connection, batch.session_id, heard)
        graph = stored if self._imagined is None else self._imagined
        learned = _LearnedRelations(self.name, scope, extractor.name, before, graph)
        learned.seqs = tuple(message.seq for message in heard)
        names_known = _known_names(graph)
        reasons = unread_among(batch, heard)
        for piece in call_pieces(heard):
            reader, context = in_context(extractor, batch, piece)
            learned.context |= {shown.seq for shown in context}
            learned.context_tokens += sum(batch.counter.text(message_text(shown.message)) for shown in context)
            relations = reader.relations([message.message for message in piece], known=names_known)
            learned.calls += relations.calls
            learned.refused.update(relations.refused)
            reasons |= reasons_given(relations.nothing, piece, {})
            learned.found += [_to_named_relation(relation, piece, batch.session_id) for relation in relations.relations]
            # Later pieces of the same delivery know the names of earlier ones.
            new = (name for one in relations.relations for name in (one.subject, one.object))
            names_known = list(dict.fromkeys([*names_known, *new]))[-MAX_KNOWN:]
        # Plan all pieces together: a relation at the end may show that two names at the beginning are one entity.
        learned.decide()
        outcomes = relation_outcomes(graph, learned.found, learned.plan)
        learned.reasons = plan_reasons([m.seq for m in batch.messages], outcomes, reasons, without_reason(extractor))
        return learned


class _LearnedRelations(PendingWrite):
    """Found relations and the resulting plan; the pending write of a graph block."""

    def __init__(self, block: str, scope: str, extractor: str, before: Revision, graph: Graph) -> None:
        self.block, self.scope, self.extractor, self.before, self.graph = block, scope, extractor, before, graph
        self.seqs: tuple[int, ...] = ()
        self.found: list[NamedRelation] = []
        self.refused: Counter[str] = Counter()
        """Number of relations that the extractor itself refused, by reason."""
        self.reasons: Mapping[int, Reason] = {}
        """Reason why nothing was learned from a message of the batch, by sequence number."""
        self.context_tokens = 0
        self.same = self.plan = GraphPlan()

    def decide(self) -> None:
        """Plan which entities are the same first, then the relations on the resulting graph."""
        self.same = plan_same(self.graph, self.found)
        self.plan = plan_relations(self.same.applied_to(self.graph), self.found)

    def after(self, numbers: Iterator[int]) -> Graph:
        """Return the graph after this is stored; `numbers` yields ids for new entities and relations."""
        return self.plan.applied_to(self.same.applied_to(self.graph), numbers)

    def save(self, w: Writing) -> None:
        # Planned outside of the transaction, as a model may take minutes.
        if graph_revision(w.connection, self.scope, self.block) != self.before:
            raise ConflictError("The graph was changed while relations were being found. They are compared again.")
        # Relations that the extractor refused were not returned as found, so they are added to both counts.
        refused = self.refused + Counter(dict(self.plan.refused))
        w.record(
            RelationsExtracted(
                block=self.block,
                extractor=self.extractor,
                seqs=ranges(self.seqs),
                found=len(self.found) + sum(self.refused.values()),
                added=len(self.plan.added_relations),
                confirmed=self.plan.repeated,
                ended=self.plan.ended,
                refused=sum(refused.values()),
                context=len(self.context),
                context_tokens=self.context_tokens,
            )
        )
        for reason, number in refused.items():
            w.record(ProposalRefused(block=self.block, what="relation", reason=reason, number=number))
        if self.same:
            stored = store_plan(w, self.scope, self.block, self.same, actor="engine")
            # Recorded like a person's change, so that it can be undone like one.
            number = last_number(w.connection, w.session.id, self.block) + 1
            w.record(GraphCurated(self.block, "merge", stored.entities, stored.relations, number=number))
        store_plan(w, self.scope, self.block, self.plan, actor="engine")
        record_reasons(w, self.block, self.extractor, self.reasons)


def mentioned(names: Names, question: str, queue: Sequence[ChatMessage]) -> tuple[int, ...]:
    """Return the entities mentioned in a question; if there are none, those mentioned last in the queue."""
    entities = names.mentioned(question)
    if entities:
        return entities
    lately = [message for message in queue if message_text(message)][-LATELY:]
    return tuple(
        dict.fromkeys(
            id
            for message in reversed(lately)
            # "I" is the user only in a user's message.
            for id in names.mentioned(message_text(message), first_person=message.role is MessageRole.USER)
        )
    )


def recalled(graph: Graph, entities: Sequence[int], hops: int, most: int) -> list[Relation]:
    """Return at most `most` active relations near the entities: nearest first, then last confirmed first."""
    distances = neighbourhood(graph, entities, hops)

    def rank(id: int) -> tuple[float, ...]:
        return distances[id], -graph.relations[id].confirmed_at, -id

    return [graph.relations[id] for id in sorted(distances, key=rank)[:most]]


def _item(graph: Graph, relation: Relation, reading: ReadContext, former: FormerMark | None) -> Item:
    words, mark = graph.sentence(relation), "" if former is None else former.text()
    parts, marked = relation_parts(words, reading.safe, mark), marked_text(words, mark)
    return Item(Ref.of("relation", relation.id), marked, parts, tokens=reading.counter.text(marked))


def _known_names(graph: Graph) -> list[str]:
    """Return the names of the active entities, those mentioned last at the end."""
    spoken: dict[int, float] = {}
    for relation in graph.relations.values():
        for end in (relation.subject, relation.object):
            spoken[end] = max(spoken.get(end, 0.0), relation.confirmed_at)
    active = [entity for entity in graph.entities.values() if entity.state == "active"]
    # An entity without relations counts as mentioned when it was last changed.
    ranked = sorted(active, key=lambda entity: (spoken.get(entity.id, entity.updated_at), entity.id))
    return [entity.name for entity in ranked[-MAX_KNOWN:]]


def _to_named_relation(found: FoundRelation, heard: Sequence[StoredMessage], session_id: str) -> NamedRelation:
    """Return a found relation with its source message, or with all messages if the extractor named none."""
    sourced = found.source is not None and 0 <= found.source < len(heard)
    messages = [heard[found.source]] if sourced and found.source is not None else heard
    statement = f"{found.subject} {found.predicate} {found.object}"
    return NamedRelation(
        subject=found.subject,
        predicate=found.predicate,
        object=found.object,
        subject_type=found.subject_type,
        object_type=found.object_type,
        ended=found.ended,
        sources=tuple((session_id, message.seq) for message in messages),
        by_others=said_by_others(statement, found.source, [message.message for message in heard]),
    )


# -- cache of a block's knowledge graph within one process ----------------------------------------


class GraphCache:
    """Cache of the graph of one block in one scope. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: tuple[Revision, Graph, Names] | None = None

    @classmethod
    def of(cls, services: Services, database: Database, scope: str, block: str) -> "GraphCache":
        """Return the cache of this process for a block."""
        return services.cached(("graph", database.id, scope, block), cls)

    def catch_up(self, connection: Connection, scope: str, block: str) -> tuple[Revision, Graph, Names]:
        """Return the present graph, with its revision and the names of its entities."""
        revision = graph_revision(connection, scope, block)
        with self._lock:
            # Read under the lock, so that two threads that ask at once read the graph once.
            if self._known is None or self._known[0] != revision:
                graph = read_graph(connection, scope, block)
                self._known = revision, graph, Names(graph)
            return self._known
