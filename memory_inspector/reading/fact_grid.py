"""Edit as table: turn the edits of a grid into one change set, and detect concurrent changes. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from memory_core.errors import MessageError
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet
from memory_core.planning.fact_merging import Fact

TEXT, PINNED = "Fact", "Pinned"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row whose fact was changed elsewhere after the table was opened."""

    row: int
    """Row number in the table, from 1."""
    theirs: Fact | None
    """The present fact; None if it was deleted."""


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits in the grid, by index in the snapshot."""

    edited: Mapping[int, Mapping[str, Any]]
    added: Sequence[Mapping[str, Any]]
    deleted: Sequence[int]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Edits":
        """Read the edits from the state of a data editor; ignore new rows left empty."""
        # The data editor adds a row as soon as somebody clicks below the last one.
        added = [row for row in state.get("added_rows", ()) if str(row.get(TEXT) or "").strip()]
        return cls(state.get("edited_rows", {}), added, state.get("deleted_rows", ()))

    @property
    def touched(self) -> set[int]:
        return {int(place) for place in self.edited} | set(self.deleted)

    def __len__(self) -> int:
        return len(self.touched) + len(self.added)


def plan_table(snapshot: Sequence[Fact], edits: Edits) -> ChangeSet:
    """All edits as one change set: changed texts and pins, deleted rows (retired) and new rows.

    Raises:
        MessageError: a fact was left without words, or nothing would change.
    """
    wished: list[ChangeSet] = []
    for place, values in sorted(edits.edited.items()):
        fact = snapshot[int(place)]
        # A row that was edited and then deleted is only deleted.
        if int(place) in edits.deleted:
            continue
        # An unchanged cell is missing from the edits, so the present value is the default.
        text = " ".join(str(values.get(TEXT, fact.text) or "").split())
        if text != fact.text:
            wished.append(_named(int(place), partial(plans.edit, fact, text)))
        pinned = bool(values.get(PINNED, fact.pinned))
        if pinned != fact.pinned:
            wished.append(plans.pin([fact], pinned))
    # One retirement for all deleted rows, so that they are one change.
    gone = [snapshot[place] for place in sorted(edits.deleted)]
    wished += [plans.retire(gone)] if gone else []
    wished += [plans.add(str(row[TEXT]), bool(row.get(PINNED))) for row in edits.added]
    return plans.together("edit", *wished)


def conflicts(snapshot: Sequence[Fact], now: Sequence[Fact], edits: Edits) -> list[Conflict]:
    """Edited rows whose facts were changed elsewhere after the table was opened."""
    current = {fact.id: fact for fact in now}
    conflicting = []
    for place in sorted(edits.touched):
        theirs = current.get(snapshot[place].id)
        # Gone or changed since: both would overwrite what somebody else did.
        if theirs is None or theirs.version != snapshot[place].version:
            conflicting.append(Conflict(place + 1, theirs))
    return conflicting


def over_theirs(snapshot: Sequence[Fact], now: Sequence[Fact]) -> tuple[Fact, ...]:
    """The snapshot with the present versions of its facts, for overwriting them deliberately."""
    current = {fact.id: fact for fact in now}
    return tuple(current.get(fact.id, fact) for fact in snapshot)


def _named(place: int, plan: Callable[[], ChangeSet]) -> ChangeSet:
    """Call `plan`; if it fails, name the row in the error."""
    try:
        return plan()
    except MessageError as error:
        raise MessageError(f"Row {place + 1}: {error}") from error
