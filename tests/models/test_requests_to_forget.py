"""Requests to forget: what they name, and the facts that say it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.models.offline.fact_extraction import MAX_FORGOTTEN, forget_requests, named_facts

FACTS = [
    (1, "The user lived in Tucson for six years"),
    (2, "The user lives in Porto"),
    (3, "Imke's salary is 58,500 euros"),
    (4, "Imke is the user's sister"),
    (5, "The user rents a garden plot at Dok Noord"),
]


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("Please forget the Tucson detail, I don't want it stored.", [1]),
        ("You can drop the garden plot info. I gave it up.", [5]),
        ("Actually, can you remove Imke's salary from your notes?", [3]),
        ("I'd like you to forget everything about Imke.", [3, 4]),
        ("Please don't keep the information about Dok Noord on file.", [5]),
        ("Please forget the submarine.", []),
        ("Please forget it.", []),
        ("Don't forget the Tucson trip!", []),
        ("I removed the old lamp in Tucson.", []),
        ("Can you remove all of that?", []),
    ],
)
def test_a_request_names_the_facts_that_say_it(message, named):
    ids = {id for request in forget_requests(message) for id in named_facts(request, FACTS)}
    assert sorted(ids) == named


def test_a_request_that_names_very_many_facts_names_none():
    facts = [(number, f"Imke bought lamp {number}") for number in range(MAX_FORGOTTEN + 1)]
    assert named_facts("everything of Imke", facts) == []
    assert len(named_facts("everything of Imke", facts[:-1])) == MAX_FORGOTTEN


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=5))
def test_any_message_can_be_asked(message, texts):
    facts = list(enumerate(texts))
    for request in forget_requests(message):
        assert set(named_facts(request, facts)) <= {id for id, _ in facts}
