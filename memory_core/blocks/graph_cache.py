"""Cache of a block's knowledge graph within one process.

The database is the truth: the cache compares revisions at each use, and reads the graph again if they differ.
"""

from threading import Lock

from sqlalchemy import Connection

from memory_core.planning.graph_rules import Graph, Names
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.graph_rows import Revision, graph_revision, read_graph


class GraphCache:
    """Cache of the graph of one block in one scope. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: tuple[Revision, Graph, Names] | None = None

    @classmethod
    def of(cls, services: Services, database: Database, scope: str, block: str) -> "GraphCache":
        """Return the cache of this process for a block."""
        return services.cached(("graph", database.id, scope, block), cls)

    def catch_up(self, connection: Connection, scope: str, block: str) -> tuple[Revision, Graph, Names]:
        """Return the present graph, with its revision and the names of its entities."""
        revision = graph_revision(connection, scope, block)
        with self._lock:
            # Read under the lock, so that two threads that ask at once read the graph once.
            if self._known is None or self._known[0] != revision:
                graph = read_graph(connection, scope, block)
                self._known = revision, graph, Names(graph)
            return self._known
