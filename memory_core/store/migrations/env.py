"""Environment of Alembic: revisions run on the connection, and in the transaction, of `migrations.upgrade`."""

from alembic import context

options = context.config.attributes
context.configure(connection=options["connection"], version_table="mi_revision", version_table_schema=options["schema"])
with context.begin_transaction():
    context.run_migrations()
