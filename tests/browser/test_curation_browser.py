"""Correcting, reviewing, importing and exporting in Chromium: what was foretold is what then happens."""

import json
import re
from uuid import uuid4

import pytest
from app_server import behind, healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, Services, list_sessions
from memory_core.sessions.overview import overview
from memory_inspector.files.files import export_messages

pytestmark = pytest.mark.browser

FORESEEN = re.compile(r"Next prompt (?:([+−])(\d+) tokens?|stays the same size)")
"""What a change is said to do to the next prompt before it is done."""


def foreseen(said):
    """The tokens by which the next prompt is said to change."""
    found = FORESEEN.search(said)
    assert found, said
    return (1 if found[1] == "+" else -1) * int(found[2] or 0) if found[1] else 0


def below_the_title(tab):
    """How far under the page's title the list begins, in pixels; however far the page is scrolled."""
    places = [tab.locator(each).bounding_box()["y"] for each in (".st-key-facts__head", "h1")]
    return places[0] - places[1]


def total(memory):
    return memory.preview.next_prompt().context.plan.total


def test_d_a_wrong_fact_is_corrected_as_foreseen_and_the_toast_takes_it_back(served, branch, visitor):
    before = total(branch)
    wrong = next(fact for fact in branch.facts.read("Facts") if fact.text == "The user lives in Porto")
    tab = visitor.open(f"{served.url}/facts?session={branch.session_id}&fact={wrong.id}")
    expect(tab.get_by_text('Contradicts "The user lives in Lisbon".')).to_be_visible()
    idle(tab)
    steps = tab.evaluate("history.length")
    words = tab.locator('[class*="st-key-facts__words"] textarea')
    words.click()
    words.press("Control+a")
    tab.keyboard.type("The user lived in Porto until this week and liked the river and bridges there a lot", delay=15)
    preview = tab.locator(".st-key-facts__panel").get_by_text(FORESEEN)
    expect(preview).to_be_visible()  # without a key that asks for it
    assert tab.evaluate("document.activeElement.tagName") == "TEXTAREA"
    said = foreseen(preview.inner_text())
    idle(tab)
    top = below_the_title(tab)
    tab.locator(".st-key-facts__save button").click()
    toast = tab.get_by_text(re.compile(r"Saved\. The next prompt will hold it"))
    expect(toast).to_be_visible()
    idle(tab)
    assert said != 0
    assert total(branch) - before == said
    assert f"{'+' if said > 0 else '−'}{abs(said)} tokens" in toast.inner_text()
    assert below_the_title(tab) == top  # nothing is pushed
    assert not branch.facts.desk("Facts").review().flags  # it contradicts nothing any more
    tab.locator('[class*="st-key-toast__undo"] button').click()
    expect(tab.get_by_text("Undone.")).to_be_visible()
    idle(tab)
    assert total(branch) == before
    assert {fact.text for fact in branch.facts.read("Facts") if fact.id == wrong.id} == {wrong.text}
    assert len(branch.facts.desk("Facts").review().flags) == 2
    assert tab.evaluate("history.length") == steps  # Back leaves the page in one step
    healthy(tab)


@pytest.mark.parametrize(
    ("key", "says", "become"),
    [
        ("a", "Keep this, retire “The user lives in Porto”", ("superseded", "active")),
        ("o", "Keep the other", ("active", "superseded")),
        ("b", "Keep both", ("active", "active")),
    ],
)
def test_e_a_contradiction_is_settled_with_one_key_as_foreseen(served, branch, visitor, key, says, become):
    before = total(branch)
    tab = visitor.open(f"{served.url}/facts?session={branch.session_id}")
    expect(tab.get_by_text("1 to review.", exact=False)).to_be_visible()
    idle(tab)
    tab.get_by_text("Review 1").click()
    expect(tab.get_by_role("button", name=says)).to_be_visible()
    idle(tab)
    place = "aob".index(key)
    row = tab.locator('[data-testid="stLayoutWrapper"]').filter(has=tab.locator(f".st-key-facts__choice_{place}")).last
    said = foreseen(row.inner_text())
    tab.keyboard.press(f"Alt+{key}")
    expect(tab.get_by_text("Nothing to review.", exact=False)).to_be_visible()
    idle(tab)
    states = {fact.text: fact.state for fact in branch.facts.read("Facts", states=None)}
    assert (states["The user lives in Porto"], states["The user lives in Lisbon"]) == become
    assert total(branch) - before == said
    tab.locator('[class*="st-key-toast__undo"] button').click()
    expect(tab.get_by_text("1 to review.", exact=False)).to_be_visible()
    idle(tab)
    assert total(branch) == before
    healthy(tab)


def test_doubtful_finds_are_decided_by_keys_alone(served, visitor):
    session = f"doubts-{uuid4().hex[:8]}"  # a second attempt begins with nothing decided
    memory = Memory.from_defaults(
        session,
        title="Doubts",
        memory_blocks=[FactExtractionMemoryBlock(name="Facts")],
        database=behind(served).database,
        services=Services(),
    )
    for said in ("I got some possible leads.", "We've got some cool projects in the works.", "Fine."):
        memory.put_messages([ChatMessage(role="user", content=said), ChatMessage(role="assistant", content="Good.")])
    memory.flush()
    memory.deliver()
    first, second = memory.facts.desk("Facts").review().facts
    tab = visitor.open(f"{served.url}/facts?session={session}")
    expect(tab.get_by_text("2 to review.", exact=False)).to_be_visible()
    idle(tab)
    tab.get_by_text("Review 2").last.click()
    expect(tab.get_by_text("Does not say which", exact=False)).to_be_visible()
    idle(tab)
    tab.keyboard.press("Alt+a")
    expect(tab.get_by_role("status").filter(has_text="Accepted.")).to_be_visible()  # first: it does not stay
    expect(tab.get_by_text("1 active fact, ", exact=False)).to_contain_text("1 to review.")
    idle(tab)
    assert [(fact.id, fact.state) for fact in memory.facts.read("Facts", states=None)] == [
        (first.id, "active"),
        (second.id, "proposed"),
    ]
    tab.keyboard.press("Alt+e")
    field = tab.get_by_role("textbox", name="Words")
    expect(field).to_be_focused()
    tab.keyboard.type(" at Meta", delay=15)
    expect(field).to_have_value(f"{second.text} at Meta")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    expect(tab.get_by_text("2 active facts, ", exact=False)).to_contain_text("Nothing to review.")
    idle(tab)
    assert [fact.text for fact in memory.facts.read("Facts")] == [first.text, f"{second.text} at Meta"]
    healthy(tab)


def talk(data_file):
    """The first 100 messages of two people's talk over months."""
    conversation = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [each for number in range(1, 40) for each in conversation.get(f"session_{number}", [])][:100]
    roles = {conversation["speaker_a"]: "user", conversation["speaker_b"]: "assistant"}
    lines = [json.dumps({"role": roles[each["speaker"]], "content": each["text"]}) for each in said]
    return "talk.jsonl", "\n".join(lines).encode()


def tool_calls(data_file):
    return "airline.json", data_file("tau-bench/one_conversation.json").read_bytes()


@pytest.mark.parametrize("file", [tool_calls, talk])
def test_h_an_import_that_is_opened_as_already_played_makes_the_flushes_it_foretold(
    served, demo, visitor, file, data_file
):
    known = {status.session_id for status in list_sessions(demo.session.database)}
    tab = visitor.open(f"{served.url}/sessions")
    expect(tab.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    idle(tab)
    tab.locator(".st-key-sessions__import button").click()
    dialog = tab.get_by_role("dialog")
    name, data = file(data_file)
    dialog.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/plain", "buffer": data})
    played = dialog.get_by_role("button", name="Play it all now")
    expect(played).to_be_visible()
    idle(tab)
    words = dialog.inner_text()
    messages, turns = (int(re.search(rf"(\d+) {what}", words)[1]) for what in ("messages", "turns"))
    flushes = int(re.search(r"Playing it makes (\d+) flush", words)[1])
    played.click()
    expect(dialog).to_have_count(0, timeout=120_000)
    expect(tab.get_by_role("heading", name="Chat", level=1)).to_be_visible()
    idle(tab)
    (made,) = {status.session_id for status in list_sessions(demo.session.database)} - known
    assert f"session={made}" in tab.url
    memory = Memory.open(made, demo.session.database, services=demo.session.services)
    status = memory.session.status()
    assert (len(memory.session.messages()), status.turns, status.flushes) == (messages, turns, flushes)
    assert not memory.session.recording().next_turn
    healthy(tab)


def test_j_a_session_is_exported_and_opened_again_with_what_was_foretold(served, branch, visitor, tmp_path):
    tab = visitor.open(f"{served.url}/sessions?session={branch.session_id}")
    expect(tab.get_by_role("heading", name="Sessions", level=1)).to_be_visible()
    idle(tab)
    tab.locator(".st-key-sessions__export button").click()
    dialog = tab.get_by_role("dialog")
    with tab.expect_download() as coming:
        dialog.get_by_role("button", name="Whole session").click()
    file = tmp_path / "mine.zip"
    coming.value.save_as(file)
    tab.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    idle(tab)
    known = {status.session_id for status in list_sessions(branch.session.database)}
    tab.locator(".st-key-sessions__import button").click()
    dialog.locator("input[type=file]").set_input_files(file)
    said = dialog.get_by_text(re.compile(r"\d+ turns, \d+ messages, about"))
    expect(said).to_be_visible()
    idle(tab)
    words = said.inner_text()
    dialog.get_by_role("button", name="Import", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(tab.get_by_role("heading", name="Chat", level=1)).to_be_visible()
    idle(tab)
    (made,) = {status.session_id for status in list_sessions(branch.session.database)} - known
    found = next(each for each in overview(branch.session.database) if each.status.session_id == made)
    assert words.startswith(
        f"{found.status.turns} turns, {found.messages} messages, about {found.tokens:,} tokens, {found.facts} facts, "
    )
    again = Memory.open(made, branch.session.database, services=branch.session.services)
    assert export_messages(again) == export_messages(branch)
    assert total(again) == total(branch)
    healthy(tab)
