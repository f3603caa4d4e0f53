"""What becomes of facts that were found, and what a shortened list did: pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.fact_merging import (
    Addition,
    CondensedFact,
    ExtractedFact,
    KnownFact,
    condense_target,
    plan_additions,
    plan_condensing,
    relevance,
)


def known(*texts, **options):
    return [KnownFact(id, text, **options) for id, text in enumerate(texts, start=1)]


def found(*texts):
    return [ExtractedFact(text) for text in texts]


def shorter(*facts):
    """`("text", 1, 2)` stands for the facts 1 and 2."""
    return [CondensedFact(fact[0], "other", tuple(id - 1 for id in fact[1:])) for fact in facts]


# -- additions -----------------------------------------------------------------------------------


def test_a_new_fact_is_added():
    made = plan_additions(known("likes tea"), found("lives in Bern"))
    assert (made.add, made.confirm, made.held_back, made.repeated) == ((Addition(0),), (), (), ())


def test_the_same_in_other_letters_is_a_confirmation():
    made = plan_additions(known("likes tea"), found("Likes tea."))
    assert [(c.index, c.fact, c.similarity) for c in made.confirm] == [(0, 1, 1.0)]
    assert made.add == ()


def test_a_negation_is_another_fact_that_contradicts_the_known_one_and_those_found_with_it():
    made = plan_additions(known("likes tea"), found("does not like tea", "enjoys tea with milk"))
    assert made.add == (Addition(0, (1,)), Addition(1, (), (0,)))


def test_a_time_of_day_in_another_notation_is_a_confirmation():
    made = plan_additions(known("The ferry leaves at 20:00"), found("The ferry leaves at 8 pm"))
    assert [(c.index, c.fact) for c in made.confirm] == [(0, 1)]


def test_what_a_person_rejected_does_not_come_back():
    made = plan_additions(known("likes tea", rejected=True), found("Likes tea"))
    assert [(c.index, c.fact) for c in made.held_back] == [(0, 1)]
    assert (made.add, made.confirm) == ((), ())


def test_the_same_found_twice_is_added_once():
    made = plan_additions([], found("likes tea", "Likes tea!", "likes jazz"))
    assert ([a.index for a in made.add], made.repeated) == ([0, 2], (1,))


def test_another_value_in_the_same_slot_is_a_conflict():
    facts = [
        KnownFact(1, "lives in Bern", slot="home"),
        KnownFact(2, "is a nurse", slot="job"),
        KnownFact(3, "lives in Rome", slot="home", rejected=True),
    ]
    made = plan_additions(facts, [ExtractedFact("lives in Paris", slot="home")])
    assert made.add == (Addition(0, conflicts_with=(1,)),)


def test_a_fact_without_a_slot_conflicts_with_none():
    made = plan_additions([KnownFact(1, "is a nurse")], [ExtractedFact("lives in Paris")])
    assert made.add == (Addition(0),)


words = st.sampled_from(["likes tea", "Likes tea.", "likes jazz", "lives in Bern", "has two cats", "not a fan of jazz"])


@given(
    st.lists(st.tuples(words, st.booleans())),
    st.lists(st.builds(ExtractedFact, words, slot=st.none() | st.sampled_from(["home", "taste"]))),
)
def test_every_found_fact_is_in_exactly_one_place(stored, new):
    facts = [KnownFact(id, text, rejected=rejected) for id, (text, rejected) in enumerate(stored, start=1)]
    made = plan_additions(facts, new)
    places = [a.index for a in made.add] + [c.index for c in (*made.confirm, *made.held_back)] + list(made.repeated)
    assert sorted(places) == list(range(len(new)))
    rejected = {fact.id for fact in facts if fact.rejected}
    assert {c.fact for c in made.held_back} <= rejected
    assert not {c.fact for c in made.confirm} & rejected
    assert plan_additions(facts, new) == made


# -- condensing ----------------------------------------------------------------------------------


def test_a_fact_word_for_word_is_kept():
    made = plan_condensing(known("a", "b"), shorter(("A ", 1)), max_facts=10)
    assert (made.kept, made.merged, made.vanished, made.new, made.refused) == ((1,), (), (2,), (), None)


def test_several_facts_in_one_are_merged():
    made = plan_condensing(known("a", "b", "c"), shorter(("a and b", 1, 2), ("c", 3)), max_facts=10)
    assert (made.kept, made.merged, made.vanished) == ((3,), (((1, 2), 0),), ())


def test_a_fact_that_stays_word_for_word_may_take_others_in():
    made = plan_condensing(known("a", "b"), shorter(("a", 1, 2)), max_facts=10)
    assert (made.kept, made.merged, made.vanished) == ((1,), (((1, 2), 0),), ())


def test_a_fact_that_stands_for_nothing_known_is_new():
    made = plan_condensing(known("a"), shorter(("a", 1), ("z",), ("y", 99)), max_facts=10)
    assert (made.kept, made.new) == ((1,), (1, 2))


def test_a_fact_claimed_twice_goes_to_the_first_that_claims_it():
    made = plan_condensing(known("a", "b", "c"), shorter(("a and b", 1, 2), ("b and c", 2, 3)), max_facts=10)
    assert (made.merged, made.vanished) == ((((1, 2), 0), ((3,), 1)), ())


def test_a_fact_that_stays_word_for_word_later_is_not_merged_before():
    made = plan_condensing(known("a", "b"), shorter(("a and b", 1, 2), ("b", 2)), max_facts=10)
    assert (made.kept, made.merged, made.vanished) == ((2,), (((1,), 0),), ())


def test_a_sentence_whose_facts_were_all_claimed_before_is_new():
    made = plan_condensing(known("a"), shorter(("a1", 1), ("a2", 1)), max_facts=10)
    assert (made.merged, made.new) == ((((1,), 0),), (1,))


def test_the_same_sentence_twice_counts_once():
    made = plan_condensing(known("a", "b"), shorter(("a", 1), ("a", 2)), max_facts=10)
    assert (made.kept, made.merged, made.vanished, made.new) == ((1,), (((1, 2), 1),), (), ())


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ((), "it returned no fact at all"),
        ((("a", 1), ("b", 2), ("c", 3)), "it returned 3 facts, and at most 2 were asked for"),
        ((("a and b", 1, 2), ("c", 3)), "it lost a protected fact"),
    ],
)
def test_a_shorter_list_that_does_harm_is_refused(facts, reason):
    stored = [KnownFact(1, "a", protected=True), KnownFact(2, "b"), KnownFact(3, "c")]
    assert plan_condensing(stored, shorter(*facts), max_facts=3).refused == reason


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        pytest.param(3, "it would leave 3 of 12 facts, and 8 may stay: merge or retire facts by hand", id="too few"),
        pytest.param(4, None, id="half of what may stay"),
        pytest.param(8, None, id="all that may stay"),
    ],
)
def test_one_answer_takes_no_more_than_half_of_what_may_stay(left, reason):
    names = [chr(ord("a") + place) for place in range(12)]
    rest = tuple(range(left, 13))  # the last of them says what all others said
    facts = [(name, place) for place, name in enumerate(names[: left - 1], start=1)]
    assert plan_condensing(known(*names), shorter(*facts, ("all the others", *rest)), max_facts=10).refused == reason


def test_lost_pinned_facts_are_counted():
    stored = [KnownFact(1, "a", protected=True), KnownFact(2, "b", protected=True)]
    assert plan_condensing(stored, shorter(("z", 1, 2)), max_facts=10).refused == "it lost 2 protected facts"


@pytest.mark.parametrize(("max_facts", "target"), [(1, 1), (2, 1), (5, 4), (50, 40)])
def test_condensing_leaves_room(max_facts, target):
    assert condense_target(max_facts) == target


letters = st.sampled_from(["a", "b", "c", "d", "a and b", "c and d", "z"])


@pytest.mark.slow
@given(
    st.lists(letters, max_size=6),
    st.lists(st.builds(CondensedFact, letters, st.just("other"), st.lists(st.integers(-1, 8)).map(tuple)), max_size=8),
    st.sets(st.integers(1, 6)),
    st.integers(1, 10),
)
def test_every_known_fact_is_accounted_for_exactly_once(texts, facts, pins, max_facts):
    stored = [KnownFact(id, text, protected=id in pins) for id, text in enumerate(texts, start=1)]
    made = plan_condensing(stored, facts, max_facts=max_facts)

    assert len(set(made.kept)) == len(made.kept)
    merged = [id for sources, _ in made.merged for id in sources]
    into_kept = [sources[0] for sources, _ in made.merged if sources[0] in made.kept]
    gone = list(merged)
    for id in into_kept:
        gone.remove(id)
    assert sorted([*made.kept, *gone, *made.vanished]) == [fact.id for fact in stored]

    # Every sentence is at most one of: kept, the place of a merge, new.
    places = [index for _, index in made.merged] + list(made.new)
    assert len(set(made.new)) == len(made.new)
    assert not {index for _, index in made.merged} & set(made.new)
    assert set(places) <= set(range(len(facts)))
    if made.refused is None:
        assert facts
        assert {fact.id for fact in stored if fact.protected} <= set(made.kept)
        assert len(made.kept) + len(made.merged) - len(into_kept) + len(made.new) <= condense_target(max_facts)


@given(st.lists(letters, min_size=1, max_size=6, unique=True))
def test_the_same_list_again_keeps_everything(texts):
    facts = [CondensedFact(text, "other", (index,)) for index, text in enumerate(texts)]
    made = plan_condensing(known(*texts), facts, max_facts=10)
    assert (made.kept, made.merged, made.vanished, made.new) == (tuple(range(1, len(texts) + 1)), (), (), ())


def test_relevance_is_the_share_of_the_facts_own_words():
    assert relevance("Ana likes green tea", frozenset({"tea", "green"})) == 0.5
    assert relevance("the", frozenset({"tea"})) == 0.0
