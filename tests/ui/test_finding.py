"""What a few words mean when one goes to anything."""

import pytest

from memory_inspector.reading.navigation_targets import MAX_OF_A_KIND, MOST, PageTarget, around, find, turn_asked


@pytest.mark.parametrize(
    ("words", "turn"),
    [("12", 12), ("turn 12", 12), ("Turn12", 12), ("#7", 7), ("12 eggs", None), ("", None), ("9" * 10, None)],
)
def test_a_number_is_a_turn(words, turn):
    assert turn_asked(words) == turn


def said(*texts, kind="Message"):
    return [PageTarget(kind, text, "chat", number) for number, text in enumerate(texts, 1)]


def test_every_word_must_be_held_in_any_order_and_case():
    found = find(said("Rui stays off MEAT", "Rui eats fish", "meat and fish"), "meat rui")
    assert [target.turn for target in found] == [1]


def test_what_begins_with_the_words_comes_first_and_what_holds_them_together_next():
    found = find(said("meat is not for Rui, she said", "says she: not meat for Rui", "Rui: not meat"), "not meat")
    assert [target.turn for target in found] == [2, 3, 1]
    assert find(said("a note", "note this"), "note")[0].words == "note this"


def test_many_of_one_kind_leave_room_for_the_others():
    found = find([*said(*["nuts"] * 50), PageTarget("Fact", "Ana is allergic to nuts", "facts")], "nuts")
    assert len(found) == MAX_OF_A_KIND + 1
    assert found[-1].kind == "Fact"
    assert len(found) <= MOST


def test_without_words_nothing_is_meant():
    assert find(said("a", "b"), "  ") == []


def test_a_long_text_is_shown_where_the_words_are():
    text = "x " * 200 + "Rui stays off meat these days " + "y " * 200
    shown = around(text, "meat off")
    assert "Rui stays off meat" in shown
    assert len(shown) <= 90
    assert shown[0] == shown[-1] == "…"
    assert around("short\n\ntext", "text") == "short text"
