"""A program that works with a memory, forks, and goes on in parent and child: `forked_process.py URL BLOCK ...`."""

import os
import signal
import sys

from engine_fakes import note

from memory_core import BaseMemoryBlock, FactExtractionMemoryBlock, Memory, VectorMemoryBlock

SECONDS = 60
"""After which a process that hangs is ended."""


class Heard(BaseMemoryBlock[str]):
    """Counts what it learns, on the engine's event loop."""

    name: str = "Heard"
    count: int = 0

    async def _aget(self, messages=None, **kwargs):
        return f"{self.count} heard"

    async def _aput(self, messages):
        self.count += len(messages)


def opened(url, names):
    kinds = {"Heard": Heard, "Facts": FactExtractionMemoryBlock, "Turns": VectorMemoryBlock}
    blocks = [kinds[name](name=name) for name in names]
    return Memory.from_defaults(
        "s", token_limit=200, chat_history_token_ratio=0.3, memory_blocks=blocks, database_uri=url
    )


def work(memory, first):
    for number in range(first, first + 10):
        memory.put(note(number))
        assert memory.get(f"What was note {number}?")
        memory.flush(all=True)  # what the other process is at, it serves


if __name__ == "__main__":
    memory = opened(sys.argv[1], sys.argv[2:])
    work(memory, 0)  # every pool, loop, model and connection is there
    child = os.fork()
    signal.alarm(SECONDS)
    work(memory, 100 if child else 200)
    if child:
        _, status = os.waitpid(child, 0)
        while memory.session.status().in_transit_messages:
            memory.deliver()
        sys.exit(os.waitstatus_to_exitcode(status))
    sys.stdout.flush()
    if "Turns" in sys.argv:
        os._exit(0)  # onnxruntime cannot take its model down in a process that took it over
