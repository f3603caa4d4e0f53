"""The log folded by turn says of every turn what the tables said at its end."""

import pytest
from engine_fakes import assistant, user
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import Memory, MessageStatus, StaticMemoryBlock
from memory_core.history.by_turn import history_of


def a_memory(**given):
    blocks = [StaticMemoryBlock(name="Instructions", static_content="Be brief.")]
    return Memory.from_defaults(memory_blocks=blocks, **{"token_limit": 100, "token_flush_size": 20, **given})


def totals(memory):
    status = memory.session.status()
    return status.turns, status.queue_tokens, status.queue_messages, status.archived_messages


def said_by(history):
    last = history.turns[history.latest_turn]
    return last.turn, last.queue_tokens, last.queue_messages, last.archived_messages


words = st.integers(1, 40).map(lambda count: "word " * count)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), words),
        st.tuples(st.just("flush"), st.booleans()),
        st.tuples(st.just("accounting"), st.sampled_from(["content", "billed", "reference"])),
        st.tuples(st.just("set"), words),
        st.tuples(st.just("limit"), st.integers(40, 300)),
        st.tuples(st.just("forget"), st.sampled_from(["active", "archived"])),
    ),
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(steps)
def test_every_turn_ends_with_what_the_tables_say(steps):
    memory = a_memory()
    memory.put(user("Hello"))
    expected = {}
    for step, value in steps:
        if step == "turn":
            memory.put(user(value))
            memory.put(assistant(value))
            memory.build_context()
        elif step == "flush":
            memory.flush(all=value)
        elif step == "accounting":
            memory.configure(accounting=value)
        elif step == "limit":
            memory.configure(token_limit=value, token_flush_size=min(20, value))
        elif step == "set":
            memory.set([user(value)])
        else:
            memory.reset(value)
        if memory.session.status().turns:
            expected[memory.session.status().turns] = totals(memory)
        assert memory.log.history().config_at(memory.log.history().position) == memory.session.config
    history = memory.log.history()
    if memory.session.status().turns:
        assert said_by(history) == totals(memory)
    else:
        assert history.turns == {}
    if not any(step in ("set", "forget", "accounting") for step, _ in steps):
        told = {n: (t.turn, t.queue_tokens, t.queue_messages, t.archived_messages) for n, t in history.turns.items()}
        assert {turn: told[turn] for turn in expected} == expected
    assert history_of(memory.events()) == history


def test_a_history_that_was_read_does_not_change():
    memory = a_memory()
    memory.put(user("One"))
    before = memory.log.history()
    memory.put(user("Two"))
    assert (before.latest_turn, memory.log.history().latest_turn) == (1, 2)


def test_the_past_has_its_own_settings_texts_and_order_of_blocks():
    memory = a_memory()
    memory.put(user("One"))
    memory.put(user("Two"))
    memory.blocks.edit("Instructions", "Be long.")
    memory.configure(token_limit=500)
    memory.blocks.add(StaticMemoryBlock(name="More", static_content="More."))
    history = memory.log.history()
    then, now = history.position_at(1), history.position
    assert (history.config_at(then).token_limit, history.config_at(now).token_limit) == (100, 500)
    old, new = history.blocks_at(then), history.blocks_at(now)
    assert ([block.name for block in old], [block.name for block in new]) == (
        ["Instructions"],
        ["Instructions", "More"],
    )
    assert list(memory.log.texts([old[0].text, new[0].text]).values()) == ["Be brief.", "Be long."]
    assert (old[0].revision, new[0].revision) == (1, 2)


def test_each_turn_knows_its_flushes_contexts_and_edits():
    memory = a_memory()
    for number in range(4):
        memory.put(user(f"{number} " + "word " * 20))
        memory.put(assistant("word " * 20))
        memory.build_context()
    memory.blocks.edit("Instructions", "Other.")
    turns = memory.log.history().turns
    assert {number: len(turn.contexts) for number, turn in turns.items()} == {1: 1, 2: 1, 3: 1, 4: 1}
    assert sum(len(turn.flushes) for turn in turns.values()) == memory.session.status().flushes > 0
    assert [record.kind for record in turns[4].edited] == ["block_edited"]
    assert turns[1].last_position < turns[2].first_position


def test_a_full_reset_begins_the_turns_again():
    memory = a_memory()
    memory.put(user("One"))
    memory.put(user("Two"))
    assert memory.log.history().latest_turn == 2
    memory.reset()
    assert memory.log.history().turns == {}
    memory.put(user("Anew"))
    assert list(memory.log.history().turns) == [1]
    assert memory.log.history().turns[1].queue_messages == 1


def test_words_that_were_erased_are_gone_from_a_history_read_before():
    memory = a_memory()
    memory.put(user("The secret"))
    key = next(r.event.content for r in memory.log.history().records if r.kind == "message_added")
    assert memory.log.texts([key])
    memory.reset(MessageStatus.ACTIVE)
    assert memory.log.texts([key]) == {}


def test_looking_at_other_blocks_changes_nothing():
    memory = a_memory()
    memory.put(user("One"))
    before = memory.log.history().position
    now = memory.preview.context()
    assert memory.preview.context(texts={"Instructions": "Be brief, and then some more."}).plan.total > now.plan.total
    assert memory.preview.context(without=["Instructions"]).plan.total < now.plan.total
    assert (
        memory.preview.context(added=[StaticMemoryBlock(name="More", static_content="More.")]).plan.total
        > now.plan.total
    )
    assert memory.log.history().position == before
    assert memory.preview.context().plan == now.plan
