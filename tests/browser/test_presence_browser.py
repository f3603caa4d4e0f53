"""Watching a phrase while the conversation goes on: the toast in the moment it drops out, and the way back."""

import re

import pytest
from app_server import behind, healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage, Memory, Services

pytestmark = pytest.mark.browser


def test_a_watched_phrase_says_when_it_drops_out_and_leads_back_to_where_it_was_in(served, demo, visitor):
    session = demo.branch(11, title="Watched").session_id
    tab = visitor.open(f"{served.url}/trace?session={session}&words=Rui stays off meat")
    tab.get_by_role("button", name="Test this").click()
    tab.get_by_role("button", name="Watch it turn by turn").click()
    expect(tab.get_by_role("button", name="Stop watching").first).to_be_visible()
    idle(tab)
    tab.locator(".st-key-menu").get_by_role("link", name="Chat").click()
    tab.get_by_role("button", name="Next message").click()
    toast = tab.locator(".st-key-toast_odd, .st-key-toast_even")
    expect(toast).to_contain_text("“Rui stays off meat” dropped out of the prompt of turn 12.")
    expect(toast).to_contain_text("the prompt was 38 tokens over, and Earlier turns is cut first.")
    idle(tab)
    tab.locator(".st-key-menu").get_by_role("link", name="Timeline").click()
    row = tab.locator(".presence")
    expect(row.locator("i")).to_have_count(12)
    expect(row.locator("i").last).to_have_class("memory shown")
    expect(tab.get_by_text("Last in the prompt of turn 11.")).to_be_visible()
    row.locator("i").last.click()
    expect(row.locator("i.shown")).to_have_attribute("title", "Turn 11: in the prompt")
    expect(tab.get_by_text("In the prompt of turn 11. It drops out in turn 12: Cut in turn 12")).to_be_visible()
    expect(tab).to_have_url(re.compile("turn=11"))
    tab.reload()
    expect(row.locator("i.shown")).to_have_attribute("title", "Turn 11: in the prompt")
    idle(tab)
    tab.locator(".st-key-watched__stop_0 button").click()
    expect(row).to_have_count(0)
    healthy(tab)


def test_from_the_agent_forgot_to_the_rule_in_one_click_and_to_the_mended_prompt_in_one_more(served, demo, visitor):
    session = demo.branch(12, title="Forgot").session_id
    tab = visitor.open(f"{served.url}/chat?session={session}")
    idle(tab)
    tab.locator(".st-key-goto__open button").first.click()
    tab.get_by_placeholder("A page, a session").fill("Rui stays off meat")
    tab.get_by_role("link", name="Where did it go? “Rui stays off meat”").click()
    cut = "Cut in turn 12: the prompt was 38 tokens over, and Earlier turns is cut first."
    expect(tab.get_by_role("heading", name=cut)).to_be_visible()
    idle(tab)
    tab.locator(".st-key-trace__apply_0 button").click()
    expect(tab.get_by_role("heading", name="In the next prompt, as the session stands now.")).to_be_visible()
    idle(tab)
    memory = Memory.open(session, behind(served).database, services=Services())
    memory.put(ChatMessage(role="user", content=memory.trace("Rui stays off meat", turn=12).question))
    memory.build_context()
    expect(tab.get_by_role("heading", name="In the prompt of turn 13")).to_be_visible()
    healthy(tab)
