"""Tenants on PostgreSQL, the person behind a change, and whether a session has anything in quarantine."""

import sqlalchemy as sa
from alembic import context, op
from sqlmodel import SQLModel

from memory_core.store.tables import COMPATIBLE_FROM, TABLES
from memory_core.store.tenants import add_tenants

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add the tenants' table and columns; rows that exist belong to the default tenant."""
    connection, schema = op.get_bind(), context.config.attributes["schema"]
    person = sa.Column("person", sa.String(), nullable=True)
    oldest = sa.Column("compatible_from", sa.Integer(), nullable=False, server_default=str(COMPATIBLE_FROM))
    quarantined: sa.Column[bool | None] = sa.Column("quarantined", sa.Boolean(), nullable=True)
    for table, column in (("mi_event", person), ("mi_schema", oldest), ("mi_session", quarantined)):
        columns = {existing["name"] for existing in sa.inspect(connection).get_columns(table, schema=schema)}
        if column.name not in columns:  # version 7 creates missing tables as they are now
            op.add_column(table, column, schema=schema)
    SQLModel.metadata.create_all(connection, tables=TABLES)
    if connection.dialect.name == "postgresql":
        add_tenants(connection, schema)
