"""A conversation played again is the conversation lived, under any configuration in which no model takes part."""

import pytest
from engine_fakes import Clock, assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memory_core import ChatMessage, Memory, Services, StaticMemoryBlock
from memory_core.agent.loop import act
from memory_core.errors import ConfigError
from memory_core.events import ContextBuilt
from memory_core.messages import MessageRole
from memory_core.models.offline.responder import OfflineResponder
from memory_core.recipes import RECIPES
from memory_inspector.lab.playing import Player
from memory_inspector.lab.script import ScriptStep, script_from, script_of
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.variants import differences, variant_of

SAID = (
    "My name is Ana.", "I live in Porto.", "I am allergic to nuts.", "I moved to Lisbon.", "I like jazz.",
    "Rui manages the Atlas project. I live in Porto.", "My dog is Bo.", "Where does Rui work?", "So on and so on " * 12,
)  # fmt: skip
REPLIES = ("Noted.", "Rui works at Acme, and you live in Porto.", "Nuts " * 20)

moves = st.lists(
    st.tuples(st.sampled_from(("turn", "turn", "turn", "together", "ask", "measured", "flush")), st.integers(0, 99)),
    min_size=1,
    max_size=14,
)


def lived(recipe, limit, steps):
    """A memory in which these steps were done, a second apart."""
    clock = Clock()
    memory = Memory.from_recipe(
        recipe, "s", "u", token_limit=limit, clock=clock, services=Services(embedder=FakeEmbedder())
    )
    for number, (move, pick) in enumerate(steps):
        clock.pass_by(1)
        said, reply = user(SAID[pick % len(SAID)]), assistant(REPLIES[pick % len(REPLIES)])
        if move == "turn":
            memory.put(said)
            if memory.blocks.editable_by_agents:
                clock.pass_by(1)
                act(memory, OfflineResponder(), f"r{number}")
            memory.build_context()
            clock.pass_by(1)
            memory.put(reply)
        elif move == "together":
            memory.put_messages([said, reply])
            memory.build_context()
        elif move == "ask":
            memory.build_context(SAID[pick % len(SAID)])
        elif move == "measured":
            memory.build_context(reserved_tokens=2 * pick)
        else:
            memory.flush()
    return memory


def prompts(memory):
    """Every prompt that was recorded, as its messages; those before the first message are of no turn."""
    records = [record for record in memory.events() if isinstance(record.event, ContextBuilt) and record.turn]
    return [[(message.role, message.content) for message in memory.log.prompt(record).messages] for record in records]


def player():
    return Player(Services(embedder=FakeEmbedder()))


@pytest.mark.slow
@settings(
    max_examples=30, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(
    st.sampled_from(sorted(RECIPES)),
    st.sampled_from(sorted(RECIPES)),
    st.integers(60, 400),
    st.integers(60, 400),
    moves,
)
def test_what_is_played_under_a_configuration_is_what_is_lived_under_it(one, other, limit, other_limit, steps):
    recorded = lived(one, limit, steps)
    script = script_of(recorded)
    assert prompts(player().play(script, variant_of(recorded)).memory) == prompts(recorded)

    really = lived(other, other_limit, steps)
    # A flush that found nothing to move is in no log, and might have moved something under the other configuration.
    told = sum(step.does == "flush" for step in script.steps) == sum(move == "flush" for move, _ in steps)
    edited = really.blocks.editable_by_agents or recorded.blocks.editable_by_agents  # then other words are said
    if told and not edited:
        assert prompts(player().play(script, variant_of(really)).memory) == prompts(really)


def test_messages_put_together_are_put_together_again_and_may_flush_once():
    memory = lived("buffer", 80, [("together", number) for number in range(6)])
    assert [len(step.messages) for step in script_of(memory).steps if step.does == "put"] == [2] * 6


def test_a_turn_without_a_prompt_gets_one_after_the_words_of_the_user():
    memory = Memory.from_defaults(memory_blocks=[])
    memory.put_messages([user("one"), assistant("two")])
    assert [step.does for step in script_of(memory).steps] == ["put", "ask"]
    assert [step.does for step in script_from([user("one"), assistant("two")]).steps] == ["put", "ask", "put"]


def test_up_to_a_position_of_the_log_a_script_and_its_sizes_are_what_they_were_then():
    memory = lived("blocks", 120, [("turn", 0), ("ask", 1), ("turn", 1)])
    script, sizes, then = script_of(memory), sizes_of(memory), memory.log.history().position
    for number in range(4):
        memory.put(user(f"later {number}"))
        memory.build_context()
    assert script_of(memory, then) == script != script_of(memory)
    later = sizes_of(memory, then)
    assert (later.steps, later.flushes, later.texts) == (sizes.steps, sizes.flushes, sizes.texts)


def test_what_was_said_before_a_reset_is_not_played():
    memory = Memory.from_defaults(memory_blocks=[])
    memory.put(user("before"))
    memory.reset()
    memory.put(user("after"))
    assert [message.content for message in script_of(memory).messages] == ["after"]


def test_an_agents_own_edits_of_its_memory_are_made_again_once():
    memory = lived("self_editing", 900, [("turn", 0), ("turn", 1), ("turn", 2)])
    again = player().play(script_of(memory), variant_of(memory)).memory
    assert [attached.state for attached in again.blocks] == [attached.state for attached in memory.blocks]
    assert [message.content for message in again.get_all()] == [message.content for message in memory.get_all()]


def test_changes_of_people_and_models_that_learned_are_said_not_guessed():
    memory = Memory.from_recipe("blocks", "s", services=Services(embedder=FakeEmbedder()), token_limit=300)
    memory.put(user("I live in Porto."))
    memory.configure(token_limit=200)
    assert player().play(script_of(memory), variant_of(memory)).unknown == (
        "1 change that people made to the session's memory was not made again.",
    )


def test_a_play_can_be_cancelled_and_says_how_far_it_is():
    memory = lived("blocks", 200, [("turn", number) for number in range(4)])
    script, seen = script_of(memory), []
    play = player().play
    assert (
        play(script, variant_of(memory), cancelled=lambda: len(seen) > 2, progress=lambda d, of: seen.append((d, of)))
        is None
    )
    assert seen == [(1, 12), (2, 12), (3, 12)]


def test_a_message_keeps_its_calls_and_results_when_it_is_played():
    said = ChatMessage(role=MessageRole.TOOL, content="3", additional_kwargs={"tool_call_id": "a", "name": "add"})
    memory = Memory.from_defaults(memory_blocks=[])
    memory.put_messages([user("add"), said])
    assert script_of(memory).messages[1].tool_call_id == "a"
    assert ScriptStep("put", messages=(said,)).messages == (said,)


# -- variants ----------------------------------------------------------------------------------------


def test_a_changed_knob_is_the_one_difference_to_what_it_was_changed_from():
    now = variant_of(Memory.from_recipe("blocks", "s", services=Services(embedder=FakeEmbedder())))
    facts = next(block.name for block in now.blocks if block.type == "facts")
    other = now.changed("other", token_limit=900, **{f"{facts}.priority": 7})
    assert [change.words for change in differences(now, other)] == [
        "token_limit 30000 → 900",
        f"{facts}.priority 1 → 7",
    ]
    assert differences(now, now.with_changes("again", differences(now, other))) == differences(now, other)


def test_a_block_that_is_added_or_removed_is_one_difference():
    with_text = Memory.from_defaults(memory_blocks=[StaticMemoryBlock(name="rules", static_content="Be kind.")])
    without = variant_of(Memory.from_defaults(memory_blocks=[]), "without")
    now = variant_of(with_text)
    assert [change.words for change in differences(now, without)] == ["rules removed"]
    assert [change.words for change in differences(without, now)] == ["rules added"]
    assert differences(now, now.with_changes("w", differences(now, without))) == differences(now, without)
    assert differences(now, without.with_changes("w", differences(without, now))) == ()


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"token_limit": 0}, "token_limit"),
        ({"no_such": 1}, "'no_such'"),
        ({"ghost.priority": 1}, "'ghost'"),
        ({"rules.colour": 1}, "colour"),
    ],
)
def test_an_impossible_knob_is_refused_by_name(knobs, said):
    memory = Memory.from_defaults(memory_blocks=[StaticMemoryBlock(name="rules", static_content="Be kind.")])
    with pytest.raises(ConfigError, match=said):
        variant_of(memory).changed("other", **knobs)
