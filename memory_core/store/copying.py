"""A session's rows out of a database and into one, as values that belong to none (see `copies`).

Out: everything of one session, and of its user what it told or showed. In: as a session of its
own, with numbers of this database for whatever a database numbers (facts, stored turns, deliveries,
entities, relations), the same everywhere, in events too.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update
from sqlmodel import SQLModel

from memory_core.events import FactDecided, FactHeldBack
from memory_core.store.copies import (
    BlockCopy,
    DeliveryCopy,
    EntityCopy,
    EventCopy,
    FactCopy,
    FactRevisionCopy,
    MessageCopy,
    RelationCopy,
    Rows,
    SessionCopy,
    TextCopy,
    VectorCopy,
    WordsCopy,
    hashes_of,
)
from memory_core.store.database import chunks
from memory_core.store.erasing import LEFT_AFTER_SECONDS, UNFINISHED, erase_unfinished, erase_what_was_left
from memory_core.store.pieces import PIECE, OnePiece, Pieces
from memory_core.store.references import Thing, referred, renumbered, subjects
from memory_core.store.tables import (
    DeliveryRow,
    EntityRow,
    FactRow,
    RelationRow,
    VectorRow,
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
    relation_source_table,
    relation_table,
    session_table,
    vector_table,
)
from memory_core.store.vectors import collection_name
from memory_core.store.writing import LEARNERS, SessionState, create_session, session_scope, user_scope

# -- out -----------------------------------------------------------------------------------------


def read_rows(connection: Connection, state: SessionState) -> Rows:
    """Everything of a session, and the facts of its user that it told or showed, or would show next.

    Of those only this session's messages are named as sources, and no other session is.
    """
    kept = set(SessionCopy.model_fields) - {"config", "constructor"}
    session = SessionCopy(
        **{name: value for name, value in asdict(state).items() if name in kept},
        config=json.loads(state.config),
        constructor=json.loads(state.constructor),
    )
    blocks = _read_blocks(connection, state.id)
    events = tuple(
        EventCopy(turn=row.turn, at=row.at, actor=row.actor, kind=row.kind, block=row.block, data=json.loads(row.data))
        for row in _of_session(connection, event_table, state.id, order="id")
    )
    facts = _read_facts(connection, state, blocks, events)
    return Rows(
        session=session,
        blocks=blocks,
        messages=tuple(_copy(MessageCopy, row) for row in _of_session(connection, message_table, state.id, "seq")),
        facts=facts,
        entities=_read_entities(connection, state),
        relations=_read_relations(connection, state),
        vectors=tuple(
            _copy(VectorCopy, row, seqs=tuple(tuple(span) for span in json.loads(row.seqs)))
            for row in _of_session(connection, vector_table, state.id, order="id")
        ),
        deliveries=tuple(_copy(DeliveryCopy, row) for row in _of_session(connection, delivery_table, state.id, "id")),
        words=_read_words(connection, state, facts, events),
        events=events,
    )


def _of_session(connection: Connection, table: Table, session_id: str, order: str) -> Sequence[Any]:
    return connection.execute(select(table).where(table.c.session_id == session_id).order_by(table.c[order])).all()


def _copy(kind: Any, row: Any, **values: Any) -> Any:
    found = {name: value for name, value in row._mapping.items() if name in kind.model_fields}
    return kind(**{**found, **values})


def _read_blocks(connection: Connection, session_id: str) -> tuple[BlockCopy, ...]:
    texts: dict[str, list[TextCopy]] = {}
    for row in _of_session(connection, block_revision_table, session_id, order="revision"):
        texts.setdefault(row.block, []).append(_copy(TextCopy, row))
    return tuple(
        _copy(BlockCopy, row, settings=json.loads(row.settings), texts=tuple(texts.get(row.name, ())))
        for row in _of_session(connection, block_table, session_id, order="position")
    )


def _read_facts(
    connection: Connection, state: SessionState, blocks: Sequence[BlockCopy], events: Iterable[EventCopy]
) -> tuple[FactCopy, ...]:
    f, s, r = fact_table.c, fact_source_table.c, fact_revision_table.c
    rows = list(connection.execute(select(fact_table).where(f.scope == state.scope)))
    if state.user_id is not None:
        named = {number for event in events for thing, number in referred(event.kind, event.data) if thing == "facts"}
        shown = {block.name for block in blocks if block.settings.get("scope") == "user"}
        told = set(connection.execute(select(s.fact_id).where(s.session_id == state.id)).scalars())
        of_user = connection.execute(select(fact_table).where(f.scope == user_scope(state.user_id)))
        rows += [row for row in of_user if row.id in named | told or (row.block in shown and row.state == "active")]
    rows.sort(key=lambda row: int(row.id))
    sources: dict[int, list[int]] = {}
    for fact_id, seq in connection.execute(select(s.fact_id, s.seq).where(s.session_id == state.id).order_by(s.seq)):
        sources.setdefault(fact_id, []).append(seq)
    revisions: dict[int, list[FactRevisionCopy]] = {}
    for chunk in chunks([row.id for row in rows]):
        found = select(fact_revision_table).where(r.fact_id.in_(chunk)).order_by(r.fact_id, r.version)
        for row in connection.execute(found):
            revisions.setdefault(row.fact_id, []).append(_copy(FactRevisionCopy, row, topics=_topics(row)))
    return tuple(
        _copy(
            FactCopy,
            row,
            owner="session" if row.scope == state.scope else "user",
            revisions=tuple(revisions.get(row.id, ())),
            sources=tuple(sources.get(row.id, ())),
            topics=_topics(row),
        )
        for row in rows
    )


def _topics(row: Any) -> tuple[str, ...]:
    return tuple(json.loads(row.topics))


def _read_entities(connection: Connection, state: SessionState) -> tuple[EntityCopy, ...]:
    e = entity_table.c
    rows = connection.execute(select(entity_table).where(e.scope == state.scope).order_by(e.id))
    return tuple(_copy(EntityCopy, row, aliases=tuple(json.loads(row.aliases))) for row in rows)


def _read_relations(connection: Connection, state: SessionState) -> tuple[RelationCopy, ...]:
    r, s = relation_table.c, relation_source_table.c
    said: dict[int, list[int]] = {}
    told = select(s.relation_id, s.seq).where(s.session_id == state.id).order_by(s.seq)
    for relation, seq in connection.execute(told):
        said.setdefault(relation, []).append(seq)
    rows = connection.execute(select(relation_table).where(r.scope == state.scope).order_by(r.id))
    return tuple(_copy(RelationCopy, row, sources=tuple(said.get(row.id, ()))) for row in rows)


def _read_words(
    connection: Connection, state: SessionState, facts: Iterable[FactCopy], events: Iterable[EventCopy]
) -> tuple[WordsCopy, ...]:
    c = content_table.c
    own = select(c.hash, c.data).where(c.scope == state.scope).order_by(c.hash)
    words = [WordsCopy(owner="session", hash=key, data=data) for key, data in connection.execute(own)]
    theirs = {key for fact in facts if fact.owner == "user" for key in hashes_of(fact)}
    if theirs:
        theirs |= _only_in_events(events)
    for chunk in chunks(sorted(theirs)):
        query = select(c.hash, c.data).where(c.scope == user_scope(str(state.user_id)), c.hash.in_(chunk))
        found = connection.execute(query.order_by(c.hash))
        words += [WordsCopy(owner="user", hash=key, data=data) for key, data in found]
    return tuple(words)


def _only_in_events(events: Iterable[EventCopy]) -> set[str]:
    """Hashes of what was found, and held back or decided otherwise: words that no fact may have."""
    return {event.data["content"] for event in events if event.kind in (FactHeldBack.kind, FactDecided.kind)}


# -- in ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Numbers:
    """This database's number of everything that the rows number."""

    known: Mapping[int, int]
    """Facts of the user that were here before; nothing of them is written."""
    unwanted: Collection[int]
    """Facts of the user that shall not be added: they have no rows and no events."""
    given: dict[Thing, dict[int, int]] = field(default_factory=dict)

    def new(self, thing: Thing, number: int) -> int:
        if thing == "facts" and number in self.known:
            return self.known[number]
        return self.given[thing][number]


def store_session(pieces: Pieces, rows: Rows, session_id: str, **how: Any) -> None:
    """`insert_rows` piece by piece; where it fails or is stopped, nothing is left."""
    pieces.count(0)
    erase_what_was_left(pieces, before=how["now"] - LEFT_AFTER_SECONDS)
    try:
        insert_rows(pieces, rows, session_id, **how)
    except BaseException:
        erase_unfinished(Pieces(pieces.database), session_id)
        raise


def insert_rows(
    pieces: Pieces,
    rows: Rows,
    session_id: str,
    *,
    title: str,
    user_id: str | None,
    now: float,
    shared: Collection[int] | None = None,
    user_facts: bool = True,
    heard: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Store a session from its rows; it is there once all are stored. Facts of its user that the user has stay.

    `shared`: the rows are of this database and the user is the same, so these facts of the user keep
    their numbers. Otherwise the user is given the facts it has not got, if `user_facts`.

    `heard`: what stored units say (see `VectorRow.heard`), by their number in the rows, which do not hold it: a bundle
    says nothing that a search relies on.
    """
    database, state = pieces.database, _state(rows, session_id, title, user_id, now)
    users = [fact for fact in rows.facts if fact.owner == "user"]
    with pieces.transaction() as connection:
        create_session(database, connection, replace(state, title=UNFINISHED, deleted_at=now))
        _insert_blocks(connection, rows, session_id)
        known = _known_facts(connection, users, user_id) if shared is None else {number: number for number in shared}
    wanted = user_facts and user_id is not None
    unwanted = {fact.id for fact in users if fact.id not in known and not wanted}
    numbers = _Numbers(known, unwanted)
    own = [fact for fact in rows.facts if fact.owner == "session"]
    new = [fact for fact in users if fact.id not in known and fact.id not in unwanted]
    pieces.run(insert(message_table), [{**m.model_dump(), "session_id": session_id} for m in rows.messages])
    own_values = {fact.id: _fact_values(fact, state.scope) for fact in own}
    _number_everything(pieces, rows, numbers, session_id, own_values, heard)
    _insert_facts(pieces, own, numbers, session_id)
    _insert_sources_of_relations(pieces, rows, numbers, session_id)
    words = [{"scope": state.scope, "hash": w.hash, "data": w.data} for w in rows.words if w.owner == "session"]
    pieces.run(insert(content_table), words)
    _insert_events(pieces, rows.events, numbers, session_id)
    with pieces.transaction() as connection:
        if user_id is not None:
            _add_facts(OnePiece(database, connection), rows, new, numbers, session_id, user_scope(user_id))
        here = session_table.c.id == session_id
        connection.execute(update(session_table).where(here).values(title=title, deleted_at=None))


def _add_facts(
    pieces: Pieces, rows: Rows, facts: Sequence[FactCopy], numbers: _Numbers, session_id: str, scope: str
) -> None:
    """Give a user facts, whose numbers are kept for them, and the words of them and of what the log says of them."""
    pieces.run(
        insert(fact_table), [{**_fact_values(fact, scope), "id": numbers.new("facts", fact.id)} for fact in facts]
    )
    _insert_facts(pieces, facts, numbers, session_id)
    told = {key for fact in facts for key in hashes_of(fact)}
    told |= _only_in_events(_own_events(rows.events, numbers)) if told else set()
    words = [
        {"scope": scope, "hash": word.hash, "data": word.data}
        for word in rows.words
        if word.owner == "user" and word.hash in told
    ]
    with pieces.transaction() as connection:
        pieces.database.insert_if_new(connection, content_table, words)


def _fact_values(fact: FactCopy, scope: str) -> dict[str, Any]:
    values = fact.model_dump(exclude={"id", "owner", "revisions", "sources"})
    return {**values, "scope": scope, "topics": _as_json(fact.topics)}


def _state(rows: Rows, session_id: str, title: str, user_id: str | None, now: float) -> SessionState:
    session = rows.session
    queue = [m for m in rows.messages if m.status == "active" and not m.pinned]
    pinned = [m for m in rows.messages if m.status == "active" and m.pinned]
    return SessionState(
        id=session_id,
        user_id=user_id,
        title=title,
        created_at=session.created_at,
        updated_at=now,
        deleted_at=None,
        next_seq=session.next_seq,
        turns=session.turns,
        newest_turn=max((m.seq for m in queue if m.role == "user"), default=None),
        queue_messages=len(queue),
        queue_content=sum(m.tokens for m in queue),
        queue_reference=sum(m.reference_tokens for m in queue),
        pinned_messages=len(pinned),
        pinned_content=sum(m.tokens for m in pinned),
        pinned_reference=sum(m.reference_tokens for m in pinned),
        archived_messages=sum(m.status == "archived" for m in rows.messages),
        flushes=session.flushes,
        turn_delivered=session.turn_delivered,
        counter=session.counter,
        config=json.dumps(session.config),
        constructor=json.dumps({name: value for name, value in session.constructor.items() if name != LEARNERS}),
        recording=session.recording,
        revision=1,
    )


def _insert_blocks(connection: Connection, rows: Rows, session_id: str) -> None:
    blocks = [
        {**block.model_dump(exclude={"texts"}), "session_id": session_id, "settings": json.dumps(block.settings)}
        for block in rows.blocks
    ]
    texts = [
        {**text.model_dump(), "session_id": session_id, "block": block.name}
        for block in rows.blocks
        for text in block.texts
    ]
    for table, values in ((block_table, blocks), (block_revision_table, texts)):
        if values:
            connection.execute(insert(table), values)


def _known_facts(connection: Connection, users: Sequence[FactCopy], user_id: str | None) -> dict[int, int]:
    """Which of these facts the user has already: the same words in a block of that name, in whatever state."""
    if user_id is None or not users:
        return {}
    f = fact_table.c
    query = select(f.block, f.content, f.id).where(f.scope == user_scope(user_id))
    found = connection.execute(query.order_by(f.state == "active", f.id))  # of several with these words, the active one
    here = {(block, content): number for block, content, number in found}
    return {fact.id: here[fact.block, fact.content] for fact in users if (fact.block, fact.content) in here}


def _number_everything(
    pieces: Pieces,
    rows: Rows,
    numbers: _Numbers,
    session_id: str,
    facts: Mapping[int, Mapping[str, Any]],
    heard: Mapping[int, str],
) -> None:
    """Insert what is numbered; what only events name, and what is inserted later, is given a number nothing has."""
    named: dict[Thing, set[int]] = {thing: set() for thing in get_args(Thing)}
    for event in rows.events:
        for thing, number in referred(event.kind, event.data):
            named[thing].add(number)
    named["facts"] |= {fact.id for fact in rows.facts}
    named["facts"] -= numbers.known.keys()
    numbers.given["facts"] = _insert_numbered(pieces, fact_table, facts, named["facts"])
    vector_values = {
        vector.id: {
            **vector.model_dump(exclude={"id"}),
            "seqs": json.dumps(vector.seqs),
            "session_id": session_id,
            "collection": collection_name(pieces.database, session_id, vector.block, vector.embedder),
            "heard": heard.get(vector.id),
        }
        for vector in rows.vectors
    }
    numbers.given["vectors"] = _insert_numbered(pieces, vector_table, vector_values, named["vectors"])
    delivery_values = {
        delivery.id: {**delivery.model_dump(exclude={"id"}), "session_id": session_id, "next_attempt_at": 0.0}
        for delivery in rows.deliveries
    }
    numbers.given["deliveries"] = _insert_numbered(pieces, delivery_table, delivery_values, named["deliveries"])
    _insert_graphs(pieces, rows, numbers, session_scope(session_id), named)


def _insert_graphs(
    pieces: Pieces, rows: Rows, numbers: _Numbers, scope: str, named: Mapping[Thing, Collection[int]]
) -> None:
    """Entities, then the relations between them; what one of them says of another of its kind is told last."""
    entities = {
        entity.id: {
            **entity.model_dump(exclude={"id", "merged_into"}),
            "aliases": _as_json(entity.aliases),
            "merged_into": None,
            "scope": scope,
        }
        for entity in rows.entities
    }
    numbers.given["entities"] = _insert_numbered(pieces, entity_table, entities, named["entities"])
    relations = {
        relation.id: {
            **relation.model_dump(exclude={"id", "sources", "ended_by"}),
            "subject": numbers.new("entities", relation.subject),
            "object": numbers.new("entities", relation.object),
            "ended_by": None,
            "scope": scope,
        }
        for relation in rows.relations
    }
    numbers.given["relations"] = _insert_numbered(pieces, relation_table, relations, named["relations"])
    merged = {e.id: e.merged_into for e in rows.entities if e.merged_into is not None}
    ended = {r.id: r.ended_by for r in rows.relations if r.ended_by is not None}
    _point(pieces, entity_table, "merged_into", merged, numbers.given["entities"])
    _point(pieces, relation_table, "ended_by", ended, numbers.given["relations"])


def _point(pieces: Pieces, table: Table, column: str, pairs: Mapping[int, int], given: Mapping[int, int]) -> None:
    """Let rows name another row of their table."""
    values = [{"row": given[number], "other": given[other]} for number, other in pairs.items()]
    pieces.run(update(table).where(table.c.id == bindparam("row")).values({column: bindparam("other")}), values)


@cache
def _blank(name: str) -> dict[str, Any]:
    """A row of that table that is inserted for its number alone, and deleted at once.

    Made when one is needed: the first object of any row has SQLAlchemy configure all of them.
    """
    rows: dict[str, SQLModel] = {
        fact_table.name: FactRow(
            scope="", block="", content="", tokens=0, category="", turn=0, created_at=0, confirmed_at=0, updated_at=0
        ),
        vector_table.name: VectorRow(
            collection="", session_id="", block="", embedder="", seqs="[]", first_seq=0, tokens=0, embedding=b"",
            turn=0, created_at=0,
        ),
        delivery_table.name: DeliveryRow(
            session_id="", block="", trigger="", first_seq=0, last_seq=0, messages=0, tokens=0, turn=0, created_at=0
        ),
        entity_table.name: EntityRow(scope="", block="", name="", turn=0, created_at=0, updated_at=0),
        relation_table.name: RelationRow(
            scope="", block="", subject=0, predicate="", object=0, turn=0, created_at=0, confirmed_at=0, updated_at=0
        ),
    }  # fmt: skip
    return rows[name].model_dump(exclude={"id"})


def _insert_numbered(
    pieces: Pieces,
    table: Table,
    values: Mapping[int, Mapping[str, Any]],
    named: Collection[int],
) -> dict[int, int]:
    """Insert rows in order of their numbers; the new number of each, and of each that only has a name."""
    ordered = sorted({*values, *named})
    statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    given: dict[int, int] = {}
    for piece in chunks(ordered, PIECE):
        rows = [values[number] if number in values else _blank(table.name) for number in piece]
        with pieces.transaction() as connection:
            given.update(zip(piece, connection.execute(statement, rows).scalars(), strict=True))
            for chunk in chunks([given[number] for number in piece if number not in values]):
                connection.execute(delete(table).where(table.c.id.in_(chunk)))
        pieces.count(len(piece))
    return given


def _insert_facts(pieces: Pieces, facts: Sequence[FactCopy], numbers: _Numbers, session_id: str) -> None:
    new = {fact.id: numbers.new("facts", fact.id) for fact in facts}
    revisions = [
        {**revision.model_dump(), "fact_id": new[fact.id], "topics": _as_json(revision.topics)}
        for fact in facts
        for revision in fact.revisions
    ]
    pieces.run(insert(fact_revision_table), revisions)
    sources = [
        {"fact_id": new[fact.id], "session_id": session_id, "seq": seq} for fact in facts for seq in fact.sources
    ]
    pieces.run(insert(fact_source_table), sources)


def _insert_sources_of_relations(pieces: Pieces, rows: Rows, numbers: _Numbers, session_id: str) -> None:
    sources = [
        {"relation_id": numbers.new("relations", relation.id), "session_id": session_id, "seq": seq}
        for relation in rows.relations
        for seq in relation.sources
    ]
    pieces.run(insert(relation_source_table), sources)


def _as_json(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _insert_events(pieces: Pieces, events: Iterable[EventCopy], numbers: _Numbers, session_id: str) -> None:
    rows = []
    for event in _own_events(events, numbers):
        data = renumbered(event.kind, event.data, numbers.new)
        values = {name: getattr(event, name) for name in ("turn", "at", "actor", "kind", "block")}
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        rows.append({**values, "session_id": session_id, "data": text})
    pieces.run(insert(event_table), rows)


def _own_events(events: Iterable[EventCopy], numbers: _Numbers) -> Iterator[EventCopy]:
    """The events without the story of facts that is told elsewhere: told twice, it would be another."""
    elsewhere = {*numbers.known, *numbers.unwanted}
    return (event for event in events if elsewhere.isdisjoint(subjects(event.kind, event.data)))
