"""Totals of sessions for their list: each equals the sum over the session's log."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, current_thread, main_thread
from unittest.mock import Mock

import pytest
from engine_fakes import HashEmbedder, NoteExtractor

from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    ModelError,
    Services,
    StaticMemoryBlock,
    StoreError,
    delete_session,
)
from memory_core.engine.session import Session
from memory_core.events import BlockFailed, DeliveryFailed, ModelCalled, ReplyEnded
from memory_core.sessions import overview as overviews
from memory_core.sessions.overview import Losses, overview
from memory_core.sessions.overview import _known_sums as sums
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.wire import Exchange


@pytest.fixture
def database(tmp_path):
    return Database.open(f"sqlite:///{tmp_path}/memory.db")


def made(database, session_id="one", **more):
    services = Services(embedder=HashEmbedder())
    return Memory.from_defaults(session_id, database=database, services=services, **more)


def totals(database, session_id="one"):
    return next(each.totals for each in overview(database) if each.status.session_id == session_id)


def called(cost=None, **more):
    return ModelCalled("reply", more.pop("model", "m"), 100, 10, 0.5, cost, **more)


def test_calls_and_failures_are_summed_and_only_new_ones_are_read(database):
    memory = made(database)
    assert totals(database).dollars is None
    memory.log.record(called(0.25), called(0.5, error="Away."), ReplyEnded("r", "done"), BlockFailed("Facts", "Away."))
    first = totals(database)
    assert (first.errors, first.dollars) == (2, 0.75)
    memory.log.record(ReplyEnded("s", "failed", "Away."), DeliveryFailed((1,), "Facts", 1, "Away.", 0))
    memory.log.record(called(cached_tokens=40), called(block="Facts"))
    again = totals(database)
    assert (again.errors, again.dollars) == (4, 0.75)
    assert again.unpriced == {"m": (60, 40, 10)}  # what a block's learner took has no known price
    assert (first.errors, first.unpriced) == (2, {})
    # Read in one piece, it is the same.
    assert totals(Database.open(database.url)) == again


def test_a_read_that_fails_is_made_again(database, monkeypatch):
    made(database).log.record(called(0.25))
    with monkeypatch.context() as failing:
        failing.setattr(overviews, "read_present", Mock(side_effect=StoreError("Away.")))
        with pytest.raises(StoreError):
            totals(database)
    assert totals(database).dollars == 0.25


def test_a_database_that_is_slow_keeps_no_list_of_another_waiting(tmp_path, monkeypatch):
    slow, quick = (Database.open(f"sqlite:///{tmp_path}/{name}.db") for name in ("slow", "quick"))
    for each in (slow, quick):
        made(each).log.record(called(0.25))
    asked, answer, read = Event(), Event(), overviews.read_present

    def wait(connection, sessions):
        if current_thread() is not main_thread():
            asked.set()
            assert answer.wait(60)
        return read(connection, sessions)

    monkeypatch.setattr(overviews, "read_present", wait)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(totals, slow)
        assert asked.wait(60)
        with ThreadPoolExecutor(1) as other:
            try:
                monkeypatch.setattr(overviews, "read_present", read)
                assert other.submit(totals, quick).result(timeout=30).dollars == 0.25
                assert not waiting.done()
            finally:
                answer.set()
        assert waiting.result().dollars == 0.25


def test_of_a_session_that_was_deleted_nothing_is_held(database):
    for id in ("one", "two"):
        made(database, id, user_id=id).log.record(called(1.0))
    overview(database)
    delete_session(database, "one")
    overview(database, user_id="one")  # a part of the sessions says nothing of the others
    with sums.of(database, None) as held, overviews._read.of(database, None) as read:
        assert {"one", "two"} == held.keys() == read.keys()
    overview(database)
    with sums.of(database, None) as held, overviews._read.of(database, None) as read:
        assert {"two"} == held.keys() == read.keys()


def test_another_session_under_the_same_id_begins_at_nothing(database):
    made(database).log.record(called(1.0))
    assert totals(database).dollars == 1
    delete_session(database, "one", reusable=True)
    made(database)
    assert totals(database).dollars is None


def test_a_session_that_fits_lost_nothing(database):
    memory = made(database)
    memory.put(ChatMessage(role="user", content="Hello there."))
    memory.build_context()
    assert totals(database).losses == Losses()


def test_what_the_latest_prompt_left_out_is_lost_until_a_prompt_has_it(database):
    static = StaticMemoryBlock(name="rules", static_content="A rule of ten tokens that is too long. " * 8, priority=1)
    memory = made(database, token_limit=60, token_flush_size=20, memory_blocks=[static])
    memory.put(ChatMessage(role="user", content="Hello there."))
    plan = memory.build_context("word").plan
    assert totals(database).losses.cut == sum(cut.tokens for cut in plan.cuts) > 0
    memory.configure(token_limit=600)
    memory.build_context("word")
    assert totals(database).losses.cut == 0


def test_deliveries_that_were_given_up_are_lost_until_they_are_done(database):
    class Away(NoteExtractor):
        def extract(self, messages, *, known):
            raise ModelError("Away.")

    block = FactExtractionMemoryBlock(name="facts", llm=Away())
    memory = made(database, memory_blocks=[block], delivery_attempts=1)
    memory.put(ChatMessage(role="user", content="note 1 of the day"))
    memory.flush(all=True)
    memory.deliver()
    assert (totals(database).losses, totals(database).errors) == (Losses(parked=1), 1)
    for delivery in memory.session.deliveries(states=("parked",)):
        memory.session.skip([delivery.id])
    assert totals(database).losses == Losses()


def test_messages_that_no_block_takes_are_lost_with_their_flush(database):
    memory = made(database)
    memory.put_messages([ChatMessage(role=role, content="Hello there.") for role in ("user", "assistant")])
    memory.flush(all=True)
    assert totals(database).losses == Losses(untaken=2)
    other = made(database, "two", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    other.put(ChatMessage(role="user", content="Hello there."))
    other.flush(all=True)
    assert totals(database, "two").losses == Losses()


def test_what_an_attached_agent_left_out_of_its_latest_prompt_is_lost(database):
    session = Session(database, "agent", services=Services(embedder=HashEmbedder()))
    attach(session)
    said, asked = (ChatMessage(role="user", content=words) for words in ("I live in Oslo.", "And now?"))
    answer = ChatMessage(role="assistant", content="Good.")
    record_exchange(session, Exchange("reply", "m", (said,), answer))
    assert totals(database, "agent").losses == Losses()
    record_exchange(session, Exchange("reply", "m", (asked,), answer))
    assert totals(database, "agent").losses == Losses(left_out=2)
    record_exchange(session, Exchange("reply", "m", (said, answer, asked, answer)))
    assert totals(database, "agent").losses == Losses()
