"""A running summary as text: what it lost, what goes where it is too long, and what a prompt is cut of first."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.running_summary import Fitted, cut_order, density, fit, losses, sentences

TOLD = "Ana lives in Porto with 2 cats since March 14 and the user likes tea; dinner costs 1,500 euros two Rui B2B"
WORDS = st.sampled_from(TOLD.split())
SENTENCES = st.lists(WORDS, min_size=1, max_size=8).map(lambda words: " ".join(words) + ".")
TEXTS = st.lists(SENTENCES, max_size=8).map(" ".join)
ANY = st.text(st.sampled_from("aA1. \n!?…。\"'Ωé中,:-/"), max_size=80) | st.text(max_size=60)


def words(text):
    return len(text.split())


def squeezed(text):
    return "".join(text.split())


# -- sentences -------------------------------------------------------------------------------------


@given(TEXTS | ANY)
def test_sentences_are_the_text_in_order(text):
    assert squeezed("".join(sentences(text))) == squeezed(text)
    assert all(sentence == sentence.strip() and sentence for sentence in sentences(text))


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Dr. Lee pays 3.50 euros. Ana comes, too!", ["Dr. Lee pays 3.50 euros.", "Ana comes, too!"]),
        ('The user said: "No nuts." Ana agreed.', ['The user said: "No nuts."', "Ana agreed."]),
        ("- no nuts\n- 12 guests\n", ["- no nuts", "- 12 guests"]),
        ("1. Book it.\n2. Pay.", ["1. Book it.", "2. Pay."]),
        ("我住在里斯本。晚餐是周五！", ["我住在里斯本。", "晚餐是周五！"]),
        ("  \n ", []),
    ],
)
def test_a_sentence_ends_where_people_see_it_end(text, cut):
    assert list(sentences(text)) == cut


# -- losses ----------------------------------------------------------------------------------------


@given(TEXTS | ANY, TEXTS)
def test_nothing_is_lost_of_a_text_that_stays(text, more):
    assert losses(text, text) == ()
    assert losses(text, f"{text} {more}") == ()


@pytest.mark.slow
@given(TEXTS)
def test_a_text_that_goes_loses_all_it_names(text):
    gone = " ".join(losses(text, ""))
    assert all(number in gone for number in ("2", "1,500") if f" {number} " in f" {text} ")
    assert bool(re.search(r"\w Porto\b", text)) <= ("Porto" in gone)
    assert losses(text, "x") == losses(text, "")


@pytest.mark.parametrize(
    ("before", "after", "lost"),
    [
        ("Ana Sousa brings 12 guests.", "Ana brings guests.", ("Sousa", "12")),
        ("It is on 14 March.", "It is on March 14.", ()),
        ("It is on the 14th of March.", "It is on 14 March.", ()),
        ("It is on 2026-03-14.", "It is on 14 March 2026.", ()),
        ("It is on 14 March, for 14.", "In March, for 14.", ("14 March",)),
        ("Twelve come, two leave.", "12 come and 2 leave.", ()),
        ("It costs 1,500 euros.", "It costs 1500 euros.", ()),
        ("Project Alpha is late.", "It is late.", ("Project Alpha",)),
        ("Ana's brother is Rui.", "Rui is a brother of ANA.", ()),
        ("Keep it under 300. The user agreed.", "Under 300, agreed.", ()),
        ("Dinner is at 19:30. The dinner is late.", "At 19:30.", ()),
        ("Don't go. We're late. However, Ana waits.", "Ana waits.", ()),
        ("Łódź and Ítalo, 0.5 m", "", ("Łódź", "Ítalo", "0.5")),
    ],
)
def test_names_numbers_and_dates_that_vanished_are_named(before, after, lost):
    assert losses(before, after) == lost


# -- fitting ---------------------------------------------------------------------------------------


@given(TEXTS | ANY, st.integers(1, 40))
def test_a_summary_never_outgrows_its_bound_and_loses_whole_sentences(text, most):
    fitted = fit(text, most, words)
    assert words(fitted.text) <= most
    told, kept = list(sentences(text)), list(sentences(fitted.text))
    rest, broken = iter(told), 0
    for sentence in kept:  # in their order, and in their words
        found = next(
            (each for each in rest if sentence == each or (words(each) > most and begins(each, sentence))), None
        )
        assert found is not None, sentence
        broken += found != sentence
    assert broken == fitted.broken
    assert fitted.shortened == words(text.strip()) - words(fitted.text)


def begins(sentence, kept):
    return kept.endswith("…") and sentence.startswith(kept[:-1])


@given(TEXTS | ANY, st.integers(1, 40))
def test_of_a_text_something_always_stays(text, most):
    assert bool(fit(text, most, words).text) == bool(text.strip())


def test_a_sentence_longer_than_the_bound_is_broken_off_and_pushes_no_other_out():
    long = f"Ana met {', '.join(f'Person{number}' for number in range(50))} in Porto."
    assert fit(f"The sky is blue. {long} Rui is 12.", 15, words) == Fitted(
        "The sky is blue. Ana met Person0, Person1, Person2, Person3, Person4, Person5,… Rui is 12.", 46, 1
    )
    assert fit(long, 5, words).text == "Ana met Person0, Person1, Person2,…"
    assert fit("x" * 500, 20, len) == Fitted("x" * 19 + "…", 480, 1)


@given(st.lists(SENTENCES, max_size=8, unique_by=str.casefold).map(" ".join), st.integers(1, 40))
def test_what_fits_stays_as_it_is(text, most):
    if words(text) <= most:
        assert (fit(text, most, words).text, fit(text, most, words).shortened) == (text.strip(), 0)


@pytest.mark.slow
@given(TEXTS, st.integers(1, 40))
def test_fitting_twice_changes_nothing_more(text, most):
    once = fit(text, most, words).text
    assert fit(once, most, words) == fit(once, most, words)
    assert fit(once, most, words).text == once


def test_what_is_said_forty_times_is_said_once():
    assert fit("Ana is 12. " * 40, 100, words).text == "Ana is 12."


def test_the_sentence_with_the_fewest_names_goes_first_and_the_oldest_of_equals():
    text = "The sky is blue. Ana is in Porto. The sea is green. Rui pays 300 euros."
    assert fit(text, 12, words).text == "Ana is in Porto. The sea is green. Rui pays 300 euros."
    assert fit(text, 8, words).text == "Ana is in Porto. Rui pays 300 euros."
    assert fit(text, 3, words).text == "Rui pays 300…"


def test_a_bound_in_other_tokens_holds_as_well():
    text = "Ana is in Porto. Rui pays 300 euros."
    assert len(fit(text, 20, len).text) <= 20


def test_density_counts_names_numbers_and_dates():
    assert density("Ana meets Rui in Porto on 14 March at 19:30.") == 5
    assert density("The user likes tea.") == 0


# -- cutting ---------------------------------------------------------------------------------------


def test_a_prompt_is_cut_of_what_the_question_does_not_ask_first():
    told = ["The user likes tea.", "Ana is allergic to nuts.", "The dinner is on 14 March in Porto."]
    assert cut_order(told, "Who is allergic to nuts?") == (0, 2, 1)
    assert cut_order(told, "") == (0, 1, 2)


@given(st.lists(SENTENCES, max_size=8), SENTENCES)
def test_every_sentence_can_be_cut(told, question):
    assert sorted(cut_order(told, question)) == list(range(len(told)))
