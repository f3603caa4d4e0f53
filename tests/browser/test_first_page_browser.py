"""The first page of a new server stands still while it loads, for whoever comes first."""

import sys
from itertools import chain, pairwise

import pytest
from app_server import ROOT, AppServer, healthy, idle, running
from playwright.sync_api import expect

sys.path.insert(0, str(ROOT / "benchmarks"))
from first_page import PAGES, SETTLED_MS, SHIFTS, cumulative_shift

pytestmark = pytest.mark.browser

MAX_SHIFT = 0.1
"""What web-vitals calls good."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that nobody has visited before the first test that asks for it."""
    yield from running(AppServer("serve.py", tmp_path_factory.mktemp("first")))


def arrived(visitor, address):
    """A new tab there, once it is drawn."""
    visitor.context.add_init_script(SHIFTS)
    tab = visitor.open(address)
    expect(tab.locator('[data-testid="stMain"] h1')).to_be_visible()
    idle(tab)
    tab.evaluate("window.arrived = performance.now()")
    return tab


def stood_still(tab):
    """The same tab once nothing more is drawn; it has stood still since it was opened."""
    tab.wait_for_timeout(max(0, SETTLED_MS - tab.evaluate("performance.now() - window.arrived")))
    idle(tab)
    healthy(tab)
    shifts = tab.evaluate("window.shifts")
    assert cumulative_shift(shifts) <= MAX_SHIFT, f"{tab.url}: {shifts}"
    return tab


def loaded(visitor, address):
    """A new tab there, once nothing more is drawn; it stood still."""
    return stood_still(arrived(visitor, address))


def sidebar(tab):
    return tab.locator('[data-testid="stSidebar"]').bounding_box()


def test_a_sum_of_shifts_is_the_worst_of_their_windows():
    def at(*shifts):
        return [{"at": moment, "value": value} for moment, value in shifts]

    assert cumulative_shift([]) == 0
    assert cumulative_shift(at((0, 0.1), (900, 0.1), (1_950, 0.15))) == pytest.approx(0.2)
    assert cumulative_shift(at(*((900 * n, 0.1) for n in range(8)))) == pytest.approx(0.6)


def test_no_page_moves_while_it_loads_and_the_sidebar_is_as_wide_for_the_first_visitor_as_for_the_next(
    server, visitor_with
):
    tabs = (arrived(visitor_with(), f"{server.url}/{page}") for page in ("", *PAGES))
    for tab, _ in pairwise(chain(tabs, [None])):  # the next one loads while this one settles
        assert sidebar(stood_still(tab)) == {"x": 0, "y": 0, "width": 232, "height": 800}, tab.url
        tab.close()


def test_a_deep_link_as_the_first_request_stands_still_too(visitor_with, tmp_path):
    for fresh in running(AppServer("serve.py", tmp_path)):
        visitor = visitor_with()
        tab = loaded(visitor, f"{fresh.url}/facts")
        assert sidebar(tab)["width"] == 232
        tab.close()  # before the server goes: it asks on


@pytest.mark.quiet
def test_a_phone_has_the_page_to_itself(server, visitor_with):
    tab = loaded(visitor_with(viewport={"width": 390, "height": 800}), server.url)
    expect(tab.locator('[data-testid="stMain"]')).to_have_css("width", "390px")
    assert sidebar(tab)["x"] <= -232
    tab.get_by_test_id("stExpandSidebarButton").click()
    expect(tab.get_by_test_id("stSidebar").get_by_text("Facts")).to_be_in_viewport()


def test_a_sidebar_that_was_closed_leaves_no_room_behind(server, visitor_with):
    tab = loaded(visitor_with(), server.url)
    tab.get_by_test_id("stSidebar").hover()
    tab.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()
    expect(tab.get_by_test_id("stExpandSidebarButton")).to_be_visible()
    expect(tab.locator('[data-testid="stMain"]')).to_have_css("width", "1280px")
