"""Relations joined to sentences of several steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.models.offline.responder import MAX_JOINED, joined


def test_what_follows_from_each_other_is_joined_the_longest_first():
    assert joined(["Ana brother Rui", "Rui manages Project Alpha", "Project Alpha deadline May", "Eva likes tea"]) == [
        "Ana brother Rui; Rui manages Project Alpha; Project Alpha deadline May",
        "Ana brother Rui; Rui manages Project Alpha",
        "Rui manages Project Alpha; Project Alpha deadline May",
    ]


def test_a_circle_is_gone_round_once():
    assert joined(["A knows B", "B knows A"]) == ["A knows B; B knows A", "B knows A; A knows B"]


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5).map(" ".join), max_size=12))
def test_only_what_was_given_is_joined(relations):
    found = joined(relations)
    assert len(found) <= MAX_JOINED
    assert {part for sentence in found for part in sentence.split("; ")} <= set(relations)
