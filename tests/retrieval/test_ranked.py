"""All stored turns under one question: made when they are looked at, as if all had been made at once."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.retrieval.ranked import CandidateOutcome, Ranked, RankedTurn, Scores

NAMED = [outcome for outcome in get_args(CandidateOutcome) if outcome != "not_proposed"]
SCORES = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9])


def words_of(number):
    return f"Turn {number} says {'Straße' if number % 3 else 'a boat'}"


@st.composite
def searches(draw):
    """Named turns, and the scores of the rest by number."""
    numbers = draw(st.lists(st.integers(1, 60), unique=True, max_size=20))
    rest = draw(st.lists(st.sampled_from(numbers), unique=True)) if numbers else []
    named = [
        RankedTurn(number, 0, 0, "", number * 2, None, None, draw(SCORES), draw(st.sampled_from(NAMED)))
        for number in numbers
        if number not in rest
    ]
    return named, {number: draw(SCORES) for number in rest}


def ranked(named, rest):
    values = np.array(list(rest.values()), dtype=np.float64)
    unknown = np.full(len(rest), np.nan)
    scores = Scores(np.array(list(rest), dtype=np.int64), values, unknown, values)
    return Ranked(
        named,
        scores,
        tokens=lambda number: number * 2,
        texts=lambda numbers: {number: (number, words_of(number)) for number in numbers},
    )


def made_at_once(named, rest):
    others = [RankedTurn(n, 0, 0, "", n * 2, score, None, score, "not_proposed") for n, score in rest.items()]
    ordered = sorted([*named, *others], key=lambda one: (-one.score, one.number))
    return [replace(one, rank=rank, turn=one.number, words=words_of(one.number)) for rank, one in enumerate(ordered, 1)]


@pytest.mark.slow
@given(searches(), st.integers(0, 20), st.integers(0, 20))
def test_what_is_made_when_it_is_looked_at_is_what_would_have_been_made_at_once(search, start, stop):
    found, whole = ranked(*search), made_at_once(*search)
    assert (len(found), list(found), found[start:stop]) == (len(whole), whole, whole[start:stop])
    assert found.numbers == tuple(one.number for one in whole)
    for place, one in enumerate(whole):
        assert (found[place], found.one(one.number)) == (one, one)
    assert found.one(1_000) is None
    assert {one.number for one in found.candidates} == {one.number for one in search[0]}


@given(searches(), st.sets(st.sampled_from(get_args(CandidateOutcome))))
def test_a_part_keeps_the_ranks_of_the_whole(search, outcomes):
    found, whole = ranked(*search), made_at_once(*search)
    part = found.only(*outcomes)
    assert list(part) == [one for one in whole if one.outcome in outcomes]
    assert {outcome: n for outcome, n in found.counts.items() if n} == {
        outcome: n for outcome in get_args(CandidateOutcome) if (n := sum(one.outcome == outcome for one in whole))
    }
    assert list(part.holding(["STRASSE", "turn"])) == [one for one in part if "Straße" in one.words]
