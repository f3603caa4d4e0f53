"""A facts block on the Facts page in one browser tab: its data, where the tab is in it, and changes by clicks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

import streamlit as st

from memory_core import ConflictError, Memory, MemoryInspectorError, list_sessions
from memory_core.curation.fact_desk import Curation, Review, SourceMessage
from memory_core.engine.next_prompt import NextPrompt
from memory_core.events import KINDS, EventRecord
from memory_core.history.block_slice import BLOCK_EVENTS
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.fact_evidence import Rewrite
from memory_core.history.learned_slices import FACT_EVENTS, wordings
from memory_core.history.message_slice import MESSAGE_EVENTS
from memory_core.history.projection import project
from memory_core.history.usage import Use
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet, SuppressedFact
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_history import BlockDecisions, decisions_of
from memory_inspector.reading.fact_rows import FactFilter, Picked, ShownFact, Source, View
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts import effect, toasts
from ui.parts.components import noticed
from ui.parts.listing import BlockChoice, source_messages
from ui.tab import state
from ui.tab.view import View as PageView

# -- data, read from the engine: the facts now, or at a past turn ---------------------------------


_HANDLED = FACT_EVENTS | MESSAGE_EVENTS | BLOCK_EVENTS
FACT_KINDS = frozenset(kind for kind, event in KINDS.items() if event in _HANDLED)
"""Kinds of events that determine the state of facts; those of messages, as a reset removes their facts' sources."""


@dataclass(frozen=True, slots=True)
class FactSnapshot:
    """Data of one facts block for the page."""

    memory: Memory
    block: str
    rows: tuple[ShownFact, ...]
    past: bool = False
    read_only: bool = False
    facts: Mapping[int, Fact] = field(default_factory=dict)
    review: Review | None = None
    rewrites: tuple[Rewrite, ...] = ()
    held: tuple[SuppressedFact, ...] = ()
    changes: tuple[AppliedChangeSet, ...] = ()
    elsewhere: bool = False
    """True if some facts were learned in other sessions."""
    decisions: BlockDecisions = field(default_factory=BlockDecisions)
    """Decisions on found facts in this session's log."""

    @property
    def place(self) -> tuple[str, str]:
        return self.memory.session_id, self.block

    @property
    def approval(self) -> bool:
        """Tell whether new facts wait until a person accepts them."""
        return bool(self._settings.get("approval"))

    @property
    def curation(self) -> Curation:
        """The engine's interface for changing the facts. Raises `NotFoundError` if the block was removed."""
        return self.memory.facts.desk(self.block)

    @property
    def runs_here(self) -> bool:
        """True if this process can run the block, so that a flush here may condense its facts."""
        return any(attached.name == self.block and attached.block is not None for attached in self.memory.blocks)

    @property
    def categories(self) -> tuple[str, ...]:
        """Categories set for the block; empty if the extractor uses its own."""
        return tuple(self._settings.get("categories") or ())

    @property
    def decides(self) -> bool:
        """Tell whether found facts are compared with known ones, now or earlier in the session."""
        return self._settings.get("on_change") == "decide" or bool(self.decisions.decided)

    @property
    def _settings(self) -> Mapping[str, Any]:
        """Stored settings of the block; none if it was removed."""
        return next((attached.record.settings for attached in self.memory.blocks if attached.name == self.block), {})

    def row(self, fact: int | None) -> ShownFact | None:
        return next((row for row in self.rows if row.id == fact), None)

    def picked(self, ids: Iterable[int]) -> list[Fact]:
        """Facts with these ids; deleted ones are left out."""
        return [self.facts[id] for id in ids if id in self.facts]


def read_desk(view: PageView, block: str) -> FactSnapshot:
    """Read the present facts of a block.

    Raises:
        NotFoundError: the block was removed.
    """
    memory, session_id = view.memory, view.memory.session_id
    curation = memory.facts.desk(block)
    facts = curation.facts()
    # Another session of the user may change or confirm a shared fact, which does not move this log's position.
    versions = tuple((fact.id, fact.version, fact.confirmed_at) for fact in facts)
    cache = _cache(memory, block)
    position = view.history.position
    # The position is part of the version: contradictions, and what a person reviewed, are only in the log.
    review = cache.value("review", (versions, position), curation.review)
    roles = cache.value("roles", position, lambda: _roles(memory))
    uses = memory.log.usage(position).facts
    waiting = {fact.id for fact in review.facts}
    withheld = memory.session.withheld().facts
    rows = [
        replace(
            row,
            flags=tuple(dict.fromkeys(flag.kind for flag in review.flags.get(row.id, ()))),
            waits=row.id in waiting,
            quarantined=row.id in withheld,
        )
        for row in _rows(facts, session_id, roles, uses)
    ]
    return FactSnapshot(
        memory=memory,
        block=block,
        rows=tuple(rows),
        read_only=view.read_only is not None,
        decisions=cache.value("decisions", position, lambda: _decisions(view, block)),
        facts={fact.id: fact for fact in facts},
        review=review,
        rewrites=cache.value("rewrites", (versions, position), lambda: tuple(curation.rewrites())),
        held=cache.value("held", (versions, position), lambda: tuple(curation.held_back())),
        changes=cache.value("changes", (versions, position), lambda: tuple(curation.changes())),
        elsewhere=any(not row.here for row in rows),
    )


def read_past(view: PageView, block: str) -> FactSnapshot:
    """Read the facts of a block at the end of the turn shown."""
    memory, session_id = view.memory, view.memory.session_id
    cache = _cache(memory, block)
    # Valid until anything happens: words of the past can be erased at any time.
    facts = cache.value("past", (view.position, view.history.position), lambda: _facts_at(view, block))
    uses = memory.log.usage(view.position).facts
    roles = cache.value("roles", view.history.position, lambda: _roles(memory))
    rows = _rows(facts, session_id, roles, uses)
    return FactSnapshot(
        memory=memory,
        block=block,
        rows=tuple(rows),
        past=True,
        read_only=True,
        decisions=cache.value(
            "past_decisions", (view.position, view.history.position), lambda: _decisions(view, block)
        ),
        facts={fact.id: fact for fact in facts},
        elsewhere=any(not row.here for row in rows),
    )


def _rows(facts: Iterable[Fact], session_id: str, roles: Mapping[int, str], uses: Mapping[int, Use]) -> list[ShownFact]:
    return [
        ShownFact(
            fact,
            source=source_of(fact.origin, fact.sources, session_id, roles),
            here=_here(fact.sources, session_id),
            carried=uses.get(fact.id, Use()).carried,
            cut=uses.get(fact.id, Use()).cut,
        )
        for fact in facts
    ]


def _decisions(view: PageView, block: str) -> BlockDecisions:
    """Decisions up to the turn shown."""
    return decisions_of(view.history.upto(view.position), block, view.memory.log.texts)


def sources_of(desk: FactSnapshot, fact: int) -> Sequence[SourceMessage]:
    """Source messages of a fact; erased ones are missing."""
    # Now the engine has the sources, also those in other sessions. In the past only this session's log is read.
    memory, then = desk.memory, desk.facts[fact]
    if not desk.past:
        return desk.curation.sources(then)
    # Other sessions may be deleted, and their log is not read for this page.
    here = [seq for session_id, seq in then.sources if session_id == memory.session_id]
    return source_messages(memory, here, then.text)


def source_of(origin: str, sources: Sequence[tuple[str, int]], session_id: str, roles: Mapping[int, str]) -> Source:
    """Kind of a fact's source. `roles`: roles of this session's messages, by number."""
    # How it was made comes before who said it: a condensed fact may have sources, too.
    if origin == "written":
        return "person"
    if origin == "condensed":
        return "condensed"
    speakers = {roles.get(seq) for session, seq in sources if session == session_id}
    if "user" in speakers or any(session != session_id for session, _ in sources):
        return "user"  # from other sessions, only the user's own words become facts
    # None stands for a message that the log no longer has; it says nothing about the speaker.
    return "assistant" if speakers - {None} else "unknown"


def _roles(memory: Memory) -> dict[int, str]:
    """Role of every message of a session, by number."""
    return {state.added.seq: state.added.role for state in memory.log.pieces().messages}


def _here(sources: Sequence[tuple[str, int]], session_id: str) -> bool:
    # A fact without a source, such as one that a person wrote, counts as from here.
    return not sources or any(session == session_id for session, _ in sources)


def _facts_at(view: PageView, block: str) -> tuple[Fact, ...]:
    memory, position = view.memory, view.position
    # 1. Only events that make or change facts, of this session and, for a shared block, of the user's other sessions.
    records = [record for record in view.history.upto(position) if record.kind in FACT_KINDS]
    blocks = {past.name: past for past in view.history.blocks_at(position)}
    if block in blocks and blocks[block].settings.get("scope") == "user":
        records += _of_the_user(memory, position)
    # 2. All texts in one query; erased ones are missing from the answer.
    words = memory.log.texts(wordings(records))
    # 3. Apply them in order. What was erased since has no words, and is left out.
    past = project(sorted(records, key=lambda record: record.position), memory.session_id)
    facts = [fact.worded(words.get) for _, fact in sorted(past.facts.by_id.items()) if fact.block == block]
    # Counted with today's tokenizer, as the sizes of all facts must add up.
    return tuple(replace(fact, tokens=memory.session.count_tokens(fact.text)) for fact in facts if fact.text)


def _of_the_user(memory: Memory, position: int) -> list[EventRecord]:
    """Events on facts from other sessions of the user, up to a position; positions count across a whole database."""
    events: list[EventRecord] = []
    for other in list_sessions(memory.session.database):
        if other.session_id != memory.session_id and other.user_id == memory.session.user_id:
            log = Memory.open(other.session_id, memory.session.database, services=memory.session.services).events(
                kinds=FACT_KINDS
            )
            events += [record for record in log if record.position <= position]
    return events


class _KeptFacts:
    """Cache of computed values for one block; each is valid while its version stays the same."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Any, Any]] = {}
        self._lock = Lock()

    def value(self, name: str, version: Any, make: Callable[[], Any]) -> Any:
        # Pages of several tabs are drawn in several threads, and share this cache.
        with self._lock:
            value = self._values.get(name)
        if value is not None and value[0] == version:
            return value[1]
        # Outside of the lock: another tab's page need not wait, at worst both compute it.
        made = make()
        with self._lock:
            self._values[name] = (version, made)
        return made


def _cache(memory: Memory, block: str) -> _KeptFacts:
    return memory.session.services.cached(("facts", memory.session.database.id, memory.session_id, block), _KeptFacts)


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
