"""Store units of a vector block with their vectors, or let them get their vectors later, in the background.

The database is the truth: a unit without a vector, as its embedding model failed or it is too long to embed at once, is
stored under `NO_EMBEDDER` and found by keyword. If the process ends first, the next process that learns for the block
continues, or an app started on the database.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memory_core.blocks.base import Batch, PendingWrite
from memory_core.blocks.units import node_words, parse_unit, search_words, words_of
from memory_core.errors import EmbedderError, user_message
from memory_core.events import VectorsReplaced, VectorsStored, ranges
from memory_core.models.protocols import Embedder, embedded
from memory_core.process import per_process, renewed
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.derived_files import DerivedFile
from memory_core.store.message_rows import StoredMessage
from memory_core.store.vector_rows import (
    NO_EMBEDDER,
    NO_VECTOR,
    DatabaseVectors,
    NewNode,
    add_nodes,
    collection_name,
    read_nodes_of,
    read_nodes_without_vector,
    replace_vectors,
)
from memory_core.store.writing import Writing, user_scope, writing
from memory_core.vectors.vector_index import Vector

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


# -- storing --------------------------------------------------------------------------------------


MAX_CAUGHT_UP = 200
"""Maximum number of units without a vector that are embedded along with new ones, the oldest first."""


@dataclass(slots=True)
class LearnedUnits(PendingWrite):
    """Pending write of a vector block: units and vectors."""

    block: str
    embedder: str
    """Embedder id; `NO_EMBEDDER` if the model failed."""
    nodes: Sequence[NewNode]
    earlier: Mapping[int, Vector] = field(default_factory=dict)
    """New vectors of stored units that had none, or an unusable one, by id."""
    unusable: set[int] = field(default_factory=set)
    """Ids of stored units whose vector has a wrong length or values that are no numbers, as far as searches found."""
    error: str | None = None
    """Reason why the units are stored without vectors."""
    then: Callable[[], None] | None = None
    """Called after the commit; starts background embedding."""

    def save(self, w: Writing) -> None:
        numbers = add_nodes(w, self.block, self.embedder, self.nodes)
        stored = tuple((n, ranges(node.seqs), node.tokens) for n, node in zip(numbers, self.nodes, strict=True))
        follow = self.then is not None
        w.record(VectorsStored(self.block, self.embedder, stored, error=self.error, follow=follow))
        replaced = replace_vectors(w, self.block, self.embedder, self.earlier, unusable=self.unusable)
        if replaced:
            w.record(VectorsReplaced(self.block, self.embedder, tuple(replaced)))

    def committed(self) -> None:
        # After the commit only: searches of this process share the set.
        self.unusable.difference_update(self.earlier)
        if self.then is not None:
            self.then()


def learn_units(batch: Batch, block: str, embedder: Embedder, units: Sequence[Sequence[StoredMessage]]) -> LearnedUnits:
    """Embed units, each of at least one message with words; return the pending write. `block`: the block's name."""
    if embedder.offline and _long(batch, block, units):
        without = _nodes(batch, units, [NO_VECTOR] * len(units))
        following = vectors_that_follow(batch.database, batch.services, batch.session_id, block)
        then = partial(following.start, batch.services, batch.database, batch.session_id, block, embedder)
        return LearnedUnits(block, NO_EMBEDDER, without, then=then)
    try:
        vectors = embedded(embedder, [search_words(unit) for unit in units])
        name = embedder.id
    except EmbedderError as error:  # every search reports it, too, while it lasts
        without = _nodes(batch, units, [NO_VECTOR] * len(units))
        return LearnedUnits(block, NO_EMBEDDER, without, error=user_message(error))
    unusable = unusable_vectors(batch.database, batch.services, batch.session_id, block, embedder)
    earlier = _caught_up(batch, block, embedder, sorted(unusable)[:MAX_CAUGHT_UP])
    return LearnedUnits(block, name, _nodes(batch, units, list(vectors)), earlier, unusable)


def unusable_vectors(
    database: Database, services: Services, session_id: str, block: str, embedder: Embedder
) -> set[int]:
    """Return ids of stored units whose vectors of this embedder are unusable, as far as searches have found them."""
    collection = collection_name(database, session_id, block, embedder.id)
    return services.cached(("unusable", collection), set[int])


def vectors_that_follow(database: Database, services: Services, session_id: str, block: str) -> Following:
    """Return the background embedding of a block."""
    return services.cached(("following", database.id, session_id, block), Following)


def vectors_of(
    database: Database, services: Services, session_id: str, block: str, embedder: Embedder
) -> DatabaseVectors:
    """Return the vectors of a block's stored units under this embedder."""
    unusable = unusable_vectors(database, services, session_id, block, embedder)
    collection = collection_name(database, session_id, block, embedder.id)
    file = DerivedFile(database, session_id, f"vectors of {collection}")
    return DatabaseVectors(database, collection, embedder.dimensions, unusable, file=file)


def vectors_of_user(
    database: Database, services: Services, user_id: str, sessions: Sequence[str], block: str, embedder: Embedder
) -> DatabaseVectors:
    """Return the vectors of a block's stored units in all of these sessions of a user, under this embedder."""
    owner = user_scope(user_id)
    unusable = unusable_vectors(database, services, owner, block, embedder)
    joined = [collection_name(database, session_id, block, embedder.id) for session_id in sessions]
    collection = collection_name(database, owner, block, embedder.id)
    return DatabaseVectors(database, collection, embedder.dimensions, unusable, joined)


def _long(batch: Batch, block: str, units: Sequence[Sequence[StoredMessage]]) -> bool:
    """Return whether these units, with earlier ones without a vector, are too long to embed at once."""
    with batch.database.read() as connection:
        before = read_nodes_without_vector(connection, batch.database, batch.session_id, block, limit=MAX_CAUGHT_UP)
    # Units that wait count too: embedding the new ones would embed these along with them.
    tokens = sum(message.tokens.content for unit in units for message in unit) + sum(node.tokens for node in before)
    return tokens > AT_ONCE_TOKENS


def _caught_up(batch: Batch, block: str, embedder: Embedder, unusable: Sequence[int]) -> dict[int, Vector]:
    """Embed stored units without a vector, and the `unusable` ones; return the new vectors by id."""
    with batch.database.read() as connection:
        nodes = read_nodes_without_vector(connection, batch.database, batch.session_id, block, limit=MAX_CAUGHT_UP)
        nodes += read_nodes_of(connection, batch.session_id, block, unusable)
        words = node_words(connection, batch.session_id, batch.services.messages, nodes)
    if not nodes:
        return {}
    try:
        return dict(zip((node.number for node in nodes), embedded(embedder, words), strict=True))
    except EmbedderError:  # an old unit that cannot be embedded must not hold up new ones
        return {}


def _nodes(batch: Batch, units: Sequence[Sequence[StoredMessage]], vectors: Sequence[Vector]) -> list[NewNode]:
    return [
        NewNode(
            tuple(message.seq for message in unit),
            batch.counter.text(words_of(unit)),
            vector,
            parse_unit(unit).to_json(),
        )
        for unit, vector in zip(units, vectors, strict=True)
    ]
