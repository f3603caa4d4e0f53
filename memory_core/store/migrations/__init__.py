"""Schema revisions, run by Alembic when a database of an earlier version is opened.

A revision only adds (columns with a default, tables, indexes), so that a process of the version before, which still
runs, loses nothing. What is no longer used is removed by a later revision, once no such process can run; that revision
raises `tables.COMPATIBLE_FROM`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from memory_core.store.tables import SCHEMA_VERSION


def upgrade(connection: Connection, schema: str | None) -> None:
    """Run all revisions that a database lacks, within the connection's transaction."""
    from alembic import command  # here: takes 0.1 s, needed for old databases only

    command.upgrade(_config(connection, schema), "head")


def stamp(connection: Connection, schema: str | None) -> None:
    """Record that a database has all revisions, as its tables were just created."""
    from sqlalchemy import Column, MetaData, String, Table, insert

    # As Alembic does, without loading it.
    table = Table("mi_revision", MetaData(), Column("version_num", String(32), primary_key=True), schema=schema)
    table.create(connection)
    connection.execute(insert(table).values(version_num=str(SCHEMA_VERSION)))


def pending(version: int) -> Iterator[tuple[int, str]]:
    """Return number and description of the revisions that a database of this schema version lacks, oldest first."""
    from alembic.script import ScriptDirectory

    for script in reversed([*ScriptDirectory.from_config(_config(None, None)).walk_revisions()]):
        if int(script.revision) > version:
            yield int(script.revision), script.doc


def _config(connection: Connection | None, schema: str | None) -> Any:
    from alembic.config import Config

    config = Config(attributes={"connection": connection, "schema": schema})
    config.set_main_option("script_location", str(Path(__file__).parent))
    return config
