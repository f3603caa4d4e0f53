"""The Chat page in Chromium: the first minute, turns that survive everything, and nothing from outside."""

import json
import re

import pytest
from app_server import AppServer, behind, chat, eventually, healthy, idle, running, said, slow_reply
from models.scripted_server import streamed
from playwright.sync_api import expect

from memory_core import ChatMessage, StaticMemoryBlock
from memory_inspector.demo.conversations import MESSAGES
from memory_inspector.server.engine import new_memory, recorded_session

pytestmark = pytest.mark.browser

NASTY = (
    "![x](http://evil.test/a.png) <img src=http://evil.test/b.png> <iframe src=http://evil.test/c></iframe> "
    "<style>@import 'http://evil.test/d.css'</style> [link](http://evil.test/e) http://evil.test/f "
    "![y](data:image/svg+xml,<svg/onload=alert(1)>)"
)
NASTY_NAME = "![x](http://evil.test/n.png) :material/bolt:"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """`streamlit run app.py`: no security headers."""
    yield from running(AppServer("app.py", tmp_path_factory.mktemp("bare")))


def write(tab, words):
    tab.get_by_placeholder("Write a message").fill(words)
    tab.keyboard.press("Enter")


@pytest.mark.parametrize(
    ("how", "page", "drawn"), [("served", "Chat", "32 to the next flush."), ("bare", "Context", "Requested and sent")]
)
def test_a_fresh_servers_first_request_may_be_a_deep_link(how, page, drawn, request, visitor):
    server = request.getfixturevalue(how)
    tab = visitor.open(f"{server.url}/{page.lower()}?session=demo")
    expect(tab.get_by_role("heading", name=page, level=1)).to_be_visible()
    expect(tab.get_by_text(drawn)).to_be_visible()
    idle(tab)
    healthy(tab)


def test_the_first_minute(served, visitor):
    tab = visitor.open(served.url)
    expect(tab.get_by_text("32 to the next flush.")).to_be_visible()
    tab.locator(".st-key-chat__next button").click()
    expect(tab.get_by_text("Flushed 4 messages, 177 tokens: queue 732 was above 720")).to_be_visible()
    expect(tab.get_by_text(re.compile("83 tokens, lowest score"))).to_be_visible()
    expect(tab.get_by_text("24 of 36")).to_be_visible()
    expect(tab.get_by_role("img", name=re.compile("Sent 1,155 of 1,200 tokens: Queue 555"))).to_be_visible()
    idle(tab)
    healthy(tab)
    assert len(said(served, "demo")) == 24


def test_two_clicks_on_next_message_play_one_turn(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="Twice")
    tab = visitor.open(chat(served, memory.session_id))
    button = tab.get_by_role("button", name="Next message")
    expect(button).to_be_enabled()
    idle(tab)
    button.dblclick(delay=5)
    expect(tab.get_by_text("2 of 36")).to_be_visible()
    idle(tab)
    healthy(tab)
    assert len(said(served, memory.session_id)) == 2


def test_a_recording_plays_on_until_it_is_paused(served, visitor):
    memory = recorded_session(behind(served), MESSAGES, title="Play")
    tab = visitor.open(chat(served, memory.session_id))
    expect(tab.get_by_role("button", name="Play")).to_be_enabled()
    idle(tab)
    tab.get_by_role("button", name="Play").click()
    expect(tab.get_by_text("Turn 1 ·").first).to_be_visible()
    tab.get_by_role("button", name="Pause").click()
    expect(tab.get_by_role("button", name="Play")).to_be_enabled()
    idle(tab)
    healthy(tab)
    played = said(served, memory.session_id)
    assert 2 <= len(played) < 36
    assert [content for _, content in played] == [message.content for message in MESSAGES[: len(played)]]
    expect(tab.get_by_text(f"{len(played)} of 36")).to_be_visible()


def test_a_reply_is_seen_as_it_comes_and_stored_once(talking, model, visitor):
    memory = new_memory(behind(talking), title="Stream")
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    model.script.append(slow_reply("First ", "second ", "third."))
    write(tab, "Count to three")
    expect(tab.get_by_text(re.compile("^First( second)? ?$"))).to_be_visible()
    expect(tab.get_by_text("First second third.")).to_be_visible()
    expect(tab.get_by_text("Turn 1 ·").first).to_be_visible()
    idle(tab)
    healthy(tab)
    eventually(
        lambda: said(talking, memory.session_id) == [("user", "Count to three"), ("assistant", "First second third.")]
    )


@pytest.mark.parametrize("leaving", ["close", "reload", "second tab"])
def test_a_turn_that_nobody_waits_for_is_stored_once_and_can_be_followed(talking, model, visitor, leaving):
    memory = new_memory(behind(talking), title=leaving)
    address = chat(talking, memory.session_id)
    tab = visitor.open(address)
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    model.script.append(slow_reply("One ", "two ", "three ", "four ", "five."))
    write(tab, "Count to five")
    expect(tab.get_by_test_id("stChatMessage").get_by_text(re.compile("^One"))).to_be_visible()
    if leaving == "reload":
        tab.reload()
        other = tab
    else:
        if leaving == "close":
            tab.close()
        other = visitor.open(address)
    expect(other.get_by_text("One two three four five.")).to_be_visible()
    expect(other.get_by_text("Turn 1 ·").first).to_be_visible()
    idle(other)
    healthy(other)
    eventually(
        lambda: (
            said(talking, memory.session_id) == [("user", "Count to five"), ("assistant", "One two three four five.")]
        )
    )


def test_stop_keeps_what_was_said(talking, model, visitor):
    memory = new_memory(behind(talking), title="Stop")
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    model.script.append(slow_reply(*(f"w{number} " for number in range(60)), pause=0.2))
    write(tab, "Talk on")
    expect(tab.get_by_text(re.compile("^w0"))).to_be_visible()
    tab.locator('[data-testid="stMain"]').get_by_role("button", name="Stop").click()
    expect(tab.get_by_text("Turn 1 ·").first).to_be_visible()
    expect(tab.locator('[data-testid="stMain"]').get_by_role("button", name="Stop")).to_have_count(0)
    healthy(tab)
    (_, asked), (role, reply) = said(talking, memory.session_id)
    assert (asked, role) == ("Talk on", "assistant")
    assert reply.startswith("w0 ")
    assert "w59" not in reply


def test_a_reply_cut_off_by_a_crash_is_said_to_be_and_can_be_tried_again(talking, model, visitor):
    memory = new_memory(behind(talking), title="Crash")
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("Nothing said yet.")).to_be_visible()
    model.script.append(slow_reply(*(f"w{number} " for number in range(30)), pause=0.2))
    write(tab, "Do not crash")
    expect(tab.get_by_text(re.compile("^w0"))).to_be_visible()
    tab.close()
    talking.kill()
    assert said(talking, memory.session_id) == [("user", "Do not crash")]
    visitor.faults.clear()  # the socket that broke
    talking.start()
    tab = visitor.open(chat(talking, memory.session_id))
    expect(tab.get_by_text("The reply was interrupted. Your message is stored.")).to_be_visible()
    eventually(lambda: not model.script)
    model.script.append(streamed("Here ", "I am."))
    tab.get_by_role("button", name="Try again").click()
    expect(tab.get_by_text("Here I am.")).to_be_visible()
    expect(tab.get_by_text("Turn 1 ·").first).to_be_visible()
    idle(tab)
    healthy(tab)
    eventually(lambda: said(talking, memory.session_id) == [("user", "Do not crash"), ("assistant", "Here I am.")])


def test_no_message_loads_anything_from_outside(bare, visitor, tmp_path):
    """Without the security headers: `visitor` fails for any request that leaves this machine."""
    memory = new_memory(behind(bare), title=NASTY[:79])
    memory.blocks.add(StaticMemoryBlock(name=NASTY_NAME, static_content=NASTY))
    for role in ("user", "assistant", "tool", "system"):
        memory.put(ChatMessage(role=role, content=NASTY))
    memory.build_context()
    tab = visitor.open(chat(bare, memory.session_id))
    expect(tab.get_by_text(NASTY).first).to_be_visible()
    assert tab.get_by_text(NASTY).count() == 4
    write(tab, NASTY)
    expect(tab.get_by_text("Turn 2 ·").first).to_be_visible()
    tab.get_by_role("button", name="Edit blocks").click()
    expect(tab.get_by_role("menuitem", name="![x]")).to_be_visible()  # no image, no icon
    tab.keyboard.press("Escape")
    path = tmp_path / "poisoned.jsonl"
    lines = [json.dumps({"role": role, "content": NASTY}) for role in ("user", "assistant")]
    path.write_text("\n".join(lines), encoding="utf-8")
    tab.get_by_role("button", name="More").last.click()
    tab.get_by_text("Import a conversation").click()
    tab.locator('input[type="file"]').set_input_files(path)
    expect(tab.get_by_text(re.compile("2 messages, 1 turn"))).to_be_visible()
    tab.get_by_role("button", name="Step through", exact=True).click()
    tab.get_by_role("button", name="Next message").click()
    expect(tab.get_by_text("Turn 1 ·").first).to_be_visible()
    idle(tab)
    healthy(tab)
    assert tab.locator("[data-testid=stMain] img, iframe").count() == 0
    assert not [url for url in visitor.requests if "evil" in url]


@pytest.fixture(scope="module")
def long_names(served):
    """A session in which everything is as long as it can be, and over its limit."""
    memory = new_memory(
        behind(served), title="A conversation with a very long name that goes on and on and on", token_limit=300
    )
    for number in range(3):
        memory.blocks.add(
            StaticMemoryBlock(name=f"A block {number} with a very long name", static_content="word " * 150)
        )
    for number in range(60):
        memory.put(ChatMessage(role="user" if number % 2 == 0 else "assistant", content=f"{number} " + "long" * 30))
    memory.build_context()
    return memory.session_id


def test_no_width_scrolls_sideways(served, long_names, visitor):
    """Of names without a place to break. Every page, in both appearances, is test_inspector_browser.py's."""
    tab = visitor.open(chat(served, long_names))
    expect(tab.get_by_text("Token budget").first).to_be_visible()
    idle(tab)
    for width in (390, 1081, 1280, 1440):
        tab.set_viewport_size({"width": width, "height": 800})
        tab.wait_for_timeout(300)
        main = tab.locator('[data-testid="stMain"]').first
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 0, width
    healthy(tab)
