"""Words, stems and the likeness of statements: all pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.text import STOP_WORDS, similarity, stems, words

DUPLICATE = 0.85
"""From here on the engine takes two statements for one."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World", ["hello", "world"]),
        ("Ana's cat doesn’t eat", ["ana's", "cat", "doesn't", "eat"]),
        ("1,500 pieces at 3.50 on 12-05", ["1500", "pieces", "at", "3.50", "on", "12", "05"]),
        ("flat B12, 12pm", ["flat", "b12", "12", "pm"]),
        ("user_id", ["user", "id"]),
        ("‘quoted’", ["quoted"]),
        ("ＡＢＣ ﬁne", ["abc", "fine"]),
        ("e\u0301te\u0301", ["été"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("住在 Berlin", ["住", "在", "berlin"]),
        ("?! 👍", []),
    ],
)
def test_words_are_normalised_and_in_order(text, expected):
    assert words(text) == expected


def test_stems_drop_stop_words_and_endings():
    assert stems("The dogs are running to the houses") == ["dog", "run", "hous"]


def test_stems_keep_stop_words_when_asked():
    assert stems("The dogs", stop=False) == ["the", "dog"]


@pytest.mark.parametrize(
    "text", ["She doesn't eat", "she does not eat", "She don’t eat", "She can't eat", "cannot eat"]
)
def test_every_form_of_not_is_kept_as_one_stem(text):
    assert stems(text) == ["not", "eat"]


def test_no_negation_is_a_stop_word():
    assert STOP_WORDS.isdisjoint({"not", "no", "never", "none", "nobody", "nothing", "nor", "neither", "without"})


def test_a_long_run_without_spaces_is_one_stem():
    assert stems("running" * 100) == ["running" * 100]


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["hello there, world 12 ", "1,000,", "1.1", "a'", "x", ",000", "不", "1 ,"])
def test_a_megabyte_is_read_whole(piece):
    # Not timed here: a quadratic pattern would take hours, not fractions of a second.
    assert len(words(piece * (1_000_000 // len(piece)))) >= 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Likes tea.", "likes  tea"),
        ("Ana loves dogs", "dogs: Ana loves"),
        ("She doesn't like tea", "She does not like tea"),
        ("Has three cats", "Has 3 cats"),
    ],
)
def test_the_same_stems_in_any_order_are_the_same_statement(a, b):
    assert similarity(a, b) == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Ana is allergic to nuts", "Ana is allergic to all nuts"),
        ("I'm allergic to nuts", "I am allergic to nuts"),
        ("Works at Siemens in Munich as an engineer", "Works at Siemens in Munich as a senior engineer"),
        ("The user lives in Berlin", "User lives in Berlin"),
    ],
)
def test_a_statement_said_a_little_fuller_is_a_duplicate(a, b):
    assert similarity(a, b) >= DUPLICATE


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("likes tea", "doesn't like tea"),
        ("born 12 May", "born 13 May"),
        ("Ana is allergic to nuts", "Bob is allergic to nuts"),
        ("she likes tea", "he likes tea"),
        ("Ana's brother in Lisbon has a big brown dog", "Ana's brother in Lisbon has two big brown dogs"),
        ("Ana lives in a small flat in Berlin", "Ana used to live in a small flat in Berlin"),
        ("eats fish on Fridays with the family, not meat", "eats fish on Fridays with the family, meat"),
        ("The meeting with Chandra is on 3 June at 10", "The meeting with Chandra is on 3 June at 11"),
    ],
)
def test_statements_that_contradict_each_other_are_far_from_duplicates(a, b):
    assert similarity(a, b) <= 0.5


def test_one_word_swapped_in_a_long_statement_is_no_duplicate():
    told = "wants to travel to japan next spring with her two grown children and an old friend by {}"
    assert similarity(told.format("train"), told.format("plane")) < DUPLICATE


def test_a_capital_that_only_begins_the_sentence_is_no_name():
    assert similarity("Tea is what Ana likes most", "ana likes tea most") >= DUPLICATE


def test_texts_without_words_are_alike_only_when_equal():
    assert (similarity("👍", " 👍 "), similarity("👍", "👎"), similarity("", "")) == (1.0, 0.0, 1.0)


vocabulary = [
    "Ana",
    "Bob",
    "likes",
    "tea",
    "doesn't",
    "not",
    "12",
    "13",
    "two",
    "she",
    "he",
    "the",
    "berlin,",
    "Berlin",
]
statements = st.lists(st.sampled_from(vocabulary), max_size=8).map(" ".join) | st.text(max_size=40)


@given(statements, statements)
def test_similarity_is_symmetric_and_a_fraction(a, b):
    assert similarity(a, b) == similarity(b, a)
    assert 0.0 <= similarity(a, b) <= 1.0


@given(statements)
def test_a_statement_is_the_same_as_itself(a):
    assert similarity(a, a) == 1.0


@given(st.permutations(["Ana", "never", "likes", "12", "green", "teas"]))
def test_similarity_does_not_depend_on_the_order_of_words(shuffled):
    assert similarity(" ".join(shuffled), "Ana never likes 12 green teas") == 1.0


@given(st.text(max_size=60))
def test_words_are_lower_case_and_not_empty(text):
    assert all(word and word == word.lower() for word in words(text))


@given(st.text(alphabet="azAZ019_'’., -é", max_size=40))
def test_words_do_not_depend_on_the_letters_of_other_words(text):
    # A text of ASCII characters alone is read by a pattern of its own.
    assert words(f"{text} é") == [*words(text), "é"]
