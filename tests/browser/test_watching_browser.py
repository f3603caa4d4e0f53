"""Watching a conversation go by in Chromium: one clock for all numbers, an input that is always there, a scrubber."""

import re
import threading
import time

import pytest
from app_server import behind, chat, eventually, healthy, idle, said, slow_reply
from models.scripted_server import Step, chunk
from playwright.sync_api import expect

from memory_inspector.demo.conversations import MESSAGES
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory, recorded_session
from memory_inspector.server.jobs import Job
from ui.frame.header import steps_of

pytestmark = pytest.mark.browser

LAPTOP = {"width": 1280, "height": 720}

ON_SCREEN = """() => {
    const text = (place) => document.querySelector(place)?.innerText ?? "";
    const number = (words, pattern) => { const found = words.match(pattern); return found ? Number(found[1]) : null };
    const lines = [...document.querySelectorAll('[class*="st-key-chat__turn_"]')].map((line) => line.innerText);
    return {
        header: number(document.querySelector(".st-key-turn input")?.placeholder ?? "", /turn: (\\d+)/),
        budget: number(text(".st-key-chat__budget"), /of turn (\\d+)/)
            + (text(".st-key-chat__budget").includes("Last sent") ? 1 : 0), // no prompt of its own yet
        story: number(text(".st-key-chat__story"), /in turn (\\d+)/),
        conversation: number(lines.at(-1) ?? "", /Turn (\\d+)/),
        played: number(text(".st-key-chat__player"), /(\\d+) of \\d+/),
        said: document.querySelectorAll('.st-key-chat__box [data-testid="stChatMessage"]').length,
        running: [...document.querySelectorAll('[data-testid="stStatusWidget"]')].some((each) => each.offsetParent),
    };
}"""


SEEN_MILLISECONDS = 50
"""What stands for less, between two frames of a busy browser, is seen by nobody."""


def watched(tab, until, seconds=90):
    """What stood on the screen at every tenth of a second until a condition came true."""
    seen, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        screen = tab.evaluate(ON_SCREEN)
        if len(turns_of(screen)) > 1:
            tab.wait_for_timeout(SEEN_MILLISECONDS)
            screen = tab.evaluate(ON_SCREEN)
        seen.append(screen)
        if until(seen[-1]):
            return seen
        tab.wait_for_timeout(100)
    raise AssertionError(f"it never came true; last seen {seen[-1]}")


def turns_of(screen):
    return {screen[place] for place in ("header", "budget", "story", "conversation")}


def one_turn(screen):
    """The one turn that every number on the screen belongs to."""
    turns = turns_of(screen)
    assert len(turns) == 1, screen
    (turn,) = turns
    if screen["played"] is not None:
        assert screen["played"] in (2 * turn - 1, 2 * turn), screen
        assert screen["said"] == min(screen["played"], 40), screen
    return turn


@pytest.mark.quiet
def test_while_a_conversation_plays_at_4_times_all_numbers_belong_to_one_turn(served, visitor):
    messages = MESSAGES[:20]
    memory = recorded_session(behind(served), messages, title="Watched")
    tab = visitor.open(chat(served, memory.session_id))
    idle(tab)
    tab.get_by_role("button", name="Next message").click()
    expect(tab.get_by_text("2 of 20")).to_be_visible()
    tab.locator(".st-key-chat__speed").click()
    tab.get_by_role("option", name="4 ×").click()
    idle(tab)
    tab.get_by_role("button", name="Play", exact=True).click()
    screens = watched(tab, lambda screen: screen["header"] == 10 and "Play again" in tab.inner_text("body"))
    turns = [one_turn(screen) for screen in screens]
    assert turns == sorted(turns)
    assert len({*turns} - {turns[0], 10}) >= 2  # it went there; a busy machine shows fewer of the turns between
    assert not any(screen["running"] for screen in screens)
    expect(tab.get_by_text("End of recording")).to_be_visible()
    healthy(tab)
    assert [words for _, words in said(served, memory.session_id)] == [message.content for message in messages]


def test_to_the_end_plays_without_pausing_and_the_pause_button_goes_with_it(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="To the end")
    tab = visitor.open(chat(served, memory.session_id))
    idle(tab)
    tab.get_by_role("button", name="To the end").click()
    expect(tab.get_by_text("End of recording")).to_be_visible()
    expect(tab.get_by_role("button", name="Pause")).to_have_count(0)
    assert len(said(served, memory.session_id)) == 36


def test_who_leaves_while_it_plays_comes_back_to_the_speed_it_plays_at(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="Left")
    tab = visitor.open(chat(served, memory.session_id))
    idle(tab)
    tab.locator(".st-key-chat__speed input").press("ArrowDown")
    tab.get_by_role("option", name="2 ×").click()
    idle(tab)
    tab.get_by_role("button", name="Play", exact=True).click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible()
    tab.locator(".st-key-menu").get_by_role("link", name="Timeline").click()
    expect(tab.get_by_role("heading", name="Timeline")).to_be_visible()
    tab.locator(".st-key-menu").get_by_role("link", name="Chat").click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible()
    expect(tab.locator(".st-key-chat__speed input")).to_have_value("2 ×")
    tab.get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    healthy(tab)


def test_the_cut_is_above_the_fold_of_a_small_laptop(served, visitor_with):
    visitor = visitor_with(viewport=LAPTOP)
    tab = visitor.open(chat(served, "demo"))
    idle(tab)
    tab.locator(".st-key-chat__next button").click()
    cut = tab.get_by_text(re.compile("83 tokens, lowest score"))
    expect(cut).to_be_visible()
    idle(tab)
    box = cut.bounding_box()
    assert box["y"] + box["height"] < LAPTOP["height"]
    field = tab.get_by_placeholder("Write a message").bounding_box()
    assert field["y"] + field["height"] < LAPTOP["height"]
    tab.get_by_role("link", name=re.compile("See what was cut")).click()
    expect(tab.get_by_text(re.compile("83 tokens? w(as|ere) cut|cut from Earlier turns")).first).to_be_visible()
    assert tab.url.startswith(f"{served.url}/context")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_conversation_is_one_stop_for_the_tab_key_and_the_arrows_move_in_it(served, visitor_with, scheme):
    tab = visitor_with(color_scheme=scheme).open(chat(served, "demo"))
    idle(tab)
    lines = tab.locator('[class*="st-key-chat__box"] [class*="st-key-chat__turn_"] button:visible')
    expect(lines.nth(3)).to_be_visible()
    idle(tab)

    def focused():
        return tab.evaluate("document.activeElement.innerText")

    tab.locator(".st-key-chat__next button").focus()
    tab.keyboard.press("Shift+Tab")
    assert "Did memory matter?" in focused(), "the end of the conversation, which is in sight"
    tab.keyboard.press("ArrowUp")
    assert focused() == lines.last.inner_text()
    tab.keyboard.press("ArrowUp")
    before = focused()
    assert before == lines.nth(lines.count() - 2).inner_text()
    tab.keyboard.press("Home")
    assert focused() == lines.first.inner_text()
    tab.keyboard.press("ArrowDown")
    tab.keyboard.press("Tab")
    assert "Next message" in focused()
    tab.keyboard.press("Shift+Tab")
    assert focused() == lines.nth(1).inner_text(), "it stays where one was"
    for name in (lines.first.inner_text(), lines.nth(1).inner_text(), before):
        expect(tab.get_by_role("button", name=name).first).to_be_visible()  # in the tree of a screen reader


def test_the_focus_shows_on_the_scrubber_and_on_selects_and_steps_are_in_its_menu(served, visitor):
    tab = visitor.open(chat(served, "demo"))
    idle(tab)
    shadow = "each => getComputedStyle(each).boxShadow"
    handle, group = tab.get_by_role("slider", name="Turn").locator("s"), tab.locator('.st-key-turn [role="group"]')
    assert (handle.evaluate(shadow), group.evaluate(shadow)) == ("none", "none")
    tab.locator(".st-key-turn input").focus()
    assert "3px" in group.evaluate(shadow)
    tab.locator(".st-key-settings button, .st-key-frame__controls button").last.focus()
    tab.keyboard.press("Tab")
    assert "5px" in handle.evaluate(shadow)
    step = tab.get_by_role("button", name="One step back")
    expect(step).to_be_hidden()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(step).to_be_visible()
    step.click()
    expect(tab.get_by_text(re.compile(r"turn \d+ of \d+, step \d+ of \d+: read only"))).to_be_visible()
    expect(step).to_be_visible()
    tab.keyboard.press("Escape")
    expect(step).to_be_hidden()


def test_keys_and_a_drag_move_the_one_clock_of_all_pages(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="Scrubbed")
    tab = visitor.open(chat(served, memory.session_id))
    idle(tab)
    tab.get_by_role("button", name="To the end").click()
    expect(tab.get_by_text("End of recording")).to_be_visible()
    idle(tab)
    tab.locator("body").press("ArrowLeft")
    tab.locator("body").press("ArrowLeft")
    expect(tab.get_by_text("You are looking at turn 16 of 18: read only")).to_be_visible()
    expect(tab.get_by_text("What memory did in turn 16")).to_be_visible()
    tab.locator("body").press("Shift+ArrowLeft")
    expect(tab.get_by_text(re.compile(r"turn 16 of 18, step \d+ of \d+: read only"))).to_be_visible()
    tab.locator(".st-key-menu").get_by_role("link", name="Timeline").click()
    expect(tab.get_by_role("heading", name="Timeline", level=1)).to_be_visible()
    idle(tab)  # a track that is drawn anew under the pointer is let go
    expect(tab.get_by_text(re.compile(r"turn 16 of 18, step \d+ of \d+: read only"))).to_be_visible()
    track = tab.get_by_role("slider", name="Turn").bounding_box()
    middle = track["y"] + track["height"] / 2
    tab.mouse.move(track["x"] + track["width"] * 0.9, middle)
    tab.mouse.down()
    for share in (0.8, 0.6, 0.4, 0.2, 0.001):
        tab.mouse.move(track["x"] + track["width"] * share, middle)
        tab.wait_for_timeout(40)
    tab.mouse.up()
    expect(tab.get_by_text("You are looking at turn 1 of 18: read only")).to_be_visible()
    expect(tab).to_have_url(re.compile("turn=1(&|$)"))
    tab.reload()
    expect(tab.get_by_text("You are looking at turn 1 of 18: read only")).to_be_visible()
    tab.get_by_role("button", name="Back to latest").click()
    expect(tab.get_by_role("slider", name="Turn")).to_have_attribute("aria-valuetext", "Latest turn")
    healthy(tab)


SLOW_LINE = """
    const send = WebSocket.prototype.send;
    WebSocket.prototype.send = function (said) { setTimeout(() => send.call(this, said), 400) };
"""
"""A line on which every word to the server takes its time."""


@pytest.mark.parametrize("pause", [0, 150], ids=("before it is told", "while it is on its way"))
def test_a_page_asked_for_while_a_place_is_on_its_way_opens_at_that_place(served, visitor, pause):
    memory = recorded_session(behind(served), MESSAGES, title="Slow line")
    play(Job("slow"), memory, turns=4, pace=0)
    visitor.context.add_init_script(SLOW_LINE)
    tab = visitor.open(chat(served, memory.session_id))
    expect(tab.get_by_role("slider", name="Turn")).to_have_attribute("aria-valuetext", "Latest turn")
    idle(tab)
    tab.locator("body").press("ArrowLeft")
    tab.wait_for_timeout(pause)
    tab.locator(".st-key-menu").get_by_role("link", name="Timeline").click()
    expect(tab.get_by_role("heading", name="Timeline", level=1)).to_be_visible()
    expect(tab.get_by_text("You are looking at turn 3 of 4: read only")).to_be_visible()
    idle(tab)
    assert tab.url.startswith(f"{served.url}/timeline")
    healthy(tab)


STEPS_ON_SCREEN = """() => {
    const number = (words, pattern) => { const found = words.match(pattern); return found ? Number(found[1]) : null };
    const text = (place) => document.querySelector(place)?.innerText ?? "";
    const counter = (document.querySelector(".words")
        ?? [...document.querySelectorAll("*")].find((each) => each.shadowRoot?.querySelector(".words"))
            ?.shadowRoot.querySelector(".words")).textContent;
    const address = new URL(location.href).searchParams;
    return {
        header: number(document.querySelector(".st-key-turn input")?.value ?? "", /Turn (\\d+)/),
        counter: number(counter, /turn (\\d+) of/),
        budget: number(text(".st-key-chat__budget"), /of turn (\\d+)/),
        story: number(text(".st-key-chat__story"), /in turn (\\d+)/),
        address: Number(address.get("turn")),
        step: number(counter, /step (\\d+) of/),
        position: Number(address.get("step")) || null,
    };
}"""

BACK, ON = "Shift+ArrowLeft", "Shift+ArrowRight"


@pytest.mark.parametrize("pause", [0, 60, 250], ids=("at once", "while it draws", "right after a redraw"))
def test_quick_keys_add_up_to_exactly_the_place_that_counting_gives(served, visitor, pause):
    memory = recorded_session(behind(served), MESSAGES, title="Counted")
    play(Job("counted"), memory, turns=None, pace=0)
    history = memory.log.history()
    steps = steps_of(history)
    places = [(turn, step) for turn in range(1, 19) for step in (*range(1, len(steps[turn])), None)]
    at = len(places) - 1
    tab = visitor.open(chat(served, memory.session_id))
    expect(tab.get_by_role("slider", name="Turn")).to_have_attribute("aria-valuetext", "Latest turn")
    idle(tab)
    for keys in (
        ("ArrowLeft", "ArrowLeft", BACK, BACK, BACK, ON, BACK, BACK, ON, BACK),
        (ON, ON, BACK, ON, ON, ON, BACK, ON, ON, BACK),
        ("ArrowLeft", BACK, "ArrowLeft", "ArrowLeft", ON, "ArrowRight", BACK, BACK, BACK, ON),
        (BACK,) * 10,
    ):
        for key in keys:
            tab.keyboard.press(key)
            tab.wait_for_timeout(pause)
            if key in (BACK, ON):
                at += 1 if key == ON else -1
            else:
                at = places.index((places[at][0] + (1 if key == "ArrowRight" else -1), None))
        turn, step = places[at]
        position = steps[turn][step - 1] if step else None
        there = dict.fromkeys(("header", "counter", "budget", "story", "address"), turn)
        there |= {"step": step, "position": position}
        if position is not None and position < history.turns[turn].contexts[0].position:
            there["budget"] = turn - 1  # the newest prompt at this step is that of the turn before
        until = time.monotonic() + 40
        while tab.evaluate(STEPS_ON_SCREEN) != there and time.monotonic() < until:
            tab.wait_for_timeout(100)
        tab.wait_for_timeout(700)
        assert tab.evaluate(STEPS_ON_SCREEN) == there  # it stays there
    healthy(tab)


def test_three_messages_typed_in_a_row_keep_every_keystroke_and_are_sent_in_order(talking, model, visitor):
    memory = new_memory(behind(talking), title="Typed")
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    model.script.extend(slow_reply("Answer ", f"{number}.", pause=0.8) for number in (1, 2, 3))
    tab.get_by_placeholder("Write a message").click()
    for words in ("The first message", "A second one at once", "And the third"):
        tab.keyboard.type(words, delay=25)
        tab.keyboard.press("Enter")
    expect(tab.get_by_text("Not sent yet: it is sent when the turn above is done.").first).to_be_visible()
    tab.keyboard.type("still typing", delay=60)
    expect(tab.get_by_text("Answer 3.")).to_be_visible()
    idle(tab)
    expect(tab.get_by_placeholder("Write a message")).to_have_value("still typing")
    assert tab.evaluate("document.activeElement.tagName") == "TEXTAREA"
    healthy(tab)
    asked = ("The first message", "A second one at once", "And the third")
    talk = [each for n, words in enumerate(asked, 1) for each in (("user", words), ("assistant", f"Answer {n}."))]
    eventually(lambda: said(talking, memory.session_id) == talk)


def test_a_waiting_message_can_be_taken_back(talking, model, visitor):
    memory = new_memory(behind(talking), title="Taken back")
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    taken_back = threading.Event()
    whole = [chunk("An "), taken_back, chunk("answer."), chunk(finish="stop"), "[DONE]"]
    model.script.append(Step(stream=[chunk(role="assistant"), *whole]))
    tab.get_by_placeholder("Write a message").click()
    for words in ("Keep this", "Not this"):
        tab.keyboard.type(words)
        tab.keyboard.press("Enter")
        expect(tab.get_by_text(words, exact=True)).to_be_visible()  # two within one drawing would be the last one alone
    tab.get_by_role("button", name="Take back").click()
    expect(tab.get_by_role("button", name="Take back")).to_be_hidden()
    taken_back.set()
    expect(tab.get_by_text("An answer.")).to_be_visible()
    idle(tab)
    eventually(lambda: said(talking, memory.session_id) == [("user", "Keep this"), ("assistant", "An answer.")])


def test_a_message_typed_while_a_recording_plays_pauses_it_and_is_answered(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="Interrupted")
    tab = visitor.open(chat(served, memory.session_id))
    idle(tab)
    tab.get_by_role("button", name="Play", exact=True).click()
    expect(tab.get_by_role("button", name="Pause")).to_be_visible()
    tab.get_by_placeholder("Write a message").fill("What is Ana allergic to?")
    tab.keyboard.press("Enter")
    question = ("user", "What is Ana allergic to?")
    eventually(lambda: question in said(served, memory.session_id)[:-1])
    expect(tab.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    healthy(tab)
    talk = said(served, memory.session_id)
    assert talk.count(question) == 1
    assert talk.index(question) == len(talk) - 2 < 34
    assert talk[-1][0] == "assistant"
    assert [words for _, words in talk[:-2]] == [message.content for message in MESSAGES[: len(talk) - 2]]


DEMO = """() => {
    const all = (root, what) => [...root.querySelectorAll(what),
        ...[...root.querySelectorAll("*")].flatMap((each) => each.shadowRoot ? all(each.shadowRoot, what) : [])];
    const text = (place) => (document.querySelector(place)?.innerText ?? "").replace(/\\s+/g, " ");
    const at = (element) => element?.getBoundingClientRect();
    const lines = document.querySelector(".st-key-chat__lines");
    const queue = document.querySelector(".st-key-chat__budget [role=img] > div:last-child");
    const bar = at(queue?.querySelector("div[title]")), line = at([...(queue?.querySelectorAll("div") ?? [])].at(-1));
    return {
        latest: Number(document.querySelector(".st-key-turn input")?.placeholder.match(/turn: (\\d+)/)?.[1]),
        flushes: all(document, ".track .flush").length, cuts: all(document, ".track .cut").length,
        queue: Number(text(".st-key-chat__budget").match(/Queue now (\\d+)/)?.[1]),
        last_sent: text(".st-key-chat__budget").includes("Last sent"),
        leaving: text(".st-key-chat__budget").includes("its oldest messages leave now"),
        above: bar && line ? bar.right > line.left : false,
        budget_cut: / of 393/.test(text(".st-key-chat__budget")),
        flushed: (text(".st-key-chat__lines").match(/Flushed/g) ?? []).length,
        cut: /The prompt was \\d+ tokens over/.test(text(".st-key-chat__lines")),
        line: [...document.querySelectorAll('[class*="st-key-chat__turn_"]')].at(-1)?.innerText ?? "",
        first: at(lines?.querySelector("p")) && at(lines).top <= at(lines.querySelector("p")).top
            && at(lines.querySelector("p")).bottom <= innerHeight,
        last: at([...(lines?.querySelectorAll("p") ?? [])].findLast((each) => !each.closest("a")))?.bottom,
        input: at(document.querySelector(".st-key-chat__input"))?.top,
        player: text(".st-key-chat__player"), body: document.body.innerText.length,
    };
}"""


GO_ON = """() => [...document.querySelectorAll(".st-key-chat__player button")]
    .find((button) => button.innerText.includes("Continue"))?.click()"""


def says_cut(screen):
    """The answers of budget, story and the line below the reply to whether something was cut: one, if they agree."""
    return {screen["budget_cut"], screen["cut"], "cut 83" in screen["line"]}


def follow_demo(tab, until, seconds=120):
    """Return the texts on the screen, read every 0.2 s until a condition holds; each stop is continued."""
    seen, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        screen = tab.evaluate(DEMO)
        if screen["latest"] == 12 and len(says_cut(screen)) > 1:
            tab.wait_for_timeout(SEEN_MILLISECONDS)
            screen = tab.evaluate(DEMO)
        if not seen or screen != seen[-1]:
            seen.append(screen)
        if until(screen):
            return seen
        tab.evaluate(GO_ON)
        tab.wait_for_timeout(200)
    raise AssertionError(f"it never came true; last seen {seen[-1]}")


def reset_demo_in(tab, speed):
    idle(tab)
    tab.get_by_role("button", name="More").last.click()
    tab.get_by_text("Reset", exact=True).click()
    tab.get_by_role("dialog").get_by_role("button", name="Reset demo").click()
    expect(tab.get_by_text("22 of 36")).to_be_visible()
    idle(tab)
    tab.locator(".st-key-chat__speed").click()
    tab.get_by_role("option", name=speed).click()
    idle(tab)
    tab.get_by_role("button", name="Play", exact=True).click()


def all_of_the_turn_is_seen(screen, height):
    """True if no line of the turn's story is outside its card, and the message box ends within the window."""
    return screen["first"] and max(screen["last"], screen["input"]) <= height


@pytest.mark.slow
def test_the_demo_shows_each_cause_before_its_effect_on_one_screen(served, visitor_with):
    visitor = visitor_with(viewport={"width": 1280, "height": 720})
    tab = visitor.open(chat(served, "demo"))
    reset_demo_in(tab, "2 ×")
    seen = follow_demo(tab, lambda screen: "End of demo" in screen["player"])
    for turn, peak in {12: 732, 14: 722, 16: 722, 18: 744}.items():
        of_turn = [screen for screen in seen if screen["latest"] == turn]
        full = next(place for place, screen in enumerate(of_turn) if screen["queue"] == peak)
        told = next(place for place, screen in enumerate(of_turn) if screen["flushed"])
        assert full < told, f"turn {turn}: the queue dropped before it was seen above its line"
        assert any(screen["leaving"] and screen["above"] for screen in of_turn[:told])
        assert all(screen["last_sent"] == ("tokens" not in screen["line"]) for screen in of_turn)
        assert all(screen["queue"] < 720 for screen in of_turn[told:])
        assert all(screen["flushes"] <= of_turn[0]["flushes"] for screen in of_turn[:told])
    for screen in (screen for screen in seen if screen["latest"] == 12):
        assert len(says_cut(screen)) == 1, screen
        assert screen["cuts"] <= screen["cut"], screen
    assert [screen for screen in seen if not all_of_the_turn_is_seen(screen, 720)] == []
    assert min(screen["body"] for screen in seen) > 500
    healthy(tab)
    tab.get_by_role("button", name="Find what it forgot").click()
    expect(tab.get_by_role("heading", name="Where did it go?", level=1)).to_be_visible()
    expect(tab.get_by_text("Below the threshold of Earlier turns").first).to_be_visible()
    healthy(tab)


STOPS = ("The queue was full", "Facts were taken from what left", "Earlier turns that fit", "so the least relevant")


def test_the_demo_stops_at_each_effect_and_waits_whatever_else_is_looked_at(served, visitor_with):
    tab = visitor_with(viewport={"width": 1440, "height": 900}).open(chat(served, "demo"))
    reset_demo_in(tab, "4 ×")
    go_on = tab.get_by_role("button", name="Continue")
    for title in STOPS:
        expect(tab.get_by_text(title)).to_be_visible()
        if title == STOPS[0]:
            tab.reload()
            expect(tab.get_by_text(title)).to_be_visible()
            tab.get_by_role("button", name="One turn back").click()
            expect(tab.get_by_text("What memory did in turn 11")).to_be_visible()
            expect(tab.get_by_text(title)).to_have_count(0)
            tab.get_by_role("button", name="Back to latest").click()
            expect(tab.get_by_text(title)).to_be_visible()
        if title == STOPS[1]:
            tab.locator(".st-key-menu").get_by_role("link", name="Timeline").click()
            expect(tab.get_by_role("heading", name="Timeline", level=1)).to_be_visible()
            tab.go_back()
            expect(tab.get_by_text(title)).to_be_visible()
        idle(tab)
        assert all_of_the_turn_is_seen(tab.evaluate(DEMO), 900)
        assert len(said(served, "demo")) == 23
        go_on.click()
        expect(tab.get_by_text(title)).to_have_count(0)
    expect(tab.get_by_text("24 of 36")).to_be_visible()
    tab.get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("button", name="Play", exact=True)).to_be_enabled()
    healthy(tab)
