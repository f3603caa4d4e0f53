"""Read a session's rows from a database as independent values (see `copies`), and store such values as a session.

Reading takes everything of one session, and the facts of its user that the session learned or showed. Storing creates a
new session, with new ids for facts, stored turns, deliveries, entities and relations, consistently in rows and
events.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, get_args

from sqlalchemy import Connection, Row, Select, Table, bindparam, delete, insert, literal, select, update
from sqlmodel.sql.sqltypes import AutoString

from memory_core.events import FactDecided, FactHeldBack, Ranges, as_json
from memory_core.store.copying.copies import (
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
    Stream,
    TextCopy,
    Thing,
    VectorCopy,
    WordsCopy,
    hashes_of,
    referred,
    refers,
    renumbered,
    streamed,
    subjects,
)
from memory_core.store.database import chunks
from memory_core.store.direct_statements import insert_numbered
from memory_core.store.erasing import (
    LEFT_AFTER_SECONDS,
    UNFINISHED,
    erase_unfinished,
    erase_what_was_left,
    recompute_totals,
)
from memory_core.store.tables import (
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
from memory_core.store.vector_rows import collection_name
from memory_core.store.writing import (
    LEARNERS,
    PIECE,
    PieceWriter,
    SessionState,
    Writing,
    create_session,
    session_scope,
    user_scope,
)

READ_AT_ONCE = 500
"""Rows held in memory at a time while a session is read."""

# -- out -----------------------------------------------------------------------------------------


def read_rows(connection: Connection, state: SessionState, *, whole_user: bool = False) -> Rows:
    """Read everything of a session, and the facts of its user that it learned, showed or would show next.

    `whole_user`: all facts of the user. Facts keep only sources in this session. Rows are read while they are
    iterated, within the connection's transaction.
    """
    names = set(SessionCopy.model_fields) - {"config", "constructor"}
    session = SessionCopy(
        **{name: value for name, value in asdict(state).items() if name in names},
        config=json.loads(state.config),
        constructor=json.loads(state.constructor),
    )

    def of_session(kind: Any, table: Table, order: str, *apart: str) -> Callable[[], Iterable[Any]]:
        columns = [column for column in table.c if column.name in _names(kind) or column.name in apart]
        query = select(*columns).where(table.c.session_id == state.id).order_by(table.c[order])
        return lambda: _stream_rows(connection, query)

    blocks, deliveries = _read_blocks(connection, state.id), of_session(DeliveryCopy, delivery_table, "id")
    events = Stream(of_session(EventCopy, event_table, "id", "person"), _event_of)
    # Once, and only if asked for: it reads the whole log.
    theirs = None if whole_user else cache(lambda: _user_facts_of(connection, state, blocks, events))
    facts: Stream[FactCopy] = Stream(lambda: _read_facts(connection, state, theirs))
    return Rows(
        session=session,
        blocks=blocks,
        messages=Stream(of_session(MessageCopy, message_table, "seq"), partial(_copy, MessageCopy)),
        facts=facts,
        entities=Stream(lambda: _read_entities(connection, state)),
        relations=Stream(lambda: _read_relations(connection, state)),
        vectors=Stream(
            of_session(VectorCopy, vector_table, "id"), lambda row: _copy(VectorCopy, row, seqs=_spans(row.seqs))
        ),
        # Always as copies, as a delivery is due anew.
        deliveries=Stream(lambda: map(partial(_copy, DeliveryCopy), deliveries())),
        words=Stream(lambda: _read_words(connection, state, facts, events), partial(_copy, WordsCopy)),
        events=events,
    )


def _stream_rows(connection: Connection, query: Select[Any]) -> Iterable[Any]:
    return connection.execute(query, execution_options={"yield_per": READ_AT_ONCE})


def _copy(kind: Any, row: Any, **values: Any) -> Any:
    names = _names(kind)
    return kind(**{**{name: value for name, value in zip(row._fields, row, strict=True) if name in names}, **values})


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(kind.model_fields)


def _event_of(row: Any) -> EventCopy:
    data = json.loads(row.data)
    return EventCopy(turn=row.turn, at=row.at, actor=row.actor, kind=row.kind, block=row.block, data=data)


def _spans(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(span) for span in json.loads(text))


def _strings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _read_blocks(connection: Connection, session_id: str) -> tuple[BlockCopy, ...]:
    b, r = block_table.c, block_revision_table.c
    texts: dict[str, list[TextCopy]] = {}
    for row in connection.execute(select(block_revision_table).where(r.session_id == session_id).order_by(r.revision)):
        texts.setdefault(row.block, []).append(_copy(TextCopy, row))
    return tuple(
        _copy(BlockCopy, row, settings=json.loads(row.settings), texts=tuple(texts.get(row.name, ())))
        for row in connection.execute(select(block_table).where(b.session_id == session_id).order_by(b.position))
    )


def _user_facts_of(
    connection: Connection, state: SessionState, blocks: Sequence[BlockCopy], events: Iterable[EventCopy]
) -> frozenset[int]:
    """Return the ids of the user's facts that the session learned or showed, or would show next."""
    if state.user_id is None:
        return frozenset()
    f, s = fact_table.c, fact_source_table.c
    # Learned: named by an event or with a message as source. Shown next: active in a block of user scope.
    named = {number for event in events for thing, number in referred(event.kind, event.data) if thing == "facts"}
    named.update(connection.execute(select(s.fact_id).where(s.session_id == state.id)).scalars())
    shown = [block.name for block in blocks if block.settings.get("scope") == "user"]
    active = (f.scope == user_scope(state.user_id)) & (f.state == "active") & f.block.in_(shown)
    return frozenset(named.union(connection.execute(select(f.id).where(active)).scalars()))


def _read_facts(
    connection: Connection, state: SessionState, theirs: Callable[[], Collection[int]] | None
) -> Iterator[FactCopy]:
    f, s, r = fact_table.c, fact_source_table.c, fact_revision_table.c
    scopes = [state.scope] if state.user_id is None else [state.scope, user_scope(state.user_id)]
    facts = _stream_rows(connection, select(fact_table).where(f.scope.in_(scopes)).order_by(f.id))
    # In chunks, so that versions and sources of many facts are one query, and never all are in memory.
    for rows in chunks(row for row in facts if row.scope == state.scope or theirs is None or row.id in theirs()):
        ids = [row.id for row in rows]
        source_rows = select(s.fact_id, s.seq).where(s.fact_id.in_(ids), s.session_id == state.id).order_by(s.seq)
        sources = _by_first(connection.execute(source_rows))
        had = select(fact_revision_table).where(r.fact_id.in_(ids)).order_by(r.version)
        copies = (
            (row.fact_id, _copy(FactRevisionCopy, row, topics=_strings(row.topics))) for row in connection.execute(had)
        )
        revisions = _by_first(copies)
        for row in rows:
            yield _copy(
                FactCopy,
                row,
                owner="session" if row.scope == state.scope else "user",
                revisions=tuple(revisions.get(row.id, ())),
                sources=tuple(sources.get(row.id, ())),
                topics=_strings(row.topics),
            )


def _by_first(pairs: Iterable[Any]) -> dict[int, list[Any]]:
    result: dict[int, list[Any]] = {}
    for first, second in pairs:
        result.setdefault(first, []).append(second)
    return result


def _read_entities(connection: Connection, state: SessionState) -> Iterator[EntityCopy]:
    e = entity_table.c
    for row in _stream_rows(connection, select(entity_table).where(e.scope == state.scope).order_by(e.id)):
        yield _copy(EntityCopy, row, aliases=_strings(row.aliases))


def _read_relations(connection: Connection, state: SessionState) -> Iterator[RelationCopy]:
    r, s = relation_table.c, relation_source_table.c
    for rows in chunks(_stream_rows(connection, select(relation_table).where(r.scope == state.scope).order_by(r.id))):
        ids = [row.id for row in rows]
        source_rows = (
            select(s.relation_id, s.seq).where(s.relation_id.in_(ids), s.session_id == state.id).order_by(s.seq)
        )
        sources = _by_first(connection.execute(source_rows))
        yield from (_copy(RelationCopy, row, sources=tuple(sources.get(row.id, ()))) for row in rows)


def _read_words(
    connection: Connection, state: SessionState, facts: Iterable[FactCopy], events: Iterable[EventCopy]
) -> Iterator[Any]:
    """Yield rows with the fields of `WordsCopy`."""
    c = content_table.c
    of_session = select(literal("session").label("owner"), c.hash, c.data)
    yield from _stream_rows(connection, of_session.where(c.scope == state.scope).order_by(c.hash))
    if state.user_id is None:
        return
    theirs = {key for fact in facts if fact.owner == "user" for key in hashes_of(fact)}
    if theirs:
        theirs |= _only_in_events((event.kind, event.data) for event in events)
    of_user = select(literal("user").label("owner"), c.hash, c.data).where(c.scope == user_scope(state.user_id))
    for chunk in chunks(sorted(theirs)):
        yield from connection.execute(of_user.where(c.hash.in_(chunk)).order_by(c.hash))


def _only_in_events(events: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str]:
    """Return the hashes of found facts that were held back or decided on: their texts may be only in events."""
    return {data["content"] for kind, data in events if kind in (FactHeldBack.kind, FactDecided.kind)}


# -- in ------------------------------------------------------------------------------------------

Values = dict[str, Any]
"""Values of one table row, by column."""

Heard = Callable[[Mapping[int, Ranges]], Mapping[int, str]]
"""Metadata of stored turns (see `VectorRow.heard`) by id, for the messages of some turns about to be stored."""


_APART = frozenset({"owner", "texts", "revisions", "sources"})
"""Fields of copies that are no columns of their own table."""


def table_rows(copy: Any, session_id: str, user_id: str | None) -> Iterator[tuple[Table, Values]]:
    """Yield the table rows of one copy; rows with an id keep it."""
    values = {name: value for name, value in vars(copy).items() if name not in _APART}
    scope = _scope(vars(copy).get("owner", "session"), session_id, user_id)
    # The most frequent first: Pydantic is slow to say of another class that it is not this one.
    match copy:
        case EventCopy():
            data = as_json(copy.data)
            yield event_table, {"person": None, **values, "session_id": session_id, "data": data}
        case WordsCopy():
            yield content_table, {**values, "scope": scope}
        case MessageCopy():
            yield message_table, {**values, "session_id": session_id}
        case VectorCopy():
            seqs = json.dumps(copy.seqs)
            # The collection is named for the new session later, and metadata is not taken from a bundle.
            yield vector_table, {**values, "session_id": session_id, "collection": "", "seqs": seqs, "heard": None}
        case FactCopy():
            yield fact_table, {**values, "scope": scope, "topics": _json_list(copy.topics)}
            for revision in copy.revisions:
                topics = _json_list(revision.topics)
                yield fact_revision_table, {**dict(revision), "fact_id": copy.id, "topics": topics}
            for seq in copy.sources:
                yield fact_source_table, {"fact_id": copy.id, "session_id": session_id, "seq": seq}
        case SessionCopy():
            yield session_table, asdict(_state(copy, session_id, copy.title, copy.user_id, copy.updated_at))
        case BlockCopy():
            yield block_table, {**values, "session_id": session_id, "settings": json.dumps(copy.settings)}
            for text in copy.texts:
                yield block_revision_table, {**text.model_dump(), "session_id": session_id, "block": copy.name}
        case EntityCopy():
            yield entity_table, {**values, "scope": scope, "aliases": _json_list(copy.aliases)}
        case RelationCopy():
            yield relation_table, {**values, "scope": scope}
            for seq in copy.sources:
                yield relation_source_table, {"relation_id": copy.id, "session_id": session_id, "seq": seq}
        case DeliveryCopy():
            yield delivery_table, {**values, "session_id": session_id, "next_attempt_at": 0.0}


def _values_of(copies: Iterable[Any], table: Table, session_id: str, user_id: str | None) -> Iterator[Values]:
    """Yield the rows of copies in one table. Rows that were read become rows again without copies between them."""
    names: tuple[str, ...] = ()
    for row in streamed(copies).rows:
        if isinstance(row, Row):
            names = names or row._fields  # of all rows of a query, but asking each takes time
            values = dict(zip(names, row, strict=True))
            owner = values.pop("owner", None)
            whose = {"session_id": session_id} if owner is None else {"scope": _scope(owner, session_id, user_id)}
            yield {**values, **whose}
        else:
            yield from (values for to, values in table_rows(row, session_id, user_id) if to is table)


def _scope(owner: str, session_id: str, user_id: str | None) -> str:
    return session_scope(session_id) if owner == "session" else user_scope(str(user_id))


_NAMED: dict[Table, dict[str, Thing]] = {
    fact_revision_table: {"fact_id": "facts"},
    fact_source_table: {"fact_id": "facts"},
    relation_table: {"subject": "entities", "object": "entities"},
    relation_source_table: {"relation_id": "relations"},
}
"""Columns that refer to a row of another table by its id."""


@dataclass(frozen=True)
class _Numbers:
    """Ids in this database for the ids in copied rows."""

    known: Mapping[int, int]
    """Ids here of the user's facts that already exist in this database, by old id; they are not written again."""
    unwanted: Collection[int]
    """Ids of the user's facts to leave out: neither their rows nor their events are stored."""
    given: dict[Thing, dict[int, int]] = field(default_factory=dict)

    def new(self, thing: Thing, number: int) -> int:
        if thing == "facts" and number in self.known:
            return self.known[number]
        return self.given[thing][number]

    def renumbered(self, table: Table, values: Values) -> Values:
        """Return a row with its references changed to ids of this database; the row's own id stays."""
        named = _NAMED.get(table)
        return {**values, **{name: self.new(named[name], values[name]) for name in named}} if named else values


def store_session(pieces: PieceWriter, rows: Rows, session_id: str, **how: Any) -> None:
    """Run `insert_rows` in several transactions; after a failure or a stop, nothing is left."""
    # Lets the caller stop before anything is written.
    pieces.count(0)
    erase_what_was_left(pieces, before=how["now"] - LEFT_AFTER_SECONDS)
    try:
        insert_rows(pieces, rows, session_id, **how)
    except BaseException:
        # Without the caller's step, which may have raised to stop and would again.
        erase_unfinished(PieceWriter(pieces.database), session_id)
        raise


def insert_rows(
    pieces: PieceWriter,
    rows: Rows,
    session_id: str,
    *,
    title: str,
    user_id: str | None,
    now: float,
    shared: Collection[int] | None = None,
    user_facts: bool = True,
    heard: Heard = lambda some: {},
) -> None:
    """Store a session from its rows; it becomes visible once all are stored. Existing facts of its user stay.

    `shared`: the rows come from this database and the user is the same, so facts of the user keep their ids. Otherwise
    facts the user does not have are added if `user_facts` is set.

    `heard` supplies metadata of stored turns, which rows do not contain: metadata from a bundle is not trusted.
    """
    database, state = pieces.database, _state(rows.session, session_id, title, user_id, now)
    users = [] if rows.session.user_id is None else [fact for fact in rows.facts if fact.owner == "user"]
    of_session: Stream[FactCopy] = Stream(lambda: (fact for fact in rows.facts if fact.owner == "session"))

    def of(copies: Iterable[Any], table: Table) -> Iterator[Values]:
        return (numbers.renumbered(table, values) for values in _values_of(copies, table, session_id, user_id))

    with pieces.transaction() as connection:
        # 1. Decide about the user's facts, then store the session as a deleted one, with its blocks: a crash from here
        #    on leaves something that is found and erased.
        existing = _known_facts(connection, users, user_id) if shared is None else {number: number for number in shared}
        unwanted = {fact.id for fact in users if fact.id not in existing and not (user_facts and user_id is not None)}
        numbers = _Numbers(existing, unwanted)
        create_session(database, connection, replace(state, title=UNFINISHED, deleted_at=now))
        for table in (block_table, block_revision_table):
            if values := list(of(rows.blocks, table)):
                connection.execute(insert(table), values)
    # 2. Messages early, as an unfinished session is found by its messages or blocks.
    pieces.run(insert(message_table).inline(), of(rows.messages, message_table))
    # 3. Rows with ids, so that the ids of everything are known to the rows and events that name them.
    _number_everything(pieces, rows, numbers, of_session, users, of, heard, session_id)
    for facts in chunks(of_session, PIECE):
        for table in (fact_revision_table, fact_source_table):
            pieces.run(insert(table).inline(), of(facts, table))
    for table, copies in (
        (relation_source_table, rows.relations),
        (content_table, streamed(rows.words).only(lambda words: (word for word in words if word.owner == "session"))),
    ):
        pieces.run(insert(table).inline(), of(copies, table))
    pieces.run(insert(event_table).inline(), _own_events(of(rows.events, event_table), numbers))
    # 4. The user's new facts only at the end: other sessions of the user would show them at once.
    new = [fact for fact in users if fact.id not in existing and fact.id not in unwanted]
    theirs = _rows_of_user(rows, new, numbers, of)
    with pieces.transaction() as connection:
        for table, values in theirs.items():
            database.insert_if_new(connection, table, values)
        # 5. Saving this row, which has no `deleted_at`, makes the session visible.
        whole = Writing(database, connection, state, now)
        recompute_totals(connection, state)
        whole.save()


_RowsOf = Callable[[Iterable[Any], Table], Iterator[Values]]


def _rows_of_user(rows: Rows, facts: Sequence[FactCopy], numbers: _Numbers, of: _RowsOf) -> dict[Table, list[Values]]:
    """Return the rows to insert for new facts of the user, by table: under their reserved ids, with their texts."""
    if not facts:
        return {}
    events = ((row["kind"], json.loads(row["data"])) for row in _own_events(of(rows.events, event_table), numbers))
    needed = {key for fact in facts for key in hashes_of(fact)} | _only_in_events(events)
    words = (word for word in rows.words if word.owner == "user" and word.hash in needed)
    return {
        fact_table: [{**fact, "id": numbers.new("facts", fact["id"])} for fact in of(facts, fact_table)],
        fact_revision_table: list(of(facts, fact_revision_table)),
        fact_source_table: list(of(facts, fact_source_table)),
        content_table: list(of(words, content_table)),
    }


def _state(session: SessionCopy, session_id: str, title: str, user_id: str | None, now: float) -> SessionState:
    """Return a session's row, with totals still to be computed from its messages."""
    constructor = {name: value for name, value in session.constructor.items() if name != LEARNERS}
    values_of_session = {"id": session_id, "title": title, "user_id": user_id, "updated_at": now}
    config = {"config": json.dumps(session.config), "constructor": json.dumps(constructor)}
    return SessionState(**{**session.model_dump(), **values_of_session, **config})


def _known_facts(connection: Connection, users: Sequence[FactCopy], user_id: str | None) -> dict[int, int]:
    """Map facts that the user already has to their ids here: facts of the same block and key, or text if keyless."""
    if user_id is None or not users:
        return {}
    f = fact_table.c
    query = select(f.block, f.key, f.content, f.id).where(f.scope == user_scope(user_id))
    matching = connection.execute(
        query.order_by(f.state == "active", f.id)
    )  # of several with the same text the last counts: the active one
    here = {_same(block, key, content): number for block, key, content, number in matching}
    same = {fact.id: _same(fact.block, fact.key, fact.content) for fact in users}
    return {id: here[known_id] for id, known_id in same.items() if known_id in here}


def _same(block: str, key: str | None, content: str) -> tuple[str, bool, str]:
    """Return the identity of a fact within its block: its key, or without a key its text."""
    return block, key is not None, content if key is None else key


def _number_everything(
    pieces: PieceWriter,
    rows: Rows,
    numbers: _Numbers,
    of_session: Iterable[FactCopy],
    users: Sequence[FactCopy],
    of: _RowsOf,
    heard: Heard,
    session_id: str,
) -> None:
    """Insert rows with ids; reserve unused ids for things that only events refer to, or that are inserted later."""
    named: dict[Thing, set[int]] = {thing: set() for thing in get_args(Thing)}
    # The log also names things erased since: their ids are reserved, so that they never name anything else.
    for event in streamed(rows.events).only(lambda events: (row for row in events if refers(row.kind))):
        for thing, number in referred(event.kind, event.data):
            named[thing].add(number)
    named["facts"] |= {fact.id for fact in users}
    named["facts"] -= numbers.known.keys()

    def vectors() -> Iterator[Values]:
        for some in chunks(of(rows.vectors, vector_table), PIECE):
            says = heard({values["id"]: json.loads(values["seqs"]) for values in some})
            for values in some:
                values["collection"] = collection_name(pieces.database, session_id, values["block"], values["embedder"])
                yield {**values, "heard": says.get(values["id"])}

    # Referenced kinds come first; references within a kind are set once all its rows exist.
    kinds: tuple[tuple[Thing, Table, Iterable[Values]], ...] = (
        ("facts", fact_table, of(of_session, fact_table)),
        ("vectors", vector_table, vectors()),
        ("deliveries", delivery_table, of(rows.deliveries, delivery_table)),
        ("entities", entity_table, ({**v, "merged_into": None} for v in of(rows.entities, entity_table))),
        ("relations", relation_table, ({**v, "ended_by": None} for v in of(rows.relations, relation_table))),
    )
    for thing, table, values in kinds:
        numbers.given[thing] = _insert_numbered(pieces, table, values, named[thing])
    _point(pieces, entity_table, "merged_into", rows.entities, numbers.given["entities"])
    _point(pieces, relation_table, "ended_by", rows.relations, numbers.given["relations"])


def _point(pieces: PieceWriter, table: Table, column: str, copies: Iterable[Any], new_ids: Mapping[int, int]) -> None:
    """Set references between rows of one table."""
    named = ((copy.id, getattr(copy, column)) for copy in copies)
    values = ({"row": new_ids[number], "other": new_ids[other]} for number, other in named if other is not None)
    pieces.run(update(table).where(table.c.id == bindparam("row")).values({column: bindparam("other")}), values)


@cache
def _blank(table: Table) -> dict[str, Any]:
    """Placeholder row, inserted to obtain an id and deleted at once."""
    # Any value of the right type: the row is gone before the transaction ends.
    kinds = {c.name: None if c.nullable else c.type for c in table.c if not c.primary_key}
    texts = {name: "" for name, kind in kinds.items() if isinstance(kind, AutoString)}
    return {name: kind and kind.python_type() for name, kind in kinds.items()} | texts


def _insert_numbered(
    pieces: PieceWriter, table: Table, rows: Iterable[Values], named: Collection[int]
) -> dict[int, int]:
    """Insert rows in order of their old ids; return new ids by old id, also for the `named` ids."""
    blank = _blank(table)
    numbered = ((values.pop("id"), values) for values in rows)
    only_named = ((number, blank) for number in sorted(named))
    new_ids: dict[int, int] = {}
    # Both are in the order of old ids, and of equal ones `merge` gives the row before the bare number.
    by_id = groupby(merge(numbered, only_named, key=itemgetter(0)), key=itemgetter(0))
    for same in chunks((next(equal) for _, equal in by_id), PIECE):
        with pieces.transaction() as connection:
            ids = insert_numbered(connection, table, [values for _, values in same])
            # Deleted at once: the tables never reuse an id, so it stays reserved.
            for chunk in chunks(new for (_, values), new in zip(same, ids, strict=True) if values is blank):
                connection.execute(delete(table).where(table.c.id.in_(chunk)))
        new_ids.update(zip((number for number, _ in same), ids, strict=True))
        pieces.count(len(same))
    return new_ids


def _json_list(values: Sequence[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)


def _own_events(events: Iterable[Values], numbers: _Numbers) -> Iterator[Values]:
    """Yield rows of events with ids of this database, without events about facts that are not stored with the session.

    The user's existing facts have their own history; a second copy of it would contradict the first.
    """
    elsewhere = {*numbers.known, *numbers.unwanted}
    for event in events:
        kind = event["kind"]
        data = json.loads(event["data"]) if refers(kind) else {}
        if elsewhere.isdisjoint(subjects(kind, data)):
            yield {**event, "data": as_json(renumbered(kind, data, numbers.new))} if data else event
