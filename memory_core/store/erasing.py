"""Erase facts, messages and sessions, with their texts unless remaining rows need them."""

import json
import uuid
from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Row, Table, delete, exists, func, insert, or_, select, tuple_, update

from memory_core.events import Actor, FactAdded, FactDecided, FactErased, FactHeldBack, NothingLearned, SessionReset
from memory_core.messages import MessageStatus, content_hash
from memory_core.planning.fact_merging import Fact
from memory_core.planning.impact import ERASED
from memory_core.store.block_rows import empty_summaries, read_blocks
from memory_core.store.database import Database, chunks
from memory_core.store.delivery_rows import covers
from memory_core.store.derived_files import forget_derived
from memory_core.store.fact_rows import drop_sources, read_by_ids, read_scope_events, scope_sessions
from memory_core.store.graph_rows import erase_all_graphs, forget_sources
from memory_core.store.leases import forget_agent
from memory_core.store.tables import (
    baseline_table,
    block_revision_table,
    block_table,
    content_table,
    delivery_table,
    entity_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    message_table,
    model_output_table,
    relation_source_table,
    relation_table,
    session_table,
    span_table,
    vector_table,
    word_vector_table,
)
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.vector_rows import count_gone, note_joined, remove_nodes
from memory_core.store.writing import PIECE, PieceWriter, SessionState, Writing, read_texts, session_scope
from memory_core.vectors.pgvector import PgvectorIndex

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


# -- messages and sessions ------------------------------------------------------------------------


_m = message_table.c

UNFINISHED = "(unfinished)"
"""Title of a session while it is being stored."""

ERASING = "(erasing)"
"""Title of a deleted session while its rows are erased in pieces; then it has an empty title."""

LEFT_AFTER_SECONDS = 3_600
"""Seconds since a session was marked as deleted, after which unfinished storing or erasing counts as abandoned."""


def message_seqs(connection: Connection, session_id: str, status: MessageStatus | None) -> list[int]:
    """Return the sequence numbers of a session's messages; `status=None` for all."""
    query = select(_m.seq).where(_m.session_id == session_id).order_by(_m.seq)
    if status is not None:
        query = query.where(_m.status == str(status))
    return list(connection.execute(query).scalars())


def remove_messages(w: Writing, seqs: Sequence[int], *, counts_anew: bool = True) -> None:
    """Delete messages and update the running totals. `erase_unneeded` erases their texts.

    `counts_anew`: turns are counted from 0 again when no message is left.
    """
    for chunk in chunks(seqs):
        w.connection.execute(delete(message_table).where(_m.session_id == w.session.id, _m.seq.in_(chunk)))
    # From the rows that are left, as removed ones may be queued, pinned or archived.
    recompute_totals(w.connection, w.session)
    if counts_anew and not any((w.session.queue_messages, w.session.archived_messages, w.session.pinned_messages)):
        w.session.turns = 0
    w.session.revision += 1  # so that caches of the queue are read again


def reset_messages(w: Writing, status: MessageStatus | None, *, with_user_memory: bool) -> None:
    """Delete messages of a status (None: all) and what was learned from them alone; keep what has other sources.

    The user's facts are deleted only with `with_user_memory`.
    """
    seqs = message_seqs(w.connection, w.session.id, status)
    # Before the messages, in any order: stored turns, facts, relations and summaries name messages by number.
    vectors = remove_nodes(w, seqs=seqs)
    lonely = [
        fact
        # Facts that have lost their last source; those with sources in other sessions stay.
        for fact in read_by_ids(w.connection, drop_sources(w, seqs))
        if fact.origin != "written" and (with_user_memory or fact.scope == w.session.scope)
    ]
    if status is None:  # a condensed fact may name no message, and still comes from them
        ids = w.connection.execute(select(fact_table.c.id).where(fact_table.c.scope == w.session.scope)).scalars()
        of_session = read_by_ids(w.connection, list(ids))
        lonely += [fact for fact in of_session if fact.origin != "written" and not fact.sources]
    # A fact may be in both lists.
    lonely = list({fact.id: fact for fact in lonely}.values())
    erase_facts(w, lonely)
    forget_sources(w, seqs, with_unsourced=status is None)
    empty_summaries(w, seqs)
    clear_failed_texts(w)
    remove_messages(w, seqs)
    remove_empty_deliveries(w)
    if status is None:
        # Custom blocks learned from erased messages: they restart from their constructor's values.
        where = block_table.c.session_id == w.session.id
        w.connection.execute(update(block_table).where(where).values(state=None))
    erase_unneeded(w, w.session.scope)
    w.record(
        SessionReset(status=str(status) if status else None, messages=len(seqs), facts=len(lonely), vectors=vectors)
    )


def bury(w: Writing) -> list[str]:
    """Mark a session as deleted; clear its row, graphs and sources. `erase_remains` erases the rest.

    Returns the collections that join its vectors with those of other sessions, for `erase_remains`.
    """
    joined = note_joined(w)
    erase_all_graphs(w)
    drop_sources(w, None)
    w.session.recording = w.session.watched = w.session.probes = w.session.opened_from = None
    w.session.title, w.session.user_id, w.session.deleted_at = "", None, w.now
    w.session.config = w.session.constructor = "{}"
    return joined


def erase_unfinished(pieces: PieceWriter, session_id: str) -> None:
    """Erase an incompletely stored session. It was never visible, so no tombstone remains."""
    erase_remains(pieces, session_id, whole_log=True)
    with pieces.transaction() as connection:
        connection.execute(delete(session_table).where(session_table.c.id == session_id))


def erase_remains(
    pieces: PieceWriter, session_id: str, *, joined: Sequence[str] = (), whole_log: bool = False
) -> list[str]:
    """Erase the remaining rows of a deleted session. Repeatable: a second run continues an interrupted one.

    Events about the user's facts stay in the log, as those facts do, unless `whole_log` is set. Returns `joined` and
    the session's own collections: pgvector's copies lose its vectors here, those of another index have to be forgotten.
    """
    scope, database = session_scope(session_id), pieces.database
    with pieces.transaction() as connection:
        # Before the blocks are deleted: their settings say whose facts their events are about.
        users = [b.name for b in read_blocks(connection, session_id) if b.settings.get("scope") == "user"]
    event = event_table.c
    # Events about the user's facts stay: the facts live on, and only this log has their history.
    goes = event.block.is_(None) | event.block.not_in(users) | ~event.kind.like("fact%") | whole_log
    facts = select(fact_table.c.id).where(fact_table.c.scope == scope)
    # Rows that are found through facts or relations are erased before them.
    for table in (fact_revision_table, fact_source_table):
        erase_all(pieces, table, table.c.fact_id.in_(facts))
    relations = select(relation_table.c.id).where(relation_table.c.scope == scope)
    erase_all(pieces, relation_source_table, relation_source_table.c.relation_id.in_(relations))
    for table in (fact_table, relation_table, entity_table, content_table, word_vector_table):
        erase_all(pieces, table, table.c.scope == scope)
    erase_all(pieces, event_table, (event.session_id == session_id) & goes)
    with pieces.transaction() as connection:
        # Before the vectors, which name their collections. If counted twice, an index only reads once more.
        collections = [*joined, *count_gone(database, connection, session_id)]
        forget_agent(connection, session_id)
    of_session = (vector_table, delivery_table, message_table, block_revision_table)
    for table in (baseline_table, model_output_table, span_table, *of_session):
        erase_all(pieces, table, table.c.session_id == session_id)
    with pieces.transaction() as connection:
        # Last, and both at once: `is_unfinished` finds an interrupted erasing by the title, and without the blocks its
        # second run would not know which events stay.
        connection.execute(delete(block_table).where(block_table.c.session_id == session_id))
        where = (session_table.c.id == session_id) & (session_table.c.title == ERASING)
        connection.execute(update(session_table).where(where).values(title=""))
        if collections and not database.is_sqlite:
            PgvectorIndex(database).forget_erased(connection, collections)
        # Once more: a process that did not know of the deletion may have kept what it read between two pieces.
        forget_derived(database, session_id)
    return collections


def erase_what_was_left(pieces: PieceWriter, *, before: float) -> None:
    """Erase the rows of sessions whose storing or erasing was never finished.

    `before`: seconds since the epoch; sessions marked as deleted later may still be worked on.
    """
    for session_id, title in _unfinished(pieces.database, session_table.c.deleted_at < before):
        (erase_unfinished if title == UNFINISHED else erase_remains)(pieces, session_id)


def has_remains(database: Database, session_id: str) -> bool:
    """Return whether an interrupted deletion left rows of a session."""
    session = session_table.c
    return bool(_unfinished(database, (session.id == session_id) & (session.title != UNFINISHED)))


def is_unfinished() -> ColumnElement[bool]:
    """Return the condition for a row of a deleted session whose storing or erasing has not ended."""
    session = session_table.c
    # Sessions whose erasing began before it had a title still have messages or blocks, which are erased last.
    with_rows = (exists().where(table.c.session_id == session.id) for table in (block_table, message_table))
    return session.deleted_at.is_not(None) & or_(session.title != "", *with_rows)


def _unfinished(database: Database, where: ColumnElement[bool]) -> Sequence[Row[str, str]]:
    """Return id and title of such sessions."""
    query = select(session_table.c.id, session_table.c.title).where(is_unfinished(), where)
    with database.read() as connection:
        return connection.execute(query).all()


def erase_all(pieces: PieceWriter, table: Table, where: ColumnElement[bool]) -> None:
    """Delete the rows of a table that meet a condition, one piece at a time."""
    # A limit in a subquery, as PostgreSQL knows none in DELETE.
    key = tuple_(*table.primary_key.columns)
    while True:
        with pieces.transaction() as connection:
            doomed = select(*table.primary_key.columns).where(where).limit(PIECE)
            gone = connection.execute(delete(table).where(key.in_(doomed))).rowcount
        pieces.count(gone)
        if gone < PIECE:
            return


def move_tombstone(w: Writing, end: int) -> None:
    """Rename the remains of an erased session, so that its id can be used again.

    `end`: the last position of its log, which stays taken: readers that followed the log continue after it.
    """
    new = f"{w.session.id}-{uuid.uuid4().hex}"
    events, sessions = event_table.c.session_id, session_table.c.id
    # The remaining events are about the user's facts; keys are checked at the commit, when both have the new id.
    w.connection.execute(update(event_table).where(events == w.session.id).values(session_id=new))
    w.connection.execute(update(session_table).where(sessions == w.session.id).values(id=new))
    w.session.id = new
    # Without a row at that position SQLite would give the number to the next event.
    if (w.connection.execute(select(func.max(event_table.c.id))).scalar() or 0) < end:
        event = SessionReset(status=None, messages=0, facts=0, vectors=0)
        row = {"id": end, "session_id": new, "turn": 0, "at": w.now, "actor": "user", "kind": event.kind}
        w.connection.execute(insert(event_table).values(**row, data=event.to_json()))


def clear_failed_texts(w: Writing) -> None:
    """Clear error texts in the log: they may quote erased messages. Events about facts are cleared with the facts."""
    quoting = ("delivery_failed", "delivery_parked", "block_failed", "model_called")
    where = (event_table.c.session_id == w.session.id) & event_table.c.kind.in_(quoting)
    for position, text in w.connection.execute(select(event_table.c.id, event_table.c.data).where(where)).all():
        data = json.loads(text)
        if data["error"]:
            blank = json.dumps({**data, "error": ERASED}, ensure_ascii=False, separators=(",", ":"))
            w.connection.execute(update(event_table).where(event_table.c.id == position).values(data=blank))
    where = (delivery_table.c.session_id == w.session.id) & delivery_table.c.error.is_not(None)
    w.connection.execute(update(delivery_table).where(where).values(error=ERASED))


def remove_empty_deliveries(w: Writing) -> None:
    """Delete deliveries without messages."""
    remaining = select(_m.seq).where(_m.session_id == w.session.id, covers()).correlate(delivery_table)
    where = delivery_table.c.session_id == w.session.id
    w.connection.execute(delete(delivery_table).where(where, ~remaining.exists()))


def recompute_totals(connection: Connection, session: SessionState) -> None:
    """Recompute a session's running totals from its messages. Turns come from the log: see `remove_messages`."""
    sums = select(
        func.count(), func.coalesce(func.sum(_m.tokens), 0), func.coalesce(func.sum(_m.reference_tokens), 0)
    ).where(_m.session_id == session.id)
    active = sums.where(_m.status == str(MessageStatus.ACTIVE))
    session.queue_messages, session.queue_content, session.queue_reference = map(
        int, connection.execute(active.where(_m.pinned.is_(False))).one()
    )
    session.pinned_messages, session.pinned_content, session.pinned_reference = map(
        int, connection.execute(active.where(_m.pinned.is_(True))).one()
    )
    session.archived_messages = int(connection.execute(sums.where(_m.status == str(MessageStatus.ARCHIVED))).one()[0])
    newest = select(func.max(_m.seq)).where(
        _m.session_id == session.id, _m.status == str(MessageStatus.ACTIVE), _m.role == "user"
    )
    session.newest_turn = connection.execute(newest).scalar()
