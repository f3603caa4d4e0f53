"""Whole tasks by the keyboard alone, in Chromium: nothing is pointed at, and each stop of the focus is seen."""

import re

import pytest
from app_server import eventually, healthy, idle
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STOP = """() => {
    let at = document.activeElement;
    while (at.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
    const look = (each) => {
        const all = [...each.children];
        for (let up = each; up && all.length < 5 + each.children.length; up = up.parentElement) all.push(up);
        return all.map((up) => {
            const style = getComputedStyle(up);
            return [style.outline, style.boxShadow, style.borderColor, style.backgroundColor].join();
        }).join(";");
    };
    const before = window.stoppedAt;
    window.stoppedAt = { at, look: look(at) };
    // A menu or a dialog holds the focus as it opens, and is seen by that.
    const seen = ["menu", "dialog"].includes(before?.at.role) || before?.at === document.body;
    const told = seen || !before?.at.isConnected || before.at === at || look(before.at) !== before.look;
    const box = at.getBoundingClientRect();
    const inside = box.width > 0 && box.top < innerHeight && box.bottom > 0 && box.left < innerWidth && box.right > 0;
    const name = at === document.body ? "" : at.ariaLabel || at.innerText || at.placeholder || "";
    return { name: name.trim().slice(0, 60), role: at.role ?? at.tagName.toLowerCase(), inside, told };
}"""
"""Return the focused element, whether it is in sight, and whether the one before it looks different without focus."""


class Keys:
    """A page that is used by its keys."""

    def __init__(self, tab):
        self.tab, self.type = tab, tab.keyboard.type
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        tab.wait_for_selector(".goto-waiting", state="attached")  # what hears the keys comes a moment after the page
        idle(tab)

    def press(self, *keys):
        """Press keys one after the other; return role and name of what has the focus then."""
        for key in keys:
            self.tab.keyboard.press(key)
            self.tab.wait_for_timeout(250)  # what fades in is there
        stop = self.tab.evaluate(STOP)
        assert stop["told"], f"the stop before {stop} looked as if it had no focus"
        assert stop["inside"] or not stop["name"], f"{stop} is out of sight"
        return f"{stop['role']} {stop['name']}".strip() if stop["name"] else ""

    def until(self, name, key="Tab", most=60):
        """Press a key until something of this name has the focus."""
        for _ in range(most):
            if re.search(name, found := self.press(key)):
                return found
        raise AssertionError(f"{name} is not reached with {most} times {key}")

    def go_to_fact(self, words):
        """Open a fact from any page."""
        self.press("Control+k")
        self.type(words)
        expect(self.tab.locator(".st-key-goto__found").get_by_role("link", name=f"{words} fact")).to_be_visible()
        idle(self.tab)
        self.until(f"{words}.*fact", "ArrowDown")
        self.press("Enter")
        expect(self.tab).to_have_url(re.compile(r"/facts\?.*fact=\d+"))
        expect(self.tab.locator(".st-key-facts__panel")).to_contain_text(words)
        idle(self.tab)
        self.tab.wait_for_timeout(600)  # it writes its address, and is drawn once more
        idle(self.tab)


@pytest.fixture
def keys(served, branch, visitor_with):
    """The keys of a small laptop that shows the demo's chat at turn 12."""
    return Keys(
        visitor_with(viewport={"width": 1280, "height": 720}).open(f"{served.url}/chat?session={branch.session_id}")
    )


def facts(memory):
    return {fact.id: (fact.text, fact.state) for fact in memory.facts.read("Facts", states=None)}


def test_a_fact_is_found_edited_saved_and_taken_back(branch, keys):
    before, tab = facts(branch), keys.tab
    keys.go_to_fact("The user lives in Porto")
    (id,) = (id for id, (text, _) in before.items() if text == "The user lives in Porto")
    assert keys.press("e") == "textarea Words"
    keys.type(" until the summer")
    assert keys.press("Control+Enter") == "textarea Words"
    expect(tab.locator(".st-key-facts__panel").get_by_text(re.compile(r"Next prompt [+−]\d+ tokens"))).to_be_visible()
    idle(tab)
    assert keys.press("Tab") == "button Save"
    assert keys.press("Enter") == "button Save"
    expect(tab.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    idle(tab)
    assert facts(branch) == {**before, id: ("The user lives in Porto until the summer", "active")}
    assert keys.press("Alt+z") == "button Save"
    expect(tab.get_by_text("Undone.")).to_be_visible()
    idle(tab)
    assert facts(branch) == before
    expect(tab.get_by_role("textbox", name="Words")).to_have_value("The user lives in Porto")
    assert keys.press("Shift+Tab") == "textarea Words"
    healthy(tab)


def test_a_fact_is_rejected_with_its_reason_from_its_menu(branch, keys):
    before, tab = facts(branch), keys.tab
    keys.go_to_fact("The user lives in Porto")
    (id,) = (id for id, (text, _) in before.items() if text == "The user lives in Porto")
    keys.press("e")
    keys.until("More for this fact")
    keys.press("Enter")
    keys.until("Reject", "ArrowDown")
    keys.press("Enter")
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_text("Reject a fact")).to_be_visible()
    idle(tab)
    keys.press("Escape")
    expect(dialog).to_have_count(0)
    assert keys.press("Shift").startswith("button more_horiz")  # where the menu was opened
    keys.press("Enter")
    keys.until("Reject", "ArrowDown")
    keys.press("Enter")
    expect(dialog.get_by_text("Reject a fact")).to_be_visible()
    idle(tab)
    keys.until("Outdated")
    keys.press("Enter")
    expect(dialog).to_have_count(0)
    idle(tab)
    assert facts(branch)[id][1] == "rejected"
    (wrong,) = (fact for fact in branch.facts.read("Facts", states=None) if fact.id == id)
    assert branch.facts.history(wrong)[-1].reason == "outdated"
    keys.press("Alt+z")
    eventually(lambda: facts(branch) == before)
    healthy(tab)


def test_one_goes_through_the_turns_on_the_scrubber_and_watches_a_phrase(served, branch, keys):
    tab = keys.tab
    keys.until("slider Turn")
    for key, turn in (("ArrowLeft", 11), ("ArrowDown", 10), ("Home", 1), ("ArrowUp", 2)):
        keys.press(key)
        expect(tab).to_have_url(re.compile(rf"turn={turn}(&|$)"))
        idle(tab)
        assert keys.press("Shift") == "slider Turn"
    keys.press("End")
    expect(tab).not_to_have_url(re.compile("turn="))
    keys.press("Control+k")
    keys.type("Porto")
    expect(tab.locator(".st-key-goto__found").get_by_role("link", name="Where did it go?").last).to_contain_text(
        "Porto"
    )
    idle(tab)
    keys.until("Where did it go", "ArrowDown")
    keys.press("Enter")
    expect(tab.get_by_role("button", name="Test this")).to_be_visible()
    idle(tab)
    keys.until("Test this")
    keys.press("Enter")
    expect(tab.get_by_role("button", name="Watch it turn by turn")).to_be_visible()
    idle(tab)
    assert "Watch it turn by turn" in keys.press("Tab")
    keys.press("Enter")
    eventually(lambda: branch.trace.watched == ("Porto",))
    expect(tab.locator(".st-key-watched")).to_contain_text("“Porto”")
    idle(tab)
    healthy(tab)
