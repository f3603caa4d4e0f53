"""The demo conversation has the shape that the demo needs: see `memory_inspector/demo/conversations.py`."""

import pytest

from memory_core.messages import MessageRole
from memory_core.planning.flush import Queue, SizedMessage, plan_flush
from memory_core.tokens import default_counter
from memory_inspector.demo.conversations import INSTRUCTIONS, MESSAGES, RECORDED_TURNS, TITLE

COUNTER = default_counter()
TOKENS = [COUNTER.text(message.content) for message in MESSAGES]
USER_WORDS = [message.content for message in MESSAGES[::2]]
ASSISTANT_WORDS = [message.content for message in MESSAGES[1::2]]
TOKEN_LIMIT = 1200
HISTORY_BUDGET = 720
FLUSH_SIZE = 120


def played():
    """What leaves the queue at each message, by the real planner: `{(turn, role): turns that leave}`, and the
    queue's tokens after each message."""
    queue, flushes, levels = [], {}, []
    for seq, (message, tokens) in enumerate(zip(MESSAGES, TOKENS, strict=True)):
        queue.append(SizedMessage(seq, message.role, tokens))
        newest = max(each.seq for each in queue if each.role is MessageRole.USER)
        totals = Queue(sum(each.tokens for each in queue), len(queue), newest_turn=newest)
        plan = plan_flush(totals, queue, history_budget=HISTORY_BUDGET, token_flush_size=FLUSH_SIZE)
        queue = queue[len(plan.leave) :]
        if plan:
            flushes[seq // 2 + 1, str(message.role)] = sorted({each.seq // 2 + 1 for each in plan.leave})
        levels.append(sum(each.tokens for each in queue))
    return flushes, levels


def test_it_has_eighteen_turns_of_one_question_and_one_answer():
    assert TITLE == "Birthday dinner"
    assert [str(message.role) for message in MESSAGES] == ["user", "assistant"] * 18


def test_every_message_is_of_a_natural_length():
    assert min(TOKENS) >= 25
    assert max(TOKENS) <= 70


def test_the_instructions_are_about_a_sixth_of_the_limit():
    assert 190 <= COUNTER.text(INSTRUCTIONS) <= 240


def test_it_opens_one_message_before_a_flush():
    flushes, levels = played()
    after = levels[2 * RECORDED_TURNS - 1]
    assert (12, "user") in flushes
    assert after <= HISTORY_BUDGET < after + TOKENS[2 * RECORDED_TURNS]


def test_turns_leave_in_the_batches_that_the_demo_shows():
    assert played()[0] == {
        (10, "user"): [1, 2, 3],
        (12, "user"): [4, 5],
        (14, "user"): [6, 7],
        (16, "user"): [8, 9],
        (18, "assistant"): [10, 11],
    }


def test_the_prompt_of_turn_12_is_the_first_that_does_not_fit_when_all_is_recalled():
    levels = played()[1]
    facts = 8 * 7  # eight short facts, as learned from turns 1 to 5
    instructions = COUNTER.text(INSTRUCTIONS)
    assert levels[20] + instructions + sum(TOKENS[:6]) + facts <= TOKEN_LIMIT
    assert levels[22] + instructions + sum(TOKENS[:10]) + facts > TOKEN_LIMIT


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (1, "my name is Sam"),
        (1, "I live in Porto"),
        (1, "Ana is my sister"),
        (2, "Careful with dessert, Ana is allergic to nuts and it is serious."),
        (2, "Ana likes jazz"),
        (3, "The dinner is on 14 March"),
        (4, "I pay the bill"),
        (4, "Rui stays off meat these days"),
        (5, "Teresa is my aunt"),
        (5, "Ana works at the hospital until seven"),
        (5, "So the dinner is on the 14th of March"),
        (5, "I live in Lisbon now"),
        (7, "Rui can bring the wine"),
        (11, "eight people"),
        (12, "keep it under 300 euros altogether"),
        (16, "Remind me what Rui eats before I fix the menu?"),
    ],
)
def test_what_the_demo_is_about_is_said_once_by_the_user(turn, words):
    assert [number for number, said in enumerate(USER_WORDS, 1) if words in said] == [turn]


def test_nobody_but_sam_says_what_rui_eats_and_only_once():
    everything = " ".join(message.content for message in MESSAGES).lower()
    assert everything.count("meat") == 1
    assert "vegetarian" not in everything
    assert "I have nothing about what Rui eats." in ASSISTANT_WORDS[15]


def test_the_question_of_turn_16_shares_one_word_of_meaning_with_the_answer():
    asked = {word.strip(".,?").lower() for word in USER_WORDS[15].split()}
    told = {"rui", "stays", "off", "meat", "days"}
    assert asked & told == {"rui"}
