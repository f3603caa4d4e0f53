"""Facts as the store of LangGraph's agents: `create_agent(model, tools, store=InspectedStore(database_uri=...))`.

An item's namespace and key form the fact's key, its value is the fact's metadata, and the fields named by `index` are
the fact's text, so the log records every put, get and search. A second put creates a version; a delete retires the
fact, which the app can restore.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock
from memory_core.blocks.fact_search import FactHit, rank_facts
from memory_core.curation.known_facts import FactsAsked
from memory_core.errors import MessageError
from memory_core.memory import Memory
from memory_core.planning.curation import FactDraft
from memory_core.planning.fact_merging import Fact, key_of, metadata_text, parts_of
from memory_inspector.adapters import framework

with framework("LangGraph", "langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        get_text_at_path,
    )

BLOCK = "items"
SEARCHED, UNSEARCHED = "item", "item without words"
"""Categories of indexed and unindexed items. An unindexed item has its whole value as text and matches no query."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "$gt": lambda value, other: value > other,
    "$gte": lambda value, other: value >= other,
    "$lt": lambda value, other: value < other,
    "$lte": lambda value, other: value <= other,
}


class InspectedStore(BaseStore):
    """LangGraph's store over the facts of one session. `settings` are those of `Memory.from_defaults`.

    `fields` are the paths that are indexed if a put names none; `$` is the whole value, as in LangGraph.
    """

    supports_ttl = False

    def __init__(
        self,
        *,
        database_uri: str | None = None,
        session_id: str = "langgraph",
        fields: Sequence[str] = ("$",),
        **settings: Any,
    ) -> None:
        blocks = [FactExtractionMemoryBlock(name=BLOCK, priority=1)]
        made = {"title": "LangGraph store", "memory_blocks": blocks, **settings}
        self.memory = Memory.from_defaults(session_id, database_uri=database_uri, **made)
        self._fields = tuple(fields)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run all reads on the state before the batch, then apply the puts in one change set; the last put of a key
        wins.

        Raises:
            MessageError: A value is not a JSON object, a key cannot be stored, a filter is unknown, or a put has a
                time to live; nothing was stored.
            StoreError: The database cannot be reached.
        """
        results: list[Result] = []
        asked: list[FactsAsked] = []
        items: dict[str, FactDraft | None] = {}
        for op in ops:
            result: Result = None
            # Reads see the state before the batch, as LangGraph promises.
            if isinstance(op, GetOp):
                key = key_of([*op.namespace, op.key])
                fact = self.memory.facts.keyed(BLOCK, [key]).get(key)
                result = None if fact is None else Item(**_item(fact))
                asked.append(FactsAsked([fact] if fact else [], key=key))
            elif isinstance(op, SearchOp):
                hits = self._search(op)
                result = [SearchItem(**_item(fact), score=score) for fact, score in hits]
                asked.append(FactsAsked([fact for fact, _ in hits], _beginning(op.namespace_prefix), op.query or None))
            elif isinstance(op, ListNamespacesOp):
                result = self._namespaces(op)
            else:
                # In a dict, the last of several puts of one key wins.
                items[key_of([*op.namespace, op.key])] = self._to_put(op)
            results.append(result)
        # Reads are recorded, so that a trace can show what the agent looked up and did not use.
        if asked:
            self.memory.facts.record_reads(BLOCK, asked)
        if items:
            self.memory.facts.desk(BLOCK).put(items)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _to_put(self, op: PutOp) -> FactDraft | None:
        if op.ttl is not None:
            raise MessageError("This store keeps an item until it is deleted: put it without a ttl.")
        if op.value is None:
            return None
        value = dict(op.value)
        metadata_text(value)  # raises on a value that is not JSON, before its fields are selected
        paths = () if op.index is False else self._fields if op.index is None else op.index
        texts = [text for path in paths for text in get_text_at_path(value, path) if text.strip()]
        words = texts or get_text_at_path(value, "$")
        return FactDraft("\n".join(words), category=SEARCHED if texts else UNSEARCHED, metadata=value)

    def _search(self, op: SearchOp) -> list[tuple[Fact, float | None]]:
        """Return the items of a search with their scores, best first; then those without a score, newest first."""
        beginning = _beginning(op.namespace_prefix)
        of_namespace = (fact for fact in self._facts() if (fact.key or "").startswith(beginning))
        items = {fact.id: fact for fact in of_namespace if _fits(dict(fact.metadata), op.filter or {})}
        newest = sorted(items, key=lambda id: (items[id].updated_at, id), reverse=True)
        searched = [fact for fact in items.values() if fact.category != UNSEARCHED]
        # Unindexed items match no query; they follow those that do.
        hits: list[FactHit] = []
        if op.query and searched:
            session = self.memory.session
            hits = rank_facts(
                searched,
                op.query,
                database=session.database,
                services=session.services,
                top_k=len(searched),
                threshold=0.0,
            )
        scores = {hit.fact.id: hit.score for hit in hits}
        ranked = [*scores, *(id for id in newest if id not in scores)]
        return [(items[id], scores.get(id)) for id in ranked[op.offset : op.offset + op.limit]]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        # The last part is the item's key, the others are its namespace.
        every = {parts_of(fact.key or "")[:-1] for fact in self._facts()}
        fitting = (path for path in every if all(_matches(path, how) for how in op.match_conditions or ()))
        # Cut before the limit is applied: several namespaces may become one.
        prefixes = sorted({path[: op.max_depth] for path in fitting})
        return prefixes[op.offset : op.offset + op.limit]

    def _facts(self) -> list[Fact]:
        """Return the facts that are items; facts written by people have no key."""
        return [fact for fact in self.memory.facts.read(BLOCK) if fact.key is not None]


def _beginning(namespace: Sequence[str]) -> str:
    """Return the prefix of keys in a namespace and its children."""
    # The empty last part ends the prefix: that of `user` must not match `users`.
    return key_of([*namespace, ""]) if namespace else ""


def _item(fact: Fact) -> dict[str, Any]:
    *namespace, key = parts_of(fact.key or "")
    created, updated = fact.created_at, max(fact.updated_at, fact.confirmed_at)  # an unchanged put confirms a fact
    return {
        "namespace": tuple(namespace),
        "key": key,
        "value": dict(fact.metadata),
        "created_at": datetime.fromtimestamp(created, UTC),
        "updated_at": datetime.fromtimestamp(updated, UTC),
    }


def _matches(namespace: tuple[str, ...], how: MatchCondition) -> bool:
    length = len(how.path)
    part = namespace[:length] if how.match_type == "prefix" else namespace[-length:] if length else ()
    return len(part) == length and all(wanted in ("*", actual) for actual, wanted in zip(part, how.path, strict=True))


def _fits(value: Any, wanted: Any) -> bool:
    """Return whether a value matches a filter: named fields of objects, every element of lists, or `$` operators."""
    if isinstance(wanted, dict) and any(name.startswith("$") for name in wanted):
        return all(_compares(value, how, other) for how, other in wanted.items())
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(_fits(value.get(name), condition) for name, condition in wanted.items())
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_fits(element, condition) for element, condition in zip(value, wanted, strict=True))
        )
    return bool(value == wanted)


def _compares(value: Any, how: str, other: Any) -> bool:
    if how in ("$eq", "$ne"):
        return bool(value == other) is (how == "$eq")
    if how not in _COMPARED:
        raise MessageError(f"A filter cannot compare by {how[:40]}: use $eq, $ne, {', '.join(_COMPARED)}.")
    try:
        return _COMPARED[how](float(value), float(other))
    except (TypeError, ValueError):
        return False  # non-numbers are not comparable
