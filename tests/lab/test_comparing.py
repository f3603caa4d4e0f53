"""Configurations beside each other: their numbers, and the first turn in which they differ, with its cause."""

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_inspector.lab.comparing import divergence, outcome_of
from memory_inspector.lab.playing import Player
from memory_inspector.lab.script import script_from
from memory_inspector.lab.variants import variant_of

SAID = ["I am allergic to nuts.", *(f"We talked about the weather of week {number}." for number in range(8))]
SCRIPT = script_from(message for words in SAID for message in (user(words), assistant("Noted.")))


def played(**knobs):
    services = Services(embedder=FakeEmbedder())
    memory = Memory.from_defaults(
        token_limit=90,
        token_flush_size=20,
        memory_blocks=[
            StaticMemoryBlock(name="rules", static_content="Always be kind to the user.", priority=2),
            FactExtractionMemoryBlock(name="facts", priority=1),
        ],
        services=services,
    )
    now = variant_of(memory, "A")
    return Player(services).play(SCRIPT, now.changed("B", **knobs) if knobs else now)


def test_the_numbers_are_those_of_the_log():
    one = played()
    outcome = outcome_of(one.memory)
    assert [turn.sent for turn in outcome.turns] == [one.prompt(turn).built.total for turn in one.turns()]
    assert outcome.flushes == len([r for r in one.memory.events() if r.kind == "flush_planned"])
    assert sum(turn.flushed for turn in outcome.turns) == len(one.memory.session.messages("archived"))
    assert outcome.facts == len(one.memory.facts.read("facts")) == 1
    assert outcome.average == round(sum(turn.sent for turn in outcome.turns) / 9)


@pytest.mark.slow
def test_the_same_configuration_never_diverges():
    assert divergence(played(), played()) is None
    assert divergence(played(), played(delivery_attempts=3)) is None


def test_another_limit_diverges_with_the_flush_that_only_one_made():
    one, other = played(), played(token_limit=60)
    found = divergence(one, other)
    first = next(turn for turn in range(1, 10) if one.prompt(turn).messages != other.prompt(turn).messages)
    assert found.turn == first
    assert found.causes[0].startswith("In turn ")
    assert " A moved nothing out of the queue, B moved " in found.causes[0]


def test_another_text_diverges_in_the_first_turn_by_what_it_says():
    found = divergence(played(), played(**{"rules.text": "Never be kind."}))
    assert found.turn == 1
    assert found.causes == (
        "Only A has “Always be kind to the user.” in rules.",
        "Only B has “Never be kind.” in rules.",
    )


def test_a_cut_that_only_one_made_is_told_with_its_numbers():
    found = divergence(
        played(chat_history_token_ratio=1.0), played(chat_history_token_ratio=1.0, **{"rules.priority": 0})
    )
    assert any(cause.startswith("B cut ") for cause in found.causes)
    cut = next(cause for cause in found.causes if " cut " in cause)
    assert cut.endswith(" were over the limit.")
