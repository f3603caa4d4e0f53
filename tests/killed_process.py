"""Processes to be killed, for `test_durability.py`.

Run as a program it has the engine imported and waits for orders, one a line: database, first
message, seed. For each it forks a process that puts messages until it is killed. What happens is
written to standard output, one letter and a number a line: `p` a process began, `a` the put of a
message returned, `x` a block is learning, `d` a process is dead.
"""

import os
import random
import sys
import time

from engine_fakes import Counter, HashEmbedder, NoteExtractor, note, open_memory

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock


def say(letter, number):
    os.write(1, f"{letter} {number}\n".encode())


class SlowExtractor(NoteExtractor):
    def __init__(self, chance):
        super().__init__()
        self.chance = chance

    def extract(self, messages, *, known):
        say("x", len(messages))
        time.sleep(self.chance.random() * 0.002)
        return super().extract(messages, known=known)


def telling(put):
    """A put hook that says when it is called."""

    async def hook(self, messages):
        say("x", len(messages))
        await put(self, messages)

    return hook


def put_until_killed(database_uri, first, seed):
    chance = random.Random(seed)
    learning = [
        FactExtractionMemoryBlock(name="facts", llm=SlowExtractor(chance), max_facts=1_000_000),
        VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
        Counter(),
    ]
    memory = open_memory(database_uri=database_uri, memory_blocks=learning)
    wait = chance.random() < 0.7
    for number in range(first, first + 100_000):
        memory.put(note(number), message_id=f"note-{number}", wait=wait)
        say("a", number)


def serve():
    for order in sys.stdin:
        database_uri, first, seed = order.split()
        child = os.fork()
        if child == 0:
            try:
                put_until_killed(database_uri, int(first), int(seed))
            finally:
                os._exit(1)
        say("p", child)
        _, status = os.waitpid(child, 0)
        say("d", status)


if __name__ == "__main__":
    Counter._aput = telling(Counter._aput)
    serve()
