"""A block that keeps facts: found by a model or by the offline rules, compared, condensed, cut one by one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, PrivateAttr

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Item, Learned, Nothing, Reading, scope_of
from memory_core.blocks.markup import fact_parts
from memory_core.errors import ConfigError, ConflictError
from memory_core.events import CondensingRefused, FactHeldBack, FactsCondensed, FactsExtracted, ranges
from memory_core.messages import MessageRole
from memory_core.models.base import Condensation, ExtractedFact, FactExtractor, ModelCall
from memory_core.planning.facts import (
    AdditionPlan,
    CondensePlan,
    Fact,
    FoundFact,
    KnownFact,
    ShorterFact,
    condense_target,
    plan_additions,
    plan_condensing,
    relevance,
)
from memory_core.services import Services
from memory_core.store.facts import (
    NewFact,
    add_fact,
    change_state,
    confirm_fact,
    hand_on_sources,
    read_facts,
    scope_revision,
)
from memory_core.store.log import read_events
from memory_core.store.messages import StoredMessage
from memory_core.store.writing import Writing
from memory_core.text import stems

CALL_TOKENS = 8_000
"""Tokens of messages that one extraction reads at most; a longer delivery is read in pieces."""

COMPARED = ("active", "proposed", "rejected")
"""States of the facts that found ones are compared with: what is superseded or retired may be learned again."""


class FactExtractionMemoryBlock(BaseMemoryBlock[str]):
    """Facts learned from messages, each with its source, state and history in the database.

    `llm` is a chat model, or any `FactExtractor`; without one the offline rules extract. `facts`
    are texts to start from; after a delivery the field mirrors the active facts.
    """

    kind: ClassVar[str] = "facts"

    name: str = "ExtractedFacts"
    llm: Any = Field(default=None, exclude=True)
    facts: list[str] = Field(default_factory=list)
    max_facts: int = 50
    """Above this many active facts the list is condensed."""
    scope: Literal["session", "user"] = "session"
    """Whose facts they are. The user's are read in every session of theirs, and come from their own words only."""

    approval: bool = False
    """Do new facts wait as proposed, in no context, until a person accepts them?"""

    on_change: Literal["add", "decide"] = "add"
    """What becomes of a found fact that is near a known one: `add` keeps both and marks a contradiction;
    `decide` compares it with the nearest and adds, updates, deletes or does nothing, on record."""
    nearest: int = 5
    """Known facts that each found one is compared with, where `on_change` is `decide`."""
    categories: list[str] = Field(default_factory=list)
    """Categories that facts are put under; none: the extractor's own."""
    show: Literal["all", "relevant", "none"] = "all"
    """Which facts ask for the prompt: all, the `top_k` that fit the question best, or none (they are searched)."""
    top_k: int = 10
    """Most facts brought into one context, where `show` is `relevant`."""

    _imagined: tuple[Fact, ...] | None = PrivateAttr(default=None)
    """Facts to show in place of those stored, in a context that is only looked at."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._check_settings()

    @property
    def type(self) -> str:
        return self.kind

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "max_facts": self.max_facts,
            "scope": self.scope,
            "approval": self.approval,
            "on_change": self.on_change,
            "nearest": self.nearest,
            "categories": self.categories,
            "show": self.show,
            "top_k": self.top_k,
        }

    def apply(self, settings: dict[str, Any]) -> None:
        super().apply(settings)
        self._check_settings()

    def _check_settings(self) -> None:
        for name in ("max_facts", "nearest", "top_k"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, not {getattr(self, name)} (block {self.name!r})")

    def imagining(self, facts: Sequence[Fact]) -> "FactExtractionMemoryBlock":
        """A copy that shows these active facts in place of those stored: for looking only."""
        other = self.model_copy()
        other._imagined = tuple(facts)
        return other

    def extractor(self, services: Services) -> FactExtractor:
        """What finds the facts: the block's own, a model wrapped as one, or the services' extractor."""
        if self.llm is None:
            return services.extractor
        if isinstance(self.llm, FactExtractor):
            return self.llm
        from memory_core.models.extraction import ModelExtractor

        return ModelExtractor(self.llm)

    def read(self, reading: Reading, state: str | None) -> Content:
        facts: Sequence[Fact]
        if self._imagined is not None:
            facts = self._imagined
        else:
            scope = scope_of(self.scope, reading.session_id, reading.user_id, self.name)
            with reading.database.read() as connection:
                facts = read_facts(connection, scope, self.name)
        items = tuple(_item(fact, reading) for fact in facts)
        return Content(items=items, cut_order=cut_order(facts, reading.question))

    def learn(self, batch: Batch) -> Learned:
        scope = scope_of(self.scope, batch.session_id, batch.user_id, self.name)
        heard = [
            message
            for message in batch.messages
            if message.message.role is MessageRole.USER or (self.scope == "session" and not message.pinned)
        ]
        if not heard:
            return Nothing()
        with batch.database.read() as connection:
            before = scope_revision(connection, scope, self.name)
            known = read_facts(connection, scope, self.name, states=COMPARED)
            refused = read_events(
                connection,
                batch.session_id,
                kinds=("condensing_refused",),
                block=self.name,
                limit=1,
                newest_first=True,
            )
        extractor = self.extractor(batch.services)
        active = [fact for fact in known if fact.state == "active"]
        found, calls = _extract(extractor, heard, known=[fact.text for fact in known if fact.state != "rejected"])
        plan = compare(known, found)
        learned = _LearnedFacts(self, scope, before, batch, extractor.name, known, found, plan)
        learned.seqs = tuple(message.seq for message in heard)
        learned.calls = calls
        total = len(active) + (0 if self.approval else len(plan.add))
        if total > self.max_facts and not _refused_lately(refused, total, self.max_facts):
            self._condense(learned, extractor, active)
        return learned

    def _condense(self, learned: "_LearnedFacts", extractor: FactExtractor, active: list[Fact]) -> None:
        # Facts not stored yet have no id: they go by the negative of their place among the found.
        known = [KnownFact(fact.id, fact.text, pinned=fact.pinned) for fact in active]
        if not self.approval:
            known += [KnownFact(-1 - a.index, learned.found[a.index].text) for a in learned.plan.add]
        pinned = [index for index, fact in enumerate(known) if fact.pinned]
        target = condense_target(self.max_facts)
        shorter = extractor.condense([fact.text for fact in known], pinned=pinned, target=target)
        learned.calls += shorter.calls
        learned.shorter = shorter
        learned.condense = plan_condensing(
            known,
            [
                ShorterFact(f.text, f.category, tuple(known[i].id for i in f.stands_for if 0 <= i < len(known)))
                for f in shorter.facts
            ],
            max_facts=self.max_facts,
        )


class _LearnedFacts:
    """Found facts with the decision on each; what `FactExtractionMemoryBlock.learn` gives."""

    def __init__(
        self,
        block: FactExtractionMemoryBlock,
        scope: str,
        before: tuple[int, int, int],
        batch: Batch,
        extractor: str,
        known: list[Fact],
        found: tuple[ExtractedFact, ...],
        plan: AdditionPlan,
    ) -> None:
        self.block, self.scope, self.before, self.batch = block, scope, before, batch
        self.extractor, self.known, self.found, self.plan = extractor, known, found, plan
        self.calls: tuple[ModelCall, ...] = ()
        self.seqs: tuple[int, ...] = ()
        self.shorter: Condensation | None = None
        self.condense: CondensePlan | None = None
        self._texts: list[str] = []

    def save(self, w: Writing) -> None:
        if scope_revision(w.connection, self.scope, self.block.name) != self.before:
            raise ConflictError("The facts were changed while new ones were being extracted. They are compared again.")
        known = {fact.id: fact for fact in self.known}
        w.record(
            FactsExtracted(
                block=self.block.name,
                extractor=self.extractor,
                seqs=ranges(self.seqs),
                found=len(self.found),
                added=len(self.plan.add),
                confirmed=len(self.plan.confirm),
                held_back=len(self.plan.held_back),
            )
        )
        for same in self.plan.confirm:
            sources = self._sources(self.found[same.index])
            confirm_fact(w, known[same.fact], similarity=same.similarity, sources=sources)
        for alike in self.plan.held_back:
            fact = self.found[alike.index]
            held = FactHeldBack(
                block=self.block.name,
                content=w.keep(fact.text, scope=self.scope),
                near=alike.fact,
                similarity=round(alike.similarity, 3),
                sources=ranges(self._sources(fact)),
                category=fact.category,
                slot=fact.slot,
            )
            w.record(held)
        ids = {}
        for addition in self.plan.add:
            fact = self.found[addition.index]
            new = NewFact(
                text=fact.text,
                tokens=self.batch.counter.text(fact.text),
                category=fact.category,
                slot=fact.slot,
                sources=self._sources(fact),
                conflicts_with=addition.conflicts_with,
                state="proposed" if self.block.approval else "active",
            )
            ids[-1 - addition.index] = add_fact(w, self.scope, self.block.name, new)
        if self.condense is not None:
            self._save_condensed(w, ids)
        self._texts = [fact.text for fact in read_facts_within(w, self.scope, self.block.name)]

    def committed(self) -> None:
        self.block.facts = self._texts

    def _save_condensed(self, w: Writing, new_ids: dict[int, int]) -> None:
        plan, shorter = self.condense, self.shorter
        assert plan is not None
        assert shorter is not None
        name = self.block.name
        facts = {fact.id: fact for fact in read_facts_within(w, self.scope, name)}
        if plan.refused:
            w.record(
                CondensingRefused(
                    block=name,
                    extractor=self.extractor,
                    facts=len(facts),
                    max_facts=self.block.max_facts,
                    reason=plan.refused,
                )
            )
            return

        def real(id: int) -> int:
            return new_ids.get(id, id)

        def add(index: int, sources: Sequence[int]) -> int:
            """A sentence of the shorter list, with the support of the facts it comes from."""
            text = shorter.facts[index].text
            own = {seq for id in sources for session, seq in facts[id].sources if session == w.session.id}
            new = NewFact(
                text=text,
                tokens=self.batch.counter.text(text),
                category=shorter.facts[index].category,
                sources=tuple(sorted(own)),
                origin="condensed",
            )
            return add_fact(w, self.scope, name, new)

        kept = tuple(real(id) for id in plan.kept)
        merged = []
        for sources, index in plan.merged:
            ids = tuple(real(id) for id in sources)
            into = ids[0] if ids[0] in kept else add(index, ids)
            hand_on_sources(w, [facts[id] for id in ids], into)
            for id in ids:
                if id != into:
                    change_state(w, facts[id], "superseded", by=into, actor="engine")
            merged.append((ids, into))
        vanished = tuple(real(id) for id in plan.vanished)
        for id in vanished:
            change_state(w, facts[id], "superseded", reason="left out when facts were condensed", actor="engine")
        # A sentence that names no fact as its source was made from the list as a whole.
        added = tuple(add(index, tuple(facts)) for index in plan.new)
        for id in added:
            hand_on_sources(w, list(facts.values()), id)
        w.record(
            FactsCondensed(
                block=name,
                extractor=self.extractor,
                before=len(facts),
                after=len(set(kept) | {into for _, into in merged}) + len(added),
                kept=kept,
                merged=tuple(merged),
                vanished=vanished,
                new=added,
            )
        )

    def _sources(self, fact: ExtractedFact) -> tuple[int, ...]:
        """Where it was said; the whole batch where the extractor could not tell."""
        if fact.source is not None and 0 <= fact.source < len(self.seqs):
            return (self.seqs[fact.source],)
        return self.seqs


def compare(known: Sequence[Fact], found: Sequence[ExtractedFact]) -> AdditionPlan:
    """What becomes of found facts beside those that are active, proposed or rejected."""
    return plan_additions(
        [KnownFact(f.id, f.text, f.slot, f.pinned, f.state == "rejected") for f in known],
        [FoundFact(fact.text, fact.slot) for fact in found],
    )


def _extract(
    extractor: FactExtractor, heard: Sequence[StoredMessage], *, known: list[str]
) -> tuple[tuple[ExtractedFact, ...], tuple[ModelCall, ...]]:
    """Facts of all messages, found in pieces that a model can take; sources are indexes of `heard`."""
    found: list[ExtractedFact] = []
    calls: list[ModelCall] = []
    for first, last in _pieces([message.tokens.content for message in heard]):
        messages = [message.message for message in heard[first:last]]
        extraction = extractor.extract(messages, known=[*known, *(fact.text for fact in found)])
        found += [
            replace(fact, source=None if fact.source is None else fact.source + first) for fact in extraction.facts
        ]
        calls += extraction.calls
    return tuple(found), tuple(calls)


def _pieces(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Spans of at most `CALL_TOKENS`, or of one message that is longer.

    >>> _pieces([5000, 2000, 4000, 9000])
    [(0, 2), (2, 3), (3, 4)]
    """
    spans: list[tuple[int, int]] = []
    start = tokens = 0
    for index, size in enumerate(sizes):
        if index > start and tokens + size > CALL_TOKENS:
            spans.append((start, index))
            start, tokens = index, 0
        tokens += size
    return [*spans, (start, len(sizes))]


def cut_order(facts: Sequence[Fact], question: str) -> tuple[int, ...]:
    """First to be cut first: unpinned before pinned, least relevant to the question, oldest confirmed."""
    query = frozenset(stems(question))
    ranks = [
        (fact.pinned, relevance(fact.text, query), fact.confirmed_at, fact.id, index)
        for index, fact in enumerate(facts)
    ]
    return tuple(rank[-1] for rank in sorted(ranks))


def read_facts_within(w: Writing, scope: str, block: str) -> list[Fact]:
    """Active facts as the open transaction sees them, words included."""
    w.flush_contents()
    return read_facts(w.connection, scope, block)


def _item(fact: Fact, reading: Reading) -> Item:
    return Item(ref=f"f{fact.id}", words=fact.text, parts=fact_parts(fact.text, reading.safe), tokens=fact.tokens)


def _refused_lately(refused: Sequence[Any], total: int, max_facts: int) -> bool:
    """After a refusal the model is asked again only once the list has grown by a tenth."""
    return bool(refused) and total < refused[0].event.facts + max(1, max_facts // 10)
