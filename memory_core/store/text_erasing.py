"""The single rule for which texts may be erased: those that no row needs.

A text is stored once per scope, under its hash, so code that erases a fact, a relation or messages cannot know by
itself whether something else uses it.
"""

import json
from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, Connection, Select, delete, select, true

from memory_core.events import EntityChanged, RelationChanged
from memory_core.messages import content_hash
from memory_core.planning.running_summary import sentences
from memory_core.store.database import chunks
from memory_core.store.delivery_rows import forget_outputs
from memory_core.store.quarantine_rows import read_states
from memory_core.store.tables import (
    block_revision_table,
    block_table,
    content_table,
    entity_table,
    event_table,
    fact_revision_table,
    fact_table,
    message_table,
    relation_table,
    session_table,
)
from memory_core.store.vector_rows import drop_lonely_vectors
from memory_core.store.writing import Writing

_c = content_table.c


def erase_unneeded(w: Writing, scope: str, keys: Collection[str] | None = None) -> None:
    """Delete the texts of a scope that no row needs, and their vectors: those under `keys`, or all (None).

    A hash in the log does not keep a text: a past prompt then says that its text was erased. Cached outputs of models
    are deleted entirely, as any may derive from these texts.
    """
    w.save()  # first, as the log is searched too
    for chunk in chunks(sorted(unneeded_texts(w.connection, scope, keys))):
        w.connection.execute(delete(content_table).where(_c.scope == scope, _c.hash.in_(chunk)))
    drop_lonely_vectors(w.connection, scope)
    forget_outputs(w.connection, scope)


def unneeded_texts(connection: Connection, scope: str, keys: Collection[str] | None = None) -> set[str]:
    """Return the hashes of the texts of a scope that no row needs, of those under `keys` or of all (None)."""
    # 1. Texts that no column names: the database finds these by itself.
    doomed = _c.scope == scope
    for query in _needing(scope):
        doomed &= _c.hash.not_in(query)
    # 2. Texts that are named within JSON, or only as part of another text, are looked up here.
    e, r = entity_table.c, relation_table.c
    entities = set(connection.execute(select(e.id).where(e.scope == scope)).scalars())
    relations = set(connection.execute(select(r.id).where(r.scope == scope)).scalars())
    in_use = graph_words(connection, scope, entities, relations) | _summary_sentences(connection, scope)
    in_use |= _texts_without_quarantine(connection, scope)
    among: list[ColumnElement[bool]] = (
        [true()] if keys is None else [_c.hash.in_(some) for some in chunks(sorted(keys))]
    )
    return {key for some in among for key in connection.execute(select(_c.hash).where(doomed, some)).scalars()} - in_use


def _needing(scope: str) -> Iterator[Select[tuple[str]]]:
    """Yield the hashes named by rows of a scope and, for a session's scope, by rows of the session."""
    fact, past = fact_table.c, fact_revision_table.c
    yield select(fact.content).where(fact.scope == scope)
    of_scope = past.fact_id.in_(select(fact.id).where(fact.scope == scope))
    yield select(past.content).where(of_scope)
    yield select(fact.key).where(fact.scope == scope, fact.key.is_not(None))
    yield select(past.metadata).where(of_scope, past.metadata.is_not(None))
    kind, _, id = scope.partition(":")
    if kind == "session":
        session, block = session_table.c, block_table.c
        for column, owner in (
            (message_table.c.content, message_table.c.session_id),
            (session.recording, session.id),
            (block.text, block.session_id),
            (block.state, block.session_id),
            (block_revision_table.c.content, block_revision_table.c.session_id),
        ):
            yield select(column).where(owner == id, column.is_not(None))


def graph_words(connection: Connection, scope: str, entities: Collection[int], relations: Collection[int]) -> set[str]:
    """Return the hashes of the texts that entities and relations have or ever had; kept for undo."""
    if not entities and not relations:
        return set()
    hashes: set[str] = set()
    e, r, event = entity_table.c, relation_table.c, event_table.c
    for ids in chunks(sorted(entities)):
        for name, aliases in connection.execute(select(e.name, e.aliases).where(e.id.in_(ids))):
            hashes |= {name, *json.loads(aliases)}
    for ids in chunks(sorted(relations)):
        hashes.update(connection.execute(select(r.predicate).where(r.id.in_(ids))).scalars())
    kinds = (EntityChanged.kind, RelationChanged.kind)
    # Graphs are of sessions only, so the log of one session has all their changes.
    query = select(event.data).where(event.session_id == scope.partition(":")[2], event.kind.in_(kinds))
    for text in connection.execute(query).scalars():
        data = json.loads(text)
        if data.get("entity") in entities or data.get("relation") in relations:
            for values in (data["before"], data["after"]):
                hashes |= {values[name] for name in ("name", "predicate") if name in values}
                hashes.update(values.get("aliases", ()))
    return hashes


def _summary_sentences(connection: Connection, scope: str) -> set[str]:
    """Return hashes of the sentences of every version of a session's summaries: past prompts name them one by one."""
    kind, _, id = scope.partition(":")
    if kind != "session":
        return set()
    block, revision = block_table.c, block_revision_table.c
    texts = (
        select(_c.data)
        .join(block_revision_table, revision.content == _c.hash)
        .join(block_table, (block.session_id == revision.session_id) & (block.name == revision.block))
        .where(_c.scope == scope, block.type == "summary", block.session_id == id)
    )
    return {content_hash(sentence) for text in connection.execute(texts).scalars() for sentence in sentences(text)}


def _texts_without_quarantine(connection: Connection, scope: str) -> set[str]:
    """Return hashes of static texts as they were shown while some of their sentences were in quarantine.

    Past prompts name these texts, which are not versions of a block's text.
    """
    kind, _, id = scope.partition(":")
    states = [state for state in read_states(connection, id) if state.sentences] if kind == "session" else []
    if not states:
        return set()
    revision = block_revision_table.c
    texts = select(_c.data).join(block_revision_table, revision.content == _c.hash)
    stored = connection.execute(texts.where(_c.scope == scope, revision.session_id == id)).scalars().all()
    return {content_hash(state.shown(text)) for text in stored for state in states}
