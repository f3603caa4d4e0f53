"""Which messages leave the queue: pure, so no store, model or fixture."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.messages import MessageRole
from memory_core.planning.flush import Queue, SizedMessage, complete_turns, plan_flush

ROLES = {"u": MessageRole.USER, "a": MessageRole.ASSISTANT, "t": MessageRole.TOOL, "s": MessageRole.SYSTEM}


def conversation(text):
    """Messages from words such as `u5` (role and tokens), `a3:x` (calls x), `t4<x` (is its result)."""
    messages = []
    for seq, word in enumerate(text.split(), start=1):
        size, _, calls = word[1:].partition(":")
        size, _, answers = size.partition("<")
        called = tuple(calls.split(",")) if calls else ()
        messages.append(SizedMessage(seq, ROLES[word[0]], int(size), called, answers or None))
    return messages


def totals(messages):
    users = [message.seq for message in messages if message.role is MessageRole.USER]
    return Queue(sum(m.tokens for m in messages), len(messages), users[-1] if users else None)


def plan(messages, *, budget, size=1, **options):
    if isinstance(messages, str):
        messages = conversation(messages)
    return plan_flush(totals(messages), messages, history_budget=budget, token_flush_size=size, **options)


def left(made):
    return [message.seq for message in made.leave]


def rest(messages, made):
    gone = set(left(made))
    return [message for message in messages if message.seq not in gone]


# -- between turns -------------------------------------------------------------------------------


def test_a_queue_at_the_budget_is_left_alone():
    made = plan("u5 a5 u5 a5", budget=20)
    assert (left(made), made.rules, made.tokens_left, made.over_by, bool(made)) == ([], (), 20, 0, False)


def test_one_token_above_the_budget_flushes_the_oldest_turn():
    made = plan("u5 a5 u5 a6", budget=20)
    assert (left(made), made.rules, made.tokens, made.tokens_left, made.over_by) == (
        [1, 2],
        ("whole_turns",),
        10,
        11,
        0,
    )


def test_the_budget_is_not_rounded():
    assert left(plan("u5 a5 u5 a6", budget=20.9)) == [1, 2]
    assert left(plan("u5 a5 u5 a6", budget=21.0)) == []


def test_the_flush_size_is_a_minimum_and_overshoots_to_the_next_user_message():
    assert left(plan("u5 a5 u5 a5 u5 a5", budget=29, size=11)) == [1, 2, 3, 4]


def test_a_turn_of_exactly_the_flush_size_is_enough():
    assert left(plan("u5 a5 u5 a5 u5 a5", budget=29, size=10)) == [1, 2]


def test_every_further_batch_is_a_whole_flush_size_too():
    # The first batch of 10 leaves 30 of 25; the second needs 10 again, though 5 would be enough.
    assert left(plan("u5 u5 u5 u5 u5 u5 u10", budget=25, size=10)) == [1, 2, 3, 4]


def test_a_leading_greeting_leaves_with_the_first_turn():
    assert left(plan("a3 u5 a5 u5 a5", budget=20, size=5)) == [1, 2, 3]


def test_a_greeting_of_the_flush_size_leaves_alone():
    assert left(plan("a3 u5 a5 u5 a5", budget=20, size=3)) == [1]


def test_a_greeting_before_the_only_turn_leaves():
    assert left(plan("a3 u5 a5", budget=10)) == [1]


def test_the_newest_turn_stays_even_when_the_flush_size_asks_for_more():
    assert left(plan("u5 a5 u5 a5", budget=10, size=1000)) == [1, 2]


def test_a_single_huge_message_stays():
    made = plan("u500", budget=10)
    assert (left(made), made.over_by) == ([], 490)


def test_the_last_user_message_stays_alone_when_it_is_huge():
    made = plan("u5 a5 u500", budget=10)
    assert (left(made), made.tokens_left, made.over_by) == ([1, 2], 500, 490)


def test_messages_without_tokens_leave_in_their_order():
    assert left(plan("u0 a0 u5 a5 u5 a6", budget=20, size=1)) == [1, 2, 3, 4]


def test_a_system_message_inside_the_queue_leaves_like_any_other():
    assert left(plan("u5 s5 a5 u5 a5", budget=20)) == [1, 2, 3]


def test_an_empty_queue_plans_nothing():
    assert left(plan([], budget=10)) == []


# -- the newest turn alone is too large ----------------------------------------------------------


def test_a_long_turn_is_thinned_between_complete_steps_and_keeps_its_user_message():
    made = plan("u5 a5:x t20<x a5:y t20<y a5", budget=40)
    assert (left(made), made.rules, made.tokens_left, made.over_by) == ([2, 3], ("long_turn",), 35, 0)


def test_older_turns_leave_before_a_long_turn_is_thinned():
    made = plan("u5 a5 u5 a5:x t20<x a5:y t20<y a5", budget=40)
    assert (left(made), made.rules) == ([1, 2, 4, 5], ("whole_turns", "long_turn"))


def test_a_long_turn_stays_whole_where_that_is_asked_for():
    made = plan("u5 a5:x t20<x a5:y t20<y a5", budget=40, split_long_turns=False)
    assert (left(made), made.over_by) == ([], 20)


def test_a_call_without_its_result_stops_the_thinning():
    assert left(plan("u5 a5:x a20 a20 a5", budget=40)) == []


def test_two_results_of_one_message_leave_with_it():
    assert left(plan("u5 a5:x,y t10<x t10<y a5 a5", budget=30)) == [2, 3, 4]


def test_one_of_two_results_is_not_enough_to_cut():
    assert left(plan("u5 a5:x,y t10<x a20 a5", budget=30)) == []


def test_the_newest_step_of_a_long_turn_stays():
    made = plan("u5 a5:x t500<x", budget=10)
    assert (left(made), made.over_by) == ([], 500)


def test_thinning_also_takes_a_flush_size_at_least():
    assert left(plan("u5 a5 a5 a5 a5 a5", budget=29, size=10)) == [2, 3]


# -- no user message at all ----------------------------------------------------------------------


def test_a_queue_of_assistant_messages_keeps_its_newest():
    made = plan("a4 a4 a4", budget=4, size=100)
    assert (left(made), made.rules) == ([1, 2], ("no_user_message",))


def test_a_queue_of_assistant_messages_leaves_only_until_it_fits():
    assert left(plan("a4 a4 a4 a4", budget=10)) == [1, 2]


def test_a_single_assistant_message_stays_however_large():
    assert left(plan("a400", budget=10)) == []


# -- asked for, and closed -----------------------------------------------------------------------


def test_asking_moves_one_batch_though_nothing_is_over_budget():
    made = plan("u5 a5 u5 a5 u5 a5", budget=1000, size=3, trigger="asked")
    assert (left(made), made.rules, made.over_by) == ([1, 2], ("whole_turns",), 0)


def test_asking_keeps_the_newest_turn():
    assert left(plan("u5 a5", budget=1000, trigger="asked")) == []


def test_asking_never_thins_a_turn():
    assert left(plan("u5 a5 a5 a5", budget=1, trigger="asked")) == []


def test_closing_moves_everything():
    made = plan("a1 u5 a5:x", budget=1000, size=3, trigger="closed")
    assert (left(made), made.rules, made.tokens_left) == ([1, 2, 3], ("everything",), 0)


def test_closing_an_empty_queue_plans_nothing():
    assert not plan([], budget=1000, trigger="closed")


def test_a_flush_size_below_one_is_refused():
    with pytest.raises(ConfigError, match="token_flush_size=0"):
        plan("u5", budget=10, size=0)


# -- turns that are complete ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "complete"),
    [
        ("", 0),
        ("u1", 0),
        ("u1 a1", 2),
        ("u1 a1 u1", 2),
        ("u1 a1:x", 0),
        ("u1 a1 u1 a1:x t1<x", 2),
        ("u1 a1:x t1<x a1", 4),
        ("a1", 1),
        ("a1:x", 0),
    ],
)
def test_a_turn_is_complete_once_it_is_answered_or_the_next_begins(messages, complete):
    messages = conversation(messages)
    assert [m.seq for m in complete_turns(messages)] == [m.seq for m in messages][:complete]


# -- promises ------------------------------------------------------------------------------------


@st.composite
def conversations(draw, *, paired=True):
    """Turns with tool steps; `paired=False`: roles in any order, and results that answer anything."""
    if not paired:
        words = st.tuples(st.sampled_from("uats"), st.integers(0, 40)).map(lambda pair: f"{pair[0]}{pair[1]}")
        return conversation(" ".join(draw(st.lists(words, max_size=30))))
    words, calls = [], 0
    for turn in range(draw(st.integers(0, 6))):
        if turn or draw(st.booleans()):
            words.append(f"u{draw(st.integers(0, 40))}")
        for _ in range(draw(st.integers(0, 5))):
            made = draw(st.integers(0, 2))
            ids = [f"c{calls + i}" for i in range(made)]
            calls += made
            words.append(f"a{draw(st.integers(0, 40))}" + (":" + ",".join(ids) if ids else ""))
            words += [f"t{draw(st.integers(0, 40))}<{id}" for id in ids]
    answered = conversation(" ".join(words))
    unanswered = draw(st.integers(0, 2))  # results that have not come yet
    return answered[: max(0, len(answered) - unanswered)]


budgets = st.integers(1, 200).map(float) | st.floats(0.5, 200)
sizes = st.integers(1, 150)


@pytest.mark.slow
@given(conversations(), budgets, sizes, st.booleans())
@example(conversation("u5 a5:x t20<x a5:y t20<y a5"), 40.0, 1, True)
def test_every_plan_keeps_the_promises_of_the_docstring(messages, budget, size, split):
    made = plan(messages, budget=budget, size=size, split_long_turns=split)
    stay = rest(messages, made)
    tokens = sum(message.tokens for message in messages)

    # Nothing is lost, doubled or reordered, and the numbers are those of the messages.
    assert sorted([*made.leave, *stay], key=lambda m: m.seq) == messages
    assert left(made) == sorted(left(made))
    assert made.tokens == sum(message.tokens for message in made.leave)
    assert made.tokens_left == sum(message.tokens for message in stay)
    assert made.over_by == 0 or made.over_by - 1 < made.tokens_left - budget <= made.over_by

    # Nothing leaves a queue that fits, and something always stays.
    if tokens <= budget:
        assert not made
    if messages:
        assert stay

    # The queue starts with a user message, and keeps the newest one.
    users = [message for message in messages if message.role is MessageRole.USER]
    if made and users:
        assert stay[0].role is MessageRole.USER
    if users:
        assert users[-1] in stay

    # No result is without its call, on either side.
    for side in (made.leave, stay):
        calls = {call for message in side for call in message.calls}
        assert {message.answers for message in side if message.answers} <= calls


@pytest.mark.slow
@given(conversations(paired=False), budgets, sizes)
def test_whole_turns_leave_until_the_rest_fits_and_at_least_a_flush_size_of_them(messages, budget, size):
    assume(any(message.role is MessageRole.USER for message in messages))
    made = plan(messages, budget=budget, size=size, split_long_turns=False)
    stay = rest(messages, made)
    assert [*made.leave, *stay] == messages
    more = [message for message in stay[1:] if message.role is MessageRole.USER]
    if more and made:
        assert made.tokens_left <= budget
        assert made.tokens >= size
    if more and not made:
        assert sum(message.tokens for message in messages) <= budget


@given(conversations(), budgets, sizes, st.sampled_from(["over_budget", "asked", "closed"]))
def test_planning_twice_plans_the_same_and_then_nothing_more(messages, budget, size, trigger):
    made = plan(messages, budget=budget, size=size, trigger=trigger)
    assert plan(messages, budget=budget, size=size, trigger=trigger) == made
    if trigger == "over_budget" and made.over_by == 0:
        assert not plan(rest(messages, made), budget=budget, size=size)


@given(conversations(), budgets, sizes)
def test_asking_moves_at_most_one_batch(messages, budget, size):
    made = plan(messages, budget=budget, size=size, trigger="asked")
    # Without its last turn (or step) it would be less than a flush size: not one message too many.
    if any(message.role is MessageRole.USER for message in made.leave):
        start = max(index for index, m in enumerate(made.leave) if m.role is MessageRole.USER)
        assert sum(message.tokens for message in made.leave[:start]) < size


@given(conversations(), st.integers(1, 100), sizes)
def test_only_what_leaves_and_one_step_more_is_read(messages, budget, size):
    read = []

    def oldest():
        for message in messages:
            read.append(message)
            yield message

    made = plan_flush(totals(messages), oldest(), history_budget=budget, token_flush_size=size, split_long_turns=False)
    users = any(message.role is MessageRole.USER for message in messages)
    if users:
        assert len(read) <= len(made.leave) + 1


def test_one_message_is_read_past_what_leaves_however_long_the_queue_is():
    read = 0

    def oldest():
        nonlocal read
        for seq in range(1, 1_000_001):
            read = seq
            yield SizedMessage(seq, MessageRole.USER, 10)

    made = plan_flush(Queue(10_000_000, 1_000_000, 1_000_000), oldest(), history_budget=9_999_995, token_flush_size=20)
    assert (left(made), read) == ([1, 2], 3)


def test_nothing_is_read_of_a_queue_that_fits():
    def oldest():
        raise AssertionError("the queue was read")
        yield

    assert not plan_flush(Queue(10, 1, 1), oldest(), history_budget=10, token_flush_size=1)


# -- a window of turns ---------------------------------------------------------------------------


def test_turns_beyond_the_window_leave_whole_whatever_their_size():
    made = plan("u5 a5 u5 a5 u5", budget=1000, size=500, turns_over=1)
    assert (left(made), made.rules, made.tokens, made.tokens_left) == ([1, 2], ("window",), 10, 15)


def test_what_stands_before_the_first_turn_leaves_with_it():
    assert left(plan("a1 u5 a5 u5", budget=1000, turns_over=1)) == [1, 2, 3]


def test_a_window_that_is_still_above_the_budget_is_flushed_on():
    made = plan("u5 a5 u20 a20 u5 a5", budget=20, turns_over=1)
    assert (left(made), made.rules) == ([1, 2, 3, 4], ("window", "whole_turns"))


def test_a_window_acts_only_when_something_is_put():
    assert left(plan("u5 a5 u5 a5 u5", budget=1000, turns_over=1, trigger="asked")) == [1, 2]
    assert left(plan("u5 a5 u5 a5 u5", budget=1000, turns_over=0)) == []


@given(st.lists(st.sampled_from(["u3", "a3", "u9 a2"]), min_size=1, max_size=30), st.integers(1, 6))
def test_a_window_keeps_its_turns_and_no_more(parts, most):
    messages = conversation(" ".join(parts))
    users = [message for message in messages if message.role is MessageRole.USER]
    assume(users)
    made = plan(messages, budget=10_000, turns_over=max(0, len(users) - most))
    kept = [message for message in rest(messages, made) if message.role is MessageRole.USER]
    assert kept == users[-most:]
    assert left(made) == [message.seq for message in messages[: len(made.leave)]]
