"""Probes that are kept from where one is: of a phrase, a fact, a message and a block."""

import pytest
from pages_driver import button, opened, said

from memory_core.messages import content_hash
from memory_inspector.lab.probes import BlockTokens, EvidenceInPrompt, FactCites, InPrompt, NeverInPrompt, kept_probes
from ui.tab import services


@pytest.fixture
def memory(demo_home):
    return services.engine().open("demo")


def offered(app, key):
    app.session_state[key] = True
    return app.run()


@pytest.mark.slow
def test_each_kind_of_probe_is_kept_from_the_page_where_one_is_and_taken_back(memory):
    app = offered(opened(page="trace", session="demo", words="allergic to nuts"), "trace_probe")
    app = button(app, "“allergic to nuts” is in the prompt from turn 11 on").click().run()
    first = InPrompt(phrase="allergic to nuts", from_turn=11)
    assert kept_probes(memory) == (first,)
    assert said(app) == ["Kept as a test: “allergic to nuts” is in the prompt from turn 11 on."]
    seq = memory.trace("allergic to nuts").said[0].seq
    for _ in range(2):  # a choice closes the menu
        app = button(offered(app, "trace_probe"), f"message {seq} is in the prompt of turn 11").click().run()
    assert kept_probes(memory) == (first, EvidenceInPrompt(turn=11, messages=(seq,))), "once"
    app = offered(opened(page="trace", session="demo", words="allergic to nuts", turn="8"), "trace_probe")
    app = button(app, "“allergic to nuts” is in no prompt from turn 8 on").click().run()
    assert kept_probes(memory)[-1] == NeverInPrompt(phrase="allergic to nuts", from_turn=8)
    app = button(app, "Undo").click().run()
    assert len(kept_probes(memory)) == 2

    fact = next(each for each in memory.facts.read("Facts") if "jazz" in each.text)
    app = offered(opened(page="facts", session="demo", fact=str(fact.id)), f"facts__{fact.id}_probe")
    (_, source), *_ = fact.sources
    app = button(app, f"a fact cites message {source}").click().run()
    assert kept_probes(memory)[-1] == FactCites(message=source)
    app = button(offered(app, f"facts__{fact.id}_probe"), f"“{fact.text}” is in the prompt").click().run()
    assert kept_probes(memory)[-1] == InPrompt(phrase=fact.text, from_turn=11)


@pytest.mark.slow
def test_a_block_is_to_keep_what_it_has_in_a_prompt(memory):
    part = content_hash("facts/Facts")[:10]
    app = offered(opened(page="context", session="demo"), f"context__part_{part}")
    app = offered(app, f"context__{part}_probe")
    granted = next(p["granted"] for p in memory.log.history().turns[11].built.event.parts if p["name"] == "Facts")
    button(app, f"Facts has at least {granted} tokens from turn 11 on").click().run()
    assert kept_probes(memory) == (BlockTokens(block="Facts", at_least=granted, from_turn=11),)
