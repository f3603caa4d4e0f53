"""Forget a phrase as a person does: from where it is followed, over the impact, to the receipt."""

import json
import re
import sqlite3
from uuid import uuid4

import pytest
from app_server import behind, healthy, idle
from playwright.sync_api import expect

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, delete_session, list_sessions
from memory_inspector.verification.receipts import read_receipt

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phrase_is_forgotten_from_the_impact_to_the_receipt(served, chromium, scheme):
    word = f"Quarnville{scheme}"
    shared = behind(served)
    memory = Memory.from_recipe(
        "blocks", f"forget-{scheme}", database=shared.database, services=shared.services, title="Forgets"
    )
    for text in (f"I live in {word}.", "I like jazz.", f"{word} is a quiet town."):
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    memory.flush(all=True)
    memory.deliver()
    memory.build_context(f"Where is {word}?")
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    faults = []
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.set_default_timeout(15_000)
    tab.goto(f"{served.url}/trace?session=forget-{scheme}&words={word}")
    tab.get_by_role("button", name="Forget").click()
    dialog = tab.get_by_role("dialog")
    expect(dialog.get_by_text("recorded prompt")).to_be_visible()
    dialog.get_by_role("button", name=re.compile(r"Forget \d+ items")).click()
    expect(dialog.get_by_text("A search of all files found nothing")).to_be_visible()
    with tab.expect_download() as download:
        dialog.get_by_role("button", name="Receipt").click()
    text = download.value.path().read_text(encoding="utf-8")
    assert word.lower() not in text.lower()
    assert read_receipt(text, "receipt.json").clean
    assert json.loads(text)["searched"]
    tab.keyboard.press("Escape")
    idle(tab)
    expect(tab.get_by_text("Never said in this session").first).to_be_visible()
    with sqlite3.connect(served.database_url.removeprefix("sqlite:///")) as connection:
        assert word not in "\n".join(connection.iterdump())
    assert faults == []
    healthy(tab)
    context.close()


def test_a_user_is_forgotten_with_all_their_sessions_from_the_list(served, visitor):
    user = f"marta-{uuid4().hex[:6]}"
    shared = behind(served)
    for number in (1, 2):
        memory = Memory.from_recipe(
            "blocks", f"{user}-{number}", user_id=user, database=shared.database, services=shared.services
        )
        memory.put(ChatMessage(role="user", content=f"My boat is called Zephyrine of {user} number {number}."))
        memory.put(ChatMessage(role="assistant", content="All right."))
    tab = visitor.open(f"{served.url}/sessions")
    idle(tab)
    tab.get_by_role("combobox", name="User").click()
    tab.get_by_role("option", name=user).click()
    idle(tab)
    tab.get_by_role("button", name="Forget this user").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Forget 2 sessions").click()
    expect(dialog.get_by_text("A search of all files found nothing")).to_be_visible()
    tab.keyboard.press("Escape")
    idle(tab)
    assert list_sessions(shared.database, user_id=user) == []
    with sqlite3.connect(served.database_url.removeprefix("sqlite:///")) as connection:
        assert "Zephyrine" not in "\n".join(connection.iterdump())
    healthy(tab)


def test_a_user_of_whom_only_facts_are_left_is_forgotten_from_the_list(served, visitor):
    user = f"rosa-{uuid4().hex[:6]}"
    shared = behind(served)
    memory = Memory.from_defaults(
        f"{user}-gone", user, database=shared.database, services=shared.services,
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", scope="user")],
    )  # fmt: skip
    memory.put(ChatMessage(role="user", content="I live in Bellquarry."))
    memory.flush(all=True)
    memory.deliver()
    delete_session(shared.database, memory.session_id)
    tab = visitor.open(f"{served.url}/sessions")
    idle(tab)
    tab.get_by_role("combobox", name="User").click()
    tab.get_by_role("option", name=f"{user} (only facts)").click()
    idle(tab)
    tab.get_by_role("button", name="Forget this user").click()
    dialog = tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Forget 1 fact").click()
    expect(dialog.get_by_text("A search of all files found nothing")).to_be_visible()
    tab.keyboard.press("Escape")
    idle(tab)
    with sqlite3.connect(served.database_url.removeprefix("sqlite:///")) as connection:
        assert "Bellquarry" not in "\n".join(connection.iterdump())
    healthy(tab)
