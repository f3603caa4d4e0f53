"""Database: its engine, its two kinds of transaction, and its schema version.

A writing transaction on SQLite begins with `BEGIN IMMEDIATE`, so that reading, deciding and writing are atomic towards
other processes; on PostgreSQL the session's row is locked instead (see `memory_core.store.writing.read_session`).
Databases are shared per URL within a process.
"""

import copy
import logging
import os
import shutil
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    Connection,
    Dialect,
    Engine,
    Table,
    create_engine,
    create_mock_engine,
    delete,
    event,
    func,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool, Pool, SingletonThreadPool, StaticPool
from sqlalchemy.schema import CreateSchema
from sqlmodel import SQLModel

from memory_core.access import STORING, acting_as, needs, require
from memory_core.errors import ConfigError, MessageError, StoreError
from memory_core.process import renewed
from memory_core.store import migrations
from memory_core.store.direct_statements import DirectStatement, commit
from memory_core.store.postgresql import (
    POOLER,
    TOO_LONG,
    Notifications,
    begin,
    is_pooled,
    listening,
    open_postgresql,
    time_limits,
)
from memory_core.store.tables import (
    COMPATIBLE_FROM,
    SCHEMA_VERSION,
    TABLES,
    collection_table,
    content_table,
    prepare_for_postgresql,
    schema_table,
    session_table,
    tenant_table,
    token_table,
)
from memory_core.store.tenants import (
    SETTING,
    add_tenants,
    check_account,
    check_tenant,
    default_file,
    delete_tenant,
    grant,
    qualified,
    sqlite_file,
    sqlite_tenants,
    tenants,
)
from memory_core.vectors.pgvector import PgvectorIndex

BUSY_TIMEOUT_SECONDS = 30
"""Maximum seconds that a write waits for another process's write on SQLite."""

# Other names of the same databases, with the synchronous driver that this package needs, as it works in threads.
_SYNC_DRIVERS = {
    "sqlite+aiosqlite": "sqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+asyncpg": "postgresql+psycopg",
    "postgresql+psycopg2": "postgresql+psycopg",
}

_BEGIN_READING, _BEGIN_WRITING = DirectStatement(text("BEGIN")), DirectStatement(text("BEGIN IMMEDIATE"))

_open: "weakref.WeakValueDictionary[tuple[str, str | None, str], Database]" = weakref.WeakValueDictionary()
"""Open databases by URL, schema and tenant."""
_open_lock = threading.RLock()

_NOT_ALLOWED = "42501"
"""PostgreSQL error code: insufficient privilege."""

_NO_SUCH_ROW = "23503"
"""PostgreSQL error code: a foreign key names a row that does not exist."""

_log = logging.getLogger(__name__)

Item = TypeVar("Item")


class Database:
    """An open database, and a context manager that closes it. Thread-safe; create it with `Database.open`."""

    def __init__(
        self,
        engine: Engine,
        *,
        schema: str | None = None,
        tenant: str = "",
        shared_connection: bool = False,
        owns_engine: bool = True,
    ) -> None:
        self.engine = engine.execution_options(schema_translate_map={None: schema}) if schema else engine
        self._schema = schema
        self.tenant = tenant
        """Tenant whose rows are read and written; empty: the default one. See `store.tenants`."""
        # An in-memory SQLite database is one connection: its transactions take turns.
        self._turns = threading.RLock() if shared_connection else None
        self.in_memory = shared_connection
        """True for an SQLite database in memory, which only this process sees."""
        self.for_agents = not shared_connection
        """True if this process writes as an agent, so that an app only reads its sessions. False in an app, and for a
        database in memory, which no app can open."""
        self.noted: dict[str, float] = {}
        """Time of this process's last stored lease by session, in seconds since 1970; see `store.leases`."""
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.insert_texts = _insert_if_new(content_table, self.is_sqlite)
        """Statement that stores texts; the text already stored under a hash is the same text."""
        self.settings = {SETTING: tenant} if tenant else {}
        """Settings of PostgreSQL, by name, that each transaction begins with."""
        self._pooled = not self.is_sqlite and is_pooled(engine.url)
        self.notifications = self._new_notifications()
        weakref.finalize(self, self.notifications.close)
        self._file: Path | None = None
        # Device and inode of the file, noted by the first transaction.
        self._opened_file: tuple[int, int] | None = None
        self._owns_engine = owns_engine
        self._writers: list[Connection] = []
        self._root: Database | None = None
        """On PostgreSQL, the default tenant's database, whose engine all other tenants share."""
        self._openers = 1
        self._closed: str | None = None
        """Reason of the error on later use, such as `database was closed`; None while the database is open."""
        path = engine.url.database
        # A `file:` URI may name a file in memory, so only plain paths are watched.
        if self.is_sqlite and not shared_connection and path and not path.startswith((":memory:", "file:")):
            self._file = Path(path)
        self._prepare()
        renewed(self._after_fork)

    @classmethod
    def open(
        cls, url: str | None = None, *, engine: Any = None, schema: str | None = None, tenant: str = ""
    ) -> "Database":
        """Open the database at `url` (None: a new one in memory), or that of the caller's `engine`.

        URLs written for async drivers (`sqlite+aiosqlite`, `postgresql+asyncpg`) are accepted, as
        is an async engine: its URL is opened again with a synchronous driver. A `tenant` is created when it is opened
        for the first time; on SQLite it has a file of its own.

        Raises:
            ConfigError: `url` is no database URL, threads cannot share the engine, `tenant` is no name, or the account
                could read other tenants' rows.
            StoreError: the database cannot be reached, or was written by a newer version.
        """
        check_tenant(tenant)
        if isinstance(engine, Engine):
            return cls._behind(engine, schema)._for_tenant(tenant)
        if engine is not None:
            url = engine.url.render_as_string(hide_password=False)
        if url is None or _in_memory(url):
            return cls(_sharing(open_sqlite("sqlite://", poolclass=StaticPool)), shared_connection=True)
        parsed = parse_url(url)
        if parsed.drivername.startswith("sqlite"):
            schema = None
            if str(parsed.database).startswith("file:"):
                if tenant:
                    raise ConfigError("a tenant has a file of its own, beside the one named: give a path, not file:")
            else:
                # A relative path is another file once the working directory changes.
                parsed = parsed.set(database=os.path.abspath(str(parsed.database)))
                parsed = sqlite_file(parsed, tenant)
        key = (parsed.render_as_string(hide_password=False), schema, "")
        with _open_lock:
            # Under the lock, so that threads that open one URL at the same time get the same database.
            database = cls._joined(key) or _open.setdefault(key, cls._on(_create(parsed), schema))
            if database.is_sqlite:
                database.tenant = tenant
                return database
        return database._for_tenant(tenant)

    def _for_tenant(self, tenant: str) -> "Database":
        """Return the database of a tenant on this database's engine: itself for the default tenant.

        Raises:
            ConfigError: this is a caller's engine on SQLite, whose file is one tenant's.
        """
        if not tenant:
            return self
        try:
            if self.is_sqlite:
                raise ConfigError("on SQLite a tenant has a file of its own: give the database's URL, not an engine")
            with _open_lock:
                key = (f"engine {id(self.engine)}", self._schema, tenant)
                database = self._joined(key)
                if database is None:
                    database = _open[key] = Database(self.engine, schema=self._schema, tenant=tenant, owns_engine=False)
                    database._root = self
                    return database
        except BaseException:
            self.close()
            raise
        self.close()  # opened once already by the tenant's database
        return database

    @classmethod
    def _joined(cls, key: tuple[str, str | None, str]) -> "Database | None":
        """Return the database that is already open under a key, counting one more opener; None if there is none."""
        database = _open.get(key)
        if database is None or database._closed or not database.in_place:
            _open.pop(key, None)
            return None
        database._openers += 1
        return database

    @classmethod
    def _on(cls, engine: Engine, schema: str | None) -> "Database":
        """Return a database on an engine created here: the engine is disposed of with the database."""
        try:
            database = cls(engine, schema=schema)
        except BaseException:
            engine.dispose()
            raise
        weakref.finalize(database, engine.dispose).atexit = not database.is_sqlite  # see `SQLiteConnection`
        return database

    @classmethod
    def _behind(cls, engine: Engine, schema: str | None) -> "Database":
        """Return the only database of a caller's engine; users of a shared connection take turns."""
        if isinstance(engine.pool, SingletonThreadPool):
            raise ConfigError(
                "this engine gives every thread an in-memory database of its own: "
                'make it with create_engine("sqlite://", poolclass=StaticPool, '
                'connect_args={"check_same_thread": False})'
            )
        schema = None if engine.dialect.name == "sqlite" else schema
        key = (f"engine {id(engine)}", schema, "")  # the database keeps the engine, so no other object gets its id
        with _open_lock:
            database = cls._joined(key)
            if database is None:
                _listen(engine)
                shared = isinstance(engine.pool, StaticPool)
                database = _open[key] = cls(engine, schema=schema, shared_connection=shared, owns_engine=False)
            return database

    @property
    def file(self) -> Path | None:
        """The file of an SQLite database; None for one in memory, and for PostgreSQL."""
        return self._file

    @property
    def derived_folder(self) -> Path | None:
        """Folder of the files of `derived_files`, beside the database's own; None where there are none."""
        # Elsewhere a file cannot be deleted while a process has it mapped.
        return None if self._file is None or os.name != "posix" else self._file.with_name(f"{self._file.name}-derived")

    @property
    def url(self) -> str:
        """The URL without its password."""
        return self.engine.url.render_as_string(hide_password=True)

    @contextmanager
    def write(self, *, patience: float | None = None) -> Iterator[Connection]:
        """Open a writing transaction: committed at the end, rolled back on an exception.

        `patience`: seconds to wait for other writers; None: the database's own limit.

        Raises:
            AccessError: the acting person is a viewer.
        """
        with self._connected(self.engine, writes=True) as connection:
            if not self.is_sqlite:
                limit = {} if patience is None else {"lock_timeout": f"{round(patience * 1000)}ms"}
                begin(connection, self._transaction_settings() | limit)
            elif patience is None:
                _BEGIN_WRITING.run(connection)
            else:
                self._begin_soon(connection, round(patience * 1000))
            self._check_file()
            yield connection
            if not self.in_memory:  # a trial, in which a viewer may play
                require(STORING, self.tenant)  # at the end, as a preview of a change stores nothing
            commit(connection)

    def _new_notifications(self) -> Notifications:
        if self.is_sqlite:
            return Notifications()
        return Notifications(self.tenant, weakref.WeakMethod(self.write), listening(self.engine))

    def _transaction_settings(self) -> dict[str, str]:
        # A pooler's connections have no settings of ours, as the next transaction on them may be another program's.
        return time_limits() | self.settings if self._pooled else self.settings

    def _begin_soon(self, connection: Connection, milliseconds: int) -> None:
        _busy_timeout(milliseconds).run(connection)
        try:
            _BEGIN_WRITING.run(connection)
        finally:
            _busy_timeout(BUSY_TIMEOUT_SECONDS * 1000).run(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a reading transaction: a consistent view."""
        self._check_file()  # before connecting, which would create a file in the place of a deleted one
        with self._connected(self.engine) as connection:
            # Not in an engine event, which adds a dispatch to each statement: a sixth of the time of a put.
            if self.is_sqlite:
                _BEGIN_READING.run(connection)
            else:
                begin(connection, self._transaction_settings(), reads=True)
            yield connection

    @property
    def in_place(self) -> bool:
        """False if the SQLite file was deleted, moved or replaced since it was opened.

        Connections keep working on a deleted file: its words would still be read, and what they commit is lost.
        """
        if self._file is None:
            return True
        try:
            stat = os.stat(self._file)
            now = stat.st_dev, stat.st_ino
        except OSError:
            now = None
        self._opened_file = self._opened_file or now
        return now == self._opened_file

    def _check_file(self) -> None:
        if not self.in_place:
            raise StoreError(
                f"The database file {self._file} was deleted or replaced while it was open. Nothing was read or "
                "stored: put it back, or start again for a new one."
            )

    def insert_if_new(self, connection: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
        """Insert rows whose primary key is new; leave existing rows unchanged."""
        if rows:
            _insert_if_new(table, self.is_sqlite).run(connection, *rows)

    def tenants(self) -> list[str]:
        """Return the names of all tenants, sorted; the default one, whose name is empty, first."""
        if self.is_sqlite:
            return [self.tenant, *(sqlite_tenants(self._file) if self._file is not None else ())]
        with self.read() as connection:
            return tenants(connection, self._schema)

    def grant(self, role: str) -> None:
        """Let a PostgreSQL role, which owns no table, read and write the rows.

        Raises:
            ConfigError: this is SQLite, which knows no roles.
            StoreError: there is no such role, or this account may not grant it anything.
        """
        if self.is_sqlite:
            raise ConfigError("SQLite knows no roles: who may read the file may read everything in it")
        with _our_errors(self.url):
            grant(self.engine, role, self._schema)

    @needs("owner")
    def delete_tenant(self, collections: Iterable[str] = ()) -> int:
        """Delete this database's tenant with its sessions, tokens and copies in pgvector; return its session count.

        `collections`: names of collections to note in the default tenant, by which other copies of them are found.

        Raises:
            ConfigError: this is the default tenant.
        """
        if not self.tenant:
            raise ConfigError("the default tenant cannot be deleted; delete its sessions")
        require("owner", self.tenant)
        noted = [{"name": name, "deleted": 0} for name in collections]
        if self._file is not None:
            with self.read() as connection:
                sessions = connection.execute(select(func.count()).select_from(session_table)).scalar_one()
            default = default_file(self._file)
            if default.exists():
                url = self.engine.url.set(database=str(default)).render_as_string(hide_password=False)
                # First: whoever sends such a token would create the tenant again.
                with Database.open(url) as beside, acting_as(None), beside.write() as connection:
                    connection.execute(delete(token_table).where(token_table.c.tenant == self.tenant))
                    self.insert_if_new(connection, collection_table, noted)
            self._let_go(self.engine)
            shutil.rmtree(self._file.parent)  # with its log and copies; open databases refuse to write from now on
            return int(sessions)
        with self.write() as connection:
            sessions = delete_tenant(connection, self.tenant, self._schema)
            PgvectorIndex(self).forget_erased(connection)
            connection.execute(select(func.set_config(SETTING, "", True)))  # the rest is the default tenant's
            self.insert_if_new(connection, collection_table, noted)
        self._leave(self._openers, "tenant was deleted")  # opened again, the name is a new tenant
        return sessions

    def lock_name(self, connection: Connection, name: str) -> None:
        """Keep other transactions that lock this name out until this writing one ends, as SQLite does anyway."""
        if not self.is_sqlite:
            # Two numbers are another space of keys than the one number of `_prepare`.
            key = text("SELECT pg_advisory_xact_lock(7034922, hashtext(:name))")
            connection.execute(key, {"name": name})

    def check(self) -> None:
        """Raise `StoreError` unless the database answers."""
        with self.read() as connection:
            connection.execute(text("SELECT 1"))

    @needs("owner")
    def compact(self) -> None:
        """Return the space of erased data to the file system, on SQLite; to later rows of the tables, on PostgreSQL.

        SQLite rewrites the file, about a second for each 100 MB; other writers have to wait. PostgreSQL keeps nobody
        waiting, and also counts the rows anew for its query planner.

        Raises:
            AccessError: the acting person is no owner.
            StoreError: the database cannot be reached.
        """
        require("owner", self.tenant)
        if self.is_sqlite:
            with self._connected(self.engine) as connection:
                # Outside of a transaction, in which VACUUM is refused. In WAL mode the file shrinks only at the
                # checkpoint.
                connection.exec_driver_sql("VACUUM")
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            return
        # An engine without the limits on waiting: a large table takes longer than any other statement may.
        url = self.engine.url.difference_update_query([POOLER])
        unlimited = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with self._connected(unlimited) as connection:
            for table in TABLES:
                connection.exec_driver_sql(f"VACUUM (ANALYZE) {qualified(table.name, self._schema)}")

    def forget_log(self) -> None:
        """Truncate SQLite's write-ahead log after erasing, since it still contains the erased texts."""
        if not self.is_sqlite:
            return
        try:
            with self._connected(self.engine) as connection:
                # A reader that keeps an old state in use is no error for SQLite: it answers 1, and truncates nothing.
                busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
                problem: object = "another connection still reads an earlier state" if busy else None
        except StoreError as error:
            if self._closed:
                raise
            problem = error.__cause__
        if problem is not None:
            _log.warning("the log of %s keeps erased words until SQLite empties it: %s", self.url, problem)

    def close(self) -> None:
        """Close all connections; later use of the database raises `StoreError`.

        A database that was opened several times in this process closes with its last opener. Closing twice does
        nothing, the caller's own engine stays open, and a database in memory is lost.
        """
        self._leave(1, "database was closed")

    def _leave(self, openers: int, how: str) -> None:
        with _open_lock:
            self._openers -= openers
            if self._openers > 0 or self._closed:
                return
            self._closed = how
        self.notifications.close()
        if self._owns_engine:
            # The one connection of a shared database may be at work in another thread.
            with self._turns or nullcontext():
                self._let_go(self.engine)
        if self._root is not None:
            self._root.close()

    def closed_for(self, owner: str) -> "Database":
        """Return a closed handle, for an owner that closed its access: every use raises `StoreError`."""
        # A copy, as other owners go on using the database itself.
        view = copy.copy(self)
        view._closed = f"{owner} was closed"
        return view

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _after_fork(self) -> None:
        """Leave the parent's connections open after a fork; a database in memory becomes the child's own copy."""
        self.noted, self._writers = {}, []
        self.notifications = self._new_notifications()
        if self._turns is None:
            self.engine.dispose(close=False)
        else:
            # The parent's lock may be held by a thread that does not exist in this process.
            self._turns = threading.RLock()

    @contextmanager
    def _connected(self, engine: Engine, *, writes: bool = False) -> Iterator[Connection]:
        """Lend a connection, and translate its errors.

        `writes`: on SQLite the one that is kept for writing; an error on a file that is gone says so.
        """
        with self._turns or nullcontext():
            if self._closed:
                raise StoreError(f"This {self._closed} and cannot be used any more: open it again.")
            # Closing gives the engine another pool, so the one in use is remembered here.
            pool = engine.pool
            # Whoever listens to the pool is to hear of every loan.
            keeps = writes and self.is_sqlite and self._owns_engine and not pool.dispatch.checkout
            stays = False
            try:
                connection = (self._writer() if keeps else None) or engine.connect()
                try:
                    yield connection
                    stays = keeps and not self._writers
                finally:
                    if stays:
                        self._writers.append(connection)
                    else:
                        connection.close()
            except _TRANSLATED as error:
                if writes and isinstance(error, DBAPIError):
                    self._check_file()  # of a file that is gone, it says more
                raise _our_error(self.url, error) from error
            finally:
                if self._closed and self._owns_engine:  # closed meanwhile: the connection in use was left open
                    self._let_go(pool)

    def _writer(self) -> Connection | None:
        """Take the connection that is kept for writing: borrowing one takes as long as two statements.

        One is enough, as SQLite has one writer at a time.
        """
        with suppress(IndexError):
            return self._writers.pop()
        return None

    def _let_go(self, connections: Engine | Pool) -> None:
        while (connection := self._writer()) is not None:
            connection.close()
        connections.dispose()

    def _prepare(self) -> None:
        if self._file is not None:
            with self.read() as connection:
                version = _stored_version(connection, None)
            if version is not None and version < SCHEMA_VERSION:
                self._back_up()
        # Nobody's act: a viewer may be the first whom this process serves.
        with acting_as(None), self.write() as connection:
            if not self.is_sqlite:
                # Two processes may open a new database at once: one creates, the other waits.
                # The number is arbitrary, but the same in every version of this program.
                connection.execute(text("SELECT pg_advisory_xact_lock(7034921)"))
                if self._schema and not inspect(connection).has_schema(self._schema):
                    connection.execute(CreateSchema(self._schema))
                prepare_for_postgresql()
            # Tables and version are written in one transaction: if the version's table exists, all do.
            if not inspect(connection).has_table(schema_table.name, schema=self._schema):
                self._create_tables(connection)
                values = {"version": SCHEMA_VERSION, "database_id": uuid.uuid4().hex}
                connection.execute(insert(schema_table).values(values))
            row = connection.execute(select(literal_column("*")).select_from(schema_table)).mappings().one()
            if row["version"] < SCHEMA_VERSION:
                migrations.upgrade(connection, self._schema)
                connection.execute(update(schema_table).values(version=SCHEMA_VERSION, compatible_from=COMPATIBLE_FROM))
            elif row.get("compatible_from", row["version"]) > SCHEMA_VERSION:
                raise StoreError(
                    f"The database at {self.url} has schema version {row['version']}; this program knows versions up "
                    f"to {SCHEMA_VERSION}. Update Memory Inspector, or use another database."
                )
            self.id: str = row["database_id"]
            if not self.is_sqlite:
                check_account(connection, self.tenant, self._schema)
            if self.tenant:
                self.id += f"-{self.tenant}"
                self.insert_if_new(connection, tenant_table, [{"id": self.tenant, "created_at": time.time()}])

    def _create_tables(self, connection: Connection) -> None:
        if self.is_sqlite:
            for statement in statements_for_tables():
                connection.exec_driver_sql(statement)
        else:
            SQLModel.metadata.create_all(connection, tables=TABLES)
            add_tenants(connection, self._schema)
        migrations.stamp(connection, self._schema)

    def _back_up(self) -> None:
        """Copy an SQLite file of another schema version, as it is before its upgrade, unless a copy exists.

        Raises:
            StoreError: the copy cannot be written; nothing is left of it.
        """
        assert self._file is not None
        copy = self._file.with_name(f"{self._file.name}.before-version-{SCHEMA_VERSION}")
        if copy.exists():
            return
        # Under another name until it is whole, as this process may be killed.
        part = copy.with_name(f"{copy.name}.{uuid.uuid4().hex}.part")
        try:
            _private_file(part)
            with _our_errors(self.url), self.engine.connect() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(part),))
            if not copy.exists():  # another process may have made one, and upgraded the file before this copy began
                part.replace(copy)
        except StoreError as error:
            raise StoreError(f"{error} It was not upgraded, as it could not be copied before.") from error
        finally:
            part.unlink(missing_ok=True)


def schema_version(url: str, *, schema: str | None = None) -> int | None:
    """Return the schema version of the database at a URL, which is not upgraded; None without our tables.

    Raises:
        ConfigError: `url` is no database URL.
        StoreError: the database cannot be reached.
    """
    engine = _create(parse_url(url))
    try:
        with _our_errors(engine.url.render_as_string(hide_password=True)), engine.connect() as connection:
            return _stored_version(connection, schema)
    finally:
        engine.dispose()


def _stored_version(connection: Connection, schema: str | None) -> int | None:
    if not inspect(connection).has_table(schema_table.name, schema=schema):
        return None
    return int(connection.execute(select(schema_table.c.version)).scalar_one())


@cache
def statements_for_tables() -> tuple[str, ...]:
    """Return the SQLite statements that create the tables; cached, as the Lab opens a database for every play."""
    statements: list[str] = []

    def note(statement: Any, *_: Any) -> None:
        statements.append(str(statement.compile(dialect=sqlite.dialect())))

    SQLModel.metadata.create_all(create_mock_engine("sqlite://", note), tables=TABLES, checkfirst=False)
    return tuple(statements)


@cache
def _insert_if_new(table: Table, is_sqlite: bool) -> DirectStatement:
    if is_sqlite:
        return DirectStatement(sqlite.insert(table).on_conflict_do_nothing())
    from sqlalchemy.dialects import postgresql  # takes 30 ms, needed on PostgreSQL only

    return DirectStatement(postgresql.insert(table).on_conflict_do_nothing())


def parse_url(url: str) -> URL:
    """Return a database URL with a synchronous driver.

    Raises:
        ConfigError: the URL is invalid, or for a kind of database that is not supported.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            "this is not a database URL; write it like sqlite:///memory.db or postgresql://user@host/name"
        ) from error
    driver = _SYNC_DRIVERS.get(parsed.drivername, parsed.drivername)
    if not driver.startswith(("sqlite", "postgresql")):
        raise ConfigError(f"the database must be SQLite or PostgreSQL, not {parsed.drivername!r}")
    return parsed.set(drivername=driver)


def _in_memory(url: str) -> bool:
    parsed = parse_url(url)
    return parsed.drivername.startswith("sqlite") and parsed.database in (None, "", ":memory:")


class SQLiteConnection(sqlite3.Connection):
    """Connection that closes itself once nothing refers to it, as a thread or process may end without closing it.

    A function registered for exit would close too early: a background thread may still be at work, and would get a
    new, empty database instead of the one in memory.
    """

    def __del__(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it could not be opened
            self.close()


def open_sqlite(url: str | URL, **options: Any) -> Engine:
    """Return an engine whose SQLite connections may be used by any thread and are closed when garbage-collected."""
    # The pool lends a connection to one thread at a time, which is all that SQLite needs.
    arguments = {"check_same_thread": False, "factory": SQLiteConnection, **options.pop("connect_args", {})}
    return create_engine(url, connect_args=arguments, **options)


def _sharing(engine: Engine) -> Engine:
    """Return the engine with the dialect and the compiled statements that all SQLite databases of this process share.

    Compiling takes most of the time that a new database costs, and the Lab opens one for every conversation it plays.
    """
    options = {"compiled_cache": _compiled}
    shared = Engine(engine.pool, _sqlite_dialect(), engine.url, execution_options=options)
    _listen(shared)
    return shared


@cache
def _sqlite_dialect() -> Dialect:
    engine = create_engine("sqlite://")
    engine.connect().close()  # the first connection reads the version of SQLite
    engine.dispose()
    return engine.dialect


_compiled: dict[Any, Any] = {}
"""Cache of compiled statements of all SQLite engines; bounded, as this package has a limited number of statements."""


def _create(url: URL) -> Engine:
    try:
        if not url.drivername.startswith("sqlite"):
            return open_postgresql(url)
        _private_file(Path(str(url.database)))
        arguments = {"timeout": BUSY_TIMEOUT_SECONDS}
        return _sharing(open_sqlite(url, connect_args=arguments, pool_size=8, max_overflow=16))
    except (NoSuchModuleError, ImportError) as error:
        raise ConfigError("PostgreSQL needs one more package: pip install 'memory-inspector[postgres]'") from error


def _private_file(path: Path) -> None:
    """Create a database's folder and file readable by their owner only; existing ones keep their permissions.

    SQLite gives its side files the permissions of the main file.
    """
    if str(path).startswith("file:"):
        return
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=0o700)
            os.chmod(path.parent, 0o700)
        with suppress(FileExistsError, IsADirectoryError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"{path} cannot be made ({error.strerror}). Choose another folder.") from error


def _listen(engine: Engine) -> None:
    if engine.dialect.name == "sqlite" and not event.contains(engine, "connect", _connect):
        event.listen(engine, "connect", _connect)


def _connect(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun explicitly, see `Database.write`
    for pragma in (
        f"busy_timeout={BUSY_TIMEOUT_SECONDS * 1000}",
        # Readers do not wait for a writer, nor a writer for readers.
        "journal_mode=WAL",
        # Survives the death of the process; only a power cut can lose the newest commits.
        "synchronous=NORMAL",
        "foreign_keys=ON",
        "secure_delete=ON",  # erased texts are overwritten in the file
    ):
        connection.execute(f"PRAGMA {pragma}")


@cache
def _busy_timeout(milliseconds: int) -> DirectStatement:
    return DirectStatement(text(f"PRAGMA busy_timeout={milliseconds}"))


_TRANSLATED = (SQLAlchemyError, UnicodeEncodeError)
"""Errors of a database and its driver that become errors of ours."""


@contextmanager
def _our_errors(url: str) -> Iterator[None]:
    """Translate the errors of a connection that `_connected` did not lend."""
    try:
        yield
    except _TRANSLATED as error:
        raise _our_error(url, error) from error


def _our_error(url: str, error: Exception) -> StoreError | MessageError:
    """Return a database's error as one of ours. No other code translates them."""
    # SQLite's driver encodes texts itself, and refuses an unpaired surrogate.
    if isinstance(error, UnicodeEncodeError):
        half = error.object[error.start : error.end]
        return MessageError(f"a text holds half a character ({half!r}), which cannot be stored")
    if not isinstance(error, DBAPIError):
        return StoreError(f"The database at {url} cannot be used: {' '.join(str(error).split())[:300]}.")
    code = getattr(error.orig, "sqlstate", None)
    if too_long := TOO_LONG.get(code or ""):
        return StoreError(f"The database at {url} {too_long()} Nothing was stored: try again.")
    reason = " ".join(str(error.orig).split())
    # A value of a wrong type or size. SQLite's driver says so only in its message.
    if isinstance(error, DataError) or "binding parameter" in reason:
        return MessageError(f"a value cannot be stored: {reason}")
    if tenant_table.name in reason and code == _NO_SUCH_ROW:
        return StoreError("This tenant was deleted. Nothing was stored: open it again for a new one.")
    hint = ""
    if code == _NOT_ALLOWED:
        hint = " If this is an upgrade, run `memory-inspector upgrade` as the tables' owner."
    return StoreError(f"The database at {url} did not do what was asked: {reason}.{hint}")


def chunks(items: Iterable[Item], size: int = 500) -> Iterator[list[Item]]:
    """Split values into lists below the parameter limit of every database."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
