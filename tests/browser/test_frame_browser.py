"""The frame around every page in Chromium: names of tabs, addresses of links, keys, heights and focus."""

import re
from itertools import pairwise

import pytest
from app_server import behind, healthy, idle, opened
from playwright.sync_api import expect

from memory_inspector.demo.conversations import MESSAGES
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import recorded_session
from memory_inspector.server.jobs import Job
from memory_inspector.wording.prompt_text import as_text

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def spoken(served):
    """A session of six turns that is not the one the app opens on."""
    memory = recorded_session(behind(served), MESSAGES, title="Six *turns*")
    play(Job("play"), memory, turns=6, pace=0)
    return memory.session_id


def at(server, page, session, **query):
    more = "".join(f"&{name}={value}" for name, value in query.items())
    return f"{server.url}/{page}?session={session}{more}"


def shown(tab, page):
    expect(tab.get_by_role("heading", name=page, level=1)).to_be_visible()
    idle(tab)
    tab.wait_for_timeout(600)  # a page may draw itself once more, with what it wrote into the address
    idle(tab)
    healthy(tab)


def line(tab, name):
    """A line of the menu."""
    return tab.locator(".st-key-menu").get_by_role("link", name=name, exact=True)


def test_every_tab_has_its_own_name(served, spoken, visitor):
    tab = visitor.open(at(served, "context", spoken, turn=3))
    expect(tab).to_have_title("Context, turn 3 · Six *turns* · Memory Inspector")
    line(tab, "Facts").click()
    expect(tab).to_have_title("Facts, turn 3 · Six *turns* · Memory Inspector")
    idle(tab)  # a button that is drawn anew under the pointer is let go
    tab.get_by_role("button", name="Back to latest").click()
    expect(tab).to_have_title("Facts · Six *turns* · Memory Inspector")
    tab.get_by_role("link", name="All sessions").click()
    expect(tab).to_have_title("Sessions · Memory Inspector")


def test_the_menu_keeps_the_session_and_the_turn_in_this_tab_and_in_a_new_one(served, spoken, visitor):
    tab = visitor.open(at(served, "context", spoken, turn=3))
    shown(tab, "Context")
    for name in ("Chat", "Context", "Timeline", "Blocks", "Facts", "Retrieval"):
        assert line(tab, name).evaluate("a => a.href") == at(served, name.lower(), spoken, turn=3)
    # Not by a click with Control: such a tab of a headless browser sometimes never begins to load.
    other = tab.context.new_page()
    other.goto(line(tab, "Timeline").evaluate("a => a.href"))
    shown(other, "Timeline")
    expect(other.get_by_role("button", name="Back to latest")).to_be_visible()
    assert f"session={spoken}" in other.url
    for name in ("Retrieval", "Chat"):
        line(tab, name).click()
        shown(tab, name)
        expect(tab.get_by_role("button", name="Back to latest")).to_be_visible()
        expect(tab).to_have_url(re.compile(rf"/{name.lower()}\?.*session={spoken}.*turn=3"))


def test_each_of_two_quick_clicks_on_the_arrow_is_a_turn_and_back_takes_it_back(served, spoken, visitor):
    def at_turn(number):
        expect(tab).to_have_title(re.compile(f"^Context, turn {number} "))
        expect(tab).to_have_url(re.compile(f"turn={number}(&|$)"))
        shown(tab, "Context")
        expect(turn).to_have_value(f"Turn {number}")

    tab = visitor.open(at(served, "context", spoken))
    shown(tab, "Context")
    back, turn = tab.get_by_role("button", name="One turn back"), tab.locator(".st-key-turn input")
    for _ in range(2):
        back.click()
        tab.wait_for_timeout(120)  # a person's double click
    at_turn(4)
    back.click()
    at_turn(3)
    tab.go_back()
    at_turn(4)
    tab.go_forward()
    at_turn(3)


def test_the_first_line_of_the_menu_leads_to_the_chat_from_everywhere(served, visitor):
    tab = visitor.open(served.url)
    shown(tab, "Chat")
    line(tab, "Context").click()
    shown(tab, "Context")
    line(tab, "Chat").click()
    shown(tab, "Chat")
    tab.go_back()
    shown(tab, "Context")


def go_to(tab, words):
    idle(tab)
    field = tab.locator(".st-key-goto__words input")
    for _ in range(10):  # the script that hears keys comes a moment after the page it is for
        tab.keyboard.press("Control+k")
        tab.wait_for_timeout(1_500)
        if field.count():
            break
    expect(field).to_be_focused()
    idle(tab)
    tab.keyboard.type(words)


def test_one_goes_to_a_turn_by_its_number_and_to_what_was_said_by_its_words(served, spoken, visitor):
    tab = visitor.open(at(served, "facts", spoken))
    shown(tab, "Facts")
    go_to(tab, "turn 3")
    tab.keyboard.press("Enter")
    shown(tab, "Chat")
    expect(tab).to_have_url(re.compile(rf"session={spoken}&turn=3"))
    expect(tab.get_by_role("dialog")).to_have_count(0)
    go_to(tab, "allergic nuts")
    line_found = tab.locator(".st-key-goto__found").get_by_role("link", name=re.compile("Careful with dessert"))
    expect(line_found).to_be_visible()
    idle(tab)
    while not line_found.evaluate("a => a === document.activeElement"):
        tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Enter")
    expect(tab).to_have_url(re.compile(rf"/chat\?session={spoken}&turn=2"))
    idle(tab)
    healthy(tab)


@pytest.mark.parametrize("words", ["Nina", "Teresa", "turn 12"])
def test_what_is_typed_at_once_after_the_key_is_looked_for_and_does_nothing_else(served, branch, visitor, words):
    tab = visitor.open(at(served, "chat", branch.session_id))
    shown(tab, "Chat")
    expect(tab.get_by_role("button", name="Next message")).to_be_enabled()
    idle(tab)
    tab.wait_for_selector(".goto-waiting", state="attached")  # what hears the keys is there a moment after the page
    before = branch.session.status().position
    tab.keyboard.press("Control+k")
    tab.keyboard.type(words)
    expect(tab.locator(".st-key-goto__words input")).to_have_value(words)
    expect(tab.locator(".goto-waiting")).to_be_hidden()
    tab.keyboard.type(" and more")
    expect(tab.locator(".st-key-goto__words input")).to_have_value(f"{words} and more")
    idle(tab)
    assert branch.session.status().position == before, "no letter was a shortcut"
    healthy(tab)


def pressed_at_once(tab, words, key):
    """Type words and press a key right behind that of Go to, whose dialog takes a while."""
    idle(tab)
    tab.wait_for_selector(".goto-waiting", state="attached")
    tab.keyboard.press("Control+k")
    tab.keyboard.type(words)
    tab.keyboard.press(key)


def test_enter_before_the_dialog_is_there_goes_to_what_was_typed(served, spoken, visitor):
    tab = visitor.open(at(served, "facts", spoken))
    shown(tab, "Facts")
    pressed_at_once(tab, "turn 3", "Enter")
    shown(tab, "Chat")
    expect(tab).to_have_url(re.compile(rf"session={spoken}&turn=3"))
    healthy(tab)


def test_escape_before_the_dialog_is_there_leaves_it_closed(served, spoken, visitor):
    tab = visitor.open(at(served, "facts", spoken))
    shown(tab, "Facts")
    pressed_at_once(tab, "", "Escape")
    tab.wait_for_timeout(1_500)
    expect(tab.get_by_role("dialog")).to_have_count(0)
    healthy(tab)


def test_one_goes_to_another_session_and_back(served, spoken, visitor):
    tab = visitor.open(at(served, "context", spoken))
    shown(tab, "Context")
    go_to(tab, "birthday")
    tab.locator(".st-key-goto__found").get_by_role("link", name=re.compile("Birthday dinner")).click()
    expect(tab).to_have_title("Chat · Birthday dinner · Memory Inspector")
    idle(tab)
    tab.go_back()
    expect(tab).to_have_title("Context · Six *turns* · Memory Inspector")


def test_the_keys_are_told_and_do_nothing_while_one_writes(served, visitor):
    tab = visitor.open(at(served, "facts", "demo"))
    expect(tab.get_by_placeholder("Search facts")).to_be_visible()
    shown(tab, "Facts")
    tab.keyboard.press("/")
    field = tab.get_by_placeholder("Search facts")
    expect(field).to_be_focused()
    tab.keyboard.type("a/b?")
    expect(field).to_have_value("a/b?")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    field.fill("")
    tab.keyboard.press("Enter")
    idle(tab)
    tab.get_by_role("heading", name="Facts", level=1).click()
    tab.keyboard.press("?")
    expect(tab.get_by_role("dialog").get_by_text("Go to anything (⌘K on a Mac)")).to_be_visible()
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    idle(tab)
    healthy(tab)


OUTLINES = {
    "chat": ["1 Chat", "2 Conversation", "2 Token budget of turn 6", "2 What memory did in turn 6"],
    "context": ["1 Context", "2 Requested and sent", "2 Cuts", "2 Prompt"],
    "timeline": ["1 Timeline", "2 Tokens by turn", "2 What became of the messages", "2 Events"],
    "blocks": ["1 Blocks", "2 ■ Instructions", "2 ■ Facts", "2 ■ Earlier turns"],
    "facts": ["1 Facts"],
    "retrieval": ["1 Retrieval"],
    "sessions": ["1 Sessions", "2 List of sessions", "2 Health"],
}
"""By page: level and beginning of each heading."""


def test_sections_are_headings_and_no_level_is_skipped(served, spoken, visitor):
    tab = visitor.open(at(served, "chat", spoken))
    for page, outline in OUTLINES.items():
        if page == "sessions":
            tab.get_by_role("link", name="All sessions").click()
        elif page != "chat":
            line(tab, page.capitalize()).click()
        shown(tab, page.capitalize())
        found = tab.locator("h1, h2, h3, h4, h5, h6").evaluate_all(
            "all => all.map(each => `${each.tagName[1]} ${each.textContent.trim()}`.replaceAll('\u00a0', ' '))"
        )
        for expected in outline:
            assert any(each.startswith(expected) for each in found), (page, found)
        levels = [int(each[0]) for each in found]
        assert levels[0] == 1, page
        assert levels.count(1) == 1, page
        assert all(after <= before + 1 for before, after in pairwise(levels)), page


def test_messages_and_the_raw_prompt_are_copied_by_pointer_and_by_keyboard(served, spoken, visitor):
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=served.url)
    tab = visitor.open(at(served, "chat", spoken))
    shown(tab, "Chat")
    said = [message.content for message in MESSAGES[:12]]

    def clipboard():
        return tab.evaluate("navigator.clipboard.readText()")

    copy = tab.locator(".copy-message")
    tab.get_by_test_id("stChatMessage").last.hover()
    copy.click()
    expect(copy).to_have_text("Copied")
    assert clipboard() == said[-1]
    tab.get_by_role("heading", level=1).click()
    tab.keyboard.press("y")
    expect(copy).to_be_focused()
    tab.keyboard.press("ArrowUp")
    expect(copy).to_have_text("Copy")
    expect(copy).to_be_focused()
    tab.wait_for_timeout(200)
    tab.keyboard.press("Enter")
    expect(copy).to_have_text("Copied")
    assert clipboard() == said[-2]
    tab.keyboard.press("Escape")
    expect(copy).to_be_hidden()

    line(tab, "Context").click()
    shown(tab, "Context")
    tab.get_by_text("Raw prompt").click()
    code = tab.get_by_test_id("stCode").last
    code.hover()
    code.get_by_role("button").click()
    expect(code).to_contain_text(said[-2][:40])
    memory = opened(served, spoken)
    assert clipboard().strip() == as_text(memory.log.prompt(memory.log.history().turns[6].built)).strip()


@pytest.mark.parametrize("page", ["Context", "Facts"])
@pytest.mark.parametrize("pause", [0, 100, 400])
def test_a_page_left_and_come_back_to_while_a_turn_is_played_is_drawn_whole(served, branch, visitor, page, pause):
    """The page between has begun, and with it all elements are gone, but it may not have been drawn."""
    tab = visitor.open(at(served, "chat", branch.session_id))
    shown(tab, "Chat")
    idle(tab)
    for _ in range(3):
        tab.get_by_role("button", name="Next message").click()
        # At once, without waiting until the line stands still.
        line(tab, page).evaluate("link => link.click()")
        tab.wait_for_timeout(pause)
        line(tab, "Chat").evaluate("link => link.click()")
        shown(tab, "Chat")
        expect(tab.get_by_test_id("stChatMessage").last).to_be_visible()
        expect(tab.get_by_role("button", name="Next message")).to_be_enabled()
        idle(tab)
        healthy(tab)


def test_tab_goes_from_field_to_field_in_the_settings(served, spoken, visitor):
    tab = visitor.open(at(served, "chat", spoken))
    idle(tab)
    tab.locator(".st-key-frame__settings button").first.click()
    dialog = tab.get_by_role("dialog")
    limit = dialog.get_by_label("Token limit", exact=True)
    expect(limit).to_be_visible()
    idle(tab)
    limit.focus()
    tab.keyboard.press("Tab")
    expect(dialog.get_by_label("History share, %", exact=True)).to_be_focused()
    healthy(tab)
