"""State of the Facts page in one browser tab: view, selection, unsaved edits.

Kept for each block of each session, also while another page is shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_inspector.reading.fact_rows import FactFilter, Picked, View
from ui.parts.listing import BlockChoice
from ui.tab import state

ListPosition = tuple[str, str]
"""Session id and name of one of its facts blocks."""


@dataclass(frozen=True, slots=True)
class UnsavedWords:
    """An unsaved edit, with the version and text it started from."""

    version: int
    opened: str
    text: str

    @property
    def changed(self) -> bool:
        return self.text != self.opened


@dataclass(frozen=True, slots=True)
class FactPageState:
    """State of the page for one block."""

    view: View = "active"
    wanted: FactFilter = field(default_factory=FactFilter)
    order: str = "newest"
    picked: Picked = field(default_factory=Picked)
    drafts: Mapping[int, UnsavedWords] = field(default_factory=dict)
    """Unsaved edits by fact id."""
    skipped: tuple[int, ...] = ()
    """Ids of the facts skipped in Review, in order."""
    asks: tuple[str, int] | None = None
    """Question shown in Review: `edit`, `merge` or `reject`, and the id of its fact."""
    generation: int = 0
    """Counter in the widget keys; increasing it redraws the widgets with the stored values."""
    remembered: Mapping[str, Any] = field(default_factory=dict)
    """Values that dialogs keep for their next run, by name."""


_PAGES = state.ByPlace("facts", FactPageState())
at, change = _PAGES.at, _PAGES.change
link = state.PageLink("facts_link", "fact")
"""URL parameter with the id of the open fact."""
blocks = BlockChoice("facts", width=150)


def unselect(place: ListPosition) -> None:
    """Clear the ticks, and redraw the list."""
    change(place, picked=Picked(at(place).picked.open))
    redraw(place)


def keep_draft(place: ListPosition, fact: int, written: UnsavedWords | None) -> None:
    """Store the unsaved edit of a fact, or remove it (None)."""
    # A new mapping every time: the state is frozen, and another run may hold the old one.
    drafts = {key: value for key, value in at(place).drafts.items() if key != fact}
    change(place, drafts=drafts | ({fact: written} if written is not None else {}))


def skip(place: ListPosition, fact: int) -> None:
    # Skipped again, a fact goes to the end of the queue.
    change(place, skipped=(*(id for id in at(place).skipped if id != fact), fact))


def ask(place: ListPosition, what: str | None, fact: int = 0) -> None:
    change(place, asks=None if what is None else (what, fact))


def key(place: ListPosition, name: str) -> str:
    """Widget key of one block of one session; the generation in it changes when its fields start anew."""
    return f"{_PAGES.key(place, name)}_{at(place).generation}"


def redraw(place: ListPosition) -> None:
    change(place, generation=at(place).generation + 1)


def remembered(place: ListPosition, name: str) -> Any:
    """Value that a dialog kept; None if there is none."""
    return at(place).remembered.get(name)


def keep(place: ListPosition, name: str, value: Any) -> None:
    change(place, remembered={**at(place).remembered, name: value})
