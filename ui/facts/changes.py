"""The writes of the Facts page, for `on_click`: one change set, one call, one sentence about what it did."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from memory_core import ConflictError, MemoryInspectorError
from memory_core.context import Context
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet
from memory_core.planning.facts import Fact
from ui import state
from ui.facts import effects, tab
from ui.facts.desk import Picked
from ui.facts.reading import Desk

DONE = {
    "add": "Saved.",
    "edit": "Saved.",
    "merge": "Merged.",
    "split": "Split.",
    "pin": "Pinned.",
    "unpin": "Unpinned.",
    "retire": "Retired.",
    "restore": "Restored.",
    "reject": "Rejected.",
    "accept": "Accepted.",
    "supersede": "Replaced.",
    "allow": "Allowed.",
    "import": "Imported.",
    "refuse": "Refused.",
    "label": "Labelled.",
}


Plan = Callable[[], ChangeSet]
"""Makes a change set of what the fields hold by then; it may say why it cannot."""


def apply(desk: Desk, plan: Plan, *, quiet: bool = False) -> bool:
    """Store one change set, and say what the next prompt makes of it. Was it stored?

    `quiet`: nothing is said, for Review, where the next fact is the answer.
    """
    try:
        store(desk, plan(), quiet=quiet)
    except ConflictError as error:
        state.say("warning", str(error))
    except MemoryInspectorError as error:
        state.say("error", str(error))
    else:
        return True
    return False


def store(desk: Desk, change: ChangeSet, *, quiet: bool = False) -> None:
    """The same for who says the errors himself.

    Raises:
        MemoryInspectorError: it cannot be done; nothing was changed.
    """
    before = None if quiet else next_prompt(desk)
    applied = desk.curation.apply(change)
    _follow(desk, applied.facts)
    if not quiet:
        _tell(desk, change.action, before, (*applied.facts, *applied.added))


def undo(desk: Desk) -> None:
    """Take the newest change back; again for the one before it."""
    try:
        before = next_prompt(desk)
        undone = desk.curation.undo()
        if undone is not None:
            _tell(desk, f"Undone: {undone.words}.", before, undone.facts)
    except MemoryInspectorError as error:
        state.say("warning" if isinstance(error, ConflictError) else "error", str(error))
    tab.pick(desk.place, Picked(tab.picked(desk.place).open))


def save_words(desk: Desk, fact: Fact, key: str) -> None:
    """Store the words in a fact's field. They are kept in it when somebody else was faster."""
    text = str(st.session_state.get(key, ""))
    if apply(desk, lambda: plans.edit(fact, text)):
        tab.keep_draft(desk.place, fact.id, None)


def label(desk: Desk, fact: Fact, category_key: str, topics_key: str) -> None:
    """Put a fact under the category and topics that are chosen."""
    category = str(st.session_state.get(category_key) or fact.category).strip() or fact.category
    topics = [str(topic) for topic in st.session_state.get(topics_key) or ()]
    apply(desk, lambda: plans.label([fact], category, topics))


def pin(desk: Desk, facts: Sequence[Fact], pinned: bool) -> None:
    apply(desk, lambda: plans.pin(facts, pinned))


def put_away(desk: Desk, facts: Sequence[Fact], key: str, *, reject: bool = False) -> None:
    """Retire or reject facts for the reason that was just picked."""
    reason = st.session_state.get(key)
    if reason:
        made = plans.reject if reject else plans.retire
        apply(desk, lambda: made(facts, str(reason).lower()))
        tab.redraw(desk.place)


def restore(desk: Desk, facts: Sequence[Fact]) -> None:
    apply(desk, lambda: plans.restore(facts))


def erase(desk: Desk, facts: Sequence[Fact]) -> None:
    """Delete facts and their words for good."""
    try:
        before = next_prompt(desk)
        desk.curation.erase(facts)
        _tell(desk, "Deleted for good.", before, [fact.id for fact in facts])
    except MemoryInspectorError as error:
        state.say("error", str(error))
    tab.pick(desk.place, Picked())


def _follow(desk: Desk, facts: Sequence[int]) -> None:
    """Nothing stays ticked, and what is half written for a fact goes on from its new version."""
    if tab.picked(desk.place).ticked:
        tab.unselect(desk.place)
    drafts = {id: draft for id in facts if (draft := tab.draft(desk.place, id)) is not None}
    for fact in desk.curation.facts() if drafts else ():
        if fact.id in drafts and fact.text == drafts[fact.id].opened:
            tab.keep_draft(desk.place, fact.id, replace(drafts[fact.id], version=fact.version))


def foreseen(desk: Desk, change: ChangeSet) -> str:
    """What a change would do to the next prompt.

    Raises:
        MemoryInspectorError: it cannot be done.
    """
    return effects.foreseen(desk.memory.preview(), desk.curation.preview(change))


def _tell(desk: Desk, done: str, before: Context | None, facts: Sequence[int]) -> None:
    after = next_prompt(desk)
    said = DONE.get(done, done)
    if before is not None and after is not None:
        said = effects.told(said, before, after, dict.fromkeys(facts))
    state.say("info", said)


def next_prompt(desk: Desk) -> Context | None:
    """The next prompt as it is; None when it cannot be built, which the pages about it say."""
    try:
        return desk.memory.preview()
    except MemoryInspectorError:
        return None
