"""A block that stores messages with their vectors and recalls those that answer the question."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PrivateAttr
from sqlalchemy import Connection

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Imagined, PendingWrite, ReadContext
from memory_core.blocks.former_marks import NO_MARKS, FormerMarks
from memory_core.blocks.packing import (
    NOT_APPLIED,
    PackedUnits,
    PostprocessedUnit,
    RepeatedTexts,
    check,
    postprocess,
    queued_texts,
)
from memory_core.blocks.storing import learn_units, vectors_of, vectors_of_user, vectors_that_follow
from memory_core.blocks.unit_cache import PendingUnits, PendingVectors, StoredUnits, UnitCache
from memory_core.blocks.units import (
    Unit,
    UnitMetadata,
    messages_of,
    parse_unit,
    search_words,
    searchable,
    words_of,
)
from memory_core.errors import EmbedderError, VectorIndexError, user_message
from memory_core.events import Ref, Retrieved, expand, ranges
from memory_core.messages import ChatMessage, MessageRole, content_hash, message_text
from memory_core.models.protocols import Embedder, LimitedEmbedder, embedded
from memory_core.planning.rendering import SPACED, Layout
from memory_core.planning.retrieval_plan import (
    NEIGHBOURS,
    BoostWeights,
    Repeats,
    RetrievalPlan,
    Signals,
    boosts,
    plan_retrieval,
    postprocessed,
)
from memory_core.planning.speakers import ParsedQuestion, parse_message, parse_question
from memory_core.process import per_process
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.derived_files import DerivedFile
from memory_core.store.message_rows import StoredMessage
from memory_core.store.vector_rows import DatabaseVectors, Node, sessions_that_share
from memory_core.text import stems
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.keyword import NO_SCORES, KeywordScores
from memory_core.vectors.pgvector import PgvectorIndex
from memory_core.vectors.vector_index import Vector, VectorIndex

VECTOR_WEIGHT = 0.4
KEYWORD_WEIGHT = 0.6
"""Weights of the vector and keyword scores in the match, tuned together with the boosts (`planning.boosts`). Keyword
scores (BM25) are small beside cosines: both count about equally if a unit has the question's words, otherwise the
vector score alone counts."""

QUESTION_WEIGHT = 0.8
"""Weight of a short question in its query vector; the messages before it have the rest."""

SAYS_LITTLE = 2
"""Number of stems below which a question ("And what about her?") is completed by the messages before it."""

MAX_RECORDED = 25
"""Maximum candidates listed in an event (2 KB with boosts), so that a turn fits a SQLite page; more are counted."""

MIN_CANDIDATES = 50
"""Minimum number of candidates of each search, even if fewer results are wanted."""

WIDE_CANDIDATES = 500
"""Candidates of each search if units lend score to others, or if as many results as fit are wanted. With 300 of them,
recall at 1,000 tokens was 0.2 points lower on conversations of 700 messages; with 100 it was 2 points lower."""

UNFILLED_TOP_K = 10
"""Number of results if as many as fit are wanted, but no token budget says how many fit."""

BOOST_FIELDS = {
    "neighbours": "neighbour_weight",
    "episode": "episode_weight",
    "speaker": "speaker_weight",
    "date": "date_weight",
    "informativeness": "informativeness_weight",
    "length": "length_weight",
}
"""Setting for the weight of each of `planning.boosts.BOOSTS`."""

BEFORE_BOOSTS: dict[str, Any] = {"layout": "messages", **dict.fromkeys(BOOST_FIELDS.values(), 0.0)}
"""Settings equivalent to a version without boosts; a block stored by such a version keeps them until changed."""

CLASSIC: dict[str, Any] = {**BEFORE_BOOSTS, "unit": "turn", "vector_weight": 0.85, "keyword_weight": 0.15}
"""Settings of LlamaIndex's vector memory: a user message with its replies, ranked by its own words alone."""

DATABASE_COPY = "Searched the database copy instead (slower)."
KEYWORD_ONLY = "Keyword search only."
NOTHING_SEARCHED = "Nothing could be searched."
"""Beginning of the sentence about a failed search."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Search result for one question, before the token limit applies."""

    question: str
    stored: StoredUnits
    plan: RetrievalPlan
    proposed: int
    """Maximum number of units each search proposes as candidates."""
    embedder: str | None
    """Id of the embedder; None: unknown, because its endpoint does not answer."""
    index: str
    weights: tuple[float, float]
    """Weights of the vector and the keyword score, as they were used."""
    query: Vector | None
    """Vector of the question; None: nothing was embedded."""
    keyword: KeywordScores
    """Keyword score of every stored unit that shares a word with the question."""
    degraded: str | None
    """Sentence on what could not be searched or postprocessed; None: nothing failed."""
    laid_out: PackedUnits

    @property
    def nodes(self) -> Mapping[int, Node]:
        """Every stored unit by id."""
        return self.stored.nodes

    def elsewhere(self, number: int) -> bool:
        """Return whether another session of the user stored a unit."""
        return self.laid_out.elsewhere(number)


@dataclass(frozen=True, slots=True)
class _Searched:
    signals: list[Signals]
    keyword: KeywordScores
    weights: tuple[float, float]
    query: Vector | None
    degraded: str | None


@dataclass(frozen=True, slots=True)
class _NotStored:
    """Search terms of a unit that is not stored yet."""

    words: str
    stems: str


class VectorMemoryBlock(BaseMemoryBlock[str]):
    """Stored messages, found by meaning and by keyword, with boosts from their context.

    A unit is one message (`unit="message"`), a user message with the replies to it (`unit="turn"`), or everything
    flushed together (`unit="batch"`). Its score is its match, the weighted mean of the vector and the keyword score,
    plus six boosts, each with a weight of its own; 0 disables it. Without a number of results (`similarity_top_k`) as
    many are recalled as fit into the tokens the other parts of the prompt leave. `vector_store` is a `VectorIndex`,
    `embed_model` an `Embedder`; without them the services' defaults are used.
    """

    kind: ClassVar[str] = "vector"
    kind_is_built_in: ClassVar[bool] = True
    kind_in_pieces: ClassVar[bool] = True
    kind_when_removed: ClassVar[str] = "Its stored turns are deleted; their messages stay in the archive."
    outside: ClassVar[Mapping[str, tuple[Any, ...]]] = {"vector_store": (VectorIndex,), "embed_model": (Embedder,)}

    instead: ClassVar[Mapping[str, str]] = {
        "format_template": ": layout says how what is found is laid out",
        "query_kwargs": ": similarity_top_k and similarity_threshold are arguments of their own",
    }

    name: str = "RetrievedMessages"
    vector_store: Any = Field(default=None, exclude=True)
    embed_model: Any = Field(default=None, exclude=True)
    similarity_top_k: int | None = Field(default=None, ge=1)
    """Maximum number of units in one context; None: as many as fit."""
    retrieval_context_window: int = Field(default=5, ge=1)
    """Number of messages in the query of a short question: the question, which weighs most, and those before it."""
    similarity_threshold: float | None = Field(default=None, ge=0, le=1)
    """Minimum score; None: no threshold."""
    vector_weight: float = Field(default=VECTOR_WEIGHT, ge=0, allow_inf_nan=False)
    """Weight of the vector score in the match; 0 disables vector search."""
    keyword_weight: float = Field(default=KEYWORD_WEIGHT, ge=0, allow_inf_nan=False)
    """Weight of the keyword score in the match; 0 disables keyword search."""
    neighbour_weight: float = Field(default=BoostWeights().neighbours, ge=0, allow_inf_nan=False)
    """Part of the match of neighbouring units, two on either side in the same episode, that is lent to a unit."""
    episode_weight: float = Field(default=BoostWeights().episode, ge=0, allow_inf_nan=False)
    """Part of the mean match of the best three units of an episode that is lent to all its units."""
    speaker_weight: float = Field(default=BoostWeights().speaker, ge=0, allow_inf_nan=False)
    """Boost for units of the speaker whom the question names, or else of the person asking; lower for other people."""
    date_weight: float = Field(default=BoostWeights().date, ge=0, allow_inf_nan=False)
    """Boost for units from a date that the question names."""
    informativeness_weight: float = Field(default=BoostWeights().informativeness, ge=0, allow_inf_nan=False)
    """Boost for units that are informative by themselves: many different words, first person, no questions."""
    length_weight: float = Field(default=BoostWeights().length, ge=0, allow_inf_nan=False)
    """Penalty for long units, for each doubling beyond 100 tokens."""
    node_postprocessors: list[Any] = Field(default_factory=list, exclude=True)
    """LlamaIndex postprocessors, which may reorder or drop the granted units."""
    postprocessed_by: list[str] = Field(default_factory=list)
    """Names of the postprocessors, for processes that do not have them; set by the block."""
    unit: Unit = "message"
    scope: Literal["session", "user"] = "session"
    """Sessions that search the stored units: this one, or all of the user's with a block of this name and scope. Units
    are stored with the session they were said in, and deleted with it."""
    layout: Layout = "lines"
    """Layout of units in the prompt: `lines`, a date line for each episode and `Ana: words`; `messages`, LlamaIndex's
    `<message>` elements, best first."""

    former_values: Literal["mark", "leave_out", "show"] = "mark"
    """Treatment of messages that say what a fact or relation has replaced since: `mark` them with the present value,
    `leave_out` units with such a message, or `show` them as they are."""

    _imagined: PendingUnits = PrivateAttr(default_factory=dict)
    """Units searched in addition to the stored ones, in a preview."""

    @property
    def fills_budget(self) -> bool:
        return self.similarity_top_k is None

    @property
    def read_elsewhere(self) -> bool:
        return bool(self.postprocessed_by) and not self.node_postprocessors

    @property
    def boost_weights(self) -> BoostWeights:
        return BoostWeights(**{term: getattr(self, field) for term, field in BOOST_FIELDS.items()})

    def settings(self) -> dict[str, Any]:
        settings_of_kind = set(VectorMemoryBlock.model_fields) - set(BaseMemoryBlock.model_fields)
        return super().settings() | self.model_dump(mode="json", include=settings_of_kind)

    def apply(self, settings: dict[str, Any]) -> None:
        # The constructor does not run for stored settings, so its check of their combination is made here.
        super().apply(self.legacy_defaults(settings) | settings)
        self._check_together()

    def legacy_defaults(self, settings: dict[str, Any]) -> dict[str, Any]:
        # A full set of settings without a layout was stored by a version that knew no boosts.
        return BEFORE_BOOSTS if "unit" in settings and "layout" not in settings else {}

    def _check_together(self) -> None:
        # Plan without candidates, so that the planner checks the settings: one of the two weights must be above 0.
        self._plan((), in_queue=(), weights=(self.vector_weight, self.keyword_weight), added=None)
        if self.node_postprocessors:
            self.postprocessed_by = check(self.node_postprocessors)

    # -- storing ----------------------------------------------------------------------------------

    def prepare_write(self, batch: Batch) -> PendingWrite:
        units = searchable(batch.messages, self.unit)
        if not units:
            return PendingWrite()
        return learn_units(batch, self.name, self.embedder(batch.services), units)

    def imagined(self, batch: Batch, numbers: Iterator[int]) -> Imagined | None:
        if not self.embedder(batch.services).offline:
            return None
        other = self.model_copy()
        # Not strict: `numbers` has no end.
        other._imagined = dict(zip(numbers, searchable(batch.messages, self.unit), strict=False))
        return Imagined(other, batch.state)

    def foresee(self, messages: Sequence[ChatMessage], services: Services) -> None:
        """Embed messages before they are stored or searched for, if the embedder is offline and so costs only time."""
        embedder = self.embedder(services)
        words = [parse_message(message).words for message in messages if message.role is not MessageRole.SYSTEM]
        words = [text for text in words if text]
        # Larger units are embedded as a whole, and their text is known only after their last message.
        if words and self.unit == "message" and embedder.offline:
            _ahead().submit(embedder.embed, words)  # a failure is reported when the vector is needed

    # -- finding ----------------------------------------------------------------------------------

    def read(self, reading: ReadContext, state: str | None) -> Content:
        recall = self.recall(reading, self._imagined)
        if recall is None:
            return Content()
        items, cut_order = recall.laid_out.content(recall.plan)
        # The event numbers this session's units; those of other sessions are in `elsewhere`, by the hash of their text.
        own_candidates = [candidate for candidate in recall.plan.candidates if not recall.elsewhere(candidate.number)]
        listed, gates = own_candidates[:MAX_RECORDED], Counter(candidate.outcome for candidate in own_candidates)
        texts = recall.laid_out.borrowed(recall.plan.granted)
        scores = {candidate.number: candidate.score for candidate in recall.plan.candidates}
        weights = self.boost_weights
        retrieved = Retrieved(
            block=self.name,
            query=content_hash(recall.question),
            embedder=recall.embedder,
            index=recall.index,
            top_k=self.similarity_top_k,
            threshold=self.similarity_threshold,
            candidates=tuple(
                (c.number, _round(c.vector), _round(c.keyword), round(c.score, 4), c.outcome) for c in listed
            ),
            gates={str(outcome): gates[outcome] for outcome in recall.plan.gates},
            degraded=recall.degraded,
            weights=recall.weights,
            boosts=tuple(tuple(round(value, 3) for value in c.boosts) for c in listed) if weights.any else (),
            boost_weights=asdict(weights) if weights.any else {},
            token_budget=reading.token_budget,
            postprocessors=tuple(self.postprocessed_by if self.node_postprocessors else ()),
            elsewhere=tuple((content_hash(text), round(scores[number], 4)) for number, text in texts.items()),
        )
        # Marks of other sessions' units are in their texts, which are kept.
        marks = recall.laid_out.marks(n for n in recall.plan.granted if not recall.elsewhere(n))
        return Content(
            items,
            cut_order,
            events=(retrieved,),
            keep=(recall.question, *texts.values()),
            layout=f"{self.layout}{SPACED}",
            marks=tuple(mark.as_stored(Ref.of("message", seq)) for seq, mark in marks),
        )

    def recall(self, reading: ReadContext, unsaved: PendingUnits | None = None) -> "Recall | None":
        """Search the stored units; return each candidate with its outcome. None: no question, or nothing stored.

        Used for the prompt and for explanations (`memory_core.retrieval.explain`). `unsaved` units are searched as if
        they were stored.
        """
        question = reading.question.strip()
        if reading.patience and self.vector_weight > 0:
            follow = vectors_that_follow(reading.database, reading.services, reading.session_id, self.name)
            follow.wait(reading.patience)
        # Read once: everything below is about the same units, whatever is stored meanwhile.
        stored = self.stored(reading)
        new: dict[int, _NotStored] = {}
        if unsaved:
            described = [(_node(number, unit, reading), parse_unit(unit)) for number, unit in unsaved.items()]
            stored = stored.imagining(described)
            new = {node.number: _NotStored(search_words(unsaved[node.number]), one.stems) for node, one in described}
        if not question or not stored.nodes:
            return None
        index = self.index(reading.services, reading.database)
        embedder = self.embedder(reading.services)
        weights = self.boost_weights
        # Without the speaker boost, the speaker's name must stay among the words, or it would not be searched for.
        meant = parse_question(question, stored.names if weights.speaker else ())
        searched = self._searched(reading, index, embedder, stored, meant, new)
        # An index may find units that were stored after `stored` was read, or deleted.
        signals = [signal for signal in searched.signals if signal.number in stored.places]
        marks = FormerMarks.read(reading) if self.former_values != "show" else NO_MARKS
        laid_out = PackedUnits(reading, stored, self.layout, marks)
        texts = RepeatedTexts(reading, stored, laid_out, unsaved or {})
        answers = texts.answers(signal.number for signal in signals)
        # No search may find the answer to an earlier copy of the question, as it can have all other words.
        unsearched = sorted({n for n in answers.values() if n is not None}.difference(s.number for s in signals))
        shared = searched.keyword.of(unsearched).tolist() if unsearched else []
        signals += [Signals(number, None, keyword) for number, keyword in zip(unsearched, shared, strict=True)]
        known_nodes = [stored.nodes[signal.number] for signal in signals]
        in_queue = {
            node.number
            for node in known_nodes
            # Sequence numbers count within a session: the queue's say nothing about units of another one.
            if reading.queue_seqs and node.session_id in ("", reading.session_id) and node.covers(reading.queue_seqs)
        }

        def added(matches: Mapping[int, float]) -> dict[int, tuple[float, ...]]:
            return boosts(matches, stored.traits, stored.places, meant, weights)

        leaving_out = known_nodes if self.former_values == "leave_out" else ()
        replaced = laid_out.marked([node.number for node in leaving_out])
        quarantined = {node.number for node in known_nodes if self._in_quarantine(node, reading)}
        shown = {node.number for node in known_nodes} - replaced - quarantined
        queued = queued_texts(reading.queue, self.unit) if self.scope == "user" else ()
        plan = self._plan(
            signals,
            in_queue=in_queue,
            weights=searched.weights,
            added=added if weights.any else None,
            reading=reading,
            replaced=replaced,
            quarantined=quarantined,
            repeats=texts.plan(shown, answers, queued),
        )
        plan, problem = self._postprocessed(plan, question, laid_out)
        degraded = " ".join(filter(None, (searched.degraded, problem))) or None
        # The token budget is the last gate: only units that passed the others compete for it.
        if self.fills_budget and reading.token_budget is not None:
            plan = laid_out.filled(plan, reading.token_budget)
        return Recall(
            question=question,
            stored=stored,
            plan=plan,
            proposed=self._candidates,
            embedder=_id(embedder),
            index=index.name,
            weights=searched.weights,
            query=searched.query,
            keyword=searched.keyword,
            degraded=degraded,
            laid_out=laid_out,
        )

    def _in_quarantine(self, node: Node, reading: ReadContext) -> bool:
        """Return whether a message of a unit is in quarantine: the unit is then left out as a whole."""
        session, withheld = node.session_id or reading.session_id, reading.quarantine.messages
        return bool(withheld) and any((session, seq) in withheld for seq in expand(node.seqs))

    def read_ahead(self, reading: ReadContext) -> None:
        """Load all stored units and vectors into this process, so that the first question need not wait."""
        self.stored(reading)
        index = self.index(reading.services, reading.database)
        if isinstance(index, ExactIndex | PgvectorIndex) and self.vector_weight > 0:
            index.load(self.source(reading))

    def stored(self, reading: ReadContext) -> StoredUnits:
        with reading.database.read() as connection:
            sessions = self._sessions(connection, reading)
            cache = self._cache(reading.services, reading.database, reading.session_id)
            file: DerivedFile | None = DerivedFile(reading.database, reading.session_id, f"units of {self.name}")
            if self._shared(reading):
                key = ("units of a user", reading.database.id, reading.user_id, self.name)
                cache, file = reading.services.cached(key, UnitCache), None  # no session's alone
            stored = cache.catch_up(
                connection, sessions, self.name, lambda connection, new: self._heard(connection, reading, new), file
            )
        if file is not None:
            cache.keep(file, self.name)
        return stored

    def index(self, services: Services, database: Database) -> VectorIndex:
        """Return the index that this block searches."""
        return self.vector_store or services.index_of(database)

    def source(self, reading: ReadContext) -> DatabaseVectors:
        """Return the vectors of this session's stored units under the present embedder."""
        embedder = self.embedder(reading.services)
        return vectors_of(reading.database, reading.services, reading.session_id, self.name, embedder)

    def _searched_vectors(self, reading: ReadContext) -> DatabaseVectors:
        """Return the vectors to compare a question with; scope `user` includes those of the user's other sessions."""
        if not self._shared(reading):
            return self.source(reading)
        with reading.database.read() as connection:
            sessions = self._sessions(connection, reading)
        embedder = self.embedder(reading.services)
        return vectors_of_user(reading.database, reading.services, str(reading.user_id), sessions, self.name, embedder)

    def _shared(self, reading: ReadContext) -> bool:
        return self.scope == "user" and reading.user_id is not None

    def _sessions(self, connection: Connection, reading: ReadContext) -> tuple[str, ...]:
        """Return the sessions whose units are read, oldest first."""
        if not self._shared(reading):
            return (reading.session_id,)
        shared = sessions_that_share(connection, str(reading.user_id), self.name)
        # The present session is missing if the scope `user` is only previewed.
        return shared if reading.session_id in shared else (*shared, reading.session_id)

    def _searched(
        self,
        reading: ReadContext,
        index: VectorIndex,
        embedder: Embedder,
        stored: StoredUnits,
        meant: ParsedQuestion,
        unsaved: Mapping[int, "_NotStored"],
    ) -> "_Searched":
        """Return the scores of both searches for the units that either finds, and for all of `unsaved`."""
        keyword = NO_SCORES
        if self.keyword_weight > 0:
            # All that share a word, though few become candidates: an explanation shows the score of every unit.
            keyword = stored.keywords.scores(meant.words, also={n: one.stems for n, one in unsaved.items()})
        best = [hit.number for hit in keyword.best(self._candidates)]
        weights = self.vector_weight, self.keyword_weight
        vector: dict[int, float] = {}
        query = degraded = None
        if self.vector_weight > 0:
            try:
                query = self._query_vector(reading, embedder, meant.words)
                # The best by keyword get their cosine too: a signal that was not computed would lower their match.
                saved = [number for number in best if number not in unsaved]
                vector, degraded = self._by_meaning(reading, index, query, also=saved)
                if unsaved:
                    pending = self._not_stored(reading.services, reading.database, reading.session_id)
                    vectors = pending.of([one.words for one in unsaved.values()], embedder)
                    vector |= {number: float(one @ query) for number, one in zip(unsaved, vectors, strict=True)}
            except (EmbedderError, VectorIndexError) as error:
                degraded = f"{KEYWORD_ONLY if self.keyword_weight > 0 else NOTHING_SEARCHED} {user_message(error)}"
                if self.keyword_weight > 0:
                    weights = 0.0, self.keyword_weight  # an unknown score must not lower the others
        on = self.keyword_weight > 0
        if on and isinstance(embedder, LimitedEmbedder) and not embedder.reads(meant.words):
            weights = 0.0, self.keyword_weight  # nor must a score without meaning
        candidates = dict.fromkeys([*vector, *best, *unsaved])
        if not vector and self._lends:  # else only units sharing a word with the question could be lent score
            candidates |= dict.fromkeys(stored.around(best, NEIGHBOURS))
        shared = keyword.of(list(candidates)).tolist()
        signals = [Signals(n, vector.get(n), k if on else None) for n, k in zip(candidates, shared, strict=True)]
        return _Searched(signals, keyword, weights, query, degraded)

    def _by_meaning(
        self, reading: ReadContext, index: VectorIndex, query: Vector, *, also: Sequence[int]
    ) -> tuple[dict[int, float], str | None]:
        """Return the cosine by unit id, for the nearest stored units and those in `also`.

        Also return a sentence if the index failed and the database's own vectors were searched instead, else None.
        """
        source = self._searched_vectors(reading)
        limit = self._candidates
        degraded = None
        used: VectorIndex = index
        try:
            hits = index.search(source, query, limit=limit)
        except VectorIndexError as error:
            degraded = f"{DATABASE_COPY} {user_message(error)}"
            used = reading.services.exact
            hits = used.search(source, query, limit=limit)
        scores = {hit.number: hit.score for hit in hits}
        missing = set(also) - set(scores)
        if isinstance(used, ExactIndex):
            scores.update((hit.number, hit.score) for hit in used.score(source, query, missing))
        elif missing:
            # Other indexes cannot score chosen vectors, so these are read from the database.
            scores.update((vector.number, float(vector.vector @ query)) for vector in source.some(sorted(missing)))
        return scores, degraded

    def evict(self, services: Services, database: Database, session_id: str) -> None:
        """Drop this process's cache of a session's units."""
        self._cache(services, database, session_id).clear()
        self._not_stored(services, database, session_id).clear()

    def _cache(self, services: Services, database: Database, session_id: str) -> UnitCache:
        return services.cached(("units", database.id, session_id, self.name), UnitCache)

    def _not_stored(self, services: Services, database: Database, session_id: str) -> PendingVectors:
        return services.cached(("unsaved", database.id, session_id, self.name), PendingVectors)

    @property
    def _candidates(self) -> int:
        """Maximum number of units each search proposes."""
        wide = self._lends or self.fills_budget
        return max(WIDE_CANDIDATES if wide else MIN_CANDIDATES, 4 * (self.similarity_top_k or 0))

    @property
    def _lends(self) -> bool:
        """True if units lend a part of their match to others."""
        return self.neighbour_weight > 0 or self.episode_weight > 0

    def _query_vector(self, reading: ReadContext, embedder: Embedder, question: str) -> Vector:
        """Return the vector of the question; a short one is combined with the messages before it."""
        asked = embedded(embedder, [question])[0]
        if self.retrieval_context_window > 1 and len(stems(question)) < SAYS_LITTLE:
            before = [message_text(message) for message in reading.queue if message.role is not MessageRole.TOOL]
            # The question may be in the queue already; it has a weight of its own.
            if before and before[-1] == question:
                before.pop()
            window = "\n".join(text for text in before[-(self.retrieval_context_window - 1) :] if text)
            if window:
                mixed = QUESTION_WEIGHT * asked + (1 - QUESTION_WEIGHT) * embedded(embedder, [window])[0]
                length = float(np.linalg.norm(mixed))
                asked = mixed / length if length else asked
        return np.asarray(asked, dtype=np.float32)

    def _heard(self, connection: Connection, reading: ReadContext, nodes: Sequence[Node]) -> list[UnitMetadata | None]:
        """Return the metadata of each stored unit, parsed from its messages; None if they were deleted."""
        units = messages_of(connection, reading.session_id, reading.services.messages, nodes)
        return [parse_unit(units[node.number]) if node.number in units else None for node in nodes]

    def _plan(
        self,
        signals: Sequence[Signals],
        *,
        in_queue: set[int] | tuple[()],
        weights: tuple[float, float],
        added: Callable[[Mapping[int, float]], Mapping[int, tuple[float, ...]]] | None,
        reading: ReadContext | None = None,
        replaced: Collection[int] = (),
        quarantined: Collection[int] = (),
        repeats: Repeats = Repeats(),  # noqa: B008 - frozen
    ) -> RetrievalPlan:
        unfilled = self.fills_budget and (reading is None or reading.token_budget is None)
        return plan_retrieval(
            signals,
            top_k=UNFILLED_TOP_K if unfilled else self.similarity_top_k,
            threshold=self.similarity_threshold,
            in_queue=in_queue,
            replaced=replaced,
            quarantined=quarantined,
            repeats=repeats,
            vector_weight=weights[0],
            keyword_weight=weights[1],
            boosts=added,
        )

    def _postprocessed(
        self, plan: RetrievalPlan, question: str, laid_out: PackedUnits
    ) -> tuple[RetrievalPlan, str | None]:
        """Return the plan after the postprocessors, and a sentence if some were not applied, else None."""
        if self.read_elsewhere:
            return plan, f"{NOT_APPLIED} only the agent's program has {', '.join(self.postprocessed_by)}."
        if not self.node_postprocessors:
            return plan, None
        granted = {c.number: c.score for c in plan.candidates if c.outcome == "granted"}
        words = laid_out.words(list(granted))
        nodes = [
            PostprocessedUnit(number, words[number], score) for number, score in granted.items() if number in words
        ]
        done = postprocess(self.node_postprocessors, question, nodes)
        # Units without words are shown to no postprocessor, and stay behind the others.
        unseen = [number for number in granted if number not in words]
        return postprocessed(plan, [*done.kept, *unseen]), done.problem

    def embedder(self, services: Services) -> Embedder:
        """Embedder in use: the block's own, or the services' default."""
        embedder: Embedder = self.embed_model or services.embedder
        return embedder


def _node(number: int, unit: Sequence[StoredMessage], reading: ReadContext) -> Node:
    """Return the unit as it would be stored."""
    tokens = reading.counter.text(words_of(unit))
    return Node(number, ranges(message.seq for message in unit), tokens, unit[-1].turn, reading.session_id)


@per_process
def _ahead() -> ThreadPoolExecutor:
    """Executor for embedding ahead of need, one job at a time."""
    return ThreadPoolExecutor(1, thread_name_prefix="memory-foresee")


def _id(embedder: Embedder) -> str | None:
    """Return the embedder's id; None if its endpoint has not reported one yet."""
    try:
        return embedder.id
    except EmbedderError:
        return None


def _round(score: float | None) -> float | None:
    return None if score is None else round(score, 4)
