"""Sessions made at random from a number, and digests of every row that they leave in the database.

    python tests/stored_bytes.py > tests/stored_bytes.txt

writes the digests of a thousand sessions, ten a line. Those that are there were made by 0b09bacc, the build before the
hot paths were written anew; whoever changes on purpose what is stored makes them again, by a build that is trusted.
"""

import random
import re
import sys
import time
import uuid
from contextlib import contextmanager, suppress
from hashlib import sha256
from unittest import mock

import numpy as np

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.errors import ConflictError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.planning import curation
from memory_core.services import Services
from memory_core.store.database import Database

SESSIONS = 1_000
STEPS = 24
ELSEWHERE = ("mi_schema", "mi_lease", "sqlite_sequence")
"""Tables whose rows name a process or the file, or follow from the other rows."""

_SECONDS = re.compile(r'"seconds":[0-9.e-]+')
"""How long a delivery took, which differs from run to run."""

_NAMES = ("Ada", "Rui", "Nina", "Teresa", "Omar", "Yuki")
_PLACES = ("Lisbon", "Bergen", "Osaka", "Quito", "Porto")
_FOODS = ("peanuts", "soup", "rye bread", "figs", "shellfish")
_SAYS = (
    "My sister {name} lives in {place}.",
    "I live in {place} now.",
    "I moved from {place} last year.",
    "I am allergic to {food}.",
    "I love {food} and I don't like {other}.",
    "My name is {name}.",
    "{name} works at the harbour in {place}.",
    "Call me {name}, please.",
    "My birthday is on 4 May.",
    "What did I say about {food}?",
    "It rained for {number} days, and {name} stayed at home with a book.",
    "Remember that the meeting with {name} is at {number} o'clock.",
)
_KINDS = (
    *4 * ("put",), *2 * ("put_messages",), *2 * ("context",),
    "flush", "limit", "curate", "block", "erase",
)  # fmt: skip
_QUESTIONS = ("What am I allergic to?", "Where does {name} live?", "When is the meeting?", None)


class CountedWords:
    """Embedding of a text: how often words of each of 16 remainders stand in it, so that no rounding decides."""

    id = "counted-words-16"
    dimensions = 16
    offline = True

    def embed(self, texts):
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, sha256(word.encode()).digest()[0] % self.dimensions] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)


class RandomSession:
    """Session made at random in a database in memory; its number decides its steps, times and ids."""

    def __init__(self, number):
        self._random = random.Random(number)
        self._now = 1_700_000_000.0
        self._chat = 0

    @contextmanager
    def lived(self):
        """Make the session and give it, open, with its database."""
        ids = iter(range(1, sys.maxsize))
        with (
            mock.patch.object(uuid, "uuid4", side_effect=lambda: uuid.UUID(int=next(ids), version=4)),
            mock.patch.object(time, "time", side_effect=lambda: self._now),
            Database.open("sqlite://") as database,
        ):
            memory = self._opened(database)
            for _ in range(STEPS):
                self._now += self._random.randrange(1, 5_000)
                self._step(memory)
            yield memory, database

    def digest(self):
        with self.lived() as (memory, database):
            memory.close()
            return _digest(database)

    def _opened(self, database):
        chance = self._random
        fixed = StaticMemoryBlock(name="core", static_content="Be kind.", priority=chance.choice((0, 5)))
        # One that learns: several learn at once, and who writes first differs.
        learns = (
            FactExtractionMemoryBlock(name="facts", priority=chance.choice((0, 1)), max_facts=chance.choice((3, 50))),
            VectorMemoryBlock(name="turns", priority=2, similarity_top_k=chance.choice((2, 5))),
            SummaryMemoryBlock(name="summary", max_tokens=40),
            GraphMemoryBlock(name="graph"),
        )
        return Memory.from_defaults(
            "s",
            "ada",
            database=database,
            memory_blocks=chance.sample([fixed, chance.choice(learns)], chance.randrange(3)),
            services=Services(embedder=CountedWords()),
            token_limit=chance.choice((60, 150, 400)),
            chat_history_token_ratio=chance.choice((0.3, 0.7)),
            token_flush_size=chance.choice((20, 50)),
            clock=lambda: self._now,
        )

    def _step(self, memory):
        chance = self._random
        kind = chance.choice(_KINDS)
        if kind == "put":
            memory.put(self._message())
        elif kind == "put_messages":
            memory.put_messages([self._message() for _ in range(chance.randrange(12))])
        elif kind == "context":
            question = chance.choice(_QUESTIONS)
            memory.build_context(question and self._filled(question))
        elif kind == "flush":
            memory.flush(all=chance.random() < 0.2)
        elif kind == "limit":
            memory.configure(token_limit=chance.choice((60, 150, 400)))
        elif kind == "block" and memory.blocks:
            memory.blocks.configure(memory.blocks[0].name, priority=chance.randrange(4))
        elif kind == "erase" and chance.random() < 0.2:
            memory.reset(chance.choice(("active", "archived")))
        elif kind == "curate" and any(block.name == "facts" for block in memory.blocks):
            self._curate(memory.facts.desk("facts"))

    def _curate(self, desk):
        chance, facts = self._random, desk.facts(("active",))
        if not facts or chance.random() < 0.2:
            desk.apply(curation.add(self._filled("{name} eats {food}"), pinned=chance.random() < 0.5))
            return
        fact = chance.choice(facts)
        change = chance.choice(("edit", "pin", "retire", "undo"))
        if change == "edit":
            desk.apply(curation.edit(fact, self._filled("{name} does not eat {food}")))
        elif change == "pin":
            desk.apply(curation.pin([fact], not fact.pinned))
        elif change == "retire":
            desk.apply(curation.retire([fact], "no"))
        elif desk.changes():
            with suppress(ConflictError):  # what it changed was changed since
                desk.undo()

    def _message(self):
        chance = self._random
        self._chat += 1
        if self._chat % 2:
            said = [self._filled(chance.choice(_SAYS)) for _ in range(chance.randrange(1, 4))]
            return ChatMessage(role="user", content=" ".join(said))
        return ChatMessage(
            role="assistant", content=self._filled("I see, {name} and {food}. ") * chance.randrange(1, 4)
        )

    def _filled(self, text):
        chance = self._random
        return text.format(
            name=chance.choice(_NAMES),
            place=chance.choice(_PLACES),
            food=chance.choice(_FOODS),
            other=chance.choice(_FOODS),
            number=chance.randrange(2, 12),
        )


def _digest(database):
    hashed = sha256()
    with database.read() as connection:
        tables = connection.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        ).scalars()
        for table in [name for name in tables if name not in ELSEWHERE]:
            for row in sorted(map(repr, connection.exec_driver_sql(f'SELECT * FROM "{table}"'))):
                hashed.update(_SECONDS.sub("", f"{table}{row}").encode())
    return hashed.hexdigest()[:8]


def digest(number):
    """Eight hexadecimal digits of all rows of the session of that number."""
    return RandomSession(number).digest()


if __name__ == "__main__":
    for number in range(SESSIONS):
        print(digest(number), end="\n" if number % 10 == 9 else " ", flush=True)
