"""Does a model that hangs hold up others? A put and a get, alone, then beside 16 sessions whose models hang and 8
whose blocks hang when they are read; in one process, on one database.

    python benchmarks/hung.py
"""

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from growth import HashedWords, turns

from memory_core.blocks import FactExtractionMemoryBlock, VectorMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.memory import Memory
from memory_core.messages import ChatMessage
from memory_core.models.protocols import Condensation, Extraction
from memory_core.services import Services

MODELS, READS = 16, 8
TURNS = 150
MAX_TIMES = 2.0

LET_GO = threading.Event()


class HungModel:
    """An extractor that does not answer."""

    name, offline = "hung", False

    def extract(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> Extraction:
        LET_GO.wait()
        return Extraction(())

    def condense(self, facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
        raise NotImplementedError


class HungReading(BaseMemoryBlock[str]):
    """A block whose get hook does not return."""

    def _get(self, messages: Sequence[ChatMessage] | None = None, **arguments: Any) -> str:
        LET_GO.wait()
        return ""

    def _put(self, messages: Sequence[ChatMessage]) -> None:
        return None


def opened(file: Path, session: str, *blocks: BaseMemoryBlock[Any]) -> Memory:
    services = Services(embedder=HashedWords())
    return Memory.from_defaults(
        session, database_uri=f"sqlite:///{file}", memory_blocks=list(blocks), services=services, token_limit=600
    )


def timed(file: Path, session: str) -> tuple[float, float]:
    """Median milliseconds of a put and of a get."""
    memory = opened(file, session, FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns"))
    puts, gets = [], []
    for said, answer in turns(TURNS):
        puts.append(_took(lambda text=said: memory.put(ChatMessage(role="user", content=text))))
        gets.append(_took(memory.get))
        memory.put(ChatMessage(role="assistant", content=answer))
    return statistics.median(puts), statistics.median(gets)


def _took(does: Callable[[], object]) -> float:
    began = time.perf_counter()
    does()
    return 1_000 * (time.perf_counter() - began)


def hang(file: Path) -> None:
    for number in range(MODELS):
        memory = opened(file, f"model {number}", FactExtractionMemoryBlock(name="facts", llm=HungModel()))
        for said, _ in turns(60):
            memory.put(ChatMessage(role="user", content=said), wait=False)
    for number in range(READS):
        memory = opened(file, f"read {number}", HungReading(name="hung"), VectorMemoryBlock(name="turns"))
        memory.put(ChatMessage(role="user", content="Hello"))
        threading.Thread(target=memory.get, daemon=True).start()
    time.sleep(1)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "hung.db"
        timed(file, "warm up")
        alone = timed(file, "alone")
        hang(file)
        beside = timed(file, "beside")
        print(f"{'':<8}{'alone, ms':>12}{'beside, ms':>12}{'times':>8}")
        for what, one, other in zip(("put", "get"), alone, beside, strict=True):
            verdict = "pass" if other <= MAX_TIMES * one else "miss"
            print(f"{what:<8}{one:>12.2f}{other:>12.2f}{other / one:>8.2f}  goal <= {MAX_TIMES}  {verdict}")
        os._exit(0)  # what hangs would write into a folder that is gone


if __name__ == "__main__":
    main()
