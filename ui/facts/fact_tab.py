"""A facts block on the Facts page in one browser tab: where the tab is in it, and changes made with a click."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamlit as st

from memory_core import ConflictError, MemoryInspectorError
from memory_core.engine.next_prompt import NextPrompt
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.rewrites import Rewrite
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_rows import FactFilter, Picked, View
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts import effect, toasts
from ui.parts.components import noticed
from ui.parts.listing import BlockChoice
from ui.tab import state

# -- view, selection and unsaved edits of each block, also while another page is shown ------------


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


# -- changes, as `on_click` callbacks: one change set and one message for each --------------------


DONE = {
    "add": "Saved.",
    "edit": "Saved.",
    "supersede": "Kept one, retired the other.",
    "keep_both": "Kept both.",
    "ask": "The agent will ask.",
}
"""Messages on change sets that more than their verb describes."""


_APPLIED = "applied"
"""Key of the last change set applied in this tab."""

Plan = Callable[[], ChangeSet]
"""Function that makes a change set from the current fields; may raise an error that says why it cannot."""


def apply(desk: FactSnapshot, plan: Plan, *, quiet: bool = False) -> bool:
    """Apply one change set and announce its effect on the next prompt, with undo; return whether it was stored.

    `quiet` announces only the change, without its effect: for Review, where the next fact follows at once.
    """
    with noticed():
        store(desk, plan(), quiet=quiet)
        return True
    return False


def make(desk: FactSnapshot, plan: Plan, *, quiet: bool = False) -> None:
    """Apply one change set as the callback of a button; see `apply`."""
    apply(desk, plan, quiet=quiet)


def store(desk: FactSnapshot, change: ChangeSet, *, quiet: bool = False) -> None:
    """Apply one change set, leaving errors to the caller.

    Raises:
        MemoryInspectorError: the change cannot be made; nothing was changed.
    """
    # Two more prompts are planned to tell the effect: not for every fact of a long review.
    before = None if quiet else effect.next_prompt(desk.memory)
    try:
        applied = desk.curation.apply(change)
    except ConflictError:
        if remembered(desk.place, _APPLIED) == change:
            return  # a double click: the change set names versions, so an equal one is the same click
        raise
    keep(desk.place, _APPLIED, change)
    _follow(desk, applied.ids("fact"))
    done = DONE.get(change.action) or f"{plans.past_tense(change.action)}."
    done = _imported(desk, applied.ids("fact")) if change.action == "import" else done
    sentence = done if quiet else _with_effect(desk, done, before, applied.ids("fact"))
    toasts.done(sentence, undo=partial(_take_back, desk, applied.number))


def undo(desk: FactSnapshot, change: AppliedChangeSet) -> None:
    """Undo a change; redo one that was undone."""
    with noticed():
        before = effect.next_prompt(desk.memory)
        # An undo is a change, too: undoing that one does the first again.
        done = desk.curation.undo(change.undone_by or change.number)
        if done is not None:
            sentence = f"{'Undone' if done.undone else 'Redone'}: {done.words}."
            toasts.done(_with_effect(desk, sentence, before, done.ids("fact")))
    _untick(desk)


def listed(desk: FactSnapshot) -> list[AppliedChangeSet]:
    """All changes, newest first, each with the text of its first fact: `Edited a fact: Ana likes fado.`"""
    # Erased facts have no text here; their changes keep the plain sentence.
    texts = {fact.id: fact.text for fact in desk.curation.facts()}
    changes = desk.curation.changes()
    firsts = (next((texts[id] for id in change.ids("fact") if id in texts), None) for change in changes)
    return [
        change if first is None else replace(change, sentence=f"{change.sentence[:-1]}: {short(first, 60)}.")
        for change, first in zip(changes, firsts, strict=True)
    ]


def _imported(desk: FactSnapshot, facts: Sequence[int]) -> str:
    """Return the message on an import: `Imported 227 facts, 3 of them wait under Review.`"""
    # Counted after the import: whether a fact waits depends on all others, those of the same file included.
    waiting = len({fact.id for fact in desk.curation.review().facts}.intersection(facts))
    waits = f", {tokens(waiting)} of them {'wait' if waiting > 1 else 'waits'} under Review" if waiting else ""
    return f"Imported {count(len(facts), 'fact')}{waits}."


def _take_back(desk: FactSnapshot, number: int) -> None:
    desk.curation.undo(number)
    _untick(desk)


def _untick(desk: FactSnapshot) -> None:
    # Ticks may name facts that the undo took away; the open fact stays open.
    change(desk.place, picked=Picked(at(desk.place).picked.open))


def save_words(desk: FactSnapshot, fact: Fact, key: str) -> None:
    """Store the text typed into a fact's field. After a conflict, the text stays in the field."""
    text = str(st.session_state.get(key, ""))
    if apply(desk, lambda: plans.edit(fact, text)):
        # Only now: after a conflict the words stay in the field.
        keep_draft(desk.place, fact.id, None)


def label(desk: FactSnapshot, fact: Fact, category_key: str, topics_key: str) -> None:
    """Set a fact's category and topics from their fields."""
    # An emptied field keeps the category: a fact always has one.
    category = str(st.session_state.get(category_key) or fact.category).strip() or fact.category
    topics = [str(topic) for topic in st.session_state.get(topics_key) or ()]
    apply(desk, lambda: plans.label([fact], category, topics))


def put_away(desk: FactSnapshot, facts: Sequence[Fact], key: str, *, reject: bool = False) -> None:
    """Retire or reject facts for the reason just picked."""
    # Pills report None when the picked reason is clicked again: nothing was decided.
    reason = st.session_state.get(key)
    if reason:
        made = plans.reject if reject else plans.retire
        apply(desk, lambda: made(facts, str(reason).lower()))
        redraw(desk.place)


def refuse(desk: FactSnapshot, rewrite: Rewrite) -> None:
    """Undo a condensing of the list."""
    apply(desk, lambda: desk.curation.refuse(rewrite))


def erase(desk: FactSnapshot, facts: Sequence[Fact]) -> None:
    """Delete facts and their words."""
    try:
        before = effect.next_prompt(desk.memory)
        desk.curation.erase(facts)
        toasts.done(_with_effect(desk, "Deleted for good.", before, [fact.id for fact in facts]))
    except MemoryInspectorError as error:
        state.say("error", str(error))
    # Neither open nor ticked: the words are gone, and no panel can show them.
    change(desk.place, picked=Picked())


def _follow(desk: FactSnapshot, facts: Sequence[int]) -> None:
    """Clear the ticks, and base unsaved drafts of changed facts on their new versions."""
    # Unselecting redraws the list under new keys: only if there are ticks to clear.
    if at(desk.place).picked.ticked:
        unselect(desk.place)
    drafts = {id: draft for id in facts if (draft := at(desk.place).drafts.get(id)) is not None}
    for fact in desk.curation.facts() if drafts else ():
        # A pin, say, raises the version and not the text: the draft goes on without a false conflict.
        # Another text is a real conflict, and the panel asks.
        if fact.id in drafts and fact.text == drafts[fact.id].opened:
            keep_draft(desk.place, fact.id, replace(drafts[fact.id], version=fact.version))


def foreseen(desk: FactSnapshot, change: ChangeSet) -> str:
    """Describe the effect of a change on the next prompt.

    Raises:
        MemoryInspectorError: the change cannot be made.
    """
    return effect.effect_of(desk.memory, facts={desk.curation.block: desk.curation.after(change)})


def draw_effect(desk: FactSnapshot, plan: Plan, *, before: str = "") -> None:
    """Draw the effect of a change on the next prompt, or why the change is impossible."""
    try:
        preview = foreseen(desk, plan())
        # After a colon the sentence goes on in lower case; after a full stop it starts anew.
        preview = f"{before}{preview[:1].lower()}{preview[1:]}" if before.endswith(": ") else f"{before}{preview}"
    except MemoryInspectorError as error:
        preview = str(error)
    st.markdown(f":small[:gray[{plain(preview)}]]")


def _with_effect(desk: FactSnapshot, done: str, before: NextPrompt | None, facts: Sequence[int]) -> str:
    """Message on a change, with its effect on the next prompt."""
    after = effect.next_prompt(desk.memory)
    if before is None or after is None:
        return done
    return effect.describe(done, before.context, after.context, dict.fromkeys(facts))
