"""A block of facts: extracted by a model or by offline rules, deduplicated, condensed, and cut one by one."""

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import isfinite, nextafter
from typing import Annotated, Any, ClassVar, Literal, Protocol

import numpy as np
from pydantic import BeforeValidator, Field, PrivateAttr
from sqlalchemy import Connection

from memory_core.argument_checks import prompt_text
from memory_core.blocks.base import (
    KNOWN_NEAR,
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
from memory_core.blocks.fact_search import rank_facts, word_vectors
from memory_core.blocks.former_marks import FormerMarks
from memory_core.blocks.learned_facts import FoundFactDecisions, LearnedFacts, WriteTarget, sources_of
from memory_core.blocks.nothing_learned import NothingRead, reasons_given, unread_among, without_reason
from memory_core.errors import ConfigError, EmbedderError
from memory_core.events import EventRecord, Ref
from memory_core.messages import ChatMessage, MessageRole, message_text, recites_memory
from memory_core.models.offline.fact_extraction import forget_requests, named_facts, names_fact, slots_of
from memory_core.models.offline.relative_dates import dated, without_dates
from memory_core.models.protocols import (
    Categorising,
    ChatModel,
    Contextual,
    Decisions,
    ExtractedFact,
    FactDecider,
    FactExtractor,
    ModelCall,
    Promptable,
    Proposal,
    RuleBased,
    model_name,
)
from memory_core.planning.consolidation import Settled, category_among, prepare, recalled, settle
from memory_core.planning.curation import FactsAfter
from memory_core.planning.fact_merging import (
    AdditionPlan,
    CondensePlan,
    Expiry,
    Fact,
    KnownFact,
    LimitEffect,
    condense_target,
    plan_additions,
    plan_condensing,
    prompt_words,
    protected_fill,
    relevance,
)
from memory_core.planning.former_values import FormerMark, Statement
from memory_core.planning.learning_outcomes import Outcome, Reason, fact_outcomes, plan_reasons
from memory_core.planning.rendering import fact_parts, marked_text
from memory_core.planning.slots import excludes, single_slot
from memory_core.planning.speakers import said_by_others
from memory_core.planning.statement_relation import DUPLICATE, repeats
from memory_core.services import Services
from memory_core.store.block_rows import read_static_texts
from memory_core.store.database import Database
from memory_core.store.fact_rows import read_facts, read_protected, read_unwanted, read_wordings, scope_revision
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import StoredMessage, last_said
from memory_core.store.writing import user_scope
from memory_core.text import similarity, stems

BY_RULES = "offline rules"
"""Name of the decider if the rules decided because a model's decision could not be used."""

COMPARED = ("active", "proposed", "rejected")
"""States of facts that extracted facts are compared with. Superseded and retired facts may be learned again."""


def _extraction_prompt(value: Any) -> str | None:
    return prompt_text(value, "existing_facts")


def _condense_prompt(value: Any) -> str | None:
    return prompt_text(value, "existing_facts", "max_facts")


class FactExtractionMemoryBlock(BaseMemoryBlock[str]):
    """Facts learned from messages, each with its source, state and history in the database.

    `llm` is a chat model, or any `FactExtractor`; without one the offline rules extract. `facts`
    are texts to start from; after a delivery the field mirrors the active facts.
    """

    kind: ClassVar[str] = "facts"
    kind_is_built_in: ClassVar[bool] = True
    kind_in_pieces: ClassVar[bool] = True
    kind_model_calls: ClassVar[int] = 1
    kind_when_removed: ClassVar[str] = "Its facts stay stored, and return with a block of that name."
    outside: ClassVar[Mapping[str, tuple[Any, ...]]] = {"llm": (ChatModel, FactExtractor)}

    name: str = "ExtractedFacts"
    llm: Any = Field(default=None, exclude=True)
    facts: list[str] = Field(default_factory=list)
    max_facts: int = Field(default=50, ge=1)
    """Number of active facts above which the list is condensed."""
    scope: Literal["session", "user"] = "session"
    """Owner of the facts. A user's facts are read in all the user's sessions, and learned from user messages only."""

    approval: bool = False
    """True if new facts are only proposed, and in no context, until a person accepts them."""

    on_change: Literal["add", "decide"] = "add"
    """Handling of an extracted fact similar to a known one: `add` keeps both and marks a contradiction; `decide`
    compares it with the nearest facts, and records the decision to add, update, delete or do nothing."""
    nearest: int = Field(default=5, ge=1)
    """Number of known facts that each extracted fact is compared with if `on_change` is `decide`."""
    categories: list[str] = Field(default_factory=list)
    """Categories for new facts; empty: the extractor's own."""
    fact_extraction_prompt_template: Annotated[Any, BeforeValidator(_extraction_prompt)] = None
    """Instructions for a model that extracts, as text or as a prompt template of LlamaIndex; None: the engine's."""
    fact_condense_prompt_template: Annotated[Any, BeforeValidator(_condense_prompt)] = None
    """Instructions for a model that condenses the list, as text or LlamaIndex prompt template; None: the engine's."""
    show: Literal["all", "relevant", "none"] = "all"
    """Facts requested for the prompt: all, the `top_k` that fit the question best, or none (they are only searched)."""
    top_k: int = Field(default=10, ge=1)
    """Maximum number of facts in one context if `show` is `relevant`."""
    prompt_share: float | None = Field(default=None, gt=0, le=1)
    """Fraction of the token limit that the facts keep when a prompt is full. Facts beyond it are cut before any
    other block, least relevant to the question first, pinned ones last; None: the priority alone decides."""
    expire_after_days: int | None = Field(default=None, ge=1)
    """Days after which a learned fact that was neither stated again nor confirmed is retired, at the next delivery;
    None: never. What a person wrote, changed or pinned never expires."""
    expire_categories: list[str] = Field(default_factory=list)
    """Categories whose facts expire; empty: all."""
    show_dates: bool = False
    """True if the prompt shows, after each fact, the day on which it was last stated or confirmed (UTC)."""

    former_values: Literal["mark", "leave_out", "show"] = "mark"
    """Treatment of an active fact that a later one contradicts, until a person decides: `mark` it, `leave_out` it, or
    `show` both as they are."""

    _imagined: tuple[Fact, ...] | None = PrivateAttr(default=None)
    """Facts shown in place of the stored ones, in a preview."""
    _after: FactsAfter | None = PrivateAttr(default=None)
    """A person's change that is tried in a preview."""
    _statements: tuple[Statement, ...] = PrivateAttr(default=())
    """Facts that were added, changed, ended or contradicted by what is learned in a preview."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | self.model_dump(mode="json", exclude={*BaseMemoryBlock.model_fields, "facts"})

    def _get(self, messages: Any = None, **kwargs: Any) -> str:
        return "\n".join(f"<fact>{text}</fact>" for text in self.facts)

    def _put(self, messages: list[ChatMessage]) -> None:
        # Without a memory there is neither source nor decision: what is found and not known is added.
        with Services() as services:
            extractor = self.extractor(services)
            extracted = extractor.extract(messages, known=self.facts).facts
            facts = list(dict.fromkeys([*self.facts, *(fact.text for fact in extracted)]))
            if len(facts) > self.max_facts:
                facts = [fact.text for fact in extractor.condense(facts, pinned=(), target=self.max_facts).facts]
        self.facts = facts

    def imagining(self, facts: Sequence[Fact]) -> "FactExtractionMemoryBlock":
        """Return a copy that shows these active facts in place of the stored ones. For previews."""
        other = self.model_copy()
        other._imagined = tuple(facts)
        if isinstance(facts, FactsAfter):
            other._after = facts
        return other

    def imagined(self, batch: Batch, numbers: Iterator[int]) -> Imagined | None:
        # If found facts or questions are compared by meaning, an embedder behind an endpoint rules out a preview too.
        services, searched = batch.services, self.on_change == "decide" or self.show == "relevant"
        if not self.extractor(services).offline or (searched and not services.embedder.offline):
            return None
        if self.on_change == "decide" and not self.decider(services).offline:
            return None
        learned = self.prepare_write(batch)
        if not isinstance(learned, LearnedFacts):
            return Imagined(self, batch.state)
        other = self.imagining(learned.after(numbers))
        other._statements = learned.statements(batch)
        return Imagined(other, batch.state)

    @property
    def imagined_statements(self) -> tuple[Statement, ...]:
        # A fact that the preview reworded keeps the id of the stored one.
        learned = {statement.ref for statement in self._statements}
        refs = ((fact, Ref.of("fact", fact.id)) for fact in self._imagined or ())
        # Compared with None: after a change that retires every fact, `FactsAfter` is empty and thus false.
        after = FactsAfter(()) if self._after is None else self._after
        ended = (
            Statement(
                Ref.of("fact", fact.id),
                (fact.text,),
                after.turn,
                fact.sources,
                ended=True,
                confirmed_at=fact.confirmed_at,
                reviewed=True,
                version=fact.version + 1,
                slot=single_slot(fact.slot),
            )
            for fact in after.ended
        )
        shown = (
            Statement(
                ref,
                (fact.text,),
                after.turn or fact.turn,
                fact.sources,
                confirmed_at=fact.confirmed_at,
                reviewed=fact.id in after.added,
                version=fact.version,
                block="" if self._statements else self.name,
                slot=single_slot(fact.slot),
                contradicts=tuple(Ref.of("fact", other) for other in after.added.get(fact.id, ())),
            )
            for fact, ref in refs
            if ref not in learned
        )
        return (*ended, *self._statements, *shown)

    def _check_together(self) -> None:
        own_extractor = isinstance(self.llm, FactExtractor) and not isinstance(self.llm, Promptable)
        if self._prompted and own_extractor:
            raise ConfigError(f"{type(self).__name__}: {self._prompted} is for a chat model, and llm takes no prompt")

    def check_services(self, services: Services) -> None:
        if self._prompted and not isinstance(self.extractor(services), Promptable):
            raise ConfigError(
                f'the block "{self.name}" has a {self._prompted}, and no model that could follow it: give it an llm'
            )

    @property
    def _prompted(self) -> str | None:
        """Return the name of the first prompt setting that has a value; None if none has."""
        names = "fact_extraction_prompt_template", "fact_condense_prompt_template"
        return next((name for name in names if getattr(self, name)), None)

    def learner(self, services: Services) -> str | None:
        return model_name(self.extractor(services))

    def extractor(self, services: Services) -> FactExtractor:
        """Extractor in use: the block's own, its chat model wrapped as one, or the services' default."""
        extractor: FactExtractor
        if self.llm is None:
            extractor = services.extractor
        elif isinstance(self.llm, FactExtractor):
            extractor = self.llm
        else:
            from memory_core.models.extraction import ModelExtractor

            extractor = ModelExtractor(self.llm)
        prompts = self.fact_extraction_prompt_template, self.fact_condense_prompt_template
        if any(prompts) and isinstance(extractor, Promptable):
            extractor = extractor.with_prompts(extract=prompts[0], condense=prompts[1])
        if self.categories and isinstance(extractor, Categorising):
            return extractor.under(self.categories)
        return extractor

    def decider(self, services: Services) -> FactDecider:
        """Decider in use: the block's chat model wrapped as one, or the services' default."""
        # An `llm` that only extracts cannot decide.
        if isinstance(self.llm, ChatModel):
            from memory_core.models.deciding import ModelDecider

            return ModelDecider(self.llm)
        return services.decider

    def read(self, reading: ReadContext, state: str | None) -> Content:
        if self.show == "none":
            return Content()
        facts: Sequence[Fact]
        if self._imagined is not None:
            facts = self._imagined
        else:
            scope = scope_of(self.scope, reading.session_id, reading.user_id, self.name)
            with reading.database.read() as connection:
                facts = read_facts(connection, scope, self.name)
        facts = [fact for fact in facts if fact.id not in reading.quarantine.facts]
        marks: Mapping[Ref, FormerMark] = {}
        if self.former_values != "show" and facts:
            marks = FormerMarks.read(reading).of_statements(Ref.of("fact", fact.id) for fact in facts)
        if self.former_values == "leave_out":
            facts, marks = [fact for fact in facts if Ref.of("fact", fact.id) not in marks], {}
        if self.show == "all":
            return self._content(facts, cut_order(facts, reading.question), reading, marks)
        return self._fitting(facts, reading, marks)

    def _fitting(self, facts: Sequence[Fact], reading: ReadContext, marks: Mapping[Ref, FormerMark]) -> Content:
        """Return pinned facts and the `top_k` that fit the question best; without a question, the last confirmed."""
        # Pinned facts are shown in any case: they are not searched, and take none of the `top_k`.
        loose = [fact for fact in facts if not fact.pinned]
        if reading.question.strip():
            hits = rank_facts(
                loose, reading.question, database=reading.database, services=reading.services, top_k=self.top_k
            )
            best = [hit.fact for hit in hits]
        else:
            best = sorted(loose, key=lambda fact: (-fact.confirmed_at, -fact.id))[: self.top_k]
        places = {fact.id: place for place, fact in enumerate(best)}
        shown = [fact for fact in facts if fact.pinned or fact.id in places]
        # The worst is cut first, pinned ones last, the oldest of them first.
        ranks = sorted(range(len(shown)), key=lambda i: (shown[i].pinned, -places.get(shown[i].id, 0), i))
        return self._content(shown, tuple(ranks), reading, marks)

    def _content(
        self, facts: Sequence[Fact], order: tuple[int, ...], reading: ReadContext, marks: Mapping[Ref, FormerMark]
    ) -> Content:
        items = tuple(self._item(fact, reading, marks) for fact in facts)
        refs = [ref for fact in facts if (ref := Ref.of("fact", fact.id)) in marks]
        notes = {Ref.of("fact", fact.id): note for fact in facts if (note := self._note(fact))}
        return Content(items, order, marks=tuple(marks[ref].as_stored(ref) for ref in refs), notes=notes)

    def _item(self, fact: Fact, reading: ReadContext, marks: Mapping[Ref, FormerMark]) -> Item:
        text = f"{fact.text}{self._note(fact)}"
        # With a note, a date or a mark after the text, its tokens are counted anew.
        ref = Ref.of("fact", fact.id)
        mark = marks[ref].text() if ref in marks else ""
        words = marked_text(text, mark)
        tokens = fact.tokens if words == fact.text else None
        return Item(ref, words, fact_parts(text, reading.safe, mark), tokens=tokens)

    def _note(self, fact: Fact) -> str:
        """Return what a prompt says after a fact's words; empty for most facts."""
        return prompt_words("", fact.metadata) + (f" ({confirmed_on(fact.confirmed_at)})" if self.show_dates else "")

    def prepare_write(self, batch: Batch) -> PendingWrite:
        scope = scope_of(self.scope, batch.session_id, batch.user_id, self.name)
        # 1. A user's facts are learned from user messages alone. A session's are learned from all but instructions and
        #    messages that recite memory.
        heard = [
            message
            for message in batch.readable
            if message.message.role is MessageRole.USER
            or (self.scope == "session" and not message.pinned and not recites_memory(message.message))
        ]
        extractor = self.extractor(batch.services)
        if not heard:
            return NothingRead(self.name, extractor.name, batch)
        # 2. Read all facts to compare with at one revision: `save` raises if the facts have changed since.
        with batch.database.read() as connection:
            before = scope_revision(connection, scope, self.name)
            stored = read_facts(connection, scope, self.name, states=COMPARED)
            compared_with = self._compared_with(stored, batch.quarantine.facts)
            # Facts of a preview that are not stored yet are protected too: a person is about to add them.
            protected = read_protected(connection, scope, self.name) | (
                {f.id for f in compared_with} - {f.id for f in stored}
            )
            refused = read_events(
                connection,
                batch.session_id,
                kinds=("condensing_refused",),
                block=self.name,
                limit=1,
                newest_first=True,
            )
            unwanted = read_unwanted(connection, scope, self.name)
            remembered = self._remembered(connection, batch, heard)
            last_mentions = _said_since(connection, heard[0], compared_with)
            heard = with_times(connection, batch.session_id, heard)
        ids = {fact.text: fact.id for fact in compared_with if fact.state != "rejected"}
        # 3. Extract, set aside what is only repeated from memory, and mark what has to wait for a person.
        silent = self.not_to_repeat(compared_with, extractor)
        near = self._near(compared_with, heard, batch) if isinstance(extractor, Contextual) else []
        read = _extract(extractor, heard, batch, known=silent, near=near, ids=ids)
        everything, reasons, calls = read.facts, read.reasons, read.calls
        facts, repeats = _first_hand([self.labelled(fact) for fact in everything], heard, remembered)
        requests = _requests([message.message for message in heard])
        facts = with_doubts(facts, [message.message for message in heard], unwanted, compared_with)
        # 4. Decide on each found fact, and give every message without effect its reason.
        later = {
            index: after
            for index, fact in enumerate(facts)
            if (after := [k for k, last in last_mentions.items() if _said_before(heard, fact.source, last)])
        }
        finding = self.weigh(compared_with, facts, batch.database, batch.services, scope, protected, later)
        seqs = tuple(message.seq for message in heard)
        outcomes = [Outcome(sources_of(fact, seqs), Reason("repeats_memory")) for fact in repeats]
        statements = [(fact.text, sources_of(fact, seqs)) for fact in facts]
        doubtful = [index for index, fact in enumerate(facts) if fact.doubtful]
        outcomes += fact_outcomes(statements, finding.steps, finding.held_back, compared_with, doubtful)
        reasons |= unread_among(batch, heard)
        learned = LearnedFacts(
            place=WriteTarget(
                block=self.name,
                scope=scope,
                revision=before,
                known=tuple(compared_with),
                protected=frozenset(protected),
                max_facts=self.max_facts,
                approval=self.approval,
                categories=tuple(self.categories),
                counter=batch.counter,
                shows=self,
            ),
            extractor=extractor.name,
            seqs=seqs,
            found=tuple(facts),
            finding=finding,
            recalled=len(repeats),
            reasons=plan_reasons([m.seq for m in batch.messages], outcomes, reasons, without_reason(extractor)),
            calls=(*calls, *finding.calls),
            context=frozenset(read.context),
            refused=read.refused,
            shown={"context": len(read.context), "shown": read.known_facts, "context_tokens": read.tokens},
            said_at={
                index: _time_before(heard, facts[index].source, compared_with, ids) for index, ids in later.items()
            },
            expiry=self._expiry(batch),
            forgotten=frozenset(
                id
                for _, request in requests
                # A request in a chat retires nothing that a person wrote or confirmed.
                for id in named_facts(request, [(f.id, f.text) for f in compared_with if f.id not in protected])
            ),
        )
        # 5. Last, as both need the list with the found facts.
        self._condense(learned, extractor, refused)
        self._embed(learned, batch)
        return learned

    def _expiry(self, batch: Batch) -> Expiry | None:
        if self.expire_after_days is None:
            return None
        now = max(message.at for message in batch.messages)
        return Expiry(self.expire_after_days, now, tuple(self.expire_categories))

    def _compared_with(self, stored: list[Fact], withheld: Collection[int]) -> list[Fact]:
        """Return the known facts to compare found facts with; in a preview, its active facts replace the stored ones.

        Facts in quarantine count as rejected: no model reads them, and similar facts are not learned.
        """
        known_facts = stored
        if self._imagined is not None:
            present = {fact.id for fact in self._imagined}
            others = [fact for fact in stored if fact.state != "active" and fact.id not in present]
            known_facts = sorted([*self._imagined, *others], key=lambda fact: fact.id)
        return [replace(fact, state="rejected") if fact.id in withheld else fact for fact in known_facts]

    def _near(self, known: Sequence[Fact], heard: Sequence[StoredMessage], batch: Batch) -> list[str]:
        """Return the active facts to understand the messages by: those nearest in words, then the last confirmed.

        Empty if nothing is decided on: the extractor is then told all facts, in order not to repeat them.
        """
        if self.on_change != "decide" or not batch.context_tokens or self.extractor(batch.services).offline:
            return []
        terms = frozenset(stems(" ".join(message_text(message.message) for message in heard)))
        active = [fact for fact in known if fact.state == "active"]
        ranked = sorted(active, key=lambda fact: (-relevance(fact.text, terms), -fact.confirmed_at, -fact.id))
        near, room = [], batch.context_tokens
        for fact in ranked[:KNOWN_NEAR]:
            room -= fact.tokens
            if room < 0:
                break
            near.append(fact.text)
        return near

    def not_to_repeat(self, known: Sequence[Fact], extractor: FactExtractor) -> list[str]:
        """Return the texts that an extractor need not find again.

        Empty if repetitions matter: if each found fact is decided on, and for offline rules, because finding a fact
        again confirms it and costs nothing. Of several values in one slot, any may be stated again: the last one holds.
        """
        if self.on_change == "decide" or isinstance(extractor, RuleBased):
            return []
        slots = Counter(fact.slot for fact in known if excludes(fact.slot, fact.slot))
        return [fact.text for fact in known if fact.state != "rejected" and slots[fact.slot] < 2]

    def labelled(self, fact: ExtractedFact) -> ExtractedFact:
        """Return the found fact under one of the block's categories; its former category becomes a topic."""
        category = category_among(fact.category, fact.text, self.categories)
        topics = fact.topics
        if not topics and fact.category != "other" and (self.categories or self.on_change == "decide"):
            topics = (fact.category,)
        return replace(fact, category=category, topics=topics)

    def weigh(
        self,
        known: Sequence[Fact],
        found: Sequence[ExtractedFact],
        database: Database,
        services: Services,
        scope: str,
        protected: Collection[int],
        later: Mapping[int, Collection[int]] | None = None,
    ) -> FoundFactDecisions:
        """Compare the found facts with the known ones, or decide on each. Stores nothing.

        No decision changes a `protected` fact: instead, the found fact is added, and marked as contradicting it. Nor
        does it change one that was said `later`: see `settle`.

        Raises:
            ModelError: the deciding model did not answer.
        """
        if self.on_change == "add":
            return _compared(compare(known, found), found)
        facts = _to_known_facts(known, found, protected)
        cosines = self._cosines(facts, found, database, services, scope)
        prepared = prepare(facts, found, nearest=self.nearest, cosines=cosines)
        decider = self.decider(services)
        proposals = [Proposal(found[index], near) for index, near in prepared.compared.items()]
        decisions = decider.decide(proposals) if proposals else Decisions(())
        done = settle(
            prepared,
            decisions.decisions,
            found,
            active=[fact.id for fact in known if fact.state == "active"],
            waiting=[index for index, fact in enumerate(found) if self.approval or fact.doubtful],
            later=later or {},
        )
        repeated = [
            Settled(index, "none", None, None, "repeated", (), (), other) for index, other in prepared.repeated.items()
        ]
        # An offline decider is the rules. With a model, rules are the fallback, and the log names which decided.
        rules = decider.name if decider.offline else BY_RULES
        return FoundFactDecisions(
            steps=(
                *(replace(step, replaces=prepared.replaced.get(step.index, ())) for step in done.settled),
                *repeated,
            ),
            held_back=prepared.held_back,
            refused=Counter(decisions.refused) + Counter(done.refused),
            calls=decisions.calls,
            decider=decider.name,
            by_rules=rules,
        )

    def _cosines(
        self,
        known: Sequence[KnownFact],
        found: Sequence[ExtractedFact],
        database: Database,
        services: Services,
        scope: str,
    ) -> dict[tuple[int, int], float] | None:
        """Return the cosine similarity by (index in `found`, fact id); None if nothing was embedded or compared."""
        if not known or not found:
            return None
        texts = {*(fact.text for fact in known), *(fact.text for fact in found)}
        try:
            vectors = word_vectors(services, database, scope, texts)
        except EmbedderError:
            return None
        near = np.stack([vectors[fact.text] for fact in found]) @ np.stack([vectors[fact.text] for fact in known]).T
        return {
            (index, fact.id): float(near[index, place])
            for index in range(len(found))
            for place, fact in enumerate(known)
        }

    def _remembered(self, connection: Connection, batch: Batch, heard: Sequence[StoredMessage]) -> set[str]:
        """Return the texts that a speaker other than the user may only be repeating.

        These are all wordings of this block's and the user's facts, and the sentences of static blocks. Facts that
        other blocks learn at the same time are missing.
        """
        # A user who repeats a fact confirms it, so there is nothing to compare with.
        if all(message.message.role is MessageRole.USER for message in heard):
            return set()
        scope = scope_of(self.scope, batch.session_id, batch.user_id, self.name)
        texts = read_wordings(connection, scope, self.name)
        if batch.user_id:
            texts |= read_wordings(connection, user_scope(batch.user_id))
        for text in read_static_texts(connection, batch.session_id):
            texts |= {sentence for sentence in re.split(r"[.!?;\n]+", text) if sentence.strip()}
        return texts

    def _condense(self, learned: LearnedFacts, extractor: FactExtractor, refused: Sequence[EventRecord]) -> None:
        # A fact with a key is never condensed: a program reads it by that key.
        loose = [fact for fact in learned.active_before_condensing if fact.key is None]
        known_facts = _to_known_facts(loose, (), learned.place.protected)
        if len(known_facts) <= self.max_facts:
            return
        # After a refusal it is retried only once the list has grown by a tenth.
        last: Any = refused[0].event if refused else None
        if last is not None and len(known_facts) < last.facts + max(1, self.max_facts // 10):
            return
        fixed = [index for index, fact in enumerate(known_facts) if fact.protected]
        if LimitEffect(len(known_facts), len(fixed), self.max_facts).filled:
            # Recorded as a refusal without asking the model, which could merge nothing.
            learned.condense = CondensePlan.unchanged(known_facts, protected_fill(len(fixed)))
            return
        target = condense_target(self.max_facts)
        shorter = extractor.condense([fact.text for fact in known_facts], pinned=fixed, target=target)
        learned.calls += shorter.calls
        learned.shorter = shorter
        learned.condense = plan_condensing(known_facts, shorter.facts, max_facts=self.max_facts)

    def _embed(self, learned: LearnedFacts, batch: Batch) -> None:
        """Compute vectors of the facts' future texts, if the block searches among them."""
        if self.on_change == "add" and self.show == "all":
            return
        try:
            texts = {fact.text for fact in learned.active_before_condensing}
            learned.vectors = word_vectors(batch.services, batch.database, learned.place.scope, texts)
            learned.embedder = batch.services.embedder.id
        except EmbedderError:
            return  # they are found by keyword until they can be embedded


def _said_since(connection: Connection, first: StoredMessage, known: Sequence[Fact]) -> dict[int, tuple[int, float]]:
    """Return, for known facts that were said after a message, the last message that says each, by id of the fact.

    Of this session's messages the number counts, as a clock may go back; of the user's other sessions' the time.
    """
    result = {}
    for fact in known:
        here = max((seq for session, seq in fact.sources if session == first.session_id), default=0)
        # A fact is learned after it was said: most were learned before, and need no look at other sessions.
        others = [s for s in fact.sources if s[0] != first.session_id] if fact.confirmed_at > first.at else []
        elsewhere = last_said(connection, others)
        if here > first.seq or elsewhere > first.at:
            result[fact.id] = (here, elsewhere)
    return result


def _said_before(heard: Sequence[StoredMessage], source: int | None, last: tuple[int, float]) -> bool:
    """Return whether a found fact was said before the last message of a known one."""
    message = heard[-1 if source is None else source]
    return message.seq < last[0] or message.at < last[1]


def _time_before(
    heard: Sequence[StoredMessage], source: int | None, known: Sequence[Fact], later: Collection[int]
) -> float:
    """Return the time of a found fact's message, before those of the facts that were said `later` for any clock."""
    since = min(fact.confirmed_at for fact in known if fact.id in later)
    return min(heard[-1 if source is None else source].at, nextafter(since, 0.0))


def compare(known: Sequence[Fact], found: Sequence[ExtractedFact]) -> AdditionPlan:
    """Compare the found facts with the known ones, which are active, proposed or rejected."""
    return plan_additions(_to_known_facts(known, found), found)


def _compared(plan: AdditionPlan, found: Sequence[ExtractedFact]) -> FoundFactDecisions:
    """Return the finding by comparison alone: known facts are confirmed, all others added."""
    confirm = [
        Settled(same.index, "none", same.fact, None, "same", (), ((same.fact, same.similarity),))
        for same in plan.confirm
    ]
    add = [
        Settled(a.index, "add", None, found[a.index].text, "new", a.conflicts_with, (), found_before=a.found_before)
        for a in plan.add
    ]
    return FoundFactDecisions((*confirm, *add), plan.held_back)


def _to_known_facts(
    known: Sequence[Fact], found: Sequence[ExtractedFact], protected: Collection[int] = ()
) -> list[KnownFact]:
    slots = slots_of(known, ((fact.text, fact.slot) for fact in found))
    return [KnownFact(f.id, f.text, slots[f.id], f.pinned or f.id in protected, f.state == "rejected") for f in known]


def with_doubts(
    facts: Iterable[ExtractedFact],
    read: Sequence[ChatMessage],
    unwanted: Sequence[Fact] = (),
    known: Sequence[Fact] = (),
) -> list[ExtractedFact]:
    """Return the facts; those that others may have said, or that a message asks to forget, are marked as doubtful.

    So are those that say again what a person rejected or retired as wrong (`unwanted`), unless a known fact says it. A
    doubtful fact waits for a person. Anybody may have written a tool result or a text that a user pastes: a page that
    says "remember that ..." must not teach the agent anything by itself.
    """
    requests = _requests(read)
    active = [fact.text for fact in known if fact.state == "active"]

    def comes_back(fact: ExtractedFact) -> bool:
        again = any(repeats(fact.text, gone.text, same_slot=excludes(fact.slot, gone.slot)) for gone in unwanted)
        return again and not any(similarity(fact.text, text) >= DUPLICATE for text in active)

    return [
        replace(fact, doubtful=True)
        if _is_forgotten(fact, requests)
        or said_by_others(without_dates(fact.text), fact.source, read)
        or comes_back(fact)
        else fact
        for fact in facts
    ]


def _requests(heard: Sequence[ChatMessage]) -> list[tuple[int, str]]:
    """Return the requests to forget something, each as the index of its message and its words."""
    return [
        (index, request)
        for index, message in enumerate(heard)
        if message.role is MessageRole.USER
        for request in forget_requests(message_text(message))
    ]


def _is_forgotten(fact: ExtractedFact, requests: Sequence[tuple[int, str]]) -> bool:
    """Return whether the message that states a fact, or a later message of the delivery, asks to forget it."""
    return any(
        (fact.source is None or fact.source <= index) and names_fact(request, fact.text) for index, request in requests
    )


def _first_hand(
    found: Sequence[ExtractedFact], heard: Sequence[StoredMessage], remembered: Collection[str]
) -> tuple[list[ExtractedFact], list[ExtractedFact]]:
    """Separate facts stated first-hand from those that a speaker other than the user only repeats from memory."""
    users = [message.message.role is MessageRole.USER for message in heard]
    # A fact without a source may be the user's if they spoke at all.
    by_user = [any(users) if f.source is None or f.source >= len(users) else users[f.source] for f in found]
    gone = set(recalled([fact.text for fact in found], by_user, remembered)) if remembered else set()
    kept_facts = [fact for index, fact in enumerate(found) if index not in gone]
    return kept_facts, [found[index] for index in sorted(gone)]


@dataclass(slots=True)
class _Read:
    """Result of extracting facts from a delivery, piece by piece."""

    facts: tuple[ExtractedFact, ...] = ()
    """Found facts; sources are indexes of the messages heard."""
    reasons: dict[int, Reason] = field(default_factory=dict)
    """Reasons for messages without facts, by sequence number."""
    calls: tuple[ModelCall, ...] = ()
    refused: Counter[str] = field(default_factory=Counter)
    context: set[int] = field(default_factory=set)
    """Sequence numbers of the messages shown as context."""
    known_facts: int = 0
    tokens: int = 0
    """Tokens of the context and of the known facts shown."""


def _extract(
    extractor: FactExtractor,
    heard: Sequence[StoredMessage],
    batch: Batch,
    *,
    known: Sequence[str],
    near: Sequence[str],
    ids: Mapping[str, int],
) -> _Read:
    """Extract facts in pieces of messages that a model can read; `ids`: ids of the known facts, by text."""
    result, read = _Read(known_facts=len(known) + len(near)), 0
    for piece in call_pieces(heard):
        messages = [message.message for message in piece]
        reader, context = in_context(extractor, batch, piece, near)
        # Facts found in earlier pieces count as known, or later pieces would bring them again. A value may come back.
        before = (fact.text for fact in result.facts if not excludes(fact.slot, fact.slot))
        extraction = reader.extract(messages, known=[*known, *before])
        for fact in extraction.facts:
            # The extractor counts within its piece.
            fact = dated(fact, messages)
            fact = fact if fact.source is None else replace(fact, source=fact.source + read)
            result.facts += (fact,)
        result.reasons |= reasons_given(extraction.nothing, piece, ids)
        result.calls += extraction.calls
        result.refused.update(extraction.refused)
        result.context |= {shown.seq for shown in context}
        result.tokens += sum(batch.counter.text(message_text(shown.message)) for shown in context)
        read += len(piece)
    result.tokens += sum(batch.counter.text(text) for text in (*known, *near)) if batch.context_tokens else 0
    return result


class Cuttable(Protocol):
    """Fact with the fields that decide the order of cutting."""

    @property
    def id(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def pinned(self) -> bool: ...
    @property
    def confirmed_at(self) -> float: ...


def cut_order(facts: Sequence[Cuttable], question: str) -> tuple[int, ...]:
    """Return indexes in order of cutting: unpinned first, then least relevant to the question, longest unconfirmed."""
    query = frozenset(stems(question))
    ranks = [
        (fact.pinned, relevance(fact.text, query), fact.confirmed_at, fact.id, index)
        for index, fact in enumerate(facts)
    ]
    return tuple(rank[-1] for rank in sorted(ranks))


def confirmed_on(at: float) -> str:
    """Return the note `confirmed <day>` for a time in seconds since 1970 (UTC). An infinite time, which a fact that is
    not stored yet has, gives today.

    >>> confirmed_on(1_777_777_777)
    'confirmed 3 May 2026'
    """
    day = datetime.fromtimestamp(at if isfinite(at) else time.time(), UTC)
    return f"confirmed {day.day} {day:%B %Y}"
