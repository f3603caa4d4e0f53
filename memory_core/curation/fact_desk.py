"""The curation desk of a facts block: change sets with undo, the review queue, results of condensing.

Only reads and combines. Decisions are in `memory_core.planning.curation`, checks in `memory_core.history`, storing in
`memory_core.curation.fact_change_sets`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlalchemy import Connection

from memory_core.access import needs
from memory_core.blocks.facts import COMPARED, FactExtractionMemoryBlock, with_doubts
from memory_core.curation.change_sets import Change, ChangeSetDesk
from memory_core.curation.fact_change_sets import FactChangeSetTransaction, add_each, read_fact_log, tell, with_slot
from memory_core.engine.context import Context, build_context
from memory_core.engine.session import ImaginedBlocks, Session
from memory_core.errors import ConfigError, MessageError
from memory_core.events import Actor, CondensingRefused, EventRecord, FactHeldBack, expand
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.history.fact_evidence import (
    REWRITE_KINDS,
    Flag,
    Rewrite,
    SupportingText,
    find_flags,
    find_rewrites,
    nearest,
    source_spans,
)
from memory_core.history.learned_slices import CONDENSING, WORDING, FactSlice, rewords_fact, wordings
from memory_core.messages import ChatMessage, MessageRole, message_text, timed
from memory_core.models.offline.fact_extraction import slot_in
from memory_core.models.offline.relative_dates import dated
from memory_core.planning.curation import (
    FIRST_ADDED,
    ChangeSet,
    FactDraft,
    FactsAfter,
    SuppressedFact,
    active_after,
    ended_by,
    restore,
    retire,
    settle,
    together,
)
from memory_core.planning.fact_merging import Fact, LimitEffect, same_words
from memory_core.planning.statement_relation import contradicts
from memory_core.services import Services
from memory_core.store.fact_rows import read_by_ids, read_facts, read_protected, read_scope_events, read_unwanted
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing, read_existing, read_texts

TrialOutcome = Literal["added", "proposed", "confirmed", "held_back", "repeated", "updated", "ended"]

WAITS = "A person has to accept it first."
"""Sentence for an agent whose change waits under `approval`."""

_OUTCOMES: dict[str, TrialOutcome] = {"none": "confirmed", "update": "updated", "delete": "ended"}
"""Outcome shown for each decision about a known fact."""


@dataclass(frozen=True, slots=True)
class TriedFact:
    """A fact found in a trial extraction, with its prospective outcome."""

    text: str
    category: str
    outcome: TrialOutcome
    """`held_back`: similar to a rejected fact; `repeated`: similar to another fact found in the same text; `updated`,
    `ended`: the found fact would change the text of a known one, or end it."""
    fact: Fact | None = None
    """Known fact that would be confirmed, updated or ended, or suppresses the found one; else the nearest."""
    similarity: float | None = None
    conflicts_with: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMessage:
    session_id: str
    seq: int
    turn: int
    role: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """Start and end in `text` of the words that match the fact."""


@dataclass(frozen=True, slots=True)
class Review:
    """Facts to be reviewed by a person."""

    facts: tuple[Fact, ...]
    """Oldest first: proposed facts, and active ones with an open flag. A contradiction stays until one of the two is
    retired or reworded, or a person keeps both."""
    flags: dict[int, tuple[Flag, ...]]
    """Flags of all active and proposed facts, by id."""
    among: tuple[Fact, ...]
    """All active and proposed facts."""

    def nearest(self, fact: Fact) -> tuple[Fact, float] | None:
        """Return the most similar other fact, with its similarity; None if none is similar."""
        return nearest(fact.text, [other for other in self.among if other.id != fact.id])


class Curation(ChangeSetDesk[FactChangeSetTransaction]):
    """Desk of one facts block. With the scope `user`, all sessions of the user share its facts."""

    def __init__(self, session: Session, block: str) -> None:
        """See `Memory.facts.desk`."""
        if not isinstance(session.block(block).block, FactExtractionMemoryBlock):
            raise ConfigError(f'the block "{block}" holds no facts')
        super().__init__(session, block)

    def facts(self, states: Iterable[str] | None = None) -> list[Fact]:
        """Return the block's facts, oldest first; `states=None` for all."""
        with self._session.database.read() as connection:
            return read_facts(connection, self.scope, self.block, states=states)

    def protected(self) -> set[int]:
        """Return the ids of facts that learning and condensing neither reword nor drop, in any state."""
        with self._session.database.read() as connection:
            return read_protected(connection, self.scope, self.block)

    def limit_effect(self, added: Sequence[FactDraft] = ()) -> LimitEffect:
        """Return the effect of `max_facts` on the active facts and `added`, facts that a person would write."""
        self._session.open()  # another process, or another tab, may have changed the limit
        # Facts with a key are a program's: they are never condensed, and do not count.
        active, protected = self.facts(["active"]), self.protected()
        facts = [fact for fact in active if fact.key is None]
        more = sum(new.state == "active" and new.key is None for new in added)
        protected_count = sum(fact.id in protected for fact in facts)
        keyed = len(active) - len(facts)
        return LimitEffect(len(facts) + more, protected_count + more, self._facts_block.max_facts, keyed)

    # -- changing ---------------------------------------------------------------------------------

    def preview(self, change: ChangeSet, input: str | None = None) -> Context:
        """Return the next context after a change set. Changes nothing."""
        self._session.open()
        imagined = self._session.imagined(self._session.config, ImaginedBlocks(facts={self.block: self.after(change)}))
        return build_context(imagined, input, record=False)

    def after(self, change: ChangeSet) -> FactsAfter:
        """Return the active facts after a change set, for previews. Changes nothing."""
        with self._session.database.read() as connection:
            turn = read_existing(connection, self._session.id).turns
        facts = self.facts()
        change = replace(change, steps=tuple(with_slot(s) if isinstance(s, FactDraft) else s for s in change.steps))
        active = active_after([f for f in facts if f.state == "active"], change, self._session.counter.text)
        added: dict[int, tuple[int, ...]] = {}

        def note(new: FactDraft, conflicts: tuple[int, ...]) -> int:
            id = FIRST_ADDED + len(added)
            added[id] = conflicts
            return id

        add_each(facts, settle(change).added, note)
        return FactsAfter(active, ended_by(change), turn, added)

    def apply(self, change: ChangeSet, *, preview: bool = False, actor: Actor = "user") -> Change:
        """Apply a change set in one transaction, all or nothing; with `preview`, store nothing and return its effect.

        Raises:
            ConflictError: a fact was changed elsewhere since it was read.
            MessageError: another active fact already has one of the texts.
        """
        with self._changing(actor, preview=preview) as transaction:
            stored = transaction.allowed(change)
            done = transaction.apply(change)
            if change.action == "import":
                self._join_quarantine(transaction.w, change, [id for (_, id), _, version in done.event.rows if version])
            if change.action == "refuse":
                self._note_refusal(transaction.w, actor)
        prompt = self.preview(stored) if preview else None
        waits = "" if stored is change else f" {WAITS}"
        return Change(done.record, done.event, tell(done.event) + waits, prompt=prompt)

    def put(self, kept: Mapping[str, FactDraft | None], *, actor: Actor = "agent") -> AppliedChangeSet | None:
        """Store facts under keys, in one change set: a new fact, or a version of the active one that
        has the key. Unchanged facts are confirmed. None retires the fact with that key.

        Returns None if nothing changed.

        Raises:
            MessageError: a fact has no words, a key cannot be stored, or metadata is no JSON object; nothing was
                changed.
        """
        with self._changing(actor) as transaction:
            done = transaction.put(kept)
        return None if done is None else replace(done, sentence=tell(done.event))

    @needs("owner")
    def erase(self, facts: Sequence[Fact], *, actor: Actor = "user") -> None:
        """Delete facts and their words. Change sets on them can no longer be undone.

        Raises:
            ConflictError: a fact was changed elsewhere since it was read; nothing was erased.
            AccessError: the acting person is no owner.
        """
        with self._changing(actor) as transaction:
            transaction.erase(facts)
        self._session.database.forget_log()

    def _transaction(self, w: Writing, actor: Actor) -> FactChangeSetTransaction:
        return FactChangeSetTransaction(w, self.scope, self.block, actor, self._session.counter.text)

    def _log(self, connection: Connection) -> ChangeLog:
        facts = read_facts(connection, self.scope, self.block, states=None)
        return read_fact_log(connection, self.scope, self.block, {fact.id: fact for fact in facts})

    def _join_quarantine(self, w: Writing, change: ChangeSet, ids: Sequence[int]) -> None:
        """Keep facts that an import added or reworded out of prompts if they say what is in quarantine."""
        texts = {step.text if isinstance(step, FactDraft) else step.values.get("text") for step in change.steps}
        facts = {fact.id: (fact.text,) for fact in read_by_ids(w.connection, ids) if fact.text in texts}
        join_sets(w, self._session.services.messages, facts=facts)

    def _note_refusal(self, w: Writing, actor: Actor) -> None:
        """Record a person's refusal, so that condensing pauses until the list has grown, as after the engine's own."""
        refused = CondensingRefused(
            block=self.block,
            extractor="",
            facts=len(read_facts(w.connection, self.scope, self.block)),
            max_facts=self._facts_block.max_facts,
            reason="a person refused the rewrite",
        )
        w.record(refused, actor=actor)

    # -- reading ----------------------------------------------------------------------------------

    def try_extraction(self, text: str, *, services: Services | None = None) -> tuple[TriedFact, ...]:
        """Preview learning from a text: return the facts found, with their outcomes. Stores nothing; may call a model.

        Raises:
            MessageError: there is no text.
            ModelError: the model failed.
        """
        if not text.strip():
            raise MessageError("There is no text to extract facts from.")
        block = self._facts_block
        compared = self.facts(COMPARED)
        protected = self.protected()
        # The steps of a delivery without its writes, so that the outcomes are those a delivery would have.
        extractor = block.extractor(services or self._session.services)
        message = timed(ChatMessage(role=MessageRole.USER, content=text), self._session.clock())
        everything = extractor.extract([message], known=block.not_to_repeat(compared, extractor)).facts
        with self._session.database.read() as connection:
            unwanted = read_unwanted(connection, self.scope, self.block)
        dated_facts = [block.labelled(dated(fact, [message])) for fact in everything]
        facts = with_doubts(dated_facts, [message], unwanted, compared)
        services = services or self._session.services
        finding = block.weigh(compared, facts, self._session.database, services, self.scope, protected)
        by_id = {fact.id: fact for fact in compared}
        # Found facts that no step below names repeat another one.
        tried = {index: TriedFact(fact.text, fact.category, "repeated") for index, fact in enumerate(facts)}
        for held in finding.held_back:
            fact = by_id[held.fact]
            tried[held.index] = replace(tried[held.index], outcome="held_back", fact=fact, similarity=held.similarity)
        for step in finding.steps:
            if step.act == "add":
                near = nearest(facts[step.index].text, compared)
                tried[step.index] = replace(
                    tried[step.index],
                    outcome="proposed" if block.approval or facts[step.index].doubtful else "added",
                    fact=near[0] if near else None,
                    similarity=near[1] if near else None,
                    conflicts_with=tuple(by_id[id] for id in step.conflicts_with),
                )
            elif step.target is not None:
                tried[step.index] = replace(
                    tried[step.index],
                    outcome=_OUTCOMES[step.act],
                    fact=by_id[step.target],
                    similarity=dict(step.candidates)[step.target],
                )
        return tuple(tried.values())

    def held_back(self) -> list[SuppressedFact]:
        """Return extracted texts that were suppressed as similar to a rejected fact, newest first; each text once.

        Leaves out texts accepted since, and those similar to facts that are no longer rejected.
        """
        with self._session.database.read() as connection:
            facts = {fact.id: fact for fact in read_facts(connection, self.scope, self.block, states=None)}
            records = self._events(connection, FactHeldBack.kind)
            hashes = [r.event.content for r in records if isinstance(r.event, FactHeldBack)]
            texts = read_texts(connection, self.scope, hashes)
        seen = {same_words(fact.text) for fact in facts.values() if fact.state != "rejected"}
        found_facts = []
        for record in records:
            event = record.event
            if not isinstance(event, FactHeldBack):
                continue  # written by a newer version
            text, near = texts.get(event.content), facts.get(event.near)
            if text is None or near is None or near.state != "rejected" or same_words(text) in seen:
                continue
            seen.add(same_words(text))
            found_facts.append(
                SuppressedFact(
                    FactDraft(
                        text,
                        category=event.category,
                        slot=event.slot,
                        origin="extracted",
                        sources=tuple((record.session_id, seq) for seq in expand(event.sources)),
                    ),
                    near=near,
                    similarity=event.similarity,
                    turn=record.turn,
                    at=record.at,
                    position=record.position,
                )
            )
        return found_facts

    def rewrites(self) -> list[Rewrite]:
        """Return all condensings, newest first, each with the facts that it kept, merged, lost and added."""
        with self._session.database.read() as connection:
            # Most blocks never condensed anything; for them no other event is read.
            if not self._events(connection, *CONDENSING):
                return []
            facts = {fact.id: fact for fact in read_facts(connection, self.scope, self.block, states=None)}
            records = self._events(connection, *REWRITE_KINDS)
            texts = read_texts(connection, self.scope, wordings(records))
        return find_rewrites(records, facts, texts.get)

    def review(self) -> Review:
        """Return the facts that wait for review, with the flags of all active and proposed ones."""
        with self._session.database.read() as connection:
            facts = read_facts(connection, self.scope, self.block, states=("active", "proposed"))
            records = self._events(connection, *WORDING)
            # A contradiction was found between the wordings of its time, so former wordings are needed too.
            reworded = {r.event.before for r in records if rewords_fact(r.event)}
            texts = read_texts(connection, self.scope, reworded)
            log = read_fact_log(connection, self.scope, self.block, {fact.id: fact for fact in facts})
            unwanted = read_unwanted(connection, self.scope, self.block)
        conflicts = open_contradictions(records, facts, log.changes(), texts.get)
        messages = {
            (session, m.seq): SupportingText(str(m.message.role), message_text(m.message))
            for session, m in self._messages(facts)
        }
        reviewed = log.looked_at()
        flags = find_flags(facts, conflicts=conflicts, messages=messages, looked_at=reviewed, unwanted=unwanted)
        waiting = [fact for fact in facts if fact.state == "proposed" or _to_review(fact, flags.get(fact.id, ()))]
        return Review(tuple(waiting), flags, tuple(facts))

    def sources(self, fact: Fact) -> tuple[SourceMessage, ...]:
        """Return the source messages of a fact, with the spans of matching words; erased messages are missing."""
        messages = []
        for session, stored in self._messages([fact]):
            text = message_text(stored.message)
            spans = source_spans(fact.text, text)
            messages.append(SourceMessage(session, stored.seq, stored.turn, str(stored.message.role), text, spans))
        return tuple(messages)

    def source_turns(self, facts: Sequence[Fact]) -> dict[tuple[str, int], int]:
        """Return the turn of each source message of the facts, by session and sequence number."""
        return {(session, m.seq): m.turn for session, m in self._messages(facts)}

    def refuse(self, rewrite: Rewrite) -> ChangeSet:
        """Return a change set that reverts a condensing: facts it superseded are restored, facts it made are retired.

        Raises:
            MessageError: no effect of the condensing is left to revert.
        """
        facts = {fact.id: fact for fact in self.facts()}
        back = [facts[line.id] for line in rewrite.put_away if line.id in facts]
        back = [fact for fact in back if fact.state == "superseded"]  # a person's later decision stays
        gone = [facts[line.id] for line in rewrite.made if line.id in facts and facts[line.id].state == "active"]
        changes = [*([restore(back)] if back else []), *([retire(gone)] if gone else [])]
        return together("refuse", *changes, reason="the rewrite was refused")

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _facts_block(self) -> FactExtractionMemoryBlock:
        block = self._session.block(self.block).block
        assert isinstance(block, FactExtractionMemoryBlock)
        return block

    def _messages(self, facts: Sequence[Fact]) -> list[tuple[str, StoredMessage]]:
        """Return session id and message of each source of the facts, also in the user's other sessions."""
        seqs: dict[str, set[int]] = {}
        for fact in facts:
            for session, seq in fact.sources:
                seqs.setdefault(session, set()).add(seq)
        cache = self._session.services.messages
        with self._session.database.read() as connection:
            return [
                (session, message)
                for session, wanted in seqs.items()
                for message in read_messages(connection, session, cache, seqs=sorted(wanted))
            ]

    def _events(self, connection: Connection, *kinds: str) -> list[EventRecord]:
        return read_scope_events(connection, self.scope, self.block, kinds)


def _to_review(fact: Fact, flags: Iterable[Flag]) -> bool:
    """Return whether one of the flags needs review; of two conflicting facts, only the newer is reviewed."""
    return any(flag.other is None or flag.other < fact.id for flag in flags)


# -- open contradictions between facts -------------------------------------------------------------


SETTLES = "keep_both"
"""The only change set that resolves a contradiction and leaves both facts as they are."""


def open_contradictions(
    records: Sequence[EventRecord],
    facts: Iterable[Fact],
    changes: Iterable[AppliedChangeSet],
    words: Callable[[str], str | None],
) -> dict[int, tuple[int, ...]]:
    """Return the older facts that each active fact contradicts, by fact id. `records` are of `WORDING`, in any order.

    `changes` are all change sets; `words` returns a text by its hash.
    """
    by_id = {fact.id: fact for fact in facts}
    # A pair that a person decided to keep is no open question, unless that decision was undone.
    settled = [set(change.ids("fact")) for change in changes if change.action == SETTLES and not change.undone]
    past = FactSlice()
    for record in sorted(records, key=lambda record: record.position):
        past.apply(record)
    result: dict[int, tuple[int, ...]] = {}
    for id, fact in past.by_id.items():
        if id not in by_id:
            continue
        # What an agent proposes instead of a fact waits until a person chooses, even if it is reworded or accepted
        # meanwhile: nothing else would take the old fact's place. Parts of a split have the origin of the whole.
        by_agent = fact.added.origin == "written" or fact.record.actor == "agent"
        waits = fact.added.state == "proposed" and by_agent
        others = tuple(
            other
            for other in fact.added.conflicts_with
            if other in by_id
            and other != id
            and not any({id, other} <= pair for pair in settled)
            and (waits or _stands(by_id[id], by_id[other], _then(past, (id, other), fact.record.position), words))
        )
        if others:
            result[id] = others
    return result


def _then(past: FactSlice, facts: Iterable[int], position: int) -> dict[int, str]:
    """Return the content hashes at a log position of facts that were reworded later."""
    reworded = [id for id in facts if past.reworded_after(id, position)]
    return {id: then.content for id in reworded if (then := past.words(id, position)) is not None}


def _stands(a: Fact, b: Fact, then: Mapping[int, str], words: Callable[[str], str | None]) -> bool:
    """Return whether two facts that contradicted each other still do in their current wording."""
    reworded = False
    for fact in (a, b):
        was = words(then[fact.id]) if fact.id in then else fact.text
        if was == fact.text:
            continue
        reworded = True
        slot = slot_in(was) if was is not None else None
        # A fact that now speaks about another subject contradicts nothing any more.
        if slot is not None and slot_in(fact.text) != slot:
            return False
    # Facts in their first wording still contradict each other; reworded ones are compared again, by rules.
    return not reworded or contradicts(a.text, b.text, same_slot=True)
