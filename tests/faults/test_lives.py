"""Lives of sessions under faults that a seed decides: crashes, hangs, failed commits, repeated puts, clock steps.

`MEMORY_INSPECTOR_LIVES=0:10000` tries other seeds than the default ones.
"""

import json
import logging
import os
import random
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from engine_fakes import Counter, HashEmbedder, NoteExtractor, assistant, note, number_of

from memory_core import Services
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.engine import delivery, queue
from memory_core.errors import ConfigError, MessageError, StoreError
from memory_core.store.block_rows import read_state
from memory_inspector.checks import simulate

FIRST, LAST = map(int, os.environ.get("MEMORY_INSPECTOR_LIVES", "0:200").split(":"))
PARTS = 8

SETTINGS = {"token_limit": 40, "token_flush_size": 14, "tokenizer_fn": str.split, "delivery_attempts": 4}


def services():
    return Services(embedder=HashEmbedder(), extractor=NoteExtractor())


KINDS = {
    "facts": lambda: FactExtractionMemoryBlock(name="facts", llm=NoteExtractor(), max_facts=1_000_000),
    "turns": lambda: VectorMemoryBlock(name="turns", embed_model=HashEmbedder()),
    "counter": Counter,
    "shared": lambda: FactExtractionMemoryBlock(name="shared", llm=NoteExtractor(), scope="user", max_facts=1_000_000),
}
"""Blocks that learn; the facts of the last one are those of the user, whose sessions share them."""


def operations(chance):
    """Return what a program does, in order: (session, what, number)."""
    kinds = ["put"] * 8 + ["reply", "several", "again", "get", "flush", "deliver", "limit", "write"]
    sessions = ["a"] if chance.random() < 0.5 else ["a", "b"]
    chosen = [(chance.choice(sessions), chance.choice(kinds), number) for number in range(chance.randrange(6, 13))]
    return [*chosen, ("a", "close", len(chosen))]


def perform(memory, what, number):
    if what == "put":
        memory.put(note(number), message_id=f"note {number}", wait=number % 3 > 0)
    elif what == "several":
        memory.put_messages(
            [note(100 + number), note(200 + number)], message_ids=[f"note {100 + number}", f"note {200 + number}"]
        )
    elif what == "reply":
        memory.put(assistant(f"note {300 + number} it is"), message_id=f"note {300 + number}")
    elif what == "again":
        # Another content under the id of a message that may be there: the first one counts.
        memory.put(note(400 + number), message_id="note 400")
    elif what == "get":
        memory.get("What was note 3?")
    elif what in ("flush", "close"):
        memory.flush(all=what == "close")
    elif what == "deliver":
        memory.deliver()
    elif what == "limit":
        memory.configure(token_limit=40 + number)
    elif "facts" in [block.name for block in memory.blocks]:
        with suppress(MessageError):  # the answer to the first attempt was lost
            memory.facts.add(f"note {500 + number} was written", block="facts")


def live(seed):
    """Live one life, and check it; return the simulation."""
    kinds = random.Random(seed).sample(sorted(KINDS), 2)
    with simulate(
        seed,
        memory_blocks=lambda: [KINDS[kind]() for kind in kinds],
        services=services,
        most_faults=8,
        rate=2.0,
        **SETTINGS,
    ) as sim:
        ahead = operations(sim.chance)

        def program(memory):
            opened = {"a": memory}
            while ahead:
                session, what, number = ahead[0]
                if session not in opened:
                    opened[session] = sim.open(session, "ana")
                try:
                    perform(opened[session], what, number)
                except StoreError:
                    if sim.chance.random() < 0.4:
                        raise  # the program ends, and the next one does it again
                    continue
                ahead.pop(0)

        sim.run(program, "a", "ana")
        memories = sim.check()
        for memory in memories.values():
            check_learned(memory)
        check_shared(memories.values())
    return sim


def check_learned(memory):
    """Every block learned every message that left the queue, once; late where a model failed at first."""
    archived = memory.get_all("archived")
    numbers = [number_of(message.content) for message in archived if message.role == "user"]
    kinds = [block.name for block in memory.blocks]
    if "facts" in kinds:
        learned = [fact for fact in memory.facts.read("facts") if fact.origin == "extracted"]
        assert sorted(number_of(fact.text) for fact in learned) == sorted(numbers)
    if "turns" in kinds:
        stored = [m.seq for turn in memory.retrieval.stored_turns("turns") for m in turn.messages]
        assert sorted(stored) == [message.seq for message in memory.session.messages("archived")]
    if "counter" in kinds:
        with memory.session.database.read() as connection:
            state = json.loads(read_state(connection, memory.session_id, "counter") or '{"heard": []}')
        assert sorted(state["heard"]) == sorted(number_of(message.content) for message in archived)
    assert {delivery.state for delivery in memory.session.deliveries()} <= {"done"}
    done = [id for record in memory.events(kinds=["delivery_done"]) for id in record.event.deliveries]
    assert sorted(done) == [delivery.id for delivery in memory.session.deliveries()]


def check_shared(memories):
    """Facts that sessions share were learned from each of them once."""
    heard = [number_of(m.content) for memory in memories for m in memory.get_all("archived") if m.role == "user"]
    for memory in memories:
        if "shared" in [block.name for block in memory.blocks]:
            facts = memory.facts.read("shared")
            assert sorted(number_of(fact.text) for fact in facts) == sorted(set(heard))
            assert sum(len(fact.sources) for fact in facts) == len(heard)


@pytest.fixture(autouse=True)
def silent():
    logging.disable(logging.CRITICAL)  # the warnings of thousands of faults
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_lives_under_faults_keep_every_promise(part):
    for seed in range(FIRST + part, LAST, PARTS):
        live(seed)


STORIES = """
import logging, sys
logging.disable(logging.CRITICAL)
from test_lives import live
print([live(seed).story for seed in range(3)])
"""


@pytest.mark.slow
def test_a_seed_is_replayed_exactly_by_another_process():
    here = Path(__file__).parent
    stories = []
    for hashes in "12":
        path = os.pathsep.join(map(str, (here, here.parent, here.parents[1])))
        environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": path}
        ended = subprocess.run([sys.executable, "-c", STORIES], env=environment, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
        stories.append(ended.stdout)
    assert stories[0] == stories[1]
    assert "fault" in stories[0]


def acknowledged_before_learning(patch):
    deliver = delivery._deliver

    def early(session, attached, due, key, owner):
        with session.writing() as w:
            delivery.set_state(w, [one.id for one in due], "done", attempts=1)
        deliver(session, attached, due, key, owner)

    patch.setattr(delivery, "_deliver", early)


def never_due(patch):
    patch.setattr(queue, "queue_for", lambda *_, **__: None)


def counted_wrongly(patch):
    archive = queue.archive

    def miscounting(w, leave, **options):
        archive(w, leave, **options)
        w.session.queue_content += 1

    patch.setattr(queue, "archive", miscounting)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [acknowledged_before_learning, never_due, counted_wrongly])
def test_a_planted_fault_is_found_and_its_seed_is_named(monkeypatch, plant):
    plant(monkeypatch)
    notes = None
    for seed in range(40):
        try:
            live(seed)
        except AssertionError as error:
            notes = error.__notes__
            break
    assert f"simulate({seed}, …)" in notes[0]


@pytest.mark.slow
def test_a_crash_cannot_be_survived_by_catching_it():
    calls = []

    def program(memory):
        calls.append(memory)
        with suppress(Exception):
            memory.put(note(1), message_id="one")
            memory.put(note(2), message_id="two")
        return [message.content for message in memory.get_all()]

    for seed in range(20):
        with simulate(seed, faults=["crash"], rate=4.0, services=services) as sim:
            assert sim.run(program) == [note(1).content, note(2).content]
    assert len(calls) > 20


def test_an_unknown_fault_is_refused_in_one_sentence():
    with pytest.raises(ConfigError, match="there is no fault called 'flood': choose from statement, commit"):
        simulate(1, faults=["flood"])


@pytest.mark.slow
def test_the_documented_example_runs():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "simulate.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(code, {"__name__": "example"})
