"""A person who clicks through the pages faster than they are drawn, while turns are played and both cores are busy."""

import os
import random
import subprocess
import sys

import pytest
from playwright.sync_api import expect

PAGES = ("Chat", "Context", "Timeline", "Blocks", "Facts", "Where did it go?", "Retrieval", "Lab")
PAUSES = (0, 50, 100, 100, 200, 350, 600, 1_000, 1_800)
"""Milliseconds between two changes."""
CHANGES = int(os.environ.get("MEMORY_INSPECTOR_PAGE_CHANGES", "300"))

CLICK_LINE = """name => [...document.querySelectorAll('[data-testid=stSidebarNavLink], .st-key-menu a')]
    .find(line => line.innerText.trim().endsWith(name))?.click()"""
PLAY = """() => [...document.querySelectorAll('button')]
    .find(button => /^(Next message|Play|Play again)/.test(button.innerText.trim()) && !button.disabled)?.click()"""

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def busy_cores():
    """Two processes that want a core each, behind the app."""
    command = ["nice", "-n", "10", sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(2)]
    yield
    for process in running:
        process.kill()
        process.wait()


def test_no_page_goes_white_however_fast_one_leaves_it(served, branch, visitor, busy_cores):
    chance = random.Random(51)
    tab = visitor.open(f"{served.url}/chat?session={branch.session_id}")
    expect(tab.get_by_role("heading", name="Chat", level=1)).to_be_visible()
    for number in range(CHANGES):
        if number % 4 == 0:
            tab.evaluate(PLAY)
        tab.evaluate(CLICK_LINE, chance.choice(PAGES))
        tab.wait_for_timeout(chance.choice(PAUSES))
        assert tab.get_by_test_id("stApp").count() == 1, f"white after {number + 1} changes"
        assert visitor.faults == []
        if number % 20 == 19:
            expect(tab.locator('.stApp[data-test-script-state="notRunning"]')).to_be_attached()
            expect(tab.get_by_role("heading", level=1)).to_be_visible()
