"""Statements that every put and every prompt runs: compiled once, and run by the database's driver itself.

They run on the connection of SQLAlchemy's transaction and raise its errors, in a sixth of the time that it takes for a
statement, most of which goes into what these do not need: looking up the compiled form, converting values, describing
rows. Everything else, and every statement on a PostgreSQL connection of a caller's own, is run by SQLAlchemy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import Connection, Dialect, Executable, Table, func, insert, select
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.sql.compiler import SQLCompiler

Values = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]
Step = tuple["DirectStatement", Sequence[Values]]
"""A statement, with the parameters of each of its runs."""


@dataclass(frozen=True, slots=True)
class _Form:
    """A statement as the driver takes it."""

    dialect: Dialect
    sql: str
    values: Callable[[Values], Sequence[object]]
    """Function that puts the parameters in the driver's order."""
    converted: tuple[tuple[int, Callable[[Any], Any]], ...]
    """Columns of a row whose values are converted, such as 0 and 1 to truth values."""
    complete: bool
    """False if it has parameters that are not given by name, such as a column's default."""


class DirectStatement:
    """A statement that the database's driver runs, with parameters by name.

    >>> from sqlalchemy import NullPool, create_engine, text
    >>> with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
    ...     DirectStatement(text("SELECT :word || '!'")).rows(connection, {"word": "yes"})
    [('yes!',)]
    """

    def __init__(self, statement: Executable) -> None:
        self.statement = statement
        # By the number of parameters: with equally many their names are the same. All SQLite databases of this process
        # share one dialect, but for those of a caller's own engine.
        self._forms: dict[int, _Form] = {}

    def rows(self, connection: Connection, values: Values) -> Rows:
        """Run a query; return its rows.

        Raises:
            DBAPIError: the database refuses the statement.
        """
        form = self.form(connection.dialect, values) if _by_driver(connection) else None
        if form is None or not form.complete:
            return connection.execute(self.statement, values).all()
        rows = _driven(connection, ((self, (values,)),), reads=True)
        if not form.converted:
            return rows
        whole = [list(row) for row in rows]
        for row in whole:
            for column, convert in form.converted:
                row[column] = convert(row[column])
        return whole

    def run(self, connection: Connection, *values: Values) -> None:
        """Run a change with these parameters, once for each; all name the same.

        Raises:
            DBAPIError: the database refuses the statement.
        """
        run_all(connection, (self, values or ({},)))

    def form(self, dialect: Dialect, values: Values) -> _Form:
        """Return the statement for the driver, with parameters of these names."""
        form = self._forms.get(len(values))
        if form is None or form.dialect is not dialect:
            form = self._forms[len(values)] = _compiled(self.statement, dialect, tuple(values))
        return form


def run_all(connection: Connection, *steps: Step) -> None:
    """Run changes in this order, each once for each of its parameters.

    Raises:
        DBAPIError: the database refuses a statement; those before it were run.
    """
    if _by_driver(connection):
        _driven(connection, steps)
        return
    for step, values in steps:
        connection.execute(step.statement, list(values) if any(values) else None)


def insert_numbered(connection: Connection, table: Table, rows: Sequence[Values]) -> list[int]:
    """Insert one or more rows that get their ids from the database; return the ids, in the order of the rows."""
    if connection.dialect.name == "sqlite":
        # It returns several rows in no order, but numbers those of one transaction without gaps.
        inserting(table).run(connection, *rows)
        [[last]] = _LAST_ID.rows(connection, {})
        return list(range(last - len(rows) + 1, last + 1))
    statement = insert(table).returning(table.c.id, sort_by_parameter_order=True)
    return list(connection.execute(statement, list(rows)).scalars())


@cache
def inserting(table: Table) -> DirectStatement:
    """Return the statement that inserts rows into a table; nobody waits for their ids."""
    return DirectStatement(insert(table).inline())


_LAST_ID = DirectStatement(select(func.last_insert_rowid()))


def commit(connection: Connection) -> None:
    """Commit what was run on a connection.

    Raises:
        DBAPIError: the database refuses it.
    """
    # SQLAlchemy knows of no transaction if the driver ran all.
    transaction = connection.get_transaction()
    if transaction is not None:
        with transaction:  # rolled back if it cannot be committed
            return
    try:
        connection.connection.driver_connection.commit()  # type: ignore[union-attr]
    except connection.dialect.loaded_dbapi.Error as error:
        raise _refusal(connection, error) from error


def _driven(connection: Connection, steps: Sequence[Step], *, reads: bool = False) -> Rows:
    """Let the driver run statements; return the rows of the last one if it `reads`."""
    dialect, loan = connection.dialect, connection.connection
    try:
        cursor: Any = loan.cursor() if dialect.name == "sqlite" else loan.driver_connection.direct  # type: ignore[union-attr]
        for statement, values in steps:
            form = statement.form(dialect, values[0])
            if not form.complete:
                connection.execute(statement.statement, list(values))
            elif len(values) == 1:
                cursor.execute(form.sql, form.values(values[0]))
            else:
                cursor.executemany(form.sql, list(map(form.values, values)))
        return cast(Rows, cursor.fetchall()) if reads else ()
    except dialect.loaded_dbapi.Error as error:
        raise _refusal(connection, error) from error


def _refusal(connection: Connection, error: Any) -> StatementError:
    """Return the driver's error as SQLAlchemy's."""
    dialect = connection.dialect
    if gone := dialect.is_disconnect(error, connection.connection, None):
        connection.invalidate(error)
    refusal: StatementError = DBAPIError.instance(
        None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
    )
    return refusal


def _compiled(statement: Executable, dialect: Dialect, names: tuple[str, ...]) -> _Form:
    columns = getattr(statement, "selected_columns", ())
    # PostgreSQL numbers its parameters, and its driver returns truth values by itself.
    positional = dialect
    if dialect.name != "sqlite":
        positional, columns = type(dialect)(paramstyle="numeric_dollar"), ()  # type: ignore[call-arg]
    compiled = cast(SQLCompiler, statement.compile(dialect=positional, column_keys=list(names)))  # type: ignore[attr-defined]
    order = compiled.positiontup or []
    processors = (
        (number, column.type.dialect_impl(dialect).result_processor(dialect, None))
        for number, column in enumerate(columns)
    )
    return _Form(
        dialect=dialect,
        sql=compiled.string,
        values=itemgetter(*order) if len(order) > 1 else lambda values: [values[name] for name in order],
        converted=tuple((number, convert) for number, convert in processors if convert is not None),
        complete=set(order) <= set(names),
    )


def _by_driver(connection: Connection) -> bool:
    # Who listens to statements, as tracing packages do, hears these only if SQLAlchemy runs them. `_has_events` is its
    # private flag for that, as asking `dispatch` takes as long as a statement: in a version without it, it runs all.
    if getattr(connection, "_has_events", True) or getattr(connection.engine, "_has_events", True):
        return False
    if connection.dialect.name == "sqlite":
        return True
    # SQLAlchemy puts the name of a schema into each statement.
    schema = connection.get_execution_options().get("schema_translate_map")
    return not schema and hasattr(connection.connection.driver_connection, "direct")
