"""Tokens with which agents reach the span receiver and the recording proxy."""

from alembic import op
from sqlmodel import SQLModel

from memory_core.store.tables import TABLES

revision = "9"
down_revision = "8"


def upgrade() -> None:
    """Add the table of tokens; it belongs to no tenant."""
    SQLModel.metadata.create_all(op.get_bind(), tables=TABLES)
