import random
import threading

import pytest
from engine_fakes import (
    Clock,
    assistant,
    block,
    blocks,
    check_whole,
    fact_numbers,
    note,
    number_of,
    on_file,
    open_memory,
    put_by_processes,
    putting,
    together,
    totals,
)
from sqlalchemy import create_engine

from memory_core.blocks.static import StaticMemoryBlock
from memory_core.sessions.overview import list_sessions
from memory_core.store.database import Database
from memory_core.store.tables import message_table, session_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_eight_threads_put_into_one_session_and_nothing_is_lost_or_learned_twice(tmp_path, kind):
    memory = open_memory(database_uri=on_file(tmp_path) if kind == "file" else None, memory_blocks=blocks())
    together(*(putting(memory, range(100 * thread, 100 * thread + 8)) for thread in range(8)))
    check_whole(memory, [100 * thread + number for thread in range(8) for number in range(8)])
    for thread in range(8):  # what one thread put stays in its order
        own = [n for m in memory.get_all() if (n := number_of(m.content)) // 100 == thread]
        assert own == sorted(own)
    assert sorted(block(memory, "counter").heard) == sorted(fact_numbers(memory))


def test_memories_of_their_own_in_many_threads_are_as_good_as_one(tmp_path):
    made = [open_memory(database_uri=on_file(tmp_path), memory_blocks=blocks()) for _ in range(4)]
    together(*(putting(memory, range(100 * n, 100 * n + 10)) for n, memory in enumerate(made)))
    check_whole(made[0], [100 * n + number for n in range(4) for number in range(10)])


def test_three_processes_put_into_one_session(tmp_path):
    """Also their first use of a new file happens at once."""
    put_by_processes(on_file(tmp_path), 3)
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=blocks())
    check_whole(memory, [100 * process + number for process in range(3) for number in range(10)])


def test_order_is_the_order_of_putting_whatever_the_clock_says():
    clock = Clock()
    memory = open_memory(memory_blocks=blocks(), clock=clock)
    for number in range(12):
        clock.pass_by(-3600)
        memory.put(note(number))
    assert [number_of(message.content) for message in memory.get_all()] == list(range(12))
    assert [number_of(message.content) for message in memory.get()[1:]] == [11]  # the rest is cut for the blocks
    assert fact_numbers(memory) == list(range(8))
    assert [turn.number for turn in memory.retrieval.stored_turns("turns")] == list(range(1, 9))
    positions = [record.position for record in memory.events()]
    assert positions == sorted(positions)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_reader_never_sees_half_a_put(tmp_path, kind):
    """Every put brings a question with its answer, and a flush takes both."""
    memory = open_memory(
        database_uri=on_file(tmp_path) if kind == "file" else None,
        memory_blocks=[StaticMemoryBlock(name="core", static_content="Be brief.", priority=1)],
        token_limit=60,
    )
    done = threading.Event()
    seen = []

    def write():
        for number in range(60):
            memory.put_messages([note(number), assistant(f"note {number} it is")])
        done.set()

    def read():
        while not done.is_set():
            rows = memory.session.messages()
            context = memory.build_context(record=False)
            status = memory.session.status()
            seen.append((rows, context, status))

    together(write, read, read)
    assert len(seen) > 2
    for rows, context, status in seen:
        assert len(rows) % 2 == 0
        numbers = [number_of(m.message.content) for m in rows]
        assert numbers == [number // 2 for number in range(len(rows))]
        statuses = [m.status for m in rows]
        assert statuses == sorted(statuses, reverse=True)  # archived before active, no gap
        talk = [m for m in context.messages if m.role != "system"]
        assert [m.role for m in talk] == ["user", "assistant"] * (len(talk) // 2)
        assert status.queue_messages % 2 == 0
        assert status.queue_tokens == status.queue_messages // 2 * 11


def test_many_threads_may_be_the_first_to_use_a_new_file(tmp_path):
    made = []
    together(*[lambda: made.append(open_memory(database_uri=on_file(tmp_path), memory_blocks=blocks()))] * 12)
    made[0].put(note(1))
    assert [message.content for message in made[-1].get_all()] == [note(1).content]
    kinds = [record.kind for record in made[0].events()]
    assert (kinds.count("session_created"), kinds.count("block_added")) == (1, 3)


def test_many_engines_may_be_the_first_to_use_a_new_file(tmp_path):
    """As several processes would: nothing within the process makes them take turns."""
    ids = []

    def open_apart():
        engine = create_engine(on_file(tmp_path))
        ids.append(Database.open(engine=engine).id)
        engine.dispose()

    together(*[open_apart] * 8)
    assert len(ids) == 8
    assert len(set(ids)) == 1


def test_two_memories_of_one_process_do_not_mix(tmp_path):
    first = open_memory("a", database_uri=on_file(tmp_path), memory_blocks=blocks())
    second = open_memory("b", database_uri=on_file(tmp_path), memory_blocks=blocks())
    together(putting(first, range(10)), putting(second, range(50, 60)))
    check_whole(first, range(10))
    check_whole(second, range(50, 60))
    assert {status.session_id for status in list_sessions(first.session.database)} == {"a", "b"}


def test_two_memories_without_a_database_share_nothing():
    first, second = open_memory("s"), open_memory("s")
    first.put(note(1))
    assert (len(first.get_all()), len(second.get_all())) == (1, 0)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_resets_and_replacements_during_puts_leave_a_whole_session(tmp_path, kind):
    memory = open_memory(database_uri=on_file(tmp_path) if kind == "file" else None, memory_blocks=blocks())

    def disturb():
        chance = random.Random(7)
        for turn in range(12):
            match chance.randrange(3):
                case 0:
                    memory.reset("archived")
                case 1:
                    memory.set([note(9000 + turn), assistant(f"note {9100 + turn}")])
                case 2:
                    memory.reset()

    together(
        putting(memory, range(100, 130)),
        putting(memory, range(200, 230), wait=False),
        putting(memory, range(300, 330)),
        disturb,
    )
    memory.put(note(1))
    memory.deliver()
    kept, summed = totals(memory)
    assert kept[2:] == summed[2:]
    rows = memory.session.messages()
    assert [m.seq for m in rows] == sorted({m.seq for m in rows})
    here = {m.seq for m in rows if m.status == "archived"}
    with memory.session.database.read() as connection:
        session = connection.execute(session_table.select()).one()
        statuses = connection.execute(message_table.select()).all()
    assert session.queue_messages == sum(row.status == "active" for row in statuses)
    for fact in memory.facts.read("facts", states=None):  # nothing is remembered of what was removed
        assert {seq for _, seq in fact.sources} <= here
        assert fact.sources
    for turn in memory.retrieval.stored_turns("turns"):
        assert {m.seq for m in turn.messages} <= here
    assert {delivery.state for delivery in memory.session.deliveries()} <= {"done"}
    numbers = [number_of(m.message.content) for m in rows]
    assert len(numbers) == len(set(numbers))
    assert sorted(fact_numbers(memory)) == sorted(number_of(m.message.content) for m in rows if m.seq in here)
