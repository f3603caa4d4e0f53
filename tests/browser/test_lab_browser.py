"""From "the agent forgot it" to a configuration that keeps it, proved by a probe, and code that runs."""

import json
import re
from dataclasses import replace

import pytest
from app_server import behind, healthy, idle
from models.scripted_server import learned
from playwright.sync_api import expect

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_inspector.lab.probes import InPrompt, kept_probes

pytestmark = pytest.mark.browser


@pytest.fixture
def forgetful(served, data_file):
    """A real conversation under a limit at which its beginning is forgotten."""
    return lived(served, data_file)


def lived(server, data_file):
    told = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    memory = Memory.from_defaults(
        token_limit=600,
        token_flush_size=60,
        memory_blocks=[
            StaticMemoryBlock(name="Instructions", static_content="Answer briefly.", priority=0),
            FactExtractionMemoryBlock(name="Facts", priority=1),
        ],
        title="Forgetful",
        database=behind(server).database,
        services=Services(),
    )
    for line in [*told["session_1"], *told["session_2"]][:34]:
        role = "user" if line["speaker"] == told["speaker_a"] else "assistant"
        memory.put(ChatMessage(role=role, content=line["text"]))
        if role == "user":
            memory.build_context()
    return memory


def test_a_configuration_that_keeps_what_was_forgotten_is_found_proved_and_taken_along(forgetful, served, visitor):
    phrases = [" ".join(said.content.split()[:6]) for said in forgetful.get_all()[:12]]
    phrase = next(phrase for phrase in phrases if not forgetful.trace(phrase).reached)  # the agent forgot it
    tab = visitor.open(f"{served.url}/trace?session={forgetful.session_id}&words={phrase}")
    tab.get_by_role("button", name="Test this").click()
    tab.get_by_role("button", name="Watch it turn by turn").click()
    expect(tab.get_by_role("button", name="Stop watching").first).to_be_visible()
    idle(tab)
    tab.locator(".st-key-menu").get_by_role("link", name="Lab").click()
    expect(tab.get_by_text("The prompts of A and B are the same in every turn.")).to_be_visible()
    limit = tab.get_by_label("Token limit", exact=True)
    limit.fill("2400")
    limit.press("Enter")
    expect(tab.get_by_text("The prompts first differ in turn")).to_be_visible()
    idle(tab)
    tab.get_by_role("radio", name="Tests").click()
    strips = tab.locator(".presence")
    expect(strips).to_have_count(2)
    expect(strips.nth(0).locator("i").last).not_to_have_class("prompt shown")
    expect(strips.nth(1).locator("i").last).to_have_class("prompt shown")
    idle(tab)
    tab.get_by_role("button", name="Find the smallest limit that keeps it").click()
    expect(tab.get_by_text("Smallest limit of B that keeps what is watched")).to_be_visible(timeout=60_000)
    idle(tab)
    tab.get_by_role("button", name="Try Token limit").click()
    expect(tab.get_by_text("Token limit 600 → 2,400")).to_have_count(0)
    expect(strips.nth(1).locator("i").last).to_have_class("prompt shown")
    idle(tab)
    tab.get_by_role("button", name="Add a test").click()
    tab.get_by_label("Phrase").fill(phrase)
    tab.get_by_label("Phrase").press("Tab")
    idle(tab)
    tab.get_by_role("button", name="Add", exact=True).click()
    last = forgetful.log.history().latest_turn
    expect(tab.get_by_text("A passes 0 of 2 tests and B passes 2 of 2 tests.")).to_be_visible()
    assert kept_probes(forgetful) == (InPrompt(phrase=phrase, from_turn=last),)
    idle(tab)
    tab.get_by_role("radio", name="Compare").click()
    tab.get_by_role("button", name="Export").click()
    with tab.expect_download() as told:
        tab.get_by_role("button", name="As Python", exact=True).click()
    names = {}
    exec(told.value.path().read_text(encoding="utf-8"), names)
    assert 600 < names["memory"].session.config.token_limit < 2_400
    assert [block.name for block in names["memory"].blocks] == ["Instructions", "Facts"]
    tab.get_by_role("button", name="Use B from the next turn").click()
    expect(tab.locator(".st-key-toast_odd, .st-key-toast_even")).to_contain_text(
        "From the next turn: 1 setting changed."
    )
    forgetful.session.refresh()
    assert forgetful.session.config.token_limit == names["memory"].session.config.token_limit
    healthy(tab)


def test_a_play_with_a_model_is_cancelled_and_gone_on_with_after_a_reload_without_paying_twice(
    talking, model, visitor, data_file
):
    model.requests.clear()
    model.script = lambda body: replace(learned(body), delay=0.7)
    tab = visitor.open(f"{talking.url}/lab?session={lived(talking, data_file).session_id}")
    play = tab.get_by_role("button", name="Play with gpt-4o-mini")
    needed = tab.get_by_text(re.compile(r"A needs about \d+ new calls"))
    expect(needed).to_be_visible()
    calls = int(re.search(r"A needs about (\d+) new calls", needed.inner_text())[1])
    assert calls > 2
    assert model.requests == []
    play.click()
    expect(tab.get_by_text(re.compile("Playing A with gpt-4o-mini, [1-9] of " + f"{calls} calls"))).to_be_visible()
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.get_by_text("paid for, and kept for the next play.")).to_be_visible()
    paid = len(model.requests)
    assert 0 < paid < calls
    idle(tab)
    tab.reload()
    expect(tab.get_by_text(f"A needs about {calls - paid} new call")).to_be_visible()
    play.click()
    expect(tab.get_by_text("Learned by gpt-4o-mini")).to_be_visible()
    assert len(model.requests) == len({str(body["messages"]) for body in model.bodies}) == calls
    healthy(tab)


def test_a_sweep_plays_while_other_views_are_looked_at_and_a_cell_leads_to_its_comparison(served, visitor):
    memory = Memory.from_defaults(
        token_limit=300,
        token_flush_size=30,
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", priority=1)],
        title="Swept",
        database=behind(served).database,
        services=Services(),
    )
    for number in range(12):
        memory.put(ChatMessage(role="user", content=f"My friend number {number} lives in a town by the sea."))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content="A town by the sea, noted."))
    tab = visitor.open(f"{served.url}/lab?session={memory.session_id}&view=sweep")
    written = tab.locator(".js-plotly-plot .scatterlayer text")
    expect(written).to_have_count(16)
    tab.get_by_role("radio", name="Tests").click()
    tab.get_by_role("button", name="Watch “").click()
    expect(tab.locator(".presence")).to_have_count(2)
    tab.get_by_role("radio", name="Sweep").click()
    expect(tab.get_by_role("button", name="Sweep 4 × 4")).to_be_visible()  # what is watched is another measure
    expect(tab.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(written.filter(has_text="?")).to_have_count(0)
    idle(tab)
    box = tab.locator(".js-plotly-plot .barlayer path").last.bounding_box()
    tab.mouse.click(box["x"] + 8, box["y"] + 8)  # a corner of the cell, not its middle
    expect(tab.get_by_text("B Token limit 300 → 600")).to_be_visible()
    assert "view=" not in tab.url
    tab.get_by_role("radio", name="Sweep").click()
    expect(written).to_have_count(16)
    expect(tab.get_by_role("button", name="Cancel")).to_have_count(0)
    tab.reload()
    expect(written).to_have_count(16)
    healthy(tab)
