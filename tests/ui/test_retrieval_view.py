"""A search in words and rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.retrieval.explain import FoundBy, Search, SearchSettings
from memory_core.retrieval.ranked import Ranked, RankedTurn
from memory_inspector.reading.search_rows import (
    boosts_shown,
    change_label,
    changed_sentence,
    degraded,
    headline,
    holding,
    missed,
    nothing_from,
    outcome,
    place,
    question_rows,
    rows,
    score_words,
    split,
    stages,
    sum_rows,
    why,
    within,
)

ZERO = {
    "granted": 0,
    "cut": 0,
    "no_prompt": 0,
    "no_room": 0,
    "postprocessed": 0,
    "beyond_top_k": 0,
    "repeated": 0,
    "replaced": 0,
    "quarantined": 0,
    "in_queue": 0,
    "below_threshold": 0,
    "not_proposed": 0,
}


def found(number, outcome="granted", score=0.5, words="Rui can bring the wine", rank=None):
    return RankedTurn(number, rank or number, number, words, 67, score, 0.4, score, outcome)


def search(*turns, threshold=0.31, top_k=5, stored=..., **more):
    counts = {**ZERO}
    for one in turns:
        counts[one.outcome] += 1
    values = {
        "block": "Earlier turns",
        "query": "What can Rui eat?",
        "settings": SearchSettings(top_k, threshold, 0.85, 0.15, *(0.0,) * 6),
        "weights": (0.85, 0.15),
        "found": Ranked(turns),
        "counts": counts,
        "stored": len(turns) if stored is ... else stored,
        "proposed": 50,
        "embedder": "e",
        "index": "exact scan",
    }
    return Search(**{**values, **more})


NINE = search(
    *(found(number) for number in (1, 2, 3, 4)),
    found(5, "cut"),
    *(found(number, "below_threshold", 0.2) for number in (6, 7, 8, 9)),
)


def test_the_funnel_has_its_counts_and_they_add_up():
    assert list(stages(NINE).values()) == [
        "Stored 9",
        "Candidates 9",
        "Below 0.31: 4",
        "Still in the queue: 0",
        "Recalled 5",
        "Fit 4",
    ]
    crowded = search(found(1), found(2, "beyond_top_k"), found(3, "not_proposed"), threshold=None, top_k=1)
    assert list(stages(crowded).values()) == [
        "Stored 3",
        "Candidates 2",
        "Still in the queue: 0",
        "Beyond the 1 result: 1",
        "Recalled 1",
        "Fit 1",
    ]


def test_a_record_does_not_say_how_many_were_stored():
    assert "stored" not in stages(search(found(1), stored=None))


@pytest.mark.parametrize("stage", ["stored", "candidates", "below_threshold", "in_queue", "asked", "granted"])
def test_a_stage_holds_as_many_turns_as_it_says(stage):
    said = int(stages(NINE)[stage].replace(":", "").split()[-1])
    assert len(within(NINE, stage)) == said


def test_what_is_stored_as_one_is_what_the_sentences_count():
    assert headline(NINE, unit="message").startswith("Searched **9 stored messages**: 5 ")
    assert headline(NINE, unit="batch").startswith("Searched **9 stored batches**")
    unknown = search(found(1, "not_proposed"))
    assert "No stored message has a word" in headline(unknown, unit="message")
    assert missed([], "fish", NINE, unit="message") == "No stored message says “fish”."
    assert " The message of turn 1 is 1st" in missed([found(1)], "fish", search(found(1)), unit="message")
    two = [found(1), found(2)]
    assert " The nearest, a batch of turn 1, is 1st" in missed(two, "fish", search(*two), unit="batch")
    later = search(found(1, "below_threshold"))
    assert (
        changed_sentence(search(found(1)), later, unit="message") == "a message of turn 1 is below the threshold 0.31"
    )


def test_the_page_s_question_is_answered_in_numbers():
    assert headline(NINE) == (
        "Searched **9 stored turns**: 5 would be recalled, **4 fit in the prompt**; 1 (67 tokens) would be cut."
    )
    assert headline(search(found(1)), past=True) == (
        "Searched **1 stored turn**: 1 recalled, **1 fitted in the prompt**."
    )
    low = search(found(1, "below_threshold"))
    assert headline(low) == "Searched **1 stored turn**. None scored 0.31 or more, so nothing would be recalled."
    nothing = search(found(1, "below_threshold"), found(2, "in_queue"))
    assert headline(nothing).endswith("None would be recalled: 1 below the threshold 0.31 and 1 still in the queue.")
    assert "1 left out by a postprocessor" in headline(search(found(1, "postprocessed")))
    assert headline(search(found(1, "not_proposed"))).endswith(
        "No stored turn has a word or a meaning in common with it, so nothing would be recalled."
    )
    assert headline(search(found(1, "no_prompt"))).endswith("1 would be recalled, for no prompt.")


def test_each_outcome_has_its_words_and_its_rule():
    said = {each: outcome(found(1, each, 0.28), NINE) for each in ZERO}
    assert said == {
        "granted": "In the prompt, 67 tokens",
        "cut": "Cut, 67 tokens",
        "no_prompt": "Recalled, in no prompt",
        "no_room": "No room: 67 tokens",
        "postprocessed": "Left out by a postprocessor",
        "beyond_top_k": "Beyond the 5 results",
        "replaced": "Left out as a former value",
        "quarantined": "In quarantine",
        "in_queue": "Still in the queue",
        "below_threshold": "Below 0.31",
        "not_proposed": "Not among the 50 nearest",
        "repeated": "Left out as repeated",
    }
    reasons = {why(found(1, each, 0.28), NINE) for each in ZERO}
    assert len(reasons) == len(ZERO)
    assert why(found(1, "below_threshold", 0.28), NINE) == "Below the threshold of Earlier turns: 0.28 < 0.31."
    assert "67 tokens" in why(found(1, "cut"), NINE)
    assert "**bold**" not in why(found(1, "no_prompt"), search(found(1, "no_prompt"), no_prompt="Over **bold**."))


def test_a_score_just_below_the_threshold_is_told_apart_from_it():
    close = found(1, "below_threshold", 0.30999)
    assert outcome(close, NINE) == "Below 0.31000"
    assert why(close, NINE).endswith(": 0.30999 < 0.31000.")
    assert missed([close], "wine", search(close)).endswith(" with 0.30999: **below the threshold 0.31000**.")


@pytest.mark.parametrize(
    ("rank", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd")]
)
def test_places_are_counted_as_people_count(rank, words):
    assert place(found(1, rank=rank)) == words


def test_the_score_is_shown_as_its_sum():
    one = RankedTurn(1, 1, 7, "x", 9, 0.58, 0.4, 0.553, "granted")
    assert score_words(one, NINE) == "0.85 × 0.58 vector + 0.15 × 0.40 keyword = **0.55**"
    alone = search(one, weights=(0.0, 0.15))
    assert (
        score_words(RankedTurn(1, 1, 7, "x", 9, None, 0.4, 0.4, "granted"), alone) == "1.00 × 0.40 keyword = **0.40**"
    )
    assert score_words(one, search(one, weights=None)) is None


WEIGHTS = SearchSettings(None, None, 0.4, 0.6, 0.15, 0.4, 0.25, 0.1, 0.15, 0.1)


def with_terms(number=1, *boosts, outcome="granted", match=0.312):
    given = boosts or (0.084, 0.052, 0.25, 0.0, 0.061, -0.1)
    return RankedTurn(number, number, 4, "Rui stays off meat", 41, 0.42, 0.24, match + sum(given), outcome, given)


def filled(*turns, **more):
    return search(*turns, **{"settings": WEIGHTS, "weights": (0.4, 0.6), "token_budget": 300, **more})


def test_a_score_with_terms_is_a_sum_that_adds_up():
    one = with_terms()
    found = filled(one)
    assert boosts_shown(found) == ("neighbours", "episode", "speaker", "informativeness", "length")
    said = [(row["amount"], row["what"]) for row in sum_rows(one, found)]
    assert said == [
        ("0.31", "Match"),
        ("+0.09", "Neighbours"),
        ("+0.05", "Same session"),
        ("+0.25", "Speaker"),
        ("+0.06", "Informative"),
        ("−0.10", "Length"),
        ("**0.66**", "**Score**"),
    ]
    assert "0.40 × 0.42 vector + 0.60 × 0.24 keyword" in sum_rows(one, found)[0]["means"]
    assert nothing_from(one, found) == ["date"]
    alone = RankedTurn(1, 1, 7, "x", 9, 0.5, 0.4, 0.5, "granted")
    assert sum_rows(alone, search(alone)) == []


def test_the_speaker_is_told_from_any_person():
    asked, anybody = with_terms(1, 0, 0, 0.25, 0, 0, 0), with_terms(2, 0, 0, 0.1, 0, 0, 0)
    found = filled(asked, anybody)
    assert "the person the question is about" in sum_rows(asked, found)[1]["means"]
    assert "not by an assistant" in sum_rows(anybody, found)[1]["means"]


@given(
    st.floats(0, 1),
    st.lists(st.floats(0, 2), min_size=5, max_size=5),
    st.floats(-1, 0),
)
def test_what_is_shown_of_a_score_always_adds_up(match, added, length):
    one = with_terms(1, *added, length, match=match)
    own, shown = split(one)
    assert f"{own + sum(shown.values()):.2f}".replace("-0.00", "0.00") == f"{one.score:.2f}".replace("-0.00", "0.00")
    assert abs(own - match) < 0.0101
    assert all(abs(value - exact) < 0.0101 for value, exact in zip(shown.values(), one.boosts, strict=True))


def test_terms_have_columns_when_they_are_asked_for():
    one, rest = with_terms(), RankedTurn(2, 2, 9, "Wine", 3, 0.1, 0.0, 0.04, "not_proposed")
    found = filled(one, rest)
    first, second = rows([one, rest], found)
    assert list(first) == ["Turn", "Score", "Outcome", "Text"]
    first, second = rows([one, rest], found, each_term=True)
    assert list(first)[4:] == ["Match", "Neighbours", "Same session", "Speaker", "Informative", "Length"]
    assert (first["Match"], first["Length"], second["Neighbours"]) == (0.31, -0.1, None)


def test_what_does_not_fit_is_told_with_its_size_and_the_room():
    one = with_terms(outcome="no_room")
    found = filled(one)
    assert stages(found)["no_room"] == "No room in 300 tokens: 1"
    assert list(within(found, "no_room")) == [one]
    assert outcome(one, found) == "No room: 41 tokens"
    assert why(one, found) == (
        "No room for its 41 tokens: better results took the 300 tokens of Earlier turns. It was number 1, score 0.66."
    )
    assert headline(found).endswith("None would be recalled: 1 left out for lack of room in 300 tokens.")
    assert changed_sentence(filled(with_terms()), found) == "turn 4 is left out for lack of room in 300 tokens"
    recorded = filled(one, token_budget=None)
    assert stages(recorded)["no_room"] == "No room: 1"


def test_rows_hold_one_line_of_words_and_nothing_where_they_are_gone():
    (row,) = rows([found(7, words="Rui can\n\nbring  the wine")], NINE, each_term=True)
    assert row == {
        "Turn": 7,
        "Text": "Rui can bring the wine",
        "Vector": 0.5,
        "Keyword": 0.4,
        "Score": 0.5,
        "Outcome": "In the prompt, 67 tokens",
    }
    assert rows([found(1, words="")], NINE)[0]["Text"] == "(erased)"
    assert len(rows([found(1, words="word " * 400)], NINE)[0]["Text"]) == 300


def test_what_was_missed_is_found_by_its_words_and_the_gate_is_named():
    low = found(4, "below_threshold", 0.28, "Rui stays off MEAT these days", rank=2)
    both = search(found(1), low)
    assert list(holding(both, "meat off")) == [low]
    assert missed([low], "meat", both) == (
        "1 of 2 stored turns says “meat”. Turn 4 is 2nd with 0.28: **below the threshold 0.31**."
    )
    assert missed([], "fish", both) == "No stored turn says “fish”."
    assert "**bold**" not in missed([], "**bold**", both)
    for each in ZERO:
        assert missed([found(1, each)], "x", both).endswith(".")


@pytest.mark.parametrize(
    ("said", "kind", "sentence"),
    [
        (
            "Searched the database copy instead (slower). Nothing answers at x.",
            "error",
            "The vector store did not answer. Searched the database copy instead (slower).",
        ),
        (
            "Keyword search only. The model is missing.",
            "warning",
            "No embedding model: keyword search only. Questions in other words will miss.",
        ),
        ("Nothing could be searched. The model is missing.", "error", "Nothing could be searched"),
    ],
)
def test_what_could_not_be_searched_is_said_with_its_cause(said, kind, sentence):
    shown = degraded(search(degraded=said))
    assert shown[0] == kind
    assert shown[1].replace("\\", "").startswith(sentence)
    assert said.split(". ")[1].rstrip(".") in shown[1].replace("\\", "")
    assert degraded(search()) is None


def test_a_change_of_settings_is_told_by_what_it_does_to_turns():
    before = search(found(9), found(4, "below_threshold"), found(5, "below_threshold"))
    after = search(found(9, "cut"), found(4), found(5, "beyond_top_k"))
    assert changed_sentence(before, after) == "turn 9 is cut by the token limit, turn 4 is in the prompt"
    assert changed_sentence(before, after, first=4) == "turn 4 is in the prompt, turn 9 is cut by the token limit"
    assert changed_sentence(before, before) == "nothing changes for this question"
    many = search(*(found(number, "below_threshold") for number in range(1, 7)))
    all_in = search(*(found(number) for number in range(1, 7)))
    assert changed_sentence(many, all_in).endswith("turn 3 is in the prompt, 3 more change")


def test_a_button_says_the_change_it_makes():
    assert change_label({"similarity_threshold": 0.27}) == "Lower the threshold to 0.27"
    assert change_label({"similarity_top_k": 7}) == "Raise the results to 7"
    both = change_label({"similarity_threshold": 0.27, "similarity_top_k": 7})
    assert both == "Lower the threshold to 0.27 and raise the results to 7"


def test_questions_that_found_a_turn_are_rows_with_how_it_ended():
    asked = [FoundBy(12, 0, "a", "cut", 2, 0.44), FoundBy(3, 1, "b", "granted", None, None)]
    assert question_rows(asked, {"a": "Wine?\n\nOr  beer?"}) == [
        {"Turn": 12, "Question": "Wine? Or beer?", "Place": "2nd", "Score": 0.44, "Outcome": "Cut"},
        {"Turn": 3, "Question": "(erased)", "Place": "", "Score": None, "Outcome": "In the prompt"},
    ]
