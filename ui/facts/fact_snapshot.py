"""Data of the Facts page, read from the engine: the facts of one block now, or at a past turn.

No Streamlit. Nothing is written, and no model is called.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from memory_core import Memory, list_sessions
from memory_core.curation.fact_desk import Curation, Review, SourceMessage
from memory_core.events import KINDS, EventRecord
from memory_core.history.change_log import AppliedChangeSet
from memory_core.history.rewrites import Rewrite
from memory_core.history.slices import block_slice, fact_slice, message_slice
from memory_core.history.slices.fact_slice import wordings
from memory_core.history.slices.projection import project
from memory_core.history.usage import Use
from memory_core.planning.curation import SuppressedFact
from memory_core.planning.fact_merging import Fact
from memory_inspector.reading.fact_history import BlockDecisions, decisions_of
from memory_inspector.reading.fact_rows import ShownFact, Source
from ui.parts.listing import source_messages
from ui.tab.view import View

_HANDLED = fact_slice.HANDLED | message_slice.HANDLED | block_slice.HANDLED
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


def read_desk(view: View, block: str) -> FactSnapshot:
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


def read_past(view: View, block: str) -> FactSnapshot:
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


def _decisions(view: View, block: str) -> BlockDecisions:
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


def _facts_at(view: View, block: str) -> tuple[Fact, ...]:
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
