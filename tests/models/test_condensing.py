"""Shortening a list of facts by rules."""

from hypothesis import given
from hypothesis import strategies as st

from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.protocols import CondensedFact


def condensed(facts, *, pinned=(), target):
    return list(RuleExtractor().condense(facts, pinned=pinned, target=target).facts)


def test_what_says_the_same_is_said_once_in_the_fuller_words():
    facts = ["Ana is allergic to nuts", "The dinner is on 14 March", "Ana is allergic to nuts!"]
    assert condensed(facts, target=5) == [
        CondensedFact("Ana is allergic to nuts!", "other", (0, 2)),
        CondensedFact("The dinner is on 14 March", "other", (1,)),
    ]


def test_another_number_or_name_is_another_fact():
    facts = ["The dinner is on 14 March", "The dinner is on 15 March", "Ana likes tea", "Rui likes tea"]
    assert [fact.text for fact in condensed(facts, target=9)] == facts


def test_lists_of_one_subject_are_joined_only_as_far_as_needed():
    facts = ["Ana likes jazz", "Ana likes tea", "Rui likes tea", "Ana likes opera"]
    assert condensed(facts, target=2) == [
        CondensedFact("Ana likes jazz, tea and opera", "preference", (0, 1, 3)),
        CondensedFact("Rui likes tea", "other", (2,)),
    ]
    assert [fact.text for fact in condensed(facts, target=3)] == [
        "Ana likes jazz and tea",
        "Rui likes tea",
        "Ana likes opera",
    ]


def test_pinned_facts_stay_word_for_word():
    facts = ["Ana likes jazz", "Ana likes tea", "Ana is allergic to nuts", "Ana is allergic to nuts."]
    assert condensed(facts, pinned=[0, 2], target=1) == [
        CondensedFact("Ana likes jazz", "other", (0,)),
        CondensedFact("Ana is allergic to nuts", "other", (2, 3)),
    ]


def test_the_least_specific_and_oldest_goes_first_and_is_named_nowhere():
    facts = ["The user sings", "The user runs", "The dinner is on 14 March at 8 pm", "Ana lives in Braga"]
    assert [fact.stands_for for fact in condensed(facts, target=3)] == [(1,), (2,), (3,)]
    assert [fact.stands_for for fact in condensed(facts, target=2)] == [(2,), (3,)]


words = st.sampled_from(
    ["Ana", "Rui", "likes", "has", "jazz", "tea", "opera", "Porto", "the", "is", "on", "14", "15", "March", "not"]
)
lists = st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), max_size=12)


@given(lists, st.integers(0, 12), st.sets(st.integers(0, 11)))
def test_the_promises_of_a_condensation_hold(facts, target, pinned):
    pinned = sorted(index for index in pinned if index < len(facts))
    result = condensed(facts, pinned=pinned, target=target)
    named = [index for fact in result for index in fact.stands_for]
    assert len(named) == len(set(named))  # nothing stands twice
    assert all(0 <= index < len(facts) for index in named)
    assert all(fact.stands_for for fact in result)  # nothing is invented
    texts = [fact.text for fact in result]
    assert all(facts[index] in texts for index in pinned)
    assert len(result) <= max(target, len(pinned))
    assert result == condensed(facts, pinned=pinned, target=target)
