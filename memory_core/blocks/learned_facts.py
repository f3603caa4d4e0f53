"""Pending write of a facts block: facts to add, confirm, update, end and condense."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from memory_core.blocks.base import BaseMemoryBlock, Batch, PendingWrite
from memory_core.blocks.nothing_learned import record_reasons
from memory_core.errors import ConflictError
from memory_core.events import (
    CondensingRefused,
    FactDecided,
    FactHeldBack,
    FactsCondensed,
    FactsExtracted,
    ProposalRefused,
    Ref,
    ranges,
)
from memory_core.messages import content_hash
from memory_core.models.offline.fact_extraction import doubt, sole_slot
from memory_core.models.protocols import Condensation, ExtractedFact, ModelCall
from memory_core.planning.consolidation import EARLIER, FACT_CHARACTERS, Settled, category_among
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import CondensePlan, Confirmation, Expiry, Fact, to_ask, without_ask
from memory_core.planning.former_values import ENDED, Statement
from memory_core.planning.learning_outcomes import Reason
from memory_core.planning.slots import single_slot
from memory_core.store.fact_rows import (
    add_fact,
    confirm_fact,
    hand_on_sources,
    read_by_ids,
    read_facts,
    revise,
    scope_revision,
)
from memory_core.store.vector_rows import keep_word_vectors
from memory_core.store.writing import Writing
from memory_core.text import similarity
from memory_core.tokens import TokenCounter
from memory_core.vectors.vector_index import Vector

FORGOTTEN = "the user asked to forget it"
"""Reason recorded for a fact that was retired at the user's request."""

MAX_TOPICS = 5


@dataclass(frozen=True, slots=True)
class FoundFactDecisions:
    """Decision for each found fact, by index."""

    steps: tuple[Settled, ...]
    held_back: tuple[Confirmation, ...] = ()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of refused decisions, by reason."""
    calls: tuple[ModelCall, ...] = ()
    decider: str | None = None
    """Name of the decider; None: facts were only compared, and no decision is recorded."""
    by_rules: str = ""
    """Name of the decider for steps whose rule is not `model`."""


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Target block and scope, with its facts and settings as they were read."""

    block: str
    scope: str
    revision: tuple[int, int, int]
    known: tuple[Fact, ...]
    protected: frozenset[int]
    """Ids of the facts that learning and condensing neither reword nor drop, as a person wrote or changed them."""
    max_facts: int
    approval: bool
    categories: tuple[str, ...]
    counter: TokenCounter
    shows: BaseMemoryBlock[Any]
    """The block itself: its `facts` field is set to the active facts."""


@dataclass(slots=True)
class LearnedFacts(PendingWrite):
    """Found facts and the decision on each; the pending write of a facts block."""

    place: WriteTarget
    extractor: str
    seqs: tuple[int, ...]
    """Sequence numbers of the messages that were read."""
    found: tuple[ExtractedFact, ...]
    finding: FoundFactDecisions
    recalled: int
    reasons: Mapping[int, Reason]
    """Reason why nothing was learned from a message of the batch, by sequence number."""
    calls: tuple[ModelCall, ...]
    forgotten: frozenset[int] = frozenset()
    """Ids of known facts that the messages ask to forget."""
    expiry: Expiry | None = None
    shorter: Condensation | None = None
    context: frozenset[int] = frozenset()
    refused: Mapping[str, int] = field(default_factory=dict)
    """Number of facts that the extractor itself refused, by reason."""
    shown: Mapping[str, int] = field(default_factory=dict)
    """Sizes of what the extractor was shown beside the messages, by field of the event."""
    said_at: Mapping[int, float] = field(default_factory=dict)
    """Times of found facts that were said before a known one, by index; all others are said now."""
    condense: CondensePlan | None = None
    embedder: str | None = None
    vectors: Mapping[str, Vector] = field(default_factory=dict)
    """Vectors of facts' texts, by text."""
    new_ids: dict[int, int] = field(default_factory=dict)
    """Ids of new facts in a preview, by -1 - index of the found fact."""
    texts: list[str] = field(default_factory=list)
    """Texts of the active facts after storing."""

    @property
    def active_before_condensing(self) -> list[Fact]:
        """Active facts including the found ones.

        A new fact has no id yet and uses -1 - index. A fact confirmed now has an infinite confirmation time, later than
        any stored one.
        """
        facts = {fact.id: fact for fact in self.place.known}
        for step in self.finding.steps:
            if step.target is not None and step.target in facts:
                facts[step.target] = self._settled(facts[step.target], step)
        for step in self._added:
            if not self._waits(step) and step.behind is None:
                category = self.found[step.index].category
                facts[-1 - step.index] = self._new(-1 - step.index, step.text or "", category)
        return [fact for fact in facts.values() if fact.state == "active" and self._why_retired(fact) is None]

    def after(self, numbers: Iterator[int]) -> list[Fact]:
        """Return active facts after storing, oldest first; `numbers` yields ids for new facts, see `new_ids`."""
        facts, plan = self.active_before_condensing, self.condense
        if plan is not None and not plan.refused:
            # A merge that begins with a kept fact adds to it; any other becomes a new sentence.
            into = {ids[0] for ids, _ in plan.merged if ids[0] in plan.kept}
            gone = {*plan.vanished, *(id for ids, _ in plan.merged for id in ids)} - into
            made = [*(index for ids, index in plan.merged if ids[0] not in into), *plan.new]
            facts = [*(fact for fact in facts if fact.id not in gone), *(self._sentence(index) for index in made)]
        self.new_ids = {fact.id: next(numbers) for fact in facts if fact.id < 0}
        ids = self.new_ids
        return [fact if fact.id > 0 else replace(fact, id=ids.get(fact.id) or next(numbers)) for fact in facts]

    def statements(self, batch: Batch) -> tuple[Statement, ...]:
        """Return the facts that are added, changed, ended or contradicted, as they are after storing.

        For previews. Call `after` first, so that new facts have the same ids in both.
        """
        facts_by_id = {fact.id: fact for fact in self.place.known}
        result: dict[int, Statement] = {}

        def statement(id: int) -> Statement:
            fact, ref = facts_by_id[id], Ref.of("fact", id)
            return result.get(id) or Statement(
                ref, (fact.text,), fact.turn, fact.sources, confirmed_at=fact.confirmed_at, slot=single_slot(fact.slot)
            )

        for step in self.finding.steps:
            former = self._replaced(step)
            read = [self.found[step.index], *former]
            sources = tuple((batch.session_id, seq) for fact in read for seq in sources_of(fact, self.seqs))
            turn = batch.messages[-1].turn
            if step.target is not None and step.target in facts_by_id and step.act != "add":
                old, text = statement(step.target), step.text if step.act == "update" else None
                result[step.target] = replace(
                    old,
                    wordings=old.wordings if text is None else (*old.wordings, *(f.text for f in former), text),
                    turn=turn if step.act != "none" else old.turn,
                    sources=(*old.sources, *(sources if step.act != "delete" else ())),
                    ended=step.act == "delete",
                    confirmed_at=inf if step.act != "delete" else old.confirmed_at,
                    slot=old.slot or single_slot(self.found[step.index].slot),
                )
            gives = step.act in ("add", "delete") and not self._waits(step) and step.behind is None
            if gives and step.text is not None:
                others = [id for id in step.conflicts_with if id in facts_by_id]
                result |= {id: statement(id) for id in others}
                # Facts found earlier have preview ids; those that wait for a person are not in `result`.
                before = (self._preview_id(index) for index in step.found_before)
                others += [id for id in before if id in result]
                refs = tuple(Ref.of("fact", id) for id in others)
                new = Ref.of("fact", self._preview_id(step.index))
                wordings = (*(fact.text for fact in former), step.text)
                added = Statement(new, wordings, turn, sources, confirmed_at=inf, contradicts=refs)
                slot = self.found[step.index].slot if step.act == "add" else None
                result[new.number] = replace(added, slot=single_slot(slot))
        return tuple(result.values())

    def _preview_id(self, index: int) -> int:
        return self.new_ids.get(-1 - index, -1 - index)

    def _settled(self, fact: Fact, step: Settled) -> Fact:
        """Return a known fact after the decision on a found one."""
        if step.act == "delete":
            return replace(fact, state="superseded")
        if step.act == "none" and not self._confirms(step):
            return fact
        if step.act == "none":
            # A confirmation answers the question noted beside the fact, so its tokens are no longer counted.
            tokens = self.place.counter.text(fact.text) if to_ask(fact.metadata) else fact.tokens
            return replace(fact, tokens=tokens, metadata=without_ask(fact.metadata), confirmed_at=inf)
        text = step.text or self.found[step.index].text
        state = "active" if self._cleared(step, fact) else fact.state
        return replace(
            fact,
            text=text,
            tokens=self.place.counter.text(text),
            state=state,
            metadata=without_ask(fact.metadata),
            confirmed_at=inf,
        )

    def _new(self, id: int, text: str, category: str) -> Fact:
        new, place = FactDraft(text, category=category, origin="extracted"), self.place
        tokens = place.counter.text(text)
        # Not stored yet: infinite is later than the time of any stored fact.
        return new.as_fact(id, scope=place.scope, block=place.block, tokens=tokens, turn=0, at=inf)

    def _sentence(self, index: int) -> Fact:
        """Return the new fact at `index` of the condensed list, not stored yet."""
        assert self.shorter is not None
        sentence = self.shorter.facts[index]
        return self._new(0, sentence.text, category_among(sentence.category, sentence.text, self.place.categories))

    def _waits(self, step: Settled) -> bool:
        """Return whether a person has to accept the added fact."""
        return self.place.approval or self.found[step.index].doubtful

    def _replaced(self, step: Settled) -> list[ExtractedFact]:
        """Return the facts found earlier in the delivery whose value this step replaces, in order.

        They become former wordings of the fact. A found fact that waits for a person replaces nothing.
        """
        if step.act not in ("add", "update") or self._waits(step):
            return []
        return [self.found[index] for index in step.replaces if not self.found[index].doubtful]

    def _confirms(self, step: Settled) -> bool:
        """Return whether a found fact confirms the one it repeats; a doubtful one, as from a pasted text, does not."""
        return step.target is not None and step.rule != EARLIER and not self.found[step.index].doubtful

    def _cleared(self, step: Settled, fact: Fact) -> bool:
        """Return whether an update resolves the doubt about a proposed fact, so that nobody needs to review it."""
        return fact.state == "proposed" and doubt(fact.text) is not None and not self._waits(step)

    @property
    def _added(self) -> list[Settled]:
        # A decision to delete may also add a fact, such as the user's new address.
        return [step for step in self.finding.steps if step.act in ("add", "delete") and step.text is not None]

    def save(self, w: Writing) -> None:
        place = self.place
        # Planned outside of the transaction, as a model may take minutes.
        if scope_revision(w.connection, place.scope, place.block) != place.revision:
            raise ConflictError("The facts were changed while new ones were being extracted. They are compared again.")
        by_id = {fact.id: fact for fact in place.known}
        steps = self.finding.steps
        extracted = FactsExtracted(
            block=place.block,
            extractor=self.extractor,
            seqs=ranges(self.seqs),
            found=len(self.found),
            added=len(self._added),
            confirmed=sum(step.act == "none" and self._confirms(step) for step in steps),
            held_back=len(self.finding.held_back),
            recalled=self.recalled,
            long=sum(len(fact.text) > FACT_CHARACTERS for fact in self.found),
            **self.shown,
        )
        refused = [ProposalRefused(place.block, "decision", *item) for item in self.finding.refused.items()]
        refused += [ProposalRefused(place.block, "fact", *item) for item in self.refused.items()]
        w.record(extracted, *refused)
        self._hold_back(w)
        # In the order in which the facts were found: a decision may refer to a fact that an earlier one has added.
        ids: dict[int, int] = {}
        for step in steps:
            id = self._take(w, step, by_id, ids)
            if id is not None:
                ids[-1 - step.index] = id
        # Before condensing, whose plan has no retired facts in its list.
        self._retire(w)
        if self.condense is not None:
            self._save_condensed(w, ids)
        record_reasons(w, place.block, self.extractor, self.reasons)
        if self.embedder is not None:
            vectors = {content_hash(text): vector for text, vector in self.vectors.items()}
            keep_word_vectors(w, place.scope, self.embedder, vectors)
        # Taken inside the transaction: `committed` shows this delivery's outcome, whatever others change after it.
        self.texts = [fact.text for fact in _active(w, place)]

    def _why_retired(self, fact: Fact) -> str | None:
        """Return why a known fact is retired by this delivery; None if it stays."""
        if fact.id in self.forgotten:
            return FORGOTTEN
        # Protected facts do not expire; `forgotten` holds none of them.
        if self.expiry is None or fact.id in self.place.protected or not self.expiry.covers(fact):
            return None
        return self.expiry.reason

    def _retire(self, w: Writing) -> None:
        """Retire the facts to forget and the expired ones; a person can restore or erase them."""
        # Read again: the decisions above may have changed one of them.
        for fact in read_facts(w.connection, self.place.scope, self.place.block, states=("active", "proposed")):
            if (reason := self._why_retired(fact)) is not None:
                revise(w, fact, replace(fact, state="retired"), reason=reason, actor="engine")

    def committed(self) -> None:
        self.place.shows.mirror({"facts": self.texts})

    def _take(self, w: Writing, step: Settled, by_id: Mapping[int, Fact], ids: Mapping[int, int]) -> int | None:
        """Apply the decision on one found fact; return the id of the added fact, if any."""
        fact = self.found[step.index]
        sources = sources_of(fact, self.seqs)
        if self.finding.decider is not None:
            w.record(self._decided(w, step, sources, ids))
        if step.act == "none":
            if step.target is not None and self._confirms(step):
                target = by_id[step.target]
                alike, at = dict(step.candidates)[step.target], self.said_at.get(step.index)
                confirm_fact(w, target, similarity=alike, sources=sources, said_at=at)
                if to_ask(target.metadata):  # the user has answered the question
                    tokens = self.place.counter.text(target.text)
                    answered = replace(target, metadata=without_ask(target.metadata), tokens=tokens)
                    revise(w, target, answered, actor="engine")
            return None
        former = self._replaced(step)
        if step.act == "update":
            target = by_id[step.target or 0]
            for earlier in former:
                self._reword(w, target.id, earlier, earlier.text)
            self._update(w, read_by_ids(w.connection, [target.id])[0] if former else target, step, fact, sources)
            return None
        before = [ids[-1 - index] for index in step.found_before if -1 - index in ids]
        if former and step.text is not None:
            # Added as it was said first, so that the fact has its former value in its history.
            first = sources_of(former[0], self.seqs)
            id: int | None = self._add(w, former[0].text, step, former[0], first, before)
            for later, words in [*((one, one.text) for one in former[1:]), (fact, step.text)]:
                self._reword(w, id or 0, later, words)
            return self._put_behind(w, step, id)
        id = None if step.text is None else self._add(w, step.text, step, fact, sources, before)
        self._put_behind(w, step, id)
        if step.act == "delete":
            _supersede(w, by_id[step.target or 0], by=id, reason=ENDED)
        return id

    def _put_behind(self, w: Writing, step: Settled, id: int | None) -> int | None:
        """Replace an added fact by a known one that was said later, unless a person has to accept it; return its id."""
        if step.behind is not None and id is not None and not self._waits(step):
            _supersede(w, read_by_ids(w.connection, [id])[0], by=step.behind, reason=ENDED)
        return id

    def _add(
        self,
        w: Writing,
        text: str,
        step: Settled,
        found: ExtractedFact,
        sources: tuple[int, ...],
        before: Sequence[int],
    ) -> int:
        """Add a fact; `before` are facts of the same delivery that it contradicts."""
        new = FactDraft(
            text,
            state="proposed" if self._waits(step) else "active",
            category=found.category,
            slot=found.slot if step.act == "add" else None,
            origin="extracted",
            sources=tuple((w.session.id, seq) for seq in sources),
            topics=found.topics,
        )
        place, tokens = self.place, self.place.counter.text(text)
        conflicts = (*step.conflicts_with, *before)
        said_at = self.said_at.get(step.index)
        return add_fact(w, place.scope, place.block, new, tokens, conflicts_with=conflicts, said_at=said_at)

    def _reword(self, w: Writing, id: int, found: ExtractedFact, text: str) -> None:
        """Give a fact the text of a fact found later in the delivery (`found`), and add the sources of `found`."""
        fact = read_by_ids(w.connection, [id])[0]
        topics = tuple(dict.fromkeys((*fact.topics, *found.topics)))[:MAX_TOPICS]
        tokens = self.place.counter.text(text)
        if text != fact.text:
            after = replace(fact, text=text, tokens=tokens, topics=topics, slot=fact.slot or found.slot)
            revise(w, fact, after, actor="engine")
        confirm_fact(w, fact, similarity=similarity(fact.text, text), sources=sources_of(found, self.seqs))

    def _update(self, w: Writing, fact: Fact, step: Settled, found: ExtractedFact, sources: tuple[int, ...]) -> None:
        """Change a known fact's text, with the messages as new sources."""
        text = step.text or found.text
        after = replace(
            fact,
            text=text,
            tokens=self.place.counter.text(text),
            # `other` means that no category was found so far.
            category=found.category if fact.category == "other" else fact.category,
            topics=tuple(dict.fromkeys((*fact.topics, *found.topics)))[:MAX_TOPICS],
            slot=fact.slot or found.slot,
            state="active" if self._cleared(step, fact) else fact.state,
            metadata=without_ask(fact.metadata),
        )
        revise(w, fact, after, actor="engine")
        confirm_fact(w, fact, similarity=dict(step.candidates)[fact.id], sources=sources)

    def _decided(self, w: Writing, step: Settled, sources: tuple[int, ...], ids: Mapping[int, int]) -> FactDecided:
        finding = self.finding
        beside, fact = step, step.target
        others = {other.index: other for other in finding.steps}
        while fact is None and beside.beside is not None:  # the fact it is compared with was stored before it
            beside = others[beside.beside]
            fact = ids.get(-1 - beside.index, beside.target)
        return FactDecided(
            block=self.place.block,
            content=w.store_text(self.found[step.index].text, scope=self.place.scope),
            decision=step.act,
            fact=fact,
            candidates=tuple((id, round(score, 3)) for id, score in step.candidates),
            decider=(finding.decider or "") if step.rule == "model" else finding.by_rules,
            rule=step.rule,
            sources=ranges(sources),
        )

    def _hold_back(self, w: Writing) -> None:
        for alike in self.finding.held_back:
            fact = self.found[alike.index]
            held = FactHeldBack(
                block=self.place.block,
                content=w.store_text(fact.text, scope=self.place.scope),
                near=alike.fact,
                similarity=round(alike.similarity, 3),
                sources=ranges(sources_of(fact, self.seqs)),
                category=fact.category,
                slot=fact.slot,
            )
            w.record(held)

    # -- condensing -------------------------------------------------------------------------------

    def _save_condensed(self, w: Writing, new_ids: Mapping[int, int]) -> None:
        plan = self.condense
        assert plan is not None
        block = self.place.block
        # Read again: the facts of this delivery have their real ids and versions by now.
        facts = {fact.id: fact for fact in _active(w, self.place)}
        if plan.refused:
            refused = CondensingRefused(
                block=block,
                extractor=self.extractor,
                facts=len(facts),
                max_facts=self.place.max_facts,
                reason=plan.refused,
            )
            w.record(refused)
            return

        def real(id: int) -> int:
            return new_ids.get(id, id)

        unchanged = tuple(real(id) for id in plan.kept)
        merged = []
        for sources, index in plan.merged:
            ids = tuple(real(id) for id in sources)
            # A merge into a fact that is kept word for word adds nothing but sources.
            into = ids[0] if ids[0] in unchanged else self._add_condensed(w, index, [facts[id] for id in ids])
            hand_on_sources(w, [facts[id] for id in ids], into)
            for id in ids:
                if id != into:
                    _supersede(w, facts[id], by=into)
            merged.append((ids, into))
        vanished = tuple(real(id) for id in plan.vanished)
        for id in vanished:
            _supersede(w, facts[id], reason="left out when facts were condensed")
        # A sentence that names no fact as its source was made from the list as a whole.
        added = tuple(self._add_condensed(w, index, list(facts.values()), topics=False) for index in plan.new)
        for id in added:
            hand_on_sources(w, list(facts.values()), id)
        w.record(
            FactsCondensed(
                block=block,
                extractor=self.extractor,
                before=len(facts),
                after=len(set(unchanged) | {into for _, into in merged}) + len(added),
                kept=unchanged,
                merged=tuple(merged),
                vanished=vanished,
                new=added,
            )
        )

    def _add_condensed(self, w: Writing, index: int, sources: Sequence[Fact], *, topics: bool = True) -> int:
        """Add a fact from the condensed list, with the sources of the facts it replaces; return its id."""
        assert self.shorter is not None
        sentence = self.shorter.facts[index]
        topics_of = dict.fromkeys(topic for fact in sources for topic in fact.topics) if topics else {}
        new = FactDraft(
            sentence.text,
            category=category_among(sentence.category, sentence.text, self.place.categories),
            slot=sole_slot(sentence.text),
            origin="condensed",
            sources=tuple({source for fact in sources for source in fact.sources}),
            topics=tuple(topics_of)[:MAX_TOPICS],
        )
        return add_fact(w, self.place.scope, self.place.block, new, self.place.counter.text(sentence.text))


def _supersede(w: Writing, fact: Fact, *, by: int | None = None, reason: str = "") -> None:
    revise(w, fact, replace(fact, state="superseded"), by=by, reason=reason, actor="engine")


def _active(w: Writing, place: WriteTarget) -> list[Fact]:
    """Return active facts as seen within the open transaction, texts included."""
    w.flush_contents()
    return read_facts(w.connection, place.scope, place.block)


def sources_of(fact: ExtractedFact, seqs: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sequence numbers of the messages that state a fact; all of `seqs` if the extractor gave no source."""
    if fact.source is not None and 0 <= fact.source < len(seqs):
        return (seqs[fact.source],)
    return seqs
