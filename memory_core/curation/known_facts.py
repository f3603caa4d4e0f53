"""The facts of a session's blocks: reading, searching and correcting them."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from memory_core.blocks import fact_search
from memory_core.blocks.fact_search import FactHit
from memory_core.curation.facts import Curation
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.errors import ConfigError
from memory_core.planning.facts import Fact
from memory_core.store.facts import FactRevision, read_facts, read_history


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
