"""Every memory system in Chromium: tried, switched to, looked at, and edited by the agent itself."""

import re

import pytest
from app_server import AppServer, healthy, idle, running
from playwright.sync_api import expect

from memory_core import Database, Memory, Services
from ui.examples import EXAMPLES
from ui.jobs import Job
from ui.turns import play

pytestmark = pytest.mark.browser

expect.set_options(timeout=60_000)

HEADER_PIXELS, ROW_PIXELS = 35, 33
SUMMARY_ROW = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`streamlit run serve.py` on an empty folder."""
    yield from running(AppServer("serve.py", tmp_path_factory.mktemp("recipes")))


def example_session(server, recipe):
    """A session of a recipe in the server's database, its example played."""
    example = EXAMPLES[recipe]
    memory = Memory.from_recipe(
        recipe,
        f"the-{recipe}",
        "ada",
        title=example.title,
        token_limit=example.token_limit,
        database_uri=server.database_url,
        services=Services(),
    )
    memory.attach_recording(example.messages, source="example")
    play(Job("play"), memory, turns=None, pace=0)
    return memory


def test_one_tries_the_recipes_on_a_conversation_and_switches_with_one_click(served, visitor):
    memory = example_session(served, "blocks")
    tab = visitor.open(f"{served.url}/blocks?session={memory.session_id}&view=recipes")
    tab.get_by_role("button", name="Try them on this conversation").click()
    expect(tab.get_by_text("On this conversation", exact=True)).to_be_visible()
    idle(tab)
    table = tab.locator('[data-testid="stDataFrame"]').first
    table.click(position={"x": 110, "y": HEADER_PIXELS + ROW_PIXELS * SUMMARY_ROW + ROW_PIXELS // 2})
    expect(tab.get_by_text(re.compile(r"^Adds.*Summary")).first).to_be_visible()
    expect(tab.get_by_text(re.compile(r"facts stay stored")).first).to_be_visible()
    idle(tab)
    assert memory.blocks[0].kind != "summary"
    tab.get_by_role("button", name="Switch to Summary buffer").click()
    expect(tab.get_by_text("In use.", exact=False).first).to_be_visible()
    idle(tab)
    opened = Memory.open(memory.session_id, Database.open(served.database_url), services=Services())
    assert opened.config.recipe == "summary"
    assert [attached.kind for attached in opened.blocks] == ["summary"]
    healthy(tab)


def test_a_path_of_two_steps_is_found_and_said(served, visitor):
    memory = example_session(served, "graph")
    tab = visitor.open(f"{served.url}/graph?session={memory.session_id}&entity=Alice")
    expect(tab.get_by_text(re.compile(r"entities, \d+ relations, 1 ended"))).to_be_visible()
    idle(tab)
    tab.get_by_role("combobox", name="Path to").click()
    tab.get_by_role("option", name="March 2026").click()
    expect(tab.get_by_text("Alice → manages → Project Alpha → deadline → March 2026: 2 steps.")).to_be_visible()
    idle(tab)
    healthy(tab)


def test_the_agent_edits_its_own_block_before_ones_eyes(served, visitor):
    memory = Memory.from_recipe("self_editing", "notes", database_uri=served.database_url, services=Services())
    tab = visitor.open(f"{served.url}/chat?session=notes")
    idle(tab)
    box = tab.get_by_placeholder("Write a message")
    box.fill("My name is Ada and I live in Porto.")
    box.press("Enter")
    expect(tab.get_by_text(re.compile("Appended to Human")).first).to_be_visible()
    idle(tab)
    tab.get_by_role("link", name="Blocks", exact=True).first.click()
    expect(tab.get_by_text(re.compile("by the agent")).first).to_be_visible()
    idle(tab)
    memory.refresh()
    human = next(attached for attached in memory.blocks if attached.name == "Human")
    assert "Ada" in human.state
    assert memory.block_revisions("Human")[-1].actor == "agent"
    healthy(tab)
