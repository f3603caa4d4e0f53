"""Former texts of facts that were learned in another session, whose log is not read."""

from collections.abc import Collection

from sqlalchemy import Connection, select

from memory_core.store.database import chunks
from memory_core.store.tables import fact_revision_table


def fact_words_at(connection: Connection, ids: Collection[int], at: float) -> dict[int, str]:
    """Return the hash of each fact's text at a time (seconds since the epoch), by id; unknown facts are missing."""
    table = fact_revision_table.c
    result: dict[int, str] = {}
    for chunk in chunks(sorted(ids)):
        query = select(table.fact_id, table.content).where(table.fact_id.in_(chunk), table.at <= at)
        result.update((id, content) for id, content in connection.execute(query.order_by(table.fact_id, table.version)))
    return result
