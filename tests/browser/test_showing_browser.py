"""A page that was saved: downloaded by the app, opened from disk without a network, and stepped through."""

import re

import pytest
from app_server import healthy, idle
from playwright.sync_api import expect

from memory_core.tracing.exported_page import page_html
from memory_inspector.palette import PALETTES

pytestmark = pytest.mark.browser

PHRASE = "Rui stays off meat"
WIDTHS = {"laptop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}


class Opened:
    """A file in a browser that has no network, and what it asked for and complained of."""

    def __init__(self, chromium, path, **options):
        self.context = chromium.new_context(offline=True, **options)
        self.tab = self.context.new_page()
        self.requests, self.faults = [], []
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("console", lambda message: self.faults.append(message.text))
        self.address = path.as_uri()
        self.tab.goto(self.address)

    def done(self):
        assert self.requests == [self.address]
        assert self.faults == []
        self.context.close()


def hexadecimal(colour):
    """`rgb(203, 39, 76)` as `#CB274C`."""
    return "#" + "".join(f"{int(part):02X}" for part in re.findall(r"\d+", colour)[:3])


def red(tab, mode):
    """What on the page is drawn in the red of loss: the class of each element."""
    found = tab.evaluate(
        """() => [...document.querySelectorAll("body *")].map((each) => {
            const style = getComputedStyle(each);
            const name = each.className.baseVal ?? each.className;
            return [name, style.color, style.borderTopColor, style.backgroundColor];
        })"""
    )
    wanted = PALETTES[mode].cut
    return {name for name, *colours in found if any(hexadecimal(colour) == wanted for colour in colours) and name}


@pytest.fixture(scope="module")
def saved(served, demo, chromium, tmp_path_factory):
    """The whole demo at turn 12 with a trace in each turn, downloaded by hand: two words are replaced."""
    branch = demo.branch(12, title="Shown")
    context = chromium.new_context(viewport=WIDTHS["laptop"], color_scheme="light")
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    tab.goto(f"{served.url}/trace?session={branch.session_id}&words={PHRASE.replace(' ', '+')}")
    tab.get_by_role("button", name="Save as page").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_text("Whole session")).to_be_visible()
    idle(tab)
    dialog.get_by_text("Whole session").click()
    expect(dialog.get_by_text("12 turns")).to_be_visible()
    words = dialog.get_by_role("textbox", name="Replace words")
    words.fill("Rui = Name1\nwallets = purses")
    dialog.get_by_role("button", name="Make page").click()
    expect(dialog.get_by_text("“wallets” by “purses”")).to_be_visible()
    idle(tab)
    with tab.expect_download() as coming:
        dialog.get_by_role("button", name="Download page").click()
    path = tmp_path_factory.mktemp("saved") / coming.value.suggested_filename
    coming.value.save_as(path)
    healthy(tab)
    context.close()
    return path


def test_the_file_is_named_after_the_session_and_holds_no_word_that_was_replaced(saved):
    assert saved.name == "Shown turns 1-12.html"
    text = saved.read_text(encoding="utf-8")
    for name in ("Rui", "wallets"):
        assert not re.search(rf"(?<!\w){name}(?!\w)", text, re.IGNORECASE), name
    assert "Sam" in text
    assert len(text.encode()) < 200_000


def test_a_word_that_is_typed_last_is_not_in_the_file_of_the_page(served, demo, chromium, tmp_path):
    tab = chromium.new_page()
    tab.goto(f"{served.url}/trace?session={demo.session_id}&words={PHRASE.replace(' ', '+')}")
    tab.get_by_role("button", name="Save as page").click()
    dialog = tab.get_by_role("dialog")
    words = dialog.get_by_role("textbox", name="Replace words")
    expect(words).to_be_visible()
    idle(tab)
    words.press_sequentially("Rui = Name1")
    dialog.get_by_role("button", name="Make page").click()
    with tab.expect_download() as coming:
        dialog.get_by_role("button", name="Download page").click()
    coming.value.save_as(tmp_path / "page.html")
    tab.close()
    assert not re.search(r"\bRui\b", (tmp_path / "page.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_read_without_a_network_turn_by_turn(demo, saved, chromium, mode, width):
    page = Opened(chromium, saved, color_scheme=mode, viewport=WIDTHS[width])
    tab = page.tab
    expect(tab.locator("#turn")).to_have_text("Turn 12 of 12")
    expect(tab.locator(".hero .asked")).to_have_text(re.compile(r"Where did “Name\d+ stays off meat” go\?"))
    expect(tab.locator("h1")).to_have_text(demo.trace(PHRASE, turn=12).sentence)
    expect(tab.locator(".why")).to_contain_text("rule trimmed")
    expect(tab.locator(".why")).to_contain_text("decided here")
    expect(tab.locator(".budget .head")).to_contain_text("1,155 of 1,200 sent")
    expect(tab.locator(".budget")).to_contain_text("Cut: 83 from Earlier turns.")
    expect(tab.locator(".cuts")).to_contain_text("38 too many; 83 removed: piece by piece")
    expect(tab.locator(".cuts .gone p")).to_contain_text("stays off meat these days")
    assert hexadecimal(tab.evaluate("getComputedStyle(document.body).backgroundColor")) == PALETTES[mode].page
    assert red(tab, mode) == {"stage-lost decisive"}
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#turn")).to_have_text("Turn 11 of 12")
    expect(tab.locator("h1")).to_contain_text("In the prompt of turn 11")
    expect(tab.locator(".cuts")).to_have_count(0)
    assert red(tab, mode) == set()
    tab.get_by_role("button", name="Turn before").click()
    expect(tab.locator("#turn")).to_have_text("Turn 10 of 12")
    tab.keyboard.press("Home")
    expect(tab.get_by_role("button", name="Turn before")).to_be_disabled()
    tab.keyboard.press("ArrowRight")
    expect(tab.locator("#turn")).to_have_text("Turn 2 of 12")
    tab.keyboard.press("End")
    tab.get_by_text("Every stage in words").click()
    expect(tab.locator("table")).to_contain_text("trimmed")
    tab.locator(".parts summary", has_text="Earlier turns").click()
    expect(tab.locator(".parts .gone")).to_have_count(1)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.done()


def test_the_appearance_is_switched_by_hand(saved, chromium):
    page = Opened(chromium, saved, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    page.tab.get_by_role("button", name="Dark").click()
    assert hexadecimal(page.tab.evaluate(ground)) == PALETTES["dark"].page
    page.tab.get_by_role("button", name="Light").click()
    assert hexadecimal(page.tab.evaluate(ground)) == PALETTES["light"].page
    page.done()


def test_hostile_words_are_shown_as_words_and_ask_for_nothing(chromium, tmp_path):
    words = [
        "</script><script>document.title = 'taken'</script>",
        "<img src=http://127.0.0.1:9/x onerror=alert(1)><!-- <style>@import 'http://127.0.0.1:9/y'</style>",
        "line\u2028and half \ud83d",
    ]
    said = {
        "turn": 1, "said": [0, 1, 2], "queue": [0, 0], "flushed": 0, "learned": 0, "prompt": None, "trace": None,
    }  # fmt: skip
    entries = [[place, None, 1, "user"] for place in range(3)]
    path = tmp_path / "hostile.html"
    value = {
        "title": 0, "asked": None, "start": 0, "turns": [said], "entries": entries, "stages": [], "texts": words,
        "words": {"stages": {}, "verdicts": {}, "knowledge": {}}, "replaced": 0,
    }  # fmt: skip
    path.write_text(page_html(value), encoding="utf-8")
    page = Opened(chromium, path)
    shown = [each.text_content() for each in page.tab.locator(".said p").all()]
    assert shown == words
    assert page.tab.title() == f"{words[0]} · Memory Inspector"
    assert page.tab.locator("img, iframe, link").count() == 0
    page.done()
