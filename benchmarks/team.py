"""Three app processes and four writing agents on one PostgreSQL, which is restarted half-way: is anything lost?

Each agent puts messages into sessions of its own, builds contexts, and tries again after an error. Each app reads what
its pages show, and learns what is due. At the end every acknowledged message must be stored once, in its order.

    python benchmarks/team.py --seconds 600
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from engine_fakes import HashEmbedder, NoteExtractor, note
from postgres_kit import PostgresServer, find_programs

from memory_core import FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock
from memory_core.config import Settings
from memory_core.errors import StoreError
from memory_core.sessions.overview import list_sessions
from memory_core.store.database import Database
from memory_inspector.server.engine import Engine

WRITERS, APPS, SESSIONS = 4, 3, 4
PAUSE_SECONDS = 0.02
"""Pause of an agent between two messages: it also has a model to wait for."""

AGAIN_SECONDS = 0.05
"""Pause before an operation is tried again after an error."""


def open_memory(url, session):
    return Memory.from_defaults(
        session,
        database_uri=url,
        token_limit=600,
        token_flush_size=100,
        tokenizer_fn=str.split,
        services=Services(embedder=HashEmbedder()),
        memory_blocks=[
            FactExtractionMemoryBlock(name="facts", llm=NoteExtractor()),
            VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
        ],
    )


def insisting(work, waits, errors):
    """Do something until it succeeds; note the seconds that it took, and its errors."""
    began = time.monotonic()
    while True:
        try:
            result = work()
        except StoreError as error:
            errors.append(str(error)[:120])
            time.sleep(AGAIN_SECONDS)
        else:
            waits.append(time.monotonic() - began)
            return result


def write(url, number, until, file):
    waits, errors, stored = [], [], {}
    names = [f"agent-{number}-{session}" for session in range(SESSIONS)]
    memories = {name: insisting(partial(open_memory, url, name), [], errors) for name in names}
    turn = 0
    while time.time() < until:
        for name, memory in memories.items():
            id = f"{name}-{turn}"
            insisting(partial(memory.put, note(turn), message_id=id), waits, errors)
            stored.setdefault(name, []).append(id)
            if turn % 5 == 4:
                insisting(partial(memory.build_context, f"note {turn - 3}?"), waits, errors)
            time.sleep(PAUSE_SECONDS)
        turn += 1
    Path(file).write_text(json.dumps({"waits": waits, "errors": errors, "stored": stored}))


def watch(url, until, file):
    """Do what an app's process does: its background work, and what a page reads, again and again."""
    waits, errors = [], []
    engine = insisting(lambda: Engine(Settings(home=None, database_url=url, chroma_url=None)), [], errors)

    def page():
        sessions = list_sessions(engine.database)
        if sessions:
            memory = engine.open(sessions[0].session_id)
            memory.preview.context(input="note 3?")
            memory.session.messages(last=20)

    while time.time() < until:
        insisting(page, waits, errors)
        time.sleep(1.0)
    engine.close()
    Path(file).write_text(json.dumps({"waits": waits, "errors": errors, "stored": {}}))


def lost_or_doubled(url, stored):
    """Return the number of acknowledged messages, and of those that are missing, doubled or out of order."""
    acknowledged = wrong = 0
    for session, ids in stored.items():
        with Database.open(url).read() as connection:
            query = "SELECT id FROM mi_message WHERE session_id = %(session)s ORDER BY seq"
            rows = [row[0] for row in connection.exec_driver_sql(query, {"session": session})]
        acknowledged += len(ids)
        wrong += sum(a != b for a, b in zip(rows, ids, strict=False)) + max(0, len(ids) - len(rows))
    return acknowledged, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    server = PostgresServer(find_programs())
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        url, context = server.new_database(), multiprocessing.get_context("spawn")
        Database.open(url).close()
        until = time.time() + options.seconds
        files = [f"{folder}/{number}" for number in range(WRITERS + APPS)]
        processes = [context.Process(target=write, args=(url, n, until, files[n])) for n in range(WRITERS)]
        processes += [context.Process(target=watch, args=(url, until, file)) for file in files[WRITERS:]]
        for process in processes:
            process.start()
        time.sleep(options.seconds / 2)
        began = time.monotonic()
        server.restart()
        restart = time.monotonic() - began
        for process in processes:
            process.join()
        results = [json.loads(Path(file).read_text()) for file in files]
        stored = {session: ids for result in results for session, ids in result["stored"].items()}
        acknowledged, wrong = lost_or_doubled(url, stored)
        print(f"{acknowledged:,} messages acknowledged, {wrong} lost, doubled or out of order; restart {restart:.2f} s")
        for name, some in (("agents", results[:WRITERS]), ("apps", results[WRITERS:])):
            waits = np.array([wait for result in some for wait in result["waits"]])
            errors = sum(len(result["errors"]) for result in some)
            p50, p95, most = np.quantile(waits, [0.5, 0.95, 1.0])
            print(
                f"{name}: {len(waits):,} operations, p50 {p50:.3f} s, p95 {p95:.3f}, most {most:.2f}; {errors} errors"
            )
    server.close()


if __name__ == "__main__":
    main()
