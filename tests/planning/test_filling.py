"""As many as fit: what the room grants, and what it passes over. Pure."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.retrieval_plan import (
    Candidate,
    GateOutcome,
    RetrievalPlan,
    Signals,
    budget_for,
    fill,
    plan_retrieval,
    postprocessed,
)

OUTCOMES = get_args(GateOutcome)


def plan_of(*outcomes):
    """Candidates 1, 2, ... with these outcomes, best first."""
    candidates = tuple(
        Candidate(number, 1 / number, None, 1 / number, outcome, (0.1,))
        for number, outcome in enumerate(outcomes, start=1)
    )
    return RetrievalPlan(candidates, {outcome: outcomes.count(outcome) for outcome in OUTCOMES})


def found(count):
    return plan_of(*["granted"] * count)


def outcomes(plan):
    return {candidate.number: candidate.outcome for candidate in plan.candidates}


def test_the_best_are_granted_until_the_room_is_full():
    plan = fill(found(3), 25, {1: 10, 2: 10, 3: 10})
    assert (plan.granted, plan.gates["no_room"]) == ((1, 2), 1)


def test_what_does_not_fit_is_passed_over_and_a_shorter_one_takes_its_place():
    assert fill(found(4), 25, {1: 10, 2: 100, 3: 12, 4: 5}).granted == (1, 3)


def test_what_fills_the_room_to_the_last_token_fits():
    assert fill(found(2), 20, {1: 10, 2: 10}).granted == (1, 2)


@pytest.mark.parametrize("token_budget", [0, -1, -1000])
def test_without_room_nothing_is_granted(token_budget):
    plan = fill(found(2), token_budget, {1: 1, 2: 5}, {1: (0, "8 May")}, {(0, "8 May"): 0})
    assert (plan.granted, plan.gates) == ((), {**dict.fromkeys(OUTCOMES, 0), "no_room": 2})


def test_what_has_no_size_does_not_fit():
    assert outcomes(fill(found(2), 100, {2: 10})) == {1: "no_room", 2: "granted"}


def test_a_head_takes_its_tokens_once():
    heads = {1: (0, "8 May"), 2: (0, "8 May"), 3: (1, "8 May")}
    sizes = {(0, "8 May"): 5, (1, "8 May"): 5}
    assert fill(found(3), 35, dict.fromkeys([1, 2, 3], 10), heads, sizes).granted == (1, 2)
    assert fill(found(3), 40, dict.fromkeys([1, 2, 3], 10), heads, sizes).granted == (1, 2, 3)


def test_a_head_of_what_did_not_fit_is_still_to_be_paid():
    heads = dict.fromkeys([1, 2], (0, "8 May"))
    assert fill(found(2), 14, {1: 100, 2: 10}, heads, {(0, "8 May"): 5}).granted == ()


def test_other_outcomes_stay_and_take_no_room():
    plan = fill(plan_of("below_threshold", "granted", "in_queue", "granted", "beyond_top_k"), 10, {2: 10, 4: 1})
    assert list(outcomes(plan).values()) == ["below_threshold", "granted", "in_queue", "no_room", "beyond_top_k"]


def test_a_plan_without_a_number_of_results_grants_every_one_that_may_stand_in_the_prompt():
    plan = plan_retrieval(
        [Signals(number, 0.5, None) for number in range(60)],
        top_k=None,
        threshold=None,
        in_queue={3},
        vector_weight=1,
        keyword_weight=0,
    )
    assert plan.gates == {**dict.fromkeys(OUTCOMES, 0), "granted": 59, "in_queue": 1}


heads_of = st.tuples(st.integers(0, 2), st.sampled_from(["8 May", "9 May"]))
asked_for = st.lists(
    st.tuples(st.sampled_from(OUTCOMES), st.none() | st.integers(0, 60), st.none() | heads_of), max_size=15
)
sizes_of_heads = st.fixed_dictionaries({(s, d): st.integers(0, 20) for s in range(3) for d in ("8 May", "9 May")})


@given(asked_for, sizes_of_heads, st.integers(-20, 300))
def test_the_room_is_kept_and_whatever_would_still_have_fitted_is_granted(given, head_sizes, token_budget):
    before = plan_of(*(outcome for outcome, _, _ in given))
    sizes = {number: size for number, (_, size, _) in enumerate(given, start=1) if size is not None}
    heads = {number: head for number, (_, _, head) in enumerate(given, start=1) if head is not None}
    after = fill(before, token_budget, sizes, heads, head_sizes)

    def cost(number, there):
        head = heads.get(number)
        return sizes[number] + (head_sizes[head] if head is not None and head not in there else 0)

    left, there = token_budget, set()
    for old, new in zip(before.candidates, after.candidates, strict=True):
        assert (old.number, old.vector, old.score, old.boosts) == (new.number, new.vector, new.score, new.boosts)
        if old.outcome != "granted":
            assert new.outcome == old.outcome
        elif new.outcome == "granted":
            left -= cost(new.number, there)
            there |= {heads[new.number]} if new.number in heads else set()
            assert left >= 0
        else:
            assert new.outcome == "no_room"
            assert new.number not in sizes or cost(new.number, there) > left
    spent = sum(sizes[number] for number in after.granted) + sum(head_sizes[head] for head in there)
    assert spent <= max(token_budget, 0)
    assert after.gates == {outcome: sum(c.outcome == outcome for c in after.candidates) for outcome in OUTCOMES}
    assert sum(after.gates.values()) == len(given)


@pytest.mark.parametrize(
    ("limit", "others", "token_budget"),
    [(1000, 0, 1000), (1000, 600, 400), (1000, 950, 100), (1000, 2000, 100), (9, 9, 0)],
)
def test_a_block_that_fills_may_ask_for_what_is_left_and_for_a_tenth_at_least(limit, others, token_budget):
    assert budget_for(limit, others) == token_budget


@given(st.lists(st.sampled_from(OUTCOMES), max_size=12), st.data())
def test_a_postprocessor_orders_and_leaves_out_what_was_granted_and_nothing_else(outcomes, data):
    before = plan_of(*outcomes)
    kept = data.draw(
        st.permutations(before.granted).flatmap(lambda order: st.integers(0, len(order)).map(lambda many: order[:many]))
    )
    after = postprocessed(before, kept)
    assert after.granted == tuple(kept)
    assert {c.number for c in after.candidates} == {c.number for c in before.candidates}
    others = [c for c in after.candidates if c.number not in before.granted]
    assert others == [c for c in before.candidates if c.number not in before.granted]
    assert after.gates["postprocessed"] - before.gates["postprocessed"] == len(before.granted) - len(kept)
    assert sum(after.gates.values()) == len(outcomes)
