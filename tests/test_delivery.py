import json
import threading
import time
from dataclasses import replace

import pytest
from engine_fakes import (
    Clock,
    Counter,
    HashEmbedder,
    HeldExtractor,
    NoteExtractor,
    ShakyExtractor,
    assistant,
    block,
    blocks,
    fact_numbers,
    note,
    number_of,
    on_file,
    open_memory,
    until,
    user,
)

from memory_core import Services, VectorMemoryBlock, list_sessions
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.engine import delivery
from memory_core.engine.delivery import LONGEST_BACKOFF_SECONDS, backoff_seconds
from memory_core.errors import ConfigError, StoreError
from memory_core.events import DeliveryFailed, DeliveryParked, DeliveryRetried, DeliverySkipped
from memory_core.messages import ChatMessage
from memory_core.models.protocols import Condensation, CondensedFact
from memory_core.store.fact_rows import revise
from memory_core.store.leases import LEASE_SECONDS, claim, lease_key, new_owner, release, renew
from memory_core.store.tables import lease_table


def put_notes(memory, numbers, **options):
    return [memory.put(note(number), **options) for number in numbers]


def facts_block(extractor, **settings):
    return FactExtractionMemoryBlock(name="facts", llm=extractor, **{"max_facts": 1000} | settings)


def states(memory):
    return [(d.block, d.state, d.attempts) for d in memory.session.deliveries()]


def told(memory, *kinds):
    """Events of these classes, in order, without their records."""
    return [record.event for record in memory.events() if isinstance(record.event, kinds)]


def leases(memory):
    """The leases on blocks; the one on the session itself says that this process works in it."""
    with memory.session.database.read() as connection:
        held = connection.execute(lease_table.select()).all()
    return [lease for lease in held if json.loads(lease.key)[0] is not None]


class FailingBlock(BaseMemoryBlock[str]):
    """Refuses messages that hold a number it does not like, with an exception of its own."""

    name: str = "picky"
    refused: tuple[int, ...] = ()
    heard: tuple[str, ...] = ()

    async def _aget(self, messages=None, **kwargs):
        return ""

    async def _aput(self, messages):
        for message in messages:
            if any(f"note {number} " in message.content for number in self.refused):
                raise ZeroDivisionError("cannot take this")
        self.heard = (*self.heard, *(message.content for message in messages))


# -- order and sharing ---------------------------------------------------------------------------


def test_every_block_gets_what_left_the_queue_once_and_in_order():
    memory = open_memory(memory_blocks=blocks())
    put_notes(memory, range(12))
    flushed = list(range(8))
    assert block(memory, "counter").heard == tuple(flushed)
    assert fact_numbers(memory) == flushed
    assert [[m.seq - 1 for m in turn.messages] for turn in memory.retrieval.stored_turns("turns")] == [
        [n] for n in flushed
    ]
    assert {state for _, state, _ in states(memory)} == {"done"}
    assert leases(memory) == []


def unserved(memory, monkeypatch, numbers):
    """Put notes of which nothing is learned yet."""
    with monkeypatch.context() as patched:
        patched.setattr(delivery, "serve", lambda *arguments, **options: {})
        put_notes(memory, numbers)


def test_deliveries_that_wait_behind_each_other_share_one_call(monkeypatch):
    extractor = NoteExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    unserved(memory, monkeypatch, range(9))
    assert memory.deliver()["facts"].delivered == 3
    assert [len(call) for call in extractor.calls] == [6]


def test_a_call_takes_no_more_than_its_share_of_tokens(monkeypatch):
    monkeypatch.setattr(delivery, "CALL_TOKENS", 30)
    extractor = NoteExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    unserved(memory, monkeypatch, range(14))
    memory.deliver()
    assert [len(call) for call in extractor.calls] == [4, 4, 2]  # 30 tokens are four messages of seven
    assert fact_numbers(memory) == list(range(10))


# -- failing and trying again --------------------------------------------------------------------


def test_a_block_that_fails_never_makes_a_put_fail_and_is_tried_again_later():
    clock, extractor = Clock(), ShakyExtractor(lambda call: call <= 3)
    memory = open_memory(memory_blocks=[facts_block(extractor), Counter()], clock=clock, delivery_attempts=10)
    receipt = put_notes(memory, range(5))[-1]
    assert receipt.waiting == ("facts",)
    assert receipt.served["facts"].error.startswith("Nothing answers")
    assert block(memory, "counter").heard == (0, 1)  # the other block does not wait for it

    attempts = []
    for _ in range(20):
        clock.pass_by(1)
        before = extractor.asked
        memory.deliver(force=False)
        if extractor.asked > before:
            attempts.append(clock.now - 1_000_000)
    assert attempts == [2, 6, 14]  # 2, then 4, then 8 seconds after the one before
    assert [failed.retry_in_seconds for failed in told(memory, DeliveryFailed)] == [2, 4, 8]
    assert states(memory) == [("facts", "done", 4), ("counter", "done", 1)]
    assert fact_numbers(memory) == [0, 1]


def test_the_pause_between_attempts_has_an_end():
    assert [backoff_seconds(attempts) for attempts in (1, 2, 3, 20)] == [2, 4, 8, LONGEST_BACKOFF_SECONDS]


def test_what_failed_is_tried_again_with_the_next_before_it_and_out_of_turn_at_no_attempt():
    extractor = ShakyExtractor(lambda call: call <= 2)
    memory = open_memory(memory_blocks=[facts_block(extractor)], clock=Clock())
    put_notes(memory, range(7))  # the first fails, and once more before the second, which is learned
    assert extractor.calls == [["note 2 of the day is here", "note 3 of the day is here"]]
    assert states(memory) == [("facts", "pending", 1), ("facts", "done", 1)]
    assert put_notes(memory, range(7, 9))[-1].served["facts"].outcome == "done"
    assert states(memory)[0] == ("facts", "done", 2)


@pytest.mark.slow
def test_a_model_out_of_reach_is_asked_twice_a_put_however_much_waits():
    extractor = ShakyExtractor(lambda call: True)
    memory = open_memory(memory_blocks=[facts_block(extractor)], clock=Clock())
    receipts = put_notes(memory, range(60))
    assert extractor.asked <= 2 * len(states(memory))
    assert memory.deliver(force=False)["facts"].outcome == "waiting"  # and until the next attempt not at all
    assert {state for _, state, _ in states(memory)} == {"pending"}
    assert all(receipt.served["facts"].error for receipt in receipts[4:])


def test_after_its_last_attempt_a_delivery_is_parked_and_the_next_ones_go_on():
    memory = open_memory(memory_blocks=[FailingBlock(refused=(1,))], delivery_attempts=3, clock=Clock())
    put_notes(memory, range(5))
    memory.deliver()
    served = memory.deliver()["picky"]
    assert (served.outcome, served.error) == ("parked", "ZeroDivisionError: cannot take this")
    assert [(d.state, d.error) for d in memory.session.deliveries()] == [
        ("parked", "ZeroDivisionError: cannot take this")
    ]
    assert told(memory, DeliveryParked) == [
        DeliveryParked(deliveries=(1,), block="picky", attempts=3, error="ZeroDivisionError: cannot take this")
    ]
    put_notes(memory, range(5, 9))
    assert [text.split()[1] for text in block(memory, "picky").heard] == ["2", "3", "4", "5"]
    assert states(memory) == [("picky", "parked", 3), ("picky", "done", 1), ("picky", "done", 1)]
    assert memory.session.status().in_transit_messages == 2


def test_one_impossible_delivery_parks_no_other(monkeypatch):
    memory = open_memory(memory_blocks=[FailingBlock(refused=(3,))], delivery_attempts=3, clock=Clock())
    unserved(memory, monkeypatch, range(9))  # so that all three wait for the first call together
    outcomes = [memory.deliver()["picky"].outcome for _ in range(3)]
    assert outcomes == ["failed", "failed", "parked"]
    assert [(d.state, d.attempts) for d in memory.session.deliveries()] == [("done", 1), ("parked", 3), ("done", 1)]


def test_what_was_parked_can_be_tried_again():
    extractor = ShakyExtractor(lambda call: call <= 2)
    memory = open_memory(memory_blocks=[facts_block(extractor)], delivery_attempts=2, clock=Clock())
    put_notes(memory, range(5))
    assert memory.deliver()["facts"].outcome == "parked"
    assert memory.deliver() == {}  # parked is not due
    assert memory.session.retry()["facts"].outcome == "done"
    assert told(memory, DeliveryRetried) == [DeliveryRetried(deliveries=(1,), block="facts")]
    assert fact_numbers(memory) == [0, 1]
    assert states(memory) == [("facts", "done", 1)]


def test_what_was_parked_can_be_given_up():
    memory = open_memory(memory_blocks=[FailingBlock(refused=(0,))], delivery_attempts=1, clock=Clock())
    put_notes(memory, range(5))
    memory.session.skip([1])
    assert states(memory) == [("picky", "skipped", 1)]
    assert told(memory, DeliverySkipped) == [DeliverySkipped(deliveries=(1,), block="picky")]
    assert memory.session.status().in_transit_messages == 0
    assert len(memory.get_all("archived")) == 2
    assert memory.session.retry() == {}


def test_what_is_given_up_while_a_block_learns_from_it_is_not_learned():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    put_notes(memory, range(5), wait=False)
    assert extractor.begun.wait(20)
    memory.session.skip([1])
    extractor.evict.set()
    until(lambda: leases(memory) == [])
    assert states(memory) == [("facts", "skipped", 0)]
    assert memory.facts.read("facts", states=None) == []


@pytest.mark.slow
def test_with_a_model_that_fails_three_calls_in_ten_everything_arrives_once():
    clock = Clock()
    failing = {number for number in range(400) if number * 7919 % 10 < 3}
    extractor = ShakyExtractor(lambda call: call in failing)
    memory = open_memory(memory_blocks=[facts_block(extractor)], clock=clock, delivery_attempts=100)
    for number in range(120):
        memory.put(note(number))
        clock.pass_by(1)
    for _ in range(30):
        clock.pass_by(LONGEST_BACKOFF_SECONDS)
        memory.deliver(force=False)
    flushed = memory.session.status().archived_messages
    assert flushed == 116
    assert fact_numbers(memory) == list(range(flushed))
    assert told(memory, DeliveryFailed) != []
    assert {state for _, state, _ in states(memory)} == {"done"}
    assert [text for call in extractor.calls for text in call] == [f"note {n} of the day is here" for n in range(116)]


# -- waiting -------------------------------------------------------------------------------------


def test_a_put_stops_waiting_for_a_slow_block_which_then_finishes_on_its_own():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)], delivery_timeout=0.05)
    receipt = put_notes(memory, range(5))[-1]
    assert (receipt.waiting, receipt.served["facts"].outcome) == (("facts",), "waiting")
    assert memory.session.status().in_transit_messages == 2
    extractor.evict.set()
    until(lambda: states(memory) == [("facts", "done", 1)])
    assert fact_numbers(memory) == [0, 1]
    until(lambda: leases(memory) == [])


def test_a_put_that_shall_not_wait_does_not():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    receipts = put_notes(memory, range(9), wait=False)
    assert receipts[-1].waiting == ("facts",)
    assert memory.session.status().queue_messages == 3
    extractor.evict.set()
    until(lambda: {state for _, state, _ in states(memory)} == {"done"})
    assert fact_numbers(memory) == list(range(6))


class MeetingBlock(BaseMemoryBlock[str]):
    """Goes on once the others are there too."""

    place: threading.Barrier

    def _get(self, messages=None, **kwargs):
        self.place.wait(20)
        return "read"

    def _put(self, messages):
        self.place.wait(20)


class AsyncMeetingBlock(MeetingBlock):
    async def _aput(self, messages):
        import asyncio

        await asyncio.to_thread(self.place.wait, 20)


@pytest.mark.parametrize("cls", [MeetingBlock, AsyncMeetingBlock])
def test_blocks_are_served_and_read_beside_each_other(cls):
    place = threading.Barrier(3)
    memory = open_memory(memory_blocks=[cls(name=name, place=place) for name in ("a", "b", "c")])
    receipt = put_notes(memory, range(5))[-1]
    assert {name: served.outcome for name, served in receipt.served.items()} == dict.fromkeys("abc", "done")
    assert memory.build_context(record=False).failures == {}


# -- leases --------------------------------------------------------------------------------------

KEY = "session:s/facts"


def taken(database, owner, now):
    with database.write() as connection:
        return claim(database, connection, KEY, owner, now)


def test_a_lease_has_one_holder_until_it_is_released_or_expires():
    database = open_memory().session.database
    first, second = new_owner(), new_owner()
    assert taken(database, first, 100)
    assert not taken(database, second, 100 + LEASE_SECONDS - 1)
    assert renew(database, KEY, first, now=110)
    assert not taken(database, second, 110 + LEASE_SECONDS - 1)
    assert taken(database, second, 110 + LEASE_SECONDS)
    assert not renew(database, KEY, first, now=111)
    with database.write() as connection:
        release(connection, KEY, first)  # not his any more: nothing happens
    assert not taken(database, first, 112)
    with database.write() as connection:
        release(connection, KEY, second)
    assert taken(database, first, 113)


def test_a_lease_from_before_the_clock_was_set_back_holds_up_nobody():
    database = open_memory().session.database
    first, second = new_owner(), new_owner()
    assert taken(database, first, 100_000)
    assert taken(database, second, 100)


def test_what_failed_before_the_clock_was_set_back_is_tried_again_now():
    clock, extractor = Clock(), ShakyExtractor(lambda call: call == 1)
    memory = open_memory(memory_blocks=[facts_block(extractor)], clock=clock)
    put_notes(memory, range(5))
    clock.pass_by(-3_600)
    memory.deliver(force=False)
    assert states(memory) == [("facts", "done", 2)]


def test_names_that_make_one_text_together_are_served_and_remembered_apart(tmp_path):
    """Of session `a` the block `b/c`, and of session `a/b` the block `c`."""
    shared = Services(embedder=HashEmbedder())
    blocks = {"a": "b/c", "a/b": "c"}
    memories = {
        session: open_memory(
            session,
            database_uri=on_file(tmp_path),
            services=shared,
            memory_blocks=[VectorMemoryBlock(name=name, priority=1)],
        )
        for session, name in blocks.items()
    }
    for session, memory in memories.items():
        for number in range(6):
            memory.put_messages([user(f"Number {number} was said in {session}"), assistant("Noted.")])
    for session, memory in memories.items():
        found = [each.words for each in memory.retrieval.search("Which number was said").found]
        assert found
        assert {word for words in found for word in words.split() if word in blocks} == {session}
    assert len({key for key in shared._remembered if key[0] == "units"}) == 2
    assert lease_key("a", "b/c") != lease_key("a/b", "c")


def test_a_dead_owner_is_noticed_at_once():
    database = open_memory().session.database
    host, _, unique = new_owner().split("/")
    gone = f"{host}/{2**22 + 1}/{unique}"  # above the largest process number of Linux
    elsewhere = f"another-machine/{2**22 + 1}/{unique}"
    assert taken(database, gone, 100)
    assert taken(database, elsewhere, 100)
    assert not taken(database, new_owner(), 101)  # of another machine nothing is known


def test_who_finds_a_block_being_served_leaves_it_to_who_serves_it(tmp_path):
    extractor = HeldExtractor()
    first = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(extractor)])
    second = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(NoteExtractor())])
    put_notes(first, range(5), wait=False)
    assert extractor.begun.wait(20)
    put_notes(second, range(5, 9))
    assert second.deliver(force=False)["facts"].outcome == "waiting"
    extractor.evict.set()
    until(lambda: {state for _, state, _ in states(first)} == {"done"})
    assert fact_numbers(second) == list(range(6))
    assert [len(call) for call in extractor.calls] == [2, 4]  # the one who held it took what came meanwhile too


def test_an_expired_lease_is_taken_over_and_the_late_result_thrown_away(tmp_path):
    clock, held, quick = Clock(), HeldExtractor(), NoteExtractor()
    first = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(held)], clock=clock)
    second = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(quick)], clock=clock)
    late = []
    thread = threading.Thread(target=lambda: late.extend(put_notes(first, range(5))))
    thread.start()
    assert held.begun.wait(20)
    clock.pass_by(LEASE_SECONDS + 1)
    assert second.deliver()["facts"].outcome == "done"
    held.evict.set()
    thread.join(20)
    assert late[-1].served["facts"].outcome == "waiting"
    assert fact_numbers(first) == [0, 1]
    assert states(first) == [("facts", "done", 1)]
    kinds = [record.kind for record in first.events() if record.kind in ("facts_extracted", "model_called")]
    assert kinds == ["model_called", "facts_extracted", "model_called"]  # the late call was paid for all the same
    assert leases(first) == []


def test_who_lost_the_lease_stores_nothing_even_if_nobody_else_has_finished(tmp_path):
    clock, slow, slower = Clock(), HeldExtractor(), HeldExtractor()
    first = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(slow)], clock=clock)
    second = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(slower)], clock=clock)
    put_notes(first, range(5), wait=False)
    assert slow.begun.wait(20)
    clock.pass_by(LEASE_SECONDS + 1)
    second.deliver(timeout=0)
    assert slower.begun.wait(20)
    slow.evict.set()
    until(lambda: [record.kind for record in first.events()].count("model_called") == 1)
    assert states(first) == [("facts", "pending", 0)]
    assert first.facts.read("facts", states=None) == []
    slower.evict.set()
    until(lambda: states(first) == [("facts", "done", 1)])
    assert fact_numbers(first) == [0, 1]


def test_a_database_that_fails_in_mid_delivery_leaves_no_lease_behind(monkeypatch):
    memory = open_memory(memory_blocks=[facts_block(NoteExtractor())])

    def broken(*arguments, **named):
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "set_state", broken)
        receipt = put_notes(memory, range(5))[-1]
    assert (receipt.served["facts"].outcome, receipt.served["facts"].error) == ("failed", "The disk is full.")
    assert leases(memory) == []
    assert memory.deliver()["facts"].outcome == "done"
    assert fact_numbers(memory) == [0, 1]


# -- custom blocks -------------------------------------------------------------------------------


def test_a_custom_blocks_fields_survive_a_restart_and_are_shared_by_all_who_open_the_session(tmp_path):
    uri = on_file(tmp_path)
    first = open_memory(database_uri=uri, memory_blocks=[Counter()])
    put_notes(first, range(5))
    second = open_memory(database_uri=uri, memory_blocks=[Counter()])
    put_notes(second, range(5, 7))
    put_notes(first, range(7, 9))
    for memory in (first, second):
        assert "6 messages" in memory.get()[0].content
    with first.session.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM mi_session").scalar() == 1
    first.session.refresh()
    assert block(second, "counter").heard[:2] == (0, 1)
    restarted = open_memory(database_uri=uri, memory_blocks=[Counter()])
    assert block(restarted, "counter").heard == block(first, "counter").heard


def test_one_block_object_for_two_sessions_is_refused(tmp_path):
    shared = [Counter(), facts_block(NoteExtractor())]
    first = open_memory("a", database_uri=on_file(tmp_path), memory_blocks=shared)
    put_notes(first, range(5))
    with pytest.raises(ConfigError, match='"counter" is that of the session "a" already'):
        open_memory("b", database_uri=on_file(tmp_path), memory_blocks=shared)
    with pytest.raises(ConfigError, match='"counter" is that of the session "a" already'):
        open_memory("b", database_uri=on_file(tmp_path)).blocks.add(shared[0])
    assert [status.session_id for status in list_sessions(first.session.database)] == ["b", "a"]
    assert shared[0].count == 2


def test_the_block_that_was_passed_is_the_live_one(tmp_path):
    counter, facts = Counter(count=100), facts_block(NoteExtractor())
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=[counter, facts])
    assert memory.memory_blocks[0] is counter
    put_notes(memory, range(5))
    assert (counter.count, counter.heard) == (102, (0, 1))
    assert len(facts.facts) == 2
    memory.blocks.configure("counter", priority=7)
    assert counter.priority == 7


def test_a_live_block_that_is_passed_again_is_taken_as_it_was_made(tmp_path):
    counter, facts = Counter(count=100), facts_block(NoteExtractor())
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=[counter, facts])
    put_notes(memory, range(5))
    memory.blocks.configure("counter", priority=7)
    position = memory.session.status().position
    again = open_memory(database_uri=on_file(tmp_path), memory_blocks=[counter, facts])
    edits = [record.event for record in again.events(position) if record.kind == "block_edited"]
    assert [(edit.settings, edit.ignored_settings) for edit in edits] == [({}, {"priority": 0})]
    assert (block(again, "counter").count, block(again, "counter").priority) == (102, 7)
    again.reset()
    assert block(again, "counter").count == 100, "what it was made with"
    counter.priority = 3  # a person's own change of the object is the program's word
    third = open_memory(database_uri=on_file(tmp_path), memory_blocks=[counter, facts])
    assert third.blocks.settings("counter")["priority"] == 3


@pytest.mark.parametrize("added", [False, True], ids=["given", "added later"])
def test_after_a_reset_a_custom_block_starts_again_from_its_constructors_values(added):
    memory = open_memory(memory_blocks=[] if added else [Counter(count=100)])
    if added:
        memory.blocks.add(Counter(count=100))
    put_notes(memory, range(5))
    assert block(memory, "counter").count == 102
    memory.reset()
    put_notes(memory, range(10, 15))
    memory.session.refresh()
    assert (block(memory, "counter").count, block(memory, "counter").heard) == (102, (10, 11))


class OutsideBlock(BaseMemoryBlock[str]):
    """Has effects elsewhere, made idempotent by the delivery's id; its third call dies after the effect."""

    name: str = "outside"

    async def _aget(self, messages=None, **kwargs):
        return ""

    async def _aput(self, messages, delivery_id):
        _note_down(delivery_id, messages)


class PlainOutsideBlock(OutsideBlock):
    _aput = BaseMemoryBlock._aput

    def _put(self, messages, delivery_id):
        _note_down(delivery_id, messages)


written: list[tuple[str, list[str]]] = []


def _note_down(delivery_id, messages):
    written.append((delivery_id, [message.content.split()[1] for message in messages]))
    if len(written) == 1:
        raise OSError("the line went dead after it was written")


@pytest.mark.parametrize("cls", [OutsideBlock, PlainOutsideBlock])
def test_a_block_with_effects_outside_is_given_the_same_id_for_the_same_messages(cls):
    written.clear()
    memory = open_memory(memory_blocks=[cls()], clock=Clock())
    put_notes(memory, range(5))
    memory.deliver()
    put_notes(memory, range(5, 7))
    assert written == [("s/1", ["0", "1"]), ("s/1", ["0", "1"]), ("s/2", ["2", "3"])]


def test_a_call_that_fails_leaves_no_trace_in_a_blocks_fields():
    class Half(Counter):
        async def _aput(self, messages):
            await super()._aput(messages)
            raise RuntimeError("half way")

    memory = open_memory(memory_blocks=[Half()], clock=Clock())
    put_notes(memory, range(5))
    memory.deliver()
    assert (block(memory, "counter").count, block(memory, "counter").heard) == (0, ())


# -- the user's memory ---------------------------------------------------------------------------


def test_sessions_of_one_user_learn_in_turn_and_nothing_twice(tmp_path):
    """Both sessions hear the same: who comes second finds it known."""
    extractor = HeldExtractor()

    def of_user(session_id, chosen):
        return open_memory(
            session_id,
            user_id="ana",
            database_uri=on_file(tmp_path),
            memory_blocks=[facts_block(chosen, scope="user")],
        )

    quick = NoteExtractor()
    first, second = of_user("a", extractor), of_user("b", quick)
    put_notes(first, range(5), wait=False)
    assert extractor.begun.wait(20)
    put_notes(second, range(5), wait=False)
    time.sleep(0.1)
    assert quick.calls == []  # not while the other session learns
    extractor.evict.set()
    until(lambda: states(second) == [("facts", "done", 1)])  # nobody has to put again for it
    assert fact_numbers(first) == fact_numbers(second) == [0, 1]
    facts = second.facts.read("facts")
    assert [fact.sources for fact in facts] == [(("a", 1), ("b", 1)), (("a", 2), ("b", 2))]


# -- people and extraction at once ---------------------------------------------------------------


def test_an_edit_during_an_extraction_is_compared_again_and_never_overwritten():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    extractor.evict.set()
    put_notes(memory, range(5))
    extractor.begun.clear()
    extractor.evict.clear()
    put_notes(memory, range(5, 7), wait=False)  # notes 2 and 3 are being extracted
    assert extractor.begun.wait(20)
    (fact, _) = memory.facts.read("facts")
    with memory._session.writing() as w:
        revise(w, fact, replace(fact, text="note 2 was taken", tokens=4), actor="user")
    extractor.evict.set()
    until(lambda: {state for _, state, _ in states(memory)} == {"done"})
    assert sorted(fact_numbers(memory)) == [1, 2, 3]  # note 2 was confirmed, not added beside the edit
    assert {state for _, state, _ in states(memory)} == {"done"}
    assert [call[0].split()[1] for call in extractor.calls] == ["0", "2", "2"]


def test_facts_that_never_stop_changing_count_as_a_failure():
    class Meddler(NoteExtractor):
        def extract(self, messages, *, known):
            for fact in memory.facts.read("facts"):
                with memory._session.writing() as w:
                    revise(w, fact, replace(fact, text=fact.text + "!", tokens=5), actor="user")
            return super().extract(messages, known=known)

    block = facts_block(Meddler(), facts=["note 99 was taken"])
    memory = open_memory(memory_blocks=[block], clock=Clock())
    served = put_notes(memory, range(5))[-1].served["facts"]
    assert served.outcome == "failed"
    assert "changed while new ones were being extracted" in served.error


def test_messages_removed_during_an_extraction_are_not_learned_from():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor)])
    put_notes(memory, range(5), wait=False)
    assert extractor.begun.wait(20)
    memory.reset("archived")
    extractor.evict.set()
    until(lambda: leases(memory) == [])
    assert memory.facts.read("facts", states=None) == []
    assert memory.session.deliveries() == []


def test_if_some_of_the_messages_are_removed_only_the_rest_is_learned_from():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[facts_block(extractor, deliver_on="turn")])
    memory.put_messages([note(number) for number in range(6)], wait=False)  # five turns are complete
    assert extractor.begun.wait(20)
    assert memory.session.status().archived_messages == 2
    memory.reset("archived")
    extractor.evict.set()
    until(lambda: states(memory) == [("facts", "done", 1)])
    assert fact_numbers(memory) == [2, 3, 4]


# -- condensing ----------------------------------------------------------------------------------


class Condenser(NoteExtractor):
    """Condenses to what it is told to."""

    def __init__(self, shorten):
        super().__init__()
        self.shorten = shorten

    def condense(self, facts, *, pinned, target):
        self.target = target
        return Condensation(tuple(self.shorten(list(facts), list(pinned), target)))


def condensed_events(memory):
    return [r.event for r in memory.events() if r.kind in ("facts_condensed", "condensing_refused")]


def test_condensing_says_what_was_kept_merged_left_out_and_made_up():
    def shorten(facts, pinned, target):
        joined = CondensedFact("notes one and two were taken", stands_for=(1, 2))
        return [CondensedFact(facts[0], stands_for=(0,)), joined, CondensedFact("the moon is made of cheese")]

    extractor = Condenser(shorten)
    memory = open_memory(memory_blocks=[facts_block(extractor, max_facts=5)])
    put_notes(memory, range(9))
    (event,) = condensed_events(memory)
    assert extractor.target == 4
    assert (event.before, event.after) == (6, 3)
    assert event.kept == (1,)
    assert event.merged == (((2, 3), 7),)
    assert event.vanished == (4, 5, 6)
    assert event.new == (8,)
    facts = {fact.id: fact for fact in memory.facts.read("facts", states=None)}
    assert [facts[id].state for id in sorted(facts)] == ["active", *["superseded"] * 5, "active", "active"]
    assert facts[7].text == "notes one and two were taken"
    assert facts[7].sources == (("s", 2), ("s", 3))  # what was merged is still linked to its words
    assert memory.facts.read("facts")[0].text == "note 0 was taken"


@pytest.mark.slow
def test_after_condensing_at_most_four_fifths_of_the_maximum_are_left():
    memory = open_memory(memory_blocks=[facts_block(NoteExtractor(), max_facts=10)])
    counts = []
    for number in range(60):
        memory.put(note(number))
        counts.append(len(memory.facts.read("facts")))
    assert max(counts) <= 10
    assert {event.after for event in condensed_events(memory)} == {8}


@pytest.mark.parametrize(
    ("shorten", "reason"),
    [
        (lambda facts, pinned, target: [], "it returned no fact at all"),
        (lambda facts, pinned, target: [CondensedFact("all in one", stands_for=(0, 1, 2))], "it lost a protected fact"),
        (
            lambda facts, pinned, target: [CondensedFact(text) for text in facts],
            "it returned 6 facts, and at most 4 were asked for",
        ),
    ],
    ids=["nothing", "pinned lost", "too long"],
)
def test_a_bad_shorter_list_is_refused_and_changes_nothing(shorten, reason):
    memory = open_memory(memory_blocks=[facts_block(Condenser(shorten), max_facts=5)])
    put_notes(memory, range(5))
    first = memory.facts.read("facts")[0]
    with memory._session.writing() as w:
        revise(w, first, replace(first, pinned=True), actor="user")
    put_notes(memory, range(5, 9))
    (event,) = condensed_events(memory)
    assert (event.reason, event.facts, event.max_facts) == (reason, 6, 5)
    assert fact_numbers(memory) == list(range(6))
    assert {fact.state for fact in memory.facts.read("facts", states=None)} == {"active"}


# -- blocks that come and go ---------------------------------------------------------------------


def test_a_block_that_came_later_is_given_the_archive_once():
    memory = open_memory()
    put_notes(memory, range(5))
    memory.blocks.add(Counter())
    put_notes(memory, range(5, 7))
    for _ in range(2):
        memory.blocks.fill("counter")
    memory.session.refresh()
    assert sorted(block(memory, "counter").heard) == [0, 1, 2, 3]


def test_filling_a_block_leaves_out_what_is_still_in_the_queue():
    """A thinned turn keeps its user message in the queue while its oldest steps are in the archive."""
    memory = open_memory()
    memory.put(user("note 1 is a long turn of many steps"))
    for number in range(2, 9):
        memory.put(note(number).model_copy(update={"role": "assistant"}))
    archived = [message.seq for message in memory.session.messages("archived")]
    assert archived
    assert 1 not in archived
    memory.blocks.add(Counter())
    memory.blocks.fill("counter")
    memory.session.refresh()
    assert block(memory, "counter").heard == tuple(archived)


def test_what_waits_for_a_block_that_is_removed_waits_no_longer():
    memory = open_memory(memory_blocks=[FailingBlock(refused=(0,)), Counter()], clock=Clock())
    put_notes(memory, range(5))
    assert memory.session.status().in_transit_messages == 2
    memory.blocks.remove("picky")
    assert memory.session.status().in_transit_messages == 0
    assert memory.put(note(5)).waiting == ()
    assert told(memory, DeliverySkipped) == [DeliverySkipped(deliveries=(1,), block="picky")]


@pytest.mark.slow
def test_what_came_while_removed_messages_were_learned_from_is_served_by_the_same_worker(tmp_path):
    extractor = HeldExtractor()
    memory = open_memory(database_uri=on_file(tmp_path), memory_blocks=[facts_block(extractor)])
    put_notes(memory, range(5), wait=False)
    assert extractor.begun.wait(20)
    memory.reset("archived")  # what is being learned from is gone, and its delivery with it
    for number in range(5, 9):
        memory.put(note(number), wait=False)
    assert memory.deliver(timeout=5)["facts"].outcome == "waiting"  # the worker in the middle has the lease
    extractor.evict.set()
    for _ in range(200):
        if not memory.session.deliveries(states=("pending",)):
            break
        time.sleep(0.05)
    assert [delivery.state for delivery in memory.session.deliveries()] == ["done"] * len(memory.session.deliveries())
    assert fact_numbers(memory) == sorted(number_of(m.content) for m in memory.get_all("archived"))


def test_what_was_delivered_meanwhile_is_neither_retried_nor_skipped(monkeypatch):
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="Facts")], services=Services())
    memory.put(ChatMessage(role="user", content="I like tea."))
    memory.flush(all=True)
    memory.deliver()
    [done] = memory.session.deliveries(states=("done",))
    # As if it had been read just before another process acknowledged it.
    monkeypatch.setattr(delivery, "_by_block", lambda *_, **__: {"Facts": [done.id]})
    memory.session.skip([done.id])
    memory.session.retry([done.id])
    assert [one.state for one in memory.session.deliveries()] == ["done"]
    assert memory.events(kinds=("delivery_skipped", "delivery_retried")) == []
