"""Every memory system in Chromium: tried in the Lab, switched to, looked at, and edited by the agent itself."""

import re

import pytest
from app_server import behind, healthy, idle
from pages_driver import numbers
from playwright.sync_api import expect
from sqlalchemy import func, select

from memory_core import Database, Memory, Services
from memory_core.recipes import RECIPES
from memory_core.store.tables import fact_table, vector_table
from memory_inspector.demo.conversations import EXAMPLES
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job

pytestmark = pytest.mark.browser

HEADER_PIXELS, ROW_PIXELS = 35, 61


def example_session(server, recipe, session_id=None, *, example=None):
    """A session of a recipe in the server's database, its example played; or that of another recipe."""
    example = EXAMPLES[example or recipe]
    memory = Memory.from_recipe(
        recipe,
        session_id or f"the-{recipe}",
        "ada",
        title=example.title,
        token_limit=example.token_limit,
        database=behind(server).database,
        services=Services(),
    )
    memory.session.attach_recording(example.messages, source="example")
    play(Job("play"), memory, turns=None, pace=0)
    return memory


# -- task i: the recipes tried, one switched to, and a path in what it learned ---------------------


def drawn(tab, name, column):
    """A whole number of a configuration in the Lab's table: what it has for those who hear it."""
    table = tab.locator('[data-testid="stDataFrame"]').filter(has=tab.locator("th", has_text="Calls to learn")).first
    expect(table.locator("th").filter(has_text=column)).to_be_attached()
    heads = table.locator("th").all_text_contents()
    row = table.locator("tr").filter(has=tab.locator("td", has_text=re.compile(f"^{name}$"))).first
    return numbers(row.locator("td").nth(heads.index(column)).text_content())[0]


def rows_of(table, session_id, server):
    """How many rows of a table the database holds for a session, whether or not a block shows them."""
    own = table.c.scope.contains(session_id) if "scope" in table.c else table.c.session_id == session_id
    with Database.open(server.database_url).read() as connection:
        return connection.execute(select(func.count()).select_from(table).where(own)).scalar_one()


def average_prompt(memory):
    """Tokens of a turn's last prompt, on average."""
    turns = memory.log.history().turns.values()
    return round(sum(turn.built.event.total for turn in turns) / len(turns))


def test_i_recipes_are_tried_as_they_then_run_and_the_switch_keeps_and_drops_what_it_said(served, visitor):
    memory = example_session(served, "blocks", "tried", example="graph")
    alone = example_session(served, "graph", "never-switched")
    facts, turns = rows_of(fact_table, "tried", served), rows_of(vector_table, "tried", served)
    left = memory.session.status().archived_messages
    assert min(facts, turns, left) > 0
    tab = visitor.open(f"{served.url}/blocks?session=tried&view=recipes")
    idle(tab)
    row = list(RECIPES).index("graph")
    tab.locator('[data-testid="stDataFrame"]').first.click(
        position={"x": 110, "y": HEADER_PIXELS + ROW_PIXELS * row + ROW_PIXELS // 2}
    )
    tab.get_by_role("button", name="Try it in the Lab").click()
    expect(tab.get_by_text("The prompts first differ in turn")).to_be_visible()
    idle(tab)
    for name, played in (("A", memory), ("B", alone)):
        assert drawn(tab, name, "Tokens a turn") == average_prompt(played)
    tab.get_by_role("link", name="Switch the recipe on Blocks").click()
    expect(tab.get_by_role("button", name="Switch to Knowledge graph")).to_be_visible()
    idle(tab)
    tab.get_by_role("button", name="Switch to Knowledge graph").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_text("This cannot be undone")).to_be_visible()
    idle(tab)
    said = dialog.inner_text()
    assert [int(n) for n in re.findall(r"its (\d+) facts stay stored", said)] == [facts]
    assert [int(n) for n in re.findall(r"its (\d+) stored \w+ are deleted;", said)] == [turns]
    assert [int(n) for n in re.findall(r"filled from (\d+) messages", said)] == [left]
    assert runs_on(memory, served)[0] == "blocks", "nothing is done before it is said"
    dialog.get_by_role("button", name="Switch to Knowledge graph").click()
    expect(tab.get_by_text("In use.", exact=False).first).to_be_visible()
    idle(tab)
    after = Memory.open("tried", Database.open(served.database_url), services=Services())
    after.deliver()
    assert runs_on(memory, served) == ("graph", ["Relations"])
    assert rows_of(fact_table, "tried", served) == facts
    assert rows_of(vector_table, "tried", served) == 0
    tab.goto(f"{served.url}/graph?session=tried&entity=Alice")
    tab.get_by_role("combobox", name="Path to").click()
    tab.get_by_role("option", name="March 2026").click()
    expect(tab.get_by_text("Alice → manages → Project Alpha → deadline → March 2026: 2 steps.")).to_be_visible()
    idle(tab)
    healthy(tab)


def runs_on(memory, server):
    """The recipe and the blocks that the database has for the session."""
    stored = Memory.open(memory.session_id, Database.open(server.database_url), services=Services())
    return stored.session.config.recipe, [attached.name for attached in stored.blocks]


def test_a_link_to_a_recipe_opens_it_in_a_new_tab_and_after_a_reload_and_on_the_way_back(served, visitor):
    memory = example_session(served, "blocks", "linked")
    switch = "Switch to Summary buffer"
    tab = visitor.open(f"{served.url}/blocks?session={memory.session_id}&view=recipes&recipe=summary")
    expect(tab.get_by_role("button", name=switch)).to_be_visible()
    idle(tab)
    expect(tab.get_by_role("button", name=switch)).to_be_visible()
    tab.reload()
    expect(tab.get_by_role("button", name=switch)).to_be_visible()
    idle(tab)
    tab.goto(f"{served.url}/blocks?session={memory.session_id}&view=recipes&recipe=vector")
    expect(tab.get_by_role("button", name="Switch to Vector memory")).to_be_visible()
    idle(tab)
    tab.go_back()
    expect(tab.get_by_role("button", name=switch)).to_be_visible()
    idle(tab)
    expect(tab).to_have_url(re.compile("recipe=summary"))
    healthy(tab)


@pytest.mark.parametrize("milliseconds", [0, 60, 400])
def test_a_tab_that_is_closed_during_a_switch_leaves_the_whole_of_it_or_nothing(served, visitor, milliseconds):
    memory = example_session(served, "blocks", f"closed-{milliseconds}")
    before = runs_on(memory, served)
    address = f"{served.url}/blocks?session={memory.session_id}&view=recipes&recipe=summary"
    tab = visitor.open(address)
    tab.get_by_role("button", name="Switch to Summary buffer").click()
    expect(tab.get_by_role("dialog").get_by_text("This cannot be undone")).to_be_visible()
    idle(tab)
    tab.get_by_role("dialog").get_by_role("button", name="Switch to Summary buffer").click(no_wait_after=True)
    tab.wait_for_timeout(milliseconds)
    tab.close()
    tab = visitor.open(address)
    says = tab.get_by_text(re.compile("^This session runs on "))
    expect(says).to_be_visible()
    idle(tab)
    now = runs_on(memory, served)
    if now == before:  # the click did not reach the server before the tab was gone
        expect(says).to_contain_text("Short-term + blocks: 2 blocks")
        expect(tab.get_by_role("button", name="Switch to Summary buffer")).to_be_visible()
    else:
        assert now == ("summary", ["Summary"])
        expect(says).to_contain_text("Summary buffer: 1 block")
        expect(tab.get_by_text("In use.", exact=False).first).to_be_visible()
        stored = Memory.open(memory.session_id, Database.open(served.database_url), services=Services())
        stored.deliver()
        assert stored.session.deliveries(states=("pending", "parked")) == []
        assert stored.blocks[0].state
    healthy(tab)


def test_the_agent_edits_its_own_block_before_ones_eyes(served, visitor):
    memory = Memory.from_recipe("self_editing", "notes", database=behind(served).database, services=Services())
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
    memory.session.refresh()
    human = next(attached for attached in memory.blocks if attached.name == "Human")
    assert "Ada" in human.state
    assert memory.blocks.revisions("Human")[-1].actor == "agent"
    healthy(tab)
