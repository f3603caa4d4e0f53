"""What is watched: stored with its session, and turn by turn in the prompt, in memory only, or lost."""

import pytest
from engine_fakes import HashEmbedder, assistant, on_file, open_memory, user
from fakes import FakeExtractor
from sqlalchemy import select

from memory_core import FactExtractionMemoryBlock, Memory, MessageError, Services, VectorMemoryBlock, delete_session
from memory_core.events import Ref
from memory_core.store.tables import session_table
from memory_core.tracing.watched import MAX_WATCHED

NUTS = "I am allergic to nuts"


def watching(*blocks, **given):
    services = Services(embedder=HashEmbedder(), extractor=FakeExtractor())
    return Memory.from_defaults("s", memory_blocks=list(blocks), services=services, **{"token_limit": 4000} | given)


def said(memory, text):
    """One whole turn: a question, its prompt, an answer."""
    memory.put(user(text))
    memory.build_context(text)
    memory.put(assistant("I see."))


def states(memory, target, **given):
    return [each.state for each in memory.trace.presence(target, **given).turns]


def test_nothing_is_watched_until_somebody_does_and_each_thing_once():
    memory = watching()
    assert memory.trace.watched == ()
    memory.put(user(NUTS))
    memory.trace.watch("allergic   to nuts")
    memory.trace.watch("allergic to nuts")
    memory.trace.watch(Ref.of("message", 1))
    assert memory.trace.watched == ("allergic to nuts", Ref("m1"))
    assert isinstance(memory.trace.watched[1], Ref)
    memory.trace.unwatch("allergic to nuts")
    memory.trace.unwatch("never watched")
    assert memory.trace.watched == (Ref("m1"),)


def test_what_is_watched_is_there_for_the_next_process_and_gone_with_the_session(tmp_path):
    uri = on_file(tmp_path)
    memory = open_memory("s", database_uri=uri)
    memory.put(user(NUTS))
    memory.trace.watch("nuts")
    again = open_memory("s", database_uri=uri)
    assert again.trace.watched == ("nuts",)
    delete_session(again.session.database, "s")
    with again.session.database.read() as connection:
        assert connection.execute(select(session_table.c.watched)).all() == [(None,)]


def test_too_much_is_refused_in_a_sentence_and_nothing_changes():
    memory = watching()
    memory.put(user(NUTS))
    for number in range(MAX_WATCHED):
        memory.trace.watch(f"phrase {number}")
    with pytest.raises(MessageError, match="Stop watching one of them first"):
        memory.trace.watch("one more")
    for bad in ("  ", "nuts " * 100):
        with pytest.raises(MessageError, match="1 to 300 characters"):
            memory.trace.watch(bad)
    assert len(memory.trace.watched) == MAX_WATCHED


def test_each_turn_is_told_as_the_trace_to_its_prompt_tells_it():
    facts = FactExtractionMemoryBlock(name="facts", priority=1)
    memory = watching(facts, token_limit=120, token_flush_size=30)
    said(memory, "Hello there")
    said(memory, NUTS)
    for number in range(6):
        said(memory, f"Let us talk about something else, number {number}, at some length")
    presence = memory.trace.presence("allergic to nuts")
    assert [each.turn for each in presence.turns] == list(range(1, 9))
    assert presence.turns[0].state == "before"
    assert presence.turns[1].state == "prompt"
    for each in presence.turns:
        trace = memory.trace("allergic to nuts", turn=each.turn)
        assert (each.state == "prompt", each.sentence) == (trace.reached, trace.sentence)


def test_it_drops_out_of_the_prompt_in_the_turn_that_lost_it_with_the_rule():
    memory = watching(VectorMemoryBlock(name="turns", similarity_threshold=0.99), token_limit=60, token_flush_size=20)
    said(memory, NUTS)
    for number in range(4):
        said(memory, f"Something else, number {number}, at some length for the queue")
    presence = memory.trace.presence("allergic to nuts")
    (dropped,) = presence.dropped()
    assert presence.turns[dropped.turn - 2].state == "prompt"
    assert dropped.state == "memory"
    assert dropped.sentence == memory.trace("allergic to nuts", turn=dropped.turn).sentence
    assert presence.last_in(5).turn == dropped.turn - 1
    assert presence.dropped_after(1) == dropped
    assert presence.dropped_after(dropped.turn) is None


def test_what_no_block_keeps_is_lost_once_it_left_the_queue():
    memory = watching(token_limit=40, token_flush_size=20)
    said(memory, NUTS)
    for number in range(3):
        said(memory, f"Something else, number {number}, at some length for the queue")
    assert states(memory, Ref.of("message", 1))[-1] == "lost"


def test_a_turn_without_a_prompt_is_neither():
    memory = watching()
    said(memory, NUTS)
    memory.put_messages([user("And then?"), assistant("Nothing.")])
    said(memory, "And now?")
    assert states(memory, "allergic to nuts") == ["prompt", "none", "prompt"]
    assert list(memory.trace.presence("allergic to nuts").dropped()) == []


def test_an_earlier_one_is_not_mixed_with_what_is_left_after_a_shared_fact_was_erased_elsewhere(tmp_path):
    def of_ana(session_id):
        blocks = [FactExtractionMemoryBlock(name="facts", scope="user", deliver_on="turn")]
        services = Services(embedder=HashEmbedder(), extractor=FakeExtractor())
        return Memory.from_defaults(
            session_id, user_id="ana", database_uri=on_file(tmp_path), memory_blocks=blocks, services=services
        )

    first, second = of_ana("first"), of_ana("second")
    said(first, NUTS)
    first.flush(all=True)
    for text in ("What may I eat?", "And drink?"):
        said(second, text)
    earlier = second.trace.presence("allergic to nuts")
    assert "prompt" in [each.state for each in earlier.turns]
    first.session.forget("allergic to nuts")
    said(second, "And now?")
    assert second.trace.presence("allergic to nuts", earlier=earlier) == second.trace.presence("allergic to nuts")


def test_it_goes_on_from_an_earlier_one_and_ends_the_same():
    memory = watching(FactExtractionMemoryBlock(name="facts"), token_limit=100, token_flush_size=30)
    said(memory, NUTS)
    known = memory.trace.presence("nuts")
    for number in range(5):
        said(memory, f"Something else, number {number}, at some length for the queue")
        known = memory.trace.presence("nuts", earlier=known)
        assert known == memory.trace.presence("nuts")
    memory.reset()
    assert memory.trace.presence("nuts", earlier=known).turns == ()


def test_a_phrase_with_two_spaces_is_watched_and_let_go_as_one():
    memory = Memory.from_defaults()
    memory.trace.watch("allergic  to nuts")
    memory.trace.unwatch("allergic  to nuts")
    assert memory.trace.watched == ()
