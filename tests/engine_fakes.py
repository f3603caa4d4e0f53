"""Fakes for tests of the engine: a clock that is set, and an extractor, an embedder and blocks computed from the text.

Messages are written as "note 17 ...": each carries one fact and one vector unit of its own.
"""

import re
import threading
from hashlib import sha256

import numpy as np

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import ModelUnreachableError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.models.base import Condensation, CondensedFact, ExtractedFact, Extraction, ModelCall
from memory_core.services import Services


def user(text):
    return ChatMessage(role="user", content=text)


def assistant(text):
    return ChatMessage(role="assistant", content=text)


def note(number):
    return user(f"note {number} of the day is here")


def number_of(text):
    return int(re.search(r"\d+", text).group())


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
        self.let_go = threading.Event()

    def extract(self, messages, *, known):
        self.begun.set()
        assert self.let_go.wait(20)
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


def fact_numbers(memory, block="facts"):
    return [number_of(fact.text) for fact in memory.facts(block)]


def block(memory, name):
    """The session's own block object of that name."""
    return next(block for block in memory.memory_blocks if block.name == name)
