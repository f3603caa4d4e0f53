"""Erase facts with their texts, and with the texts of events about them."""

import json
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import delete, select, update

from memory_core.events import Actor, FactAdded, FactDecided, FactErased, FactHeldBack, NothingLearned
from memory_core.messages import content_hash
from memory_core.planning.fact_merging import Fact
from memory_core.planning.impact import ERASED
from memory_core.store.database import chunks
from memory_core.store.fact_rows import read_scope_events, scope_sessions
from memory_core.store.tables import delivery_table, event_table, fact_revision_table, fact_source_table, fact_table
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.writing import Writing, read_texts, session_scope

_OF_FACTS = ("fact_retired", "fact_rejected", "facts_curated")
_WITH_SLOT = ("fact_added", "fact_changed")
_ERRORS = ("delivery_failed", "delivery_parked", "block_failed", "model_called")
"""Kinds of events with an error sentence, which may quote a fact."""


def erase_facts(w: Writing, facts: Sequence[Fact], *, undone: bool = False, actor: Actor = "engine") -> None:
    """Delete facts and their texts; a tombstone stays in the log.

    Also erased: texts that were held back as similar to one of the facts, and sentences in the log that may quote one.
    """
    # So that texts stored in this transaction are found below.
    w.flush_contents()
    ids = [fact.id for fact in facts]
    # 1. Hashes of all texts that the facts ever had, by scope, and the texts, to find them quoted in the log.
    hashes: dict[str, set[str]] = {}
    for fact in facts:
        table = fact_revision_table
        rows = w.connection.execute(select(table.c.content, table.c.metadata).where(table.c.fact_id == fact.id))
        hashes.setdefault(fact.scope, set()).update(key for row in rows for key in row if key)
        hashes[fact.scope] |= {content_hash(fact.key)} if fact.key else set()
    texts = {text for scope, keys in hashes.items() for text in read_texts(w.connection, scope, keys).values() if text}
    # 2. Other texts that repeat them: found facts that were held back or decided, and remarks of models.
    by_block: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for fact in facts:
        by_block[fact.scope, fact.block].add(fact.id)
    for (scope, block), here in by_block.items():
        held = _held_back(w, scope, block)
        if undone:  # as if never added: texts held back earlier stay
            hashes[scope] -= held.keys()
            continue
        hashes[scope] |= {content for content, near in held.items() if near & here}
        hashes[scope] |= _decided_words(w, scope, block, here)
        for owner, remarks in _remarks(w, scope, block).items():
            hashes.setdefault(owner, set()).update(remarks)
        _forget_sentences(w, scope, block, here, texts)
    # 3. The rows, then the texts that no row needs any more: another fact may say the same.
    for chunk in chunks(ids):
        for table, column in ((fact_revision_table, "fact_id"), (fact_source_table, "fact_id"), (fact_table, "id")):
            w.connection.execute(delete(table).where(table.c[column].in_(chunk)))
    for scope, gone in hashes.items():
        erase_unneeded(w, scope, gone)
    # 4. Tombstones, so that readers of the log know that the texts were erased and are not missing by a fault.
    w.record(*(FactErased(fact=fact.id, block=fact.block, undone=undone) for fact in facts), actor=actor)


def _held_back(w: Writing, scope: str, block: str) -> dict[str, set[int]]:
    """Return the hashes of found facts that were held back, with the rejected facts that each resembles."""
    result: dict[str, set[int]] = {}
    for record in read_scope_events(w.connection, scope, block, (FactHeldBack.kind,)):
        if isinstance(record.event, FactHeldBack):
            result.setdefault(record.event.content, set()).add(record.event.near)
    return result


def _decided_words(w: Writing, scope: str, block: str, ids: set[int]) -> set[str]:
    """Return the hashes of found facts that led to one of these facts, changed it, ended it or repeated it."""
    result: set[str] = set()
    last: dict[str, str] = {}
    # Oldest first, and by session: logs of several sessions may alternate.
    for record in reversed(read_scope_events(w.connection, scope, block, (FactDecided.kind, FactAdded.kind))):
        event = record.event
        if isinstance(event, FactDecided):
            last[record.session_id] = event.content
            if event.fact in ids:
                result.add(event.content)
        elif isinstance(event, FactAdded) and event.origin == "extracted":
            content = last.pop(record.session_id, None)  # the decision that added it is right before it
            result |= {content} if content is not None and event.fact in ids else set()
    return result


def _remarks(w: Writing, scope: str, block: str) -> dict[str, set[str]]:
    """Return the hashes of all model remarks on messages that yielded nothing, by scope of the session.

    Such a remark may quote any fact of the block ("says again that ..."), in any words.
    """
    result: dict[str, set[str]] = {}
    for record in read_scope_events(w.connection, scope, block, (NothingLearned.kind,)):
        if isinstance(record.event, NothingLearned):
            quotes = {quotes for *_, quotes in record.event.reasons if quotes}
            result.setdefault(session_scope(record.session_id), set()).update(quotes)
    return result


def _forget_sentences(w: Writing, scope: str, block: str, ids: set[int], texts: set[str]) -> None:
    """Clear texts of events that are about these facts or quote them."""
    table = event_table
    where = scope_sessions(scope) & (table.c.block == block) & table.c.kind.in_((*_OF_FACTS, *_WITH_SLOT, *_ERRORS))
    for position, kind, text in w.connection.execute(select(table.c.id, table.c.kind, table.c.data).where(where)).all():
        data = json.loads(text)
        # One event may be about several facts, such as a change set.
        about = {data.get("fact"), *(fact for fact, *_ in data.get("facts", ()))} if kind not in _ERRORS else set()
        words = "reason" if kind in _OF_FACTS else "slot" if kind in _WITH_SLOT else "error"
        # A slot is a code: it quotes nobody, and goes with its own fact alone.
        quotes = kind not in _WITH_SLOT and any(quoted in (data.get(words) or "") for quoted in texts)
        if data.get(words) and (about & ids or quotes):
            blank = json.dumps({**data, words: ERASED}, ensure_ascii=False, separators=(",", ":"))
            w.connection.execute(update(table).where(table.c.id == position).values(data=blank))
    delivery = delivery_table.c
    # Deliveries keep the error of their last attempt beside the log.
    failed = select(delivery.id, delivery.error).where(delivery.session_id == w.session.id, delivery.error.is_not(None))
    for id, error in w.connection.execute(failed).all():
        if any(quoted in error for quoted in texts):
            w.connection.execute(update(delivery_table).where(delivery.id == id).values(error=ERASED))
