"""Where a stored turn fits a question best."""

import pytest

from memory_inspector.reading.search_rows import excerpt, matches

FAR = "We talked about the flat for a long while and agreed on nothing at all. Rui stays off meat these days."


@pytest.mark.parametrize(
    ("query", "sought", "lit"),
    [
        ("Does Rui eat meat?", "", ["Rui", "meat"]),
        ("Does Rui eat meats?", "", ["Rui", "meat"]),
        ("Where is the flat?", "stays off meat", ["stays off meat"]),
        ("Where is the flat?", "meat stays", ["stays", "meat"]),
        ("Where is the flat?", "zeppelin", ["flat"]),
        ("zeppelin", "", []),
        ("", "", []),
        ("the and of", "", []),
        ("Rui", "(", ["Rui"]),
    ],
)
def test_the_best_place_has_the_most_words_of_the_question(query, sought, lit):
    assert [FAR[start:end] for start, end in matches(FAR, query, sought)] == lit


def test_an_excerpt_begins_shortly_before_the_match():
    shown = excerpt(FAR, matches(FAR, "Does Rui eat meat?"), 60)
    assert shown.startswith("…")
    assert shown.index("Rui") < 30
    assert len(shown) <= 61
    assert excerpt(FAR, [], 300) == FAR
    assert excerpt(FAR, [(3, 9)], 300) == FAR
