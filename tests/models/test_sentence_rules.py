"""Facts from whole sentences: descriptions by name, the user's exact words, and what only a reply names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.messages import ChatMessage
from memory_core.models.offline.fact_extraction import RuleExtractor, facts_in
from memory_core.models.offline.sentence_rules import MAX_CHARACTERS, described, restated, with_specifics

# -- sentences that name something exact -----------------------------------------------------------


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


# -- descriptions by name --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The capital of Peru is Lima.", "The capital of Peru is Cusco."),
        ("Ana Prado was born in the city of Porto.", "Ana Prado was born in the city of Ghent."),
        ("The workshop where Imke learned is Klankhout.", "The workshop where Imke learned is Dok Noord."),
        ("Tomas Ende plays the position of goalkeeper.", "Tomas Ende plays the position of striker."),
        ("hockey is associated with the country of Canada.", "hockey is associated with the country of Norway."),
        ("Ilse is married to Rui.", "Ilse is married to Marek."),
        ("Bread and Salt was written by Ana Prado.", "Bread and Salt was written by Rui."),
        ("Dok Noord's director is Imke Brand.", "Dok Noord's director is Marek Sova."),
    ],
)
def test_two_values_of_one_attribute_share_its_slot(first, second):
    one, other = described(first), described(second)
    assert one.slot == other.slot is not None
    assert one.text != other.text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The capital of Peru is Lima.", "The capital of Chile is Santiago."),
        ("Ana was born in the city of Porto.", "Ana died in the city of Porto."),
        ("The director of Dok Noord is Imke.", "The owner of Dok Noord is Imke."),
    ],
)
def test_other_subjects_and_attributes_have_other_slots(one, other):
    assert described(one).slot != described(other).slot


@pytest.mark.parametrize(
    "sentence",
    [
        "The weather is really nice today.",
        "The scenery there is beautiful.",
        "Yes, jazz is great.",
        "Is the capital of Peru Lima?",
        "I was born in Porto.",
        "Your capital of choice is Lima.",
        "The best of all is Lima.",
        "Today's chat was very enjoyable.",
        "",
    ],
)
def test_opinions_questions_and_words_about_oneself_are_not_read(sentence):
    assert described(sentence) is None


def test_several_values_of_a_verb_without_a_definite_noun_are_all_kept():
    assert described("Ana Prado visited Lima.").slot is None


def test_a_long_message_of_such_statements_gives_all_of_them():
    message = "The capital of Peru is Lima. Imke was born in the city of Ghent. The owner of Klankhout is Tomas Ende."
    assert [fact.text for fact in facts_in(message)] == [part.strip(". ") for part in message.split(". ")]


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    fact = described(text)
    assert fact is None or 0 < len(fact.text) <= 200


# -- replies that restate --------------------------------------------------------------------------


def learned(*texts):
    roles = ("user", "assistant") * len(texts)
    messages = [ChatMessage(role=role, content=text) for role, text in zip(roles, texts, strict=False)]
    return RuleExtractor().extract(messages, known=()).facts


def test_what_a_pronoun_means_is_taken_from_the_reply():
    [fact] = learned("Her extension is 4302 now.", "Got it — I've updated Sarah's extension from 4217 to 4302.")
    assert (fact.text, fact.slot) == ("Sarah's extension is 4302, not 4217", "sarah.extens")


def test_the_users_message_is_the_source_and_not_the_reply():
    [fact] = learned("Her extension is 4302 now.", "Noted, Sarah's extension is now 4302.")
    assert fact.source == 0


@pytest.mark.parametrize(
    "reply",
    [
        "I've updated your passport number to HG12.",
        "So your current passport number is HG12.",
        "your passport number is HG12",
    ],
)
def test_what_is_yours_is_the_users(reply):
    [fact] = restated("The number printed on it is HG12.", reply)
    assert str(fact.slot) == "user.passport number"


@pytest.mark.parametrize(
    "message",
    [
        "Is the number 4302?",
        "If the number were 4302, I would know.",
        "Tom said the number is 4302.",
        "The number will be 4302 next month.",
        "The number is 4303.",
        "It costs 4302 euros.",
    ],
)
def test_a_reply_alone_teaches_nothing(message):
    assert not list(restated(message, "I've updated Sarah's number to 4302."))


@pytest.mark.parametrize(
    "reply",
    [
        "I'll update Sarah's number to 4302 once Tom confirms it.",
        "Sarah's number might be 4302.",
        "Is Sarah's number 4302?",
        "It's good that the number is 4302.",
        "Your number is lovely.",
    ],
)
def test_an_unsure_reply_teaches_nothing(reply):
    assert not list(restated("The number is 4302.", reply))


def test_only_the_reply_directly_after_a_message_counts():
    facts = learned("Her number is 4302.", "Whose?", "Thanks for asking.", "Sarah's number is 4302.")
    assert not [fact for fact in facts if "Sarah" in fact.text]
