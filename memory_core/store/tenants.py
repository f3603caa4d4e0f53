"""Tenants of a database, whose sessions share nothing.

On PostgreSQL they share one database. Every table but three has a column `tenant` in its keys, filled by the server
from the setting `memory.tenant` of the transaction, and row-level security hides the rows of all other tenants. No
query of this package names the tenant, so none can forget to. On SQLite each tenant has a file of its own.
"""

import re
from pathlib import Path

from sqlalchemy import Connection, Engine, ForeignKeyConstraint, Table, inspect, text
from sqlalchemy.engine import URL

from memory_core.errors import ConfigError
from memory_core.store.tables import TABLES, schema_table, session_table, tenant_table, token_table

SETTING = "memory.tenant"
"""PostgreSQL setting with the tenant of a transaction; unset or empty: the default tenant."""

PROTECTED = [table for table in TABLES if table not in (schema_table, tenant_table, token_table)]
"""Tables whose rows belong to one tenant each."""

_CURRENT = f"coalesce(current_setting('{SETTING}', true), '')"
_DEFERRED = "DEFERRABLE INITIALLY DEFERRED"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


def check_tenant(name: str) -> str:
    """Return the name of a tenant; empty for the default one.

    Raises:
        ConfigError: the name has other characters than lower-case letters, digits, `-` and `_`, or more than 63.
    """
    if name and not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a tenant: use 1 to 63 lower-case letters, digits, hyphens and underscores, "
            "beginning with a letter or digit"
        )
    return name


def sqlite_file(url: URL, tenant: str) -> URL:
    """Return the URL of a tenant's own SQLite file, in a folder beside the default tenant's file."""
    if not tenant:
        return url
    file = Path(str(url.database))
    return url.set(database=str(file.parent / "tenants" / tenant / file.name))


def default_file(file: Path) -> Path:
    """Return the default tenant's SQLite file, beside which another tenant's lies."""
    return file.parents[2] / file.name


def sqlite_tenants(file: Path) -> list[str]:
    """Return the names of the tenants whose files lie beside an SQLite file, sorted; without the default one."""
    return sorted(other.parent.name for other in (file.parent / "tenants").glob(f"*/{file.name}"))


def add_tenants(connection: Connection, schema: str | None) -> None:
    """Give the PostgreSQL tables their tenant: column, keys, foreign keys and row-level security.

    Does nothing to a table that has it. Rows that exist belong to the default tenant.
    """
    inspector = inspect(connection)
    new = [t for t in PROTECTED if "tenant" not in {c["name"] for c in inspector.get_columns(t.name, schema=schema)}]
    references = {t.name: inspector.get_foreign_keys(t.name, schema=schema) for t in new}
    # Foreign keys first: they depend on the primary keys, which change.
    for table in new:
        for reference in references[table.name]:
            _alter(connection, table, schema, f"DROP CONSTRAINT {reference['name']}")
    for table in new:
        # A constant default fills existing rows without rewriting the table; later rows get the transaction's tenant.
        _alter(connection, table, schema, "ADD COLUMN tenant text NOT NULL DEFAULT ''")
        _alter(connection, table, schema, f"ALTER COLUMN tenant SET DEFAULT {_CURRENT}")
        key = inspector.get_pk_constraint(table.name, schema=schema)
        columns = ", ".join(f'"{name}"' for name in (*key["constrained_columns"], "tenant"))
        _alter(connection, table, schema, f"DROP CONSTRAINT {key['name']}, ADD PRIMARY KEY ({columns})")
        for index in table.indexes:
            if index.unique:
                unique = ", ".join((*(column.name for column in index.columns), "tenant"))
                connection.exec_driver_sql(f"DROP INDEX {qualified(str(index.name), schema)}")
                connection.exec_driver_sql(
                    f"CREATE UNIQUE INDEX {index.name} ON {qualified(table.name, schema)} ({unique})"
                )
        _protect(connection, table, schema)
    for table in new:
        # Only those that existed: databases of early versions have none, and may hold rows that break them.
        existing = {tuple(reference["constrained_columns"]) for reference in references[table.name]}
        for constraint in table.foreign_key_constraints:
            if tuple(constraint.column_keys) in existing:
                _refer(connection, table, constraint, schema)
    if session_table in new:
        to = qualified(tenant_table.name, schema)
        connection.exec_driver_sql(f"INSERT INTO {to} (id, created_at) VALUES ('', 0) ON CONFLICT DO NOTHING")
        # A session that begins while its tenant is deleted is refused at its commit.
        _alter(connection, session_table, schema, f"ADD FOREIGN KEY (tenant) REFERENCES {to} (id) {_DEFERRED}")
        where = qualified(session_table.name, schema)
        connection.exec_driver_sql(f"CREATE INDEX mi_session_tenant ON {where} (tenant, updated_at)")


def _protect(connection: Connection, table: Table, schema: str | None) -> None:
    """Show and change only rows of the transaction's tenant, for the tables' owner too (`FORCE`)."""
    _alter(connection, table, schema, "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    name = qualified(table.name, schema)
    connection.exec_driver_sql(f"CREATE POLICY mi_tenant ON {name} USING (tenant = {_CURRENT})")


def _refer(connection: Connection, table: Table, constraint: ForeignKeyConstraint, schema: str | None) -> None:
    columns = ", ".join((*constraint.column_keys, "tenant"))
    keys = ", ".join((*(element.column.name for element in constraint.elements), "tenant"))
    to = qualified(constraint.referred_table.name, schema)
    _alter(connection, table, schema, f"ADD FOREIGN KEY ({columns}) REFERENCES {to} ({keys}) {_DEFERRED}")


def _alter(connection: Connection, table: Table, schema: str | None, change: str) -> None:
    connection.exec_driver_sql(f"ALTER TABLE {qualified(table.name, schema)} {change}")


def qualified(name: str, schema: str | None) -> str:
    """Return a table's name in SQL, with its schema."""
    return f'"{schema}".{name}' if schema else name


def check_account(connection: Connection, tenant: str, schema: str | None) -> None:
    """Refuse an account that row-level security does not bind, where there are tenants.

    Raises:
        ConfigError: the account is a superuser or may bypass row-level security, and there is more than one tenant.
    """
    unbound = connection.execute(
        text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    ).scalar()
    if unbound and (tenant or tenants(connection, schema) != [""]):
        raise ConfigError(
            "this database account may read the rows of every tenant (it is a superuser, or has BYPASSRLS): connect "
            "as an ordinary role, to which `memory-inspector upgrade --grant ROLE` gives what the app needs"
        )


def tenants(connection: Connection, schema: str | None = None) -> list[str]:
    """Return the names of all tenants of a PostgreSQL database, sorted; the default one, which is empty, first."""
    query = text(f"SELECT id FROM {qualified(tenant_table.name, schema)} ORDER BY id")
    return [str(name) for name in connection.execute(query).scalars()]


def delete_tenant(connection: Connection, tenant: str, schema: str | None = None) -> int:
    """Delete a tenant of a PostgreSQL database with all its rows, in the transaction of a database opened for it.

    Whoever is writing to it has to finish first; a session that begins meanwhile is refused at its commit. Returns the
    number of sessions deleted.
    """
    connection.execute(
        text(f"SELECT id FROM {qualified(tenant_table.name, schema)} WHERE id = :id FOR UPDATE"), {"id": tenant}
    )
    # In the order in which every writer locks: sessions before their rows.
    locking = text(f"SELECT id FROM {qualified(session_table.name, schema)} ORDER BY id FOR UPDATE")
    sessions = connection.execute(locking).all()
    for table in PROTECTED:
        connection.execute(text(f"DELETE FROM {qualified(table.name, schema)}"))  # row-level security: of this tenant
    connection.execute(text(f"DELETE FROM {qualified(token_table.name, schema)} WHERE tenant = :id"), {"id": tenant})
    connection.execute(text(f"DELETE FROM {qualified(tenant_table.name, schema)} WHERE id = :id"), {"id": tenant})
    return len(sessions)


def grant(engine: Engine, role: str, schema: str | None = None) -> None:
    """Let a role read and write rows, and create tables for copies of vectors; it cannot change ours."""
    quoted = engine.dialect.identifier_preparer.quote_identifier(role)
    names = ", ".join(qualified(table.name, schema) for table in TABLES)
    space = f'"{schema}"' if schema else "public"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"GRANT USAGE, CREATE ON SCHEMA {space} TO {quoted}")
        connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {names} TO {quoted}")
        connection.exec_driver_sql(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {space} TO {quoted}")
