"""What a new user came for, in Chromium and from an empty folder, without reading anything first."""

import re
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from app_server import behind, healthy, idle, opened, said
from pages_driver import numbers
from playwright.sync_api import expect

from memory_core import (
    ChatMessage,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.planning import curation as wish
from memory_inspector.server.engine import new_memory
from ui.tab.nav import title

pytestmark = pytest.mark.browser

NASTY = "<img src=http://evil.test/b.png> ![x](http://evil.test/a.png) **bold** $x$ :material/home: http://evil.test/f"
HEADER_PIXELS, ROW_PIXELS = 35, 33
"""Of a table: it is drawn on a canvas, so rows are clicked by place."""


def go(tab, name):
    """Follow a line of the menu."""
    tab.get_by_role("link", name=name, exact=True).first.click()
    expect(tab.get_by_role("heading", name=name, level=1)).to_be_visible()
    idle(tab)


def click_row(tab, number, *, table=0):
    """Click the words of a table's row, the first being 0."""
    drawn = tab.locator('[data-testid="stDataFrame"]').nth(table)
    expect(drawn).to_be_visible()
    drawn.click(position={"x": 110, "y": HEADER_PIXELS + ROW_PIXELS * number + ROW_PIXELS // 2})
    idle(tab)


def test_one_finds_out_why_a_block_was_cut_at_turn_12(served, visitor):
    tab = visitor.open(served.url)
    tab.locator(".st-key-chat__next button").click()
    expect(tab.get_by_text("24 of 36")).to_be_visible()
    idle(tab)
    tab.get_by_role("link", name="See what was cut").click()
    expect(
        tab.get_by_text("Parts asked for 1,238, 38 over the limit, so 83 were cut from Earlier turns.")
    ).to_be_visible()
    expect(tab.get_by_text("asked 393, granted 310")).to_be_visible()
    expect(tab.get_by_text(re.compile(r"lowest score first: turn 4 \(0\.3\d\), 83 tokens"))).to_be_visible()
    idle(tab)
    tab.locator('[data-testid="stExpander"]').filter(has_text="Earlier turns").first.click()
    struck = tab.locator("del").filter(has_text="Rui stays off meat these days")
    expect(struck.first).to_be_visible()
    idle(tab)
    newest = list(opened(served, "demo").events(kinds=("context_built",)))[-1]
    cut = [(each["part"], each["tokens"]) for each in newest.event.cuts]
    assert (newest.turn, cut) == (12, [("Earlier turns", 83)]), "what the page says is what the log holds"
    healthy(tab)


def test_one_finds_what_the_retriever_missed_and_why(served, branch, visitor):
    tab = visitor.open(f"{served.url}/retrieval?session={branch.session_id}&query=Does+Rui+eat+meat%3F")
    expect(tab.get_by_text("None scored 0.31 or more")).to_be_visible()
    idle(tab)
    tab.get_by_placeholder(re.compile("Did it miss something")).fill("stays off meat")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text(re.compile(r"0\.2\d.*0\.31")).first).to_be_visible()
    idle(tab)
    tab.locator(".st-key-retrieval__fix").get_by_role("button", name=re.compile("Lower the threshold")).click()
    idle(tab)
    expect(tab.get_by_text(re.compile("turn 4 is")).first).to_be_visible()
    effect = tab.locator("p").filter(has_text="Counted with this question as the next message.").last
    expect(effect).to_be_visible()
    idle(tab)
    foretold = numbers(effect.inner_text())[1]  # Next prompt: so many, then so many
    tab.locator(".st-key-retrieval__apply").get_by_role("button").first.click()
    expect(tab.get_by_text("These are the stored settings.").first).to_be_visible()
    idle(tab)
    branch.session.refresh()
    settings = {attached.name: attached.record.settings for attached in branch.blocks}["Earlier turns"]
    assert settings["similarity_threshold"] < 0.31
    branch.put(ChatMessage(role="user", content="Does Rui eat meat?"))
    built = branch.build_context()
    assert built.plan.total == foretold
    assert any("stays off meat" in str(message.content) for message in built.messages)
    healthy(tab)


def test_a_session_is_replayed_to_turn_8_and_goes_on_from_there(served, visitor):
    tab = visitor.open(f"{served.url}/timeline?session=demo")
    expect(tab.get_by_text("Tokens by turn")).to_be_visible()
    idle(tab)
    tab.locator(".st-key-turn input").fill("Turn 8")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("You are looking at")).to_be_visible()
    for page in ("Context", "Blocks", "Facts", "Retrieval", "Chat"):
        go(tab, page)
        expect(tab.get_by_text("read only")).to_be_visible()
        healthy(tab)
    then = tab.get_by_text(re.compile(r"^Queue then \d+"))
    expect(then).to_be_visible()
    queue = numbers(then.inner_text())[0]
    assert tab.get_by_role("button", name="Next message").count() == 0
    untouched = said(served, "demo")
    tab.get_by_role("button", name="Branch from here").click()
    tab.locator(".st-key-branch__go button").click()
    expect(tab.get_by_text("16 of 36")).to_be_visible()
    idle(tab)
    branch = opened(served, parse_qs(urlsplit(tab.url).query)["session"][0])
    assert (branch.session.status().turns, branch.session.status().queue_tokens) == (8, queue), (
        "as the page told of turn 8"
    )
    tab.get_by_role("button", name="Next message").click()
    expect(tab.get_by_text("18 of 36")).to_be_visible()
    idle(tab)
    healthy(tab)
    assert said(served, "demo") == untouched


def test_the_second_of_two_tabs_is_told_and_loses_nothing(served, branch, visitor):
    fact = branch.facts.read("Facts")[0]
    address = f"{served.url}/facts?session={branch.session_id}&fact={fact.id}"
    first, second = visitor.open(address), visitor.open(address)
    for tab in (first, second):
        expect(tab.locator(".st-key-facts__panel textarea")).to_have_value(fact.text)
        idle(tab)
    for tab, words in ((first, "Written first"), (second, "Written second")):
        box = tab.locator(".st-key-facts__panel textarea")
        box.fill(words)  # both before either saves: a page follows what others write while nothing is typed in it
        box.press("Control+Enter")
        idle(tab)
    for tab in (first, second):
        tab.locator(".st-key-facts__save button").click()
        idle(tab)
    expect(second.get_by_text(re.compile("was changed elsewhere")).first).to_be_visible()
    expect(second.locator(".st-key-facts__panel textarea")).to_have_value("Written second")
    assert branch.facts.read("Facts")[0].text == "Written first"
    healthy(first)
    healthy(second)


PAGES = ("chat", "context", "timeline", "blocks", "facts", "retrieval", "trace", "lab", "sessions")
UNLISTED = ("trace", "lab", "sessions")
"""Opened by their addresses, for which the browser loads everything again; to the others leads the menu."""


@pytest.fixture(scope="module")
def hostile(served):
    """A session in which every name and every text is markup."""
    memory = new_memory(behind(served), title=NASTY[:79], token_limit=400)
    memory.blocks.add(StaticMemoryBlock(name="![x](http://evil.test/n.png) $x$", static_content=NASTY, priority=3))
    memory.blocks.add(VectorMemoryBlock(name=":material/home: **b**", priority=4))
    desk = memory.facts.desk("Facts")
    desk.apply(wish.add(NASTY))
    for number in range(12):
        memory.put(ChatMessage(role="user" if number % 2 == 0 else "assistant", content=f"{number} {NASTY} " * 2))
        if number % 2 == 0:
            memory.build_context()
    memory.trace.watch(NASTY)
    return memory.session_id


@pytest.mark.parametrize(("theme", "turn"), [("light", ""), ("dark", "&turn=3")], ids=["now", "then"])
def test_every_page_shows_markup_as_text_and_no_width_scrolls_sideways(served, hostile, visitor_with, theme, turn):
    visitor = visitor_with(color_scheme=theme)
    tab = visitor.open(f"{served.url}/chat?session={hostile}{turn}")
    for page in PAGES:
        if page in UNLISTED:
            words = f"&words={quote(NASTY)}" if page == "trace" else ""
            tab.goto(f"{served.url}/{page}?session={hostile}{turn}{words}")
            expect(tab.get_by_role("heading", name=title(page), level=1)).to_be_visible()
            idle(tab)
        else:
            go(tab, title(page))
        for width in (390, 1081, 1280):
            tab.set_viewport_size({"width": width, "height": 800})
            tab.wait_for_timeout(200)
            main = tab.locator('[data-testid="stMain"]').first
            for _ in range(60):  # a table is as wide as the window was until its own script has measured again
                wide = tab.evaluate("document.documentElement.scrollWidth") - width
                wider = main.evaluate("e => e.scrollWidth - e.clientWidth")
                if max(wide, wider) <= 0:
                    break
                tab.wait_for_timeout(50)
            assert max(wide, wider) <= 0, (page, width, wide, wider)
        assert tab.locator("[data-testid=stMain] img, iframe").count() == 0
        healthy(tab)
    assert not [url for url in visitor.requests if "evil" in str(urlsplit(url).hostname)]


CUT = """() => [...document.querySelectorAll('[data-testid="stMain"] [data-testid="stPageLink-NavLink"] p')]
    .filter(each => each.offsetParent && each.scrollWidth > each.clientWidth + 1)
    .map(each => getComputedStyle(each).textOverflow)"""


def test_a_link_that_is_too_long_ends_in_an_ellipsis_and_wraps_on_a_phone(served, branch, visitor):
    tab = visitor.open(f"{served.url}/trace?session={branch.session_id}")
    tab.set_viewport_size({"width": 390, "height": 844})
    expect(tab.locator('[data-testid="stMain"] [data-testid="stPageLink-NavLink"]').first).to_be_visible()
    idle(tab)
    assert tab.evaluate(CUT) == []
    tab.goto(f"{served.url}/blocks?session={branch.session_id}")
    expect(tab.get_by_text("Not in this prompt")).to_be_visible()
    tab.set_viewport_size({"width": 760, "height": 800})
    idle(tab)
    end = time.monotonic() + 20
    while not (cut := tab.evaluate(CUT)) and time.monotonic() < end:  # the columns move for a while
        tab.wait_for_timeout(100)
    assert set(cut) == {"ellipsis"}


def test_on_a_phone_no_button_of_facts_is_cut_and_no_toolbar_lies_on_the_table(served, demo, visitor):
    tab = visitor.open(f"{served.url}/facts?session={demo.session_id}")
    tab.set_viewport_size({"width": 390, "height": 844})
    expect(tab.get_by_role("button", name="Undo")).to_be_visible()
    idle(tab)
    row = tab.locator(".st-key-facts__head").bounding_box()
    for button in tab.locator(".st-key-facts__head button:visible").all():
        box = button.bounding_box()
        assert box["x"] >= row["x"] - 1
        assert box["x"] + box["width"] <= row["x"] + row["width"] + 1
    assert tab.locator('[data-testid="stElementToolbar"]:visible').count() == 0
