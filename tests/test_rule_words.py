"""Words of rules: every code that a log can hold has its row, and a row's texts have the numbers of the case."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.events import NothingReason, Retrieved
from memory_core.planning.context_plan import CutRule
from memory_core.planning.flush import Rule as FlushRule
from memory_core.planning.retrieval_plan import GateOutcome
from memory_core.retrieval.ranked import CandidateOutcome
from memory_core.tracing.rule_words import CUTS, FLUSHES, NOTHING, REMEDIES, SEARCH, SearchNumbers
from memory_inspector.wording.event_details import number_rows
from memory_inspector.wording.event_sentences import Words, describe

KNOWN = SearchNumbers("Earlier {turns} [2]", 0.31, 5, 300, ("reranker",), 0.28, 7, 41, 12, 50)


@pytest.mark.parametrize(
    ("table", "codes"),
    [(SEARCH, CandidateOutcome), (CUTS, CutRule), (NOTHING, NothingReason), (FLUSHES, FlushRule)],
    ids=["searches", "cuts", "nothing learned", "flushes"],
)
def test_every_code_that_can_be_stored_has_its_row_and_no_other(table, codes):
    assert table.keys() == set(get_args(codes))
    assert set(get_args(GateOutcome)) < SEARCH.keys(), "what events record of a search's candidates"


@pytest.mark.parametrize("code", SEARCH)
def test_the_texts_of_a_row_are_whole_with_and_without_numbers(code):
    rule = SEARCH[code]
    block = "Earlier {turns} [2]"
    for numbers in (SearchNumbers(), SearchNumbers(score=0.5, rank=2, tokens=3), KNOWN):
        sentence = numbers.filled(rule.sentence) if numbers.rank else "."
        for text in (rule.label(numbers), rule.counted(2, numbers), sentence.replace(block, "")):
            assert not set("{}[]") & set(text), text
        assert sentence.endswith(".")
    assert rule.label()[0].isupper()
    assert len({other.label() for other in SEARCH.values()}) == len(SEARCH), "two outcomes of one name"


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 9999), st.integers(1, 9999))
def test_a_sentence_has_each_number_that_it_says_decided(score, threshold, top_k, budget):
    numbers = SearchNumbers("Turns", threshold, top_k, budget, score=score, rank=3)
    for code in ("below_threshold", "beyond_top_k", "no_room"):
        text = numbers.filled(SEARCH[code].sentence)
        shown = {name: numbers.filled(f"{{{name}}}") for name in SEARCH[code].decisive(numbers)}
        assert {"score"} < shown.keys()
        assert all(value in text for value in shown.values())
    below = numbers.filled("{score} {threshold}").split()
    assert score >= threshold or below[0] != below[1] or threshold - score < 1e-8


def test_what_a_trace_can_mend_follows_from_the_rule():
    assert {code for code, remedy in REMEDIES.items() if remedy == "room"} == {"no_room", *CUTS}
    assert {code for code in SEARCH if REMEDIES[code] == "search"} == {
        "below_threshold",
        "beyond_top_k",
        "not_proposed",
    }


def test_a_code_of_a_later_version_is_said_without_its_words():
    """A log of a later version is still read: its code is untrusted, and never part of a template."""
    code = "{block.__class__}"
    later = Retrieved("Turns", "q", None, "exact", 5, 0.31, ((1, 0.3, None, 0.28, code),), {code: 1})
    line = describe(later, Words({}, {}, {}))
    assert line.text == "Recalled nothing: what fits best (0.28) is left out by an unknown rule"
    assert ("Left out by an unknown rule", "1") in number_rows(later)
    assert CUTS["later"] is CUTS["trimmed"]
