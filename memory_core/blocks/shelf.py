"""A vector block's stored turns as one process remembers them: which there are, and their words for keyword search.

The database is the truth. A shelf catches up with it before it is used, and reads only what is new.
"""

from collections.abc import Callable, Sequence
from threading import Lock

from sqlalchemy import Connection

from memory_core.store.vectors import Node, count_nodes, read_nodes
from memory_core.vectors.keyword import KeywordIndex

WordsOf = Callable[[Connection, Sequence[Node]], list[str]]


class Shelf:
    """The stored turns of one block of one session. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: dict[int, Node] = {}
        self._keywords = KeywordIndex()

    def clear(self) -> None:
        """Remember nothing; the next look reads the database again."""
        with self._lock:
            self._nodes, self._keywords = {}, KeywordIndex()

    def catch_up(
        self, connection: Connection, session_id: str, block: str, words: WordsOf
    ) -> tuple[dict[int, Node], KeywordIndex]:
        """All stored turns by number, and the index of their words, as the database has them now."""
        with self._lock:
            count, last = count_nodes(connection, session_id, block)
            known = max(self._nodes, default=0)
            if (count, last) != (len(self._nodes), known):
                new = read_nodes(connection, session_id, block, after=known)
                if len(self._nodes) + len(new) != count:  # some were removed: begin again
                    self._keywords, new = KeywordIndex(), read_nodes(connection, session_id, block)
                    self._nodes = {}
                for node, text in zip(new, words(connection, new), strict=True):
                    self._keywords.add(node.number, text)
                # A new dict: who still reads the old one is not disturbed.
                self._nodes = {**self._nodes, **{node.number: node for node in new}}
            return self._nodes, self._keywords
