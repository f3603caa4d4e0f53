"""The dialog Save as page: which turns, what is replaced by what, and when there is a file."""

import pytest
from pages_driver import button, dialog, joined, opened

from memory_core.tracing.replacements import Replacements
from memory_inspector.wording.formatting import plain
from ui.parts.saved_page import SESSION, TRACE, TURNS, replacements_of
from ui.tab import services

PHRASE = "allergic to nuts"


def drawn(*args):
    return dialog("ui.parts.saved_page", "page_dialog", "demo", *args)


def downloads(app):
    return [each.proto.label for each in app.get("download_button")]


def choices(app):
    """What can be saved, and what is chosen."""
    (what,) = app.segmented_control
    return list(what.options), what.value


def test_a_trace_is_saved_with_its_turn_unless_more_is_asked_for(demo_home):
    app = drawn(PHRASE, 11)
    assert choices(app) == ([TRACE, TURNS, SESSION], TRACE)
    assert "1 turn" in joined(app)
    app.segmented_control[0].set_value(TURNS).run()
    assert "6 turns" in joined(app)
    app.segmented_control[0].set_value(SESSION).run()
    assert "11 turns" in joined(app)
    assert downloads(app) == []
    button(app, "Make page").click().run()
    assert downloads(app) == ["Download page"]
    assert "11 turns" in joined(app)


def test_without_a_trace_the_whole_session_comes_first(demo_home):
    assert choices(drawn()) == ([TURNS, SESSION], SESSION)


def test_an_earlier_moment_offers_no_later_turn(demo_home):
    memory = services.engine().open("demo")
    app = drawn(None, 4, memory.log.history().position_at(4))
    assert "4 turns" in joined(app)


def test_words_that_are_typed_are_shown_with_how_often_they_stand_on_the_page(demo_home):
    app = drawn(PHRASE, 11)
    app.text_area[0].set_value("Ana = Eva\npolar = brown")
    button(app, "Make page").click().run()
    texts = services.engine().open("demo").trace.page(PHRASE, turns=[11]).contents["texts"]
    times = Replacements({"Ana": "Eva"}).count(texts)["Ana"]
    assert times > 1
    assert f"- “Ana” by “Eva”: {times} times\n- “polar” by “brown”: not on this page" in joined(app)
    assert downloads(app) == ["Download page"]
    assert not app.text_area
    button(app, "Back").click().run()
    assert app.text_area[0].value == "Ana = Eva\npolar = brown"
    assert choices(app)[1] == TRACE
    assert downloads(app) == []


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("Ana = Eva\nANA = Bea", "“Ana” and “ANA” are the same word. Keep one of them."),
        ("Ana", "Enter a replacement for “Ana”."),
        ("Ana = Eva\nAna = Bea", "“Ana” is in two lines. Keep one of them."),
        ("Ana = Ana Lopes", "“Ana” could still be read. Choose other replacements."),
    ],
)
def test_what_cannot_be_replaced_is_said_in_one_sentence_and_there_is_no_file(demo_home, lines, says):
    app = drawn(PHRASE, 11)
    app.text_area[0].set_value(lines)
    button(app, "Make page").click().run()
    assert [error.value for error in app.error] == [plain(says)]
    assert downloads(app) == []


@pytest.mark.slow
def test_the_page_where_did_it_go_and_sessions_lead_to_it(demo_home):
    app = opened(page="trace", session="demo", words=PHRASE)
    button(app, "Save as page").click().run()
    assert button(app, "Make page")
    assert not app.exception
    app = opened(page="sessions", session="demo")
    button(app, "Save as page").click().run()
    assert button(app, "Make page")
    assert "11 turns" in joined(app)


def test_a_session_that_is_gone_is_told_of_in_one_sentence(demo_home):
    app = dialog("ui.parts.saved_page", "page_dialog", "nowhere")
    assert len(app.error) == 1
    assert downloads(app) == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (None, {}),
        ("\n = x\n", {}),
        (" Ana  Lopes = Eva \nRui=\nSam", {"Ana Lopes": "Eva", "Rui": "", "Sam": ""}),
        ("Ana = Eva\nAna = Eva", {"Ana": "Eva"}),
        ("a1b2== = key", {"a1b2==": "key"}),
    ],
)
def test_lines_with_a_word_are_replaced(lines, words):
    assert replacements_of(lines) == words
