"""Long writes split into many short transactions, so that others can write in between.

Rows written this way must stay invisible until all are written: a session is stored as deleted, and appears with its
last piece. Rows left by a dead process are erased later, by `erase_what_was_left`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Executable

from memory_core.store.database import Database, chunks
from memory_core.store.direct_statements import DirectStatement

PIECE = 2_000
"""Maximum rows per transaction; other writers wait for about 50 ms while it runs."""

Step = Callable[[int], None]
"""Function that is called after each piece with its number of rows; it raises an exception to stop."""


class PieceWriter:
    """Writer that stores each piece of rows in a transaction of its own."""

    def __init__(self, database: Database, step: Step | None = None) -> None:
        self.database = database
        self._step = step

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.database.write() as connection:
            yield connection

    def run(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement for each of the rows, one piece at a time."""
        direct = DirectStatement(statement)
        for piece in chunks(rows, PIECE):
            with self.transaction() as connection:
                direct.run(connection, *piece)
            self.count(len(piece))

    def count(self, rows: int) -> None:
        if self._step is not None:
            self._step(rows)


class OnePiece(PieceWriter):
    """Writer that stores all rows in the caller's transaction."""

    def __init__(self, database: Database, connection: Connection) -> None:
        super().__init__(database)
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        yield self._connection
