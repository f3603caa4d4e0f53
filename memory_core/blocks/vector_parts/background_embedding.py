"""Embedding in the background: long units are stored at once, and get their vectors later.

The database is the truth: a unit without a vector is stored under `NO_EMBEDDER` and found by keyword. If the process
ends first, the next process that learns for the block continues, or an app started on the database.
"""

import logging
import threading
import time

from memory_core.blocks.vector_parts.units import node_words
from memory_core.events import VectorsReplaced
from memory_core.models.protocols import Embedder, embedded
from memory_core.process import per_process, renewed
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.vector_rows import read_nodes_without_vector, replace_vectors
from memory_core.store.writing import writing

AT_ONCE_TOKENS = 1_000
"""Maximum tokens embedded before storing: a fifth of a second with the local model."""

TOGETHER = 16
"""Units embedded and stored per transaction: a process that dies loses at most this work, a second or two."""

PATIENCE_SECONDS = 2.0
LOOKING_SECONDS = 0.3
"""Seconds a prompt, and a preview, wait for missing vectors; units still without one are found by keyword."""

QUIET_SECONDS = 0.2
MAX_PAUSE_SECONDS = 5.0
"""Seconds without a new unit before embedding resumes, and the longest pause in seconds: on two cores, a put during
embedding takes twice as long."""

_log = logging.getLogger(__name__)

_BY_KEYWORD = "Stored units are found by keyword only until they can be embedded, which failed with %s."


class Following:
    """Background embedding for one block of one session. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._settled.set()
        self._wanted = threading.Event()
        self._again = False
        self._stored_at = 0.0
        # A fork has no embedding thread, and may have copied the lock while it was held.
        renewed(self._after_fork)

    def _after_fork(self) -> None:
        self._lock, self._again = threading.Lock(), False
        self._settled, self._wanted = threading.Event(), threading.Event()
        self._settled.set()

    def start(self, services: Services, database: Database, session_id: str, block: str, embedder: Embedder) -> None:
        """Embed all units without a vector in the background, including those stored meanwhile."""
        with self._lock:
            self._stored_at = time.monotonic()
            if not self._settled.is_set():
                # One thread per block: the running one looks once more before it ends.
                self._again = True
                return
            self._settled.clear()
        work = _Work(services, database, session_id, block, embedder)
        threading.Thread(target=self._run, args=(work,), name="memory-vectors", daemon=True).start()

    @property
    def settled(self) -> bool:
        """True if every unit has its vector, as far as this process knows."""
        return self._settled.is_set()

    def wait(self, seconds: float | None) -> bool:
        """Wait until every unit has its vector, at most `seconds` (None: no limit); return whether all have."""
        if self.settled:
            return True
        self._wanted.set()
        return self._settled.wait(seconds)

    def _let_go_first(self) -> None:
        """Wait while more units are being stored, unless a reader waits for the vectors."""
        until = time.monotonic() + MAX_PAUSE_SECONDS
        while (now := time.monotonic()) < until and now - self._stored_at < QUIET_SECONDS:
            if self._wanted.wait(QUIET_SECONDS):
                return

    def _run(self, work: "_Work") -> None:
        try:
            while True:
                self._let_go_first()
                more = work.some()
                with self._lock:
                    # Decide under the lock, or a unit stored just now would be left to a thread that no longer looks.
                    if not (more or self._again):
                        self._settled.set()
                        return
                    self._again = False
        except Exception as error:  # a resource is gone: the next use tries again
            # By its type alone: the text of an exception may quote messages.
            _log.warning(_BY_KEYWORD, type(error).__name__)
        finally:
            # After a failure as well: a reader must not wait for vectors that do not come.
            self._wanted.clear()
            self._settled.set()


class _Work:
    def __init__(self, services: Services, database: Database, session_id: str, block: str, embedder: Embedder) -> None:
        self._services, self._database, self._session_id = services, database, session_id
        self._block, self._embedder = block, embedder

    def some(self) -> int:
        """Embed and store up to `TOGETHER` units; return their number."""
        with self._database.read() as connection:
            nodes = read_nodes_without_vector(connection, self._database, self._session_id, self._block, limit=TOGETHER)
            words = node_words(connection, self._session_id, self._services.messages, nodes)
        if not nodes:
            return 0
        with _turn():
            # Between the two transactions: the database must not be held while a model computes.
            vectors = embedded(self._embedder, words)
        vector_of = dict(zip((node.number for node in nodes), vectors, strict=True))
        with writing(self._database, self._session_id, clock=time.time) as w:
            numbers = replace_vectors(w, self._block, self._embedder.id, vector_of)
            if numbers:
                w.record(VectorsReplaced(self._block, self._embedder.id, tuple(numbers)))
        return len(numbers)


@per_process
def _turn() -> threading.Lock:
    """Return the lock for background embedding: one at a time in this process, so that questions are not slowed."""
    return threading.Lock()
