"""Change sets on a block's facts, within one writing transaction; see `memory_core.curation.change_sets`.

Change sets are planned in `memory_core.planning.curation`, and requested through
`memory_core.curation.fact_desk`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from sqlalchemy import Connection

from memory_core.curation.change_sets import ChangeSetTransaction
from memory_core.errors import ConfigError, ConflictError, MessageError
from memory_core.events import Curated, FactsCurated, Ranges, expand, ranges
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.models.offline.fact_extraction import slot_in, slots_of
from memory_core.planning.curation import (
    VALUES,
    ChangeSet,
    FactChange,
    FactDraft,
    FactPlan,
    FactValues,
    Step,
    changed_elsewhere,
    find_clash,
    for_review,
    put,
    quoted,
    settle,
    words_for,
)
from memory_core.planning.fact_merging import Fact, same_words
from memory_core.planning.statement_relation import Contradictions
from memory_core.store.block_rows import read_blocks
from memory_core.store.delivery_rows import still_there
from memory_core.store.erasing import erase_facts
from memory_core.store.fact_rows import (
    add_fact,
    add_support,
    confirm_fact,
    lock_row,
    read_authors,
    read_facts,
    read_former_confirmation,
    read_history,
    read_keyed,
    read_scope_events,
    remove_support,
    revise,
)
from memory_core.text import capitalised, shortened

Known = dict[int, Fact]
"""A block's facts by id, in every state."""
Written = tuple[list[tuple[int, int, int]], list[tuple[int, str, Ranges]]]
"""Versions of the changed facts, and sources gained or lost; see `FactsCurated`."""


def read_fact_log(connection: Connection, scope: str, block: str, known: Known) -> ChangeLog:
    """Return all change sets on a block's facts in one scope; `known` are all existing facts."""
    records = read_scope_events(connection, scope, block, (FactsCurated.kind,))
    # A block's scope can be changed, and its events then are about facts of either scope.
    whose = scope.partition(":")[0]
    return ChangeLog(
        [r for r in records if isinstance(r.event, FactsCurated) and r.event.scope == whose],
        versions={("fact", fact.id): fact.version for fact in known.values()},
        authors={(("fact", id), version): by for (id, version), by in read_authors(connection, scope, block).items()},
        name=lambda thing: f"The fact {quoted(known[thing[1]])}",
        tell=tell,
    )


def tell(event: Curated) -> str:
    """Describe a change set: `Pinned a fact.`"""
    added = sum(before == 0 for _, before, _ in event.rows)
    return f"{capitalised(words_for(event.action, changed=len(event.rows) - added, added=added))}."


def with_slot(new: FactDraft) -> FactDraft:
    """Return a new fact with its slot: people name none, so it is read by the rules."""
    named = new.origin != "written" or new.slot is not None or new.key is not None
    return new if named else replace(new, slot=slot_in(new.text))


def add_each(
    held: Iterable[Fact], added: Iterable[FactDraft], add: Callable[[FactDraft, tuple[int, ...]], int]
) -> list[int]:
    """Call `add` for each new fact, with the ids of the facts it contradicts, so that the contradiction shows.

    `held` are the block's facts before the change; `add` returns the new fact's id. All ids are returned.
    """
    present = [fact for fact in held if fact.state in ("active", "proposed")]
    news = [with_slot(new) for new in added]
    slots = slots_of(present, ((new.text, new.slot) for new in news))
    contradictions = Contradictions([*(fact.text for fact in present), *(new.text for new in news)])
    for fact in present:
        contradictions.put(fact.id, fact.text, slots[fact.id])
    ids: list[int] = []
    for place, new in enumerate(news, start=1):
        if new.state not in ("active", "proposed"):
            ids.append(add(new, ()))
            continue
        # Facts added together may contradict each other, too; they have negative numbers, as none has an id yet.
        conflicts = (id if id > 0 else ids[-1 - id] for id in contradictions.add(-place, new.text, new.slot))
        ids.append(add(new, tuple(dict.fromkeys((*new.instead_of, *conflicts)))))
    return ids


@dataclass(slots=True)
class FactChangeSetTransaction(ChangeSetTransaction[Known, FactPlan, Written]):
    count_tokens: Callable[[str], int]

    def apply(self, change: ChangeSet) -> AppliedChangeSet:
        """See `Curation.apply`."""
        present = self.read()
        plan = settle(change)
        for step in plan.changed:
            current = present.get(step.fact.id)
            if current is None or current.version != step.fact.version:
                raise changed_elsewhere(step.fact)
        clash = find_clash(plan, present.values())
        if clash is not None:
            raise MessageError(f"{clash.sentence} already, word for word. Merge the two instead?")
        change = self.allowed(change)
        plan = settle(change)
        waiting = {same_words(fact.text) for fact in present.values() if fact.state == "proposed"}
        for new in plan.added:
            if new.instead_of and same_words(new.text) in waiting:
                raise MessageError(f'"{shortened(new.text, 80)}" waits for a person already. Nothing was changed.')
        return self.store(present, plan, change.action, change.reason)

    def allowed(self, change: ChangeSet) -> ChangeSet:
        """Return the change set to store: under `approval`, facts that an agent adds or rewords wait for a person.

        This applies to an agent's tools as well as to adapters.
        """
        return for_review(change) if self.actor == "agent" and self._needs_approval() else change

    def _needs_approval(self) -> bool:
        blocks = read_blocks(self.w.connection, self.w.session.id)
        return any(block.name == self.block and block.settings.get("approval") for block in blocks)

    def put(self, kept: Mapping[str, FactDraft | None]) -> AppliedChangeSet | None:
        """See `Curation.put`."""
        existing = read_keyed(self.w.connection, self.scope, self.block, kept)
        steps: list[Step] = []
        for key, new in kept.items():
            fact = existing.get(key)
            if new is not None:
                step = put(key, new, fact)
                if fact is not None and settle(ChangeSet("put", (step,))).changed[0].same:
                    confirm_fact(self.w, fact, similarity=1.0, sources=(), actor=self.actor)
                else:
                    steps.append(step)
            elif fact is not None:
                steps.append(FactChange(fact, {"state": "retired"}))
        if not steps:
            return None
        # No other active fact has one of these keys, so nothing can clash: the rest of the block need not be read.
        return self.store({fact.id: fact for fact in existing.values()}, settle(ChangeSet("put", tuple(steps))), "put")

    def erase(self, facts: Sequence[Fact]) -> None:
        """See `Curation.erase`."""
        present = self.read()
        for fact in facts:
            if fact.id not in present:
                raise changed_elsewhere(fact)
            lock_row(self.w, fact)
        erase_facts(self.w, [present[id] for id in dict.fromkeys(fact.id for fact in facts)], actor=self.actor)

    # -- the hooks

    def read(self) -> Known:
        return {fact.id: fact for fact in read_facts(self.w.connection, self.scope, self.block, states=None)}

    def lock(self, plan: FactPlan) -> None:
        # A user's facts are changed from several sessions: the lock on one session's row does not protect them.
        for fact in (*(step.fact for step in plan.changed), *plan.removed):
            lock_row(self.w, fact)

    def write(self, held: Known, plan: FactPlan) -> Written:
        if self.actor == "agent":
            _check_approval(plan, self._needs_approval)
        added = self._add_all(held, plan.added)
        rows = [(id, 0, 1) for id in added]
        here = self.w.session.id
        # Sources in this session are stored by `add_fact`.
        given_sources = [
            (id, [s for s in new.sources if s[0] != here]) for id, new in zip(added, plan.added, strict=True)
        ]
        for step in plan.changed:
            fact = held[step.fact.id]
            version = fact.version if plan.undoes and step.same else self._change(step, added, plan.reason)
            if step.confirms or step.restores is not None:
                confirm_fact(self.w, fact, actor=self.actor, restores=step.restores)
            rows.append((fact.id, fact.version, version))
            # The event names new sources only, so that an undo removes no source that the fact had before.
            given_sources.append((fact.id, [source for source in step.sources if source not in fact.sources]))
            remove_support(self.w, fact.id, step.lost)
        for id, sources in given_sources:
            add_support(self.w, id, sources)
        if plan.removed:
            erase_facts(self.w, plan.removed, undone=True, actor=self.actor)
            rows += [(fact.id, fact.version, 0) for fact in plan.removed]
        lost = [(step.fact.id, step.lost) for step in plan.changed]
        return rows, [row for id, sources in (*given_sources, *lost) for row in self._by_session(id, sources)]

    def record(self, written: Written, action: str, reason: str, back: AppliedChangeSet | None) -> Curated:
        rows, support = written
        return FactsCurated(
            block=self.block,
            action=action,
            reason=reason,
            facts=tuple(rows),
            scope=self.scope.partition(":")[0],
            support=tuple(support),
            undoes=back.event.key if back and isinstance(back.event, FactsCurated) else None,
            again=back is not None and back.undone,
        )

    def log(self, held: Known) -> ChangeLog:
        return read_fact_log(self.w.connection, self.scope, self.block, held)

    def plan_back(self, held: Known, back: AppliedChangeSet) -> FactPlan:
        event, again = back.event, back.undone
        assert isinstance(event, FactsCurated)
        gained: dict[int, list[tuple[str, int]]] = {}
        for id, name, seqs in event.support:
            session = name or back.record.session_id
            # A redo must not add erased messages as sources.
            present = [s for s in expand(seqs) if not again or still_there(self.w.connection, session, [s])]
            gained.setdefault(id, []).extend((session, seq) for seq in present)
        stays = [(held[id], after if again else before) for id, before, after in event.facts]
        changed = tuple(self._then(fact, version, gained.get(fact.id, ()), again) for fact, version in stays if version)
        # A confirmation changes a date, which no version holds.
        if event.action == "confirm":
            changed = tuple(self._confirmed(step, again) for step in changed)
        plan = FactPlan(
            changed,
            removed=tuple(fact for fact, version in stays if not version),
            undoes=True,
        )
        clash = find_clash(plan, held.values())
        if clash is not None:
            raise ConflictError(f"{clash.sentence} by now, word for word. Nothing was undone.")
        return plan

    # -- inside

    def _confirmed(self, step: FactChange, again: bool) -> FactChange:
        """Return a change that also undoes the fact's confirmation, or makes it again (`again`)."""
        if again:
            return replace(step, confirms=True)
        former = read_former_confirmation(self.w.connection, self.scope, self.block, step.fact.id)
        return replace(step, restores=former)

    def _then(self, fact: Fact, version: int, sources: Iterable[tuple[str, int]], again: bool) -> FactChange:
        """Return a fact as it was in a version, without sources that the change set added; with them for a redo."""
        past = next(r for r in read_history(self.w.connection, self.scope, fact.id) if r.version == version)
        # A version without a category is of a schema in which the labels of a fact could not change.
        changed = VALUES if past.category is not None else VALUES - {"category", "topics"}
        values = cast(FactValues, {name: getattr(past, name) for name in changed})
        gained, lost = (tuple(sources), ()) if again else ((), tuple(sources))
        return FactChange(fact, values, sources=gained, lost=lost)

    def _by_session(self, id: int, sources: Iterable[tuple[str, int]]) -> list[tuple[int, str, Ranges]]:
        """Return sources in the form of the event; this session is unnamed, so that the event stays valid in a copy."""
        ids: dict[str, list[int]] = {}
        for session, seq in sources:
            ids.setdefault("" if session == self.w.session.id else session, []).append(seq)
        return [(id, session, ranges(seqs)) for session, seqs in ids.items()]

    def _add_all(self, held: Known, added: Sequence[FactDraft]) -> list[int]:
        """Store new facts, each marked with the facts it contradicts; return their ids."""

        def store(new: FactDraft, conflicts: tuple[int, ...]) -> int:
            tokens = self.count_tokens(new.text)
            return add_fact(self.w, self.scope, self.block, new, tokens, conflicts_with=conflicts, actor=self.actor)

        return add_each(held.values(), added, store)

    def _change(self, step: FactChange, added: Sequence[int], reason: str) -> int:
        # A negative number refers to a new fact by position: -1 is the first one.
        by = added[-1 - step.by] if step.by is not None and step.by < 0 else step.by
        return revise(self.w, step.fact, step.counted(self.count_tokens), by=by, reason=reason, actor=self.actor)


def _check_approval(plan: FactPlan, needs_approval: Callable[[], bool]) -> None:
    """Refuse changes that an agent may not make: to activate a proposed or rejected fact; and, under `approval`, to
    restore any other fact or an earlier text, unless the fact has a key and so belongs to a program.

    Raises:
        ConfigError: the plan of an agent makes such a change.
    """
    for step in plan.changed:
        before, after = step.fact, step.after
        if after.state != "active":
            continue
        if before.state in ("proposed", "rejected"):
            raise ConfigError(
                f'only a person accepts a fact that waits or was rejected: "{shortened(before.text, 60)}" stays '
                f"{before.state}"
            )
        # Otherwise what an agent proposed could be retired and restored, and nobody would have looked at it.
        brings_back = before.state != "active" or after.text != before.text
        if before.key is None and brings_back and needs_approval():
            raise ConfigError(f'a person must approve this: "{shortened(before.text, 60)}" stays as it is')
