"""Writes in Chromium: the first click counts, and what is foretold then happens."""

import re
from uuid import uuid4

import pytest
from app_server import behind, healthy, idle, opened
from engine_fakes import assistant, user
from pages_driver import numbers
from playwright.sync_api import expect
from said_numbers import CHANGED, as_said, growth, whole

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job

pytestmark = pytest.mark.browser

RULES = "Be brief. Ask before you book anything."
TURN = "The table by the window is free on Friday, and the kitchen can make a cake without nuts for eight people. "


@pytest.fixture
def session(served, request):
    """A session of three turns with a recording ahead, whose blocks hold what they hold."""
    memory = Memory.from_defaults(
        f"{request.node.name[-30:]}-{uuid4().hex[:8]}",  # another one when it is tried once more
        title="Dinner",
        token_limit=600,
        token_flush_size=40,
        memory_blocks=[
            StaticMemoryBlock(name="Rules", static_content=RULES),
            StaticMemoryBlock(name="Notes", static_content=TURN * 2, priority=2),
            FactExtractionMemoryBlock(
                name="Facts", priority=1, facts=["Ana likes tea", "Rui likes soup"], accept_short_term_memory=False
            ),
        ],
        database=behind(served).database,
        services=Services(),
    )
    for number in range(3):
        memory.put_messages([user(f"Turn {number}. {TURN}"), assistant(f"Noted {number}. {TURN}")])
    memory.session.attach_recording(
        [message for n in range(4) for message in (user(f"Next {n}. {TURN}"), assistant(f"Fine {n}. {TURN}"))],
        source="test",
    )
    return memory


def blocks_page(served, visitor, memory):
    tab = visitor.open(f"{served.url}/blocks?session={memory.session_id}")
    expect(tab.get_by_role("button", name="Change order")).to_be_visible()
    idle(tab)
    return tab


def open_editor(tab):
    tab.locator(".st-key-blocks__edit_Rules button").click()
    box = tab.get_by_role("textbox", name="Text")
    expect(box).to_be_visible()
    idle(tab)
    return box


def type_on(tab, box, words):
    box.click()
    tab.keyboard.press("Control+End")
    tab.keyboard.type(words, delay=15)


def fill(tab, field, value):
    field.click()
    tab.keyboard.press("Control+A")
    tab.keyboard.type(value, delay=40)


def in_drawer(tab, words):
    """The line of the drawer that holds these words."""
    expect(tab.get_by_role("dialog").get_by_text(re.compile(words)).first).to_be_visible()
    idle(tab)
    lines = tab.get_by_role("dialog").inner_text().splitlines()
    return next(line for line in lines if re.search(words, line))


def leave_by(tab, way):
    """Leave the open drawer without pressing any of its buttons."""
    if way == "a reload":
        tab.wait_for_timeout(500)  # what was typed in the last 0.4 s is given while the page goes: at best
        idle(tab)
        tab.reload()
        expect(tab.get_by_role("button", name="Change order")).to_be_visible()
        return idle(tab)
    if way == "Esc":
        tab.keyboard.press("Escape")
    elif way == "a click outside":
        tab.mouse.click(300, 400)
    else:
        tab.get_by_role("dialog").get_by_role("button", name="Close").click()
    return expect(tab.get_by_role("dialog")).to_have_count(0)


def closed(tab, says):
    """The drawer has closed, and the toast says so."""
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(tab.get_by_role("status").filter(has_text=says)).to_be_visible()


def texts(served, memory):
    return [revision.text for revision in opened(served, memory.session_id).blocks.revisions("Rules")]


def next_turn(served, memory):
    """Play one turn on; what was flushed before its prompt, and the prompt."""
    now = opened(served, memory.session_id)
    before = now.session.status().position
    play(Job("test"), now, turns=1, pace=0)
    events = [each.event for each in now.events(kinds=("flush_planned", "context_built"), after=before)]
    built = next(each for each in events if each.kind == "context_built")
    return [each for each in events[: events.index(built)] if each.kind == "flush_planned"], built


# -- task c: a fixed text, its count, its effect, and the way back ---------------------------------


def test_a_text_is_saved_by_the_first_click_as_foretold_and_restored_in_the_editor(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    box = open_editor(tab)
    type_on(tab, box, " Name the price of everything.")
    # Where a key comes late, the words before it are counted first: wait for the count of all of them.
    counted = opened(served, session.session_id).session.count_tokens(f"{RULES} Name the price of everything.")
    expect(tab.get_by_role("dialog").get_by_text(re.compile(rf"→ {counted} tokens$"))).to_be_visible()
    foretold = numbers(in_drawer(tab, "^Next prompt: .*→"))[1]
    type_on(tab, box, " Now")  # the field still has the focus, and these words were not given yet
    tab.get_by_role("button", name="Save").click()
    closed(tab, "Saved Rules.")
    more = opened(served, session.session_id)
    extra = more.session.count_tokens(f"{RULES} Name the price of everything. Now") - more.session.count_tokens(
        f"{RULES} Name the price of everything."
    )
    assert texts(served, session) == [RULES, f"{RULES} Name the price of everything. Now"]
    _, built = next_turn(served, session)
    assert built.total == foretold + extra
    tab = blocks_page(served, visitor, session)
    box = open_editor(tab)
    tab.get_by_text("History: 2 versions").click()
    expect(tab.get_by_role("combobox", name="Version")).to_be_visible()
    idle(tab)  # a list that opens while more is drawn below it closes again
    tab.get_by_role("combobox", name="Version").click()
    tab.get_by_role("option").last.click()
    tab.get_by_role("button", name="Restore version 1").click()
    expect(tab.get_by_role("status").filter(has_text="Restored version 1 of Rules.").first).to_be_visible()
    expect(box).to_have_value(RULES)
    assert texts(served, session)[-1] == RULES
    idle(tab)
    type_on(tab, box, " Go on.")
    tab.get_by_role("button", name="Save").click()
    closed(tab, "Saved Rules.")
    tab.get_by_role("button", name="Undo").click()
    expect(tab.get_by_role("status").filter(has_text="Undone.")).to_be_visible()
    assert texts(served, session)[-1] == RULES
    healthy(tab)


# -- drafts ----------------------------------------------------------------------------------------


def test_a_text_that_is_not_saved_survives_every_way_out_of_its_drawer(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    typed = RULES
    for way in ("Esc", "a click outside", "the cross", "a reload"):
        box = open_editor(tab)
        expect(box).to_have_value(typed)
        type_on(tab, box, f" After {way}.")
        typed = box.input_value()
        leave_by(tab, way)
    box = open_editor(tab)
    expect(box).to_have_value(typed)
    assert typed.endswith("After Esc. After a click outside. After the cross. After a reload.")
    expect(tab.get_by_role("dialog").get_by_text("It is not saved.")).to_be_visible()
    assert texts(served, session) == [RULES]
    tab.get_by_role("button", name="Discard changes").click()
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(open_editor(tab)).to_have_value(RULES)
    healthy(tab)


def test_a_block_that_is_not_added_yet_survives_the_cross_and_a_reload(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    for way in ("the cross", "a reload"):
        tab.get_by_role("button", name="Add block").click()
        name = tab.get_by_role("textbox", name="Name")
        expect(name).to_have_value("" if way == "the cross" else "Tone")
        idle(tab)
        fill(tab, name, "Tone" if way == "the cross" else "Tone of voice")
        leave_by(tab, way)
    tab.get_by_role("button", name="Add block").click()
    expect(tab.get_by_role("textbox", name="Name")).to_have_value("Tone of voice")
    idle(tab)
    tab.get_by_role("dialog").get_by_role("button", name="Add block").click()
    closed(tab, "Added Tone of voice.")
    assert "Tone of voice" in {each.name for each in opened(served, session.session_id).blocks}
    healthy(tab)


# -- task b: a priority ----------------------------------------------------------------------------


def test_a_priority_does_to_the_next_prompt_what_was_foretold(served, visitor, session):
    session.configure(token_limit=200, chat_history_token_ratio=0.7)
    tab = blocks_page(served, visitor, session)
    tab.get_by_role("button", name="Change order").click()
    field = tab.get_by_role("spinbutton", name="Priority of Notes")
    expect(field).to_be_visible()
    idle(tab)
    place = field.bounding_box()["y"]
    fill(tab, field, "0")
    foretold = numbers(in_drawer(tab, "^Next prompt: "))
    assert field.bounding_box()["y"] == place, "no row moves"
    tab.get_by_role("button", name="Apply from the next turn").click()
    closed(tab, "priority of Notes 2 → 0")
    _, built = next_turn(served, session)
    assert built.total in foretold
    assert not [cut for cut in built.cuts if cut["part"] == "Notes"]
    healthy(tab)


def test_what_is_typed_right_before_a_double_click_on_apply_is_applied_with_the_rest(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    tab.get_by_role("button", name="Change order").click()
    field = tab.get_by_role("spinbutton", name="Priority of Notes")
    expect(field).to_be_visible()
    idle(tab)
    fill(tab, field, "1")
    in_drawer(tab, "^Of blocks with the same number")
    fill(tab, tab.get_by_role("spinbutton", name="Place of Facts in the prompt"), "1")
    fill(tab, tab.get_by_role("spinbutton", name="Priority of Facts"), "3")
    tab.get_by_role("button", name="Apply from the next turn").dblclick()
    closed(tab, "priority of Notes 2 → 1, priority of Facts 1 → 3 and a new order in the prompt.")
    now = opened(served, session.session_id)
    assert [(each.name, each.priority) for each in now.blocks] == [("Facts", 3), ("Rules", 0), ("Notes", 1)]
    tab.get_by_role("button", name="Undo").dblclick()
    expect(tab.get_by_role("status").filter(has_text="Undone.")).to_be_visible()
    now = opened(served, session.session_id)
    assert [(each.name, each.priority) for each in now.blocks] == [("Rules", 0), ("Notes", 2), ("Facts", 1)]
    healthy(tab)


def test_an_emptied_number_stays_what_it_was_and_says_so(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    tab.get_by_role("button", name="Settings").click()
    limit = tab.get_by_role("spinbutton", name="Token limit")
    expect(limit).to_be_visible()
    idle(tab)
    fill(tab, limit, "80")
    in_drawer(tab, "^Next prompt: .* of 80 tokens")
    limit.click()
    tab.keyboard.press("Control+A")
    tab.keyboard.press("Delete")
    in_drawer(tab, "^Next prompt: .*(of 600|free)")
    expect(limit).to_have_value("")
    expect(limit).to_have_attribute("placeholder", "empty: stays 600")
    expect(tab.get_by_role("button", name="Apply from the next turn")).to_be_disabled()
    assert opened(served, session.session_id).session.config.token_limit == 600
    healthy(tab)


# -- task k: limits --------------------------------------------------------------------------------


def test_smaller_limits_do_to_the_flush_and_the_next_prompt_what_was_foretold(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    tab.get_by_role("button", name="Settings").click()
    share = tab.get_by_role("spinbutton", name="History share, %")
    expect(share).to_be_visible()
    idle(tab)
    fill(tab, share, "70")
    fill(tab, tab.get_by_role("spinbutton", name="Token limit"), "80")
    prompt = in_drawer(tab, "^Next prompt: .* of 80 tokens")
    leaving = in_drawer(tab, "Before it, .* leave the queue: .* is above 56")
    tab.get_by_role("button", name="Apply from the next turn").click()
    closed(tab, "From the next turn: ")
    flushes, built = next_turn(served, session)
    total, _, so_far, _ = numbers(prompt)[:4]
    assert growth(prompt) == total - so_far
    sizes = {part["name"]: part["granted"] for part in built.parts} | {"Queue": built.queue_tokens}
    changed = {name.split(")")[-1].strip(): whole(size) for name, _, size in CHANGED.findall(as_said(prompt))}
    assert built.total == total
    assert changed
    assert changed.items() <= sizes.items()
    assert built.cuts, "the limit is small enough that somebody loses"
    assert [each.messages for each in flushes] == numbers(leaving)[:1]
    healthy(tab)


# -- the toast -------------------------------------------------------------------------------------


def test_a_toast_pushes_nothing_and_goes_by_itself(served, visitor, session):
    tab = blocks_page(served, visitor, session)
    heading = tab.get_by_role("button", name="Change order")
    place = heading.bounding_box()
    box = open_editor(tab)
    type_on(tab, box, " And kind.")
    tab.get_by_role("button", name="Save").click()
    closed(tab, "Saved Rules.")
    assert heading.bounding_box() == place
    toast = tab.get_by_role("status").filter(has_text="Saved Rules.").bounding_box()
    assert toast["x"] > 640
    assert toast["y"] > 600
    tab.mouse.move(400, 300)
    expect(tab.get_by_role("status").filter(has_text="Saved Rules.")).to_be_hidden(timeout=15_000)
    healthy(tab)
