"""Change sets on a block's facts, within one writing transaction: applied, undone, erased.

Who may see or wish what is not here (`memory_core.curation.facts`), nor what a change set comes to
(`memory_core.planning.curation`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from memory_core.errors import MessageError
from memory_core.events import Actor, CondensingRefused, FactsCurated, Ranges, expand, ranges
from memory_core.history.fact_change_log import Change, ChangeLog, Undoable, key_of
from memory_core.planning.curation import After, ChangeSet, New, changed_elsewhere, find_clash, settle
from memory_core.planning.facts import Fact
from memory_core.store.fact_erasing import erase_facts
from memory_core.store.facts import (
    NewFact,
    add_fact,
    add_support,
    hold_fact,
    read_facts,
    read_history,
    read_scope_events,
    remove_support,
    revise,
)
from memory_core.store.log import last_position
from memory_core.store.writing import Writing

Versions = tuple[int, int, int]
"""A fact, its version before and its version after; see `FactsCurated`."""
Support = tuple[int, str, Ranges]
"""A fact and messages of a session that it gained as sources; see `FactsCurated`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a change set."""

    position: int
    """Of its event in the log."""
    facts: tuple[int, ...]
    """Ids of the facts that were there before and were changed."""
    added: tuple[int, ...]
    """Ids of the new ones, in order."""


def read_change_log(connection: Connection, scope: str, block: str, facts: Iterable[Fact]) -> ChangeLog:
    """All change sets of a block's facts in one scope; `facts` are all that exist."""
    records = read_scope_events(connection, scope, block, (FactsCurated.kind,))
    whose = scope.partition(":")[0]
    own = [r for r in records if isinstance(r.event, FactsCurated) and r.event.scope == whose]
    return ChangeLog(own, {fact.id for fact in facts})


@dataclass(frozen=True, slots=True)
class FactChangeSetTransaction:
    """One transaction on the facts of a block."""

    w: Writing
    scope: str
    block: str
    count_tokens: Callable[[str], int]
    actor: Actor

    def apply(self, change: ChangeSet, *, max_facts: int) -> Applied:
        """See `Curation.apply`."""
        settled = settle(change)
        known = self._known()
        for after in settled.changed:
            current = known.get(after.before.id)
            if current is None or current.version != after.before.version:
                raise changed_elsewhere(after.before)
        clash = find_clash(settled, known.values())
        if clash is not None:
            raise MessageError(f'Another fact says "{clash}" already, word for word. Merge the two instead?')
        versions: list[Versions] = []
        support: list[Support] = []
        added: list[int] = []
        for new in settled.added:
            added.append(self._add(new, support))
            versions.append((added[-1], 0, 1))
        for after in settled.changed:
            versions.append(self._change(after, known[after.before.id], added, change.reason, support))
        if change.action == "refuse":
            self._note_refusal(max_facts)
        position = self._record(change.action, change.reason, versions, support)
        return Applied(position, tuple(after.before.id for after in settled.changed), tuple(added))

    def undo(self) -> Change | None:
        """See `Curation.undo`."""
        facts = self._known()
        log = read_change_log(self.w.connection, self.scope, self.block, facts.values())
        undoable = log.undoable()
        if undoable is None:
            return None
        log.check(undoable.event, facts)
        event = undoable.event
        versions = [self._revert(facts[id], before) for id, before, _ in event.facts]
        support = self._take_support(undoable)
        self._record(event.action, "", versions, support, undoes=key_of(event))
        return replace(undoable.change, undone=True)

    def erase(self, facts: Sequence[Fact]) -> None:
        """See `Curation.erase`."""
        known = self._known()
        for fact in facts:
            if fact.id not in known:
                raise changed_elsewhere(fact)
            hold_fact(self.w, fact)
        erase_facts(self.w, [known[id] for id in dict.fromkeys(fact.id for fact in facts)], actor=self.actor)

    def _known(self) -> dict[int, Fact]:
        return {fact.id: fact for fact in read_facts(self.w.connection, self.scope, self.block, states=None)}

    def _add(self, new: New, support: list[Support]) -> int:
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
        id = add_fact(self.w, self.scope, self.block, values, actor=self.actor)
        support += self._give_support(id, [source for source in new.sources if source[0] != self.w.session.id])
        return id

    def _change(self, after: After, fact: Fact, added: Sequence[int], reason: str, support: list[Support]) -> Versions:
        version = revise(
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
        support += self._give_support(fact.id, [source for source in after.sources if source not in fact.sources])
        return fact.id, fact.version, version

    def _give_support(self, fact: int, sources: Sequence[tuple[str, int]]) -> list[Support]:
        add_support(self.w, fact, sources)
        by_session: dict[str, list[int]] = {}
        for session, seq in sources:
            by_session.setdefault(self._known_as(session), []).append(seq)
        return [(fact, session, ranges(seqs)) for session, seqs in by_session.items()]

    def _take_support(self, undoable: Undoable) -> list[Support]:
        taken: list[Support] = []
        for id, session, seqs in undoable.event.support:
            session = session or undoable.session_id
            remove_support(self.w, id, session, expand(seqs))
            taken.append((id, self._known_as(session), seqs))
        return taken

    def _known_as(self, session: str) -> str:
        """How this session's log names a session: itself by nothing, so that a copy of it tells the same."""
        return "" if session == self.w.session.id else session

    def _revert(self, fact: Fact, before: int) -> Versions:
        hold_fact(self.w, fact)
        if before == 0:
            erase_facts(self.w, [fact], undone=True, actor=self.actor)
            return fact.id, fact.version, 0
        past = next(r for r in read_history(self.w.connection, self.scope, fact.id) if r.version == before)
        category, topics = (fact.category, fact.topics) if past.category is None else (past.category, past.topics)
        then = (past.text, past.state, past.pinned, category, topics)
        if then == (fact.text, fact.state, fact.pinned, fact.category, fact.topics):
            return fact.id, fact.version, fact.version
        version = revise(
            self.w,
            fact,
            text=past.text,
            tokens=self.count_tokens(past.text),
            state=past.state,
            pinned=past.pinned,
            category=category,
            topics=topics,
            actor=self.actor,
        )
        return fact.id, fact.version, version

    def _note_refusal(self, max_facts: int) -> None:
        """As after a condensing that the engine refused, the list is left alone until it has grown."""
        facts = len(read_facts(self.w.connection, self.scope, self.block))
        refused = CondensingRefused(
            block=self.block, extractor="", facts=facts, max_facts=max_facts, reason="a person refused the rewrite"
        )
        self.w.record(refused, actor=self.actor)

    def _record(
        self,
        action: str,
        reason: str,
        versions: Sequence[Versions],
        support: Sequence[Support],
        undoes: tuple[int, int] | None = None,
    ) -> int:
        """Write the change set's event as the last of its transaction; its position."""
        event = FactsCurated(
            block=self.block,
            action=action,
            reason=reason,
            facts=tuple(versions),
            scope=self.scope.partition(":")[0],
            support=tuple(support),
            undoes=undoes,
        )
        self.w.record(event, actor=self.actor)
        self.w.save()
        return last_position(self.w.connection, self.w.session.id)
