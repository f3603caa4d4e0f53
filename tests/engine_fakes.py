"""Fakes for tests of the engine: a clock that is set, and an extractor, an embedder and blocks computed from the text.

Messages are written as "note 17 ...": each carries one fact and one vector unit of its own.
"""

import re
import subprocess
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path

import numpy as np

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import ModelUnreachableError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.models.protocols import Condensation, CondensedFact, ExtractedFact, Extraction, ModelCall
from memory_core.planning.fact_merging import Fact
from memory_core.services import Services
from memory_core.store.writing import read_session


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def note(number):
    return user(f"note {number} of the day is here")


def number_of(text):
    return int(re.search(r"\d+", text).group())


def fact_row(id, text, **values):
    """A fact as the database gives it, learned from message `id` of session "s"."""
    given = {
        "scope": "session:s",
        "block": "facts",
        "tokens": 3,
        "category": "other",
        "slot": None,
        "state": "active",
        "pinned": False,
        "origin": "extracted",
        "turn": 1,
        "created_at": 0.0,
        "confirmed_at": 0.0,
        "updated_at": 0.0,
        "version": 1,
        "sources": (("s", id),),
    }
    return Fact(id=id, text=text, **{**given, **values})


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now=1_000_000.0):
        self.now = now

    def __call__(self):
        return self.now

    def pass_by(self, seconds):
        self.now += seconds


class NoteExtractor:
    """One fact a message: "note 17 was taken". Condenses by keeping the pinned and the first ones."""

    name = "notes"
    offline = True

    def __init__(self):
        self.calls = []
        """Texts of each call's messages."""

    def extract(self, messages, *, known):
        self.calls.append([message.content for message in messages])
        facts = [
            ExtractedFact(f"note {number_of(message.content)} was taken", source=index)
            for index, message in enumerate(messages)
            if message.role == "user"
        ]
        return Extraction(tuple(facts), (ModelCall("extract", self.name, 10, 2, 0.0),))

    def condense(self, facts, *, pinned, target):
        chosen = sorted([*pinned, *(i for i in range(len(facts)) if i not in pinned)][:target])
        return Condensation(tuple(CondensedFact(facts[index], stands_for=(index,)) for index in chosen))


class ShakyExtractor(NoteExtractor):
    """Fails whenever `fails(call number)` says so."""

    def __init__(self, fails):
        super().__init__()
        self.fails = fails
        self.asked = 0

    def extract(self, messages, *, known):
        self.asked += 1
        if self.fails(self.asked):
            raise ModelUnreachableError("Nothing answers at the model's address.")
        return super().extract(messages, known=known)


class HeldExtractor(NoteExtractor):
    """Waits in the middle of a call until it is let go."""

    def __init__(self):
        super().__init__()
        self.begun = threading.Event()
        self.evict = threading.Event()

    def extract(self, messages, *, known):
        self.begun.set()
        assert self.evict.wait(20)
        return super().extract(messages, known=known)


class HashEmbedder:
    """Unit vectors from the hash of a text."""

    id = "hash-8"
    dimensions = 8
    offline = True

    def embed(self, texts):
        rows = [np.frombuffer(sha256(text.encode()).digest(), dtype=np.uint8)[:8] for text in texts]
        vectors = np.asarray(rows, dtype=np.float32) - 127.5
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Counter(BaseMemoryBlock[str]):
    """A custom block in the reference's style: its fields are its state."""

    name: str = "counter"
    count: int = 0
    heard: tuple[int, ...] = ()

    async def _aget(self, messages=None, **kwargs):
        return f"{self.count} messages" if self.count else ""

    async def _aput(self, messages):
        self.count += len(messages)
        self.heard = (*self.heard, *(number_of(message.content) for message in messages))


def blocks(extractor=None):
    """One block of each kind that learns, made anew."""
    return [
        FactExtractionMemoryBlock(name="facts", llm=extractor or NoteExtractor(), max_facts=1_000_000),
        VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
        Counter(),
    ]


def open_memory(session_id="s", *, database_uri=None, memory_blocks=None, **settings):
    """A small memory that counts words: a message of `note` is 7 tokens, four of them fit, two leave at a time."""
    given = {"token_limit": 40, "token_flush_size": 14, "delivery_timeout": 30.0} | settings
    return Memory.from_defaults(
        session_id,
        database_uri=database_uri,
        memory_blocks=memory_blocks,
        tokenizer_fn=str.split,
        services=given.pop("services", None) or Services(embedder=HashEmbedder(), extractor=NoteExtractor()),
        **given,
    )


def on_file(folder):
    return f"sqlite:///{folder}/memory.db"


def until(condition, *, seconds=20):
    """Wait for another thread."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def fact_numbers(memory, block="facts"):
    return [number_of(fact.text) for fact in memory.facts.read(block)]


def block(memory, name):
    """The session's own block object of that name."""
    return next(block for block in memory.memory_blocks if block.name == name)


# -- many at once --------------------------------------------------------------------------------


def together(*jobs):
    """Run them in threads that start at once; the first exception of any is raised here."""
    start = threading.Barrier(len(jobs))
    problems = []

    def run(job):
        start.wait(20)
        try:
            job()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if problems:
        raise problems[0]


def putting(memory, numbers, **options):
    def job():
        for number in numbers:
            memory.put(note(number), **options)

    return job


def totals(memory):
    """The running totals in the session's row, and the same as sums over the messages."""
    with memory.session.database.read() as connection:
        state = read_session(connection, memory.session_id)
    rows = memory.session.messages()
    queue = [m for m in rows if m.status == "active" and not m.pinned]
    kept = (
        state.next_seq,
        state.turns,
        state.newest_turn,
        state.queue_messages,
        state.queue_content,
        state.queue_reference,
        state.pinned_messages,
        state.archived_messages,
    )
    users = [m.seq for m in queue if m.message.role == "user"]
    summed = (
        len(rows) + 1,
        sum(m.message.role == "user" for m in rows),
        max(users, default=None),
        len(queue),
        sum(m.tokens.content for m in queue),
        sum(m.tokens.reference for m in queue),
        sum(m.pinned for m in rows),
        sum(m.status == "archived" for m in rows),
    )
    return kept, summed


def check_whole(memory, numbers):
    """Every number is there once, seq has no gap, totals are right, and everything was learned once."""
    assert sorted(number_of(message.content) for message in memory.get_all()) == sorted(numbers)
    rows = memory.session.messages()
    assert [message.seq for message in rows] == list(range(1, len(rows) + 1))
    kept, summed = totals(memory)
    assert kept == summed
    memory.deliver()
    archived = [number_of(message.content) for message in memory.get_all("archived")]
    assert fact_numbers(memory) == archived
    learned = [number_of(m.message.content) for turn in memory.retrieval.stored_turns("turns") for m in turn.messages]
    assert learned == archived
    memory.session.refresh()
    assert f"{len(archived)} messages" in memory.get()[0].content
    assert {delivery.state for delivery in memory.session.deliveries()} == {"done"}


PUTTER = """
import sys
from engine_fakes import blocks, note, open_memory
uri, first = sys.argv[1], int(sys.argv[2])
memory = open_memory(database_uri=uri, memory_blocks=blocks())
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + 10):
    memory.put(note(number), wait=number % 2 == 0)
memory.deliver()
"""


def put_by_processes(database_uri, count):
    """Let processes put ten notes each into one session: 0 to 9, 100 to 109, ..."""
    command = [sys.executable, "-c", PUTTER, database_uri]
    processes = [
        subprocess.Popen(
            [*command, str(100 * number)],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    ready = [process.stdout.readline() for process in processes]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ready == ["ready\n"] * count, results
    assert results == [("", 0)] * count
