"""Baselines: numbers of played configurations, kept with the session that they were played on."""

from sqlalchemy import delete, select, update

from memory_core.store.database import Database
from memory_core.store.tables import baseline_table

MAX_KEPT = 8
"""Baselines of one session; the oldest go. Each is compared with by whoever has its id in an address."""

_b = baseline_table.c


def write_baseline(database: Database, id: str, session_id: str, name: str, numbers: bytes, at: float) -> None:
    """Keep a baseline; one of this id is kept already. `at`: seconds since the epoch."""
    with database.write() as connection:
        row = {"id": id, "session_id": session_id, "name": name, "numbers": numbers, "at": at}
        database.insert_if_new(connection, baseline_table, [row])
        newest = select(_b.id).where(_b.session_id == session_id).order_by(_b.at.desc(), _b.id).limit(MAX_KEPT)
        kept = list(connection.execute(newest).scalars())
        connection.execute(delete(baseline_table).where(_b.session_id == session_id, _b.id.not_in(kept)))


def rewrite_baseline(database: Database, id: str, numbers: bytes) -> None:
    """Other numbers for a baseline; nothing if it is not kept any more."""
    with database.write() as connection:
        connection.execute(update(baseline_table).where(_b.id == id).values(numbers=numbers))


def read_baseline(database: Database, id: str) -> tuple[str, str, bytes] | None:
    """Session, name and numbers of a baseline; None if it is not kept any more."""
    with database.read() as connection:
        row = connection.execute(select(_b.session_id, _b.name, _b.numbers).where(_b.id == id)).one_or_none()
    return None if row is None else (row.session_id, row.name, row.numbers)
