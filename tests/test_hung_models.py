"""A model that hangs holds up its own session and nobody else's."""

import threading
import time

import pytest
from engine_fakes import Counter, HeldExtractor, NoteExtractor, fact_numbers, note, on_file, open_memory, until

from memory_core import FactExtractionMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.engine import delivery

HUNG_SESSIONS, HUNG_READS = 16, 8


class Hung(NoteExtractor):
    """Never answers, until it is let go."""

    def __init__(self):
        super().__init__()
        self.begun = threading.Event()

    def extract(self, messages, *, known):
        self.begun.set()
        assert LET_GO.wait(60)
        return super().extract(messages, known=known)


class HeldReading(BaseMemoryBlock[str]):
    """Its get hook waits until it is let go."""

    def _get(self, messages=None, **kwargs):
        assert LET_GO.wait(60)
        return "at last"

    def _put(self, messages):
        pass


LET_GO = threading.Event()


@pytest.fixture
def hung(tmp_path):
    """Sessions whose model hangs, and others whose blocks hang when they are read; all let go at the end."""
    LET_GO.clear()
    models = [Hung() for _ in range(HUNG_SESSIONS)]
    for number, model in enumerate(models):
        memory = open_memory(
            f"learns {number}",
            database_uri=on_file(tmp_path),
            memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=model)],
        )
        for each in range(5):
            memory.put(note(each), wait=False)
    reading = []
    for number in range(HUNG_READS):
        memory = open_memory(
            f"reads {number}", database_uri=on_file(tmp_path), memory_blocks=[HeldReading(name="held"), Counter()]
        )
        memory.put(note(0))
        reading.append(threading.Thread(target=memory.get, daemon=True))
        reading[-1].start()
    assert all(model.begun.wait(20) for model in models)
    yield
    LET_GO.set()
    for thread in reading:
        thread.join(60)


@pytest.mark.slow
def test_another_session_puts_learns_and_reads_while_sixteen_models_and_eight_reads_hang(hung, tmp_path):
    memory = open_memory(
        "free",
        database_uri=on_file(tmp_path),
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=NoteExtractor()), Counter()],
    )
    receipts = [memory.put(note(number)) for number in range(5)]
    assert receipts[-1].waiting == ()
    assert fact_numbers(memory) == [0, 1]
    assert "note 0 was taken" in memory.get()[0].content


@pytest.mark.slow
def test_of_the_sessions_of_a_user_one_worker_each_waits_for_the_one_that_is_served(tmp_path, monkeypatch):
    held, at_work, serve = HeldExtractor(), [], delivery._serve_block

    def watched(*given):
        at_work.append(1)
        try:
            return serve(*given)
        finally:
            at_work.pop()

    def session(name, model):
        block = FactExtractionMemoryBlock(name="facts", llm=model, scope="user")
        return open_memory(name, user_id="sam", database_uri=on_file(tmp_path), memory_blocks=[block])

    monkeypatch.setattr(delivery, "_serve_block", watched)
    first, second = session("first", held), session("second", NoteExtractor())
    for number in range(5):
        first.put(note(number), wait=False)
    assert held.begun.wait(20)
    for number in range(10, 40):
        second.put(note(number), wait=False)
        time.sleep(0.005)
    until(lambda: len(at_work) == 2)  # the one that is served, and one that waits
    held.evict.set()
    until(lambda: not at_work)
    assert set(fact_numbers(second)) >= {0, 1, 10, 11, 34, 35}
