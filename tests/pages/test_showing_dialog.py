"""The dialog Save as page: which turns, what is replaced by what, and when there is a file."""

import pytest
from pages_driver import button, dialog, joined, opened

from ui import services
from ui.showing import FOUND, REPLACE, SESSION, TIMES, TRACE, TURNS, kept, split, with_words

PHRASE = "allergic to nuts"


def drawn(*args):
    return dialog("ui.showing", "page_dialog", "demo", *args)


def downloads(app):
    return [each.proto.label for each in app.get("download_button")]


def choices(app):
    """What can be saved, and what is chosen."""
    (what,) = app.segmented_control
    return list(what.options), what.value


def grid(app):
    """The rows of what is replaced."""
    (table,) = app.dataframe
    return table.value


def test_a_trace_is_saved_with_its_turn_unless_more_is_asked_for(demo_home):
    app = drawn(PHRASE, 11)
    assert choices(app) == ([TRACE, TURNS, SESSION], TRACE)
    assert "1 turn" in joined(app)
    app.segmented_control[0].set_value(TURNS).run()
    assert "6 turns" in joined(app)
    app.segmented_control[0].set_value(SESSION).run()
    assert "11 turns" in joined(app)
    assert downloads(app) == ["Download page"]


def test_without_a_trace_the_whole_session_comes_first(demo_home):
    assert choices(drawn()) == ([TURNS, SESSION], SESSION)


def test_an_earlier_moment_offers_no_later_turn(demo_home):
    memory = services.engine().open("demo")
    app = drawn(None, 4, memory.log.history().position_at(4))
    assert "4 turns" in joined(app)


def test_what_is_replaced_by_what_is_shown_before(demo_home):
    app = drawn(PHRASE, 11)
    page = services.engine().open("demo").trace.page(PHRASE, turns=[11])
    rows = grid(app)
    assert dict(zip(rows[FOUND], rows["By"], strict=True)) == page.pseudonyms
    assert "Ana" in page.pseudonyms
    assert list(rows[TIMES]) == [each.times for each in page.originals]
    assert all(rows[REPLACE])
    assert f"{len(page.originals)} words replaced." in joined(app)


def test_who_replaces_nothing_is_shown_no_table(demo_home):
    app = drawn(PHRASE, 11)
    app.toggle(key="showing__replace").set_value(False).run()
    assert not app.dataframe
    assert downloads(app) == ["Download page"]


def test_other_words_can_be_replaced_too_and_what_cannot_be_is_said_in_one_sentence(demo_home):
    app = drawn(PHRASE, 11)
    app.text_input(key="showing__also").set_value("river, jazz").run()
    assert "“river” by Word1 · “jazz” by Word2" in joined(app)
    assert downloads(app) == ["Download page"]
    app.text_input(key="showing__also").set_value("ANA").run()
    assert [each.value.replace("\\", "") for each in app.error] == [
        "“Ana” and “ANA” are the same word. Keep one of them."
    ]
    assert downloads(app) == []


def test_the_page_where_did_it_go_and_sessions_lead_to_it(demo_home):
    app = opened(page="trace", session="demo", words=PHRASE)
    button(app, "Save as page").click().run()
    assert downloads(app) == ["Download page"]
    assert not app.exception
    app = opened(page="sessions", session="demo")
    button(app, "Save as page").click().run()
    assert downloads(app) == ["Download page"]
    assert "11 turns" in joined(app)


def test_a_session_that_is_gone_is_told_of_in_one_sentence(demo_home):
    app = dialog("ui.showing", "page_dialog", "nowhere")
    assert len(app.error) == 1
    assert downloads(app) == []


@pytest.mark.parametrize(
    ("rows", "pseudonyms"),
    [
        ([], {}),
        ([{"Replace": True, "Found": "Ana", "By": " Eva "}], {"Ana": "Eva"}),
        ([{"Replace": False, "Found": "Ana", "By": "Eva"}], {}),
        ([{"Replace": True, "Found": "Ana", "By": None}], {"Ana": ""}),
    ],
)
def test_only_rows_that_are_ticked_are_replaced(rows, pseudonyms):
    assert kept(rows) == pseudonyms


def test_words_are_typed_with_commas_and_never_get_a_pseudonym_that_is_taken():
    assert split(" a b,, c\na  b ") == ["a b", "c"]
    assert split(None) == []
    assert with_words({"Ana": "Word1"}, ["x", "Ana"], ["Word2 x"]) == {"Ana": "Word1", "x": "Word3"}
