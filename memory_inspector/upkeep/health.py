"""Health checks: one real request to each part that memory depends on, its duration, and advice if it fails.

    health = check_health(memory.database, memory.services, model)
    for check in health.checks:
        print(check.part, check.state, check.name, check.text)

No check raises for a part that is down, waits indefinitely, changes memory or exposes a key.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal

from sqlalchemy import Connection, func, select, text

from memory_core.access import needs
from memory_core.errors import MemoryInspectorError, StoreError, VectorIndexError, user_message
from memory_core.models.endpoint import Endpoint, model_error
from memory_core.models.protocols import ChatModel, Embedder, embedded
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.tables import delivery_table, event_table, session_table, vector_table
from memory_core.store.totals import emptied_collections, read_collections
from memory_core.store.vector_rows import DatabaseVectors
from memory_core.vectors.chroma_client import was_reached
from memory_core.vectors.vector_index import VectorIndex

Part = Literal["database", "vectors", "embeddings", "chat"]
State = Literal["ok", "offline", "unsure", "failed"]

TIMEOUT_SECONDS = 10.0
"""Time limit, in seconds, for all checks together; loading the local models takes seconds on a busy machine."""

REQUEST_SECONDS = 5.0
"""Time limit, in seconds, for one answer of a model's address."""

SAME = 0.99
"""Minimum score of a stored vector with itself."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Check:
    """Result of one health check: of the database, the vectors, the embeddings or the chat model."""

    part: Part
    state: State
    """`offline`: no language model, by choice. `unsure`: the part answers, but not to the request that was made."""
    name: str
    """Name of the checked part: an address without its password, or a model. Empty if unknown."""
    seconds: float | None
    """Time until the answer; None if no request was made or no answer came."""
    text: str = ""
    """Problem and remedy, or other useful information. Empty if there is nothing to report."""


@dataclass(frozen=True, slots=True)
class Health:
    """All checks made at one time."""

    checks: tuple[Check, ...]
    at: float
    """Time, in seconds since the epoch."""

    @property
    def problems(self) -> tuple[Check, ...]:
        """The parts that failed."""
        return tuple(check for check in self.checks if check.state == "failed")


def check_health(
    database: Database,
    services: Services,
    model: ChatModel | None = None,
    *,
    free: bool = False,
    timeout: float = TIMEOUT_SECONDS,
    clock: Callable[[], float] = time.time,
) -> Health:
    """Check every part concurrently; the chat model only if `model` is given.

    The database is read, the vector index searched, a word embedded, and the chat model's address queried for its list
    of models, which uses no tokens. With `free`, an embedding model behind an address is queried for its list too
    instead of for a vector. A part that has not answered after `timeout` seconds counts as failed.
    """
    asked: dict[Part, Callable[[], _Answer]] = {
        "database": lambda: _database(database),
        "vectors": lambda: _vectors(database, services),
        "embeddings": lambda: _embeddings(services.embedder, free),
    }
    if model is not None:
        asked["chat"] = lambda: _chat(model)
    # All at once: one that hangs must not use up the time of the others.
    asking = [_Asking(part, ask) for part, ask in asked.items()]
    deadline = time.monotonic() + timeout
    for check in asking:
        check.thread.join(max(0.0, deadline - time.monotonic()))
    return Health(tuple(check.check(timeout) for check in asking), clock())


@needs("owner")
def rebuild_index(
    database: Database,
    services: Services,
    *,
    progress: Callable[[int, int], None] = lambda done, of: None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Discard the vector index's copies, rebuild them from the database and return the number of stored turns indexed.

    `progress` receives the number of stored turns done and the total. If stopped early, the rest is built at the next
    search; nothing is lost, since the database has every vector.

    Raises:
        AccessError: the acting person is no owner.
        StoreError: the database cannot be reached.
        VectorIndexError: the index cannot be reached.
    """
    index = services.index_of(database)
    # Before anything is discarded: without the index nothing could be rebuilt.
    index.check()
    with database.read() as connection:
        collections, emptied = read_collections(connection), emptied_collections(connection)
    # Collections of deleted sessions have no vectors any more that a search would replace.
    for name in emptied:
        index.forget(name)
    done, all_of_them = 0, sum(collection.vectors for collection in collections)
    for collection in collections:
        if stop():
            break
        progress(done, all_of_them)
        # A search builds the copy anew, as it first catches up with the database.
        index.forget(collection.name)
        finds_newest(database, index, collection.name, collection.newest)
        done += collection.vectors
    return done


def can_be_rebuilt(index: VectorIndex) -> bool:
    """Return whether the index is a copy that can be rebuilt; an exact scan reads the database itself."""
    return not index.name.startswith("exact scan")


def size_of(database: Database) -> tuple[int, int]:
    """Return the size of the stored database in bytes, and how many of them `Database.compact` would free.

    SQLite's write-ahead log does not count; PostgreSQL frees by itself what erased data left.

    Raises:
        StoreError: it cannot be reached.
    """
    with database.read() as connection:
        if not database.is_sqlite:
            size = text("SELECT pg_database_size(current_database())")
            return int(connection.execute(size).scalar_one()), 0
        pragmas = (text(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size"))
        pages, unused, page_bytes = (int(connection.execute(pragma).scalar_one()) for pragma in pragmas)
        return pages * page_bytes, unused * page_bytes


@dataclass(frozen=True, slots=True)
class _Answer:
    name: str
    seconds: float | None
    state: State = "ok"
    text: str = ""


def _seconds(request: Callable[[], object]) -> float:
    """Return the duration of one request, in seconds."""
    started = time.perf_counter()
    request()
    return time.perf_counter() - started


class _Failed(Exception):
    """Raised for a part that does not work, with the sentence to report."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


class _Asking:
    """Health check in its own thread, joined for no longer than the time limit."""

    def __init__(self, part: Part, ask: Callable[[], _Answer]) -> None:
        self._part = part
        self._ask = ask
        self._answer: Check | None = None
        self.thread = threading.Thread(target=self._run, name=f"health-{part}", daemon=True)
        self.thread.start()

    def check(self, timeout: float) -> Check:
        # The thread may still be at work; as a daemon it does not keep the process from ending.
        late = f"no answer within {timeout:g} s. {_WHAT_TO_DO[self._part]}"
        return self._answer or Check(self._part, "failed", "", None, late)

    def _run(self) -> None:
        try:
            answer = self._ask()
        except _Failed as failure:
            self._answer = Check(self._part, "failed", failure.name, None, str(failure))
        except MemoryInspectorError as error:
            self._answer = Check(self._part, "failed", "", None, user_message(error))
        except Exception as error:
            # Report only the type: the text of an unexpected exception may contain anything, even a key.
            _log.warning("the health check of %s ended with %s", self._part, type(error).__name__)
            text = f"the check ended with {type(error).__name__}. {_WHAT_TO_DO[self._part]}"
            self._answer = Check(self._part, "failed", "", None, text)
        else:
            self._answer = Check(self._part, answer.state, answer.name, answer.seconds, answer.text)


_WHAT_TO_DO: dict[Part, str] = {
    "database": "Messages you already sent are safe. Check that it runs, then check again.",
    "vectors": "Check that it runs. Messages are kept and will be indexed later.",
    "embeddings": "Until it answers, earlier turns are found by their words alone.",
    "chat": "Check the address and that the server runs.",
}


def _database(database: Database) -> _Answer:
    url = database.engine.url
    # SQLite works on with a deleted file, and would report no problem.
    if database.is_sqlite and url.database and url.database != ":memory:" and not Path(url.database).exists():
        raise _Failed(
            database.url,
            f"the file {url.database} is gone. Put it back and start the app again: what is written now is lost.",
        )

    def read() -> None:
        with database.read() as connection:
            _count_sessions(connection)

    try:
        read()  # the first read may open a connection
        return _Answer(database.url, _seconds(read))
    except StoreError as error:
        raise _Failed(database.url, f"{error} {_WHAT_TO_DO['database']}") from error


def _count_sessions(connection: Connection) -> int:
    """Return the number of sessions that were not deleted."""
    query = select(func.count()).select_from(session_table).where(session_table.c.deleted_at.is_(None))
    return int(connection.execute(query).scalar_one())


def _vectors(database: Database, services: Services) -> _Answer:
    index = services.index_of(database)
    try:
        index.check()
        newest = _newest(database)
        if newest is None:
            return _Answer(index.name, _seconds(index.check))
        if not finds_newest(database, index, *newest):  # the search has also added missing vectors to the index
            raise _Failed(index.name, "a stored turn is not found again. Messages are kept. Rebuild the index.")
        return _Answer(index.name, _seconds(lambda: finds_newest(database, index, *newest)))
    except VectorIndexError as error:
        raise _Failed(index.name, _index_sentence(index, error)) from error


def _newest(database: Database) -> tuple[str, int] | None:
    """Return collection and id of the newest stored turn; None if there is none, or if the database does not answer."""
    newest = select(vector_table.c.collection, vector_table.c.id).order_by(vector_table.c.id.desc()).limit(1)
    try:
        with database.read() as connection:
            row = connection.execute(newest).one_or_none()
    except StoreError:
        return None
    return (row[0], int(row[1])) if row else None


def finds_newest(database: Database, index: VectorIndex, collection: str, newest: int) -> bool:
    """Return whether a search with a collection's newest vector finds it. The index catches up before it answers."""
    source = DatabaseVectors(database, collection)
    stored = source.some([newest])
    if not stored:  # deleted meanwhile
        return True
    # A vector finds itself with a score of 1, but for rounding.
    hits = index.search(source, stored[0].vector, limit=1)
    return bool(hits) and hits[0].score >= SAME


def _index_sentence(index: VectorIndex, error: VectorIndexError) -> str:
    # Without a cause, or with an answer, the error's own sentence says more than that nothing answers.
    if error.__cause__ is None or was_reached(error):
        return str(error)
    place = index.name.rpartition(" at ")[2]
    return f"no answer at {place}. Start the server or unset the address. Messages are kept and will be indexed later."


def _embeddings(embedder: Embedder, free: bool) -> _Answer:
    endpoint = getattr(embedder, "endpoint", None)
    if free and isinstance(endpoint, Endpoint):
        return _Answer(endpoint.host, _seconds(lambda: _list_models(endpoint)))
    # An embedder of the caller's own has no list of models to ask for instead.
    if free and not embedder.offline:
        return _Answer(embedder.id, None, "unsure", "Asking it could cost something. The next message will show.")
    if embedder.offline:
        embedder.embed(["memory"])  # loads the model
    unheard = [f"memory {token_hex(8)}"]  # earlier texts may be cached
    seconds = _seconds(lambda: embedded(embedder, unheard))
    return _Answer(embedder.id, seconds, text="local" if embedder.offline else "")


def _chat(model: ChatModel) -> _Answer:
    if model.offline:
        return _Answer("offline", None, "offline", "rules, not a language model")
    endpoint = getattr(model, "endpoint", None)
    if not isinstance(endpoint, Endpoint):
        return _Answer(model.name, None, "unsure", "is asked only for replies. The next message will show.")
    endpoint.client()  # loads the client
    started = time.perf_counter()
    models = _list_models(endpoint)
    seconds = time.perf_counter() - started
    if model.name in models:
        return _Answer(model.name, seconds)
    listed = f'does not list "{model.name}"' if models else "answers but lists no models"
    return _Answer(model.name, seconds, "unsure", f"{endpoint.host} {listed}. The next message will show.")


def _list_models(endpoint: Endpoint) -> frozenset[str]:
    """Return the names of the models at an address; empty if it answers but has no such list. Uses no tokens.

    Raises:
        ModelError: nothing answers, or the key is refused.
    """
    # No retries: the time limit is for one answer, and a health check is repeated anyway.
    client: Any = endpoint.client().with_options(timeout=REQUEST_SECONDS, max_retries=0)
    import openai

    try:
        return frozenset(str(item.id) for item in client.models.list().data or ())
    # It answers: many compatible servers have no list of models.
    except openai.NotFoundError:
        return frozenset()
    except openai.APITimeoutError as error:
        text = f"no answer at {endpoint.host} within {REQUEST_SECONDS:g} s. Start the server or change the address."
        raise _Failed(endpoint.host, text) from error
    except (openai.OpenAIError, ValueError, AttributeError, TypeError) as error:
        raise _Failed(endpoint.host, str(model_error(error, endpoint, model=endpoint.host))) from error


# -- figures of a database in use, for monitoring -------------------------------------------------


RECENT_SECONDS = 900.0
"""Seconds before a measurement whose deliveries count for the time that learning takes."""


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of one tenant at one time."""

    sessions: int
    waiting: int
    """Deliveries that wait for their next attempt."""
    parked: int
    """Deliveries that are tried again only when a person asks for it."""
    oldest_seconds: float
    """Seconds that the oldest waiting delivery has waited; 0 without any."""
    learned_after: tuple[float, ...]
    """Seconds from due to learned of each delivery done in the last `RECENT_SECONDS`, ascending."""
    events: Mapping[str, int]
    """Number of events since the first measurement, by kind: `message_added`, `context_built`, ..."""


class LoadMeter:
    """Measures one tenant's database again and again. Events stored before the first measurement do not count."""

    def __init__(self) -> None:
        self._position: int | None = None
        self._events: Counter[str] = Counter()

    def measure(self, database: Database) -> Load:
        """Return the present figures.

        Raises:
            StoreError: the database cannot be read.
        """
        now, e, d = time.time(), event_table.c, delivery_table.c
        with database.read() as connection:
            # 1. Events that were stored since the last measurement, by kind.
            newest = connection.execute(select(func.max(e.id))).scalar() or 0
            if self._position is not None:
                counts = select(e.kind, func.count()).where(e.id > self._position, e.id <= newest).group_by(e.kind)
                for kind, number in connection.execute(counts):
                    self._events[kind] += number
            # 2. Deliveries that wait, and those done of late.
            states = select(d.state, func.count(), func.min(d.created_at)).where(d.state.in_(["pending", "parked"]))
            rows = connection.execute(states.group_by(d.state))
            by_state = {state: (number, since) for state, number, since in rows}
            recent = select(d.done_at - d.created_at).where(d.state == "done", d.done_at >= now - RECENT_SECONDS)
            took = sorted(max(0.0, seconds) for seconds in connection.execute(recent).scalars())
            sessions = _count_sessions(connection)
        self._position = newest
        waiting, oldest = by_state.get("pending", (0, None))
        parked, _ = by_state.get("parked", (0, None))
        waited = max(0.0, now - oldest) if oldest is not None else 0.0
        return Load(sessions, waiting, parked, waited, tuple(took), dict(self._events))
