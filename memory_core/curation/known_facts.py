"""The facts of a session's blocks: reading, searching and correcting them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from memory_core.blocks import fact_search
from memory_core.blocks.fact_search import FactHit
from memory_core.blocks.former_marks import FormerMarks
from memory_core.curation.change_sets import Change
from memory_core.curation.fact_desk import Curation, Review
from memory_core.engine.context import reading_of
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.errors import ConfigError, NotFoundError
from memory_core.events import Actor, FactsRead
from memory_core.formats.notebooks import repr_html
from memory_core.history.change_log import AppliedChangeSet
from memory_core.planning import curation
from memory_core.planning.curation import ChangeSet
from memory_core.planning.fact_merging import Fact, FactRevision
from memory_core.store.fact_rows import read_facts, read_history, read_keyed
from memory_core.store.writing import Writing

RECORDED = 25
"""Maximum number of facts that the log names when a program reads facts."""


@dataclass(frozen=True, slots=True)
class FactsAsked:
    """Recorded request of a program for facts, and its results, best first."""

    facts: Sequence[Fact]
    key: str | None = None
    """Key that was read, or prefix of keys."""
    query: str | None = None


class FactList(list[Fact]):
    """List of facts that a notebook shows as a table."""

    _repr_html_ = repr_html


class Options(TypedDict, total=False):
    """Options of every method that changes facts."""

    block: str | None
    """Name of the facts block; None: the block of the passed facts, else the first facts block."""
    preview: bool
    """True if nothing is to be stored, and the next prompt with the change returned."""
    actor: Actor


class SessionFacts:
    """The facts of a session: `Memory.facts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, block: str, *, states: Iterable[str] | None = ("active",)) -> FactList:
        """Return the facts of a block, oldest first; `states=None`: of all states, and those in quarantine too.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(block)
        scope = scope_key(self._session, attached)
        with self._session.database.read() as connection:
            facts = read_facts(connection, scope, block, states=states)
            withheld = self._session.quarantine(connection).facts if states is not None else ()
        return FactList(fact for fact in facts if fact.id not in withheld)

    def keyed(self, block: str, keys: Iterable[str]) -> dict[str, Fact]:
        """Return the active facts of a block that have these keys, by key.

        Raises:
            NotFoundError: there is no such block.
        """
        scope = scope_key(self._session, self._session.block(block))
        with self._session.database.read() as connection:
            withheld = self._session.quarantine(connection).facts
            facts = read_keyed(connection, scope, block, keys)
        return {key: fact for key, fact in facts.items() if fact.id not in withheld}

    def record_reads(self, block: str, reads: Iterable[FactsAsked], *, actor: Actor = "agent") -> None:
        """Record a program's request for facts and its results, outside of any prompt.

        Raises:
            NotFoundError: there is no such block.
        """
        scope = scope_key(self._session, self._session.block(block))
        with self._session.writing() as w:
            w.record(*(_recorded(w, scope, block, asked) for asked in reads), actor=actor)

    def erase_all(self, *, actor: Actor = "user") -> None:
        """Delete every fact of all facts blocks with its words; of a block of the user's, those of all sessions."""
        for attached in self._session.blocks:
            if attached.kind == "facts" and (facts := self.read(attached.name, states=None)):
                self.desk(attached.name).erase(facts, actor=actor)

    def history(self, fact: Fact) -> list[FactRevision]:
        """Return all versions of a fact, oldest first, with author and reason."""
        with self._session.database.read() as connection:
            return read_history(connection, fact.scope, fact.id)

    def search(
        self,
        query: str,
        *,
        block: str | None = None,
        top_k: int = 20,
        threshold: float = fact_search.THRESHOLD,
        categories: Collection[str] | None = None,
        topics: Collection[str] | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> list[FactHit]:
        """Return active facts that match the question, best first, of one block or (None) of all enabled ones.

        A fact that a later one contradicts is placed right behind the later one. Facts in quarantine are left out.

        `threshold` is the minimum score, 0 to 1. `categories` and `topics` restrict the results to facts with one of
        them, ignoring case; `filters` by any field: see `memory_core.blocks.fact_search.fits`. Changes nothing.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block holds no facts, a filter is unknown, or `top_k` or `threshold` is out of range.
        """
        self._session.open()
        on = [attached for attached in self._session.blocks if attached.settings.get("enabled", True)]
        chosen = on if block is None else [self._session.block(block)]
        if block is not None and chosen[0].kind != "facts":
            raise ConfigError(f'the block "{block}" holds no facts')
        reading = reading_of(self._session, query)
        hits = fact_search.search_facts(
            query,
            [(scope_key(self._session, b), b.name) for b in chosen if b.kind == "facts"],
            database=self._session.database,
            services=self._session.services,
            top_k=max(top_k, fact_search.MAX_REORDERED) if top_k > 0 else top_k,
            threshold=threshold,
            categories=categories,
            topics=topics,
            filters=filters,
            withheld=reading.quarantine.facts,
        )
        return fact_search.order_contradicted(hits, FormerMarks.read(reading).later)[:top_k]

    # -- changing: `block` names the facts block, None: that of the facts given, else the session's first one. With
    # `preview` nothing is stored, and `Change.prompt` is the next prompt with it. Each raises `NotFoundError` if
    # there is no such fact or block, `MessageError` if the change is impossible, and `ConflictError` if a fact was
    # changed elsewhere since it was read.

    def add(
        self,
        text: str,
        *,
        pinned: bool = False,
        category: str = "other",
        topics: Sequence[str] = (),
        **options: Unpack[Options],
    ) -> Change:
        """Add a fact in a person's own words."""
        return self._change([], lambda facts: curation.add(text, pinned, category, topics), **options)

    def edit(self, fact: Fact | int, text: str, **options: Unpack[Options]) -> Change:
        """Change the text of a fact."""
        return self._change([fact], lambda facts: curation.edit(facts[0], text), **options)

    def merge(self, facts: Sequence[Fact | int], text: str, **options: Unpack[Options]) -> Change:
        """Replace several facts by one with this text and the sources of all."""
        return self._change(facts, lambda facts: curation.merge(facts, text), **options)

    def pin(self, *facts: Fact | int, pinned: bool = True, **options: Unpack[Options]) -> Change:
        """Pin facts, so that they are cut last, or unpin them."""
        return self._change(facts, lambda facts: curation.pin(facts, pinned), **options)

    def confirm(self, *facts: Fact | int, **options: Unpack[Options]) -> Change:
        """Confirm that facts still hold: their time of confirmation becomes now."""
        return self._change(facts, curation.confirm, **options)

    def ask(self, *facts: Fact | int, **options: Unpack[Options]) -> Change:
        """Have the agent ask the user whether facts still hold, by a note beside each in prompts until confirmed."""
        return self._change(facts, curation.ask, **options)

    def retire(self, *facts: Fact | int, reason: str = "", **options: Unpack[Options]) -> Change:
        """Retire facts: they are in no further prompt, and can be restored."""
        return self._change(facts, lambda facts: curation.retire(facts, reason), **options)

    def reject(self, *facts: Fact | int, reason: str = "", **options: Unpack[Options]) -> Change:
        """Reject facts: near copies of them are not learned again, and other words for them wait for review."""
        return self._change(facts, lambda facts: curation.reject(facts, reason), **options)

    def restore(self, *facts: Fact | int, **options: Unpack[Options]) -> Change:
        """Make retired or superseded facts active again."""
        return self._change(facts, curation.restore, **options)

    def erase(self, *facts: Fact | int, block: str | None = None, actor: Actor = "user") -> None:
        """Delete facts and their words for good; this cannot be undone."""
        desk, chosen = self._chosen(facts, block)
        desk.erase(chosen, actor=actor)

    def undo(self, number: int | None = None, *, block: str | None = None) -> AppliedChangeSet | None:
        """Undo a change set (`number` None: the newest by a person that can be undone); see `Curation.undo`."""
        return self.desk(block).undo(number)

    def review(self, block: str | None = None) -> Review:
        """Return the facts that wait for a person: proposed ones, contradictions, near duplicates."""
        return self.desk(block).review()

    def desk(self, block: str | None = None) -> Curation:
        """Return the desk of a facts block (None: the first): its change sets, what waits for review, rewrites.

        Raises:
            NotFoundError: there is no such block, or none that holds facts.
            ConfigError: the block holds no facts.
        """
        if block is None:
            block = next((attached.name for attached in self._session.blocks if attached.kind == "facts"), None)
        if block is None:
            raise NotFoundError("No block of this session holds facts.")
        return Curation(self._session, block)

    def _change(
        self,
        facts: Sequence[Fact | int],
        wish: Callable[[Sequence[Fact]], ChangeSet],
        *,
        block: str | None = None,
        preview: bool = False,
        actor: Actor = "user",
    ) -> Change:
        desk, chosen = self._chosen(facts, block)
        return desk.apply(wish(chosen), preview=preview, actor=actor)

    def _chosen(self, facts: Sequence[Fact | int], block: str | None) -> tuple[Curation, list[Fact]]:
        """Return the desk of the facts' block, and the facts; those passed by id are read now."""
        desk = self.desk(block or next((fact.block for fact in facts if isinstance(fact, Fact)), None))
        # A passed fact keeps the version that its caller saw, so that a change in between is noticed.
        by_id = {fact.id: fact for fact in desk.facts()} if any(isinstance(fact, int) for fact in facts) else {}
        for fact in facts:
            if isinstance(fact, int) and fact not in by_id:
                raise NotFoundError(f'There is no fact {fact:,} in "{desk.block}".')
        return desk, [by_id[fact] if isinstance(fact, int) else fact for fact in facts]


def _recorded(w: Writing, scope: str, block: str, asked: FactsAsked) -> FactsRead:
    key, query = (None if text is None else w.store_text(text, scope=scope) for text in (asked.key, asked.query))
    # The event has to stay small, however many facts the program got; `found` has their number.
    named = tuple(fact.id for fact in asked.facts[:RECORDED])
    return FactsRead(block=block, key=key, query=query, facts=named, found=len(asked.facts))
