"""Which of the found messages are granted: pure, so no store, index or fixture."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.planning.retrieval_plan import Candidate, Repeats, Signals, plan_retrieval


def plan(signals, *, top_k=2, threshold=None, in_queue=(), vector_weight=0.85, keyword_weight=0.15, **given):
    return plan_retrieval(
        signals,
        top_k=top_k,
        threshold=threshold,
        in_queue=in_queue,
        vector_weight=vector_weight,
        keyword_weight=keyword_weight,
        **given,
    )


def vectors(*scores):
    return [Signals(number, vector=score, keyword=None) for number, score in enumerate(scores, start=1)]


def scores(made):
    return {candidate.number: candidate.score for candidate in made.candidates}


def outcomes(made):
    return {candidate.number: candidate.outcome for candidate in made.candidates}


def test_the_score_is_the_weighted_mean_of_both_signals():
    assert scores(plan([Signals(1, vector=0.6, keyword=0.4)])) == {1: pytest.approx(0.85 * 0.6 + 0.15 * 0.4)}


def test_weights_need_not_add_up_to_one():
    found = [Signals(1, vector=0.6, keyword=0.4)]
    assert scores(plan(found, vector_weight=1, keyword_weight=3)) == {1: pytest.approx(0.45)}


def test_a_signal_that_did_not_find_the_message_counts_as_zero():
    found = [Signals(1, vector=0.5, keyword=None), Signals(2, vector=None, keyword=0.5)]
    assert scores(plan(found)) == {1: pytest.approx(0.425), 2: pytest.approx(0.075)}


@pytest.mark.parametrize(("vector_weight", "keyword_weight", "score"), [(1.0, 0.0, 0.6), (0.0, 0.2, 0.4)])
def test_with_one_signal_off_the_other_alone_is_the_score(vector_weight, keyword_weight, score):
    found = [Signals(1, vector=0.6, keyword=0.4)]
    assert scores(plan(found, vector_weight=vector_weight, keyword_weight=keyword_weight)) == {1: score}


def test_a_negative_cosine_counts_as_zero_and_is_shown_as_it_is():
    made = plan([Signals(1, vector=-0.5, keyword=0.4)])
    assert made.candidates == (Candidate(1, -0.5, 0.4, pytest.approx(0.06), "granted"),)


def test_the_best_are_granted_up_to_top_k():
    made = plan(vectors(0.2, 0.9, 0.5))
    assert made.granted == (2, 3)
    assert made.gates == {
        "granted": 2,
        "below_threshold": 0,
        "in_queue": 0,
        "replaced": 0,
        "repeated": 0,
        "quarantined": 0,
        "beyond_top_k": 1,
        "postprocessed": 0,
        "no_room": 0,
    }


def test_what_takes_the_place_of_a_repeated_candidate_has_its_score_and_the_others_follow():
    repeats = Repeats(frozenset({1}), {4: (1,)})
    made = plan(vectors(0.9, 0.6, 0.5, 0.1), repeats=repeats, keyword_weight=0)
    assert (made.granted, made.gates["repeated"]) == ((4, 2), 1)
    assert next(candidate.score for candidate in made.candidates if candidate.number == 4) == 0.9


def test_equal_scores_grant_the_older_message():
    assert plan(vectors(0.5, 0.5, 0.5), top_k=1).granted == (1,)


def test_a_score_at_the_threshold_is_enough():
    made = plan(vectors(0.5, 0.499), threshold=0.5, keyword_weight=0)
    assert outcomes(made) == {1: "granted", 2: "below_threshold"}


def test_a_message_in_the_queue_takes_no_place_from_another():
    made = plan(vectors(0.9, 0.8, 0.7), top_k=1, in_queue={1})
    assert outcomes(made) == {1: "in_queue", 2: "granted", 3: "beyond_top_k"}


def test_the_threshold_stands_before_the_queue_and_the_queue_before_top_k():
    made = plan(vectors(0.9, 0.8, 0.1), top_k=1, threshold=0.5, in_queue={2, 3}, keyword_weight=0)
    assert outcomes(made) == {1: "granted", 2: "in_queue", 3: "below_threshold"}


def test_a_message_found_in_pieces_is_one_candidate_with_its_best_signals():
    made = plan([Signals(1, 0.2, None), Signals(1, 0.7, 0.1), Signals(1, None, 0.4)])
    assert made.candidates == (Candidate(1, 0.7, 0.4, pytest.approx(0.655), "granted"),)


def test_nothing_found_plans_nothing():
    made = plan([])
    assert (made.candidates, made.granted) == ((), ())
    assert made.gates == {
        "granted": 0,
        "below_threshold": 0,
        "in_queue": 0,
        "replaced": 0,
        "repeated": 0,
        "quarantined": 0,
        "beyond_top_k": 0,
        "postprocessed": 0,
        "no_room": 0,
    }


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ({"top_k": 0}, "top_k=0"),
        ({"threshold": 1.1}, r"threshold=1\.1"),
        ({"threshold": -0.1}, r"threshold=-0\.1"),
        ({"threshold": float("nan")}, "threshold=nan"),
        ({"vector_weight": -1}, "vector_weight=-1"),
        ({"keyword_weight": float("inf")}, "keyword_weight=inf"),
        ({"vector_weight": 0, "keyword_weight": 0}, "vector_weight=0, keyword_weight=0"),
    ],
)
def test_an_impossible_setting_is_shown(setting, shown):
    with pytest.raises(ConfigError, match=shown):
        plan(vectors(0.5), **setting)


cosine = st.none() | st.floats(-1, 1)
keyword = st.none() | st.floats(0, 1)
found = st.lists(st.builds(Signals, st.integers(1, 30), cosine, keyword), max_size=40)
settings_ = st.fixed_dictionaries(
    {
        "top_k": st.integers(1, 10),
        "threshold": st.none() | st.floats(0, 1),
        "in_queue": st.frozensets(st.integers(1, 30)),
        "vector_weight": st.floats(0.01, 1) | st.just(0),
        "keyword_weight": st.floats(0.01, 1),
    }
)


@given(found, settings_)
def test_every_plan_keeps_the_promises_in_the_docstring(signals, chosen):
    made = plan(signals, **chosen)
    threshold = chosen["threshold"]

    assert sorted(candidate.number for candidate in made.candidates) == sorted({s.number for s in signals})
    assert len(made.granted) <= chosen["top_k"]
    assert not chosen["in_queue"].intersection(made.granted)
    assert sum(made.gates.values()) == len(made.candidates)
    for candidate in made.candidates:
        assert 0 <= candidate.score <= 1
        assert (candidate.outcome == "below_threshold") == (threshold is not None and candidate.score < threshold)
    if made.gates["beyond_top_k"]:
        assert len(made.granted) == chosen["top_k"]
    order = [(-candidate.score, candidate.number) for candidate in made.candidates]
    assert order == sorted(order)


@given(found, settings_, st.randoms(use_true_random=False))
def test_planning_again_in_any_order_plans_the_same(signals, chosen, random):
    shuffled = list(signals)
    random.shuffle(shuffled)
    assert plan(shuffled, **chosen) == plan(signals, **chosen)
