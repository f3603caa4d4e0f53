"""Quarantine as a person does: from what is followed, over the preview, to the release with its Undo."""

import re
from uuid import uuid4

import pytest
from app_server import behind, healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage, Memory

pytestmark = pytest.mark.browser


def talked(served, scheme, word):
    shared = behind(served)
    memory = Memory.from_recipe(
        "blocks",
        f"keeps-{scheme}-{uuid4().hex[:6]}",
        database=shared.database,
        services=shared.services,
        title="Keeps out",
    )
    for text in (f"I live in {word}.", "I like jazz."):
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    memory.flush(all=True)
    memory.deliver()
    memory.build_context(f"Where is {word}?")
    return memory


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phrase_is_kept_out_of_prompts_as_foretold_and_released(served, chromium, scheme):
    word = f"Ostbrook{scheme}"
    memory = talked(served, scheme, word)
    before = memory.preview.next_prompt().context
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    faults = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.set_default_timeout(15_000)
    tab.goto(f"{served.url}/trace?session={memory.session_id}&words={word}")
    tab.get_by_role("button", name="Quarantine").click()
    dialog = tab.get_by_role("dialog")
    foretold = memory.preview.quarantine(memory.session.quarantine(word, preview=True)).context.plan.total
    expect(dialog.get_by_text(f"{before.plan.total} → {foretold} tokens")).to_be_visible()
    dialog.get_by_role("button", name=re.compile(r"Quarantine \d+ items")).click()
    expect(tab.get_by_role("link", name="1 set in quarantine").first).to_be_visible()
    idle(tab)
    assert memory.preview.next_prompt().context.plan.total == foretold
    expect(tab.get_by_text(f"Fact: The user lives in {word}")).to_be_visible()
    tab.get_by_role("button", name="Release", exact=True).click()
    expect(tab.get_by_role("status").filter(has_text="Released.")).to_be_visible()
    idle(tab)
    assert memory.preview.next_prompt().context.messages == before.messages
    tab.get_by_role("button", name="Undo").click()
    expect(tab.get_by_role("link", name="1 set in quarantine").first).to_be_visible()
    idle(tab)
    assert memory.preview.next_prompt().context.plan.total == foretold
    assert faults == []
    healthy(tab)
    context.close()
