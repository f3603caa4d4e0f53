"""A process that opens and closes sessions keeps nothing of them."""

import gc
from collections import Counter

import pytest
from engine_fakes import HashEmbedder, user

from memory_core import Database, Memory, Services, VectorMemoryBlock
from memory_core.vectors.exact import ExactIndex


def opened_and_closed(uri, number):
    turns = VectorMemoryBlock(name="turns", similarity_top_k=2)
    with (
        Services(embedder=HashEmbedder(), index=ExactIndex()) as services,
        Memory.from_defaults(f"s{number % 10}", database_uri=uri, memory_blocks=[turns], services=services) as memory,
    ):
        if len(memory.session.messages()) < 4:
            memory.put(user(f"Number {number}"))
            memory.flush(all=True)
        memory.build_context("Which number?", record=False)
        memory.retrieval.search("number")


def objects():
    """Number of the engine's objects by class."""
    gc.collect()
    kinds = (type(one) for one in gc.get_objects())
    return Counter(kind.__qualname__ for kind in kinds if str(kind.__module__).startswith("memory_core"))


@pytest.mark.slow
def test_five_hundred_sessions_opened_and_closed_leave_nothing(tmp_path):
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    with Database.open(uri):
        for number in range(60):
            opened_and_closed(uri, number)
        before = objects()
        for number in range(500):
            opened_and_closed(uri, number)
        assert objects() - before == Counter()
