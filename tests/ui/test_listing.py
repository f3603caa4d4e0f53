"""Lists with a panel: a link that a page wrote asks for nothing, and a row is picked by its id."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ui.parts import listing
from ui.tab import state
from ui.tab.state import PageLink, address_number


@pytest.fixture
def tab(monkeypatch):
    tables = {}
    drawn = SimpleNamespace(
        session_state={}, query_params={}, tables=tables, dataframe=lambda rows, **options: tables.update(options)
    )
    monkeypatch.setattr(state, "st", drawn)
    monkeypatch.setattr(listing, "st", drawn)
    return drawn


def test_an_address_asks_once_for_what_somebody_else_changed_in_it(tab):
    link = PageLink("graph_link", "entity", "relation")
    assert link.take("here") == (None, None)
    tab.query_params |= {"entity": "Ana", "session": "family"}
    assert link.asked("here") == link.take("here") == ("Ana", None)
    assert link.take("here") == (None, None)
    assert link.take("elsewhere") == ("Ana", None), "another session has not shown it yet"


def test_what_a_page_wrote_asks_for_nothing_and_going_back_asks_for_what_stood_there(tab):
    link = PageLink("graph_link", "entity", "relation")
    link.put(5, None, place="here")
    before = dict(tab.query_params)
    link.put(5, 7, place="here")
    assert tab.query_params == {"entity": "5", "relation": "7"}
    assert link.take("here") == (None, None)
    tab.query_params = before
    assert link.take("here") == ("5", None), "the relation is closed again"
    link.put(None, None, place="here")
    assert not tab.query_params


@given(some.text(max_size=20))
def test_an_id_in_an_address_is_a_short_run_of_digits(words):
    number = address_number(words)
    assert number is None or (number >= 0 and len(words) < 16 and words.isdecimal())


def test_a_row_is_picked_by_its_id_and_a_click_on_a_longer_list_picks_none(tab):
    picked = []
    listing.pick_row([{}, {}], [30, 20], "list", picked.append, picked=20)
    options = dict(tab.tables)
    assert options["selection_default"] == {"selection": {"rows": [1]}}
    for rows in ([0], [1], [], [2]):
        tab.session_state[options["key"]] = {"selection": {"rows": rows}}
        options["on_select"]()
    assert picked == [30, 20, None, None]
    listing.pick_row([{}, {}], [20, 10], "list", picked.append, picked=30)
    assert tab.tables["key"] != options["key"], "other rows are another table"
    assert tab.tables["selection_default"] == {"selection": {"rows": []}}, "what is hidden stays picked, and unmarked"
