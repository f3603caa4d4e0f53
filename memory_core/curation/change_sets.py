"""Change sets on a block's contents: applied and undone in one writing transaction, all or nothing.

The hooks of `ChangeSetTransaction` hold what differs between facts and graphs; `memory_core.history.change_log` alone
decides what can be undone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

from memory_core.engine.context import Context
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.events import Actor, Curated, EventRecord
from memory_core.formats.notebooks import repr_html
from memory_core.history.change_log import AppliedChangeSet, ChangeLog
from memory_core.store.log_rows import last_position
from memory_core.store.writing import Writing

Held = TypeVar("Held")
"""All contents of the block."""
Plan = TypeVar("Plan")
"""Planned result of a change set."""
Written = TypeVar("Written")
"""Stored result of a plan, for the event."""


@dataclass(slots=True)
class ChangeSetTransaction(ABC, Generic[Held, Plan, Written]):
    """Transaction on a block's contents."""

    w: Writing
    scope: str
    block: str
    actor: Actor

    # -- the four hooks

    @abstractmethod
    def read(self) -> Held:
        """Read the block's contents within this transaction."""

    @abstractmethod
    def lock(self, plan: Plan) -> None:
        """Lock the changed items until the transaction ends, and check that they are as they were read.

        Raises:
            ConflictError: an item was changed elsewhere since it was read.
        """

    @abstractmethod
    def write(self, held: Held, plan: Plan) -> Written:
        """Store the plan, with the events of its single changes."""

    @abstractmethod
    def record(self, written: Written, action: str, reason: str, back: AppliedChangeSet | None) -> Curated:
        """Build the event of the change set; `back`: the change set being undone, or redone if already undone."""

    # -- for undo

    @abstractmethod
    def log(self, held: Held) -> ChangeLog:
        """Return all change sets of the block."""

    @abstractmethod
    def plan_back(self, held: Held, back: AppliedChangeSet) -> Plan:
        """Plan to undo a change set, or to redo it if it was undone before; `back` has passed the checks of the log.

        Raises:
            ConflictError: the result would have duplicates, or refer to something deleted.
        """

    # -- built on the hooks

    def store(
        self, held: Held, plan: Plan, action: str, reason: str = "", back: AppliedChangeSet | None = None
    ) -> AppliedChangeSet:
        """Store a plan made from `held` as one change set.

        Raises:
            ConflictError: something was changed elsewhere since it was read.
        """
        # 1. Lock before the first write: after a conflict, nothing has to be rolled back.
        self.lock(plan)
        # 2. Record the single changes before the change set, which names the versions they made.
        event = self.record(self.write(held, plan), action, reason, back)
        self.w.record(event, actor=self.actor)
        # 3. Write now: the position in the log identifies the change set.
        self.w.save()
        position = last_position(self.w.connection, self.w.session.id)
        session = self.w.session
        at, actor, person = self.w.now, self.actor, self.w.person
        return AppliedChangeSet(EventRecord(position, session.id, session.turns, at, actor, event, person), event)

    def undo(self, number: int | None = None) -> AppliedChangeSet | None:
        """Undo a change set, or redo it if `number` is that of its undo; return it in its new state.

        `number` None: the newest that can be undone; returns None if there is none.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: something in it was changed or deleted since, or it was undone already.
        """
        # 1. Read contents and log in this transaction: present versions decide what can be undone. Should they change
        #    before the rows are locked, `store` raises.
        held = self.read()
        # 2. Describe the change set before undoing it: its sentence may quote words that the undo erases.
        back = self.log(held).undoable(number)
        if back is None:
            return None
        # 3. The undo is a change set with a number of its own, so it can be undone in turn.
        done = self.store(held, self.plan_back(held, back), back.action, back=back)
        return replace(back, undone_by=None if back.undone else done.number)


Transaction = TypeVar("Transaction", bound=ChangeSetTransaction[Any, Any, Any])


@dataclass(frozen=True, slots=True)
class Change(AppliedChangeSet):
    """A change set that was just applied; or, with `preview=True`, one that was tried and not stored."""

    prompt: Context | None = None
    """Next prompt with the change, if this is a preview; None if the change is stored."""

    _repr_html_ = repr_html

    def __str__(self) -> str:
        return self.sentence if self.prompt is None else f"Preview: {self.sentence}\n{self.prompt}"


class OnlyTriedError(Exception):
    """Raised to roll back the transaction of a preview."""


class ChangeSetDesk(ABC, Generic[Transaction]):
    """Base of the desks: changes to one block, with undo.

    Every change is one change set, applied and undone in one transaction. Each raises `ConflictError` if something was
    changed elsewhere since it was read, and `MessageError` if the change is impossible; nothing is changed then.
    """

    def __init__(self, session: Session, block: str) -> None:
        self._session = session
        self.block = block
        """Name of the block."""

    @property
    def scope(self) -> str:
        """Scope of the block's contents in the database."""
        return scope_key(self._session, self._session.block(self.block))

    def changes(self, limit: int | None = None) -> list[AppliedChangeSet]:
        """Return the change sets, newest first, each with its effect, and the reason if it cannot be undone."""
        with self._session.database.read() as connection:
            return self._log(connection).changes()[:limit]

    def undo(self, number: int | None = None, *, actor: Actor = "user") -> AppliedChangeSet | None:
        """Undo a change set (`number` None: the newest by a person that can be undone); return it, or None without one.

        Items that it added are deleted with their words, and the others restored. With the number of an undo
        (`AppliedChangeSet.undone_by`) the undone change set is redone.

        Raises:
            NotFoundError: there is no change set of that number.
            ConflictError: something in it was changed or deleted since, or it was undone already; nothing was changed.
        """
        with self._changing(actor) as transaction:
            change = transaction.undo(number)
        self._session.database.forget_log()
        return change

    @contextmanager
    def _changing(self, actor: Actor, *, preview: bool = False) -> Iterator[Transaction]:
        """Open a transaction on the block's contents; a preview stores nothing."""
        with suppress(OnlyTriedError), self._session.writing() as w:
            self._session.refresh(w)
            yield self._transaction(w, actor)
            # Raised after everything was written: a preview fails where the change would, and is rolled back.
            if preview:
                raise OnlyTriedError

    @abstractmethod
    def _transaction(self, w: Writing, actor: Actor) -> Transaction: ...

    @abstractmethod
    def _log(self, connection: Connection) -> ChangeLog: ...
