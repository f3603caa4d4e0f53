"""What playing a recorded conversation would cost, worked out by hand."""

from memory_core import ChatMessage, MemoryConfig
from memory_inspector.lab.sizes import FACT_TOKENS, PROMPT_TOKENS, PlayCost, play_cost

CONFIG = MemoryConfig(token_limit=100, chat_history_token_ratio=0.5, token_flush_size=20)


def talk(turns):
    return [ChatMessage(role=role, content="x") for _ in range(turns) for role in ("user", "assistant")]


def test_what_fits_in_the_queue_costs_nothing():
    assert play_cost(talk(2), [10, 10, 10, 10], CONFIG) == PlayCost(flushes=0, calls=0, input_tokens=0)


def test_each_flush_is_one_call_with_its_messages_the_prompt_and_the_facts_known_by_then():
    # Budget 50: the sixth message makes 60, and the first turn (20 tokens) leaves; the eighth the second turn.
    cost = play_cost(talk(4), [10] * 8, CONFIG)
    assert cost == PlayCost(
        flushes=2, calls=2, input_tokens=(20 + PROMPT_TOKENS) + (20 + PROMPT_TOKENS + 1 * FACT_TOKENS)
    )


def test_every_block_that_learns_calls_for_itself():
    one, two = (play_cost(talk(4), [10] * 8, CONFIG, learners=learners) for learners in (1, 2))
    assert two == PlayCost(one.flushes, 2 * one.calls, 2 * one.input_tokens)


def test_an_empty_recording_costs_nothing():
    assert play_cost([], [], CONFIG) == PlayCost(0, 0, 0)
