"""Going to anything: what the words find in a session, and where that leads. The keys, told in one place."""

import ast
from pathlib import Path

import pytest
from pages_driver import menu, opened, session_picker

from memory_core import ChatMessage, StaticMemoryBlock
from memory_core.planning import curation as wish
from memory_inspector.server.engine import new_memory
from ui.frame.goto import places
from ui.frame.keys import KEYS, SEARCH
from ui.tab import services


@pytest.fixture
def memory(home):
    made = new_memory(services.engine(), title="Dinner *party*")
    made.blocks.add(StaticMemoryBlock(name="House rules", static_content="No shoes", priority=3))
    made.facts.desk("Facts").apply(wish.add("Rui stays off meat"))
    for text in ("What can Rui eat?", "Fish.", "Book a table", "Done."):
        made.put(ChatMessage(role="user" if text[-1] in "?e" else "assistant", content=text))
    return made


def found(memory, words):
    return [(each.kind, each.words, each.page, each.turn) for each in places(memory, services.engine().database, words)]


def test_a_number_leads_to_that_turn_and_the_latest_to_no_turn(memory):
    assert [(kind, page, turn) for kind, _, page, turn in found(memory, "turn 1")] == [
        ("Turn", "chat", 1),
        ("Turn", "context", 1),
    ]
    assert [turn for *_, turn in found(memory, "2")] == [None, None]
    assert found(memory, "turn 99") == []


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("retr", ("Page", "Retrieval", "retrieval", None)),
        ("where", ("Page", "Where did it go?", "trace", None)),
        ("allergic to nuts", ("Trace", "Where did it go? “allergic to nuts”", "trace", None)),
        ("dinner", ("Session", "Dinner *party*", "chat", None)),
        ("house", ("Block", "House rules", "blocks", None)),
        ("off meat", ("Fact", "Rui stays off meat", "facts", None)),
        ("can rui", ("Message", "What can Rui eat?", "chat", 1)),
        ("table", ("Message", "Book a table", "chat", None)),
    ],
)
def test_words_lead_to_what_holds_them(memory, words, place):
    assert place in found(memory, words)


def test_a_fact_and_an_event_are_named_in_the_address(memory):
    every = places(memory, services.engine().database, "meat")
    fact = next(each for each in every if each.kind == "Fact")
    assert fact.query == {"fact": str(memory.facts.read("Facts")[0].id)}
    event = next(each for each in every if each.kind == "Event")
    app = opened(page="timeline", session=memory.session_id, **event.query)
    assert not app.exception
    assert "event" not in app.query_params
    assert app.session_state["timeline_opened"] == (memory.session_id, int(event.query["event"]))


def test_an_empty_field_offers_the_pages(memory):
    offered = [words for kind, words, *_ in found(memory, " ") if kind == "Page"]
    assert offered == [
        "Chat",
        "Context",
        "Timeline",
        "Blocks",
        "Facts",
        "Where did it go?",
        "Retrieval",
        "Lab",
        "Sessions",
    ]


@pytest.mark.slow
def test_an_address_of_another_session_opens_it_in_a_tab_that_showed_one(memory):
    other = new_memory(services.engine(), title="Other")
    app = opened(session=memory.session_id)
    app.query_params["session"] = other.session_id
    app.run()
    assert session_picker(app).value == other.session_id
    session_picker(app).select(memory.session_id).run()
    assert app.query_params["session"] == memory.session_id
    assert set(menu(app).values()) == {f"session={memory.session_id}"}


def shortcuts():
    root = Path(__file__).resolve().parents[2] / "ui"
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "shortcut" and isinstance(node.value, ast.Constant):
                yield node.value.value


@pytest.mark.slow
def test_every_key_that_does_something_is_told():
    told = {key for keys in KEYS.values() for shown, _ in keys for key in shown.split(", ")}
    assert set(shortcuts()) - told == set()


@pytest.mark.slow
def test_the_slash_finds_a_field_on_every_page_that_has_a_search(demo_home):
    for page, key in SEARCH.items():
        fields = [each.key for each in opened(page=page, session="demo").text_input if each.key]
        assert any(each.startswith(key) for each in fields), page
