"""Probes: what they ask of prompts, and the reason they give when it is not so."""

import json

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder

from memory_core import FactExtractionMemoryBlock, FormatError, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.planning import curation
from memory_inspector.lab.probes import (
    MAX_PROBES,
    BlockTokens,
    EvidenceInPrompt,
    FactCites,
    InPrompt,
    NeverInPrompt,
    evaluate,
    read_probes,
    write_probes,
)

LONG = "So on and so on. " * 12


@pytest.fixture
def memory():
    """Nuts are said in turn 1, learned as a fact when they leave the queue, and all is said again by a fixed text."""
    memory = Memory.from_defaults(
        token_limit=160,
        token_flush_size=10,
        memory_blocks=[
            StaticMemoryBlock(name="rules", static_content="Always be kind.", priority=0),
            FactExtractionMemoryBlock(name="facts", priority=1),
        ],
        services=Services(embedder=FakeEmbedder()),
    )
    for words in ("I am allergic to nuts.", LONG, "I live in Porto.", LONG):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    return memory


def verdict(memory, probe):
    (found,) = evaluate(memory, [probe])
    return found


def test_what_is_in_the_prompt_in_other_words_is_in_it(memory):
    found = verdict(memory, InPrompt(phrase="I am allergic to nuts", from_turn=1))
    assert (found.held, found.turn) == (True, None)


def test_what_was_never_said_fails_in_the_first_turn_asked_for(memory):
    found = verdict(memory, InPrompt(phrase="the boat", from_turn=2))
    assert (found.held, found.turn, found.why) == (False, 2, "Never said in this session.")


def test_a_probe_may_end_before_the_last_turn(memory):
    desk = memory.facts.desk("facts")
    desk.apply(curation.retire(desk.facts(("active",))))
    memory.put(user("And now?"))
    memory.build_context()
    assert verdict(memory, InPrompt(phrase="allergic to nuts", from_turn=1, to_turn=4)).held
    assert verdict(memory, InPrompt(phrase="allergic to nuts", from_turn=1)).turn == 5


def test_what_must_not_be_in_a_prompt_is_told_by_the_turn_that_has_it(memory):
    assert verdict(memory, NeverInPrompt(phrase="the boat")).held
    assert verdict(memory, NeverInPrompt(phrase="Porto")).turn == 3
    assert verdict(memory, NeverInPrompt(phrase="be kind", from_turn=4)).turn == 4


def test_a_block_that_has_too_little_is_told_by_how_much(memory):
    assert verdict(memory, BlockTokens(block="rules", at_least=3)).held
    found = verdict(memory, BlockTokens(block="rules", at_least=50))
    granted = memory.log.prompt(memory.log.history().turns[1].built).parts[-2].granted
    assert (found.held, found.turn) == (False, 1)
    assert found.why == f"It has {granted} tokens in turn 1, {50 - granted} too few."
    assert verdict(memory, BlockTokens(block="ghost", at_least=1)).why == "There is no block called ghost in turn 1."


def test_evidence_is_there_as_the_message_or_as_what_was_made_of_it(memory):
    assert verdict(memory, EvidenceInPrompt(turn=1, messages=(1,))).held
    assert verdict(memory, EvidenceInPrompt(turn=4, messages=(1,))).held
    found = verdict(memory, EvidenceInPrompt(turn=4, messages=(1, 4)))
    assert (found.held, found.turn) == (False, 4)
    assert found.why.startswith("Message 4: ")
    assert verdict(memory, EvidenceInPrompt(turn=2, messages=(99,))).why == (
        "Message 99: There is no message 99 in this session."
    )


def test_evidence_may_be_in_a_stored_turn():
    memory = Memory.from_defaults(
        token_limit=120,
        token_flush_size=10,
        memory_blocks=[VectorMemoryBlock(name="turns", priority=1)],
        services=Services(embedder=FakeEmbedder()),
    )
    for words in ("The key is under the blue pot.", LONG, "Where is the key, under which pot?"):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))
    assert 1 not in {m.seq for m in memory.session.messages("active")}
    assert verdict(memory, EvidenceInPrompt(turn=3, messages=(1,))).held


def test_a_fact_cites_the_message_it_was_learned_from(memory):
    assert verdict(memory, FactCites(message=1)).held
    assert not verdict(memory, FactCites(message=3)).held


def test_turns_that_never_came_are_no_success(memory):
    found = verdict(memory, InPrompt(phrase="nuts", from_turn=90))
    assert (found.held, found.why) == (False, "No prompt was made from turn 90 on: there is nothing to check.")


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (BlockTokens(block="nobody", at_least=1), "There is no block called nobody in turn 1."),
        (FactCites(message=99), "message 99"),
        (EvidenceInPrompt(turn=2, messages=(99,)), "Message 99"),
        (EvidenceInPrompt(turn=99, messages=(1,)), "No prompt was made from turn 99 on"),
        (InPrompt(phrase="?!", from_turn=1), "Never said"),
    ],
)
def test_a_probe_that_names_nothing_fails_and_says_what_is_not_there(memory, probe, said):
    found = verdict(memory, probe)
    assert not found.held
    assert said.casefold() in found.why.casefold()


def test_probes_come_back_as_they_were_written():
    probes = (
        InPrompt(phrase="“nuts” </x>", from_turn=3, to_turn=9),
        NeverInPrompt(phrase="boat"),
        BlockTokens(block="facts", at_least=20),
        EvidenceInPrompt(turn=3, messages=(1, 2)),
        FactCites(message=4),
    )
    assert read_probes(write_probes(probes), "probes.json") == probes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{}",
        '[{"expect": "magic"}]',
        '[{"expect": "in_prompt", "phrase": "  ", "from_turn": 1}]',
        '[{"expect": "in_prompt", "phrase": "x", "from_turn": 0}]',
        '[{"expect": "in_prompt", "phrase": "x", "from_turn": "2"}]',
        '[{"expect": "in_prompt", "phrase": "x", "from_turn": 2, "colour": 1}]',
        '[{"expect": "evidence_in_prompt", "turn": 1, "messages": []}]',
        json.dumps([{"expect": "fact_cites", "message": 1}] * (MAX_PROBES + 1)),
    ],
)
def test_what_is_no_probe_is_refused_with_the_files_name(text):
    with pytest.raises(FormatError, match=r"^probes\.json holds "):
        read_probes(text, "probes.json")
