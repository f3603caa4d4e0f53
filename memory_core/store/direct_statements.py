"""Statements that every put and every prompt runs: compiled once, and run by SQLite's driver itself.

They run on the connection of SQLAlchemy's transaction and raise its errors, in a sixth of the time that it takes for a
statement, most of which goes into what these do not need: looking up the compiled form, converting values, describing
rows. Everything else, and every statement on PostgreSQL, is run by SQLAlchemy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

Values = Mapping[str, Any]
Rows = Sequence[Sequence[Any]]


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
    """A statement that SQLite's driver runs, with parameters by name.

    >>> from sqlalchemy import NullPool, create_engine, text
    >>> with create_engine("sqlite://", poolclass=NullPool).connect() as connection:
    ...     DirectStatement(text("SELECT :word || '!'")).rows(connection, {"word": "yes"})
    [('yes!',)]
    """

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        # By the names of the parameters. All SQLite databases of this process share one dialect, but for those of a
        # caller's own engine.
        self._forms: dict[tuple[str, ...], _Form] = {}

    def rows(self, connection: Connection, values: Values) -> Rows:
        """Run a query; return its rows.

        Raises:
            DBAPIError: the database refuses the statement.
        """
        form = self._form(connection, values)
        if form is None:
            return connection.execute(self._statement, values).all()
        rows = _driven(connection, form.sql, form.values(values)).fetchall()
        if not form.converted:
            return cast(Rows, rows)
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
        form = self._form(connection, values[0] if values else {})
        if form is None:
            connection.execute(self._statement, list(values) or None)
        elif len(values) <= 1:
            _driven(connection, form.sql, form.values(values[0]) if values else ())
        else:
            _driven(connection, form.sql, list(map(form.values, values)), many=True)

    def _form(self, connection: Connection, values: Values) -> _Form | None:
        """Return the statement for the driver; None if SQLAlchemy has to run it."""
        if not _by_driver(connection):
            return None
        names, dialect = tuple(values), connection.dialect
        form = self._forms.get(names)
        if form is None or form.dialect is not dialect:
            form = self._forms[names] = _compiled(self._statement, dialect, names)
        return form if form.complete else None


def _compiled(statement: Executable, dialect: Dialect, names: tuple[str, ...]) -> _Form:
    compiled = cast(SQLCompiler, statement.compile(dialect=dialect, column_keys=list(names)))  # type: ignore[attr-defined]
    order = compiled.positiontup or []
    processors = (
        (number, column.type.dialect_impl(dialect).result_processor(dialect, None))
        for number, column in enumerate(getattr(statement, "selected_columns", ()))
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
    listeners = getattr(connection, "_has_events", True) or getattr(connection.engine, "_has_events", True)
    return connection.dialect.name == "sqlite" and not listeners


def _driven(connection: Connection, sql: str, values: Sequence[Any], *, many: bool = False) -> Any:
    cursor = None
    try:
        cursor = connection.connection.cursor()
        return (cursor.executemany if many else cursor.execute)(sql, values)
    except connection.dialect.loaded_dbapi.Error as error:
        dialect = connection.dialect
        if gone := dialect.is_disconnect(error, connection.connection, cursor):
            connection.invalidate(error)
        raise DBAPIError.instance(
            sql, None, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
        ) from error
