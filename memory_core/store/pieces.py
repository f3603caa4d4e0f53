"""Long writing in pieces: many short transactions in place of one long one, so that others write in between.

What is written so must not be seen before it is whole: a session is stored as a deleted one, and is there with the last
piece. What a process leaves behind that dies before is erased later (`memory_core.store.erasing.erase_what_was_left`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Executable

from memory_core.store.database import Database, chunks

PIECE = 2_000
"""Rows of one transaction: some 50 ms of a disk's and everybody else's time."""

Step = Callable[[int], None]
"""Told after each piece how many rows it had; to stop, it raises."""


class Pieces:
    """Writes rows, each piece of them in a transaction of its own."""

    def __init__(self, database: Database, step: Step | None = None) -> None:
        self.database = database
        self._step = step

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.database.write() as connection:
            yield connection

    def run(self, statement: Executable, rows: Iterable[Mapping[str, Any]]) -> None:
        """Execute a statement with each of the rows, which are asked for a piece at a time."""
        for piece in chunks(rows, PIECE):
            with self.transaction() as connection:
                connection.execute(statement, piece)
            self.count(len(piece))

    def count(self, rows: int) -> None:
        if self._step is not None:
            self._step(rows)


class OnePiece(Pieces):
    """Writes all rows in a transaction that somebody else began and ends."""

    def __init__(self, database: Database, connection: Connection) -> None:
        super().__init__(database)
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        yield self._connection
