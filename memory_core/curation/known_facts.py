"""The facts of a session's blocks: reading, searching and correcting them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.blocks import fact_search
from memory_core.blocks.fact_search import FactHit
from memory_core.curation.facts import Curation
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.errors import ConfigError
from memory_core.events import Actor, FactsRead
from memory_core.planning.facts import Fact
from memory_core.store.facts import FactRevision, read_facts, read_history, read_keyed
from memory_core.store.writing import Writing

RECORDED = 25
"""Facts that the log names of those a program was given at once."""


@dataclass(frozen=True, slots=True)
class FactsAsked:
    """What a program asked for, and was given, best first."""

    facts: Sequence[Fact]
    key: str | None = None
    """A key, or how keys begin."""
    query: str | None = None


class SessionFacts:
    """`Memory.facts`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def read(self, block: str, *, states: Iterable[str] | None = ("active",)) -> list[Fact]:
        """Facts of a block, oldest first; `states=None` for all.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(block)
        scope = scope_key(self._session, attached)
        with self._session.database.read() as connection:
            return read_facts(connection, scope, block, states=states)

    def keyed(self, block: str, keys: Iterable[str]) -> dict[str, Fact]:
        """The active facts of a block that have these keys, by key.

        Raises:
            NotFoundError: there is no such block.
        """
        scope = scope_key(self._session, self._session.block(block))
        with self._session.database.read() as connection:
            return read_keyed(connection, scope, block, keys)

    def record_reads(self, block: str, reads: Iterable[FactsAsked], *, actor: Actor = "agent") -> None:
        """Record what a program asked for and was given, outside of any prompt.

        Raises:
            NotFoundError: there is no such block.
        """
        scope = scope_key(self._session, self._session.block(block))
        with self._session.writing() as w:
            w.record(*(_recorded(w, scope, block, asked) for asked in reads), actor=actor)

    def history(self, fact: Fact) -> list[FactRevision]:
        """All versions of a fact, oldest first, with author and reason."""
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
        """Active facts that match the question, best first, of one block or (None) of all enabled ones.

        `threshold` is the minimum score, 0 to 1. `categories` and `topics` narrow the choice to facts under one of
        them, ignoring case; `filters` by any field: see `memory_core.blocks.fact_search.fits`. Changes nothing.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block holds no facts, a filter is unknown, or a number impossible.
        """
        self._session.open()
        on = [attached for attached in self._session.blocks if attached.settings.get("enabled", True)]
        chosen = on if block is None else [self._session.block(block)]
        if block is not None and chosen[0].kind != "facts":
            raise ConfigError(f'the block "{block}" holds no facts')
        return fact_search.search_facts(
            query,
            [(scope_key(self._session, b), b.name) for b in chosen if b.kind == "facts"],
            database=self._session.database,
            services=self._session.services,
            top_k=top_k,
            threshold=threshold,
            categories=categories,
            topics=topics,
            filters=filters,
        )

    def desk(self, block: str) -> Curation:
        """The curation desk of a facts block: change sets with undo, what waits for review, rewrites.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: it holds no facts.
        """
        return Curation(self._session, block)


def _recorded(w: Writing, scope: str, block: str, asked: FactsAsked) -> FactsRead:
    key, query = (None if text is None else w.store_text(text, scope=scope) for text in (asked.key, asked.query))
    named = tuple(fact.id for fact in asked.facts[:RECORDED])
    return FactsRead(block=block, key=key, query=query, facts=named, found=len(asked.facts))
