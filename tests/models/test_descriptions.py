"""Statements about somebody or something by name: which are facts, and of which attribute they give the value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.models.offline.descriptions import described
from memory_core.models.offline.extractor import facts_in


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
