"""A fact without effect on the shown prompt: struck, its reason under the pointer, and unstruck where it was in."""

import re

import pytest
from app_server import healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage
from memory_core.planning import curation

pytestmark = pytest.mark.browser


def test_a_struck_fact_tells_why_under_the_pointer_and_is_not_struck_at_a_turn_whose_prompt_had_it(
    served, branch, visitor
):
    desk = branch.facts.desk("Facts")
    jazz = next(fact for fact in desk.facts() if fact.text == "Ana likes jazz")
    desk.apply(curation.retire([jazz], "Outdated"))
    branch.put(ChatMessage(role="user", content="What does Ana like?"))
    branch.build_context()
    number = [fact.id for fact in desk.facts()].index(jazz.id) + 1
    reason = f"Fact {number} was retired by the user in turn 12: Outdated."

    tab = visitor.open(f"{served.url}/blocks?session={branch.session_id}")
    card = tab.locator(".st-key-blocks__card_Facts")
    struck = card.get_by_role("link", name="Ana likes jazz").filter(visible=True)
    expect(struck.locator("del")).to_have_text("Ana likes jazz")
    idle(tab)
    struck.hover()
    expect(tab.get_by_role("tooltip").filter(has_text=reason)).to_be_visible()
    struck.click()
    expect(tab.get_by_text(reason).first).to_be_visible()  # its turn still brings its words back: another carrier
    healthy(tab)

    tab.goto(f"{served.url}/facts?session={branch.session_id}&fact={jazz.id}")
    panel = tab.locator(".st-key-facts__panel")
    expect(panel.locator("h2 del")).to_have_text("Ana likes jazz")
    idle(tab)
    panel.get_by_test_id("stTooltipIcon").first.hover()
    expect(tab.get_by_role("tooltip").filter(has_text=reason)).to_be_visible()
    tab.mouse.move(0, 0)
    tab.locator(".st-key-turn input").fill("Turn 12")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile("turn=12"))
    expect(panel.locator("del")).to_have_count(0)  # it was retired only after that prompt
    expect(panel.get_by_role("heading", name="Ana likes jazz")).to_be_visible()
    expect(panel.get_by_role("link", name="In the prompt of turn 12").filter(visible=True)).to_be_visible()
    healthy(tab)
