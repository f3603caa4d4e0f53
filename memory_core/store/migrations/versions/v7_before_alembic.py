"""Everything up to schema version 7."""

from alembic import context, op
from sqlalchemy import select
from sqlalchemy.schema import CreateColumn
from sqlmodel import SQLModel

from memory_core.store.tables import NEW_COLUMNS, SINCE_3, TABLES, schema_table
from memory_core.store.tenants import qualified

revision = "7"
down_revision = None


def upgrade() -> None:
    """Add the columns, tables and indexes that a database of version 1 to 6 lacks."""
    connection = op.get_bind()
    version = connection.execute(select(schema_table.c.version)).scalar_one()
    schema = context.config.attributes["schema"]
    # New columns are nullable or have a server default: databases add no others to rows that exist.
    for column in [column for since, added in NEW_COLUMNS.items() if version < since for column in added]:
        added = CreateColumn(column).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {qualified(column.table.name, schema)} ADD COLUMN {added}")
    # Creates only the tables that are missing; these come with their indexes.
    SQLModel.metadata.create_all(connection, tables=TABLES)
    for index in SINCE_3:
        index.create(connection, checkfirst=True)
