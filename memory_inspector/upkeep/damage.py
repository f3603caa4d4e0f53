"""Find damage in a database and its vector index, and mend what can be mended without loss.

    for finding in find_damage(database, index):
        print(finding.number, finding.what, finding.advice)

Damage comes from outside: a crash of the disk, a program that wrote to the tables, a copy of half a file.
"""

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, literal, not_, or_, select

from memory_core.errors import StoreError, VectorIndexError
from memory_core.store.copying.copies import hashes_in
from memory_core.store.database import Database, chunks
from memory_core.store.erasing import (
    LEFT_AFTER_SECONDS,
    erase_all,
    erase_what_was_left,
    is_unfinished,
    recompute_totals,
)
from memory_core.store.fact_rows import scope_sessions
from memory_core.store.tables import (
    TABLES,
    USERS,
    block_table,
    content_table,
    entity_table,
    event_table,
    fact_table,
    message_table,
    relation_table,
    session_table,
    vector_table,
    word_vector_table,
)
from memory_core.store.text_erasing import unneeded_texts
from memory_core.store.totals import StoredCollection, emptied_collections, read_collections
from memory_core.store.vector_rows import (
    NO_EMBEDDER,
    NO_VECTOR,
    DatabaseVectors,
    collection_name,
    drop_lonely_vectors,
    joined_collections,
    remove_nodes,
    replace_vectors,
)
from memory_core.store.writing import (
    PieceWriter,
    SessionState,
    Writing,
    read_session,
    read_sessions,
    session_scope,
    writing,
)
from memory_core.vectors.pgvector import PgvectorIndex
from memory_core.vectors.vector_index import VectorIndex
from memory_inspector.upkeep.health import can_be_rebuilt, finds_newest

RESTORE = "restore a backup"
"""Advice for damage that cannot be mended from what is left."""

WRITTEN = (message_table, event_table, block_table, fact_table, entity_table, relation_table)
"""Tables of what somebody said or wrote: a row that lacks something is not deleted."""

_OF_INDEX = re.compile(r"(row \d+ missing from|wrong # of entries in|non-unique entry in) index ")
"""Faults that SQLite names and that rebuilding an index mends, as it is a copy of a table's columns."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Damage of one kind."""

    what: str
    number: int
    advice: str = ""
    """Remedy for what cannot be mended here; empty: `repair_damage` mends it."""
    harmless: bool = False
    """True for what ordinary use may leave behind, and only takes space."""


@dataclass(frozen=True, slots=True)
class _Check:
    what: str
    count: Callable[[], int]
    mend: Callable[[], None] | None = None
    advice: str = RESTORE
    harmless: bool = False

    def find(self) -> list[Damage]:
        number = self.count()
        advice = "" if self.mend else self.advice
        return [Damage(self.what, number, advice, self.harmless)] if number else []


def find_damage(database: Database, index: VectorIndex) -> list[Damage]:
    """Return what is damaged; empty if nothing is. Only the index is written to: it catches up with the database.

    Raises:
        StoreError: the database cannot be reached.
    """
    if broken := _broken_pages(database):
        return broken
    return [finding for check in _checks(database, index) for finding in check.find()]


def repair_damage(database: Database, index: VectorIndex) -> None:
    """Mend all damage that can be mended without loss; a second call does nothing.

    Totals are counted anew, rows that nothing can show are deleted, and copies of vectors are rebuilt.

    Raises:
        StoreError: the database cannot be reached, or is damaged itself.
    """
    if broken := _broken_pages(database):
        if broken[0].advice:
            return
        with database.write() as connection:
            connection.exec_driver_sql("REINDEX")
    # What was lost may come back with its row, and would miss a text that nothing names until then.
    lost = any(finding.advice for finding in find_damage(database, index))
    for check in _checks(database, index):
        if check.mend is not None and not (lost and check.harmless) and check.count():
            check.mend()


def _broken_pages(database: Database) -> list[Damage]:
    """Return the damage that SQLite finds in its file. PostgreSQL has its own tools, for its administrator."""
    if not database.is_sqlite:
        return []
    try:
        with database.read() as connection:
            lines = connection.exec_driver_sql("PRAGMA integrity_check").scalars().all()
    except StoreError as error:
        lines = [str(error)]
    indexes = all(_OF_INDEX.match(line) for line in lines)
    broken = [line for line in lines if line != "ok"]
    what = f"faults of the file itself: {broken[0].splitlines()[0]}" if broken else ""
    return [Damage(what, len(broken), "" if indexes else RESTORE)] if broken else []


def _checks(database: Database, index: VectorIndex) -> list[_Check]:
    before = time.time() - LEFT_AFTER_SECONDS
    return [
        *_row_checks(database),
        _Check(
            "deleted or unfinished sessions that still have rows",
            lambda: _count(database, session_table, is_unfinished() & (session_table.c.deleted_at < before)),
            lambda: erase_what_was_left(PieceWriter(database), before=before),
        ),
        _Check(
            "sessions whose totals differ from their messages",
            lambda: len(_wrong_totals(database)),
            lambda: _recount(database),
        ),
        _Check(
            "texts that nothing names", lambda: len(_unnamed(database)), lambda: _drop_unnamed(database), harmless=True
        ),
        _Check(
            "stored turns whose messages are gone",
            lambda: _count(database, vector_table, _without_messages()),
            lambda: _drop_turns(database),
        ),
        _Check("vectors that cannot be used", lambda: len(_unusable(database)), lambda: _embed_again(database)),
        *_index_checks(database, index),
    ]


# -- rows ----------------------------------------------------------------------------------------


def _row_checks(database: Database) -> Iterator[_Check]:
    """Yield a check for each reference between tables, those included that are no foreign keys."""
    of_session, c = literal(session_scope("")), content_table.c
    for table in TABLES:
        for key in table.foreign_key_constraints:
            where = _missing(key.referred_table, *(part.parent == part.column for part in key.elements))
            column = key.elements[0].parent.name if len(key.elements) == 1 else "block"
            yield from _row_check(database, table, f"{column} without a row in {key.referred_table.name}", where)
    for table in (fact_table, entity_table, relation_table):
        gone = _missing(session_table, of_session + session_table.c.id == table.c.scope)
        where = and_(table.c.scope.startswith(session_scope(""), autoescape=True), gone)
        yield from _row_check(database, table, "scope without a row in mi_session", where)
    for table, column in ((message_table, "content"), (fact_table, "content"), (block_table, "text")):
        scope = table.c.scope if "scope" in table.c else of_session + table.c.session_id
        where = and_(table.c[column].is_not(None), _missing(content_table, c.scope == scope, c.hash == table.c[column]))
        # The deletion of a session erases its texts first.
        where = where if "scope" in table.c else and_(where, _of_existing(table))
        yield from _row_check(database, table, f"{column} without a text", where)
    word = word_vector_table.c
    where = _missing(content_table, c.scope == word.scope, c.hash == word.hash)
    yield from _row_check(database, word_vector_table, "hash without a text", where)


def _row_check(database: Database, table: Table, what: str, where: ColumnElement[bool]) -> Iterator[_Check]:
    """Yield the check for rows of a table, and one more for those that a person wrote, which are not deleted."""
    if table not in WRITTEN:
        loose = and_(where, table.c.actor.not_in(USERS)) if "actor" in table.c else where
        mend = partial(erase_all, PieceWriter(database), table, loose)
        yield _Check(f"{table.name}: {what}", partial(_count, database, table, loose), mend)
    if table in WRITTEN or "actor" in table.c:
        written = where if table in WRITTEN else and_(where, table.c.actor.in_(USERS))
        yield _Check(f"{table.name}: {what}, written", partial(_count, database, table, written))


def _missing(table: Table, *on: ColumnElement[bool]) -> ColumnElement[bool]:
    return not_(exists().where(*on).select_from(table))


def _of_existing(table: Table) -> ColumnElement[bool]:
    s = session_table.c
    return exists().where(s.id == table.c.session_id, s.deleted_at.is_(None))


def _count(database: Database, table: Table, where: ColumnElement[bool]) -> int:
    with database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table).where(where)).scalar_one())


# -- totals --------------------------------------------------------------------------------------


def _recounted(connection: Connection, state: SessionState) -> SessionState:
    fresh = replace(state)
    recompute_totals(connection, fresh)
    newest = connection.execute(select(func.max(message_table.c.seq)).where(message_table.c.session_id == state.id))
    fresh.next_seq = max(state.next_seq, (newest.scalar() or 0) + 1)
    return fresh


def _wrong_totals(database: Database) -> list[SessionState]:
    with database.read() as connection:
        return [state for state in read_sessions(connection) if _recounted(connection, state) != state]


def _recount(database: Database) -> None:
    for state in _wrong_totals(database):
        with _repairing(database, state.id) as w:
            w.session.next_seq = _recounted(w.connection, w.session).next_seq
            recompute_totals(w.connection, w.session)
            w.session.revision += 1  # so that caches of the queue are read again


@contextmanager
def _repairing(database: Database, session_id: str) -> Iterator[Writing]:
    """Open a writing transaction that does not count as a use of the session."""
    with writing(database, session_id) as w:
        w.now = w.session.updated_at
        yield w


# -- texts ---------------------------------------------------------------------------------------


def _unnamed(database: Database) -> set[tuple[str, str]]:
    """Return scope and hash of the texts that neither a row nor the log names."""
    with database.read() as connection:
        scopes = connection.execute(select(content_table.c.scope).distinct()).scalars().all()
        # Being stored or erased at this moment: see `is_unfinished`.
        deleted = select(session_table.c.id).where(session_table.c.deleted_at.is_not(None))
        unfinished = {session_scope(id) for id in connection.execute(deleted).scalars()}
        return {(scope, key) for scope in set(scopes) - unfinished for key in _unnamed_in(connection, scope)}


def _unnamed_in(connection: Connection, scope: str) -> set[str]:
    unnamed, where = unneeded_texts(connection, scope), scope_sessions(scope)
    if not scope.startswith(session_scope("")):
        # The log of a deleted session still has the events about its user's facts.
        deleted = select(session_table.c.id).where(session_table.c.deleted_at.is_not(None))
        where = or_(where, event_table.c.session_id.in_(deleted))
    log = select(event_table.c.data).where(where)
    for data in connection.execute(log, execution_options={"yield_per": 500}).scalars() if unnamed else ():
        unnamed -= hashes_in(data)
    return unnamed


def _drop_unnamed(database: Database) -> None:
    for scope in sorted({scope for scope, _ in _unnamed(database)}):
        kind, _, id = scope.partition(":")
        with database.write() as connection:
            # Locked like every writer's sessions, as a text may come into use again until then.
            ids = [id] if kind == "session" else sorted(s.id for s in read_sessions(connection, user_id=id))
            for session_id in ids:
                read_session(connection, session_id, lock=not database.is_sqlite)
            c = content_table.c
            for keys in chunks(sorted(_unnamed_in(connection, scope))):
                connection.execute(delete(content_table).where(c.scope == scope, c.hash.in_(keys)))
            drop_lonely_vectors(connection, scope)


# -- vectors -------------------------------------------------------------------------------------


def _without_messages() -> ColumnElement[bool]:
    m, v = message_table.c, vector_table.c
    return and_(
        _of_existing(vector_table),
        _missing(message_table, m.session_id == v.session_id, m.seq == v.first_seq),
    )


def _drop_turns(database: Database) -> None:
    v = vector_table.c
    with database.read() as connection:
        rows = connection.execute(select(v.session_id, v.id).where(_without_messages())).all()
    numbers: dict[str, list[int]] = {}
    for session_id, number in rows:
        numbers.setdefault(session_id, []).append(number)
    for session_id, some in numbers.items():
        for chunk in chunks(some):
            with _repairing(database, session_id) as w:
                remove_nodes(w, numbers=chunk)


def _collections(database: Database) -> list[StoredCollection]:
    """Return the collections whose vectors an index copies: not those of stored turns that wait for theirs."""
    with database.read() as connection:
        return [
            stored
            for stored in read_collections(connection)
            if stored.name != collection_name(database, stored.session_id, stored.block, NO_EMBEDDER)
        ]


def _unusable(database: Database) -> list[tuple[StoredCollection, set[int]]]:
    """Return the vectors that are no numbers, or not as many as most of their collection, where there are any."""
    unusable: list[tuple[StoredCollection, set[int]]] = []
    v, times = vector_table.c, func.count()
    length = func.length(v.embedding)
    for stored in _collections(database):
        with database.read() as connection:
            # The most frequent length first.
            lengths = select(length).where(v.collection == stored.name).group_by(length).order_by(times.desc())
            usual = connection.execute(lengths.limit(1)).scalar() or 0
        numbers: set[int] = set()
        deque(DatabaseVectors(database, stored.name, max(1, usual // 4), numbers).vectors(), maxlen=0)
        if numbers:
            unusable.append((stored, numbers))
    return unusable


def _embed_again(database: Database) -> None:
    """Mark stored turns as being without a vector, so that the next process with the model embeds them."""
    for stored, numbers in _unusable(database):
        with _repairing(database, stored.session_id) as w:
            replace_vectors(w, stored.block, NO_EMBEDDER, dict.fromkeys(numbers, NO_VECTOR))


# -- index ---------------------------------------------------------------------------------------


def _index_checks(database: Database, index: VectorIndex) -> Sequence[_Check]:
    if not can_be_rebuilt(index):
        return ()
    try:
        index.check()
    except VectorIndexError as error:
        return (_Check("vector index that cannot be checked", lambda: 1, advice=str(error)),)

    def mend() -> None:
        for stored in _differing(database, index):
            index.forget(stored.name)
            finds_newest(database, index, stored.name, stored.newest)

    def forget() -> None:
        for name in _left_over(database, index):
            index.forget(name)

    return (
        _Check(
            f"copies in {index.name} that differ from the stored vectors",
            lambda: len(_differing(database, index)),
            mend,
        ),
        _Check(
            f"copies in {index.name} of vectors that were all deleted",
            lambda: len(_left_over(database, index)),
            forget,
            harmless=True,
        ),
    )


def _copied(index: VectorIndex, collection: str) -> set[int] | None:
    """Return the numbers in a copy; None without one, or if the index cannot list them (`copied_numbers`)."""
    listing: Callable[[str], set[int] | None] | None = getattr(index, "copied_numbers", None)
    return None if listing is None else listing(collection)


def _differing(database: Database, index: VectorIndex) -> list[StoredCollection]:
    """Return the collections of which the index has other vectors, or does not find the newest."""
    differing, copies = [], index.copied_collections() if isinstance(index, PgvectorIndex) else None
    for stored in _collections(database):
        # pgvector would begin a copy, which takes minutes, only to check it.
        if copies is not None and stored.name not in copies:
            continue
        # The search first: a copy that only lags behind catches up.
        finds = finds_newest(database, index, stored.name, stored.newest)
        copied = _copied(index, stored.name)
        numbers = {vector.number for vector in DatabaseVectors(database, stored.name).vectors()}
        if not finds or (copied is not None and copied != numbers):
            differing.append(stored)
    return differing


def _left_over(database: Database, index: VectorIndex) -> set[str]:
    """Return the collections without vectors that the index has a copy of, those of deleted tenants included."""
    listing: Callable[[], set[str]] = getattr(index, "copied_collections", set)
    copies = listing()  # before the vectors: those of a new copy are stored
    with database.read() as connection:
        emptied, joined = emptied_collections(connection), joined_collections(database, connection)
        used = joined.union(stored.name for stored in read_collections(connection))
    # Others may have copies in the same Chroma, pgvector's are all of this tenant.
    return copies - used if isinstance(index, PgvectorIndex) else copies.intersection(emptied) - used
