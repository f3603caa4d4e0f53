"""How the database grows: bytes of a recorded context, and of a long session with facts and vectors.

    python benchmarks/growth.py [--turns N] [--context-every N]

The session has default limits, a static block, facts (the offline rules) and stored turns. Its vectors come
from words hashed into 384 numbers instead of the local model, which takes minutes and gives rows of the same
size. LlamaIndex's `Memory` stores the same messages beside it, without blocks, events or vectors.
"""

import argparse
import asyncio
import random
import sqlite3
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from engines import NEVER_FLUSHES, Reference, sentences

from memory_core.blocks import FactExtractionMemoryBlock, StaticMemoryBlock, VectorMemoryBlock
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.services import Services

SESSION = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
"""An id of the usual length: it stands in most rows and indexes."""

QUEUES = (10, 100, 1_000, 3_000)
MAX_CONTEXT_BYTES = 4_096
MAX_FILE_BYTES = 60_000_000

_FACTS = (
    "My sister {name} lives in {place}.",
    "I have a dog called {name}.",
    "I work as a translator in {place}.",
    "I am allergic to {food}.",
    "My favourite dish is {food}.",
    "I am moving to {place} in spring.",
)
_NAMES = "Ada Bruno Clara Dario Edith Felix Greta Hugo Iris Jonas Klara Luis Mira Nils Olga Paul Rosa Stefan"
_PLACES = "Vienna Lisbon Porto Graz Turin Malmo Leeds Ghent Bern Cork Oslo Riga Split Bath Nice Brno"
_FOODS = "peanuts shrimp lentils mango walnuts celery mustard risotto dumplings pancakes goulash paella"


class HashedWords:
    """A deterministic embedder that costs next to nothing: each word adds to a few of 384 numbers."""

    id = "hashed-words-384"
    dimensions = 384
    offline = True

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        rows = np.full((len(texts), self.dimensions), 1e-3, dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % self.dimensions] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def turns(count: int) -> Iterator[tuple[str, str]]:
    """What the user says and the answer, about 30 tokens each; every fourth turn tells a fact."""
    chance = random.Random(11)
    names, places, foods = _NAMES.split(), _PLACES.split(), _FOODS.split()
    words = iter(sentences(2 * count, seed=12))
    for number in range(count):
        said = next(words)
        if number % 4 == 0:
            fact = chance.choice(_FACTS)
            said = fact.format(name=chance.choice(names), place=chance.choice(places), food=chance.choice(foods))
        yield said, next(words)


def opened(file: Path, session: str, **config: int) -> Memory:
    blocks = [
        StaticMemoryBlock(name="about", static_content="The user is called Ada and prefers short answers."),
        FactExtractionMemoryBlock(name="facts", priority=1),
        VectorMemoryBlock(name="turns", priority=2, similarity_top_k=5),
    ]
    services = Services(embedder=HashedWords())
    return Memory.from_defaults(
        session, database_uri=f"sqlite:///{file}", memory_blocks=blocks, services=services, **config
    )


def put_turn(memory: Memory, said: str, answer: str, *, context: bool) -> None:
    memory.put(ChatMessage(role="user", content=said))
    if context:
        memory.build_context()
    memory.put(ChatMessage(role="assistant", content=answer))


def context_sizes(folder: Path) -> None:
    """Bytes of what one context leaves in the log, at several lengths of the queue."""
    print(f"{'active messages':>16}{'context_built':>15}{'retrieved':>11}{'goal':>10}")
    for length in QUEUES:
        memory = opened(folder / "contexts.db", f"queue of {length}", token_limit=NEVER_FLUSHES)
        for said, answer in turns(60):
            put_turn(memory, said, answer, context=False)
        memory.flush(all=True)  # so that there are facts and stored turns to record
        filling = [ChatMessage(role="user", content=text) for text in sentences(length)]
        memory.put_messages(filling)
        position = memory.session.status().position
        memory.build_context()
        sizes = {record.kind: len(record.event.to_json().encode()) for record in memory.events(position)}
        verdict = "pass" if sizes["context_built"] < MAX_CONTEXT_BYTES else "miss"
        print(f"{length:16,}{sizes['context_built']:15,}{sizes['retrieved']:11,}{'< 4,096':>10}  {verdict}", flush=True)


def session_size(folder: Path, count: int, every: int) -> None:
    """The file of one long session, and where its bytes are."""
    file = folder / "session.db"
    memory = opened(file, SESSION)
    for number, (said, answer) in enumerate(turns(count)):
        put_turn(memory, said, answer, context=number % every == 0)
    memory.flush(all=True)
    failed = [served for served in memory.deliver().values() if served.outcome != "done"]
    if failed:
        raise SystemExit(f"not everything was delivered: {failed}")
    facts = len(memory.facts.read("facts"))
    memory.session.database.close()
    size = packed(file)
    goal = "" if (count, every) != (5_000, 1) else "  goal < 60.0  " + ("pass" if size < MAX_FILE_BYTES else "miss")
    print(f"\n{count:,} turns, a context recorded every {every}, {facts} facts active: {size / 1e6:.1f} MB{goal}")
    for name, rows, total in tables(file):
        print(f"  {name:<44}{total / 1e6:8.2f} MB" + (f"{rows:9,} rows" if rows is not None else ""))
    for kind, rows, total in kinds(file):
        print(f"    event {kind:<38}{total / 1e6:8.2f} MB{rows:9,} rows, {total / rows:,.0f} bytes each")


def reference_size(folder: Path, count: int) -> None:
    with asyncio.Runner() as runner:
        reference = Reference(folder, SESSION, runner=runner, token_limit=NEVER_FLUSHES)
        reference.fill([text for turn in turns(count) for text in turn])
        reference.close()
    size = packed(reference.file)
    print(f"\nthe reference, the same {2 * count:,} messages and nothing else: {size / 1e6:.1f} MB")


def packed(file: Path) -> int:
    """Bytes of a database file with everything in it."""
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return file.stat().st_size


def tables(file: Path) -> list[tuple[str, int | None, int]]:
    """Name, rows (None for an index) and bytes of each table and index, the largest first."""
    connection = sqlite3.connect(file)
    sizes = connection.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 12").fetchall()
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    found = [
        (name, connection.execute(f'SELECT COUNT(*) FROM "{name}"').fetchone()[0] if name in known else None, size)
        for name, size in sizes
    ]
    connection.close()
    return found


def kinds(file: Path) -> list[tuple[str, int, int]]:
    """Kind, rows and bytes of data of the events that take most."""
    connection = sqlite3.connect(file)
    query = "SELECT kind, COUNT(*), SUM(LENGTH(CAST(data AS BLOB))) FROM mi_event GROUP BY kind ORDER BY 3 DESC LIMIT 8"
    found = connection.execute(query).fetchall()
    connection.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5_000, metavar="N")
    parser.add_argument("--context-every", type=int, nargs="+", default=[10, 1], metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        context_sizes(Path(folder))
    for every in options.context_every:
        with tempfile.TemporaryDirectory() as folder:
            session_size(Path(folder), options.turns, every)
    with tempfile.TemporaryDirectory() as folder:
        reference_size(Path(folder), options.turns)


if __name__ == "__main__":
    main()
