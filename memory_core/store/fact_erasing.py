"""Erasing facts: they go with their words, and with what the log says in words about them."""

import json
from collections.abc import Sequence

from sqlalchemy import delete, select, update

from memory_core.events import Actor, FactAdded, FactDecided, FactErased, FactHeldBack
from memory_core.planning.facts import Fact
from memory_core.store.database import chunks
from memory_core.store.facts import read_scope_events, scope_sessions
from memory_core.store.graph import graph_words
from memory_core.store.tables import (
    block_revision_table,
    content_table,
    delivery_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
)
from memory_core.store.word_vectors import drop_lonely_vectors
from memory_core.store.writing import Writing, contents, session_scope

ERASED = "(erased)"
"""Stands in the log for a sentence that may have quoted what was erased."""

_OF_FACTS = ("fact_retired", "fact_rejected", "facts_curated")
_ERRORS = ("delivery_failed", "delivery_parked", "block_failed", "model_called")
"""Events with a sentence in them."""


def erase_facts(w: Writing, facts: Sequence[Fact], *, undone: bool = False, actor: Actor = "engine") -> None:
    """Remove facts and their words for good; a tombstone stays in the log.

    What was held back because it is like one of them goes too, and sentences of the log that may quote them.
    """
    w.flush_contents()
    ids = [fact.id for fact in facts]
    hashes: dict[str, set[str]] = {}
    for fact in facts:
        table = fact_revision_table
        found = w.connection.execute(select(table.c.content).where(table.c.fact_id == fact.id)).scalars()
        hashes.setdefault(fact.scope, set()).update(found)
    texts = {text for scope, keys in hashes.items() for text in contents(w.connection, scope, keys).values() if text}
    for (scope, block), group in _by_block(facts).items():
        held = _held_back(w, scope, block)
        if undone:  # as if it had never been added: what was held back before is so again
            hashes[scope] -= held.keys()
            continue
        here = {fact.id for fact in group}
        hashes[scope] |= {content for content, near in held.items() if near & here}
        hashes[scope] |= _decided_words(w, scope, block, here)
        _forget_sentences(w, scope, block, here, texts)
    for chunk in chunks(ids):
        for table, column in ((fact_revision_table, "fact_id"), (fact_source_table, "fact_id"), (fact_table, "id")):
            w.connection.execute(delete(table).where(table.c[column].in_(chunk)))
    for scope, gone in hashes.items():
        for keys in chunks(sorted(gone)):
            unused = set(keys) - _still_used(w, scope, keys)
            where = (content_table.c.scope == scope) & content_table.c.hash.in_(unused)
            w.connection.execute(delete(content_table).where(where))
        drop_lonely_vectors(w.connection, scope)
    w.record(*(FactErased(fact=fact.id, block=fact.block, undone=undone) for fact in facts), actor=actor)


def _by_block(facts: Sequence[Fact]) -> dict[tuple[str, str], list[Fact]]:
    found: dict[tuple[str, str], list[Fact]] = {}
    for fact in facts:
        found.setdefault((fact.scope, fact.block), []).append(fact)
    return found


def _held_back(w: Writing, scope: str, block: str) -> dict[str, set[int]]:
    """Hashes of what was held back, with the rejected facts that each is like."""
    found: dict[str, set[int]] = {}
    for record in read_scope_events(w.connection, scope, block, (FactHeldBack.kind,)):
        if isinstance(record.event, FactHeldBack):
            found.setdefault(record.event.content, set()).add(record.event.near)
    return found


def _decided_words(w: Writing, scope: str, block: str, ids: set[int]) -> set[str]:
    """Hashes of what was found and led to one of these facts, changed or ended it, or said it again."""
    found: set[str] = set()
    last: dict[str, str] = {}
    for record in reversed(read_scope_events(w.connection, scope, block, (FactDecided.kind, FactAdded.kind))):
        event = record.event
        if isinstance(event, FactDecided):
            last[record.session_id] = event.content
            if event.fact in ids:
                found.add(event.content)
        elif isinstance(event, FactAdded) and event.origin == "extracted":
            content = last.pop(record.session_id, None)  # the decision that added it stands right before it
            found |= {content} if content is not None and event.fact in ids else set()
    return found


def _forget_sentences(w: Writing, scope: str, block: str, ids: set[int], texts: set[str]) -> None:
    """Blank what the log says in words about these facts, or quoting them."""
    table = event_table
    where = scope_sessions(scope) & (table.c.block == block) & table.c.kind.in_((*_OF_FACTS, *_ERRORS))
    for position, kind, text in w.connection.execute(select(table.c.id, table.c.kind, table.c.data).where(where)).all():
        data = json.loads(text)
        about = {data.get("fact"), *(fact for fact, *_ in data.get("facts", ()))} if kind in _OF_FACTS else set()
        words = "reason" if kind in _OF_FACTS else "error"
        if data.get(words) and (about & ids or any(quoted in data[words] for quoted in texts)):
            blank = json.dumps({**data, words: ERASED}, ensure_ascii=False, separators=(",", ":"))
            w.connection.execute(update(table).where(table.c.id == position).values(data=blank))
    delivery = delivery_table.c
    failed = select(delivery.id, delivery.error).where(delivery.session_id == w.session.id, delivery.error.is_not(None))
    for id, error in w.connection.execute(failed).all():
        if any(quoted in error for quoted in texts):
            w.connection.execute(update(delivery_table).where(delivery.id == id).values(error=ERASED))


def _still_used(w: Writing, scope: str, keys: Sequence[str]) -> set[str]:
    """Words that a fact of this scope, its history, a graph or a block's fixed text still needs."""
    revision, text = fact_revision_table.c, block_revision_table.c
    facts = select(fact_table.c.id).where(fact_table.c.scope == scope)
    queries = [
        select(fact_table.c.content).where(fact_table.c.scope == scope, fact_table.c.content.in_(keys)),
        select(revision.content).where(revision.content.in_(keys), revision.fact_id.in_(facts)),
    ]
    if scope == session_scope(w.session.id):
        queries.append(select(text.content).where(text.session_id == w.session.id, text.content.in_(keys)))
    found = {key for query in queries for key in w.connection.execute(query).scalars()}
    return found | (graph_words(w.connection, scope) & set(keys))
