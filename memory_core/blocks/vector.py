"""A block that stores turns with their vectors and brings back those that fit the question."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from sqlalchemy import Connection

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Item, Learned, Nothing, Reading
from memory_core.blocks.markup import turn_parts
from memory_core.blocks.shelf import Shelf
from memory_core.errors import ConfigError, EmbedderError, VectorIndexError
from memory_core.events import Retrieved, VectorsStored, expand, ranges
from memory_core.messages import MessageRole, content_hash, message_text, recites_memory
from memory_core.models.base import Embedder, ModelCall
from memory_core.planning.retrieval import RetrievalPlan, Signals, plan_retrieval
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.messages import StoredMessage, read_messages
from memory_core.store.vectors import DatabaseVectors, NewNode, Node, add_nodes, collection_name
from memory_core.store.writing import Writing
from memory_core.vectors.base import Vector, VectorIndex
from memory_core.vectors.keyword import KeywordIndex

VECTOR_WEIGHT = 0.85
KEYWORD_WEIGHT = 0.15
"""Equal weights halve the first-place recall on questions asked in other words; a small share still
lifts exact names and numbers."""

QUESTION_WEIGHT = 0.8
"""Share of the latest user input in the query; the rest is the messages before it."""

MOST_RECORDED = 50
"""Candidates kept in an event; the rest only as counts."""

LEAST_CANDIDATES = 50
"""Turns that each search proposes, however few results are wanted."""

DATABASE_COPY = "Searched the database copy instead (slower)."
KEYWORD_ONLY = "Keyword search only."
NOTHING_SEARCHED = "Nothing could be searched."
"""How the sentence begins that says what could not be searched."""


class _Unsaved:
    """Vectors of units that are not stored yet, each embedded when it is first searched. Safe to share between threads.

    Only those of the last search are kept.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._vectors: dict[tuple[str, str], Vector] = {}

    def of(self, words: Sequence[str], embedder: Embedder) -> list[Vector]:
        keys = [(embedder.id, content_hash(text)) for text in words]
        with self._lock:
            missing = {key: text for key, text in zip(keys, words, strict=True) if key not in self._vectors}
            vectors = dict(self._vectors)
            if missing:
                vectors.update(zip(missing, embedder.embed(list(missing.values())), strict=True))
            self._vectors = {key: vectors[key] for key in keys}
        return [vectors[key] for key in keys]

    def clear(self) -> None:
        with self._lock:
            self._vectors = {}


@dataclass(frozen=True, slots=True)
class Recall:
    """What one question finds, before the token limit has its say."""

    question: str
    nodes: Mapping[int, Node]
    """Every stored turn by number."""
    plan: RetrievalPlan
    proposed: int
    """How many turns each search proposes at most; the rest are no candidates."""
    embedder: str
    index: str
    weights: tuple[float, float]
    """Of the vector and the keyword score, as they were used."""
    query: Vector | None
    """None: nothing was embedded."""
    keyword: Mapping[int, float]
    """Of every stored turn that has a word of the question."""
    degraded: str | None
    """What could not be searched, in words."""


@dataclass(frozen=True, slots=True)
class _Searched:
    signals: list[Signals]
    keyword: dict[int, float]
    weights: tuple[float, float]
    query: Vector | None
    degraded: str | None


class VectorMemoryBlock(BaseMemoryBlock[str]):
    """Stored turns, found again by meaning and by keyword.

    A user message and the replies to it are one unit (`unit="turn"`), or everything that left the
    queue together (`unit="batch"`). `vector_store` is a `VectorIndex`, `embed_model` an `Embedder`;
    without them the memory's own are used.
    """

    kind: ClassVar[str] = "vector"

    name: str = "RetrievedMessages"
    vector_store: Any = Field(default=None, exclude=True)
    embed_model: Any = Field(default=None, exclude=True)
    similarity_top_k: int = 2
    """Most turns brought back for one context."""
    retrieval_context_window: int = 5
    """Messages that make up the query, the latest user input among them and weighing most; 1: it alone."""
    similarity_threshold: float | None = None
    """Least fused score, 0 to 1; None: no threshold."""
    vector_weight: float = VECTOR_WEIGHT
    """Share of the vector score in the fused one; 0 switches vector search off."""
    keyword_weight: float = KEYWORD_WEIGHT
    """Share of the keyword score; 0 switches keyword search off."""
    unit: Literal["turn", "batch"] = "turn"

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._check_settings()

    @property
    def type(self) -> str:
        return self.kind

    def settings(self) -> dict[str, Any]:
        own = set(VectorMemoryBlock.model_fields) - set(BaseMemoryBlock.model_fields)
        return super().settings() | self.model_dump(mode="json", include=own)

    def apply(self, settings: dict[str, Any]) -> None:
        super().apply(settings)
        self._check_settings()

    def _check_settings(self) -> None:
        if self.retrieval_context_window < 1:
            raise ConfigError(
                f"retrieval_context_window must be at least 1 message, not {self.retrieval_context_window}"
            )
        # Top-k, threshold and weights: the planner's own rules, asked before there is anything to plan.
        self._plan((), in_queue=(), weights=(self.vector_weight, self.keyword_weight))

    # -- storing ----------------------------------------------------------------------------------

    def learn(self, batch: Batch) -> Learned:
        units = [unit for unit in units_of(batch.messages, self.unit) if words_of(unit)]
        if not units:
            return Nothing()
        embedder = self._embedder(batch.services)
        vectors = embedder.embed([words_of(unit) for unit in units])
        nodes = [
            NewNode(
                seqs=tuple(message.seq for message in unit),
                tokens=batch.counter.text(words_of(unit)),
                vector=vector,
            )
            for unit, vector in zip(units, vectors, strict=True)
        ]
        return _LearnedTurns(self.name, embedder.id, nodes)

    # -- finding ----------------------------------------------------------------------------------

    def read(self, reading: Reading, state: str | None) -> Content:
        recall = self.recall(reading)
        if recall is None:
            return Content()
        items = self._items(reading, [recall.nodes[number] for number in recall.plan.granted])
        retrieved = Retrieved(
            block=self.name,
            query=content_hash(recall.question),
            embedder=recall.embedder,
            index=recall.index,
            top_k=self.similarity_top_k,
            threshold=self.similarity_threshold,
            candidates=tuple(
                (c.number, _round(c.vector), _round(c.keyword), round(c.score, 4), c.fate)
                for c in recall.plan.candidates[:MOST_RECORDED]
            ),
            gates={str(fate): count for fate, count in recall.plan.gates.items()},
            degraded=recall.degraded,
            weights=recall.weights,
        )
        # Granted turns are listed best first, so the worst is cut first.
        cut_order = tuple(reversed(range(len(items))))
        return Content(items=items, cut_order=cut_order, events=(retrieved,), keep=(recall.question,))

    def recall(self, reading: Reading, unsaved: Mapping[int, str] | None = None) -> "Recall | None":
        """What the question finds among the stored turns, each candidate with its fate; None: nothing to search.

        What asks for the prompt and what only looks (`memory_core.searching`) both find with this. `unsaved` are the
        words of units that are not stored yet, searched with the others, under negative numbers.
        """
        question = reading.question.strip()
        nodes, keywords = self.stored(reading)
        unsaved = unsaved or {}
        if not question or not (nodes or unsaved):
            return None
        index: VectorIndex = self.vector_store or reading.services.index
        embedder = self._embedder(reading.services)
        searched = self._searched(reading, index, embedder, keywords, question, unsaved)
        # An index may know turns that were stored since the nodes were read, or deleted.
        signals = [signal for signal in searched.signals if signal.number in nodes or signal.number in unsaved]
        stored = [nodes[signal.number] for signal in signals if signal.number in nodes]
        in_queue = {node.number for node in stored if node.covers(reading.queue_seqs)}
        return Recall(
            question=question,
            nodes=nodes,
            plan=self._plan(signals, in_queue=in_queue, weights=searched.weights),
            proposed=self._candidates,
            embedder=embedder.id,
            index=index.name,
            weights=searched.weights,
            query=searched.query,
            keyword=searched.keyword,
            degraded=searched.degraded,
        )

    def stored(self, reading: Reading) -> tuple[dict[int, Node], KeywordIndex]:
        """All stored turns by number, and the index of their words."""
        with reading.database.read() as connection:
            return self._shelf(reading.services, reading.database, reading.session_id).catch_up(
                connection,
                reading.session_id,
                self.name,
                lambda connection, new: [words_of(messages) for messages in self._messages(connection, reading, new)],
            )

    def source(self, reading: Reading) -> DatabaseVectors:
        """The vectors of the stored turns under the present embedder."""
        embedder = self._embedder(reading.services)
        collection = collection_name(reading.database, reading.session_id, self.name, embedder.id)
        return DatabaseVectors(reading.database, collection)

    def _searched(
        self,
        reading: Reading,
        index: VectorIndex,
        embedder: Embedder,
        keywords: KeywordIndex,
        question: str,
        unsaved: Mapping[int, str],
    ) -> "_Searched":
        """What each search says of the stored turns that either finds, and of every unit not stored yet."""
        keyword: dict[int, float] = {}
        if self.keyword_weight > 0:
            keyword = {hit.number: hit.score for hit in keywords.search(question, limit=max(1, len(keywords)))}
        best = list(keyword)[: self._candidates]
        weights = self.vector_weight, self.keyword_weight
        vector: dict[int, float] = {}
        query = degraded = None
        if self.vector_weight > 0:
            try:
                query = self._query_vector(reading, embedder, question)
                vector, degraded = self._by_meaning(reading, index, query, also=best)
                vector |= self._unsaved_by_meaning(reading, embedder, query, unsaved) if unsaved else {}
            except (EmbedderError, VectorIndexError) as error:
                degraded = f"{KEYWORD_ONLY if self.keyword_weight > 0 else NOTHING_SEARCHED} {error}"
                if self.keyword_weight > 0:
                    weights = 0.0, self.keyword_weight  # what cannot be known must not hold the scores down
        on = self.keyword_weight > 0
        if on:
            keyword |= {number: keywords.score(question, words) for number, words in unsaved.items()}
        found = dict.fromkeys([*vector, *best, *unsaved])
        signals = [Signals(n, vector.get(n), keyword.get(n, 0.0) if on else None) for n in found]
        return _Searched(signals, keyword, weights, query, degraded)

    def _by_meaning(
        self, reading: Reading, index: VectorIndex, query: Vector, *, also: Sequence[int]
    ) -> tuple[dict[int, float], str | None]:
        """Cosine by number: of the nearest stored turns, and of those that keyword search likes best.

        And in words, if the index did not answer and the database's own vectors were searched instead.
        """
        source = self.source(reading)
        limit = self._candidates
        degraded = None
        try:
            hits = index.search(source, query, limit=limit)
        except VectorIndexError as error:
            degraded = f"{DATABASE_COPY} {error}"
            hits = reading.services.exact.search(source, query, limit=limit)
        scores = {hit.number: hit.score for hit in hits}
        missing = set(also) - set(scores)
        if missing:
            stored = source.some(sorted(missing))
            scores.update((vector.number, float(vector.vector @ query)) for vector in stored)
        return scores, degraded

    def _unsaved_by_meaning(
        self, reading: Reading, embedder: Embedder, query: Vector, unsaved: Mapping[int, str]
    ) -> dict[int, float]:
        """Cosine of the units that are not stored yet, by number."""
        kept = self._not_stored(reading.services, reading.database, reading.session_id)
        vectors = kept.of(list(unsaved.values()), embedder)
        return {number: float(vector @ query) for number, vector in zip(unsaved, vectors, strict=True)}

    def let_go(self, services: Services, database: Database, session_id: str) -> None:
        """Drop what this process remembers of a session's turns."""
        self._shelf(services, database, session_id).clear()
        self._not_stored(services, database, session_id).clear()

    def _shelf(self, services: Services, database: Database, session_id: str) -> Shelf:
        return services.remembered(f"{database.id}/{session_id}/{self.name}", Shelf)

    def _not_stored(self, services: Services, database: Database, session_id: str) -> _Unsaved:
        return services.remembered(f"{database.id}/{session_id}/{self.name}/unsaved", _Unsaved)

    @property
    def _candidates(self) -> int:
        """How many turns each search proposes at most."""
        return max(LEAST_CANDIDATES, 4 * self.similarity_top_k)

    def _query_vector(self, reading: Reading, embedder: Embedder, question: str) -> Vector:
        before = [message_text(message) for message in reading.queue if message.role is not MessageRole.TOOL]
        if before and before[-1] == question:
            before.pop()
        window = "\n".join(text for text in before[-(self.retrieval_context_window - 1) :] if text)
        if self.retrieval_context_window == 1 or not window:
            return np.asarray(embedder.embed([question])[0], dtype=np.float32)
        asked, around = embedder.embed([question])[0], embedder.embed([window])[0]
        mixed = QUESTION_WEIGHT * asked + (1 - QUESTION_WEIGHT) * around
        length = float(np.linalg.norm(mixed))
        return np.asarray(mixed / length if length else asked, dtype=np.float32)

    def _items(self, reading: Reading, nodes: Sequence[Node]) -> tuple[Item, ...]:
        items = []
        with reading.database.read() as connection:
            stored = self._messages(connection, reading, nodes)
        for node, messages in zip(nodes, stored, strict=True):
            parts = turn_parts([message.message for message in messages], reading.safe)
            items.append(Item(f"v{node.number}", words_of(messages), parts, tokens=node.tokens))
        return tuple(items)

    def _messages(self, connection: Connection, reading: Reading, nodes: Sequence[Node]) -> list[list[StoredMessage]]:
        """The messages of each node, one read for all."""
        seqs = sorted({seq for node in nodes for seq in expand(node.seqs)})
        found = read_messages(connection, reading.session_id, reading.services.messages, seqs=seqs)
        by_seq = {message.seq: message for message in found}
        return [[by_seq[seq] for seq in expand(node.seqs) if seq in by_seq] for node in nodes]

    def _plan(
        self, signals: Sequence[Signals], *, in_queue: set[int] | tuple[()], weights: tuple[float, float]
    ) -> RetrievalPlan:
        return plan_retrieval(
            signals,
            top_k=self.similarity_top_k,
            threshold=self.similarity_threshold,
            in_queue=in_queue,
            vector_weight=weights[0],
            keyword_weight=weights[1],
        )

    def _embedder(self, services: Services) -> Embedder:
        embedder: Embedder = self.embed_model or services.embedder
        return embedder


class _LearnedTurns:
    """Embedded turns, not yet stored."""

    calls: tuple[ModelCall, ...] = ()

    def __init__(self, block: str, embedder: str, nodes: list[NewNode]) -> None:
        self._block, self._embedder, self._nodes = block, embedder, nodes

    def save(self, w: Writing) -> None:
        numbers = add_nodes(w, self._block, self._embedder, self._nodes)
        stored = tuple((n, ranges(node.seqs), node.tokens) for n, node in zip(numbers, self._nodes, strict=True))
        w.record(VectorsStored(block=self._block, embedder=self._embedder, nodes=stored))

    def committed(self) -> None:
        return None


def units_of(messages: Sequence[StoredMessage], unit: Literal["turn", "batch"]) -> list[list[StoredMessage]]:
    """Messages grouped into what is stored together. System messages are instructions, not memories.

    What follows no user message of the batch (the rest of a thinned turn, say) is a unit of its own.
    """
    heard = [
        message
        for message in messages
        if message.message.role is not MessageRole.SYSTEM and not recites_memory(message.message)
    ]
    if unit == "batch":
        return [heard] if heard else []
    units: list[list[StoredMessage]] = []
    for message in heard:
        if not units or message.message.role is MessageRole.USER:
            units.append([])
        units[-1].append(message)
    return units


def words_of(unit: Sequence[StoredMessage]) -> str:
    """The text of a unit, as it is embedded, searched and counted."""
    return "\n".join(text for message in unit if (text := message_text(message.message)))


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
