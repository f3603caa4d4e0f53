"""A baseline is pinned in the Lab, and stays pinned from page to page, over a reload, and while the session goes on."""

import re

import pytest
from app_server import healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage

pytestmark = pytest.mark.browser


def test_a_pinned_baseline_goes_from_page_to_page_survives_a_reload_and_new_turns(branch, served, visitor):
    tab = visitor.open(f"{served.url}/lab?session={branch.session_id}")
    expect(tab.get_by_text("The prompts of A and B are the same in every turn.")).to_be_visible()
    limit = tab.get_by_role("spinbutton", name="Token limit")
    limit.fill("400")
    limit.press("Enter")
    expect(tab.get_by_text("The prompts first differ in turn")).to_be_visible()
    idle(tab)
    tab.get_by_role("button", name="Baseline").click()
    tab.get_by_role("button", name="Pin B as baseline").click()
    chip = tab.locator(".st-key-frame__baseline").get_by_role("button")
    expect(chip).to_contain_text("Baseline: Token limit 1,200")
    idle(tab)
    tab.locator(".st-key-menu").get_by_role("link", name="Context").click()
    sent = tab.get_by_text(re.compile(r"tokens counted \(\+[\d,]+\)"))
    expect(sent).to_be_visible()
    idle(tab)
    tab.reload()
    expect(sent).to_be_visible()
    expect(chip).to_be_visible()
    tab.locator(".st-key-menu").get_by_role("link", name="Chat").click()
    queue = tab.get_by_text(re.compile(r"^Queue \(\+[\d,]+\)\."))
    expect(queue).to_be_visible()
    idle(tab)
    branch.put(ChatMessage(role="user", content="One more thing: flowers?"))
    branch.build_context()
    branch.put(ChatMessage(role="assistant", content="Tulips, then."))
    expect(tab.get_by_text("Tulips, then.")).to_be_visible()
    expect(queue).to_have_count(0)  # the baseline has no such turn
    expect(chip).to_be_visible()
    idle(tab)
    chip.click()
    expect(chip).to_have_count(0)
    assert "baseline" not in tab.url
    healthy(tab)
