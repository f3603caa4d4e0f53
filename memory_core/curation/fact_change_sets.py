"""Change sets on a block's facts, within one writing transaction; see `memory_core.curation.change_sets`.

Who may see or wish what is not here (`memory_core.curation.facts`), nor what a change set comes to
(`memory_core.planning.curation`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from memory_core.curation.change_sets import ChangeSetTransaction
from memory_core.errors import ConflictError, MessageError
from memory_core.events import Curated, FactsCurated, Ranges, expand, ranges
from memory_core.history.change_log import ChangeLog, LoggedSet
from memory_core.planning.curation import (
    After,
    ChangeSet,
    FactPlan,
    Given,
    New,
    changed_elsewhere,
    find_clash,
    quoted,
    settle,
    words_for,
)
from memory_core.planning.facts import Fact
from memory_core.store.deliveries import still_there
from memory_core.store.fact_erasing import erase_facts
from memory_core.store.facts import (
    NewFact,
    add_fact,
    add_support,
    lock_row,
    read_authors,
    read_facts,
    read_history,
    read_scope_events,
    remove_support,
    revise,
)

Known = dict[int, Fact]
"""A block's facts by id, in every state."""
Written = tuple[list[tuple[int, int, int]], list[tuple[int, str, Ranges]]]
"""Facts with their versions, and sources that they gained or lost; see `FactsCurated`."""


def read_fact_log(connection: Connection, scope: str, block: str, known: Known) -> ChangeLog:
    """All change sets of a block's facts in one scope; `known` are all facts that exist."""
    records = read_scope_events(connection, scope, block, (FactsCurated.kind,))
    whose = scope.partition(":")[0]
    return ChangeLog(
        [r for r in records if isinstance(r.event, FactsCurated) and r.event.scope == whose],
        versions={("fact", fact.id): fact.version for fact in known.values()},
        authors={(("fact", id), version): by for (id, version), by in read_authors(connection, scope, block).items()},
        name=lambda thing: f"The fact {quoted(known[thing[1]])}",
        tell=tell,
    )


def tell(event: Curated) -> str:
    """What a change set did: `Pinned a fact.`"""
    added = sum(before == 0 for _, before, _ in event.rows)
    words = words_for(event.action, changed=len(event.rows) - added, added=added)
    return f"{words[:1].upper()}{words[1:]}."


@dataclass(slots=True)
class FactChangeSetTransaction(ChangeSetTransaction[Known, FactPlan, Written]):
    """One transaction on the facts of a block."""

    count_tokens: Callable[[str], int]

    def apply(self, change: ChangeSet) -> LoggedSet:
        """See `Curation.apply`."""
        known = self.read()
        plan = settle(change)
        for after in plan.changed:
            current = known.get(after.before.id)
            if current is None or current.version != after.before.version:
                raise changed_elsewhere(after.before)
        clash = find_clash(plan, known.values())
        if clash is not None:
            raise MessageError(f'Another fact says "{clash}" already, word for word. Merge the two instead?')
        return self.store(known, plan, change.action, change.reason)

    def erase(self, facts: Sequence[Fact]) -> None:
        """See `Curation.erase`."""
        known = self.read()
        for fact in facts:
            if fact.id not in known:
                raise changed_elsewhere(fact)
            lock_row(self.w, fact)
        erase_facts(self.w, [known[id] for id in dict.fromkeys(fact.id for fact in facts)], actor=self.actor)

    # -- the hooks

    def read(self) -> Known:
        return {fact.id: fact for fact in read_facts(self.w.connection, self.scope, self.block, states=None)}

    def lock(self, plan: FactPlan) -> None:
        # A user's facts are changed from several sessions: the session's row does not guard them.
        for fact in (*(after.before for after in plan.changed), *plan.kept, *plan.removed):
            lock_row(self.w, fact)

    def write(self, held: Known, plan: FactPlan) -> Written:
        added = [self._add(new) for new in plan.added]
        rows = [(id, 0, 1) for id in added]
        here = self.w.session.id
        given = [(id, tuple(s for s in new.sources if s[0] != here)) for id, new in zip(added, plan.added, strict=True)]
        for after in plan.changed:
            fact = held[after.before.id]
            rows.append((fact.id, fact.version, self._change(after, added, plan.reason)))
            given.append((fact.id, tuple(source for source in after.sources if source not in fact.sources)))
        rows += [(fact.id, fact.version, fact.version) for fact in plan.kept]
        given += plan.given
        for id, sources in given:
            add_support(self.w, id, sources)
        for id, sources in plan.taken:
            remove_support(self.w, id, sources)
        if plan.removed:
            erase_facts(self.w, plan.removed, undone=True, actor=self.actor)
            rows += [(fact.id, fact.version, 0) for fact in plan.removed]
        return rows, [row for each in (*given, *plan.taken) for row in self._by_session(each)]

    def record(self, written: Written, action: str, reason: str, undone: Curated | None, *, again: bool) -> Curated:
        rows, support = written
        return FactsCurated(
            block=self.block,
            action=action,
            reason=reason,
            facts=tuple(rows),
            scope=self.scope.partition(":")[0],
            support=tuple(support),
            undoes=undone.key if isinstance(undone, FactsCurated) else None,
            again=again,
        )

    def log(self, held: Known) -> ChangeLog:
        return read_fact_log(self.w.connection, self.scope, self.block, held)

    def plan_back(self, held: Known, chosen: LoggedSet, *, again: bool) -> FactPlan:
        event = chosen.event
        assert isinstance(event, FactsCurated)
        changed: list[After] = []
        kept: list[Fact] = []
        removed: list[Fact] = []
        for id, before, after in event.facts:
            fact, version = held[id], after if again else before
            then = self._then(fact, version) if version else None
            if then is not None:
                changed.append(then)
            else:
                (kept if version else removed).append(fact)
        plan = FactPlan(tuple(changed), removed=tuple(removed), kept=tuple(kept))
        support = self._support(chosen.record.session_id, event, forgotten=not again)
        plan = replace(plan, given=support) if again else replace(plan, taken=support)
        clash = find_clash(plan, held.values())
        if clash is not None:
            raise ConflictError(f'Another fact says "{clash}" by now, word for word. Nothing was undone.')
        return plan

    # -- inside

    def _then(self, fact: Fact, version: int) -> After | None:
        """How a fact was in an earlier version; None where it is so now."""
        past = next(r for r in read_history(self.w.connection, self.scope, fact.id) if r.version == version)
        category, topics = (fact.category, fact.topics) if past.category is None else (past.category, past.topics)
        then = (past.text, past.state, past.pinned, category, topics)
        if then == (fact.text, fact.state, fact.pinned, fact.category, fact.topics):
            return None
        return After(fact, past.text, past.state, past.pinned, category=category, topics=topics)

    def _support(self, session_id: str, event: FactsCurated, *, forgotten: bool) -> tuple[Given, ...]:
        """The sources that facts gained by a change set; `forgotten`: those with messages that are gone too."""
        found = []
        for id, name, seqs in event.support:
            session = name or session_id
            there = [s for s in expand(seqs) if forgotten or still_there(self.w.connection, session, [s])]
            found.append((id, tuple((session, seq) for seq in there)))
        return tuple(found)

    def _by_session(self, given: Given) -> list[tuple[int, str, Ranges]]:
        """As the event has it: this session goes by no name, so that a copy of it tells the same."""
        id, sources = given
        found: dict[str, list[int]] = {}
        for session, seq in sources:
            found.setdefault("" if session == self.w.session.id else session, []).append(seq)
        return [(id, session, ranges(seqs)) for session, seqs in found.items()]

    def _add(self, new: New) -> int:
        values = NewFact(
            text=new.text,
            tokens=self.count_tokens(new.text),
            category=new.category,
            slot=new.slot,
            sources=tuple(seq for session, seq in new.sources if session == self.w.session.id),
            pinned=new.pinned,
            origin=new.origin,
            state=new.state,
            topics=new.topics,
        )
        return add_fact(self.w, self.scope, self.block, values, actor=self.actor)

    def _change(self, after: After, added: Sequence[int], reason: str) -> int:
        fact = after.before
        return revise(
            self.w,
            fact,
            text=after.text,
            tokens=fact.tokens if after.text == fact.text else self.count_tokens(after.text),
            state=after.state,
            by=added[-1 - after.by] if after.by is not None and after.by < 0 else after.by,
            pinned=after.pinned,
            category=after.category,
            topics=after.topics,
            reason=reason,
            actor=self.actor,
        )
