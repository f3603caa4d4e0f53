"""Sentences that name something exact are kept in the user's own words where no rule reads them whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.models.offline.extractor import facts_in
from memory_core.models.offline.specifics import MAX_CHARACTERS, with_specifics


def texts(message):
    return [fact.text for fact in facts_in(message)]


@pytest.mark.parametrize(
    ("message", "fact"),
    [
        ("My latest score is 721 as of last week.", "The user's latest score is 721 as of last week"),
        ("I registered for the exam on March 12th.", "The user registered for the exam on March 12th"),
        ("Our babysitter is Priya Rao.", "The user's babysitter is Priya Rao"),
        ("Dr. Patel at Riverside started me on 500mg.", "Dr. Patel at Riverside started the user on 500mg"),
        ("I usually take the Blue Line to Station 4.", "The user usually takes the Blue Line to Station 4"),
        ("I genuinely prefer the Blue Line.", "The user genuinely prefers the Blue Line"),
        ("I double-checked the form of Porto.", "The user double-checked the form of Porto"),
        ("On March 3rd I moved my savings to Chase.", "On March 3rd the user moved the user's savings to Chase"),
        ("In Kyoto I visited 12 temples.", "In Kyoto the user visited 12 temples"),
        ("The Greenfield invoice was 40 euros.", "The Greenfield invoice was 40 euros"),
        ("I submitted the form on May 3rd this year.", "The user submitted the form on May 3rd this year"),
        ("One more thing — my plan starts on the 17th.", "The user's plan starts on the 17th"),
        ("My locker is in section B. That's it.", "The user's locker is in section B"),
    ],
)
def test_exact_statements_are_facts(message, fact):
    assert texts(message) == [fact]


def test_no_words_are_cut_out_of_the_middle_of_a_sentence():
    assert texts("I set up three transfers that handle it for me—weekly $150 from Chase to Fidelity.") == []


def test_a_pronoun_means_the_only_person_named_before():
    assert texts("Imke moved to Ghent. Her office is at Cadixstraat 40.")[-1] == "Imke's office is at Cadixstraat 40"


@pytest.mark.parametrize(
    "message",
    [
        "Is my latest score 721?",
        "It might be 721 by now, maybe.",
        "I am going to register for the exam on March 12th maybe.",
        "Rui said my latest score is 721.",
        "I went to a Mediterranean spot near his office.",
        "You told me that my score is 721.",
        "Her office is at Cadixstraat 40.",
        "I really think Koga 640 is the best bicycle of all.",
        "I started on February 5th.",
    ],
)
def test_questions_plans_reports_and_loose_pronouns_are_no_facts(message):
    assert texts(message) == []


def test_a_possession_keeps_its_slot_though_its_name_holds_that_of_a_relative():
    [fact] = facts_in("My office location is Building 4.")
    assert str(fact.slot) == "user.offic locat"


def test_a_later_value_of_the_users_possession_has_the_same_slot():
    slots = {fact.slot for text in ("My latest score is 721.", "My new score is 735.") for fact in facts_in(text)}
    assert len(slots) == 1
    assert None not in slots


@given(st.text(max_size=400))
def test_any_sentence_can_be_read(sentence):
    assert all(len(fact.text) <= 2 * MAX_CHARACTERS for fact in with_specifics(sentence, []))
