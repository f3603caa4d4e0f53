"""Match a phrase in a text, in two grades: word for word, and in other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rewritings import REWRITINGS

from memory_core.planning.impact import Target
from memory_core.planning.phrase_matching import _SPELLED, Phrase, _row, _spelled

VERBATIM = [
    ("O'Brien Street", "I live at O’Brien Street 12."),
    ("O'Brien Street", "O&#39;Brien Street"),
    ("O'Brien", "We met OBrien."),
    ("Zoé Ltd", "Zoe\u0301 Ltd"),
    ("Zoé", '"Zo\\u00e9"'),
    ("Zoé", "Zo&eacute;!"),
    ("Social Security number", "my **Social** *Security* number"),
    ("Porto", "Por**to**"),
    ("live in Porto now", "live in <b>Porto</b> now"),
    ("Porto is old", "[Porto](https://porto.example) is old"),
    ("lock-file", "the lockfile is stale"),
    ("lockfile", "the lock-file is stale"),
    ("lockfile", "a lock file"),
    ("lock file", "the lock\u2011file"),
    ("well-being", "well\u2013being"),
    ("hyphen at the end", "hy-\nphen at the end"),
    ("Straße 5", "STRASSE 5"),
    ("istanbul", "İSTANBUL"),
    ("محمد", "مُحَمَّد هنا"),
    ("مُحَمَّد", "محمد"),
    ("שלום", "שָׁלוֹם"),
    ("soft hyphen", "so\u00adft hy\u00adphen"),
    ("1,500 euros", "1500 euros"),
    ("5 km", "5km away"),
    ("東京に住", "私は東京に住む"),
    ("not to be", "to be or NOT TO BE"),
    ("=> {", "x => { }"),
    ("a", "a b"),
    ("Ana", "Ana's cat"),
    ("allergic to nuts", "<p>allergic to</p><p>nuts</p>"),
    ("allergic", '<span class="x">aller</span>gic'),
    ("Zoë Müller", "Zo&amp;euml; M&amp;uuml;ller"),
    ("allergic", "al\u2066lergic\u2069"),
    ("\U0001f600 party", '"\\ud83d\\ude00 party"'),
    ("C++", "I use C++."),
]
REWORDED = [
    ("allergic to nuts", "She is allergic to all nuts."),
    ("deploy", "The deployment is on Friday."),
    ("lock file is stale", "Stale was the lockfile."),
    ("snow-ball fight", "A fight, with snowballs."),
]
NEITHER = [
    ("Ana", "banana"),
    ("well", "we'll see"),
    ("ill", "I'll go"),
    ("heart", "the art of war"),
    ("3.50", "350"),
    ("2000", "at 20:00"),
    ("nuts", "peanutsauce"),
    ("allergic to nuts", "Allergic? Yes. Nuts are fine."),
    ("cost $5", "cost 5"),
    ("  ", "anything"),
    ("", ""),
    ("\u200b", "anything"),
    ("!", "none"),
    ("C++", "I take vitamin C"),
    ("no table", "a notable thing"),
    ("no body", "nobody came"),
]


@pytest.mark.parametrize(
    ("phrase", "text", "grade"),
    [
        (*pair, grade)
        for grade, pairs in (("verbatim", VERBATIM), ("reworded", REWORDED), (None, NEITHER))
        for pair in pairs
    ],
)
def test_spelling_makes_no_difference_and_other_words_are_a_grade_of_their_own(phrase, text, grade):
    assert Phrase.of(phrase).grade_in(text) == grade


PHRASES = ["O'Brien's lock-file", "Zoé at the tree-house", "birthday-dinner in Porto", "Émile's café-bar"]


@pytest.mark.parametrize("rewriting", REWRITINGS)
@pytest.mark.parametrize("phrase", PHRASES)
def test_a_rewritten_phrase_is_said_word_for_word_and_can_be_taken_out(phrase, rewriting):
    assert len(REWRITINGS) >= 40
    text = f"Before it. He said {REWRITINGS[rewriting](phrase)} there. After it."
    target = Target((phrase,))
    assert target.match_in(text) == "verbatim"
    remaining = target.removed_from(text)
    assert not target.said_in(remaining)
    assert phrase.split()[-1].casefold() not in remaining.casefold()


@given(st.text(max_size=30), st.text(max_size=60))
def test_what_a_text_says_it_says_whatever_stands_around_it(phrase, text):
    wanted = Phrase.of(phrase)
    if wanted.said_in(text):
        assert wanted.said_in(f"Before.\n{text}\nAfter.")


@given(st.text(max_size=40))
def test_every_text_with_letters_or_signs_says_itself(text):
    # Soft hyphens, joiners and the points of Hebrew and Arabic are no signs: programs leave them out.
    assert Phrase.of(text).verbatim_in(text) or not any(Phrase.of(sign).verbatim_in(sign) for sign in text)


def test_every_letter_and_sign_of_a_keyboard_says_itself():
    assert [sign for sign in map(chr, range(33, 127)) if not Phrase.of(sign).verbatim_in(sign)] == []
    assert all(Phrase.of(sign).verbatim_in(sign) for sign in "äßñøłéЖдΩ漢かナ한ไ€£§°•")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phrase", "text", "grade"),
    [
        ("word word wordx", "word " * 100_000, None),
        ("wordword " * 1_000, "word " * 100_000, "verbatim"),
        ("ab " * 3_000 + "c", "ab ab ab " * 30_000 + "xabc", None),
        ("x" * 10_000, "x" * 100_000, None),
        ("!" * 10_000, "!" * 100_000, "verbatim"),
        ("allergic to nuts", "x" + "\\" * 100_000, None),
        ("allergic to nuts", "\\" * 100_000 + "u", None),
    ],
)
def test_repeated_words_and_long_phrases_have_an_answer_too(phrase, text, grade):
    assert Phrase.of(phrase).grade_in(text) == grade


def test_a_phrase_of_several_sentences_takes_only_its_sentences_out_of_a_text():
    target = Target(("I like tea. Ana sings.",))
    text = "Be brief. I like tea.\nNo emoji. Ana sings. Thanks."
    assert target.match_in(text) == "reworded"
    assert target.removed_from(text) == "Be brief.\nNo emoji. Thanks."


def test_forgetting_also_finds_what_a_search_of_files_finds_within_a_longer_word():
    assert Target(("Porto",)).match_in("Portobello") == "part"
    assert Target(("nut allerg",)).match_in("my nut-allergy") == "part"
    assert Target(("Porto",), whole_words=True).match_in("Portobello") is None
    assert Target(("Ana",)).match_in("banana") is None  # too short to say anything within a word


@given(st.text() | st.text(st.sampled_from("aZ9 _-'’‘—–“”…éİıßЖ字🙂\u0307\u200b")))
def test_signs_and_spellings_are_taken_out_of_a_text_as_character_by_character(text):
    folded = text.casefold()
    assert _row(text) == "".join(filter(str.isalnum, folded))
    assert _spelled(text) == text.translate(str.maketrans(_SPELLED))
