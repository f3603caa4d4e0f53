"""From a word of a prompt, and from an event of Timeline, to who said it and what became of it, in Chromium."""

import re

import pytest
from app_server import healthy, idle
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

NUTS = "Careful with dessert, Ana is allergic to nuts and it is serious."

PLACE_OF = """([place, word]) => {
    const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const at = walker.currentNode.data.indexOf(word);
        if (at < 0) continue;
        const range = document.createRange();
        range.setStart(walker.currentNode, at);
        range.setEnd(walker.currentNode, at + word.length);
        const box = range.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
    }
}"""


def context(served, visitor, session, part):
    """Context of turn 12 with one part of its prompt open."""
    tab = visitor.open(f"{served.url}/context?session={session}&turn=12")
    expect(tab.get_by_text("Click a word to trace it")).to_be_visible()
    idle(tab)
    opener = tab.locator('[data-testid="stExpander"]', has_text=part).first
    if opener.locator("details[open]").count() == 0:
        opener.locator("summary").click()
    expect(opener.locator('[class*="st-key-context__said_"]').first).to_be_visible()
    idle(tab)
    return tab


def test_a_click_on_a_word_of_a_prompt_says_who_said_it_and_in_which_turn(served, demo, visitor):
    tab = context(served, visitor, "demo", "Earlier turns")
    place = tab.locator('[class*="st-key-context__said_"]', has_text=NUTS).last
    place.scroll_into_view_if_needed()
    tab.mouse.click(*tab.evaluate(PLACE_OF, [place.element_handle(), "nuts"]))
    expect(tab.get_by_role("heading", name="In the prompt of turn 12, ")).to_be_visible()
    expect(tab.get_by_text("Said by the user in turn 2.")).to_be_visible()
    expect(tab.locator(".stMarkdownColoredBackground")).to_have_text("nuts")
    tab.get_by_text(re.compile(r"^\d+ other cop(y|ies)$")).click()
    expect(tab.get_by_text("Fact 4 of Facts", exact=True)).to_be_visible()
    expect(tab).to_have_url(re.compile(r"turn=12.*follow=v2.*word=nuts"))
    healthy(tab)


def test_a_sentence_is_chosen_and_followed_with_the_keyboard_alone(served, demo, visitor):
    tab = context(served, visitor, "demo", "Facts")
    tab.locator(
        '[class*="st-key-context__said_"]', has_text="Ana is allergic to nuts"
    ).first.scroll_into_view_if_needed()
    tab.keyboard.press("f")
    chosen = tab.locator("button.follow-words:focus")
    for _ in range(40):
        if "Ana is allergic to nuts”" in (chosen.get_attribute("aria-label") or ""):
            break
        tab.keyboard.press("ArrowDown")
    expect(chosen).to_have_attribute("aria-label", re.compile("^Follow: “Ana is allergic to nuts”"))
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("Said by the user in turn 2.")).to_be_visible()
    expect(tab).to_have_url(re.compile("follow=f4"))
    healthy(tab)


def test_from_an_event_of_timeline_to_the_trace_of_its_cut(served, demo, visitor):
    position = demo.log.history().turns[12].built.position
    tab = visitor.open(f"{served.url}/timeline?session=demo&event={position}")
    tab.get_by_role("dialog").get_by_role("button", name="Follow this cut").click()
    cut = "Cut in turn 12: the prompt was 38 tokens over, and Earlier turns is cut first."
    expect(tab.get_by_role("heading", name=cut)).to_be_visible()
    expect(tab.get_by_text("Said by the user and the assistant in turn 4.").first).to_be_visible()
    expect(tab).to_have_url(re.compile(rf"follow=x{position}\.1"))
    idle(tab)
    tab.get_by_role("button", name="Follow", exact=True).click()
    expect(tab.get_by_role("heading", name="What would bring it into the next prompt")).to_be_visible()
    healthy(tab)
