"""Failed probes compared with others: one planted cause among many properties is listed first."""

import random

import pytest
from engine_fakes import HashEmbedder, assistant, user
from hypothesis import given
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, Memory, Services
from memory_inspector.figures.lab_figures import pattern_figure
from memory_inspector.lab.failure_patterns import Case, cases_of, compare, fisher
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import BlockTokens, InPrompt, Question, evaluate
from memory_inspector.lab.script import script_of
from memory_inspector.lab.value import value_of
from memory_inspector.lab.variants import variant_of

CHATTER = "We talked about the weather of the coming week and about nothing else at all."


@pytest.mark.parametrize("seed", range(5))
def test_the_planted_cause_comes_first(seed):
    rng = random.Random(seed)
    cases = []
    for _ in range(500):
        properties = {
            "speaker": rng.choice(("user", "assistant", "tool")),
            "age": rng.choice(("up to 5 turns", "6 to 20 turns", "over 100 turns")),
            "length": rng.choice(("up to 20 tokens", "over 200 tokens")),
            "session": str(rng.randrange(20)),
        }
        cases.append(Case(rng.random() < (0.6 if properties["speaker"] == "tool" else 0.2), properties))
    first = compare(cases).patterns[0]
    assert (first.name, first.value) == ("speaker", "tool")
    assert first.p < 0.001
    assert first.difference > 0.2


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("cd")), max_size=40))
def test_every_count_adds_up_to_the_cases(rows):
    cases = [Case(failed, {"x": x, "y": y}) for failed, x, y in rows]
    patterns = compare(cases)
    assert (patterns.cases, patterns.failed) == (len(rows), sum(failed for failed, _, _ in rows))
    for pattern in patterns.patterns:
        assert pattern.cases + pattern.others == len(rows)
        assert pattern.failed + pattern.others_failed == patterns.failed
        assert 0 <= pattern.p <= 1
        assert -1 <= pattern.difference <= 1
    assert patterns.table().startswith(f"{patterns.failed} of {patterns.cases} probes fail.")


def test_the_rules_that_lost_are_named_in_words():
    cases = [Case(True, {}, rule) for rule in ("below_threshold", "dropped", "below_threshold")]
    assert compare(cases).table().endswith("Lost by: below threshold (2), dropped (1)")


@given(st.data())
def test_fishers_test_is_a_probability_and_the_same_from_both_sides(data):
    total = data.draw(st.integers(1, 60))
    drawn, marked = data.draw(st.integers(0, total)), data.draw(st.integers(0, total))
    hits = data.draw(st.integers(max(0, drawn + marked - total), min(drawn, marked)))
    assert 0 < fisher(hits, drawn, marked, total) <= 1
    assert fisher(hits, drawn, marked, total) == pytest.approx(fisher(hits, marked, drawn, total))


@pytest.fixture(scope="module")
def memory():
    """Facts keep what was said; the user's chatter is lost."""
    memory = Memory.from_defaults(
        token_limit=150,
        token_flush_size=40,
        memory_blocks=[FactExtractionMemoryBlock(name="facts")],
        services=Services(embedder=HashEmbedder()),
    )
    for words in ("I am allergic to nuts.", "I live in Porto.", *(f"{CHATTER} Day {number}." for number in range(9))):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    return memory


def test_probes_of_a_session_become_cases_with_the_carrier_the_speaker_and_the_rule(memory):
    probes = [InPrompt(phrase=words, from_turn=11) for words in ("allergic to nuts", "live in Porto", "Day 1", "Day 2")]
    cases = cases_of(memory, evaluate(memory, [*probes, BlockTokens(block="facts", at_least=900)]), session="dinner")
    assert [case.failed for case in cases] == [False, False, True, True, True]
    assert [case.properties["block"] for case in cases] == ["facts", "facts", "facts", "facts", "facts"]
    assert {case.properties["speaker"] for case in cases[:4]} == {"user"}
    assert [case.properties["age"] for case in cases[:4]] == ["6 to 20 turns"] * 4
    assert [bool(case.rule) for case in cases] == [False, False, True, True, False]
    assert {case.properties["session"] for case in cases} == {"dinner"}


def test_questions_without_their_evidence_are_compared_too(memory):
    asked = {"Nuts?": "allergic to nuts", "Where?": "live in Porto", **{f"Day {n}?": f"Day {n}" for n in range(6)}}
    questions = [Question(*pair) for pair in asked.items()]
    value = value_of(Player(memory.session.services), script_of(memory), variant_of(memory), questions)
    assert (value.patterns.cases, value.patterns.failed) == (8, sum(score < 1 for score in value.arms[0].scores))
    assert "Questions without their evidence:" in value.table()


def test_the_figure_has_a_line_for_each_pattern_and_shows_words_as_they_are():
    cases = [Case(n % 3 == 0, {"block": "<b>x</b>" if n % 2 else "y"}) for n in range(30)]
    figure = pattern_figure(compare(cases).patterns, "light")
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert len(lines) == 2
    assert "<b>" not in figure.to_json()
