"""From the list of coding agents' sessions to a lost instruction and the sentence that keeps it, in Chromium."""

import time

import pytest
from app_server import AppServer, healthy, idle, running
from coding_kit import RULE, ClaudeCode, session_that_lost_a_rule
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    return tmp_path_factory.mktemp("claude") / "projects"


@pytest.fixture(scope="module")
def coding(tmp_path_factory, projects):
    """The app as `memory-inspector code` starts it, on one session."""
    home = tmp_path_factory.mktemp("home")
    session_that_lost_a_rule(projects)
    places = {"MEMORY_INSPECTOR_CODE_CLAUDE": str(projects), "MEMORY_INSPECTOR_CODE_CODEX": str(home / "none")}
    yield from running(AppServer("serve.py", home, MEMORY_INSPECTOR_CODE="1", **places))


@pytest.mark.parametrize("width", [1280, 390])
def test_two_clicks_lead_from_the_list_to_the_sentence_to_add(coding, visitor, width):
    tab = visitor.open(coding.url)
    tab.set_viewport_size({"width": width, "height": 900})
    table = tab.locator('[data-testid="stDataFrame"]')
    expect(table).to_be_visible()
    idle(tab)
    table.click(position={"x": 16, "y": 50})
    lost = tab.locator('[class*="st-key-code__statement_0"]')
    expect(lost).to_contain_text(RULE)
    expect(lost).to_contain_text("gone")
    idle(tab)
    lost.get_by_role("button", name="Keep it").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.locator("code")).to_have_text(f"- {RULE}")
    expect(dialog).to_contain_text("CLAUDE.md")
    healthy(tab)


def test_what_the_agent_writes_appears_without_a_reload(coding, visitor, projects):
    name = f"live-{time.time_ns()}"  # another one if the test is tried again
    lines = ClaudeCode().user("Always run the linter.").answer("I will.", prompt=5_000)
    path = lines.write(projects / "-srv-parser" / f"{name}.jsonl")
    tab = visitor.open(f"{coding.url}/?code=Claude%20Code/-srv-parser/{name}")
    expect(tab.get_by_text("No compaction so far.")).to_be_visible()
    written = len(lines.data)
    lines.compact("A summary of nothing.").answer("I go on.", prompt=4_000)
    with path.open("ab") as file:
        file.write(lines.data[written:])
    lost = tab.locator('[class*="st-key-code__statement_0"]')
    expect(lost).to_contain_text("Always run the linter.")
    expect(lost).to_contain_text("gone")
    healthy(tab)


def test_following_a_statement_can_be_undone_by_going_back(coding, visitor):
    tab = visitor.open(f"{coding.url}/?code=Claude%20Code/-srv-parser/11111111-2222-3333-4444-555555555555")
    lost = tab.locator('[class*="st-key-code__statement_0"]')
    expect(lost).to_be_visible()
    idle(tab)
    lost.get_by_role("button", name="Follow").click()
    expect(tab.get_by_text("ot in the last prompt")).to_be_visible()
    expect(tab.get_by_placeholder("never touch the lockfile")).to_have_value(RULE)
    tab.reload()
    expect(tab.get_by_text("ot in the last prompt")).to_be_visible()
    healthy(tab)
