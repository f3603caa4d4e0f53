"""Numbers of sessions and of played configurations, kept to compare others with."""

import pytest
from engine_fakes import assistant, blocks, note, on_file, open_memory, user

from memory_core import NotFoundError, delete_session
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.lab.baselines import keep_baseline, keep_reused, kept_baseline, numbers_of, reused_tokens
from memory_core.lab.playing import Player
from memory_core.lab.script import script_of
from memory_core.lab.variants import variant_of
from memory_core.sessions.overview import overview
from memory_core.store.baselines import MAX_KEPT
from memory_core.store.database import Database


def lived(uri, turns=12):
    memory = open_memory(
        database_uri=uri, memory_blocks=[*blocks()[:2], GraphMemoryBlock(name="graph")], token_limit=60
    )
    for number in range(turns):
        memory.put(note(number))
        memory.build_context()
        memory.put(assistant(f"noted {number}"))
    memory.put(user("Ana lives in Porto."))
    memory.flush(all=True)
    memory.build_context("Where is Ana?")
    return memory


@pytest.fixture
def memory(tmp_path):
    return lived(on_file(tmp_path))


def played(memory, limit):
    player = Player(memory.session.services, tokenizer_fn=str.split)
    return player.play(script_of(memory), variant_of(memory).changed("B", token_limit=limit))


def test_the_numbers_of_a_turn_are_those_that_the_tables_and_the_log_had_then(memory):
    found, history = numbers_of(memory).turns, memory.log.history()
    assert list(found) == list(history.turns)
    for number, turn in history.turns.items():
        assert (found[number].sent, found[number].cut) == (turn.built.event.total, turn.cut_tokens)
        usage = memory.log.usage(turn.last_position)
        for name, block in found[number].blocks.items():
            assert (block.facts or 0, block.entities or 0) == (usage.of(name).facts, usage.of(name).entities)
    last, (row,) = numbers_of(memory).last, overview(memory.session.database)
    assert (last.turn, last.said, last.flushes, last.facts) == (
        row.status.turns, row.tokens, row.status.flushes, row.facts,
    )  # fmt: skip
    facts = memory.facts.read("facts")
    assert last.blocks["facts"].fact_tokens == sum(fact.tokens for fact in facts) > 0
    assert last.queue == memory.session.status().queue_tokens


def test_forgotten_messages_are_no_more_in_the_tokens_of_all(memory):
    memory.put(user("Who else lives there?"))
    memory.reset("archived")
    (row,) = overview(memory.session.database)
    assert numbers_of(memory).last.said == row.tokens


def test_a_kept_baseline_is_there_after_a_restart_and_gone_with_its_session(tmp_path, memory):
    one = played(memory, 40)
    id = keep_baseline(memory, one, "token_limit 60 → 40", at=1.0)
    assert keep_baseline(memory, one, "token_limit 60 → 40", at=2.0) == id, "pinned again, it is the same"
    again = Database.open(on_file(tmp_path))
    kept = kept_baseline(again, id)
    assert (kept.session_id, kept.name) == (memory.session_id, "token_limit 60 → 40")
    assert kept.numbers.turns == numbers_of(one.memory).turns
    assert kept.numbers.reused == {}, "that takes reading every prompt"
    history, told = one.memory.log.history(), keep_reused(again, one, id)
    assert kept_baseline(again, id) == told
    turn = history.latest_turn - 1
    before, then = (history.turns[each].built for each in (turn - 1, turn))
    assert (
        told.numbers.reused[turn]
        == reused_tokens(one.memory, history, turn)
        == one.memory.log.shared_prefix_tokens(before, then)
    )
    delete_session(again, memory.session_id)
    with pytest.raises(NotFoundError):
        kept_baseline(again, id)


def test_a_session_keeps_its_newest_baselines(memory):
    one = played(memory, 40)
    ids = [keep_baseline(memory, one, str(number), at=number) for number in range(MAX_KEPT + 1)]
    with pytest.raises(NotFoundError):
        kept_baseline(memory.session.database, ids[0])
    assert [kept_baseline(memory.session.database, id).name for id in ids[1:]] == [
        str(n) for n in range(1, MAX_KEPT + 1)
    ]
