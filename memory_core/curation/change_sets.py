"""Change sets on what a block holds, within one writing transaction: applied and undone, whole or not at all.

What facts and graphs do in their own ways are the hooks of `ChangeSetTransaction`; what can be undone is decided by
`memory_core.history.change_log` alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.events import Actor, Curated, EventRecord
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.store.log import last_position
from memory_core.store.writing import Writing

Held = TypeVar("Held")
"""All that the block holds."""
Plan = TypeVar("Plan")
"""What a change set comes to."""
Written = TypeVar("Written")
"""What was stored of a plan, for the event."""


@dataclass(slots=True)
class ChangeSetTransaction(ABC, Generic[Held, Plan, Written]):
    """One transaction on what a block holds."""

    w: Writing
    scope: str
    block: str
    actor: Actor

    # -- the four hooks

    @abstractmethod
    def read(self) -> Held:
        """What the block holds, as this transaction sees it."""

    @abstractmethod
    def lock(self, plan: Plan) -> None:
        """Make sure that what is to be changed is as it was read, and stays so until the transaction ends.

        Raises:
            ConflictError: it was changed elsewhere.
        """

    @abstractmethod
    def write(self, held: Held, plan: Plan) -> Written:
        """Store the plan, with the events of the single changes."""

    @abstractmethod
    def record(self, written: Written, action: str, reason: str, back: AppliedChangeSet | None) -> Curated:
        """The event of the change set; `back` is the one that it undoes or, where that is undone, does again."""

    # -- what undo asks besides

    @abstractmethod
    def log(self, held: Held) -> ChangeLog:
        """All change sets of the block."""

    @abstractmethod
    def plan_back(self, held: Held, back: AppliedChangeSet) -> Plan:
        """What undoing a change set comes to or, where it is undone, doing it again; its things stand so that it can.

        Raises:
            ConflictError: it would leave two things that say the same, or one that names what is gone.
        """

    # -- what they make

    def store(
        self, held: Held, plan: Plan, action: str, reason: str = "", back: AppliedChangeSet | None = None
    ) -> AppliedChangeSet:
        """Store a plan that was made of `held`, as one change set.

        Raises:
            ConflictError: something was changed elsewhere since it was read.
        """
        # 1. Lock before the first write: where another was faster, nothing is to be rolled back.
        self.lock(plan)
        # 2. The single changes stand in the log before the change set, which names the versions they made.
        event = self.record(self.write(held, plan), action, reason, back)
        self.w.record(event, actor=self.actor)
        # 3. Its position is what it goes by.
        self.w.save()
        position = last_position(self.w.connection, self.w.session.id)
        session = self.w.session
        return AppliedChangeSet(EventRecord(position, session.id, session.turns, self.w.now, self.actor, event), event)

    def undo(self, number: int | None = None) -> AppliedChangeSet | None:
        """Take back a change set or, where `number` is that of an undo, do again what it undid; how that then stands.

        None: the newest that can be; None if there is none.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: something of it was changed or deleted since, or it was undone already.
        """
        held = self.read()
        back = self.log(held).undoable(number)  # told with the words that the undo may take away
        if back is None:
            return None
        done = self.store(held, self.plan_back(held, back), back.action, back=back)
        return replace(back, undone_by=None if back.undone else done.number)


Transaction = TypeVar("Transaction", bound=ChangeSetTransaction[Any, Any, Any])


class ChangeSetDesk(ABC, Generic[Transaction]):
    """One block under a person's hands.

    Every change is one change set: done at once or not at all, and undone at once. Each raises `ConflictError` where
    something was changed elsewhere since it was read, and `MessageError` where the wish is impossible; nothing is
    changed then.
    """

    def __init__(self, session: Session, block: str) -> None:
        self._session = session
        self.block = block
        """The block's name."""

    @property
    def scope(self) -> str:
        """Whose it is, as the database names it."""
        return scope_key(self._session, self._session.block(self.block))

    def changes(self, limit: int | None = None) -> list[AppliedChangeSet]:
        """Change sets, newest first, each with what it did, and why it cannot be undone."""
        with self._session.database.read() as connection:
            return self._log(connection).changes()[:limit]

    def undo(self, number: int | None = None, *, actor: Actor = "curator") -> AppliedChangeSet | None:
        """Take back a change set (None: the newest of a person that can be), and say which; None: there is none.

        What it added is taken away with its words; the rest stands again as before it. The number of an undo
        (`AppliedChangeSet.undone_by`) does again what that undid.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: something of it was changed or deleted since, or it was undone already; nothing was changed.
        """
        with self._changing(actor) as transaction:
            change = transaction.undo(number)
        self._session.database.forget_log()
        return change

    @contextmanager
    def _changing(self, actor: Actor) -> Iterator[Transaction]:
        with self._session.writing() as w:
            self._session.refresh(w)
            yield self._transaction(w, actor)

    @abstractmethod
    def _transaction(self, w: Writing, actor: Actor) -> Transaction: ...

    @abstractmethod
    def _log(self, connection: Connection) -> ChangeLog: ...
