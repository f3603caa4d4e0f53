"""What each term adds to the match of a stored unit. Pure."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.planning.retrieval_plan import (
    BEST_OF_EPISODE,
    BOOSTS,
    EPISODE_GAP_HOURS,
    LONG,
    NEIGHBOURS,
    PERSON,
    UNWRITTEN,
    BoostWeights,
    Signals,
    Traits,
    begins_anew,
    boosts,
    informativeness,
    plan_retrieval,
)
from memory_core.planning.speakers import Day, ParsedQuestion

MAY_8 = 1683504000.0
GAP = EPISODE_GAP_HOURS * 3600
NO_BOOSTS = BoostWeights(0, 0, 0, 0, 0, 0)
NOTHING_ASKED = ParsedQuestion("", None, ())


def unit(number, **known):
    given = {
        "episode": 0,
        "speakers": frozenset({"user"}),
        "person": True,
        "time": None,
        "informativeness": 0.0,
        "tokens": 9,
    }
    return Traits(number=number, **(given | known))


def added(term, matches, *units, asked=NOTHING_ASKED, weight=1.0):
    """What one term alone adds to each candidate; the units are in the order in which they were said."""
    traits = {one.number: one for one in units}
    found = boosts(matches, traits, places_of(units), asked, only(term, weight))
    place = BOOSTS.index(term)
    assert all(value == 0 for values in found.values() for other, value in enumerate(values) if other != place)
    return {number: pytest.approx(values[place]) for number, values in found.items()}


def places_of(units):
    return {one.number: place for place, one in enumerate(units)}


def only(term, weight=1.0):
    return replace(NO_BOOSTS, **{term: weight})


# -- each term alone ---------------------------------------------------------------------------------------


def test_a_unit_is_lent_the_matches_of_two_on_either_side():
    units = [unit(number) for number in range(1, 8)]
    found = added("neighbours", dict.fromkeys(range(1, 8), 0.0) | {4: 0.5}, *units)
    assert found == {1: 0, 2: 0.5, 3: 0.5, 4: 0, 5: 0.5, 6: 0.5, 7: 0}
    assert NEIGHBOURS == 2


def test_neighbours_are_those_of_the_order_in_which_they_were_said_not_of_their_numbers():
    units = [unit(9), unit(1), unit(5), unit(3), unit(7)]
    assert added("neighbours", {9: 0.4, 1: 0, 5: 0, 3: 0, 7: 0}, *units) == {9: 0, 1: 0.4, 5: 0.4, 3: 0, 7: 0}


def test_a_unit_that_was_not_found_lends_nothing_and_is_lent_nothing():
    units = [unit(1), unit(2), unit(3)]
    assert added("neighbours", {1: 0.4, 3: 0.2}, *units) == {1: 0.2, 3: 0.4}


def test_a_unit_of_another_episode_lends_nothing():
    units = [unit(1, episode=0), unit(2, episode=1), unit(3, episode=1)]
    matches = {1: 1.0, 2: 0.5, 3: 0.25}
    assert added("neighbours", matches, *units) == {1: 0, 2: 0.25, 3: 0.5}
    assert added("episode", matches, *units) == {1: 1 / 3, 2: 0.25, 3: 0.25}


def test_a_long_neighbour_lends_less():
    units = [unit(1, tokens=LONG), unit(2), unit(3, tokens=4 * LONG)]
    assert added("neighbours", {1: 0.4, 2: 0.0, 3: 0.4}, *units)[2] == 0.4 + 0.4 / 4


def test_an_episode_lends_the_mean_of_its_best():
    units = [unit(number) for number in range(1, 6)]
    found = added("episode", {1: 0.9, 2: 0.6, 3: 0.3, 4: 0.1, 5: 0.0}, *units, weight=0.5)
    assert found == dict.fromkeys(range(1, 6), 0.5 * 0.6)
    assert BEST_OF_EPISODE == 3


def test_one_good_match_makes_no_good_episode():
    assert added("episode", {1: 0.9}, unit(1)) == {1: 0.3}


def test_the_speaker_asked_about_counts_whole_other_people_partly_and_assistants_nothing():
    ana = unit(1, speakers=frozenset({"ana"}))
    bob = unit(2, speakers=frozenset({"bob"}))
    machine = unit(3, speakers=frozenset({"assistant"}), person=False)
    both = unit(4, speakers=frozenset({"ana", "assistant"}))
    matches = dict.fromkeys(range(1, 5), 0.5)
    about_ana = ParsedQuestion("", "ana", ())
    assert added("speaker", matches, ana, bob, machine, both, asked=about_ana) == {1: 1, 2: PERSON, 3: 0, 4: 1}
    assert added("speaker", matches, ana, bob, machine, both) == {1: PERSON, 2: PERSON, 3: 0, 4: PERSON}


def test_what_was_said_on_the_day_asked_for_counts():
    asked = ParsedQuestion("", None, (Day(5, 8, 2023),))
    units = [unit(1, time=MAY_8), unit(2, time=MAY_8 + 86_400), unit(3, time=None), unit(4, time=MAY_8 + 86_400 * 90)]
    assert added("date", dict.fromkeys(range(1, 5), 0.5), *units, asked=asked) == {1: 1, 2: 0.5, 3: 0, 4: 0}


def test_informativeness_is_added_as_it_is():
    assert added("informativeness", {1: 0, 2: 0}, unit(1, informativeness=0.8), unit(2), weight=0.5) == {1: 0.4, 2: 0}


@pytest.mark.parametrize(
    ("tokens", "cost"), [(0, 0), (1, 0), (LONG, 0), (2 * LONG, -1), (4 * LONG, -2), (8 * LONG, -3)]
)
def test_each_doubling_of_a_long_text_costs_once(tokens, cost):
    assert added("length", {1: 0.5}, unit(1, tokens=tokens)) == {1: cost}


def test_without_candidates_there_is_nothing_to_add():
    assert boosts({}, {1: unit(1)}, {1: 0}, NOTHING_ASKED, BoostWeights()) == {}


# -- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", BOOSTS)
@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_an_impossible_weight_is_said_with_its_name(term, weight):
    with pytest.raises(ConfigError, match=f"negative: {term}="):
        BoostWeights(**{term: weight})


@pytest.mark.parametrize("term", BOOSTS)
def test_one_term_is_enough_to_count_any(term):
    assert only(term).any
    assert not NO_BOOSTS.any


places = st.integers(0, 11)
someone = st.frozensets(st.sampled_from(["ana", "bob", "user", "assistant"]), max_size=3)
units_said = st.lists(
    st.builds(
        Traits,
        number=st.just(0),
        episode=st.integers(0, 2),
        speakers=someone,
        person=st.booleans(),
        time=st.none() | st.floats(0, 2e9),
        informativeness=st.floats(0, 1),
        tokens=st.integers(0, 2000),
    ),
    min_size=12,
    max_size=12,
).map(lambda many: [replace(one, number=number) for number, one in enumerate(many)])
questions = st.builds(
    ParsedQuestion,
    words=st.just("x"),
    speaker=st.sampled_from(["ana", "user", None]),
    days=st.lists(st.builds(Day, st.integers(1, 12), st.none() | st.integers(1, 31), st.none() | st.just(2023))).map(
        tuple
    ),
)
matches_found = st.dictionaries(places, st.floats(0, 1), max_size=12)


def planned(matches, added=None):
    return plan_retrieval(
        [Signals(number, match, None) for number, match in matches.items()],
        top_k=None,
        threshold=None,
        in_queue=(),
        vector_weight=1.0,
        keyword_weight=0.0,
        boosts=added,
    )


@given(units_said, matches_found, questions)
@pytest.mark.slow
def test_terms_that_weigh_nothing_change_no_score_and_no_order(units, matches, asked):
    traits = {one.number: one for one in units}
    plain = planned(matches)
    weighed = planned(matches, lambda found: boosts(found, traits, places_of(units), asked, NO_BOOSTS))
    assert [(c.number, c.score, c.outcome) for c in weighed.candidates] == [
        (c.number, c.score, c.outcome) for c in plain.candidates
    ]
    assert weighed.gates == plain.gates


@pytest.mark.slow
@given(units_said, matches_found, questions)
def test_every_candidate_gets_every_term_and_only_length_takes_away(units, matches, asked):
    traits = {one.number: one for one in units}
    weights = BoostWeights()
    found = boosts(matches, traits, places_of(units), asked, weights)
    assert found.keys() == matches.keys()
    for values in found.values():
        by_term = dict(zip(BOOSTS, values, strict=True))
        assert by_term.pop("length") <= 0
        assert all(value >= 0 for value in by_term.values())
        most = {"neighbours": 2 * NEIGHBOURS * weights.neighbours}
        assert all(value <= most.get(term, getattr(weights, term)) + 1e-9 for term, value in by_term.items())


@pytest.mark.slow
@given(units_said, matches_found, questions)
def test_the_score_is_the_match_and_what_the_terms_add(units, matches, asked):
    traits = {one.number: one for one in units}
    plan = planned(matches, lambda found: boosts(found, traits, places_of(units), asked, BoostWeights()))
    for candidate in plan.candidates:
        assert candidate.score == pytest.approx(matches[candidate.number] + sum(candidate.boosts))


# -- informativeness ---------------------------------------------------------------------------------------------


def test_who_tells_of_themselves_says_more_than_who_asks():
    telling = informativeness("My sister sold her boat in spring.", ["sister", "sold", "boat", "spring"])
    asking = informativeness("Did the sister sell her boat?", ["sister", "sell", "boat"])
    assert telling > asking
    assert informativeness("", []) < asking


def test_more_different_words_say_more_up_to_a_point():
    def of(count):
        return informativeness("words.", [str(number) for number in range(count)])

    assert of(1) < of(4) < of(16) < of(32)
    assert of(40) == of(400)
    assert informativeness("words.", ["a", "a", "a"]) == informativeness("words.", ["a"])


@given(st.text(), st.lists(st.text(max_size=5)))
def test_informativeness_is_from_nothing_to_whole(words, stems):
    assert 0 <= informativeness(words, stems) <= 1 + 1e-9


# -- episodes ----------------------------------------------------------------------------------------------


def episodes(times):
    """Number of the episode of each unit, of its time as written and in seconds, and of the second of its storing."""
    written, known, stored = zip(*times, strict=True) if times else ((),) * 3
    hashes = np.array([UNWRITTEN if text is None else hash(text) for text in written], np.int64)
    return np.cumsum(begins_anew(hashes, np.array(known, np.float64), np.array(stored, np.float64))).tolist()


def at(seconds, written="said"):
    return (f"{written} {seconds}", float(seconds), 0.0)


def test_nothing_has_no_episode():
    assert episodes([]) == []


def test_a_long_silence_begins_an_episode():
    assert episodes([at(0), at(GAP), at(2 * GAP), at(3 * GAP + 1)]) == [0, 0, 0, 1]


def test_going_back_in_time_begins_one_too():
    assert episodes([at(10 * GAP), at(0)]) == [0, 1]


def test_times_that_cannot_be_read_begin_an_episode_when_they_change():
    told = [("spring", None, 0.0), ("spring", None, 1.0), ("summer", None, 2.0), ("summer", None, 3.0)]
    assert episodes(told) == [0, 0, 1, 1]


def test_what_came_with_no_time_belongs_to_the_episode_before_it():
    assert episodes([at(0), (None, None, 5.0), (None, None, 6.0)]) == [0, 0, 0]


def test_without_told_times_the_sittings_are_those_of_storing():
    stored = [0.0, GAP, GAP + 1, 3 * GAP]
    assert episodes([(None, None, seconds) for seconds in stored]) == [0, 0, 0, 1]


def test_a_told_time_after_none_begins_an_episode():
    assert episodes([(None, None, 0.0), ("spring", None, 0.0)]) == [0, 1]


@given(
    st.lists(
        st.tuples(st.none() | st.sampled_from(["a", "b"]), st.none() | st.floats(0, 1e9), st.floats(0, 1e9)),
        max_size=20,
    )
)
def test_sittings_begin_at_0_and_go_on_one_by_one(times):
    found = episodes(times)
    assert len(found) == len(times)
    assert all(later - before in (0, 1) for before, later in zip([0, *found], found, strict=False))
